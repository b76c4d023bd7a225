"""ONNX models at another opset, inside their subgraphs and functions too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import onnx

from foldwise.errors import ConversionError, FoldwiseError
from foldwise.operators import CATALOG, Schema

from .check import Finding
from .conversion import Conversion, copied, read_in, swept
from .graph import Attribute, Function, Graph, Node, Program, Value
from .limits import Limits
from .meaning import UNKNOWN, Fact, Meaning
from .nodes import schema_of
from .onnx_file import function_order, inferred_program, to_proto
from .onnx_folds import OnnxWriter
from .onnx_nodes import converted, from_each_use
from .rewriting import Bench

OLDEST_IR: Final = 8
"""The oldest file format that has whatever a model of any opset may hold."""


class OnnxConversion(Conversion):
    """One model on its way to another opset."""

    def __init__(self, source: Program, opset: int, exact: bool, limits: Limits) -> None:
        super().__init__(source, exact, limits)
        self.opset = opset
        self.uses: dict[tuple[str, str, str], list[list[Fact]]] = {}
        """What each use of a function gives it."""

    def program(self) -> Program:
        """The model at the other opset."""
        source = self.source
        graph = self.graph(source.graph, inferred_facts(source), {}, source.opsets)
        functions = {key: self.function(source.functions[key]) for key in function_order(source)}
        functions = {key: functions[key] for key in source.functions}
        opsets = {**source.opsets, "": self.opset}
        made = self.finish(replace(source, graph=graph, functions=functions, opsets=opsets, version=self.ir(opsets)))
        made = replace(made, graph=self.swept(source.graph, made.graph))
        refuse_invalid(made, source)
        return made

    def ir(self, opsets: dict[str, int]) -> int:
        """The file format's version: as it was, or where the opset goes down, one that older runtimes know."""
        ids = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        needed: int = max(onnx.helper.find_min_ir_version_for(ids, ignore_unknown=True), OLDEST_IR)
        return max(needed, self.source.version) if self.opset >= self.source.opset() else needed

    def swept(self, source: Graph, made: Graph) -> Graph:
        return swept(made, read_in([source]), read_in([made]))

    # ---- graphs

    def graph(
        self, graph: Graph, inferred: Mapping[int, Mapping[str, Fact]], around: Mapping[str, Fact],
        opsets: Mapping[str, int],
    ) -> Graph:  # fmt: skip
        """One graph."""
        bench = self.bench("onnx", self.opset, self.known(graph, inferred.get(id(graph), {}), around))
        self.nodes(graph.nodes, bench, inferred, opsets)
        return replace(graph, nodes=bench.nodes, constants={**graph.constants, **bench.constants})

    def nodes(
        self, nodes: list[Node], bench: Bench, inferred: Mapping[int, Mapping[str, Fact]], opsets: Mapping[str, int]
    ) -> None:
        """Write each node, and go on after a refusal."""
        for node in nodes:
            bench.maker, bench.near = node, node.name or next(filter(None, node.outputs), node.operator)
            turned = copied(node)
            for name, attribute in node.attributes.items():
                if attribute.kind == "graph":
                    inner = self.graph(attribute.value, inferred, bench.facts, opsets)
                    turned.attributes[name] = Attribute("graph", inner)
                elif attribute.kind == "graphs":
                    inners = [self.graph(each, inferred, bench.facts, opsets) for each in attribute.value]
                    turned.attributes[name] = Attribute("graphs", inners)
            try:
                self.node(turned, bench, opsets)
            except FoldwiseError as error:
                schema = schema_of_or_none(self.source, node, opsets)
                self.refuse(node, schema.label if schema else node.operator, error)
            self.compute(node, opsets.get("", 1), bench.facts)

    def node(self, node: Node, bench: Bench, opsets: Mapping[str, int]) -> None:
        """One node, by what it is."""
        key = (node.domain, node.operator, node.overload)
        source = opsets.get("", 1)
        if key in self.source.functions:
            self.uses.setdefault(key, []).append([bench.fact(name) for name in node.inputs])
            bench.nodes.append(node)
        elif node.domain or source == self.opset:
            bench.nodes.append(node)
        else:
            schema = schema_of(self.source, node, opsets)
            if schema is None:
                converted(node, source, bench)
            else:
                self.fold(schema, node, bench, opsets)

    def fold(self, schema: Schema, node: Node, bench: Bench, opsets: Mapping[str, int]) -> None:
        """A node of the family: as it is where that means the same, otherwise what means the same."""
        target = CATALOG.find(schema.name, opset=max(self.opset, first_of(schema)))
        referring = any(each.kind == "reference" for each in node.attributes.values())
        if referring:
            if form(schema) != form(target) or target.dtypes != schema.dtypes:
                raise from_each_use()
            bench.nodes.append(node)
            return
        found = self.meant(node, opsets, bench.facts)
        assert found is not None
        if self.unchanged(schema, target, found, node):
            bench.nodes.append(node)
        else:
            OnnxWriter(bench, self.exact).write(found, node.outputs[0])

    def unchanged(self, schema: Schema, target: Schema, found: Meaning, node: Node) -> bool:
        """Whether the node says at the other opset what it says at its own."""
        old_axes = self.opset < 11 and any(a < 0 for a in written_axes(node, found))
        taken = found.dtype in target.dtypes or (found.dtype is None and set(schema.dtypes) <= set(target.dtypes))
        return self.opset >= target.version and form(schema) == form(target) and taken and not old_axes

    # ---- functions

    def function(self, function: Function) -> Function:
        """A function that the model defines; what its inputs are, its uses tell."""
        if "" not in function.opsets:
            return function
        uses = self.uses.get(function.key, [])
        facts = [agreed([use[k] for use in uses if k < len(use)]) for k in range(len(function.inputs))]
        given = [Value(name, fact.dtype, fact.shape) for name, fact in zip(function.inputs, facts, strict=True)]
        body = Graph(function.name, given, [Value(name) for name in function.outputs], function.nodes)
        alone = replace(self.source, graph=body, opsets=function.opsets, notes={})
        inferred = inferred_facts(alone)
        bench = self.bench("onnx", self.opset, self.known(body, inferred.get(id(body), {}), {}), in_function=True)
        self.nodes(function.nodes, bench, inferred, function.opsets)
        made = self.swept(body, replace(body, nodes=bench.nodes))
        return replace(function, nodes=made.nodes, opsets={**function.opsets, "": self.opset})


