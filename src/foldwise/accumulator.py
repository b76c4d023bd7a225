"""Reductions that are not done yet: what threads, files and machines have folded so far, to be merged."""

import struct
from typing import Any, Final, NoReturn, Self

import numpy as np

from . import arguments, folds
from .arguments import NUMPY, Accuracy, Array, accepted, as_array, chosen_accuracy, elements_dtype
from .errors import ArgumentError, DtypeError, FoldwiseError, OptionError, ShapeError, StateError
from .folds import PLACES, Fold
from .partial import states_of
from .states import State, Terms

_MOST: Final = 1 << 50
"""More elements than anybody has; so many counts, exponents and exact sums have room for."""
_LARGEST: Final = 1 << 52
"""More outputs than any memory has."""


class Accumulator:
    """A reduction in progress: elements come in blocks, accumulators merge, the result can be had at any time.

        total = fw.Accumulator("sum", "float32")
        for block in blocks:
            total.update(block)
        total.result()

    `fold` is the name of a reduction, `dtype` that of the elements, which every block must have; the result has the
    dtype that the array function gives for it. With `shape=()` a block of any shape is folded whole. With
    `shape=(k, ...)` a block of shape (m, k, ...) is folded along its first axis; m may be 0.

    With `accuracy="exact"` the result is that of the array function over all elements at once, with its
    `accuracy="exact"` where it has that: the same bits however the elements were split and merged, for sums in any
    order. (Among zeros of both signs `max` and `min` choose one.) It is the default wherever it can be: of integers
    for all but `logsumexp`, of floats for all but `logsumexp` and `prod`. `logsum` is the logarithm of the exact sum,
    rounded to float64. An exact sum of floats takes 24 bytes for each output, or 1,136 where three doubles do not hold
    it.

    With `accuracy="default"` sums of floats take 16 or 24 bytes: each block is folded in float64 as the array function
    does it, then added with compensation. The bits depend on the blocks, and only updates, one after the other, add
    to it: such accumulators do not merge. `prod` of floats and `logsumexp` are always of this accuracy, yet do merge:
    each block and each merge rounds in float64, and nothing overflows or underflows on the way.

    An accumulator is for one thread at a time: let each thread have its own, and merge them.
    """

    __slots__ = ("_accuracy", "_count", "_state", "_terms")

    _terms: Terms
    _accuracy: Accuracy
    _state: State
    _count: int

    def __init__(
        self, fold: str, dtype: Any, *, accuracy: Accuracy | None = None, shape: int | tuple[int, ...] = ()
    ) -> None:
        self._terms, self._accuracy, state = _checked("Accumulator", fold, dtype, accuracy, shape)
        self._state, self._count = state(self._terms), 0

    # ---- what it is of

    @property
    def fold(self) -> str:
        """The name of the reduction."""
        return self._terms.fold.name

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The dtype of the elements."""
        return NUMPY[self._terms.source.code]

    @property
    def accuracy(self) -> Accuracy:
        """Whether the result is exact, rounded once, or as the blocks have rounded it."""
        return self._accuracy

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self._terms.shape

    @property
    def count(self) -> int:
        """How many elements of each output were seen, or are left after `subtract`."""
        return self._count

    # ---- what comes and goes

    def update(self, x: Any) -> Self:
        """Fold a block of elements."""
        block = self._block(x)
        more = len(block) if self.shape else block.size
        count = self._grown("update", more)
        if block.size:
            self._state.add(block, self._count)
        self._count = count
        return self

    def merge(self, other: "Accumulator") -> Self:
        """Add what another accumulator of the same kind has seen, after what this one has. The other stays as it is."""
        self._check_kind("merge", other)
        if not self._state.merges:
            raise StateError(
                f'merge: {self._kind} adds up updates only, one after the other; with accuracy="exact" they merge'
            )
        count = self._grown("merge", other.count)
        self._state.merge(other._state, self._count)
        self._count = count
        return self

    def subtract(self, other: "Accumulator") -> Self:
        """Take away what another accumulator has seen: for exact sums, of floats or of integers.

        What is left is as if those elements had never come. An infinity or a NaN cannot be taken away.
        """
        self._check_kind("subtract", other)
        left = self._state.without(other._state)
        if left is None:
            raise StateError(f"subtract: {self._kind} cannot forget what it has seen; exact sums can")
        if other.count > self.count:
            raise StateError(
                f"subtract: an accumulator of {other.count} element(s) cannot be taken from one of {self.count}"
            )
        self._state = left
        self._count -= other.count
        return self

    def result(self) -> Any:
        """What the elements so far come to: a scalar, or an array of its own with `shape`."""
        if self._terms.fold in PLACES and not self._count and self._terms.outputs:
            raise ShapeError(f"{self.fold}: of no elements there is no largest or smallest one; update first")
        found = self._state.result(self._count)
        return found if self.shape else found[()]

    def copy(self) -> Self:
        """The same, to go on by itself."""
        return self._made(self._terms, self._accuracy, self._state.copy(), self._count)

    # ---- as bytes

    def to_bytes(self) -> bytes:
        """Everything, for another process or machine: the same bytes for the same exact state, wherever it is."""
        return _sealed(_header(self) + self._state.stored())

    @classmethod
    def from_bytes(cls, data: Any) -> Self:
        """The accumulator that gave these bytes. Bytes that none gave are refused."""
        stored = _unsealed(data)
        try:
            of, count, payload = _read_header(stored)
            terms, accuracy, state = _checked("Accumulator", *of)
            made = cls._made(terms, accuracy, state.restored(terms, count, payload), count)
            if _header(made) + made._state.stored() != stored:
                raise StateError("what it says is written otherwise")
        except FoldwiseError as error:
            raise StateError(f"from_bytes: this is no accumulator: {error}") from None
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        elements = f"{self._count:,} element{'' if self._count == 1 else 's'}"
        if self.shape:
            return f"<Accumulator {self._kind}: {elements} each>"
        nowhere = self._terms.fold in PLACES and not self._count
        return f"<Accumulator {self._kind}: {elements}{'' if nowhere else f', {self.result()!s}'}>"

    # ---- checks, all before anything changes

    @property
    def _kind(self) -> str:
        shape = f", shape {self.shape}" if self.shape else ""
        return f'{self.fold} of {self._terms.source.name}, accuracy="{self._accuracy}"{shape}'

    def _block(self, x: Any) -> Array:
        block = as_array("update", x)
        source, wanted = accepted("update", block), self._terms.source
        if source is not wanted:
            raise DtypeError(
                f"update: x has dtype {source.name}, but this is the {self.fold} of {wanted.name}; "
                f"give x.astype({wanted.name}), or make an Accumulator of {source.name}"
            )
        if self.shape and (block.ndim == 0 or block.shape[1:] != self.shape):
            lengths = ", ".join(map(str, self.shape))
            raise ShapeError(f"update: x has shape {block.shape}; accepted are blocks of shape (m, {lengths})")
        # Of rank 0 there is no axis to fold, of rank 64 no room for another one.
        return block if 0 < block.ndim < 64 else block.reshape(-1)

    def _grown(self, name: str, more: int) -> int:
        if self._count + more > _MOST:
            raise StateError(f"{name}: {self._count} and {more} elements are more than an accumulator counts ({_MOST})")
        return self._count + more

    def _check_kind(self, name: str, other: Any) -> None:
        if not isinstance(other, Accumulator):
            raise ArgumentError(f"{name}: other is of type {type(other).__name__}; it must be an Accumulator")
        if (self._terms, self._accuracy) != (other._terms, other._accuracy):
            raise StateError(f"{name}: this is {self._kind}, the other {other._kind}; both must be the same")

    @classmethod
    def _made(cls, terms: Terms, accuracy: Accuracy, state: State, count: int) -> Self:
        made = cls.__new__(cls)
        made._terms, made._accuracy, made._state, made._count = terms, accuracy, state, count
        return made


def _checked(name: str, fold: Any, dtype: Any, accuracy: Any, shape: Any) -> tuple[Terms, Accuracy, type[State]]:
    """What an accumulator is of, and the state it has."""
    known = _known_fold(name, fold)
    source = elements_dtype(name, dtype)
    terms = Terms(known, source, known.result(source), _known_shape(name, shape))
    states = states_of(known, source, terms.result)
    if accuracy is None:
        return terms, *next(iter(states.items()))
    wanted = chosen_accuracy(name, accuracy)
    if wanted == "exact" and wanted not in states:
        raise OptionError(f'{name}: {known.name} of {source.name} has no exact form; leave accuracy away, or "default"')
    return (terms, wanted, states[wanted]) if wanted in states else (terms, *next(iter(states.items())))


def _known_fold(name: str, fold: Any) -> Fold:
    if not isinstance(fold, str):
        raise ArgumentError(f"{name}: fold = {fold!r} is of type {type(fold).__name__}; it must be the name of one")
    if fold not in folds.BY_NAME:
        raise OptionError(f"{name}: {fold!r} is no reduction; accepted are {', '.join(folds.BY_NAME)}")
    return folds.BY_NAME[fold]


def _known_shape(name: str, shape: Any) -> tuple[int, ...]:
    lengths = arguments.lengths(name, "shape", shape)
    # An axis for the elements and one for the words of a sum must fit besides.
    if len(lengths) > 62 or min(lengths, default=0) < 0 or not _has_room(lengths):
        raise ShapeError(f"{name}: shape = {shape!r}; accepted are up to 62 lengths from 0 on that memory has room for")
    return lengths


def _has_room(lengths: tuple[int, ...]) -> bool:
    size = 1
    for length in lengths:
        size *= max(length, 1)
        if size > _LARGEST:
            return False
    return True


# ---- bytes: magic, version, length of all; header; state; a digest of everything before

_MAGIC: Final = b"\x93FWACC"
_VERSION: Final = 1
_START: Final = struct.Struct("<6sHQ")
_DIGEST: Final = 16


def _digest(data: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(data, digest_size=_DIGEST).digest()


def _sealed(stored: bytes) -> bytes:
    data = _START.pack(_MAGIC, _VERSION, _START.size + len(stored) + _DIGEST) + stored
    return data + _digest(data)


def _unsealed(given: Any) -> bytes:
    """What lies between the start and the digest, if both are right."""
    if not isinstance(given, bytes | bytearray | memoryview):
        raise ArgumentError(f"from_bytes: data is of type {type(given).__name__}; it must be bytes")
    data = bytes(given)
    if data[: len(_MAGIC)] != _MAGIC[: len(data)]:
        _refuse_bytes("they do not begin as those of an accumulator do")
    if len(data) < _START.size + _DIGEST:
        _refuse_bytes(f"{len(data)} bytes are only the beginning of one")
    _, version, length = _START.unpack_from(data)
    if version != _VERSION:
        _refuse_bytes(f"they are of format {version}, this foldwise knows {_VERSION}; a newer one may read them")
    if length != len(data):
        _refuse_bytes(f"{len(data)} bytes, of which there should be {length}")
    if _digest(data[:-_DIGEST]) != data[-_DIGEST:]:
        _refuse_bytes("they are damaged")
    return data[_START.size : -_DIGEST]


def _refuse_bytes(why: str) -> NoReturn:
    raise StateError(f"from_bytes: {why}; give what to_bytes gave")


def _header(accumulator: Accumulator) -> bytes:
    words = (accumulator.fold, accumulator._terms.source.name, accumulator.accuracy)
    texts = b"".join(struct.pack("<B", len(word)) + word.encode("ascii") for word in words)
    shape = accumulator.shape
    return texts + struct.pack(f"<B{len(shape)}QQ", len(shape), *shape, accumulator.count)


def _read_header(stored: bytes) -> tuple[tuple[Any, ...], int, bytes]:
    """What the accumulator is of, its count, and the bytes of its state."""
    at = 0

    def taken(kinds: str) -> tuple[Any, ...]:
        nonlocal at
        wanted = struct.Struct(f"<{kinds}")
        if len(stored) - at < wanted.size:
            raise StateError("its header is cut short")
        at += wanted.size
        return wanted.unpack_from(stored, at - wanted.size)

    words = [taken(f"{taken('B')[0]}s")[0].decode("latin-1") for _ in range(3)]
    *shape, count = taken(f"{taken('B')[0]}QQ")
    if count > _MOST:
        raise StateError(f"its count is {count}")
    return (*words, tuple(shape)), count, stored[at:]
