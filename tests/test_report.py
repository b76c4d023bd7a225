"""sum_report: what it says of a sum is true by exact arithmetic, and a bound is a bound."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import cases
import exact_calls
import exactly
import hard
import numpy as np
import pytest
from exact import same_bits
from marks import EVERY_FLOAT, EVERY_INTEGER, EVERY_KIND
from trees import Array, limits_of

import foldwise as fw

FINITE = tuple(kind for kind in dict.fromkeys(hard.KINDS) if kind is not hard.special)


def exact_sum(values: Array) -> Fraction:
    return sum((Fraction(float(value)) for value in values.tolist()), Fraction(0))


def rounded_up(exact: Fraction) -> float:
    """The least float64 that is not smaller."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def fields_of(report: fw.SumReport, i: Any = ()) -> dict[str, Any]:
    """What a report says of one sum."""
    shaped = {name: np.asarray(each)[i][()] for name, each in report._asdict().items() if name != "first_bad"}
    return {**shaped, "first_bad": report.first_bad}


# ---- floats


@pytest.mark.parametrize("kind", FINITE, ids=lambda kind: kind.__name__)
@EVERY_FLOAT
def test_every_number_is_true(dtype: str, kind: hard.Kind) -> None:
    rng = exact_calls.generator("report", dtype, kind.__name__)
    for length in (1, 7, 300):
        x = kind(rng, cases.dtype_of(dtype), 12, length)
        report = fw.sum_report(x, axis=1)
        assert same_bits(report.value, fw.sum(x, axis=1, accuracy="exact"))
        assert same_bits(report.default, fw.sum(x, axis=1))
        assert report.first_bad is None
        for i, row in enumerate(x):
            check_floats(row, fields_of(report, i))
            one = fields_of(fw.sum_report(row))
            assert {name: str(each) for name, each in one.items()} == {
                name: str(each) for name, each in fields_of(report, i).items()
            }


def check_floats(row: Array, found: dict[str, Any]) -> None:
    exact = exact_sum(row)
    assert found["count"] == len(row)
    assert found["nans"] == found["positive_infinities"] == found["negative_infinities"] == 0
    assert found["overflowed"] == np.isinf(found["value"])
    if np.isfinite(found["value"]):
        off = abs(Fraction(float(found["value"])) - exact)
        assert off <= Fraction(found["bound"])
        assert found["bound"] <= abs(float(found["value"])) * float(limits_of(row.dtype).eps) / 2
    else:
        assert found["bound"] == math.inf
    if np.isfinite(found["default"]):
        assert found["error"] == rounded_up(abs(Fraction(float(found["default"])) - exact))
    else:
        assert found["error"] == math.inf
    magnitudes = exact_sum(np.abs(row))
    if magnitudes == 0:
        assert found["condition"] == 1
    elif exact == 0:
        assert found["condition"] == math.inf
    else:
        assert found["condition"] == pytest.approx(rounded_up(magnitudes / abs(exact)), rel=1e-14)


@EVERY_FLOAT
def test_what_is_no_number_is_counted_and_found(dtype: str) -> None:
    x = hard.special(exact_calls.generator("bad", dtype), cases.dtype_of(dtype), 9, 20)
    for axis, where in itertools.product((0, 1, None), (None, np.arange(20) % 3 > 0)):
        report = fw.sum_report(x, axis=axis, where=where)
        values = exactly.widened(x)
        chosen = np.broadcast_to(True if where is None else where, x.shape)
        nans, above, below = np.isnan(values) & chosen, np.isposinf(values) & chosen, np.isneginf(values) & chosen
        assert np.array_equal(report.nans, nans.sum(axis))
        assert np.array_equal(report.positive_infinities, above.sum(axis))
        assert np.array_equal(report.negative_infinities, below.sum(axis))
        assert np.array_equal(report.count, chosen.sum(axis))
        bad = nans | above | below
        assert report.first_bad == tuple(np.argwhere(bad)[0].tolist())
        assert np.array_equal(np.isnan(report.error), bad.any(axis))
        assert np.array_equal(np.isnan(report.bound), bad.any(axis))
        assert np.array_equal(np.isnan(report.condition), bad.any(axis))
        assert not np.any(report.overflowed & bad.any(axis))


def test_sums_that_overflow_on_the_way_or_at_the_end() -> None:
    largest = 1.7976931348623157e308
    there_and_back = fw.sum_report([largest, largest, 1.0, -largest, -largest])
    assert there_and_back.value == 1
    assert there_and_back.condition == math.inf  # more than float64 can say
    assert not there_and_back.overflowed
    beyond = fw.sum_report([largest, largest, -largest / 2])
    assert (beyond.value, beyond.overflowed, beyond.bound, beyond.first_bad) == (math.inf, True, math.inf, None)
    assert beyond.condition == pytest.approx(5 / 3)
    half = fw.sum_report(np.array([[60_000, 1], [60_000, 1], [-60_000, 1]], np.float16), axis=0)
    assert half.value.tolist() == [60_000, 3]
    assert fw.sum_report(np.full((2, 1), 60_000, np.float16), axis=0).overflowed.tolist() == [True]
    opposite = np.array([largest, -largest] * 32)  # float64 has 32 lanes: one infinity in each
    report = fw.sum_report(np.tile(opposite, 4))
    assert report.value == 0
    assert np.isfinite(report.default) or report.error == math.inf


# ---- integers


