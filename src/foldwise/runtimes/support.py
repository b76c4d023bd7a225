"""Which runtime runs which dtype of an operator's version, as far as the table knows. Data alone: nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from foldwise.operators import Schema

from . import ROWS, RUNTIMES
from .row import OLDER, REFUSALS, Runtime

Status = Literal["runs", "refused", "wrong"]


class Support(NamedTuple):
    """What one release of a runtime does with one dtype of an operator's version."""

    runtime: str
    title: str
    release: str
    dtype: str
    status: Status
    """refused: it never runs; wrong: it gives something else for any values; runs: but for what the note says."""
    note: str
    rows: tuple[str, ...]
    """The ids of the rows that say so."""


def support(schema: Schema, versions: Mapping[str, str] | None = None) -> tuple[Support, ...]:
    """A line for each runtime that reads models of the schema's dialect, and for each of its dtypes.

    `versions` names releases, as in {"onnxruntime": "1.26"}; otherwise the newest that the table knows.
    """
    asked = versions or {}
    return tuple(
        _line(schema, runtime, asked.get(runtime.name, runtime.newest), dtype)
        for runtime in RUNTIMES.values()
        if schema.dialect in runtime.dialects and runtime.runs_models
        for dtype in schema.dtypes
    )


def _line(schema: Schema, runtime: Runtime, release: str, dtype: str) -> Support:
    if schema.dialect == "onnx" and schema.version > runtime.release(release).opset:
        newest = next(row for row in ROWS if row.runtime == runtime.name and row.repair == OLDER)
        return Support(runtime.name, runtime.title, release, dtype, "refused", newest.what, (newest.id,))
    mine = [
        (row, where)
        for row in ROWS
        if row.runtime == runtime.name and row.affects(release)
        for where in row.where
        if where.names(schema) and dtype in where.dtypes_of(schema)
    ]
    always = [row for row, where in mine if where.plain and row.level == "error"]
    refusing = [row for row in always if row.effect in REFUSALS]
    status: Status = "refused" if refusing else "wrong" if always else "runs"
    telling = dict.fromkeys(refusing or [row for row, _ in mine])
    note = " ".join(row.fault for row in telling)
    return Support(runtime.name, runtime.title, release, dtype, status, note, tuple(row.id for row in telling))
