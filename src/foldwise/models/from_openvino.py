"""OpenVINO models as ONNX ones, at any opset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx

from foldwise import dtypes
from foldwise.errors import FoldwiseError
from foldwise.operators import CATALOG
from foldwise.operators.schema import Schema

from .arithmetic import BY_IR
from .conversion import Conversion, read_in, swept
from .graph import Graph, Node, Program, Value
from .layers import ALIKE, FROM_LAYERS
from .limits import Limits
from .meaning import Fact, axes_array
from .onnx_conversion import OLDEST_IR, refuse_invalid
from .onnx_folds import OnnxWriter
from .onnx_versions import first_that_fits, misfit, schema_at
from .plumbing import ONNX, runner
from .rewriting import Bench, RefusedError

NOWHERE: Final = RefusedError(
    "operator", "ONNX's form of it is not written here", "replace the layer, or keep the model that it was made from"
)


class FromOpenvino(Conversion):
    """One OpenVINO model on its way to ONNX."""

    def __init__(self, source: Program, opset: int, exact: bool, limits: Limits) -> None:
        super().__init__(source, exact, limits)
        self.opset = opset
        self.read: dict[str, int] = {}

    def program(self) -> Program:
        """The model in ONNX's operators."""
        graph = self.source.graph
        for node in graph.nodes:
            for name in node.inputs:
                self.read[name] = self.read.get(name, 0) + 1
        for value in graph.outputs:
            self.read[value.name] = self.read.get(value.name, 0) + 1
        bench = self.bench("onnx", self.opset, self.known(graph, {}, {}))
        bench.constants |= graph.constants
        for node in graph.nodes:
            self.node(node, bench)
        made = self.finish(self.built(graph, bench))
        refuse_invalid(made)
        return made

    def node(self, node: Node, bench: Bench) -> None:
        """One layer, or a refusal more."""
        bench.maker, bench.near = node, node.name or next(filter(None, node.outputs), node.operator)
        before = len(bench.nodes)
        try:
            found = self.meant(node, {}, bench.facts)
            if found is not None:
                OnnxWriter(bench, self.exact).write(found, node.outputs[0])
            else:
                self.infer(node, bench.facts)
                self.layer(node, bench)
            self.check(bench.nodes[before:], bench)
        except FoldwiseError as error:
            self.refuse(node, self.label(node), error)
        self.compute(node, 0, bench.facts)

    def label(self, node: Node) -> str:
        """The family's operator with its version; any other by its name."""
        versions = CATALOG.versions("openvino", node.operator)
        return versions[-1].label if versions else node.operator

    def check(self, nodes: list[Node], bench: Bench) -> None:
        """What the opset does not have, or not for these dtypes."""
        for node in nodes:
            schema = schema_at(node, self.opset)
            row = ONNX.get(node.operator)
            if schema is None or (row is not None and row.maker(self.opset) is None):
                raise RefusedError(
                    "opset", f"opset {self.opset} has no {node.operator} that does this", _later(node.operator, row)
                )
            why = misfit(node, schema, bench.facts)
            if why:
                fits = first_that_fits(node, self.opset, bench.facts)
                later = f"convert to opset {fits} or later, or " if fits else ""
                raise RefusedError("dtype", why, f"{later}cast it before")

    def layer(self, node: Node, bench: Bench) -> None:
        """A layer of another operator."""
        attached = next((name for name, each in node.attributes.items() if each.kind == "xml"), None)
        if attached is not None:
            raise RefusedError("operator", f"it has a part <{attached}>, which is not read here", NOWHERE.way_out)
        if runner("openvino", node, 0, self.limits) is None and node.operator not in ALIKE:
            raise NOWHERE
        _Nodes(self, bench, node).write()

    # ---- the whole

    def built(self, graph: Graph, bench: Bench) -> Program:
        """The program, whose outputs each have a name of their own."""
        outputs: list[Value] = []
        taken: set[str] = set()
        made = {name for node in bench.nodes for name in node.outputs}
        for value in graph.outputs:
            name = value.name
            if name in taken or name not in made:  # an input, a constant, or one value given twice
                name = self.names.new(next(iter(value.aliases), f"{name}/result"))
                bench.nodes.append(Node("Identity", [value.name], [name]))
                bench.facts[name] = bench.fact(value.name)
            taken.add(name)
            fact = bench.fact(name)
            outputs.append(Value(name, fact.dtype, fact.shape))
        inputs = [Value(value.name, value.dtype, value.shape) for value in graph.inputs]
        for what, value in (*(("input", each) for each in inputs), *(("output", each) for each in outputs)):
            if value.shape is None:
                why = "its rank is not known, and ONNX states the shape of each input and output"
                fix = "state it, or how many axes are folded"
                self.refuse(f"{what} '{value.name}'", "", RefusedError("shape", why, fix))
            elif value.dtype not in dtypes.BY_NAME:
                why = f"it is of dtype {value.dtype or 'unknown'}, which ONNX's operators here do not take"
                self.refuse(f"{what} '{value.name}'", "", RefusedError("dtype", why, "cast it before"))
        found = Graph(graph.name or "model", inputs, outputs, bench.nodes, bench.constants)
        found = swept(found, {*graph.constants, *read_in([graph])}, read_in([found]))
        ids = [onnx.helper.make_opsetid("", self.opset)]
        version: int = max(onnx.helper.find_min_ir_version_for(ids, ignore_unknown=True), OLDEST_IR)
        return Program("onnx", found, version, {"": self.opset}, origin=self.source.origin)


