"""Dtypes, folds and nodes that rows name together, taken from the tables that have them."""

from typing import Any, Final

from foldwise import dtypes
from foldwise.operators import CATALOG

from .row import Example, Row, Where


def of_kind(kinds: str, *sizes: int) -> tuple[str, ...]:
    """The dtypes of these kinds, of these sizes in bytes if any are given."""
    return tuple(d.name for d in dtypes.TABLE if d.kind in kinds and (not sizes or d.size in sizes))


FLOATS: Final = of_kind("f")
HALVES: Final = of_kind("f", 2)
INTEGERS: Final = of_kind("iu")
REDUCTIONS: Final = tuple(dict.fromkeys(s.fold for s in CATALOG.schemas if s.kind == "reduce"))
SUMS: Final = ("sum", "mean", "l1", "l2", "sumsquare", "logsum")
"""Folds that add up."""
EXTREMES: Final = ("max", "min")
LOGS: Final = ("logsum", "logsumexp")

# ---- rows that several runtimes have

LONG: Final = 1 << 16
"""Of so many terms one loses three digits, added one by one in float32."""
LONG_SUM: Final = Row(
    "long-sum",
    "",
    "differs",
    (
        Where(("reduce",), SUMS, dtypes=("float32",), marks=("outer axes",), length=LONG),
        Where(("scan",), ("sum",), dtypes=("float32",), length=LONG),
    ),
    "Terms along any axis but the last, and steps of a scan, are added one by one: the error grows with their number, "
    "and counting stops at 2^24.",
    "Cast to double before, and back after.",
    Example("reduce", "sum", 13, "float32", (LONG + 8, 2), (0.1,), (0,)),
    when="terms are small beside the sum",
    level="warning",
    repair="through",
    sources=("numpy#9393",),
)
RANGE: Final = Row(
    "range",
    "",
    "differs",
    (Where(("reduce", "scan"), ("prod", "l2"), dtypes=("float32", "float64")),),
    "Squares and partial products overflow or underflow on the way, though the result is in range: it comes out as "
    "infinity, or as 0.",
    "Cast float to double before, and back after.",
    Example("reduce", "l2", 13, "float32", (1, 2), (1e20, 1e20), (1,)),
    when="a square or a partial product leaves the dtype's range",
    level="note",
    repair="through",
)


def of(runtime: str, row: Row, **other: Any) -> Row:
    """A shared row as one runtime has it, with what is other there."""
    return row._replace(id=f"{runtime}-{row.id}", runtime=runtime, **other)


def without(folds: tuple[str, ...], *gone: str) -> tuple[str, ...]:
    """The other ones."""
    return tuple(fold for fold in folds if fold not in gone)
