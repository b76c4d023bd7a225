"""Nodes of ONNX's other operators at another opset: as they are, in the other form, or as ONNX's converter has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import onnx

from foldwise import dtypes

from .control import control
from .graph import Attribute, Graph, Node, Program, Value
from .layers import ALIKE
from .limits import Limits
from .meaning import UNKNOWN, Fact
from .onnx_file import read, to_proto
from .plumbing import ONNX, runner
from .rewriting import Bench, RefusedError

MOVED: Final[Mapping[str, tuple[str, ...]]] = {
    "Squeeze": ("axes",),
    "Unsqueeze": ("axes",),
    "Reshape": ("shape",),
    "Clip": ("min", "max"),
    "Slice": ("starts", "ends", "axes"),
}
"""What were attributes in older opsets and are inputs, in this order, in newer ones."""
KINDS: Final = {"int", "ints", "float", "floats"}
ONNX_NAMES: Final = {dtype.name: f"tensor({dtype.onnx})" for dtype in dtypes.TABLE}
Facts = Mapping[str, Fact]


def converted(node: Node, source: int, bench: Bench) -> None:
    """Write a node of one opset at that of the bench, or refuse it."""
    old, new = schema_at(node, source), schema_at(node, bench.opset)
    if old is None or (new is None and not bench.facts):
        raise RefusedError("operator", f"ONNX opset {source} has no {node.operator}", "correct the model")
    if new is None:
        later = old.since_version
        raise RefusedError(
            "operator", f"opset {bench.opset} has no {node.operator}", f"convert to opset {later} or later"
        )
    if new.deprecated and not old.deprecated:
        raise RefusedError("operator", f"{node.operator} is gone since opset {new.since_version}", "stay below it")
    if old.since_version == new.since_version or _means_the_same(node, source, bench.opset):
        why = "" if old.since_version == new.since_version else misfit(node, new, bench.facts)
        if not why:
            bench.nodes.append(node)
            return
    else:
        why = f"{node.operator} is another since opset {max(old.since_version, new.since_version)}"
    if node.operator == "Constant":
        _plain_constant(node, source, bench)
    elif node.operator in MOVED:
        _moved(node, old, new, bench)
    else:
        bench.nodes += _officially(node, source, bench, why)


def schema_at(node: Node, opset: int) -> Any:
    """What ONNX says of a node's operator, or None where there is no such operator."""
    try:
        return onnx.defs.get_schema(node.operator, opset, "")
    except onnx.defs.SchemaError:
        return None


def _means_the_same(node: Node, source: int, target: int) -> bool:
    """Whether an operator does in both opsets what the same function of ours does."""
    if control(node, source) is not None and control(node, target) is not None:
        return True
    if node.operator in ALIKE:
        return True
    row = ONNX.get(node.operator)
    makers = [None, None] if row is None else [row.maker(source), row.maker(target)]
    return makers[0] is not None and makers[0] is makers[1]


def misfit(node: Node, schema: Any, facts: Facts) -> str:
    """What of a node an operator's version does not have, or nothing."""
    missing = next((name for name in node.attributes if name not in schema.attributes), None)
    if missing is not None:
        return f"{schema.name}-{schema.since_version} has no attribute '{missing}'"
    given = sum(1 for _ in _trimmed(node.inputs))
    if not schema.min_input <= given <= schema.max_input:
        return f"{schema.name}-{schema.since_version} has no {given} inputs"
    for what, names, formals in (("input", node.inputs, schema.inputs), ("output", node.outputs, schema.outputs)):
        for k, name in enumerate(names):
            why = _unfit_dtype(facts.get(name, UNKNOWN), schema, formals[min(k, len(formals) - 1)]) if name else ""
            if why:
                return f"{schema.name}-{schema.since_version}: its {what} '{name}' {why}"
    return ""


def _unfit_dtype(fact: Fact, schema: Any, formal: Any) -> str:
    accepted = next((t.allowed_type_strs for t in schema.type_constraints if t.type_param_str == formal.type_str), None)
    if accepted is None or len(accepted) > 40:  # anything at all
        return ""
    if fact.dtype is None:
        return "" if set(ONNX_NAMES.values()) <= set(accepted) else "is of no known dtype: state it"
    name = ONNX_NAMES.get(fact.dtype)
    return "" if name is None or name in accepted else f"may not be {fact.dtype}"


def _trimmed(names: list[str]) -> Iterator[str]:
    last = max((k for k, name in enumerate(names) if name), default=-1)
    yield from names[: last + 1]


# ---- forms


