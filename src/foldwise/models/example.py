"""The minimal models of the table of runtimes' faults, made from their descriptions."""

from __future__ import annotations

from typing import Final

import numpy as np

from foldwise.operators import Schema
from foldwise.runtimes.row import Example

from .arithmetic import numpy_of
from .graph import Array, Attribute, Graph, Node, Program, Value
from .meaning import axes_array
from .model import Model

COMPUTED: Final = ("computed", "open")


def example_model(example: Example) -> Model:
    """One node, with its inputs and its output."""
    onnx = example.dialect == "onnx"
    schema = example.schema
    graph = Graph("example", [Value(schema.data.name, example.dtype, example.shape)])
    node = Node(schema.name, [schema.data.name], [schema.output.name], name=schema.name.lower())
    node.domain = "" if onnx else f"opset{schema.version}"
    for name, value in example.attributes:
        node.attributes[name] = Attribute("int", value) if onnx else Attribute("string", str(bool(value)).lower())
    _place_axes(example, schema, node, graph)
    graph.nodes.append(node)
    shape = example.shape if schema.kind == "scan" else _reduced(example, schema)
    dtype = example.dtype if schema.output.type == schema.data.type else schema.output.type
    output = Value(schema.output.name, dtype, shape)
    graph.outputs.append(output)
    graph.values[output.name] = output
    opsets = {"": example.opset} if onnx else {}
    return Model(Program(example.dialect, graph, example.ir if onnx else 11, opsets, origin="the example"))


def _place_axes(example: Example, schema: Schema, node: Node, graph: Graph) -> None:
    """The axes, where this version has them or where the example wants them."""
    if example.form == "left out":
        node.inputs.append("")
    if example.axes is None:
        return
    if schema.kind == "arg":
        node.attributes["axis"] = Attribute("int", example.axes[0])
        return
    if schema.attribute("axes") or example.form == "attribute":
        node.attributes["axes"] = Attribute("ints", list(example.axes))
        return
    name = schema.inputs[1].name
    node.inputs.append(name)
    scalar = schema.kind == "scan" and example.form != "list"
    held = np.array(example.axes[0], np.int64) if scalar else axes_array(example.axes)
    graph.values[name] = Value(name, "int64", held.shape)
    if example.form in COMPUTED:
        graph.inputs.append(Value(name, "int64", held.shape if example.form == "computed" else (None,)))
    else:
        graph.constants[name] = held


def _reduced(example: Example, schema: Schema) -> tuple[int, ...] | None:
    """The shape of the result; not known where the axes are not."""
    if example.form in COMPUTED:
        return None
    rank = len(example.shape)
    written = dict(example.attributes)
    none = written.get("noop_with_empty_axes") or schema.empty_axes == "none"
    folded = {a % rank for a in example.axes or ()} or (set() if none else set(range(rank)))
    flag = schema.attribute("keepdims")
    keep = flag is not None and written.get(flag.name, flag.default)
    return tuple(1 if a in folded else n for a, n in enumerate(example.shape) if keep or a not in folded)


def example_inputs(example: Example) -> list[Array]:
    """What the model is given."""
    x: Array = np.resize(np.array(example.values, numpy_of(example.dtype)), example.shape)
    return [x, axes_array(example.axes)] if example.form in COMPUTED and example.axes is not None else [x]
