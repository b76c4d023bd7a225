"""Streams: what is folded in blocks comes to what the whole array does, wherever it lies and however it is cut."""

from __future__ import annotations

import itertools
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import cases
import hypothesis.strategies as st
import numpy as np
import pytest
import streams
from hypothesis import HealthCheck, given, settings
from marks import EVERY_DTYPE
from streams import agree, in_memory, within
from trees import Array

import foldwise as fw

pytestmark = pytest.mark.usefixtures("small_blocks")

REDUCTIONS = [fold.name for fold in cases.REDUCTIONS]
SCANS = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]
SMALL = 4_300_000
"""A budget that is nearly all spent before the first block."""
WAYS: tuple[dict[str, bool], ...] = (
    {},
    {"exclusive": True},
    {"reverse": True},
    {"include_initial": True},
    {"reverse": True, "exclusive": True},
    {"reverse": True, "include_initial": True},
)


def values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    kind = cases.dtype_of(dtype)
    if dtype in cases.FLOATS:
        return np.asarray((random.standard_normal(shape) * 2.0 ** random.integers(-6, 7, shape)).astype(kind))
    return np.asarray(random.integers(0, 2 if dtype == "bool" else 100, shape).astype(kind))


def axes_of(rank: int) -> list[Any]:
    return [None, *(a for count in range(1, rank + 1) for a in itertools.combinations(range(rank), count))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(300,), (40, 9), (9, 5, 8)], ids=str)
