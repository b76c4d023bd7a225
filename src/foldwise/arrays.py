"""What a NumPy user calls: reductions and scans over arrays.

The decorated functions say what a call means; the core binds the same arguments without running their bodies.
"""

from collections.abc import Iterable
from typing import Any, Final

from .arguments import Accuracy, Overflow, as_array
from .entrances import (
    TOGETHER,
    direct_many,
    direct_place,
    direct_reduction,
    direct_scan,
    entrance,
    many,
    place,
    reduce,
    scan,
)
from .errors import AxisError
from .scale import home

_SUM: Final = entrance("sum")
_PROD: Final = entrance("prod")
_MEAN: Final = entrance("mean")
_MAX: Final = entrance("max")
_MIN: Final = entrance("min")
_L1: Final = entrance("l1")
_L2: Final = entrance("l2")
_SUMSQUARE: Final = entrance("sumsquare")
_LOGSUM: Final = entrance("logsum")
_LOGSUMEXP: Final = entrance("logsumexp")
_ALL: Final = entrance("all")
_ANY: Final = entrance("any")
_ARGMAX: Final = entrance("argmax")
_ARGMIN: Final = entrance("argmin")
_CUMSUM: Final = entrance("cumsum")
_CUMPROD: Final = entrance("cumprod")
_CUMMAX: Final = entrance("cummax")
_CUMMIN: Final = entrance("cummin")
_LOGCUMSUMEXP: Final = entrance("logcumsumexp")
_CUMULATIVE_SUM: Final = entrance("cumulative_sum")
_CUMULATIVE_PROD: Final = entrance("cumulative_prod")


@direct_reduction
def sum(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    overflow: Overflow = "wrap",
    accuracy: Accuracy = "default",
) -> Any:
    """The sum of the elements over some axes (None: all of them, (): none).

    Integers are exact: bool and narrow ones sum into int64 or uint64, and `overflow` says what happens to a sum
    that the result's dtype cannot hold. Floats keep their dtype; float16 and bfloat16 are summed in float32 and
    rounded once. The error grows with the logarithm of the count on every axis, and the bits depend neither on
    threads nor on the machine.

    `initial` is added to the total, `where` chooses the elements, `out` receives the result.
    """
    return reduce(_SUM, x, axis, dtype, out, keepdims, initial, where, overflow, accuracy)


@direct_reduction
def prod(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    overflow: Overflow = "wrap",
) -> Any:
    """The product of the elements over some axes (None: all of them, (): none).

    Floats neither overflow nor underflow on the way: only the final product is fitted into its dtype. Everything
    else is as for `sum`.
    """
    return reduce(_PROD, x, axis, dtype, out, keepdims, initial, where, overflow, "default")


@direct_reduction
def mean(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    accuracy: Accuracy = "default",
) -> Any:
    """The arithmetic mean over some axes.

    Floats keep their dtype; float16 and bfloat16 are summed in float32, so that a sum beyond their range does not show.
    The mean of integers is their exact mean, rounded once to float64 (or cut toward zero, with an integer `dtype`).
    Of no elements it is NaN.
    """
    return reduce(_MEAN, x, axis, dtype, out, keepdims, None, where, "wrap", accuracy)


