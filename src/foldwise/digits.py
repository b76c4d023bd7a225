"""Exact sums digit by digit: the one form that each has, for what is stored, and for Python's integers."""

from typing import Final

import numpy as np

from .arguments import Array
from .engine import TOTAL_DIGITS, empty_totals, merge_totals

UNIT_DIGIT: Final = 2176 // 32
"""The digit that counts ones."""


def total_digits(totals: Array) -> tuple[Array, Array]:
    """Sums as digits of 32 bits, and what they have of infinities and NaN: one form for one value.

    The first digit counts units of 2**-2176, the last that is not 0 has the sign. What is no number has no digits.
    Accumulators store these, so they are a format: what is stored must stay readable.
    """
    carried = empty_totals(totals.shape[:-1])
    merge_totals(carried, totals)
    digits, special = carried[..., :TOTAL_DIGITS], carried[..., TOTAL_DIGITS]
    return np.where(special[..., np.newaxis], 0, digits), np.where(special & (special - 1), 1, special)


def totals_from(digits: Array, special: Array) -> Array:
    """The sums that have such digits."""
    totals = empty_totals(special.shape)
    totals[..., :TOTAL_DIGITS] = digits
    totals[..., TOTAL_DIGITS] = special
    totals[..., -1] = TOTAL_DIGITS - 1
    sums = empty_totals(special.shape)
    merge_totals(sums, totals)  # where the digits end, the core finds out
    return sums


def whole_totals(totals: Array) -> Array:
    """What sums of integers come to, as Python's integers."""
    digits = total_digits(totals)[0][..., UNIT_DIGIT:].astype(object)
    whole_ones: Array = np.asarray((digits << 32 * np.arange(digits.shape[-1]).astype(object)).sum(-1), object)
    return whole_ones
