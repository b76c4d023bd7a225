"""Reductions and scans of what is read in blocks. Sums are exact, whatever was asked: so blocks do not show.

A source is read once, one block while another is folded; a result that is too large for memory goes to a target while
it is made.
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from foldwise import arguments
from foldwise.arguments import Array, dtype_of
from foldwise.engine import Arg, Reduce, Scan
from foldwise.errors import DtypeError, OptionError, ShapeError
from foldwise.partial import Partial, at_once

from .ahead import BUFFERS, read_ahead, read_in_turn, side_by_side
from .chained import bytes_for, carried, scanned, scanned_on
from .checkpoints import Checkpoint
from .mapped import mapped
from .results import Result
from .sources import Box, Source, box_shape
from .walk import Costs, Step, Walk, bands, planned

__all__ = ["many", "mapped", "place", "reduce", "scan"]


# ---- the home of sources


def reduce(name: str, reduction: Reduce, x: Source, out: Any, where: Any) -> Any:
    """A reduction of a source."""
    return _reduced(name, [reduction], x, [out], where)[0]


def place(name: str, arg: Arg, x: Source, out: Any) -> Any:
    """Where the extremes of a source are."""
    return _reduced(name, [arg], x, [out], None)[0]


def many(name: str, reductions: Sequence[Reduce], x: Source, where: Any) -> tuple[Any, ...]:
    """Several reductions of a source, which is read once."""
    return tuple(_reduced(name, list(reductions), x, [None] * len(reductions), where))


def scan(name: str, scan: Scan, x: Source, out: Any) -> Any:
    """A scan of a source."""
    if not x.length_known:
        raise OptionError(f"{name}: how many blocks there will be is not known; open them with shape=")
    if x.in_order and scan.reverse:
        raise OptionError(f"{name}: {x.where} come from the beginning to the end, and reverse=True begins at the end")
    with Result(name, x, scan.fold, scan.shape_for(x.shape), scan.result, out) as result:
        if not x.size:
            return _at_once(result, scan._replace(accuracy="exact").run(np.empty(x.shape, x.dtype)))
        return _Scanned(name, scan, x, result).done()


# ---- what both kinds of jobs do


class _Mask(NamedTuple):
    """Which elements take part: an array, or a source that is read along."""

    of: Array | Source | None

    @classmethod
    def checked(cls, name: str, where: Any, x: Source) -> "_Mask":
        if where is None:
            return cls(None)
        if not (x.length_known and getattr(where, "length_known", True)):
            raise OptionError(f"{name}: where= needs to know how many blocks there will be; open them with shape=")
        if not isinstance(where, Source):
            shaped: Any = x
            return cls(arguments.mask_for(name, where, shaped))
        if where.dtype != np.bool_:
            raise DtypeError(f"{name}: where has dtype {where.dtype}; it must be bool")
        if where.shape != x.shape:
            raise ShapeError(f"{name}: where is a source of shape {where.shape}; that of x is {x.shape}")
        if where.in_order and not x.in_order:
            raise OptionError(
                f"{name}: where= is of blocks that come in their order, {x.where} is read in another one; "
                f"give where= as an array or a file, or x as blocks, too"
            )
        return cls(where)

    @property
    def nbytes(self) -> int:
        """How much memory an element of a block takes."""
        return BUFFERS if isinstance(self.of, Source) else 0

    @property
    def workers(self) -> int:
        """How many may read it at the same time."""
        return self.of.workers if isinstance(self.of, Source) else BUFFERS

    def overhead(self, block: tuple[int, ...]) -> int:
        """How much memory reading that of a block takes besides; its units may begin elsewhere than the block's."""
        if not isinstance(self.of, Source):
            return 0
        return self.of.overhead(tuple(n + unit - 1 for n, unit in zip(block, self.of.unit, strict=True)))

    def read(self, box: Box, buffer: Array) -> Array | None:
        """The mask of a block."""
        if isinstance(self.of, Source):
            return self.of.read(box, buffer)
        return None if self.of is None else np.asarray(self.of[box])


class _Read(NamedTuple):
    """A block in memory."""

    elements: Array
    mask: Array | None


def _blocks(x: Source, mask: _Mask, walk: Walk, begin: int, backwards: bool = False) -> Generator[tuple[Step, _Read]]:
    """The blocks of a walk from some number on, each read while the one before is folded."""
    steps, read, buffers = _readable(x, mask, walk, begin, backwards)
    return (read_in_turn if len(buffers) == 1 else read_ahead)(steps, read, buffers)


