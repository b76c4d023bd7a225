"""Every fold as a value."""

from collections.abc import Callable
from typing import Final, NamedTuple

from . import dtypes
from .dtypes import Dtype, Reading

Number = int | float


def _zero(result: Dtype) -> Number:
    return 0


def _one(result: Dtype) -> Number:
    return 1


def _lowest(result: Dtype) -> Number:
    return dtypes.limits(result)[0]


def _highest(result: Dtype) -> Number:
    return dtypes.limits(result)[1]


class Fold(NamedTuple):
    """What is computed: where it starts, the rows of the native table that do it, and what is done at the end."""

    name: str
    """The reduction's public name."""
    start: Callable[[Dtype], Number]
    """The value that changes nothing: what an empty fold has before its ending."""
    result: Callable[[Dtype], Dtype]
    """The result's dtype for a source's, when nobody says."""
    kernel: str
    """The native fold; its integers wrap."""
    ending: str = "none"
    """What is done to the folded value at the very end: none, mean, root or log."""
    judged: str | None = None
    """The native fold that knows the exact integer, for overflow="saturate" and "raise"."""
    scan: str | None = None
    standard_scan: str | None = None
    """The scan's names: NumPy's, and the Array API's."""
    exact: str | None = None
    """The native fold that sums floats exactly, for accuracy="exact"."""
    reads: Reading = "bits"
    """What the native fold sees of its elements."""


SUM: Final = Fold(
    "sum",
    _zero,
    dtypes.accumulated,
    "sum",
    judged="judged_sum",
    exact="exact_sum",
    scan="cumsum",
    standard_scan="cumulative_sum",
)
PROD: Final = Fold(
    "prod",
    _one,
    dtypes.accumulated,
    "prod",
    judged="judged_prod",
    scan="cumprod",
    standard_scan="cumulative_prod",
)
FOLDS: Final = (
    SUM,
    PROD,
    Fold("mean", _zero, dtypes.real, "sum", "mean", exact="exact_sum"),
    Fold("max", _lowest, dtypes.same, "max", scan="cummax", reads="narrow"),
    Fold("min", _highest, dtypes.same, "min", scan="cummin", reads="narrow"),
    Fold("l1", _zero, dtypes.accumulated, "l1", exact="exact_l1", reads="signed"),
    Fold("l2", _zero, dtypes.real, "sumsquare", "root", exact="exact_sumsquare"),
    Fold("sumsquare", _zero, dtypes.accumulated, "sumsquare", exact="exact_sumsquare"),
    Fold("logsum", _zero, dtypes.real, "sum", "log"),
    Fold("logsumexp", _lowest, dtypes.real, "logsumexp", scan="logcumsumexp"),
    Fold("all", _one, dtypes.truth, "all", reads="truths"),
    Fold("any", _zero, dtypes.truth, "any", reads="truths"),
)
PLACES: Final = (
    Fold("argmax", _lowest, dtypes.index, "argmax", reads="signed"),
    Fold("argmin", _highest, dtypes.index, "argmin", reads="signed"),
)
"""Folds that say where: along one axis, or all of them in C order."""

BY_NAME: Final = {fold.name: fold for fold in (*FOLDS, *PLACES)}
SUMS: Final = {fold.kernel: fold for fold in FOLDS if fold.exact is not None and fold.ending == "none"}
"""What can be summed exactly, by the kernel of it and of folds that end otherwise."""
