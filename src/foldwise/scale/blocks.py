"""Arrays that come as blocks along their first axis: from an iterator, or from a column of a table."""

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from foldwise.arguments import Array, accepted, as_array
from foldwise.errors import DtypeError, OptionError, ShapeError, SourceError, StateError

from .sources import Box, Job, Source, box_shape, in_buffer

_ARROW = 'Arrow and Parquet files need the pyarrow package: pip install "foldwise[arrow]"'


class Blocks(Source):
    """What comes block by block. Whoever hands the blocks over decides how large they are."""

    in_order = True

    def __init__(
        self,
        where: str,
        job: Job,
        begin: Callable[[], Iterator[Any]],
        first: tuple["np.dtype[Any]", tuple[int, ...]],
        length: int | None,
        again: bool,
    ) -> None:
        self.where, self.job, self._begin, self._again = where, job, begin, again
        self.dtype, rest = first
        self.shape, self._length = (length or 0, *rest), length
        self.unit = (1, *(max(1, n) for n in rest))
        self._coming: Iterator[Any] | None = None
        self._at = 0
        self._left = np.empty((0, *rest), self.dtype)

    @property
    def length_known(self) -> bool:
        """Whether it is known how many blocks there will be."""
        return self._length is not None

    def read(self, box: Box, buffer: Array) -> Array:
        """The next rows. Where the length is not known, fewer of them are the last."""
        rows, done = box[0], 0
        self._go_to(rows.start)
        found = in_buffer(buffer, box_shape(box), self.dtype)
        while done < len(found) and self._more():
            taken = self._left[: len(found) - done]
            found[done : done + len(taken)] = taken
            self._left = self._left[len(taken) :]
            done += len(taken)
        self._at += done
        if self._length is not None and (done < len(found) or (self._at == self._length and self._more())):
            few = f"only {self._at:,}" if done < len(found) else "more"
            raise SourceError(f"{self.where}: of {self._length:,} rows that were announced there are {few}")
        return found[:done]

    def _go_to(self, row: int) -> None:
        if row == 0 and (self._coming is None or self._again):
            self._coming, self._at, self._left = self._begin(), 0, self._left[:0]
        elif row == 0 or self._coming is None or (row != self._at and self.length_known):
            raise StateError(
                f"{self.where} were handed over already, and an iterator gives them once; open what makes them anew"
            )

    def _more(self) -> bool:
        """Whether there are rows left, of this block or the next ones."""
        while not len(self._left):
            block = next(self._coming or iter(()), None)
            if block is None:
                return False
            self._left = self._checked(as_array("open", block))
        return True

    def _checked(self, block: Array) -> Array:
        if block.dtype != self.dtype or block.shape[1:] != self.shape[1:] or not block.ndim:
            lengths = ", ".join(map(str, self.shape[1:]))
            raise ShapeError(
                f"{self.where}: a block is of dtype {block.dtype}, shape {block.shape}, "
                f"where the first one promised {self.dtype}, shape (m, {lengths})"
            )
        return block


def hands_over(place: Any) -> bool:
    """Whether something may give blocks; what gives bytes, a file that is open among them, gives none."""
    return isinstance(place, Iterable) and not isinstance(place, bytes | bytearray | io.IOBase)


def handed(name: str, place: Iterable[Any], job: Job, shape: tuple[int, ...] | None) -> Blocks:
    """Blocks from any iterable. The first one says what the others are like."""
    coming = iter(place)
    again = coming is not place
    first = next(coming, None)
    if first is None:
        raise ShapeError(f"{name}: there is not one block, so nobody knows of which dtype and shape they would be")
    block = as_array(name, first)
    accepted(name, block)
    if not block.ndim:
        raise ShapeError(f"{name}: the first block is of rank 0; accepted are blocks along a first axis")
    if shape is not None and (len(shape) != block.ndim or shape[1:] != block.shape[1:]):
        raise ShapeError(f"{name}: shape = {shape}, but the first block is of shape {block.shape}")

    def begin() -> Iterator[Any]:
        if again:
            yield from place
        else:
            yield first
            yield from coming

    length = None if shape is None else shape[0]
    return Blocks("the blocks", job, begin, (block.dtype, block.shape[1:]), length, again)


# ---- tables


class Column(Blocks):
    """A column of numbers in a file of Arrow's."""

    extra = 0
    """How much memory reading takes besides."""

    def overhead(self, block: tuple[int, ...]) -> int:
        """A part of the table on its way."""
        return self.extra


def from_table(name: str, path: str, job: Job, column: str | None) -> Column:
    """A column of a Parquet or Arrow file."""
    try:
        import pyarrow as pa
    except ImportError:
        raise SourceError(f"{path}: {_ARROW}") from None
    try:
        schema, rows, begin, extra = (_parquet if path.endswith(".parquet") else _arrow)(path, column)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    if column not in schema.names:
        asked = "" if column is None else f"column = {column!r}, but "
        there = ", ".join(map(repr, schema.names))
        raise OptionError(f"{name}: {asked}{path} has {there}; give one of them as column=")
    kind = schema.field(column).type
    try:
        dtype = np.dtype(kind.to_pandas_dtype())
        accepted(name, np.empty(0, dtype))
    except (NotImplementedError, TypeError):
        raise DtypeError(f"{name}: column {column!r} of {path} is of type {kind}, which are no numbers") from None

    def numbers() -> Iterator[Array]:
        for part in begin():
            if part.null_count:
                raise SourceError(f"{path}: column {column!r} has nulls, which are no numbers; fill them first")
            yield part.to_numpy(zero_copy_only=False)

    made = Column(f"{path}:{column}", job, numbers, (dtype, ()), rows, again=True)
    made.extra = extra
    return made


_Table = tuple[Any, int, Callable[[], Iterator[Any]], int]


def _parquet(path: str, column: str | None) -> _Table:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path)
    groups = [table.metadata.row_group(i) for i in range(table.metadata.num_row_groups)]
    sizes = [
        part.total_uncompressed_size + part.total_compressed_size
        for group in groups
        for part in map(group.column, range(group.num_columns))
        if part.path_in_schema == column
    ]

    def parts() -> Iterator[Any]:
        return (batch.column(0) for batch in pq.ParquetFile(path).iter_batches(columns=[column]))

    return table.schema_arrow, table.metadata.num_rows, parts, 2 * max(sizes, default=0)


def _arrow(path: str, column: str | None) -> _Table:
    import pyarrow as pa

    table = pa.ipc.open_file(pa.memory_map(path))
    rows = sum(table.get_batch(i).num_rows for i in range(table.num_record_batches))

    def parts() -> Iterator[Any]:
        again = pa.ipc.open_file(pa.memory_map(path))
        return (again.get_batch(i).column(column) for i in range(again.num_record_batches))

    return table.schema, rows, parts, 0
