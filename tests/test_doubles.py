"""Exact sums in few doubles: their exact sum is that of the elements, of any size, or totals take over."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import cases
import exactly
import hard
import numpy as np
import pytest
from accumulated import generator
from exact import same_bits
from marks import EVERY_FLOAT, EVERY_KIND
from trees import Array

from foldwise import dtypes, folds
from foldwise.arguments import dtype_of
from foldwise.doubles import Doubles, in_doubles, strips
from foldwise.engine import Reduce
from foldwise.partial import Partial

KERNELS: dict[str, Callable[[Any], Any]] = {
    "exact_sum": lambda x: x,
    "exact_l1": abs,
    "exact_sumsquare": lambda x: x * x,
}


def fractions(x: Array) -> Array:
    found: Array = np.vectorize(lambda value: Fraction(float(value)), otypes=[object])(x)
    return found


@EVERY_FLOAT
@pytest.mark.parametrize("kernel", KERNELS)
def test_doubles_add_up_to_the_exact_fold(kernel: str, dtype: str) -> None:
    rng = generator(kernel, dtype)
    for shape, axes in (((60, 7), (0,)), ((7, 60), (1,)), ((9, 8), (0, 1)), ((3000, 2), (0,)), ((4, 5, 6), (0, 2))):
        x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 5, shape)).astype(cases.dtype_of(dtype))
        for mask in (None, rng.random(shape) < 0.5):
            found = in_doubles(kernel, x, axes, mask)
            elements = KERNELS[kernel](fractions(x))
            wanted = np.sum(elements if mask is None else np.where(mask, elements, 0), axis=axes, keepdims=True)
            assert found is not None
            assert found.dtype == np.float64
            assert len(found) <= 3
            assert (fractions(found).sum(0) == wanted).all()


@EVERY_KIND
@EVERY_FLOAT
@pytest.mark.parametrize("name", ["sum", "l1", "sumsquare", "mean", "l2"])
def test_any_data_in_any_blocks(name: str, dtype: str, kind: hard.Kind) -> None:
    rng = generator(name, dtype, kind.__name__)
    x = kind(rng, cases.dtype_of(dtype), 5, 90).T
    asked = Reduce(folds.BY_NAME[name], (0,), dtype_of(x), accuracy="exact")
    parts = [Partial(asked, dtype_of(x), (5,), 2, compact=True) for _ in range(4)]
    for block, part in zip(np.array_split(x, [1, 8, 55]), parts, strict=True):
        part.add(block)
    for part in rng.permutation(np.array(parts[1:], object)):
        parts[0].merge(pickle.loads(pickle.dumps(part)))
    assert same_bits(parts[0].result(), exactly.reduced(name, x, x.dtype))


def test_where_doubles_end_totals_take_over() -> None:
    float64 = dtypes.BY_NAME["float64"]
    for name, blocks in (
        ("sum", ([1.5e308, 1.0], [1.5e308, 2.0], [-1.5e308, -1.5e308])),
        ("sum", ([1.7e308, 1.7e308], [1.0], [-1.7e308, -1.7e308])),
        ("sumsquare", ([1e200], [1.0], [1.0])),
        ("l2", ([3e-200], [4e-200], [0.0])),
        ("l2", ([3e200], [4e200], [0.0])),
        ("sum", ([math.inf], [1e308, 1e308], [1.0])),
        ("sum", ([math.inf], [-math.inf], [1e308, 1e308])),
    ):
        wanted = exactly.reduced(name, np.concatenate(blocks)[:, np.newaxis], np.dtype(np.float64))[0]
        for order in itertools.permutations(blocks):
            parts = [Partial(Reduce(folds.BY_NAME[name], (0,), float64), float64, (), 1, compact=True) for _ in order]
            for part, block in zip(parts, order, strict=True):
                part.add(np.array(block))
            for part in parts[1:]:
                parts[0].merge(part)
            assert same_bits(parts[0].result(), np.asarray(wanted)), (name, order)
            again = Partial(parts[0].asked, float64, (), 1, compact=True)
            again.restore(parts[0].to_bytes())
            assert same_bits(again.result(), np.asarray(wanted))


def test_many_outputs_take_few_bytes() -> None:
    x = generator("bytes").standard_normal((300, 500)).astype(np.float32)
    part = Partial(Reduce(folds.SUM, (0,), dtype_of(x)), dtype_of(x), (500,), 2, compact=True)
    for _ in range(5):
        part.add(x)
    assert isinstance(part.state, Doubles)
    assert part.state.nbytes <= 2 * 8 * 500


@pytest.mark.parametrize("shape", [(), (0,), (7,), (1, 13, 1), (5, 0), (6, 35)])
@pytest.mark.parametrize("most", [1, 4, 1000])
def test_strips_take_every_place_once(shape: tuple[int, ...], most: int) -> None:
    seen: Any = np.zeros(shape, int)
    for strip in strips(shape, most):
        assert seen[strip].size <= most
        seen[strip] += 1
    assert (seen == 1).all()
