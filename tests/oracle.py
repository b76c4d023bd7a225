"""What an operator must give, by exact arithmetic: Python's integers, fractions, and decimals of fifty digits.

Floats may differ from the exact value by one rounding into their dtype, and by what the accumulator's roundings
add up to: one for each element and a few more, each relative to the sum of absolute values that meets them.
"""

from __future__ import annotations

import decimal
import functools
import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from cases import FLOATS, dtype_of
from trees import Array, limits_of

Number = int | Fraction
decimal.getcontext().prec = 50
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (7,), (2, 3), (3, 1, 4), (0,), (3, 0), (0, 2, 3))

# ---- the folds, over exact values


def _decimal(value: Number) -> decimal.Decimal:
    return decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)


def absolute(values: Sequence[Number]) -> list[Fraction]:
    return [abs(Fraction(value)) for value in values]


def _root(values: Sequence[Number]) -> Number:
    return Fraction(_decimal(squares(values)).sqrt())


def _log(value: Number) -> Number:
    """Of an exact power of e the fiftieth digit is not to be trusted, so thirty are kept."""
    return round(Fraction(_decimal(value).ln()), 30)


def squares(values: Sequence[Number]) -> Number:
    return sum((v * v for v in values), 0)


def _log_sum_exp(values: Sequence[Number]) -> Number:
    return _log(Fraction(sum((_decimal(v).exp() for v in values), decimal.Decimal(0))))


REDUCTIONS: dict[str, Callable[[Sequence[Number]], Number]] = {
    "sum": lambda values: sum(values, 0),
    "prod": math.prod,
    "mean": lambda values: Fraction(sum(values, 0)) / len(values),
    "max": max,
    "min": min,
    "l1": lambda values: sum(absolute(values), Fraction(0)),
    "l2": _root,
    "logsum": lambda values: _log(sum(values, 0)),
    "logsumexp": _log_sum_exp,
    "sumsquare": squares,
    "all": all,
    "any": any,
}

OF_NOTHING: dict[str, Callable[[np.dtype[Any]], Any]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "l1": lambda dtype: 0,
    "l2": lambda dtype: 0,
    "sumsquare": lambda dtype: 0,
    "max": lambda dtype: False if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind in "iu" else -math.inf,
    "min": lambda dtype: True if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else math.inf,
    "logsum": lambda dtype: None if dtype.kind in "iu" else -math.inf,
    "logsumexp": lambda dtype: None if dtype.kind in "iu" else -math.inf,
    "all": lambda dtype: True,
    "any": lambda dtype: False,
}
"""What nothing gives; the mean, on which the dialects differ, is left to the tests."""


def magnitude(fold: str, values: Sequence[Number]) -> Fraction:
    """What a relative rounding on the way is relative to, measured at the result."""
    total = sum(absolute(values), Fraction(0))
    if fold == "logsum":
        return 1 + abs(Fraction(_log(total)))  # the terms are positive: relative to the sum is absolute here
    if fold == "logsumexp":
        return 1 + max(absolute(values))
    if fold == "mean":
        return total / len(values)
    return total if fold in ("sum", "l1") else abs(Fraction(REDUCTIONS[fold](values)))


# ---- comparing


def wrapped(value: int, dtype: np.dtype[Any]) -> int:
    low, bits = int(np.iinfo(dtype).min), 8 * dtype.itemsize
    return int((value - low) % 2**bits) + low


def cut(fold: str, values: Sequence[int], dtype: np.dtype[Any]) -> int:
    """The integer that an integer fold gives: modulo 2^n, or cut toward zero (R-11, R-16, R-17, R-18)."""
    return wrapped(math.trunc(REDUCTIONS[fold](values)), dtype)


def close(fold: str, result: Any, values: Sequence[Number], dtype: np.dtype[Any]) -> bool:
    """Whether a float result lies where the module's docstring says."""
    if fold in ("max", "min"):
        return bool(Fraction(float(result)) == REDUCTIONS[fold](values))
    return near(result, REDUCTIONS[fold](values), magnitude(fold, values), len(values), dtype)


def near(result: Any, value: Number, at: Number, count: int, dtype: np.dtype[Any]) -> bool:
    if not np.isfinite(result):
        return False
    last = Fraction(2) ** (limits_of(dtype).machep - 1)
    way = Fraction(2) ** (-53 if dtype == np.float64 else -24)
    finest = Fraction(float(limits_of(dtype).smallest_subnormal))
    bound = last * abs(value) + (count + 8) * way * at + finest
    return bool(abs(Fraction(float(result)) - value) <= bound)


def exactly(array: Array) -> list[Any]:
    """Elements in C order: Python's booleans and integers, and floats as fractions."""
    flat = array.ravel().tolist() if array.dtype.kind in "biu" else array.astype(np.float64).ravel().tolist()
    return [Fraction(v) for v in flat] if array.dtype.name in FLOATS else flat


# ---- data


@functools.lru_cache(maxsize=4096)
def data(fold: str, name: str, shape: tuple[int, ...]) -> Array:
    """Values that the fold is defined for, over as much of the dtype's range as it bears."""
    rng = np.random.default_rng(zlib.crc32(f"{fold} {name} {shape}".encode()))
    dtype, count = dtype_of(name), math.prod(shape)
    if name == "bool":
        values = rng.integers(0, 2, count).astype(bool)
    elif name in FLOATS:
        values = (rng.standard_normal(count) * 2).astype(dtype)
        values = np.abs(values) if fold == "logsum" else values
    elif fold == "logsum":
        values = rng.integers(1, 18, count).astype(dtype)
    elif fold == "logsumexp":
        values = rng.integers(-9 if dtype.kind == "i" else 0, 99, count).astype(dtype)
    else:
        values = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype)
        if fold == "prod":
            values = values | dtype.type(1)  # or the product would soon be 0 modulo 2^n
    array = values.reshape(shape)
    array.flags.writeable = False
    return array


def subsets(rank: int) -> Iterator[tuple[int, ...]]:
    for count in range(rank + 1):
        yield from itertools.combinations(range(rank), count)


def groups(x: Array, axes: tuple[int, ...]) -> list[list[Any]]:
    """The exact values that meet in each element of the result, in C order of the kept axes."""
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose([*kept, *axes])
    count = math.prod(x.shape[a] for a in axes)
    values = exactly(rows)
    return [values[i * count : (i + 1) * count] for i in range(math.prod(x.shape[a] for a in kept))]


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes)
