"""What a node means: which version of which operator it is, and its attributes as Python values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from foldwise.errors import FoldwiseError, ModelError, OptionError
from foldwise.operators import CATALOG, Schema

from .control import control
from .graph import Attribute, Function, Graph, Node, Program, Value
from .limits import Limits
from .plumbing import runner

UNEXPECTED: Final = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""What Python and NumPy raise of nodes with attributes and inputs that their operators do not have."""
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def schema_of(program: Program, node: Node, opsets: Mapping[str, int]) -> Schema | None:
    """The operator of the family that a node is, or None where it is something else."""
    if node.operator not in CATALOG.names(program.dialect):
        return None
    if program.dialect == "openvino":
        return CATALOG.versions(program.dialect, node.operator)[-1]
    return CATALOG.find(node.operator, opset=opsets.get("", 1), dialect=program.dialect) if not node.domain else None


def runs_here(program: Program, node: Node, opsets: Mapping[str, int], limits: Limits) -> bool:
    """Whether foldwise or NumPy run a node as it is."""
    opset = opsets.get("", 1)
    if node.operator in CATALOG.names(program.dialect) and not node.domain:
        return True
    try:
        return control(node, opset) is not None or runner(program.dialect, node, opset, limits) is not None
    except UNEXPECTED:
        return True  # it would, were it written as it should be


def unexpected(node: Node, error: Exception) -> ModelError:
    """What Python or NumPy raised of a node, as a refusal."""
    if isinstance(error, TypeError) and "argument" in str(error):
        return ModelError(f"{node.operator} does not take {len(node.inputs)} inputs with these attributes")
    return ModelError(f"{node.operator} is not written like this ({error})")


def attribute_values(schema: Schema, node: Node) -> dict[str, Any]:
    """A node's attributes as a call takes them."""
    booleans = {attribute.name for attribute in schema.attributes if attribute.type == "boolean"}
    return {
        name: _truth(schema, name, attribute) if name in booleans else attribute.value
        for name, attribute in node.attributes.items()
        if attribute.kind != "xml"
    }


def _truth(schema: Schema, name: str, attribute: Attribute) -> Any:
    if attribute.kind != "string":
        return attribute.value
    text = attribute.value.strip().lower()
    if text in _TRUTH:
        return _TRUTH[text]
    raise OptionError(f"{schema.label}: attribute '{name}' = {attribute.value!r}; accepted are true and false")


def relabelled(error: FoldwiseError, label: str, operator: str) -> FoldwiseError:
    """The same refusal, with the node that it is about."""
    text = str(error).removeprefix("operator: ")
    named = text.startswith((operator, "node ", "the node ")) or operator in text.split(": ")[0]
    other = copy.copy(error)
    other.args = (f"{label}: {text}" if named else f"{label} ({operator}): {text}",)
    return other


# ---- functions that a model defines


class Meant(NamedTuple):
    """A node with the opsets that say what its operator is."""

    node: Node
    opsets: Mapping[str, int]


Defining = Callable[[Node, Mapping[str, int]], Function | None]


def defining(program: Program, limits: Limits) -> Defining | None:
    """What gives the definitions that ONNX has of operators; OpenVINO has none."""
    if program.dialect != "onnx":
        return None
    from .standard import Definitions

    return Definitions(program, limits).of


def unfolded(program: Program, graph: Graph, limits: Limits, defining: Defining | None = None) -> list[Meant]:
    """A graph's nodes, those that use a function of the model, or another definition, replaced by its nodes."""
    used = {value.name for value in (*graph.inputs, *graph.outputs)} | graph.constants.keys()
    for node in graph.walk():
        used.update(node.inputs, node.outputs)
    return list(_Unfolding(program, limits, used, defining).of(graph.nodes, program.opsets, ()))


