"""Laws that hold for every array: hypothesis looks for one that breaks them."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import cases
import exact
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
import references
import trees
from cases import Fold
from exact import same_bits
from hypothesis import given
from marks import (
    EVERY_FOLD_WITH_OVERFLOW,
    EVERY_INTEGER,
    EVERY_PAIR,
    EVERY_REDUCTION,
    EVERY_REDUCTION_OF_INTEGERS,
    EVERY_REDUCTION_THAT_JOINS,
    EVERY_REDUCTION_WITH_INITIAL,
    EVERY_SCAN,
    EVERY_WHOLE,
)
from trees import Array

import foldwise as fw

# ---- what is folded: any shape and layout, values of the table's domains or hypothesis' own

SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=40).filter(
    lambda shape: math.prod(shape) < 5000
)
WRITABLE = (
    "C",
    "Fortran",
    "rolled axes",
    "every second",
    "backwards",
    "unaligned",
    "byte-swapped",
    "awkward",
)
INTEGERS = st.sampled_from(("bool", *cases.INTEGERS))
ANY = st.sampled_from(cases.DTYPES)


@st.composite
def made(
    draw: st.DrawFn, dtypes: st.SearchStrategy[str] = ANY, shapes: st.SearchStrategy[Any] = SHAPES
) -> Array:
    """An array of the table's values and layouts, or of whatever values."""
    dtype, shape = draw(dtypes), draw(shapes)
    fold = draw(st.sampled_from(cases.FOLDS))
    domain = draw(st.sampled_from(cases.domains_of(fold, dtype)))
    values = cases.values(dtype, domain, shape)
    if values.size and draw(st.booleans()) and dtype != "bfloat16":
        few = draw(arrays.arrays(dtype, st.integers(1, 20)))
        values = np.resize(few, shape)
    return cases.LAYOUTS[draw(st.sampled_from(list(cases.LAYOUTS)))](values)


WHOLE = made(dtypes=INTEGERS)


def an_axis(data: st.DataObject, x: Array) -> int:
    return data.draw(st.integers(-x.ndim, x.ndim - 1), label="axis")


def some_axes(data: st.DataObject, x: Array) -> tuple[int, ...]:
    chosen = data.draw(st.lists(st.integers(0, x.ndim - 1), unique=True), label="axes")
    return tuple(axis - x.ndim if data.draw(st.booleans()) else axis for axis in chosen)


# ---- axes


@EVERY_REDUCTION
@given(x=made(), data=st.data())
def test_the_order_of_axes_does_not_matter(fold: Fold, x: Array, data: st.DataObject) -> None:
    axes = some_axes(data, x)
    shuffled = data.draw(st.permutations(axes))
    assert same_bits(fold.of(fw)(x, axis=axes), fold.of(fw)(x, axis=tuple(shuffled)))


@EVERY_REDUCTION_THAT_JOINS
@given(x=WHOLE, data=st.data())
def test_integer_axes_fold_one_after_the_other(fold: Fold, x: Array, data: st.DataObject) -> None:
    axes = some_axes(data, x)
    step_by_step = fold.of(fw)(x, axis=())
    for axis in data.draw(st.permutations(axes)):
        step_by_step = fold.of(fw)(step_by_step, axis=axis, keepdims=True)
    assert same_bits(fold.of(fw)(x, axis=axes, keepdims=True), step_by_step)


@EVERY_REDUCTION
@given(x=made(), data=st.data())
def test_keepdims_keeps_the_axes_and_nothing_else(fold: Fold, x: Array, data: st.DataObject) -> None:
    axes = some_axes(data, x)
    kept = fold.of(fw)(x, axis=axes, keepdims=True)
    assert kept.shape == tuple(
        1 if axis in {a % x.ndim for a in axes} else n for axis, n in enumerate(x.shape)
    )
    assert same_bits(kept.squeeze(axes), fold.of(fw)(x, axis=axes))


@EVERY_REDUCTION
@given(x=made())
def test_no_axis_given_means_all(fold: Fold, x: Array) -> None:
    assert same_bits(fold.of(fw)(x), fold.of(fw)(x, axis=tuple(range(x.ndim))))


@EVERY_SCAN
@given(x=made())
def test_a_scan_without_an_axis_flattens(fold: Fold, x: Array) -> None:
    assert same_bits(fold.of(fw)(x), fold.of(fw)(x.reshape(-1), axis=0))


# ---- views


