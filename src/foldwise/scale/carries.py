"""Scans that go on where the last block stopped.

What came before a block is told to it in the simplest way there is: by a few elements that fold to the same, put in
front of it. So a block needs no other arithmetic than a whole array, and each prefix is rounded once by itself.
"""

from typing import Final

import numpy as np

from foldwise import dtypes, engine, whole
from foldwise.arguments import NUMPY, Array
from foldwise.dtypes import Dtype
from foldwise.engine import FLOAT64, INT64, Reduce, Scan
from foldwise.errors import OptionError
from foldwise.partial import Partial
from foldwise.rounding_states import LogSumExp, Product
from foldwise.states import Arrays, Totals

_UINT64: Final = dtypes.BY_NAME["uint64"]
_FLOAT32: Final = dtypes.BY_NAME["float32"]


class Carry:
    """What the elements before a block come to, for each line along the axis of a scan."""

    def __init__(self, scan: Scan, source: Dtype, shape: tuple[int, ...], axis: int) -> None:
        """`shape` is that of a block."""
        self._scan, self._axis = alone(scan)._replace(axis=axis), axis
        self._working = _working(scan, source)
        integral = self._working.kind in "iu"
        folded = Reduce(scan.fold, (axis,), self._working if integral else FLOAT64)
        if scan.fold.kernel == "sum" and integral and (scan.overflow != "wrap" or scan.result.kind == "f"):
            folded = folded._replace(overflow="saturate")  # of the exact sums, that is
        elif scan.fold.name in ("max", "min"):
            folded = folded._replace(result=source)
        self.before = Partial(folded, source, tuple(n for a, n in enumerate(shape) if a != axis), len(shape))

    @staticmethod
    def bytes_for(scan: Scan, source: Dtype) -> tuple[int, int]:
        """How much memory each element of a block takes, and each line."""
        working = _working(scan, source)
        halves = 40 if scan.result.kind == "f" and working.kind in "iu" else 0
        converted = 0 if source.kind == "f" else 40 if source.size == 8 else 8
        one = Carry(scan, source, (1,), 0).before
        return working.size + 2 * scan.result.size + halves + converted, 2 * one.state.nbytes + 8 * working.size

    def scanned(self, block: Array) -> Array:
        """The prefixes of a block, everything before it included."""
        if not np.any(self.before.count):
            return self._scan.run(block)
        pieces = np.moveaxis(self._pieces(block.shape[self._axis]), 0, self._axis)
        inside = block.astype(NUMPY[self._working.code], copy=False)
        parts = (inside, pieces) if self._scan.reverse else (pieces, inside)
        count, length = pieces.shape[self._axis], block.shape[self._axis]
        prefixes = self._scan.run(np.concatenate(parts, self._axis))
        ours = slice(0, length) if self._scan.reverse else slice(count, count + length)
        return prefixes[(*(slice(None) for _ in range(self._axis)), ours)]

    def take(self, block: Array) -> None:
        """Add a block to what came before the next one."""
        self.before.add(block)

    def _pieces(self, length: int) -> Array:
        """Elements that fold to what came before lines of a length: along a first axis, the others are the lines'."""
        state, kind = self.before.state, NUMPY[self._working.code]
        if isinstance(state, Totals):
            return _integers(state.totals, self._working) if kind.kind in "iu" else _floats(state.totals, self._working)
        if isinstance(state, Product):
            return state.factors(length)
        if isinstance(state, LogSumExp):
            return np.asarray(state.arrays[0] + state.arrays[1])[np.newaxis]
        assert isinstance(state, Arrays)
        return state.arrays[0][np.newaxis]


def alone(scan: Scan) -> Scan:
    """The scan of a block with nothing before it. What no elements give is somebody else's to put first."""
    return scan._replace(axis=scan.axis or 0, accuracy="exact", include_initial=False)


def _working(scan: Scan, source: Dtype) -> Dtype:
    """The dtype in which elements and what stands for those before them meet: it has all values of the source's."""
    kernel = scan.fold.kernel
    if kernel in ("max", "min"):
        return source
    if kernel == "prod" and scan.result.kind in "iu" and scan.overflow != "wrap":
        raise OptionError(
            f'{scan.name}: overflow="{scan.overflow}" needs the whole array in memory; scan a source with '
            f'overflow="wrap", or in floats with dtype="float64"'
        )
    if kernel != "sum":
        integral = kernel == "prod" and scan.result.kind in "iu"
        return (_UINT64 if source.kind == "u" else INT64) if integral else FLOAT64
    if source.kind == "f":
        return FLOAT64 if source is FLOAT64 else _FLOAT32
    if scan.result.kind == "f" and source.size < 8:
        return FLOAT64
    return _UINT64 if source.kind == "u" else INT64


def _floats(totals: Array, kind: Dtype) -> Array:
    """Exact sums as floats that add up to them."""
    left, largest = totals.copy(), np.finfo(NUMPY[kind.code]).max
    special = engine.total_digits(totals)[1] != 0
    first = engine.rounded_totals(totals, "none", None, kind)
    left[special] = 0
    pieces = [np.where(special, first, np.asarray(0, first.dtype))] if special.any() else []
    while True:
        nearest = np.asarray(engine.rounded_totals(left, "none", None, kind).clip(-largest, largest))
        if not nearest.any():
            return np.stack(pieces or [nearest])
        pieces.append(nearest)
        engine.add_to_totals(left, "exact_sum", np.asarray(-nearest), (), None)


def _integers(totals: Array, kind: Dtype) -> Array:
    """Exact sums as integers of 64 bits that add up to them."""
    left = engine.whole_totals(totals)
    pieces = []
    while True:
        nearest = whole.clipped(left, *dtypes.limits(kind))
        left = np.asarray(left - nearest, object)
        pieces.append(nearest.astype(NUMPY[kind.code]))
        if not np.any(left):
            return np.stack(pieces)
