"""A reduction in progress over blocks that are folded along any axes: which state it has, and what becomes of it."""

import copy
import math
import struct
from typing import Final, Self

import numpy as np

from . import whole
from .arguments import NUMPY, Accuracy, Array
from .doubles import Doubles
from .dtypes import Dtype
from .engine import FLOAT64, INT64, Arg, Reduce, through_floats
from .errors import ShapeError, StateError
from .folds import PLACES, SUM, Fold
from .rounding_states import LogSumExp, Pair, Product, Squares
from .states import Factors, Integers, Joined, Place, State, Terms, Totals

_OF_FLOATS: Final[dict[str, dict[Accuracy, type[State]]]] = {
    "sum": {"exact": Doubles, "default": Pair},
    "l1": {"exact": Doubles, "default": Pair},
    "sumsquare": {"exact": Doubles, "default": Squares},
    "prod": {"default": Product},
    "logsumexp": {"default": LogSumExp},
}
"""By the fold's kernel; the first is what nobody needs to ask for."""


def states_of(fold: Fold, source: Dtype, result: Dtype) -> dict[Accuracy, type[State]]:
    """The states that a fold of a dtype can have. Where results are exact by themselves, there is but that one."""
    if fold in PLACES:
        return {"exact": Place}
    if result.kind != "f":
        return {"exact": Joined if fold.ending == "none" else Integers}
    if fold.kernel not in _OF_FLOATS:
        return {"exact": Joined}
    states = _OF_FLOATS[fold.kernel]
    return states if source.kind == "f" or "exact" not in states else {"exact": states["exact"]}


def _state_of(reduction: Reduce, source: Dtype) -> type[State]:
    """The state of a reduction: sums are exact, whatever was asked."""
    if reduction.overflow != "wrap":
        return Factors if reduction.fold.kernel == "prod" else Integers
    return next(iter(states_of(reduction.fold, source, reduction.result).values()))


def at_once(reduction: Reduce, x: Array, where: Array | None = None) -> Array:
    """A block that has all elements of its outputs: the bits of a Partial, and nothing to remember."""
    if reduction.fold.ending != "log":
        return reduction._replace(accuracy="exact").run(x, None, where)
    total = reduction._replace(fold=SUM, result=FLOAT64, accuracy="exact").run(x, None, where)
    return reduction._replace(axes=(), keepdims=False).run(total)


