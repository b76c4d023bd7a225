"""What ONNX itself defines by other operators (softmax, normalisations, losses), unfolded where no engine runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import FunctionProto, TypeProto

from .graph import Attribute, Function, Node, Program
from .limits import Limits
from .nodes import runs_here
from .onnx_file import attribute_from, function_from, inferred, node_proto
from .onnx_tensors import NUMBERS


class Definitions:
    """What ONNX defines the nodes of a program to be that nothing here runs by itself."""

    def __init__(self, program: Program, limits: Limits) -> None:
        self.program = program
        self.limits = limits
        self._dtypes: Mapping[str, str | None] | None = None

    def of(self, node: Node, opsets: Mapping[str, int]) -> Function | None:
        """One node's definition, or None where there is none, or none is needed."""
        opset = opsets.get(node.domain, 1)
        if runs_here(self.program, node, opsets, self.limits):
            return None
        try:
            schema = onnx.defs.get_schema(node.operator, opset, node.domain)
        except (onnx.defs.SchemaError, TypeError):  # or a version that no integer of theirs holds
            return None
        body = self._body(schema, node, opset)
        if body is None:
            return None
        made = function_from(body, opsets, self.limits)
        defaults = {name: _default(attribute) for name, attribute in schema.attributes.items()}
        made.attributes = {name: defaults.get(name) for name in body.attribute}
        made.domain, made.name, made.overload = node.domain, node.operator, node.overload
        return made

    def _body(self, schema: onnx.defs.OpSchema, node: Node, opset: int) -> FunctionProto | None:
        text = b""
        if schema.has_function:
            version = _newest(schema.function_opset_versions, opset)
            text = schema.get_function_with_opset_version(version) if version else b""
        elif schema.has_context_dependent_function:
            version = _newest(schema.context_dependent_function_opset_versions, opset)
            types = [_type(self.dtypes.get(name)).SerializeToString() for name in node.inputs]
            define = schema.get_context_dependent_function_with_opset_version
            try:
                text = define(version, node_proto(node).SerializeToString(), types) if version else b""
            except Exception:  # inputs of which it cannot tell what it would be
                return None
        body = FunctionProto()
        body.ParseFromString(text)
        return body if body.node else None

    @property
    def dtypes(self) -> Mapping[str, str | None]:
        """The dtypes of the program's values, as far as ONNX can tell; some definitions depend on them."""
        if self._dtypes is None:
            graph = self.program.graph
            self._dtypes = {value.name: value.dtype for value in inferred(self.program)}
            self._dtypes |= {value.name: value.dtype for value in (*graph.values.values(), *graph.inputs)}
            self._dtypes |= {name: array.dtype.name for name, array in graph.constants.items()}
        return self._dtypes


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=0)


def _type(dtype: str | None) -> TypeProto:
    made = TypeProto()
    made.tensor_type.elem_type = NUMBERS.get(dtype or "", 0)
    return made


def _default(attribute: onnx.defs.OpSchema.Attribute) -> Attribute | None:
    proto = attribute.default_value
    return attribute_from(proto) if proto is not None and proto.name else None