def test_every_kind_of_source(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = values(dtype, shape)
    for kind, place, options in streams.sources(tmp_path, x):
        for name in ("sum", "mean", "max", "l2", "logsumexp"):
            for axis in axes_of(x.ndim):
                found = within(None, name, place, options, axis=axis)
                assert agree(name, found, in_memory(name, x, axis=axis)), (kind, name, axis)
        for name, axis in itertools.product(("argmax", "argmin"), (None, *range(x.ndim))):
            assert agree(name, within(None, name, place, options, axis=axis), getattr(fw, name)(x, axis)), (kind, name)
        for axis in (None, *range(x.ndim)):
            found = within(None, "cumsum", place, options, axis=axis)
            assert agree("cumsum", found, in_memory("cumsum", x, axis=axis)), (kind, axis)


@EVERY_DTYPE
def test_every_reduction(dtype: str, tmp_path: Path) -> None:
    x = values(dtype, (9, 5, 8))
    path = streams.saved(tmp_path / "x.npy", x)
    for name, axis, keepdims in itertools.product(REDUCTIONS, axes_of(3), (False, True)):
        found = within(SMALL, name, path, {}, axis=axis, keepdims=keepdims)
        assert agree(name, found, in_memory(name, x, axis=axis, keepdims=keepdims)), (name, axis)
    for name, axis, last in itertools.product(("argmax", "argmin"), (None, 0, 1, 2), (False, True)):
        found = within(SMALL, name, path, {}, axis=axis, select_last_index=last)
        assert agree(name, found, getattr(fw, name)(x, axis, select_last_index=last)), (name, axis, last)


@EVERY_DTYPE
def test_every_scan(dtype: str, tmp_path: Path) -> None:
    x = values(dtype, (9, 5, 8))
    path = streams.saved(tmp_path / "x.npy", x)
    for name, axis, how in itertools.product(SCANS, (None, 0, 1, 2), WAYS):
        found = within(SMALL, name, path, {}, axis=axis, **how)
        assert agree(name, found, in_memory(name, x, axis=axis, **how)), (name, axis, how)


def test_at_least_five_chunkings_give_the_same_bits(tmp_path: Path) -> None:
    x = (values("float32", (60, 50)) * 10.0 ** np.random.default_rng(2).integers(-30, 30, (60, 50))).astype(np.float32)
    for axis in (None, 0, 1):
        sums, prefixes = set(), set()
        for chunks in (60, 50), (1, 50), (60, 1), (7, 11), (20, 25), (59, 49):
            path = streams.chunked(tmp_path / "x.zarr", x, chunks)
            sums.add(np.asarray(fw.sum(fw.open(path), axis=axis)).tobytes())
            prefixes.add(fw.cumsum(fw.open(path), axis=axis).tobytes())
        assert sums == {np.asarray(fw.sum(x, axis, accuracy="exact")).tobytes()}
        assert prefixes == {fw.cumsum(x, axis, accuracy="exact").tobytes()}


WILD = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(numbers=st.lists(WILD, min_size=1, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=6))
def test_prefixes_are_rounded_once(numbers: list[float], cuts: list[int]) -> None:
    x = np.array(numbers)
    blocks = np.split(x, sorted(min(cut, len(x)) for cut in cuts))
    found = fw.cumsum(fw.open(blocks, shape=x.shape))
    total = Fraction(0)
    for prefix, number in zip(found, numbers, strict=True):
        total += Fraction(number)
        try:
            wanted = float(total)
        except OverflowError:
            wanted = np.inf if total > 0 else -np.inf
        assert prefix == wanted
    assert fw.sum(fw.open(iter(blocks))) == found[-1]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_special_values_reach_what_comes_after(axis: int | None, tmp_path: Path) -> None:
    for special in ([np.inf], [np.nan], [np.inf, -np.inf], [-np.inf], [1e308, 1e308, -1e308, -1e308], [-0.0]):
        x = np.zeros((30, 12)) if special == [-0.0] else values("float64", (30, 12))
        x[[5 + 7 * i for i in range(len(special))][: len(special)], 3] = special
        path = streams.saved(tmp_path / "x.npy", x)
        for name in ("sum", "cumsum", "max", "cummax", "mean"):
            assert agree(name, within(SMALL, name, path, {}, axis=axis), in_memory(name, x, axis=axis)), special


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
def test_integers_are_judged_as_a_whole(name: str, dtype: str, tmp_path: Path) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(5).integers(limits.min, limits.max, (20, 12), dtype, endpoint=True)
    x[:, 0], x[:, 1] = 1, x[:, 1] % 2
    path = streams.saved(tmp_path / "x.npy", x)
    for axis, result in itertools.product((None, 0, 1), (dtype, "int64", "float64", "float32")):
        overflow = ["wrap"] if result.startswith("float") else ["wrap", "saturate"]
        for more in ({"axis": axis, "dtype": result, "overflow": each} for each in overflow):
            assert agree(name, within(SMALL, name, path, {}, **more), in_memory(name, x, **more)), more
    with pytest.raises(fw.OverflowedError, match=name):
        within(SMALL, name, path, {}, axis=1, dtype="int8", overflow="raise")


def test_masks_and_initial_values(tmp_path: Path) -> None:
    x, where = values("float32", (20, 12)), np.random.default_rng(1).random((20, 12)) < 0.6
    path, mask = streams.saved(tmp_path / "x.npy", x), streams.saved(tmp_path / "w.npy", where)
    for name, axis in itertools.product(REDUCTIONS, (None, 0, 1)):
        wanted = in_memory(name, x, axis=axis, where=where)
        for chosen in (where, fw.open(mask)):
            assert agree(name, within(SMALL * 2, name, path, {}, axis=axis, where=chosen), wanted), (name, axis)
    halves = np.split(where, 2)
    for axis in (None, 0, 1):
        blocks = fw.open(iter(np.split(x, 4)), shape=x.shape)
        found = fw.sum(blocks, axis=axis, where=fw.open(iter(halves), shape=x.shape))
        assert agree("sum", found, in_memory("sum", x, axis=axis, where=where))
    with pytest.raises(fw.OptionError, match=r"where= is of blocks that come in their order, .*x\.npy is read"):
        fw.sum(fw.open(path), where=fw.open(iter(halves), shape=x.shape))
    with pytest.raises(fw.OptionError, match="open them with shape="):
        fw.sum(fw.open(path), where=fw.open(iter(halves)))
    for name, initial in ("sum", 2.0**-40), ("prod", 3.0), ("max", 1.0), ("min", -1.0):
        wanted = in_memory(name, x, axis=0, initial=initial)
        assert agree(name, within(SMALL, name, path, {}, axis=0, initial=initial), wanted)
    with pytest.raises(fw.ShapeError, match="where is a source of shape"):
        fw.sum(fw.open(path), where=fw.open(np.ones((3, 3), bool)))
    with pytest.raises(fw.DtypeError, match="where has dtype float32"):
        fw.sum(fw.open(path), where=fw.open(path))


def test_a_mask_is_read_by_one_worker_where_it_is_not_for_two(tmp_path: Path) -> None:
    class Slices:
        shape, dtype, busy = (2000,), np.dtype(bool), 0

        def __getitem__(self, box: Any) -> Array:
            self.busy += 1
            time.sleep(0.01)
            assert self.busy == 1
            self.busy -= 1
            return np.asarray(np.ones(2000, bool)[box])

    path = streams.saved(tmp_path / "x.npy", np.ones(2000))
    assert fw.sum(fw.open(path), where=fw.open(Slices())) == 2000


def test_many_in_one_read(tmp_path: Path) -> None:
    x = values("float64", (30, 12))
    path = streams.saved(tmp_path / "x.npy", x)
    for axis in (None, 0, 1, (0, 1)):
        found = fw.reduce_many(fw.open(path), REDUCTIONS, axis)
        for name, each in zip(REDUCTIONS, found, strict=True):
            assert agree(name, each, in_memory(name, x, axis=axis)), (name, axis)


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_results_go_to_targets(suffix: str, axis: int | None, tmp_path: Path) -> None:
    x = values("float32", (9, 5, 8))
    path, out = streams.saved(tmp_path / "x.npy", x), tmp_path / f"out{suffix}"
    for how in WAYS:
        done = within(SMALL * 3, "cumsum", path, {}, axis=axis, out=fw.open(out, mode="w"), **how)
        assert isinstance(done, fw.Source)
        wanted = in_memory("cumsum", x, axis=axis, **how)
        assert agree("cumsum", _whole(done), wanted), how
    for keepdims in (False, True):
        done = within(SMALL * 3, "sum", path, {}, axis=axis, keepdims=keepdims, out=fw.open(out, mode="w"))
        assert agree("sum", _whole(done), in_memory("sum", x, axis=axis, keepdims=keepdims))
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["x.npy", out.name])


