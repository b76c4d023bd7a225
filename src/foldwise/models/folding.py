"""Nodes of the family as functions of arrays: what a call asks for is decided once for each dtype and shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foldwise.errors import AxisError
from foldwise.operation import call_key, prepared, prepared_together, remembered, strictly_right, tensor_of
from foldwise.operators import Schema
from foldwise.operators.call import Request, Tensor, request

from .graph import Array

_MOST_AXES = 64


class Folding:
    """One node: a reduction, a search or a scan, whose axes come with each call."""

    def __init__(self, schema: Schema, attributes: Mapping[str, Any], lenient: bool) -> None:
        self.schema = schema
        self.attributes = attributes
        self.lenient = lenient
        self._ready: dict[Any, Callable[[Array], Array]] = {}

    def __call__(self, *inputs: Any) -> Array:
        """The node's output."""
        key = call_key(inputs, {})
        run = self._ready.get(key)
        if run is None:
            asked = self.asked(inputs)
            if self.lenient and not strictly_right(self.schema, self._tensors(inputs), self.attributes):
                key = None  # so that it warns each time
            run = remembered(self._ready, key, prepared(self.schema, asked, inputs[0]))
        return run(inputs[0])

    def asked(self, inputs: Sequence[Array | None]) -> Request:
        """What the node asks for. Inputs beyond the first are axes, whose values count."""
        most = max((x.size for x in inputs[1:] if x is not None), default=0)
        if most > _MOST_AXES:
            raise AxisError(f"{self.schema.label}: {most:,} axes are named; a tensor has at most {_MOST_AXES}")
        return request(self.schema, self._tensors(inputs), self.attributes, self.lenient)

    def _tensors(self, inputs: Sequence[Array | None]) -> list[Tensor | None]:
        return [None if x is None else tensor_of(x, place > 0 and x.ndim < 2) for place, x in enumerate(inputs)]


class FixedFolding:
    """A node whose axes are constants."""

    def __init__(self, folding: Folding, others: Sequence[Array | None]) -> None:
        self.folding = folding
        self.others = others
        self._ready: dict[Any, Callable[[Array], Array]] = {}

    def __call__(self, x: Array) -> Array:
        """The node's output."""
        key = x.dtype, x.shape
        run = self._ready.get(key)
        if run is None:
            run = remembered(self._ready, key, prepared(self.folding.schema, self.asked(x), x))
        return run(x)

    def asked(self, x: Array) -> Request:
        """What the node asks for."""
        return self.folding.asked([x, *self.others])


class Siblings:
    """Several nodes that fold one tensor; those over the same axes read it once."""

    def __init__(self, foldings: Sequence[FixedFolding]) -> None:
        self.foldings = foldings
        self._ready: dict[Any, Callable[[Array], list[Array]]] = {}

    def __call__(self, x: Array) -> list[Array]:
        """The output of each."""
        key = x.dtype, x.shape
        run = self._ready.get(key)
        if run is None:
            asked = [(each.folding.schema, each.asked(x)) for each in self.foldings]
            run = remembered(self._ready, key, prepared_together(asked, x))
        return run(x)
