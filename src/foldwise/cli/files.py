"""Arrays from .npy and .npz files and from standard input, and into .npy files. Nothing is ever unpickled."""

from __future__ import annotations

import contextlib
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final

import numpy as np

from foldwise.arguments import Array
from foldwise.errors import FoldwiseError
from foldwise.models.files import written_whole
from foldwise.npy import SUFFIX, read_header

STANDARD: Final = "-"
"""Standard input, or standard output, in the place of a file's name."""
_ARCHIVE: Final = ".npz"
_PIECE: Final = 1 << 24
"""How many bytes are read at once."""


class UsageError(FoldwiseError):
    """What the command line was asked for, and cannot do."""


# ---- reading


def read_array(place: str) -> Array:
    """The array in an .npy file, in a member of an .npz as `file.npz:name`, or on standard input as `-`.

    Files are mapped, not read.
    """
    if place == STANDARD:
        if sys.stdin.isatty():
            raise UsageError("standard input is a terminal; pipe an .npy into it")
        return _streamed(sys.stdin.buffer, "standard input")
    start, colon, member = place.rpartition(f"{_ARCHIVE}:")
    if colon:
        return _from_archive(start + _ARCHIVE, member)
    with _opened(place) as file:
        if not file.seekable():
            return _streamed(file, place)
        if file.read(4) == b"PK\3\4":
            return _from_archive(place, None)
        file.seek(0)
        header = read_header(file, place)
        offset = file.tell()
        header.check_size(os.fstat(file.fileno()).st_size - offset, place)
        if not header.size:
            return header.arranged(np.empty(0, np.uint8))
        return header.arranged(np.asarray(np.memmap(file, np.uint8, "r", offset, (header.size,))))


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    try:
        file = open(path, "rb")  # noqa: SIM115  # closed below; only opening fails for these reasons
    except FileNotFoundError:
        raise UsageError(f"there is no file {path!r}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    with file:
        yield file


def _from_archive(path: str, member: str | None) -> Array:
    """A member of an .npz; without a name its only one."""
    with _opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                entry = _member(archive, path, member)
                with archive.open(entry) as stream:
                    return _streamed(stream, f"{path}:{entry.filename.removesuffix(SUFFIX)}", entry.file_size)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise UsageError(f"{path} is no .npz file, or a damaged one ({error})") from None


def _member(archive: zipfile.ZipFile, path: str, member: str | None) -> zipfile.ZipInfo:
    entries = {entry.filename.removesuffix(SUFFIX): entry for entry in archive.infolist()}
    if member in entries:
        return entries[member]
    if member is None and len(entries) == 1:
        return next(iter(entries.values()))
    there = ", ".join(f"{path}:{name}" for name in entries) or "nothing"
    raise UsageError(f"{path} holds {there}" + ("; name one" if member is None else f", and no {member!r}"))


def _streamed(stream: IO[bytes], where: str, size: int | None = None) -> Array:
    """What can be read only once, from beginning to end; `size` is that of all of it, where it is known."""
    header = read_header(stream, where)
    if size is not None:
        header.check_size(size, where)
    data = np.empty(header.size, np.uint8)
    done = 0
    while done < header.size:
        piece = stream.read(min(_PIECE, header.size - done))
        if not piece:
            header.check_size(done, where)
        data[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    return header.arranged(data)


# ---- writing


def place_for(name: str) -> Path | None:
    """Where a result is to be written, checked before there is one; None is standard output."""
    if name == STANDARD:
        if sys.stdout.isatty():
            raise UsageError("--out -: standard output is a terminal; pipe it somewhere")
        return None
    path = Path(os.path.realpath(name))
    if path.suffix != SUFFIX:
        raise UsageError(
            f"--out {name}: results are written as {SUFFIX}; give a name that ends so, or --memory to write a .zarr"
        )
    if path.is_dir():
        raise UsageError(f"--out {name}: that is a folder")
    if not path.parent.is_dir():
        raise UsageError(f"--out {name}: there is no folder {str(path.parent)!r}")
    return path


def write_array(path: Path | None, array: Array) -> None:
    """An .npy file, whole or not at all; None is standard output."""
    if path is None:
        # NumPy would ask a file where it stands, which a pipe cannot say.
        _write(SimpleNamespace(write=sys.stdout.buffer.write), array)
        return
    if array.dtype.hasobject:
        raise UsageError(f"{path} cannot be written: its elements are of no dtype that an {SUFFIX} holds")
    try:
        with written_whole(path) as file:
            _write(file, array)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None


def _write(file: Any, array: Array) -> None:
    np.lib.format.write_array(file, array, allow_pickle=False)