def _plain_constant(node: Node, source: int, bench: Bench) -> None:
    """Its value as a tensor, as every opset has it."""
    run = runner("onnx", node, source, Limits())
    if run is None:
        raise RefusedError("attribute", f"opset {bench.opset} has no constant of such a value", "make it a tensor")
    plain = Node("Constant", [], node.outputs, {"value": Attribute("tensor", run())}, node.name)
    why = misfit(plain, schema_at(plain, bench.opset), bench.facts)
    if why:
        raise RefusedError("dtype", why, f"convert to opset {source}")
    bench.nodes.append(plain)


def _moved(node: Node, old: Any, new: Any, bench: Bench) -> None:
    """The same with its constants where the other version has them."""
    names = MOVED[node.operator]
    as_input = names[0] not in new.attributes
    made = _with_inputs(node, names, bench) if as_input else _with_attributes(node, names, bench)
    why = misfit(made, new, bench.facts)
    if why:
        raise RefusedError("form", why, f"convert to opset {old.since_version}")
    bench.nodes.append(made)


def _with_inputs(node: Node, names: tuple[str, ...], bench: Bench) -> Node:
    inputs = node.inputs[:1]
    dtype = bench.fact(node.inputs[0]).dtype
    for name in names:
        attribute = node.attributes.get(name)
        if attribute is None:
            inputs.append("")
        elif attribute.kind == "ints":
            inputs.append(bench.constant(attribute.value, "int64", name))
        elif attribute.kind == "float" and dtype is not None:
            inputs.append(bench.constant(attribute.value, dtype, name))
        else:
            raise RefusedError("form", f"its '{name}' is known only where the model uses it", "write the value there")
    kept = {name: each for name, each in node.attributes.items() if name not in names}
    return Node("" or node.operator, list(_trimmed(inputs)), node.outputs, kept, node.name, notes=node.notes)


def _with_attributes(node: Node, names: tuple[str, ...], bench: Bench) -> Node:
    attributes = dict(node.attributes)
    for k, given in enumerate(node.inputs[1:]):
        array = bench.fact(given).array if given else None
        if given and array is None:
            name = names[k] if k < len(names) else "step"
            raise RefusedError(
                "form", f"its '{name}' is computed ('{given}'), where opset {bench.opset} has an attribute",
                "make it a constant",
            )  # fmt: skip
        if array is None:
            continue
        if k >= len(names):
            if np.any(array != 1):
                raise RefusedError(
                    "form", f"opset {bench.opset} has no steps of {node.operator}", "slice without steps"
                )
        elif array.dtype.kind == "f":
            number = float(array.reshape(-1)[0])
            if float(np.float32(number)) != number:
                raise RefusedError("form", f"its '{names[k]}' {number} is no float32, as attributes are", "round it")
            attributes[names[k]] = Attribute("float", number)
        else:
            attributes[names[k]] = Attribute("ints", [int(n) for n in array.reshape(-1)])
    return Node(node.operator, node.inputs[:1], node.outputs, attributes, node.name, notes=node.notes)


# ---- ONNX's converter


def _officially(node: Node, source: int, bench: Bench, why: str) -> list[Node]:
    """What ONNX's own converter makes of a node by itself, where it can and where what it makes is valid.

    Only upward: on the way down it lets pass what means something else, such as a softmax over an inner axis.
    """
    way_out = f"stay at opset {source}, or replace it"
    facts = [bench.fact(name) for name in node.inputs if name]
    if bench.opset < source or any(node.subgraphs()) or any(fact.dtype is None for fact in facts):
        raise RefusedError("form", why, way_out)
    given = {name: bench.fact(name) for name in node.inputs if name}
    graph = Graph("one", [Value(name, fact.dtype, fact.shape) for name, fact in given.items() if fact.array is None])
    graph.constants = {name: fact.array for name, fact in given.items() if fact.array is not None}
    graph.outputs = [Value(name, *bench.fact(name)[:2]) for name in node.outputs if name]
    graph.nodes = [node]
    try:
        model = onnx.version_converter.convert_version(to_proto(Program("onnx", graph, 8, {"": source})), bench.opset)
        onnx.checker.check_model(model, full_check=True)
        made = read(model, Limits()).graph
    except Exception as error:  # what it has no adapter for, and what its adapters do not expect
        why = f"{why}, and ONNX's own converter does not convert it"
        raise RefusedError("form", why, way_out) from error
    taken = {*given, *node.outputs}
    renamed = {name: name for name in ("", *taken)}
    for name, array in made.constants.items():
        if name not in taken:
            renamed[name] = bench.constant(array)
    for each in made.nodes:
        each.inputs = [renamed.setdefault(name, name) for name in each.inputs]
        for name in each.outputs:
            if name not in renamed:
                renamed[name] = bench.names.new(f"{bench.near}/{name}")
        each.outputs = [renamed[name] for name in each.outputs]
    if len(made.nodes) == 1:
        made.nodes[0].name = node.name
    return made.nodes
