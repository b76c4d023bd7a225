"""What a NumPy user calls: reductions and scans over arrays.

The decorated functions say what a call means; the core binds the same arguments without running their bodies.
"""

from typing import Any, Final

from .engine import Overflow, as_array, direct_reduction, direct_scan, entrance, reduce, scan
from .errors import AxisError

_SUM: Final = entrance("sum")
_PROD: Final = entrance("prod")
_CUMSUM: Final = entrance("cumsum")
_CUMPROD: Final = entrance("cumprod")
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
) -> Any:
    """The sum of the elements over some axes (None: all of them, (): none).

    Integers are exact: bool and narrow ones sum into int64 or uint64, and `overflow` says what happens to a sum
    that the result's dtype cannot hold. Floats keep their dtype; float16 and bfloat16 are summed in float32 and
    rounded once. The error grows with the logarithm of the count on every axis, and the bits depend neither on
    threads nor on the machine.

    `initial` is added to the total, `where` chooses the elements, `out` receives the result.
    """
    return reduce(_SUM, x, axis, dtype, out, keepdims, initial, where, overflow)


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
    return reduce(_PROD, x, axis, dtype, out, keepdims, initial, where, overflow)


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
) -> Any:
    """The running sum along an axis (None: over all elements in C order, into one dimension).

    `exclusive` leaves each element out of its own sum, so the first result is 0; `reverse` runs from the end;
    `include_initial` puts the 0 before the first element, one position more. The error does not grow along the
    axis, and a running sum of non-negative numbers never falls. Dtypes and `overflow` are as for `sum`, each
    prefix judged by itself.
    """
    return scan(_CUMSUM, x, axis, dtype, out, exclusive, reverse, include_initial, overflow)


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
    return scan(_CUMPROD, x, axis, dtype, out, exclusive, reverse, include_initial, overflow)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The Array API's running sum: `axis` may be left out for one dimension only."""
    at = _standard_axis("cumulative_sum", x, axis)
    return scan(_CUMULATIVE_SUM, x, at, dtype, None, False, False, include_initial, "wrap")


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The Array API's running product: `axis` may be left out for one dimension only."""
    at = _standard_axis("cumulative_prod", x, axis)
    return scan(_CUMULATIVE_PROD, x, at, dtype, None, False, False, include_initial, "wrap")


def _standard_axis(name: str, x: Any, axis: int | None) -> int | None:
    if axis is not None:
        return axis
    rank = as_array(name, x).ndim
    if rank == 1:
        return 0
    accepted = f"accepted: {-rank}..{rank - 1}; only rank 1 has a default" if rank else "a 0-d array has no axis"
    raise AxisError(f"{name}: axis must be given for rank {rank} ({accepted})")
