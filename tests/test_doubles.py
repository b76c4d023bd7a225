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

from foldwise import engine, folds
from foldwise.arguments import dtype_of
from foldwise.doubles import Doubles
from foldwise.engine import FLOAT64, Reduce, Scan
from foldwise.partial import Partial
from foldwise.scale.chained import carried, scanned_on
from foldwise.states import Terms

ELEMENTS: dict[str, Callable[[Any], Any]] = {"sum": lambda x: x, "l1": abs, "sumsquare": lambda x: x * x}


def fractions(x: Array) -> Array:
    found: Array = np.vectorize(lambda value: Fraction(float(value)), otypes=[object])(x)
    return found


@EVERY_FLOAT
@pytest.mark.parametrize("name", ELEMENTS)
def test_doubles_add_up_to_the_exact_fold(name: str, dtype: str) -> None:
    rng = generator(name, dtype)
    for shape, axes in (((60, 7), (0,)), ((7, 60), (1,)), ((9, 8), (0, 1)), ((3000, 2), (0,)), ((4, 5, 6), (0, 2))):
        x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 5, shape)).astype(cases.dtype_of(dtype))
        for mask in (None, rng.random(shape) < 0.5):
            outputs = tuple(n for axis, n in enumerate(shape) if axis not in axes)
            state = Doubles(Terms(folds.BY_NAME[name], dtype_of(x), FLOAT64, outputs, axes))
            state.add(x, 0, mask)
            elements = ELEMENTS[name](fractions(x))
            wanted = np.sum(elements if mask is None else np.where(mask, elements, 0), axis=axes)
            assert state.few
            assert np.array_equal(fractions(state.totals).sum(-1), wanted)


@EVERY_KIND
@EVERY_FLOAT
@pytest.mark.parametrize("name", ["sum", "l1", "sumsquare", "mean", "l2"])
def test_any_data_in_any_blocks(name: str, dtype: str, kind: hard.Kind) -> None:
    rng = generator(name, dtype, kind.__name__)
    x = kind(rng, cases.dtype_of(dtype), 5, 90).T
    asked = Reduce(folds.BY_NAME[name], (0,), dtype_of(x), accuracy="exact")
    parts = [Partial(asked, dtype_of(x), (5,), 2) for _ in range(4)]
    for block, part in zip(np.array_split(x, [1, 8, 55]), parts, strict=True):
        part.add(block)
    for part in rng.permutation(np.array(parts[1:], object)):
        parts[0].merge(pickle.loads(pickle.dumps(part)))
    assert same_bits(parts[0].result(), exactly.reduced(name, x, x.dtype))


def test_what_was_merged_into_nothing_stays_when_more_comes() -> None:
    terms = Terms(folds.BY_NAME["sum"], dtype_of(np.empty(0)), FLOAT64, (), (0,))
    far_apart = [1e300, 1e200, 1e100]
    for blocks, few in (([[1.0]], True), ([[*far_apart, 1.0], [-x for x in far_apart]], False)):
        first, second = Doubles(terms), Doubles(terms)
        first.add(np.array([3.0]), 0)
        second.merge(first, 0)
        for block in blocks:
            second.add(np.array(block), 1)
        assert second.result(8) == 4
        assert second.few == few


@EVERY_FLOAT
def test_sums_in_doubles_are_rounded_as_their_totals_are(dtype: str) -> None:
    rng, result = generator(dtype), cases.dtype_of(dtype)
    far = 2.0 ** -rng.integers(53, 140, 400)
    near = rng.integers(1, 1 << 13, 400) * 2.0 ** rng.integers(-150, 20, 400) * rng.choice([-1, 1], 400)
    numbers = np.stack([near, near * far * rng.choice([-1, 0, 1], 400), np.zeros(400)], -1)
    for name, counts in (("sum", None), ("mean", rng.integers(1, 1 << 40, 400)), ("l2", None)):
        sums = np.abs(numbers) if name == "l2" else numbers
        sums = sums if name != "l2" else sums * np.array([1.0, 0.5, 0.0])
        ending = folds.BY_NAME[name].ending
        found = engine.rounded_totals(sums, ending, counts, dtype_of(np.empty(0, result)))
        wanted = engine.rounded_totals(engine.totals_of(sums), ending, counts, dtype_of(np.empty(0, result)))
        assert same_bits(found, wanted)


def test_where_doubles_end_totals_take_over() -> None:
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
            parts = [Partial(Reduce(folds.BY_NAME[name], (0,), FLOAT64), FLOAT64, (), 1) for _ in order]
            for part, block in zip(parts, order, strict=True):
                part.add(np.array(block))
            for part in parts[1:]:
                parts[0].merge(part)
            assert same_bits(parts[0].result(), np.asarray(wanted)), (name, order)
            again = Partial(parts[0].asked, FLOAT64, (), 1)
            again.restore(parts[0].to_bytes())
            assert same_bits(again.result(), np.asarray(wanted))


def test_many_outputs_take_few_bytes() -> None:
    x = generator("bytes").standard_normal((300, 500)).astype(np.float32)
    part = Partial(Reduce(folds.SUM, (0,), dtype_of(x)), dtype_of(x), (500,), 2)
    for _ in range(5):
        part.add(x)
    assert isinstance(part.state, Doubles)
    assert part.state.totals.nbytes == 24 * 500
    again = Partial(part.asked, dtype_of(x), (500,), 2)
    again.restore(part.to_bytes())
    assert isinstance(again.state, Doubles)
    assert again.state.few


def test_a_scan_goes_on_when_doubles_end() -> None:
    x = np.array([1e300, 1.0, 1e-300, -1e300, 2.0**-1074, -1.0, 1.7e308, 1.7e308, -1.7e308, 5.0, math.inf, 1.0])
    for reverse, exclusive in itertools.product((False, True), repeat=2):
        scan = Scan("cumsum", folds.SUM, 0, FLOAT64, exclusive, reverse, accuracy="exact")
        before = carried(scan, FLOAT64, (1,))
        blocks = np.split(x, len(x))[:: -1 if reverse else 1]
        steps = np.concatenate([scanned_on(scan, block, before) for block in blocks])
        assert same_bits(steps[:: -1 if reverse else 1], scan.run(x))
