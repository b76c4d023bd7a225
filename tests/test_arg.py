"""argmax and argmin: where the extreme is, for every dtype, layout, axis and instruction set, as NumPy finds it."""

from __future__ import annotations

import ast
import itertools
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cases
import hypothesis.strategies as st
import numpy as np
import processes
import pytest
import trees
from cases import LAYOUTS
from hypothesis import given
from marks import EVERY_DTYPE, EVERY_FLOAT, EVERY_ISA
from trees import Array

import foldwise as fw

EVERY_PLACE = pytest.mark.parametrize("name", ["argmax", "argmin"])
EVERY_END = pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
# Around vectors, strips and blocks of 1024.
ALONG_SHAPES: tuple[tuple[int, ...], ...] = (
    *((1,), (2,), (9,), (33,), (1025,), (2500,), (1, 1), (5, 67), (67, 5), (17, 200), (200, 17)),
    *((3, 1100), (1100, 3), (9, 1040), (1100, 9), (127, 40), (128, 40)),
    *((2, 3, 4), (6, 7, 33), (65, 3, 9), (2, 3, 4, 5)),
)


def sought(dtype: str, shape: tuple[int, ...]) -> Array:
    """Few values and so many ties, zeros of both signs, or any bits."""
    rng = np.random.default_rng(zlib.crc32(f"{dtype} {shape}".encode()))
    kind = cases.dtype_of(dtype)
    if dtype in cases.FLOATS:
        few = np.array([-3, -0.0, 0.0, 1, 2, 2, -np.inf, np.inf] if sum(shape) % 2 else [-0.0, 0.0, -1, -2])
        return rng.choice(few, shape).astype(kind)
    if sum(shape) % 2:
        return rng.integers(0, 3, shape).astype(kind)
    bits = rng.bytes(int(np.prod(shape)) * kind.itemsize)
    return np.frombuffer(bits, np.uint8 if dtype == "bool" else kind).reshape(shape).astype(kind)


def places(name: str, x: Array, axis: int | None, last: bool) -> Array:
    """By NumPy; bfloat16 as float32, which orders it alike."""
    x = np.ascontiguousarray(x.astype(np.float32) if x.dtype == trees.BFLOAT16 else x)
    find: Callable[..., Any] = getattr(np, name)
    if not last:
        return np.asarray(find(x, axis))
    flipped = x.reshape(-1)[::-1] if axis is None else np.flip(x, axis)
    return np.asarray((x.size if axis is None else x.shape[axis]) - 1 - find(flipped, axis or 0))


def axes_of(x: Array) -> Iterator[int | None]:
    yield None
    yield from (axis - x.ndim if axis % 2 else axis for axis in range(x.ndim))


@EVERY_DTYPE
@EVERY_PLACE
def test_every_layout_and_axis(name: str, dtype: str) -> None:
    for turn, shape in enumerate(ALONG_SHAPES):
        values = sought(dtype, shape)
        for layout in list(LAYOUTS)[turn % 2 :: 2]:
            x = LAYOUTS[layout](values)
            for axis, last in itertools.product(axes_of(x), (False, True)):
                found = getattr(fw, name)(x, axis, select_last_index=last)
                wanted = places(name, x.astype(x.dtype.newbyteorder("=")), axis, last)
                assert found.dtype == np.int64
                assert np.array_equal(found, wanted), (shape, layout, axis, last)


