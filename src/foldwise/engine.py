"""Where every entrance meets: a checked Reduce, Scan or Arg, and the only calls into the native core."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from . import _native, arguments, dtypes, whole
from .arguments import NUMPY, Accuracy, Array, Overflow, dtype_of
from .dtypes import Dtype
from .errors import ArgumentError, ShapeError, StateError
from .folds import SUM, SUMS, Fold, Number
from .whole import Part

__version__: Final = _native.VERSION

_COLUMN_CODES: Final = {name: code for code, name in enumerate(dtypes.COLUMNS)}
_KERNEL_CODES: Final = {name: code for code, name in enumerate(_native.fold_names())}
_ENDING_CODES: Final = {name: code for code, name in enumerate(_native.ending_names())}


# ---- what is asked for, checked


class Reduce(NamedTuple):
    """One fold over some axes: everything decided, nothing left to guess."""

    fold: Fold
    axes: tuple[int, ...]
    result: Dtype
    keepdims: bool = False
    initial: Number | None = None
    overflow: Overflow = "wrap"
    accuracy: Accuracy = "default"

    def run(self, x: Array, out: Array | None = None, where: Array | None = None) -> Array:
        """Fold `x`. `out`, where given, has the result's shape and dtype; `where` has the shape of `x`."""
        return _run_asked(x, self.axes, where, [self._asked(x, out, where)])[0]

    def _asked(self, x: Array, out: Array | None, where: Array | None) -> "_Asked":
        if through_floats(self.fold, self.result):
            real = self._replace(result=FLOAT64)._asked(x, None, where)
            return _Asked(
                real.job,
                lambda fits: _delivered(whole.truncated(self.fold.name, self.result, real.finish(fits)), out),
            )
        source, mean_of_chosen = dtype_of(x), where is not None and self.fold.ending == "mean"
        in_steps = mean_of_chosen or _in_steps(self.fold, source, self.result, self.initial)
        if in_steps and self.accuracy == "exact" and self.result.kind == "f":
            return _Asked(None, lambda _: _delivered(self._by_totals(x, where), out))
        if where is not None and mean_of_chosen:
            return _Asked(None, lambda _: _delivered(self._mean_of_chosen(x, where), out))
        kept = arguments.folded_shape(x.shape, self.axes, True)
        shape = kept if self.keepdims else arguments.folded_shape(x.shape, self.axes, False)
        target, final = _working_array(self.fold.name, shape, self.result, None, out, self.overflow)
        if x.size == 0:
            if target.size:
                with np.errstate(over="ignore"):
                    target[...] = self.of_nothing()
            return _Asked(None, lambda _: _delivered(target, final))
        start = self._start(where is None)
        way = _way(self.fold, source, self.result, self.overflow, x.size, self.accuracy, start=start)
        # Axes of length 1 may be added to a view freely, so the core sees arrays of one rank.
        ranked = target if self.keepdims else target.reshape(kept)

        def finish(fits: bool) -> Array:
            if not fits and self.fold.ending == "root":
                ranked[...] = whole.roots(x, self.axes, self.result, where)
            elif not fits and self.overflow == "raise":
                whole.refuse_overflow(self.fold.name, self.result)
            return _delivered(target, final)

        return _Asked((way.job(source, self.result), way.finish(start), ranked), finish)

    def shape_for(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result."""
        return arguments.folded_shape(shape, self.axes, self.keepdims)

    def _start(self, everything: bool) -> Number:
        if self.initial is not None:
            first = float(self.initial) if self.result.kind == "f" else self.initial
            return first + 0.0 if self.accuracy == "exact" and self.result.kind == "f" else first
        start = self.fold.start(self.result)
        # Over no axis a sum copies its element, the sign of a zero included: it starts from what changes nothing.
        return -0.0 if start == 0 and self.fold.kernel == "sum" and not self.axes and everything else start

    def of_nothing(self) -> Number:
        """The fold of no elements."""
        start = self._start(False)
        if self.fold.ending == "mean":
            if self.result.kind != "f":
                raise ArgumentError(
                    f"{self.fold.name}: no elements have no {self.result.name} mean; ask for a float result"
                )
            return math.nan
        return -math.inf if self.fold.ending == "log" else start

    def _mean_of_chosen(self, x: Array, where: Array) -> Array:
        source, in_floats = dtype_of(x), self.result.kind == "f"
        # Integers whose sums are all less than 2**53 are added exactly as doubles, too.
        if source.kind != "f" and in_floats and 8 * source.size + x.size.bit_length() > 53:
            with np.errstate(over="ignore"):
                return self._replace(result=FLOAT64)._by_totals(x, where).astype(NUMPY[self.result.code])
        count = self._replace(fold=SUM, result=INT64).run(where)
        if not in_floats:
            if not count.all():
                self.of_nothing()
            sums = [self._replace(fold=SUM, result=each, accuracy="default").run(x, None, where) for each in _BOTH]
            return whole.cut_means(whole.integers(*sums), count, self.result)
        # In the accumulator's own dtype: what the mask leaves out changes nothing, not even the bits.
        wide = FLOAT64 if dtypes.column_for(source, self.result) == "float64" else dtypes.BY_NAME["float32"]
        return whole.means(self._replace(fold=SUM, result=wide).run(x, None, where), count, self.result)

    def exact_parts(self, x: Array, where: Array | None) -> list[Part]:
        """Floats that come to the exact fold: of integers, but for long ones' squares, as few as there are outputs."""
        summed, size = SUMS[self.fold.kernel], x.dtype.itemsize
        if x.dtype.kind not in "iub" or (size == 8 and summed.kernel == "sumsquare"):
            return [(kernel, each, self.axes, where) for kernel, each in whole.summands(str(summed.exact), x)]
        total = Reduce(summed, self.axes, INT64, keepdims=True)
        in_64_bits = size <= (2 if summed.kernel == "sumsquare" else 4) and x.size < _EXACT_IN_64_BITS
        about = None if in_64_bits else total._replace(result=FLOAT64).run(x, None, where)
        return whole.integers_in_floats(total.run(x, None, where), about)

    def _by_totals(self, x: Array, where: Array | None) -> Array:
        """An exact sum in more than one step."""
        if x.ndim == 64:  # NumPy has no axis left for a sum's words; one of so many is of length 1
            at = x.shape.index(1)
            fewer = self._replace(axes=tuple(a - (a > at) for a in self.axes if a != at))
            folded = fewer._by_totals(np.squeeze(x, at), None if where is None else np.squeeze(where, at))
            return folded.reshape(self.shape_for(x.shape))
        kept = self._replace(keepdims=True).shape_for(x.shape)
        sums = with_added(empty_doubles(kept), self.exact_parts(x, where))
        if self.initial:
            sums = with_added(sums, [("exact_sum", np.full(kept, n), (), None) for n in whole.doubles(self.initial)])
        chosen = np.broadcast_to(np.True_, x.shape) if where is None else where
        count = Reduce(SUM, self.axes, INT64, keepdims=True).run(chosen) if self.fold.ending == "mean" else None
        return rounded_totals(sums, self.fold.ending, count, self.result).reshape(self.shape_for(x.shape))


class _Asked(NamedTuple):
    """What the core is asked, if anything, and what is made of its answer."""

    job: tuple[tuple[int, int, int, int], tuple[float, int, int, int, int], Array] | None
    finish: Callable[[bool], Array]


def _run_asked(x: Array, axes: tuple[int, ...], where: Array | None, all_asked: list[_Asked]) -> list[Array]:
    jobs = tuple(asked.job for asked in all_asked if asked.job is not None)
    fits = iter(_native.run_reduce(x, where, sum(1 << a for a in axes), jobs) if jobs else ())
    return [asked.finish(asked.job is None or next(fits)) for asked in all_asked]


def run_together(reductions: Sequence[Reduce], x: Array, where: Array | None = None) -> list[Array]:
    """Fold `x` in several ways over the same axes: memory is read once."""
    return _run_asked(x, reductions[0].axes, where, [each._asked(x, None, where) for each in reductions])


# ---- exact sums, kept for more to come


def empty_totals(shape: tuple[int, ...]) -> Array:
    """Exact sums of nothing yet: one more axis, whose words only the core can read."""
    return np.zeros((*shape, _native.TOTAL_WORDS), np.int64)


def empty_doubles(shape: tuple[int, ...]) -> Array:
    """The same in few doubles, along one more axis: they add up to the sum."""
    return np.zeros((*shape, _native.DOUBLES))


def with_added(sums: Array, parts: Sequence[Part]) -> Array:
    """Exact sums and more: in few doubles as long as these hold them."""
    more = sums.copy()
    if sums.dtype == np.float64:
        if all(add_to_doubles(more, *part) for part in parts):
            return more
        more = totals_of(sums)
    for part in parts:
        add_to_totals(more, *part)
    return more


def add_to_totals(totals: Array, kernel: str, x: Array, axes: tuple[int, ...], where: Array | None) -> None:
    """Add the fold of floats over some axes to sums, which have length 1 along those."""
    _add(totals, _TOTALS, kernel, x, axes, where)


def add_to_doubles(doubles: Array, kernel: str, x: Array, axes: tuple[int, ...], where: Array | None) -> bool:
    """The same; whether doubles hold the sums. If not, they are what nobody can use."""
    return _add(doubles, _DOUBLES, kernel, x, axes, where)


def _add(sums: Array, kept: int, kernel: str, x: Array, axes: tuple[int, ...], where: Array | None) -> bool:
    if not x.size:
        return True
    source = dtype_of(x)
    job = _KERNEL_CODES[kernel], _COLUMN_CODES[dtypes.exact_column_for(source, kernel)], source.code, kept
    return all(_native.run_reduce(x, where, sum(1 << a for a in axes), ((job, (0.0, 0, 0, 0, 0), sums),)))


def merge_totals(totals: Array, others: Array, subtract: bool = False) -> None:
    """Add sums to sums, or take them away."""
    if any(each[..., _TOTAL_ROOM:TOTAL_DIGITS].any() for each in (totals, others)):
        raise StateError("exact sums: no data has sums as large as these, which were merged with themselves too often")
    _native.merge_totals(totals, others, subtract)


def merge_doubles(doubles: Array, others: Array) -> bool:
    """Add sums to sums; whether doubles hold them."""
    return _native.merge_doubles(doubles, others)


def totals_of(doubles: Array) -> Array:
    """The same sums with all their digits."""
    totals = empty_totals(doubles.shape[:-1])
    _native.convert_sums(doubles, totals)
    return totals


def doubles_of(totals: Array) -> Array | None:
    """The same sums in few doubles, if these hold them."""
    doubles = empty_doubles(totals.shape[:-1])
    return doubles if _native.convert_sums(totals, doubles) else None


def rounded_totals(sums: Array, ending: str, counts: Array | None, result: Dtype) -> Array:
    """What sums come to, totals or doubles, rounded once into a float dtype."""
    found = np.empty(sums.shape[:-1])
    if counts is not None:
        counts = np.ascontiguousarray(counts, np.int64)
    rounding = _native.round_totals if sums.dtype == np.int64 else _native.round_doubles
    rounding(sums, counts, _ENDING_CODES[ending], result.code, found)
    with np.errstate(over="ignore"):
        return found.astype(NUMPY[result.code])


def _rounded_integers(wrapped: Array, about: Array, result: Dtype) -> Array:
    """Integers of which the last 64 bits are known, and what they come to, rounded once into a float dtype."""
    found, flat, some = np.empty(wrapped.size, NUMPY[result.code]), (wrapped.reshape(-1), about.reshape(-1)), 1 << 16
    for at in range(0, found.size, some):
        block = [each[at : at + some] for each in flat]
        sums = with_added(empty_doubles(block[0].shape), whole.integers_in_floats(*block))
        found[at : at + some] = rounded_totals(sums, "none", None, result)
    return found.reshape(wrapped.shape)


class Scan(NamedTuple):
    """One fold along an axis with its steps kept. Axis None walks every axis in C order, into one dimension."""

    name: str
    fold: Fold
    axis: int | None
    result: Dtype
    exclusive: bool = False
    reverse: bool = False
    include_initial: bool = False
    overflow: Overflow = "wrap"
    accuracy: Accuracy = "default"

    def shape_for(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result."""
        more = int(self.include_initial)
        if self.axis is None:
            return (int(np.prod(shape, dtype=np.int64)) + more,)
        return tuple(n + more if a == self.axis else n for a, n in enumerate(shape))

    def run(self, x: Array, out: Array | None = None) -> Array:
        """Scan `x`. `out`, where given, has the result's shape and dtype, and may be `x` itself."""
        return self._run(x, out, None)[0]

    def run_on(self, x: Array, carried: Array) -> tuple[Array, bool]:
        """Scan floats along an axis exactly, after what comes before each line: doubles, with length 1 along the axis.

        These then hold what comes before the next block, if it is true that they can.
        """
        steps, fits = self._replace(accuracy="exact")._run(x, None, carried)
        if self.exclusive:  # whose last element nobody has asked for yet
            axis = self.axis or 0
            last = x[(*(slice(None),) * axis, slice(0, 1) if self.reverse else slice(-1, None))]
            fits = add_to_doubles(carried, "exact_sum", last, (axis,), None) and fits
        return steps, fits

    def _run(self, x: Array, out: Array | None, carried: Array | None) -> tuple[Array, bool]:
        if through_floats(self.fold, self.result):
            return _delivered(whole.truncated(self.name, self.result, self._replace(result=FLOAT64).run(x)), out), True
        if self.accuracy == "exact" and _in_steps(self.fold, dtype_of(x), self.result):
            wrapped, about = (self._replace(result=each, accuracy="default").run(x) for each in _BOTH)
            return _delivered(_rounded_integers(wrapped, about, self.result), out), True
        fits, start = True, self.fold.start(self.result)
        in_place = out is not None and arguments.same_memory(x, out)
        read_again = self.exclusive or self.include_initial or (self.result.kind == "f" and start != 0)
        target, final = _working_array(
            self.name, self.shape_for(x.shape), self.result, x, out, self.overflow, in_place and read_again
        )
        if target.size and x.size == 0:
            target[...] = start
        elif target.size:
            way = _way(self.fold, dtype_of(x), self.result, self.overflow, 1, self.accuracy, scans=True)
            fits = _native.run_scan(
                way.job(dtype_of(x), self.result),
                way.finish(start),
                x,
                -1 if self.axis is None else self.axis,
                target,
                self.reverse,
                self.exclusive or self.include_initial,
                carried,
            )
            if not fits and self.overflow == "raise":
                whole.refuse_overflow(self.name, self.result)
        return _delivered(target, final), fits


class Arg(NamedTuple):
    """Where along an axis, or over all of them in C order, the extreme is: the first of equals, or the last."""

    fold: Fold
    axes: tuple[int, ...]
    keepdims: bool = False
    last: bool = False

    @property
    def result(self) -> Dtype:
        """The dtype of places."""
        return INT64

    def shape_for(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result."""
        return arguments.folded_shape(shape, self.axes, self.keepdims)

    def run(self, x: Array, out: Array | None = None) -> Array:
        """Look through `x`. `out`, where given, has the result's shape and is of int64."""
        name, shape = self.fold.name, self.shape_for(x.shape)
        if x.size == 0 and 0 not in shape:
            where = f"shape {x.shape}" if len(self.axes) == x.ndim else f"shape {x.shape} along axis {self.axes[0]}"
            raise ShapeError(f"{name}: of no elements ({where}) there is no largest or smallest one; give some")
        target, final = _working_array(name, shape, INT64, None, out, "wrap")
        if x.size:
            way = _way(self.fold, dtype_of(x), INT64, "wrap")
            everything = len(self.axes) == x.ndim
            axis = -1 if everything else self.axes[0]
            ranked = target.reshape((1,) if everything else arguments.folded_shape(x.shape, self.axes, True))
            _native.run_scan(way.job(dtype_of(x), INT64), way.finish(0), x, axis, ranked, False, self.last, None)
        return _delivered(target, final)


# ---- the way through the native table

INT64: Final = dtypes.BY_NAME["int64"]
FLOAT64: Final = dtypes.BY_NAME["float64"]
_BOTH: Final = INT64, FLOAT64
"""Wrapped, and about: together they tell sums of integers."""
_TOTALS: Final = len(dtypes.TABLE)
"""In place of a result's dtype: exact sums as they are."""
_DOUBLES: Final = _TOTALS + 1
"""The same, as doubles."""
TOTAL_DIGITS: Final = _native.TOTAL_WORDS - 4
"""The first words of a total. Then come its infinities and NaNs, as bits, and three words of how far it is carried."""
_TOTAL_ROOM: Final = TOTAL_DIGITS - 4
"""More digits than 2**60 squares of the largest float64 have; beyond these, merging could run out of them."""
_WORD: Final = (1 << 64) - 1
_NO_LIMITS: Final = (0, 0)
_WIDEST: Final = (-(1 << 63), _WORD)
_EXACT_IN_64_BITS: Final = 1 << 31
"""So many integers of 32 bits have a sum of 64."""


class _Way(NamedTuple):
    """The native fold, the column that reads, the ending, and what integers are judged by."""

    kernel: int
    column: int
    ending: int
    limits: tuple[int, int]

    def job(self, source: Dtype, result: Dtype) -> tuple[int, int, int, int]:
        """The way of one dtype into another."""
        return self.kernel, self.column, source.code, result.code

    def finish(self, start: Number) -> tuple[float, int, int, int, int]:
        """What the core is told about the end of a fold that begins with `start`."""
        return float(start), start & _WORD if isinstance(start, int) else 0, *self.limits, self.ending


def _way(
    fold: Fold,
    source: Dtype,
    result: Dtype,
    overflow: Overflow,
    count: int = 1,
    accuracy: Accuracy = "default",
    scans: bool = False,
    start: Number = 0,
) -> _Way:
    def through(kernel: str, column: str, ending: str, limits: Any = _NO_LIMITS) -> _Way:
        return _Way(_KERNEL_CODES[kernel], _COLUMN_CODES[column], _ENDING_CODES[ending], limits)

    integral, by_value = result.kind in "iu", dtypes.judged_column_for(source, start)
    if integral and overflow != "wrap":
        return through(str(fold.judged), by_value, "none", dtypes.limits(result))
    # Of integers a mean is exact, and so is a root that is to be one.
    if fold.ending == "mean" and source.kind != "f" and (integral or result is FLOAT64):
        ending = "mean" if integral else "ratio"
        if source.size < 8 and count <= _EXACT_IN_64_BITS:
            return through("sum", dtypes.column_for(source, INT64), ending, _WIDEST)
        return through("judged_sum", by_value, ending, _WIDEST)
    if fold.ending == "root" and integral:
        return through("judged_sumsquare", by_value, "none", _WIDEST)
    if accuracy == "exact" and not integral and fold.exact is not None:
        return through(fold.exact, dtypes.exact_column_for(source, fold.exact), fold.ending)
    reads = "signed" if scans and fold.reads == "narrow" else fold.reads
    return through(fold.kernel, dtypes.column_for(source, result, reads), fold.ending)


def _in_steps(fold: Fold, source: Dtype, result: Dtype, initial: Number | None = None) -> bool:
    """Whether elements, or what joins them, have more bits than a double, so that their exact sum takes two steps."""
    wide = isinstance(initial, int) or (source.kind != "f" and source.size == 8 and result.kind == "f")
    return wide and fold.exact is not None and not (fold.ending == "mean" and result is FLOAT64)


def through_floats(fold: Fold, result: Dtype) -> bool:
    """Whether an integer result is a logarithm: computed in float64, then cut (R-18)."""
    return result.kind in "iu" and (fold.ending == "log" or fold.kernel == "logsumexp")


def _working_array(
    name: str,
    shape: tuple[int, ...],
    result: Dtype,
    like: Array | None,
    out: Array | None,
    overflow: Overflow,
    detached: bool = False,
) -> tuple[Array, Array | None]:
    """The array to compute into, laid out in memory as `like` is, and where to copy it afterwards, if anywhere."""
    if out is not None and out.dtype.isnative and overflow != "raise" and not detached:
        return out, None
    try:
        return _native.empty(shape, result.code, like), out
    except (MemoryError, ValueError) as error:
        raise MemoryError(f"{name}: no room for a result of dtype {result.name}, shape {shape}") from error


def _delivered(target: Array, final: Array | None) -> Array:
    if final is None:
        return target
    final[...] = target
    return final


# ---- what the core is told

Route = tuple[int, int, int, tuple[float, int, int, int, int]]


def route(fold: Fold, source: Dtype, result: Dtype, overflow: Overflow, accuracy: Accuracy, scans: bool) -> Route:
    """How the core folds a plain array of that dtype by itself; by no fold (-1) where it does not."""
    way = _way(fold, source, result, overflow, 1, accuracy, scans)
    in_steps = accuracy == "exact" and _in_steps(fold, source, result)
    if in_steps or through_floats(fold, result) or (result.kind in "iu" and fold.ending != "none"):
        way = way._replace(kernel=-1)
    return way.kernel, way.column, result.code, way.finish(fold.start(result))


NOWHERE: Final[Route] = -1, 0, 0, (0.0, 0, 0, 0, 0)


def configure(functions: int, asked_route: Callable[..., Route], general: dict[str, Callable[..., Any]]) -> None:
    """Tell the core what is declared: dtypes, how many functions, whom it asks for routes, who takes the rest."""
    numbers = tuple(numpy.num for numpy in NUMPY)
    overflows, accuracies = arguments.OVERFLOWS, ("default", "exact")
    _native.configure(numbers, functions, asked_route, tuple(general[kind] for kind in CORE), overflows, accuracies)


Call = Callable[..., Any]
CORE: Final[dict[str, tuple[Call, Callable[[Call, Any, dict[str, Any]], Any]]]] = {
    "reduce": (_native.reduce, _native.direct_reduce),
    "scan": (_native.scan, _native.direct_scan),
    "place": (_native.place, _native.direct_place),
    "many": (_native.reduce_many, _native.direct_many),
}
"""How each kind of public function enters the core: called with every argument, and standing in for the function."""

LIBRARY: Final = _native.__file__
"""The core as a file: what onnxruntime loads its operators from."""
declare_operators: Final = _native.declare_operators
choose_operators: Final = _native.choose_operators

isa: Final = _native.isa
available_isas: Final = _native.available_isas
use_isa: Final = _native.use_isa
threads: Final = _native.threads
most_threads: Final = _native.MOST_THREADS
set_threads: Final = _native.set_threads
work_alone: Final = _native.work_alone
keep_memory: Final = _native.keep_memory
