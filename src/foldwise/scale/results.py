"""Where results go: an array in memory, or a target."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from foldwise import arguments
from foldwise.arguments import NUMPY, Array
from foldwise.dtypes import Dtype
from foldwise.errors import OptionError
from foldwise.folds import Fold

from .sources import Source
from .targets import Target


class Result(AbstractContextManager["Result"]):
    """A result in parts: whole when the job ends well, and otherwise absent, or left to be gone on with."""

    def __init__(self, name: str, source: Source, fold: Fold, shape: tuple[int, ...], kind: Dtype, out: Any) -> None:
        self._source, self._given = source, out
        self.shape, self._kind = shape, NUMPY[kind.code]
        self._noted = self._kind.newbyteorder("<") if self._kind.kind != "V" else self._kind  # whatever order `out` has
        self._target = out if isinstance(out, Target) else None
        self._array: Array | None = None
        if self._target is None and out is not None:
            arguments.check_out(name, out, shape, kind, fold)
        if self._target is not None and source.job.checkpoint is not None:
            self._target.keep_unfinished()
            if Path(os.path.realpath(source.job.checkpoint)) in (self._target.path, self._target.unfinished):
                raise OptionError(f"{name}: {source.job.checkpoint} is to be checkpoint and result; give another name")
        if isinstance(out, np.memmap) and source.job.checkpoint is not None:
            raise OptionError(f'{name}: with a checkpoint out= is fw.open(path, mode="w"), or nothing')

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        if self._target is not None:
            return self._target.besides
        kept = self._given is None
        return int(np.prod(self.shape, dtype=np.int64)) * self._kind.itemsize if kept else 0

    @property
    def copied(self) -> int:
        """How many bytes writing takes for each element of a part."""
        return 0 if self._target is None else self._target.copies * self._kind.itemsize

    def begin(self, block: tuple[int, ...], notes: bytes | None) -> None:
        """Make room for it, or go on with what is there; parts will have the shape of `block` at most."""
        if self._target is None:
            self._array = np.empty(self.shape, self._kind) if self._given is None else self._given
            if notes is not None:
                self._array[...] = np.frombuffer(notes, self._noted).reshape(self.shape)
            return
        self._target.resumed = notes is not None
        self._target.begin(self.shape, self._kind, block)

    def lost(self) -> bool:
        """Whether notes speak of something unfinished that is no longer there."""
        return self._target is not None and not self._target.there()

    def write(self, corner: tuple[int, ...], part: Array) -> None:
        """A part."""
        if self._target is not None:
            self._target.write(corner, part)
        elif self._array is not None:
            self._array[tuple(slice(c, c + n) for c, n in zip(corner, part.shape, strict=True))] = part

    def notes(self) -> bytes:
        """What a checkpoint has to hold of it."""
        if self._target is not None:
            self._target.settled()
            return b""
        return b"" if self._array is None else self._array.astype(self._noted, copy=False).tobytes()

    def finished(self) -> Any:
        """What the caller gets: the array or number, what was given as `out`, or a source of what was written."""
        if self._target is not None:
            return self._target.finish(self._source.job._replace(checkpoint=None, progress=None))
        if self._array is None or self._given is not None or self._array.ndim:
            return self._given if self._array is None else self._array
        return self._array[()]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._target is None:
            return
        self._target.close()
        if error is not None and self._source.job.checkpoint is None:
            self._target.abandon()
