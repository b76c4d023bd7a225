"""Products that leave the range of their dtype have the bits of the canonical tree, whose exponents have no end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases
import numpy as np
import processes
import pytest
import trees
from exact import same_bits
from marks import EVERY_ISA
from trees import Array

import foldwise as fw

SHAPES = (
    *(((9,), 0), ((1000,), 0), ((5003,), 0), ((70_000,), 0), ((40, 100), 1), ((300, 17), 1), ((3, 2600), 1)),
    *(((5, 70), 0), ((100, 40), 0), ((1030, 7), 0), ((2600, 37), 0), ((4100, 130), 0), ((3, 900, 20), 1)),
    ((6000, 3), 0),
)


def leaving(kind: np.dtype[Any], shape: tuple[int, ...]) -> Iterator[Array]:
    """They fall, hover where numbers lose digits, rise, come back, or hold what has no exponent."""
    rng = np.random.default_rng(len(shape) + shape[0])
    limits = trees.limits_of(kind)
    widest = float(limits.maxexp)
    yield rng.random(shape).astype(kind)
    yield (rng.standard_normal(shape) * 1.5).astype(kind)
    yield np.exp2(rng.uniform(-widest / 7, widest / 9, shape)).astype(kind)  # some are more than eight may be
    hovering = np.exp2(rng.uniform(-1, 1, shape))
    hovering[0] *= float(limits.smallest_normal) / 64 if len(shape) == 1 else 1
    yield hovering.astype(kind)
    special = rng.uniform(-1.9, 1.9, shape).astype(kind).reshape(-1)
    special[special.size // 3], special[special.size * 2 // 3] = 0, -0.0
    special[special.size * 3 // 4], special[special.size * 4 // 5 :: 311] = np.inf, limits.smallest_subnormal
    special[-1] = np.nan
    yield special.reshape(shape)


def check(dtype: str) -> None:
    kind = cases.dtype_of(dtype)
    for shape, axis in SHAPES:
        for turn, x in enumerate(leaving(kind, shape)):
            for some in (x, x[::-1]) if len(shape) > 1 else (x,):
                found, wanted = fw.prod(some, axis=axis), trees.reduced(trees.PROD, some, (axis,), kind)
                assert same_bits(np.asarray(found), wanted), ("prod", dtype, shape, axis, turn)
            ways: list[dict[str, Any]] = [{}, {"reverse": True}, {"exclusive": True}]
            for options in ways:
                found, wanted = fw.cumprod(x, axis=axis, **options), trees.scanned(trees.PROD, x, axis, kind, **options)
                assert same_bits(found, wanted), ("cumprod", dtype, shape, axis, turn, options)


@EVERY_ISA
@pytest.mark.parametrize("dtype", cases.FLOATS)
def test_products_that_leave_the_range(isa: str, dtype: str) -> None:
    script = f"import test_products; test_products.check({dtype!r})"
    processes.output("-c", script, FOLDWISE_ISA=isa, FOLDWISE_NUM_THREADS="1")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_running_products_on_several_threads(dtype: str) -> None:
    """Long enough that a line is shared out: threads hand on products whose exponents have no end."""
    fw.set_num_threads(3)
    x = np.random.default_rng(3).uniform(0.4, 1.6, 1_500_000).astype(dtype)
    assert same_bits(fw.cumprod(x), trees.scanned(trees.PROD, x, 0, x.dtype))
    assert same_bits(np.asarray(fw.prod(x)), trees.reduced(trees.PROD, x, (0,), x.dtype))
