"""What comes back: dtypes, shapes, ranks, empty arrays, where and initial, agreement with NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import domains
import numpy as np
import pytest
import references
import trees
from cases import Fold
from exact import same_bits
from marks import (
    EVERY_DTYPE,
    EVERY_FOLD,
    EVERY_FOLD_OF_INTEGERS,
    EVERY_FOLD_WITH_DTYPE,
    EVERY_REDUCTION,
    EVERY_REDUCTION_OF_INTEGERS,
    EVERY_WHOLE,
)

import foldwise as fw

# ---- what comes back


@EVERY_DTYPE
@EVERY_REDUCTION
def test_full_reductions_give_numpy_scalars(fold: Fold, dtype: str) -> None:
    kind = cases.dtype_of(fold.result(dtype))
    x = np.ones((2, 3), cases.dtype_of(dtype))
    for result in (
        fold.of(fw)(x),
        fold.of(fw)(x, axis=(0, 1)),
        fold.of(fw)(x[0], axis=0),
        fold.of(fw)(x[0, 0]),
    ):
        assert type(result) is kind.type
    assert type(fold.of(fw)(x, axis=0)) is np.ndarray
    assert fold.of(fw)(x, keepdims=True).shape == (1, 1)
    assert isinstance(fold.of(fw)(x, where=True), kind.type)


@EVERY_DTYPE
@EVERY_FOLD
def test_result_dtypes(fold: Fold, dtype: str) -> None:
    x = np.ones((2, 3), cases.dtype_of(dtype))
    wanted = cases.dtype_of(fold.result(dtype))
    assert fold.of(fw)(x, axis=0).dtype == wanted
    assert fold.of(fw)(x.astype(x.dtype.newbyteorder()), axis=0).dtype == wanted
    assert fold.of(fw)(x, axis=0).dtype.isnative
    if dtype != "bfloat16" and hasattr(np, fold.name):
        assert wanted == fold.of(np)(x, axis=0).dtype
    for name in cases.allowed_results(fold, dtype):
        chosen = cases.dtype_of(name)
        for spelling in (chosen, chosen.type, name):
            assert fold.of(fw)(x, axis=0, dtype=spelling).dtype == chosen


@EVERY_FOLD
def test_integers_of_one_size_by_any_name(fold: Fold) -> None:
    """C has several types of 64 bits; NumPy keeps them apart."""
    for name in ("b", "h", "i", "l", "q", "n", "B", "H", "I", "L", "Q", "N"):
        x = np.arange(1, 7).astype(name).reshape(2, 3)
        result = fold.of(fw)(x, axis=0)
        assert np.allclose(result, fold.numpy(x, axis=0), rtol=1e-15)
        if "dtype" in fold.options:
            assert fold.of(fw)(x, axis=0, dtype=name).dtype.itemsize == x.itemsize
        wide = np.empty(result.shape, {"q": "l", "Q": "L"}.get(result.dtype.char, result.dtype))
        assert fold.of(fw)(x, axis=0, out=wide) is wide
        assert np.array_equal(wide, result)
        assert np.array_equal(fold.of(fw)(x.byteswap().view(x.dtype.newbyteorder()), axis=0), result)


@EVERY_FOLD_WITH_DTYPE
def test_pythons_own_types_name_dtypes(fold: Fold) -> None:
    assert fold.of(fw)([1, 2], axis=0, dtype=int).dtype == np.int64
    assert fold.of(fw)([1, 2], axis=0, dtype=float).dtype == np.float64
    assert fold.of(fw)([1, 2], axis=0, dtype=">f4").dtype == np.float32


@EVERY_FOLD
def test_out_is_returned_itself(fold: Fold) -> None:
    x = np.arange(6.0).reshape(2, 3)
    kind = fold.result_of(x)
    out = np.empty((2, 3) if fold.scan else (3,), kind)
    assert fold.of(fw)(x, axis=0, out=out) is out
    assert np.array_equal(out, fold.of(fw)(x, axis=0))
    if not fold.scan:
        scalar = np.empty((), kind)
        assert fold.of(fw)(x, out=scalar) is scalar
        assert scalar == fold.of(fw)(x)
        kept = np.empty((1, 3), kind)
        assert fold.of(fw)(x, axis=0, keepdims=True, out=kept) is kept
        assert np.array_equal(kept[0], out)


@EVERY_FOLD
def test_results_are_new_writable_dense_arrays(fold: Fold) -> None:
    for layout in cases.LAYOUTS.values():
        x = layout(np.ones((2, 3, 4), np.float32))
        result = fold.of(fw)(x, axis=1)
        # A scan's result lies in memory as its input does, as NumPy's does.
        order = sorted(range(3), key=lambda axis: -np.negative(x).strides[axis]) if fold.scan else range(2)
        assert result.transpose(*order).flags.c_contiguous
        assert result.flags.writeable
        assert not np.shares_memory(result, x)


@EVERY_REDUCTION
@EVERY_DTYPE
def test_no_axis_copies(dtype: str, fold: Fold) -> None:
    x = cases.values(dtype, cases.domains_of(fold, dtype)[0], (5, 7))
    result = fold.of(fw)(x, axis=())
    assert result.shape == x.shape
    assert result.dtype == cases.dtype_of(fold.result(dtype))
    copied = fold.tree.lift is trees.same and not fold.tree.slack
    if copied or fold.name in ("prod", "logsumexp"):
        assert np.array_equal(result, x.astype(result.dtype))
    else:
        assert references.alike(fold, result, references.reference(fold, x, (), result.dtype), 1, x.dtype)
    assert not np.shares_memory(result, x)


# ---- ranks and empty arrays


@EVERY_DTYPE
@EVERY_FOLD
def test_rank_zero(fold: Fold, dtype: str) -> None:
    x = np.ones((), cases.dtype_of(dtype))
    one = 0 if fold.name == "logsum" else 1
    assert fold.of(fw)(x) == one
    if fold.scan:
        assert fold.of(fw)(x).shape == (1,)  # flattened, as NumPy does
    else:
        assert fold.of(fw)(x, axis=()) == one
        assert fold.of(fw)(x, keepdims=True).shape == ()
        if "initial" in fold.options:
            initial = int(fold.result(dtype) != "bool") + 1
            assert fold.of(fw)(x, initial=initial, where=False) == initial


@EVERY_FOLD
@pytest.mark.parametrize("rank", [9, 33, 64])
def test_high_ranks(fold: Fold, rank: int) -> None:
    if rank > 32 and np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("NumPy 1 ends at rank 32")
    shape = [1] * rank
    for axis in (0, 1, rank // 2, rank - 2, rank - 1):
        shape[axis] = 2 + axis % 3
    x = np.arange(1, np.prod(shape) + 1, dtype=np.int64).reshape(shape)
    for layout in ("C", "Fortran", "backwards", "byte-swapped"):
        view = cases.LAYOUTS[layout](x)
        for axis in (
            0,
            rank // 2,
            -1,
            *([tuple(range(0, rank, 2)), tuple(range(rank)), None] if not fold.scan else [None]),
        ):
            found, wanted = fold.of(fw)(view, axis=axis), fold.numpy(x, axis=axis)
            assert np.allclose(found, wanted, rtol=1e-15, atol=0), (layout, axis)


@EVERY_REDUCTION
def test_many_axes_that_cannot_be_collapsed(fold: Fold) -> None:
    x = (
        np.arange(1, 3**9 + 1, dtype=np.int64)
        .reshape((3,) * 9)[(slice(None, None, 2),) * 9]
        .transpose(8, 1, 6, 3, 4, 5, 2, 7, 0)
    )
    for axes in ((0, 2, 4, 6, 8), (1, 3, 5, 7), (0, 1, 2, 3), (5, 6, 7, 8), tuple(range(9)), (4,)):
        assert np.allclose(fold.of(fw)(x, axis=axes), fold.numpy(x, axis=axes), rtol=1e-14, atol=0)


@EVERY_DTYPE
@EVERY_FOLD
def test_empty_arrays(fold: Fold, dtype: str) -> None:
    kind = cases.dtype_of(fold.result(dtype))
    identity, nothing = fold.identity(kind), np.asarray(fold.of_nothing(kind), kind)
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 3), (0, 0)):
        x = np.empty(shape, cases.dtype_of(dtype))
        for axis in range(x.ndim):
            result = fold.of(fw)(x, axis=axis)
            assert result.dtype == cases.dtype_of(fold.result(dtype))
            if fold.scan:
                assert result.shape == shape
                with_initial = fold.of(fw)(x, axis=axis, include_initial=True)
                assert with_initial.shape == tuple(n + (a == axis) for a, n in enumerate(shape))
                assert (with_initial == identity).all()
            else:
                assert result.shape == shape[:axis] + shape[axis + 1 :]
                assert same_bits(result, np.full(result.shape, nothing))
        assert same_bits(fold.of(fw)(x), np.full(0 if fold.scan else (), nothing))
    if "initial" in fold.options:
        initial = int(kind.kind != "b") + 1
        x = np.empty((0, 3), cases.dtype_of(dtype))
        assert fold.of(fw)(x, axis=0, initial=initial).tolist() == [initial] * 3


# ---- where and initial


@EVERY_DTYPE
@EVERY_REDUCTION_OF_INTEGERS
def test_where_and_initial_as_numpy_has_them(fold: Fold, dtype: str) -> None:
    """On small integers, where floats are exact too."""
    kind = cases.dtype_of(dtype)
    x = (np.arange(24).reshape(2, 3, 4) % 3).astype(kind)
    masks = [
        x.astype(bool),
        True,
        False,
        np.array([True, False, True, True]),
        np.array([[True], [False], [True]]),
    ]
    initials = (None,) if "initial" not in fold.options else (0, 1) if fold.result(dtype) == "bool" else (0, 1, 5)
    for axis, mask, initial in itertools.product((None, 0, (0, 2), -1, ()), masks, initials):
        options = {"axis": axis, "where": mask, **({} if initial is None else {"initial": initial})}
        wide = np.float64 if trees.is_float(kind) else np.int64
        if initial is None:
            initial = fold.identity(cases.dtype_of(fold.result(dtype)))
        wanted = fold.numpy(x.astype(wide), axis, where=mask, initial=initial)
        assert np.array_equal(np.asarray(fold.of(fw)(x, **options)).astype(wide), wanted), options


@EVERY_REDUCTION
def test_masks_of_any_layout(fold: Fold) -> None:
    x = cases.values("float64", cases.domains_of(fold, "float64")[0], (65, 33))
    mask = cases.mask(x.shape)
    wanted = fold.of(fw)(x, axis=0, where=mask)
    for layout in (
        "Fortran",
        "every second",
        "backwards",
        "every second backwards",
        "unaligned",
        "read-only",
        "awkward",
    ):
        other = cases.LAYOUTS[layout](mask)
        assert fold.of(fw)(x, axis=0, where=other).tobytes() == wanted.tobytes(), layout


# ---- NumPy agrees wherever it is exact


@EVERY_WHOLE
@EVERY_FOLD_OF_INTEGERS
def test_integers_as_numpy_has_them(fold: Fold, dtype: str) -> None:
    for domain, shape in itertools.product(cases.domains_of(fold, dtype), cases.SHAPES):
        x = cases.values(dtype, domain, shape)
        for axis in (None, *cases.axes_of(fold, x.ndim)):
            for narrow in (None, cases.dtype_of("int8"), cases.dtype_of("uint32")):
                if narrow and "dtype" not in fold.options:
                    continue
                found = fold.of(fw)(x, axis=axis, **({"dtype": narrow} if narrow else {}))
                wanted = fold.numpy(x, axis, narrow)
                assert found.dtype == wanted.dtype
                assert np.array_equal(found, wanted), (shape, axis, narrow)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@EVERY_FOLD_OF_INTEGERS
def test_small_whole_floats_as_numpy_has_them(fold: Fold, dtype: str) -> None:
    for shape in cases.SHAPES:
        x = cases.values("int8", domains.small, shape).astype(dtype)
        if fold.tree is trees.PROD:
            x = np.where(x > 0, np.sign(x), -1).astype(dtype)
        for axis in (None, *cases.axes_of(fold, x.ndim)):
            assert np.array_equal(fold.of(fw)(x, axis=axis), fold.numpy(x, axis=axis)), (shape, axis)


@pytest.mark.parametrize("overflow", ["wrap", "saturate", "raise"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "bool"])
def test_unsigned_integers_after_a_negative_initial(dtype: str, overflow: Any) -> None:
    x = np.array([1, 1, 0, 1], dtype)
    assert fw.sum(x, dtype=np.int16, initial=-100, overflow=overflow) == -97
    assert fw.prod(x[:2], dtype=np.int16, initial=-100, overflow=overflow) == -100
    if overflow == "saturate":
        assert fw.sum(x, dtype=np.int8, initial=-128, overflow=overflow) == -125


def test_an_initial_nan_is_the_one_nan() -> None:
    for fold in (fw.sum, fw.prod, fw.max):
        assert same_bits(np.asarray(fold(np.zeros(0), initial=-np.nan)), np.asarray(np.nan))
