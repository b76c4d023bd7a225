"""A model rewritten for what an audit found, and looked at again, until nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from foldwise.errors import ConversionError
from foldwise.runtimes import ROWS, RUNTIMES
from foldwise.runtimes.row import OLDER, Row

from .audit import Audit, Fault, Left, Level, Repaired, audit
from .auditing import Watch, walked
from .convert import convert
from .graph import Program
from .model import Model

PASSES: Final = 6
"""What takes a node's place may show a row itself; so many times it is looked again."""
Reasons = dict[tuple[str, str], str]
"""Why a row is not repaired, by the node's label and the row's id."""


def repaired(found: Audit, level: Level) -> Repaired:
    """The model without what was found, as far as that goes."""
    model, current = found.model, found
    reasons: Reasons = {}
    done: set[tuple[str, str]] = set()
    for _ in range(PASSES):
        made = _at_other_opset(model, current, reasons) or _rewritten(model, current, reasons, done)
        if made is None:
            break
        model = made
        current = audit(model, tuple(found.versions), found.versions).at_least(level)
    left = {fault.row for fault in current.findings}
    gone = tuple(fault for fault in found.findings if fault.row not in left or (fault.node, fault.row) in done)
    return Repaired(model, gone, tuple(Left(fault, _why(fault, reasons)) for fault in current.findings))


def _rewritten(model: Model, current: Audit, reasons: Reasons, done: set[tuple[str, str]]) -> Model | None:
    """With other nodes in the place of those that show a row; None where none is rewritten."""
    rows = [row for row in _rows(current) if not row.of_model]
    if not rows:
        return None
    watch = Watch(rows, frozenset(row.id for row in rows))
    made = walked(model.program, watch, model.limits)
    reasons |= watch.refused
    done.update((seen.node.label, seen.shown.row.id) for seen in watch.rewritten)
    return Model(made, model.limits) if watch.rewritten else None


def _at_other_opset(model: Model, current: Audit, reasons: Reasons) -> Model | None:
    """In the opset that a row asks for; None where there is no such row, or none can be had."""
    for row in _rows(current):
        if not row.of_model or ("", row.id) in reasons:
            continue
        opset, ir = _wanted(model.program, row, current.versions)
        try:
            made = convert(model, opset) if opset != model.program.opset() else model
        except ConversionError as error:
            reasons["", row.id] = "; ".join(f"{each.node}: {each.message}; {each.fix}" for each in error.findings)
            continue
        return Model(replace(made.program, version=min(made.program.version, ir)), model.limits)
    return None


def _wanted(program: Program, row: Row, versions: Mapping[str, str]) -> tuple[int, int]:
    """The opset that a row's repair asks for, and the newest file format."""
    if row.repair == OLDER:
        known = RUNTIMES[row.runtime].release(versions[row.runtime])
        return min(known.opset, program.opset()), known.ir
    return int(row.repair.split()[-1]), max(release.ir for release in RUNTIMES[row.runtime].releases)


def _rows(current: Audit) -> list[Row]:
    """The rows that were found, and can be repaired."""
    ids = {fault.row for fault in current.findings if fault.repair}
    return [row for row in ROWS if row.id in ids]


def _why(fault: Fault, reasons: Reasons) -> str:
    advice = f"nothing here rewrites it; {fault.fix[0].lower()}{fault.fix[1:]}"
    return reasons.get((fault.node, fault.row)) or reasons.get(("", fault.row)) or advice
