"""accuracy="exact" where sums begin at an anchor, which the first elements choose and the others need not suit."""

from __future__ import annotations

import math

import exact_calls
import numpy as np
import pytest
from exact_calls import exactly_folded

KINDS = ("alike", "turning", "all alike", "normal", "larger", "largest", "far below", "whole", "nothing")


@pytest.mark.parametrize("count", [9400, 20_300, 70_001])
@pytest.mark.parametrize("kind", KINDS)
def test_floats_in_cache(kind: str, count: int) -> None:
    """They take their anchor away, are larger, or leave more bits of it than a float has."""
    rng = exact_calls.generator("anchor", kind, count)
    x = rng.standard_normal(count).astype(np.float32)
    if kind in ("alike", "turning"):
        x = np.where(np.arange(count) < {"alike": count, "turning": 3000}[kind], abs(x), -abs(x))
    elif kind == "all alike":
        x[:] = np.where(rng.random(count) < 0.5, np.float32(1.9999999), np.float32(-1.9999999))
    elif kind == "larger":
        x[3000:] = np.ldexp(x[3000:], rng.integers(-30, 30, count - 3000))
    elif kind == "largest":  # of which no two have a sum among floats
        x[4000:4100] = np.finfo(np.float32).max
        x[4500:4600] = -np.finfo(np.float32).max
    elif kind == "far below":
        x[2000::7] = np.ldexp(x[2000::7], -120)
    elif kind == "whole":  # and all that is lost is of the anchor
        x = np.rint(4 * x)
        x[[4000, 4300, 4301]] = 2.0**30, 2.0**28, -(2.0**31)
    elif kind == "nothing":
        x[:1500] = 0
    for start in (0, 1, 7, 16):  # wherever a line of cache begins
        room = np.zeros(count + 16, np.float32)
        some = room[start : start + count]
        some[:] = x
        for each in (some, -some):
            assert exactly_folded("sum", each, dtype=np.float64) == math.fsum(each.tolist())
        assert exactly_folded("l1", some, dtype=np.float64) == math.fsum(abs(some).tolist())
    x[4800] = np.inf
    assert exactly_folded("sum", x) == np.inf
    x[4900] = -np.inf
    assert math.isnan(exactly_folded("sum", x))


@pytest.mark.parametrize("exponent", range(-3, 16))
def test_doubles_whose_sums_leave_the_range_without_a_rounding(exponent: int) -> None:
    """If this is the anchor's, two lanes come to nothing, and in the end beyond all doubles, and no step is inexact."""
    rng = exact_calls.generator("beyond", exponent)
    x = np.ldexp(rng.uniform(1, 2, (256, 64)), rng.integers(-40, 0, (256, 64))) * rng.choice([-1, 1], (256, 64))
    x[:, 7:9] = 0
    x[200, 7:9] = -1.5 * 2.0**exponent
    x[220, 7:9] = x[-1, 7:9] = 2.0**1023, -(2.0**1023)
    assert exactly_folded("sum", x.ravel()) == math.fsum(x.ravel().tolist())


@pytest.mark.parametrize("anchor", [24, -24, 48, -48])
def test_floats_whose_sums_leave_the_range_without_a_rounding(anchor: float) -> None:
    """The same of floats, whose anchor the size and the sign of the first choose."""
    x = np.tile(np.array([0.75, 0.625], np.float32) * np.float32(anchor / 24), 6600)
    for last, sign in ((-1, 1), (-2, -1)):  # of two lanes
        x[last::-128] = 0
        x[[last - 10 * 128, last - 5 * 128, last]] = -anchor, sign * 2.0**127, sign * 2.0**127
    assert exactly_folded("sum", x) == math.fsum(x.tolist())