def _readable(
    x: Source, mask: _Mask, walk: Walk, begin: int, backwards: bool = False
) -> tuple[Iterator[Step], Callable[[Step, Array], _Read], list[Array]]:
    """The blocks of a walk from some number on, how each is read, and into which buffers."""
    size = x.dtype.itemsize

    def read(step: Step, buffer: Array) -> _Read:
        own = walk.elements * size
        return _Read(x.read(step.box, buffer[:own]), mask.read(step.box, buffer[own:]))

    bytes_each = walk.elements * (size + (1 if isinstance(mask.of, Source) else 0))
    steps = itertools.islice(walk.steps(backwards), begin, None)
    count = 1 if x.in_order or not x.overlaps else BUFFERS
    return steps, read, [np.empty(bytes_each, np.uint8) for _ in range(count)]


def _told(x: Source, walk: Walk, begin: int) -> Callable[[int], None]:
    """Who is told of so many elements more."""
    progress = x.job.progress
    if progress is None:
        return lambda count: None
    done = sum(math.prod(box_shape(step.box)) for step in itertools.islice(walk.steps(), begin)) * x.dtype.itemsize
    progress(done, x.nbytes)

    def tell(count: int) -> None:
        nonlocal done
        done += count * x.dtype.itemsize
        progress(done, x.nbytes)

    return tell


def _checkpoint(
    name: str, x: Source, asked: Sequence[Any], walk: Walk, results: Sequence[Result], mask: _Mask
) -> Checkpoint | None:
    if x.job.checkpoint is None:
        return None
    if x.in_order:
        raise OptionError(f"{name}: {x.where} cannot be read from the middle, so a checkpoint would not help")
    if mask.of is not None and not isinstance(mask.of, Source):
        raise OptionError(f"{name}: with a checkpoint where= must be a source, which can be told from another one")
    told = [[str(getattr(value, "name", value)) for value in each] for each in asked]
    also = mask.of.identity() if isinstance(mask.of, Source) else None
    identity = [name, told, x.identity(), also, list(walk.block), [list(result.shape) for result in results]]
    return Checkpoint(name, x.job.checkpoint, x.job.seconds, identity)


def _while_held(checkpoint: Checkpoint | None) -> contextlib.AbstractContextManager[Any]:
    """As long as a job runs nobody else has its notes, if it keeps any."""
    return contextlib.nullcontext() if checkpoint is None else contextlib.closing(checkpoint)


def _notes(checkpoint: Checkpoint | None, results: Sequence[Result]) -> tuple[int, list[bytes]] | None:
    """What an interrupted job has left, if it is all there."""
    found = checkpoint.found() if checkpoint is not None else None
    return None if found is None or any(result.lost() for result in results) else found


def _at_once(result: Result, found: Array) -> Any:
    """A result that was had without reading anything."""
    result.begin(found.shape, None)
    result.write((0,) * found.ndim, found)
    return result.finished()


# ---- reductions


def _reduced(name: str, asked: list[Any], x: Source, outs: list[Any], where: Any) -> list[Any]:
    mask = _Mask.checked(name, where, x)
    if not x.length_known and 0 not in asked[0].axes:
        raise OptionError(
            f"{name}: axis 0 is kept, and how many blocks there will be is not known; open them with shape="
        )
    with contextlib.ExitStack() as stack:
        results = [
            stack.enter_context(Result(name, x, each.fold, each.shape_for(x.shape), each.result, out))
            for each, out in zip(asked, outs, strict=True)
        ]
        if x.length_known and not x.size:
            nothing = np.empty(x.shape, x.dtype)
            return [_at_once(result, each.run(nothing)) for each, result in zip(asked, results, strict=True)]
        return _Reduced(name, asked, x, results, mask).done()


