"""What comes back: dtypes, shapes, ranks, empty arrays, where and initial, agreement with NumPy."""

from __future__ import annotations

import itertools

import cases
import numpy as np
import pytest
import trees
from cases import Fold
from marks import EVERY_DTYPE, EVERY_FOLD, EVERY_REDUCTION, EVERY_WHOLE

import foldwise as fw

# ---- what comes back


@EVERY_DTYPE
@EVERY_REDUCTION
def test_full_reductions_give_numpy_scalars(fold: Fold, dtype: str) -> None:
    kind = cases.dtype_of(cases.result_dtype(dtype))
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
    wanted = cases.dtype_of(cases.result_dtype(dtype))
    assert fold.of(fw)(x, axis=0).dtype == wanted
    assert fold.of(fw)(x.astype(x.dtype.newbyteorder()), axis=0).dtype == wanted
    assert fold.of(fw)(x, axis=0).dtype.isnative
    if dtype != "bfloat16":
        assert wanted == fold.of(np)(x, axis=0).dtype
    for name in cases.allowed_results(dtype):
        chosen = cases.dtype_of(name)
        for spelling in (chosen, chosen.type, name):
            assert fold.of(fw)(x, axis=0, dtype=spelling).dtype == chosen


@EVERY_FOLD
def test_integers_of_one_size_by_any_name(fold: Fold) -> None:
    """C has several types of 64 bits; NumPy keeps them apart."""
    for name in ("b", "h", "i", "l", "q", "n", "B", "H", "I", "L", "Q", "N"):
        x = np.arange(1, 7).astype(name).reshape(2, 3)
        result = fold.of(fw)(x, axis=0)
        assert np.array_equal(result, fold.of(np)(x, axis=0))
        assert fold.of(fw)(x, axis=0, dtype=name).dtype.itemsize == x.itemsize
        wide = np.empty(result.shape, "Q" if x.dtype.kind == "u" else "q")
        assert fold.of(fw)(x, axis=0, out=wide) is wide
        assert np.array_equal(wide, result)
        assert np.array_equal(fold.of(fw)(x.byteswap().view(x.dtype.newbyteorder()), axis=0), result)


@EVERY_FOLD
def test_pythons_own_types_name_dtypes(fold: Fold) -> None:
    assert fold.of(fw)([1, 2], axis=0, dtype=int).dtype == np.int64
    assert fold.of(fw)([1, 2], axis=0, dtype=float).dtype == np.float64
    assert fold.of(fw)([1, 2], axis=0, dtype=">f4").dtype == np.float32


@EVERY_FOLD
def test_out_is_returned_itself(fold: Fold) -> None:
    x = np.arange(6.0).reshape(2, 3)
    out = np.empty((2, 3) if fold.scan else (3,))
    assert fold.of(fw)(x, axis=0, out=out) is out
    assert np.array_equal(out, fold.of(fw)(x, axis=0))
    if not fold.scan:
        scalar = np.empty(())
        assert fold.of(fw)(x, out=scalar) is scalar
        assert scalar == fold.of(fw)(x)
        kept = np.empty((1, 3))
        assert fold.of(fw)(x, axis=0, keepdims=True, out=kept) is kept
        assert np.array_equal(kept[0], out)


@EVERY_FOLD
def test_results_are_new_writable_dense_arrays(fold: Fold) -> None:
    for layout in cases.LAYOUTS.values():
        x = layout(np.ones((2, 3, 4), np.float32))
        result = fold.of(fw)(x, axis=1)
        # A scan's result lies in memory as its input does, as NumPy's does.
        order = sorted(range(3), key=lambda axis: -abs(x.strides[axis])) if fold.scan else range(2)
        assert result.transpose(*order).flags.c_contiguous
        assert result.flags.writeable
        assert not np.shares_memory(result, x)


@EVERY_REDUCTION
@EVERY_DTYPE
def test_no_axis_copies(dtype: str, fold: Fold) -> None:
    x = cases.values(dtype, cases.domains_of(fold, dtype)[0], (5, 7))
    result = fold.of(fw)(x, axis=())
    assert result.shape == x.shape
    assert result.dtype == cases.dtype_of(cases.result_dtype(dtype))
    assert np.array_equal(result, x.astype(result.dtype))
    assert not np.shares_memory(result, x)


