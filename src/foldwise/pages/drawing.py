"""Small drawings of what an operator does to a shape: cells that become one value share a colour."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from foldwise.operators import Schema

Array = NDArray[Any]

ROWS: Final = 3
COLUMNS: Final = 4
CELL: Final = 22
GAP: Final = 2
BETWEEN: Final = 34
"""Room for the arrow from what is given to what comes of it."""


def drawings(schema: Schema) -> str:
    """A drawing for each axis of a table, and for both where an operator takes both."""
    drawn = {"reduce": _reductions, "arg": _reductions, "scan": _scans}[schema.kind](schema)
    return f'<div class="drawings">{"".join(drawn)}</div>'


def _reductions(schema: Schema) -> Iterator[str]:
    one = schema.kind == "arg"
    for axes in ((0,), (1,)) if one else ((0,), (1,), (0, 1)):
        shape = tuple(1 if axis in axes else length for axis, length in enumerate((ROWS, COLUMNS)))
        groups = np.broadcast_to(np.arange(np.prod(shape)).reshape(shape), (ROWS, COLUMNS))
        named = f"axis = {axes[0]}" if one else f"axes = {list(axes)}"
        yield _figure(f"{named}: ({ROWS}, {COLUMNS}) → {shape}", groups, groups[: shape[0], : shape[1]])


def _scans(schema: Schema) -> Iterator[str]:
    for axis in (0, 1):
        lines = np.indices((ROWS, COLUMNS))[1 - axis]
        steps = np.indices((ROWS, COLUMNS))[axis]
        shape = (ROWS, COLUMNS)
        yield _figure(f"axis = {axis}: {shape} → {shape}", lines, lines, steps)


def _figure(caption: str, given: Array, made: Array, steps: Array | None = None) -> str:
    """Two grids with an arrow between them. The later the step of a scan, the fuller the colour of what it gives."""
    wide, high = COLUMNS * (CELL + GAP) - GAP, ROWS * (CELL + GAP) - GAP
    across = wide + BETWEEN + made.shape[1] * (CELL + GAP) - GAP
    top = (high - made.shape[0] * (CELL + GAP) + GAP) // 2
    tip, middle = wide + BETWEEN - 8, high / 2
    arrow = f"M{wide + 8} {middle}H{tip}m-6 -5l6 5l-6 5"
    cells = [*_cells(given, 0, 0), *_cells(made, wide + BETWEEN, top, steps)]
    return (
        f'<figure><svg viewBox="0 0 {across} {high}" width="{across}" height="{high}" role="img" '
        f'aria-label="{escape(caption)}">{"".join(cells)}<path class="arrow" d="{arrow}"/></svg>'
        f"<figcaption><code>{escape(caption)}</code></figcaption></figure>"
    )


def _cells(groups: Array, left: int, top: int, steps: Array | None = None) -> Iterator[str]:
    for (row, column), group in np.ndenumerate(groups):
        x, y = left + column * (CELL + GAP), top + row * (CELL + GAP)
        later = "" if steps is None else f' fill-opacity="{0.4 + 0.2 * steps[row, column]:.1f}"'
        yield f'<rect class="g{group}" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="3"{later}/>'
