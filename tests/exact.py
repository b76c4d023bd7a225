"""Exact values, and how results compare with them.

Integers are Python's. A finite float is an integer times a power of two; so are sums and products of such.
Arrays of them are a pair: integers (as objects) and exponents (int64).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from trees import Array, limits_of

Exact = tuple[Array, Array]
Scalar = tuple[int, int]


def exactly(values: Array) -> Exact:
    if values.dtype.kind in "biuO":
        return np.asarray(values.astype(object) + 0, object), np.zeros(values.shape, np.int64)
    fraction, exponent = np.frexp(values.astype(np.float64))
    integers = np.asarray(fraction * 2.0**53).astype(np.int64).astype(object)
    return np.asarray(integers, object), np.asarray(exponent.astype(np.int64) - 53)


def sums(values: Array, method: str) -> Exact:
    """The sum along axis 0 (method "reduce") or every prefix's (method "accumulate")."""
    integers, exponents = exactly(values)
    lowest = exponents.min(initial=0)
    total = getattr(np.add, method)(integers << (exponents - lowest).astype(object), axis=0)
    return np.asarray(total, object), np.full(np.shape(total), lowest)


def products(values: Array, method: str) -> Exact:
    integers, exponents = exactly(values)
    total = getattr(np.multiply, method)(integers, axis=0)
    return np.asarray(total, object), np.asarray(getattr(np.add, method)(exponents, axis=0))


def magnitudes(values: Array, method: str) -> Exact:
    return sums(absolute(values), method)


def absolute(values: Array) -> Array:
    return abs(values.astype(object)) if values.dtype.kind in "biu" else np.abs(values)


def squares(values: Array, method: str) -> Exact:
    integers, exponents = exactly(values)
    lowest = exponents.min(initial=0)
    total = getattr(np.add, method)((integers << (exponents - lowest).astype(object)) ** 2, axis=0)
    return np.asarray(total, object), np.full(np.shape(total), 2 * lowest)


MORE = 200  # bits below the last one: enough to stand for a quotient or a root


def means(values: Array, method: str) -> Exact:
    integers, exponents = sums(values, method)
    return np.asarray((integers << MORE) // len(values), object), exponents - MORE


def roots(values: Array, method: str) -> Exact:
    integers, exponents = squares(values, method)  # whose exponents are even
    found = np.asarray(np.frompyfunc(math.isqrt, 1, 1)(integers << 2 * MORE), object)
    return found, exponents // 2 - MORE


def largest(values: Array, method: str) -> Exact:
    return exactly(np.asarray(getattr(np.maximum, method)(comparable(values), axis=0)))


def smallest(values: Array, method: str) -> Exact:
    return exactly(np.asarray(getattr(np.minimum, method)(comparable(values), axis=0)))


def comparable(values: Array) -> Array:
    """As Python's integers, or as float64."""
    return values.astype(object) + 0 if values.dtype.kind in "biuO" else values.astype(np.float64)


def all_true(values: Array, method: str) -> Exact:
    return smallest(values != 0, method)


def any_true(values: Array, method: str) -> Exact:
    return largest(values != 0, method)


def same_bits(a: Any, b: Any) -> bool:
    """Down to the sign of a zero and the payload of a NaN."""
    a, b = np.asarray(a), np.asarray(b)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    return bool(a.tobytes() == b.tobytes())


# ---- integers


def wrapped(values: Array, dtype: np.dtype[Any]) -> Array:
    """Python integers modulo 2**n, in the dtype's range."""
    if dtype.kind == "b":
        return values.astype(bool)
    lowest = int(np.iinfo(dtype).min)
    return np.asarray((values - lowest) % 2 ** (8 * dtype.itemsize) + lowest).astype(dtype)


def clamped(values: Array, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(values, int(limits.min), int(limits.max))).astype(dtype)


def fits(values: Array, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return all(limits.min <= int(value) <= limits.max for value in values.flat)


# ---- floats


@dataclass(frozen=True)
class Bound:
    """How far a result may be from the exact value.

    Every rounding on the way adds a part u of the fold of the absolute values, k u / (1 - k u) for k of them;
    then comes one rounding into the output dtype, where the smallest subnormal is the finest step.
    """

    roundings: int
    accumulator: np.dtype[Any]
    out: np.dtype[Any]

    def holds(self, result: Any, value: Scalar, magnitude: Scalar) -> bool:
        limits = limits_of(self.out)
        if np.isnan(result):
            return False
        unbounded = np.isinf(result)
        result_value = as_if_unbounded(result > 0, value, limits.maxexp) if unbounded else scalar(result)
        finest = scalar(limits.smallest_subnormal)
        lowest = min(exponent for _, exponent in (result_value, value, magnitude, finest))
        y, v, m, f = (
            integer << (exponent - lowest) for integer, exponent in (result_value, value, magnitude, finest)
        )
        digits = 1 - limits_of(self.accumulator).machep  # u = 2**-digits
        rest = 2**digits - self.roundings
        last = 1 - limits.machep
        rounded_out = abs(v) * rest if self.out != self.accumulator else 0
        return bool((abs(y - v) - f) * rest << last <= (self.roundings * m << last) + rounded_out)


def scalar(value: Any) -> Scalar:
    fraction, exponent = math.frexp(float(value))
    return int(fraction * 2**53), exponent - 53


def as_if_unbounded(positive: bool, value: Scalar, maxexp: int) -> Scalar:
    """What stands for an infinite result: the exact value if that is out of range, else the range's end."""
    sign = 1 if positive else -1
    integer, exponent = value
    beyond = integer * sign > 0 and abs(integer).bit_length() + exponent > maxexp
    return value if beyond else (sign, maxexp)
