"""Accumulators: however elements are split and merged, the result is that of all at once."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cases
import exactly
import hard
import hypothesis.strategies as st
import numpy as np
import pytest
from accumulated import NAMES, ROUNDED, SUMS, close, data, empty, equal, generator, grown, whole
from exact import same_bits
from hypothesis import given
from marks import EVERY_DTYPE, EVERY_FLOAT, EVERY_KIND
from trees import limits_of

import foldwise as fw
from foldwise.doubles import Doubles

EVERY_NAME = pytest.mark.parametrize("name", NAMES)
EVERY_SUM = pytest.mark.parametrize("name", SUMS)

# ---- exact folds: any tree, and for sums any order


@EVERY_KIND
@EVERY_FLOAT
def test_sums_have_the_same_bits_whatever_the_order(dtype: str, kind: hard.Kind) -> None:
    rng = generator(kind.__name__, dtype)
    x = kind(rng, cases.dtype_of(dtype), 4, 60).T
    for name, shape in itertools.product(SUMS, [(), (4,)]):
        start = empty(name, x, shape)
        wanted, stored = whole(name, x, shape), start.copy().update(x).to_bytes()
        for _ in range(3):
            found = grown(rng, start, rng.permutation(x))
            assert same_bits(np.asarray(found.result()), wanted), name
            assert found.to_bytes() == stored, name
            assert found.count == (len(x) if shape else x.size)
        back = fw.Accumulator.from_bytes(stored)
        assert same_bits(np.asarray(back.result()), wanted), name
        assert back.merge(start).to_bytes() == stored


@EVERY_DTYPE
@EVERY_NAME
def test_every_fold_of_every_dtype(name: str, dtype: str) -> None:
    rng = generator(name, dtype)
    for shape, which in itertools.product([(), (5,), (3, 2)], [0, -1]):
        x = data(name, dtype, (150, *(shape or (2,))), which)
        found, wanted = grown(rng, empty(name, x, shape), x), whole(name, x, shape)
        result = np.asarray(found.result())
        assert result.dtype == wanted.dtype
        assert result.shape == wanted.shape == shape
        if found.accuracy == "exact" and name != "logsum":
            assert equal(result, wanted)
        else:
            assert np.all(close(name, x, result, wanted, len(x) if shape else x.size))


@EVERY_NAME
def test_layouts(name: str) -> None:
    for dtype, shape in itertools.product(("int64", "float16", "float64"), ((), (3, 5))):
        x = data(name, dtype, (6, 3, 5))
        for layout, laid_out in cases.LAYOUTS.items():
            view = laid_out(x)
            found, wanted = (
                np.asarray(empty(name, x, shape).update(each).result()) for each in (view, np.array(view, x.dtype))
            )
            if name in ROUNDED and wanted.dtype.kind == "f":
                assert np.all(close(name, x, found, wanted, x.size)), (layout, dtype)
            else:
                assert equal(found, wanted), (layout, dtype)


@pytest.mark.parametrize("shape", [(), (7,)])
def test_sums_that_doubles_do_not_hold_and_then_do_again(shape: tuple[int, ...]) -> None:
    near = np.random.default_rng(0).normal(size=(100, *shape))
    far = np.stack([np.full(shape, value) for value in (2.0**1000, -(2.0**-1070), 3.0, 2.0**-500)])
    for name in "sum", "l1", "mean":
        kept, both = (empty(name, near, shape).update(near) for _ in range(2))
        few = kept._state.nbytes, kept._state.stored()
        both.update(far)
        other = empty(name, near, shape).update(far).merge(kept)
        assert other.to_bytes() == both.to_bytes()
        assert fw.Accumulator.from_bytes(both.to_bytes()).merge(kept).to_bytes() == other.merge(kept).to_bytes()
        other.subtract(kept)
        for each in both, other:
            each.subtract(empty(name, near, shape).update(far))
            assert each.to_bytes() == kept.to_bytes()
            assert equal(np.asarray(each.result()), np.asarray(kept.result()))
        assert few == (kept._state.nbytes, kept._state.stored())


def test_many_outputs_of_few_elements_take_little_memory() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 1000)).astype(np.float32)
    sums = fw.Accumulator("sum", "float32", shape=1000).update(rows)
    for each in sums, sums.copy().merge(sums), fw.Accumulator.from_bytes(sums.to_bytes()):
        assert isinstance(each._state, Doubles)
        assert each._state.totals.nbytes == 24 * 1000


@given(st.data())
def test_places_count_on(draw: st.DataObject) -> None:
    elements = st.lists(st.sampled_from([-math.inf, -0.0, 0.0, 1.0, math.inf, math.nan]), min_size=1, max_size=12)
    x = np.array(draw.draw(elements))
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(x)), max_size=3)))
    for name in ("argmax", "argmin", "max", "min", "all", "any"):
        blocks = [empty(name, x, ()).update(block) for block in np.split(x, cuts)]
        found = functools.reduce(fw.Accumulator.merge, blocks)
        assert equal(found.result(), getattr(fw, name)(x))
        columns = [empty(name, x, (2,)).update(np.stack([block, -block], 1)) for block in np.split(x, cuts)]
        both = functools.reduce(fw.Accumulator.merge, columns)
        assert equal(both.result(), getattr(fw, name)(np.stack([x, -x], 1), axis=0))


def test_places_in_blocks_of_any_rank_are_counted_in_c_order() -> None:
    x = generator("places").integers(0, 50, (4, 6, 5))
    found = fw.Accumulator("argmax", np.int64).update(x[:1]).update(x[1:].copy(order="F")).result()
    assert found == fw.argmax(x)


def test_integers_beyond_their_range() -> None:
    x = np.array([2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 5])
    unsigned = np.array([2**64 - 1] * 5, np.uint64)
    for name, values in itertools.product(("mean", "l2"), (x, unsigned)):
        found = fw.Accumulator(name, values.dtype).update(values[:2]).update(values[2:]).result()
        assert same_bits(np.asarray(found), exactly.of_integers(name, values))
    for name in ("sum", "prod", "l1", "sumsquare"):
        with np.errstate(over="raise"):
            found = fw.Accumulator(name, "int64").update(x[:2]).merge(fw.Accumulator(name, "int64").update(x[2:]))
        assert found.result() == getattr(fw, name)(x)


def test_threads_merge() -> None:
    x = hard.any_exponent(generator("threads"), np.dtype(np.float32), 1, 40_000)[0]
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda part: fw.Accumulator("sum", "float32").update(part), np.split(x, 8)))
    assert functools.reduce(fw.Accumulator.merge, reversed(parts)).result() == fw.sum(x, accuracy="exact")


# ---- folds that round


def test_default_sums_are_compensated() -> None:
    x = generator("default").standard_normal((400, 3))
    for name, dtype in itertools.product((*SUMS, "logsum"), cases.FLOATS):
        values = np.abs(x).astype(cases.dtype_of(dtype))
        for shape in ((), (3,)):
            found = empty(name, values, shape, accuracy="default")
            for block in np.split(values, 20):
                found.update(block)
            wanted = np.asarray(empty(name, values, shape).update(values).result())
            limits = limits_of(wanted.dtype)
            off = np.abs(np.asarray(found.result()).astype(np.float64) - wanted.astype(np.float64))
            assert np.all(off <= 2 * float(limits.eps) * wanted.astype(np.float64)), (name, dtype)


def test_default_sums_lose_nothing_between_blocks() -> None:
    total = fw.Accumulator("sum", "float64", accuracy="default")
    for _ in range(1000):
        total.update([1.0, 1e-17])
    total.update([-1000.0])
    assert total.result() == 0
    for value in (1e100, *[1.0] * 1000, -1e100):
        total.update([value])
    assert total.result() == 1000


@pytest.mark.parametrize("size", [1e-170, 1e170, 5e-324])
def test_default_squares_stay_in_range(size: float) -> None:
    norm = fw.Accumulator("l2", "float64", accuracy="default").update([0.0]).update([3 * size]).update([4 * size])
    assert norm.result() == pytest.approx(5 * size, rel=1e-15)
    columns = fw.Accumulator("l2", "float64", accuracy="default", shape=(2,))
    columns.update([[3 * size, 0.0]]).update([[4 * size, 0.0]])
    assert columns.result() == pytest.approx([5 * size, 0])
    squares = fw.Accumulator("sumsquare", "float64", accuracy="default").update([size]).update([size])
    assert squares.result() == (math.inf if size > 1 else 0)


@pytest.mark.parametrize("dtype", cases.FLOATS)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_long_products_beyond_the_range(dtype: str, shape: tuple[int, ...]) -> None:
    """Twenty thousand factors, some of which need care, against whole numbers."""
    draw = generator(f"products {dtype} {shape}")
    sizes, signs = draw.uniform(0.01, 100, (20_001, *shape)), draw.choice([-1, 1], (20_001, *shape))
    if shape:  # groups whose first product needs no care while the others do
        sizes[:, 0] = draw.uniform(0.9, 1.1, len(sizes))
    x = (sizes * signs).astype(cases.dtype_of(dtype))
    x[[7, 300, 9_000]] = limits_of(x.dtype).tiny
    x[[8, 9, 301, 19_990]] = limits_of(x.dtype).max
    x[5_000] = limits_of(x.dtype).smallest_subnormal
    for outputs in np.ndindex(shape):
        ratios = [float(v).as_integer_ratio() for v in x[(slice(None), *outputs)]]
        whole_part = math.prod(n for n, _ in ratios)
        bits = abs(whole_part).bit_length()
        exponent = bits - sum(d.bit_length() - 1 for _, d in ratios)
        assert outputs == (0,) or abs(exponent) > 2000
        back = -int(math.copysign(8, exponent))
        steps = abs(exponent) // 8
        found = fw.Accumulator("prod", dtype, shape=shape).update(x)
        found.update(np.full((steps, *shape), 2.0**back, x.dtype))
        wanted = math.ldexp(whole_part // 2 ** (bits - 64), exponent - 64 + back * steps)
        assert float(np.asarray(found.result())[outputs]) == pytest.approx(
            wanted, rel=1e-11 + float(limits_of(x.dtype).eps)
        )
    for value in math.inf, math.nan, 0.0:
        y = np.abs(x)
        y[12_345] = value
        found = fw.Accumulator("prod", dtype, shape=shape).update(y)
        assert np.array_equal(np.asarray(found.result()), np.full(shape, value, x.dtype), equal_nan=True)
        y[3] = 0.0
        found = fw.Accumulator("prod", dtype, shape=shape).update(y)
        assert np.array_equal(np.asarray(found.result()), np.full(shape, value * 0.0, x.dtype), equal_nan=True)


def test_products_leave_the_range_and_come_back() -> None:
    blocks = [[1e300] * 700, [1e-300] * 700, [-1e-308] * 3, [1e308] * 3]
    found = [fw.Accumulator("prod", "float64").update(block) for block in blocks]
    assert functools.reduce(fw.Accumulator.merge, found).result() == pytest.approx(-1, rel=1e-12)
    assert fw.Accumulator("prod", "float32").update(np.full(3, 1e30, "f4")).update(np.zeros(1, "f4")).result() == 0
    nan = fw.Accumulator("prod", "float32").update(np.full(3, np.inf, "f4")).update(np.zeros(1, "f4")).result()
    assert same_bits(nan, np.float32(np.nan))


@pytest.mark.parametrize("name", ["sum", "prod", "logsumexp", "mean", "l2", "logsum"])
@pytest.mark.parametrize("accuracy", ["default", None])
def test_infinities(name: str, accuracy: Any) -> None:
    for values in itertools.product([-math.inf, 1.0, math.inf, math.nan], repeat=3):
        found = fw.Accumulator(name, "float64", accuracy=accuracy)
        for value in values:
            found.update([value])
        wanted = np.asarray(getattr(fw, name)(np.array(values)))
        assert np.isfinite(wanted) or same_bits(np.asarray(found.result()), wanted), values


def test_nans_that_signal() -> None:
    for dtype, name in itertools.product(cases.FLOATS, NAMES):
        word = exactly.infinity_of(cases.dtype_of(dtype)) + 1
        x = exactly.from_words([word, word], cases.dtype_of(dtype))
        for accuracy in ("default", None):
            found = empty(name, x, (), accuracy=accuracy).update(x[:1]).update(x[1:])
            assert same_bits(np.asarray(found.result()), np.asarray(getattr(fw, name)(x)))


# ---- nothing


@EVERY_DTYPE
@EVERY_NAME
def test_nothing(name: str, dtype: str) -> None:
    nothing = np.zeros((0, 3), cases.dtype_of(dtype))
    for shape, axis in (((), None), ((3,), 0)):
        found = empty(name, nothing, shape).update(nothing)
        found.merge(found.copy())
        assert found.count == 0
        if name in ("argmax", "argmin"):
            with pytest.raises(fw.ShapeError, match=name):
                found.result()
        else:
            assert same_bits(np.asarray(found.result()), np.asarray(getattr(fw, name)(nothing, axis=axis)))
    no_outputs = empty(name, nothing, (0,))
    assert no_outputs.update(nothing.T).count == 3
    assert fw.Accumulator.from_bytes(no_outputs.to_bytes()).result().shape == (0,)


# ---- taking away


@EVERY_DTYPE
@EVERY_SUM
def test_what_is_taken_away_was_never_there(name: str, dtype: str) -> None:
    x = data(name, dtype, (40, 3), 0)
    for shape in ((), (3,)):
        start = empty(name, x, shape)
        if start.accuracy != "exact":
            continue
        kept, gone = start.copy().update(x[:25]), start.copy().update(x[25:])
        left = kept.copy().merge(gone).subtract(gone)
        assert left.to_bytes() == kept.to_bytes()
        assert left.count == kept.count
        assert left.subtract(kept).to_bytes() == start.to_bytes()


def test_taking_away_what_cannot_be() -> None:
    infinite = fw.Accumulator("sum", "float64").update([math.inf])
    assert math.isnan(infinite.copy().subtract(infinite).result())
    more = fw.Accumulator("l2", "float64").update([3.0]).subtract(fw.Accumulator("l2", "float64").update([4.0]))
    assert math.isnan(more.result())
    for name, dtype in (("max", "float64"), ("prod", "int64"), ("prod", "float64"), ("argmin", "int8"), ("all", "i1")):
        one = fw.Accumulator(name, dtype)
        with pytest.raises(fw.StateError, match=rf"^subtract: {name} of {one.dtype}, .*exact sums"):
            one.subtract(one.copy())
    with pytest.raises(fw.StateError, match=r"^subtract: .* of 2 element.* from one of 1$"):
        fw.Accumulator("sum", "float64").update([1.0]).subtract(fw.Accumulator("sum", "float64").update([1.0, 2.0]))


def doubled(total: fw.Accumulator, times: int) -> None:
    for _ in range(times):
        total.merge(total)


def test_sums_merged_with_themselves_without_end_are_refused() -> None:
    total = fw.Accumulator("sum", "float64").update([1.7e308])
    with pytest.raises(fw.StateError, match=r"^merge: .* more than an accumulator counts"):
        doubled(total, 60)
    assert total.count == 2**50
    # No elements are left to be counted, yet the sum grows.
    total = fw.Accumulator("sum", "float64").update([1.0]).subtract(fw.Accumulator("sum", "float64").update([-1.0]))
    with pytest.raises(fw.StateError, match="too often"):
        doubled(total, 3000)
    assert total.count == 0
    assert total.result() == math.inf


# ---- what is refused, and that it leaves no trace


def refused(error: type[Exception], says: str, call: Callable[[], Any], *unharmed: fw.Accumulator) -> None:
    before = [each.to_bytes() for each in unharmed]
    with pytest.raises(error, match=says) as caught:
        call()
    assert isinstance(caught.value, fw.FoldwiseError)
    assert [each.to_bytes() for each in unharmed] == before


def test_what_an_accumulator_cannot_be_of() -> None:
    make = fw.Accumulator
    refused(fw.OptionError, "'total' is no reduction; accepted are sum, .*argmin", lambda: make("total", "f4"))
    refused(fw.ArgumentError, "fold = 3 is of type int", lambda: make(3, "f4"))  # type: ignore[arg-type]
    refused(fw.DtypeError, "dtype = 'c16'.*accepted are bool, int8", lambda: make("sum", "c16"))
    refused(fw.DtypeError, "dtype = None", lambda: make("sum", None))
    refused(fw.OptionError, "accuracy = 'high'", lambda: make("sum", "f4", accuracy="high"))  # type: ignore[arg-type]
    refused(fw.OptionError, "prod of float32 has no exact form", lambda: make("prod", "f4", accuracy="exact"))
    refused(fw.ShapeError, r"shape = \(-1,\)", lambda: make("sum", "f4", shape=(-1,)))
    refused(fw.ShapeError, "room for", lambda: make("sum", "f4", shape=(1 << 30, 1 << 30)))
    refused(fw.ArgumentError, "shape = 2.5", lambda: make("sum", "f4", shape=2.5))  # type: ignore[arg-type]
    assert make("sum", bool, shape=3).shape == (3,)
    assert make("max", np.float64, accuracy="default").accuracy == "exact"


def test_blocks_that_do_not_fit() -> None:
    total = fw.Accumulator("sum", "float32", shape=(3,)).update(np.ones((2, 3), "f4"))
    says = "^update: x has dtype float64.*sum of float32.*astype"
    refused(fw.DtypeError, says, lambda: total.update([[1.0] * 3]), total)
    refused(fw.DtypeError, "dtype complex", lambda: total.update(np.ones((1, 3), complex)), total)
    for shape in ((), (3,), (3, 2), (2, 3, 1), (0, 2)):
        call = functools.partial(total.update, np.ones(shape, "f4"))
        refused(fw.ShapeError, rf"^update: x has shape \({', '.join(map(str, shape))},?\).*\(m, 3\)", call, total)
    masked = np.ma.masked_array(np.ones((2, 3), "f4"), False)
    refused(fw.ArgumentError, "^update: a masked array", lambda: total.update(masked), total)
    with pytest.raises(TypeError):
        total.update(np.ones((1, 3)))


def test_accumulators_that_do_not_go_together() -> None:
    one = fw.Accumulator("sum", "float32").update(np.ones(3, "f4"))
    for other in (
        fw.Accumulator("mean", "float32"),
        fw.Accumulator("sum", "float64"),
        fw.Accumulator("sum", "float32", shape=(1,)),
        fw.Accumulator("sum", "float32", accuracy="default"),
    ):
        for call in (one.merge, one.subtract):
            says = f'^{call.__name__}: this is sum of float32, accuracy="exact", the other {other.fold} of'
            refused(fw.StateError, f"{says} {other.dtype}, ", functools.partial(call, other), one, other)
    refused(fw.ArgumentError, "other is of type float", lambda: one.merge(1.0), one)  # type: ignore[arg-type]
    default = fw.Accumulator("mean", "float32", accuracy="default").update(np.ones(3, "f4"))
    refused(fw.StateError, '^merge: mean of float32.*accuracy="exact"', lambda: default.merge(default.copy()), default)
    with pytest.raises(ValueError, match="both must be the same"):
        one.merge(default)


def test_results_and_copies_are_their_owners() -> None:
    for name in NAMES:
        first = fw.Accumulator(name, "float64", shape=(2,)).update([[1.0, 2.0], [4.0, 3.0]])
        before = first.to_bytes()
        second = first.copy()
        second.update([[9.0, 9.0]]).merge(first)
        first.result()[...] = 0
        assert first.to_bytes() == before
        first.merge(first)
        assert first.count == 4


def test_it_says_what_it_is() -> None:
    total = fw.Accumulator("sum", "float32").update(np.ones(1200, "f4"))
    assert repr(total) == '<Accumulator sum of float32, accuracy="exact": 1,200 elements, 1200.0>'
    places = fw.Accumulator("argmax", "int8", shape=(2,)).update(np.ones((1, 2), "i1"))
    assert repr(places) == '<Accumulator argmax of int8, accuracy="exact", shape (2,): 1 element each>'
    assert repr(fw.Accumulator("argmin", "int8")) == '<Accumulator argmin of int8, accuracy="exact": 0 elements>'


def test_arrays_of_the_highest_rank() -> None:
    x = np.ones((1,) * 62 + (3, 2))
    for name in NAMES:
        flat = fw.Accumulator(name, "float64").update(x.reshape(-1))
        assert flat.result() == fw.Accumulator(name, "float64").update(x).result()
        assert fw.Accumulator(name, "float64").update(np.float64(2)).count == 1
        deep = fw.Accumulator(name, "float64", shape=x.shape[2:]).update(x.reshape(1, *x.shape[2:]))
        assert fw.Accumulator.from_bytes(deep.to_bytes()).result().shape == x.shape[2:]
