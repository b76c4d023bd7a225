"""The home of Dask's arrays: reductions and scans as graphs of tasks, whatever runs these.

A reduction is Dask's own tree: each chunk becomes a Partial, Partials merge, the last one is rounded. A scan takes two
passes: what each chunk comes to, and each chunk once more, going on from what all before it come to.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import isnan, prod
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.array.core import elemwise
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from foldwise.arguments import NUMPY, Array, accepted, as_array, mask_for
from foldwise.config import alone
from foldwise.dtypes import Dtype
from foldwise.engine import Arg, Reduce, Scan
from foldwise.errors import DtypeError, OptionError, ShapeError
from foldwise.partial import Partial, at_once

from .chained import carried, scanned

Asked = Reduce | Arg
_FEW_OUTPUTS = 1024
_for_itself = alone(on_main=False)
"""How tasks run: Dask has one on each core, unless it runs them where it was called."""

# ---- reductions


def reduce(name: str, reduction: Reduce, x: da.Array, out: Any, where: Any) -> da.Array:
    """What a reduction comes to, still to be computed."""
    _refuse_out(name, out)
    return _reduced(name, (reduction,), x, _mask(name, where, x))[0]


def many(name: str, reductions: Sequence[Reduce], x: da.Array, where: Any) -> tuple[da.Array, ...]:
    """What several reductions come to; each chunk is there once for all of them."""
    return _reduced(name, tuple(reductions), x, _mask(name, where, x))


def place(name: str, arg: Arg, x: da.Array, out: Any) -> da.Array:
    """Where the extreme is, still to be computed."""
    _refuse_out(name, out)
    if 0 in x.shape:
        arg.run(np.empty(x.shape, x.dtype))  # refuses, if there is a result of no elements
    if any(isnan(x.shape[a]) and x.numblocks[a] > 1 for a in arg.axes):
        raise ShapeError(
            f"{name}: x has chunks of unknown sizes, so nobody knows which place is whose; "
            f"call x.compute_chunk_sizes() first"
        )
    return _reduced(name, (arg,), x, None)[0]


def _reduced(name: str, asked: tuple[Asked, ...], x: da.Array, mask: da.Array | None) -> tuple[da.Array, ...]:
    first, token = asked[0], f"foldwise-{name}"
    axes = first.axes
    given = (x,) if mask is None else (x, mask)
    source = accepted(name, x)
    keepdims, rank = first.keepdims, x.ndim if first.keepdims else x.ndim - len(axes)
    results = [np.empty((0,) * rank, NUMPY[each.result.code]) for each in asked]
    if all(x.numblocks[a] == 1 for a in axes):
        whole = da.map_blocks(
            partial(_all_at_once, name, asked, source),
            *given,
            token=token,
            chunks=tuple((1,) if a in axes else n for a, n in enumerate(x.chunks) if keepdims or a not in axes),
            drop_axis=[] if keepdims else axes,
            meta=results[0],
        )
    else:
        look: Callable[..., Any] = partial(_partials, name, asked, source)
        if isinstance(first, Arg):  # whose chunks must know where they lie
            look = partial(_places, name, first, source)
        if mask is not None or isinstance(first, Arg):
            x = da.map_blocks(look, *given, token=f"{token}-chunk", meta=np.empty((0,) * x.ndim, object))
            look = _as_they_are
        whole = da.reduction(
            x,
            look,
            _results,
            combine=_merged,
            axis=axes,
            keepdims=keepdims,
            dtype=results[0].dtype,
            concatenate=False,
            split_every=dask.config.get("split_every", None) or _split(x, axes),
            name=token,
            meta=results[0],
        )
    if len(asked) == 1:
        return (whole,)
    return tuple(whole.map_blocks(operator.itemgetter(i), meta=each) for i, each in enumerate(results))


def _split(x: da.Array, axes: tuple[int, ...]) -> int:
    """How many chunks' partials are merged at once: many, for fewer tasks; few large ones, while others are read."""
    outputs = prod(max(n) for a, n in enumerate(x.chunks) if a not in axes)
    return 16 if outputs <= _FEW_OUTPUTS else 4


