"""reduce_many: each result is what the function of that name gives, bit for bit, wherever the array lies."""

from __future__ import annotations

import itertools
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import cases
import hypothesis.strategies as st
import numpy as np
import processes
import pytest
from cases import LAYOUTS
from hypothesis import given
from marks import EVERY_DTYPE, EVERY_ISA
from trees import Array

import foldwise as fw

NAMES = tuple(fold.name for fold in cases.REDUCTIONS)
FIVE = ("sum", "max", "min", "l2", "mean")


def same(left: Any, right: Any) -> bool:
    return bool(left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes())


def values(dtype: str, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(zlib.crc32(f"{dtype} {shape}".encode()))
    kind = cases.dtype_of(dtype)
    if dtype in cases.FLOATS:
        # Products of some blocks leave the range and come back; sums and squares mostly do not.
        return np.asarray(rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape), kind)
    high = 2 if dtype == "bool" else 100
    return np.asarray(rng.integers(0, high, shape), kind)


def agree(x: Array, axis: Any, names: tuple[str, ...] = NAMES, **more: Any) -> None:
    together = fw.reduce_many(x, names, axis, **more)
    assert len(together) == len(names)
    for name, found in zip(names, together, strict=True):
        assert same(found, getattr(fw, name)(x, axis, **more)), (name, x.dtype, x.shape, x.strides, axis, more)


def axes_of(rank: int) -> Iterator[tuple[int, ...] | None]:
    yield None
    for count in range(rank + 1):
        yield from itertools.combinations(range(rank), count)


SHAPES: tuple[tuple[int, ...], ...] = (
    *((), (1,), (7,), (2500,), (5, 67), (200, 17), (3, 1100), (1100, 3), (2, 3, 4), (65, 3, 9), (3, 2, 5, 4)),
)


@EVERY_DTYPE
def test_rows_of_some_blocks(dtype: str) -> None:
    """Beyond the size that is read several times at no cost; sixteen-bit floats go a row at a time, others by turns."""
    for shape in ((70, 2300), (20, 8192), (20, 8193)):
        x = values(dtype, shape)
        agree(x, 1)
        agree(x[:, 3:-7], 1, FIVE)


@EVERY_DTYPE
def test_every_layout_and_axes(dtype: str) -> None:
    for turn, shape in enumerate(SHAPES):
        x = values(dtype, shape)
        for layout in list(LAYOUTS)[turn % 3 :: 3]:
            for axes in axes_of(len(shape)):
                agree(LAYOUTS[layout](x), axes)


LARGE: tuple[tuple[tuple[int, ...], Any], ...] = (
    *(((700_001,), None), ((301, 2049), 1), ((301, 2049), 0), ((301, 2049), None), ((90_000, 7), 1)),
    *(((90_000, 7), 0), ((3, 200_003), 0), ((200_003, 3), 1), ((6, 8, 40, 40), (0, 2, 3)), ((6, 40, 3000), 1)),
    *(((9000, 70), 0), ((20, 30_000), 1)),
)
# In no cache: these columns are gone through in steps, in one chunk of rows and in several.
COLUMNS: tuple[tuple[tuple[int, ...], int], ...] = (
    *(((1100, 1531), 0), ((2, 700, 1100), 1), ((9001, 137), 0), ((20_000, 64), 0), ((60_000, 17), 0)),
)


def every_large(dtype: str) -> None:
    for shape, axis in LARGE:
        x = values(dtype, shape)
        agree(x, axis)
        agree(np.asfortranarray(x), axis, FIVE)
        agree(x[..., ::-1], axis, FIVE)


