"""What an accumulator remembers: one kind of state for each way in which a fold goes on where it stopped."""

import math
from abc import ABC, abstractmethod
from typing import Final, NamedTuple, Self

import numpy as np

from . import dtypes, engine, folds, whole
from .arguments import NUMPY, Array, Overflow
from .digits import UNIT_DIGIT, total_digits, totals_from, whole_totals
from .dtypes import Dtype
from .engine import FLOAT64, INT64, Arg, Reduce
from .errors import StateError
from .folds import SUM, SUMS, Fold
from .whole import Part

_PROD: Final = folds.BY_NAME["prod"]
_UINT64: Final = dtypes.BY_NAME["uint64"]


class Terms(NamedTuple):
    """What a state is of, checked."""

    fold: Fold
    source: Dtype
    result: Dtype
    shape: tuple[int, ...]
    """That of the outputs."""
    folded: tuple[int, ...] | None = None
    """Which axes of a block are folded. When nobody says: the first, or without outputs' axes all."""
    overflow: Overflow = "wrap"
    last: bool = False
    """Whether of equal extremes the last is looked for."""

    @property
    def outputs(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    def axes(self, x: Array) -> tuple[int, ...]:
        """The axes of a block that are folded."""
        if self.folded is not None:
            return self.folded
        return (0,) if self.shape else tuple(range(x.ndim))

    def fold_into(self, result: Dtype, x: Array, where: Array | None, fold: Fold | None = None) -> Array:
        """A block folded, as the array function does it, into some dtype."""
        return Reduce(fold or self.fold, self.axes(x), result).run(x, None, where)

    def exact_parts(self, x: Array, where: Array | None) -> list[Part]:
        """What is added to exact sums for a block."""
        return Reduce(self.fold, self.axes(x), FLOAT64).exact_parts(x, where)


class State(ABC):
    """What was seen, as far as the result and whatever is still to come need it."""

    merges = True
    """Whether a state of other elements can join."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    @abstractmethod
    def add(self, x: Array, seen: int, where: Array | None = None) -> None:
        """Fold a block that is not empty, or what a mask chooses of it, after `seen` elements of each output."""

    @abstractmethod
    def merge(self, other: Self, seen: int) -> None:
        """Let what the other has seen follow on the `seen` elements of this one."""

    def without(self, other: Self) -> Self | None:
        """The state as if what the other has seen had never come; None where nothing can be forgotten."""
        return None

    @abstractmethod
    def result(self, count: int | Array) -> Array:
        """What so many elements of each output come to."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How much memory it takes."""

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

    def add(self, x: Array, seen: int, where: Array | None = None) -> None:
        kept = np.expand_dims(self.totals, self.terms.axes(x))
        for part in self.terms.exact_parts(x, where):
            engine.add_to_totals(kept, *part)

    def merge(self, other: Self, seen: int) -> None:
        engine.merge_totals(self.totals, other.totals)

    def without(self, other: Self) -> Self:
        left = self.copy()
        engine.merge_totals(left.totals, other.totals, subtract=True)
        return left

    def result(self, count: int | Array) -> Array:
        fold, _, result, shape, *_ = self.terms
        if fold.ending == "log":
            return Reduce(fold, (), result).run(engine.rounded_totals(self.totals, "none", None, FLOAT64))
        found = engine.rounded_totals(self.totals, fold.ending, np.broadcast_to(count, shape), result)
        if fold.ending != "root":
            return found
        with np.errstate(invalid="ignore"):  # bfloat16's comparisons mind NaN
            return np.where(found < 0, np.nan, found).astype(found.dtype)

    @property
    def nbytes(self) -> int:
        return self.totals.nbytes

    def copy(self) -> Self:
        return type(self)(self.terms, self.totals.copy())

    def stored(self) -> bytes:
        """Of each sum its infinities and NaN, where its digits begin and end, then those digits of all sums.

        The highest bit is the sign, as in any integer: a positive sum whose last digit has it takes a 0 more.
        """
        digits, special = total_digits(self.totals.reshape(self.terms.outputs, self.totals.shape[-1]))
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
        if terms.source.kind != "f" and (special.any() or digits[:, :UNIT_DIGIT].any()):
            raise StateError("sums of integers are integers")
        highest = np.flatnonzero(words), end[words > 0] - 1
        digits[highest] = digits[highest].astype(np.int32)
        totals = totals_from(digits, special)
        return cls(terms, totals.reshape(*terms.shape, totals.shape[-1]))


class Integers(Totals):
    """Exact sums of integers whose results are integers: judged, divided or rooted only when somebody looks."""

    def result(self, count: int | Array) -> Array:
        fold, terms = self.terms.fold, self.terms
        exact = whole_totals(self.totals)
        if fold.ending == "mean":
            return whole.cut_means(exact, np.broadcast_to(count, terms.shape), terms.result)
        if fold.ending == "root":
            return whole.cut_roots(exact, terms.result)
        return whole.judged(fold.name, exact, terms.result, terms.overflow)


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
    def folded(self, x: Array, where: Array | None) -> tuple[Array, ...]:
        """The state of a block, or of what a mask chooses of it."""

    @abstractmethod
    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        """The state of what two have seen, the left one `seen` elements of each output."""

    def add(self, x: Array, seen: int, where: Array | None = None) -> None:
        with np.errstate(all="ignore"):
            self._join(self.folded(x, where), seen)

    def merge(self, other: Self, seen: int) -> None:
        with np.errstate(all="ignore"):
            self._join(other.arrays, seen)

    def _join(self, right: tuple[Array, ...], seen: int) -> None:
        joined = self.joined(self.arrays, right, seen)
        self.arrays = tuple(np.asarray(each, old.dtype) for each, old in zip(joined, self.arrays, strict=True))

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.arrays)

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
        return SUM if self.terms.fold.kernel in SUMS else self.terms.fold

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return (np.full(terms.shape, terms.fold.start(terms.result), NUMPY[terms.result.code]),)

    def folded(self, x: Array, where: Array | None) -> tuple[Array, ...]:
        return (self.terms.fold_into(self.terms.result, x, where),)

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        return (Reduce(self._join_by, (0,), self.terms.result).run(np.array([left[0], right[0]])),)

    def without(self, other: Self) -> Self | None:
        if self._join_by is not SUM:
            return None
        return type(self)(self.terms, (np.asarray(np.subtract(self.arrays[0], other.arrays[0])),))

    def result(self, count: int | Array) -> Array:
        return self.arrays[0].copy()

    @classmethod
    def restored(cls, terms: Terms, count: int, data: bytes) -> Self:
        state = super().restored(terms, count, data)
        # What was subtracted need not be what was added: sums of no elements may be anything.
        if not count and state._join_by is not SUM and not np.array_equal(state.arrays, cls.nothing(terms)):
            raise StateError(f"of no elements {terms.fold.name} is something else")
        return state


