"""The canonical trees in plain NumPy: which number meets which, in what order, and where it is rounded.

This is the executable form of docs/numerics.md. The kernels must give exactly these bits, on every ISA, for
any number of threads and any layout. Integers need no tree: modulo 2**n all orders agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

LANE_BYTES = 256  # the accumulators of one reduction, whatever the instruction set
STEPS = 32  # elements a lane folds one after the other: STEPS x lanes make a block
PACK = 8  # neighbours whose prefixes a scan takes at once
SEGMENT = 1024  # elements of a scan after which the carry is renewed

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


# ---- dtypes


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.type is ml_dtypes.bfloat16 or dtype.kind == "f"


def limits_of(dtype: np.dtype[Any]) -> Any:
    """What np.finfo says, for bfloat16 too."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def folded_as(source: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that says how to fold: float64 where integers become floats, or floats become float64."""
    return np.dtype(np.float64) if not is_float(source) or out == np.float64 else source


def reduced_in(source: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float64 if folded_as(source, out).itemsize == 8 else np.float32)


def scanned_in(source: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32 if folded_as(source, out).itemsize == 2 else np.float64)


def rounded(values: Array, dtype: np.dtype[Any]) -> Array:
    """One rounding, to nearest, ties to even; every NaN becomes the one quiet NaN."""
    with np.errstate(all="ignore"):
        if values.dtype == np.longdouble and dtype != np.longdouble:
            values = values.astype(np.float64)
        if values.dtype == np.float64 and dtype == BFLOAT16:
            values = rounded_to_odd(values)
        result = values.astype(dtype)
    if is_float(dtype):
        result[np.isnan(result)] = np.nan
    return result


def rounded_to_odd(values: Array) -> Array:
    """float64 to float32, so that another rounding, to fewer digits, gives what one would have given."""
    near = values.astype(np.float32)
    beyond = np.nextafter(near, np.where(values > near, np.inf, -np.inf).astype(np.float32))
    even = near.view(np.uint32) % 2 == 0
    return np.where(even & (near != values) & ~np.isnan(values), beyond, near)


# ---- the arithmetics: a state per element, and how two states join (the left one's elements come first)


def same(values: Array) -> Array:
    return values


def as_it_is(values: Array, count: Any) -> Array:
    return values


Widths = Callable[[np.dtype[Any], np.dtype[Any]], np.dtype[Any]]


@dataclass(frozen=True)
class Arithmetic:
    identity: float  # the fold of nothing
    absent: float  # what changes nothing, not even the sign of a zero
    lift: Callable[[Array], Array]
    join: Callable[[Array, Array], Array]
    value: Callable[[Array], Array]
    chain: Callable[[Array], None]  # joins the segments of a scan, each already a scan, in place
    end: Callable[[Array, Any], Array] = as_it_is  # what becomes of the value of so many elements
    reduced_in: Widths = reduced_in
    scanned_in: Widths = scanned_in
    slack: Callable[[int, int], float] | None = None  # None: these are the bits; else see references.alike


def chained_sums(segments: Array) -> None:
    """The carry is a pair, so that the rounding of one segment's total does not reach the next."""
    for k in range(len(segments)):
        last = segments[k, -1, -1].copy()
        if k == 0:
            high, low = last, np.zeros_like(last)
            continue
        segments[k] = high + (low + segments[k])
        high, low = two_sum(high, low + last)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b rounded, and what the rounding left out."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    return total, np.where(np.isfinite(total) & ~np.isnan(error), error, 0).astype(total.dtype)


def unbounded(values: Array) -> Array:
    """Each number as a fraction and an exponent that has no end."""
    state = np.empty(values.shape, [("fraction", values.dtype), ("exponent", np.int64)])
    state["fraction"], state["exponent"] = np.frexp(values)
    return state


def product(a: Array, b: Array) -> Array:
    state = unbounded(
        a["fraction"] * b["fraction"]
    )  # rounded to the accumulator's digits, never out of range
    state["exponent"] += a["exponent"] + b["exponent"]
    return state


def bounded(state: Array) -> Array:
    limit = 10_000  # far outside every float's range
    return np.asarray(np.ldexp(state["fraction"], np.clip(state["exponent"], -limit, limit).astype(np.int32)))


def chained(join: Callable[[Array, Array], Array]) -> Callable[[Array], None]:
    """The carry is what came before, joined like anything else."""

    def chain(segments: Array) -> None:
        for k in range(1, len(segments)):
            segments[k] = join(segments[k - 1, -1, -1], segments[k])

    return chain


SUM = Arithmetic(0.0, -0.0, same, np.add, same, chained_sums)
PROD = Arithmetic(1.0, 1.0, unbounded, product, bounded, chained(product))