def _later(operator: str, row: Any) -> str:
    since = None if row is None else row.versions[0][0]
    return "replace the layer" if since is None else f"convert to opset {since} or later"


class _Nodes:
    """One layer as nodes."""

    def __init__(self, conversion: FromOpenvino, bench: Bench, node: Node) -> None:
        self.conversion = conversion
        self.bench = bench
        self.node = node
        self.inputs = [name for name in node.inputs if name]
        self.out = node.outputs[0]
        self.words = OnnxWriter(bench, conversion.exact)
        self.opset = bench.opset

    def write(self) -> None:
        operator = self.node.operator
        if operator in FROM_LAYERS:
            self.add(FROM_LAYERS[operator], *self.inputs)
            return
        make: Callable[[], None] | None = getattr(self, f"_{operator.lower()}", None)
        if make is None:
            raise NOWHERE
        make()

    def add(self, operator: str, *inputs: str, **attributes: Any) -> None:
        """The node that makes what the layer does."""
        self.bench.add(operator, *inputs, out=self.out, **attributes)

    def truth(self, name: str, default: str) -> bool:
        """A boolean of the layer."""
        return str(self.node.constant(name, default)).lower() in ("true", "1")

    @property
    def fact(self) -> Fact:
        return self.bench.fact(self.inputs[0])

    def integers(self, place: int, what: str) -> str:
        """An input of integers, as ONNX has them: int64, one axis."""
        name = self.inputs[place]
        fact = self.bench.fact(name)
        if fact.array is not None:
            return self.bench.constant(fact.array.astype(np.int64).reshape(-1), what=what)
        if fact.shape is None:
            raise RefusedError("shape", f"the rank of its {what} ('{name}') is not known", "state their shape")
        wide = self.words.cast(name, "int64")
        return wide if fact.rank == 1 else self.bench.add("Reshape", wide, self.bench.constant(axes_array((-1,))))

    def constants(self, place: int, what: str) -> list[int]:
        """The integers of an input that must be a constant."""
        array = self.bench.fact(self.inputs[place]).array
        if array is None:
            raise RefusedError("form", f"its {what} is computed ('{self.inputs[place]}')", "make it a constant")
        return [int(n) for n in array.reshape(-1)]

    # ---- arithmetic

    def _notequal(self) -> None:
        equal = self.bench.add("Equal", *self.inputs, fact=Fact("bool"))
        self.add("Not", equal)

    def _identity(self) -> None:
        self.words.same(self.inputs[0], self.out)

    def _divide(self) -> None:
        dtype = self.fact.dtype
        floors = dtype is None or dtypes.BY_NAME[dtype].kind == "i"
        if floors and self.truth("m_pythondiv", "true"):
            raise RefusedError("operator", "it divides integers toward minus infinity, and ONNX toward zero",
                               "set m_pythondiv to false, or divide floats")  # fmt: skip
        self.add("Div", *self.inputs)

    def _power(self) -> None:
        self.add("Pow", *self.inputs)

    def _round(self) -> None:
        self.add("Round", self.inputs[0])

    def _clamp(self) -> None:
        low, high = (float(self.node.constant(name)) for name in ("min", "max"))
        dtype = str(self.fact.dtype)
        ends = [self.bench.constant(each, dtype) for each in (low, high)]
        x = self.bench.add("Max", self.inputs[0], ends[0], fact=self.fact._replace(array=None))
        self.add("Min", x, ends[1])

    def _convert(self) -> None:
        dtype = BY_IR.get(str(self.node.constant("destination_type")).lower())
        if dtype not in dtypes.BY_NAME:
            raise RefusedError("dtype", f"it casts to {dtype}, which ONNX casts in another way", "leave the cast out")
        self.words.cast(self.inputs[0], str(dtype), self.out)

    def _matmul(self) -> None:
        given = []
        for k, name in enumerate(("transpose_a", "transpose_b")):
            x = self.inputs[k]
            fact = self.bench.fact(x)
            if self.truth(name, "false"):
                if fact.rank is None:
                    raise RefusedError("shape", f"it transposes '{x}', whose rank is not known", "state its shape")
                if fact.rank > 1:
                    order = [*range(fact.rank - 2), fact.rank - 1, fact.rank - 2]
                    x = self.bench.add("Transpose", x, fact=Fact(fact.dtype), perm=order)
            given.append(x)
        self.add("MatMul", *given)

    # ---- shapes

    def _reshape(self) -> None:
        if not self.truth("special_zero", "false"):
            wanted = self.bench.fact(self.inputs[1]).array
            if wanted is None or not wanted.all():
                self.add("Reshape", self.inputs[0], self.integers(1, "shape"), allowzero=1)
                return
        self.add("Reshape", self.inputs[0], self.integers(1, "shape"))

    def _squeeze(self) -> None:
        self.with_axes("Squeeze", len(self.inputs) > 1)

    def _unsqueeze(self) -> None:
        self.with_axes("Unsqueeze", True)

    def with_axes(self, operator: str, given: bool) -> None:
        """Axes where the opset has them."""
        if not given:
            self.add(operator, self.inputs[0])
        elif self.opset >= 13:
            self.add(operator, self.inputs[0], self.integers(1, "axes"))
        else:
            self.add(operator, self.inputs[0], axes=self.constants(1, "axes"))

    def _shapeof(self) -> None:
        dtype = "int32" if self.node.constant("output_type") == "i32" else "int64"
        if dtype == "int64":
            self.add("Shape", self.inputs[0])
        else:
            self.words.cast(self.bench.add("Shape", self.inputs[0], fact=Fact("int64")), dtype, self.out)

    def _transpose(self) -> None:
        order = self.constants(1, "order")
        self.add("Transpose", self.inputs[0], perm=order or None)

    def _broadcast(self) -> None:
        self.add("Expand", self.inputs[0], self.integers(1, "shape"))

    def _range(self) -> None:
        dtype = BY_IR.get(str(self.node.constant("output_type")).lower())
        kinds = {self.bench.fact(name).dtype for name in self.inputs}
        if dtype not in dtypes.BY_NAME or kinds != {dtype}:
            raise RefusedError("dtype", "its ends are not of the dtype that it makes", "cast them before")
        self.add("Range", *self.inputs)

    def _concat(self) -> None:
        self.add("Concat", *self.inputs, axis=int(self.node.constant("axis", 0)))

    def _gather(self) -> None:
        if int(self.node.constant("batch_dims", 0)):
            raise NOWHERE
        axis = self.constants(2, "axis")[0]
        self.add("Gather", *self.inputs[:2], axis=axis)

    def _slice(self) -> None:
        starts, ends, steps = (self.integers(k, what) for k, what in ((1, "starts"), (2, "ends"), (3, "steps")))
        if len(self.inputs) > 4:
            axes = self.integers(4, "axes")
        else:
            count = self.bench.fact(starts).shape
            if count is None or not isinstance(count[0], int):
                raise RefusedError("shape", "how many axes it slices is not known", "state the shape of its starts")
            axes = self.bench.constant(np.arange(count[0]), "int64", "axes")
        self.add("Slice", self.inputs[0], starts, ends, axes, steps)

    def _topk(self) -> None:
        """The one largest or smallest, where only its place is asked for, is a search."""
        values, places = [*self.node.outputs, ""][:2]
        mode = self.node.constant("mode")
        if self.constants(1, "count") != [1] or self.conversion.read.get(values) or mode not in ("max", "min"):
            raise RefusedError(
                "operator", "it gives elements, or several of them", "ask for the place of one element alone"
            )
        schema = self.words.find("arg", f"arg{mode}")
        axis = int(self.node.constant("axis"))
        if axis < 0 and self.opset < 11:
            axis += self.fact.rank or 0
        wide = self.node.constant("index_element_type", "i32") != "i32"
        found = self.search(schema, axis, places if wide else "")
        if not wide:
            self.words.cast(found, "int32", places)

    def search(self, schema: Schema, axis: int, out: str) -> str:
        if self.fact.dtype not in schema.dtypes:
            raise RefusedError("dtype", f"{schema.label} does not take {self.fact.dtype}", "cast it before")
        shape = self.fact.shape
        kept = None if shape is None else tuple(1 if a == axis % len(shape) else n for a, n in enumerate(shape))
        return self.bench.add(schema.name, self.inputs[0], out=out, fact=Fact("int64", kept), axis=axis, keepdims=1)