def _whole(source: fw.Source) -> Array:
    buffer = np.empty(source.nbytes, np.uint8)
    return source.read(tuple(slice(0, n) for n in source.shape), buffer)


def test_results_go_to_arrays(tmp_path: Path) -> None:
    x = values("float32", (9, 5))
    path, out = streams.saved(tmp_path / "x.npy", x), np.empty(5, np.float32)
    assert fw.sum(fw.open(path), axis=0, out=out) is out
    assert agree("sum", out, in_memory("sum", x, axis=0))
    with pytest.raises(fw.ShapeError, match="out has shape"):
        fw.sum(fw.open(path), axis=1, out=out)


def test_blocks_of_unknown_length() -> None:
    x = values("float32", (30, 4))
    for axis in (None, 0, (0, 1)):
        assert agree("sum", fw.sum(fw.open(iter(np.array_split(x, 7))), axis=axis), in_memory("sum", x, axis=axis))
    assert fw.argmax(fw.open(iter(np.array_split(x[:, 0], 7)))) == fw.argmax(x[:, 0])
    kept: dict[str, Any] = {"axis": 1}
    for name, more in ("sum", kept), ("cumsum", {"axis": 0}), ("sum", {"where": x > 0}):
        with pytest.raises(fw.OptionError, match="open them with shape="):
            getattr(fw, name)(fw.open(iter([x])), **more)


def test_nothing_to_fold(tmp_path: Path) -> None:
    for shape in (0,), (0, 3), (3, 0):
        path = streams.saved(tmp_path / "x.npy", np.zeros(shape))
        for axis in (None, *range(len(shape))):
            for name in ("sum", "max", "cumsum"):
                found = getattr(fw, name)(fw.open(path), axis=axis)
                assert agree(name, found, in_memory(name, np.zeros(shape), axis=axis))


def test_arrays_without_axes(tmp_path: Path) -> None:
    for kind, place, options in streams.sources(tmp_path, np.array(3.5)):
        for name in ("sum", "mean", "logsumexp", "cumsum"):
            found = within(None, name, place, options)
            assert agree(name, found, in_memory(name, np.array(3.5))), (kind, name)
        assert fw.argmax(fw.open(place, **options)) == 0
        for where in True, fw.open(np.array(True)):
            assert fw.sum(fw.open(place, **options), where=where) == 3.5
        fw.cumsum(fw.open(place, **options), include_initial=True, out=fw.open(tmp_path / "y.npy", mode="w"))
        assert np.load(tmp_path / "y.npy").tolist() == [0, 3.5]
    for dtype in ">f8", "bfloat16":
        assert fw.sum(fw.open(np.array(3.5, cases.dtype_of(dtype)))) == 3.5
