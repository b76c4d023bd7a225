"""What an accumulator remembers: one kind of state for each way in which a fold goes on where it stopped."""

import math
from abc import ABC, abstractmethod
from typing import Final, NamedTuple, Self

import numpy as np

from . import engine, folds, whole
from .arguments import NUMPY, Accuracy, Array
from .dtypes import Dtype
from .engine import FLOAT64, INT64, Arg, Reduce
from .errors import StateError
from .folds import FOLDS, PLACES, SUM, Fold

_L2: Final = folds.BY_NAME["l2"]
_LOGSUMEXP: Final = folds.BY_NAME["logsumexp"]
_PROD: Final = folds.BY_NAME["prod"]
_EXACT: Final = {fold.kernel: fold.exact for fold in FOLDS if fold.exact is not None}
"""The kernels of sums, and those that do the same exactly."""


class Terms(NamedTuple):
    """What a state is of, checked."""

    fold: Fold
    source: Dtype
    result: Dtype
    shape: tuple[int, ...]
    """That of the outputs. With none, blocks are folded whole, otherwise along their first axis."""

    @property
    def outputs(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    def axes(self, x: Array) -> tuple[int, ...]:
        """The axes of a block that are folded."""
        return (0,) if self.shape else tuple(range(x.ndim))

    def fold_into(self, result: Dtype, x: Array, fold: Fold | None = None) -> Array:
        """A block folded, as the array function does it, into some dtype."""
        return Reduce(fold or self.fold, self.axes(x), result).run(x)


class State(ABC):
    """What was seen, as far as the result and whatever is still to come need it."""

    merges = True
    """Whether a state of other elements can join."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    @abstractmethod
    def add(self, x: Array, seen: int) -> None:
        """Fold a block that is not empty, after `seen` elements of each output."""

    @abstractmethod
    def merge(self, other: Self, seen: int) -> None:
        """Let what the other has seen follow on the `seen` elements of this one."""

    def without(self, other: Self) -> Self | None:
        """The state as if what the other has seen had never come; None where nothing can be forgotten."""
        return None

    @abstractmethod
    def result(self, count: int) -> Array:
        """What `count` elements of each output come to."""

    @abstractmethod
    def copy(self) -> Self:
        """The same, to go on by itself."""

    @abstractmethod
    def stored(self) -> bytes:
        """Everything but the terms, the same on every machine."""

    @classmethod
    @abstractmethod
    def restored(cls, terms: Terms, count: int, data: bytes) -> Self:
        """The state that was stored. Memory is taken only for what the bytes are enough for."""


# ---- exact sums


class Totals(State):
    """Exact sums as the core keeps them, rounded only when somebody looks."""

    def __init__(self, terms: Terms, totals: Array | None = None) -> None:
        super().__init__(terms)
        self.totals = engine.empty_totals(terms.shape) if totals is None else totals

    def add(self, x: Array, seen: int) -> None:
        axes = self.terms.axes(x)
        kept = self.totals[np.newaxis] if self.terms.shape else self.totals.reshape((1,) * x.ndim + (-1,))
        for kernel, summand in whole.summands(_EXACT[self.terms.fold.kernel], x):
            engine.add_to_totals(kept, kernel, summand, axes, None)

    def merge(self, other: Self, seen: int) -> None:
        engine.merge_totals(self.totals, other.totals)

    def without(self, other: Self) -> Self:
        left = self.copy()
        engine.merge_totals(left.totals, other.totals, subtract=True)
        return left

    def result(self, count: int) -> Array:
        fold, _, result, shape = self.terms
        if fold.ending == "log":
            return Reduce(fold, (), result).run(engine.rounded_totals(self.totals, "none", None, FLOAT64))
        found = engine.rounded_totals(self.totals, fold.ending, np.full(shape, count), result)
        if fold.ending != "root":
            return found
        with np.errstate(invalid="ignore"):  # bfloat16's comparisons mind NaN
            return np.where(found < 0, np.nan, found).astype(found.dtype)

    def copy(self) -> Self:
        return type(self)(self.terms, self.totals.copy())

    def stored(self) -> bytes:
        """Of each sum its infinities and NaN, where its digits begin and end, then those digits of all sums.

        The highest bit is the sign, as in any integer: a positive sum whose last digit has it takes a 0 more.
        """
        digits, special = engine.total_digits(self.totals.reshape(self.terms.outputs, self.totals.shape[-1]))
        used = digits != 0
        used[:, 1:] |= digits[:, :-1] >> 31 == 1
        last = digits.shape[1] - used[:, ::-1].argmax(1)
        begin, end = np.where(used.any(1), [used.argmax(1), last], 0)
        words = digits[_between(begin, end, digits.shape[1])].astype("<u4")
        return np.stack([special, begin, end]).astype("u1").tobytes() + words.tobytes()

    @classmethod
    def restored(cls, terms: Terms, count: int, data: bytes) -> Self:
        outputs = terms.outputs
        if len(data) < 3 * outputs:
            raise StateError(f"{len(data)} bytes are too few for {outputs} sums")
        special, begin, end = np.frombuffer(data, "u1", 3 * outputs).reshape(3, outputs).astype(np.int64)
        words = (end - begin).clip(0)
        if (begin > end).any() or (end > engine.TOTAL_DIGITS).any() or not np.isin(special, (0, 1, 2, 4)).all():
            raise StateError("there are no such sums")
        if len(data) != 3 * outputs + 4 * int(words.sum()):
            raise StateError(f"{len(data)} bytes are not those of {outputs} sums of {words.sum()} digits")
        digits = np.zeros((outputs, engine.TOTAL_DIGITS), np.int64)
        digits[_between(begin, end, engine.TOTAL_DIGITS)] = np.frombuffer(data, "<u4", offset=3 * outputs)
        highest = np.flatnonzero(words), end[words > 0] - 1
        digits[highest] = digits[highest].astype(np.int32)
        totals = engine.totals_from(digits, special)
        return cls(terms, totals.reshape(*terms.shape, totals.shape[-1]))


def _between(begin: Array, end: Array, count: int) -> Array:
    """Which of so many places lie between two, for each pair of these."""
    places = np.arange(count)
    chosen: Array = (begin[:, np.newaxis] <= places) & (places < end[:, np.newaxis])
    return chosen


# ---- states that are arrays


class Arrays(State):
    """Some arrays with an element for each output: how a block is folded into such, and how two of them join.

    They are replaced, never changed, so that copies share them.
    """

    arrays: tuple[Array, ...]

    def __init__(self, terms: Terms, arrays: tuple[Array, ...] | None = None) -> None:
        super().__init__(terms)
        self.arrays = self.nothing(terms) if arrays is None else arrays

    @classmethod
    @abstractmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        """The state before anything was seen."""

    @abstractmethod
    def folded(self, x: Array) -> tuple[Array, ...]:
        """The state of a block."""

    @abstractmethod
    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        """The state of what two have seen, the left one `seen` elements of each output."""

    def add(self, x: Array, seen: int) -> None:
        with np.errstate(all="ignore"):
            self._join(self.folded(x), seen)

    def merge(self, other: Self, seen: int) -> None:
        self._join(other.arrays, seen)

    def _join(self, right: tuple[Array, ...], seen: int) -> None:
        with np.errstate(all="ignore"):
            joined = self.joined(self.arrays, right, seen)
        self.arrays = tuple(np.asarray(each, old.dtype) for each, old in zip(joined, self.arrays, strict=True))

    def copy(self) -> Self:
        return type(self)(self.terms, self.arrays)

    def stored(self) -> bytes:
        return b"".join(each.view(_word(each)).astype(_word(each).newbyteorder("<")).tobytes() for each in self.arrays)

    @classmethod
    def restored(cls, terms: Terms, count: int, data: bytes) -> Self:
        kinds = [each.dtype for each in cls.nothing(terms._replace(shape=()))]
        needed = terms.outputs * sum(kind.itemsize for kind in kinds)
        if len(data) != needed:
            raise StateError(f"{len(data)} bytes are not the {needed} that {terms.outputs} outputs take")
        arrays, at = [], 0
        for kind in kinds:
            words = np.frombuffer(data, f"<u{kind.itemsize}", terms.outputs, at).astype(f"u{kind.itemsize}")
            if kind == np.bool_ and (words > 1).any():
                raise StateError("a truth value is neither 0 nor 1")
            arrays.append(words.view(kind).reshape(terms.shape))
            at += words.nbytes
        return cls(terms, tuple(arrays))


def _word(array: Array) -> "np.dtype[np.unsignedinteger]":
    return np.dtype(f"u{array.dtype.itemsize}")


class Joined(Arrays):
    """Results so far, where results of results are results: extremes, truths, and integers modulo 2**64."""

    @property
    def _join_by(self) -> Fold:
        return SUM if self.terms.fold.kernel in _EXACT else self.terms.fold

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return (np.full(terms.shape, terms.fold.start(terms.result), NUMPY[terms.result.code]),)

    def folded(self, x: Array) -> tuple[Array, ...]:
        return (self.terms.fold_into(self.terms.result, x),)

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        return (Reduce(self._join_by, (0,), self.terms.result).run(np.stack([left[0], right[0]])),)

    def without(self, other: Self) -> Self | None:
        if self._join_by is not SUM:
            return None
        return type(self)(self.terms, (np.asarray(np.subtract(self.arrays[0], other.arrays[0])),))

    def result(self, count: int) -> Array:
        return self.arrays[0].copy()


class Place(Arrays):
    """The extreme so far, and where it is: -1 before anything was seen."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.zeros(terms.shape, NUMPY[terms.source.code]), np.full(terms.shape, -1, np.int64)

    def folded(self, x: Array) -> tuple[Array, ...]:
        if not self.terms.shape:
            at = Arg(self.terms.fold, None).run(x)
            return np.asarray(x[np.unravel_index(int(at), x.shape)]), at
        at = Arg(self.terms.fold, 0).run(x)
        return np.take_along_axis(x, at[np.newaxis], 0)[0], at

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        (best, at), (others, place) = left, right
        better = Arg(self.terms.fold, 0).run(np.stack([best, others])) > 0
        takes = (place >= 0) & (better | (at < 0))
        return np.where(takes, others, best), np.where(takes, place + seen, at)

    def result(self, count: int) -> Array:
        return self.arrays[1].copy()

    @classmethod
    def restored(cls, terms: Terms, count: int, data: bytes) -> Self:
        state = super().restored(terms, count, data)
        at = state.arrays[1]
        if at.size and not ((at >= 0).all() and at.max() < count if count else (at == -1).all()):
            raise StateError(f"there are no such places among {count} elements")
        return state


class Pair(Arrays):
    """Sums of floats by one addition in float64 for each block, and what those additions lost."""

    merges = False

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.zeros(terms.shape), np.zeros(terms.shape)

    def folded(self, x: Array) -> tuple[Array, ...]:
        total = self.terms.fold_into(FLOAT64, x, self.terms.fold._replace(ending="none"))
        return total, np.zeros(total.shape)

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        total = left[0] + right[0]
        back = total - left[0]
        lost = (left[0] - (total - back)) + (right[0] - back)
        return total, left[1] + right[1] + lost

    def result(self, count: int) -> Array:
        fold, _, result, _ = self.terms
        with np.errstate(all="ignore"):
            total = _corrected(*self.arrays)
            if fold.ending == "log":
                return Reduce(fold, (), result).run(total)
            return _rounded(total / count if fold.ending == "mean" else total, result)


class Squares(Pair):
    """Such sums of squares, in units of 4**exponent, so that no square leaves the range."""

    _LEAST: Final = -(1 << 14)
    """The exponent of zeros, below that of any other number."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return *super().nothing(terms), np.full(terms.shape, cls._LEAST, np.int64)

    def folded(self, x: Array) -> tuple[Array, ...]:
        norm, exponent = _split(self.terms.fold_into(FLOAT64, x, _L2), self._LEAST)
        return norm * norm, np.zeros(norm.shape), exponent

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        exponent = np.maximum(left[2], right[2])
        here, there = (tuple(np.ldexp(part, 2 * (side[2] - exponent)) for part in side[:2]) for side in (left, right))
        return *super().joined(here, there, seen), exponent

    def result(self, count: int) -> Array:
        total, lost, exponent = self.arrays
        with np.errstate(all="ignore"):
            squares = _corrected(total, lost)
            if self.terms.fold.ending == "root":
                return _rounded(np.ldexp(np.sqrt(squares), exponent), self.terms.result)
            return _rounded(np.ldexp(squares, 2 * exponent), self.terms.result)


class Product(Arrays):
    """Products of floats as a fraction and an exponent, so that only the result meets the dtype's range."""

    _GROUP: Final = 512
    """So many fractions from a half up have a product in the normal range."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.ones(terms.shape), np.zeros(terms.shape, np.int64)

    def folded(self, x: Array) -> tuple[Array, ...]:
        product = self.terms.fold_into(FLOAT64, x)
        if ((np.abs(product) >= np.finfo(np.float64).tiny) & (np.abs(product) < np.inf)).all():
            return _split(product)
        fraction, exponent = self._summed(*_split(x.reshape(-1, *self.terms.shape)))
        while len(fraction) > 1:
            groups = -(-len(fraction) // self._GROUP)
            padded = np.ones((groups * self._GROUP, *self.terms.shape))
            padded[: len(fraction)] = fraction
            grouped = padded.reshape(groups, self._GROUP, *self.terms.shape)
            fraction, more = self._summed(*_split(Reduce(_PROD, (1,), FLOAT64).run(grouped)))
            exponent = exponent + more
        return fraction[0], exponent

    @staticmethod
    def _summed(fraction: Array, exponent: Array) -> tuple[Array, Array]:
        """With the exponents summed along the first axis."""
        return fraction, Reduce(SUM, (0,), INT64).run(exponent)

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        fraction, exponent = _split(left[0] * right[0])
        return fraction, left[1] + right[1] + exponent

    def result(self, count: int) -> Array:
        fraction, exponent = self.arrays
        with np.errstate(all="ignore"):
            return _rounded(np.ldexp(fraction, exponent.clip(-5000, 5000)), self.terms.result)


class LogSumExp(Arrays):
    """The largest logarithm of a block's sum so far, and the logarithm of what all come to in units of that sum."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.full(terms.shape, -np.inf), np.zeros(terms.shape)

    def folded(self, x: Array) -> tuple[Array, ...]:
        largest = self.terms.fold_into(FLOAT64, x)
        return largest, np.zeros(largest.shape)

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        largest = np.maximum(left[0], right[0])
        # Of two infinities neither is the smaller, though their difference is no number.
        parts = [np.where(side[0] == largest, 0, side[0] - largest) + side[1] for side in (left, right)]
        return largest, Reduce(_LOGSUMEXP, (0,), FLOAT64).run(np.stack(parts))

    def result(self, count: int) -> Array:
        largest, more = self.arrays
        return _rounded(largest + more, self.terms.result)


def _split(x: Array, least: int = 0) -> tuple[Array, Array]:
    """Floats as fractions from a half up and exponents; what has none, such as 0 and infinities, has the least."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return fraction, np.where(np.isfinite(fraction) & (fraction != 0), exponent, least)


def _corrected(total: Array, lost: Array) -> Array:
    """A sum with what was lost on the way, unless it is infinite, where nobody knows that."""
    return np.where(np.isfinite(total), total + lost, total)


def _rounded(found: Array, result: Dtype) -> Array:
    """Float64 rounded into a dtype, with the one NaN."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(np.isnan(found), np.nan, found)).astype(NUMPY[result.code])


# ---- which state a fold has

_OF_FLOATS: Final[dict[str, dict[Accuracy, type[State]]]] = {
    "sum": {"exact": Totals, "default": Pair},
    "l1": {"exact": Totals, "default": Pair},
    "sumsquare": {"exact": Totals, "default": Squares},
    "prod": {"default": Product},
    "logsumexp": {"default": LogSumExp},
}
"""By the fold's kernel; the first is what nobody needs to ask for."""


def states_of(fold: Fold, source: Dtype) -> dict[Accuracy, type[State]]:
    """The states that a fold of a dtype can have. Where results are exact by themselves, there is but that one."""
    if fold in PLACES:
        return {"exact": Place}
    if fold.result(source).kind != "f" or fold.kernel not in _OF_FLOATS:
        return {"exact": Joined}
    states = _OF_FLOATS[fold.kernel]
    return states if source.kind == "f" or "exact" not in states else {"exact": states["exact"]}
