"""Our reductions and scans inside onnx's reference evaluator."""

from __future__ import annotations

from typing import Any

from onnx.reference.op_run import OpRun

from foldwise.models.folding import Folding
from foldwise.operators import CATALOG


def operator_classes() -> list[type[Any]]:
    """Every operator of the family."""
    return [type(name, (_Folded,), {"op_domain": ""}) for name in CATALOG.names("onnx")]


class _Folded(OpRun):  # type: ignore[misc]  # onnx has no types here
    """An operator of the name that the class has, in the version that the model's opset means."""

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any]:
        schema = CATALOG.find(type(self).__name__, opset=self.run_params["opsets"][""])
        # The evaluator fills in defaults of the newest version, which an older one may not have.
        known = {attribute.name for attribute in schema.attributes}
        stated = {attribute.name: getattr(self, attribute.name) for attribute in self.onnx_node.attribute}
        filled = {name: value for name, value in attributes.items() if value is not None and name in known}
        return (Folding(schema, stated | filled, lenient=False)(*inputs),)
