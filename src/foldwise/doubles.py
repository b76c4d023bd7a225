"""Exact sums in few doubles, which add up to them: what blocks and chunks pass on, however many outputs they have.

Of ordinary data two doubles hold a sum, and three of nearly all; a total with all possible digits takes 1,136 bytes.
"""

from typing import Self

import numpy as np

from . import engine
from .arguments import NUMPY, Array
from .engine import Scan
from .states import Terms, Totals


class Doubles(Totals):
    """Exact sums as doubles, or as totals once one of them needs more."""

    def __init__(self, terms: Terms, totals: Array | None = None) -> None:
        super().__init__(terms, engine.empty_doubles(terms.shape) if totals is None else totals)
        self._fresh = totals is None  # memory that nobody has touched yet: a copy would

    @property
    def few(self) -> bool:
        """Whether doubles still hold them."""
        return self.totals.dtype == np.float64

    def in_totals(self) -> Array:
        """All their digits."""
        return engine.totals_of(self.totals) if self.few else self.totals

    def add(self, x: Array, seen: int, where: Array | None = None) -> None:
        if self.few:
            moved = engine.empty_doubles(self.terms.shape) if self._fresh else self.totals.copy()
            kept = np.expand_dims(moved, self.terms.axes(x))
            if all(engine.add_to_doubles(kept, *part) for part in self.terms.exact_parts(x, where)):
                self._keep(moved)
                return
            self.totals = self.in_totals()
        super().add(x, seen, where)

    def merge(self, other: Self, seen: int) -> None:
        if self.few and other.few:
            moved = self.totals.copy()
            if engine.merge_doubles(moved, other.totals):
                self._keep(moved)
                return
        self.totals = self.in_totals()
        engine.merge_totals(self.totals, other.in_totals())

    def without(self, other: Self) -> Self:
        totals = self.in_totals().copy()
        engine.merge_totals(totals, other.in_totals(), subtract=True)
        return type(self)(self.terms, totals)._in_few()

    def _in_few(self) -> Self:
        """In doubles where these hold them."""
        doubles = engine.doubles_of(self.totals)
        return self if doubles is None else type(self)(self.terms, doubles)

    def scanned(self, scan: Scan, x: Array) -> Array:
        """Every step of a block of floats after what was seen, which it then is part of."""
        axis = scan.axis or 0
        if not self.few:
            return self._digit_by_digit(scan, x)
        moved = self.totals.copy()
        steps, fits = scan.run_on(x, np.expand_dims(moved, axis))
        if fits:
            self._keep(moved)
        else:  # the steps know more than what is left at their end
            self.totals = self.in_totals()
            engine.add_to_totals(np.expand_dims(self.totals, axis), "exact_sum", x, (axis,), None)
        return steps

    def _keep(self, moved: Array) -> None:
        self.totals, self._fresh = moved, False

    def _digit_by_digit(self, scan: Scan, x: Array) -> Array:
        """One element after the other."""
        found, held = np.empty(x.shape, NUMPY[scan.result.code]), self.totals
        elements, steps = (np.moveaxis(each, scan.axis or 0, 0) for each in (x, found))
        for i in range(len(elements))[:: -1 if scan.reverse else 1]:
            before = engine.rounded_totals(held, "none", None, scan.result) if scan.exclusive else None
            engine.add_to_totals(held[np.newaxis], "exact_sum", elements[i : i + 1], (0,), None)
            steps[i] = engine.rounded_totals(held, "none", None, scan.result) if before is None else before
        return found

    @property
    def nbytes(self) -> int:
        """How much memory it takes at most, while it turns from one form into the other."""
        return self.terms.outputs * (engine.empty_totals(()).nbytes + 2 * engine.empty_doubles(()).nbytes)

    def stored(self) -> bytes:
        return Totals(self.terms, self.in_totals()).stored()

    @classmethod
    def restored(cls, terms: Terms, count: int, data: bytes) -> Self:
        return cls(terms, Totals.restored(terms, count, data).totals)._in_few()
