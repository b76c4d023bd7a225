"""Whole results that no kernel has: by Python's integers, or cut from floats."""

import math
from typing import Final, NoReturn

import numpy as np

from . import dtypes
from .arguments import NUMPY, Array, Overflow
from .dtypes import Dtype
from .errors import OverflowedError

Part = tuple[str, Array, tuple[int, ...], Array | None]
"""What an exact kernel adds to sums: its name, floats, over which axes, and which of them."""
_WORD: Final = (1 << 64) - 1


def truncated(name: str, result: Dtype, found: Array) -> Array:
    """Floats below 2^65 cut to integers modulo 2^n (R-11), and refused where there is none (R-18)."""
    cut: Array = np.asarray(np.trunc(found))
    if not np.isfinite(cut).all():
        raise OverflowedError(
            f"{name}: a result is not finite, which no {result.name} can hold; ask for a float result"
        )
    return np.asarray(cut - (cut >= 2.0**63) * 2.0**64).astype(np.int64).astype(NUMPY[result.code])


def refuse_overflow(name: str, result: Dtype) -> NoReturn:
    """What overflow="raise" asks for."""
    low, high = dtypes.limits(result)
    raise OverflowedError(
        f"{name}: an exact result lies outside {result.name} ({low}..{high}); ask for a wider dtype=, "
        f'or for overflow="saturate" or "wrap"'
    )


def judged(name: str, exact: Array, result: Dtype, overflow: Overflow) -> Array:
    """Python's integers in a dtype that may be too narrow for them."""
    low, high = dtypes.limits(result)
    fits = (exact >= low) & (exact <= high)
    if overflow == "raise" and not np.all(fits):
        refuse_overflow(name, result)
    if overflow == "saturate":
        exact = clipped(exact, low, high)
    return np.asarray(exact & _WORD, np.uint64).astype(NUMPY[result.code])


def clipped(exact: Array, low: float, high: float) -> Array:
    """Python's integers, none of them beyond limits."""
    floor, ceiling = (np.asarray(limit, object) for limit in (low, high))
    return np.asarray(np.minimum(np.maximum(exact, floor), ceiling), object)


def magnitudes(x: Array) -> Array:
    """Those of integers, the lowest one's included."""
    return np.abs(x).view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


def integers(wrapped: Array, about: Array) -> Array:
    """Python's integers: the last 64 bits of each are known, and, to far less than 2^63, what it comes to."""
    known, near = wrapped.astype(object), np.vectorize(int, otypes=[object])(about)
    return np.asarray(known + ((near - known + (1 << 63)) >> 64 << 64), object)


def integers_in_floats(wrapped: Array, about: Array | None) -> list[Part]:
    """The same as floats that come to them. Where nothing says what they are about, 64 bits hold them."""
    floats = [(wrapped >> 32) * 2.0**32, wrapped & 0xFFFFFFFF]
    if about is not None:
        floats.append(np.rint((about - wrapped) * 2.0**-64) * 2.0**64)
    return [("exact_sum", np.asarray(each, np.float64), (), None) for each in floats]


def doubles(number: float) -> list[float]:
    """Doubles that come to a number, of which an integer may need several."""
    found = [float(number)]
    while isinstance(number, int) and (number := number - int(found[-1])):
        found.append(float(number))
    return found


def summands(kernel: str, x: Array) -> list[tuple[str, Array]]:
    """Floats with the same exact sum, of integers also of squares: each with the kernel that adds it."""
    if x.dtype.kind not in "iu" or x.dtype.itemsize < 8:
        return [(kernel, x if x.dtype.kind not in "iub" else x.astype(np.float64))]
    high, low = (np.asarray(half, np.float64) for half in ((x >> 32) * 2.0**32, x & 0xFFFFFFFF))
    if kernel != "exact_sumsquare":
        return [("exact_sum", high), ("exact_sum", low)]
    # (high + low)^2: a product of 32 and 16 bits is exact.
    middle = [np.asarray(high * (x >> shift & 0xFFFF) * 2.0 ** (shift + 1)) for shift in (0, 16)]
    return [(kernel, high), (kernel, low), *(("exact_sum", product) for product in middle)]


def means(sums: Array, counts: Array, result: Dtype) -> Array:
    """Means as their sums' own dtype has them, in another one."""
    with np.errstate(all="ignore"):
        mean = np.asarray(sums.astype(np.float64) / counts).astype(sums.dtype).astype(NUMPY[result.code])
    mean[np.isnan(mean)] = np.nan  # the one NaN, whatever the division made of it
    return mean


def cut_means(exact: Array, count: Array, result: Dtype) -> Array:
    """The means of exact sums, cut toward zero."""

    def mean(total: int, n: int) -> int:
        return (abs(total) // n * (1 if total >= 0 else -1)) & _WORD

    found: Array = np.vectorize(mean, otypes=[np.uint64])(exact, count.astype(object))
    return found.astype(NUMPY[result.code])


def roots(x: Array, axes: tuple[int, ...], result: Dtype, where: Array | None) -> Array:
    """The rare root of a sum of squares beyond 128 bits, by Python's integers."""
    chosen = x if where is None else np.where(where, x, 0)
    squares = np.sum(chosen.astype(object) ** 2, axis=axes, keepdims=True)
    return cut_roots(squares, result)


def cut_roots(squares: Array, result: Dtype) -> Array:
    """The roots of integers, cut to integers."""
    found: Array = np.vectorize(lambda square: math.isqrt(square) & _WORD, otypes=[np.uint64])(squares)
    return found.astype(NUMPY[result.code])
