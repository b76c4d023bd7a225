"""ONNX files to programs and back: nothing that means something is lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from foldwise.errors import ArgumentError, ModelError
from foldwise.operators.call import Dim

from .files import written_whole
from .graph import Attribute, Function, Graph, Node, Program, Value, in_reading_order
from .limits import Budget, Limits
from .nodes import check_functions
from .onnx_tensors import NUMBERS, Folder, dtype_name, read_sparse, read_tensor, write_sparse, write_tensor

PLURALS: Final = {"tensor": "tensors", "graph": "graphs"}
MAIN_DOMAINS: Final = ("", "ai.onnx")
SMALL_CONSTANT: Final = 1 << 10
"""Elements of a constant whose values may tell a shape."""
LARGEST_PROTO: Final = 1 << 30
"""Constants of more bytes go into a file beside the model: protobuf's own end is 2 GiB."""


def read(source: Path | bytes | Any, limits: Limits) -> Program:
    """The program in a file, in its bytes, or in a ModelProto."""
    folder: Path | None = None
    origin = "the model"
    if isinstance(source, Path):
        folder, origin = source.parent, source.name
        try:
            limits.check("file_bytes", source.stat().st_size, f"{origin}: its bytes are")
            source = source.read_bytes()
        except OSError as error:
            raise ModelError(f"{origin} cannot be read ({error.strerror})") from None
    if isinstance(source, bytes):
        limits.check("file_bytes", len(source), f"{origin}: its bytes are")
        source = _parsed(source, origin)
    if not isinstance(source, ModelProto):
        raise ArgumentError(
            f"load: the model is of type {type(source).__name__}; give a path, a file's bytes, or an onnx ModelProto"
        )
    budget = Budget(limits, origin)
    _check_texts(source, budget)
    return _Reader(Folder(folder), origin, budget).program(source)


def _check_texts(message: Any, budget: Budget) -> None:
    """Every text of a message and of those inside it: no longer than allowed, and in UTF-8."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        alone = isinstance(value, str | bytes) or (field.message_type is not None and not hasattr(value, "__len__"))
        for each in (value,) if alone else value:
            if field.type == field.TYPE_STRING:
                budget.check_text(each, field.full_name)
            else:
                _check_texts(each, budget)


def _parsed(data: bytes, origin: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's implementations have a DecodeError each
        raise ModelError(f"{origin} is no ONNX model, or a damaged one ({error})") from None
    if not model.HasField("graph"):
        raise ModelError(f"{origin} is no ONNX model: it has no graph")
    return model


def write(program: Program, path: Path, largest: int = LARGEST_PROTO) -> None:
    """Write a program; constants that a protobuf could not hold go into PATH.data beside it.

    Each file appears whole or not at all, the data first: if the model cannot follow, they stay beside what it was.
    """
    beside = path.with_name(path.name + ".data")
    model = to_proto(program)
    tensors = [t for graph in _graphs(model.graph) for t in graph.initializer]
    if sum(len(t.raw_data) for t in tensors) <= largest:
        with written_whole(path) as file:
            file.write(model.SerializeToString())
        return
    with written_whole(path) as file, written_whole(beside) as data:  # the inner one takes its name first
        for tensor in tensors:
            if len(tensor.raw_data) >= 1024:
                _move_out(tensor, data, beside.name)
        file.write(model.SerializeToString())


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graphs(inner)


def _move_out(tensor: onnx.TensorProto, data: Any, location: str) -> None:
    """A tensor's bytes into the file beside, at a place that can be mapped."""
    data.write(b"\0" * (-data.tell() % 4096))
    entries = {"location": location, "offset": data.tell(), "length": len(tensor.raw_data)}
    data.write(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))


# ---- reading


def function_from(proto: FunctionProto, opsets: Mapping[str, int], limits: Limits) -> Function:
    """A function that lies in no file."""
    return _Reader(Folder(None), proto.name, Budget(limits, proto.name)).function(proto, dict(opsets))


