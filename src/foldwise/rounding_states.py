"""What an accumulator of floats remembers where each block and each merge rounds."""

from typing import Final

import numpy as np

from . import folds
from .arguments import NUMPY, Array
from .dtypes import Dtype
from .engine import FLOAT64, INT64, Reduce
from .folds import SUM
from .states import Arrays, Terms

_L2: Final = folds.BY_NAME["l2"]
_LOGSUMEXP: Final = folds.BY_NAME["logsumexp"]
_PROD: Final = folds.BY_NAME["prod"]


class Pair(Arrays):
    """Sums of floats by one addition in float64 for each block, and what those additions lost."""

    merges = False

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.zeros(terms.shape), np.zeros(terms.shape)

    def folded(self, x: Array, where: Array | None) -> tuple[Array, ...]:
        total = self.terms.fold_into(FLOAT64, x, where, self.terms.fold._replace(ending="none"))
        return total, np.zeros(total.shape)

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        total = left[0] + right[0]
        back = total - left[0]
        lost = (left[0] - (total - back)) + (right[0] - back)
        return total, left[1] + right[1] + lost

    def result(self, count: int | Array) -> Array:
        fold, _, result, *_ = self.terms
        with np.errstate(all="ignore"):
            total = _corrected(*self.arrays)
            if fold.ending == "log":
                return Reduce(fold, (), result).run(total)
            return _rounded(total / count if fold.ending == "mean" else total, result)