# ---- ranks and empty arrays


@EVERY_DTYPE
@EVERY_FOLD
def test_rank_zero(fold: Fold, dtype: str) -> None:
    x = np.ones((), cases.dtype_of(dtype))
    assert fold.of(fw)(x) == 1
    if fold.scan:
        assert fold.of(fw)(x).shape == (1,)  # flattened, as NumPy does
    else:
        assert fold.of(fw)(x, axis=()) == 1
        assert fold.of(fw)(x, keepdims=True).shape == ()
        assert fold.of(fw)(x, initial=2, where=False) == 2


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
            assert np.array_equal(fold.of(fw)(view, axis=axis), fold.of(np)(x, axis=axis)), (layout, axis)


@EVERY_REDUCTION
def test_many_axes_that_cannot_be_collapsed(fold: Fold) -> None:
    x = (
        np.arange(1, 3**9 + 1, dtype=np.int64)
        .reshape((3,) * 9)[(slice(None, None, 2),) * 9]
        .transpose(8, 1, 6, 3, 4, 5, 2, 7, 0)
    )
    for axes in ((0, 2, 4, 6, 8), (1, 3, 5, 7), (0, 1, 2, 3), (5, 6, 7, 8), tuple(range(9)), (4,)):
        assert np.array_equal(fold.of(fw)(x, axis=axes), fold.of(np)(x, axis=axes))


@EVERY_DTYPE
@EVERY_FOLD
def test_empty_arrays(fold: Fold, dtype: str) -> None:
    identity = fold.tree.identity
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 3), (0, 0)):
        x = np.empty(shape, cases.dtype_of(dtype))
        for axis in range(x.ndim):
            result = fold.of(fw)(x, axis=axis)
            assert result.dtype == cases.dtype_of(cases.result_dtype(dtype))
            if fold.scan:
                assert result.shape == shape
                with_initial = fold.of(fw)(x, axis=axis, include_initial=True)
                assert with_initial.shape == tuple(n + (a == axis) for a, n in enumerate(shape))
                assert (with_initial == identity).all()
            else:
                assert result.shape == shape[:axis] + shape[axis + 1 :]
                assert (result == identity).all()
        assert (np.asarray(fold.of(fw)(x)) == identity).all()
    if not fold.scan:
        assert fold.of(fw)(np.empty((0, 3), cases.dtype_of(dtype)), axis=0, initial=2).tolist() == [
            2,
            2,
            2,
        ]


# ---- where and initial


@EVERY_DTYPE
@EVERY_REDUCTION
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
    for axis, mask, initial in itertools.product((None, 0, (0, 2), -1, ()), masks, (0, 1, 5)):
        options = {"axis": axis, "where": mask, "initial": initial}
        wide = np.float64 if trees.is_float(kind) else np.int64
        wanted = fold.of(np)(x.astype(wide), **options)
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
@EVERY_FOLD
def test_integers_as_numpy_has_them(fold: Fold, dtype: str) -> None:
    for domain, shape in itertools.product(cases.domains_of(fold, dtype), cases.SHAPES):
        x = cases.values(dtype, domain, shape)
        for axis in (None, *cases.axes_of(fold, x.ndim)):
            for narrow in (None, cases.dtype_of("int8"), cases.dtype_of("uint32")):
                found, wanted = (f(x, axis=axis, dtype=narrow) for f in (fold.of(fw), fold.of(np)))
                assert found.dtype == wanted.dtype
                assert np.array_equal(found, wanted), (shape, axis, narrow)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@EVERY_FOLD
def test_small_whole_floats_as_numpy_has_them(fold: Fold, dtype: str) -> None:
    for shape in cases.SHAPES:
        x = cases.values("int8", cases.small, shape).astype(dtype)
        if fold.tree is trees.PROD:
            x = np.where(x > 0, np.sign(x), -1).astype(dtype)
        for axis in (None, *cases.axes_of(fold, x.ndim)):
            assert np.array_equal(fold.of(fw)(x, axis=axis), fold.of(np)(x, axis=axis)), (shape, axis)
