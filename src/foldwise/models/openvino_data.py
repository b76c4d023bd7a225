"""The .bin of an OpenVINO IR: element types, and constants that are mapped as they lie."""

from __future__ import annotations

import hashlib
import itertools
import math
import mmap
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from foldwise import dtypes
from foldwise.errors import ArgumentError, ModelError
from foldwise.operators.call import Shape, shape_text

from .graph import Array
from .limits import Budget
from .openvino_xml import number, shown

# ---- element types


class ElementType(NamedTuple):
    """An element type of OpenVINO."""

    ir: str
    """As attributes write it."""
    precision: str
    """As ports write it."""
    name: str | None
    """The dtype's name in NumPy where foldwise has it, otherwise OpenVINO's own; None where it is not known."""
    numpy: np.dtype[Any] | None = None
    """What arrays of it are made of; None where there is no such array."""
    bits: int = 0


def _ours(dtype: dtypes.Dtype) -> ElementType:
    precision = f"FP{8 * dtype.size}" if re.fullmatch(r"f\d+", dtype.ir) else dtype.ir.upper()
    numpy = np.dtype(ml_dtypes.bfloat16 if dtype.name == "bfloat16" else dtype.name).newbyteorder("<")
    return ElementType(dtype.ir, "BOOL" if dtype.kind == "b" else precision, dtype.name, numpy, 8 * dtype.size)


_NARROW: Final = {
    "u2": (ml_dtypes.uint2, 2),
    "u4": (ml_dtypes.uint4, 4),
    "i4": (ml_dtypes.int4, 4),
    "f4e2m1": (ml_dtypes.float4_e2m1fn, 4),
    "f8e4m3": (ml_dtypes.float8_e4m3fn, 8),
    "f8e5m2": (ml_dtypes.float8_e5m2, 8),
    "f8e8m0": (ml_dtypes.float8_e8m0fnu, 8),
}

ELEMENT_TYPES: Final = (
    *map(_ours, dtypes.TABLE),
    *(ElementType(ir, ir.upper(), ir, np.dtype(numpy), bits) for ir, (numpy, bits) in _NARROW.items()),
    ElementType("string", "STRING", "string", np.dtype(object), 8),
    ElementType("u1", "BIN", "u1"),
    ElementType("dynamic", "UNSPECIFIED", None),
)
_BY_IR: Final = {each.ir: each for each in ELEMENT_TYPES} | {"undefined": ELEMENT_TYPES[-1]}
_BY_PRECISION: Final = {each.precision: each for each in ELEMENT_TYPES} | {"": ELEMENT_TYPES[-1]}
_BY_NAME: Final = {each.name: each for each in ELEMENT_TYPES}
_BY_NUMPY: Final = {each.numpy: each for each in ELEMENT_TYPES if each.numpy is not None}


def of_ir(text: str) -> ElementType:
    """The element type that an attribute names."""
    return _BY_IR.get(text.lower()) or _unknown(text)


def of_precision(text: str) -> ElementType:
    """The element type that a port states."""
    return _BY_PRECISION.get(text.upper()) or _BY_IR.get(text.lower()) or _unknown(text)


def of_name(name: str | None) -> ElementType:
    """The element type behind a dtype's name."""
    return _BY_NAME.get(name) or _unknown(name or "")


def _unknown(text: str) -> ElementType:
    """One that came after this table."""
    return ElementType(text.lower(), text.upper(), text.lower())


def _shifts(kind: ElementType) -> Array:
    """Where the elements that share a byte begin in it."""
    return np.array(range(0, 8, kind.bits), np.uint8)


# ---- shapes


def read_shape(text: str, what: str) -> Shape | None:
    """The lengths that a text states; None for any number of them, a None among them for any length."""
    plain = text.strip().removeprefix("[").removesuffix("]").strip()
    if plain == "...":
        return None
    return tuple(_length(each.strip(), what) for each in plain.split(",")) if plain else ()


def _length(text: str, what: str) -> int | None:
    if text in ("?", "-1"):
        return None
    bounds = re.fullmatch(r"([0-9]*)\.\.([0-9]*)", text, re.ASCII)
    if bounds is None:
        return number(text, f"{what}: a length of its shape")
    least, most = (number(bound, f"{what}: a bound of its shape") if bound else None for bound in bounds.groups())
    if least is not None and most is not None and least > most:
        raise ModelError(f"{what} has the length {shown(text)} in its shape; the lower bound comes first")
    return None


