"""The one in-memory form of a model, whichever file it came from."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foldwise.errors import ModelError
from foldwise.operators.call import Shape, shape_text

Array = NDArray[Any]
DialectName = Literal["onnx", "openvino"]


class Value(NamedTuple):
    """What is stated of a value before anything runs. None stands for what is not known."""

    name: str
    dtype: str | None = None
    """By its name in NumPy; a dtype that foldwise does not fold, by that of its file format."""
    shape: Shape | None = None
    aliases: tuple[str, ...] = ()
    """Other names that callers may use."""
    other: Any = None
    """What the format says of it beside that, to be written again."""
    tensor: bool = True
    """Whether it is a tensor, and not a sequence, a map or an optional of the format's own."""

    def __str__(self) -> str:
        shape = "of any shape" if self.shape is None else shape_text(self.shape)
        return f"{self.name}: {self.dtype or 'any dtype'} {shape}"


class Attribute(NamedTuple):
    """A constant of a node, with the kind that its format gives it: an empty list does not tell by itself."""

    kind: str
    value: Any


@dataclass(slots=True)
class Node:
    """One operation. An input that is left out is the empty name, and so is an output nobody wants."""

    operator: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    name: str = ""
    domain: str = ""
    """ONNX: whose operator it is, "" for its own. OpenVINO: the opset that the layer names."""
    overload: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the file says beside the meaning (documentation, metadata), to be written again."""

    def constant(self, name: str, default: Any = None) -> Any:
        """An attribute's value."""
        found = self.attributes.get(name)
        return default if found is None else found.value

    def subgraphs(self) -> Iterator[Graph]:
        """The graphs that it runs inside itself."""
        for attribute in self.attributes.values():
            if attribute.kind == "graph":
                yield attribute.value
            elif attribute.kind == "graphs":
                yield from attribute.value

    def reads(self) -> Iterator[str]:
        """The values that it needs, those that only its subgraphs read too."""
        yield from filter(None, self.inputs)
        for inner in self.subgraphs():
            yield from inner.outer_names()

    @property
    def label(self) -> str:
        """How messages name it: by its name, or else by what it makes."""
        made = next((name for name in self.outputs if name), "")
        return f"node '{self.name}'" if self.name else f"the node that makes '{made}'"


@dataclass(slots=True)
class Graph:
    """Nodes in an order in which each comes after those whose values it reads."""

    name: str = ""
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    """Values that the file holds. An input that is one, too, has it as its default."""
    values: dict[str, Value] = field(default_factory=dict)
    """What the file states of values in between."""
    notes: dict[str, Any] = field(default_factory=dict)

    def walk(self) -> Iterator[Node]:
        """Every node, those of subgraphs too."""
        for node in self.nodes:
            yield node
            for inner in node.subgraphs():
                yield from inner.walk()

    def outer_names(self) -> set[str]:
        """The names that a subgraph reads from the graphs around it."""
        made = {value.name for value in self.inputs} | self.constants.keys()
        read: set[str] = set()
        for node in self.nodes:
            read.update(node.reads())
            made.update(node.outputs)
        read.update(value.name for value in self.outputs)
        return read - made


@dataclass(slots=True)
class Function:
    """An operator that the model itself defines, by nodes."""

    domain: str
    name: str
    overload: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Attribute | None]
    """By name; None for one that each use must give."""
    nodes: list[Node]
    opsets: dict[str, int]
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        """What a node must name to use it."""
        return self.domain, self.name, self.overload


@dataclass(slots=True)
class Program:
    """A graph, and what its nodes mean."""

    dialect: DialectName
    graph: Graph
    version: int
    """Of the file format: the IR version."""
    opsets: dict[str, int] = field(default_factory=dict)
    """ONNX: the version of each domain that the model asks for."""
    functions: dict[tuple[str, str, str], Function] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    origin: str = "the model"
    """Where it came from, as messages say it."""

    def opset(self, domain: str = "") -> int:
        """The version of a domain, or 0 where the model does not ask for it."""
        return self.opsets.get(domain, 0)


def in_reading_order(nodes: list[Node], given: set[str], what: str) -> list[Node]:
    """The nodes, each after those whose values it reads, and otherwise as they came."""
    maker = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    waiting = []
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        needed = {name for name in node.reads() if name in maker or name not in given}
        missing = next((name for name in needed if name not in maker), None)
        if missing is not None:
            raise ModelError(f"{what} {node.label} ({node.operator}) reads '{missing}', which nothing makes")
        makers = {maker[name] for name in needed}
        waiting.append(len(makers))
        for j in makers:
            readers.setdefault(j, []).append(i)
    ready = [i for i, count in enumerate(waiting) if not count]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(nodes[i])
        for j in readers.get(i, ()):
            waiting[j] -= 1
            if not waiting[j]:
                heapq.heappush(ready, j)
    if len(order) < len(nodes):
        stuck = next(node for node, count in zip(nodes, waiting, strict=True) if count)
        raise ModelError(f"{what} {stuck.label} ({stuck.operator}) is part of a cycle, or reads from one")
    return order


def bytes_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """How much memory an array takes, without making it; Python's integers do not overflow."""
    return math.prod(shape) * dtype.itemsize


def size_of(value: Any) -> int:
    """The bytes of a value in memory, those of a sequence, or of all results of a node, together."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(size_of, value)) if isinstance(value, list | tuple) else 0
