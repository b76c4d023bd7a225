"""Whether a node of ONNX says at another opset what it says at its own."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import onnx

from foldwise import dtypes
from foldwise.operators import CATALOG

from .control import control
from .graph import Node
from .layers import ALIKE
from .meaning import UNKNOWN, Fact
from .onnx_tensors import NUMBERS
from .plumbing import ONNX

REWORDED: Final = frozenset(
    {
        ("BatchNormalization", 14, 15), ("Dropout", 13, 22), ("Gemm", 11, 13), ("LRN", 1, 13), ("LSTM", 14, 22),
    }
)  # fmt: skip
"""Versions whose texts say the same in other words."""
TYPES: Final = {name: f"tensor({onnx.TensorProto.DataType.Name(n).lower()})" for name, n in NUMBERS.items()}
FOLDED: Final = frozenset(TYPES[dtype.name] for dtype in dtypes.TABLE if dtype.name in TYPES)
"""What a dtype may be that nothing tells."""
Facts = Mapping[str, Fact]


def schema_at(node: Node, opset: int) -> Any:
    """What ONNX says of a node's operator, or None where there is no such operator."""
    try:
        return onnx.defs.get_schema(node.operator, opset, "")
    except onnx.defs.SchemaError:
        return None


def unfit(node: Node, source: int, target: int, facts: Facts) -> str:
    """Why a node does not say at another opset what it says at its own, or nothing."""
    old, new = schema_at(node, source), schema_at(node, target)
    if new is None:
        return f"opset {target} has no {node.operator}"
    if old.since_version == new.since_version:
        return ""
    if new.deprecated and not old.deprecated:
        return f"{node.operator} is gone since opset {new.since_version}"
    if _means_the_same(node, source, target):
        return misfit(node, new, facts, old)
    last = last_that_fits(node, source, target, facts)
    return f"{node.operator} is another since opset {last if target < source else last + 1}"


def last_that_fits(node: Node, source: int, target: int, facts: Facts) -> int:
    """How far a node may go toward an opset and still say the same."""
    step = 1 if target > source else -1
    last = source
    while last + step != target and not unfit(node, source, last + step, facts):
        last += step
    return last


def _means_the_same(node: Node, source: int, target: int) -> bool:
    """Whether an operator does in both opsets what the same function of ours does."""
    if control(node, source) is not None and control(node, target) is not None:
        return True
    if node.operator in ALIKE:
        return True
    row = ONNX.get(node.operator)
    makers = [None, None] if row is None else [row.maker(source), row.maker(target)]
    if makers[0] is not None and makers[0] is makers[1]:
        return True
    return _says_the_same(node.operator, *sorted((source, target)))


@functools.cache
def _says_the_same(operator: str, lower: int, upper: int) -> bool:
    """Whether nothing but the dtypes of an operator changed between two opsets: all its texts are the same."""
    newer = onnx.defs.get_schema(operator, upper, "")
    while newer.since_version > lower:
        older = onnx.defs.get_schema(operator, newer.since_version - 1, "")
        reworded = (operator, older.since_version, newer.since_version) in REWORDED
        if newer.deprecated or not (reworded or _texts(older) == _texts(newer)):
            return False
        newer = older
    return True


def _texts(schema: Any) -> list[Any]:
    """Everything that ONNX says of an operator's version, but for its dtypes."""
    found: list[Any] = [schema.doc, schema.min_input, schema.max_input, schema.min_output, schema.max_output]
    for name, each in sorted(schema.attributes.items()):
        found += [name, each.type, each.required, str(each.default_value), each.description]
    for formal in (*schema.inputs, *schema.outputs):
        found += [formal.name, formal.type_str, formal.option, formal.description]
    return [" ".join(each.split()) if isinstance(each, str) else each for each in found]


def first_that_fits(node: Node, opset: int, facts: Facts) -> int | None:
    """The first opset after one whose version of an operator has all that a node asks for."""
    newest = CATALOG.dialects["onnx"].newest_opset
    return next((n for n in range(opset + 1, newest + 1) if not misfit(node, schema_at(node, n), facts)), None)


def misfit(node: Node, schema: Any, facts: Facts, old: Any = None) -> str:
    """What of a node an operator's version does not have, or nothing; `old` is the version that it has."""
    missing = next((name for name in node.attributes if name not in schema.attributes), None)
    if missing is not None:
        return f"{schema.name}-{schema.since_version} has no attribute '{missing}'"
    given = sum(1 for _ in trimmed(node.inputs))
    if not schema.min_input <= given <= schema.max_input:
        return f"{schema.name}-{schema.since_version} has no {given} inputs"
    alike: dict[str, tuple[str, str]] = {}
    for what in ("input", "output"):
        formals = getattr(schema, f"{what}s")
        for k, name in enumerate(getattr(node, f"{what}s")):
            if not name:
                continue
            formal, dtype = formals[min(k, len(formals) - 1)], facts.get(name, UNKNOWN).dtype
            why = _unfit_dtype(dtype, _accepted(schema, formal), _accepted_before(old, what, k))
            if why:
                return f"{schema.name}-{schema.since_version}: its {what} '{name}' {why}"
            if dtype is not None and formal.is_homogeneous:
                first, its = alike.setdefault(formal.type_str, (name, dtype))
                if its != dtype:
                    return f"{schema.name}-{schema.since_version}: '{first}' and '{name}' must be of one dtype"
    return ""


def _accepted(schema: Any, formal: Any) -> set[str] | None:
    """The types that a version takes at a place; None where it takes the one that it names."""
    types = (t.allowed_type_strs for t in schema.type_constraints if t.type_param_str == formal.type_str)
    return next(map(set, types), None)


def _accepted_before(old: Any, what: str, place: int) -> set[str] | None:
    formals = [] if old is None else getattr(old, f"{what}s")
    return _accepted(old, formals[min(place, len(formals) - 1)]) if formals else None


def _unfit_dtype(dtype: str | None, accepted: set[str] | None, before: set[str] | None) -> str:
    """Why a dtype has no place; one that is not known has where everything has that could be meant."""
    if accepted is None:
        return ""
    if dtype is None:
        return "" if (before or FOLDED) <= accepted else "is of no known dtype: state it"
    return "" if TYPES.get(dtype, "") in {"", *accepted} else f"may not be {dtype}"


def trimmed(names: list[str]) -> Iterator[str]:
    last = max((k for k, name in enumerate(names) if name), default=-1)
    yield from names[: last + 1]
