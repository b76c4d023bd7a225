"""Exact reductions and scans of an array that is taken block by block, as streams and clusters take it."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
from trees import Array

from foldwise import folds
from foldwise.arguments import dtype_of
from foldwise.engine import Reduce, Scan
from foldwise.partial import Partial
from foldwise.scale.chained import carried, scanned, scanned_on


def reduced(name: str, x: Array, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = None,
            initial: Any = None, out: Any = None, accuracy: str = "exact") -> Array:  # fmt: skip
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in np.atleast_1d(axis).tolist())
    result = dtype_of(np.empty(0, dtype or x.dtype))
    outputs = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    seen = Partial(Reduce(folds.BY_NAME[name], axes, result, initial=initial), dtype_of(x), outputs, x.ndim)
    for at in blocks_of(x, axes[0]):
        more = Partial(seen.asked, dtype_of(x), outputs, x.ndim)
        more.add(x[at], None if where is None else where[at])
        if x.shape[axes[0]] % 2:
            seen.merge(more)
        else:
            seen.add(x[at], None if where is None else where[at])
    found = seen.result()
    return delivered(np.expand_dims(found, axes) if keepdims else found, out)


def cumsum(
    x: Array, axis: Any = None, dtype: Any = None, out: Any = None, accuracy: str = "exact", **options: Any
) -> Array:
    axis = 0 if axis is None else axis % x.ndim
    result = dtype_of(np.empty(0, dtype or x.dtype))
    scan = Scan("cumsum", folds.SUM, axis, result, accuracy="exact", **options)
    blocks = blocks_of(x, axis)
    order = slice(None, None, -1) if scan.reverse else slice(None)
    before: Partial | None = None
    found = []
    for at in blocks[order]:
        if before is None:
            found.append(scanned(scan, x[at], None))
            before = carried(scan, dtype_of(x), x[at].shape)
            before.add(x[at])
        else:
            found.append(scanned_on(scan, x[at], before))
    return delivered(np.concatenate(found[order], axis), out)


def blocks_of(x: Array, axis: int) -> list[tuple[slice, ...]]:
    """Three of them, the last one of an odd length."""
    count = x.shape[axis]
    ends = sorted({0, count // 5, (count // 2 - 1) | 1 if count > 2 else 0, count})
    edges = itertools.pairwise(ends) if count else [(0, 0)]
    return [(*(slice(None),) * axis, slice(begin, end)) for begin, end in edges]


def delivered(found: Array, out: Array | None) -> Array:
    if out is None:
        return found
    out[...] = found
    return out


sum, l1, mean, sumsquare, l2 = (  # noqa: A001
    functools.partial(reduced, name) for name in ("sum", "l1", "mean", "sumsquare", "l2")
)
