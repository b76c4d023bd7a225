"""The table of runtimes' faults as a document shows it.

`python tests/audit_document.py --write` puts it into docs/audit.md.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from foldwise.operators import CATALOG
from foldwise.runtimes import ROWS, RUNTIMES, Row
from foldwise.runtimes.among import FLOATS, INTEGERS
from foldwise.runtimes.row import Where
from foldwise.runtimes.support import support

DOCUMENT = Path(__file__).parent.parent / "docs" / "audit.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"
PIPE = "\\|"
KINDS = {"reduce": "reductions", "arg": "positions", "scan": "scans"}


def document() -> str:
    """The document with the table as it is now."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def table() -> str:
    """How many cells run where, and every row by its runtime."""
    return "\n".join([*counts(), *(line for name in RUNTIMES for line in rows_of(name)), ""])


def counts() -> Iterator[str]:
    """How many operator versions run with how many dtypes."""
    yield "| runtime | release | models | runs | wrong | refused |"
    yield "|---|---|---|---|---|---|"
    found: Counter[tuple[str, str, str, str]] = Counter()
    for schema in CATALOG.schemas:
        for line in support(schema):
            found[line.title, line.release, CATALOG.dialects[schema.dialect].title, line.status] += 1
    for title, release, dialect in dict.fromkeys(key[:3] for key in found):
        cells = [str(found[title, release, dialect, status]) for status in ("runs", "wrong", "refused")]
        yield f"| {title} | {release} | {dialect} | {' | '.join(cells)} |"


def rows_of(name: str) -> Iterator[str]:
    """One runtime's rows."""
    runtime = RUNTIMES[name]
    yield f"\n### {runtime.title}\n"
    releases = (each.number + (" (as reported)" if each.reported else "") for each in runtime.releases)
    yield f"Held against {', '.join(releases)}.\n"
    yield "| row | concerns | happens | releases | what to do | repaired |"
    yield "|---|---|---|---|---|---|"
    yield from (line(row) for row in ROWS if row.runtime == name)


def line(row: Row) -> str:
    """One row."""
    concerns = "; ".join(map(concerned, row.where)) or "whole models"
    happens = f"*{row.effect}*{f', when {row.when}' if row.when else ''}. {row.what}"
    sources = f" ({', '.join(row.sources)})" if row.sources else ""
    repaired = "yes" + (f", since {row.repair_since}" if row.repair_since else "") if row.repair else ""
    cells = (f"`{row.id}`", concerns, happens + sources, row.releases, row.fix, repaired)
    return f"| {' | '.join(cell.replace('|', PIPE) for cell in cells)} |"


def concerned(where: Where) -> str:
    """Operators, versions, dtypes and forms, in words."""
    schemas = [schema for schema in CATALOG.schemas if where.names(schema)]
    every = {s.name for s in CATALOG.schemas if s.kind in (where.kinds or KINDS)}
    names = list(dict.fromkeys(schema.name for schema in schemas))
    who = " and ".join(KINDS[kind] for kind in where.kinds) if len(names) >= len(every) - 3 > 3 else ", ".join(names)
    version = "" if where.versions is None else f" {'-'.join(map(str, sorted(set(where.versions))))}"
    kinds = {FLOATS: "floats", INTEGERS: "integers", (*FLOATS, *INTEGERS): "numbers"}
    dtypes = f" of {kinds.get(where.dtypes, ', '.join(where.dtypes))}" if where.dtypes else ""
    more = [*where.marks, *([f"{where.length:,} or more terms"] if where.length else [])]
    return (who or "all operators") + version + dtypes + (f" ({', '.join(more)})" if more else "")


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCUMENT.write_text(document(), encoding="utf-8")
    else:
        print(table())
