"""What `broadcast_to` repeats: along kept axes a result is found once and copied, folded ones have their place."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import ml_dtypes
import numpy as np
import pytest
import trees
from cases import FOLDS, Fold
from trees import Array

import foldwise as fw

REDUCTIONS = [fold for fold in FOLDS if not fold.scan]
DTYPES = ("bool", "int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def some(dtype: str, shape: tuple[int, ...]) -> Array:
    numbers = np.random.default_rng(3)
    if dtype == "bool":
        return numbers.integers(0, 2, shape).astype(bool)
    return numbers.integers(1, 4, shape).astype(cases.dtype_of(dtype))


def equal(one: Any, other: Any) -> bool:
    return np.asarray(one).dtype == np.asarray(other).dtype and np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fold", REDUCTIONS, ids=lambda fold: fold.name)
def test_a_result_along_repeated_axes_is_everywhere_the_same(fold: Fold, dtype: str) -> None:
    function = getattr(fw, fold.name)
    for kept, axis in (((7, 1, 40), 2), ((1, 33, 1), 1), ((1, 5, 1), 0), ((3, 1, 1), 0), ((1, 1, 1), 1)):
        x = some(dtype, kept)
        once = function(x, axis=axis, keepdims=True)
        shape = tuple(n if a == axis or n > 1 else 6 for a, n in enumerate(kept))
        many = np.broadcast_to(x, shape)
        wanted = np.broadcast_to(once, tuple(1 if a == axis else n for a, n in enumerate(shape)))
        assert equal(function(many, axis=axis, keepdims=True), wanted), (kept, axis)
        assert equal(function(many, axis=axis), wanted.squeeze(axis)), (kept, axis)
        turned = many.transpose(2, 0, 1)
        assert equal(function(turned, axis=(axis + 1) % 3, keepdims=True), wanted.transpose(2, 0, 1)), (kept, axis)


@pytest.mark.parametrize("dtype", ["bool", "int16", "int64", "float16", "float32", "float64"])
def test_results_are_copied_to_wherever_out_is(dtype: str) -> None:
    x = some(dtype, (4, 1, 9, 1))
    many = np.broadcast_to(x, (4, 3, 9, 5))
    wanted = np.broadcast_to(np.max(x, axis=2), (4, 3, 5))
    room = np.zeros(8 * 6 * 10 * x.itemsize + 1, np.uint8)[1:].view(x.dtype).reshape(8, 6, 10)
    for step in itertools.product((2, -2), (2, -2), (2, -2)):
        room[...] = 0
        out = room[tuple(slice(None, None, each) for each in step)]
        assert fw.max(many, axis=2, out=out) is out
        assert np.array_equal(out, wanted), step
        out[...] = 0
        assert not room.any(), step
    folded = fw.reduce_many(many, ["max", "sum", "mean"], axis=2)
    assert np.array_equal(folded[0], wanted)
    assert equal(folded[1], fw.sum(many, axis=2))
    assert equal(folded[2], fw.mean(many, axis=2))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_a_mask_that_is_not_repeated_tells_results_apart(dtype: str) -> None:
    x = np.broadcast_to(some(dtype, (50, 1)), (50, 30))
    mask = np.random.default_rng(4).integers(0, 2, x.shape).astype(bool)
    for where in (mask, mask[:, :1], mask[:1]):
        assert np.array_equal(fw.sum(x, axis=0, where=where), np.sum(x, axis=0, where=where))
        assert np.array_equal(fw.max(x, axis=0, where=where, initial=0), np.max(x, axis=0, where=where, initial=0))


@pytest.mark.parametrize("dtype", ["uint16", "int64", "float32", "float64"])
def test_a_mask_of_what_is_repeated_from_memory(dtype: str) -> None:
    x = np.broadcast_to(some(dtype, (300_000, 2)), (3, 300_000, 2))
    mask = np.random.default_rng(4).integers(0, 2, x.shape).astype(bool)
    for part, where in ((x, mask), (x[:, ::-1, ::-1], mask[:, :, ::-1])):
        for axis in ((1, 2), 1):
            assert np.array_equal(fw.any(part, axis=axis, where=where), np.any(part, axis=axis, where=where))
            assert np.array_equal(fw.sum(part, axis=axis, where=where), np.sum(part, axis=axis, where=where))


def test_exact_sums_of_repeated_blocks_are_added_to_each_output() -> None:
    x = np.broadcast_to(np.random.default_rng(5).standard_normal((40, 1)), (40, 6))
    kept = fw.Accumulator("sum", "float64", shape=(6,))
    for _ in range(3):
        kept.update(x)
    assert equal(kept.result(), fw.sum(np.concatenate([x] * 3), axis=0, accuracy="exact"))
    assert equal(fw.sum(x, axis=0, accuracy="exact"), np.full(6, fw.sum(x[:, 0].copy(), accuracy="exact")))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("repeats", [2, 3, 7, 15, 16, 33, 500])
def test_folded_repeats_are_inside_all_others_as_a_copy_has_them(dtype: str, repeats: int) -> None:
    numbers = np.random.default_rng(6)
    for kept in ((9, 1, 70), (1, 2000, 1), (700, 1, 1)):
        x = numbers.standard_normal(kept).astype(cases.dtype_of(dtype))
        shape = [n if n > 1 else repeats if a == kept.index(1) else 1 for a, n in enumerate(kept)]
        many = np.broadcast_to(x, shape)
        for axes in ((0, 1, 2), (0, 1), (1, 2)):
            laid_out = np.ascontiguousarray(np.moveaxis(trees.memory_order(many, axes), 0, -1))
            assert equal(fw.sum(many, axis=axes), fw.sum(laid_out, axis=-1)), (kept, axes)
            assert equal(fw.sum(many, axis=axes), fw.sum(many.copy(order="K"), axis=axes)), (kept, axes)


def test_long_and_short_repeats_are_right() -> None:
    """A few of an element are written as a whole vector, but not at the end of what there is room for."""
    rows: list[Array] = [np.arange(100_001), np.arange(7), np.arange(60_000, dtype=np.uint16)]
    for repeats in (2, 7, 17, 100):
        for row in rows:
            total = repeats * int(row.sum(dtype=np.int64))
            for many in (np.broadcast_to(row, (repeats, len(row))), np.broadcast_to(row[:, None], (len(row), repeats))):
                assert fw.sum(many) == total
                assert fw.max(many) == row[-1]
                assert fw.mean(many) == total / many.size
                assert fw.cumsum(many)[-1] == total
                assert fw.sum(many, where=many > 3) == total - repeats * 6


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint64, np.float16, ml_dtypes.bfloat16])
def test_plain_calls_on_swapped_bytes(dtype: Any) -> None:
    x = some(str(np.dtype(dtype)), (5, 6))
    swapped = x.view(np.uint8).reshape(5, 6, -1)[..., ::-1].copy().view(x.dtype.newbyteorder(">"))[..., 0]
    for name in ("sum", "prod", "mean", "max", "l2", "logsumexp", "any"):
        for axis in (None, 0, 1, (0, 1)):
            assert equal(getattr(fw, name)(swapped, axis=axis), getattr(fw, name)(x, axis=axis)), (name, axis)
    assert equal(fw.cumsum(swapped, axis=1), fw.cumsum(x, axis=1))
    assert equal(fw.argmax(swapped, axis=1), fw.argmax(x, axis=1))
    assert equal(fw.sum(swapped, accuracy="exact"), fw.sum(x, accuracy="exact"))
    if x.dtype.kind != "V":
        out = np.empty(6, x.dtype.newbyteorder(">"))
        assert fw.max(swapped, axis=0, out=out) is out
        assert np.array_equal(out, fw.max(x, axis=0))
