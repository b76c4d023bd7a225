"""Partial reductions: blocks along any axes, in any order, merged and stored, come to what the whole array does."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import numpy as np
import pytest
from marks import EVERY_DTYPE
from trees import Array

from foldwise import dtypes, engine, folds
from foldwise.arguments import dtype_of
from foldwise.engine import Arg, Reduce
from foldwise.errors import ArgumentError, OverflowedError, ShapeError, StateError
from foldwise.partial import Partial, at_once

ROUNDING = {"prod", "logsumexp"}


def values(dtype: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(len(dtype) + sum(shape))
    kind = cases.dtype_of(dtype)
    if dtype in cases.FLOATS:
        return (random.standard_normal(shape) * 2.0 ** random.integers(-4, 5, shape)).astype(kind)
    if dtype == "bool":
        return random.random(shape) < 0.9
    limits = np.iinfo(kind)
    return random.integers(limits.min, limits.max, shape, kind, endpoint=True)


def boxes(shape: tuple[int, ...], parts: int) -> list[tuple[slice, ...]]:
    """A grid of boxes, in an order that is not theirs."""
    edges = [np.linspace(0, n, min(parts, n) + 1).astype(int).tolist() for n in shape]
    grid = [[slice(a, b) for a, b in itertools.pairwise(each)] for each in edges]
    return sorted(itertools.product(*grid), key=lambda box: sum((s.start * 7919) % 13 for s in box))


def folded(asked: Reduce | Arg, x: Array, parts: int, where: Array | None = None) -> Array:
    """In boxes, each output's by a Partial of its own after the other, merged in pairs and stored on the way."""
    axes = asked.axes
    kept = [n for a, n in enumerate(x.shape) if a not in axes]
    partials = [Partial(asked, dtype_of(x), tuple(kept), x.ndim) for _ in range(2)]
    for i, box in enumerate(boxes(tuple(n if a in axes else 1 for a, n in enumerate(x.shape)), parts)):
        part = tuple(s if a in axes else slice(None) for a, s in enumerate(box))
        if isinstance(asked, Arg):
            partials[i % 2].place(x[part], tuple(s.start or 0 for s in part), x.shape)
        else:
            partials[i % 2].add(x[part], None if where is None else where[part])
    partials[0].merge(partials[1])
    again = Partial(asked, dtype_of(x), tuple(kept), x.ndim)
    again.restore(partials[0].to_bytes())
    assert again.to_bytes() == partials[0].to_bytes()
    return again.result()


def agree(found: Array, wanted: Array, name: str, dtype: np.dtype[Any]) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if name in ROUNDING and dtype.kind not in "iub":
        rough = 2.0**-6 if dtype.itemsize == 2 else 2.0**-18 if dtype.itemsize == 4 else 1e-13
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rough)
    else:
        assert found.tobytes() == wanted.tobytes()


AXES = ((0, 1, 2), (0,), (1,), (0, 2), ())


@EVERY_DTYPE
@pytest.mark.parametrize("fold", folds.FOLDS, ids=lambda fold: fold.name)
def test_blocks_come_to_the_whole(dtype: str, fold: folds.Fold) -> None:
    x = values(dtype, (6, 5, 7))
    masks: tuple[Array | None, ...] = (None, np.asarray(np.random.default_rng(1).random(x.shape) < 0.7))
    for axes, parts, mask in itertools.product(AXES, (1, 2, 5), masks):
        asked = Reduce(fold, axes, fold.result(dtype_of(x)), accuracy="exact")
        wanted = at_once(asked, x, mask)
        found = folded(asked, x, parts, mask)
        agree(found, wanted, fold.name, wanted.dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool"])
@pytest.mark.parametrize("result", ["int64", "uint64", "int8", "float32", "bfloat16"])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "l2", "sumsquare", "l1"])
def test_results_of_integers_in_other_dtypes(dtype: str, result: str, name: str) -> None:
    x, into = values(dtype, (6, 5, 7)), dtypes.BY_NAME[result]
    for axes in AXES[:4]:
        asked = Reduce(folds.BY_NAME[name], axes, into, accuracy="exact")
        wanted = asked.run(x)
        agree(folded(asked, x, 3), wanted, name, wanted.dtype)


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64", "uint16"])
@pytest.mark.parametrize("result", ["int8", "int64", "uint64"])
def test_integers_are_judged_by_their_exact_value(name: str, dtype: str, result: str) -> None:
    random = np.random.default_rng(3)
    for high in (2, 3, 40, None):
        x = values(dtype, (9, 8))
        if high is not None:
            x = (random.integers(0, high, x.shape) * random.choice([1, 1, 1, -1], x.shape)).astype(dtype)
        x[:, 0] = 0
        for initial in (None, 3):
            asked = Reduce(
                folds.BY_NAME[name], (0,), dtypes.BY_NAME[result], initial=initial, overflow="saturate"
            )
            assert folded(asked, x, 4).tobytes() == asked.run(x).tobytes()
            raising = asked._replace(overflow="raise")
            try:
                wanted = raising.run(x)
            except OverflowedError as error:
                with pytest.raises(OverflowedError) as refused:
                    folded(raising, x, 4)
                assert str(refused.value) == str(error)  # noqa: PT017
            else:
                assert folded(raising, x, 4).tobytes() == wanted.tobytes()


def test_the_initial_value_joins_once() -> None:
    x = values("float32", (6, 5))
    for name, initial in ("sum", 2.0**-60), ("max", 0.1), ("min", -np.inf), ("prod", 3.0):
        asked = Reduce(folds.BY_NAME[name], (0,), dtypes.BY_NAME["float32"], initial=initial, accuracy="exact")
        agree(folded(asked, x, 3), asked.run(x), name, x.dtype)


@EVERY_DTYPE
def test_places_are_those_of_the_whole_array(dtype: str) -> None:
    for x in values(dtype, (6, 5, 7)), (values(dtype, (6, 5, 7)).astype(np.float64) % 2).astype(cases.dtype_of(dtype)):
        for fold, axes, last in itertools.product(folds.PLACES, ((0, 1, 2), (0,), (1,), (2,)), (False, True)):
            asked = Arg(fold, axes, last=last)
            assert folded(asked, x, 3).tobytes() == asked.run(x).tobytes()


def test_nothing_at_all() -> None:
    float64 = dtypes.BY_NAME["float64"]
    for fold in folds.FOLDS:
        result = fold.result(float64)
        found = Partial(Reduce(fold, (0,), result), float64, (2,), 2).result()
        wanted = Reduce(fold, (0,), result, accuracy="exact").run(np.zeros((0, 2)))
        assert found.tobytes() == wanted.tobytes()
    with pytest.raises(ShapeError, match="argmax: of no elements"):
        Partial(Arg(folds.PLACES[0], (0,)), float64, (2,), 2).result()
    mean = Reduce(folds.BY_NAME["mean"], (0,), engine.INT64)
    with pytest.raises(ArgumentError, match="no elements have no int64 mean"):
        Partial(mean, engine.INT64, (2,), 2).result()


def test_bytes_that_none_gave_are_refused() -> None:
    asked = Reduce(folds.SUM, (0,), engine.FLOAT64)
    partial = Partial(asked, engine.FLOAT64, (2,), 2)
    partial.add(np.ones((3, 2)))
    stored = partial.to_bytes()
    for data in b"", stored[:9], stored[:-1], b"\xff" * 8 + stored[8:]:
        with pytest.raises(StateError):
            Partial(asked, engine.FLOAT64, (2,), 2).restore(data)