class _Reduced:
    """Reductions of a source, in progress."""

    def __init__(self, name: str, asked: list[Any], x: Source, results: list[Result], mask: _Mask) -> None:
        self._asked, self._x, self._results, self._mask, self._axes = asked, x, results, mask, asked[0].axes
        source = dtype_of(np.empty(0, x.dtype))
        self._source = source
        state = sum(Partial.bytes_for(each, source) for each in asked) * (5 if x.job.checkpoint else 1)
        masked_means = mask.of is not None and any(each.fold.ending == "mean" for each in asked)
        costs = Costs(
            element=mask.nbytes + (0 if source.kind == "f" else 40 if source.size == 8 else 8),
            state=state,
            output=sum(24 + 2 * each.result.size for each in asked)
            + sum(result.copied for result in results)
            + (2 * state if masked_means else 0),
            whole=sum(result.nbytes for result in results),
            reading=lambda block: x.overhead(block) + mask.overhead(block),
        )
        any_order = (
            min(x.workers, mask.workers) > 1
            and not x.job.checkpoint
            and all(Partial.any_order(each, source) for each in asked)
        )
        self._walk = planned(name, x, frozenset(self._axes), costs)
        self._remembers = not self._walk.complete or isinstance(asked[0], Arg)
        self._any_order = any_order and not (self._remembers and self._walk.in_tiles)
        self._checkpoint = _checkpoint(name, x, asked, self._walk, results, mask)
        self._partials: list[Partial] = []

    def done(self) -> list[Any]:
        """Read it all."""
        with _while_held(self._checkpoint):
            return self._all_read()

    def _all_read(self) -> list[Any]:
        notes = _notes(self._checkpoint, self._results)
        begin, stored = notes if notes is not None else (0, [])
        count = len(self._asked)
        for i, result in enumerate(self._results):
            result.begin(self._outputs(self._walk.block, i), stored[i] if stored else None)
        if stored[count:]:
            outputs = next(itertools.islice(self._walk.steps(), begin, None)).box
            self._partials = self._begun(box_shape(outputs))
            for partial, data in zip(self._partials, stored[count:], strict=True):
                partial.restore(data)
        tell = _told(self._x, self._walk, begin)
        if self._any_order:
            self._fold_in_any_order(tell)
        else:
            self._fold_in_order(begin, tell)
        found = [result.finished() for result in self._results]
        if self._checkpoint is not None:
            self._checkpoint.forget()
        return found

    def _fold_in_order(self, begin: int, tell: Callable[[int], None]) -> None:
        step = None
        with contextlib.closing(_blocks(self._x, self._mask, self._walk, begin)) as blocks:
            for step, read in blocks:
                if self._walk.endless and not len(read.elements):
                    break
                self._fold(step, read)
                tell(read.elements.size)
                if self._checkpoint is not None:
                    self._checkpoint.note(step.number + 1, self._state)
        if self._walk.endless and step is not None:
            self._write(step.box)

    def _fold_in_any_order(self, tell: Callable[[int], None]) -> None:
        def fold(step: Step, read: _Read) -> None:
            self._fold(step._replace(begins=not self._partials, ends=False), read)
            tell(read.elements.size)

        steps, read, buffers = _readable(self._x, self._mask, self._walk, 0)
        side_by_side(steps, read, fold, buffers)
        self._write(tuple(slice(0, n) for n in self._x.shape))

    def _fold(self, step: Step, read: _Read) -> None:
        if not self._remembers:
            for i, each in enumerate(self._asked):
                folded = at_once(each._replace(keepdims=False), read.elements, read.mask)
                self._results[i].write(self._corner(step.box), self._shaped(folded, i))
            return
        if step.begins:
            self._partials = self._begun(read.elements.shape)
        corner = tuple(part.start for part in step.box)
        for partial in self._partials:
            if isinstance(partial.asked, Arg):
                partial.place(read.elements, corner, self._x.shape)
            else:
                partial.add(read.elements, read.mask)
        if step.ends:
            self._write(step.box)
            self._partials = []

    def _begun(self, block: tuple[int, ...]) -> list[Partial]:
        outputs = tuple(n for axis, n in enumerate(block) if axis not in self._axes)
        return [Partial(each, self._source, outputs, len(block)) for each in self._asked]

    def _write(self, box: Box) -> None:
        for i, partial in enumerate(self._partials):
            self._results[i].write(self._corner(box, i), self._shaped(partial.result(), i))

    def _corner(self, box: Box, i: int = 0) -> tuple[int, ...]:
        starts = (0 if axis in self._axes else part.start for axis, part in enumerate(box))
        kept = self._asked[i].keepdims
        return tuple(start for axis, start in enumerate(starts) if kept or axis not in self._axes)

    def _shaped(self, folded: Array, i: int) -> Array:
        return np.expand_dims(folded, self._axes) if self._asked[i].keepdims else folded

    def _outputs(self, block: tuple[int, ...], i: int) -> tuple[int, ...]:
        """The shape of a part of a result."""
        shape: tuple[int, ...] = self._asked[i].shape_for(block)
        return shape

    def _state(self) -> list[bytes]:
        return [*(result.notes() for result in self._results), *(partial.to_bytes() for partial in self._partials)]