class Partial:
    """A reduction of an array that comes in blocks, in any order: what it has seen so far.

    The blocks are of the same rank as the array. `outputs` is the shape of the results that these blocks take part in,
    without the folded axes: that of the array's, or of a part of it.
    """

    __slots__ = ("_terms", "asked", "count", "state")

    def __init__(self, asked: Reduce | Arg, source: Dtype, outputs: tuple[int, ...], rank: int) -> None:
        self.asked = asked
        self.count: int | Array = 0
        if isinstance(asked, Arg):
            self._terms = Terms(asked.fold, source, asked.result, outputs, asked.axes, last=asked.last)
            self.state: State = Place(self._terms)
            return
        if through_floats(asked.fold, asked.result):
            asked = asked._replace(result=FLOAT64)
        self._terms = Terms(asked.fold, source, asked.result, outputs, asked.axes, asked.overflow)
        self.state = _state_of(asked, source)(self._terms)

    @staticmethod
    def bytes_for(asked: Reduce | Arg, source: Dtype) -> int:
        """How much memory each output takes."""
        return Partial(asked, source, (), 0).state.nbytes

    @staticmethod
    def any_order(asked: Reduce | Arg, source: Dtype) -> bool:
        """Whether blocks may come in any order without a bit of the result knowing."""
        return not isinstance(Partial(asked, source, (), 0).state, Product | LogSumExp)

    def add(self, x: Array, where: Array | None = None) -> None:
        """Fold a block, or what a mask of its shape chooses of it."""
        if x.size == 0:
            return
        if where is None:
            more: int | Array = x.size // max(self._terms.outputs, 1)
        else:
            more = Reduce(SUM, self._terms.axes(x), INT64).run(where)
        self.state.add(x, 0, where)
        self.count = self.count + more

    def copy(self) -> Self:
        """The same, to go on by itself."""
        made = copy.copy(self)
        made.state = self.state.copy()
        return made

    def place(self, x: Array, corner: tuple[int, ...], shape: tuple[int, ...]) -> None:
        """Look through a block for an extreme. The block begins at a corner of an array of some shape."""
        if x.size == 0 or not isinstance(self.state, Place):
            return
        best, at = self.state.folded(x, None)
        axes = self._terms.axes(x)
        if len(axes) == x.ndim:
            within = np.unravel_index(int(at), x.shape)
            lengths = [math.prod(shape[axis + 1 :]) for axis in axes]  # the first one's own may not be known yet
            at = np.asarray(sum((i + c) * length for i, c, length in zip(within, corner, lengths, strict=True)))
        else:
            at = at + corner[axes[0]]
        self.state.place((best, at))
        self.count = self.count + x.size // max(self._terms.outputs, 1)

    def merge(self, other: Self) -> None:
        """Add what another of the same reduction and outputs has seen. The other stays as it is."""
        if isinstance(self.state, Place) and isinstance(other.state, Place):
            self.state.place(other.state.arrays)
        else:
            self.state.merge(other.state, 0)
        self.count = self.count + other.count

    def result(self) -> Array:
        """What the elements so far come to, in an array of the outputs' shape."""
        asked, state = self.asked, self.state
        if isinstance(asked, Arg):
            if self._terms.outputs and not np.all(self.count):
                raise ShapeError(
                    f"{asked.fold.name}: of no elements there is no largest or smallest one; give a non-empty axis"
                )
            return state.result(self.count)
        if asked.fold.ending == "mean" and asked.result.kind != "f" and not np.all(self.count):
            asked.of_nothing()  # refuses
        if asked.initial is not None:
            state = state.copy()
            for first in self._firsts(asked.initial):
                state.add(first, 0)
        found = state.result(self.count)
        return found if self._terms.result is asked.result else whole.truncated(asked.fold.name, asked.result, found)

    def _firsts(self, initial: float) -> list[Array]:
        """The initial value as one more element of each output, or as several whose sum it is."""
        result, choosing = self._terms.result, isinstance(self.state, Joined)
        values = [initial]
        if result.kind == "f":
            kind = NUMPY[result.code] if choosing else np.dtype(np.float64)
            values = whole.doubles(initial) if isinstance(self.state, Totals) else [float(initial)]
        else:
            kind = NUMPY[result.code] if choosing else np.dtype(np.int64 if initial < 1 << 63 else np.uint64)
        return [np.expand_dims(np.full(self._terms.shape, each, kind), self._terms.folded or ()) for each in values]

    # ---- as bytes, for whoever knows of what

    def to_bytes(self) -> bytes:
        """What was seen, the same bytes on every machine."""
        counts = np.atleast_1d(self.count).astype("<i8").tobytes()
        return struct.pack("<Q", len(counts)) + counts + self.state.stored()

    def restore(self, data: bytes) -> None:
        """What was seen, from bytes that a Partial of the same reduction and outputs gave."""
        (length,) = struct.unpack_from("<Q", data) if len(data) >= 8 else (0,)
        if length not in (8, 8 * self._terms.outputs) or len(data) < 8 + length:
            raise StateError(f"a partial reduction cannot be restored from {len(data)} bytes")
        counts = np.frombuffer(data, "<i8", length // 8, 8).astype(np.int64)
        self.count = int(counts[0]) if length == 8 else counts.reshape(self._terms.shape)
        self.state = self.state.restored(self._terms, int(counts.max(initial=0)), data[8 + length :])