@EVERY_INTEGER
def test_integers(dtype: str) -> None:
    rng = exact_calls.generator("report", dtype)
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, (40, 9), dtype, endpoint=True)
    x[:, 0], x[:, 1], x[:, 2] = limits.max, limits.min, 0
    report = fw.sum_report(x, axis=0)
    result = np.iinfo(report.value.dtype)
    overflowed = []
    for i in range(x.shape[1]):
        exact, found = sum(x[:, i].tolist()), fields_of(report, i)
        nearest = min(max(exact, int(result.min)), int(result.max))
        assert found["value"] == nearest
        assert found["default"] == fw.sum(x[:, i])
        assert found["error"] == rounded_up(Fraction(abs(int(found["default"]) - exact)))
        assert found["bound"] == rounded_up(Fraction(abs(nearest - exact)))
        magnitudes = sum(map(abs, x[:, i].tolist()))
        wanted = 1 if magnitudes == 0 else rounded_up(Fraction(magnitudes, abs(exact))) if exact else math.inf
        assert found["condition"] == pytest.approx(wanted, rel=1e-14)
        assert found["overflowed"] == (nearest != exact)
        overflowed += [(i,)] * bool(found["overflowed"])
    assert report.first_bad == (overflowed[0] if overflowed else None)
    assert bool(overflowed) == (limits.bits == 64)


def test_integers_that_wrap_to_where_they_are_clamped() -> None:
    x = [2**63 - 1, 2**63 - 1, 2**63 - 1, 2]  # 2**64 more than the largest
    report = fw.sum_report(x)
    assert report.value == report.default == 2**63 - 1
    assert report.overflowed
    assert report.error == report.bound == 2.0**64
    assert report.first_bad == ()


def test_booleans() -> None:
    report = fw.sum_report(np.array([[True, False], [True, True]]), axis=1)
    assert report.value.tolist() == report.default.tolist() == [1, 2]
    assert report.value.dtype == np.int64


# ---- what is asked for


def test_axes_and_masks() -> None:
    x = exact_calls.generator("axes").standard_normal((3, 4, 5)).astype(np.float32)
    mask = x > -1
    for axis, where in itertools.product((None, 0, (0, 2), (), -1), (None, mask, mask[0, 0])):
        report = fw.sum_report(x, axis, where)
        assert same_bits(np.asarray(report.value), np.asarray(fw.sum(x, axis, where=where, accuracy="exact")))
        assert same_bits(np.asarray(report.default), np.asarray(fw.sum(x, axis, where=where)))
        shapes = {np.shape(each) for each in report[:-1]}
        assert shapes == {np.shape(report.value)}
        assert np.all(
            np.asarray(report.count) == np.sum(np.broadcast_to(True if where is None else where, x.shape), axis)
        )


def test_layouts() -> None:
    x = exact_calls.generator("layouts").standard_normal((6, 7))
    for layout in cases.LAYOUTS.values():
        view = layout(x)
        assert str(fw.sum_report(view, axis=0)._replace(default=0, error=0)) == str(
            fw.sum_report(np.array(view, np.float64), axis=0)._replace(default=0, error=0)
        )


def test_nothing() -> None:
    report = fw.sum_report(np.zeros((0, 2)), axis=0)
    assert report.value.tolist() == report.default.tolist() == report.error.tolist() == report.bound.tolist() == [0, 0]
    assert report.condition.tolist() == [1, 1]
    assert report.count.tolist() == [0, 0]
    assert fw.sum_report(np.zeros((2, 0)), axis=0).value.shape == (0,)
    assert fw.sum_report([]).condition == 1
    assert fw.sum_report(np.zeros((3, 0), np.int8), axis=1).value.tolist() == [0, 0, 0]


@pytest.mark.parametrize("value", [math.nan, -math.inf, np.float32(1.5), 5, np.uint64(2**63 + 1), True])
def test_of_one_number(value: Any) -> None:
    """As of an array that holds it."""
    alone, among = fw.sum_report(value), fw.sum_report(np.atleast_1d(value))
    assert all(same_bits(np.asarray(one), np.asarray(other)) for one, other in zip(alone[:-1], among[:-1], strict=True))
    assert alone.first_bad == (None if among.first_bad is None else ())


def test_it_can_be_read() -> None:
    lines = str(fw.sum_report([1e16, 1.0, -1e16])).splitlines()
    assert [line.split()[0] for line in lines] == list(fw.SumReport._fields)
    assert lines[0].split() == ["value", "1.0"]


def test_refusals() -> None:
    with pytest.raises(fw.ShapeError, match=r"sum_report: x has 64 axes, .* leave one of length 1 away"):
        fw.sum_report(np.ones((1,) * 64))
    with pytest.raises(fw.DtypeError, match=r"^sum_report: x has dtype complex128"):
        fw.sum_report([1j])
    with pytest.raises(fw.AxisError, match=r"^sum_report: axis 1 is out of range"):
        fw.sum_report([1.0], axis=1)
    with pytest.raises(fw.DtypeError, match=r"^sum_report: where has dtype int64"):
        fw.sum_report([1.0], where=[1])


@EVERY_KIND
def test_the_input_is_not_changed(kind: hard.Kind) -> None:
    x = kind(exact_calls.generator("unchanged"), np.dtype(np.float64), 3, 40)
    before = x.tobytes()
    fw.sum_report(x, axis=0)
    assert x.tobytes() == before