class _Unfolding:
    def __init__(self, program: Program, limits: Limits, used: set[str], defining: Defining | None) -> None:
        self.program = program
        self.limits = limits
        self.used = used
        self.defining = defining
        self.count = 0
        self.tries: dict[tuple[str, str], int] = {}

    def of(
        self, nodes: Sequence[Node], opsets: Mapping[str, int], inside: tuple[tuple[str, str, str], ...]
    ) -> Iterator[Meant]:
        for node in nodes:
            function = self.program.functions.get((node.domain, node.operator, node.overload))
            if function is None and self.defining is not None:
                function = self.defining(node, opsets)
            if function is None:
                self.count += 1
                self.limits.check(
                    "nodes", self.count, f"{self.program.origin}: the nodes after unfolding functions are"
                )
                yield Meant(node, opsets)
                continue
            if function.key in inside:
                raise ModelError(f"{self.program.origin}: function '{function.name}' uses itself, which has no end")
            self.limits.check(
                "depth", len(inside) + 1, f"{self.program.origin}: the levels of functions in functions are"
            )
            yield from self.of(self._body(node, function), function.opsets, (*inside, function.key))

    def _body(self, node: Node, function: Function) -> list[Node]:
        """The function's nodes with the names and attributes of one use of it."""
        if len(node.inputs) > len(function.inputs) or len(node.outputs) > len(function.outputs):
            raise ModelError(
                f"{self.program.origin}: {node.label} gives function '{function.name}' {len(node.inputs)} inputs and "
                f"{len(node.outputs)} outputs; it has {len(function.inputs)} and {len(function.outputs)}"
            )
        names = dict.fromkeys(function.inputs, "")
        names |= zip(function.inputs, node.inputs, strict=False)
        names |= {mine: given for mine, given in zip(function.outputs, node.outputs, strict=False) if given}
        given = {name: node.attributes.get(name, default) for name, default in function.attributes.items()}
        return [self._renamed(each, names, given, f"{node.name or node.operator}/") for each in function.nodes]

    def _renamed(self, node: Node, names: dict[str, str], given: Mapping[str, Attribute | None], prefix: str) -> Node:
        attributes = {}
        for name, attribute in node.attributes.items():
            if attribute.kind == "reference":
                found = given.get(attribute.value[0])
                if found is None:
                    continue  # the use leaves it out, so the inner node's own default holds
                attribute = found
            elif attribute.kind in ("graph", "graphs"):
                turned = [
                    self._renamed_graph(each, names, given, prefix)
                    for each in Node("", [], [], {name: attribute}).subgraphs()
                ]
                attribute = Attribute(attribute.kind, turned if attribute.kind == "graphs" else turned[0])
            attributes[name] = attribute
        return Node(
            node.operator, [self._name(each, names, prefix) for each in node.inputs],
            [self._name(each, names, prefix) for each in node.outputs], attributes, f"{prefix}{node.name}",
            node.domain, node.overload,
        )  # fmt: skip

    def _renamed_graph(
        self, graph: Graph, names: dict[str, str], given: Mapping[str, Attribute | None], prefix: str
    ) -> Graph:
        """A subgraph of a function, with names of its own that hide none of the graph's that uses it."""
        own = [value.name for value in graph.inputs] + list(graph.constants)
        own += [name for node in graph.nodes for name in node.outputs if name]
        inner = {name: new for name, new in names.items() if name not in set(own)}

        def renamed(value: Value) -> Value:
            return value._replace(name=self._name(value.name, inner, prefix))

        inputs = [renamed(value) for value in graph.inputs]
        constants = {self._name(name, inner, prefix): array for name, array in graph.constants.items()}
        nodes = [self._renamed(node, inner, given, prefix) for node in graph.nodes]
        return Graph(graph.name, inputs, [renamed(value) for value in graph.outputs], nodes, constants)

    def _name(self, name: str, names: dict[str, str], prefix: str) -> str:
        """What a function's value is called in the graph that uses it."""
        if not name:
            return ""
        if name not in names:
            new = f"{prefix}{name}"
            while new in self.used:
                self.tries[prefix, name] = self.tries.get((prefix, name), 1) + 1
                new = f"{prefix}{name}.{self.tries[prefix, name]}"
            self.used.add(new)
            names[name] = new
        return names[name]


def check_functions(program: Program, limits: Limits) -> None:
    """Refuse functions that use themselves, or would unfold into more than is allowed, before any is unfolded."""
    what = f"{program.origin}: the levels of functions in functions are"
    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}

    def measured(nodes: Iterable[Node], inside: tuple[tuple[str, str, str], ...]) -> tuple[int, int]:
        count, depth = 0, 0
        for node in nodes:
            key = node.domain, node.operator, node.overload
            count += 1
            if key in inside:
                raise ModelError(f"{program.origin}: function '{node.operator}' uses itself, which has no end")
            if key in program.functions:
                if key not in sizes:
                    limits.check("depth", len(inside) + 1, what)
                    sizes[key] = measured(Graph(nodes=program.functions[key].nodes).walk(), (*inside, key))
                count += sizes[key][0]
                depth = max(depth, sizes[key][1] + 1)
        limits.check("nodes", count, f"{program.origin}: the nodes after unfolding functions are")
        limits.check("depth", depth, what)
        return count, depth

    for key in program.functions:
        sizes.setdefault(key, measured(Graph(nodes=program.functions[key].nodes).walk(), (key,)))
    measured(program.graph.walk(), ())
