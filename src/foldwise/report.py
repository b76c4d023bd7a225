"""What there is to know about a sum: how good it is, and why it is as bad as it is."""

import math
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from . import arguments, engine, folds, whole
from .arguments import NUMPY, Array
from .dtypes import Dtype
from .engine import FLOAT64, INT64, Arg, Reduce
from .errors import ShapeError
from .folds import SUM, Fold

_ARGMAX: Final = folds.BY_NAME["argmax"]


class SumReport(NamedTuple):
    """A sum, and how far to trust it. All but `first_bad` have the shape of the sum."""

    value: Any
    """The exact sum, rounded once; of integers the nearest that the dtype has, where theirs does not fit."""
    default: Any
    """What `fw.sum` gives."""
    error: Any
    """How far `default` is from the exact sum, as float64, rounded up. NaN where an infinity or a NaN is summed."""
    bound: Any
    """At least the distance of `value` from the exact sum: half a unit in its last place, 0 where it must be exact."""
    condition: Any
    """The sum of the magnitudes by the magnitude of the sum: how much of what there is cancels. 1 is best."""
    count: Any
    """How many elements were summed."""
    nans: Any
    """How many of those are NaN,"""
    positive_infinities: Any
    """how many inf,"""
    negative_infinities: Any
    """and how many -inf."""
    overflowed: Any
    """Whether finite elements have a sum that the dtype cannot hold."""
    first_bad: tuple[int, ...] | None
    """Where in `x` the first NaN or infinity is, in C order; of integers, which sum is the first that overflowed."""

    def __str__(self) -> str:
        width = max(map(len, self._fields))
        return "\n".join(f"{name:{width}}  {value}" for name, value in self._asdict().items())


def sum_report(x: Any, /, axis: int | tuple[int, ...] | None = None, where: Any = None) -> SumReport:
    """Sum some axes (None: all of them) exactly and by default, and tell how the two differ and why.

    A large `condition` means that the elements cancel: so many times larger than the relative errors of the elements
    is that of their sum, however it is computed. A large `error` beside a small `bound` means that `accuracy="exact"`
    helps.
    """
    name = "sum_report"
    array = arguments.as_array(name, x)
    source = arguments.accepted(name, array)
    if array.ndim == 64:
        raise ShapeError(
            f"{name}: x has 64 axes, and exact sums need one more; leave one of length 1 away, as x.squeeze(axis) does"
        )
    axes = arguments.normalised_axes(name, axis, array.ndim)
    mask = None if where is None else arguments.mask_for(name, where, array)
    summed = _Summed(array, axes, mask, SUM.result(source))
    report = summed.of_floats() if source.kind == "f" else summed.of_integers()
    return SumReport._make(each[()] if isinstance(each, np.ndarray) else each for each in report)


