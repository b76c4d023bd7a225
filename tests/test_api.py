"""The public face: names, signatures, what counts as an array, ranks, empty arrays, agreement with NumPy."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import cases
import ml_dtypes
import numpy as np
import processes
import pytest
import trees
from cases import Fold
from trees import Array

import foldwise as fw

EVERY_FOLD = pytest.mark.parametrize("fold", cases.FOLDS, ids=lambda fold: fold.name)
EVERY_REDUCTION = pytest.mark.parametrize("fold", cases.REDUCTIONS, ids=lambda fold: fold.name)
EVERY_SCAN = pytest.mark.parametrize("fold", cases.SCANS, ids=lambda fold: fold.name)
EVERY_DTYPE = pytest.mark.parametrize("dtype", cases.DTYPES)
WHOLE = pytest.mark.parametrize("dtype", ["bool", *cases.INTEGERS])


def function(fold: Fold) -> Callable[..., Any]:
    return getattr(fw, fold.name)  # type: ignore[no-any-return]


def numpys(fold: Fold) -> Callable[..., Any]:
    return getattr(np, fold.name)  # type: ignore[no-any-return]


# ---- names and signatures

REDUCTION = (
    "(x, /, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, *, overflow='wrap')"
)
SCAN = (
    "(x, /, axis=None, dtype=None, out=None, *,"
    " exclusive=False, reverse=False, include_initial=False, overflow='wrap')"
)
STANDARD_SCAN = "(x, /, *, axis=None, dtype=None, include_initial=False)"
SIGNATURES = {
    **{fold.name: SCAN if fold.scan else REDUCTION for fold in cases.FOLDS},
    "cumulative_sum": STANDARD_SCAN,
    "cumulative_prod": STANDARD_SCAN,
    "set_num_threads": "(count)",
    "get_num_threads": "()",
    "show_config": "(mode='print')",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    found = inspect.signature(getattr(fw, name))
    bare = found.replace(
        parameters=[p.replace(annotation=p.empty) for p in found.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    assert str(bare) == SIGNATURES[name]
    assert inspect.getdoc(getattr(fw, name))


def test_public_names() -> None:
    errors = {
        "FoldwiseError",
        "AxisError",
        "DtypeError",
        "ShapeError",
        "OptionError",
        "ArgumentError",
        "OverflowedError",
    }
    assert set(fw.__all__) == {*SIGNATURES, *errors, "__version__"}
    for name in fw.__all__:
        assert hasattr(fw, name)


def test_the_array_apis_scans() -> None:
    x = np.arange(1.0, 7.0).reshape(2, 3)
    for scan, numpys_scan in ((fw.cumulative_sum, np.cumsum), (fw.cumulative_prod, np.cumprod)):
        assert np.array_equal(scan(x, axis=1), numpys_scan(x, axis=1))
        assert np.array_equal(scan(x[0]), numpys_scan(x[0]))
        first = 0 if scan is fw.cumulative_sum else 1
        assert scan(x[1], include_initial=True).tolist() == [first, *numpys_scan(x[1])]
        assert scan(x, axis=0, include_initial=True).shape == (3, 3)
        assert scan(x.astype(np.int8), axis=0).dtype == np.int64
        assert scan(x, axis=0, dtype=np.float32).dtype == np.float32
        assert scan([1, 2, 3]).tolist() == numpys_scan([1, 2, 3]).tolist()


# ---- configuration


@pytest.mark.parametrize("isa", cases.ISAS)
def test_the_instruction_set_is_chosen_at_import(isa: str) -> None:
    script = "import foldwise as fw; print(fw.show_config('dicts')['instruction sets']['in use'])"
    assert processes.output("-c", script, FOLDWISE_ISA=isa).strip() == isa


def test_the_best_instruction_set_is_the_default() -> None:
    script = "import foldwise as fw; print(fw.show_config('dicts')['instruction sets']['in use'])"
    assert processes.output("-c", script, FOLDWISE_ISA="").strip() == cases.ISAS[-1]


@pytest.mark.parametrize("isa", ["neon" if "sse2" in cases.ISAS else "avx2", "mmx", "SSE2"])
def test_instruction_sets_of_other_machines_are_refused(isa: str) -> None:
    process = processes.completed("-c", "import foldwise", FOLDWISE_ISA=isa)
    assert process.returncode != 0
    assert f"FOLDWISE_ISA={isa}" in process.stderr
    assert cases.ISAS[0] in process.stderr


def test_show_config(capsys: pytest.CaptureFixture[str]) -> None:
    config = fw.show_config("dicts")
    assert config is not None
    assert config["versions"]["foldwise"] == fw.__version__
    assert config["versions"]["numpy"] == np.__version__
    assert config["versions"]["ml_dtypes"] == ml_dtypes.__version__
    assert config["instruction sets"]["available"] == list(cases.ISAS)
    assert config["threads"]["in use"] == fw.get_num_threads()
    assert fw.show_config() is None
    printed = capsys.readouterr().out
    for word in (fw.__version__, np.__version__, config["instruction sets"]["in use"]):
        assert word in printed


# ---- what counts as an array


@EVERY_FOLD
def test_scalars_and_lists(fold: Fold) -> None:
    for x in (
        3,
        2.5,
        True,
        [1, 2, 3],
        [[1.5, 2], [3, 4]],
        (1, 2),
        range(4),
        [],
        np.float32(2),
        np.int8(-3),
        [True, False],
    ):
        array = np.asarray(x)
        assert np.array_equal(function(fold)(x), numpys(fold)(array))
        assert np.asarray(function(fold)(x)).dtype == function(fold)(array).dtype


class HasArray:
    """Nothing but __array__."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.array if dtype is None else self.array.astype(dtype)


