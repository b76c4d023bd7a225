"""Arrays in chunks: Zarr, and whatever else has a shape, a dtype and slices."""

import contextlib
import itertools
import math
import os
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np

from foldwise.arguments import Array, as_array, number_of
from foldwise.errors import FoldwiseError, SourceError

from .sources import Box, Job, Source, box_shape, digest, in_buffer, unreadable
from .targets import Target, taken_aside

_ZARR: Final = 'Zarr needs the zarr package: pip install "foldwise[zarr]"'
_THREADS: Final = 12 << 20
"""What zarr's threads take besides chunks."""
_TOGETHER: Final = 8
"""So many chunks are read at once, for zarr decodes them in threads of its own."""


class Sliced(Source):
    """Anything with a shape, a dtype and slices, such as an HDF5 data set."""

    def __init__(self, where: str, array: Any, job: Job) -> None:
        self.where, self.job, self._array = where, job, array
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype)
        chunks = getattr(array, "chunks", None)
        regular = isinstance(chunks, tuple) and all(isinstance(each, int) for each in chunks)
        self.unit = (
            tuple(max(1, min(n, chunk)) for n, chunk in zip(self.shape, chunks, strict=True))
            if isinstance(chunks, tuple) and regular
            else (*(1 for _ in self.shape[1:]), *(max(1, min(n, 1 << 13)) for n in self.shape[-1:]))
        )
        if regular:
            self.pleasant = max(self.pleasant, _TOGETHER * math.prod(self.unit) * self.dtype.itemsize)

    def overhead(self, block: tuple[int, ...]) -> int:
        """What lies between the store and the block."""
        return math.prod(block) * self.dtype.itemsize

    def read(self, box: Box, buffer: Array) -> Array:
        """As NumPy makes an array of it; what is one stays where it lies."""
        found, shape = as_array("open", self._array[box]), box_shape(box)
        if found.shape != shape or number_of(found.dtype) != number_of(self.dtype):
            raise SourceError(
                f"{self.where}: a slice is of dtype {found.dtype}, shape {found.shape}, "
                f"where {self.dtype}, shape {shape} was promised; open the blocks that it gives, one after the other"
            )
        return found


class InMemory(Sliced):
    """An array that is in memory after all."""

    overlaps = False

    def overhead(self, block: tuple[int, ...]) -> int:
        """Nothing: nothing is read."""
        return 0

    def identity(self) -> list[Any]:
        """With its bytes."""
        return [*self._form, digest(self._array)]


