"""A function of elements before a fold: done to each block when it is read."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from foldwise.arguments import Array
from foldwise.errors import ModelError

from .sources import Box, Source, box_shape, digest

Function = Callable[..., Any]


def mapped(name: str, said: str, function: Function, operands: Sequence[Any]) -> Source:
    """What a function makes of sources and arrays, whose shapes broadcast."""
    arrays = [each if isinstance(each, Source) or each is None else np.asarray(each) for each in operands]
    shapes = [each.shape for each in arrays if each is not None]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        shown = " and ".join(map(str, shapes))
        raise ModelError(f"{name}: the inputs' shapes {shown} do not broadcast to one") from None
    leading = next((each for each in arrays if isinstance(each, Source) and each.shape == shape), None)
    if leading is None:
        raise ModelError(
            f"{name}: no input that is not in memory has the shape {shape} of the result; give one that has, "
            f"or all of them as arrays"
        )
    if any(isinstance(each, Source) and not (each.length_known and not each.in_order) for each in arrays):
        raise ModelError(f"{name}: blocks that come in their order cannot be read along; give an array or a file")
    return Mapped(name, said, function, arrays, leading)


class Mapped(Source):
    """A source that is made, block by block, of others."""

    def __init__(self, name: str, said: str, function: Function, operands: Sequence[Any], leading: Source) -> None:
        self.where = f"{name} of {leading.where}"
        self.shape, self.unit, self.job = leading.shape, leading.unit, leading.job
        self.pleasant, self.columns_first = leading.pleasant, leading.columns_first
        self.overlaps = all(each.overlaps for each in operands if isinstance(each, Source))
        self._said, self._function, self._operands = said, function, operands
        nothing = [None if each is None else np.empty((0,) * each.ndim, each.dtype) for each in operands]
        self.dtype = function(*nothing).dtype

    def overhead(self, block: tuple[int, ...]) -> int:
        """Its operands, what reading these takes, and one more of the largest: functions make one on their way."""
        sources = [each for each in self._operands if isinstance(each, Source)]
        parts = [tuple(map(min, block[len(block) - each.ndim :], each.shape)) for each in sources]
        held = sum(math.prod(part) * each.dtype.itemsize for each, part in zip(sources, parts, strict=True))
        widest = max(self.dtype.itemsize, *(each.dtype.itemsize for each in sources))
        reading = sum(each.overhead(part) for each, part in zip(sources, parts, strict=True))
        return held + reading + math.prod(block) * (self.dtype.itemsize + widest)

    def read(self, box: Box, buffer: Array) -> Array:
        """What the function makes of that part of each operand."""
        made: Array = np.asarray(self._function(*(self._part(each, box) for each in self._operands)))
        return made

    def _part(self, operand: Any, box: Box) -> Any:
        """Where an operand meets a part of the result: along an axis of length 1 everywhere."""
        if operand is None:
            return None
        meets = zip(box[len(box) - operand.ndim :], operand.shape, strict=True)
        part = tuple(slice(0, 1) if n == 1 else along for along, n in meets)
        if not isinstance(operand, Source):
            return operand[part]
        return operand.read(part, np.empty(math.prod(box_shape(part)) * operand.dtype.itemsize, np.uint8))

    def identity(self) -> list[Any]:
        """What is done, and its operands' identities, arrays by their bytes."""
        return [self.where, self._said, *self._form, *map(_identity, self._operands)]


def _identity(operand: Any) -> Any:
    if isinstance(operand, Source):
        return operand.identity()
    if operand is None:
        return None
    return [str(operand.dtype), list(operand.shape), digest(operand)]
