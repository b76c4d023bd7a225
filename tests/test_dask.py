"""Dask arrays: whatever the chunks, the bits of the array in memory."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from typing import Any

import cases
import dask
import dask.array as da
import exactly
import hard
import hypothesis.strategies as st
import numpy as np
import pytest
from accumulated import NAMES, ROUNDED, SUMS, data, equal, generator
from exact import same_bits
from hypothesis import given, settings
from marks import EVERY_DTYPE, EVERY_FLOAT, EVERY_KIND
from trees import Array

import foldwise as fw

SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
CHUNKS: tuple[Any, ...] = ((23, 34), (3, 34), (23, 7), (11, 16), ((2, 0, 20, 1), (30, 4)), ((5, 5, 13), (1, 1, 1, 31)))
SHAPE = (23, 34)
SUMMING: tuple[dict[str, Any], ...] = (
    {}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True},
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def computed(lazy: da.Array) -> Array:
    """What comes out, which is what was announced."""
    found = np.asarray(lazy.compute())
    assert isinstance(lazy, da.Array)
    assert found.dtype == lazy.dtype
    assert len(found.shape) == len(lazy.shape)
    assert all(math.isnan(said) or said == is_so for said, is_so in zip(lazy.shape, found.shape, strict=True))
    return found


def in_memory(name: str, x: Array, **options: Any) -> Array:
    exact = {"accuracy": "exact"} if name in (*SUMS, "cumsum") else {}
    return np.asarray(getattr(fw, name)(x, **exact, **options))


def rounds(name: str, found: Array) -> bool:
    """Whether each chunk may round."""
    return name in (*ROUNDED, "cumprod", "logcumsumexp", "logsum") and found.dtype.kind not in "iub"


def agree(name: str, found: Array, wanted: Array) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if rounds(name, wanted):
        unit = float(np.finfo(np.float32).eps) if wanted.itemsize < 8 else float(np.finfo(np.float64).eps)
        unit = unit * 2**14 if wanted.itemsize == 2 else unit
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), 200 * unit, 200 * unit)
    elif name in ("max", "min", "cummax", "cummin"):
        assert equal(found, wanted)  # of zeros of both signs a tree chooses one
    else:
        assert found.tobytes() == wanted.tobytes()


# ---- any chunks: the same bits


@EVERY_DTYPE
@pytest.mark.parametrize("name", NAMES)
def test_reductions(name: str, dtype: str) -> None:
    x = data(name, dtype, SHAPE)
    for axis in (None, 0, 1) if name.startswith("arg") else (None, 0, 1, (0, 1), ()):
        wanted, several = in_memory(name, x, axis=axis), CHUNKS[5 * isinstance(axis, tuple) :]
        found = [computed(getattr(fw, name)(da.from_array(x, chunks), axis=axis)) for chunks in several]
        for each in found:
            agree(name, each, wanted)
            if name == "logsum":  # the logarithm of one and the same sum
                assert each.tobytes() == found[0].tobytes()
        kept = computed(getattr(fw, name)(da.from_array(x, CHUNKS[-1]), axis=axis, keepdims=True))
        assert kept.shape == np.asarray(getattr(fw, name)(x, axis=axis, keepdims=True)).shape
        assert same_bits(kept.reshape(found[-1].shape), found[-1])


@EVERY_DTYPE
@pytest.mark.parametrize("name", SCANS)
def test_scans(name: str, dtype: str) -> None:
    like = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min", "logcumsumexp": "logsumexp"}
    x = data(like[name], dtype, SHAPE)
    options: tuple[dict[str, bool], ...] = ({}, {"exclusive": True}, {"include_initial": True})
    calls = [
        {"axis": axis, "reverse": way, **more} for axis in (None, 0, 1) for way in (False, True) for more in options
    ]
    for number, call in enumerate(calls):
        wanted = in_memory(name, x, **call)
        for chunks in CHUNKS if len(call) == 2 and not call["reverse"] else CHUNKS[number % 6 :][:1]:
            agree(name, computed(getattr(fw, name)(da.from_array(x, chunks), **call)), wanted)


@EVERY_KIND
@EVERY_FLOAT
def test_sums_of_hard_data(dtype: str, kind: hard.Kind) -> None:
    rng = generator("dask", dtype, kind.__name__)
    x = kind(rng, cases.dtype_of(dtype), 3, 70).T
    for chunks in (9, ((3, 30, 37), (1, 2))):
        lazy = da.from_array(x, chunks)
        for name in SUMS:
            assert same_bits(computed(getattr(fw, name)(lazy, axis=0)), exactly.reduced(name, x, x.dtype)), name
        for options in SUMMING[::3]:
            assert same_bits(computed(fw.cumsum(lazy, axis=0, **options)), exactly.scanned(x, x.dtype, **options))


@given(st.data())
@settings(max_examples=30)
def test_any_chunks(draw: st.DataObject) -> None:
    shape = draw.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    elements = st.floats(width=32, allow_nan=False, allow_infinity=False)
    x = np.array(draw.draw(st.lists(elements, min_size=math.prod(shape), max_size=math.prod(shape))), np.float32)
    cuts = [draw.draw(st.lists(st.integers(0, n), max_size=4).map(sorted)) for n in shape]
    chunks = tuple(tuple(np.diff([0, *cut, n]).tolist()) for cut, n in zip(cuts, shape, strict=True))
    lazy = da.from_array(x.reshape(shape), chunks)
    total = sum(map(Fraction, x.tolist()))
    with np.errstate(over="ignore"):
        assert computed(fw.sum(lazy, dtype=np.float64)) == float(total)
        assert computed(fw.cumsum(lazy, dtype=np.float64))[-1] == float(total)
    for name in ("sum", "argmin", "any"):
        for axis in (None, 0, 1):
            agree(name, computed(getattr(fw, name)(lazy, axis=axis)), in_memory(name, x.reshape(shape), axis=axis))


def test_no_split_shows() -> None:
    x = data("sum", "float32", (64, 8))
    for split_every in (2, 3, 16, {0: 5}):
        with dask.config.set(split_every=split_every):
            assert same_bits(computed(fw.mean(da.from_array(x, 3), axis=0)), in_memory("mean", x, axis=0))


# ---- options


def test_masks() -> None:
    x = data("sum", "float32", SHAPE)
    lazy, rng = da.from_array(x, (7, 5)), generator("masks")
    for shape in (SHAPE, (34,), (23, 1), ()):
        mask = rng.random(shape) < 0.6
        for name, where in itertools.product(("sum", "mean", "max", "prod", "any", "l2"), (mask, da.from_array(mask))):
            agree(name, computed(getattr(fw, name)(lazy, axis=0, where=where)), in_memory(name, x, axis=0, where=mask))
    assert np.isnan(computed(fw.mean(lazy, axis=0, where=False))).all()
    agree("sum", computed(fw.sum(lazy, where=lazy > 0)), in_memory("sum", x, where=x > 0))


def test_initial_values_count_once() -> None:
    for dtype in ("float16", "int8", "float64"):
        x = data("sum", dtype, SHAPE)
        for name, axis in itertools.product(("sum", "prod", "max", "min"), (0, 1, None)):
            wanted = in_memory(name, x, axis=axis, initial=3)
            agree(name, computed(getattr(fw, name)(da.from_array(x, (7, 5)), axis=axis, initial=3)), wanted)


def test_other_dtypes() -> None:
    for source, result in itertools.product(("int8", "uint64", "int64", "float32"), ("float64", "float16", "int16")):
        if source == "float32" and result == "int16":
            continue
        x = data("sum", source, SHAPE)
        lazy = da.from_array(x, (7, 5))
        for name in ("sum", "mean", "l1", "l2", "sumsquare"):
            wanted = in_memory(name, x, axis=0, dtype=result)
            agree(name, computed(getattr(fw, name)(lazy, axis=0, dtype=result)), wanted)
        for options in SUMMING:
            wanted = in_memory("cumsum", x, axis=0, dtype=result, **options)
            agree("cumsum", computed(fw.cumsum(lazy, axis=0, dtype=result, **options)), wanted)
    x = generator("logs").integers(-50, 50, SHAPE)
    for name in ("logsumexp", "logcumsumexp"):
        wanted = np.asarray(getattr(fw, name)(x, axis=0, dtype=np.int32))
        agree(name, computed(getattr(fw, name)(da.from_array(x, 6), axis=0, dtype=np.int32)), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_overflow_is_judged_by_the_exact_value(dtype: str) -> None:
    rng = generator("overflow", dtype)
    limits = np.iinfo(dtype)
    for low, high in ((limits.min, limits.max), (max(limits.min, -2), 3)):
        x = rng.integers(low, high, (12, 6), dtype, endpoint=True)
        lazy = da.from_array(x, (5, 4))
        for name, result in itertools.product(("sum", "prod", "cumsum", "cumprod"), ("int8", "int64", "uint64")):
            function = getattr(fw, name)
            options: dict[str, Any] = {"axis": 0, "dtype": result}
            wanted = np.asarray(function(x, overflow="saturate", **options))
            agree("judged", computed(function(lazy, overflow="saturate", **options)), wanted)
            try:
                wanted = np.asarray(function(x, overflow="raise", **options))
            except fw.OverflowedError as error:
                with pytest.raises(fw.OverflowedError, match=f"^{re.escape(str(error))}$"):
                    function(lazy, overflow="raise", **options).compute()
            else:
                agree("judged", computed(function(lazy, overflow="raise", **options)), wanted)


def test_products_come_back_from_beyond_their_range() -> None:
    x = np.array([1e300, 1e300, 1e300, 1e-300, 1e-300, 1e-300, 3.0] * 3)
    for chunks in (1, 2, 5, 21):
        lazy = da.from_array(x, chunks)
        assert computed(fw.prod(lazy)) == pytest.approx(27, rel=1e-14)
        np.testing.assert_allclose(computed(fw.cumprod(lazy)), fw.cumprod(x), 1e-14)


def test_running_sums_leave_the_range_and_return() -> None:
    x = np.array([1.7e308, 1.7e308, 1.0, -1.7e308, -1.7e308, 0.5, np.inf, 1.0, -np.inf, 2.0])
    for chunks, options in itertools.product((1, 2, 3, 4), SUMMING):
        assert same_bits(computed(fw.cumsum(da.from_array(x, chunks), **options)), in_memory("cumsum", x, **options))


def test_long_lines_go_on_from_piece_to_piece() -> None:
    rng = generator("pieces")
    for dtype, shape, chunks in (("float32", (700_001,), 350_000), ("float16", (30_000, 20), (15_000, 20))):
        x = rng.standard_normal(shape).astype(dtype)
        for options in SUMMING:
            found = computed(fw.cumsum(da.from_array(x, chunks), axis=0, **options))
            assert same_bits(found, in_memory("cumsum", x, axis=0, **options))


# ---- shapes


def test_unknown_chunk_sizes() -> None:
    x = data("sum", "float32", SHAPE)
    keep = np.arange(23) % 3 > 0
    lazy, rows = da.from_array(x, (7, 5))[da.from_array(keep, 7)], x[keep]
    for name, axis in itertools.product(("sum", "max", "l2", "all"), (None, 0, 1)):
        agree(name, computed(getattr(fw, name)(lazy, axis=axis)), in_memory(name, rows, axis=axis))
    agree("sum", computed(fw.sum(lazy, axis=0, where=lazy > 0)), in_memory("sum", rows, axis=0, where=rows > 0))
    for axis in (0, 1):
        agree("cumsum", computed(fw.cumsum(lazy, axis=axis)), in_memory("cumsum", rows, axis=axis))
    agree("argmax", computed(fw.argmax(lazy, axis=1)), in_memory("argmax", rows, axis=1))
    for function, axis in ((fw.argmax, 0), (fw.argmin, None), (fw.cumsum, None)):
        with pytest.raises(fw.ShapeError, match=r"x has chunks of unknown sizes, .*compute_chunk_sizes"):
            function(lazy, axis=axis)
    with pytest.raises(fw.ShapeError, match=r"where has .* chunks"):
        fw.sum(lazy, where=lazy[:, :7] > 0)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (0, 3)])
def test_few_elements_or_none(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 2.5, np.float32)
    lazy = da.from_array(x, 2)
    for name in NAMES:
        function = getattr(fw, name)
        for axis in (None, *range(len(shape))):
            try:
                wanted = in_memory(name, x, axis=axis)
            except fw.ShapeError as error:
                with pytest.raises(fw.ShapeError, match=f"^{re.escape(str(error))}$"):
                    function(lazy, axis=axis)
            else:
                agree(name, computed(function(lazy, axis=axis)), wanted)
    for name, axis, initial in itertools.product(SCANS, (None, *range(len(shape))), (False, True)):
        wanted = in_memory(name, x, axis=axis, include_initial=initial)
        agree(name, computed(getattr(fw, name)(lazy, axis=axis, include_initial=initial)), wanted)


def test_many_axes() -> None:
    x = data("sum", "float64", (3, 4, 5, 6))
    lazy = da.from_array(x, (2, 3, 2, 4))
    for axes in ((0, 2), (1, 3), (3,), (0, 1, 2, 3), (-1, 0)):
        agree("mean", computed(fw.mean(lazy, axis=axes)), in_memory("mean", x, axis=axes))
    for name, axis in itertools.product(("argmax", "cumsum"), (None, 0, 1, 2, 3)):
        agree(name, computed(getattr(fw, name)(lazy, axis=axis)), in_memory(name, x, axis=axis))


def test_the_last_of_equals() -> None:
    x = data("argmax", "int8", SHAPE)
    for axis in (None, 0, 1):
        wanted = in_memory("argmax", x, axis=axis, select_last_index=True)
        agree("argmax", computed(fw.argmax(da.from_array(x, (7, 5)), axis=axis, select_last_index=True)), wanted)


def test_several_at_once() -> None:
    x = data("sum", "float32", SHAPE)
    names = [name for name in NAMES if not name.startswith("arg")]
    mask = da.from_array(x > -1, 4)
    for axis, keepdims, chunks in ((None, False, (7, 5)), (0, True, (7, 5)), (0, False, SHAPE), (1, True, SHAPE)):
        lazy = da.from_array(x, chunks)
        results = fw.reduce_many(lazy, names, axis, keepdims=keepdims, where=mask)
        for name, announced, found in zip(names, results, dask.compute(*results), strict=True):
            wanted = in_memory(name, x, axis=axis, keepdims=keepdims, where=x > -1)
            assert (announced.dtype, announced.shape) == (wanted.dtype, wanted.shape)
            agree(name, np.asarray(found), wanted)
        agree(
            "mean",
            computed(results[names.index("mean")]),
            in_memory("mean", x, axis=axis, keepdims=keepdims, where=x > -1),
        )
    assert fw.reduce_many(lazy, []) == ()


def test_the_standards_scans() -> None:
    x = data("sum", "float32", (40,))
    lazy = da.from_array(x, 7)
    agree("cumsum", computed(fw.cumulative_sum(lazy)), in_memory("cumsum", x))
    agree(
        "cumprod", computed(fw.cumulative_prod(lazy, include_initial=True)), fw.cumulative_prod(x, include_initial=True)
    )
    with pytest.raises(fw.AxisError, match="axis must be given for rank 2"):
        fw.cumulative_sum(lazy.reshape(8, 5))


# ---- what is refused


def test_refusals() -> None:
    lazy = da.from_array(data("sum", "float32", SHAPE), (7, 5))
    for name in ("sum", "cumsum", "argmax"):
        with pytest.raises(fw.OptionError, match=rf"^{name}: .*out= .*leave it away"):
            getattr(fw, name)(lazy, axis=0, out=np.zeros(34, np.float32))
    with pytest.raises(fw.DtypeError, match="x has dtype complex64"):
        fw.sum(lazy.astype(np.complex64))
    with pytest.raises(fw.DtypeError, match="where has dtype int64"):
        fw.sum(lazy, where=da.ones(34, dtype=np.int64))
    with pytest.raises(fw.ShapeError, match=r"where of shape \(3,\) does not broadcast"):
        fw.sum(lazy, where=np.ones(3, bool))
    with pytest.raises(fw.AxisError, match="axis 2 is out of range"):
        fw.sum(lazy, axis=2)
    other = lazy.map_blocks(lambda block: block.astype(np.float64), dtype=np.float32)
    with pytest.raises(fw.DtypeError, match=r"^sum: a chunk of x has dtype float64, though x says float32.*astype"):
        fw.sum(other).compute()
