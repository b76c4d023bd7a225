"""Which rows of the table of runtimes' faults a node shows, surely or perhaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from foldwise.operators import Schema
from foldwise.runtimes.row import MARKS, Row, Where

from .graph import Node
from .meaning import UNKNOWN, Fact, Meaning

Known = bool | None
"""Yes, no, or not known before it runs."""


class Sight(NamedTuple):
    """What a node looks like to the table."""

    schema: Schema
    dtype: str | None
    marks: Mapping[str, Known]
    """What is not named here is not so."""
    length: int | None = None
    """How many elements are folded into one."""


class Shown(NamedTuple):
    """A row that a node shows."""

    row: Row
    surely: bool
    open: bool = False
    """Whether it takes a dtype that is not stated, or a length of 0 that nothing speaks of."""


def misplaced(schema: Schema, node: Node) -> str:
    """The mark of a node that writes what another version has, or nothing. No runtime takes such a node."""
    if schema.kind == "reduce" and "axes" in node.attributes and schema.attribute("axes") is None:
        return "axes as an attribute"
    early = "noop_with_empty_axes" in node.attributes and schema.attribute("noop_with_empty_axes") is None
    return "noop too early" if early else ""


def sight(schema: Schema, node: Node, found: Meaning, facts: Mapping[str, Fact]) -> Sight:
    """A node whose meaning is known."""
    rank = found.data.rank
    given = facts.get(node.inputs[1], UNKNOWN) if len(node.inputs) > 1 else UNKNOWN
    marks: dict[str, Known] = {
        "axes left out": len(node.inputs) > 1 and not node.inputs[1],
        "several axes": bool(found.computed) and _more_than_one(found.held),
        "open axes": bool(found.computed) and (found.held.shape is None or None in _lengths(found.held)),
        "repeated axes": _repeated(node, given, rank),
        "some axes": _some(found),
        "outer axes": _outer(found),
        "no axes": found.schema.kind == "reduce" and found.axes == () and rank != 0,
        "axis as a list": schema.kind == "scan" and given.shape == (1,),
        "axis left out": schema.kind == "scan" and len(node.inputs) < 2,
        "dropped axes": not found.options.get("keepdims", True),
        "no elements": _nothing(found),
        "rank 0": None if rank is None else rank == 0,
        "last index": bool(found.options.get("select_last_index")),
    }
    assert marks.keys() <= MARKS.keys()
    return Sight(schema, found.dtype, marks, _folded(found))


def shown(rows: Iterable[Row], seen: Sight) -> Iterator[Shown]:
    """The rows that a node shows."""
    for row in rows:
        matches = [_match(where, seen) for where in row.where]
        if any(match is True for match in matches):
            yield Shown(row, not row.when)
        elif None in matches:
            yield Shown(row, False, any(_open(where, seen) for where in row.where))


def _open(where: Where, seen: Sight) -> bool:
    """Whether what is not known is not to be expected, either."""
    of_dtype = bool(where.dtypes) and seen.dtype is None
    return of_dtype or ("no elements" in where.marks and seen.marks["no elements"] is None)


def _match(where: Where, seen: Sight) -> Known:
    """Whether everything holds; not known where the rest of it does."""
    if not where.names(seen.schema):
        return False
    taken = where.dtypes_of(seen.schema)
    of_dtype = seen.dtype in taken if seen.dtype is not None else None if len(taken) < len(seen.schema.dtypes) else True
    long = not where.length or (seen.length is not None and seen.length >= where.length)
    answers = [of_dtype, long, *(seen.marks.get(mark, False) for mark in where.marks)]
    return False if False in answers else None if None in answers else True


def _lengths(fact: Fact) -> tuple[int | None, ...]:
    return tuple(n if isinstance(n, int) else None for n in fact.shape or ())


def _more_than_one(held: Fact) -> Known:
    """Whether computed axes are more than one; a scalar is one."""
    if held.shape is None or None in _lengths(held):
        return None
    return math.prod(n or 0 for n in _lengths(held)) > 1


def _some(found: Meaning) -> Known:
    """Whether axes are folded, and others are not."""
    rank = found.data.rank
    if found.computed or (rank is None and found.axes):
        return None
    return found.axes is not None and rank is not None and 0 < len(found.axes) < rank


def _outer(found: Meaning) -> Known:
    """Whether axes are folded, and not the last one."""
    at, rank = _positions(found), found.data.rank
    return None if at is None or rank is None else bool(at) and rank - 1 not in at


def _repeated(node: Node, given: Fact, rank: int | None) -> bool:
    named = node.constant("axes") or (given.tensor.values if given.array is not None else ()) or ()
    places = {a % rank for a in named} if rank else set(named)
    return len(places) < len(named)


def _positions(found: Meaning) -> Sequence[int] | None:
    """The folded axes, as far as they are known."""
    if found.data.shape is None or found.computed:
        return None
    return range(len(found.data.shape)) if found.axes is None else found.axes


def _nothing(found: Meaning) -> Known:
    """Whether the folded axes hold no element."""
    at = _positions(found)
    if at is None:
        return None
    lengths = [_lengths(found.data)[a] for a in at]
    return True if 0 in lengths else None if None in lengths else False


def _folded(found: Meaning) -> int | None:
    at = _positions(found)
    if at is None:
        return None
    lengths = [_lengths(found.data)[a] for a in at]
    return None if None in lengths else math.prod(n or 0 for n in lengths)
