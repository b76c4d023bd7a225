"""OpenVINO IR files (.xml and .bin) to programs and back: here the reader."""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from foldwise.errors import ModelError
from foldwise.operators import CATALOG

from .graph import Attribute, Graph, Node, Program, Value, in_reading_order
from .limits import Budget, Limits
from .openvino_data import Constants, of_ir, of_precision, opened, read_shape
from .openvino_writer import Kept, write
from .openvino_xml import Document, Edge, Layer, Port, join_names, parse, shown, split_names

__all__ = ["read", "write"]

Place = tuple[int, int]
"""The id of a layer, and of one of its ports."""

PORTS: Final = {"Parameter": (0, 1), "Const": (0, 1), "Result": (1, 0)}
"""The layers that become no nodes, and how many input and output ports they have."""

KNOWN: Final = """
Parameter Const Result Abs Acos Acosh Add Asin Asinh Assign Atan Atanh Broadcast Ceiling Clamp Concat Convert
ConvertLike Cos Cosh Divide Elu Equal Erf Exp Floor FloorMod Gather GatherElements GatherND Gelu Greater GreaterEqual
Identity If IsFinite IsInf IsNaN Less LessEqual Log LogSoftmax LogicalAnd LogicalNot LogicalOr LogicalXor Loop MatMul
Maximum Minimum Mod Multiply Negative NonZero NotEqual OneHot Pad Power Range ReLU ReadValue Reshape Round Select
ShapeOf Sigmoid Sign Sin Sinh Slice SoftMax SoftPlus Split Sqrt SquaredDifference Squeeze StridedSlice Subtract Tan
Tanh TensorIterator Tile TopK Transpose Unsqueeze VariadicSplit
"""
_SPELLING: Final = {name.lower(): name for name in (*CATALOG.names("openvino"), *KNOWN.split())}
"""The format does not tell capitals from small letters in a layer's type."""


def read(source: Path | bytes, weights: str | os.PathLike[str] | bytes | None, limits: Limits) -> Program:
    """The program in an .xml and its .bin; either may be given as bytes."""
    origin = source.name if isinstance(source, Path) else "the model"
    budget = Budget(limits, origin)
    constants = Constants(source, weights, budget)
    if isinstance(source, Path):
        with opened(source, origin) as file:
            limits.check("file_bytes", os.fstat(file.fileno()).st_size, f"{origin}: its bytes are")
            document = parse(file, origin, limits)
    else:
        limits.check("file_bytes", len(source), f"{origin}: its bytes are")
        document = parse(io.BytesIO(source), origin, limits)
    return _Reader(document, constants, budget).program()