def attribute_from(proto: AttributeProto) -> Attribute:
    """An attribute that lies in no file."""
    return _Reader(Folder(None), proto.name, Budget(Limits(), proto.name)).attribute(proto, proto.name, 1, set())


def inferred(program: Program) -> list[Value]:
    """What ONNX's own inference finds out about values that the file does not describe; nothing if it cannot follow."""
    try:
        model = onnx.shape_inference.infer_shapes(to_proto(program), data_prop=True)
    except Exception:  # InferenceError, and protobuf's own beyond 2 GiB
        return []
    return [read_value(each, "value") for each in model.graph.value_info]


def inferred_program(program: Program) -> Program | None:
    """The program with all that ONNX's own inference finds out, in subgraphs too; None if it cannot follow.

    Large constants are left out: their dtypes and shapes are all that it asks for.
    """
    graph = program.graph
    large = {name: array for name, array in graph.constants.items() if array.size > SMALL_CONSTANT}
    taken = {value.name for value in graph.inputs}
    described = [Value(name, array.dtype.name, array.shape) for name, array in large.items() if name not in taken]
    kept = {name: array for name, array in graph.constants.items() if name not in large}
    light = replace(program, graph=replace(graph, inputs=[*graph.inputs, *described], constants=kept))
    try:
        model = onnx.shape_inference.infer_shapes(to_proto(light), data_prop=True)
        return read(model, Limits())
    except Exception:  # InferenceError, and protobuf's own beyond 2 GiB
        return None


def function_order(program: Program) -> list[tuple[str, str, str]]:
    """The functions, each after those that use it."""
    users: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {key: set() for key in program.functions}
    for key, function in program.functions.items():
        for node in Graph(nodes=function.nodes).walk():
            used = (node.domain, node.operator, node.overload)
            if used in users and used != key:
                users[used].add(key)
    order: list[tuple[str, str, str]] = []
    while len(order) < len(users):
        ready = [key for key in users if key not in order and users[key] <= set(order)]
        order += ready or [key for key in users if key not in order]  # a cycle, which running refuses
    return order


