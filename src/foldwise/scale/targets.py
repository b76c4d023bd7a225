"""Places for results that memory has no room for: whole when the job ends, and absent until then."""

import contextlib
import math
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from foldwise.arguments import Array, lengths
from foldwise.errors import ArgumentError, OptionError, SourceError
from foldwise.npy import SUFFIX, Header

from .sources import Job, Source, path_text


class Target(ABC):
    """A place for a result: `fw.open(path, mode="w")` makes one, for one job, as its `out=`.

    What is written lies beside the place and takes its name at the end.
    """

    copies = 0
    """How often a part is copied while it is written."""
    besides = 0
    """How much memory it takes to write at all."""
    resumed = False
    """Whether the job goes on with what is there already."""

    def __init__(self, path: Path, chunks: tuple[int, ...] | None, replaces: bool) -> None:
        self.path, self.chunks, self.replaces = path, chunks, replaces
        self.unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")

    def keep_unfinished(self) -> None:
        """Give what is unfinished a name by which a later job finds it."""
        self.unfinished = self.path.with_name(f".{self.path.name}.unfinished")

    def write(self, corner: tuple[int, ...], part: Array) -> None:
        """A part of the result."""
        try:
            self.put(corner, part)
        except OSError as error:
            raise SourceError(f"{self.path} cannot be written: {error.strerror or error}") from error

    @abstractmethod
    def begin(self, shape: tuple[int, ...], dtype: "np.dtype[Any]", block: tuple[int, ...]) -> None:
        """Make room for a result that will come in such blocks."""

    @abstractmethod
    def put(self, corner: tuple[int, ...], part: Array) -> None:
        """Write a part."""

    @abstractmethod
    def settled(self) -> None:
        """Let what was written survive a crash of the machine."""

    def finish(self, job: Job) -> Source:
        """Let it take its name, as something that can be folded in turn."""
        try:
            if not self.replaces and self.path.exists():
                raise FileExistsError
            self.take_name()
        except FileExistsError:
            raise SourceError(f"{self.path} has come to be in the meantime; nothing was replaced") from None
        except OSError as error:
            raise SourceError(f"{self.path} cannot be written: {error.strerror or error}") from None
        return self.opened(job)

    @abstractmethod
    def take_name(self) -> None:
        """Go from where it was written to its place."""

    @abstractmethod
    def opened(self, job: Job) -> Source:
        """What was written."""

    @abstractmethod
    def close(self) -> None:
        """Hold nothing open."""

    @abstractmethod
    def abandon(self) -> None:
        """Leave nothing behind."""

    @abstractmethod
    def there(self) -> bool:
        """Whether an unfinished one waits to be gone on with."""

    def __array__(self, *given: Any, **options: Any) -> NoReturn:
        """Nothing, as of a source."""
        raise ArgumentError(f'{self.path} is a place for a result, as out=; what is read is opened without mode="w"')

    def __repr__(self) -> str:
        return f"<Target {self.path}>"


class NpyTarget(Target):
    """An .npy file to be."""

    _file = -1

    def begin(self, shape: tuple[int, ...], dtype: "np.dtype[Any]", block: tuple[int, ...]) -> None:
        """A file of the right length, so that a disk without room says so before the work."""
        header = Header(dtype, shape)
        start = header.to_bytes()
        self._shape, self._size, self._offset = shape, dtype.itemsize, len(start)
        free = shutil.disk_usage(self.path.parent).free
        if header.size > free and not self.resumed:
            raise SourceError(f"{self.path} would have {header.size:,} bytes, and its disk has room for {free:,}")
        try:
            self._file = os.open(self.unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.ftruncate(self._file, len(start) + header.size)
            os.pwrite(self._file, start, 0)
        except OSError as error:
            raise SourceError(f"{self.path} cannot be written: {error.strerror or error}") from None

    def put(self, corner: tuple[int, ...], part: Array) -> None:
        """As the runs of the file that make up the part."""
        run = part.ndim
        while run and (run == part.ndim or part.shape[run] == self._shape[run]):
            run -= 1
        strides = [self._size * math.prod(self._shape[axis + 1 :]) for axis in range(part.ndim)]
        start = self._offset + sum(c * stride for c, stride in zip(corner, strides, strict=True))
        for index in np.ndindex(*part.shape[:run]):
            at = start + sum(k * stride for k, stride in zip(index, strides, strict=False))
            self._put_run(np.ascontiguousarray(part[index]).reshape(-1).view(np.uint8).data, at)

    def _put_run(self, view: memoryview, at: int) -> None:
        while len(view):
            count = os.pwrite(self._file, view, at)
            view, at = view[count:], at + count

    def settled(self) -> None:
        """Let what was written survive a crash of the machine."""
        os.fsync(self._file)

    def take_name(self) -> None:
        """At once, as a name that nobody has if nothing is to be replaced."""
        if self.replaces or not _named(self.unfinished, self.path):
            self.unfinished.replace(self.path)

    def opened(self, job: Job) -> Source:
        """The file that it has become."""
        from .files import npy

        return npy(str(self.path), job)

    def close(self) -> None:
        """Let go of the file that was written to."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def abandon(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OSError):  # what failed says why
            self.unfinished.unlink()

    def there(self) -> bool:
        """Whether an unfinished one waits to be gone on with."""
        return self.unfinished.is_file()


def _named(file: Path, name: Path) -> bool:
    """Give a file another name by a link, which replaces nothing; not all file systems have them."""
    try:
        os.link(file, name)
    except FileExistsError:
        raise
    except OSError:
        return False
    file.unlink()
    return True


def target_for(name: str, place: Any, mode: str, chunks: int | Sequence[int] | None) -> Target:
    """A place for a result, checked before there is one."""
    from .chunked import ZarrTarget

    if not isinstance(place, str | os.PathLike):
        raise ArgumentError(f"{name}: place is of type {type(place).__name__}; results are written to paths")
    given = path_text(name, "place", place)
    path = Path(os.path.realpath(given))
    if "://" in given or path.suffix not in (SUFFIX, ".zarr"):
        raise OptionError(f"{name}: {given!r}: results are written to paths that end in {SUFFIX} or .zarr")
    if not path.parent.is_dir():
        raise SourceError(f"{name}: there is no folder {str(path.parent)!r}")
    if mode == "x" and path.exists():
        raise SourceError(f'{name}: {given!r} is there already; mode="w" replaces it')
    if path.suffix == SUFFIX:
        if chunks is not None:
            raise OptionError(f"{name}: an {SUFFIX} file has no chunks; leave chunks= away, or write a .zarr")
        if path.is_dir():
            raise SourceError(f"{name}: {given!r} is a folder")
        return NpyTarget(path, None, mode == "w")
    return ZarrTarget(path, None if chunks is None else lengths(name, "chunks", chunks), mode == "w")


@contextlib.contextmanager
def taken_aside(path: Path) -> Iterator[None]:
    """Let something else take the name of a folder, which goes away if that succeeds and comes back if not."""
    if not path.exists():
        yield
        return
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    path.rename(aside)
    try:
        yield
    except BaseException:
        aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)
