"""The numerical contract, a test per sentence: same bits, no bad axis, wide accumulators, special values."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
from collections.abc import Iterator
from typing import Any

import cases
import numpy as np
import pytest
import references
import trees
from cases import Fold
from exact import same_bits
from marks import EVERY_DTYPE, EVERY_FLOAT, EVERY_FOLD, EVERY_FOLD_INTO_FLOATS, EVERY_PAIR, EVERY_REDUCTION, EVERY_WHOLE
from trees import Array

import foldwise as fw

NARROW_FLOATS = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])

ROWS = (1, 2, 3, 7, 8, 16, 17, 33, 100)
LENGTHS = (1, 3, 5, 16, 50, 64, 65, 200, 1025, 2500)


def sample(fold: Fold, dtype: str, *shape: int, domain: int = 0) -> Array:
    return cases.values(dtype, cases.domains_of(fold, dtype)[domain], shape)


# ---- item 2: alignment, and how many other rows the batch holds (ISAs: test_table; threads: test_threads)


@EVERY_FLOAT
@EVERY_FOLD
def test_alignment_never_shows(fold: Fold, dtype: str) -> None:
    shapes = ((3000,), 0), ((17, 200), 0), ((17, 200), 1), ((200, 17), 0), ((200, 17), 1), ((2, 48, 640), 1)
    for shape, axis in shapes:
        x = sample(fold, dtype, *shape)
        wanted = fold.of(fw)(x, axis=axis)
        for offset in (0, 1, 2, 3, 4, 6, 8, 16, 24, 32, 40, 63):
            memory = np.empty(x.nbytes + 128, np.uint8)
            start = -memory.ctypes.data % 64 + offset
            moved = np.ndarray(shape, x.dtype, memory, start)
            moved[...] = x
            assert same_bits(fold.of(fw)(moved, axis=axis), wanted), (shape, axis, offset)
            result = np.ndarray(wanted.shape, wanted.dtype, bytearray(wanted.nbytes + 64), offset % 64)
            fold.of(fw)(x, axis=axis, out=result)
            assert same_bits(result, wanted), ("out", shape, axis, offset)


@EVERY_FLOAT
@EVERY_FOLD
def test_a_row_alone_or_among_others(fold: Fold, dtype: str) -> None:
    for length in LENGTHS:
        batch = sample(fold, dtype, max(ROWS), length)
        alone = np.stack([np.asarray(fold.of(fw)(row, axis=0)) for row in batch])
        for rows in ROWS:
            assert same_bits(fold.of(fw)(batch[:rows], axis=1), alone[:rows]), (rows, length)
            last = batch[-rows:].copy()
            assert same_bits(fold.of(fw)(last, axis=-1), alone[-rows:]), (rows, length)


@EVERY_FLOAT
@EVERY_FOLD
def test_a_column_alone_or_among_others(fold: Fold, dtype: str) -> None:
    for length in LENGTHS:
        batch = sample(fold, dtype, length, max(ROWS))
        alone = np.stack([np.asarray(fold.of(fw)(column.copy(), axis=0)) for column in batch.T], axis=-1)
        for columns in ROWS:
            assert same_bits(fold.of(fw)(batch[:, :columns], axis=0), alone[..., :columns]), (
                columns,
                length,
            )
            last = batch[:, -columns:].copy()
            assert same_bits(fold.of(fw)(last, axis=0), alone[..., -columns:]), (columns, length)


@EVERY_DTYPE
@EVERY_REDUCTION
def test_columns_gathered_as_they_are_read(fold: Fold, dtype: str) -> None:
    """From memory, some rows side by side; few columns, in cache, lie as they are read."""
    for domain in range(len(cases.domains_of(fold, dtype))):
        some = sample(fold, dtype, 100_003, domain=domain)
        for rows in (30, 1_100, 2_200):
            columns = 4_000_000 // (rows * some.itemsize)
            x = np.resize(some, (rows, 2 * columns))[:, ::2]
            chosen = np.random.default_rng(rows).integers(0, 3, x.shape) > 0
            several = x.reshape(rows // 10, 10, columns)[:, :9]
            whole = fold.of(fw)(x, axis=0), fold.of(fw)(x, axis=0, where=chosen), fold.of(fw)(several, axis=(0, 1))
            for first in (0, columns // 2, columns - 20):
                few = slice(first, first + 20)
                alone = (
                    fold.of(fw)(x[:, few].copy(), axis=0),
                    fold.of(fw)(x[:, few].copy(), axis=0, where=chosen[:, few].copy()),
                    fold.of(fw)(several[..., few].reshape(-1, 20), axis=0),
                )
                for i, (among_others, by_itself) in enumerate(zip(whole, alone, strict=True)):
                    assert same_bits(among_others[..., few], by_itself), (domain, rows, first, i)


@EVERY_FLOAT
@EVERY_FOLD
def test_folding_rows_of_the_transposed_copy(fold: Fold, dtype: str) -> None:
    for shape in ((5, 67), (67, 5), (200, 17), (2500, 3), (3, 2500), (300, 130)):
        for domain in range(len(cases.domains_of(fold, dtype))):
            x = sample(fold, dtype, *shape, domain=domain)
            over_columns, over_rows = fold.of(fw)(x, axis=0), fold.of(fw)(x.T.copy(), axis=1)
            assert same_bits(over_columns, over_rows.T if fold.scan else over_rows)


@EVERY_FLOAT
@EVERY_REDUCTION
def test_the_middle_of_four_axes_folds_like_a_flat_row(fold: Fold, dtype: str) -> None:
    x = sample(fold, dtype, 3, 5, 14, 14)
    flat = x.reshape(3, 5, 196)
    assert same_bits(fold.of(fw)(x, axis=(2, 3)), fold.of(fw)(flat, axis=2))
    gathered = x.transpose(1, 0, 2, 3).reshape(5, -1).copy()
    assert same_bits(fold.of(fw)(x, axis=(0, 2, 3)), fold.of(fw)(gathered, axis=1))


@EVERY_FLOAT
@EVERY_REDUCTION
def test_neighbouring_sequences_are_walked_together(fold: Fold, dtype: str) -> None:
    """Large enough for the way that follows memory: each of the outer sequences has a block open meanwhile."""
    walk_together(fold, dtype, (9, 24, 56 * 56))


@EVERY_FLOAT
@EVERY_REDUCTION
def test_stretches_begin_at_any_lane(fold: Fold, dtype: str) -> None:
    """A step that one stretch begins the next ones fill up; and what needs care is made one piece of them."""
    for outer, kept, stretch in ((7, 3, 28 * 28), (3, 70, 28 * 28), (80, 2, 257), (30, 2, 1001), (3, 2, 2049)):
        walk_together(fold, dtype, (outer, kept, stretch))


@pytest.mark.parametrize(("dtype", "shape"), [("float64", (1_129, 40, 10 * 10)), ("float32", (1_799, 51, 10 * 10))])
@EVERY_REDUCTION
def test_neighbouring_sequences_wait_for_whole_blocks(fold: Fold, dtype: str, shape: tuple[int, ...]) -> None:
    """Larger than caches, in stretches that are no whole steps."""
    walk_together(fold, dtype, shape)


def walk_together(fold: Fold, dtype: str, shape: tuple[int, ...]) -> None:
    for domain in range(len(cases.domains_of(fold, dtype))):
        x = sample(fold, dtype, *shape, domain=domain)
        gathered = x.transpose(1, 0, 2).reshape(shape[1], -1).copy()
        alone = np.stack([np.asarray(fold.of(fw)(row, axis=0)) for row in gathered])
        assert same_bits(fold.of(fw)(x, axis=(0, 2)), alone)
        assert same_bits(fold.of(fw)(gathered, axis=1), alone)


@EVERY_FLOAT
@EVERY_REDUCTION
def test_long_rows_follow_the_documented_tree(fold: Fold, dtype: str) -> None:
    """Spans of blocks, whole and in part, whatever their arithmetic leaves: its range, or nothing."""
    for domain in range(len(cases.domains_of(fold, dtype))):
        for length in (16_383, 16_385, 20_000, 70_001):
            x = sample(fold, dtype, 2, length, domain=domain)
            wanted = references.reference(fold, x, (1,), fold.result_of(x))
            found = fold.of(fw)(x, axis=1)
            assert references.alike(fold, found, wanted, length, x.dtype), (domain, length)
            assert same_bits(fold.of(fw)(x[1], axis=0), found[1]), (domain, length)


@EVERY_DTYPE
@EVERY_REDUCTION
def test_long_rows_alone_or_among_others(fold: Fold, dtype: str) -> None:
    """One by one, if there are enough of them for the threads; the blocks of one alone are shared."""
    fw.set_num_threads(2)
    for domain in range(len(cases.domains_of(fold, dtype))):
        some = sample(fold, dtype, 100_003, domain=domain)
        for length in (17_000, 70_001, 300_000):
            x = np.resize(some, (9, length))
            alone = np.stack([np.asarray(fold.of(fw)(row, axis=0)) for row in x])
            assert same_bits(fold.of(fw)(x, axis=1), alone), (domain, length)
            assert same_bits(fold.of(fw)(x[::-1], axis=1), alone[::-1]), (domain, length)


@EVERY_FLOAT
@EVERY_FOLD
def test_strides_of_any_size(fold: Fold, dtype: str) -> None:
    x = sample(fold, dtype, 3000)
    wanted = fold.of(fw)(x, axis=0)
    for step in (2, 3, 5, 16, 33):
        spread = np.full(step * 3000, 99, x.dtype)
        spread[::step] = x
        assert same_bits(fold.of(fw)(spread[::step], axis=0), wanted), step


# ---- item 2: the floating-point environment, and the one NaN

FE_MODES = {"x86_64": {"downward": 0x400, "upward": 0x800, "toward zero": 0xC00}}
FE_MODES["aarch64"] = {"downward": 0x800000, "upward": 0x400000, "toward zero": 0xC00000}


@pytest.fixture
def rounding() -> Iterator[Any]:
    """The C library, whose rounding mode is put back afterwards."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    before = library.fegetround()
    yield library
    library.fesetround(before)


