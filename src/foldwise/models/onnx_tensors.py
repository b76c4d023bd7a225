"""Tensors of ONNX files: what they claim is held against what they hold before an array is made of it."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from foldwise import dtypes
from foldwise.errors import ModelError
from foldwise.operators.call import shape_text

from .graph import Array
from .limits import Budget


class Kind(NamedTuple):
    """An element type of ONNX."""

    name: str
    """The dtype's name in NumPy where foldwise has it, otherwise ONNX's own."""
    numpy: np.dtype[Any]
    bits: int
    field: str
    """Where its elements lie when they are not raw."""


_OURS = {dtype.onnx: dtype.name for dtype in dtypes.TABLE}
_PACKED_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}


def _kind(name: str, number: int) -> Kind | None:
    try:
        numpy = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError, TypeError):  # a type newer than what this installation can hold
        return None
    bits = _PACKED_BITS.get(name, 8 * numpy.itemsize)
    return Kind(_OURS.get(name.lower(), name.lower()), numpy, bits, onnx.helper.tensor_dtype_to_field(number))


KINDS: Final = {n: kind for name, n in TensorProto.DataType.items() if n and (kind := _kind(name, n))}
NUMBERS: Final = {kind.name: number for number, kind in KINDS.items()}

_FIELDS: Final = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_COMPLEX: Final = ("complex64", "complex128")


def dtype_name(number: int, what: str) -> str:
    """An element type by its name."""
    if number not in KINDS:
        raise ModelError(f"{what} has element type {number}, which onnx {onnx.__version__} does not know")
    return KINDS[number].name


def read_tensor(tensor: TensorProto, folder: Folder, budget: Budget, what: str) -> Array:
    """The array that a tensor holds, in this file or in one beside it. It is not to be written to."""
    try:
        found = _read_tensor(tensor, folder, budget, what)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{what} tensor '{tensor.name}' is not written as its format asks ({error})") from None
    found.flags.writeable = False
    return found


def _read_tensor(tensor: TensorProto, folder: Folder, budget: Budget, what: str) -> Array:
    what = f"{what} tensor '{tensor.name}'" if tensor.name else f"{what} a tensor"
    name = dtype_name(tensor.data_type, what)
    kind, (shape, count) = KINDS[tensor.data_type], _shape_of(tensor.dims, budget, what)
    what = f"{what} ({name} of shape {shape_text(shape)})"
    size = -(-count * kind.bits // 8)
    budget.spend_data(size, what)
    if tensor.HasField("segment"):
        raise ModelError(f"{what} is one segment of a tensor, which no file of one model needs")
    if tensor.data_location == TensorProto.EXTERNAL:
        if tensor.raw_data or _filled(tensor):
            raise ModelError(f"{what} has data both in the file and outside of it")
        data = folder.bytes_of(tensor, size, what)
        if kind.bits % 8 == 0 and kind.name != "string":
            return data.view(kind.numpy.newbyteorder("<")).reshape(shape)
        tensor = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.tobytes())
    else:
        _check_inside(tensor, kind, count, size, what)
    if tensor.HasField("raw_data") and kind.bits % 8 == 0 and kind.name not in ("string", "bool"):
        return np.frombuffer(tensor.raw_data, kind.numpy.newbyteorder("<")).reshape(shape)
    found: Array = numpy_helper.to_array(tensor)
    return found.reshape(shape)


def _shape_of(dims: Sequence[int], budget: Budget, what: str) -> tuple[tuple[int, ...], int]:
    """A shape, and how many elements it has."""
    shape = tuple(dims)
    if any(length < 0 for length in shape):
        raise ModelError(f"{what} has a negative length in its shape {shape_text(shape)}")
    budget.limits.check("rank", len(shape), f"{what} has rank")
    return shape, math.prod(shape)


def _filled(tensor: TensorProto) -> list[str]:
    return [field for field in _FIELDS if len(getattr(tensor, field))]


def _check_inside(tensor: TensorProto, kind: Kind, count: int, size: int, what: str) -> None:
    """Data in the file: in one place, the right one, and exactly as much as the shape asks for."""
    filled = _filled(tensor)
    if tensor.HasField("raw_data"):
        if filled:
            raise ModelError(f"{what} has data both in raw_data and in {filled[0]}")
        if kind.name == "string":
            raise ModelError(f"{what} holds strings in raw_data; they belong into string_data")
        if len(tensor.raw_data) != size:
            raise ModelError(f"{what} needs {size:,} bytes; raw_data has {len(tensor.raw_data):,}")
        return
    if filled and filled != [kind.field]:
        other = next(field for field in filled if field != kind.field)
        raise ModelError(f"{what} has data in {other}; elements of {kind.name} belong into {kind.field}")
    needed = 2 * count if kind.name in _COMPLEX else -(-count * kind.bits // 8) if kind.bits < 8 else count
    held = len(getattr(tensor, kind.field))
    if held != needed:
        raise ModelError(f"{what} needs {needed:,} elements in {kind.field}; it has {held:,}")


# ---- files beside the model


class Folder:
    """The model's own folder, and the files there that were opened: each is mapped once, and not read."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._mapped: dict[str, Array] = {}

    def bytes_of(self, tensor: TensorProto, size: int, what: str) -> Array:
        """The bytes of a tensor that lie in a file of their own."""
        location, offset, length = _place(tensor, size, what)
        if self.path is None:
            raise ModelError(f"{what} lies in the file '{location}' beside the model; load the model from its own file")
        if length != size:
            raise ModelError(f"{what} needs {size:,} bytes; its external data says length = {length:,}")
        if location not in self._mapped:
            self._mapped[location] = _mapped(self.path, location, what)
        held = self._mapped[location]
        if offset + length > len(held):
            raise ModelError(
                f"{what} lies at bytes {offset:,} to {offset + length:,} of '{location}', which ends at {len(held):,}"
            )
        return held[offset : offset + length]