@direct_reduction
def max(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The largest element over some axes, in the dtype of `x`. A NaN is larger than anything.

    Of no elements it is the lowest value of the dtype: -inf for floats.
    """
    return reduce(_MAX, x, axis, None, out, keepdims, initial, where, "wrap", "default")


@direct_reduction
def min(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The smallest element over some axes, in the dtype of `x`. A NaN is smaller than anything.

    Of no elements it is the highest value of the dtype: inf for floats.
    """
    return reduce(_MIN, x, axis, None, out, keepdims, initial, where, "wrap", "default")


@direct_reduction
def l1(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    accuracy: Accuracy = "default",
) -> Any:
    """The sum of magnitudes over some axes. Dtypes are as for `sum`; integers wrap."""
    return reduce(_L1, x, axis, dtype, out, keepdims, None, where, "wrap", accuracy)


@direct_reduction
def l2(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    accuracy: Accuracy = "default",
) -> Any:
    """The square root of the sum of squares over some axes: the Euclidean norm.

    Squares neither overflow nor underflow on the way. Floats keep their dtype, integers give float64 (or the exact root
    cut to an integer, with an integer `dtype`).
    """
    return reduce(_L2, x, axis, dtype, out, keepdims, None, where, "wrap", accuracy)


@direct_reduction
def sumsquare(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
    *,
    accuracy: Accuracy = "default",
) -> Any:
    """The sum of squares over some axes. Dtypes are as for `sum`; integers wrap."""
    return reduce(_SUMSQUARE, x, axis, dtype, out, keepdims, None, where, "wrap", accuracy)


@direct_reduction
def logsum(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The natural logarithm of the sum over some axes: NaN where it is negative, -inf where it is 0."""
    return reduce(_LOGSUM, x, axis, dtype, out, keepdims, None, where, "wrap", "default")


@direct_reduction
def logsumexp(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The natural logarithm of the sum of exponentials over some axes, however large or small those are.

    In one pass: each element is weighed against the largest so far. An infinity among the elements is the result; of no
    elements it is -inf.
    """
    return reduce(_LOGSUMEXP, x, axis, dtype, out, keepdims, None, where, "wrap", "default")


@direct_reduction
def all(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """Whether all elements over some axes are true, that is not 0. A NaN is true."""
    return reduce(_ALL, x, axis, None, out, keepdims, None, where, "wrap", "default")


@direct_reduction
def any(
    x: Any,
    /,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """Whether any element over some axes is true, that is not 0. A NaN is true."""
    return reduce(_ANY, x, axis, None, out, keepdims, None, where, "wrap", "default")


@direct_place
def argmax(
    x: Any,
    /,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    select_last_index: bool = False,
) -> Any:
    """Where the largest element is: along an axis, or (None) among all in C order.

    Of equals the first, or the last with `select_last_index`; the first NaN (or the last) where there is one.
    """
    return place(_ARGMAX, x, axis, out, keepdims, select_last_index)


@direct_place
def argmin(
    x: Any,
    /,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    select_last_index: bool = False,
) -> Any:
    """Where the smallest element is: along an axis, or (None) among all in C order.

    Of equals the first, or the last with `select_last_index`; the first NaN (or the last) where there is one.
    """
    return place(_ARGMIN, x, axis, out, keepdims, select_last_index)


@direct_many
def reduce_many(
    x: Any,
    /,
    folds: Iterable[str],
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    where: Any = None,
) -> tuple[Any, ...]:
    """Several reductions by name, as in `reduce_many(x, ["mean", "min", "max"])`, from one pass over memory.

    Each result is what the function of that name gives, bit for bit, in the order of the names.
    """
    results: tuple[Any, ...] = many(TOGETHER, x, folds, axis, keepdims, where)
    return results


@direct_scan
def cumsum(
    x: Any,
    /,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    overflow: Overflow = "wrap",
    accuracy: Accuracy = "default",
) -> Any:
    """The running sum along an axis (None: over all elements in C order, into one dimension).

    `exclusive` leaves each element out of its own sum, so the first result is 0; `reverse` runs from the end;
    `include_initial` puts the 0 before the first element, one position more. The error does not grow along the
    axis, and a running sum of non-negative numbers never falls. Dtypes and `overflow` are as for `sum`, each
    prefix judged by itself.
    """
    return scan(_CUMSUM, x, axis, dtype, out, exclusive, reverse, include_initial, overflow, accuracy)


@direct_scan
def cumprod(
    x: Any,
    /,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    overflow: Overflow = "wrap",
) -> Any:
    """The running product along an axis (None: over all elements in C order, into one dimension).

    A prefix too large or too small for its dtype is infinite or zero by itself; the ones after it may recover.
    Options are as for `cumsum`, with 1 in place of 0.
    """
    return scan(_CUMPROD, x, axis, dtype, out, exclusive, reverse, include_initial, overflow, "default")


@direct_scan
def cummax(
    x: Any,
    /,
    axis: int | None = None,
    out: Any = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
) -> Any:
    """The running maximum along an axis. From a NaN on it is NaN. Options are as for `cumsum`."""
    return scan(_CUMMAX, x, axis, None, out, exclusive, reverse, include_initial, "wrap", "default")


@direct_scan
def cummin(
    x: Any,
    /,
    axis: int | None = None,
    out: Any = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
) -> Any:
    """The running minimum along an axis. From a NaN on it is NaN. Options are as for `cumsum`."""
    return scan(_CUMMIN, x, axis, None, out, exclusive, reverse, include_initial, "wrap", "default")


@direct_scan
def logcumsumexp(
    x: Any,
    /,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
) -> Any:
    """The running `logsumexp` along an axis. Options are as for `cumsum`, with -inf in place of 0."""
    return scan(_LOGCUMSUMEXP, x, axis, dtype, out, exclusive, reverse, include_initial, "wrap", "default")


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The Array API's running sum: `axis` may be left out for one dimension only."""
    array, at = _along("cumulative_sum", x, axis)
    return scan(_CUMULATIVE_SUM, array, at, dtype, None, False, False, include_initial, "wrap", "default")


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The Array API's running product: `axis` may be left out for one dimension only."""
    array, at = _along("cumulative_prod", x, axis)
    return scan(_CUMULATIVE_PROD, array, at, dtype, None, False, False, include_initial, "wrap", "default")


def _along(name: str, x: Any, axis: int | None) -> tuple[Any, int]:
    """x as what has axes, and the one to go along."""
    array = x if home(x) else as_array(name, x)
    rank = array.ndim
    if not rank:
        raise AxisError(f"{name}: x of rank 0 has no axis to go along; give one of rank 1 or more, as in [x]")
    if axis is None and rank > 1:
        raise AxisError(
            f"{name}: axis must be given for rank {rank} (accepted: {-rank}..{rank - 1}; only rank 1 has a default)"
        )
    return array, 0 if axis is None else axis