# ---- reading


def opened(path: Path, what: str) -> IO[bytes]:
    """A regular file; what would block, or is no file, is refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise ModelError(f"{what} cannot be opened ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ModelError(f"{what} is no regular file; put a plain copy there")
    return os.fdopen(descriptor, "rb")


class Constants:
    """The arrays in a .bin, which is opened when the first of them is asked for."""

    def __init__(self, source: Path | bytes, weights: str | os.PathLike[str] | bytes | None, budget: Budget) -> None:
        if not isinstance(weights, str | os.PathLike | bytes | None):
            raise ArgumentError(f"load: weights is of type {type(weights).__name__}; give a path, or a .bin's bytes")
        self.source = source
        self.weights = weights
        self.budget = budget
        self._held: Array | None = None
        self._made = 0

    def array(self, data: Mapping[str, str], what: str) -> Array:
        """The array that a Const layer describes."""
        kind = of_ir(data.get("element_type", ""))
        if kind.numpy is None:
            accepted = ", ".join(each.ir for each in ELEMENT_TYPES if each.numpy is not None)
            raise ModelError(f"{what} has element_type {shown(kind.ir)}; constants may be of {accepted}")
        if "shape" not in data:
            raise ModelError(f"{what} has no shape; a scalar's is the empty text")
        shape = self.shape(data["shape"], what)
        offset, size = (number(data.get(key), f"{what}: its {key}") for key in ("offset", "size"))
        count = math.prod(shape)
        needed = -(-count * kind.bits // 8)
        what = f"{what} with {kind.name} of shape {shape_text(shape)}"
        self.budget.spend_data(max(needed, count * kind.numpy.itemsize), what)
        if size < needed:
            raise ModelError(f"{what} needs {needed:,} bytes; its size says {size:,}")
        held = self.between(offset, size, what) if size else np.empty(0, np.uint8)
        if not count:
            return self.nothing(shape, kind.numpy, what)
        return self.decoded(held if kind.name == "string" else held[:needed], kind, count, what).reshape(shape)

    def shape(self, text: str, what: str) -> tuple[int, ...]:
        lengths = read_shape(text, what)
        if lengths is None or None in lengths:
            raise ModelError(f"{what} has the shape {shown(text)}; all lengths of a constant are known")
        self.budget.limits.check("rank", len(lengths), f"{what} has rank")
        return tuple(each for each in lengths if isinstance(each, int))

    def between(self, offset: int, size: int, what: str) -> Array:
        """Some of the bytes."""
        if self._held is None:
            self._held = self.opened_weights(what)
        if offset + size > len(self._held):
            raise ModelError(
                f"{what} lies at bytes {offset:,} to {offset + size:,} of its .bin, which ends at {len(self._held):,}; "
                f"the .bin may be cut off, or that of another model"
            )
        return self._held[offset : offset + size]

    def nothing(self, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Array:
        try:
            return np.empty(shape, dtype)
        except ValueError:
            raise ModelError(f"{what} has no elements, and other lengths that no array can have") from None

    def decoded(self, held: Array, kind: ElementType, count: int, what: str) -> Array:
        assert kind.numpy is not None
        if kind.name == "string":
            return self.strings(held, count, what)
        if kind.bits < 8:
            self.make(count, what)
            codes: Array = (held[:, None] >> _shifts(kind)) & np.uint8((1 << kind.bits) - 1)
            return codes.reshape(-1)[:count].view(kind.numpy)
        if kind.name == "bool" and held.max() > 1:
            self.make(count, what)
            return np.not_equal(held, 0)
        return held.view(kind.numpy)

    def strings(self, held: Array, count: int, what: str) -> Array:
        """Their number, the offset at which each begins and the last ends, and their bytes one after another."""
        begins = 4 * (count + 2)
        if len(held) < begins:
            raise ModelError(f"{what} needs {begins:,} bytes for its strings' lengths; its size says {len(held):,}")
        numbers, text = held[:begins].view("<u4"), held[begins:]
        offsets = numbers[1:]
        if numbers[0] != count or offsets[0] or (offsets[1:] < offsets[:-1]).any() or offsets[-1] > len(text):
            raise ModelError(f"{what} has strings that overlap or lie outside of it")
        self.make(64 * count + len(text), what)
        try:
            found = [text[a:b].tobytes().decode() for a, b in itertools.pairwise(offsets.tolist())]
        except UnicodeDecodeError:
            raise ModelError(f"{what} has a string that is not UTF-8") from None
        return np.array(found, object)

    def make(self, count: int, what: str) -> None:
        """So many more bytes that are not mapped but made; the .bin is given once, however often it is read."""
        assert self._held is not None
        self._made += count
        self.budget.limits.check_growth(self._made, len(self._held), what)

    def opened_weights(self, what: str) -> Array:
        """All bytes: those given, those of the file given, or those of the file beside the model."""
        if isinstance(self.weights, bytes):
            return np.frombuffer(self.weights, np.uint8)
        if self.weights is not None:
            path = Path(self.weights)
        elif isinstance(self.source, Path):
            path = self.source.with_suffix(".bin")
            self.check_place(path, self.source)
        else:
            raise ModelError(f"{what} lies in a .bin, and the model came as bytes: give its bytes or path as weights=")
        if not path.exists():
            raise ModelError(f"{what} lies in {str(path)!r}, which is not there; name the .bin: weights=")
        with opened(path, f"{self.budget.origin}: its {path.name}") as file:
            if not os.fstat(file.fileno()).st_size:
                return np.empty(0, np.uint8)
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)

    def check_place(self, path: Path, source: Path) -> None:
        """A link may lead to another name beside the model, or beside the model's own target, and nowhere else."""
        if path.is_symlink() and path.resolve().parent not in (source.parent.resolve(), source.resolve().parent):
            raise ModelError(
                f"{self.budget.origin}: its {path.name} is a symbolic link out of the model's folder; "
                f"if you trust it, name it: weights={str(path)!r}"
            )


