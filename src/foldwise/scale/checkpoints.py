"""Notes of a job: with them it goes on where it was interrupted."""

import contextlib
import fcntl
import json
import os
import struct
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Final

from foldwise.errors import SourceError, StateError

from .sources import unreadable

_MAGIC: Final = b"\x93FWJOB1\n"
_DIGEST: Final = 16


class Checkpoint:
    """A file of notes: what the job is, how many blocks are done, and what they have come to.

    It is held while the job runs: another one with the same notes would write where this one writes.
    """

    _held: IO[bytes] | None = None

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
            self._held = self._taken()
            if not os.fstat(self._held.fileno()).st_size:
                return None
            data = self._read(self._held)
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

    def _taken(self) -> IO[bytes]:
        """The file that has the name of the notes, empty if there was none, held."""
        if self._path.exists() and not self._path.is_file():
            raise StateError(f"{self._name}: {self._path} is no file; give another name for the checkpoint")
        while True:
            file = self._path.open("a+b")
            self._hold(file)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                    return file
            file.close()  # the job that held it has noted something, or has ended

    def _hold(self, file: IO[bytes]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise StateError(
                f"{self._name}: a job that is running notes in {self._path}; wait for it, or give another name"
            ) from None
        except OSError:
            pass  # not all file systems have locks

    def _read(self, file: IO[bytes]) -> bytes:
        """All of it, if it begins as notes do; a large file of another kind is left alone."""
        file.seek(0)
        return _MAGIC + file.read() if file.read(len(_MAGIC)) == _MAGIC else b""

    def note(self, done: int, state: Callable[[], Sequence[bytes]]) -> None:
        """Write it all down, if it is time."""
        if time.monotonic() - self._noted < self._seconds:
            return
        pieces = [self._identity, done.to_bytes(8, "little"), *state()]
        data = _MAGIC + b"".join(struct.pack("<Q", len(piece)) + piece for piece in pieces)
        try:
            with contextlib.ExitStack() as at_failure:
                file = at_failure.enter_context(self._unfinished.open("wb"))
                file.write(data + blake2b(data, digest_size=_DIGEST).digest())
                file.flush()
                os.fsync(file.fileno())
                self._hold(file)  # so that nobody holds what has the name of the notes in between
                self._unfinished.replace(self._path)
                at_failure.pop_all()
            before, self._held = self._held, file
            if before is not None:
                before.close()
        except OSError as error:
            raise SourceError(
                f"{self._name}: the checkpoint {self._path} cannot be written: {error.strerror or error}"
            ) from None
        self._noted = time.monotonic()

    def forget(self) -> None:
        """The job is done."""
        self._path.unlink(missing_ok=True)
        self._unfinished.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others have it; nothing is left where nothing was noted."""
        if self._held is None:
            return
        with self._held:
            status = os.fstat(self._held.fileno())
            if status.st_nlink and not status.st_size:
                self._path.unlink(missing_ok=True)