# ---- the tasks of reductions


@_for_itself
def _all_at_once(name: str, asked: tuple[Asked, ...], source: Dtype, x: Any, where: Any = None) -> Any:
    """The results of a chunk that has all of their elements."""
    block, mask = _block(name, source, x), _mask_of(name, x, where)
    found = [each.run(block) if isinstance(each, Arg) else at_once(each, block, mask) for each in asked]
    return found[0] if len(found) == 1 else tuple(found)


@_for_itself
def _partials(
    name: str,
    asked: tuple[Asked, ...],
    source: Dtype,
    x: Any,
    where: Any = None,
    computing_meta: bool = False,
    **_: Any,
) -> Any:
    """What a chunk comes to so far; Dask asks beforehand what kind of array that is."""
    if computing_meta:
        return np.empty((0,) * x.ndim, object)
    block, mask = _block(name, source, x), _mask_of(name, x, where)
    made = tuple(_begun(each, source, block) for each in asked)
    for one in made:
        one.add(block, mask)
    return made


@_for_itself
def _places(name: str, asked: Arg, source: Dtype, x: Any, block_info: Any = None) -> tuple[Partial, ...]:
    """The extreme of a chunk, and its place in the whole array."""
    block, where = _block(name, source, x), block_info[0]
    one = _begun(asked, source, block)
    one.place(block, tuple(begin for begin, _ in where["array-location"]), where["shape"])
    return (one,)


def _begun(asked: Asked, source: Dtype, block: Array) -> Partial:
    outputs = tuple(n for a, n in enumerate(block.shape) if a not in asked.axes)
    return Partial(asked, source, outputs, block.ndim)


