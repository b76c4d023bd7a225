"""An operator remembers what its calls came to: whatever was called before, a call gives what a new operator gives."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import foldwise as fw
from foldwise.models.folding import Folding
from foldwise.operation import Operator

SQUARE = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
DATA = [
    SQUARE,
    SQUARE.astype(np.int32),
    SQUARE.astype(ml_dtypes.bfloat16),
    SQUARE.astype(">f4"),
    SQUARE.T,
    SQUARE[None],
    np.float32(2),
    np.array(2, np.float32),
    np.zeros((2, 0), np.float32),
    np.zeros((0, 3), np.float32),
    SQUARE.astype(bool),
    SQUARE.astype(complex),
    SQUARE.tolist(),
    None,
]
AXES = [
    np.array([1]),
    np.array([-1, 0]),
    np.array([1, 1]),
    np.array(1),
    np.array(1, np.int32),
    np.array([0], np.uint8),
    np.array([0], ">i8"),
    np.array([0]),
    np.array([0.0]),
    np.array([True]),
    np.zeros(0, np.int64),
    np.arange(70),
    [1],
    [True],
    [1.0],
    (1,),
    [],
    [[1]],
    1,
    True,
    1.0,
    2,
    np.int64(1),
    None,
    "1",
]
FLAGS: list[Any] = [0, 1, 2, True, 1.0, np.int64(1), np.array(1), None, [1], "no"]
OPERATORS = [
    "onnx:ReduceSum-11",
    "onnx:ReduceSum-13",
    "onnx:ReduceMax-20",
    "onnx:ReduceLogSumExp-18",
    "onnx:ArgMax-13",
    "onnx:CumSum-14",
    "openvino:ReduceMean-1",
    "openvino:ReduceL2-4",
    "openvino:CumSum-3",
]


def told(call: Callable[[], Any]) -> tuple[Any, ...]:
    """All that a call does: its result bit by bit, or its refusal, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = call()
            seen: tuple[Any, ...] = type(made), made.dtype, made.shape, made.tobytes()
        except fw.FoldwiseError as error:
            seen = type(error), str(error)
    return *seen, [str(each.message) for each in caught]


def calls(operator: Operator) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls of every sort, most of them alike in some way."""
    names = [place.name for place in operator.schema.inputs[1:]]
    flags = [a.name for a in operator.schema.attributes if a.type != "ints" and a.name != "axis"]
    axes_by_name = names or [a.name for a in operator.schema.attributes if a.name in ("axes", "axis")]
    made: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((x,), {}) for x in DATA]
    for x, axes in itertools.product(DATA[:6] + DATA[8:11], AXES):
        made += [((x, axes), {}), ((x,), {axes_by_name[0]: axes})]
    for flag, given in itertools.product(flags, FLAGS):
        made += [((SQUARE,), {flag: given}), ((SQUARE,), {flag: given, axes_by_name[0]: AXES[0 if names else 11]})]
    by_name = {operator.schema.data.name: SQUARE}
    return [*made, ((), {}), ((), by_name), ((SQUARE,), by_name), ((SQUARE, *AXES[:3]), {}), ((SQUARE,), {"no": 1})]


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_call_is_not_changed_by_those_before(name: str, lenient: bool) -> None:
    operator = fw.operator(name, lenient=lenient)
    listed = calls(operator)
    alone = [
        told(lambda: fw.operator(name, lenient=lenient)(*inputs, **named)) for inputs, named in listed  # noqa: B023
    ]
    for seed in range(3):
        order = random.Random(seed).sample(range(len(listed)), len(listed))
        for i in order:
            inputs, named = listed[i]
            assert told(lambda: operator(*inputs, **named)) == alone[i], listed[i]  # noqa: B023
    assert sum(issubclass(each[0], np.ndarray) for each in alone) > 40


def test_axes_and_lists_may_change_between_calls() -> None:
    operator = fw.operator("onnx:ReduceSum-13")
    axes = np.array([0])
    first = operator(SQUARE, axes)
    axes[0] = 1
    assert operator(SQUARE, axes).shape == (2, 1)
    assert first.shape == (1, 3)
    older, listed = fw.operator("onnx:ReduceSum-11"), [0]
    assert older(SQUARE, axes=listed).shape == (1, 3)
    listed.append(1)
    assert older(SQUARE, axes=listed).shape == (1, 1)


def test_results_are_new_each_time() -> None:
    operator = fw.operator("onnx:ReduceSum-13")
    first = operator(SQUARE, np.array([1]))
    second = operator(SQUARE, np.array([1]))
    assert not np.shares_memory(first, second)


def test_what_is_remembered_is_bounded() -> None:
    operator = fw.operator("onnx:ReduceSum-13")
    x = np.ones((1,) * 10, np.float32)
    for axes in itertools.combinations(range(10), 3):
        assert operator(x, np.array(axes), keepdims=0).shape == (1,) * 7
    assert len(operator._ready) <= 64


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_operators_are_copied_and_pickled_after_calls(again: Callable[[Operator], Operator]) -> None:
    operator = fw.operator("onnx:ReduceSum-13", lenient=True)
    other = fw.operator("onnx:ReduceSum-13")
    other(SQUARE, np.array([1]))
    for each in operator, other:
        made = again(each)
        assert repr(made) == repr(each)
        assert made(SQUARE, np.array([1])).tolist() == [[6.0], [15.0]]


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
def test_a_node_whose_axes_come_with_each_call(lenient: bool) -> None:
    schema = fw.operator("onnx:ReduceSum-13").schema
    node = Folding(schema, {"keepdims": 0}, lenient)
    arrays: Sequence[Any] = [x for x in DATA if isinstance(x, np.ndarray) and x.dtype != complex]
    axes_given = [axes for axes in AXES if isinstance(axes, np.ndarray)]
    for x, axes in random.Random(0).sample([*itertools.product(arrays, axes_given)] * 2, 200):
        fresh = Folding(schema, {"keepdims": 0}, lenient)
        assert told(lambda: node(x, axes)) == told(lambda: fresh(x, axes))  # noqa: B023
