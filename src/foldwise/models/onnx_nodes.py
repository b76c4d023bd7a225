"""Nodes of ONNX's other operators at another opset: as they are, in the other form, or as ONNX's converter has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import onnx

from .graph import Attribute, Graph, Node, Program, Value
from .limits import Limits
from .meaning import Fact
from .onnx_file import read, to_proto
from .onnx_folds import negative_axes
from .onnx_versions import last_that_fits, misfit, schema_at, trimmed, unfit
from .plumbing import runner
from .rewriting import Bench, RefusedError

MOVED: Final[Mapping[str, tuple[str, ...]]] = {
    "Squeeze": ("axes",),
    "Unsqueeze": ("axes",),
    "Reshape": ("shape",),
    "Clip": ("min", "max"),
    "Slice": ("starts", "ends", "axes"),
    "Split": ("split",),
}
"""What were attributes in older opsets and are inputs, in this order, in newer ones."""
COUNTS_FROM_THE_END: Final = 11
"""The first opset that allows negative axes and positions."""
LINES: Final = frozenset({"Softmax", "LogSoftmax", "Hardmax"})
"""What opset 13 made a function of one axis: before, it was one of all axes from that one on, taken together."""


def converted(node: Node, source: int, bench: Bench) -> None:
    """Write a node of one opset at that of the bench, or refuse it."""
    old, new = schema_at(node, source), schema_at(node, bench.opset)
    if old is None:
        raise RefusedError("operator", f"ONNX opset {source} has no {node.operator}", "correct the model")
    if new is None:
        raise RefusedError("operator", f"opset {bench.opset} has no {node.operator}", way_out(node, source, bench))
    node = _without_defaults(node, old, new)
    if bench.opset < COUNTS_FROM_THE_END <= source and node.operator in FRONT:
        node = FRONT[node.operator](node, bench)
    why = unfit(node, source, bench.opset, bench.facts)
    if not why:
        bench.nodes.append(node)
    elif node.operator == "Constant":
        _plain_constant(node, source, bench)
    elif _is_moved(node.operator, old, new) and (node.operator != "Split" or bench.opset < source):
        _moved(node, source, bench)  # of a split, ONNX's converter knows the number of parts that opset 18 asks for
    elif node.operator in LINES and _is_of_one_axis(node, source, bench):
        _along_one_axis(node, source, bench)
    else:
        bench.nodes += _officially(node, source, bench, why)


def _is_moved(operator: str, old: Any, new: Any) -> bool:
    """Whether one version has as inputs what the other has as attributes."""
    return operator in MOVED and (MOVED[operator][0] in old.attributes) != (MOVED[operator][0] in new.attributes)


def way_out(node: Node, source: int, bench: Bench) -> str:
    """The opset nearest to the one that is asked for at which a node is what it is."""
    last = last_that_fits(node, source, bench.opset, bench.facts)
    if last == source:
        return f"stay at opset {source}, or replace it"
    return f"convert to opset {last} or {'later' if bench.opset < source else 'earlier'}, or replace it"


def _without_defaults(node: Node, old: Any, new: Any) -> Node:
    """The same without attributes that the other version lacks, where they say what is so without them."""
    gone = {
        name
        for name, each in node.attributes.items()
        if name not in new.attributes and name in old.attributes and each.kind in ("int", "float")
        if each.value == getattr(old.attributes[name].default_value, each.kind[0], None)
        if old.attributes[name].default_value.name
    }
    kept = {name: each for name, each in node.attributes.items() if name not in gone}
    return replace(node, attributes=kept) if gone else node


# ---- forms


def _plain_constant(node: Node, source: int, bench: Bench) -> None:
    """Its value as a tensor, as every opset has it."""
    if any(each.kind == "reference" for each in node.attributes.values()):
        raise from_each_use()
    run = runner("onnx", node, source, Limits())
    if run is None:
        raise RefusedError("attribute", f"opset {bench.opset} has no constant of such a value", "make it a tensor")
    plain = Node("Constant", [], node.outputs, {"value": Attribute("tensor", run())}, node.name)
    why = misfit(plain, schema_at(plain, bench.opset), bench.facts)
    if why:
        raise RefusedError("dtype", why, way_out(plain, source, bench))
    bench.nodes.append(plain)


def from_each_use() -> RefusedError:
    """What a function is given, where the other form would have to hold it."""
    return RefusedError(
        "attribute", "an attribute comes from each use of the function, where it takes another form",
        "write the value into the function",
    )  # fmt: skip


def _moved(node: Node, source: int, bench: Bench) -> None:
    """The same with its constants where the other version has them."""
    names, new = MOVED[node.operator], schema_at(node, bench.opset)
    as_input = names[0] not in new.attributes
    made = _with_inputs(node, names, bench) if as_input else _with_attributes(node, names, bench)
    why = misfit(made, new, bench.facts, schema_at(node, source))
    if why:
        raise RefusedError("form", why, way_out(node, source, bench))
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
    return Node("" or node.operator, list(trimmed(inputs)), node.outputs, kept, node.name, notes=node.notes)


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


def _is_of_one_axis(node: Node, source: int, bench: Bench) -> bool:
    """Whether a softmax is taken along one axis that is known, from one side of opset 13 to the other."""
    rank = bench.fact(node.inputs[0]).rank
    if not rank or not min(source, bench.opset) < 13 <= max(source, bench.opset):
        return False
    return source >= 13 or node.constant("axis", 1) % rank == rank - 1


def _along_one_axis(node: Node, source: int, bench: Bench) -> None:
    """A softmax, where its one axis is all that is left from there on; any other axis is brought there and back."""
    x, fact = node.inputs[0], bench.fact(node.inputs[0])
    rank = len(fact.shape or ())
    axis, last = node.constant("axis", -1 if source >= 13 else 1) % rank, rank - 1
    order = [*range(axis), last, *range(axis + 1, last), axis]
    made = Node(node.operator, [x], node.outputs, {"axis": Attribute("int", last)}, node.name)
    why = misfit(made, schema_at(made, bench.opset), bench.facts, schema_at(node, source))
    if why:
        raise RefusedError("dtype", why, way_out(node, source, bench))
    if axis == last:
        bench.nodes.append(made)
        return
    turned = bench.add("Transpose", x, fact=Fact(fact.dtype), perm=order)
    there = bench.add(node.operator, turned, fact=Fact(fact.dtype), axis=last)
    bench.add("Transpose", there, out=node.outputs[0], perm=order)


# ---- before negative axes


def _axis_from_the_front(node: Node, bench: Bench) -> Node:
    """The same with its axis counted from the front."""
    axis = node.attributes.get("axis")
    if axis is None or axis.kind != "int" or axis.value >= 0:
        return node
    rank = bench.fact(node.inputs[0]).rank
    if rank is None:
        raise negative_axes(node.inputs[0])
    return replace(node, attributes={**node.attributes, "axis": Attribute("int", axis.value + rank)})


def _axes_from_the_front(node: Node, bench: Bench) -> Node:
    """The same with its axes counted from the front, which are a list or a constant."""
    place = 3 if node.operator == "Slice" else 1
    name = node.inputs[place] if len(node.inputs) > place else ""
    array, axes = bench.fact(name).array if name else None, node.attributes.get("axes")
    listed = array.reshape(-1).tolist() if array is not None else axes.value if axes and axes.kind == "ints" else []
    if all(a >= 0 for a in listed):
        return node
    rank = bench.fact(node.inputs[0]).rank
    if rank is None:
        raise negative_axes(node.inputs[0])
    rank += len(listed) if node.operator == "Unsqueeze" else 0
    counted = [a % rank for a in listed]
    if array is None:
        return replace(node, attributes={**node.attributes, "axes": Attribute("ints", counted)})
    inputs = [*node.inputs]
    inputs[place] = bench.constant(np.array(counted, array.dtype), what="axes")
    return replace(node, inputs=inputs)


def _places_from_the_front(node: Node, bench: Bench) -> Node:
    """A Gather with its axis and, where they are constants, its places counted from the front."""
    node = _axis_from_the_front(node, bench)
    data, places = (bench.fact(name) for name in node.inputs[:2])
    if places.array is None or np.all(places.array >= 0):
        return node
    length = None if data.shape is None else data.shape[node.constant("axis", 0)]
    if not isinstance(length, int):
        raise RefusedError(
            "axes",
            f"its places ('{node.inputs[1]}') count from the end, which opset 11 was the first to allow, and the "
            f"length of '{node.inputs[0]}' along its axis is not known",
            "state its shape, or convert to opset 11 or later",
        )
    counted = np.where(places.array < 0, places.array + length, places.array).astype(places.array.dtype)
    return replace(node, inputs=[node.inputs[0], bench.constant(counted, what="places")])


FRONT: Final[Mapping[str, Callable[[Node, Bench], Node]]] = {
    "Concat": _axis_from_the_front,
    "Flatten": _axis_from_the_front,
    "Gather": _places_from_the_front,
    "Slice": _axes_from_the_front,
    "Squeeze": _axes_from_the_front,
    "Unsqueeze": _axes_from_the_front,
}
"""What else counts from the end since opset 11."""


# ---- ONNX's converter


def _officially(node: Node, source: int, bench: Bench, why: str) -> list[Node]:
    """What ONNX's own converter makes of a node by itself, where it can and where what it makes is valid.

    Only upward: on the way down it lets pass what means something else, such as a softmax over an inner axis.
    """
    fix = way_out(node, source, bench)
    facts = [bench.fact(name) for name in node.inputs if name]
    if bench.opset < source or any(node.subgraphs()) or any(fact.dtype is None for fact in facts):
        raise RefusedError("form", why, fix)
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
        raise RefusedError("form", why, fix) from error
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
