"""What accuracy="exact" must give: the exact value, rounded once.

Every finite float is an integer times 2**-1074, and every square one times 2**-2148. Reductions add up such integers
exponent by exponent, scans one after the other. Values are folded along axis 0; other axes are cases side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import trees
from trees import Array, limits_of

UNIT = -1074  # the exponent of float64's last place: that of every addend
MORE = 128  # bits below the last one, of a quotient or a root
Integers = tuple[Array, int]  # Python's, as objects, and the exponent that all of them have

# ---- the bits of a dtype


def word_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


def infinity_of(dtype: np.dtype[Any]) -> int:
    limits = limits_of(dtype)
    return int((2 * limits.maxexp - 1) << limits.nmant)


def nan_of(dtype: np.dtype[Any]) -> int:
    return int(infinity_of(dtype) | 1 << (limits_of(dtype).nmant - 1))


def from_words(words: Any, dtype: np.dtype[Any]) -> Array:
    return np.asarray(words).astype(word_of(dtype)).view(dtype)


def words_of(values: Array) -> Array:
    return values.view(word_of(values.dtype))


# ---- one rounding


def rounded_word(integer: int, exponent: int, dtype: np.dtype[Any]) -> int:
    """The bits of integer * 2**exponent, rounded to nearest, ties to even.

    The places of a float, without its sign, count upwards from zero through the subnormals to infinity: a carry out
    of the last digit needs no care, and whatever is larger than infinity is infinity.
    """
    if integer == 0:
        return 0
    limits = limits_of(dtype)
    lowest = limits.minexp - limits.nmant
    magnitude = abs(integer)
    step = max(magnitude.bit_length() + exponent - limits.nmant - 1, lowest)  # the exponent of the last place
    places = quotient_to_even(magnitude, step - exponent)
    word = min(int(((step - lowest) << limits.nmant) + places), infinity_of(dtype))
    return word | (integer < 0) << (8 * dtype.itemsize - 1)


def quotient_to_even(magnitude: int, dropped: int) -> int:
    """magnitude / 2**dropped as an integer."""
    if dropped <= 0:
        return magnitude << -dropped
    quotient, rest = magnitude >> dropped, magnitude & (1 << dropped) - 1
    half = 1 << (dropped - 1)
    return quotient + (rest > half or (rest == half and quotient % 2 == 1))


def rounded(integers: Array, exponent: int, dtype: np.dtype[Any]) -> Array:
    words = np.frompyfunc(lambda integer: rounded_word(int(integer), exponent, dtype), 1, 1)(integers)
    return from_words(words, dtype)


# ---- exact sums


def digits_and_shifts(values: Array) -> tuple[Array, Array]:
    """Finite float64 as integers of 53 bits and a sign, and how far each is to be shifted."""
    words = np.ascontiguousarray(values, np.float64).view(np.int64)
    fields = words >> 52 & 0x7FF
    digits = words & (1 << 52) - 1 | np.where(fields > 0, 1 << 52, 0)
    return np.where(words < 0, -digits, digits), np.maximum(fields - 1, 0)


def addends(values: Array) -> Array:
    """Finite floats as Python's integers, in units of 2**UNIT."""
    digits, shifts = digits_and_shifts(values)
    return np.asarray(digits.astype(object) << shifts.astype(object), object)


