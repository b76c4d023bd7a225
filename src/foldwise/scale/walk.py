"""In which blocks a source is walked, so that they fit the budget and nothing is read twice."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from . import memory
from .ahead import BUFFERS
from .sources import Box, Source

_ROWS: Final = 256
"""So many elements of an output in a block are worth what it costs to round to it and back."""
_SHARE: Final = 16
"""Sums in progress may take one part in so many of the budget, where that can be chosen."""
_BESIDES: Final = 4 << 20
"""What every job takes: a thread, lists, the core's own blocks, code that is used for the first time."""


class Costs(NamedTuple):
    """What a job takes of memory besides the blocks as they are read, in bytes."""

    element: int
    """For each element of a block: its mask, its conversion, its place in a result."""
    state: int
    """For each output that later blocks go on with."""
    output: int
    """For each output of a block when it is done."""
    whole: int
    """Once: a result that is kept in memory."""
    reading: Callable[[tuple[int, ...]], int]
    """For a block of some shape: what lies between it and where it is read from."""


class Step(NamedTuple):
    """One block of a walk."""

    number: int
    box: Box
    begins: bool
    """Whether it is the first with elements of its outputs,"""
    ends: bool
    """and whether it is the last."""


class Walk(NamedTuple):
    """A grid of blocks: those of the same outputs come one after the other."""

    shape: tuple[int, ...]
    block: tuple[int, ...]
    folded: frozenset[int]
    endless: bool = False

    @property
    def complete(self) -> bool:
        """Whether every block has all elements of its outputs."""
        return not self.endless and all(self.block[axis] >= self.shape[axis] for axis in self.folded)

    @property
    def in_tiles(self) -> bool:
        """Whether some outputs are done before others are begun."""
        kept = (n for axis, n in enumerate(self.shape) if axis not in self.folded)
        parts = (n for axis, n in enumerate(self.block) if axis not in self.folded)
        return any(part < n for part, n in zip(parts, kept, strict=True))

    @property
    def elements(self) -> int:
        """How many a block has at most."""
        return math.prod(self.block)

    def steps(self, backwards: bool = False) -> Iterator[Step]:
        """The blocks; from the end of the folded axes, if asked for."""
        if self.endless:
            yield from self._without_end()
            return
        grid = [range(0, n, step) for n, step in zip(self.shape, self.block, strict=True)]
        kept = [(0,) if axis in self.folded else starts for axis, starts in enumerate(grid)]
        inner = [starts if axis in self.folded else (0,) for axis, starts in enumerate(grid)]
        if backwards:
            inner = [starts[::-1] for starts in inner]
        last = math.prod(map(len, inner)) - 1
        numbers = itertools.count()
        for tile in itertools.product(*kept):
            for i, part in enumerate(itertools.product(*inner)):
                corner = [a + b for a, b in zip(tile, part, strict=True)]
                lengths = zip(corner, self.block, self.shape, strict=True)
                box = tuple(slice(start, min(start + step, n)) for start, step, n in lengths)
                yield Step(next(numbers), box, i == 0, i == last)

    def _without_end(self) -> Iterator[Step]:
        """Blocks of the first axis until somebody notices that there are no more."""
        rest = tuple(slice(0, n) for n in self.shape[1:])
        for i in itertools.count():
            yield Step(i, (slice(i * self.block[0], (i + 1) * self.block[0]), *rest), i == 0, False)


def planned(name: str, source: Source, folded: frozenset[int], costs: Costs) -> Walk:
    """The blocks of a fold over some axes, of a pleasant size in bytes where nothing speaks against it."""
    shape = source.shape
    start = list(source.unit)
    fits, within = _limits(name, source, folded, costs)
    fits(start, refuse=True)
    axes = range(source.ndim) if source.columns_first else range(source.ndim)[::-1]
    if source.in_order:
        axes = range(1)
    block = start

    def comfortable(block: list[int]) -> bool:
        """Large enough to be read well, and few enough outputs in progress."""
        outputs = math.prod(n for axis, n in enumerate(block) if axis not in folded)
        least = math.prod(n for axis, n in enumerate(start) if axis not in folded)
        few = within(block) or outputs <= least or outputs * costs.state <= source.job.budget // _SHARE
        return few and math.prod(block) * source.dtype.itemsize <= source.pleasant and fits(block)

    for axis in (*axes, *axes):  # twice: when all elements of an output fit, more outputs do
        block = _grown(block, axis, source, comfortable)
    if not within(block) or not source.length_known:
        for axis in axes:
            if axis in folded:
                block = _grown(block, axis, source, lambda block: _long(block, folded) <= _ROWS and fits(block))
    return Walk(shape, tuple(block), folded, not source.length_known)


def bands(name: str, source: Source, costs: Costs) -> Walk:
    """The blocks of a scan in C order: all elements of each come before all of the next."""
    shape = source.shape
    everything = frozenset(range(source.ndim))
    fits, _ = _limits(name, source, everything, costs)
    first = next((axis for axis, unit in enumerate(source.unit) if unit > 1), source.ndim - 1)
    start = [1 if axis < first else source.unit[axis] if axis == first else max(1, n) for axis, n in enumerate(shape)]
    fits(start, refuse=True)
    block = start
    for axis in range(first, -1, -1):
        if block[axis + 1 :] != list(shape[axis + 1 :]):
            break
        block = _grown(
            block,
            axis,
            source,
            lambda block: math.prod(block) * source.dtype.itemsize <= source.pleasant and fits(block),
        )
    return Walk(shape, tuple(block), everything, not source.length_known)


def _limits(
    name: str, source: Source, folded: frozenset[int], costs: Costs
) -> tuple[Callable[..., bool], Callable[[list[int]], bool]]:
    """Whether a block fits the budget, and whether it has all elements of its outputs."""

    def complete(block: list[int]) -> bool:
        return source.length_known and all(block[axis] >= source.shape[axis] for axis in folded)

    def fits(block: list[int], refuse: bool = False) -> bool:
        outputs = math.prod(n for axis, n in enumerate(block) if axis not in folded)
        elements = math.prod(block)
        state = 0 if complete(block) else outputs * costs.state
        needed = (
            elements * (BUFFERS * source.dtype.itemsize + costs.element)
            + costs.reading(tuple(block))
            + state
            + outputs * costs.output
            + costs.whole
            + _BESIDES
        )
        if refuse and needed > source.job.budget:
            _, why = max(
                (costs.whole, f'the result takes {memory.in_words(costs.whole)}, unless out=fw.open(path, mode="w")'),
                (state, f"what is in progress takes {memory.in_words(state)}"),
                (needed - state - costs.whole, f"the least block of {source.where} has {math.prod(block):,} elements"),
            )
            memory.refuse(name, source.job.budget, needed, why)
        return needed <= source.job.budget

    return fits, complete


def _long(block: list[int], folded: frozenset[int]) -> int:
    """How many elements of each output are in a block."""
    return math.prod(n for axis, n in enumerate(block) if axis in folded)


def _grown(block: list[int], axis: int, source: Source, accepts: Callable[[list[int]], bool]) -> list[int]:
    """A block as long along an axis as is accepted, in whole units."""
    unit = source.unit[axis]
    length = source.shape[axis] if source.length_known or axis else 1 << 62

    def longer(count: int) -> list[int]:
        return [max(1, min(count * unit, length)) if a == axis else n for a, n in enumerate(block)]

    low, high = -(-block[axis] // unit), max(1, -(-length // unit))
    if accepts(longer(high)):
        return longer(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(longer(middle)) else (low, middle)
    return longer(low) if low * unit > block[axis] else block
