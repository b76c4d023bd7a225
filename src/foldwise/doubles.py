"""Exact sums in few doubles: what a chunk of a large array sends on, however many outputs it has.

A sum is kept as doubles whose exact sum it is: the nearest one, the nearest to what that leaves, and so on until
nothing is left. Of ordinary data that is one or two, 8 or 16 bytes; a total with all possible digits takes 1,136.
"""

import math
from collections.abc import Iterator
from typing import Any, Final, Self

import numpy as np

from . import engine, folds, whole
from .arguments import NUMPY, Array
from .engine import FLOAT64, INT64, Reduce
from .folds import SUM, Fold
from .states import EXACT, State, Terms, Totals

_SUMS: Final = {str(folds.BY_NAME[name].exact): folds.BY_NAME[name] for name in ("sum", "l1", "sumsquare")}
"""By their exact kernels."""
_SHORT: Final = 1 << 10
"""To fold fewer elements into an output twice takes less time than a total does."""
_PIECE: Final = 1 << 20
"""So many of them at a time are still in a cache then, and take far longer than the calls do."""
_TOTALS: Final = 1 << 11
"""So many totals are in a cache."""
_FEW: Final = 64
"""Fewer totals are no work at all."""
_HALVES: Final = 1 << 13
"""So many float16, multiples of 2^-24 below 2^16, have a sum that is a double: 53 bits hold it."""
_MOST: Final = 4
"""Data that leaves more than so many doubles spans hundreds of binades."""


class Doubles(State):
    """Exact sums as doubles along a first axis, or as totals where one leaves their range, as only float64's can."""

    def __init__(self, terms: Terms, parts: Array | None = None, totals: Totals | None = None) -> None:
        super().__init__(terms)
        self.parts = np.zeros((0, *terms.shape)) if parts is None else parts
        self.totals = totals

    def add(self, x: Array, seen: int, where: Array | None = None) -> None:
        parts = None if self.totals else _folded(self.terms.fold, x, self.terms.axes(x), where)
        if parts is None:
            self.totals = self.in_totals()
            self.totals.add(x, seen, where)
        else:
            self._join(parts.reshape(-1, *self.terms.shape))

    def merge(self, other: Self, seen: int) -> None:
        if self.totals or other.totals:
            self.totals = self.in_totals()
            self.totals.merge(other.in_totals(), seen)
        else:
            self._join(other.parts)

    def _join(self, parts: Array) -> None:
        if not len(self.parts):
            self.parts = parts
            return
        both = np.concatenate([self.parts, parts])
        found = in_doubles("exact_sum", both, (0,), None)
        if found is None:
            self.totals = type(self)(self.terms, both).in_totals()
        else:
            self.parts = found.reshape(-1, *self.terms.shape)

    def in_totals(self) -> Totals:
        if self.totals:
            return self.totals
        totals = Totals(self.terms)
        engine.add_to_totals(totals.totals[np.newaxis], "exact_sum", self.parts, (0,), None)
        return totals

    def part(self, strip: tuple[slice, ...]) -> Self:
        """That of some outputs, to go on by itself."""
        parts = self.parts[(slice(None), *strip)]
        terms = self.terms._replace(shape=parts.shape[1:])
        return type(self)(terms, parts, Totals(terms, self.totals.totals[strip].copy()) if self.totals else None)

    def result(self, count: int | Array) -> Array:
        terms, counts = self.terms, np.broadcast_to(count, self.terms.shape)
        if self.totals:
            return self.totals.result(counts)
        if terms.fold.ending == "none":
            return Reduce(SUM, (0,), terms.result, accuracy="exact").run(self.parts)
        found = np.empty(terms.shape, NUMPY[terms.result.code])
        for strip in strips(terms.shape, _TOTALS):
            found[strip] = self.part(strip).in_totals().result(counts[strip])
        return found

    @property
    def nbytes(self) -> int:
        return self.totals.nbytes if self.totals else self.parts.nbytes

    def copy(self) -> Self:
        return type(self)(self.terms, self.parts, self.totals and self.totals.copy())

    def stored(self) -> bytes:
        return self.in_totals().stored()

    @classmethod
    def restored(cls, terms: Terms, count: int, data: bytes) -> Self:
        return cls(terms, totals=Totals.restored(terms, count, data))


def _folded(fold: Fold, x: Array, axes: tuple[int, ...], where: Array | None) -> Array | None:
    """A block's exact sums in doubles."""
    kernel = EXACT[fold.kernel]
    if x.dtype.kind not in "iub":
        return in_doubles(kernel, x, axes, where)
    if x.size < 1 << 31 and (x.dtype.itemsize <= 2 or (kernel != "exact_sumsquare" and x.dtype.itemsize == 4)):
        sums = Reduce(_SUMS[kernel], axes, INT64, keepdims=True).run(x, None, where)
        return np.stack([(sums >> 32) * 2.0**32, sums & 0xFFFFFFFF])
    found = [in_doubles(kind, each, axes, where) for kind, each in whole.summands(kernel, x)]
    return np.concatenate([parts for parts in found if parts is not None])