class HasDlpack:
    """Nothing but the two methods of the protocol."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@EVERY_DTYPE
@EVERY_FOLD
def test_protocols(fold: Fold, dtype: str) -> None:
    x = cases.values(dtype, cases.domains_of(fold, dtype)[0], (5, 67))
    wanted = function(fold)(x, axis=1)
    # NumPy carries no bfloat16 through the latter two.
    for wrapper in (HasArray,) if dtype == "bfloat16" else (HasArray, HasDlpack, memoryview):
        assert function(fold)(wrapper(x), axis=1).tobytes() == wanted.tobytes()


def test_protocols_that_fail_say_so() -> None:
    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
            raise RuntimeError("out of order")

    with pytest.raises(fw.ArgumentError, match=r"^sum: x .*Broken.*out of order"):
        fw.sum(Broken())


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    values = np.arange(1, 13).reshape(3, 4) / 4
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"):
        tensor = torch.tensor(values).to(getattr(torch, dtype))
        x = values.astype(cases.dtype_of(dtype))
        for fold in cases.FOLDS:
            for view, same in ((tensor, x), (tensor.T, x.T), (tensor[:, ::2], x[:, ::2])):
                assert np.array_equal(function(fold)(view, axis=0), function(fold)(same, axis=0)), (
                    fold.name,
                    dtype,
                )
    with pytest.raises(fw.DtypeError):
        fw.sum(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(fw.ArgumentError, match=r"^sum: x .*Tensor.*(?i:bfloat16)"):
        fw.sum(torch.ones(3, dtype=torch.bfloat16))  # which NumPy's side of both protocols does not know


@EVERY_FOLD
def test_subclasses_are_folded_as_arrays(fold: Fold) -> None:
    class Named(np.ndarray):
        pass

    x = np.arange(6.0).reshape(2, 3).view(Named)
    assert type(function(fold)(x, axis=(0, 1) if not fold.scan else 0)) in (np.float64, np.ndarray)
    assert type(function(fold)(x, axis=0)) is np.ndarray
    memory = np.arange(4.0).view(np.memmap)
    assert type(function(fold)(memory, axis=0)) in (np.float64, np.ndarray)


@EVERY_FOLD
def test_the_input_is_never_changed(fold: Fold) -> None:
    for dtype, layout in itertools.product(cases.DTYPES, cases.LAYOUTS):
        x = cases.LAYOUTS[layout](cases.values(dtype, cases.domains_of(fold, dtype)[0], (5, 67)).copy())
        before = x.tobytes()
        function(fold)(x, axis=0)
        function(fold)(x, axis=1)
        assert x.tobytes() == before


# ---- what comes back


@EVERY_DTYPE
@EVERY_REDUCTION
def test_full_reductions_give_numpy_scalars(fold: Fold, dtype: str) -> None:
    kind = cases.dtype_of(cases.result_dtype(dtype))
    x = np.ones((2, 3), cases.dtype_of(dtype))
    for result in (
        function(fold)(x),
        function(fold)(x, axis=(0, 1)),
        function(fold)(x[0], axis=0),
        function(fold)(x[0, 0]),
    ):
        assert type(result) is kind.type
    assert type(function(fold)(x, axis=0)) is np.ndarray
    assert function(fold)(x, keepdims=True).shape == (1, 1)
    assert isinstance(function(fold)(x, where=True), kind.type)


@EVERY_DTYPE
@EVERY_FOLD
def test_result_dtypes(fold: Fold, dtype: str) -> None:
    x = np.ones((2, 3), cases.dtype_of(dtype))
    wanted = cases.dtype_of(cases.result_dtype(dtype))
    assert function(fold)(x, axis=0).dtype == wanted
    assert function(fold)(x.astype(x.dtype.newbyteorder()), axis=0).dtype == wanted
    assert function(fold)(x, axis=0).dtype.isnative
    if dtype != "bfloat16":
        assert wanted == numpys(fold)(x, axis=0).dtype
    for name in cases.allowed_results(dtype):
        chosen = cases.dtype_of(name)
        for spelling in (chosen, chosen.type, name):
            assert function(fold)(x, axis=0, dtype=spelling).dtype == chosen


@EVERY_FOLD
def test_integers_of_one_size_by_any_name(fold: Fold) -> None:
    """C has several types of 64 bits; NumPy keeps them apart."""
    for name in ("b", "h", "i", "l", "q", "n", "B", "H", "I", "L", "Q", "N"):
        x = np.arange(1, 7).astype(name).reshape(2, 3)
        result = function(fold)(x, axis=0)
        assert np.array_equal(result, numpys(fold)(x, axis=0))
        assert function(fold)(x, axis=0, dtype=name).dtype.itemsize == x.itemsize
        wide = np.empty(result.shape, "Q" if x.dtype.kind == "u" else "q")
        assert function(fold)(x, axis=0, out=wide) is wide
        assert np.array_equal(wide, result)
        assert np.array_equal(function(fold)(x.byteswap().view(x.dtype.newbyteorder()), axis=0), result)


@EVERY_FOLD
def test_pythons_own_types_name_dtypes(fold: Fold) -> None:
    assert function(fold)([1, 2], axis=0, dtype=int).dtype == np.int64
    assert function(fold)([1, 2], axis=0, dtype=float).dtype == np.float64
    assert function(fold)([1, 2], axis=0, dtype=">f4").dtype == np.float32


@EVERY_FOLD
def test_out_is_returned_itself(fold: Fold) -> None:
    x = np.arange(6.0).reshape(2, 3)
    out = np.empty((2, 3) if fold.scan else (3,))
    assert function(fold)(x, axis=0, out=out) is out
    assert np.array_equal(out, function(fold)(x, axis=0))
    if not fold.scan:
        scalar = np.empty(())
        assert function(fold)(x, out=scalar) is scalar
        assert scalar == function(fold)(x)
        kept = np.empty((1, 3))
        assert function(fold)(x, axis=0, keepdims=True, out=kept) is kept
        assert np.array_equal(kept[0], out)


@EVERY_FOLD
def test_results_are_new_writable_c_arrays(fold: Fold) -> None:
    for layout in cases.LAYOUTS.values():
        x = layout(np.ones((2, 3, 4), np.float32))
        result = function(fold)(x, axis=1)
        assert result.flags.c_contiguous
        assert result.flags.writeable
        assert not np.shares_memory(result, x)


@EVERY_REDUCTION
@EVERY_DTYPE
def test_no_axis_copies(dtype: str, fold: Fold) -> None:
    x = cases.values(dtype, cases.domains_of(fold, dtype)[0], (5, 7))
    result = function(fold)(x, axis=())
    assert result.shape == x.shape
    assert result.dtype == cases.dtype_of(cases.result_dtype(dtype))
    assert np.array_equal(result, x.astype(result.dtype))
    assert not np.shares_memory(result, x)


# ---- ranks and empty arrays


@EVERY_DTYPE
@EVERY_FOLD
def test_rank_zero(fold: Fold, dtype: str) -> None:
    x = np.ones((), cases.dtype_of(dtype))
    assert function(fold)(x) == 1
    if fold.scan:
        assert function(fold)(x).shape == (1,)  # flattened, as NumPy does
    else:
        assert function(fold)(x, axis=()) == 1
        assert function(fold)(x, keepdims=True).shape == ()
        assert function(fold)(x, initial=2, where=False) == 2


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
            assert np.array_equal(function(fold)(view, axis=axis), numpys(fold)(x, axis=axis)), (layout, axis)


@EVERY_REDUCTION
def test_many_axes_that_cannot_be_collapsed(fold: Fold) -> None:
    x = (
        np.arange(1, 3**9 + 1, dtype=np.int64)
        .reshape((3,) * 9)[(slice(None, None, 2),) * 9]
        .transpose(8, 1, 6, 3, 4, 5, 2, 7, 0)
    )
    for axes in ((0, 2, 4, 6, 8), (1, 3, 5, 7), (0, 1, 2, 3), (5, 6, 7, 8), tuple(range(9)), (4,)):
        assert np.array_equal(function(fold)(x, axis=axes), numpys(fold)(x, axis=axes))


@EVERY_DTYPE
@EVERY_FOLD
def test_empty_arrays(fold: Fold, dtype: str) -> None:
    identity = fold.tree.identity
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 3), (0, 0)):
        x = np.empty(shape, cases.dtype_of(dtype))
        for axis in range(x.ndim):
            result = function(fold)(x, axis=axis)
            assert result.dtype == cases.dtype_of(cases.result_dtype(dtype))
            if fold.scan:
                assert result.shape == shape
                with_initial = function(fold)(x, axis=axis, include_initial=True)
                assert with_initial.shape == tuple(n + (a == axis) for a, n in enumerate(shape))
                assert (with_initial == identity).all()
            else:
                assert result.shape == shape[:axis] + shape[axis + 1 :]
                assert (result == identity).all()
        assert (np.asarray(function(fold)(x)) == identity).all()
    if not fold.scan:
        assert function(fold)(np.empty((0, 3), cases.dtype_of(dtype)), axis=0, initial=2).tolist() == [
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
        wanted = numpys(fold)(x.astype(wide), **options)
        assert np.array_equal(np.asarray(function(fold)(x, **options)).astype(wide), wanted), options


@EVERY_REDUCTION
def test_masks_of_any_layout(fold: Fold) -> None:
    x = cases.values("float64", cases.domains_of(fold, "float64")[0], (65, 33))
    mask = cases.mask(x.shape)
    wanted = function(fold)(x, axis=0, where=mask)
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
        assert function(fold)(x, axis=0, where=other).tobytes() == wanted.tobytes(), layout


# ---- NumPy agrees wherever it is exact


@WHOLE
@EVERY_FOLD
def test_integers_as_numpy_has_them(fold: Fold, dtype: str) -> None:
    for domain, shape in itertools.product(cases.domains_of(fold, dtype), cases.SHAPES):
        x = cases.values(dtype, domain, shape)
        for axis in (None, *cases.axes_of(fold, x.ndim)):
            for narrow in (None, cases.dtype_of("int8"), cases.dtype_of("uint32")):
                found, wanted = (f(x, axis=axis, dtype=narrow) for f in (function(fold), numpys(fold)))
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
            assert np.array_equal(function(fold)(x, axis=axis), numpys(fold)(x, axis=axis)), (shape, axis)
