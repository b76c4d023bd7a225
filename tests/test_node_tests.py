"""The official node tests of ONNX for these operators, called through fw.operator."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import foldwise as fw

NAMES = sorted({schema.name for schema in fw.operators() if schema.dialect == "onnx"})
EXPANDED = "_expanded"
PLUMBING: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Cast": lambda x, to: x.astype(onnx.helper.tensor_dtype_to_np_dtype(to)),
    "CastLike": lambda x, like: x.astype(like.dtype),
    "Exp": np.exp,
    "Log": np.log,
    "Mul": np.multiply,
    "Sqrt": np.sqrt,
}
"""What function bodies have around a reduction."""


@functools.cache
def official() -> dict[str, Any]:
    """Every official node test that is a single node of ours, or the body of one, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other operators' cases overflow on purpose
        from onnx.backend.test.case.node import collect_testcases

        cases = {case.name: case for case in collect_testcases(None)}
    singles = {
        name: case
        for name, case in cases.items()
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in NAMES
    }
    return singles | {name + EXPANDED: cases[name + EXPANDED] for name in singles if name + EXPANDED in cases}


def ours(expanded: bool) -> list[tuple[str, Any]]:
    return [(name, case) for name, case in official().items() if name.endswith(EXPANDED) == expanded]


def run(case: Any, inputs: list[Any]) -> list[Any]:
    """The model's outputs, node by node."""
    graph = case.model.graph
    opset = next(o.version for o in case.model.opset_import if o.domain == "")
    values = {"": None, **{i.name: np.asarray(v) for i, v in zip(graph.input, inputs, strict=True)}}
    for node in graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        function = PLUMBING[node.op_type] if node.op_type in PLUMBING else fw.operator(node.op_type, opset=opset)
        (output,) = node.output
        with np.errstate(divide="ignore"):  # the logarithm of an empty sum
            values[output] = np.asarray(function(*(values[name] for name in node.input), **attributes))
    return [values[output.name] for output in graph.output]


def check(cases: list[tuple[str, Any]]) -> None:
    for name, case in cases:
        for inputs, outputs in case.data_sets:
            for result, wanted in zip(run(case, inputs), outputs, strict=True):
                assert result.dtype == wanted.dtype, name
                assert result.shape == wanted.shape, name
                np.testing.assert_allclose(result, wanted, case.rtol, case.atol, err_msg=name)


@pytest.mark.parametrize("operator", NAMES)
def test_single_nodes(operator: str) -> None:
    cases = [(name, case) for name, case in ours(expanded=False) if case.model.graph.node[0].op_type == operator]
    assert cases
    check(cases)


def test_function_bodies() -> None:
    cases = ours(expanded=True)
    assert all(any(node.op_type in NAMES for node in case.model.graph.node) for _, case in cases)
    check(cases)


def test_how_many_there_are() -> None:
    """In ONNX 1.23; a later one has more."""
    assert len(ours(expanded=False)) >= 141
    assert len(ours(expanded=True)) >= 41