@st.composite
def views(draw: st.DrawFn) -> Array:
    """Axes in any order, steps of any sign and size, some values repeated."""
    rank = draw(st.integers(1, 5))
    longest = {1: 9000, 2: 120, 3: 30, 4: 12, 5: 7}[rank]
    steps = draw(st.lists(st.sampled_from((1, 1, 1, 2, -1, -3, 0)), min_size=rank, max_size=rank))
    shape = tuple(draw(st.integers(1, longest)) for _ in steps)
    dtype = draw(ANY)
    domain = draw(st.sampled_from(cases.domains_of(draw(st.sampled_from(cases.FOLDS)), dtype)))
    values = cases.values(
        dtype, domain, tuple(n * abs(step) or 1 for n, step in zip(shape, steps, strict=True))
    )
    view = values[tuple(slice(None, None, step or 1) for step in steps)]
    return np.broadcast_to(view, shape).transpose(draw(st.permutations(range(rank))))


@EVERY_REDUCTION
@given(x=views(), data=st.data())
def test_any_view_is_reduced_by_its_tree(fold: Fold, x: Array, data: st.DataObject) -> None:
    axes = some_axes(data, x)
    found, wanted = fold.of(fw)(x, axis=axes), references.reference(fold, x, axes, fold.result_of(x))
    assert references.alike(fold, found, wanted, math.prod(x.shape[axis] for axis in axes), x.dtype)


@EVERY_SCAN
@given(x=views(), data=st.data())
def test_any_view_is_scanned_by_its_tree(fold: Fold, x: Array, data: st.DataObject) -> None:
    axis, reverse = an_axis(data, x), data.draw(st.booleans())
    found = fold.of(fw)(x, axis=axis, reverse=reverse)
    wanted = references.reference(fold, x, axis, fold.result_of(x), reverse=reverse)
    assert references.alike(fold, found, wanted, x.shape[axis], x.dtype)


# ---- splitting and merging


@EVERY_REDUCTION_THAT_JOINS
@given(x=WHOLE, data=st.data())
def test_integers_split_and_merge_anywhere(fold: Fold, x: Array, data: st.DataObject) -> None:
    axis = an_axis(data, x)
    at = data.draw(st.integers(0, x.shape[axis]), label="split")
    parts = np.split(x, [at], axis)
    with np.errstate(over="ignore"):
        merged = fold.ufunc(*(fold.of(fw)(part, axis=axis) for part in parts))
    assert same_bits(fold.of(fw)(x, axis=axis), merged)


@EVERY_SCAN
@given(x=made(), data=st.data())
def test_prefixes_do_not_know_what_follows(fold: Fold, x: Array, data: st.DataObject) -> None:
    axis = an_axis(data, x)
    at = data.draw(st.integers(0, x.shape[axis]), label="end")
    first = np.split(x, [at], axis)[0]
    assert same_bits(np.split(fold.of(fw)(x, axis=axis), [at], axis)[0], fold.of(fw)(first, axis=axis))


# ---- scans


