"""The core answers plain calls by itself: all that it gives, or refuses, is what the general way gives."""

from __future__ import annotations

import inspect
import itertools
import random
import warnings
from collections.abc import Callable
from typing import Any

import cases
import ml_dtypes
import numpy as np
import pytest
from trees import Array

import foldwise as fw
from foldwise import entrances


class Subclass(np.ndarray[Any, Any]):
    """An array of somebody's own kind."""


CODES = {name: code for code, (name, _) in enumerate(entrances.ENTRANCES)}
SHAPES = [(), (1,), (5,), (3, 4), (4, 1, 3), (2, 3, 5), (1, 1), (0,), (2, 0), (70,), (9, 17)]
WHOLE = [0, 1, -1, 3, 127, 128, -128, -129, 255, 2**31, -(2**31), 2**53 + 1,
         2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]  # fmt: skip
INITIAL = [None, None, 0.0, -0.0, 1.5, float("inf"), float("nan"), -float("nan"), 2.0**-1074, 1e300, *WHOLE, True,
           np.float64(2.5), np.float32(1), np.int8(3), 10**400, "1", 1j, np.array(2.0)]  # fmt: skip
KEPT = [False, True, False, True, np.True_, 1, None]
OVERFLOWS = ["wrap", "wrap", "saturate", "raise", "clip"]
ACCURACIES = ["default", "default", "exact", "exactly"]
RESULTS = [None, None, None, *cases.DTYPES, np.float64, np.dtype(">f4"), float, "f8", ml_dtypes.bfloat16]


def data(draw: random.Random, name: str, shape: tuple[int, ...]) -> Array:
    """Elements, special ones among them, however they lie."""
    dtype = cases.dtype_of(name)
    seed = np.random.default_rng(draw.randrange(1 << 30))
    if name in cases.FLOATS:
        special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-310, 6e4, 3e38, 1e300])
        with np.errstate(all="ignore"):
            few = seed.choice(special, shape) if draw.random() < 0.3 else np.zeros(shape)
            x = np.where(seed.random(shape) < 0.1, few, seed.normal(size=shape)).astype(dtype)
            x = np.asarray(-np.zeros_like(x)) if draw.random() < 0.2 else x
    else:
        x = seed.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype).reshape(shape)
        x = np.asarray(x.view(np.uint8) & 1).view(bool) if name == "bool" else x
        if draw.random() < 0.5 and name != "bool":
            x = np.asarray(x % 7).astype(dtype)
    kind = draw.randrange(6)
    if kind == 0:
        return np.asfortranarray(x)
    if kind == 1:
        return x.astype(dtype.newbyteorder(">"))
    if kind == 2 and shape:
        return np.repeat(x, 2, -1)[..., ::2]
    if kind == 3 and shape:
        return x[::-1]
    return np.asarray(x)


def mask(draw: random.Random, shape: tuple[int, ...]) -> Any:
    seed = np.random.default_rng(draw.randrange(1 << 30))
    kind = draw.randrange(10)
    if kind < 4:
        return None
    if kind == 4:
        return draw.choice([True, np.False_, 1, [True], np.ones(99, bool), np.ones((2, *shape), bool)])
    if kind == 5:
        return seed.random(tuple(draw.choice([1, n]) for n in shape)) < 0.5
    if kind == 6:
        return seed.random(shape[draw.randrange(len(shape) + 1) :]) < 0.5
    if kind == 7:
        return seed.integers(0, 2, shape)
    chosen = np.asarray(seed.random(shape) < draw.choice([0.0, 0.5, 0.9, 1.0]))
    return np.asfortranarray(chosen) if kind == 8 else np.repeat(chosen[..., np.newaxis], 2, -1)[..., 1]


def axis_of(draw: random.Random, rank: int) -> Any:
    axes = tuple(draw.sample(range(-rank, 0), draw.randrange(rank + 1)))
    return draw.choice([None, axes, axes, draw.randrange(-1, 3), rank - 1, (0, 0), True, [0], np.int64(0), 2**70])


