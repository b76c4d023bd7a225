"""What all conversions share: a walk over nodes that goes on after a refusal, so that all are told at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from foldwise import dtypes
from foldwise.errors import ConversionError, FoldwiseError
from foldwise.operators.call import Dim, Shape

from .arithmetic import numpy_of
from .check import RULES, Finding
from .graph import Array, Attribute, DialectName, Graph, Node, Program
from .layers import FROM_LAYERS
from .limits import Limits
from .meaning import UNKNOWN, Fact, Meaning, fact_of, meaning
from .nodes import relabelled, schema_of
from .plumbing import runner
from .rewriting import Bench, Names, RefusedError, names_in

SMALL: Final = 1 << 12
"""Constants of up to so many elements are computed, to know the axes that come of them."""
ELEMENTWISE: Final = frozenset({*FROM_LAYERS, "Divide", "Power", "Convert", "Clamp", "Round"}) - {"Broadcast"}
"""Layers whose results have the shape to which their inputs broadcast."""


class Conversion:
    """One program on its way to another form."""

    def __init__(self, source: Program, exact: bool, limits: Limits) -> None:
        self.source = source
        self.exact = exact
        self.limits = limits
        self.refusals: list[Finding] = []
        taken = [*names_in(source.graph)]
        for function in source.functions.values():
            inside = Graph(nodes=function.nodes)
            taken += [*function.inputs, *function.outputs, *names_in(inside)]
        self.names = Names(taken)

    def finish(self, made: Program) -> Program:
        """The program, or every refusal."""
        if not self.refusals:
            return made
        count = len(self.refusals)
        listed = "\n".join(f"  {_named(each)}: {each.message}; {each.fix}" for each in self.refusals)
        nodes = all(each.operator for each in self.refusals)
        what = f"{count} {'node' if nodes else 'part'}{'' if count == 1 else 's'}"
        why = f"{what} cannot be converted without changing what the model gives"
        raise ConversionError(f"convert: {self.source.origin}: {why}\n{listed}", self.refusals)

    def refuse(self, node: Node | str, operator: str, error: FoldwiseError) -> None:
        """One refusal more, of a node or of what is no node and has a name of its own."""
        label = node if isinstance(node, str) else node.label
        if isinstance(error, RefusedError):
            rule, why, fix = error.rule, error.why, error.way_out
        else:
            rule = next((RULES[each] for each in type(error).__mro__ if each in RULES), "model")
            text = str(relabelled(error, label, operator)).split(": ", 1)[-1]
            why, _, fix = text.rpartition("; ")
            why, fix = (why, fix) if why else (fix, "correct the model: foldwise check tells more")
        self.refusals.append(Finding("error", label, operator, rule, why, fix))

    def known(self, graph: Graph, inferred: Mapping[str, Fact], around: Mapping[str, Fact]) -> dict[str, Fact]:
        """What is known of a graph's values before its nodes are looked at."""
        facts = {**around, **inferred}
        for value in (*graph.values.values(), *graph.outputs, *graph.inputs):
            found = facts.get(value.name, UNKNOWN)
            facts[value.name] = Fact(value.dtype or found.dtype, found.shape if value.shape is None else value.shape)
        inputs = {value.name for value in graph.inputs}
        facts |= {name: fact_of(array) for name, array in graph.constants.items() if name not in inputs}
        return facts

    def meant(self, node: Node, opsets: Mapping[str, int], facts: dict[str, Fact]) -> Meaning | None:
        """What a node of the family asks for; None for any other node. What it makes is known from then on."""
        schema = schema_of(self.source, node, opsets)
        if schema is None:
            return None
        found, made = meaning(schema, node, facts)
        old = facts.get(node.outputs[0], UNKNOWN)
        facts[node.outputs[0]] = Fact(made.dtype or old.dtype, old.shape if made.shape is None else made.shape)
        return found

    def compute(self, node: Node, opset: int, facts: dict[str, Fact]) -> None:
        """What a node makes of small constants, if anything here runs it."""
        given = [facts.get(name, UNKNOWN).array for name in node.inputs]
        arrays = [each for each in given if each is not None and each.size <= SMALL]
        open_ = any(each.kind == "reference" for each in node.attributes.values())
        if len(arrays) < len(given) or len(node.outputs) != 1 or open_:
            return
        run = runner(self.source.dialect, node, opset, self.limits)
        try:
            made = None if run is None else run(*arrays)
        except (FoldwiseError, TypeError, ValueError):  # where it runs, it is told
            return
        if made is not None and getattr(made, "size", SMALL + 1) <= SMALL:
            facts[node.outputs[0]] = fact_of(as_array(made))

    def infer(self, node: Node, facts: dict[str, Fact]) -> None:
        """What an IR does not state of arithmetic: the dtype of ones, and the shape to which its inputs broadcast."""
        given = [facts.get(name, UNKNOWN) for name in node.inputs]
        stated = facts.get(node.outputs[0], UNKNOWN)
        known = all(fact.dtype in dtypes.BY_NAME and fact.shape is not None for fact in given)
        if not known or (stated.dtype and stated.shape is not None) or node.operator not in ELEMENTWISE:
            return
        run = runner("openvino", node, 0, self.limits)
        ones = [np.ones((1,) * len(fact.shape or ()), numpy_of(str(fact.dtype))) for fact in given]
        dtype = given[0].dtype if run is None else np.asarray(run(*ones)).dtype.name
        facts[node.outputs[0]] = Fact(stated.dtype or dtype, broadcast([fact.shape or () for fact in given]))

    def bench(self, dialect: DialectName, opset: int, facts: dict[str, Fact], in_function: bool = False) -> Bench:
        """Where a graph is written."""
        return Bench(dialect, opset, self.names, facts, in_function)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape of what is made element by element, as far as it is known."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(_together(column) for column in zip(*padded, strict=True))


