"""What each case of the table must give, by the canonical trees, by NumPy's integers, or by Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import exact
import numpy as np
import trees
from cases import Case, Fold
from trees import Array


def expected(case: Case) -> Array | None:
    options = {name: value for name, value in case.arguments.items() if name not in ("axis", "dtype")}
    return reference(case.fold, case.x, case.axis, case.out, **options)


def reference(
    fold: Fold,
    x: Array,
    axis: Any,
    out: np.dtype[Any],
    keepdims: bool = False,
    overflow: str = "wrap",
    **options: Any,
) -> Array | None:
    """The one right answer, bit for bit (but see `alike`); None where the call must be refused."""
    ends = fold.floating if out == np.float64 else None if trees.is_float(out) else fold.whole
    result: Array | None
    if ends and not trees.is_float(x.dtype):
        result = ended_exactly(fold, x, axis, out, ends, **options)
    elif not trees.is_float(out):
        result = integers(fold, x, axis, overflow != "wrap", **options)
        if overflow == "raise" and not exact.fits(result, out):
            return None
        result = exact.clamped(result, out) if overflow == "saturate" else result.astype(out)
    elif fold.scan:
        result = trees.scanned(fold.tree, x, axis, out, **options)
    else:
        result = trees.reduced(fold.tree, x, axis, out, **options)
    return np.expand_dims(result, axis) if keepdims and result is not None else result


def integers(
    fold: Fold,
    x: Array,
    axis: Any,
    judged: bool,
    initial: int | None = None,
    where: Any = True,
    **options: bool,
) -> Array:
    """Python's integers where the exact value is judged, NumPy's 64 bits where it wraps."""
    result = fold.result_of(x)
    identity = fold.identity(result)
    wide = np.dtype(object) if judged else result
    with np.errstate(over="ignore"):
        values = np.asarray(fold.before(x.astype(wide)))
    if fold.scan:
        return trees.arranged(
            lambda line: fold.ufunc.accumulate(line, 0, wide), identity, values, axis, **options
        )
    values = np.where(where, values, identity).astype(wide)
    return np.asarray(fold.ufunc.reduce(values, axis, wide, initial=identity if initial is None else initial))


def ended_exactly(
    fold: Fold, x: Array, axis: Any, out: np.dtype[Any], ends: Callable[[int, int], Any], where: Any = True
) -> Array | None:
    """The exact end of an exact fold of integers, taken modulo 2**n; None where there is none."""
    values = np.asarray(fold.before(x.astype(object)), object)
    total = np.add.reduce(np.where(where, values, 0), axis, object, initial=0)
    count = np.sum(np.broadcast_to(where, x.shape), axis, dtype=object)
    try:
        ended = np.asarray(np.frompyfunc(ends, 2, 1)(total, count), object)
    except ZeroDivisionError:
        return None
    return ended.astype(out) if trees.is_float(out) else exact.wrapped(ended, out)


def alike(fold: Fold, found: Any, wanted: Any, count: int, source: np.dtype[Any]) -> bool:
    """Whether a fold of so many elements is right: its bits, or where the tree does not know them, its value.

    In units u of the accumulator: what the tree's slack says, and 4 |wanted| for the logarithm, for adding it to the
    largest element, and for that element (at most |wanted| + log n; the slack has the rest). Then one rounding into
    the dtype of the result.
    """
    if fold.tree.slack is None:
        return exact.same_bits(found, wanted)
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    accumulator = trees.reduced_in(source, found.dtype)
    unit = float(trees.limits_of(accumulator).eps) / 2
    limits = trees.limits_of(found.dtype)
    y, v = found.astype(np.longdouble), wanted.astype(np.longdouble)
    slack = fold.tree.slack(count, fold.roundings(count, accumulator))
    with np.errstate(invalid="ignore"):
        allowed = unit * (4 * abs(v) + slack) + float(limits.eps) * abs(v) + float(limits.smallest_subnormal)
        near = (abs(y - v) <= allowed) | (y == v) | (np.isnan(y) & np.isnan(v))
    return bool((near & (np.isfinite(y) == np.isfinite(v))).all())