@pytest.mark.parametrize("mode", ["downward", "upward", "toward zero"])
@EVERY_FOLD
def test_rounding_modes_are_set_aside_and_put_back(fold: Fold, mode: str, rounding: Any) -> None:
    number = FE_MODES[platform.machine()][mode]
    samples = [sample(fold, dtype, *shape) for dtype in cases.FLOATS for shape in ((100,), (1001, 301))]
    wanted = [fold.of(fw)(x, axis=0) for x in samples]
    assert rounding.fesetround(number) == 0
    found = [fold.of(fw)(x, axis=0) for x in samples]
    after = rounding.fegetround()
    rounding.fesetround(0)
    assert after == number
    assert all(same_bits(a, b) for a, b in zip(found, wanted, strict=True))


QUIET_NAN = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8000000000000}


@EVERY_FLOAT
@EVERY_FOLD_INTO_FLOATS
def test_one_nan(fold: Fold, dtype: str) -> None:
    """Positive, quiet, without a payload, whatever went in."""
    kind = cases.dtype_of(dtype)
    word = np.dtype(f"u{kind.itemsize}")
    sign = 1 << (8 * kind.itemsize - 1)
    bits = QUIET_NAN[dtype]
    for nan in (bits, bits | sign, bits | 1, bits | sign | 3):
        for length in (1, 2, 70, 3000):
            x = np.ones(length, kind)
            x.view(word)[length // 2] = nan
            assert np.asarray(fold.of(fw)(x, axis=0)).view(word).reshape(-1)[-1] == bits
    infinities = np.array([np.inf, -np.inf, np.inf, 0], kind)
    wanted = trees.rounded(np.asarray(fold.numpy(infinities.astype(np.float64), axis=0)), kind)
    assert same_bits(fold.of(fw)(infinities, axis=0), wanted)
    nobody = fold.of(fw)(np.array([-np.inf, np.nan, 1, np.inf], kind), axis=0)
    assert np.asarray(nobody).view(word).reshape(-1)[-1] == bits


# ---- item 3: no axis is a bad axis

COUNT = 2**25


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((COUNT,), 0),
        ((COUNT, 2), 0),
        ((2, COUNT), 1),
        ((COUNT // 8, 8), None),
        ((COUNT // 8, 8), (0, 1)),
        ((4096, 2, 8192), (0, 2)),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_no_axis_loses_ones(shape: tuple[int, ...], axis: Any, order: Any) -> None:
    ones = np.ones(shape, np.float32, order=order)
    assert np.all(fw.sum(ones, axis=axis) == COUNT)


def test_no_axis_loses_ones_of_a_repeated_value() -> None:
    for shape, axis in (((COUNT, 3), 0), ((3, COUNT), 1), ((COUNT // 4, 2, 4), (0, 2))):
        assert np.all(fw.sum(np.broadcast_to(np.float32(1), shape), axis=axis) == COUNT)


@pytest.mark.parametrize(
    ("shape", "axis"), [((COUNT,), 0), ((COUNT // 2, 2), None), ((COUNT, 1), 0), ((1, COUNT), 1)]
)
def test_no_cumsum_loses_ones(shape: tuple[int, ...], axis: int | None) -> None:
    counted = fw.cumsum(np.ones(shape, np.float32), axis=axis).reshape(-1)
    assert counted[-1] == COUNT
    assert counted[2**24 - 1 : 2**24 + 1].tolist() == [2.0**24, 2.0**24]  # 2**24 + 1, ties to even


@pytest.mark.parametrize(
    ("shape", "axis"), [((60_000,), 0), ((60_000, 3), 0), ((3, 60_000), 1), ((300, 3, 200), (0, 2))]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_sixty_thousand_float16_ones(shape: tuple[int, ...], axis: Any, order: Any) -> None:
    ones = np.ones(shape, np.float16, order=order)
    assert np.all(fw.sum(ones, axis=axis) == 60_000)
    if isinstance(axis, int):
        assert np.all(fw.cumsum(ones, axis=axis).take(-1, axis) == 60_000)


# ---- item 4: sixteen bits are folded in float32 and rounded once


def test_sixteen_bits_leave_their_range_on_the_way() -> None:
    x = np.array([65504, 65504, -65504], np.float16)
    assert fw.sum(x) == 65504
    assert fw.cumsum(x).tolist() == [65504, np.inf, 65504]
    assert fw.prod(np.array([60000, 60000, 1 / 4096, 1 / 4096], np.float16)) == np.float16(
        60000 * (60000 / 2**24)
    )


@NARROW_FLOATS
def test_sixteen_bits_round_once(dtype: str) -> None:
    """Small integers are exact on the way, so what comes out is the exact value, rounded."""
    kind = cases.dtype_of(dtype)
    x = np.random.default_rng(0).integers(-8, 9, (4100, 3)).astype(kind)
    totals = np.cumsum(x.astype(np.float64), axis=0)
    assert same_bits(fw.cumsum(x, axis=0), trees.rounded(totals, kind))
    assert same_bits(fw.sum(x, axis=0), trees.rounded(totals[-1] + 0.0, kind))
    ones = np.ones(4096, kind)
    assert fw.sum(ones) == 4096
    assert same_bits(fw.cumsum(ones), np.arange(1, 4097).astype(np.float64).astype(kind))


# ---- item 6: products do not leave the range on the way


@pytest.mark.parametrize(
    ("dtype", "large"),
    [("float32", 2.0**100), ("float64", 2.0**1000), ("bfloat16", 2.0**100), ("float16", 2.0**14)],
)
@pytest.mark.parametrize("repeat", [1, 2, 100, 5000])
def test_products_come_back(dtype: str, large: float, repeat: int) -> None:
    kind = cases.dtype_of(dtype)
    up = np.array([large] * repeat + [1 / large] * repeat, kind)
    for x in (up, up[::-1].copy(), np.tile(np.array([large, large, 1 / large, 1 / large], kind), repeat)):
        assert fw.prod(x) == 1
        assert fw.cumprod(x)[-1] == 1
        columns = np.stack([x, x, x], axis=1)
        assert (fw.prod(columns, axis=0) == 1).all()
        assert (fw.cumprod(columns, axis=0)[-1] == 1).all()


def test_the_contracts_own_example() -> None:
    x = np.array([1e30, 1e30, 1e-30, 1e-30], np.float32)
    assert fw.prod(x) == 1
    assert fw.cumprod(x).tolist() == [np.float32(1e30), np.inf, np.float32(1e30), 1]
    assert fw.prod(np.array([1e300, 1e300, 1e-300, 1e-300])) == pytest.approx(1, rel=4e-16)


@EVERY_FLOAT
def test_products_end_in_range_or_not(dtype: str) -> None:
    kind = cases.dtype_of(dtype)
    largest, smallest = (
        float(getattr(trees.limits_of(kind), name)) for name in ("max", "smallest_subnormal")
    )
    assert fw.prod(np.array([largest, 2], kind)) == np.inf
    assert fw.prod(np.array([largest, -2], kind)) == -np.inf
    assert float(fw.prod(np.array([smallest, 2, 2], kind))) == 4 * smallest
    assert float(fw.prod(np.array([smallest, 0.25, 4], kind))) == smallest
    vanished = fw.prod(np.array([smallest, -0.25], kind))
    assert vanished == 0
    assert np.signbit(vanished)


# ---- item 7: NaN propagates, inf - inf is NaN, zeros keep the signs they should


@EVERY_FLOAT
def test_infinities_and_zeros(dtype: str) -> None:
    def x(*values: float) -> Array:
        return np.array(values, cases.dtype_of(dtype))

    assert fw.sum(x(np.inf, 1)) == np.inf
    assert fw.sum(x(-np.inf, 1)) == -np.inf
    assert np.isnan(fw.sum(x(np.inf, -np.inf)))
    assert fw.prod(x(np.inf, -2)) == -np.inf
    assert np.isnan(fw.prod(x(np.inf, 0)))
    assert np.isnan(fw.prod(x(0, np.inf)))
    assert np.isnan(fw.cumsum(x(1, np.inf, -np.inf, 1))).tolist() == [False, False, True, True]
    assert np.isnan(fw.cumprod(x(1, np.inf, 0, 1))).tolist() == [False, False, True, True]
    assert np.isnan(fw.cumsum(x(1, np.nan, 1))).tolist() == [False, True, True]
    assert not np.signbit(fw.sum(x(-0.0)))
    assert not np.signbit(fw.sum(x(-0.0, -0.0), axis=0))
    assert np.signbit(fw.prod(x(-0.0)))
    assert np.signbit(fw.cumsum(x(-0.0, -0.0))).all()
    assert np.signbit(fw.cumprod(x(-0.0, 1, -1))).tolist() == [True, True, False]


@EVERY_FLOAT
def test_infinities_across_the_segments_of_a_cumsum(dtype: str) -> None:
    x = np.ones(5000, cases.dtype_of(dtype))
    x[2000] = np.inf
    y = fw.cumsum(x)
    assert np.isfinite(y[:2000]).all()
    assert np.isposinf(y[2000:]).all()
    x[4000] = -np.inf
    y = fw.cumsum(x)
    assert np.isposinf(y[2000:4000]).all()
    assert np.isnan(y[4000:]).all()


# ---- item 8: the integer half, and running sums that never fall


@EVERY_WHOLE
@EVERY_PAIR
def test_the_last_of_an_integer_scan_is_the_reduction(reduction: Fold, scan: Fold, dtype: str) -> None:
    for shape in ((1,), (9,), (1025,), (30_000,)):
        x = sample(scan, dtype, *shape)
        assert same_bits(scan.of(fw)(x)[-1], reduction.of(fw)(x))


@EVERY_FLOAT
def test_a_running_sum_of_non_negative_data_never_falls(dtype: str) -> None:
    rng = np.random.default_rng(5)
    kind = cases.dtype_of(dtype)
    count = 300_000
    scale = 2.0**-12 if dtype == "float16" else 1.0
    for x in (
        rng.random(count),
        np.abs(rng.standard_normal(count)) * 2.0 ** rng.uniform(-20, 2, count),
        (rng.random(count) < 0.01) + 2.0**-20,
        2.0 ** -rng.permutation(np.arange(count) % 24).astype(float),
        np.full(count, 0.1),
    ):
        data = (x * scale).astype(kind)
        for whole in (data, data.reshape(-1, 3), data.reshape(3, -1)):
            for axis in range(whole.ndim):
                y = fw.cumsum(whole, axis=axis).astype(np.float64)
                assert (np.diff(y, axis=axis) >= 0).all()
        backwards = fw.cumsum(data, reverse=True).astype(np.float64)
        assert (np.diff(backwards) <= 0).all()
