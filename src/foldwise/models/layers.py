"""Operators that ONNX and OpenVINO have under two names, or one: they do the same, element by element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LAYERS: Final[Mapping[str, str]] = {
    "Add": "Add",
    "Sub": "Subtract",
    "Mul": "Multiply",
    "Sqrt": "Sqrt",
    "Exp": "Exp",
    "Log": "Log",
    "Abs": "Abs",
    "Neg": "Negative",
    "Floor": "Floor",
    "Ceil": "Ceiling",
    "Sign": "Sign",
    "Tanh": "Tanh",
    "Sigmoid": "Sigmoid",
    "Relu": "ReLU",
    "Equal": "Equal",
    "Less": "Less",
    "LessOrEqual": "LessEqual",
    "Greater": "Greater",
    "GreaterOrEqual": "GreaterEqual",
    "And": "LogicalAnd",
    "Or": "LogicalOr",
    "Xor": "LogicalXor",
    "Not": "LogicalNot",
    "IsNaN": "IsNaN",
    "Where": "Select",
    "Expand": "Broadcast",
    "CastLike": "ConvertLike",
}
"""What each is called in OpenVINO. Their inputs are the same, in the same order."""
ALIKE: Final = frozenset(
    {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Sin", "Sinh", "Tan"}
)
"""Functions of one element that foldwise does not run: one name, and in ONNX only the dtypes ever changed."""
CHAINS: Final[Mapping[str, str]] = {"Max": "Maximum", "Min": "Minimum", "Sum": "Add"}
"""ONNX takes any number of inputs, OpenVINO two."""
FROM_LAYERS: Final[Mapping[str, str]] = (
    {layer: operator for operator, layer in LAYERS.items()}
    | {"Maximum": "Max", "Minimum": "Min"}
    | {name: name for name in ALIKE}
)  # fmt: skip
