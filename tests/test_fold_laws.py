"""Laws of single folds: what a maximum, a norm, a mean, a logarithm or a question has to do with its elements."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import cases
import domains
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
import trees
from cases import Fold
from exact import same_bits, wrapped
from hypothesis import given
from marks import EVERY_DTYPE, EVERY_FLOAT, EVERY_INTEGER, EVERY_WHOLE
from trees import Array

import foldwise as fw

DTYPES = st.sampled_from(cases.DTYPES)
LENGTHS = st.one_of(st.integers(1, 70), st.sampled_from([1023, 1024, 1025, 2049, 5000]))
FINITE = st.floats(-60_000, 60_000, width=32)


@st.composite
def lines(draw: st.DrawFn, dtypes: st.SearchStrategy[str] = DTYPES, fold: Fold = cases.BY_NAME["max"]) -> Array:
    """One dimension of the table's values, somewhere in memory, or of hypothesis' own."""
    dtype = draw(dtypes)
    domain = draw(st.sampled_from(cases.domains_of(fold, dtype)))
    values = cases.values(dtype, domain, (draw(LENGTHS),))
    if draw(st.booleans()) and dtype != "bfloat16":
        values = np.resize(draw(arrays.arrays(dtype, st.integers(1, 20))), values.shape)
    return cases.LAYOUTS[draw(st.sampled_from(("C", "every second", "backwards", "awkward")))](values)


def native(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder("="))


def near(found: Any, wanted: Any, roundings: float = 8) -> bool:
    """So many roundings into the dtype of `found` apart; infinities and NaN alike."""
    found = np.asarray(found)
    limits = trees.limits_of(found.dtype)
    y, v = float(found), float(wanted)
    if not (math.isfinite(y) and math.isfinite(v)):
        return y == v or (math.isnan(y) and math.isnan(v))
    return abs(y - v) <= roundings * (float(limits.eps) * abs(v) + float(limits.smallest_subnormal))


# ---- extremes


@pytest.mark.parametrize("name", ["max", "min"])
@given(x=lines())
def test_an_extreme_is_an_element_that_no_other_exceeds(name: str, x: Array) -> None:
    found = getattr(fw, name)(x)
    if trees.is_float(x.dtype) and np.isnan(x).any():
        assert np.isnan(found)
        return
    assert (x == found).any()
    assert (x <= found).all() if name == "max" else (x >= found).all()


@given(x=lines(dtypes=st.sampled_from(cases.FLOATS)))
def test_a_minimum_is_a_maximum_mirrored(x: Array) -> None:
    mirrored = np.asarray(-fw.max(-x))
    assert same_bits(fw.min(x), trees.rounded(mirrored, mirrored.dtype))
    scanned = np.asarray(-fw.cummax(-x))
    assert same_bits(fw.cummin(x), trees.rounded(scanned, scanned.dtype))


@EVERY_DTYPE
def test_running_extremes_end_with_the_extreme_and_never_turn(dtype: str) -> None:
    for domain in cases.domains_of(cases.BY_NAME["cummax"], dtype):
        x = cases.values(dtype, domain, (3000,))
        for running, whole in ((fw.cummax, fw.max), (fw.cummin, fw.min)):
            y = running(x)
            assert np.array_equal(y[-1], whole(x), equal_nan=dtype in cases.FLOATS)
            with np.errstate(invalid="ignore"):
                turns = y[1:] < y[:-1] if running is fw.cummax else y[1:] > y[:-1]
            assert not turns.any()
            assert same_bits(running(y), y)


@EVERY_DTYPE
def test_an_initial_extreme_is_one_element_more(dtype: str) -> None:
    x = cases.values(dtype, cases.domains_of(cases.BY_NAME["max"], dtype)[0], (100,))
    for initial in (0, 1):
        more = np.concatenate([np.array([initial], x.dtype), x])
        assert fw.max(x, initial=initial) == fw.max(more)
        assert fw.min(x, initial=initial) == fw.min(more)


def test_unsigned_integers_beyond_the_signed() -> None:
    x = np.array([2**63, 1, 2**64 - 1, 2**63 - 1], np.uint64)
    for layout in cases.LAYOUTS.values():
        assert fw.max(layout(x), axis=0).dtype == np.uint64
    for copies in (1, 2, 40, 2000):
        wide = np.stack([x] * copies, axis=1)
        assert (fw.max(wide, axis=0) == np.uint64(2**64 - 1)).all()
        assert (fw.min(wide, axis=0) == 1).all()
        assert (fw.max(wide[[1, 3]], axis=0) == np.uint64(2**63 - 1)).all()
        assert fw.cummax(x).tolist() == [2**63, 2**63, 2**64 - 1, 2**64 - 1]
        assert fw.cummin(x).tolist() == [2**63, 1, 1, 1]
        assert fw.l1(x) == (2**63 + 1 + 2**64 - 1 + 2**63 - 1) % 2**64
        assert fw.max(x, initial=2**64 - 1, where=False) == 2**64 - 1


# ---- questions


@given(x=lines(fold=cases.BY_NAME["all"]))
def test_de_morgan(x: Array) -> None:
    true = native(x) != 0
    assert type(fw.all(x)) is np.bool_
    assert fw.all(x) == (not fw.any(~true)) == true.all()
    assert fw.any(x) == (not fw.all(~true)) == true.any()


@EVERY_FLOAT
def test_next_to_nothing_and_no_number_are_true(dtype: str) -> None:
    kind = cases.dtype_of(dtype)
    for value in (np.nan, -np.nan, np.inf, float(trees.limits_of(kind).smallest_subnormal)):
        for length in (1, 9, 100, 3000):
            x = np.zeros(length, kind)
            x[length // 2] = value
            assert fw.any(x)
            assert fw.all(x) == (length == 1)
            assert fw.all(np.full(length, value, kind))
    for length in (1, 9, 100, 3000):
        noughts = np.zeros(length, kind)
        noughts[::2] = -0.0
        assert not fw.any(noughts)
        assert not fw.all(noughts)
        one_less = np.full(length, -1, kind)
        one_less[length // 2] = -0.0
        assert not fw.all(one_less)


@pytest.mark.parametrize("dtype", cases.INTEGERS)
def test_each_bit_is_true(dtype: str) -> None:
    bits = 1 << np.arange(8 * np.dtype(dtype).itemsize, dtype=np.dtype(dtype).str.replace("i", "u"))
    values = bits.view(dtype)
    assert fw.all(values)
    for length in (1, 9, 100, 3000):
        x = np.zeros((length, values.size), dtype)
        x[length // 2] = values
        for layout in (x, np.asfortranarray(x)):
            assert fw.any(layout, axis=0).all()
            assert fw.all(layout, axis=0).all() == (length == 1)


# ---- norms


@given(x=lines(dtypes=st.sampled_from(("float32", "float64")), fold=cases.BY_NAME["l2"]))
def test_the_square_of_a_norm_is_the_sum_of_squares(x: Array) -> None:
    norm, squares = fw.l2(x, dtype=np.float64), fw.sumsquare(x, dtype=np.float64)
    if 1e-290 < squares < 1e290:
        assert near(norm * norm, squares)
    elif not np.isnan(squares):
        assert norm >= 0


@EVERY_FLOAT
@pytest.mark.parametrize("count", [1, 2, 5, 100, 3000])
def test_norms_of_any_size(dtype: str, count: int) -> None:
    """Squares may be far out of range; only the norm itself has to fit."""
    kind = cases.dtype_of(dtype)
    limits = trees.limits_of(kind)
    for exponent in (limits.maxexp - 1, limits.maxexp - 20, limits.maxexp // 2, 0, limits.minexp // 2, limits.minexp):
        x = np.full((count, 3), 2.0**exponent, kind)
        wanted = math.sqrt(count) * 2.0**exponent if exponent < 1000 else np.inf
        if wanted <= float(limits.max):
            assert near(fw.l2(x[:, 0]), wanted, 2)
            assert all(near(norm, wanted, 2) for norm in fw.l2(x, axis=0))
            assert near(fw.l2(-x, axis=0)[0], wanted, 2)


def test_norms_whose_squares_are_out_of_range() -> None:
    assert near(fw.l2(np.array([1e200, 1e200])), 2**0.5 * 1e200, 1)
    assert near(fw.l2(np.array([3e-200, 4e-200])), 5e-200, 1)
    assert fw.l2(np.array([5e-324])) == 5e-324
    assert fw.l2(np.array([1e308, 1e308, 1e308, 1e308])) == np.inf
    assert fw.sumsquare(np.array([1e200, 1e-200])) == np.inf
    assert near(fw.sumsquare(np.array([1e-162] * 10)), 1e-323, 1)
    assert fw.sumsquare(np.array([1e-200] * 10)) == 0
    assert near(fw.sumsquare(np.array([1.5e-162] * 3, np.float64)), 6.75e-324, 1)


def test_squares_that_are_hardly_a_number() -> None:
    """Around half of the smallest one, and the largest one, a square is rounded once."""
    for exponent in (*range(-543, -508), 510, 511, 512):
        x = np.ldexp(1 + np.arange(32)[:, None] / 32, exponent)
        squares = [Fraction(float(v)) ** 2 for v in x[:, 0]]
        wanted = [float(v) if v < 2**1024 else math.inf for v in squares]
        assert fw.sumsquare(x, axis=1).tolist() == wanted, exponent
        assert fw.l2(x, axis=1).tolist() == x[:, 0].tolist(), exponent


@pytest.mark.parametrize("blocks", range(2, 18))
@pytest.mark.parametrize("columns", [1, 3])
def test_what_leaves_the_range_only_where_blocks_meet(blocks: int, columns: int) -> None:
    """Powers of two, so that results are known: two blocks of the tree are in range, what they are together is not."""
    block = 1024
    for first, second in itertools.combinations(range(blocks), 2):
        ones, zeros = np.ones((blocks * block, columns)), np.zeros((blocks * block, columns))
        for sign in (1, -1):
            ones[[first * block, second * block]] = 2.0 ** (700 * sign)
            ones[first * block + 1] = 2.0 ** (-700 * sign)
            assert (fw.prod(ones, axis=0) == 2.0 ** (700 * sign)).all()
            zeros[[first * block, first * block + 1, second * block, second * block + 1]] = 2.0 ** (600 * sign)
            assert (fw.l2(zeros, axis=0) == 2.0 ** (600 * sign + 1)).all()


@EVERY_INTEGER
def test_norms_of_integers(dtype: str) -> None:
    """The exact root, cut; or of what float64 makes of the integers."""
    limits = np.iinfo(dtype)
    for x in (np.array([3, 4], dtype), np.full(1000, limits.max, dtype), np.full(7, limits.min, dtype)):
        squares = sum(int(v) ** 2 for v in x)
        assert near(fw.l2(x), math.sqrt(squares))
        assert fw.l2(x, dtype=np.uint64) == math.isqrt(squares) % 2**64
        assert int(fw.l2(x, dtype=dtype)) % 2**8 == math.isqrt(squares) % 2**8
    out = np.zeros(2, np.int64)
    assert fw.l2(np.array([[3, 5], [4, 12]], dtype), axis=0, dtype=np.int64, out=out) is out
    assert out.tolist() == [5, 13]


def test_roots_of_sums_of_squares_beyond_128_bits() -> None:
    x = np.full((5, 3), 2**64 - 1, np.uint64)
    wanted = math.isqrt(5 * (2**64 - 1) ** 2) % 2**64
    assert fw.l2(x, axis=0, dtype=np.uint64).tolist() == [wanted] * 3
    kept = fw.l2(x, axis=0, dtype=np.uint64, keepdims=True, out=np.zeros((1, 3), np.uint64))
    assert kept.tolist() == [[wanted] * 3]
    mask = np.arange(15).reshape(5, 3) > 2
    assert fw.l2(x, axis=0, dtype=np.uint64, where=mask)[0] == math.isqrt(4 * (2**64 - 1) ** 2) % 2**64


@EVERY_WHOLE
def test_sums_of_magnitudes_and_squares_wrap(dtype: str) -> None:
    x = cases.values(dtype, domains.truths if dtype == "bool" else domains.any_bits, (50, 3))
    for column, l1, squares in zip(x.T, fw.l1(x, axis=0), fw.sumsquare(x, axis=0), strict=True):
        assert (int(l1) - sum(abs(int(v)) for v in column)) % 2**64 == 0
        assert (int(squares) - sum(int(v) ** 2 for v in column)) % 2**64 == 0


# ---- means


@EVERY_FLOAT
@given(value=FINITE, length=LENGTHS)
def test_the_mean_of_equal_values_is_their_value(dtype: str, value: float, length: int) -> None:
    x = np.full(length, value).astype(cases.dtype_of(dtype))
    roundings = trees.reduction_roundings(length, trees.reduced_in(x.dtype, x.dtype)) + 2
    assert near(fw.mean(x), float(x[0]), 1 if x.dtype.itemsize == 2 else roundings)
    whole = np.full(length, round(value) % 256).astype(x.dtype)
    assert fw.mean(whole) == whole[0]  # the sum is exact


@EVERY_WHOLE
def test_the_mean_of_integers_is_exact(dtype: str) -> None:
    for shape in ((1,), (7,), (1000, 3)):
        x = cases.values(dtype, domains.truths if dtype == "bool" else domains.any_bits, shape)
        columns = x.reshape(shape[0], -1)
        for column, mean, whole in zip(
            columns.T, fw.mean(columns, axis=0), fw.mean(columns, axis=0, dtype=np.int64), strict=True
        ):
            exact = Fraction(sum(int(v) for v in column), len(column))
            assert mean == float(exact)
            assert (int(whole) - math.trunc(exact)) % 2**64 == 0


def test_the_mean_of_integers_whose_sums_doubles_may_not_hold_is_exact() -> None:
    """Sums near 2^51 and 2^52, of both signs, beside small ones: alone, and a vector of them."""
    count = 2**21 - 3
    fillings = (2**31 - 1, -(2**31), 2**30, -(2**30) - 1, 2**30 + 2, 5, -7, 0, 2**29)
    x = np.repeat(np.array(fillings, np.int32)[:, None], count, axis=1)
    x[:, 0] = [2**31 - 2, 1 - 2**31, 2**30 + 5, -(2**30), -1, 6, -8, 1, 0]
    sums = [value * (count - 1) + int(first) for value, first in zip(fillings, x[:, 0], strict=True)]
    wanted = [float(Fraction(total, count)) for total in sums]
    assert max(sums) > 2**51 > sorted(sums)[-2]
    assert np.array_equal(fw.mean(x, axis=1), wanted)
    assert np.array_equal(fw.mean(np.ascontiguousarray(x.T), axis=0), wanted)
    assert [fw.mean(row) for row in x] == wanted
    few = np.array([fillings, fillings[::-1], fillings[3:] + fillings[:3]], np.int32)
    totals = few.sum(axis=0, dtype=np.int64)
    assert np.array_equal(fw.mean(few, axis=0), [float(Fraction(int(total), 3)) for total in totals])


@EVERY_INTEGER
def test_the_mean_of_chosen_integers_is_exact(dtype: str) -> None:
    """Though their sum is beyond 64 bits."""
    x = np.full(6, np.iinfo(dtype).max, dtype)
    x[1] = 3
    mask = np.array([True, True, False, True, True, True])
    exact = Fraction(4 * int(x[0]) + 3, 5)
    assert fw.mean(x, where=mask) == float(exact)
    assert fw.mean(x, where=mask, dtype=dtype) == math.trunc(exact)
    assert fw.mean(np.array([2, 4, 7]), where=[True, True, False]) == 3


@EVERY_FLOAT
def test_a_mask_that_leaves_nothing_out_changes_no_mean(dtype: str) -> None:
    for domain in cases.domains_of(cases.BY_NAME["mean"], dtype):
        x = cases.values(dtype, domain, (1000, 7))
        assert same_bits(fw.mean(x, axis=0, where=True), fw.mean(x, axis=0))
    nothing = fw.mean(np.ones(3, cases.dtype_of(dtype)), where=False)
    assert np.isnan(nothing)
    assert not np.signbit(nothing)


# ---- logarithms


RULES: list[tuple[list[float], float]] = [
    ([np.inf, -np.inf], np.inf),
    ([-np.inf, np.inf], np.inf),
    ([np.inf, np.inf], np.inf),
    ([-np.inf, -np.inf], -np.inf),
    ([-np.inf], -np.inf),
    ([np.inf], np.inf),
    ([], -np.inf),
    ([np.nan, 1.0], np.nan),
    ([np.inf, np.nan], np.nan),
    ([np.nan, -np.inf], np.nan),
    ([-np.inf, 3.0], 3.0),
    ([1000.0, 1000.0], 1000 + math.log(2)),
    ([-1000.0, -1000.0], -1000 + math.log(2)),
    ([0.0, 0.0, 0.0], math.log(3)),
    ([0.0], 0.0),
    ([11.0, -60000.0], 11.0),
]


@EVERY_FLOAT
@pytest.mark.parametrize(("values", "wanted"), RULES)
def test_rules_of_logsumexp(dtype: str, values: list[float], wanted: float) -> None:
    kind = cases.dtype_of(dtype)
    x = np.array(values, kind)
    assert near(fw.logsumexp(x), wanted, 1)
    for columns in (3, 40):
        for result in fw.logsumexp(np.stack([x] * columns, axis=1), axis=0):
            assert near(result, wanted, 1)
    apart = np.full(3000, -np.inf, kind)
    apart[np.linspace(0, 2999, len(x)).astype(int)] = x
    assert near(fw.logsumexp(apart), wanted, 1)
    if values:
        assert near(fw.logcumsumexp(x)[-1], wanted, 1)
        assert near(fw.logcumsumexp(apart)[-1], wanted, 1)
        assert near(fw.logcumsumexp(apart, reverse=True)[0], wanted, 1)


@given(x=st.lists(st.floats(-50, 50), min_size=1, max_size=300), shift=st.integers(-(2**20), 2**20))
def test_logsumexp_is_shifted_with_its_elements(x: list[float], shift: int) -> None:
    plain, shifted = fw.logsumexp(np.array(x)), fw.logsumexp(np.array(x) + shift)
    units = 4 * (abs(shift) + 100) + 1000
    assert abs((shifted - shift) - plain) <= units * 2.0**-53


@given(x=st.lists(st.floats(-80, 80, width=32), min_size=1, max_size=300))
def test_logsumexp_lies_above_the_largest_by_at_most_the_logarithm_of_the_count(x: list[float]) -> None:
    for kind in (np.float32, np.float64):
        found = fw.logsumexp(np.array(x, kind))
        slack = 4 * float(np.finfo(kind).eps) * (80 + 300)
        assert max(x) - slack <= found <= max(x) + math.log(len(x)) + slack


@given(x=st.lists(st.floats(-100, 100), min_size=1, max_size=200))
def test_logsumexp_by_fsum(x: list[float]) -> None:
    most = max(x)
    wanted = most + math.log(math.fsum(math.exp(v - most) for v in x))
    assert abs(fw.logsumexp(np.array(x)) - wanted) <= (5 * len(x) + 50 + 4 * abs(most)) * 2.0**-53


@EVERY_FLOAT
def test_the_logarithm_of_a_sum(dtype: str) -> None:
    kind = cases.dtype_of(dtype)
    for values, wanted in (
        ([1.0], 0.0),
        ([2.0, 3.0, -4.0], 0.0),
        ([0.0], -np.inf),
        ([-0.0], -np.inf),
        ([1.0, -1.0], -np.inf),
        ([-1.0], np.nan),
        ([np.inf], np.inf),
        ([np.inf, -np.inf], np.nan),
        ([np.nan], np.nan),
        ([3.0, 4.0], math.log(7)),
        ([float(trees.limits_of(kind).smallest_subnormal)], math.log(trees.limits_of(kind).smallest_subnormal)),
        ([float(trees.limits_of(kind).max)], math.log(trees.limits_of(kind).max)),
    ):
        assert near(fw.logsum(np.array(values, kind)), wanted, 1)
        assert near(fw.logsum(np.array([values] * 40, kind).T.copy(), axis=0)[39], wanted, 1)


@pytest.mark.parametrize("name", ["logsum", "logsumexp"])
@EVERY_WHOLE
def test_logarithms_of_integers_as_integers(name: str, dtype: str) -> None:
    """Of what float64 makes of them, cut toward zero."""
    fold = getattr(fw, name)
    for values in ([1], [5, 7, 9, 100], list(range(1, 70))):
        x = np.array(values).astype(dtype)
        for out in ("int8", "int64", "uint8", "uint64", x.dtype if dtype != "bool" else "int16"):
            found = fold(x, dtype=out)
            assert found.dtype == np.dtype(out)
            assert found == math.trunc(fold(x))
    into = np.zeros(2, np.int16)
    assert fold(np.ones((9, 2), dtype), axis=0, dtype=np.int16, out=into) is into
    assert into.tolist() == [math.trunc(fold(np.ones(9, dtype)))] * 2
    if np.dtype(dtype).kind == "i":
        assert fw.logsumexp(np.array([-3, -3], dtype), dtype=dtype) == -2
        assert fw.logsumexp(np.array([-3], dtype), axis=(), dtype=dtype).tolist() == [-3]


@pytest.mark.parametrize("dtype", cases.INTEGERS)
def test_logarithms_beyond_an_integer_dtype_are_taken_modulo(dtype: str) -> None:
    for values in ([1000, 999], [-5, -7], [-(2**40)], [2**31 - 1] * 3, [2**62], [2**63 - 1]):
        x, kind = np.array(values, np.int64), np.dtype(dtype)
        wanted = wrapped(np.array([math.trunc(fw.logsumexp(x))], object), kind)
        assert fw.logsumexp(x, dtype=dtype) == wanted[0]
        assert fw.logcumsumexp(x, dtype=dtype)[-1] == wanted[0]
        assert fw.logsumexp(fw.open(iter([x[:1], x[1:]])), dtype=dtype) == wanted[0]
    largest = np.array([2**64 - 1], np.uint64)
    assert fw.logsumexp(largest, dtype=dtype) == 0  # 2**64 in float64


@EVERY_WHOLE
def test_running_logarithms_of_integers_as_integers(dtype: str) -> None:
    x = np.arange(1, 70).astype(dtype)
    found = fw.logcumsumexp(x, dtype=np.int64)
    assert found.dtype == np.int64
    assert np.array_equal(found, np.trunc(fw.logcumsumexp(x)).astype(np.int64))
    with pytest.raises(fw.OverflowedError, match=r"^logcumsumexp: "):
        fw.logcumsumexp(x, dtype=np.int64, exclusive=True)