def out_of(draw: random.Random, call: Callable[..., Any]) -> Any:
    """A place for the result, or none, or one that will not do."""
    kind = draw.randrange(8)
    if kind < 5:
        return None
    if kind == 5:
        return np.zeros((2, 2))
    try:
        like = np.asarray(call(None))
    except (fw.FoldwiseError, MemoryError):
        return None
    return np.empty(like.shape, like.dtype) if kind == 6 else np.empty((*like.shape, 2), like.dtype)[..., 0]


def told(call: Callable[[Any], Any], out: Any) -> tuple[Any, ...]:
    """All that a call does: result and `out`, bit by bit, or its refusal."""
    given = out.copy() if isinstance(out, np.ndarray) else out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            made = call(given)
        except fw.FoldwiseError as error:
            return type(error), str(error), given is None or given.tobytes() == out.tobytes()
    parts = made if isinstance(made, tuple) else (made,)
    return *((type(each), each.dtype, each.shape, each.tobytes()) for each in parts), made is given


def agree(plain: Callable[[Any], Any], general: Callable[[Any], Any], out: Any) -> bool:
    """Whether there is a result; in any case both ways say the same."""
    first, second = told(plain, out), told(general, out)
    assert first == second
    return not isinstance(first[0], type)


def compare(
    name: str, seed: int, core: Any, general: Any, drawn: Callable[[random.Random, Array], dict[str, Any]]
) -> None:
    """Calls with some of the options that are drawn and that the public function has, by the core and without it."""
    draw, code, given = random.Random(f"{name} {seed}"), CODES[name], 0
    has, taken = (inspect.signature(each).parameters for each in (getattr(fw, name), general))
    for _ in range(60):
        x = data(draw, draw.choice(cases.DTYPES), draw.choice(SHAPES))
        options = drawn(draw, x)
        chosen = [
            options[each] if each in options and each in has and draw.random() < 0.5 else parameter.default
            for each, parameter in list(taken.items())[2:]
        ]
        place = [*taken].index("out") - 2

        def call(by: Callable[..., Any], out: Any) -> Any:
            return by(code, x, *chosen[:place], out, *chosen[place + 1 :])  # noqa: B023

        out = out_of(draw, lambda out: call(general, out))
        given += agree(lambda out: call(core, out), lambda out: call(general, out), out)
    assert given > 3


SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [fold.name for fold in cases.REDUCTIONS])
def test_reductions(name: str, seed: int) -> None:
    def drawn(draw: random.Random, x: Array) -> dict[str, Any]:
        return {
            "axis": axis_of(draw, x.ndim), "dtype": draw.choice(RESULTS), "keepdims": draw.choice(KEPT),
            "initial": draw.choice(INITIAL), "where": mask(draw, x.shape), "overflow": draw.choice(OVERFLOWS),
            "accuracy": draw.choice(ACCURACIES),
        }  # fmt: skip

    compare(name, seed, entrances.reduce, entrances.reduce_general, drawn)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [fold.name for fold in cases.SCANS])
def test_scans(name: str, seed: int) -> None:
    def drawn(draw: random.Random, x: Array) -> dict[str, Any]:
        axis = axis_of(draw, x.ndim) if draw.random() < 0.3 else draw.randrange(max(x.ndim, 1))
        flags = {each: draw.choice(KEPT) for each in ("exclusive", "reverse", "include_initial")}
        options = {"dtype": RESULTS, "overflow": OVERFLOWS, "accuracy": ACCURACIES}
        return {"axis": axis, **flags, **{each: draw.choice(some) for each, some in options.items()}}

    compare(name, seed, entrances.scan, entrances.scan_general, drawn)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places(name: str, seed: int) -> None:
    def drawn(draw: random.Random, x: Array) -> dict[str, Any]:
        flags = {each: draw.choice(KEPT) for each in ("keepdims", "select_last_index")}
        return {"axis": draw.choice([None, *range(-1, x.ndim), (0,)]), **flags}

    compare(name, seed, entrances.place, entrances.place_general, drawn)


