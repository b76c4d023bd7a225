"""Sums and means of integers that are shorter than what they are added in, against NumPy's exact ones of 64 bits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import cases
import exact_calls
import numpy as np
import processes
import pytest
from trees import Array

import foldwise as fw

SHORT = ("bool", "int8", "uint8", "int16", "uint16", "uint32")
# A lane of 16 bits holds 256 bytes, of which a vector has 16 to 64; of 32 bits, 65,536 words of two bytes.
LINES = (1, 15, 47, 48, 63, 64, 65, 255, 1000, 4095, 4096, 4111, 8193, 16_384, 16_447, 16_448, 40_001, 2_200_000)
ROWS = (1, 2, 3, 4, 5, 255, 256, 257, 513, 2000)
COLUMNS = (1, 2, 3, 10, 15, 16, 17, 63, 64, 65, 130, 511, 512, 1000, 2047, 2049, 4100)
MANY_ROWS = ((65_537, 5), (65_536 * 2 + 1, 33))
MANY = (
    ((100_003,), 0),
    ((40, 9000), 1),
    ((3, 70_001), 1),
    ((70_001, 3), 0),
    ((3000, 200), 0),
    ((700, 4900), 0),
    ((3000, 90), 1),
)
NESTS = (
    ((7, 60, 50), (0, 2)),
    ((9, 5, 49), (0, 2)),
    ((6, 5, 48, 3), (0, 1, 2)),
    ((5, 30, 7, 40), (1,)),
    ((3, 4, 5, 60), (0, 2)),
    ((50, 50, 50), (1,)),
)


def limits(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def fillings(dtype: str, *shape: int) -> Iterator[Array]:
    """The least of all, the largest, and any; those where a line of cache begins and beside it."""
    rng = exact_calls.generator("short", dtype, *shape)
    least, most = limits(dtype)
    count = int(np.prod(shape))
    any_ = rng.integers(least, most, count, endpoint=True)
    for start, values in enumerate((np.full(count, least), np.full(count, most), any_)):
        room = np.zeros(count + 64, dtype)
        room[start : start + count] = values
        yield room[start : start + count].reshape(shape)


def check(x: Array, axis: int | tuple[int, ...] | None) -> None:
    exact = x.astype(np.int64).sum(axis=axis)
    assert np.array_equal(fw.sum(x, axis), exact), (x.dtype, x.shape, x.strides, axis)
    assert np.array_equal(fw.mean(x, axis), exact / (x.size // exact.size)), (x.dtype, x.shape, x.strides, axis)


def check_strange(dtype: str) -> None:
    """Elements that are there several times, and such as do not lie where their size has its multiples."""
    *_, row = fillings(dtype, 300)
    windows = np.lib.stride_tricks.sliding_window_view(row, 100)
    for x in (np.broadcast_to(row, (70, 300)), np.broadcast_to(row[:, np.newaxis], (300, 70)), windows, windows[::3]):
        check(x, 0)
        check(x, 1)
    bytes_ = np.zeros(row.nbytes * 40 + 1, np.uint8)
    x = bytes_[1:].view(dtype).reshape(40, 300)
    x[:] = row
    for axis in (0, 1, None):
        check(x, axis)


def check_many(dtype: str) -> None:
    """Several folds of one array, which take turns."""
    folds = ["max", "sum", "min", "mean"]
    for shape, axis in (*MANY, *NESTS):
        for x in fillings(dtype, *shape):
            total = x.astype(np.int64).sum(axis=axis)
            wanted = (x.max(axis), total, x.min(axis), total / (x.size // total.size))
            for each, some, found in zip(folds, wanted, fw.reduce_many(x, folds, axis=axis), strict=True):
                assert np.array_equal(found, some), (each, x.dtype, shape, axis)


def check_lines(dtype: str) -> None:
    for count in LINES:
        for x in fillings(dtype, count):
            check(x, None)
    for rows, columns in itertools.product((1, 3, 130, 700), (47, 48, 64, 70, 128, 300)):
        for x in fillings(dtype, rows, columns):
            check(x, 1)
            check(x[:, 2:], 1)
            check(x[::2], 1)


def check_columns(dtype: str) -> None:
    for rows, columns in itertools.chain(itertools.product(ROWS, COLUMNS), MANY_ROWS):
        for x in fillings(dtype, rows, columns):
            check(x, 0)
    for x in fillings(dtype, 300, 150):
        for some in (x[:, 3:], x[:, :140], x[::3], x[::-1], x[:, ::2], x[:, ::-1], x.T):
            check(some, 0)
    for x in fillings(dtype, 70, 1024):  # rows that all begin at the same place of a line
        for some in (x[:, 3:], x[:, 40:1000], x[::-1, 1:-1], x[1::2], x.reshape(7, 10, 1024)[:, 1:]):
            check(some, 0 if some.ndim == 2 else (0, 1))


def check_nests(dtype: str) -> None:
    for shape, axis in NESTS:
        for x in fillings(dtype, *shape):
            check(x, axis)
            check(x[1:, :, 1:], axis)
            check(np.moveaxis(x, 0, -1), axis)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("isa", cases.ISAS)
def test_every_place(isa: str, dtype: str) -> None:
    script = f"""
import foldwise as fw, test_short_sums as test
for threads in 1, 2, 5:
    fw.set_num_threads(threads)
    test.check_lines({dtype!r})
    test.check_columns({dtype!r})
    test.check_nests({dtype!r})
    test.check_many({dtype!r})
    test.check_strange({dtype!r})
"""
    processes.output("-c", script, FOLDWISE_ISA=isa)


@pytest.mark.parametrize("shape", [(5000,), (70, 80), (80, 70), (4000, 3)])
def test_truths_are_one_whatever_byte_they_are(shape: tuple[int, ...]) -> None:
    """As views of other bytes may be."""
    bytes_ = exact_calls.generator("truths", *shape).integers(0, 256, shape).astype(np.uint8)
    bytes_[..., ::3] = 0
    for axis in (*range(len(shape)), None):
        assert np.array_equal(fw.sum(bytes_.view(np.bool_), axis), np.count_nonzero(bytes_, axis))


@pytest.mark.parametrize("dtype", SHORT[1:])
@pytest.mark.parametrize(("shape", "axis"), [((700, 90), 1), ((700, 90), 0), ((9000, 3), 0), ((40, 2500), 0)])
def test_wherever_they_go(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    """Into dtypes that they wrap in, onto first values, into every second place."""
    *_, x = fillings(dtype, *shape)
    exact = x.astype(np.int64).sum(axis=axis)
    for out in cases.INTEGERS:
        assert np.array_equal(fw.sum(x, axis, dtype=out, initial=3), (exact + 3).astype(out))
    room = np.zeros((2, *exact.shape), cases.accumulated(dtype)).T
    fw.sum(x, axis, out=room[:, 1])
    assert np.array_equal(room[:, 1], exact)
    assert not room[:, 0].any()
    cut = fw.mean(x, axis, dtype=dtype)
    assert np.array_equal(cut, np.trunc(exact / shape[axis]).astype(dtype))