def _together(lengths: Sequence[Dim]) -> Dim:
    longer = {n for n in lengths if n != 1}
    return longer.pop() if len(longer) == 1 else None if longer else 1


def _named(refusal: Finding) -> str:
    return f"{refusal.node} ({refusal.operator})" if refusal.operator else refusal.node


def as_array(value: Any) -> Array:
    """NumPy gives scalars where there is no axis left."""
    return np.asarray(value)


def swept(graph: Graph, before: set[str], after: set[str]) -> Graph:
    """A graph without the constants that were read before and are no longer."""
    return _without(graph, before - after)


def _without(graph: Graph, unread: set[str]) -> Graph:
    ends = {value.name for value in (*graph.inputs, *graph.outputs)}

    def stays(name: str) -> bool:
        return name not in unread or name in ends

    constants = {name: array for name, array in graph.constants.items() if stays(name)}
    kept = (node for node in graph.nodes if node.operator != "Constant" or stays(node.outputs[0]))
    nodes = [_with_graphs_swept(node, unread) for node in kept]
    values = {name: value for name, value in graph.values.items() if stays(name)}
    return replace(graph, constants=constants, nodes=nodes, values=values)


def _with_graphs_swept(node: Node, unread: set[str]) -> Node:
    inner = {
        name: Attribute(kind, _without(value, unread) if kind == "graph" else [_without(g, unread) for g in value])
        for name, (kind, value) in node.attributes.items()
        if kind in ("graph", "graphs")
    }
    return replace(node, attributes={**node.attributes, **inner}) if inner else node


def read_in(graphs: Sequence[Graph]) -> set[str]:
    """Every name that is read by a node or given as an output."""
    found: set[str] = set()
    for graph in graphs:
        found.update(value.name for value in graph.outputs)
        for node in graph.walk():
            found.update(node.inputs)
            for inner in node.subgraphs():
                found.update(value.name for value in inner.outputs)
    return found


def copied(node: Node) -> Node:
    """A node of its own."""
    return replace(node, inputs=[*node.inputs], outputs=[*node.outputs], attributes=dict(node.attributes))
