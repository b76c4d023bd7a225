"""What a refused call says: the operator, its version, the argument, what was given, what is accepted, the way out."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import foldwise as fw

X = np.arange(6, dtype=np.float32).reshape(2, 3)
HALF = X.astype(ml_dtypes.bfloat16)

REFUSED: list[tuple[str, type[Exception], tuple[Any, ...], dict[str, Any], str]] = [
    # inputs
    (
        "ReduceSum-13", fw.DtypeError, (X, np.array([0, 1], np.int32)), {},
        "input 'axes' must be a 1-D int64 tensor, got int32 of shape (2,)",
    ),
    (
        "ReduceSum-13", fw.ShapeError, (X, 1), {},
        "input 'axes' must be a 1-D int64 tensor, got int64 of shape (); put the axis into a list: [1]",
    ),
    (
        "ReduceSum-13", fw.DtypeError, (X, [0.0]), {},
        "input 'axes' must be a 1-D int64 tensor, got float64 of shape (1,)",
    ),
    (
        "ReduceSum-13", fw.DtypeError, (X, [2**70]), {},
        "input 'axes' must be a 1-D int64 tensor, got object of shape (1,)",
    ),
    (
        "openvino:ReduceSum-1", fw.ShapeError, (X, [[0]]), {},
        "input 'axes' must be a 0-D or 1-D integer tensor, got int64 of shape (1, 1)",
    ),
    (
        "CumSum-14", fw.DtypeError, (X, np.uint8(0)), {},
        "input 'axis' must be a 0-D int32 or int64 tensor, got uint8 of shape ()",
    ),
    (
        "CumSum-14", fw.ShapeError, (X, [1]), {},
        "input 'axis' must be a 0-D tensor, got int64 of shape (1,); give the scalar 1, or ask for lenient=True",
    ),
    (
        "ReduceSum-11", fw.DtypeError, (HALF,), {},
        "input 'data' must be one of int32, int64, uint32, uint64, float16, float32, float64, "
        "got bfloat16 of shape (2, 3); version 13 takes bfloat16",
    ),
    (
        "CumProd-26", fw.DtypeError, (X > 1, 0), {},
        "input 'x' must be one of int32, int64, uint32, uint64, float16, bfloat16, float32, float64, "
        "got bool of shape (2, 3); cast it first",
    ),
    ("ReduceMax-1", fw.ArgumentError, (), {}, "input 'data' is missing; it is the tensor to fold, of any rank"),
    (
        "CumSum-11", fw.ArgumentError, (X,), {},
        "input 'axis' is missing; it is the one axis to scan, a 0-D tensor, -r..r-1",
    ),
    (
        "ReduceProd-13", fw.ArgumentError, (X, [1]), {},
        "2 inputs were given; accepted: 1 (data); attributes go by name: axes=, keepdims=",
    ),
    ("ReduceProd-18", fw.ArgumentError, (X, [1]), {"axes": [1]}, "input 'axes' was given twice, by place and by name"),
    # axes
    (
        "ReduceSum-11", fw.AxisError, (X,), {"axes": [0, 3]},
        "axes[1] = 3 is out of range for rank 2 (accepted: -2..1)",
    ),
    (
        "ReduceSum-13", fw.AxisError, (X, [1, -1]), {},
        "axes = [1, -1] names axis 1 twice, at positions 0 and 1; name each axis once, or ask for lenient=True",
    ),
    (
        "ReduceSum-1", fw.AxisError, (np.float32(1),), {"axes": [0]},
        "axes[0] = 0 is out of range for rank 0 (a 0-D tensor has no axis: leave axes out)",
    ),
    (
        "openvino:ReduceMin-1", fw.AxisError, (np.float32(1), 0), {},
        "axes[0] = 0 is out of range for rank 0 (a 0-D tensor has no axis: give axes=[])",
    ),
    ("ArgMax-13", fw.AxisError, (X,), {"axis": 2}, "axis = 2 is out of range for rank 2 (accepted: -2..1)"),
    (
        "ArgMin-1", fw.AxisError, (3.0,), {},
        "axis = 0 is out of range for rank 0 ('data' must have rank 1 or more: reshape it to (1,))",
    ),
    # attributes
    (
        "ReduceSum-11", fw.ArgumentError, (X,), {"axes": 1},
        "attribute 'axes' = 1 is of type int; accepted is a list of ints; write axes=[1]",
    ),
    (
        "ReduceSum-11", fw.ArgumentError, (X,), {"axes": "1"},
        "attribute 'axes' = '1' is of type str; accepted is a list of ints",
    ),
    (
        "ReduceL1-11", fw.ArgumentError, (X,), {"axes": np.float32},
        "attribute 'axes' = <class 'numpy.float32'> is of type type; accepted is a list of ints",
    ),
    (
        "ReduceSum-11", fw.ArgumentError, (X,), {"axes": [0.0]},
        "attribute 'axes[0]' = 0.0 is of type float; it must be an int",
    ),
    ("ArgMax-1", fw.ArgumentError, (X,), {"axis": True}, "attribute 'axis' = True is of type bool; it must be an int"),
    ("ReduceSum-11", fw.OptionError, (X,), {"keepdims": 2}, "attribute 'keepdims' = 2; accepted are 0 and 1"),
    (
        "openvino:ReduceSum-1", fw.OptionError, (X, 0), {"keep_dims": "yes"},
        "attribute 'keep_dims' = 'yes'; accepted are True and False",
    ),
    (
        "ReduceSum-11", fw.ArgumentError, (X,), {"noop_with_empty_axes": 1},
        "there is no argument 'noop_with_empty_axes' (version 13 has it); accepted are data, axes, keepdims",
    ),
    (
        "ArgMax-11", fw.ArgumentError, (X,), {"select_last_index": 1},
        "there is no argument 'select_last_index' (versions 12, 13 have it); accepted are data, axis, keepdims",
    ),
    (
        "CumSum-14", fw.ArgumentError, (X, 0), {"exclusiv": 1},
        "there is no argument 'exclusiv' (did you mean 'exclusive'?); accepted are x, axis, exclusive, reverse",
    ),
    # nothing to fold
    (
        "ArgMax-13", fw.ShapeError, (np.zeros((0, 3)),), {},
        "input 'data' of shape (0, 3) has no element along axis 0, so that there is no place to give; "
        "give data whose axis 0 has length 1 or more",
    ),
    (
        "ReduceMean-18", fw.ShapeError, (np.zeros((0, 3), np.int32),), {},
        "input 'data' of dtype int32, shape (0, 3) has nothing along axes [0, 1], for which there is no int32 value; "
        "give data whose folded axes have length 1 or more",
    ),
    (
        "ReduceLogSum-18", fw.OverflowedError, (np.zeros(2, np.int64),), {},
        "a result for input 'data' of dtype int64, shape (2,) is not finite, which no int64 can hold; "
        "cast it to a float dtype first",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "error", "inputs", "named", "says"), REFUSED)
def test_refused_calls(
    name: str, error: type[Exception], inputs: tuple[Any, ...], named: dict[str, Any], says: str
) -> None:
    with pytest.raises(error) as caught:
        fw.operator(name)(*inputs, **named)
    assert isinstance(caught.value, fw.FoldwiseError)
    assert str(caught.value) == f"{name.removeprefix('openvino:')}: {says}"


def test_what_cannot_be_read_as_an_array() -> None:
    operator = fw.operator("ReduceSum-13")
    with pytest.raises(fw.ArgumentError, match=r"^ReduceSum-13: input 'data': .*list cannot be read as an array"):
        operator([[1, 2], [3]])
    with pytest.raises(fw.ArgumentError, match=r"^ReduceSum-13: input 'data': a masked array"):
        operator(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(
        fw.DtypeError, match=r"^ReduceSum-13: input 'data' must be one of .* got object of shape \(2,\)"
    ):
        operator([None, {}])


def test_a_long_value_is_cut_short() -> None:
    with pytest.raises(fw.AxisError) as caught:
        fw.operator("ReduceSum-13")(X, [0] * 10_000)
    assert len(str(caught.value)) < 200
    with pytest.warns(fw.FoldwiseWarning) as warned:
        fw.operator("ReduceSum-13", lenient=True)(X, [0] * 10_000)
    assert len(warned) == 1


ANYTHING: list[Any] = [
    None, 0, 1, -1, 5, True, 2**70, 1.5, "x", b"y", object(), {}, {1}, range(2), len,
    [], [0], [1, 0], (0,), [0, 0], [None], [[1], [2, 3]], [2**70], [True],
    np.int32(0), np.array([0]), np.array([0, 1], np.int32), np.array([[0]]), np.zeros(0), np.zeros(0, np.int64),
    X, HALF, np.zeros((2, 0, 3), np.float32), np.float16(2), np.ones((2, 2), bool), np.zeros((1,) * 40),
    np.array(["a"]), np.array([None]), np.array(2 + 3j), np.zeros(3, ">f4"), np.array([1], ">i8"),
    np.datetime64("2020"), np.ma.masked_array([1]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::foldwise.FoldwiseWarning")
def test_any_call_succeeds_or_is_refused_by_name() -> None:
    choose = random.Random(1)
    names = sorted({n for s in fw.operators() for n in [*(i.name for i in s.inputs), *(a.name for a in s.attributes)]})
    succeeded = 0
    for _ in range(6000):
        schema = choose.choice(fw.operators())
        operator = fw.operator(schema.full_name, lenient=choose.random() < 0.5)
        inputs = choose.choices(ANYTHING, k=choose.choice([0, 1, 1, 1, 2, 2, 3]))
        named = dict(zip(choose.choices([*names, "else"], k=2), choose.choices(ANYTHING, k=2), strict=True))
        named = dict(list(named.items())[: choose.choice([0, 0, 1, 2])])
        try:
            assert isinstance(operator(*inputs, **named), np.ndarray)
            succeeded += 1
        except fw.FoldwiseError as error:
            message = str(error)
            assert message.startswith(f"{schema.label}: ")
            assert len(message) < 330
            assert "\n" not in message
    assert succeeded > 100


# ---- operators that do not exist

UNKNOWN: list[tuple[type[Exception], tuple[Any, ...], dict[str, Any], str]] = [
    (fw.UnknownOperatorError, ("ReduceSun",), {}, "onnx has no operator 'ReduceSun' here; did you mean ReduceSum? ("),
    (fw.UnknownOperatorError, ("reducemax",), {}, "onnx has no operator 'reducemax' here; did you mean ReduceMax? ("),
    (fw.UnknownOperatorError, ("Softmax-13",), {}, "onnx has no operator 'Softmax' here; "),
    (fw.UnknownOperatorError, ("Gemm",), {}, "its operators are these (ReduceSum, ReduceProd, "),
    (fw.UnknownOperatorError, ("",), {}, "onnx has no operator '' here; "),
    (fw.UnknownOperatorError, ("ReduceLogicalAnd",), {}, "there is openvino:ReduceLogicalAnd (ReduceSum, "),
    (fw.UnknownOperatorError, ("openvino:CumProd",), {}, "there is onnx:CumProd ("),
    (
        fw.UnknownOperatorError, ("ReduceSum", 12), {},
        "onnx:ReduceSum has no version 12; there are 1, 11, 13, the nearest is onnx:ReduceSum-11 "
        "(a model of opset 12 has onnx:ReduceSum-11)",
    ),
    (fw.UnknownOperatorError, ("openvino:ReduceL1-1",), {}, "the nearest is openvino:ReduceL1-4"),
    (fw.UnknownOperatorError, ("ReduceSum", 0), {}, "onnx:ReduceSum has no version 0; there are 1, 11, 13"),
    (fw.UnknownOperatorError, ("CumSum",), {"opset": 10}, "onnx opset 10 has no CumSum; it came with opset 11"),
    (
        fw.UnknownOperatorError, ("CumProd",), {"opset": 1000},
        "onnx opset 1000 is not known; known are 1..28 (the newest version of CumProd is 26)",
    ),
    (fw.UnknownOperatorError, ("CumSum",), {"opset": 0}, "onnx opset 0 is not known"),
    (fw.UnknownOperatorError, ("tf:ReduceSum",), {}, "there is no dialect 'tf'; there are onnx, openvino"),
    (fw.UnknownOperatorError, ("ReduceSum",), {"dialect": "TF"}, "there is no dialect 'TF'; there are onnx, openvino"),
    (fw.UnknownOperatorError, ("ReduceSum",), {"dialect": ""}, "there is no dialect ''; there are onnx, openvino"),
    (fw.UnknownOperatorError, ("ReduceSum",), {"dialect": []}, "there is no dialect []; there are onnx, openvino"),
    (fw.OptionError, ("ReduceSum", 1), {"opset": 3}, "both version 1 and opset 3 were given for ReduceSum; give one"),
    (fw.OptionError, ("ReduceSum-1", 11), {}, "'ReduceSum-1' and version=11 disagree; give one of them"),
    (fw.OptionError, ("onnx:CumSum",), {"dialect": "openvino"}, "'onnx:CumSum' and dialect='openvino' disagree"),
    (fw.ArgumentError, (3,), {}, 'name = 3 is of type int; give one such as "ReduceSum"'),
    (fw.ArgumentError, ("ReduceSum", "11"), {}, "version = '11' is of type str; give an int"),
    (fw.ArgumentError, ("ReduceSum", True), {}, "version = True is of type bool; give an int"),
    (fw.ArgumentError, ("ReduceSum", np.True_), {}, "is of type bool; give an int"),
    (fw.ArgumentError, ("ReduceSum",), {"opset": 13.0}, "opset = 13.0 is of type float; give an int"),
    (fw.ArgumentError, ("ReduceSum",), {"lenient": "no"}, "lenient = 'no' is of type str; accepted are True and False"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "arguments", "named", "says"), UNKNOWN)
def test_unknown_operators(
    error: type[Exception], arguments: tuple[Any, ...], named: dict[str, Any], says: str
) -> None:
    with pytest.raises(error) as caught:
        fw.operator(*arguments, **named)
    assert isinstance(caught.value, fw.FoldwiseError)
    assert str(caught.value).startswith("operator: ")
    assert says in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    numbers: list[Any] = [np.int64(11), np.uint8(11), np.array(11)]
    for number in numbers:
        assert fw.operator("ReduceSum", number).schema is fw.operator("ReduceSum", 11).schema
        assert fw.operator("ReduceSum", opset=number).schema is fw.operator("ReduceSum", 11).schema
    options: dict[str, Any] = {"lenient": np.True_}
    assert fw.operator("ReduceSum", 11, **options).lenient