class _Reader:
    def __init__(self, folder: Folder, origin: str, budget: Budget) -> None:
        self.folder = folder
        self.origin = origin
        self.budget = budget

    def program(self, model: ModelProto) -> Program:
        if not 1 <= model.ir_version <= onnx.IR_VERSION:
            newer = " (install a newer onnx)" if model.ir_version > onnx.IR_VERSION else ""
            raise ModelError(
                f"{self.origin} is of IR version {model.ir_version}; "
                f"onnx {onnx.__version__} knows 1 to {onnx.IR_VERSION}{newer}"
            )
        opsets = self.opsets(model.opset_import)
        if not opsets and model.ir_version >= 3:
            raise ModelError(f"{self.origin} names no opset, which IR version {model.ir_version} asks for")
        opsets = opsets or {"": 1}
        newest = onnx.defs.onnx_opset_version()
        if not 1 <= opsets.get("", 1) <= newest:
            raise ModelError(f"{self.origin} asks for opset {opsets['']}; onnx {onnx.__version__} knows 1 to {newest}")
        functions = [self.function(each, opsets) for each in model.functions]
        by_key = {each.key: each for each in functions}
        if len(by_key) < len(functions):
            names = [each.name for each in functions]
            raise ModelError(f"{self.origin} defines a function twice ({', '.join(sorted(names))})")
        rest = _rest(model, {"ir_version", "opset_import", "graph", "functions"})
        graph = self.graph(model.graph, set(), 1)
        program = Program("onnx", graph, model.ir_version, opsets, by_key, rest, self.origin)
        check_functions(program, self.budget.limits)
        return program

    def opsets(self, imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in imports:
            domain = main_domain(each.domain)
            if found.setdefault(domain, each.version) != each.version:
                raise ModelError(f"{self.origin} asks for two opsets of domain '{domain or 'ai.onnx'}'")
        return found

    def function(self, proto: FunctionProto, opsets: dict[str, int]) -> Function:
        what = f"{self.origin}: function '{proto.name}'"
        attributes: dict[str, Attribute | None] = dict.fromkeys(proto.attribute)
        attributes |= self.attributes(proto.attribute_proto, what, 1)
        return Function(
            main_domain(proto.domain), proto.name, proto.overload, list(proto.input), list(proto.output), attributes,
            in_reading_order(self.nodes(proto.node, what, 1, set(proto.input)), set(proto.input), what),
            opsets | self.opsets(proto.opset_import),
            _rest(proto, {"domain", "name", "overload", "input", "output", "attribute", "attribute_proto", "node",
                          "opset_import"}),
        )  # fmt: skip

    def graph(self, proto: GraphProto, outer: set[str], depth: int) -> Graph:
        self.budget.limits.check("depth", depth, f"{self.origin}: the levels of graphs inside graphs are")
        what = f"{self.origin}: graph '{proto.name}'" if depth > 1 else f"{self.origin}:"
        inputs = [self.value(each, f"{what} input") for each in proto.input]
        outputs = [self.value(each, f"{what} output") for each in proto.output]
        graph = Graph(proto.name, inputs, outputs)
        self.budget.spend_nodes(len(proto.initializer) + len(proto.sparse_initializer) + len(proto.value_info))
        for value in inputs:
            _check_named(value.name, f"{what} an input")
        _refuse_twice((value.name for value in inputs), f"{what} the input")
        _refuse_twice((value.name for value in graph.outputs), f"{what} the output")
        for tensor in proto.initializer:
            self.new_constant(graph, tensor.name, what)
            graph.constants[tensor.name] = read_tensor(tensor, self.folder, self.budget, what)
        for sparse in proto.sparse_initializer:
            self.new_constant(graph, sparse.values.name, what)
            graph.constants[sparse.values.name] = read_sparse(sparse, self.folder, self.budget, what)
        graph.values = {each.name: self.value(each, f"{what} value") for each in proto.value_info}
        given = outer | {value.name for value in inputs} | graph.constants.keys()
        nodes = self.nodes(proto.node, what, depth, given)
        made = [name for node in nodes for name in node.outputs if name]
        _refuse_twice([*made, *graph.constants, *({v.name for v in inputs} - graph.constants.keys())], f"{what} value")
        graph.nodes = in_reading_order(nodes, given, what)
        for value in graph.outputs:
            if value.name not in given and value.name not in made:
                raise ModelError(f"{what} output '{value.name}' is made by no node")
        graph.notes = _rest(
            proto, {"name", "input", "output", "initializer", "sparse_initializer", "value_info", "node"}
        )
        return graph

    def new_constant(self, graph: Graph, name: str, what: str) -> None:
        _check_named(name, f"{what} a constant")
        if name in graph.constants:
            raise ModelError(f"{what} constant '{name}' is there twice")

    def value(self, proto: ValueInfoProto, what: str) -> Value:
        found = read_value(proto, what)
        self.budget.limits.check("rank", len(found.shape or ()), f"{what} '{proto.name}' has rank")
        return found

    def nodes(self, protos: Sequence[NodeProto], what: str, depth: int, given: set[str] | None = None) -> list[Node]:
        self.budget.spend_nodes(len(protos))
        outer = (given or set()) | {name for proto in protos for name in proto.output}
        return [self.node(proto, what, depth, outer) for proto in protos]

    def node(self, proto: NodeProto, what: str, depth: int, outer: set[str]) -> Node:
        if not proto.op_type:
            raise ModelError(f"{what} node '{proto.name}' names no operator")
        what = f"{what} node '{proto.name or next(iter(proto.output), '')}' ({proto.op_type})"
        return Node(
            proto.op_type, list(proto.input), list(proto.output), self.attributes(proto.attribute, what, depth, outer),
            proto.name, main_domain(proto.domain), proto.overload,
            _rest(proto, {"op_type", "input", "output", "attribute", "name", "domain", "overload"}),
        )  # fmt: skip

    def attributes(
        self, protos: Iterable[AttributeProto], what: str, depth: int, outer: set[str] | None = None
    ) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for proto in protos:
            if proto.name in found:
                raise ModelError(f"{what} has the attribute '{proto.name}' twice")
            found[proto.name] = self.attribute(proto, f"{what} attribute '{proto.name}'", depth, outer or set())
        return found

    def attribute(self, proto: AttributeProto, what: str, depth: int, outer: set[str]) -> Attribute:
        if not proto.type:
            raise ModelError(f"{what} does not say of which type it is")
        try:
            kind = AttributeProto.AttributeType.Name(proto.type).lower()
        except ValueError:
            raise ModelError(f"{what} is of type {proto.type}, which onnx {onnx.__version__} does not know") from None
        if proto.ref_attr_name:
            return Attribute("reference", (proto.ref_attr_name, kind))
        value = getattr(proto, _FIELDS[kind])
        if kind == "graph":
            return Attribute(kind, self.graph(value, outer, depth + 1))
        if kind == "graphs":
            return Attribute(kind, [self.graph(each, outer, depth + 1) for each in value])
        if kind == "tensor":
            return Attribute(kind, read_tensor(value, self.folder, self.budget, what))
        if kind == "tensors":
            return Attribute(kind, [read_tensor(each, self.folder, self.budget, what) for each in value])
        if kind == "sparse_tensor":
            return Attribute(kind, read_sparse(value, self.folder, self.budget, what))
        return Attribute(kind, list(value) if kind.endswith("s") else value)


def read_value(proto: ValueInfoProto, what: str) -> Value:
    """What is stated of a value."""
    what = f"{what} '{proto.name}'"
    kept = proto if _rest(proto, {"name", "type"}) else None
    if proto.type.WhichOneof("value") not in (None, "tensor_type"):
        return Value(proto.name, other=proto, tensor=False)
    tensor = proto.type.tensor_type
    dtype = dtype_name(tensor.elem_type, what) if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return Value(proto.name, dtype, other=kept)
    return Value(proto.name, dtype, tuple(_dim(dim, what) for dim in tensor.shape.dim), other=kept)


_FIELDS: Final = {
    "float": "f", "int": "i", "string": "s", "tensor": "t", "graph": "g", "sparse_tensor": "sparse_tensor",
    "type_proto": "tp", "floats": "floats", "ints": "ints", "strings": "strings", "tensors": "tensors",
    "graphs": "graphs", "sparse_tensors": "sparse_tensors", "type_protos": "type_protos",
}  # fmt: skip


def main_domain(domain: str) -> str:
    """ONNX's own domain has two names."""
    return "" if domain in MAIN_DOMAINS else domain


def _dim(dim: Any, what: str) -> Dim:
    if dim.WhichOneof("value") == "dim_value":
        if dim.dim_value < 0:
            raise ModelError(f"{what} has a negative length, {dim.dim_value}, in its shape")
        return int(dim.dim_value)
    return dim.dim_param or None


def _check_named(name: str, what: str) -> None:
    if not name:
        raise ModelError(f"{what} has no name")


def _refuse_twice(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"{what} '{name}' is there twice")
        seen.add(name)


def _rest(message: Any, handled: set[str]) -> dict[str, Any]:
    """What a message holds beside the handled fields, to be written again."""
    rest = type(message)()
    for field, value in message.ListFields():
        if field.name in handled:
            continue
        if hasattr(value, "MergeFrom"):
            getattr(rest, field.name).MergeFrom(value)
        else:
            setattr(rest, field.name, value)
    return {"onnx": rest} if rest.ListFields() else {}


# ---- writing


def to_proto(program: Program) -> ModelProto:
    """The program as ONNX's own message."""
    model = _from_rest(ModelProto, program.notes)
    model.ir_version = program.version
    _write_opsets(model, program.opsets)
    model.graph.CopyFrom(_graph_proto(program.graph))
    model.functions.extend(_function_proto(each) for each in program.functions.values())
    return model


def _from_rest(message: Any, notes: dict[str, Any]) -> Any:
    made = message()
    if "onnx" in notes:
        made.CopyFrom(notes["onnx"])
    return made


def _write_texts(message: Any, **texts: str) -> None:
    """Fields that are left away where they are empty."""
    for field, text in texts.items():
        if text:
            setattr(message, field, text)


def _write_opsets(message: Any, opsets: dict[str, int]) -> None:
    for domain, version in opsets.items():
        message.opset_import.add(domain=domain, version=version)


def _graph_proto(graph: Graph) -> GraphProto:
    made = _from_rest(GraphProto, graph.notes)
    _write_texts(made, name=graph.name)
    made.input.extend(map(_value_proto, graph.inputs))
    made.output.extend(map(_value_proto, graph.outputs))
    made.value_info.extend(map(_value_proto, graph.values.values()))
    made.initializer.extend(write_tensor(array, name) for name, array in graph.constants.items())
    made.node.extend(map(node_proto, graph.nodes))
    return made


def _value_proto(value: Value) -> ValueInfoProto:
    made = ValueInfoProto()
    if value.other is not None:
        made.CopyFrom(value.other)
    made.name = value.name
    if value.tensor and (value.dtype or value.shape is not None):
        made.type.CopyFrom(_tensor_type(value))
    return made


def _tensor_type(value: Value) -> TypeProto:
    made = TypeProto()
    made.tensor_type.elem_type = NUMBERS[value.dtype] if value.dtype else 0
    if value.shape is not None:
        made.tensor_type.shape.SetInParent()
        for length in value.shape:
            dim = made.tensor_type.shape.dim.add()
            if isinstance(length, int):
                dim.dim_value = length
            elif length is not None:
                dim.dim_param = length
    return made


def node_proto(node: Node) -> NodeProto:
    """A node as ONNX's own message."""
    made = _from_rest(NodeProto, node.notes)
    _write_texts(made, op_type=node.operator, name=node.name, domain=node.domain, overload=node.overload)
    made.input.extend(node.inputs)
    made.output.extend(node.outputs)
    made.attribute.extend(_attribute_proto(name, each) for name, each in node.attributes.items())
    return made


def _attribute_proto(name: str, attribute: Attribute) -> AttributeProto:
    kind, value = attribute
    if kind == "reference":
        referred, kind = value
        return AttributeProto(name=name, type=AttributeProto.AttributeType.Value(kind.upper()), ref_attr_name=referred)
    made = AttributeProto(name=name, type=AttributeProto.AttributeType.Value(kind.upper()))
    write: dict[str, Callable[[Any], Any]] = {
        "graph": _graph_proto, "tensor": write_tensor, "sparse_tensor": write_sparse,
    }  # fmt: skip
    single = kind.removesuffix("s") if kind in PLURALS.values() else kind
    turned = write.get(single, lambda each: each)
    field = getattr(made, _FIELDS[kind])
    if kind.endswith("s"):
        field.extend(turned(each) for each in value)
    elif hasattr(field, "CopyFrom"):
        field.CopyFrom(turned(value))
    else:
        setattr(made, _FIELDS[kind], value)
    return made


def _function_proto(function: Function) -> FunctionProto:
    made = _from_rest(FunctionProto, function.notes)
    _write_texts(made, name=function.name, domain=function.domain, overload=function.overload)
    made.input.extend(function.inputs)
    made.output.extend(function.outputs)
    for name, default in function.attributes.items():
        if default is None:
            made.attribute.append(name)
        else:
            made.attribute_proto.append(_attribute_proto(name, default))
    made.node.extend(map(node_proto, function.nodes))
    _write_opsets(made, function.opsets)
    return made
