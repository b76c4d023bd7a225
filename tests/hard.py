"""Rows of floats that are hard to add up: the exact sum lies at an edge, or on the way to it is everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cases
import exactly
import numpy as np
from domains import Generator
from trees import Array, limits_of

Dtype = np.dtype[Any]
Kind = Callable[[Generator, Dtype, int, int], Array]  # so many rows of such a length

# ---- floats by their bits


def last_field(dtype: Dtype) -> int:
    """The exponent field of the largest finite numbers; that of subnormal ones is 0."""
    return int(2 * limits_of(dtype).maxexp - 2)


def numbers(fields: Array, digits: Array, signs: Array, dtype: Dtype) -> Array:
    limits = limits_of(dtype)
    sign = signs.astype(np.uint64) << np.uint64(8 * dtype.itemsize - 1)
    magnitude = (fields.astype(np.uint64) << np.uint64(limits.nmant)) + digits.astype(np.uint64)
    return exactly.from_words(sign + magnitude, dtype)


def digits(rng: Generator, dtype: Dtype, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 1 << limits_of(dtype).nmant, shape)


def signs(rng: Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 2, shape)


def between(rng: Generator, dtype: Dtype, shape: tuple[int, ...], low: Any, high: Any) -> Array:
    """Any digits and signs, the exponent fields within bounds."""
    fields = rng.integers(low, high, shape, endpoint=True)
    return numbers(fields, digits(rng, dtype, shape), signs(rng, shape), dtype)


def least(dtype: Dtype) -> Array:
    return exactly.from_words(1, dtype)


def shuffled(rng: Generator, x: Array) -> Array:
    words = rng.permuted(exactly.words_of(x), axis=1)
    return words.view(x.dtype)


def pairs(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """Numbers and their negatives, of any size; an odd one out is a zero."""
    half = any_exponent(rng, dtype, rows, length // 2)
    return np.concatenate([half, -half, np.zeros((rows, length % 2), dtype)], axis=1)


def among_pairs(rng: Generator, few: Array, length: int) -> Array:
    """Those few numbers in each row, at any place, and pairs that cancel."""
    rows, count = few.shape
    others = pairs(rng, few.dtype, rows, max(length - count, 0))
    return shuffled(rng, np.concatenate([few[:, :length], others], axis=1))


def nudges(rng: Generator, dtype: Dtype, rows: int) -> Array:
    """Nothing, or the least there is to either side."""
    return np.asarray(rng.integers(-1, 2, (rows, 1)).astype(dtype) * least(dtype))


# ---- plain ones


def any_exponent(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """Between any two bounds, others in each row."""
    low, high = np.sort(rng.integers(0, last_field(dtype) + 1, (2, rows, 1)), axis=0)
    return between(rng, dtype, (rows, length), low, high)


def every_exponent(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    return between(rng, dtype, (rows, length), 0, last_field(dtype))


def forty_binades(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    low = rng.integers(0, max(last_field(dtype) - 39, 1), (rows, 1))
    return between(rng, dtype, (rows, length), low, np.minimum(low + 39, last_field(dtype)))


def uniform(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    return rng.random((rows, length)).astype(dtype)


def normal(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    return rng.standard_normal((rows, length)).astype(dtype)


def all_ones(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """The most that a place can be given: every digit is a one."""
    low = rng.integers(0, last_field(dtype) + 1, (rows, 1))
    fields = rng.integers(low, np.minimum(low + rng.choice([1, 3, 60], (rows, 1)), last_field(dtype) + 1))
    fields = np.where(rng.random((rows, length)) < 0.9, low, fields)
    most = np.full((rows, length), (1 << limits_of(dtype).nmant) - 1)
    negative = rng.random((rows, length)) < rng.choice([0.0, 0.5, 1.0], (rows, 1))
    return numbers(fields, most, negative, dtype)


def few_values(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """One value all along the row, or one of two."""
    two = any_exponent(rng, dtype, rows, 2)
    second = rng.random((rows, length)) < rng.choice([0.0, 0.1], (rows, 1))
    return np.where(second, two[:, 1:], two[:, :1])


# ---- edges


def halfway(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """The middle between two neighbours of some dtype, or beside it; often the end of its range."""
    names = [name for name in cases.FLOATS if is_within(cases.dtype_of(name), dtype)]
    target = cases.dtype_of(rng.choice([dtype.name, *names]))
    limits = limits_of(target)
    field = rng.integers(0, last_field(target) + 1, (rows, 1))
    digit = digits(rng, target, (rows, 1))
    end = rng.random((rows, 1)) < 0.3
    field[end], digit[end] = last_field(target), (1 << limits.nmant) - 1
    negative = signs(rng, (rows, 1))
    step = np.maximum(field - 1, 0) + limits.minexp - limits.nmant
    towards = np.where(end | (rng.random((rows, 1)) < 0.5), negative, 1 - negative)
    half = np.ldexp(np.where(towards, -1.0, 1.0), (step - 1).astype(np.int32))
    number = numbers(field, digit, negative, target).astype(np.float64)
    few = np.concatenate([number, half], axis=1).astype(dtype)
    return among_pairs(rng, np.concatenate([few, nudges(rng, dtype, rows)], axis=1), length)


def is_within(narrow: Dtype, wide: Dtype) -> bool:
    a, b = limits_of(narrow), limits_of(wide)
    return bool(a.nmant <= b.nmant and a.maxexp <= b.maxexp)


def cancelling(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """To nothing, to the least there is, or to one step of the largest."""
    large = any_exponent(rng, dtype, rows, 1)
    neighbour = (exactly.words_of(large) ^ exactly.words_of(least(dtype))).view(dtype)
    left_over = np.where(rng.random((rows, 1)) < 0.5, large, neighbour)
    return among_pairs(rng, np.concatenate([large, -left_over, nudges(rng, dtype, rows)], axis=1), length)


def neighbours(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """A number and the next one in turn: the mean of as many of both lies half way between them."""
    number = exactly.words_of(any_exponent(rng, dtype, rows, 1))
    return np.asarray(number - number % 2 + np.arange(length, dtype=number.dtype) % 2).view(dtype)


def triangles(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """Sides 3 m and 4 m: the hypotenuse has one digit more than the dtype and lies half way, or just beside that."""
    limits = limits_of(dtype)
    digits = limits.nmant + 1
    odd = rng.integers((1 << digits) // 10 + 1, (1 << digits) // 6, (rows, 1)) * 2 + 1
    lowest = limits.minexp - limits.nmant
    exponents = rng.integers(lowest, limits.maxexp - digits - 1, (rows, 1), endpoint=True).astype(np.int32)
    sides = np.ldexp(odd * np.array([3.0, 4.0]), exponents)
    few = np.concatenate([sides.astype(dtype), nudges(rng, dtype, rows)], axis=1)
    rest = np.zeros((rows, max(length - 3, 0)), dtype)
    return shuffled(rng, np.concatenate([few[:, :length], rest], axis=1))


def few_digits(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """Small integers times a power of two, most of them nothing: squares and their sums fall on ties."""
    limits = limits_of(dtype)
    usual = limits.nmant // 2 + rng.integers(0, 3, (rows, 1))  # squares of about one digit too many
    bits = np.where(rng.random((rows, 1)) < 0.7, usual, rng.integers(1, limits.nmant + 2, (rows, 1)))
    few = rng.integers(0, 1 << bits, (rows, 3)) * rng.choice([1, 1, -1], (rows, 3))
    low, high = limits.minexp // 2 - limits.nmant, min(limits.maxexp // 2, limits.maxexp - limits.nmant - 1)
    exponents = rng.integers(low, high, (rows, 1)).astype(np.int32)
    scaled = np.ldexp(few.astype(np.float64), exponents).astype(dtype)
    few = np.concatenate([scaled, nudges(rng, dtype, rows)], axis=1)
    rest = np.zeros((rows, max(length - 4, 0)), dtype)
    return shuffled(rng, np.concatenate([few[:, :length], rest], axis=1))


def subnormal(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """Subnormal numbers, of any size or small, with or without the smallest normal ones."""
    digit = digits(rng, dtype, (rows, length)) >> rng.integers(0, limits_of(dtype).nmant, (rows, 1))
    fields = rng.integers(0, rng.choice([1, 3], (rows, 1)), (rows, length))
    return numbers(fields, digit, signs(rng, (rows, length)), dtype)


def largest(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """The largest numbers of both signs: out of range at once, and back again or not."""
    limit = exactly.from_words(exactly.infinity_of(dtype) - 1, dtype)
    negative = rng.random((rows, length)) < rng.choice([0.0, 0.5, 0.5], (rows, 1))
    values = np.where(negative, -limit, limit)
    return np.where(rng.random((rows, length)) < rng.choice([0.0, 0.1, 0.99], (rows, 1)), least(dtype), values)


def zeros(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    return numbers(np.zeros((rows, length)), np.zeros((rows, length)), signs(rng, (rows, length)), dtype)


def special(rng: Generator, dtype: Dtype, rows: int, length: int) -> Array:
    """One to three infinities or NaNs of any payload among numbers."""
    infinity = exactly.infinity_of(dtype)
    sign = 1 << (8 * dtype.itemsize - 1)
    nans = (infinity + 1, infinity | sign | 1, exactly.nan_of(dtype) | sign, exactly.nan_of(dtype) + 1)
    menu = exactly.from_words([infinity] * 5 + [infinity | sign] * 5 + [*nans], dtype)
    x = any_exponent(rng, dtype, rows, length)
    if length:
        for _ in range(3):
            chosen = rng.random(rows) < rng.choice([0.5, 1.0])
            column = rng.integers(0, length, rows)
            x[chosen, column[chosen]] = menu[rng.integers(0, len(menu), rows)][chosen]
    return x


KINDS: tuple[Kind, ...] = (
    *(any_exponent, every_exponent, forty_binades, uniform, normal, all_ones, few_values),
    *(halfway, halfway, cancelling, neighbours, triangles, few_digits, subnormal, largest, zeros, special),
)
"""Each as often as it is drawn."""