@EVERY_SCAN
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("reverse", [False, True])
def test_results_that_leave_past_the_caches_begin_as_others_do(fold: Fold, dtype: str, reverse: bool) -> None:
    count = (17 << 20) // np.dtype(dtype).itemsize + 3
    some = (1 + 0.01 * np.random.default_rng(0).standard_normal(count)).astype(dtype)
    room = np.empty(count + 3, fold.of(fw)(some[:1]).dtype)
    for strange, shift, exclusive in ((None, 0, False), (5, 1, True), (count // 2, 3, False), (count - 2, 2, True)):
        x, out = some.copy(), room[shift : shift + count]
        if strange is not None and x.dtype.kind == "f":
            x[strange] = -np.nan  # results have the one NaN
            far = np.repeat([1e37, 1e-37], 24)  # products leave the range of their accumulators and are done again
            x[count // 2 - 400 : count // 2 - 352] = far if not reverse else far[::-1]
        ours = functools.partial(fold.of(fw), reverse=reverse, exclusive=exclusive)
        part = slice(count // 3, None) if reverse else slice(count - count // 3)
        ours(x, out=out)
        assert same_bits(out[part], ours(x[part])), (strange, shift)


@EVERY_REDUCTION
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_columns_fold_as_each_by_itself(fold: Fold, dtype: str) -> None:
    """Of few rows and of many, from a cache and from memory."""
    rng = np.random.default_rng(0)
    for rows in (3, 9, 12, 31, 32, 35, 63, 64, 65, 100, 128, 161, 200, 256, 320, 321, 513, 1100):
        for columns in (37, 150, (2 << 20) // (rows * np.dtype(dtype).itemsize) + 5):
            x = (1 + 3 * rng.standard_normal((rows, columns))).astype(dtype)
            together = fold.of(fw)(x, axis=0)
            for column in (0, 1, columns // 2, columns - 1):
                assert same_bits(together[column], fold.of(fw)(x[:, column].copy())), (rows, columns, column)


@EVERY_SCAN
@given(x=made(), data=st.data())
def test_exclusive_is_inclusive_shifted(fold: Fold, x: Array, data: st.DataObject) -> None:
    axis = an_axis(data, x)
    inclusive = np.moveaxis(fold.of(fw)(x, axis=axis), axis, 0)
    exclusive = np.moveaxis(fold.of(fw)(x, axis=axis, exclusive=True), axis, 0)
    assert (exclusive[:1] == fold.identity(exclusive.dtype)).all()
    assert same_bits(exclusive[1:], inclusive[:-1])


@EVERY_SCAN
@given(x=made(), data=st.data(), exclusive=st.booleans())
def test_reverse_is_flip_scan_flip(fold: Fold, x: Array, data: st.DataObject, exclusive: bool) -> None:
    axis = an_axis(data, x)
    flipped = np.flip(fold.of(fw)(np.flip(x, axis), axis=axis, exclusive=exclusive), axis)
    assert same_bits(fold.of(fw)(x, axis=axis, reverse=True, exclusive=exclusive), flipped)


@EVERY_SCAN
@given(x=made(), data=st.data(), reverse=st.booleans())
def test_include_initial_is_one_position_more(
    fold: Fold, x: Array, data: st.DataObject, reverse: bool
) -> None:
    axis = an_axis(data, x)
    y = fold.of(fw)(x, axis=axis, include_initial=True, reverse=reverse)
    y = np.moveaxis(np.flip(y, axis) if reverse else y, axis, 0)
    plain = fold.of(fw)(x, axis=axis, reverse=reverse)
    plain = np.moveaxis(np.flip(plain, axis) if reverse else plain, axis, 0)
    assert (y[:1] == fold.identity(y.dtype)).all()
    assert same_bits(y[1:], plain)


@EVERY_PAIR
@given(x=WHOLE, data=st.data())
def test_the_last_prefix_of_integers_is_the_reduction(
    reduction: Fold, scan: Fold, x: Array, data: st.DataObject
) -> None:
    axis = an_axis(data, x)
    if x.shape[axis]:
        assert same_bits(scan.of(fw)(x, axis=axis).take(-1, axis), reduction.of(fw)(x, axis=axis))


@EVERY_SCAN
@given(x=made(), data=st.data())
def test_a_scan_in_place(fold: Fold, x: Array, data: st.DataObject) -> None:
    axis = an_axis(data, x)
    options = data.draw(
        st.sampled_from([{}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}])
    )
    dtype = fold.result_of(x)
    layout = data.draw(st.sampled_from(WRITABLE))
    work = cases.LAYOUTS[layout](x.astype(dtype, order="C"))
    wanted = fold.of(fw)(work.copy(), axis=axis, **options)
    assert fold.of(fw)(work, axis=axis, out=work, **options) is work
    assert same_bits(work.astype(dtype), wanted)


# ---- where, initial, out


@EVERY_REDUCTION_OF_INTEGERS
@given(x=WHOLE, data=st.data())
def test_where_leaves_integers_out(fold: Fold, x: Array, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.sampled_from([n, 1])) for n in x.shape)[data.draw(st.integers(0, x.ndim)) :]
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(shape) < 0.6
    chosen = x[np.broadcast_to(mask, x.shape)]
    assert same_bits(fold.of(fw)(x, where=mask), fold.of(fw)(chosen))


@EVERY_REDUCTION
@given(x=made(), data=st.data())
def test_where_leaves_floats_absent_at_their_place(fold: Fold, x: Array, data: st.DataObject) -> None:
    x = x.astype(x.dtype.newbyteorder("="), order="C")
    axes = some_axes(data, x)
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(x.shape) < 0.5
    masked = fold.of(fw)(x, axis=axes, where=mask)
    floats = trees.is_float(x.dtype)
    absent = np.asarray(fold.tree.absent if floats else fold.identity(x.dtype)).astype(x.dtype)
    for other in (absent, np.asarray(np.inf if floats else 1).astype(x.dtype)):
        assert same_bits(fold.of(fw)(np.where(mask, x, other), axis=axes, where=mask), masked)
    counts = fold.after is cases.quotient
    if axes and not counts and (floats or fold.stays_whole):
        assert same_bits(fold.of(fw)(np.where(mask, x, absent), axis=axes), masked)


@EVERY_REDUCTION
@given(x=made(), data=st.data())
def test_where_everything_changes_nothing(fold: Fold, x: Array, data: st.DataObject) -> None:
    axes = data.draw(st.sampled_from([None, *range(x.ndim)]))
    assert same_bits(fold.of(fw)(x, axis=axes, where=True), fold.of(fw)(x, axis=axes))
    nothing = fold.of(fw)(x, axis=axes, where=False)
    assert np.array_equal(nothing, np.full(np.shape(nothing), fold.of_nothing(fold.result_of(x))), equal_nan=True)


@EVERY_REDUCTION_WITH_INITIAL
@given(x=WHOLE, data=st.data())
def test_initial_joins_once(fold: Fold, x: Array, data: st.DataObject) -> None:
    axis = an_axis(data, x)
    total = fold.of(fw)(x, axis=axis)
    result = fold.result_of(x)
    initial = data.draw(st.integers(0, 1 if result.kind == "b" else int(np.iinfo(result).max)), label="initial")
    with np.errstate(over="ignore"):
        joined = fold.ufunc(np.asarray(total).dtype.type(initial), total)
    assert same_bits(fold.of(fw)(x, axis=axis, initial=initial), joined)


@given(x=made(), data=st.data())
def test_out_receives_the_same_bits(x: Array, data: st.DataObject) -> None:
    fold = data.draw(st.sampled_from(cases.FOLDS))
    axis = an_axis(data, x)
    wanted = fold.of(fw)(x, axis=axis)
    layout = data.draw(st.sampled_from(WRITABLE))
    out = cases.LAYOUTS[layout](np.full(wanted.shape, 77).astype(np.asarray(wanted).dtype))
    assert fold.of(fw)(x, axis=axis, out=out) is out
    assert same_bits(out.astype(out.dtype.newbyteorder("=")), wanted)


# ---- dtypes and overflow


@EVERY_REDUCTION_OF_INTEGERS
@given(x=made(dtypes=st.sampled_from(cases.INTEGERS)), data=st.data())
def test_a_narrow_dtype_wraps(fold: Fold, x: Array, data: st.DataObject) -> None:
    axis = an_axis(data, x)
    if "dtype" not in fold.options:
        return
    narrow = x.dtype.newbyteorder("=")
    found = fold.of(fw)(x, axis=axis, dtype=narrow)
    assert same_bits(found, np.asarray(fold.of(fw)(x, axis=axis)).astype(narrow))
    assert same_bits(found, exact.wrapped(fold.exact(np.moveaxis(x, axis, 0), "reduce")[0], narrow))


@EVERY_FOLD_WITH_OVERFLOW
@given(x=WHOLE, data=st.data())
def test_overflow_is_judged_by_the_exact_value(fold: Fold, x: Array, data: st.DataObject) -> None:
    """The final one of a reduction, each prefix of a scan; never those on the way."""
    axis = an_axis(data, x)
    out = cases.dtype_of(data.draw(st.sampled_from(cases.INTEGERS), label="dtype"))
    values = np.asarray(fold.exact(np.moveaxis(x, axis, 0), "accumulate" if fold.scan else "reduce")[0])
    values = np.moveaxis(values, 0, axis) if fold.scan else values
    assert same_bits(fold.of(fw)(x, axis=axis, dtype=out, overflow="saturate"), exact.clamped(values, out))
    if exact.fits(values, out):
        assert same_bits(fold.of(fw)(x, axis=axis, dtype=out, overflow="raise"), values.astype(out))
    else:
        with pytest.raises(fw.OverflowedError, match=f"^{fold.name}: "):
            fold.of(fw)(x, axis=axis, dtype=out, overflow="raise")


@EVERY_FOLD_WITH_OVERFLOW
@EVERY_WHOLE
def test_only_the_elements_are_judged(fold: Fold, dtype: str) -> None:
    """Not what an earlier call left in memory beside them."""
    large = np.full((8, 64), 2**62, ">u8" if dtype == "bool" or dtype.startswith("u") else ">i8")
    for shape in itertools.product((1, 2, 5), range(1, 66)):
        ones = np.ones(shape, dtype)
        for x, axis in ((ones, 0), (ones, 1), (ones.T, 0), (ones.T, 1)):
            fold.of(fw)(large, axis=axis, overflow="saturate")
            fold.of(fw)(x, axis=axis, dtype="uint8", overflow="raise")


@EVERY_INTEGER
@pytest.mark.parametrize("overflow", ["saturate", "raise"])
def test_a_sum_may_leave_its_range_and_come_back(dtype: str, overflow: Any) -> None:
    limits = np.iinfo(dtype)
    kind = np.dtype(dtype)
    if kind.kind == "i":
        x = np.array([limits.max, limits.max, limits.min, limits.min, 1, 1], kind)
        assert fw.sum(x, dtype=kind, overflow=overflow) == 0
    x = np.array([limits.max] * 5 + [0], kind)
    assert fw.prod(x, dtype=kind, overflow=overflow) == 0
    assert fw.cumprod(x, dtype=kind, overflow="saturate").tolist() == [limits.max] * 5 + [0]
