"""Every refusal: its kind, what its message says, and that nothing was computed."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cases
import exact_calls
import numpy as np
import pytest

import foldwise as fw

SQUARE = np.arange(6.0, dtype=np.float32).reshape(2, 3)
WHOLE = np.arange(6, dtype=np.int32).reshape(2, 3)
UNSIGNED = WHOLE.astype(np.uint32)
MASK = np.ones((5, 2, 3), bool)
PLACES = ["argmax", "argmin"]
FOLDS = [fold.name for fold in cases.FOLDS]
NAMES = [*FOLDS, *PLACES]
REDUCTIONS = [fold.name for fold in cases.REDUCTIONS]
SCANS = [fold.name for fold in cases.SCANS]
STANDARD = ["cumulative_sum", "cumulative_prod"]
TYPED = [fold.name for fold in cases.FOLDS if "dtype" in fold.options]
JUDGED = [fold.name for fold in cases.FOLDS if "overflow" in fold.options]
STARTED = [fold.name for fold in cases.FOLDS if "initial" in fold.options]
ADDED = [name for name in STARTED if name in JUDGED]
EXACT = list(exact_calls.FOLDS)
FLOATING = [fold.name for fold in cases.FOLDS if fold.result("float32") == "float32"]


def result_like(name: str, x: Any, axis: int | None = 0) -> Any:
    """What a function makes of x, to be asked for again."""
    return np.asarray(getattr(fw, name)(x, axis=axis))




@dataclass
class Given:
    """Nothing but __array__."""

    array: Any

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


@dataclass(frozen=True)
class Bad:
    """A call that must be refused: by which error, and which words must be said."""

    names: list[str]
    error: type[Exception]
    label: str
    says: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


BAD: list[Bad] = []


def bad(
    names: list[str], error: type[Exception], label: str, says: str, *arguments: Any, **options: Any
) -> None:
    BAD.append(Bad(names, error, label, says, arguments, options))


# dtypes
bad(NAMES, fw.DtypeError, "complex", "complex128|(2,)|accepted|float32", np.ones(2, complex))
bad(NAMES, fw.DtypeError, "objects", "object|accepted", np.array([1, None], object))
bad(NAMES, fw.DtypeError, "strings", "<U1|accepted", np.array(["a", "b"]))
bad(NAMES, fw.DtypeError, "bytes", "S1|accepted", np.array([b"a"]))
bad(NAMES, fw.DtypeError, "dates", "datetime64|accepted", np.array(["2020-01-01"], "M8[D]"))
bad(NAMES, fw.DtypeError, "durations", "timedelta64|accepted", np.ones(2, "m8[s]"))
bad(NAMES, fw.DtypeError, "records", "accepted", np.zeros(2, [("a", "i4")]))
bad(NAMES, fw.DtypeError, "raw bytes", "V2|accepted", np.zeros(2, "V2"))
bad(NAMES, fw.DtypeError, "long double", "accepted", np.ones(2, np.longdouble))
bad(TYPED, fw.DtypeError, "float to int", "dtype|int64|float32|astype", SQUARE, dtype=np.int64)
bad(TYPED, fw.DtypeError, "dtype bool", "dtype|bool|accepted", WHOLE, dtype=bool)
bad(TYPED, fw.DtypeError, "dtype complex", "dtype|complex|accepted", WHOLE, dtype=complex)
bad(TYPED, fw.DtypeError, "dtype unknown", "dtype|float33|accepted", WHOLE, dtype="float33")
for text in ",", "01":  # which NumPy lets Python read
    bad(TYPED, fw.DtypeError, f"dtype {text}", f"dtype = {text!r}|accepted", WHOLE, dtype=text)
bad(TYPED, fw.DtypeError, "dtype no dtype", "dtype|3|accepted", WHOLE, dtype=3)

# axes
bad(NAMES, fw.AxisError, "axis too large", "axis 3|rank 2|-2..1", SQUARE, axis=3)
bad(NAMES, fw.AxisError, "axis too small", "axis -3|rank 2|-2..1", SQUARE, axis=-3)
bad(NAMES, fw.AxisError, "axis enormous", f"axis {2**100}|-2..1", SQUARE, axis=2**100)
bad(NAMES, fw.AxisError, "axis of rank 0", "axis 0|rank 0|0-d", np.float32(1), axis=0)
bad(NAMES, fw.ArgumentError, "axis True", "axis|True|bool|accepted", SQUARE, axis=True)
bad(NAMES, fw.ArgumentError, "axis NumPy's True", "axis|bool|accepted", SQUARE, axis=np.True_)
bad(NAMES, fw.ArgumentError, "axis float", "axis|1.0|float|accepted", SQUARE, axis=1.0)
bad(NAMES, fw.ArgumentError, "axis text", "axis|str|accepted", SQUARE, axis="0")
bad(NAMES, fw.ArgumentError, "axis list", "axis|list|accepted", SQUARE, axis=[0])
bad(REDUCTIONS, fw.AxisError, "axes too large", "axis[1]|2|rank 2|-2..1", SQUARE, axis=(0, 2))
bad(REDUCTIONS, fw.AxisError, "axes repeated", "axis|(0, 0)|twice|once", SQUARE, axis=(0, 0))
bad(REDUCTIONS, fw.AxisError, "axes the same", "axis|(1, -1)|twice|once", SQUARE, axis=(1, -1))
bad(REDUCTIONS, fw.ArgumentError, "axes with a float", "axis[1]|float|accepted", SQUARE, axis=(0, 1.0))
bad(REDUCTIONS, fw.ArgumentError, "axes with a bool", "axis[0]|bool|accepted", SQUARE, axis=(False, 1))
bad([*SCANS, *PLACES], fw.ArgumentError, "several axes", "axis|tuple|accepted", SQUARE, axis=(0,))

# out
bad(NAMES, fw.ShapeError, "out's shape", "out|(7,)", SQUARE, axis=0, out=np.zeros(7, np.float32))
for name in FOLDS:
    likewise = np.zeros(result_like(name, SQUARE).shape)
    bad([name], fw.DtypeError, "out's dtype", "out|float64", SQUARE, axis=0, out=likewise)
bad(PLACES, fw.DtypeError, "out's dtype", "out|float64|int64", SQUARE, axis=0, out=np.zeros(3))
bad(NAMES, fw.ArgumentError, "out is a list", "out|list|array", SQUARE, axis=0, out=[0, 0, 0])
bad(NAMES, fw.ArgumentError, "out is a scalar", "out|float32|array", SQUARE, out=np.float32(1))

# options
bad(JUDGED, fw.OptionError, "overflow unknown", 'overflow|clip|"saturate"', WHOLE, overflow="clip")
bad(JUDGED, fw.OptionError, "overflow None", 'overflow|None|"wrap"', WHOLE, overflow=None)
bad(JUDGED, fw.OptionError, "overflow list", 'overflow|"wrap"', WHOLE, overflow=["wrap"])
bad(JUDGED, fw.OptionError, "float", "overflow|saturate|float32|integers", SQUARE, overflow="saturate")
bad(JUDGED, fw.OptionError, "raising", "overflow|raise|integers", WHOLE, dtype="float64", overflow="raise")
bad(EXACT, fw.OptionError, "accuracy unknown", 'accuracy|precise|"default"|"exact"', SQUARE, accuracy="precise")
bad(EXACT, fw.OptionError, "accuracy True", "accuracy|bool|accepted", WHOLE, accuracy=True)
bad(EXACT, fw.OptionError, "accuracy array", "accuracy|ndarray|accepted", SQUARE, accuracy=SQUARE)
bad([*REDUCTIONS, *PLACES], fw.ArgumentError, "keepdims 1", "keepdims|1|int|True", SQUARE, keepdims=1)
bad([*REDUCTIONS, *PLACES], fw.ArgumentError, "keepdims None", "keepdims|None|True", SQUARE, keepdims=None)
bad(SCANS, fw.ArgumentError, "exclusive 1", "exclusive|1|int|True", SQUARE, exclusive=1)
bad(SCANS, fw.ArgumentError, "reverse 1", "reverse|1|int|True", SQUARE, reverse=1)
bad(SCANS, fw.ArgumentError, "initial 1", "include_initial|1|int|True", SQUARE, include_initial=1)
bad(SCANS, fw.OptionError, "both", "exclusive|include_initial", SQUARE, exclusive=True, include_initial=True)
bad(STARTED, fw.ArgumentError, "initial text", "initial|str|number", SQUARE, initial="x")
bad(STARTED, fw.ArgumentError, "initial digits", "initial|str|number", SQUARE, initial="5")
bad(STARTED, fw.ArgumentError, "initial complex", "initial|complex|number", SQUARE, initial=1j)
bad(STARTED, fw.ArgumentError, "initial list", "initial|list|number", SQUARE, initial=[5])
bad(STARTED, fw.ArgumentError, "initial array", "initial|ndarray|number", SQUARE, initial=np.ones(3))
bad(STARTED, fw.ArgumentError, "initial of one element", "initial|ndarray|number", SQUARE, initial=np.ones(1))
for no_number in (b"3", bytearray(b"3"), memoryview(b"3"), np.array("3"), np.str_("3"), np.complex128(1 + 2j),
                  np.array(1j), np.ma.masked, np.ma.masked_array(3, True), np.timedelta64(3, "s")):  # fmt: skip
    bad(STARTED, fw.ArgumentError, f"initial {type(no_number)}", "initial|number", SQUARE, initial=no_number)
    bad(STARTED, fw.ArgumentError, f"integer {type(no_number)}", "initial|integer", WHOLE, initial=no_number)
bad(STARTED, fw.ArgumentError, "initial fraction", "initial|1.5|float|int", WHOLE, initial=1.5)
bad(ADDED, fw.OptionError, "initial too large", f"initial|{2**63}|int64|accepted", WHOLE, initial=2**63)
bad(STARTED, fw.OptionError, "initial enormous", "initial|float32", SQUARE, initial=2**2000)
bad(ADDED, fw.OptionError, "initial negative", "initial|-1|uint64|accepted", UNSIGNED, initial=-1)
for far, x, dtype in (2**63, WHOLE, "uint64"), (-1, UNSIGNED.astype("uint64"), "int64"):
    says = f'initial|{far} does not go with {x.dtype} elements and overflow="raise"|accepted: 0..{2**63 - 1}'
    bad(ADDED, fw.OptionError, f"initial {far} judged", says, x, initial=far, dtype=dtype, overflow="raise")
bad(REDUCTIONS, fw.DtypeError, "where numbers", "where|int|bool", SQUARE, where=np.ones((2, 3), int))
bad(REDUCTIONS, fw.ShapeError, "where's shape", "where|(4,)|(2, 3)", SQUARE, where=np.ones(4, bool))
bad(REDUCTIONS, fw.ArgumentError, "where masked", "mask|filled(False)", SQUARE, where=np.ma.array(True, mask=True))
bad(REDUCTIONS, fw.ArgumentError, "where ragged", "where|list|array", SQUARE, where=[[True], [True, False]])
bad(REDUCTIONS, fw.ShapeError, "where larger", "where|(5, 2, 3)|(2, 3)", SQUARE, where=MASK)

EXTREMES = [name for name in STARTED if name not in JUDGED]
bad(EXTREMES, fw.OptionError, "initial too wide", f"initial|{2**31}|int32|accepted", WHOLE, initial=2**31)
bad(EXTREMES, fw.OptionError, "initial below", "initial|-1|uint32|accepted", UNSIGNED, initial=-1)
bad(EXTREMES, fw.OptionError, "initial not bool", "initial|2|bool|accepted", WHOLE > 0, initial=2)
bad(PLACES, fw.ArgumentError, "last 1", "select_last_index|1|int|True", SQUARE, select_last_index=1)
for what in ("empty", (0,)), ("no rows", (0, 3)), ("no columns", (3, 0)):
    bad(PLACES, fw.ShapeError, what[0], f"no elements|shape {what[1]}", np.zeros(what[1]))
bad(PLACES, fw.ShapeError, "empty axis", "no elements|(0, 3)|axis 0", np.zeros((0, 3)), axis=0)
bad(["mean"], fw.ArgumentError, "no mean", "no elements|int64|float", np.zeros(0, int), dtype=int)
bad(["mean"], fw.ArgumentError, "no means", "no elements|int8", np.zeros((0, 2), int), axis=0, dtype="int8")
bad(["mean"], fw.ArgumentError, "masked mean", "no elements|int64", WHOLE, dtype=int, where=False)
LOGS = ["logsum", "logsumexp"]
bad(LOGS, fw.OverflowedError, "log of nothing", "finite|int64|float", np.zeros(0, int), dtype=int)
bad(["logsum"], fw.OverflowedError, "log of 0", "finite|int8|float", WHOLE, axis=(), dtype="int8")
bad(["logsum"], fw.OverflowedError, "log of -1", "finite|int8|float", -WHOLE, dtype="int8")

# what is no array
bad(NAMES, fw.ArgumentError, "masked", "mask|where=", np.ma.masked_array([1.0, 2], [False, True]))
MASKED = np.ma.masked_array([1.0, 2], [False, True])
for label, holder in ("list", [MASKED, MASKED]), ("tuple", ([3.0, 4.0], MASKED)), ("list", [[(1.0, 2.0), MASKED]]):
    bad(NAMES, fw.ArgumentError, f"{label} of masked", f"x of type {label}|mask|where=", holder)
bad(NAMES, fw.ArgumentError, "masked by protocol", "x of type Given|mask|where=", Given(MASKED))
bad(REDUCTIONS, fw.ArgumentError, "where of masked", "where of type list|mask|filled(False)", SQUARE[0],
    where=[True, True, np.ma.masked_array(True, True)])  # fmt: skip
bad(NAMES, fw.ArgumentError, "ragged", "x|list|array", [[1, 2], [3]])
bad(NAMES, fw.DtypeError, "None", "x|accepted", None)
bad(NAMES, fw.DtypeError, "text", "x|accepted", "words")

# the Array API's scans
bad(STANDARD, fw.AxisError, "no axis", "axis|rank 2|-2..1", SQUARE)
bad(STANDARD, fw.AxisError, "no axis of rank 0", "x of rank 0 has no axis|rank 1 or more", np.float32(1))
bad(STANDARD, fw.AxisError, "axis of rank 0", "x of rank 0 has no axis|rank 1 or more", 3, axis=0)
bad(STANDARD, fw.AxisError, "axis too large", "axis 2|rank 2|-2..1", SQUARE, axis=2)
bad(STANDARD, fw.DtypeError, "complex", "complex64|accepted", np.ones(2, "c8"))
bad(STANDARD, fw.ArgumentError, "flag", "include_initial|True", np.ones(2), include_initial="no")

EVERY = [
    pytest.param(name, case, id=f"{name}-{case.label.replace(' ', '-')}")
    for case in BAD
    for name in case.names
]


@pytest.mark.parametrize(("name", "case"), EVERY)
def test_refused(name: str, case: Bad) -> None:
    with pytest.raises(case.error) as caught:
        getattr(fw, name)(*case.arguments, **case.options)
    message = str(caught.value)
    assert isinstance(caught.value, fw.FoldwiseError)
    assert message.startswith(f"{name}: ")
    missing = [words for words in case.says.split("|") if words not in message]
    assert not missing, f"{message!r} does not say {missing}"
    assert "0..-1" not in message  # a range with nothing in it
    assert len(message) < 300
    assert "\n" not in message


@pytest.mark.parametrize("name", [name for name in FOLDS if name not in TYPED])
def test_no_message_speaks_of_an_option_that_there_is_not(name: str) -> None:
    with pytest.raises(fw.DtypeError) as caught:
        getattr(fw, name)(SQUARE, axis=0, out=np.zeros(result_like(name, SQUARE).shape))
    assert "dtype=" not in str(caught.value)


def test_a_result_that_memory_has_no_room_for_is_named() -> None:
    x = np.broadcast_to(np.float32(1), 2**50)
    with pytest.raises(MemoryError) as caught:
        fw.cumsum(x, include_initial=True)
    assert str(caught.value) == f"cumsum: no room for a result of dtype float32, shape ({2**50 + 1},)"


def test_the_style_of_messages() -> None:
    with pytest.raises(fw.AxisError) as caught:
        fw.sum(SQUARE, axis=3)
    assert str(caught.value) == "sum: axis 3 is out of range for rank 2 (accepted: -2..1)"


# ---- nothing is computed into `out` when arguments are wrong

WRONG: list[tuple[list[str], type[Exception], dict[str, Any]]] = [
    (NAMES, fw.AxisError, {"axis": 2}),
    (NAMES, fw.ArgumentError, {"axis": 0.5}),
    (JUDGED, fw.OptionError, {"axis": 0, "overflow": "sometimes"}),
    (TYPED, fw.DtypeError, {"axis": 0, "dtype": complex}),
    (REDUCTIONS, fw.ShapeError, {"axis": 0, "where": np.ones(5, bool)}),
    ([*REDUCTIONS, *PLACES], fw.ArgumentError, {"axis": 0, "keepdims": "yes"}),
    (STARTED, fw.ArgumentError, {"axis": 0, "initial": "0"}),
    (SCANS, fw.ArgumentError, {"axis": 0, "reverse": "yes"}),
    (SCANS, fw.OptionError, {"axis": 0, "exclusive": True, "include_initial": True}),
]
UNTOUCHED = [
    pytest.param(name, error, options, id=f"{name}-{k}")
    for k, (names, error, options) in enumerate(WRONG)
    for name in names
]


@pytest.mark.parametrize(("name", "error", "options"), UNTOUCHED)
def test_out_is_untouched(name: str, error: type[Exception], options: dict[str, Any]) -> None:
    like = result_like(name, WHOLE)
    out = np.full(like.shape, 77).astype(like.dtype)
    before = out.copy()
    with pytest.raises(error):
        getattr(fw, name)(WHOLE, out=out, **options)
    assert (out == before).all()


@pytest.mark.parametrize("name", JUDGED)
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
    out = np.zeros_like(result_like(name, SQUARE))
    out.flags.writeable = False
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


@pytest.mark.parametrize("name", [name for name in FLOATING if name in REDUCTIONS])
def test_a_reduction_into_its_input(name: str) -> None:
    x = np.arange(12.0).reshape(3, 4)
    before = x.copy()
    for out in (x[1], x[2, ::-1], x.reshape(-1)[2:6]):
        with pytest.raises(fw.OptionError, match=rf"^{name}: out shares memory.*another array"):
            getattr(fw, name)(x, axis=0, out=out)
        assert (x == before).all()


@pytest.mark.parametrize("name", ["all", "any", *PLACES])
def test_into_its_input_as_another_dtype(name: str) -> None:
    x = np.arange(12).reshape(4, 3) if name in PLACES else np.arange(12).reshape(4, 3) > 3
    before = x.copy()
    with pytest.raises(fw.OptionError, match=rf"^{name}: out shares memory.*another array"):
        getattr(fw, name)(x, axis=0, out=x[1])
    assert (x == before).all()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_into_its_mask(name: str) -> None:
    memory = np.ones(64, np.uint8)
    kind = result_like(name, WHOLE).dtype
    mask, out = memory[:6].view(bool).reshape(2, 3), memory[: 3 * kind.itemsize].view(kind)
    with pytest.raises(fw.OptionError, match=rf"^{name}: "):
        getattr(fw, name)(WHOLE, axis=0, where=mask, out=out)
    assert (memory == 1).all()


@pytest.mark.parametrize("name", FLOATING)
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


@pytest.mark.parametrize("count", [0, -2, 10**9, 2**80])
def test_thread_counts_out_of_range(count: int) -> None:
    before = fw.get_num_threads()
    with pytest.raises(fw.OptionError, match=rf"^set_num_threads: count = {count} .*accepted: 1\.\."):
        fw.set_num_threads(count)
    assert fw.get_num_threads() == before


@pytest.mark.parametrize("count", [1.0, "2", True, None])
def test_thread_counts_that_are_no_integers(count: Any) -> None:
    before = fw.get_num_threads()
    with pytest.raises(fw.ArgumentError, match=rf"^set_num_threads: count = .*{type(count).__name__}.* int"):
        fw.set_num_threads(count)
    assert fw.get_num_threads() == before


def test_configurations_are_printed_or_returned() -> None:
    with pytest.raises(fw.OptionError, match=r"^show_config: mode = 'yaml'; .*print.*dicts"):
        fw.show_config("yaml")  # type: ignore[arg-type]


# ---- the family of errors


def test_the_kinds_of_errors() -> None:
    kinds = {
        "AxisError": (ValueError, IndexError),
        "DtypeError": (TypeError,),
        "ShapeError": (ValueError,),
        "OptionError": (ValueError,),
        "BudgetError": (ValueError,),
        "SourceError": (ValueError,),
        "ArgumentError": (TypeError,),
        "OverflowedError": (OverflowError,),
        "StateError": (ValueError,),
        "ModelError": (ValueError,),
        "LimitError": (ValueError,),
        "EngineError": (NotImplementedError,),
        "ConversionError": (ValueError,),
        "UnknownOperatorError": (LookupError,),
    }
    public = {name for name in fw.__all__ if name.endswith("Error")}
    assert public == {*kinds, "FoldwiseError"}
    for name, bases in kinds.items():
        error = getattr(fw, name)
        assert issubclass(error, fw.FoldwiseError)
        assert all(issubclass(error, base) for base in bases)
        assert name not in dir(builtins)
