"""Everything that a model's format or its operators' specifications do not allow, found without running it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from foldwise.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    FoldwiseError,
    FoldwiseWarning,
    ModelError,
    OptionError,
    ShapeError,
    UnknownOperatorError,
)  # fmt: skip
from foldwise.operators import Schema
from foldwise.operators.call import Shape, Tensor, checked_attributes, shape_text
from foldwise.operators.infer import infer

from .control import control
from .graph import Array, Graph, Node, Program, Value
from .limits import Limits
from .nodes import UNEXPECTED, Meant, attribute_values, defining, schema_of, unexpected, unfolded
from .plumbing import runner

Severity = Literal["error", "warning", "note"]

RULES: Final[Mapping[type[FoldwiseError], str]] = {
    AxisError: "axes",
    DtypeError: "dtype",
    ShapeError: "shape",
    OptionError: "attribute",
    ArgumentError: "arguments",
    UnknownOperatorError: "operator",
    ModelError: "model",
}


class Finding(NamedTuple):
    """One thing that is not as it should be."""

    severity: Severity
    """error: it does not run; warning: it runs here, not everywhere; note: worth knowing."""
    node: str
    operator: str
    rule: str
    message: str
    fix: str

    def __str__(self) -> str:
        where = f"{self.node} ({self.operator}): " if self.node else ""
        return f"{self.severity}: {where}{self.message}" + (f" -> {self.fix}" if self.fix else "")


def findings(program: Program, limits: Limits) -> list[Finding]:
    """What there is to say of a program, node by node, and then of the whole."""
    checker = _Checker(program, limits)
    checker.graph(program.graph, {})
    found = [*checker.found, *checker.foreign.values()]
    if program.dialect == "onnx" and not any(each.severity == "error" for each in found):
        found += _official(program)
    return found


class _Checker:
    def __init__(self, program: Program, limits: Limits) -> None:
        self.program = program
        self.limits = limits
        self.found: list[Finding] = []
        self.foreign: dict[str, Finding] = {}
        self.defining = defining(program, limits)
        self.inferred = _inferred(program)

    def graph(self, graph: Graph, around: Mapping[str, Tensor]) -> None:
        """One graph, with what is known of the values around it."""
        facts = {**self.inferred, **around}
        stated = {value.name: value for value in (*graph.inputs, *graph.outputs, *graph.values.values())}
        facts |= {value.name: Tensor(value.dtype, value.shape) for value in stated.values()}
        facts |= {name: _held(array) for name, array in graph.constants.items()}
        try:
            nodes = unfolded(self.program, graph, self.limits, self.defining)
        except FoldwiseError as error:
            self.report("error", Node("", [], []), "", error)
            return
        for meant in nodes:
            made = self.node(meant, facts)
            for inner in meant.node.subgraphs():
                self.graph(inner, facts)
            if made is not None:
                name = meant.node.outputs[0]
                self.compare(meant.node, stated.get(name), made)
                facts[name] = made

    def node(self, meant: Meant, facts: dict[str, Tensor]) -> Tensor | None:
        """One node: what it makes, as far as that is known."""
        node, opsets = meant
        label = node.operator
        try:
            schema = schema_of(self.program, node, opsets)
            if schema is not None:
                return self.fold(schema, node, facts)
            if control(node, opsets.get("", 1)) is not None:
                return None
            run = runner(self.program.dialect, node, opsets.get("", 1), self.limits)
            if run is None:
                self.note_foreign(node)
            elif node.inputs and not all(facts.get(name, _UNKNOWN).values is not None for name in node.inputs):
                return None
            elif node.operator in _SHOWN:
                return _held(np.asarray(run(*(_array(facts[name]) for name in node.inputs))))
        except FoldwiseError as error:
            self.report("error", node, label, error)
        except UNEXPECTED as error:
            self.report("error", node, label, unexpected(node, error))
        return None

    def fold(self, schema: Schema, node: Node, facts: Mapping[str, Tensor]) -> Tensor | None:
        """A node of the family: each attribute by itself, then the inputs together."""
        good: dict[str, Any] = {}
        for name, attribute in node.attributes.items():
            one = Node(node.operator, [], [], {name: attribute})
            try:
                value = attribute_values(schema, one)
                checked_attributes(schema, value)
                good |= value
            except FoldwiseError as error:
                self.report("error", node, schema.label, error)
        inputs = [facts.get(name, _UNKNOWN) if name else None for name in node.inputs]
        try:
            with warnings.catch_warnings(record=True) as tolerated:
                warnings.simplefilter("always")
                made = infer(schema, inputs, good, lenient=True)
        except FoldwiseError as error:
            self.report("error", node, schema.label, error)
            return None
        for each in tolerated:
            if issubclass(each.category, FoldwiseWarning):
                self.report("warning", node, schema.label, AxisError(str(each.message)), "tolerated")
        return Tensor(made.dtype, made.shape) if len(good) == len(node.attributes) else None

    def compare(self, node: Node, stated: Value | None, made: Tensor) -> None:
        """What the file states of a value, against what the node makes."""
        if stated is None:
            return
        wrong_dtype = None not in (stated.dtype, made.dtype) and stated.dtype != made.dtype
        if wrong_dtype or _disagree(stated.shape, made.shape):
            shape = "unknown" if made.shape is None else shape_text(made.shape)
            self.found.append(
                Finding(
                    "error" if self.program.dialect == "onnx" else "warning", node.label, node.operator, "statement",
                    f"the file states {stated}, but the node makes {made.dtype or 'any dtype'} {shape}",
                    "state what it makes, or leave the statement out",
                )
            )  # fmt: skip

    def note_foreign(self, node: Node) -> None:
        """One note for each kind of node that another engine must run."""
        if node.operator not in self.foreign:
            way = 'run it with engine="onnxruntime" or engine="reference"' if self.program.dialect == "onnx" else ""
            self.foreign[node.operator] = Finding(
                "note", node.label, node.operator, "engine", "foldwise does not run this operator by itself", way
            )

    def report(
        self, severity: Severity, node: Node, operator: str, error: FoldwiseError, rule: str | None = None
    ) -> None:
        """A refusal as a finding: what is wrong comes before the last semicolon, the way out after it."""
        text = str(error).removeprefix(f"{operator}: ").removeprefix("operator: ").removesuffix(_LENIENT)
        message, _, fix = text.rpartition("; ")
        kind = rule or next((RULES[each] for each in type(error).__mro__ if each in RULES), "model")
        self.found.append(
            Finding(
                severity, node.label if node.operator else "", operator, kind, message or fix, fix if message else ""
            )
        )


_LENIENT: Final = " (let pass by lenient=True)"
"""What is said to callers of single operators."""
_UNKNOWN: Final = Tensor(None, None)
_SHOWN: Final = frozenset({"Constant", "Cast", "Convert", "Identity", "Squeeze", "Unsqueeze", "Reshape", "Concat"})
"""Plumbing through which constant axes come."""


def _held(array: Array) -> Tensor:
    values = tuple(array.reshape(-1).tolist()) if array.dtype.kind in "iu" and array.size <= 64 else None
    return Tensor(array.dtype.name, array.shape, values)


def _array(tensor: Tensor) -> Array:
    assert tensor.values is not None
    shape = tuple(n for n in tensor.shape or () if isinstance(n, int))
    return np.array(tensor.values, tensor.dtype).reshape(shape)


def _disagree(stated: Shape | None, made: Shape | None) -> bool:
    if stated is None or made is None:
        return False
    if len(stated) != len(made):
        return True
    pairs = zip(stated, made, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _inferred(program: Program) -> dict[str, Tensor]:
    """What ONNX's own inference finds out about values that the file does not describe."""
    if program.dialect != "onnx":
        return {}
    from .onnx_file import inferred

    return {value.name: Tensor(value.dtype, value.shape) for value in inferred(program)}


def _official(program: Program) -> Iterator[Finding]:
    """What ONNX's own checker says; it stops at the first thing it finds."""
    import onnx

    from .onnx_file import to_proto

    try:
        onnx.checker.check_model(to_proto(program), full_check=True)
    except Exception as error:  # ValidationError, InferenceError, and protobuf's own
        yield Finding("error", "", "", "onnx.checker", " ".join(str(error).split()), "")