# ---- writing


class Storage:
    """A .bin that is being written. Equal bytes lie there once."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.end = 0
        self.places: dict[bytes, int] = {}

    def store(self, array: Array, what: str) -> tuple[ElementType, int, int]:
        """The element type of a constant, and the offset and size of its bytes."""
        kind = _BY_NUMPY.get(np.dtype(object) if array.dtype.kind in "UT" else array.dtype.newbyteorder("<"))
        if kind is None:
            accepted = ", ".join(each.name or "" for each in _BY_NUMPY.values())
            raise ModelError(f"{what} is of dtype {array.dtype}, which OpenVINO has not; cast it to one of {accepted}")
        data = (_encoded(array, kind, what) if array.size else np.zeros(1, np.uint8)).data
        digest = hashlib.blake2b(data, digest_size=32).digest()
        if digest not in self.places:
            self.places[digest] = self.end
            self.file.write(data)
            self.end += len(data)
        return kind, self.places[digest], len(data)


def _encoded(array: Array, kind: ElementType, what: str) -> Array:
    """The bytes of a constant, without a copy where they lie as the file wants them."""
    if kind.name == "string":
        return _encoded_strings(array, what)
    assert kind.numpy is not None
    data = np.ascontiguousarray(array.astype(kind.numpy, copy=False)).reshape(-1).view(np.uint8)
    if kind.bits >= 8:
        return data
    each = 8 // kind.bits
    codes = np.zeros(-(-len(data) // each) * each, np.uint8)
    codes[: len(data)] = data & np.uint8((1 << kind.bits) - 1)
    packed: Array = np.bitwise_or.reduce(codes.reshape(-1, each) << _shifts(kind), axis=1)
    return packed


def _encoded_strings(array: Array, what: str) -> Array:
    texts = array.reshape(-1).tolist()
    other = next((each for each in texts if not isinstance(each, str)), None)
    if other is not None:
        raise ModelError(f"{what} holds a {type(other).__name__} among its strings; it may hold str alone")
    encoded = [text.encode() for text in texts]
    lengths = np.cumsum([0, *map(len, encoded)])
    if lengths[-1] >= 1 << 32:
        raise ModelError(f"{what} has strings of {lengths[-1]:,} bytes; OpenVINO holds less than 2^32 in a constant")
    header = np.array([len(encoded), *lengths], "<u4").tobytes()
    return np.frombuffer(header + b"".join(encoded), np.uint8)
