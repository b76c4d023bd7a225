"""What is folded without being in memory: files, chunked arrays, blocks that somebody hands over."""

import copy
import inspect
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from hashlib import blake2b
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn, Self, overload

import numpy as np

from foldwise.arguments import Array, lengths
from foldwise.errors import ArgumentError, OptionError, ShapeError, SourceError

from .memory import in_bytes

if TYPE_CHECKING:
    from .targets import Target

Box = tuple[slice, ...]
"""A part of an array: from where to where on each axis."""
Progress = Callable[[int, int], None]
"""Is told how many bytes of the input are done, of how many."""


class Job(NamedTuple):
    """How work on a source is to be done."""

    budget: int
    progress: Progress | None = None
    checkpoint: Path | None = None
    seconds: float = 10.0
    """How much work an interruption may cost."""


class Source(ABC):
    """An array that is not in memory: it is read in blocks when a function of foldwise folds it. `fw.open` makes one.

    It has the `shape`, `dtype`, `ndim`, `size` and `nbytes` of an array, and can be folded any number of times (of
    blocks that an iterator hands over, once).
    """

    where: str
    """What it is called in messages."""
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    unit: tuple[int, ...]
    """The least block that can be read without reading anything else."""
    job: Job
    pleasant = 4 << 20
    """A block of so many bytes is read about as fast as any."""
    columns_first = False
    """Whether neighbours along the first axis lie next to each other, not those along the last."""
    workers = 1
    """How many may read at the same time and be faster for it."""
    overlaps = True
    """Whether a block can be read while another one is folded."""
    _origin: "Source | None" = None
    """What it was copied from, and what its file stays open for."""
    in_order = False
    """Whether it can be read only once, from beginning to end along its first axis."""

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes these would take in memory."""
        return self.size * self.dtype.itemsize

    @property
    def length_known(self) -> bool:
        """Whether it is known how many blocks there will be. If not, the first axis has length 0 until then."""
        return True

    def overhead(self, block: tuple[int, ...]) -> int:
        """How much memory reading a block takes besides the block."""
        return 0

    @abstractmethod
    def read(self, box: Box, buffer: Array) -> Array:
        """A part of it, in a buffer of bytes that is large enough, or where it lies."""

    def within(self, budget: str | int) -> Self:
        """The same with another budget."""
        other = copy.copy(self)
        other._origin = self
        other.job = self.job._replace(budget=in_bytes("run", budget))
        return other

    def identity(self) -> list[Any]:
        """What makes it another one: a job that goes on is refused where this has changed, or where nobody can tell."""
        raise OptionError(
            f"{self.where}: nobody can tell whether it has changed when a job goes on from a checkpoint; "
            f"give a file, a Zarr array in a folder or an array in memory, or leave checkpoint= away"
        )

    def __array__(self, *given: Any, **options: Any) -> NoReturn:
        """Nothing: NumPy would make an array of objects of it, with itself as the only one."""
        raise ArgumentError(
            f"{self.where} is opened, not in memory; reductions and scans of arrays and Model.run read it so, "
            f"all else takes an array, as fw.max(source, axis=()) makes of it"
        )

    @property
    def _form(self) -> list[Any]:
        """As what its bytes are read."""
        return [list(self.shape), str(self.dtype), self.columns_first]

    def __repr__(self) -> str:
        return f"<Source {self.where}: {self.dtype} {self.shape}>"


def box_shape(box: Box) -> tuple[int, ...]:
    """The shape of a part."""
    return tuple(part.stop - part.start for part in box)


def in_buffer(buffer: Array, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
    """The beginning of a buffer of bytes as an array."""
    found: Array = buffer[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
    return found


def digest(array: Array) -> str:
    """What tells an array's bytes from others, without a copy of them all."""
    found = blake2b(digest_size=16)
    for piece in np.nditer(array, ["external_loop", "buffered", "zerosize_ok"], order="C"):
        found.update(np.asarray(piece).tobytes())
    return found.hexdigest()


# ---- fw.open

_TABLES: Final = (".parquet", ".arrow", ".feather")
_BARE, _BLOCKS, _TABLE = "a file of numbers without a header", "an iterable of blocks", "a table of columns"
_MEANT_FOR: Final = {"dtype": (_BARE,), "shape": (_BARE, _BLOCKS), "offset": (_BARE,), "column": (_TABLE,)}
"""The kinds of places that do not say themselves what an option says; for all others it means nothing."""


@overload
def open(
    place: Any,
    mode: Literal["r"] = "r",
    *,
    memory_budget: str | int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 10.0,
    dtype: Any = None,
    shape: int | Sequence[int] | None = None,
    offset: int = 0,
    column: str | None = None,
) -> Source: ...


@overload
def open(place: Any, mode: Literal["w", "x"], *, chunks: int | Sequence[int] | None = None) -> "Target": ...