# Extremes: any NaN wins; of equals, which two zeros are, the right one stays.


def larger(a: Array, b: Array) -> Array:
    return np.where((a > b) | np.isnan(a), a, b)


def smaller(a: Array, b: Array) -> Array:
    return np.where((a < b) | np.isnan(a), a, b)


def truth(values: Array) -> Array:
    return np.asarray(values != 0).astype(values.dtype)


MAX = Arithmetic(-np.inf, -np.inf, same, larger, same, chained(larger))
MIN = Arithmetic(np.inf, np.inf, same, smaller, same, chained(smaller))
ALL = Arithmetic(1.0, 1.0, truth, np.minimum, same, chained(np.minimum))
ANY = Arithmetic(0.0, 0.0, truth, np.maximum, same, chained(np.maximum))

# Sums of something, and what is made of sums.

NOTHING = -(2**40)  # the exponent of a zero: below that of any square


def squares(values: Array) -> Array:
    state = unbounded(values)
    state["fraction"] *= state["fraction"]
    state["exponent"] *= 2
    return with_low_zeros(state)


def with_low_zeros(state: Array) -> Array:
    state["exponent"] = np.where(state["fraction"] == 0, NOTHING, state["exponent"])
    return state


def sum_of_squares(a: Array, b: Array) -> Array:
    """The smaller one is brought to the exponent of the larger, which rounds nothing that counts."""
    exponent = np.maximum(a["exponent"], b["exponent"])
    terms = [np.ldexp(s["fraction"], np.maximum(s["exponent"] - exponent, -200).astype(np.int32)) for s in (a, b)]
    state = unbounded(np.asarray(terms[0] + terms[1]))
    state["exponent"] += exponent
    return with_low_zeros(state)


def root(state: Array) -> Array:
    odd = state["exponent"] % 2
    halved = np.empty_like(state)
    halved["fraction"] = np.sqrt(np.ldexp(state["fraction"], odd.astype(np.int32)))
    halved["exponent"] = (state["exponent"] - odd) // 2
    return bounded(halved)


def squared_in(source: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32 if folded_as(source, out).itemsize == 2 else np.float64)


def mean(values: Array, count: Any) -> Array:
    return np.asarray(values.astype(np.float64) / count).astype(values.dtype)


L1 = replace(SUM, absent=0.0, lift=np.abs)
SUMSQUARE = Arithmetic(
    0.0, 0.0, squares, sum_of_squares, bounded, chained(sum_of_squares), reduced_in=squared_in
)
L2 = replace(SUMSQUARE, value=root)
MEAN = replace(SUM, end=mean)

# Logarithms: not the bits, but more digits than are asked for. Those of sums are of the sum that the tree gives.


def as_long_double(source: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.longdouble)


def logarithm(values: Array, count: Any) -> Array:
    return np.asarray(np.log(values.astype(np.longdouble)))


def only_the_logarithm_rounds(count: int, roundings: int) -> float:
    return 0.0


def each_exponential_rounds(count: int, roundings: int) -> float:
    """Of two elements that meet, the smaller is weighed: e^d rounds (twice u), so do d (d times u, and all its d
    together are below 2 log n where it counts at all), the product and the sum."""
    return 5 * roundings + 4 * math.log(max(count, 1)) + 5


LOGSUM = replace(SUM, end=logarithm, slack=only_the_logarithm_rounds)
LOGSUMEXP = Arithmetic(
    -np.inf,
    -np.inf,
    same,
    np.logaddexp,
    same,
    chained(np.logaddexp),
    reduced_in=as_long_double,
    scanned_in=as_long_double,
    slack=each_exponential_rounds,
)


# ---- the two trees, along axis 0


def padded(values: Array, multiple: int, absent: float) -> Array:
    missing = -len(values) % multiple if len(values) else multiple
    return np.concatenate([values, np.full((missing, *values.shape[1:]), absent, values.dtype)])