class _Reader:
    def __init__(self, document: Document, constants: Constants, budget: Budget) -> None:
        self.document = document
        self.constants = constants
        self.budget = budget
        self.origin = budget.origin
        self.layers: dict[int, Layer] = {}
        for given in document.layers:
            layer = given._replace(type=_SPELLING.get(given.type.lower(), given.type))
            if document.version == 10:
                layer = _with_names(layer)
            if layer.id in self.layers:
                raise ModelError(f"{self.origin}: {self.layers[layer.id]} and {layer} have one id; number them apart")
            self.check_ports(layer)
            self.check_opset(layer)
            self.layers[layer.id] = layer
        self.refuse_twins()
        self.sources = self.connected()
        ports = (port for layer in self.layers.values() for port in layer.outputs)
        self.spread = Counter(name for port in ports for name in set(split_names(port.names)))
        self.names = self.named()

    def program(self) -> Program:
        graph = Graph(self.document.name)
        parameters = self.of_type("Parameter")
        graph.inputs = _aliased(map(self.input, parameters), map(self.input_names, parameters))
        for layer in self.of_type("Const"):
            name = self.names[layer.id, layer.outputs[0].id]
            graph.constants[name] = array = self.constants.array(layer.data, f"{self.origin}: {layer}")
            dtype = of_ir(layer.data["element_type"]).name
            graph.values[name] = Value(name, dtype, array.shape, other=_kept(layer, layer.outputs[0]))
        operations = [layer for layer in self.layers.values() if layer.type not in PORTS]
        graph.values |= {value.name: value for layer in operations for value in self.made(layer)}
        given = {value.name for value in graph.inputs} | graph.constants.keys()
        graph.nodes = in_reading_order([self.node(layer) for layer in operations], given, f"{self.origin}:")
        results, stated = self.of_type("Result"), graph.values | {value.name: value for value in graph.inputs}
        graph.outputs = _aliased((self.output(each, stated) for each in results), map(self.output_names, results))
        return Program("openvino", graph, self.document.version, notes=dict(self.document.others), origin=self.origin)

    def of_type(self, kind: str) -> list[Layer]:
        return [layer for layer in self.layers.values() if layer.type == kind]

    # ---- checks

    def check_ports(self, layer: Layer) -> None:
        wanted, found = PORTS.get(layer.type), (len(layer.inputs), len(layer.outputs))
        if wanted and found != wanted:
            raise ModelError(
                f"{self.origin}: {layer} has {found[0]} input and {found[1]} output ports; "
                f"a {layer.type} has {wanted[0]} and {wanted[1]}"
            )

    def check_opset(self, layer: Layer) -> None:
        """An operator of a standard opset is in it; of others' own opsets nothing is known."""
        newest = CATALOG.dialects["openvino"].newest_opset
        versions = CATALOG.versions("openvino", layer.type)
        stated = re.fullmatch(r"opset([1-9][0-9]{0,3})", layer.version, re.ASCII)
        if stated is None and (versions or layer.type in PORTS or layer.version.startswith("opset")):
            raise ModelError(
                f"{self.origin}: {layer} is of version {shown(layer.version)}; known are opset1 to opset{newest}"
            )
        opset = int(stated[1]) if stated else 0
        if opset > newest:
            raise ModelError(f"{self.origin}: {layer} is of {layer.version}; known are opset1 to opset{newest}")
        if versions and opset < versions[0].version:
            raise ModelError(
                f"{self.origin}: {layer} is of {layer.version}, which has no {layer.type}; "
                f"it came with opset{versions[0].version}"
            )

    def refuse_twins(self) -> None:
        """Callers name inputs by their layers."""
        seen: dict[str, Layer] = {}
        for layer in self.of_type("Parameter"):
            twin = seen.setdefault(layer.name, layer)
            if twin is not layer:
                raise ModelError(f"{self.origin}: {twin} and {layer} have one name; rename one of these inputs")

    # ---- edges

    def connected(self) -> dict[Place, Place]:
        """The output port that each input port reads."""
        begins = {(layer.id, port.id) for layer in self.layers.values() for port in layer.outputs}
        ends = {(layer.id, port.id) for layer in self.layers.values() for port in layer.inputs}
        found: dict[Place, Place] = {}
        for edge in self.document.edges:
            begin, end = (edge.from_layer, edge.from_port), (edge.to_layer, edge.to_port)
            if begin not in begins:
                raise self.nowhere(edge, begin, "output")
            if end not in ends:
                raise self.nowhere(edge, end, "input")
            if end in found:
                raise ModelError(
                    f"{self.origin}: two edges lead into input port {end[1]} of {self.layers[end[0]]}; take one away"
                )
            found[end] = begin
        loose = sorted(ends - found.keys())
        if loose:
            layer, port = loose[0]
            raise ModelError(
                f"{self.origin}: {self.layers[layer]} has nothing at input port {port}; add the edge that leads there, "
                f"or take the port away"
            )
        return found

    def nowhere(self, edge: Edge, place: Place, side: str) -> ModelError:
        """What is wrong with one end of an edge."""
        layer = self.layers.get(place[0])
        if layer is None:
            return ModelError(f"{self.origin}: {edge} names layer {place[0]}, which is not there")
        ports: Sequence[Port] = layer.outputs if side == "output" else layer.inputs
        accepted = ", ".join(str(port.id) for port in ports[:20]) or "none"
        return ModelError(f"{self.origin}: {edge}: {layer} has no {side} port {place[1]} (it has: {accepted})")

    def read_by(self, layer: Layer) -> list[str]:
        """The values at its input ports."""
        return [self.names[self.sources[layer.id, port.id]] for port in layer.inputs]

    # ---- names

    def named(self) -> dict[Place, str]:
        """A name for each output port: its first tensor name, or else one after its layer."""
        taken = {name for name, count in self.spread.items() if count == 1}
        again: Counter[str] = Counter()
        found: dict[Place, str] = {}
        for layer in self.layers.values():
            for k, port in enumerate(layer.outputs):
                name = next(iter(self.tensor_names(port)), "")
                if not name:
                    plain = name = layer.name if len(layer.outputs) == 1 else f"{layer.name}:{k}"
                    while name in taken:
                        again[plain] += 1
                        name = f"{plain}#{again[plain] + 1}"
                    taken.add(name)
                found[layer.id, port.id] = name
        return found

    def tensor_names(self, port: Port) -> list[str]:
        """Those that no other port has."""
        return [name for name in split_names(port.names) if self.spread[name] == 1]

    # ---- values and nodes

    def input(self, layer: Layer) -> Value:
        what = f"{self.origin}: {layer}"
        missing = {"shape", "element_type"} - layer.data.keys()
        if missing:
            raise ModelError(f"{what} states no {min(missing)}; a Parameter's data has a shape and an element_type")
        port, text = layer.outputs[0], layer.data["shape"]
        shape = read_shape(text, what)
        self.budget.limits.check("rank", len(shape or ()), f"{what} has rank")
        bounded = text if shape is not None and ".." in text else ""
        other = _kept(layer, port)._replace(shape=bounded)
        return Value(self.names[layer.id, port.id], of_ir(layer.data["element_type"]).name, shape, other=other)

    def input_names(self, layer: Layer) -> list[str]:
        return [*self.tensor_names(layer.outputs[0]), layer.name]

    def node(self, layer: Layer) -> Node:
        attributes = {name: Attribute("string", text) for name, text in layer.data.items()}
        attributes |= {tag: Attribute("xml", text) for tag, text in layer.others.items()}
        notes: dict[str, Any] = {
            f"rt_info of input {k}": port.rt_info for k, port in enumerate(layer.inputs) if port.rt_info
        }
        if layer.rt_info:
            notes["rt_info"] = layer.rt_info
        outputs = [self.names[layer.id, port.id] for port in layer.outputs]
        return Node(layer.type, self.read_by(layer), outputs, attributes, layer.name, layer.version, notes=notes)

    def made(self, layer: Layer) -> Iterator[Value]:
        """What a layer states of its outputs. No dims are those of a scalar, or not known."""
        for port in layer.outputs:
            other = Kept(names=port.names, port_info=port.rt_info)
            dtype = of_precision(port.precision).name
            yield Value(self.names[layer.id, port.id], dtype, port.dims or None, other=other)

    def output(self, layer: Layer, stated: dict[str, Value]) -> Value:
        (name,) = self.read_by(layer)
        other = Kept(layer.name, layer.output_names, "", layer.rt_info, layer.inputs[0].rt_info)
        return stated[name]._replace(aliases=(), other=other)

    def output_names(self, layer: Layer) -> list[str]:
        """Those of the tensor, those of the Result, and those of both layers."""
        maker, place = self.sources[layer.id, layer.inputs[0].id]
        source = self.layers[maker]
        port = next(port for port in source.outputs if port.id == place)
        makers = [source.name] if len(source.outputs) == 1 else []
        return [*self.tensor_names(port), *split_names(layer.output_names), layer.name, *makers]


def _with_names(layer: Layer) -> Layer:
    """Before version 11, tensors had no names, and went by those of their layers."""
    several = len(layer.outputs) > 1
    names = [join_names([f"{layer.name}:{k}" if several else layer.name]) for k in range(len(layer.outputs))]
    ports = zip(layer.outputs, names, strict=True)
    return layer._replace(outputs=tuple(port._replace(names=port.names or name) for port, name in ports))


def _kept(layer: Layer, port: Port) -> Kept:
    """What there is to keep of a layer that becomes a value."""
    return Kept(layer.name, port.names, "", layer.rt_info, port.rt_info)


def _aliased(values: Iterable[Value], names: Iterable[list[str]]) -> list[Value]:
    """Inputs, or outputs, with those of their other names that could mean no other of them."""
    listed, offered = list(values), list(names)
    owners = {value.name: {value.name} for value in listed}
    for value, each in zip(listed, offered, strict=True):
        for name in each:
            owners.setdefault(name, set()).add(value.name)
    return [
        value._replace(aliases=tuple(n for n in dict.fromkeys(each) if n != value.name and owners[n] == {value.name}))
        for value, each in zip(listed, offered, strict=True)
    ]