def every_column(dtype: str) -> None:
    for shape, axis in COLUMNS:
        # As many bytes of every dtype.
        rows = tuple(size * 4 // cases.dtype_of(dtype).itemsize if a == axis else size for a, size in enumerate(shape))
        x = values(dtype, rows)
        agree(x, axis)
        if dtype in cases.FLOATS:
            x[rows[0] // 2, ..., rows[-1] // 3] = np.nan
            x[rows[0] // 3, ..., 0] = np.finfo("float16").max
            agree(x, axis)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "bool"])
def test_arrays_larger_than_one_step(dtype: str, threads: int) -> None:
    fw.set_num_threads(threads)
    every_large(dtype)


# A long row; rows of several lengths; stretches of a sequence that lie apart; many rows side by side, and few.
SHARED: tuple[tuple[tuple[int, ...], Any], ...] = (
    *(((200_001,), None), ((1100, 200), 1), ((37, 7001), 1), ((6, 3, 64 * 200), (0, 2)), ((9, 6, 2144), (0, 2))),
    ((9, 5, 2149), (0, 2)),
    *(((1600, 700), 0), ((1555, 704), 0), ((8, 40_003), 0), ((33, 5000), 0), ((3, 130, 1029), 1), ((1024, 129), 0)),
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
def test_folds_that_share_a_loop(dtype: str) -> None:
    """Three or four of these do, in whatever order; what one of them cannot take plainly, it takes again by itself."""
    for shape, axis in SHARED:
        x = values(dtype, shape)
        for count in (3, 4):
            for names in itertools.permutations(("sum", "max", "min", "l2"), count):
                agree(x, axis, names)
        if dtype not in cases.FLOATS:
            continue
        for hard in (np.nan, np.inf, -np.inf, 1e4, 2e38 if dtype != "float16" else 6e4, 1e-30, -0.0):
            y = x.copy()
            y.reshape(-1)[:: y.size // 3 - 7] = hard
            agree(y, axis, ("l2", "sum", "sumsquare", "min", "max", "mean"))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("places", [(3,), (16_000,), (40_000, 250_000), (131_072,), (170_001, 170_002), (299_999,)])
def test_squares_that_leave_their_range_in_some_span(dtype: str, places: tuple[int, ...]) -> None:
    """The loop is left for that span, and gone on with where it ends."""
    x = values(dtype, (300_000,))
    x[list(places)] = np.ldexp(1.0, 600 if dtype == "float64" else 90)
    agree(x, None, ("sum", "max", "min", "sumsquare", "l2"))
    agree(x.reshape(3, -1), 1, ("l2", "max", "mean", "min"))


@pytest.mark.parametrize("rows", [1500, 2300, 9000])
@pytest.mark.parametrize("power", range(52, 64))
def test_squares_that_only_their_sum_spoils(rows: int, power: int) -> None:
    """Each is well within the range, and so is the norm; where their sum leaves it depends on how many there are."""
    x = np.full((rows, 1100), 2.0**power, cases.dtype_of("bfloat16"))
    x[::3, 5:] *= -1
    agree(x, 0, FIVE)
    agree(x, 0, ("l2", "sumsquare", "logsumexp"))


@pytest.mark.parametrize("count", [64, 65, 95, 128, 200, 511, 512, 513, 1024, 1025, 2047, 2048, 2049])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
def test_rows_about_one_block_share_a_loop(dtype: str, count: int) -> None:
    x = values(dtype, (300_000 // count, count))
    agree(x, 1, FIVE)
    agree(x[::3, : count - 1], 1, FIVE)
    if dtype in cases.FLOATS:
        x[7::50, count // 2] = np.nan
        x[9::60, -1] = np.inf
        x[11::70, 0] = np.finfo("float16").max
        agree(x, 1, FIVE)


@pytest.mark.parametrize(("shape", "axis"), SHARED)
def test_means_of_int64_share_a_loop(shape: tuple[int, ...], axis: Any) -> None:
    """They are exact: sums of 128 bits, which no others are."""
    limits = np.iinfo(np.int64)
    x = np.random.default_rng(5).integers(limits.min, limits.max, shape, endpoint=True)
    for y in (x, np.abs(x), values("int64", shape)):
        for names in itertools.permutations(("mean", "max", "sum", "l2"), 3):
            agree(y, axis, (*names, "min"))
        agree(y, axis, ("max", "mean", "min"))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "int64"])
def test_columns_in_steps(dtype: str, threads: int) -> None:
    fw.set_num_threads(threads)
    every_column(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "bool"])
@pytest.mark.parametrize("threads", [5, 16, 43, 100])
def test_strips_of_columns_for_many_threads(dtype: str, threads: int) -> None:
    """Strips of lines of cache, of which there are fewer than threads, as many, or no multiple."""
    fw.set_num_threads(threads)
    for columns in (16, 100, 700, 1029):
        x = values(dtype, (2_000_000 // columns, columns))
        agree(x, 0, ("sum", "max", "l2", "mean", "prod"))


@EVERY_ISA
def test_on_every_isa(isa: str) -> None:
    processes.output(__file__, FOLDWISE_ISA=isa)


@EVERY_DTYPE
def test_where_and_keepdims(dtype: str) -> None:
    for shape, axis in (((40, 50), 0), ((40, 50), 1), ((9000,), None), ((4, 5, 600), (0, 2))):
        x = values(dtype, shape)
        chosen = np.arange(x.size).reshape(shape) % 3 > 0
        for keepdims in (False, True):
            agree(x, axis, keepdims=keepdims)
            agree(x, axis, keepdims=keepdims, where=chosen)
    agree(values(dtype, (40, 50)), 0, where=np.arange(50) % 2 > 0)


def test_the_order_and_the_number_of_the_names() -> None:
    x = values("float32", (30, 400))
    for names in (("min",), ("max", "sum"), ("sum", "sum", "sum"), tuple(reversed(NAMES)), NAMES * 3):
        agree(x, 1, names)
    large = values("float32", (60_000,))
    assert set(fw.reduce_many(large, ["sum", "max"] * 2000)) == {fw.sum(large), fw.max(large)}
    assert fw.reduce_many(x, []) == ()
    found = fw.reduce_many(x, iter(["sum", "max"]))
    assert [type(each) for each in found] == [np.float32, np.float32]
    assert type(fw.reduce_many(x, ["sum"], 0)) is tuple


# Beside what is read past a block of its own pages there is nothing: the process ends.
NARROW_LAST_STRIP = """
import numpy as np, foldwise as fw
for turn in range(20):
    for dtype, columns in (("float32", 8448), ("float32", 15_888), ("float64", 7944)):
        x = np.full((520, columns), 1.5, dtype)
        for found in fw.reduce_many(x, ["sum", "mean", "sum", "prod", "prod"], axis=0)[:3:2]:
            assert (found == 780).all()
"""


def test_a_last_strip_of_columns_much_narrower_than_the_others() -> None:
    processes.output("-c", NARROW_LAST_STRIP, MALLOC_MMAP_THRESHOLD_="65536")
    agree(values("float32", (520, 15_888)), 0, ("sum", "mean", "max", "sum"))
    agree(values("float64", (520, 7944)), 0, ("prod", "prod", "sum", "mean"))


def test_no_elements() -> None:
    for shape, axis in (((0,), None), ((0, 3), 0), ((3, 0), 0), ((2, 0, 3), (1, 2))):
        agree(np.zeros(shape, np.float32), axis)
        agree(np.zeros(shape, np.int32), axis)


def test_products_that_leave_the_range_do_not_disturb_their_neighbours() -> None:
    x = np.full(300_000, 2.0, np.float32)
    x[::2] = 0.5
    x[5000:5200] = 1e30
    x[7000:7200] = 1e-30
    agree(x, None)
    agree(x.reshape(300, 1000), 0)
    agree(np.where(np.arange(x.size) == 8000, np.nan, x), None)


def test_whole_numbers_that_overflow() -> None:
    x = np.full((3, 5000), 2**62, np.int64)
    agree(x, None)
    agree(x, 1)
    agree(np.full((3, 5000), -128, np.int8), 0)


@given(data=st.data())
def test_any_names_of_any_array(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(cases.DTYPES))
    shape = tuple(data.draw(st.lists(st.integers(0, 40), max_size=4)))
    x = LAYOUTS[data.draw(st.sampled_from(list(LAYOUTS)))](values(dtype, shape))
    axes = tuple(a for a in range(len(shape)) if data.draw(st.booleans()))
    names = tuple(data.draw(st.lists(st.sampled_from(NAMES), max_size=6)))
    agree(x, axes, names)


REFUSED: tuple[tuple[Any, dict[str, Any], str], ...] = (
    ("sum", {}, "folds = 'sum' is of type str; give a list of names"),
    (3, {}, "folds = 3 is of type int; give a list of names"),
    (["sum", "argmax"], {}, "'argmax' is no reduction; accepted are sum, prod"),
    (["sum", 3], {}, "3 is no reduction; accepted are sum, prod"),
    (["sum"], {"axis": 2}, "axis 2 is out of range"),
    (["sum"], {"axis": (0, 0)}, "twice"),
    (["sum"], {"keepdims": 1}, "keepdims = 1 is of type int"),
    (np.array("sum"), {}, "folds = array('sum', dtype='<U3') is of type ndarray; give a list of names"),
    (["sum"], {"where": np.ones((2, 3))}, "where has dtype float64"),
)


@pytest.mark.parametrize(("folds", "options", "words"), REFUSED)
def test_what_is_refused(folds: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(fw.FoldwiseError) as caught:
        fw.reduce_many(np.ones((2, 3)), folds, **options)
    assert str(caught.value).startswith("reduce_many: ")
    assert words in str(caught.value)


if __name__ == "__main__":
    for every in ("float32", "bfloat16", "float64", "int8", "uint64"):
        every_large(every)
        every_column(every)
    sys.stdout.write("done")
