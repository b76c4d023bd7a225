"""What a node of the family asks for, in the words of no dialect, so that it can be said in those of another."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from foldwise import dtypes
from foldwise.operators import Schema
from foldwise.operators.call import Shape, Tensor, checked_attributes, folded_axes, folds_everything
from foldwise.operators.infer import Inferred, infer

from .graph import Array, Node
from .nodes import attribute_values


class Fact(NamedTuple):
    """What is known of a value before anything runs."""

    dtype: str | None = None
    shape: Shape | None = None
    array: Array | None = None
    """The value itself, where it is a constant."""

    @property
    def rank(self) -> int | None:
        """How many axes it has."""
        return None if self.shape is None else len(self.shape)

    @property
    def tensor(self) -> Tensor:
        """The same as a call shows it."""
        small = self.array is not None and self.array.dtype.kind in "iu" and self.array.ndim < 2
        values = tuple(self.array.reshape(-1).tolist()) if small and self.array is not None else None
        return Tensor(self.dtype, self.shape, values)


UNKNOWN = Fact()


def fact_of(array: Array) -> Fact:
    """All about a constant."""
    return Fact(array.dtype.name, array.shape, array)


@dataclass(frozen=True, slots=True)
class Meaning:
    """A reduction, a search or a scan of one value."""

    schema: Schema
    x: str
    data: Fact
    options: dict[str, Any]
    """The attributes by their roles."""
    axes: tuple[int, ...] | None
    """Those it names, from the front where the rank is known; empty: none. None: all, or those that are computed."""
    computed: str = ""
    """The value that says which axes, where only running the model tells."""
    held: Fact = UNKNOWN
    """What is known of that value."""

    @property
    def fold(self) -> str:
        """What is computed."""
        return self.schema.fold

    @property
    def dtype(self) -> str | None:
        """What the folded value holds."""
        return self.data.dtype

    @property
    def kind(self) -> str:
        """b, i, u or f, as of the dtype; nothing where that is not known."""
        return dtypes.BY_NAME[self.dtype].kind if self.dtype in dtypes.BY_NAME else ""

    @property
    def keepdims(self) -> bool:
        """Whether folded axes stay."""
        return bool(self.options["keepdims"])

    @property
    def empty_is_all(self) -> bool:
        """Whether computed axes that turn out empty stand for all of them."""
        return folds_everything(self.schema, self.options)

    @property
    def may_be_empty(self) -> bool:
        """Whether the folded axes may hold no element."""
        shape = self.data.shape
        if shape is None:
            return True
        at = range(len(shape)) if self.axes is None else self.axes
        return any(not isinstance(shape[a], int) or shape[a] == 0 for a in at)


def meaning(schema: Schema, node: Node, facts: dict[str, Fact]) -> tuple[Meaning, Inferred]:
    """What a node asks for, and what it makes. Raises what running it would."""
    attributes = attribute_values(schema, node)
    options = checked_attributes(schema, attributes)
    given = [facts.get(name, UNKNOWN) if name else None for name in node.inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is tolerated here is tolerated where it runs
        made = infer(schema, [None if each is None else each.tensor for each in given], attributes, lenient=True)
    data = given[0]
    assert data is not None
    names, computed, held = _named(schema, node, given, options)
    if names and data.shape is not None and schema.kind == "reduce":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = folded_axes(schema, names, options, len(data.shape), lenient=True)
    elif names and data.shape is not None:
        names = tuple(a % len(data.shape) for a in names)
    return Meaning(schema, node.inputs[0], data, options, names, computed, held), made


def _named(
    schema: Schema, node: Node, given: list[Fact | None], options: dict[str, Any]
) -> tuple[tuple[int, ...] | None, str, Fact]:
    """The axes a node names; or the value that does; or neither, where it means all."""
    if schema.kind == "arg":
        return (options["axis"],), "", UNKNOWN
    held = given[1] if len(given) > 1 else None
    if held is not None:
        values = held.tensor.values
        if values is None and not (held.shape is not None and 0 in held.shape):
            return None, node.inputs[1], held
        named = values or ()
    elif schema.kind == "scan":
        named = (schema.inputs[1].default or 0,)
    else:
        named = options.get("axes") or ()
    everything = not named and folds_everything(schema, options)
    if everything and given[0] is not None and given[0].rank == 0:
        everything = False  # there is no axis
    return (None if everything else tuple(named)), "", UNKNOWN


def lengths(shape: Shape | None) -> tuple[int, ...] | None:
    """A shape whose lengths are all known."""
    if shape is None or not all(isinstance(n, int) for n in shape):
        return None
    return tuple(n for n in shape if isinstance(n, int))


def axes_array(axes: tuple[int, ...]) -> Array:
    """Axes as a tensor holds them."""
    return np.array(axes, np.int64)
