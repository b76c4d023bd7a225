"""The references agree with each other where they should, and can tell a wrong result from a right one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import cases
import domains
import exact
import exactly
import hard
import numpy as np
import pytest
import trees
from marks import EVERY_KIND

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


# ---- exact values, rounded once


@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
def test_the_words_of_infinity_and_nan(dtype: np.dtype[np.generic]) -> None:
    infinity, nan = (exactly.from_words(word(dtype), dtype) for word in (exactly.infinity_of, exactly.nan_of))
    assert exact.same_bits(infinity, np.asarray(np.inf, dtype))
    assert exact.same_bits(nan, np.asarray(np.nan, dtype))


def everywhere(rng: np.random.Generator, dtype: np.dtype[np.generic]) -> list[tuple[int, int]]:
    """Integers and exponents: numbers of the dtype and the middles between them, exactly or nearly; and any at all."""
    found = []
    limits = trees.limits_of(dtype)
    lowest = limits.minexp - limits.nmant
    for kind in (hard.every_exponent, hard.subnormal, hard.largest, hard.all_ones):
        for value in kind(rng, dtype, 1, 50)[0]:
            integer, exponent = exact.scalar(value)
            half = 1 << max(52 - limits.nmant, lowest - exponent) + 59
            found += [((integer << 60) + more + nudge, exponent - 60) for more in (0, half) for nudge in (-1, 0, 1)]
    digits = rng.integers(-(2**62), 2**62, 200) >> rng.integers(0, 62, 200)
    exponents = rng.integers(lowest - 70, limits.maxexp, 200)
    return [*found, *zip(digits.tolist(), exponents.tolist(), strict=True)]


@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
def test_nothing_is_nearer_than_the_rounded_value(dtype: np.dtype[np.generic]) -> None:
    """Infinity stands where the next number would be."""
    limits = trees.limits_of(dtype)
    infinity = Fraction(2) ** limits.maxexp
    ties = 0
    for integer, exponent in everywhere(np.random.default_rng(6), dtype):
        word = exactly.rounded_word(integer, exponent, dtype)
        sign = word >> (8 * dtype.itemsize - 1)
        assert sign == (integer < 0)
        place = word - (sign << (8 * dtype.itemsize - 1))
        value = abs(integer) * Fraction(2) ** exponent
        near = [n for n in (place - 1, place, place + 1) if 0 <= n <= exactly.infinity_of(dtype)]
        values = [float(number) for number in exactly.from_words(near, dtype)]
        distances = {
            n: abs((infinity if math.isinf(number) else Fraction(number)) - value)
            for n, number in zip(near, values, strict=True)
        }
        if value < infinity:
            assert distances[place] == min(distances.values())
        else:
            assert place == exactly.infinity_of(dtype)
        if sorted(distances.values())[:2] == [distances[place]] * 2:
            ties += 1
            assert place % 2 == 0
    assert ties >= 150


def test_rounding_is_that_of_python_and_numpy() -> None:
    """int / int, and conversions of float64 to narrower dtypes, are correctly rounded."""
    rng = np.random.default_rng(7)
    for integer, exponent in everywhere(rng, np.dtype(np.float64)):
        found = exactly.rounded(np.array([integer], object), exponent, np.dtype(np.float64))[0]
        if np.isfinite(found):
            assert found == (integer << max(exponent, 0)) / (1 << max(-exponent, 0))
    for dtype in FLOAT_TYPES[:3]:
        values = hard.halfway(rng, np.dtype(np.float64), 1, 2000)[0]
        near = np.ldexp(rng.standard_normal(3000), rng.integers(-160, 140, 3000))
        values = np.concatenate([values, near, hard.forty_binades(rng, dtype, 1, 500)[0].astype(np.float64)])
        found = exactly.rounded(exactly.addends(values), exactly.UNIT, dtype)
        assert exact.same_bits(np.where(values == 0, values, found).astype(dtype), trees.rounded(values, dtype))



@EVERY_KIND
@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
def test_exact_folds_are_those_of_fractions(kind: hard.Kind, dtype: np.dtype[np.generic]) -> None:
    x = exactly.finite(exactly.widened(kind(np.random.default_rng(8), dtype, 12, 40))).T
    scanned = np.add.accumulate(exactly.addends(x))
    for column in range(x.shape[1]):
        fractions = [Fraction(value) for value in x[:, column].tolist()]
        wanted: dict[str, Any] = {
            "sum": sum(fractions),
            "l1": sum(map(abs, fractions)),
            "mean": sum(fractions) / 40,
            "sumsquare": sum(value * value for value in fractions),
        }
        for fold, value in wanted.items():
            integers, exponent = exactly.FOLDS[fold](x, np.full(x.shape[1], 40))
            distance = Fraction(int(integers[column])) * Fraction(2) ** exponent - value
            assert distance == 0 or (fold == "mean" and abs(distance) < Fraction(2) ** exponent)
        for row in (0, 1, 20, 39):
            assert Fraction(int(scanned[row, column])) * Fraction(2) ** exactly.UNIT == sum(fractions[: row + 1])


@pytest.mark.parametrize("length", [0, 1, 50, 20_000])
def test_exact_sums_are_those_of_fsum(length: int) -> None:
    for kind in (hard.uniform, hard.normal, hard.subnormal, hard.zeros):
        x = kind(np.random.default_rng(length), np.dtype(np.float64), 3, length)
        found = exactly.reduced("sum", x.T, x.dtype)
        assert exact.same_bits(found, np.array([math.fsum(row) for row in x]) + 0.0)
        for end in {length // 2, length} - {0}:
            last = exactly.scanned(x.T, x.dtype)[end - 1]
            assert exact.same_bits(last, exactly.reduced("sum", x[:, :end].T, x.dtype))


def test_exact_roots_and_quotients_stand_for_everything_beyond() -> None:
    """Their last bit is zero if and only if nothing was left over."""
    totals = np.array([0, 1, 2, 9, 10, 2**4000, 2**4000 + 1, 25 * 10**200], object)
    for total, root in zip(totals, exactly.roots(totals), strict=True):
        assert (root % 2 == 0) == (math.isqrt(total) ** 2 == total)
        below, square = (root >> 1) ** 2, total << 2 * exactly.MORE
        assert below == square if root % 2 == 0 else below < square < ((root >> 1) + 1) ** 2
    for total, count in ((0, 3), (3, 3), (-7, 3), (7, 3), (-(2**2000), 7), (1, 4)):
        quotient = exactly.quotients(np.array([total], object), np.array([count]))[0]
        places = Fraction(total << exactly.MORE, count)
        assert abs(quotient) >> 1 == math.floor(abs(places))
        assert quotient % 2 == (places.denominator > 1)
        assert quotient * total >= 0


@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
def test_hard_rows_are_what_they_say(dtype: np.dtype[np.generic]) -> None:
    rng = np.random.default_rng(9)
    limits = trees.limits_of(dtype)

    def totals(kind: hard.Kind, fold: str, length: int = 8, count: int = 400) -> list[Fraction]:
        x = kind(rng, dtype, count, length).astype(np.float64).T
        integers, exponent = exactly.FOLDS[fold](exactly.finite(x), np.full(count, length))
        return [int(integer) * Fraction(2) ** exponent for integer in integers]

    def middles(values: list[Fraction]) -> int:
        return sum(is_middle(value, dtype) for value in values)

    least, most = (Fraction(float(getattr(limits, name))) for name in ("smallest_subnormal", "max"))
    assert middles(totals(hard.neighbours, "mean")) > 100
    assert middles(totals(hard.few_digits, "sumsquare")) > 10
    assert middles(totals(hard.triangles, "l2")) > 50
    sums = [value for _ in range(8) for value in totals(hard.halfway, "sum")]
    assert middles(sums) > 50
    edge = most + (most - Fraction(float(np.nextafter(limits.max, dtype.type(0))))) / 2
    assert {abs(value) - edge for value in sums} >= {0, least, -least}
    assert {0, least, -least} <= set(totals(hard.cancelling, "sum"))
    assert any(0 < abs(value) < 2 ** Fraction(limits.minexp) for value in totals(hard.subnormal, "sum"))
    assert {most, -most, 3 * most, least} <= set(totals(hard.largest, "sum", 3))


def is_middle(value: Fraction, dtype: np.dtype[np.generic]) -> bool:
    """Whether it has one digit more than the dtype, in its range."""
    limits = trees.limits_of(dtype)
    if value == 0 or abs(value) > Fraction(float(limits.max)):
        return False
    scaled = abs(value) / Fraction(2) ** (limits.minexp - limits.nmant - 1)
    if scaled.denominator > 1:
        return False
    digits = scaled.numerator >> ((scaled.numerator & -scaled.numerator).bit_length() - 1)
    return bool(digits.bit_length() == limits.nmant + 2 or scaled.numerator % 2 == 1)