class Zarr(Sliced):
    """A Zarr array of format 2 or 3."""

    def overhead(self, block: tuple[int, ...]) -> int:
        """Chunks on their way, stored, decoded, and once more for codecs with steps; and what threads keep of them."""
        chunk = math.prod(self.unit) * self.dtype.itemsize
        count = math.prod(-(-n // unit) for n, unit in zip(block, self.unit, strict=True))
        return 3 * chunk * (min(count, _concurrency()) + 1) + _THREADS

    def read(self, box: Box, buffer: Array) -> Array:
        """Decoded by zarr, straight into the buffer."""
        from zarr.core.buffer.cpu import NDBuffer

        found = in_buffer(buffer, box_shape(box), self.dtype)
        try:
            self._array.get_basic_selection(box, out=NDBuffer.from_numpy_array(found))
        except Exception as error:
            raise self._damaged(box, error) from error
        return found

    def identity(self) -> list[Any]:
        """With the times of the last change of its metadata and chunks, which stores that are no folder do not tell."""
        from zarr.storage import LocalStore

        store = self._array.store
        if not isinstance(store, LocalStore):
            return super().identity()
        folder = os.path.realpath(store.root / self._array.path)
        try:
            return [folder, *self._form, _last_changes(folder)]
        except OSError as error:
            raise unreadable(self.where, error) from None

    def _damaged(self, box: Box, error: Exception) -> FoldwiseError:
        """The error with the name of the chunk, which is looked for one by one."""
        ranges = [
            range(part.start // unit, -(-part.stop // unit)) for part, unit in zip(box, self.unit, strict=True)
        ]
        for at in itertools.product(*ranges):
            corner = [k * unit for k, unit in zip(at, self.unit, strict=True)]
            part = tuple(slice(c, min(c + u, n)) for c, u, n in zip(corner, self.unit, self.shape, strict=True))
            try:
                self._array[part]
            except Exception as found:
                key = self._array.metadata.encode_chunk_key(at)
                return SourceError(f"{self.where}: chunk {key!r} cannot be read: {_said(found)}")
        return SourceError(f"{self.where} cannot be read: {_said(error)}")


def _last_changes(folder: str) -> str:
    """What tells the files in a folder from what they were or will be."""
    found = blake2b(digest_size=16)
    for where, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            status = os.stat(os.path.join(where, file))
            found.update(repr((where, file, status.st_size, status.st_mtime_ns)).encode())
    return found.hexdigest()


def _said(error: Exception) -> str:
    """An error in a line."""
    words = str(getattr(error, "strerror", None) or error).splitlines()
    return words[0] if words else type(error).__name__


def _concurrency() -> int:
    import zarr

    return int(zarr.config.get("async.concurrency"))


def from_store(path: str, job: Job) -> Zarr:
    """The Zarr array in a folder or at a URL."""
    try:
        import zarr
    except ImportError:
        raise SourceError(f"{path}: {_ZARR}") from None
    try:
        found = zarr.open(path, mode="r")
    except FileNotFoundError:
        raise SourceError(f"there is no Zarr array {path!r}") from None
    except Exception as error:  # damaged metadata fail in many ways
        raise SourceError(f"{path} is no Zarr array, or a damaged one ({_said(error)})") from None
    if not isinstance(found, zarr.Array):
        inside = ", ".join(f"{path.rstrip('/')}/{key}" for key in sorted(found.array_keys())) or "none"
        raise SourceError(f"{path} is a Zarr group; name one of its arrays ({inside})")
    return Zarr(path, found, job)


def from_object(name: str, place: Any, job: Job) -> Source | None:
    """A source of an array that is there already, if it is one."""
    if isinstance(place, np.ndarray | list | tuple | np.generic) and not _blocks(place):
        return InMemory("the array", as_array(name, place), job)
    if not (hasattr(place, "shape") and hasattr(place, "dtype") and hasattr(place, "__getitem__")):
        return None
    where = str(getattr(place, "store_path", None) or getattr(place, "name", None) or f"the {type(place).__name__}")
    return (Zarr if type(place).__module__.split(".")[0] == "zarr" else Sliced)(where, place, job)


def _blocks(place: Any) -> bool:
    """Whether a list holds arrays, which are blocks, and not numbers."""
    return isinstance(place, list | tuple) and any(isinstance(each, np.ndarray) for each in place)


class ZarrTarget(Target):
    """A Zarr array to be: a folder beside its place, which takes its name when all is written."""

    copies = 4
    besides = _THREADS

    def begin(self, shape: tuple[int, ...], dtype: "np.dtype[Any]", block: tuple[int, ...]) -> None:
        """An empty array, in chunks as they will be written if nobody has asked for others."""
        try:
            import zarr
        except ImportError:
            raise SourceError(f"{self.path}: {_ZARR}") from None
        chunks = self._chunks_for(shape, block)
        try:
            if self.resumed:
                self._array = zarr.open_array(str(self.unfinished), mode="r+")
            else:
                self._array = zarr.create_array(
                    str(self.unfinished), shape=shape, chunks=chunks, dtype=dtype, overwrite=True
                )
        except Exception as error:
            raise SourceError(f"{self.path} cannot be written: {_said(error)}") from None

    def _chunks_for(self, shape: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
        chunks = block if self.chunks is None else self.chunks
        if len(chunks) != len(shape) or min(chunks, default=1) < 1:
            raise SourceError(f"{self.path}: chunks = {chunks} are none of an array of shape {shape}")
        return tuple(max(1, min(n, chunk)) for n, chunk in zip(shape, chunks, strict=True))

    def put(self, corner: tuple[int, ...], part: Array) -> None:
        """As chunks."""
        box = tuple(slice(c, c + n) for c, n in zip(corner, part.shape, strict=True))
        self._array[box] = part

    def settled(self) -> None:
        """Let what was written survive a crash of the machine."""
        os.sync()

    def take_name(self) -> None:
        """What had it before goes away as a whole; no folder replaces another one that is not empty by itself."""
        with taken_aside(self.path) if self.replaces else contextlib.nullcontext():
            self.unfinished.rename(self.path)

    def opened(self, job: Job) -> Source:
        """The array that it has become."""
        return from_store(str(self.path), job)

    def close(self) -> None:
        """Nothing: zarr holds no files open."""

    def abandon(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.unfinished, ignore_errors=True)

    def there(self) -> bool:
        """Whether an unfinished one waits to be gone on with."""
        return Path(self.unfinished, "zarr.json").is_file()
