"""Notes of a job: with them it goes on where it was interrupted."""

import json
import os
import struct
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from foldwise.errors import SourceError, StateError

from .sources import unreadable

_MAGIC: Final = b"\x93FWJOB1\n"
_DIGEST: Final = 16


class Checkpoint:
    """A file of notes: what the job is, how many blocks are done, and what they have come to."""

    def __init__(self, name: str, path: Path, seconds: float, identity: Any) -> None:
        self._name, self._path, self._seconds = name, path, seconds
        self._unfinished = path.with_name(f".{path.name}.unfinished")  # one name, so that a kill leaves one at most
        self._identity = json.dumps(identity).encode()
        self._noted = time.monotonic()

    def found(self) -> tuple[int, list[bytes]] | None:
        """How many blocks are done already, and what they have come to; None where nobody has begun."""
        try:
            if not self._path.parent.is_dir():
                raise SourceError(f"{self._name}: there is no folder {str(self._path.parent)!r} for a checkpoint")
            if not self._path.exists():
                return None
            data = self._read()
        except OSError as error:
            raise unreadable(str(self._path), error) from None
        if blake2b(data[:-_DIGEST], digest_size=_DIGEST).digest() != data[-_DIGEST:]:
            raise StateError(f"{self._name}: {self._path} holds no checkpoint, or a damaged one; give another name")
        at = len(_MAGIC)
        pieces = []
        while at < len(data) - _DIGEST:
            (length,) = struct.unpack_from("<Q", data, at)
            pieces.append(data[at + 8 : at + 8 + length])
            at += 8 + length
        if pieces[0] != self._identity:
            raise StateError(
                f"{self._name}: {self._path} is the checkpoint of another job, or the input has changed since; "
                f"delete it to begin anew, or give another name"
            )
        return int.from_bytes(pieces[1], "little"), pieces[2:]

    def _read(self) -> bytes:
        """All of it, if it begins as notes do; a device or a large file of another kind is left alone."""
        if self._path.is_file():
            with self._path.open("rb") as file:
                if file.read(len(_MAGIC)) == _MAGIC:
                    return _MAGIC + file.read()
        return b""

    def note(self, done: int, state: Callable[[], Sequence[bytes]]) -> None:
        """Write it all down, if it is time."""
        if time.monotonic() - self._noted < self._seconds:
            return
        pieces = [self._identity, done.to_bytes(8, "little"), *state()]
        data = _MAGIC + b"".join(struct.pack("<Q", len(piece)) + piece for piece in pieces)
        try:
            with self._unfinished.open("wb") as file:
                file.write(data + blake2b(data, digest_size=_DIGEST).digest())
                file.flush()
                os.fsync(file.fileno())
            self._unfinished.replace(self._path)
        except OSError as error:
            raise SourceError(
                f"{self._name}: the checkpoint {self._path} cannot be written: {error.strerror or error}"
            ) from None
        self._noted = time.monotonic()

    def forget(self) -> None:
        """The job is done."""
        self._path.unlink(missing_ok=True)
        self._unfinished.unlink(missing_ok=True)