def first_of(schema: Schema) -> int:
    """The opset that an operator came with."""
    return CATALOG.versions(schema.dialect, schema.name)[0].version


def form(schema: Schema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a version's inputs and attributes."""
    return tuple(each.name for each in schema.inputs), tuple(each.name for each in schema.attributes)


def written_axes(node: Node, found: Meaning) -> list[int]:
    """The axes as an attribute writes them."""
    written = node.constant("axes", node.constant("axis", []))
    return written if isinstance(written, list) else [written]


def schema_of_or_none(program: Program, node: Node, opsets: Mapping[str, int]) -> Schema | None:
    """The family's operator, if there is one in that opset."""
    try:
        return schema_of(program, node, opsets)
    except FoldwiseError:
        return None


def agreed(facts: list[Fact]) -> Fact:
    """What all uses have in common."""
    if not facts:
        return UNKNOWN
    first = facts[0]
    dtype = first.dtype if all(fact.dtype == first.dtype for fact in facts) else None
    ranks = {fact.rank for fact in facts}
    if first.shape is None or len(ranks) > 1:
        return Fact(dtype)
    columns = zip(*(fact.shape or () for fact in facts), strict=True)
    return Fact(dtype, tuple(column[0] if len(set(column)) == 1 else None for column in columns))


# ---- what ONNX's own inference tells


def inferred_facts(program: Program) -> dict[int, dict[str, Fact]]:
    """For each graph, by its identity, what ONNX's inference finds out about its values."""
    found = inferred_program(program)
    return {} if found is None else dict(_pairs(program.graph, found.graph))


def _pairs(graph: Graph, twin: Graph) -> Iterator[tuple[int, dict[str, Fact]]]:
    stated = (*twin.values.values(), *twin.outputs)
    yield id(graph), {value.name: Fact(value.dtype, value.shape) for value in stated}
    for node, other in zip(graph.nodes, twin.nodes, strict=True):
        for inner, same in zip(node.subgraphs(), other.subgraphs(), strict=True):
            yield from _pairs(inner, same)


# ---- the last word


def refuse_invalid(made: Program, source: Program | None = None) -> None:
    """A model in which ONNX's own checker finds a fault that was not there before is not given to anybody."""
    why = _fault(made)
    if why and (source is None or why != _fault(source)):
        text, fix = f"what comes out is not valid: {why}", "the conversion is at fault: report the model"
        finding = Finding("error", "", "", "onnx.checker", text, fix)
        raise ConversionError(f"convert: {made.origin}: {text}; {fix}", [finding])


def _fault(program: Program) -> str:
    try:
        onnx.checker.check_model(to_proto(program), full_check=True)
    except Exception as error:  # ValidationError, InferenceError, and protobuf's own
        return " ".join(str(error).split())
    return ""
