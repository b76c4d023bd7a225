"""onnxruntime's sessions for the tests, with foldwise's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx_models import model
from trees import Array

from foldwise.plugins.onnxruntime import InferenceSession

FLOATS: Array = np.random.default_rng(0).standard_normal((40, 60)).astype(np.float32)


def quiet(**settings: Any) -> Any:
    """Session options that keep the errors we provoke out of the log."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    for name, value in settings.items():
        setattr(options, name, value)
    return options


def session(made: onnx.ModelProto, options: Any = None, **named: Any) -> Any:
    return InferenceSession(made.SerializeToString(), options or quiet(), providers=["CPUExecutionProvider"], **named)


def same_bits(result: Any, wanted: Any) -> bool:
    return bool(
        result.dtype == wanted.dtype and result.shape == wanted.shape and result.tobytes() == wanted.tobytes()
    )


def identity(opset: int) -> bytes:
    made: bytes = model("g (float x) => (float y) { y = Identity (x) }", opset).SerializeToString()
    return made


def newest_opset() -> int:
    """The newest opset that this onnxruntime runs without us."""
    for opset in range(onnx.defs.onnx_opset_version(), 1, -1):
        try:
            ort.InferenceSession(identity(opset), quiet())
        except Exception:  # its own kinds
            continue
        return opset
    raise AssertionError("onnxruntime runs no opset")


NEWEST = newest_opset()
