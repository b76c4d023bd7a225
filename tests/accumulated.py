"""Accumulators of every kind, what they are fed with, and how their results compare."""

from __future__ import annotations

import math
from typing import Any

import cases
import exact_calls
import numpy as np
from domains import Generator
from exact import same_bits
from trees import Array, limits_of

import foldwise as fw

SUMS = tuple(name for name in exact_calls.FOLDS if name in cases.BY_NAME and not cases.BY_NAME[name].scan)
NAMES = (*(fold.name for fold in cases.REDUCTIONS), "argmax", "argmin")
ROUNDED = ("prod", "logsumexp")  # of floats


def generator(*words: Any) -> Generator:
    return exact_calls.generator(*words)


def data(name: str, dtype: str, shape: tuple[int, ...], which: int = -1) -> Array:
    """Values worth folding so; those of places are few, so that many are equal."""
    if name in ("argmax", "argmin"):
        rng = generator(name, dtype, shape)
        x = rng.integers(0, 2 if dtype == "bool" else 7, shape).astype(cases.dtype_of(dtype))
        if dtype in cases.FLOATS and which == -1:
            x[rng.random(shape) < 0.02] = np.nan
        return x
    return cases.values(dtype, cases.domains_of(cases.BY_NAME[name], dtype)[which], shape)


def whole(name: str, x: Array, shape: tuple[int, ...]) -> Array:
    """The array function of all elements at once, exact where it can be."""
    options = {"accuracy": "exact"} if name in SUMS else {}
    return np.asarray(getattr(fw, name)(x, axis=0 if shape else None, **options))


def empty(name: str, x: Array, shape: tuple[int, ...], **options: Any) -> fw.Accumulator:
    return fw.Accumulator(name, x.dtype, shape=shape, **options)


def grown(rng: Generator, start: fw.Accumulator, x: Array) -> fw.Accumulator:
    """From blocks by updates and merges, in a random tree, in the order of the first axis."""
    if len(x) < 2 or rng.random() < 0.2:
        return start.copy().update(x)
    at = int(rng.integers(1, len(x)))
    left = grown(rng, start, x[:at]).merge(start).update(x[:0])
    return left.update(x[at:]) if rng.random() < 0.3 else left.merge(grown(rng, start, x[at:]))


def equal(left: Any, right: Any) -> bool:
    """Bit for bit, but for the sign of a zero."""
    left, right = np.asarray(left), np.asarray(right)
    same_zeros = left.dtype == np.bool_ or same_bits(left + left.dtype.type(0), right + right.dtype.type(0))
    return bool(left.dtype == right.dtype and left.shape == right.shape and same_zeros and np.all(agrees(left, right)))


def agrees(left: Array, right: Array) -> Any:
    return (left == right) | ((left != left) & (right != right))


def close(name: str, x: Array, found: Array, wanted: Array, count: int) -> Any:
    """As close as two results can be, of which each has been rounded some times."""
    limits = limits_of(wanted.dtype)
    roundings = 2 * count if name == "prod" else 4 * math.log2(count) + 64
    unit = float(limits_of(np.dtype(np.float32)).eps) if wanted.itemsize < 4 else float(limits.eps)
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(wanted) if name == "prod" else np.abs(wanted) + 1
        slack = roundings * unit * size + 2 * float(limits.eps) * size + 2 * float(limits.smallest_subnormal)
        if name == "logsum":  # what a sum's cancellation makes of its roundings
            magnitudes = np.abs(x.astype(np.float64)).sum(None if found.ndim == 0 else 0)
            slack = slack + np.expm1(np.minimum(roundings * unit * magnitudes / np.exp(wanted), 700))
            slack = np.where(slack < 1, slack, np.inf)
        return agrees(found, wanted) | (np.abs(found - wanted) <= slack)