@pytest.mark.parametrize("dtype", cases.FLOATS)
@pytest.mark.parametrize("name", [fold.name for fold in cases.REDUCTIONS])
def test_signs_of_zeros_and_of_nans(name: str, dtype: str) -> None:
    code, has = CODES[name], inspect.signature(getattr(fw, name)).parameters
    starts = [None, 0.0, -0.0, -float("nan")] if "initial" in has else [None]
    for value, axis, initial in itertools.product([-0.0, 0.0, -float("nan")], [(), None, 1], starts):
        x = np.full((2, 3), value, cases.dtype_of(dtype))
        for accuracy in ["default", "exact"] if "accuracy" in has else ["default"]:
            for where in None, x == x, np.zeros(3, bool):

                def call(by: Callable[..., Any], out: Any) -> Any:
                    return by(code, x, axis, None, out, False, initial, where, "wrap", accuracy)  # noqa: B023

                agree(lambda out: call(entrances.reduce, out), lambda out: call(entrances.reduce_general, out), None)


@pytest.mark.parametrize("name", [fold.name for fold in cases.SCANS])
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "bfloat16"])
def test_scans_in_place(name: str, dtype: str) -> None:
    code, draw = CODES[name], random.Random(f"{name} {dtype}")
    for shape in (5,), (3, 4), (33, 7):
        for layout in range(4):
            for exclusive, reverse in (False, False), (False, True), (True, False):
                x = data(draw, dtype, shape)
                x = [x, x[::-1], x.T, x[..., 1:]][layout]
                if not x.dtype.isnative:
                    x = x.astype(cases.dtype_of(dtype))
                for axis in range(x.ndim):
                    wanted = entrances.scan_general(code, x, axis, None, None, exclusive, reverse)
                    if wanted.dtype != x.dtype:
                        continue
                    twin = x.copy(order="K")
                    view = twin[...]
                    assert entrances.scan(
                        code, twin, axis, None, view, exclusive, reverse, False, "wrap", "default"
                    ) is view
                    assert twin.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_several_at_once(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        x = data(draw, draw.choice(cases.DTYPES), draw.choice(SHAPES))
        names = draw.choices([fold.name for fold in cases.REDUCTIONS], k=draw.randrange(1, 4))
        axis, keepdims, where = axis_of(draw, x.ndim), draw.choice(KEPT), mask(draw, x.shape)
        agree(
            lambda _: entrances.many(entrances.TOGETHER, x, names, axis, keepdims, where),  # noqa: B023
            lambda _: entrances.many_general(entrances.TOGETHER, x, names, axis, keepdims, where),  # noqa: B023
            None,
        )


@pytest.mark.parametrize(
    "given", [3, 2.5, True, np.float32(1), [[1, 2], [3, 4]], ((1.0, 2.0),), np.ones((2, 2)).view(Subclass)]
)
def test_what_is_no_array_is_read_as_one(given: Any) -> None:
    array = np.asarray(given)
    for name in "sum", "mean", "l2", "any":
        assert np.array_equal(getattr(fw, name)(given), getattr(fw, name)(array))
    if array.ndim:
        assert np.array_equal(fw.cumsum(given, axis=-1), fw.cumsum(array, axis=-1))
        assert np.array_equal(fw.argmax(given, axis=-1), fw.argmax(array, axis=-1))
        assert fw.reduce_many(given, ["sum", "max"])[1] == array.max()


def test_results_without_room_are_named() -> None:
    x = np.broadcast_to(np.float32(1), (2**48, 2))
    for name in "sum", "argmax", "cumsum":
        with pytest.raises(MemoryError, match=rf"^{name}: no room for a result of dtype \w+, shape \({2**48},"):
            getattr(fw, name)(x, axis=1)
    with pytest.raises(MemoryError, match=r"^max: no room for a result"):
        fw.reduce_many(x, ["max", "sum"], axis=1)