class Factors(Arrays):
    """Exact products of integers, as far as 64 bits go: magnitudes modulo 2**64, signs, and how large they are."""

    _BEYOND: Final = 2.0**80
    """Larger than any integer of 64 bits, and all that needs to be known of larger ones: only a 0 brings them back."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.ones(terms.shape, np.uint64), np.zeros(terms.shape, np.bool_), np.ones(terms.shape)

    def folded(self, x: Array, where: Array | None) -> tuple[Array, ...]:
        magnitudes, below = whole.magnitudes(x), x < 0
        modulo, size = (self.terms.fold_into(kind, magnitudes, where, _PROD) for kind in (_UINT64, FLOAT64))
        odd = self.terms.fold_into(INT64, below, where, SUM) & 1
        return modulo, odd.astype(np.bool_), size

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        sizes = [each[2].clip(None, self._BEYOND) for each in (left, right)]
        return left[0] * right[0], left[1] ^ right[1], sizes[0] * sizes[1]

    def result(self, count: int | Array) -> Array:
        modulo, below, size = self.arrays
        # What fits 64 bits is a product of at most 64 factors but for ones: its size is off by far less than 2**62.
        whole_size = np.where(np.abs(size - modulo) < 2.0**62, modulo.astype(object), 1 << 80)
        exact = np.asarray(np.where(below, -whole_size, whole_size), object)
        return whole.judged(self.terms.fold.name, exact, self.terms.result, self.terms.overflow)


class Place(Arrays):
    """The extreme so far, and where it is: -1 before anything was seen."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.zeros(terms.shape, NUMPY[terms.source.code]), np.full(terms.shape, -1, np.int64)

    def folded(self, x: Array, where: Array | None) -> tuple[Array, ...]:
        axes = self.terms.axes(x)
        at = Arg(self.terms.fold, axes, last=self.terms.last).run(x)
        if len(axes) == x.ndim:
            return np.asarray(x[np.unravel_index(int(at), x.shape)]), at
        return np.take_along_axis(x, np.expand_dims(at, axes), axes[0]).squeeze(axes), at

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        return self.better(left, (right[0], np.where(right[1] < 0, -1, right[1] + seen)))

    def better(self, one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
        """Of two extremes and their places the better ones: in whatever order they come, of equals the first place."""
        (best, at), (others, places) = one, other
        both = np.stack([best, others])
        first, last = (Arg(self.terms.fold, (0,), last=last).run(both) for last in (False, True))
        sooner = (places > at) if self.terms.last else (places < at)
        takes = (places >= 0) & ((at < 0) | np.where(first == last, first == 1, sooner))
        return np.where(takes, others, best), np.where(takes, places, at)

    def place(self, found: tuple[Array, ...]) -> None:
        """Take an extreme whose place is already that among all elements."""
        self.arrays = tuple(
            np.asarray(each, old.dtype)
            for each, old in zip(self.better(self.arrays, found), self.arrays, strict=True)
        )

    def result(self, count: int | Array) -> Array:
        return self.arrays[1].copy()

    @classmethod
    def restored(cls, terms: Terms, count: int, data: bytes) -> Self:
        state = super().restored(terms, count, data)
        at = state.arrays[1]
        if at.size and not ((at >= 0).all() and at.max() < count if count else (at == -1).all()):
            raise StateError(f"there are no such places among {count} elements")
        return state