def reduction_tree(fold: Arithmetic, values: Array) -> Array:
    lanes = LANE_BYTES // values.dtype.itemsize
    steps = min(STEPS, -(-len(values) // lanes) or 1)
    whole = padded(values, lanes * steps, fold.absent)
    blocks = fold.lift(whole.reshape(len(whole) // (lanes * steps), steps, lanes, *values.shape[1:]))

    # Inside a block every lane folds its elements one after the other.
    lane = blocks[:, 0]
    for step in range(1, steps):
        lane = fold.join(lane, blocks[:, step])

    # Blocks join like the digits of a binary counter: equal neighbours as they complete, then from the right.
    stack: list[Array] = []
    for count, block in enumerate(lane):
        stack.append(block)
        while count % 2 == 1:
            stack[-2:] = [fold.join(stack[-2], stack[-1])]
            count //= 2
    while len(stack) > 1:
        stack[-2:] = [fold.join(stack[-2], stack[-1])]

    # Lanes join by halves.
    total = stack[0]
    while len(total) > 1:
        half = len(total) // 2
        total = fold.join(total[:half], total[half:])
    return np.asarray(total[0])


def scan_tree(fold: Arithmetic, values: Array) -> Array:
    packs = min(SEGMENT // PACK, -(-len(values) // PACK) or 1)
    whole = padded(values, packs * PACK, fold.absent)
    segments = fold.lift(whole.reshape(len(whole) // (packs * PACK), packs, PACK, *values.shape[1:]))

    # Prefixes inside a pack: for groups of 2, 4, 8, the upper half takes the last of the lower half.
    for half in (1, 2, 4):
        for i in range(PACK):
            if i & half:
                segments[:, :, i] = fold.join(segments[:, :, (i & -half) - 1], segments[:, :, i])

    # Packs of a segment take the last of the pack before, then segments take the carry.
    for pack in range(1, packs):
        segments[:, pack] = fold.join(segments[:, pack - 1, -1:], segments[:, pack])
    fold.chain(segments)
    return np.asarray(fold.value(segments).reshape(whole.shape)[: len(values)])


def reduction_roundings(count: int, accumulator: np.dtype[Any]) -> int:
    """How many roundings an element meets at most on its way through reduction_tree."""
    lanes = LANE_BYTES // accumulator.itemsize
    blocks = -(-count // (lanes * STEPS)) or 1
    return min(max(count - 1, 0), STEPS - 1 + (blocks - 1).bit_length() + (lanes - 1).bit_length())


def scan_roundings(count: int, accumulator: np.dtype[Any]) -> int:
    """The same for scan_tree, those of the pair's low part aside, which are smaller by another u."""
    return min(max(count - 1, 0), 3 + SEGMENT // PACK) + (3 if count > SEGMENT else 0)


# ---- whole calls


def memory_order(x: Array, axes: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Array:
    """The folded elements along axis 0 as memory has them: longest stride outermost, lowest address first.

    `strides` are those of the array being folded, where x is its mask.
    """
    strides = strides or x.strides
    folded = sorted((axis % x.ndim for axis in axes), key=lambda axis: (-abs(strides[axis]), axis))
    kept = [axis for axis in range(x.ndim) if axis not in folded]
    upward = np.flip(x, tuple(axis for axis in folded if strides[axis] < 0))
    count = math.prod(x.shape[axis] for axis in folded)
    return upward.transpose(folded + kept).reshape(count, *(x.shape[axis] for axis in kept))


def reduced(
    fold: Arithmetic,
    x: Array,
    axes: tuple[int, ...],
    dtype: np.dtype[Any],
    initial: float | None = None,
    where: Array | None = None,
) -> Array:
    """A reduction into a float dtype. What the mask leaves out is absent at its place."""
    with np.errstate(all="ignore"):
        values = memory_order(x, axes).astype(fold.reduced_in(x.dtype, dtype))
        count: Any = len(values)
        if where is not None:
            chosen = memory_order(np.broadcast_to(where, x.shape), axes, x.strides)
            values = np.where(chosen, values, np.full_like(values, fold.absent))
            count = chosen.sum(0)
        total = reduction_tree(fold, values) if axes else fold.lift(values[0])
        alone = not axes and where is None  # of one element there is nothing to add to 0: -0.0 stays
        begin = initial if initial is not None else fold.absent if alone else fold.identity
        start = fold.lift(np.asarray(begin, values.dtype))
        value = np.asarray(fold.value(fold.join(start, total)))
        return rounded(np.asarray(fold.end(value, count)), dtype)


def scanned(
    fold: Arithmetic,
    x: Array,
    axis: int,
    dtype: np.dtype[Any],
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
) -> Array:
    """A scan into a float dtype."""
    accumulator = fold.scanned_in(x.dtype, dtype)

    def prefixes(line: Array) -> Array:
        with np.errstate(all="ignore"):
            return rounded(scan_tree(fold, line.astype(accumulator)), dtype)

    return arranged(prefixes, fold.identity, x, axis, exclusive, reverse, include_initial)


def arranged(
    prefixes: Callable[[Array], Array],
    identity: float,
    x: Array,
    axis: int,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
) -> Array:
    """What a scan's options mean, in terms of the inclusive scan of lines along axis 0."""
    line = np.moveaxis(x, axis, 0)
    y = prefixes(line[::-1] if reverse else line)
    if exclusive or include_initial:
        y = np.concatenate([np.full((1, *y.shape[1:]), identity, y.dtype), y])
    if exclusive:
        y = y[: len(line)]
    return np.moveaxis(y[::-1] if reverse else y, 0, axis)
