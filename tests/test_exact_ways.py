"""accuracy="exact" where one of its ways begins or ends, and where it was wrong once."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import cases
import dask.array as da
import exact_calls
import exactly
import hard
import ml_dtypes
import numpy as np
import processes
import pytest
from exact import same_bits
from exact_calls import exactly_folded
from trees import Array, limits_of

import foldwise as fw


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("binades", [30, 39, 40, 43, 44, 55, 56, 70, 73, 89])
@pytest.mark.parametrize("top", ["least", "one", "most"])
def test_long_sums_of_floats_some_binades_apart(dtype: str, binades: int, top: str) -> None:
    """Counted in one unit their sums leave 64 bits, or the bits of a double, and not all of them are whole."""
    rng = exact_calls.generator("binades", dtype, binades, top)
    kind, count = cases.dtype_of(dtype), 70_001
    last = {"least": 5, "one": 127, "most": hard.last_field(kind) - 20}[top]
    fields = np.where(rng.random(count) < 0.9, last, rng.integers(last - binades, last, count, endpoint=True))
    ones = (1 << limits_of(kind).nmant) - 1
    x = hard.numbers(np.maximum(fields, 0), np.full(count, ones), np.zeros(count), kind)
    for some in (x, -x, np.where(rng.random(count) < 0.5, x, -x), x[:33_000], x[:1111]):
        assert exactly_folded("sum", some, dtype=np.float64) == math.fsum(some.tolist())
        assert exactly_folded("l1", some, dtype=np.float64) == math.fsum(abs(some).tolist())
    x[2000:] = np.ldexp(x[2000:].astype(np.float64), 3)  # than which the first have shown less
    assert exactly_folded("sum", x, dtype=np.float64) == math.fsum(x.tolist())
    x[40_000] = hard.numbers(np.array(last + 10), np.array(1), np.array(0), kind)
    assert exactly_folded("sum", x, dtype=np.float64) == math.fsum(x.tolist())
    x[50_000] = np.inf
    assert exactly_folded("sum", x, dtype=np.float64) == np.inf
    x[60_000] = -np.inf
    assert math.isnan(exactly_folded("sum", x, dtype=np.float64))


@pytest.mark.parametrize("largest", [0.0009, 0.03125, 2.0, 63.9375, 127.9375, -128.0, 128.0, -65504.0, 65504.0])
@pytest.mark.parametrize("count", [33, 4097, 40_000, 70_001])
def test_long_sums_of_float16(largest: float, count: int) -> None:
    """As whole numbers of 32 bits, up to 128, their sums wrap some thousand times; the least are units of these.

    Beside larger ones go on levels those that are half of a unit there, or move an anchor the most.
    """
    rng = exact_calls.generator("float16", largest, count)
    x = np.full(count, largest, np.float16)
    mixed = np.where(rng.random(count) < 0.9, x, rng.integers(-2047, 2048, count) * 2.0**-24).astype(np.float16)
    beside = np.where(np.arange(count) % 997, x, np.float16(65504))
    for some in (x, mixed, beside, mixed * np.where(rng.random(count) < 0.5, np.float16(1), np.float16(-1))):
        assert exactly_folded("sum", some, dtype=np.float64) == math.fsum(some.tolist())
    mixed[count // 2] = np.inf
    assert exactly_folded("sum", mixed, dtype=np.float64) == np.inf
    mixed[count // 3] = np.nan
    assert math.isnan(exactly_folded("sum", mixed, dtype=np.float64))


@pytest.mark.parametrize("shape", [(1, 1024), (1, 5000), (1, 40_001), (2, 8192), (9, 3136), (40, 1023), (9, 8193)])
@pytest.mark.parametrize("kind", ["none", "one row", "some rows", "all rows", "too large", "infinite"])
def test_float16_of_which_two_are_no_float(shape: tuple[int, int], kind: str) -> None:
    """Most often two of them are: where not, or no whole number of 32 bits, only there each is taken by itself."""
    rng = exact_calls.generator("two", shape, kind)
    x = (rng.integers(-2048, 2048, shape) * 2.0**-11).astype(np.float16)
    which = {"none": slice(0), "one row": slice(shape[0] // 2, shape[0] // 2 + 1), "some rows": slice(0, None, 5)}
    for first in (0, shape[1] // 2, shape[1] - 64):
        some = x[which.get(kind, slice(None)), first : first + 64]
        some[...] = np.where(rng.random(some.shape) < 0.5, np.float16(32), np.float16(3 * 2.0**-24))
    if kind == "too large":
        x[:, 70:73] = 127.5, 64, 60000
    wanted = np.ldexp((x.astype(np.float64) * 2.0**24).astype(np.int64).sum(axis=1).astype(np.float64), -24)
    if kind == "infinite":
        x[0, 99] = wanted[0] = np.inf
    for axis, some in ((1, x), (0, x.T.copy()), (1, np.repeat(x, 2, axis=1)[:, ::2])):
        assert same_bits(exactly_folded("sum", some, axis=axis, dtype=np.float64), wanted)


NUMBERS = np.array([65504, -65504, 2.0**-24, 1023 * 2.0**-24, -(2.0**-14), 2047 * 2.0**-11, 2, -0.0], np.float16)


def anything(rng: Any, shape: tuple[int, int]) -> Any:
    """Numbers of float16 by their bits."""
    return (rng.integers(0, 0x7C00, shape, np.uint16) | rng.integers(0, 2, shape, np.uint16) << 15).view(np.float16)


def units(x: Any) -> Any:
    """Numbers of float16 as integers, each of them some 2^-24."""
    return (x.astype(np.float64) * 2.0**24).astype(np.int64)


@pytest.mark.parametrize("count", [159, 160, 512, 544, 545, 1792, 1823, 1824, 2048, 2304, 4096, 4097, 40_000])
def test_rows_of_the_largest_and_the_least_float16(count: int) -> None:
    """Added by weights they fill the words that hold sums: each row of one number, or of any."""
    rng = exact_calls.generator("largest", count)
    x = np.concatenate([np.repeat(NUMBERS[:, None], count, axis=1), anything(rng, (5, count))])
    wanted = np.ldexp(units(x).sum(axis=1).astype(np.float64), -24)
    for some in (x, x[:, ::-1].copy()):
        np.testing.assert_array_equal(exactly_folded("sum", some, axis=1, dtype=np.float64), wanted)
    for row, sum_of_it in zip(x, wanted, strict=True):
        assert exactly_folded("sum", row, dtype=np.float64) == sum_of_it


@pytest.mark.parametrize("count", [9, 63, 64, 65, 71, 130, 1000])
@pytest.mark.parametrize("columns", [32, 64, 232, 1003])
def test_columns_of_the_largest_and_the_least_float16(count: int, columns: int) -> None:
    """The same down columns, whose words wait for more rows; then some without a finite sum, which spoil no other."""
    rng = exact_calls.generator("largest columns", count, columns)
    same = np.repeat(np.resize(NUMBERS, columns - 19)[None], count, axis=0)
    x = np.concatenate([same, anything(rng, (count, 19))], axis=1)
    for some in (x, x[::-1], x[:, 5:]):
        wanted = np.ldexp(units(some).sum(axis=0).astype(np.float64), -24)
        np.testing.assert_array_equal(exactly_folded("sum", some, axis=0, dtype=np.float64), wanted)
    x[count // 2, [7, columns - 1]] = np.inf
    x[-1, 20] = np.nan
    got, left = exactly_folded("sum", x, axis=0, dtype=np.float64), np.isfinite(x).all(axis=0)
    np.testing.assert_array_equal(got[[7, 20, columns - 1]], [np.inf, np.nan, np.inf])
    np.testing.assert_array_equal(got[left], np.ldexp(units(x[:, left]).sum(axis=0).astype(np.float64), -24))


def test_pieces_of_float16_that_fill_what_holds_them() -> None:
    fw.set_num_threads(1)  # who shares a sequence holds less of it
    x = np.full((130, 2, 1 << 16), 65504, np.float16)
    x[:, 1] *= -1
    x[100, 0, 17] = 2.0**-24
    whole = 65504.0 * (130 << 16)
    for other, wanted in ((-65504, -whole), (np.inf, np.inf)):
        x[3, 1, 5] = other
        got = exactly_folded("sum", x, axis=(0, 2), dtype=np.float64)
        np.testing.assert_array_equal(got, [whole - 65504 + 2.0**-24, wanted])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("count", [255, 256, 511, 512, 1025, 70_001])
def test_floats_of_all_exponents(dtype: str, count: int) -> None:
    """Zeros of both signs, subnormals and the largest, by their bits; then an infinity and a NaN among them."""
    rng = exact_calls.generator("all exponents", dtype, count)
    kind = cases.dtype_of(dtype)
    last = hard.last_field(kind) - 20 * (dtype == "float64")  # where math.fsum ends
    fields = rng.integers(0, last, count, endpoint=True)
    ones = rng.integers(0, 1 << limits_of(kind).nmant, count)
    x = hard.numbers(fields, ones, rng.integers(0, 2, count), kind)
    x[:: count // 9] = 0
    x[3] = -0.0
    subnormal = hard.numbers(np.zeros(count, int), ones, np.zeros(count, int), kind)
    left = rng.permutation(np.concatenate([x, -x, subnormal]))  # when the others have gone
    assert exactly_folded("sum", left, dtype=np.float64) == math.fsum(subnormal.tolist())
    subnormal[count // 2 :: 3] = x[count // 2 :: 3]
    for some in (x, subnormal, x[::-1], np.abs(x)):
        assert exactly_folded("sum", some, dtype=np.float64) == math.fsum(some.tolist())
        assert exactly_folded("l1", some, dtype=np.float64) == math.fsum(abs(some).tolist())
    assert exactly_folded("sum", np.concatenate([x, -x[::-1]]), dtype=np.float64) == 0
    x[count - 5] = -np.inf
    assert exactly_folded("sum", x, dtype=np.float64) == -np.inf
    x[count // 3] = np.nan
    assert math.isnan(exactly_folded("sum", x, dtype=np.float64))
    pieces, whole = fw.Accumulator("sum", kind), fw.Accumulator("sum", kind).update(x)
    for part in np.array_split(x, count // 100):
        pieces.update(part)
    assert pieces.to_bytes() == whole.to_bytes()


def one_below_the_other(rng: Any, dtype: np.dtype[Any], rows: int, length: int) -> Array:
    """Each begins about where the one before ends, and is mostly next to a power of two: ties, and what breaks them."""
    limits = limits_of(dtype)
    steps = np.arange(length) * (limits.nmant + 1) + rng.integers(-2, 3, (rows, length))
    fields = np.maximum(rng.integers(0, hard.last_field(dtype), (rows, 1)) - steps, 0)
    fraction = rng.choice([0, 0, 1, (1 << limits.nmant) - 1, 1 << (limits.nmant - 1)], (rows, length))
    fraction = np.where(rng.random((rows, length)) < 0.2, hard.digits(rng, dtype, (rows, length)), fraction)
    x = hard.numbers(np.minimum(fields, hard.last_field(dtype)), fraction, hard.signs(rng, (rows, length)), dtype)
    return hard.shuffled(rng, x)


@pytest.mark.parametrize("kind", [*dict.fromkeys(hard.KINDS), one_below_the_other], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", cases.FLOATS)
@pytest.mark.parametrize("length", [2, 3, 4])
def test_rows_of_a_few_elements(dtype: str, length: int, kind: Any) -> None:
    """One after the other in memory, two or three are rounded as they are added; what is not finite is asked again."""
    x = kind(exact_calls.generator("few elements", dtype, length, kind.__name__), cases.dtype_of(dtype), 999, length)
    for fold in ("sum", "l1"):
        for name in dict.fromkeys((dtype, "float32", "float64")):
            out = cases.dtype_of(name)
            wanted = exactly.reduced(fold, x.T, out)
            assert same_bits(exactly_folded(fold, x, axis=1, dtype=out), wanted), (fold, name)
            field = cases.field(np.zeros(len(x), out))
            assert same_bits(exactly_folded(fold, x, axis=1, dtype=out, out=field), wanted), (fold, name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_two_whose_sums_pass_the_caches(dtype: str) -> None:
    x = np.random.default_rng(2).standard_normal((4_300_001, 2)).astype(dtype)
    assert same_bits(exactly_folded("sum", x, axis=1), x[:, 0] + x[:, 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_doubles_half_way_between_short_floats_and_beside(dtype: str) -> None:
    """Subnormal ones, too, of which a float32 on the way has fewer bits."""
    rng = exact_calls.generator("half way", dtype)
    kind, count = cases.dtype_of(dtype), 8000
    limits = limits_of(kind)
    digits, places = rng.integers(1, 4 << limits.nmant, count), rng.integers(-17, 17, count) - limits.nmant
    x = np.ldexp(digits.astype(np.float64), limits.minexp + places)
    x *= 1 + rng.integers(-1, 2, count) * np.ldexp(1.0, -rng.integers(20, 53, count))
    wanted = exactly.reduced("sum", x[np.newaxis], kind)
    for found in (
        fw.sum(x[np.newaxis], axis=0, dtype=kind),
        exactly_folded("sum", x[np.newaxis], axis=0, dtype=kind),
        exactly_folded("mean", x[np.newaxis], axis=0, dtype=kind),
        exactly_folded("cumsum", x[np.newaxis], axis=0, dtype=kind)[0],
    ):
        assert same_bits(found, wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["halves", "powers", "growing", "falling", "cancelling"])
def test_running_sums_of_which_a_word_holds_the_upper_part(dtype: str, kind: str) -> None:
    """What is below decides half way between two results, and everywhere once what was above has cancelled."""
    rng = exact_calls.generator("words", dtype, kind)
    out, count = cases.dtype_of(dtype), 3000
    limits, source = limits_of(out), np.float64 if dtype == "float16" else out  # whose own sums are short
    least, most = limits.minexp - limits.nmant - 300 * (dtype == "float16"), limits.maxexp - 13
    if kind == "halves":
        exponents = rng.choice([2, 1 - limits.nmant, least, least + limits.nmant], count)
    else:
        exponents = rng.integers(least, most, count)
    signs = rng.choice([-1.0, 1.0], count)
    if kind == "growing":
        exponents.sort()
    elif kind == "falling":
        exponents = np.sort(exponents)[::-1]
    elif kind == "cancelling":
        exponents, signs = np.append(exponents, exponents[::-1]), np.append(signs, -signs[::-1])
    x = np.ldexp(signs, exponents).astype(source)
    for some in (x, x[:100], x[50:350]):
        found = exactly_folded("cumsum", some, dtype=out)
        assert same_bits(found, exactly.scanned(some[:, np.newaxis], out)[:, 0]), len(some)


# ---- squares, and magnitudes: on a grid that many of them share

LAID = [
    *[(40_000, 1, 0), (3000, 3, 0), (600, 7, 0), (300, 200, 0)],
    *[(3000, 3, 1), (300, 40, 1), (20, 700, 1), (3, 20_000, 1)],
]
"""Rows, columns, and which of them are folded: one long sum, a few side by side, columns, rows of few and of many."""


@pytest.mark.parametrize("fold", ["l1", "sumsquare", "l2"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("rows", "columns", "axis"), LAID)
def test_squares_wherever_they_lie(fold: str, dtype: str, rows: int, columns: int, axis: int) -> None:
    """Beside them are some too large for the grid that served before, and some so small that it would cut them off."""
    kind = cases.dtype_of(dtype)
    rng = exact_calls.generator("squares", fold, dtype, rows, columns, axis)
    wide = 0.4 * limits_of(kind).maxexp
    ordinary = hard.uniform(rng, kind, rows, columns).astype(np.float64)
    part = np.arange(rows)[:, np.newaxis] * 5 // rows
    steps = ordinary * 2.0 ** np.choose(part, [0, 12, -12, 40, -40]).clip(-wide, wide)
    single = np.where(rng.random((rows, columns)) < 2 / rows, ordinary * 2.0**wide, ordinary)
    spread = ordinary * 2.0 ** rng.integers(-int(wide), int(wide), (rows, columns))
    special = ordinary.copy()
    special[rows // 2, 0], special[-1, -1] = np.inf, np.nan
    for values in (ordinary, steps, single, spread, special):
        x = values.astype(kind)
        for some in (x, np.asfortranarray(x)):
            wanted = exactly.reduced(fold, some if axis == 0 else some.T, kind)
            assert same_bits(exactly_folded(fold, some, axis=axis), wanted)


def sum_squares_near_each_other() -> None:
    """What a vector of their sums holds apart may be too much for one double, and some are larger than those before."""
    for dtype, length, growth in itertools.product(("float32", "float64"), (5, 40, 80, 216, 440, 1900), (1, 1.35)):
        x = 1 - 0.02 * exact_calls.generator("near", dtype, length).random((400, length))
        x[18:] *= growth
        x = x.astype(dtype)
        for some, axis in ((x, 1), (x.reshape(-1, 2), 0), (x[:399].reshape(-1, 3), 0)):
            wanted = exactly.reduced("sumsquare", some if axis == 0 else some.T, x.dtype)
            assert same_bits(exactly_folded("sumsquare", some, axis=axis), wanted), (dtype, some.shape, growth)


@pytest.mark.parametrize("isa", cases.ISAS)
def test_squares_near_each_other(isa: str) -> None:
    script = "import test_exact_ways; test_exact_ways.sum_squares_near_each_other()"
    processes.output("-c", script, FOLDWISE_ISA=isa)


# ---- what was wrong once


def test_columns_that_are_folded_again_are_counted_once() -> None:
    x = np.ones((2, 200))
    x[:, -1] = 1e300, 1e-300  # after columns whose sums have been kept
    assert fw.Accumulator("sum", "float64", shape=(200,)).update(x).result()[0] == 2
    assert exactly_folded("sum", x, axis=0)[0] == 2
    whole = np.full((2, 200), 3)
    whole[:, -1] = 2**62 + 12345678901, 2**33 + 5
    assert exactly_folded("sumsquare", whole, axis=0, dtype=float)[0] == 18


def wild(shape: tuple[int, int], *words: Any) -> Array:
    """Ordinary numbers, and from the middle on such as no plain way is exact for."""
    rng = exact_calls.generator(*words, shape)
    x = rng.standard_normal(shape)
    x[shape[0] // 2 :] *= 2.0 ** rng.integers(-60, 60, shape)[shape[0] // 2 :]
    x[-5:] *= 2.0 ** rng.integers(-60, 60, shape)[-5:]
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(40, 64), (40, 3), (3000, 8)])
@pytest.mark.parametrize("axis", [0, 1])
def test_fields_of_records_as_elements_and_results(dtype: str, shape: tuple[int, int], axis: int) -> None:
    """Their rows are no multiple of an element apart, or are, but for their beginning."""
    x = wild(shape, "records", dtype, axis).astype(dtype)
    wanted = {fold: exactly_folded(fold, x, axis=axis) for fold in ("sum", "l2", "cumsum")}
    for beside in (np.int8, np.float32):
        records = np.zeros(shape[0], [("first", beside), ("x", dtype, shape[1:]), ("last", beside)])
        records["x"] = x
        for fold, result in wanted.items():
            assert same_bits(exactly_folded(fold, records["x"], axis=axis), result)
        fw.cumsum(x, axis=axis, out=records["x"], accuracy="exact")
        assert same_bits(records["x"], wanted["cumsum"])
        assert not records["first"].any()
        assert not records["last"].any()


@pytest.mark.parametrize("shape", [(40, 64), (40, 3), (3000, 8)])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_into_their_elements(shape: tuple[int, int], axis: int) -> None:
    """Which are needed again where a plain way fails halfway."""
    x = wild(shape, "into", axis)
    wanted = exactly_folded("cumsum", x, axis=axis)
    assert fw.cumsum(x, axis=axis, out=x, accuracy="exact") is x
    assert same_bits(x, wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("columns", [70, 128, 300])
def test_running_sums_of_a_few_columns_on_threads(dtype: str, columns: int) -> None:
    """As many strips as there are threads, or twice as many, and what is left over."""
    kind = cases.dtype_of(dtype)
    rows, rng = (2 << 20) // columns // kind.itemsize, exact_calls.generator("strips", dtype, columns)
    few = rng.normal(size=(23, rows)).astype(kind)
    places = np.arange(columns) % len(few)
    x, wanted = few[places].T.copy(), exactly_folded("cumsum", few, axis=1)[places].T
    for out in (None, np.zeros((len(x), columns + 1), kind)[:, 1:], x):
        assert same_bits(exactly_folded("cumsum", x, axis=0, out=out), wanted), (out is None, out is x)


@pytest.mark.parametrize("count", [300, 2000, 9000])
def test_sums_on_a_grid_may_leave_the_range_on_the_way(count: int) -> None:
    x = np.full(count, 2.0**1017)
    x[0] = 2.0**960
    mean = math.ldexp((2**57 * (count - 1) + 1) / count, 960)
    assert exactly_folded("mean", x) == mean
    y = np.concatenate([x, np.zeros(8192), -x])
    assert exactly_folded("sum", y) == 0
    first, second = (fw.Accumulator("sum", "float64").update(part) for part in (x, -x))
    assert first.merge(second).result() == 0
    z = np.full(count, 2.0**507 * (1 + 2.0**-30))
    z[0] = 2.0**477 * (1 + 2.0**-40)
    small = np.ldexp(z, -507)
    assert exactly_folded("l2", z) == math.ldexp(exactly_folded("l2", small), 507)


def few_that_endings_find_hard(dtype: str, length: int) -> Array:
    """Rows whose mean, or norm, is a number, or half way between two, or nearly; sums that cancel, or leave doubles."""
    rng, kind = exact_calls.generator("few", dtype, length), cases.dtype_of(dtype)
    limits = limits_of(kind)
    ordinary = rng.standard_normal((150, length)) * 0.1
    whole = rng.integers(-9, 10, (300, length)).astype(np.float64)
    last = np.ldexp(1.0, -limits.nmant)
    beside_one = 1 + last * rng.integers(0, 5, (300, length))
    far = np.ldexp(rng.standard_normal((150, length)), rng.integers(-20, 10, (150, length)))
    cancelling = np.concatenate([far, -far * (1 + last)], axis=1)[:, rng.permutation(2 * length)[:length]]
    signs = rng.choice([-1.0, 1.0], (150, length))
    largest = signs * float(limits.max) * (1 - last * rng.integers(0, 3, (150, length)))
    least = signs * float(limits.smallest_subnormal) * rng.integers(0, 4, (150, length))
    mixed = np.where(rng.random((150, length)) < 0.3, least, beside_one[:150])
    half_way = np.zeros((3, 2, 5, length))  # between two numbers of a narrower dtype, but for what comes last
    half_way[..., 0] = [[[1 + 2.0**-8]], [[1 + 2.0**-11]], [[1 + 2.0**-24]]]
    half_way[:, 1] *= length
    if length > 1:
        half_way[..., -1] = np.array([0, 1, -1, 2.0**-40, -(2.0**-40)]) * float(limits.smallest_subnormal)
        half_way[..., 3:, -1] *= 2.0 ** min(1010, 40 - limits.minexp)
    with np.errstate(over="ignore", under="ignore"):
        rows = (ordinary, whole, beside_one, far, cancelling, largest, least, mixed, half_way.reshape(-1, length))
        return np.concatenate([each.astype(kind) for each in rows])


@pytest.mark.parametrize("fold", ["sum", "mean", "sumsquare", "l2"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_what_is_made_of_few(fold: str, dtype: str) -> None:
    """Two doubles tell how most such results are rounded, and what they do not tell is not guessed."""
    for length in (1, 2, 3, 4, 5, 7, 12):
        x = few_that_endings_find_hard(dtype, length)
        for out in ("float16", "bfloat16", "float32", "float64"):
            wanted = exactly.reduced(fold, x.T, cases.dtype_of(out))
            for some, axis in ((x, 1), (np.ascontiguousarray(x.T), 0), (x[:, ::-1], 1)):
                assert same_bits(exactly_folded(fold, some, axis=axis, dtype=out), wanted), (length, out, axis)


def test_a_mean_of_none_is_no_number() -> None:
    for shape, axis in (((3, 0), 1), ((0, 3), 0)):
        assert np.isnan(exactly_folded("mean", np.zeros(shape, np.float32), axis=axis)).all()
    some = exactly_folded("mean", np.ones((2, 3)), axis=1, where=[[True, False, True], [False] * 3])
    assert some[0] == 1
    assert np.isnan(some[1])


def test_means_cut_to_integers_are_those_of_the_default() -> None:
    x = np.array([2**62 + 1, 2**62 + 3])
    for where in (None, True):
        assert exactly_folded("mean", x, where=where, dtype=np.int64) == 2**62 + 2
    with pytest.raises(fw.ArgumentError):
        exactly_folded("mean", [1], where=False, dtype=np.int64)


def test_sixty_four_axes_are_not_too_many() -> None:
    x = np.arange(6).reshape((1,) * 62 + (2, 3))
    assert exactly_folded("sum", x, dtype=float) == 15
    assert exactly_folded("mean", x.astype(float), axis=(0, 63), where=x > 0).ravel().tolist() == [1.5, 4]


def test_prefixes_that_cancel_to_the_least_subnormal() -> None:
    call = exact_calls.drawn("cumsum", "float64", 1012693228073, 100_000)
    assert same_bits(call.found(), call.wanted())


@pytest.mark.parametrize("initial", [2**53 + 1, np.int64(-(2**62) - 1), np.uint64(2**64 - 1), 2**500 + 2**99 + 1])
def test_an_initial_integer_is_taken_whole(initial: Any) -> None:
    x, whole = np.array([[-float(initial), 0.25], [3, 4]]), int(initial)
    wanted = [float(sum(map(Fraction, column), Fraction(whole))) for column in x.T.tolist()]
    streams, lazy = fw.open(x), da.from_array(x, chunks=(1, 2))
    for found in (
        exactly_folded("sum", x, axis=0, initial=initial),
        exactly_folded("sum", x, axis=0, where=True, initial=initial),
        fw.sum(streams, axis=0, initial=initial),
        fw.sum(lazy, axis=0, initial=initial).compute(),
    ):
        assert found.tolist() == wanted
    integers = np.array([[-3, 5], [0, 2**40]])
    wanted = [float(sum(column) + whole) for column in integers.T.tolist()]
    assert exactly_folded("sum", integers, axis=0, dtype=float, initial=initial).tolist() == wanted
    # Nothing but a sum can: others round it first, as a default sum does.
    for name in ("sum", "prod", "max", "min"):
        function = getattr(fw, name)
        for each in (x, x[:0], streams, lazy, x[:0].astype(ml_dtypes.bfloat16)):
            if name != "sum" or isinstance(each, np.ndarray):
                agreed = [np.asarray(function(each, axis=0, initial=start)) for start in (initial, float(initial))]
                assert same_bits(*agreed)


def test_an_initial_integer_is_rounded_once() -> None:
    tie = 2**60 + 2**36  # of two float32
    assert float(exactly_folded("sum", np.zeros(1, np.float32), initial=tie)) == 2**60
    assert float(exactly_folded("sum", np.zeros(1, np.float32), initial=tie + 1)) == 2**60 + 2**37
    assert float(exactly_folded("sum", np.zeros(0, np.float32), initial=tie + 1)) == 2**60 + 2**37
