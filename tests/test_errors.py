"""Every refusal: its kind, what its message says, and that nothing was computed."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cases
import numpy as np
import pytest

import foldwise as fw

SQUARE = np.arange(6.0, dtype=np.float32).reshape(2, 3)
WHOLE = np.arange(6, dtype=np.int32).reshape(2, 3)
NAMES = [fold.name for fold in cases.FOLDS]
REDUCTIONS = [fold.name for fold in cases.REDUCTIONS]
SCANS = [fold.name for fold in cases.SCANS]


@dataclass(frozen=True)
class Bad:
    """A call that must be refused: by which error, also known to Python as what, and which words must be said."""

    label: str
    names: list[str]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    error: type[Exception]
    builtin: type[Exception]
    says: tuple[str, ...]


def bad(
    label: str,
    names: list[str],
    error: type[Exception],
    builtin: type[Exception],
    says: str,
    *arguments: Any,
    **options: Any,
) -> Bad:
    return Bad(label, names, arguments, options, error, builtin, tuple(says.split("|")))


def read_only(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    out = np.zeros(shape, dtype)
    out.flags.writeable = False
    return out


BAD = [
    # dtypes
    bad("complex", NAMES, fw.DtypeError, TypeError, "complex128|accepted|float32|(2,)", np.ones(2, complex), axis=0),
    bad("objects", NAMES, fw.DtypeError, TypeError, "object|accepted", np.array([1, None], object), axis=0),
    bad("strings", NAMES, fw.DtypeError, TypeError, "<U1|accepted", np.array(["a", "b"]), axis=0),
    bad("bytes", NAMES, fw.DtypeError, TypeError, "S1|accepted", np.array([b"a"]), axis=0),
    bad("dates", NAMES, fw.DtypeError, TypeError, "datetime64|accepted", np.array(["2020-01-01"], "M8[D]"), axis=0),
    bad("durations", NAMES, fw.DtypeError, TypeError, "timedelta64|accepted", np.ones(2, "m8[s]"), axis=0),
    bad("records", NAMES, fw.DtypeError, TypeError, "accepted", np.zeros(2, [("a", "i4")]), axis=0),
    bad("raw bytes", NAMES, fw.DtypeError, TypeError, "V2|accepted", np.zeros(2, "V2"), axis=0),
    bad("long double", NAMES, fw.DtypeError, TypeError, "accepted", np.ones(2, np.longdouble), axis=0),
    bad("float to int", NAMES, fw.DtypeError, TypeError, "dtype|int64|float32|astype", SQUARE, axis=0, dtype=np.int64),
    bad("dtype bool", NAMES, fw.DtypeError, TypeError, "dtype|bool|accepted", WHOLE, axis=0, dtype=bool),
    bad("dtype complex", NAMES, fw.DtypeError, TypeError, "dtype|complex|accepted", WHOLE, axis=0, dtype=complex),
    bad("dtype unknown", NAMES, fw.DtypeError, TypeError, "dtype|float33|accepted", WHOLE, axis=0, dtype="float33"),
    bad("dtype no dtype", NAMES, fw.DtypeError, TypeError, "dtype|3|accepted", WHOLE, axis=0, dtype=3),
    # axes
    bad("axis too large", NAMES, fw.AxisError, ValueError, "axis 3|rank 2|-2..1", SQUARE, axis=3),
    bad("axis too small", NAMES, fw.AxisError, IndexError, "axis -3|rank 2|-2..1", SQUARE, axis=-3),
    bad("axis enormous", NAMES, fw.AxisError, ValueError, "axis 1267650600228229401496703205376|-2..1", SQUARE, axis=2**100),
    bad("axis of rank 0", NAMES, fw.AxisError, ValueError, "axis 0|rank 0|0-d", np.float32(1), axis=0),
    bad("axis True", NAMES, fw.ArgumentError, TypeError, "axis|True|bool|accepted", SQUARE, axis=True),
    bad("axis NumPy's True", NAMES, fw.ArgumentError, TypeError, "axis|bool|accepted", SQUARE, axis=np.True_),
    bad("axis float", NAMES, fw.ArgumentError, TypeError, "axis|1.0|float|accepted", SQUARE, axis=1.0),
    bad("axis text", NAMES, fw.ArgumentError, TypeError, "axis|str|accepted", SQUARE, axis="0"),
    bad("axis list", NAMES, fw.ArgumentError, TypeError, "axis|list|accepted", SQUARE, axis=[0]),
    bad("axes too large", REDUCTIONS, fw.AxisError, ValueError, "axis[1]|2|rank 2|-2..1", SQUARE, axis=(0, 2)),
    bad("axes repeated", REDUCTIONS, fw.AxisError, ValueError, "axis|(0, 0)|twice|once", SQUARE, axis=(0, 0)),
    bad("axes the same", REDUCTIONS, fw.AxisError, ValueError, "axis|(1, -1)|twice|once", SQUARE, axis=(1, -1)),
    bad("axes with a float", REDUCTIONS, fw.ArgumentError, TypeError, "axis[1]|float|accepted", SQUARE, axis=(0, 1.0)),
    bad("axes with a bool", REDUCTIONS, fw.ArgumentError, TypeError, "axis[0]|bool|accepted", SQUARE, axis=(False, 1)),
    bad("several axes", SCANS, fw.ArgumentError, TypeError, "axis|tuple|accepted", SQUARE, axis=(0,)),
    # out
    bad("out's shape", NAMES, fw.ShapeError, ValueError, "out|(7,)", SQUARE, axis=0, out=np.zeros(7, np.float32)),
    bad("out's dtype", NAMES, fw.DtypeError, TypeError, "out|float64|float32|dtype=", np.ones(3, np.float32), axis=None),
    bad("out is a list", NAMES, fw.ArgumentError, TypeError, "out|list|array", SQUARE, axis=0, out=[0, 0, 0]),
    bad("out is a scalar", REDUCTIONS, fw.ArgumentError, TypeError, "out|float32|array", SQUARE, out=np.float32(1)),
    # options
    bad("overflow unknown", NAMES, fw.OptionError, ValueError, 'overflow|clip|"saturate"', WHOLE, axis=0, overflow="clip"),
    bad("overflow None", NAMES, fw.OptionError, ValueError, 'overflow|None|"wrap"', WHOLE, axis=0, overflow=None),
    bad("overflow list", NAMES, fw.OptionError, ValueError, 'overflow|"wrap"', WHOLE, axis=0, overflow=["wrap"]),
    bad("saturated float", NAMES, fw.OptionError, ValueError, "overflow|saturate|float32|integers", SQUARE, axis=0, overflow="saturate"),
    bad("raising float", NAMES, fw.OptionError, ValueError, "overflow|raise|integers", WHOLE, axis=0, dtype="float64", overflow="raise"),
    bad("keepdims 1", REDUCTIONS, fw.ArgumentError, TypeError, "keepdims|1|int|True", SQUARE, keepdims=1),
    bad("keepdims None", REDUCTIONS, fw.ArgumentError, TypeError, "keepdims|None|True", SQUARE, keepdims=None),
    *(bad(f"{flag} 1", SCANS, fw.ArgumentError, TypeError, f"{flag}|1|int|True", SQUARE, axis=0, **{flag: 1}) for flag in ("exclusive", "reverse", "include_initial")),
    bad("both firsts", SCANS, fw.OptionError, ValueError, "exclusive|include_initial", SQUARE, axis=0, exclusive=True, include_initial=True),
    bad("initial text", REDUCTIONS, fw.ArgumentError, TypeError, "initial|str|number", SQUARE, initial="x"),
    bad("initial array", REDUCTIONS, fw.ArgumentError, TypeError, "initial|ndarray|number", SQUARE, initial=np.ones(3)),
    bad("initial fraction", REDUCTIONS, fw.ArgumentError, TypeError, "initial|1.5|float|int", WHOLE, initial=1.5),
    bad("initial too large", REDUCTIONS, fw.OptionError, ValueError, f"initial|{2**63}|int64|accepted", WHOLE, initial=2**63),
    bad("initial negative", REDUCTIONS, fw.OptionError, ValueError, "initial|-1|uint64|accepted", WHOLE.astype("u4"), initial=-1),
    bad("where numbers", REDUCTIONS, fw.DtypeError, TypeError, "where|int|bool", SQUARE, where=np.ones((2, 3), int)),
    bad("where's shape", REDUCTIONS, fw.ShapeError, ValueError, "where|(4,)|(2, 3)", SQUARE, where=np.ones(4, bool)),
    bad("where larger", REDUCTIONS, fw.ShapeError, ValueError, "where|(5, 2, 3)|(2, 3)", SQUARE, where=np.ones((5, 2, 3), bool)),
    # what is no array
    bad("masked", NAMES, fw.ArgumentError, TypeError, "mask|where=", np.ma.masked_array([1.0, 2], [0, 1]), axis=0),
    bad("ragged", NAMES, fw.ArgumentError, TypeError, "x|list|array", [[1, 2], [3]], axis=0),
    bad("None", NAMES, fw.FoldwiseError, TypeError, "x|accepted", None),
    bad("text", NAMES, fw.DtypeError, TypeError, "x|accepted", "words"),
    # the Array API's scans
    bad("no axis", ["cumulative_sum", "cumulative_prod"], fw.AxisError, ValueError, "axis|rank 2|-2..1", SQUARE),
    bad("no axis, rank 0", ["cumulative_sum", "cumulative_prod"], fw.AxisError, ValueError, "axis|rank 0", np.float32(1)),
    bad("axis too large", ["cumulative_sum", "cumulative_prod"], fw.AxisError, ValueError, "axis 2|rank 2|-2..1", SQUARE, axis=2),
    bad("complex", ["cumulative_sum", "cumulative_prod"], fw.DtypeError, TypeError, "complex64|accepted", np.ones(2, "c8")),
    bad("flag", ["cumulative_sum", "cumulative_prod"], fw.ArgumentError, TypeError, "include_initial|True", np.ones(2), include_initial="no"),
]  # fmt: skip

EVERY = [
    pytest.param(name, case, id=f"{name}-{case.label.replace(' ', '-')}")
    for case in BAD
    for name in case.names
]


@pytest.mark.parametrize(("name", "case"), EVERY)
def test_refused(name: str, case: Bad) -> None:
    options = dict(case.options)
    if case.label == "out's dtype":
        options["out"] = np.zeros(() if name in REDUCTIONS else (3,), np.float64)
    with pytest.raises(case.error) as caught:
        getattr(fw, name)(*case.arguments, **options)
    message = str(caught.value)
    assert isinstance(caught.value, fw.FoldwiseError)
    assert isinstance(caught.value, case.builtin)
    assert message.startswith(f"{name}: ")
    missing = [words for words in case.says if words not in message]
    assert not missing, f"{message!r} does not say {missing}"
    assert len(message) < 300
    assert "\n" not in message


def test_the_style_of_messages() -> None:
    with pytest.raises(fw.AxisError) as caught:
        fw.sum(SQUARE, axis=3)
    assert str(caught.value) == "sum: axis 3 is out of range for rank 2 (accepted: -2..1)"


# ---- nothing is computed into `out` when arguments are wrong

WRONG: list[tuple[list[str], type[Exception], dict[str, Any]]] = [
    (NAMES, fw.AxisError, {"axis": 2}),
    (NAMES, fw.ArgumentError, {"axis": 0.5}),
    (NAMES, fw.OptionError, {"axis": 0, "overflow": "sometimes"}),
    (NAMES, fw.DtypeError, {"axis": 0, "dtype": complex}),
    (REDUCTIONS, fw.ShapeError, {"axis": 0, "where": np.ones(5, bool)}),
    (REDUCTIONS, fw.ArgumentError, {"axis": 0, "keepdims": "yes"}),
    (REDUCTIONS, fw.ArgumentError, {"axis": 0, "initial": "0"}),
    (SCANS, fw.ArgumentError, {"axis": 0, "reverse": "yes"}),
    (SCANS, fw.OptionError, {"axis": 0, "exclusive": True, "include_initial": True}),
]
UNTOUCHED = [pytest.param(name, error, options, id=f"{name}-{'-'.join(options)}-{k}") for k, (names, error, options) in enumerate(WRONG) for name in names]  # fmt: skip


@pytest.mark.parametrize(("name", "error", "options"), UNTOUCHED)
def test_out_is_untouched(name: str, error: type[Exception], options: dict[str, Any]) -> None:
    out = np.full((3,) if name in REDUCTIONS else (2, 3), 77, np.int64)
    with pytest.raises(error):
        getattr(fw, name)(WHOLE, out=out, **options)
    assert (out == 77).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", cases.INTEGERS)
def test_out_is_untouched_by_a_raised_overflow(name: str, dtype: str) -> None:
    largest = np.iinfo(dtype).max
    for shape in ((4,), (4, 5), (5, 4000)):
        x = np.full(shape, largest, dtype)
        out = np.full(x.shape if name in SCANS else x.shape[1:], 7, dtype)
        with pytest.raises(fw.OverflowedError) as caught:
            getattr(fw, name)(x, axis=0, dtype=dtype, out=out, overflow="raise")
        assert isinstance(caught.value, OverflowError)
        assert (out == 7).all()
        message = str(caught.value)
        assert message.startswith(f"{name}: ")
        assert all(words in message for words in (dtype, str(largest), "dtype=", '"saturate"'))


@pytest.mark.parametrize("name", NAMES)
def test_a_read_only_out(name: str) -> None:
    out = read_only((3,) if name in REDUCTIONS else (2, 3), np.float32)
    with pytest.raises(fw.OptionError, match=rf"^{name}: out is read-only.*writable"):
        getattr(fw, name)(SQUARE, axis=0, out=out)
    assert (out == 0).all()


# ---- out that shares memory with the input


def overlapping() -> list[tuple[str, Any, Any]]:
    def memory() -> Any:
        return np.arange(1.0, 41.0)

    first, second, third, fourth = memory(), memory(), memory(), memory()
    return [
        ("one element further", first[:8], first[1:9]),
        ("one element before", second[1:9], second[:8]),
        ("backwards", third[:8], third[7::-1]),
        ("every second", fourth[:16:2], fourth[:8]),
    ]


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_into_overlapping_memory(name: str, reverse: bool) -> None:
    for label, x, out in overlapping():
        before = x.copy()
        with pytest.raises(fw.OptionError, match=rf"^{name}: out shares memory.*another array"):
            getattr(fw, name)(x, axis=0, out=out, reverse=reverse)
        assert (x == before).all(), label


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_into_its_input(name: str) -> None:
    for x, out in (
        (x := np.arange(12.0).reshape(3, 4), x[1]),
        (y := np.arange(12.0).reshape(3, 4), y.reshape(-1)[2:6]),
    ):
        before = x.copy()
        with pytest.raises(fw.OptionError, match=rf"^{name}: out shares memory.*another array"):
            getattr(fw, name)(x, axis=0, out=out)
        assert (x == before).all()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_into_its_mask(name: str) -> None:
    memory = np.ones(64, np.uint8)
    mask, out = memory[:6].view(bool).reshape(2, 3), memory[:24].view(np.int64)
    with pytest.raises(fw.OptionError, match=rf"^{name}: "):
        getattr(fw, name)(WHOLE, axis=0, where=mask, out=out)
    assert (memory == 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_in_memory_are_no_overlap(name: str) -> None:
    memory = np.arange(1.0, 17.0)
    x, out = memory[::2], memory[1::2]
    wanted = getattr(fw, name)(x.copy(), axis=0)
    if name in REDUCTIONS:
        out = out[3:4].reshape(())
    getattr(fw, name)(x, axis=0, out=out)
    assert np.array_equal(out, wanted)


# ---- calls that Python itself refuses


@pytest.mark.parametrize("name", NAMES)
def test_unknown_and_missing_arguments(name: str) -> None:
    function: Callable[..., Any] = getattr(fw, name)
    for arguments, options in (((), {}), ((SQUARE,), {"axes": 0}), ((), {"x": SQUARE}), ((SQUARE,) * 12, {})):
        with pytest.raises(TypeError, match=name):
            function(*arguments, **options)


# ---- threads and configuration


@pytest.mark.parametrize(("count", "error", "says"), [
    (0, fw.OptionError, "accepted"), (-2, fw.OptionError, "accepted"), (10**9, fw.OptionError, "accepted"),
    (2**80, fw.OptionError, "accepted"),
    (1.0, fw.ArgumentError, "int"), ("2", fw.ArgumentError, "int"), (True, fw.ArgumentError, "int"), (None, fw.ArgumentError, "int"),
])  # fmt: skip
def test_thread_counts_that_mean_nothing(count: Any, error: type[Exception], says: str) -> None:
    before = fw.get_num_threads()
    with pytest.raises(error, match=f"^set_num_threads: .*{says}"):
        fw.set_num_threads(count)
    assert fw.get_num_threads() == before


def test_configurations_are_printed_or_returned() -> None:
    with pytest.raises(fw.OptionError, match='^show_config: mode = \'yaml\'; .*"print".*"dicts"'):
        fw.show_config("yaml")  # type: ignore[arg-type]


# ---- the family of errors


def test_the_kinds_of_errors() -> None:
    kinds = {
        "AxisError": (ValueError, IndexError),
        "DtypeError": (TypeError,),
        "ShapeError": (ValueError,),
        "OptionError": (ValueError,),
        "ArgumentError": (TypeError,),
        "OverflowedError": (OverflowError,),
    }
    public = {name for name in fw.__all__ if name.endswith("Error")}
    assert public == {*kinds, "FoldwiseError"}
    for name, bases in kinds.items():
        error = getattr(fw, name)
        assert issubclass(error, fw.FoldwiseError)
        assert all(issubclass(error, base) for base in bases)
        assert name not in dir(builtins)