def total(terms: dict[int, Array], shifts: Array) -> Array:
    """The exact sum over axis 0 of the terms, each shifted by its key and by what `shifts` says besides."""
    width = int(shifts.max(initial=0)) + 1
    places = np.arange(shifts.shape[1]) * width + shifts
    found = np.zeros(shifts.shape[1], object)
    for key, term in terms.items():
        for more, half in ((0, term & 0xFFFF_FFFF), (32, term >> 32)):  # 2**31 of which fit into 64 bits
            partial = np.zeros(width * shifts.shape[1], np.int64)
            np.add.at(partial, places.reshape(-1), half.reshape(-1))
            used = np.flatnonzero(partial)
            shifted = partial[used].astype(object) << (used % width + key + more).astype(object)
            np.add.at(found, used // width, shifted)
    return found


def sums(values: Array) -> Array:
    digits, shifts = digits_and_shifts(values)
    return total({0: digits}, shifts)


def squares(values: Array) -> Array:
    digits, shifts = digits_and_shifts(np.abs(values))
    high, low = digits >> 27, digits & (1 << 27) - 1
    return total({0: low * low, 28: high * low, 54: high * high}, 2 * shifts)


# ---- what is made of sums: one bit more, at the very end, stands for everything beyond


def quotients(totals: Array, counts: Array) -> Array:
    def quotient(total: int, count: int) -> int:
        found, rest = divmod(abs(total) << MORE, count)
        return (found << 1 | (rest > 0)) * (1 if total > 0 else -1)

    return np.asarray(np.frompyfunc(quotient, 2, 1)(totals, counts.astype(object)), object)


def roots(totals: Array) -> Array:
    def root(total: int) -> int:
        found = math.isqrt(total << 2 * MORE)
        return found << 1 | (found * found != total << 2 * MORE)

    return np.asarray(np.frompyfunc(root, 1, 1)(totals), object)


FOLDS: dict[str, Callable[[Array, Array], Integers]] = {
    "sum": lambda values, counts: (sums(values), UNIT),
    "l1": lambda values, counts: (sums(np.abs(values)), UNIT),
    "mean": lambda values, counts: (quotients(sums(values), np.maximum(counts, 1)), UNIT - MORE - 1),
    "sumsquare": lambda values, counts: (squares(values), 2 * UNIT),
    "l2": lambda values, counts: (roots(squares(values)), UNIT - MORE - 1),
}
SIGNLESS = ("l1", "sumsquare", "l2")


# ---- whole calls


def reduced(
    fold: str,
    x: Array,
    dtype: np.dtype[Any],
    where: Array | None = None,
    initial: float | None = None,
) -> Array:
    values = widened(x)
    counts = np.full(x.shape[1], len(x)) if where is None else where.sum(0)
    if where is not None:
        values = np.where(where, values, 0.0)
    if initial is not None:
        values = np.concatenate([values, np.full((1, x.shape[1]), initial, np.float64)])
    found = rounded(*FOLDS[fold](finite(values), counts), dtype)
    found = with_specials(found, np.abs(values) if fold in SIGNLESS else values, "reduce")
    return np.where(counts == 0, from_words(nan_of(dtype), dtype), found) if fold == "mean" else found


def scanned(x: Array, dtype: np.dtype[Any], **options: bool) -> Array:
    def prefixes(line: Array) -> Array:
        values = widened(line)
        totals = np.add.accumulate(addends(finite(values)), axis=0)
        return with_specials(rounded(totals, UNIT, dtype), values, "accumulate")

    return trees.arranged(prefixes, 0.0, x, 0, **options)


def of_integers(fold: str, x: Array) -> Array:
    """The mean or the norm of integers."""
    values = np.asarray(x.astype(object) + 0, object)
    if fold == "mean":
        found = quotients(np.add.reduce(values), np.full(x.shape[1:], len(x)))
    else:
        found = roots(np.add.reduce(values * values))
    return rounded(found, -MORE - 1, np.dtype(np.float64))


def widened(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return x.astype(np.float64)


def finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)


def with_specials(found: Array, values: Array, method: str) -> Array:
    """The infinity among what is folded; a NaN where there is one, or where there are both infinities."""
    nan, above, below = (
        getattr(np.logical_or, method)(which, axis=0)
        for which in (np.isnan(values), np.isposinf(values), np.isneginf(values))
    )
    words = words_of(found).copy()
    infinity = infinity_of(found.dtype)
    words[above] = infinity
    words[below] = infinity | 1 << (8 * found.dtype.itemsize - 1)
    words[nan | (above & below)] = nan_of(found.dtype)
    return from_words(words, found.dtype)
