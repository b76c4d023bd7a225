"""The public face: names, signatures, configuration, what counts as an array."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import cases
import exact_calls
import ml_dtypes
import numpy as np
import processes
import pytest
from cases import Fold
from marks import EVERY_DTYPE, EVERY_FOLD, EVERY_ISA
from trees import Array

import foldwise as fw
from foldwise import arguments, entrances, folds

# ---- names and signatures

STANDARD_SCAN = "(x, /, *, axis=None, dtype=None, include_initial=False)"
PLACE = "(x, /, axis=None, out=None, *, keepdims=False, select_last_index=False)"


def signature(fold: Fold) -> str:
    """x, axis, dtype, out, keepdims, initial, where as NumPy has them, as far as the fold has them at all."""
    front = ["x", "/", "axis=None", *["dtype=None"] * ("dtype" in fold.options), "out=None"]
    last = ["overflow='wrap'"] * ("overflow" in fold.options)
    last += ["accuracy='default'"] * (fold.name in exact_calls.FOLDS)
    if fold.scan:
        words = [*front, "*", "exclusive=False", "reverse=False", "include_initial=False", *last]
    elif fold.result("int8") == "bool":
        words = [*front, "keepdims=False", "*", "where=None"]  # as NumPy's all and any have it
    else:
        words = [*front, "keepdims=False", *["initial=None"] * ("initial" in fold.options), "where=None"]
        words += ["*", *last] if last else []
    return f"({', '.join(words)})"


SIGNATURES = {
    **{fold.name: signature(fold) for fold in cases.FOLDS},
    "argmax": PLACE,
    "argmin": PLACE,
    "reduce_many": "(x, /, folds, axis=None, *, keepdims=False, where=None)",
    "cumulative_sum": STANDARD_SCAN,
    "cumulative_prod": STANDARD_SCAN,
    "sum_report": "(x, /, axis=None, where=None)",
    "SumReport": None,
    "Accumulator": None,
    "Difference": None,
    "Audit": None,
    "audit": None,
    "diff": "(old, new=None, *, versions=None, text='foldwise')",
    "operator": None,
    "operators": None,
    "load": None,
    "convert": None,
    "Model": None,
    "Limits": None,
    "reference_ops": "()",
    "open": None,
    "Source": None,
    "set_num_threads": "(count)",
    "get_num_threads": "()",
    "show_config": "(mode='print')",
}


@pytest.mark.parametrize("name", [name for name, words in SIGNATURES.items() if words])
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
        "FoldwiseWarning",
        "UnknownOperatorError",
        "AxisError",
        "DtypeError",
        "ShapeError",
        "StateError",
        "OptionError",
        "ArgumentError",
        "OverflowedError",
        "ModelError",
        "LimitError",
        "EngineError",
        "ConversionError",
        "SourceError",
        "BudgetError",
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


@EVERY_ISA
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
        assert np.allclose(fold.of(fw)(x), fold.numpy(array), rtol=1e-6, equal_nan=True)
        assert np.asarray(fold.of(fw)(x)).dtype == fold.of(fw)(array).dtype


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
    wanted = fold.of(fw)(x, axis=1)
    # NumPy carries no bfloat16 through the latter two.
    wrappers: list[Callable[[Any], Any]] = [HasArray, HasDlpack, memoryview]
    for wrapper in wrappers[:1] if dtype == "bfloat16" else wrappers:
        assert fold.of(fw)(wrapper(x), axis=1).tobytes() == wanted.tobytes()


def test_protocols_that_fail_say_so() -> None:
    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
            raise RuntimeError("out of order")

    with pytest.raises(fw.ArgumentError, match=r"^sum: x .*Broken.*out of order"):
        fw.sum(Broken())


@pytest.mark.parametrize("kind", [BufferError, RuntimeError, TypeError, ValueError, AttributeError])
def test_dlpack_that_fails(kind: type[Exception]) -> None:
    class Elsewhere(HasDlpack):
        def __dlpack__(self, **options: Any) -> Any:
            raise kind("it lies on CUDA device 1")

    class There(Elsewhere):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
            return self.array

    x = np.arange(5.0)
    assert fw.sum(There(x)) == 10
    with pytest.raises(fw.ArgumentError, match=r"^sum: x of type Elsewhere cannot be .*: it lies on CUDA device 1$"):
        fw.sum(Elsewhere(x))


@pytest.mark.filterwarnings("ignore:.*converting a masked element")
def test_lists_that_hold_what_is_masked() -> None:
    for x in ([1.0, np.ma.masked], [[1, 2], [np.ma.masked, 3]]):
        with pytest.raises(fw.ArgumentError, match=r"^sum: a masked array m from x of type list .*pass m\.data"):
            fw.sum(x)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    values = np.arange(1, 13).reshape(3, 4) / 4
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"):
        tensor = torch.tensor(values).to(getattr(torch, dtype))
        x = values.astype(cases.dtype_of(dtype))
        for fold in cases.FOLDS:
            for view, same in ((tensor, x), (tensor.T, x.T), (tensor[:, ::2], x[:, ::2])):
                found, wanted = fold.of(fw)(view, axis=0), fold.of(fw)(same, axis=0)
                assert np.array_equal(found, wanted), (fold.name, dtype)
    with pytest.raises(fw.DtypeError):
        fw.sum(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(fw.ArgumentError, match=r"^sum: x .*Tensor.*(?i:bfloat16)"):
        fw.sum(torch.ones(3, dtype=torch.bfloat16))  # which NumPy's side of both protocols does not know


@EVERY_FOLD
def test_subclasses_are_folded_as_arrays(fold: Fold) -> None:
    class Named(np.ndarray):
        pass

    x = np.arange(6.0).reshape(2, 3).view(Named)
    assert type(fold.of(fw)(x, axis=(0, 1) if not fold.scan else 0)) in (np.float64, np.bool_, np.ndarray)
    assert type(fold.of(fw)(x, axis=0)) is np.ndarray
    memory = np.arange(4.0).view(np.memmap)
    assert type(fold.of(fw)(memory, axis=0)) in (np.float64, np.bool_, np.ndarray)


@pytest.mark.parametrize("accuracy", ["default", "exact"])
def test_the_core_answers_as_the_general_functions_do(accuracy: str) -> None:
    """Every function, from every dtype into every other: the same bits, or the same refusal."""
    for code, (name, fold) in enumerate(entrances.ENTRANCES):
        if fold in folds.PLACES:
            continue
        scans = name != fold.name
        general: Any = entrances.scan_general if scans else entrances.reduce_general
        public: Any = entrances.scan if scans else entrances.reduce
        rest = (False, False, False) if scans else (True, None, None)
        for source in arguments.NUMPY:
            x = np.arange(1, 13).reshape(3, 4).astype(source)
            choice = "dtype" in inspect.signature(getattr(fw, name)).parameters
            chosen = (*arguments.NUMPY, source.type, source.name) if choice else ()
            for result in (None, *chosen):
                asked = code, x, 0, result, None, *rest, "wrap", accuracy
                assert outcome(public, asked) == outcome(general, asked), (name, source, result)


@pytest.mark.parametrize("name", [name for name, _ in entrances.ENTRANCES if not name.startswith("cumulative_")])
def test_plain_calls_run_no_python(name: str) -> None:
    """Neither they nor those with `dtype=` and `out=`, once their dtypes have been seen."""
    function = getattr(fw, name)
    seen: list[Any] = []
    for dtype in arguments.NUMPY:
        x = np.ones((3, 4), dtype)
        out = function(x, axis=0)
        calls = [partial(function, x, axis=0), partial(function, x, axis=0, out=out)]
        if "dtype" in inspect.signature(function).parameters:
            calls.append(partial(function, x, axis=0, dtype=out.dtype))
        for call in calls:
            call()
            sys.setprofile(lambda frame, event, _: seen.append(frame.f_code) if event == "call" else None)
            call()
            sys.setprofile(None)
    assert not seen


def outcome(function: Any, asked: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        found = function(*asked)
    except fw.FoldwiseError as error:
        return type(error), str(error)
    return found.dtype, found.shape, found.tobytes()


@EVERY_FOLD
def test_the_input_is_never_changed(fold: Fold) -> None:
    for dtype, layout in itertools.product(cases.DTYPES, cases.LAYOUTS):
        x = cases.LAYOUTS[layout](cases.values(dtype, cases.domains_of(fold, dtype)[0], (5, 67)).copy())
        before = x.tobytes()
        fold.of(fw)(x, axis=0)
        fold.of(fw)(x, axis=1)
        assert x.tobytes() == before
