"""The references agree with each other where they should, and can tell a wrong result from a right one."""

from __future__ import annotations

import math
from fractions import Fraction

import cases
import domains
import exact
import numpy as np
import pytest
import trees

FLOAT_TYPES = [cases.dtype_of(name) for name in cases.FLOATS]


def test_every_domain_is_what_it_says() -> None:
    rng = np.random.default_rng(1)
    halves = domains.there_and_back(rng, np.dtype(np.float32), 1000)
    with np.errstate(over="ignore", under="ignore"):
        assert not np.isfinite(halves[:500].prod()) or halves[:500].prod() == 0
    assert domains.subnormal(rng, np.dtype(np.float32), 100).astype(np.float64).max() < 2.0**-126
    found = domains.special(rng, np.dtype(np.float16), 10_000)
    assert np.isnan(found).any()
    assert np.isposinf(found).any()
    assert np.isneginf(found).any()
    assert (np.signbit(found) & (found == 0)).any()


@pytest.mark.parametrize("layout", cases.LAYOUTS)
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_layouts_keep_the_values(layout: str, dtype: str) -> None:
    domain = cases.domains_of(cases.FOLDS[0], dtype)[0]
    for shape in cases.SHAPES:
        plain, view = cases.values(dtype, domain, shape), cases.laid_out(dtype, domain, shape, layout)
        assert view.shape == plain.shape
        if layout not in ("first repeated", "last repeated", "windows"):
            assert view.astype(plain.dtype).tobytes() == plain.tobytes()


def test_layouts_are_what_they_say() -> None:
    plain = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    made = {name: layout(plain) for name, layout in cases.LAYOUTS.items()}
    assert made["Fortran"].flags.f_contiguous
    assert made["rolled axes"].strides == (12, 4, 24)
    assert made["every second"].strides == (384, 64, 8)
    assert made["backwards"].strides == (-48, -16, -4)
    assert made["every second backwards"].strides == (-384, -64, -8)
    assert made["first repeated"].strides[0] == 0
    assert made["last repeated"].strides[2] == 0
    assert made["windows"].strides == (4, 4, 4)
    assert not made["byte-swapped"].dtype.isnative
    assert not made["unaligned"].flags.aligned
    assert not made["read-only"].flags.writeable
    assert not made["awkward"].dtype.isnative
    assert not made["awkward"].flags.aligned
    assert max(made["awkward"].strides) < 0


def test_memory_order() -> None:
    x = np.arange(6).reshape(2, 3)
    assert trees.memory_order(x, (0, 1)).tolist() == [0, 1, 2, 3, 4, 5]
    assert trees.memory_order(x.T, (0, 1)).tolist() == [0, 1, 2, 3, 4, 5]
    assert trees.memory_order(x[::-1, ::-1], (0, 1)).tolist() == [0, 1, 2, 3, 4, 5]
    assert trees.memory_order(x, (0,)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert trees.memory_order(x, (1,)).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert trees.memory_order(np.broadcast_to(x[:, :1], (2, 3)), (0, 1)).tolist() == [0, 0, 0, 3, 3, 3]


def test_the_lanes_of_a_reduction() -> None:
    """A lane is folded from left to right: small numbers after a large one get lost one by one."""
    x = np.zeros(64 * 4, np.float32)
    x[0], x[64:256:64] = 2.0**24, 1
    assert trees.reduced(trees.SUM, x, (0,), x.dtype) == 2.0**24
    y = np.roll(x, -64)  # the large one last: the others are summed first
    assert trees.reduced(trees.SUM, y, (0,), x.dtype) == 2.0**24 + 4  # 2**24 + 3, ties to even


def test_the_packs_of_a_scan() -> None:
    """The third of a pack meets the sum of the first two, the fourth joins the third first."""
    x = np.array([2.0**53, 1, 1, 1], np.float64)
    assert trees.scanned(trees.SUM, x, 0, x.dtype).tolist() == [2.0**53, 2.0**53, 2.0**53, 2.0**53 + 2]


@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
def test_rounding_once(dtype: np.dtype[np.generic]) -> None:
    """From float64, to nearest, ties to even, by exact arithmetic."""
    rng = np.random.default_rng(2)
    limits = trees.limits_of(dtype)
    near_ties = (1 + rng.integers(0, 64, 200) * 2.0 ** (limits.machep - 1)) * (
        1 + rng.integers(-1, 2, 200) * 2.0**-52
    )
    values = near_ties * 2.0 ** rng.integers(max(limits.minexp, -1000), 10, 200)
    for value, found in zip(values, trees.rounded(values, dtype), strict=True):
        distance = abs(Fraction(float(found)) - Fraction(value))
        for other in (np.nextafter(found, dtype.type(np.inf)), np.nextafter(found, dtype.type(-np.inf))):
            further = abs(Fraction(float(other)) - Fraction(value))
            assert distance < further or (distance == further and even(found))


def even(value: np.generic) -> bool:
    return int(value.view(f"u{value.itemsize}")) % 2 == 0


def test_exact_sums_and_products_are_those_of_fractions() -> None:
    x = domains.wide(np.random.default_rng(3), np.dtype(np.float64), 50)
    fractions = [Fraction(v) for v in x.tolist()]
    for oracle, wanted in ((exact.sums, sum(fractions)), (exact.products, math.prod(fractions))):
        integer, exponent = oracle(x, "reduce")
        assert Fraction(int(integer)) * Fraction(2) ** int(exponent) == wanted
    assert float(
        Fraction(int(exact.sums(x, "reduce")[0])) * Fraction(2) ** int(exact.sums(x, "reduce")[1])
    ) == math.fsum(x)


@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
def test_the_bound_rejects_what_is_wrong(dtype: np.dtype[np.generic]) -> None:
    unit = float(trees.limits_of(dtype).eps)
    accumulator = np.dtype(np.float64)
    one = (1, 0)
    assert exact.Bound(0, accumulator, dtype).holds(dtype.type(1), one, one)
    assert not exact.Bound(0, accumulator, dtype).holds(dtype.type(1 + unit), one, one)
    assert not exact.Bound(0, accumulator, dtype).holds(dtype.type(np.nan), one, one)
    assert not exact.Bound(0, accumulator, dtype).holds(dtype.type(np.inf), one, one)
    assert exact.Bound(0, accumulator, dtype).holds(dtype.type(np.inf), (1, 2000), (1, 2000))
    assert not exact.Bound(0, accumulator, dtype).holds(dtype.type(-np.inf), (1, 2000), (1, 2000))
    assert exact.Bound(0, accumulator, dtype).holds(dtype.type(0), (1, -2000), (1, -2000))
    # u = 2**-11 here: two roundings may move the result by two u of the magnitude, and not by three.
    half = np.dtype(np.float16)
    assert exact.Bound(2, half, half).holds(np.float16(1 + 2**-10), one, one)
    assert not exact.Bound(2, half, half).holds(np.float16(1 + 2**-9), one, one)


def test_integers_wrap_and_clamp() -> None:
    values = np.array([-129, -128, 127, 128, 300], object)
    assert exact.wrapped(values, np.dtype(np.int8)).tolist() == [127, -128, 127, -128, 44]
    assert exact.clamped(values, np.dtype(np.int8)).tolist() == [-128, -128, 127, 127, 127]
    assert exact.clamped(values, np.dtype(np.uint8)).tolist() == [0, 0, 127, 128, 255]
