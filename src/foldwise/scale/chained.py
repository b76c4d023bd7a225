"""Scans of blocks, each of which goes on where the one before it stopped."""

from typing import Final

import numpy as np

from foldwise import dtypes, whole
from foldwise.arguments import NUMPY, Array
from foldwise.digits import whole_totals
from foldwise.doubles import Doubles
from foldwise.dtypes import Dtype
from foldwise.engine import FLOAT64, INT64, Reduce, Scan
from foldwise.folds import SUM
from foldwise.partial import Partial
from foldwise.rounding_states import LogSumExp, Product
from foldwise.states import Factors, Integers, Joined

_UINT64: Final = dtypes.BY_NAME["uint64"]


def carried(scan: Scan, source: Dtype, shape: tuple[int, ...]) -> Partial:
    """What comes before a block of some shape along the axis of a scan: nothing yet."""
    axis = scan.axis or 0
    reduction = Reduce(scan.fold, (axis,), scan.result, overflow=scan.overflow)
    return Partial(reduction, source, tuple(n for a, n in enumerate(shape) if a != axis), len(shape))


def bytes_for(scan: Scan, source: Dtype) -> tuple[int, int]:
    """How much memory each element of a block takes, and each line."""
    state = carried(scan, source, (1,)).state
    if isinstance(state, Factors):
        element = 300
    elif isinstance(state, Doubles):
        element = 0 if source.kind == "f" else 64 + scan.result.size if source.size == 8 else 8
    else:
        element = 3 if isinstance(state, Joined) else 24
    return element + 2 * scan.result.size, 2 * state.nbytes + 64


def scanned(scan: Scan, x: Array, before: Partial | None) -> Array:
    """The scan of a block, after what came before. Running sums of floats are exact, whatever was asked."""
    scan = scan._replace(accuracy="exact")
    if before is None:
        return scan.run(x)
    scan = scan._replace(include_initial=False)
    if not x.size or not np.any(before.count):
        return scan.run(x)
    state = before.state
    if isinstance(state, Doubles):
        return _running_sums(scan, x, state.copy())
    if scan.reverse:
        return np.flip(_after(scan._replace(reverse=False), np.flip(x, scan.axis), before), scan.axis)
    return _after(scan, x, before)


def scanned_on(scan: Scan, x: Array, before: Partial) -> Array:
    """The same, and then the block is part of what comes before the next one."""
    state = before.state
    if not isinstance(state, Doubles):
        steps = scanned(scan, x, before)
        before.add(x)
        return steps
    steps = _running_sums(scan._replace(include_initial=False), x, state)
    before.count = before.count + x.shape[scan.axis or 0]
    return steps


def _after(scan: Scan, x: Array, before: Partial) -> Array:
    state, axis = before.state, scan.axis or 0
    if isinstance(state, Integers):
        kind = NUMPY[_UINT64.code if x.dtype.kind == "u" else INT64.code]
        return _behind(scan, x.astype(kind), _in_words(state.totals, kind))
    if isinstance(state, Factors):
        return _judged_products(scan, x, state)
    if isinstance(state, Product):
        return _behind(scan, _wide(x), state.factors(x.shape[axis]))
    if isinstance(state, LogSumExp):
        return _behind(scan, _wide(x), (state.arrays[0] + state.arrays[1])[np.newaxis])
    assert isinstance(state, Joined)
    steps, held = scan.run(x), np.expand_dims(state.arrays[0], axis)
    if scan.fold.kernel == "sum":
        steps += held
        return steps
    if scan.fold.kernel == "prod":
        steps *= held
        return steps
    with np.errstate(invalid="ignore"):  # bfloat16's comparisons mind NaN
        stays = (held > steps if scan.fold.name == "max" else held < steps) | (held != held)
    np.copyto(steps, held, where=stays)
    return steps


def _behind(scan: Scan, x: Array, head: Array) -> Array:
    """A block scanned behind elements that come to what was before it; they lie along their first axis."""
    axis, k = scan.axis or 0, len(head)
    steps = scan._replace(exclusive=False).run(np.concatenate([np.moveaxis(head, 0, axis), x], axis))
    at = slice(k - 1, -1) if scan.exclusive else slice(k, None)
    return steps[(*(slice(None),) * axis, at)]


def _wide(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return x.astype(np.float64)


def _running_sums(scan: Scan, x: Array, before: Doubles) -> Array:
    """Sums that are floats; the block becomes part of what was before it."""
    axis = scan.axis or 0
    if x.dtype.kind not in "iub":
        return before.scanned(scan, x)
    if scan.reverse:
        return np.flip(_running_sums(scan._replace(reverse=False), np.flip(x, axis), before), axis)
    # Of an integer's summands, side by side, the last makes the step.
    summands = [each for _, each in whole.summands("exact_sum", x)]
    wide = np.stack(summands, axis + 1).reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :])
    steps = before.scanned(scan, wide)
    return steps[(*(slice(None),) * axis, slice(0 if scan.exclusive else len(summands) - 1, None, len(summands)))]


# ---- integers that are judged


def _in_words(totals: Array, kind: "np.dtype[np.integer]") -> Array:
    """Exact sums as integers of 64 bits that add up to them, along a first axis."""
    left, limits = whole_totals(totals), np.iinfo(kind)
    words = []
    while True:
        nearest = whole.clipped(left, int(limits.min), int(limits.max))
        left = np.asarray(left - nearest, object)
        words.append(nearest.astype(kind))
        if not np.any(left):
            return np.stack(words)


def _judged_products(scan: Scan, x: Array, before: Factors) -> Array:
    """The state after each step."""
    axis, magnitudes, plain = scan.axis or 0, whole.magnitudes(x), scan._replace(overflow="wrap")
    modulo, size = (plain._replace(result=result).run(magnitudes) for result in (_UINT64, FLOAT64))
    odd = plain._replace(fold=SUM, result=INT64).run(x < 0) % 2 == 1
    terms = before.terms._replace(fold=scan.fold._replace(name=scan.name), shape=x.shape)
    steps = Factors(terms, tuple(np.broadcast_to(np.expand_dims(each, axis), x.shape) for each in before.arrays))
    steps.merge(Factors(terms, (modulo, odd, size)), 0)
    return steps.result(0)