# ---- scans


class _Scanned:
    """A scan of a source, in progress."""

    def __init__(self, name: str, scan: Scan, x: Source, result: Result) -> None:
        self._scan, self._x, self._result = scan, x, result
        self._source = dtype_of(np.empty(0, x.dtype))
        element, line = bytes_for(scan, self._source)
        flat = scan.axis is None
        costs = Costs(
            element=element + result.copied + (x.dtype.itemsize if flat and x.columns_first else 0),
            state=line * (3 if x.job.checkpoint else 1),
            output=0,
            whole=result.nbytes,
            reading=x.overhead,
        )
        self._walk = bands(name, x, costs) if scan.axis is None else planned(name, x, frozenset({scan.axis}), costs)
        self._checkpoint = _checkpoint(name, x, [scan], self._walk, [result], _Mask(None))
        self._along = scan._replace(axis=scan.axis or 0, include_initial=False)
        self._before: Partial | None = None

    def done(self) -> Any:
        """Read it all, and write as much."""
        with _while_held(self._checkpoint):
            return self._all_read()

    def _all_read(self) -> Any:
        notes = _notes(self._checkpoint, [self._result])
        begin, stored = notes if notes is not None else (0, [])
        self._result.begin(self._outputs(), stored[0] if stored else None)
        if stored[1:]:
            step = next(itertools.islice(self._walk.steps(self._scan.reverse), begin, None))
            self._before = self._begun(step.box)
            self._before.restore(stored[1])
        tell = _told(self._x, self._walk, begin)
        blocks = _blocks(self._x, _Mask(None), self._walk, begin, self._scan.reverse)
        with contextlib.closing(blocks):
            for step, read in blocks:
                self._go_on(step, read.elements)
                tell(read.elements.size)
                if self._checkpoint is not None:
                    self._checkpoint.note(step.number + 1, self._state)
        found = self._result.finished()
        if self._checkpoint is not None:
            self._checkpoint.forget()
        return found

    def _go_on(self, step: Step, block: Array) -> None:
        if step.begins:
            self._before = None if step.ends else self._begun(step.box)
            self._write_initial(step.box)
        line = block.reshape(-1) if self._scan.axis is None else block
        if self._before is None or step.ends:
            steps = scanned(self._along, line, self._before)
        else:
            steps = scanned_on(self._along, line, self._before)
        self._result.write(self._corner(step.box), steps)
        if step.ends:
            self._before = None  # notes hold what the next block goes on with

    def _begun(self, box: Box) -> Partial:
        shape = (math.prod(box_shape(box)),) if self._scan.axis is None else box_shape(box)
        return carried(self._along, self._source, shape)

    def _write_initial(self, box: Box) -> None:
        """What include_initial puts before the first element: what no elements give."""
        if not self._scan.include_initial:
            return
        axis = self._scan.axis or 0
        shape = [1] if self._scan.axis is None else [1 if a == axis else n for a, n in enumerate(box_shape(box))]
        corner = [0] if self._scan.axis is None else [0 if a == axis else part.start for a, part in enumerate(box)]
        if self._scan.reverse:
            corner[axis] = self._result.shape[axis] - 1
        nothing = np.empty([0 if a == axis else n for a, n in enumerate(shape)], self._x.dtype)
        self._result.write(tuple(corner), self._scan._replace(axis=axis).run(nothing))

    def _corner(self, box: Box) -> tuple[int, ...]:
        """Where the prefixes of a block lie in the result."""
        later = int(self._scan.include_initial and not self._scan.reverse)
        starts = [part.start for part in box]
        if self._scan.axis is None:
            return (int(np.ravel_multi_index(starts, self._x.shape)) + later if starts else later,)
        starts[self._scan.axis] += later
        return tuple(starts)

    def _outputs(self) -> tuple[int, ...]:
        block = tuple(min(n, chunk) for n, chunk in zip(self._x.unit, self._walk.block, strict=True))
        natural = block if math.prod(block) * self._x.dtype.itemsize > 1 << 18 else self._walk.block
        return (self._walk.elements,) if self._scan.axis is None else natural

    def _state(self) -> list[bytes]:
        partial = [] if self._before is None else [self._before.to_bytes()]
        return [self._result.notes(), *partial]