def in_doubles(kernel: str, x: Array, axes: tuple[int, ...], where: Array | None) -> Array | None:
    """Exact folds of floats over some axes, which keep length 1, as doubles along a new first axis.

    None where doubles cannot hold one: beyond the range of float64, which only float64 reaches.
    """
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    if not x.size:
        return np.zeros((1, *kept))
    length = x.size // math.prod(kept)
    if x.dtype == np.float16 and length <= _HALVES and kernel != "exact_sumsquare":
        return Reduce(_SUMS[kernel], axes, FLOAT64, keepdims=True, accuracy="exact").run(x, None, where)[np.newaxis]
    # The squares of doubles are no doubles.
    many = length < _SHORT and x.size >= _FEW * length and bool(axes)
    twice = many and not (kernel == "exact_sumsquare" and x.dtype == np.float64)
    nearest = _Nearest(kernel, x.dtype, axes)
    found: list[Array] = []
    for strip in strips(kept, max(1, _PIECE // length) if twice else _TOTALS):
        whole_strip = tuple(slice(None) if a in axes else each for a, each in enumerate(strip))
        block, mask = x[whole_strip], None if where is None else where[whole_strip]
        parts = (nearest.and_rest(block, mask) if twice else None) or _by_totals(kernel, block, axes, mask)
        if parts is None:
            return None
        found += [np.zeros(kept) for _ in range(len(parts) - len(found))]
        for to, part in zip(found, parts, strict=False):
            to[strip] = part
    return np.stack(found)


def strips(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """The boxes of at most so many places that a space is cut into, across whatever is longest."""

    def halved(box: tuple[slice, ...]) -> Iterator[tuple[slice, ...]]:
        lengths = [each.stop - each.start for each in box]
        if math.prod(lengths) <= most:
            yield box
            return
        at = lengths.index(max(lengths))
        middle = box[at].start + lengths[at] // 2
        for half in (slice(box[at].start, middle), slice(middle, box[at].stop)):
            yield from halved((*box[:at], half, *box[at + 1 :]))

    return halved(tuple(slice(0, n) for n in shape))


class _Nearest:
    """Folding for the nearest doubles, then with their negatives as further elements for what is left of the sums."""

    def __init__(self, kernel: str, dtype: "np.dtype[Any]", axes: tuple[int, ...]) -> None:
        self.axes = axes
        self.first = Reduce(_SUMS[kernel], axes, FLOAT64, keepdims=True, accuracy="exact")
        self.again = self.first._replace(fold=SUM)
        self.elements = {"exact_sumsquare": np.square, "exact_l1": np.abs}.get(kernel, np.positive)
        wide = dtype == np.float64 or kernel == "exact_sumsquare"
        self.memory: Array = np.empty(0, np.float64 if wide else np.float32)
        self.largest = float(np.finfo(np.float64 if wide else np.float32).max)

    def and_rest(self, x: Array, where: Array | None) -> list[Array] | None:
        """The doubles, or None where these are out of range, or more than a few."""
        parts = [self.first.run(x, None, where)]
        if not (np.abs(parts[0]) <= self.largest).all():
            return None
        along = max(self.axes, key=lambda a: x.shape[a])
        rows, count = 1 if self.memory.dtype == np.float64 else 3, x.shape[along]
        longer = self._room(tuple(n + _MOST * rows * (a == along) for a, n in enumerate(x.shape)))
        elements, further = (longer[(slice(None),) * along + (at,)] for at in (slice(count), slice(count, None)))
        if where is None:
            self.elements(x, out=elements, dtype=longer.dtype)
        else:
            elements[...] = 0
            self.elements(x, out=elements, dtype=longer.dtype, where=where)
        further[...] = 0
        place = [slice(1) if a in self.axes else slice(None) for a in range(x.ndim)]
        for at in range(0, _MOST * rows, rows):
            rest = -parts[-1]
            for row in range(at, at + rows):
                place[along] = slice(row, row + 1)
                further[tuple(place)] = rest
                rest -= further[tuple(place)]
            left = self.again.run(longer)
            if not left.any():
                return parts
            parts.append(left)
        return None

    def _room(self, shape: tuple[int, ...]) -> Array:
        """Memory that is used again for each strip."""
        size = math.prod(shape)
        if self.memory.size < size:
            self.memory = np.empty(size, self.memory.dtype)
        return self.memory[:size].reshape(shape)


def _by_totals(kernel: str, x: Array, axes: tuple[int, ...], where: Array | None) -> list[Array] | None:
    totals = engine.empty_totals(tuple(1 if a in axes else n for a, n in enumerate(x.shape)))
    engine.add_to_totals(totals, kernel, x, axes, where)
    return taken_from(totals, kernel == "exact_sumsquare")


def taken_from(totals: Array, squares: bool = False) -> list[Array] | None:
    """The nearest doubles, taken away from totals until nothing is left. What is no number stays what it is.

    None where the totals, which are used up, hold more: numbers too large for a double, or squares too small for one.
    """
    parts = [engine.rounded_totals(totals, "none", None, FLOAT64)]
    finite = np.isfinite(parts[0])
    if not finite.all() and (engine.total_digits(totals)[1][~finite] == 0).any():
        return None
    while parts[-1].any():
        engine.add_to_totals(totals, "exact_sum", np.asarray(-parts[-1]), (), None)
        parts.append(np.where(finite, engine.rounded_totals(totals, "none", None, FLOAT64), 0))
    if squares and engine.total_digits(totals)[0][finite].any():
        return None
    return parts[:-1] or parts