class _Summed(NamedTuple):
    """Elements, and over which axes they are summed."""

    x: Array
    axes: tuple[int, ...]
    where: Array | None
    result: Dtype

    def of_floats(self) -> SumReport:
        totals, default, count = self._totals(SUM), self._default(), self._counted(None)
        value = engine.rounded_totals(totals, "none", None, self.result)
        nans, above, below, first_bad = self._specials(engine.rounded_totals(totals, "none", None, FLOAT64))
        usual = nans + above + below == 0
        return SumReport(
            value=value,
            default=default,
            error=np.where(usual, self._distance(totals, default), np.nan),
            bound=np.where(usual, _half_a_place(value, self.result), np.nan),
            condition=np.where(usual, self._condition(totals, count), np.nan),
            count=count,
            nans=nans,
            positive_infinities=above,
            negative_infinities=below,
            overflowed=np.asarray(usual & np.isinf(value)),
            first_bad=first_bad,
        )

    def of_integers(self) -> SumReport:
        totals, default, count = self._totals(SUM), self._default(), self._counted(None)
        value = Reduce(SUM, self.axes, self.result, overflow="saturate").run(self.x, None, self.where)
        bound = self._distance(totals, value)
        overflowed, none = np.asarray(bound > 0), np.zeros(value.shape, np.int64)
        return SumReport(
            value=value,
            default=default,
            error=self._distance(totals, default),
            bound=bound,
            condition=self._condition(totals, count),
            count=count,
            nans=none,
            positive_infinities=none,
            negative_infinities=none,
            overflowed=overflowed,
            first_bad=_first(overflowed),
        )

    def _default(self) -> Array:
        return Reduce(SUM, self.axes, self.result).run(self.x, None, self.where)

    def _totals(self, fold: Fold) -> Array:
        """Exact sums of the elements, or of their magnitudes."""
        folded = Reduce(fold, self.axes, self.result, keepdims=True)
        sums = engine.empty_doubles(folded.shape_for(self.x.shape))
        totals = engine.with_added(sums, folded.exact_parts(self.x, self.where))
        return totals.reshape(*folded._replace(keepdims=False).shape_for(self.x.shape), totals.shape[-1])

    def _counted(self, chosen: Array | None) -> Array:
        """How many elements there are, or how many of those that were chosen."""
        if chosen is None and self.where is None:
            lengths = arguments.folded_shape(self.x.shape, self.axes, False)
            return np.full(lengths, math.prod(self.x.shape[axis] for axis in self.axes))
        those = np.broadcast_to(np.True_, self.x.shape) if chosen is None else np.asarray(chosen)
        return Reduce(SUM, self.axes, INT64).run(those, None, self.where)

    def _specials(self, sums: Array) -> tuple[Array, Array, Array, tuple[int, ...] | None]:
        """How many NaNs and infinities of either sign there are, and where the first is. Most data have none."""
        if np.isfinite(sums).all():
            none = np.zeros(sums.shape, np.int64)
            return none, none, none, None
        with np.errstate(invalid="ignore"):  # NaNs that signal
            nans, infinite, positive = np.isnan(self.x), np.isinf(self.x), self.x > 0
        bad = nans | infinite if self.where is None else (nans | infinite) & self.where
        counts = [self._counted(which) for which in (nans, infinite & positive, infinite & ~positive)]
        return counts[0], counts[1], counts[2], _first(bad)

    def _distance(self, totals: Array, sums: Array) -> Array:
        """How far sums are from the exact ones, rounded up."""
        parts = whole.summands("exact_sum", np.asarray(sums))
        rest = engine.with_added(totals, [(kernel, np.asarray(-each), (), None) for kernel, each in parts])
        nearest = engine.rounded_totals(rest, "none", None, FLOAT64)
        rest = engine.with_added(rest, [("exact_sum", np.asarray(-nearest), (), None)])
        more = engine.rounded_totals(rest, "none", None, FLOAT64)
        with np.errstate(all="ignore"):
            above = np.nextafter(np.abs(nearest), np.inf)
            beyond = np.sign(more) == np.sign(nearest)
        # What is no number is so by overflows of either sign.
        return np.select([np.isnan(nearest), beyond & (nearest != 0)], [np.inf, above], np.abs(nearest))

    def _condition(self, totals: Array, count: Array) -> Array:
        kept = self._totals(folds.BY_NAME["l1"])

        def ratio(ending: str) -> tuple[Array, Array]:
            magnitudes, sums = (engine.rounded_totals(each, ending, count, FLOAT64) for each in (kept, totals))
            return np.where(magnitudes == 0, 1.0, magnitudes / np.abs(sums)), np.isfinite(magnitudes)

        with np.errstate(all="ignore"):
            found, finite = ratio("none")
            # Where sums leave float64, their means do not.
            return found if finite.all() else np.where(finite, found, ratio("mean")[0])


def _half_a_place(value: Array, result: Dtype) -> Array:
    """Half a unit in the last place of floats; 0 where that is the least there is, as sums of floats are multiples."""
    limits = ml_dtypes.finfo(NUMPY[result.code])  # type: ignore[no-untyped-call]
    _, exponent = np.frexp(value.astype(np.float64))
    place = exponent - limits.nmant - 1
    least = limits.minexp - limits.nmant
    with np.errstate(all="ignore"):
        half = np.where((value != 0) & (place > least), np.ldexp(1.0, place - 1), 0.0)
    return np.where(np.isinf(value), np.inf, half)


def _first(chosen: Array) -> tuple[int, ...] | None:
    """The place of the first that is true, in C order."""
    if not chosen.any():
        return None
    at = int(Arg(_ARGMAX, (0,)).run(chosen.reshape(-1)))
    return tuple(int(i) for i in np.unravel_index(at, chosen.shape))
