"""Domains: values worth folding, per kind of dtype; made by exact steps, and so the same on every machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from trees import Array, limits_of

Generator = np.random.Generator
Domain = Callable[[Generator, np.dtype[Any], int], Array]


def any_bits(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return np.array(np.frombuffer(rng.bytes(count * dtype.itemsize), dtype))


def odd_bits(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Products of these do not soon become zero modulo 2**n."""
    return np.asarray(any_bits(rng, dtype, count) | dtype.type(1))


def small(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return rng.integers(-3 if dtype.kind == "i" else 0, 3, count, endpoint=True).astype(dtype)


def truths(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return rng.integers(0, 2, count).astype(dtype)


def bell_shaped(rng: Generator, count: int) -> Array:
    """Nearly normal numbers: sums of four, each a multiple of 2**-51 between -1 and 1."""
    return np.asarray(rng.integers(-(2**51), 2**51, (4, count)).sum(axis=0) * 2.0**-51)


def over_binades(rng: Generator, low: int, high: int, count: int) -> Array:
    """Numbers from 2**low to 2**high, as many in each binade."""
    return np.asarray(np.ldexp(1 + rng.random(count), rng.integers(low, high, count)))


def normal(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return bell_shaped(rng, count).astype(dtype)


def wide(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    binades = 6 if dtype == np.float16 else 20
    return (bell_shaped(rng, count) * over_binades(rng, -binades, binades, count)).astype(dtype)


def subnormal(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    digits = limits_of(dtype).nmant
    smallest = float(limits_of(dtype).smallest_subnormal)
    return (rng.integers(-(2**digits), 2**digits, count) * smallest).astype(dtype)


def near_one(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return (rng.choice([-1, 1], count) * (1 + bell_shaped(rng, count) / 16)).astype(dtype)


def there_and_back(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Exponents over the whole range, the second half undoing the first: partial products leave the range."""
    limits = limits_of(dtype)
    low, high = limits.minexp - limits.nmant, limits.maxexp - 1
    exponents, numbers = rng.integers(low + 1, high, count // 2), 1 + rng.random(count // 2)
    back = np.ldexp(1 / numbers, np.clip(-exponents, low + 1, high))
    return np.concatenate([np.ldexp(numbers, exponents), np.ones(count % 2), back[::-1]]).astype(dtype)


def special(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Signed ones, few enough for exact results, and rarely a zero, an infinity or a NaN of either sign."""
    values = rng.choice([-1.0, 1.0], count)
    rare = rng.random(count) < 0.05
    odd_ones = np.array([0.0, -0.0, np.inf, np.inf, -np.inf, np.nan, np.copysign(np.nan, -1)])
    return np.where(rare, rng.choice(odd_ones, count), values).astype(dtype)


def negative_zeros(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return np.where(rng.random(count) < 0.01, 0.0, -0.0).astype(dtype)


def rarely_false(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return (rng.random(count) < 0.98).astype(dtype)


def rarely_true(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return (rng.random(count) < 0.02).astype(dtype)


def rarely_nan(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Zeros of both signs, and what is true although it is next to nothing, or no number."""
    odd_ones = np.array([float(limits_of(dtype).smallest_subnormal), -np.inf, np.nan])
    return np.where(rng.random(count) < 0.02, rng.choice(odd_ones, count), rng.choice([0.0, -0.0], count)).astype(dtype)


def whole_range(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Exponents over the whole range: most squares are out of it."""
    limits = limits_of(dtype)
    sizes = over_binades(rng, limits.minexp - limits.nmant, limits.maxexp - 1, count)
    return np.asarray(rng.choice([-1, 1], count) * sizes).astype(dtype)


def tiny(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Squares just below the smallest normal number, and far below it."""
    limits = limits_of(dtype)
    root = limits.minexp // 2
    return np.asarray(bell_shaped(rng, count) * over_binades(rng, root - 30, root + 2, count)).astype(dtype)


Domains = dict[str, tuple[Domain, ...]]

ADDENDS: Domains = {
    "b": (truths,),
    "i": (any_bits, small),
    "f": (normal, wide, subnormal, special, negative_zeros),
}
FACTORS: Domains = {
    "b": (truths,),
    "i": (odd_bits, small),
    "f": (near_one, there_and_back, special, negative_zeros),
}
CHOSEN: Domains = {"b": (truths,), "i": (any_bits,), "f": (normal, special, negative_zeros)}
SQUARED: Domains = {
    "b": (truths,),
    "i": (any_bits, small),
    "f": (wide, whole_range, tiny, special),
}
TRUTHS: Domains = {
    "b": (rarely_false, rarely_true),
    "i": (rarely_false, rarely_true),
    "f": (rarely_false, rarely_nan),
}
POWERS: Domains = {"b": (truths,), "i": (small, any_bits), "f": (normal, wide, special)}
BEYOND_ARITHMETIC = (special, negative_zeros)  # NumPy's own float64 is their reference
