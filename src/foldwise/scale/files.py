"""Arrays that lie in files as they lie in memory: .npy, raw numbers, memory maps."""

import math
import mmap
import os
import stat
import weakref
from numbers import Integral
from typing import Any, Final

import numpy as np

from foldwise.arguments import NUMPY, Array, elements_dtype
from foldwise.errors import OptionError, ShapeError, SourceError
from foldwise.npy import Header, read_header

from .ahead import BUFFERS
from .sources import Box, Job, Source, box_shape, in_buffer, unreadable

_PIECE: Final = 1 << 16
"""So many bytes in a row are worth a call."""


class File(Source):
    """Numbers in a file, in C or Fortran order."""

    workers = BUFFERS

    def __init__(self, path: str, job: Job, header: Header, offset: int) -> None:
        self.where, self.job, self._offset = path, job, offset
        self.shape, self.dtype, self.columns_first = header.shape, header.dtype, header.columns_first
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise unreadable(path, error) from None
        weakref.finalize(self, os.close, self._file)
        header.check_size(os.fstat(self._file).st_size - offset, path)
        unit = [1] * self.ndim
        if unit:
            inner = 0 if self.columns_first else -1
            unit[inner] = max(1, min(self.shape[inner], _PIECE // self.dtype.itemsize))
        self.unit = tuple(unit)

    def read(self, box: Box, buffer: Array) -> Array:
        """The runs of the file that make up the part, one after the other."""
        parts, lengths = (box[::-1], self.shape[::-1]) if self.columns_first else (box, self.shape)
        shape = box_shape(parts)
        run = self.ndim
        while run and (run == self.ndim or shape[run] == lengths[run]):
            run -= 1
        size = self.dtype.itemsize
        strides = [size * math.prod(lengths[axis + 1 :]) for axis in range(self.ndim)]
        start = self._offset + sum(part.start * stride for part, stride in zip(parts, strides, strict=True))
        row = math.prod(shape[run:]) * size
        view = buffer.data
        for i, index in enumerate(np.ndindex(*shape[:run])):
            at = start + sum(k * stride for k, stride in zip(index, strides, strict=False))
            self._fill(view[i * row : (i + 1) * row], at)
        found = in_buffer(buffer, shape, self.dtype)
        return found.T if self.columns_first else found

    def _fill(self, view: memoryview, at: int) -> None:
        while len(view):
            try:
                count = os.preadv(self._file, [view], at)
            except OSError as error:
                raise unreadable(self.where, error) from None
            if not count:
                raise SourceError(f"{self.where} ends at byte {at:,}: it has become shorter since it was opened")
            view, at = view[count:], at + count

    def identity(self) -> list[Any]:
        """With the time of its last change."""
        status = os.fstat(self._file)
        return [os.path.realpath(self.where), *self._form, self._offset, status.st_size, status.st_mtime_ns]


def npy(path: str, job: Job) -> File:
    """An .npy file. Its header is read without trusting it."""
    _size(path)
    try:
        with open(path, "rb") as file:
            header = read_header(file, path)
            return File(path, job, header, file.tell())
    except OSError as error:
        raise unreadable(path, error) from None


def raw(name: str, path: str, job: Job, dtype: Any, shape: tuple[int, ...] | None, offset: int) -> File:
    """Numbers without a header."""
    try:
        written = np.dtype(dtype)
        elements_dtype(name, written)
    except (TypeError, ValueError, SyntaxError):
        written = NUMPY[elements_dtype(name, dtype).code]  # a name that NumPy does not know
    size = _size(path)
    if not isinstance(offset, Integral) or not 0 <= offset <= size:
        raise OptionError(f"{name}: offset = {offset!r}; accepted are ints from 0 to the {size:,} bytes of {path}")
    if shape is None:
        count, rest = divmod(size - offset, written.itemsize)
        if rest:
            raise OptionError(
                f"{name}: the {size - offset:,} bytes of {path} from offset = {offset} on are no whole number of "
                f"{written} of {written.itemsize} bytes; give shape= for those that are meant"
            )
        shape = (count,)
    header = Header(written, shape)
    if not (header.size or header.possible):
        raise ShapeError(f"{name}: shape = {shape}; there is no array of {written} with such axes")
    return File(path, job, header, int(offset))


def _size(path: str) -> int:
    """How many bytes a file has; a pipe or device has none that can be told."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from None
    if not stat.S_ISREG(status.st_mode):
        raise SourceError(f"{path} is a pipe or device, and no file; open the blocks that are read of it")
    return status.st_size


def from_map(place: Any, job: Job) -> File | None:
    """A memory map's own file, which is read better than it is mapped: pages that were touched count as memory.

    What a copy-on-write map was given is in memory alone.
    """
    if not isinstance(place, np.memmap) or not isinstance(place.base, mmap.mmap) or place.filename is None:
        return None
    if place.mode == "c":
        return None
    columns_first = place.flags.f_contiguous and not place.flags.c_contiguous
    place.flush()
    return File(str(place.filename), job, Header(place.dtype, place.shape, columns_first), place.offset)
