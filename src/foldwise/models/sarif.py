"""An audit as a SARIF 2.1.0 log: the table's rows are the rules, and each fault is a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from foldwise.engine import __version__
from foldwise.runtimes import ROWS, RUNTIMES

if TYPE_CHECKING:
    from .audit import Audit, Fault

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def log(found: Audit, uri: str) -> dict[str, Any]:
    """The log, with all rows that the audit looked for."""
    rows = [row for row in ROWS if row.runtime in found.versions]
    places = {row.id: place for place, row in enumerate(rows)}
    rules = [
        {
            "id": row.id,
            "shortDescription": {"text": f"{RUNTIMES[row.runtime].title}: {row.effect}"},
            "fullDescription": {"text": row.what},
            "help": {"text": row.fix},
            "defaultConfiguration": {"level": row.level},
            "properties": {"runtime": row.runtime, "releases": row.releases, "sources": list(row.sources)},
        }
        for row in rows
    ]
    results = [
        {
            "ruleId": fault.row,
            "ruleIndex": places[fault.row],
            "level": fault.level,
            "message": {"text": str(fault).removeprefix(f"{fault.level}: ")},
            "locations": [_location(uri, fault)],
        }
        for fault in found.findings
    ]
    driver = {"name": "foldwise audit", "version": __version__, "rules": rules}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _location(uri: str, fault: Fault) -> dict[str, Any]:
    place: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": quote(uri)}}}
    if fault.node:
        name = fault.node.split("'", 1)[-1].removesuffix("'")
        place["logicalLocations"] = [{"name": name, "fullyQualifiedName": fault.node}]
    return place