@EVERY_FLOAT
@EVERY_END
@EVERY_PLACE
def test_a_nan_is_more_extreme_than_anything(name: str, last: bool, dtype: str) -> None:
    kind = cases.dtype_of(dtype)
    for length in (1, 2, 7, 16, 33, 100, 1024, 1025, 5000):
        for at in ({0}, {length - 1}, {length // 2}, {length // 3, 2 * length // 3}, {length - 1, 0}):
            x = np.where(np.arange(length) % 3 == 0, np.inf, -np.inf).astype(kind)
            x[list(at)] = np.nan
            x[min(at)] = -x[min(at)]  # of either sign
            wanted = max(at) if last else min(at)
            assert getattr(fw, name)(x, select_last_index=last) == wanted, (length, at)
            for columns in (2, 40):
                stacked = np.stack([x] * columns, axis=1)
                assert (getattr(fw, name)(stacked, 0, select_last_index=last) == wanted).all(), (length, at)


@EVERY_DTYPE
@EVERY_PLACE
def test_rows_of_any_length(name: str, dtype: str) -> None:
    """Of which many elements are equal, and some rows are of nothing but the least or the largest."""
    numbers, kind = np.random.default_rng(11), cases.dtype_of(dtype)
    least, most = (-np.inf, np.inf) if dtype in cases.FLOATS else (0, 1) if dtype == "bool" else limits(kind)
    for length in (*range(1, 150), 255, 256, 511, 513, 1000, 1023, 1024, 1025, 3000, 4096, 4097):
        x = numbers.integers(0, 2 if dtype == "bool" else 4, (37, length)).astype(kind)
        x[1], x[2], x[3, length // 2] = least, most, least
        for last in (False, True):
            wanted = places(name, x, 1, last)
            assert np.array_equal(getattr(fw, name)(x, 1, select_last_index=last), wanted), (length, last)


@EVERY_FLOAT
@EVERY_PLACE
def test_rows_of_which_many_hold_a_nan(name: str, dtype: str) -> None:
    """Before them and behind are rows without one; in cache and from memory, adjoining and apart."""
    numbers = np.random.default_rng(12)
    for length in (20, 700, 2100):
        x = numbers.integers(0, 9, (800, length)).astype(cases.dtype_of(dtype))
        x[20:150, length // 3] = x[60:90, 3] = x[200, -1] = np.nan
        wanted = places(name, x, 1, last=False)
        for rows in x, np.concatenate([x, x], axis=1)[:, :length]:
            assert np.array_equal(getattr(fw, name)(rows, 1), wanted), (length, rows.strides)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "uint32", "int64"])
@EVERY_PLACE
def test_a_search_ends_where_nothing_is_more_extreme(name: str, dtype: str, threads: int) -> None:
    """But that of the last one does not; and some find nothing."""
    fw.set_num_threads(threads)
    kind = cases.dtype_of(dtype)
    least, most = (0, 1) if dtype == "bool" else limits(kind)
    extreme, other = (most, least) if name == "argmax" else (least, most)
    for count in (70, 9000, 2_500_001):
        for where in ([], [0], [count - 1], [count // 3, count // 2], [count // 2, count - 7]):
            x = np.full(count, other, kind)
            x[where] = extreme
            for last in (False, True):
                wanted = (where or [0, count - 1])[-last]
                assert getattr(fw, name)(x, select_last_index=last) == wanted, (count, where, last)
                rows = np.stack([x[:9000], x[-9000:]])
                assert np.array_equal(getattr(fw, name)(rows, 1, select_last_index=last), places(name, rows, 1, last))


@EVERY_PLACE
def test_bytes_that_are_true(name: str) -> None:
    """A mask that is a view of other bytes: all that are not 0 are equal."""
    for count in (12, 70, 5000, 1_500_000):
        x = np.zeros(count, np.uint8) if name == "argmax" else np.full(count, 255, np.uint8)
        x[count // 3], x[count // 2], x[count - 2] = (3, 1, 255) if name == "argmax" else (7, 0, 1)
        for mask in (x.view(bool), x[::-1].view(bool)):
            for last in (False, True):
                wanted = places(name, (mask.view(np.uint8) != 0), None, last)
                assert getattr(fw, name)(mask, select_last_index=last) == wanted, (count, last)
                assert getattr(fw, name)(np.stack([mask] * 3), 1, select_last_index=last)[1] == wanted, (count, last)


@EVERY_FLOAT
@EVERY_PLACE
def test_zeros_of_both_signs_are_equal(name: str, dtype: str) -> None:
    for zeros in ([0.0, -0.0, 0.0], [-0.0, 0.0, -0.0]):
        x = np.array(zeros, cases.dtype_of(dtype))
        assert getattr(fw, name)(x) == 0
        assert getattr(fw, name)(x, select_last_index=True) == 2
        assert getattr(fw, name)(np.stack([x] * 40, axis=1), 0, select_last_index=True).tolist() == [2] * 40


@EVERY_DTYPE
@EVERY_PLACE
def test_all_equal_even_to_the_lowest_and_the_highest(name: str, dtype: str) -> None:
    kind = cases.dtype_of(dtype)
    ends = [-np.inf, np.inf, 0] if dtype in cases.FLOATS else [0, 1] if dtype == "bool" else limits(kind)
    for value, shape in itertools.product(ends, ((7,), (1500,), (3, 40), (1500, 9))):
        x = np.full(shape, value).astype(kind)
        for axis in range(x.ndim):
            assert (getattr(fw, name)(x, axis) == 0).all()
            assert (getattr(fw, name)(x, axis, select_last_index=True) == shape[axis] - 1).all()


def limits(kind: np.dtype[Any]) -> list[float]:
    return [np.iinfo(kind).min, np.iinfo(kind).max]


@EVERY_PLACE
def test_shapes_and_types_of_results(name: str) -> None:
    place: Callable[..., Any] = getattr(fw, name)
    x = np.arange(24.0).reshape(2, 3, 4)
    assert type(place(x)) is np.int64
    assert type(place(x[0, 0], 0)) is np.int64
    assert place(np.float32(3)) == 0
    assert place(x, keepdims=True).shape == (1, 1, 1)
    assert place(x, 1, keepdims=True).shape == (2, 1, 4)
    assert place(x, -1).shape == (2, 3)
    assert place([3, 1, 2]) == (0 if name == "argmax" else 1)
    assert place(x.astype(">f8"), 1).dtype == np.int64
    assert np.array_equal(place(x, 1, keepdims=True)[:, 0], place(x, 1))
    for shape, axis, result in (((0, 3), 1, (0,)), ((3, 0), 0, (0,)), ((2, 0, 3), 2, (2, 0))):
        found = place(np.zeros(shape), axis)
        assert (found.shape, found.dtype) == (result, np.int64)
        assert place(np.zeros(shape), axis, keepdims=True).ndim == len(shape)


@EVERY_END
@EVERY_PLACE
def test_out_of_any_layout(name: str, last: bool) -> None:
    place: Callable[..., Any] = getattr(fw, name)
    for shape, axis in (((40, 50), 0), ((40, 50), 1), ((3000,), None), ((5, 6, 70), 1)):
        x = sought("float32", shape)
        wanted = places(name, x, axis, last)
        for layout in ("C", "Fortran", "every second", "backwards", "unaligned", "byte-swapped", "awkward"):
            out = LAYOUTS[layout](np.full(wanted.shape, 77))
            assert place(x, axis, out, select_last_index=last) is out
            assert np.array_equal(out, wanted), (shape, axis, layout)
        if axis is not None:
            kept = np.full([1 if a == axis else n for a, n in enumerate(shape)], 77)
            place(x, axis, kept, keepdims=True, select_last_index=last)
            assert np.array_equal(kept.squeeze(axis), wanted)


# ---- large arrays, threads, instruction sets

LARGE: tuple[tuple[tuple[int, ...], int | None], ...] = (
    *(((1_000_003,), None), ((1001, 803), 0), ((1001, 803), 1)),
    *(((250_009, 3), 0), ((3, 250_009), 1), ((16, 999, 40), 1)),
)
LARGE_DTYPES = ("float16", "float32", "float64", "int8", "int32", "uint64", "bool")


def large(dtype: str, shape: tuple[int, ...]) -> Iterator[Array]:
    """Ties in every part that a thread may have, or one extreme; and a NaN or two near the end."""
    yield (np.arange(int(np.prod(shape))) % 11 % 2).astype(dtype).reshape(shape)
    x = sought(dtype, shape)
    if dtype in cases.FLOATS:
        x.reshape(-1)[x.size * 2 // 3 :: x.size // 7] = np.nan
    yield x
    yield np.array(x[..., ::-1], order="F")


def digests() -> dict[str, int]:
    return {
        f"{name} {dtype} {shape} {axis} {last} {turn}": zlib.crc32(
            np.ascontiguousarray(getattr(fw, name)(x, axis, select_last_index=last)).tobytes()
        )
        for dtype, (shape, axis) in itertools.product(LARGE_DTYPES, LARGE)
        for turn, x in enumerate(large(dtype, shape))
        for name, last in itertools.product(("argmax", "argmin"), (False, True))
    }


@EVERY_ISA
def test_every_isa_and_number_of_threads(isa: str, here: dict[str, int]) -> None:
    """This file as a script prints its digests."""
    for threads in "1", "2":
        found = ast.literal_eval(processes.output(__file__, FOLDWISE_ISA=isa, FOLDWISE_NUM_THREADS=threads))
        assert found == here


@pytest.fixture(scope="module")
def here() -> dict[str, int]:
    return {
        f"{name} {dtype} {shape} {axis} {last} {turn}": zlib.crc32(
            np.ascontiguousarray(places(name, x, axis, last), np.int64).tobytes()
        )
        for dtype, (shape, axis) in itertools.product(LARGE_DTYPES, LARGE)
        for turn, x in enumerate(large(dtype, shape))
        for name, last in itertools.product(("argmax", "argmin"), (False, True))
    }


@EVERY_ISA
def test_the_table_on_every_isa(isa: str) -> None:
    script = f"""
import test_arg
for dtype in {cases.DTYPES!r}:
    for name in "argmax", "argmin":
        test_arg.test_every_layout_and_axis(name, dtype)
        test_arg.test_all_equal_even_to_the_lowest_and_the_highest(name, dtype)
        if dtype in {cases.FLOATS!r}:
            test_arg.test_rows_of_which_many_hold_a_nan(name, dtype)
        for last in (False, True) if dtype in {cases.FLOATS!r} else ():
            test_arg.test_a_nan_is_more_extreme_than_anything(name, last, dtype)
print("done")
"""
    assert processes.output("-c", script, FOLDWISE_ISA=isa).strip() == "done"


@EVERY_PLACE
@given(data=st.data())
def test_what_is_there_is_the_extreme(name: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(cases.DTYPES))
    shape = tuple(data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=3)))
    x = LAYOUTS[data.draw(st.sampled_from(list(LAYOUTS)))](sought(dtype, shape))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    extreme = (fw.max if name == "argmax" else fw.min)(x, axis, keepdims=True)
    at = getattr(fw, name)(x, axis, keepdims=True, select_last_index=data.draw(st.booleans()))
    assert np.array_equal(np.take_along_axis(x, at, axis), extreme)


if __name__ == "__main__":
    sys.stdout.write(repr(digests()))