def _as_they_are(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return x


@_for_itself
def _merged(x: Any, axis: tuple[int, ...], keepdims: bool) -> tuple[Partial, ...]:
    """What all chunks in nested lists have seen. None of them changes: other tasks may have them too."""
    first, *others = _in_order(x)
    whole = tuple(each.copy() for each in first)
    for other in others:
        for to, each in zip(whole, other, strict=True):
            to.merge(each)
    return whole


def _in_order(x: Any) -> Iterator[tuple[Partial, ...]]:
    if isinstance(x, list):
        for each in x:
            yield from _in_order(each)
    else:
        yield x


@_for_itself
def _results(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    found = [each.result() for each in _merged(x, axis, keepdims)]
    shaped = [np.expand_dims(each, axis) if keepdims else each if each.ndim else each[()] for each in found]
    return shaped[0] if len(shaped) == 1 else tuple(shaped)


# ---- scans


def scan(name: str, asked: Scan, x: da.Array, out: Any) -> da.Array:
    """Every step of a fold, still to be computed."""
    _refuse_out(name, out)
    if asked.axis is None:
        x, asked = _in_one_dimension(name, x), asked._replace(axis=0)
    axis, source = asked.axis or 0, accepted(name, x)
    order = range(x.numblocks[axis])[:: -1 if asked.reverse else 1]
    key = f"foldwise-{name}-{tokenize(asked, x)}"
    step, look = partial(_step, asked, source), partial(_seen, asked, source)
    tasks: dict[Any, Any] = {}
    for others in product(*(range(n) for a, n in enumerate(x.numblocks) if a != axis)):
        before: Any = None
        for k in order:
            at = (*others[:axis], k, *others[axis:])
            tasks[key, *at] = step, (x.name, *at), before
            if k != order[-1]:
                tasks[f"{key}-chunk", *at] = look, (x.name, *at)
                tasks[f"{key}-before", *at] = _seen_so_far, before, (f"{key}-chunk", *at)
                before = (f"{key}-before", *at)
    chunks = list(x.chunks)
    if asked.include_initial:
        chunks[axis] = tuple(n + (k == order[0]) for k, n in enumerate(chunks[axis]))
    graph = HighLevelGraph.from_collections(key, tasks, dependencies=[x])
    return da.Array(graph, key, tuple(chunks), meta=np.empty((0,) * x.ndim, NUMPY[asked.result.code]))


def _in_one_dimension(name: str, x: da.Array) -> da.Array:
    if x.ndim > 1 and any(isnan(n) for n in x.shape):
        raise ShapeError(
            f"{name}: x has chunks of unknown sizes, so it has no order as one dimension; "
            f"name an axis, or call x.compute_chunk_sizes() first"
        )
    if x.ndim == 1:
        return x
    if 0 in x.shape:
        return da.zeros(0, x.dtype)
    # Dask reshapes nothing that has empty chunks.
    return x.rechunk(tuple(tuple(n for n in each if n) for each in x.chunks)).reshape(-1)


@_for_itself
def _seen(asked: Scan, source: Dtype, x: Any) -> Partial:
    """What a chunk comes to along the axis of a scan."""
    block = _block(asked.name, source, x)
    seen = carried(asked, source, block.shape)
    seen.add(block)
    return seen


@_for_itself
def _seen_so_far(before: Partial | None, seen: Partial) -> Partial:
    if before is None:
        return seen
    whole = before.copy()
    whole.merge(seen)
    return whole


@_for_itself
def _step(asked: Scan, source: Dtype, x: Any, before: Partial | None) -> Array:
    return scanned(asked, _block(asked.name, source, x), before)


# ---- before a fold


def mapped(name: str, said: str, function: Callable[..., Any], operands: Sequence[Any]) -> da.Array:
    """What a function of elements makes of arrays, some of them Dask's, whose shapes broadcast."""
    given = [i for i, each in enumerate(operands) if each is not None]
    nothing = function(*(None if each is None else np.empty((0,) * each.ndim, each.dtype) for each in operands))
    chosen = [operands[i] for i in given]
    made: da.Array = elemwise(_Placed(function, tuple(given), len(operands)), *chosen, dtype=nothing.dtype)
    return made


class _Placed(NamedTuple):
    """A function some of whose arguments are left out."""

    function: Callable[..., Any]
    places: tuple[int, ...]
    most: int

    def __call__(self, *given: Any) -> Any:
        arguments: list[Any] = [None] * self.most
        for place, each in zip(self.places, given, strict=True):
            arguments[place] = each
        return self.function(*arguments)


# ---- chunks and arguments


def _block(name: str, source: Dtype, x: Any) -> Array:
    """A chunk, which may be other than its array has said."""
    block = as_array(name, x)
    if accepted(name, block) is not source:
        raise DtypeError(
            f"{name}: a chunk of x has dtype {block.dtype}, though x says {source.name}; give x.astype({source.name})"
        )
    return block


def _mask_of(name: str, x: Any, where: Any) -> Array | None:
    return None if where is None else mask_for(name, where, x)


def _refuse_out(name: str, out: Any) -> None:
    if out is not None:
        raise OptionError(f"{name}: a dask array is computed later, so out= has nothing to receive; leave it away")


def _mask(name: str, where: Any, x: da.Array) -> da.Array | None:
    """A mask with the chunks of `x`."""
    if where is None:
        return None
    mask = where if isinstance(where, da.Array) else da.from_array(as_array(name, where))
    if mask.dtype != np.bool_:
        raise DtypeError(f"{name}: where has dtype {mask.dtype}; it must be bool, as in where=x > 0")
    if any(isnan(n) for n in (*x.shape, *mask.shape)):
        if mask.numblocks != x.numblocks:
            raise ShapeError(
                f"{name}: where has {mask.numblocks} chunks of unknown sizes, x has {x.numblocks}; "
                f"call compute_chunk_sizes() of both first"
            )
        return mask
    try:
        return da.broadcast_to(mask, x.shape).rechunk(x.chunks)
    except ValueError:
        raise ShapeError(f"{name}: where of shape {mask.shape} does not broadcast to x of shape {x.shape}") from None
