"""foldwise inside other people's tools: onnx's backend interface, its reference evaluator, onnxruntime."""

from typing import Any


def reference_ops() -> list[type[Any]]:
    """The family's operators for onnx's evaluator: `ReferenceEvaluator(model, new_ops=foldwise.reference_ops())`."""
    from .reference import operator_classes

    return operator_classes()
