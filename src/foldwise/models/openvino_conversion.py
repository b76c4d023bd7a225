"""ONNX models as OpenVINO's: functions unfolded, each node a layer or a few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from foldwise import dtypes
from foldwise.errors import FoldwiseError

from .control import control
from .conversion import Conversion, read_in, swept
from .graph import Array, Graph, Node, Program
from .layers import ALIKE, CHAINS, LAYERS
from .limits import Limits
from .meaning import Fact, axes_array, fact_of, lengths
from .nodes import Meant, defining, unfolded
from .onnx_conversion import inferred_facts, schema_of_or_none
from .onnx_tensors import NUMBERS
from .openvino_folds import OpenvinoWriter, unknown_dtype
from .openvino_writer import VERSION
from .plumbing import ONNX, runner
from .rewriting import Bench, RefusedError

CODES: Final = {number: name for name, number in NUMBERS.items()}
LAST: Final = (1 << 63) - 1


class ToOpenvino(Conversion):
    """One ONNX model on its way to OpenVINO."""

    def program(self) -> Program:
        """The model in OpenVINO's layers."""
        source = self.source
        nodes = unfolded(source, source.graph, self.limits, defining(source, self.limits))
        graph = replace(source.graph, nodes=[meant.node for meant in nodes])
        flat = replace(source, graph=graph, functions={})
        facts = self.known(graph, inferred_facts(flat).get(id(graph), {}), {})
        for value in graph.inputs:
            if value.name in graph.constants:  # OpenVINO has no defaults
                facts[value.name] = fact_of(graph.constants[value.name])
        bench = self.bench("openvino", 0, facts)
        for name in graph.constants:
            bench.constants[name] = graph.constants[name]
        for meant in nodes:
            self.node(meant, bench)
        return self.finish(self.built(graph, bench))

    def built(self, graph: Graph, bench: Bench) -> Program:
        """The program, with what is known of each value."""
        inputs = [bench.stated(value.name) for value in graph.inputs if value.name not in graph.constants]
        for value in inputs:
            if value.dtype not in dtypes.BY_NAME:
                why = f"it is of dtype {value.dtype or 'unknown'}, which OpenVINO's operators here do not take"
                fix = "state its dtype, or leave it out"
                self.refuse(f"input '{value.name}'", "", RefusedError("dtype", why, fix))
        outputs = [bench.stated(value.name) for value in graph.outputs]
        made = [name for node in bench.nodes for name in node.outputs if name]
        values = {name: bench.stated(name) for name in made}
        found = Graph(graph.name, inputs, outputs, bench.nodes, bench.constants, values)
        found = swept(found, {*graph.constants, *read_in([graph])}, read_in([found]))
        return Program("openvino", found, int(VERSION), origin=self.source.origin)

    def node(self, meant: Meant, bench: Bench) -> None:
        """One node, or a refusal more."""
        node, opsets = meant
        bench.maker, bench.near = node, node.name or next(filter(None, node.outputs), node.operator)
        try:
            found = self.meant(node, opsets, bench.facts)
            if found is not None:
                OpenvinoWriter(bench, self.exact).write(found, node.outputs[0])
            else:
                self.layer(node, opsets.get("", 1), bench)
        except FoldwiseError as error:
            schema = schema_of_or_none(self.source, node, opsets)
            self.refuse(node, schema.label if schema else node.operator, error)
        self.compute(node, opsets.get("", 1), bench.facts)

    def layer(self, node: Node, opset: int, bench: Bench) -> None:
        """A node of another operator."""
        runs = control(node, opset) is not None or runner("onnx", node, opset, self.limits) is not None
        if node.domain or not (runs or node.operator in ALIKE):
            raise RefusedError("operator", "OpenVINO's form of it is not written here",
                          "let OpenVINO's own converter do this model, or replace the node")  # fmt: skip
        if control(node, opset) is not None:
            raise RefusedError("operator", "graphs inside of nodes are not written as OpenVINO's bodies",
                          "take the graph out of the node")  # fmt: skip
        inputs = list(node.inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        _Layers(bench, node, inputs, OpenvinoWriter(bench, self.exact)).write()


class _Layers:
    """One node as layers."""

    def __init__(self, bench: Bench, node: Node, inputs: list[str], words: OpenvinoWriter) -> None:
        self.bench = bench
        self.node = node
        self.inputs = inputs
        self.words = words
        self.out = node.outputs[0]

    def write(self) -> None:
        operator = self.node.operator
        if operator in ALIKE:
            self.add(operator, *self.inputs)
        elif operator in LAYERS:
            mode = {"mode": "bidirectional"} if operator == "Expand" else {}
            self.add(LAYERS[operator], *self.inputs, **mode)
        elif operator in CHAINS:
            self.chain(CHAINS[operator], self.inputs)
        else:
            make: Callable[[], None] | None = getattr(self, f"_{operator.lower()}", None)
            if make is None or operator not in ONNX:
                raise RefusedError("operator", "OpenVINO's form of it is not written here", "replace the node")
            make()

    def add(self, layer: str, *inputs: str, **attributes: Any) -> None:
        """The layer that makes what the node does."""
        self.bench.add(layer, *inputs, out=self.out, **attributes)

    def chain(self, layer: str, inputs: list[str]) -> None:
        total = inputs[0]
        for each in inputs[1:-1]:
            total = self.bench.add(layer, total, each, fact=Fact(self.dtype))
        if len(inputs) > 1:
            self.add(layer, total, inputs[-1])
        else:
            self.words.same(total, self.out)

    @property
    def fact(self) -> Fact:
        return self.bench.fact(self.inputs[0])

    @property
    def dtype(self) -> str:
        if self.fact.dtype not in dtypes.BY_NAME:
            raise unknown_dtype(self.inputs[0])
        return str(self.fact.dtype)

    def integers(self, place: int, name: str) -> str | None:
        """What is an input in newer opsets and an attribute in older ones."""
        if len(self.inputs) > place and self.inputs[place]:
            return self.inputs[place]
        written = self.node.constant(name)
        return None if written is None else self.bench.constant(written, "int64", name)

    # ---- arithmetic

    def _identity(self) -> None:
        self.words.same(self.inputs[0], self.out)

    def _div(self) -> None:
        whole = {} if self.dtype.startswith(("float", "bfloat")) else {"m_pythondiv": False}
        self.add("Divide", *self.inputs, **whole)

    def _pow(self) -> None:
        base, power = self.inputs
        self.add("Power", base, self.words.cast(power, self.same_kind(power)))

    def same_kind(self, other: str) -> str:
        """The first input's dtype, where the other may be cast to it."""
        kinds = [dtypes.BY_NAME[dtype].kind for dtype in (self.dtype, str(self.bench.fact(other).dtype))]
        if kinds[0] != "f" and kinds[1] == "f":
            raise RefusedError("dtype", "it raises integers to powers of floats", "cast the integers before")
        return self.dtype

    def _reciprocal(self) -> None:
        self.add("Divide", self.bench.constant(1, self.dtype), self.inputs[0])

    def _round(self) -> None:
        self.add("Round", self.inputs[0], mode="half_to_even")

    def _clip(self) -> None:
        ends = [
            self.inputs[k] if len(self.inputs) > k else self.bound(name) for k, name in enumerate(("min", "max"), 1)
        ]
        steps = [(layer, end) for layer, end in zip(("Maximum", "Minimum"), ends, strict=True) if end]
        x = self.inputs[0]
        for layer, end in steps[:-1]:
            x = self.bench.add(layer, x, end, fact=self.fact._replace(array=None))
        if steps:
            self.add(steps[-1][0], x, steps[-1][1])
        else:
            self.words.same(x, self.out)

    def bound(self, name: str) -> str:
        written = self.node.constant(name)
        return "" if written is None else self.bench.constant(written, self.dtype, name)

    def _cast(self) -> None:
        dtype = CODES.get(self.node.constant("to"))
        if dtype not in dtypes.BY_NAME:
            raise RefusedError(
                "dtype", f"it casts to {dtype}, which OpenVINO casts in another way", "leave the cast out"
            )
        self.words.cast(self.inputs[0], str(dtype), self.out)

    def _matmul(self) -> None:
        self.add("MatMul", *self.inputs, transpose_a=False, transpose_b=False)

    # ---- shapes

    def _constant(self) -> None:
        run = runner("onnx", self.node, 28, Limits())
        assert run is not None
        self.bench.constants[self.out] = array = run()
        self.bench.facts[self.out] = fact_of(array)

    def _reshape(self) -> None:
        shape = self.integers(1, "shape")
        assert shape is not None
        self.add("Reshape", self.inputs[0], shape, special_zero=not self.node.constant("allowzero", 0))

    def _squeeze(self) -> None:
        axes = self.integers(1, "axes")
        self.add("Squeeze", *filter(None, (self.inputs[0], axes)))

    def _unsqueeze(self) -> None:
        axes = self.integers(1, "axes")
        assert axes is not None
        self.add("Unsqueeze", self.inputs[0], axes)

    def _flatten(self) -> None:
        axis = self.node.constant("axis", 1)
        shape = lengths(self.fact.shape)
        if shape is not None:
            wanted = [int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))]
        elif axis in (0, 1):
            wanted = [1 - axis, -1]
        else:
            raise RefusedError("shape", "it flattens a tensor whose shape is not known", "state the shape")
        self.add("Reshape", self.inputs[0], self.bench.constant(wanted, "int64"), special_zero=shape is None)

    def _shape(self) -> None:
        start, end = self.node.constant("start", 0), self.node.constant("end")
        if not start and end is None:
            self.add("ShapeOf", self.inputs[0], output_type="i64")
            return
        given = (start, LAST if end is None else end, 1, 0)
        bounds = [self.bench.constant(axes_array((each,))) for each in given]
        self.add("Slice", self.words.shape(self.inputs[0]), *bounds)

    def _size(self) -> None:
        axes = self.bench.constant(axes_array((0,)))
        self.words.reduce("prod", self.words.shape(self.inputs[0]), axes, False, self.out)

    def _transpose(self) -> None:
        order = self.node.constant("perm") or []
        self.add("Transpose", self.inputs[0], self.bench.constant(order, "int64", "order"))

    def _constantofshape(self) -> None:
        value: Array = self.node.constant("value", np.zeros(1, np.float32))
        self.add("Broadcast", self.bench.constant(value.reshape(-1)[0]), self.inputs[0], mode="numpy")

    def _range(self) -> None:
        self.add("Range", *self.inputs, output_type=dtypes.BY_NAME[self.dtype].ir)

    def _concat(self) -> None:
        self.add("Concat", *self.inputs, axis=self.node.constant("axis", 1))

    def _gather(self) -> None:
        axis = self.bench.constant(self.node.constant("axis", 0), "int64", "axis")
        self.add("Gather", *self.inputs, axis, batch_dims=0)

    def _slice(self) -> None:
        starts, ends = self.integers(1, "starts"), self.integers(2, "ends")
        axes, steps = self.integers(3, "axes"), self.integers(4, "steps")
        assert starts is not None
        assert ends is not None
        if steps is None:
            count = lengths(self.bench.fact(starts).shape)
            if count is None:
                raise RefusedError("shape", "how many axes it slices is not known", "state the shape of its starts")
            steps = self.bench.constant(np.ones(count, np.int64), what="steps")
        kind = str(self.bench.fact(starts).dtype)
        self.add("Slice", self.inputs[0], starts, ends, self.words.cast(steps, kind), *([axes] if axes else []))
