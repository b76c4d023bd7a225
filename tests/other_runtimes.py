"""Runs models in the runtimes that the table of faults is about."""

from __future__ import annotations

import importlib.metadata
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import openvino as ov
from onnx.reference import ReferenceEvaluator

import foldwise as fw
from foldwise.runtimes import RUNTIMES

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INSTALLED = {name: importlib.metadata.version(each.package) for name, each in RUNTIMES.items() if each.runs_models}


class Outcome(NamedTuple):
    """How it ended: "runs", or as the table calls it; and what came out."""

    status: str
    value: Any = None


def outcome(runtime: str, model: fw.Model, inputs: list[Any], folder: Path) -> Outcome:
    """What a runtime makes of a model."""
    path = folder / ("model.onnx" if model.program.dialect == "onnx" else "model.xml")
    model.save(path)
    load, run = _WAYS[runtime]
    try:
        loaded = load(path)
    except Exception:  # each has kinds of its own
        return Outcome("fails to load")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the evaluator computes may overflow
            return Outcome("runs", run(loaded, inputs))
    except Exception:
        return Outcome("fails to run")


def spared(row: str) -> bool:
    """Whether a fault of the table does not come up on this processor."""
    if row == "openvino-bfloat16-scan":  # without AVX-512 or AVX2-VNNI-2 it computes in float32
        return not {"BF16", "WINOGRAD"} & set(ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))
    return False


def _ort_session(path: Path) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _ort_run(session: Any, inputs: list[Any]) -> Any:
    given = {place.name: _ort_value(x) for place, x in zip(session.get_inputs(), inputs, strict=True)}
    (made,) = session.run_with_ort_values(None, given)
    return None if made.data_type() == "tensor(bfloat16)" else made.numpy()


def _ort_value(x: Any) -> Any:
    if x.dtype == BFLOAT16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), onnx.TensorProto.BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(x)


def _ov_request(path: Path) -> Any:
    model = ov.Core().read_model(str(path))
    return ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()


def _ov_run(request: Any, inputs: list[Any]) -> Any:
    for k, x in enumerate(inputs):
        request.set_input_tensor(k, _ov_tensor(x))
    request.infer()
    tensor = request.get_output_tensor(0)
    data = tensor.data.copy()
    return data.view(np.uint16).view(BFLOAT16) if tensor.element_type == ov.Type.bf16 else data


def _ov_tensor(x: Any) -> Any:
    if x.dtype != BFLOAT16:
        return ov.Tensor(x.copy())
    tensor = ov.Tensor(ov.Type.bf16, ov.Shape(list(x.shape)))
    tensor.data.view(np.uint16)[...] = x.view(np.uint16)
    return tensor


def _evaluator(path: Path) -> Any:
    return ReferenceEvaluator(onnx.load(path))


def _evaluate(evaluator: Any, inputs: list[Any]) -> Any:
    (made,) = evaluator.run(None, dict(zip(evaluator.input_names, inputs, strict=True)))
    return made


_WAYS = {
    "onnxruntime": (_ort_session, _ort_run),
    "openvino": (_ov_request, _ov_run),
    "reference": (_evaluator, _evaluate),
}
