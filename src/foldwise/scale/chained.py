"""A scan of a block that goes on where the blocks before it stopped."""

import math
from typing import Final

import numpy as np

from foldwise import dtypes, engine, whole
from foldwise.arguments import NUMPY, Array
from foldwise.doubles import Doubles, strips, taken_from
from foldwise.engine import FLOAT64, INT64, Reduce, Scan
from foldwise.folds import SUM
from foldwise.partial import Partial
from foldwise.rounding_states import LogSumExp, Product
from foldwise.states import Factors, Integers, Joined

_FLOAT32: Final = dtypes.BY_NAME["float32"]
_UINT64: Final = dtypes.BY_NAME["uint64"]
_PIECE: Final = 250_000
"""So many elements take far longer than a call, wake no thread, and are still in a cache when they are read again."""
_NARROW: Final = 64
"""So many neighbours are worth a piece of memory of their own."""


def scanned(scan: Scan, x: Array, before: Partial | None) -> Array:
    """The scan of a block, after what came before. Running sums of floats are exact, whatever was asked."""
    scan = scan._replace(accuracy="exact")
    if before is None or not x.size:
        return scan.run(x) if before is None else scan._replace(include_initial=False).run(x)
    forward = scan._replace(reverse=False, include_initial=False)
    if scan.reverse:
        return np.flip(_after(forward, np.flip(x, scan.axis), before), scan.axis)
    return _after(forward, x, before)


def _after(scan: Scan, x: Array, before: Partial) -> Array:
    state, axis = before.state, scan.axis or 0
    if isinstance(state, Doubles):
        return _running_sums(scan, x, state)
    if isinstance(state, Integers):
        return _judged_sums(scan, x, np.expand_dims(engine.whole_totals(state.totals), axis))
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


# ---- sums of floats


def _running_sums(scan: Scan, x: Array, before: Doubles) -> Array:
    """In pieces that stay in a cache: each is scanned behind the doubles that everything before it comes to."""
    axis, count = scan.axis or 0, x.shape[scan.axis or 0]
    found = np.empty_like(x, NUMPY[scan.result.code])
    lines = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    for strip in strips(lines, max(_NARROW, _PIECE // count)):
        kept = strip[:axis] + strip[axis + 1 :]
        held = before.part(kept)
        length = max(1, _PIECE // math.prod(each.stop - each.start for each in kept))
        for begin in range(0, count, length):
            at = (*strip[:axis], slice(begin, begin + length), *strip[axis + 1 :])
            found[at] = _piece(scan, x[at], held)
            if begin + length < count:
                held = _with(held, x[at])
    return found


def _with(before: Doubles, x: Array) -> Doubles:
    """What everything before the next piece comes to."""
    totals = before.in_totals()
    totals.add(x, 0)
    parts = taken_from(totals.totals.copy())
    return Doubles(before.terms, totals=totals) if parts is None else Doubles(before.terms, np.stack(parts))


def _piece(scan: Scan, x: Array, before: Doubles) -> Array:
    axis = scan.axis or 0
    if before.totals:
        return _digit_by_digit(scan, x, before.totals.totals)
    if x.dtype.kind not in "iub":
        singles = _in_singles(before.parts) if x.dtype.itemsize <= 4 else None
        if singles is None:
            return _behind(scan, _wide(x), before.parts)
        return _behind(scan, Reduce(SUM, (), _FLOAT32).run(x) if x.dtype.itemsize < 4 else x, singles)
    # Of an integer's summands, side by side, the last makes the step.
    summands = [each for _, each in whole.summands("exact_sum", x)]
    wide = np.stack(summands, axis + 1).reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :])
    steps = _behind(scan, wide, before.parts)
    return steps[(*(slice(None),) * axis, slice(0 if scan.exclusive else len(summands) - 1, None, len(summands)))]


def _in_singles(doubles: Array) -> Array | None:
    """The same exact sums in float32, if its range holds them."""
    singles = [np.zeros(doubles.shape[1:], np.float32)]
    for rest in doubles:
        while rest.any():
            with np.errstate(over="ignore"):
                single = rest.astype(np.float32)
            if not np.isfinite(single).all():
                return None
            singles.append(single)
            rest = rest - single
    return np.stack(singles[1:] or singles)


def _digit_by_digit(scan: Scan, x: Array, totals: Array) -> Array:
    """Where sums leave the range of doubles on the way: one element after the other."""
    found, held = np.empty(x.shape, NUMPY[scan.result.code]), totals.copy()
    elements, steps = (np.moveaxis(each, scan.axis or 0, 0) for each in (x, found))
    for i in range(len(elements)):
        before = engine.rounded_totals(held, "none", None, scan.result) if scan.exclusive else None
        engine.add_to_totals(held[np.newaxis], "exact_sum", elements[i : i + 1], (0,), None)
        steps[i] = engine.rounded_totals(held, "none", None, scan.result) if before is None else before
    return found


# ---- integers that are judged


def _judged_sums(scan: Scan, x: Array, before: Array) -> Array:
    """Each step's exact value from its upper and lower 32 bits, so that 64 bits hold either."""
    plain = scan._replace(result=INT64, overflow="wrap")
    high, low = (plain.run(half) for half in whole.halves(x))
    exact = before + (high.astype(object) << 32) + low
    return whole.judged(scan.name, exact, scan.result, scan.overflow)


def _judged_products(scan: Scan, x: Array, before: Factors) -> Array:
    """The state after each step."""
    axis, magnitudes, plain = scan.axis or 0, whole.magnitudes(x), scan._replace(overflow="wrap")
    modulo, size = (plain._replace(result=result).run(magnitudes) for result in (_UINT64, FLOAT64))
    odd = plain._replace(fold=SUM, result=INT64).run(x < 0) % 2 == 1
    terms = before.terms._replace(fold=scan.fold._replace(name=scan.name), shape=x.shape)
    steps = Factors(terms, tuple(np.broadcast_to(np.expand_dims(each, axis), x.shape) for each in before.arrays))
    steps.merge(Factors(terms, (modulo, odd, size)), 0)
    return steps.result(0)
