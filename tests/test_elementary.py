"""Our own exponential and logarithm, seen through the folds that take them, against forty digits."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal

import numpy as np
import pytest
from cases import ISAS
from trees import Array

import foldwise as fw
from foldwise import engine

LOG_ULPS = {"float32": 0.52, "float64": 0.70}
# exp(-t) is off by 0.91 of its last place, half or less of the last place of 1 + exp(-t); the sum rounds, then the
# logarithm.
SUM_ULPS = {"float32": 0.91 / 2 + 0.5, "float64": 0.91 / 2 + 0.5}


def logarithms(x: Array) -> Array:
    """Of each element: a sum of one has nothing to add."""
    return np.asarray(fw.logsum(x[:, None], axis=1))


def softplus(t: Array) -> Array:
    """log(1 + exp(-t))."""
    return np.asarray(fw.logsumexp(np.stack([np.zeros_like(t), -t], axis=1), axis=1))


def errors(found: Array, x: Array, exactly: Callable[[Decimal], Decimal]) -> Array:
    """How far each result is from the exact one, in units of its last place."""
    with decimal.localcontext(prec=40):
        exact = [exactly(Decimal(float(value))) for value in x]
        return np.array(
            [
                float(abs(Decimal(float(y)) - e) / Decimal(float(np.spacing(np.abs(np.asarray(e, found.dtype))))))
                for y, e in zip(found, exact, strict=True)
            ]
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms(dtype: str) -> None:
    rng = np.random.default_rng(1)
    low, high = (-149, 128) if dtype == "float32" else (-1074, 1024)
    sizes = 2.0 ** rng.uniform(low, high, 1500)
    near_one = 1 + rng.uniform(-0.5, 1, 1500) * 2.0 ** -rng.uniform(0, 20, 1500)
    x = np.concatenate([sizes, near_one]).astype(dtype)
    x = x[np.isfinite(x) & (x > 0) & (x != 1)]
    assert errors(logarithms(x), x, Decimal.ln).max() <= LOG_ULPS[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exponentials(dtype: str) -> None:
    """Over two periods of the reduced argument: elsewhere it is the same polynomial, times a power of two."""
    t = np.random.default_rng(2).uniform(0, 1.4, 3000).astype(dtype)
    found = softplus(t)
    # What is off in the sum is off in the logarithm, in its own last places.
    sums = 1 + np.exp(-t.astype(np.float64))
    grown = np.spacing(sums.astype(dtype)) / sums / np.spacing(found)
    off = errors(found, t, lambda value: (1 + (-value).exp()).ln())
    assert (off <= SUM_ULPS[dtype] * grown + LOG_ULPS[dtype]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exponentials_of_any_size(dtype: str) -> None:
    """2^k equal elements weigh 2^k exactly: k counts the powers of two that a small exponential is scaled by."""
    for k in range(1, 17):
        t = np.float64(k * np.log(2)).astype(dtype)
        x = np.full(1 + 2**k, -t)
        x[0] = 0
        exact = np.log1p(np.exp(k * np.log(2) - np.float64(t)))
        assert abs(np.float64(fw.logsumexp(x)) - exact) <= 8 * np.spacing(np.asarray(exact, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_do_not_turn_back(dtype: str) -> None:
    x = np.linspace(0.3, 3, 200_001).astype(dtype)
    assert (np.diff(logarithms(x)) >= 0).all()


@contextmanager
def kernels_of(isa: str) -> Iterator[None]:
    in_use = engine.isa()
    engine.use_isa(isa)
    try:
        yield
    finally:
        engine.use_isa(in_use)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_fused_steps_have_the_same_bits_where_there_are_none(dtype: str) -> None:
    """SSE2 puts them together from other steps: of NaNs, of infinities, of what is far too small to count, too."""
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((400, 700)) * 10 ** rng.uniform(-3, 2, 700)).astype(dtype)
    x[rng.random(x.shape) < 0.01] = -np.inf
    x[7, 3], x[8, 4], x[:, 5], x[9:11, 6] = np.nan, np.inf, -np.inf, np.inf
    for axis in (0, 1, None):
        found = set()
        for isa in ISAS:
            with kernels_of(isa):
                sums = np.asarray(fw.logsumexp(x, axis=axis))
                running = fw.logcumsumexp(x[:, :40], axis=axis or 0)
                found.add(sums.tobytes() + running.tobytes())
        assert len(found) == 1
