"""The nodes that run graphs inside themselves: If, Loop and Scan, so that reductions in their bodies run here too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from foldwise.errors import ModelError, ShapeError

from .arithmetic import numpy_of
from .graph import Array, Graph, Node, Value, size_of

if TYPE_CHECKING:
    from .plan import Plan, Planner

Work = Callable[..., Any]


def _inner(planner: Planner, node: Node, name: str, known: Mapping[str, Array]) -> tuple[Graph, Plan, list[str]]:
    """A subgraph, its plan, and what it reads of the graphs around it beside their constants."""
    graph = node.constant(name)
    if not isinstance(graph, Graph):
        raise ModelError(f"attribute '{name}' must be a graph")
    captured = sorted(graph.outer_names() - known.keys())
    around = {outer: known[outer] for outer in graph.outer_names() & known.keys()}
    return graph, planner.plan(graph, around, captured), captured


def _check_count(node: Node, name: str, made: int, wanted: int) -> None:
    if made != wanted:
        raise ModelError(f"{node.operator} has {wanted} outputs; its graph '{name}' makes {made} of them")


def _one_or_all(found: Sequence[Any]) -> Any:
    return found[0] if len(found) == 1 else found


def if_node(planner: Planner, node: Node, known: Mapping[str, Array]) -> tuple[Work, list[str]]:
    """One of two graphs."""
    first, chosen, needed = _inner(planner, node, "then_branch", known)
    second, otherwise, captured = _inner(planner, node, "else_branch", known)
    _check_count(node, "then_branch", len(first.outputs), len(node.outputs))
    _check_count(node, "else_branch", len(second.outputs), len(node.outputs))
    split = len(needed)

    def work(condition: Array, *outer: Any) -> Any:
        if condition.size != 1:
            raise ShapeError(f"the condition has shape {condition.shape}; it must be one bool")
        holds = bool(condition.reshape(-1)[0])
        return _one_or_all(chosen.run(outer[:split]) if holds else otherwise.run(outer[split:]))

    return work, [*needed, *captured]


def loop_node(planner: Planner, node: Node, known: Mapping[str, Array]) -> tuple[Work, list[str]]:
    """A graph again and again: some values go from one turn to the next, others are stacked."""
    body, plan, captured = _inner(planner, node, "body", known)
    carried = len(body.inputs) - 2
    if carried < 0 or len(node.inputs) > 2 + carried or len(body.outputs) < 1 + carried:
        raise ModelError(
            f"its body has {len(body.inputs)} inputs and {len(body.outputs)} outputs, which do not go with "
            f"{len(node.inputs)} inputs"
        )
    _check_count(node, "body", len(body.outputs) - 1, len(node.outputs))
    stacked = body.outputs[1 + carried :]
    given = len(node.inputs)

    def work(*inputs: Any) -> Any:
        padded: list[Any] = [*inputs[:given], *[None] * (2 + carried - given)]
        count, condition, *values = padded
        outer = inputs[given:]
        turns: list[list[Any]] = [[] for _ in stacked]
        limit = None if count is None else int(count.reshape(-1)[0])
        going = condition is None or bool(condition.reshape(-1)[0])
        turn = size = 0
        while going and (limit is None or turn < limit):
            planner.limits.check_turn(node.operator)
            again, *made = plan.run([np.array(turn, np.int64), np.array(True), *values, *outer])
            going = bool(again.reshape(-1)[0])
            values, rows = made[:carried], made[carried:]
            for kept, each in zip(turns, rows, strict=True):
                kept.append(each)
                size += size_of(each)
            planner.limits.check_growth(size, sum(map(size_of, inputs)), node.operator)
            turn += 1
        return _one_or_all([*values, *(_stack(kept, stated, 0) for kept, stated in zip(turns, stacked, strict=True))])

    return work, captured


def scan_node(planner: Planner, node: Node, known: Mapping[str, Array]) -> tuple[Work, list[str]]:
    """A graph for each slice of some tensors, with values that go from one to the next."""
    body, plan, captured = _inner(planner, node, "body", known)
    sliced = int(node.constant("num_scan_inputs"))
    states, given = len(node.inputs) - sliced, len(node.inputs)
    if sliced < 1 or states < 0 or len(body.inputs) != given or len(body.outputs) < states:
        raise ModelError(
            f"its body has {len(body.inputs)} inputs and {len(body.outputs)} outputs, which do not go with "
            f"{given} inputs, {sliced} of them scanned"
        )
    _check_count(node, "body", len(body.outputs), len(node.outputs))
    stacked = body.outputs[states:]
    axes, backward = (node.constant(f"scan_input_{what}") or [0] * sliced for what in ("axes", "directions"))
    out_axes, out_backward = (
        node.constant(f"scan_output_{what}") or [0] * len(stacked) for what in ("axes", "directions")
    )

    def work(*inputs: Any) -> Any:
        values, outer = list(inputs[:states]), inputs[given:]
        rows = [np.moveaxis(x, a, 0) for x, a in zip(inputs[states:given], axes, strict=True)]
        lengths = {len(x) for x in rows}
        if len(lengths) != 1:
            raise ShapeError(f"the scanned inputs have lengths {sorted(lengths)} along their axes; they must agree")
        turns: list[list[Any]] = [[] for _ in stacked]
        size = 0
        for i in range(lengths.pop()):
            slices = [x[-1 - i if back else i] for x, back in zip(rows, backward, strict=True)]
            made = plan.run([*values, *slices, *outer])
            values = made[:states]
            for kept, each in zip(turns, made[states:], strict=True):
                kept.append(each)
                size += size_of(each)
            planner.limits.check_growth(size, sum(map(size_of, inputs)), node.operator)
        ordered = (kept[::-1] if back else kept for kept, back in zip(turns, out_backward, strict=True))
        joined = [_stack(kept, value, a) for kept, value, a in zip(ordered, stacked, out_axes, strict=True)]
        return _one_or_all([*values, *joined])

    return work, captured


def _stack(turns: Sequence[Array], stated: Value, axis: int) -> Array:
    """What each turn made, along a new axis; of no turns the shape is what the body states."""
    if turns:
        if len({each.shape for each in turns}) > 1:
            raise ShapeError(f"'{stated.name}' has another shape in each turn; what is stacked must keep one")
        return np.stack(turns, axis)
    lengths = [n if isinstance(n, int) else 0 for n in stated.shape or ()]
    at = axis + len(lengths) + 1 if axis < 0 else axis
    return np.empty((*lengths[:at], 0, *lengths[at:]), numpy_of(stated.dtype or "float32"))


Maker = Callable[["Planner", Node, Mapping[str, Array]], tuple[Work, list[str]]]
CONTROL: Final[Mapping[str, tuple[int, Maker]]] = {"If": (1, if_node), "Loop": (1, loop_node), "Scan": (9, scan_node)}
"""Each with the opset since when it is as it is here."""


def control(node: Node, opset: int) -> Maker | None:
    """What makes a step of a node that runs graphs inside itself; None for other nodes."""
    since, maker = CONTROL.get(node.operator, (0, None))
    return maker if not node.domain and opset >= since else None