def _mapped(folder: Path, location: str, what: str) -> Array:
    with os.fdopen(_opened(folder, location, what), "rb") as file:
        return np.memmap(file, np.uint8, "r") if os.fstat(file.fileno()).st_size else np.empty(0, np.uint8)


def _place(tensor: TensorProto, size: int, what: str) -> tuple[str, int, int]:
    """Where external data lies: a file's name, an offset and a length."""
    given: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key not in ("location", "offset", "length", "checksum"):
            raise ModelError(
                f"{what}: external data has the key '{entry.key}'; known are location, offset, length, checksum"
            )
        if entry.key in given:
            raise ModelError(f"{what}: external data has the key '{entry.key}' twice")
        given[entry.key] = entry.value
    numbers = []
    for key, default in (("offset", 0), ("length", size)):
        text = given.get(key, str(default))
        if not (text.isascii() and text.isdigit() and int(text) < 1 << 63):
            raise ModelError(f"{what}: external data says {key} = {text!r}; it must be a number from 0 to 2^63 - 1")
        numbers.append(int(text))
    location = given.get("location", "")
    parts = location.replace("\\", "/").split("/")
    if not location or "\0" in location:
        raise ModelError(f"{what}: external data names no file (location = {location!r})")
    if parts[0] == "" or ":" in parts[0] or ".." in parts:
        raise ModelError(
            f"{what}: external data lies at '{location}'; it must lie in the model's own folder, without '..'"
        )
    return location, numbers[0], numbers[1]


def _opened(folder: Path, location: str, what: str) -> int:
    """A descriptor of the file, reached from the model's folder without passing any link."""
    *folders, name = [part for part in location.split("/") if part not in ("", ".")]
    what = f"{what}: its external data '{location}'"
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for part in folders:
        at = _step(at, part, os.O_DIRECTORY, what)
    at = _step(at, name, os.O_NONBLOCK, what)
    found = os.fstat(at)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return at
    os.close(at)
    fault = "has a second name (a hard link)" if stat.S_ISREG(found.st_mode) else "is no regular file"
    raise ModelError(f"{what} {fault}; put a plain copy there")


def _step(at: int, part: str, flags: int, what: str) -> int:
    """One name further down; the folder is closed."""
    try:
        if stat.S_ISLNK(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode):
            raise ModelError(f"{what} leads through the symbolic link '{part}'; put the file itself there")
        return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=at)
    except OSError as error:
        raise ModelError(f"{what} cannot be opened ({error.strerror})") from None
    finally:
        os.close(at)


# ---- sparse tensors


def read_sparse(sparse: onnx.SparseTensorProto, folder: Folder, budget: Budget, what: str) -> Array:
    """A sparse tensor, unfolded."""
    values = read_tensor(sparse.values, folder, budget, what)
    indices = read_tensor(sparse.indices, folder, budget, f"{what} the indices of")
    what = f"{what} sparse tensor '{sparse.values.name}'"
    shape, count = _shape_of(sparse.dims, budget, what)
    what = f"{what} of shape {shape_text(shape)}"
    budget.limits.check_growth(count * values.itemsize, values.nbytes + indices.nbytes, what)
    flat_form = indices.shape == values.shape
    if values.ndim != 1 or indices.dtype != np.int64 or not (flat_form or indices.shape == (len(values), len(shape))):
        raise ModelError(f"{what} has values of shape {values.shape} and indices of {indices.dtype} {indices.shape}")
    if values.dtype.kind == "O" or not shape:
        raise ModelError(f"{what} is of {values.dtype}; sparse are numbers, along one axis or more")
    bounds = np.array([count] if flat_form else shape, np.int64)
    if len(values) and (indices.min() < 0 or (indices.reshape(len(values), -1) >= bounds).any()):
        raise ModelError(f"{what} has an index outside of it")
    places = indices if flat_form else np.ravel_multi_index(tuple(indices.T), shape)
    if len(np.unique(places)) < len(places):
        raise ModelError(f"{what} has an index twice")
    try:
        dense = np.zeros(count, values.dtype)
        dense[places] = values
        found = dense.reshape(shape)
    except ValueError as error:  # lengths beside a 0 whose product no array has
        raise ModelError(f"{what} cannot be unfolded ({error})") from None
    found.flags.writeable = False
    return found


# ---- writing


def write_tensor(array: Array, name: str = "") -> TensorProto:
    """An array as a tensor of the file."""
    if array.dtype.kind == "O":
        made: TensorProto = numpy_helper.from_array(array, name)
        return made
    number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype.newbyteorder("="))
    if KINDS[number].bits % 8:
        packed: TensorProto = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return packed
    raw = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes()
    return TensorProto(name=name, data_type=number, dims=array.shape, raw_data=raw)


def write_sparse(array: Array) -> onnx.SparseTensorProto:
    """An array as a sparse tensor of the file."""
    places = np.flatnonzero(array)
    made = onnx.SparseTensorProto(dims=array.shape)
    made.values.CopyFrom(write_tensor(array.reshape(-1)[places]))
    made.indices.CopyFrom(write_tensor(places.astype(np.int64)))
    return made
