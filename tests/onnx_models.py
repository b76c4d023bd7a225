"""ONNX models for the tests, and onnx's own."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

import foldwise as fw

FAMILY = sorted({schema.name for schema in fw.operators() if schema.dialect == "onnx"})


def model(text: str, opset: int = 18, ir: int = 8) -> ModelProto:
    """A model in onnx's own notation: only the graph, and the functions after it."""
    made: ModelProto = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n{text}')
    return made


def loaded(text: str, opset: int = 18, ir: int = 8) -> fw.Model:
    return fw.load(model(text, opset, ir))


@functools.cache
def official() -> dict[str, Any]:
    """Every official node test, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other operators' cases overflow on purpose
        from onnx.backend.test.case.node import collect_testcases

        return {case.name: case for case in collect_testcases(None)}


def with_tensor(**fields: Any) -> ModelProto:
    """A model whose output is a constant that the test describes field by field."""
    made = model("g () => (float[2,3] y) { y = Identity(w) }")
    raw = fields.pop("external", None)
    tensor = TensorProto(name="w", **{"data_type": TensorProto.FLOAT, "dims": [2, 3], **fields})
    if raw is not None:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in raw:
            tensor.external_data.add(key=key, value=value)
    made.graph.initializer.append(tensor)
    return made


def data(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Random values, some of them alike."""
    values = np.random.default_rng(seed).integers(0 if np.dtype(dtype).kind == "u" else -8, 9, shape)
    return (values * (0.25 if np.dtype(dtype).kind not in "iu" else 1)).astype(dtype)
