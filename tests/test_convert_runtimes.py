"""Converted models in the runtimes that they are for, compared where those are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import conversion_matrix as matrix
import numpy as np
import openvino as ov
import pytest

import foldwise as fw
from foldwise.models.onnx_file import to_proto
from foldwise.operators import CATALOG, Schema

X = (np.random.default_rng(1).integers(2, 33, (2, 3, 4)) / 8).astype(np.float32)


def given_to(found: fw.Model) -> list[Any]:
    """Plain values, and axes where axes are asked for."""
    return [X if value.name == "x" else np.ones([1] * len(value.shape or ()), np.int64) for value in found.inputs]


def ends(operator: str) -> list[Schema]:
    """The oldest version and the newest: between them are no other forms."""
    schemas = CATALOG.versions("onnx", operator)
    return list(dict.fromkeys((schemas[0], schemas[-1])))


@pytest.mark.parametrize("operator", matrix.OPERATORS)
def test_onnxruntime_agrees(operator: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    count = 0
    for schema in ends(operator):
        for form in matrix.forms(schema):
            given = matrix.Case(schema, form, "float32").model
            wanted = next(iter(given.run(given_to(given)).values()))
            for opset in (8, 13, 18):
                try:
                    made = fw.convert(given, opset)
                except fw.ConversionError:
                    continue
                options = runtime.SessionOptions()
                options.log_severity_level = 4
                proto = to_proto(made.program).SerializeToString()
                session = runtime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
                (found,) = session.run(None, {v.name: x for v, x in zip(made.inputs, given_to(made), strict=True)})
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
                count += 1
    assert count >= (operator != "CumProd")  # which came after these opsets


@pytest.mark.parametrize("operator", [name for name in matrix.OPERATORS if name != "CumProd"])
def test_openvino_agrees(operator: str, tmp_path: Path) -> None:
    core = ov.Core()
    path = tmp_path / "m.xml"
    for schema in ends(operator):
        for form in matrix.forms(schema):
            for dtype in schema.dtypes:
                given = matrix.Case(schema, form, dtype).model
                try:
                    layers = fw.convert(given, to="openvino", exact=False)
                except fw.ConversionError:
                    continue
                layers.save(path)
                read = core.read_model(str(path))
                if dtype != "float32":
                    continue  # openvino computes many others in float32
                compiled = core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
                found = compiled(given_to(given))[0]
                wanted = next(iter(given.run(given_to(given)).values()))
                assert found.shape == wanted.shape
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