def open(
    place: Any,
    mode: str = "r",
    *,
    memory_budget: str | int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 10.0,
    dtype: Any = None,
    shape: int | Sequence[int] | None = None,
    offset: int = 0,
    column: str | None = None,
    chunks: int | Sequence[int] | None = None,
) -> "Source | Target":
    """An array that is too large for memory, for the functions of foldwise: to be folded, or as their `out=`.

        src = fw.open("big.zarr", memory_budget="2GB")
        fw.sum(src, axis=0)
        fw.cumsum(src, axis=0, out=fw.open("sums.zarr", mode="w"))

    `place` is the path of an `.npy` file, a Zarr array (a folder, or a URL that zarr knows), an `.arrow` or `.parquet`
    file with the name of a `column`, or any other file whose numbers have a `dtype`, a `shape` and begin at an
    `offset`; or a memory map, a Zarr array, or whatever else has `shape`, `dtype` and slices; or an iterable of blocks
    along the first axis (with a `shape` if it is to be known how many come).

    A job takes no more than `memory_budget`, beyond what the process has when it begins; a GiB if nobody says, or a
    quarter of a small machine's memory. `progress(done, total)` is told bytes. With a `checkpoint`, a file for notes,
    a job that was interrupted goes on where it was at most `checkpoint_seconds` before.

    With mode="w" the place is for a result, and replaced if there is one already; with mode="x" it is not.
    An `.npy` file or Zarr array appears whole or not at all; `chunks` are those of the Zarr array.
    """
    name = "open"
    how = {"dtype": dtype, "shape": shape, "offset": offset, "column": column}
    work = {
        "memory_budget": memory_budget,
        "progress": progress,
        "checkpoint": checkpoint,
        "checkpoint_seconds": checkpoint_seconds,
    }
    if mode in ("w", "x"):
        from .targets import target_for

        for option in _said(work | how):
            raise OptionError(
                f"{name}: {option}= is for what is read, and mode={mode!r} is for a result; "
                f"give it where the input is opened"
            )
        return target_for(name, place, mode, chunks)
    if mode != "r":
        raise OptionError(f'{name}: mode = {mode!r}; accepted are "r" to read, "w" to write, "x" to write what is new')
    if chunks is not None:
        raise OptionError(f'{name}: chunks are those of a result; give them with mode="w"')
    job = _job(name, *work.values())
    return _opened(name, place, job, how | {"shape": None if shape is None else _shape(name, shape)})


def _said(options: dict[str, Any]) -> list[str]:
    """Those that are not as they are when nobody says anything."""
    defaults = inspect.signature(open).parameters
    return [option for option, value in options.items() if value is not defaults[option].default]


def _job(name: str, budget: Any, progress: Any, checkpoint: Any, seconds: Any) -> Job:
    """How work is to be done, checked."""
    if not (progress is None or callable(progress)):
        raise ArgumentError(f"{name}: progress is of type {type(progress).__name__}; accepted is a function")
    if not (checkpoint is None or isinstance(checkpoint, str | os.PathLike)):
        raise ArgumentError(f"{name}: checkpoint is of type {type(checkpoint).__name__}; accepted is a path")
    if not (isinstance(seconds, Real) and float(seconds) >= 0):
        raise OptionError(f"{name}: checkpoint_seconds = {seconds!r}; accepted are numbers from 0 on")
    notes = None if checkpoint is None else Path(path_text(name, "checkpoint", checkpoint))
    if notes is not None and not notes.name:
        raise OptionError(f"{name}: checkpoint = {checkpoint!r}; accepted are names of files")
    return Job(in_bytes(name, budget), progress, notes, float(seconds))


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape that an array can have."""
    found = lengths(name, "shape", shape)
    if min(found, default=0) < 0 or len(found) > 64:
        raise ShapeError(f"{name}: shape = {found}; accepted are up to 64 lengths from 0 on")
    return found


def _opened(name: str, place: Any, job: Job, how: dict[str, Any]) -> Source:
    """A source of whatever kind."""
    from . import blocks, chunked, files

    if not isinstance(place, str | os.PathLike):
        array = files.from_map(place, job) or chunked.from_object(name, place, job)
        if array is None and not blocks.hands_over(place):
            raise ArgumentError(
                f"{name}: place is of type {type(place).__name__}; accepted are a path, an array, "
                f"or an iterable of blocks"
            )
        _check_meant(name, "place", "an array" if array is not None else _BLOCKS, how)
        return array or blocks.handed(name, place, job, how["shape"])
    path = path_text(name, "place", place)
    if "://" in path or path.rstrip("/").endswith(".zarr") or os.path.isdir(path):
        _check_meant(name, path, "a Zarr array", how)
        return chunked.from_store(path, job)
    if path.endswith(_TABLES):
        _check_meant(name, path, _TABLE, how)
        return blocks.from_table(name, path, job, how["column"])
    if path.endswith(".npy"):
        _check_meant(name, path, "an .npy file", how)
        return files.npy(path, job)
    if how["dtype"] is not None:
        _check_meant(name, path, _BARE, how)
        return files.raw(name, path, job, how["dtype"], how["shape"], how["offset"])
    raise OptionError(
        f"{name}: {path!r} is of no kind that is known by its name (.npy, .zarr, {', '.join(_TABLES)}); "
        f"for the numbers of any other file give dtype= and shape="
    )


def _check_meant(name: str, where: str, kind: str, how: dict[str, Any]) -> None:
    """What a place says itself is not said once more, nor differently."""
    for option in _said(how):
        if kind not in _MEANT_FOR[option]:
            raise OptionError(
                f"{name}: {option} = {how[option]!r} is for {' or '.join(_MEANT_FOR[option])}; "
                f"{where} is {kind}, so leave {option}= away"
            )


def path_text(name: str, what: str, given: "str | os.PathLike[Any]") -> str:
    """A path as text that the system takes for one."""
    path = os.fspath(given)
    try:
        possible = isinstance(path, str) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ArgumentError(f"{name}: {what} = {path!r} is no path; accepted are those of text that can name a file")
    return path


def unreadable(where: str, error: OSError) -> SourceError:
    """What to say of a file that does not open."""
    return SourceError(f"{where} cannot be read: {error.strerror or error}")
