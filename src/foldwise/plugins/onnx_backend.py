"""The interface that onnx asks of every backend: `prepare`, `run_model`, `run_node`, `supports_device`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from foldwise.errors import FoldwiseError, OptionError
from foldwise.models import Model, load


class Prepared(BackendRep):  # type: ignore[misc]  # onnx has no types here
    """A model, planned."""

    def __init__(self, model: Model, engine: str | None) -> None:
        self.model = model
        self.engine = engine
        names = [value.name for value in model.outputs]
        self._named = namedtupledict("Outputs", names)
        model.session(engine)  # what cannot run is refused here

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """The outputs as a tuple with names, for inputs in their order or by name, or for the only one."""
        alone = not isinstance(inputs, Mapping | Sequence) or isinstance(inputs, str)
        found = self.model.run([inputs] if alone else inputs, engine=self.engine)
        return self._named(*found.values())


class FoldwiseBackend(Backend):  # type: ignore[misc]  # onnx has no types here
    """foldwise as onnx knows backends. `engine=` names one for what foldwise does not run."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", engine: str | None = None, **kwargs: Any) -> bool:
        """Whether the model runs here."""
        try:
            cls.prepare(model, device, engine)
        except (FoldwiseError, onnx.checker.ValidationError):
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", engine: str | None = None, **kwargs: Any) -> Prepared:
        """A model, checked and ready to run over and over."""
        _check_device(device)
        onnx.checker.check_model(model)
        return Prepared(load(model), engine)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        opset_version: int = 0,
        **kwargs: Any,
    ) -> Any:
        """The outputs of one node, given its inputs in their order."""
        opset = onnx.helper.make_opsetid(node.domain, opset_version or onnx.defs.onnx_opset_version())
        arrays = [np.asarray(each) for each in (inputs.values() if isinstance(inputs, Mapping) else inputs)]
        names = [name for name in node.input if name]
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [_described(name, array) for name, array in zip(names, arrays, strict=True)],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        version = onnx.helper.find_min_ir_version_for([opset], ignore_unknown=True)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=version)
        _check_device(device)
        return Prepared(load(model), kwargs.get("engine")).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPUs only."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):  # not a device at all
            return False


def _described(name: str, array: Any) -> Any:
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _check_device(device: str) -> None:
    if not FoldwiseBackend.supports_device(device):
        raise OptionError(f"prepare: device = {device!r}; foldwise runs on CPUs: device='CPU'")


prepare = FoldwiseBackend.prepare
run_model = FoldwiseBackend.run_model
run_node = FoldwiseBackend.run_node
supports_device = FoldwiseBackend.supports_device
is_compatible = FoldwiseBackend.is_compatible