class Squares(Pair):
    """Such sums of squares, in units of 4**exponent, so that no square leaves the range."""

    _LEAST: Final = -(1 << 14)
    """The exponent of zeros, below that of any other number."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return *super().nothing(terms), np.full(terms.shape, cls._LEAST, np.int64)

    def folded(self, x: Array, where: Array | None) -> tuple[Array, ...]:
        norm, exponent = _split(self.terms.fold_into(FLOAT64, x, where, _L2), self._LEAST)
        return norm * norm, np.zeros(norm.shape), exponent

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        exponent = np.maximum(left[2], right[2])
        here, there = (tuple(np.ldexp(part, 2 * (side[2] - exponent)) for part in side[:2]) for side in (left, right))
        return *super().joined(here, there, seen), exponent

    def result(self, count: int | Array) -> Array:
        total, lost, exponent = self.arrays
        with np.errstate(all="ignore"):
            squares = _corrected(total, lost)
            if self.terms.fold.ending == "root":
                return _rounded(np.ldexp(np.sqrt(squares), exponent), self.terms.result)
            return _rounded(np.ldexp(squares, 2 * exponent), self.terms.result)


class Product(Arrays):
    """Products of floats as a fraction and an exponent, so that only the result meets the dtype's range."""

    _GROUP: Final = 512
    """So many fractions from a half up have a product in the normal range."""
    _FEW: Final = 4096
    """So many factors are split as fast one by one."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.ones(terms.shape), np.zeros(terms.shape, np.int64)

    def folded(self, x: Array, where: Array | None) -> tuple[Array, ...]:
        product = self.terms.fold_into(FLOAT64, x, where)
        if _usual(product).all():
            return _split(product)
        chosen, axes = x if where is None else np.where(where, x, x.dtype.type(1)), self.terms.axes(x)
        factors = np.moveaxis(chosen, axes, range(len(axes))).reshape(-1, *self.terms.shape)
        worth_grouping = factors.size > self._FEW
        fraction, exponent = self._summed(*_split(self._in_range(factors, self._GROUP if worth_grouping else 1)))
        while len(fraction) > 1:
            groups = -(-len(fraction) // self._GROUP)
            padded = np.ones((groups * self._GROUP, *self.terms.shape))
            padded[: len(fraction)] = fraction
            grouped = padded.reshape(groups, self._GROUP, *self.terms.shape)
            fraction, more = self._summed(*_split(Reduce(_PROD, (1,), FLOAT64).run(grouped)))
            exponent = exponent + more
        return fraction[0], exponent

    def _in_range(self, factors: Array, most: int) -> Array:
        """Products of so many factors at most, with the product of all along the first axis, that need no care."""
        if most == 1:
            return factors.astype(np.float64)
        found, whole = [], len(factors) // most * most
        for part, size in (factors[:whole], most), (factors[whole:], len(factors) - whole):
            if size and len(part):
                groups = part.reshape(-1, size, *self.terms.shape)
                products = Reduce(_PROD, (1,), FLOAT64).run(groups)
                good = _usual(products).reshape(len(products), -1).all(1)
                found.append(products[good])
                if not good.all():
                    found.append(self._in_range(groups[~good].reshape(-1, *self.terms.shape), most // 8))
        return np.concatenate(found)

    @staticmethod
    def _summed(fraction: Array, exponent: Array) -> tuple[Array, Array]:
        """With the exponents summed along the first axis."""
        return fraction, Reduce(SUM, (0,), INT64).run(exponent)

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        fraction, exponent = _split(left[0] * right[0])
        return fraction, left[1] + right[1] + exponent

    def result(self, count: int | Array) -> Array:
        fraction, exponent = self.arrays
        with np.errstate(all="ignore"):
            return _rounded(np.ldexp(fraction, exponent.clip(-5000, 5000)), self.terms.result)

    def factors(self, length: int) -> Array:
        """Doubles whose product it is, along a first axis, none near the ends of their range.

        An exponent from which so many more elements do not lead back to the range is cut: how far off it is, none sees.
        """
        fraction, rest = self.arrays
        rest = rest.clip(-1100 * (length + 4), 1100 * (length + 4))
        found = [fraction]
        while rest.any():
            step = rest.clip(-1000, 1000)
            found.append(np.ldexp(1.0, step))
            rest = rest - step
        return np.stack(found)


class LogSumExp(Arrays):
    """The largest logarithm of a block's sum so far, and the logarithm of what all come to in units of that sum."""

    @classmethod
    def nothing(cls, terms: Terms) -> tuple[Array, ...]:
        return np.full(terms.shape, -np.inf), np.zeros(terms.shape)

    def folded(self, x: Array, where: Array | None) -> tuple[Array, ...]:
        largest = self.terms.fold_into(FLOAT64, x, where)
        return largest, np.zeros(largest.shape)

    def joined(self, left: tuple[Array, ...], right: tuple[Array, ...], seen: int) -> tuple[Array, ...]:
        largest = np.maximum(left[0], right[0])
        # Of two infinities neither is the smaller, though their difference is no number.
        parts = [np.where(side[0] == largest, 0, side[0] - largest) + side[1] for side in (left, right)]
        return largest, Reduce(_LOGSUMEXP, (0,), FLOAT64).run(np.stack(parts))

    def result(self, count: int | Array) -> Array:
        largest, more = self.arrays
        return _rounded(largest + more, self.terms.result)


def _usual(products: Array) -> Array:
    """Which of them are rounded as most numbers are: not too large or small for that, nor 0, nor no number."""
    size = np.abs(products)
    return (size >= np.finfo(np.float64).tiny) & (size < np.inf)


def _split(x: Array, least: int = 0) -> tuple[Array, Array]:
    """Floats as fractions from a half up and exponents; what has none, such as 0 and infinities, has the least."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return fraction, np.where(np.isfinite(fraction) & (fraction != 0), exponent, least)


def _corrected(total: Array, lost: Array) -> Array:
    """A sum with what was lost on the way, unless it is infinite, where nobody knows that."""
    return np.where(np.isfinite(total), total + lost, total)


def _rounded(found: Array, result: Dtype) -> Array:
    """Float64 rounded into a dtype, with the one NaN."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(np.isnan(found), np.nan, found)).astype(NUMPY[result.code])
