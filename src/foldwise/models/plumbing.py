"""What lies around reductions in a model: element-wise arithmetic, casts and shapes.

Each row of the tables makes, of a node, the function that runs it. What is not here is done by another engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import numpy as np

from .arithmetic import (
    Maker,
    Run,
    always,
    cast_like,
    cast_node,
    chosen,
    clip,
    clipped,
    convert,
    divide_layer,
    divided,
    elementwise,
    half_to_even,
    logarithm,
    matmul,
    of_reals,
    power,
    several,
    sigmoid,
)  # fmt: skip
from .graph import Node
from .limits import Limits
from .shapes import (
    concat,
    constant,
    expand,
    filled,
    flatten,
    gather,
    range_of,
    reshape,
    shape_of,
    slice_node,
    squeeze,
    top,
    transpose,
    unsqueeze,
)  # fmt: skip

Need = Literal["place", "shape", "whole"]
"""The same place of each input, however they broadcast; their shapes; or all of them."""

SIZE: Final = always(lambda x: np.array(x.size, np.int64))
_OF_SHAPES: Final[frozenset[Maker]] = frozenset({shape_of, SIZE})
_OF_WHOLES: Final[frozenset[Maker]] = frozenset({
    matmul, concat, constant, expand, filled, flatten, gather, range_of, reshape, slice_node, squeeze, top, transpose,
    unsqueeze,
})  # fmt: skip


class Row(NamedTuple):
    """One operator: from which opset on a maker holds, the oldest first."""

    versions: tuple[tuple[int, Maker], ...]

    def maker(self, opset: int) -> Maker | None:
        """The maker for a model's opset."""
        return next((maker for since, maker in reversed(self.versions) if since <= opset), None)


    def needs(self, opset: int) -> Need:
        """What of its inputs a place of the result depends on."""
        maker = self.maker(opset)
        return "shape" if maker in _OF_SHAPES else "whole" if maker in _OF_WHOLES else "place"


def row(maker: Maker, since: int = 1) -> Row:
    """An operator with one form since some opset."""
    return Row(((since, maker),))


IDENTITY: Final = always(lambda x: x)

ONNX: Final[Mapping[str, Row]] = {
    "Identity": row(IDENTITY),
    "Constant": row(constant),
    "Cast": row(cast_node, 6),
    "CastLike": row(cast_like, 15),
    "Add": row(elementwise(np.add), 7),
    "Sub": row(elementwise(np.subtract), 7),
    "Mul": row(elementwise(np.multiply), 7),
    "Div": row(elementwise(divided), 7),
    "Pow": row(elementwise(power, same=False), 7),
    "Sqrt": row(of_reals(np.sqrt), 6),
    "Exp": row(of_reals(np.exp), 6),
    "Log": row(of_reals(logarithm), 6),
    "Abs": row(elementwise(np.abs), 6),
    "Neg": row(elementwise(np.negative), 6),
    "Reciprocal": row(elementwise(np.reciprocal), 6),
    "Floor": row(elementwise(np.floor), 6),
    "Ceil": row(elementwise(np.ceil), 6),
    "Round": row(elementwise(np.rint), 11),
    "Sign": row(elementwise(np.sign), 9),
    "Tanh": row(of_reals(np.tanh), 6),
    "Sigmoid": row(of_reals(sigmoid), 6),
    "Relu": row(elementwise(lambda x: np.maximum(x, x.dtype.type(0))), 6),
    "Clip": Row(((6, clip), (11, always(clipped)))),
    "Max": row(elementwise(several(np.maximum)), 8),
    "Min": row(elementwise(several(np.minimum)), 8),
    "Sum": row(elementwise(several(np.add)), 8),
    "Equal": row(elementwise(np.equal), 7),
    "Less": row(elementwise(np.less), 7),
    "LessOrEqual": row(elementwise(np.less_equal), 12),
    "Greater": row(elementwise(np.greater), 7),
    "GreaterOrEqual": row(elementwise(np.greater_equal), 12),
    "And": row(elementwise(np.logical_and), 7),
    "Or": row(elementwise(np.logical_or), 7),
    "Xor": row(elementwise(np.logical_xor), 7),
    "Not": row(elementwise(np.logical_not)),
    "IsNaN": row(elementwise(np.isnan), 9),
    "Where": row(elementwise(chosen, same=False), 9),
    "MatMul": row(matmul),
    "Reshape": Row(((5, reshape),)),
    "Squeeze": row(squeeze),
    "Unsqueeze": row(unsqueeze),
    "Flatten": row(flatten),
    "Shape": row(shape_of),
    "Size": row(SIZE),
    "Transpose": row(transpose),
    "Expand": row(expand, 8),
    "ConstantOfShape": row(filled, 9),
    "Range": row(range_of, 11),
    "Concat": row(concat),
    "Gather": row(gather),
    "Slice": row(slice_node, 10),
}

OPENVINO: Final[Mapping[str, Row]] = {
    "Convert": row(convert),
    "ConvertLike": row(cast_like),
    "Identity": row(IDENTITY),
    "Subtract": ONNX["Sub"],
    "Multiply": ONNX["Mul"],
    "Divide": row(divide_layer),
    "Power": ONNX["Pow"],
    "Negative": ONNX["Neg"],
    "Ceiling": ONNX["Ceil"],
    "ReLU": ONNX["Relu"],
    "Clamp": row(clip),
    "Maximum": ONNX["Max"],
    "Minimum": ONNX["Min"],
    "NotEqual": row(elementwise(np.not_equal)),
    "LessEqual": ONNX["LessOrEqual"],
    "GreaterEqual": ONNX["GreaterOrEqual"],
    "LogicalAnd": ONNX["And"],
    "LogicalOr": ONNX["Or"],
    "LogicalXor": ONNX["Xor"],
    "LogicalNot": ONNX["Not"],
    "Select": ONNX["Where"],
    "ShapeOf": ONNX["Shape"],
    "Broadcast": row(expand),
    "Round": row(half_to_even),
    "IsNaN": ONNX["IsNaN"],
    "TopK": row(top),
    **{
        name: ONNX[name]
        for name in (
            "Add", "Sqrt", "Exp", "Log", "Abs", "Floor", "Sign", "Tanh", "Sigmoid", "Equal", "Less", "Greater",
            "MatMul", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Range", "Concat", "Gather", "Slice",
        )
    },
}  # fmt: skip


SEVERAL: Final = frozenset({"TopK"})
"""What gives several results; all else gives one."""


def runner(dialect: str, node: Node, opset: int, limits: Limits) -> Run | None:
    """What runs a node, or None where nothing here does."""
    found, version = _row(dialect, node, opset)
    maker = None if found is None else found.maker(version)
    return None if maker is None else maker(node, limits)


def need(dialect: str, node: Node, opset: int) -> Need:
    """What of its inputs each place of a node's result depends on."""
    found, version = _row(dialect, node, opset)
    return "whole" if found is None else found.needs(version)


def said(dialect: str, node: Node, opset: int) -> str:
    """What tells what a node does with its inputs from what others do with the same."""
    attributes = {name: node.constant(name) for name in sorted(node.attributes)}
    return repr((dialect, node.operator, _row(dialect, node, opset)[1], attributes))


def _row(dialect: str, node: Node, opset: int) -> tuple[Row | None, int]:
    if dialect == "onnx":
        return (None if node.domain else ONNX.get(node.operator)), opset
    return OPENVINO.get(node.operator), 1 << 30
