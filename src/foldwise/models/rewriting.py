"""A graph while it is written anew, for one dialect and opset: nodes so far, new names, what is known of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from foldwise.errors import FoldwiseError

from .arithmetic import numpy_of
from .graph import Array, Attribute, DialectName, Graph, Node, Value
from .meaning import UNKNOWN, Fact, fact_of

LAYER_OPSETS: Final = {
    "ShapeOf": 3, "Broadcast": 3, "Range": 4, "Round": 5, "Gather": 8, "Slice": 8, "IsNaN": 10, "TopK": 11,
}  # fmt: skip
"""The opset that each of OpenVINO's layers came with in the form that is written here; opset1 for all others."""


class RefusedError(FoldwiseError):
    """One node cannot be converted: why, and what would make it possible."""

    def __init__(self, rule: str, why: str, way_out: str) -> None:
        super().__init__(f"{why}; {way_out}")
        self.rule, self.why, self.way_out = rule, why, way_out


class Names:
    """The names that are taken in a model."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.tries: dict[str, int] = {}
        """How far the numbers after a name are taken: thousands of nodes may have one name."""

    def new(self, wanted: str) -> str:
        """A name that nobody has."""
        name, tries = wanted, self.tries.get(wanted, 1)
        while name in self.taken:
            tries += 1
            name = f"{wanted}.{tries}"
        self.tries[wanted] = tries
        self.taken.add(name)
        return name


def names_in(graph: Graph) -> Iterator[str]:
    """Every name in a graph and in those inside it."""
    for value in (*graph.inputs, *graph.outputs):
        yield value.name
    yield from graph.constants
    for node in graph.nodes:
        yield from (*node.inputs, *node.outputs)
        for inner in node.subgraphs():
            yield from names_in(inner)


@dataclass(slots=True)
class Bench:
    """Where the nodes of one graph are written."""

    dialect: DialectName
    opset: int
    names: Names
    facts: dict[str, Fact]
    in_function: bool = False
    """A function holds its constants in nodes."""
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    near: str = ""
    """What new names begin with."""
    maker: Node | None = None
    """The node that is converted: what takes its place keeps its name."""

    def add(self, operator: str, *inputs: str, out: str = "", fact: Fact = UNKNOWN, **attributes: Any) -> str:
        """A node more; the name of what it makes."""
        outputs = self.outputs(operator, out, 1, fact)
        self.append(operator, list(inputs), outputs, attributes)
        return outputs[0]

    def outputs(self, operator: str, out: str, count: int, *facts: Fact) -> list[str]:
        """The names of what a node is to make."""
        first = out or self.names.new(f"{self.near}/{operator.lower()}")
        made = [first, *(self.names.new(f"{first}.{k}") for k in range(1, count))]
        for name, fact in zip(made, facts, strict=False):
            old = self.facts.get(name, UNKNOWN)
            self.facts[name] = Fact(fact.dtype or old.dtype, old.shape if fact.shape is None else fact.shape)
        return made

    def append(self, operator: str, inputs: list[str], outputs: list[str], attributes: dict[str, Any]) -> None:
        """A node with its outputs named."""
        onnx = self.dialect == "onnx"
        turned = {
            name: _onnx_attribute(value) if onnx else Attribute("string", _text(value))
            for name, value in attributes.items()
            if value is not None
        }
        domain = "" if onnx else f"opset{LAYER_OPSETS.get(operator, 1)}"
        last = self.maker is not None and outputs[0] in self.maker.outputs
        name = self.maker.name if last and self.maker is not None else ""
        self.nodes.append(Node(operator, inputs, outputs, turned, name, domain))

    def constant(self, value: Any, dtype: str | None = None, what: str = "constant") -> str:
        """The name of a constant."""
        array = np.asarray(value, numpy_of(dtype) if dtype else None)
        name = self.names.new(f"{self.near}/{what}")
        self.facts[name] = fact_of(array)
        if self.in_function:
            self.nodes.append(Node("Constant", [], [name], {"value": Attribute("tensor", array)}))
        else:
            self.constants[name] = array
        return name

    def fact(self, name: str) -> Fact:
        """What is known of a value."""
        return self.facts.get(name, UNKNOWN)

    def stated(self, name: str) -> Value:
        """The same as an IR states it: lengths have no names there."""
        fact = self.fact(name)
        shape = None if fact.shape is None else tuple(n if isinstance(n, int) else None for n in fact.shape)
        return Value(name, fact.dtype, shape)


def _onnx_attribute(value: Any) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool | int):
        return Attribute("int", int(value))
    if isinstance(value, float):
        return Attribute("float", value)
    return Attribute("tensor", value) if isinstance(value, np.ndarray) else Attribute("ints", list(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
