"""Largest and smallest elements: arithmetic that would lose a NaN is done again, wherever the NaN lies."""

from __future__ import annotations

import sys
from typing import Any

import cases
import numpy as np
import processes
import pytest
from exact import same_bits
from marks import EVERY_FLOAT, EVERY_ISA
from trees import Array

import foldwise as fw

# One element, less than a vector, some vectors, some blocks; rows and columns, short and long, few and many.
SHAPES: tuple[tuple[int, ...], ...] = (
    *((1,), (3,), (17,), (70,), (2100,), (40_000,)),
    *((3, 40), (40, 3), (70, 300), (300, 70), (2, 5000), (5000, 6), (4500, 40)),
)
DECIDED = ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")
NANS = {"float16": (0x7E00, 0xFE01, 0x7C01), "bfloat16": (0x7FC0, 0xFFC1, 0x7F81)}
NANS["float32"] = (0x7FC00000, 0xFFC00001, 0x7F800001)
NANS["float64"] = (0x7FF8 << 48, 0xFFF8 << 48 | 1, 0x7FF0 << 48 | 1)


def nans(dtype: str) -> list[Array]:
    """Quiet, with a sign and a payload, signalling."""
    kind = cases.dtype_of(dtype)
    return [np.array(bits, f"u{kind.itemsize}").view(kind) for bits in NANS[dtype]]


def places(size: int) -> set[int]:
    return {place for place in (0, 1, 16, 63, size // 2, size - 17, size - 1) if 0 <= place < size}


def nan_anywhere(dtype: str) -> None:
    rng = np.random.default_rng(8)
    for shape in SHAPES:
        x = rng.standard_normal(shape).astype(cases.dtype_of(dtype))
        for turn, place in enumerate(sorted(places(x.size))):
            kept = x.flat[place]
            x.flat[place] = nans(dtype)[turn % 3]
            for axis in (None, *range(x.ndim)):
                check(x, axis)
                check(x[..., ::-1], axis)
            x.flat[place] = kept


def check(x: Array, axis: Any) -> None:
    for name in ("max", "min"):
        found = np.asarray(getattr(fw, name)(x, axis))
        nothing = np.array(-np.inf if name == "max" else np.inf, x.dtype)
        with np.errstate(invalid="ignore"):
            lost = np.isnan(x)
            numbers = getattr(np, name)(np.where(lost, nothing, x), axis)
        wanted = np.where(lost.any(axis), np.array(np.nan, x.dtype), numbers)
        assert same_bits(found, wanted), (name, x.dtype, x.shape, axis)


def odd_one_anywhere(dtype: str) -> None:
    """One element that decides, at every place of short rows, and of lines that do not fill vectors."""
    kind = cases.dtype_of(dtype)
    for length in (1, 7, 15, 31, 33, 129, 200, 257):
        for fold, others, other in ((fw.all, 1, 0), (fw.any, 0, 1), (fw.max, 0, 1), (fw.min, 1, 0)):
            x = np.full((length + 1, length), others, kind)
            x[range(length), range(length)] = other
            assert fold(x, axis=1).astype(int).tolist() == [other] * length + [others], (dtype, length, fold)
    lines = np.zeros((3, 2, 3137), kind)
    for place in (0, 3136, 3100):
        lines[:] = 0
        lines[2, 1, place] = 1
        assert fw.any(lines, axis=(0, 2)).tolist() == fw.max(lines, axis=(0, 2)).astype(bool).tolist() == [False, True]


@EVERY_FLOAT
def test_a_nan_is_the_extreme_wherever_it_lies(dtype: str) -> None:
    nan_anywhere(dtype)


@pytest.mark.parametrize("dtype", DECIDED)
def test_one_element_decides_wherever_it_lies(dtype: str) -> None:
    odd_one_anywhere(dtype)


@EVERY_ISA
def test_on_every_isa(isa: str) -> None:
    processes.output(__file__, FOLDWISE_ISA=isa)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_nan_stays_in_its_chunk(threads: int) -> None:
    fw.set_num_threads(threads)
    x = np.ones((3_000, 700), np.float32)
    x[2_000, 600] = np.nan
    for axis in (None, 0, 1):
        check(x, axis)
    found = fw.reduce_many(x, ["max", "min", "sum"], 0)
    assert [np.flatnonzero(np.isnan(each)).tolist() for each in found] == [[600]] * 3


def test_of_zeros_the_last_in_the_tree_stays() -> None:
    for zeros in ([0.0, -0.0], [-0.0, 0.0]):
        for dtype in cases.FLOATS:
            x = np.array(zeros, cases.dtype_of(dtype))
            assert np.signbit(fw.max(x)) == np.signbit(x[1])
            assert np.signbit(fw.min(x)) == np.signbit(x[1])


if __name__ == "__main__":
    for every in cases.FLOATS:
        nan_anywhere(every)
    for every in DECIDED:
        odd_one_anywhere(every)
    sys.stdout.write("done")
