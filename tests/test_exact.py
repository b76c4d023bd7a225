"""accuracy="exact": the exact value rounded once, whatever the data, the memory, the options, the ISA, the threads.

`HYPOTHESIS_PROFILE=explore` makes twenty times as many calls, other ones in each run, and longer rows.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from typing import Any

import cases
import domains
import exact_calls
import exactly
import hard
import hypothesis
import large_arrays
import numpy as np
import processes
import pytest
from exact import same_bits
from exact_calls import Call, exactly_folded
from marks import EVERY_FLOAT, EVERY_KIND, EVERY_WHOLE
from trees import Array, limits_of

import foldwise as fw

STEADY = bool(hypothesis.settings().derandomize)
FIRST = 0 if STEADY else random.SystemRandom().randrange(2**40)
COUNT = hypothesis.settings().max_examples  # of the calls for each fold and dtype; a call is many cases
LONGEST = 4000 if STEADY else 100_000
CASES = 10**4 if STEADY else 10**6

EVERY_COLUMN = pytest.mark.parametrize(("fold", "dtype"), list(itertools.product(exact_calls.FOLDS, cases.FLOATS)))


def array(values: Any, dtype: str) -> Array:
    return np.array(values, np.float64).astype(cases.dtype_of(dtype))


def rows_of(kind: hard.Kind, dtype: str, rows: int, length: int) -> Array:
    return kind(exact_calls.generator(kind.__name__, dtype), cases.dtype_of(dtype), rows, length)


# ---- any data, any axes, any memory, any options, on every ISA


@functools.cache
def wanted_digests(fold: str, dtype: str) -> Array:
    calls = exact_calls.calls(fold, dtype, FIRST, COUNT, LONGEST)
    return np.array([cases.digest(call.wanted()) for call in calls], np.int64)


@pytest.fixture(scope="module", params=cases.ISAS)
def digests(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("digests") / f"{request.param}.npz"
    which = [str(path), str(FIRST), str(COUNT), str(LONGEST)]
    processes.output(str(processes.TESTS / "exact_calls.py"), *which, FOLDWISE_ISA=request.param)
    return np.load(path)


@pytest.mark.parametrize("way", exact_calls.WAYS)
@EVERY_COLUMN
def test_the_exact_value_is_rounded_once_on_every_isa(digests: Any, fold: str, dtype: str, way: str) -> None:
    found, wanted = digests[f"{fold} {dtype} {way}"], wanted_digests(fold, dtype)
    assert found.shape == wanted.shape
    different = (FIRST + np.flatnonzero(found != wanted)).tolist()
    assert not different, differences([exact_calls.drawn(fold, dtype, number, LONGEST) for number in different], way)


def differences(calls: list[Call], way: str) -> str:
    """The first calls that differ, with the first results that this process makes differently."""
    described = [difference(call, exact_calls.WAYS[way]) for call in calls[:10]]
    return "\n".join([f"{len(calls)} calls differ, the first:", *described])


def difference(call: Call, module: Any) -> str:
    wanted, found = call.wanted(), call.found(module)
    if found.shape != wanted.shape:
        return f"{call}: wanted {wanted.shape}, here {found.shape}"
    places = map(tuple, np.argwhere(exactly.words_of(wanted) != exactly.words_of(found))[:3].tolist())
    words = [f"  {place}: wanted {wanted[place]!r}, here {found[place]!r}" for place in places]
    return "\n".join([str(call), *words])


def test_there_are_calls_enough_of_every_sort() -> None:
    columns = itertools.product(exact_calls.FOLDS, cases.FLOATS)
    calls = [call for each in columns for call in exact_calls.calls(*each, FIRST, COUNT, LONGEST)]
    assert sum(call.rows for call in calls if call.length) >= CASES
    assert {call.kind for call in calls} == {kind.__name__ for kind in hard.KINDS}
    assert {call.arrangement for call in calls} == set(exact_calls.ARRANGEMENTS)
    assert {call.layout for call in calls} == set(exact_calls.LAYOUTS)
    names = {name for call in calls for name, _ in call.options}
    assert names >= {"axis", "dtype", "out", "keepdims", "where", "initial", "exclusive", "reverse", "include_initial"}
    lengths = {call.length for call in calls}
    assert min(lengths) == 0
    assert max(lengths) > LONGEST * 0.8


# ---- threads


@functools.lru_cache(maxsize=6)
def large(dtype: str, shape: tuple[int, ...]) -> Array:
    return rows_of(hard.forty_binades, dtype, 1, math.prod(shape)).reshape(shape)


@EVERY_COLUMN
def test_any_number_of_threads_gives_the_same_bits(fold: str, dtype: str) -> None:
    """Each fold of each dtype has a third of the shapes, into that dtype or float64: all of them come up."""
    turn = exact_calls.FOLDS.index(fold) + cases.FLOATS.index(dtype)
    for shape, axes_list in large_arrays.SHAPES[turn % 3 :: 3]:
        x = large(dtype, shape)
        out = np.dtype(np.float64) if turn % 2 else x.dtype
        for axes in axes_list:
            if fold == "cumsum" and len(axes) > 1:
                continue
            results = []
            for count in (1, 2, 3):
                fw.set_num_threads(count)
                axis = axes[0] if fold == "cumsum" else axes
                results.append(exactly_folded(fold, x, axis=axis, dtype=out))
            assert same_bits(results[0], results[1]), (shape, axes)
            assert same_bits(results[0], results[2]), (shape, axes)


@EVERY_COLUMN
def test_shared_work_is_exact(fold: str, dtype: str) -> None:
    """Of a scan the prefixes at some places: each is a sum."""
    fw.set_num_threads(3)
    x = large(dtype, (1_000_003,))
    scan = fold == "cumsum"
    ends = [1, 2, 4097, 70_001, 1_000_002, len(x)] if scan else [len(x)]
    for out in (x.dtype, np.dtype(np.float64)):
        found = np.atleast_1d(exactly_folded(fold, x, dtype=out))
        for end in ends:
            wanted = exactly.reduced("sum" if scan else fold, x[:end, np.newaxis], out)
            assert same_bits(found[end - 1] if scan else found[0], wanted[0]), (out, end)


# ---- what follows from that, without the oracle

PARTS = ((-1, 1), (1, -1), (-1, 20), (20, -1), (7, 30, 12))


@EVERY_FLOAT
@EVERY_KIND
def test_no_order_shows(kind: hard.Kind, dtype: str) -> None:
    rng = exact_calls.generator(dtype)
    for length in (3, 16, 100, 2520):
        x = rows_of(kind, dtype, 1, length)[0]
        words = exactly.words_of(x)
        orders = [words[::-1].copy(), np.sort(words), *(rng.permutation(words) for _ in range(3))]
        others = [order.view(x.dtype) for order in orders]
        parts = [x.reshape(shape) for shape in PARTS if length % abs(math.prod(shape)) == 0]
        for fold in exactly.FOLDS:
            wanted = exactly_folded(fold, x)
            for other in (*others, *parts, *(part.T.copy() for part in parts)):
                assert same_bits(exactly_folded(fold, other), wanted), (fold, other.shape)


@EVERY_FLOAT
@EVERY_KIND
def test_the_last_of_a_running_sum_is_the_sum(kind: hard.Kind, dtype: str) -> None:
    for rows, length in ((40, 1), (40, 9), (20, 300), (2, 5000)):
        x = rows_of(kind, dtype, rows, length)
        for axis, view in ((1, x), (0, x.T.copy()), (0, x.T)):
            running, total = exactly_folded("cumsum", view, axis=axis), exactly_folded("sum", view, axis=axis)
            assert same_bits(running.take(-1, axis), total)
            backwards = exactly_folded("cumsum", view, axis=axis, reverse=True)
            assert same_bits(backwards.take(0, axis), total)


@EVERY_FLOAT
@EVERY_KIND
def test_longer_rows(kind: hard.Kind, dtype: str) -> None:
    """Whole buffers and more of them than the calls above have; the longest without a thread to help."""
    for length in (16_385, 100_000):
        x = rows_of(kind, dtype, 1, length)
        for fold in ("sum", "sumsquare"):
            assert same_bits(exactly_folded(fold, x[0]), exactly.reduced(fold, x.T, x.dtype)[0]), (fold, length)
    x = rows_of(kind, dtype, 1, 5000)
    for out in dict.fromkeys((x.dtype, np.dtype(np.float32), np.dtype(np.float64))):
        assert same_bits(exactly_folded("cumsum", x[0], dtype=out), exactly.scanned(x.T, out)[:, 0]), out


@EVERY_FLOAT
@EVERY_KIND
def test_many_sums_of_few(kind: hard.Kind, dtype: str) -> None:
    for length, out in itertools.product((2, 3, 7), (dtype, "float32", "float64")):
        ordinary = np.resize(np.arange(-40, 61) / 8, (1200, length)).astype(cases.dtype_of(dtype))
        x = np.concatenate([ordinary, rows_of(kind, dtype, 20, length), ordinary])  # hard ones among them
        wanted = exactly.reduced("sum", x.T, cases.dtype_of(out))
        found = [exactly_folded("sum", x, axis=1, dtype=out), exactly_folded("sum", x.T.copy(), axis=0, dtype=out)]
        assert all(same_bits(each, wanted) for each in found), (length, out)


@EVERY_FLOAT
@EVERY_KIND
@pytest.mark.parametrize("length", [2049, 4100, 8192, 20_001])
def test_rows_of_some_blocks(kind: hard.Kind, dtype: str, length: int) -> None:
    """Ordinary rows beside hard ones, which share a check or not; rows lie one after the other, apart, or backwards."""
    x = rows_of(kind, dtype, 20, length + 7)
    x[4:13] = np.linspace(-1, 1, length + 7)
    for rows in (np.ascontiguousarray(x[:, :length]), x[:, :length], x[::-2, :length]):
        assert same_bits(exactly_folded("sum", rows, axis=1), exactly.reduced("sum", rows.T, rows.dtype))


@EVERY_FLOAT
def test_rows_of_some_blocks_from_memory(dtype: str) -> None:
    """Hard rows of every kind, one after the other: no row shows in the next."""
    for length in (2049, 20_001):
        some = np.concatenate([rows_of(kind, dtype, 2, length) for kind in hard.KINDS])
        alone = np.array([exactly_folded("sum", row) for row in some])
        many = np.arange((16 << 20) // some[0].nbytes) % len(some)
        assert same_bits(exactly_folded("sum", some[many], axis=1), alone[many]), length


@EVERY_FLOAT
@EVERY_KIND
def test_a_few_interleaved_lines(kind: hard.Kind, dtype: str) -> None:
    """Lines that are taken apart and put together again, as long ones and as short ones."""
    for count in (2, 3, 4):
        x = rows_of(kind, dtype, count, 2500)
        together = x.T.copy()
        for out, reverse in itertools.product((x.dtype, np.dtype(np.float64)), (False, True)):
            options = {"dtype": out, "reverse": reverse, "exclusive": reverse and count == 3}
            for axis in (0, 1):
                found = exactly_folded("cumsum", together, axis=1 - axis, **options)
                assert same_bits(found, exactly_folded("cumsum", x, axis=axis, **options).T), (count, axis, options)


@EVERY_FLOAT
@EVERY_KIND
def test_short_running_sums_one_after_the_other(kind: hard.Kind, dtype: str) -> None:
    """Results that adjoin leave together, of ordinary lines beside hard ones; those that lie apart leave alone."""
    for length in (65, 200, 341, 512, 513):
        x = rows_of(kind, dtype, 30, length)
        x[4:13] = np.linspace(-1, 1, length)
        wanted = exactly.scanned(x.T, x.dtype).T
        assert same_bits(exactly_folded("cumsum", x, axis=1), wanted), length
        apart = np.zeros((30, length + 3), x.dtype)
        exactly_folded("cumsum", x, axis=1, out=apart[:, 1:-2])
        assert same_bits(apart[:, 1:-2], wanted), length
        assert not np.any(apart[:, [0, -2, -1]]), length
        wide = np.dtype(np.float64)
        assert same_bits(exactly_folded("cumsum", x, axis=1, dtype=wide), exactly.scanned(x.T, wide).T), length


@EVERY_FLOAT
def test_short_running_sums_past_the_caches(dtype: str) -> None:
    length, rows = 200, (20 << 20) // (200 * cases.dtype_of(dtype).itemsize)
    x = np.resize(rows_of(hard.normal, dtype, 97, length), (rows, length))
    few = exactly_folded("cumsum", x[:97].copy(), axis=1)
    assert same_bits(exactly_folded("cumsum", x, axis=1), np.resize(few, x.shape))


def test_a_few_interleaved_lines_on_threads() -> None:
    x = rows_of(hard.normal, "float32", 3, 400_000)
    for count in (1, 2, 3):
        fw.set_num_threads(count)
        assert same_bits(exactly_folded("cumsum", x.T.copy(), axis=0), exactly_folded("cumsum", x, axis=1).T)


@EVERY_FLOAT
def test_one_small_number_is_not_lost_among_ones(dtype: str) -> None:
    """Wherever it is: whatever adds some elements in a shorter type has to notice."""
    small = 2.0**-20
    for length, share in itertools.product((9, 64, 200, 1000, 9000), (0, 0.5, 1)):
        place = round((length - 1) * share)
        x = np.ones((length, 40), cases.dtype_of(dtype))
        x[place] = small
        wanted = length - 1 + small
        for view, axis in ((x, 0), (x[:, :3].copy(), 0), (x.T.copy(), 1), (x[:, 0].copy(), 0)):
            found = np.atleast_1d(exactly_folded("sum", view, axis=axis, dtype=np.float64))
            assert (found == wanted).all(), (length, place, view.shape)


@EVERY_FLOAT
@pytest.mark.parametrize("fold", ["sum", "sumsquare"])
def test_no_column_shows_in_another(fold: str, dtype: str) -> None:
    """Columns over every exponent among ordinary ones, at other places in each part that a thread takes at a time."""
    fw.set_num_threads(1)
    rng = exact_calls.generator(fold, dtype)
    kind = cases.dtype_of(dtype)
    columns = 3 * 32768 // kind.itemsize
    x = hard.normal(rng, kind, 140, columns)
    difficult = np.repeat(rng.random(columns // 64) < 0.2, 64)
    x[:, difficult] = hard.every_exponent(rng, kind, 140, int(difficult.sum()))
    found = exactly_folded(fold, x, axis=0)
    assert same_bits(found, exactly_folded(fold, x.T.copy(), axis=1))
    assert same_bits(found[5::64], exactly.reduced(fold, x[:, 5::64], kind))


@EVERY_FLOAT
@EVERY_KIND
def test_no_axis_folds_each_element_by_itself(kind: hard.Kind, dtype: str) -> None:
    """Rounded into the result's dtype; a zero is positive here, too."""
    x = rows_of(kind, dtype, 9, 40)
    for fold, out in itertools.product(exactly.FOLDS, cases.FLOATS):
        wanted = exactly.reduced(fold, x.reshape(1, -1), cases.dtype_of(out)).reshape(x.shape)
        assert same_bits(exactly_folded(fold, x, axis=(), dtype=out), wanted), (fold, out)


@EVERY_FLOAT
def test_running_sums_in_place(dtype: str) -> None:
    arrays = [rows_of(hard.any_exponent, dtype, 60, 70)]
    arrays += [rows_of(kind, dtype, 2, 3000) for kind in (hard.forty_binades, hard.every_exponent, hard.halfway)]
    for x, axis, reverse, exclusive in itertools.product(arrays, (0, 1), (False, True), (False, True)):
        options: dict[str, Any] = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
        wanted = exactly_folded("cumsum", x, **options)
        work = x.copy()
        assert exactly_folded("cumsum", work, out=work, **options) is work
        assert same_bits(work, wanted), options


@EVERY_FLOAT
def test_one_nan(dtype: str) -> None:
    """Positive, quiet, without a payload, whatever went in; infinities of both signs, too."""
    kind = cases.dtype_of(dtype)
    sign = 1 << (8 * kind.itemsize - 1)
    infinity, nan = exactly.infinity_of(kind), exactly.nan_of(kind)
    for odd_ones in ((nan,), (nan | sign,), (infinity + 1,), (nan + 3,), (infinity, infinity | sign)):
        for length in (2, 70, 3000):
            x = np.ones(length, kind)
            x[-len(odd_ones) :] = exactly.from_words(odd_ones, kind)
            for fold in exact_calls.FOLDS:
                if len(odd_ones) == 1 or fold not in exactly.SIGNLESS:
                    last = np.atleast_1d(exactly_folded(fold, x))[-1]
                    assert same_bits(last, exactly.from_words(nan, kind)), (fold, length)


# ---- integers


@EVERY_WHOLE
def test_integers_were_exact_before(dtype: str) -> None:
    for shape, domain in itertools.product(cases.FEW_SHAPES, cases.domains_of(cases.BY_NAME["sum"], dtype)):
        x = cases.values(dtype, domain, shape)
        for fold in ("sum", "l1", "sumsquare", "cumsum"):
            for axis in range(x.ndim):
                wanted = getattr(fw, fold)(x, axis=axis)
                assert same_bits(exactly_folded(fold, x, axis=axis), wanted), (fold, shape, axis)


@EVERY_WHOLE
def test_quotients_and_roots_of_integers(dtype: str) -> None:
    for shape, domain in itertools.product(
        ((1, 500), (2, 500), (3, 500), (64, 50), (3000, 3)), cases.domains_of(cases.BY_NAME["sum"], dtype)
    ):
        x = cases.values(dtype, domain, shape)
        for fold in ("mean", "l2"):
            wanted = exactly.of_integers(fold, x)
            assert same_bits(exactly_folded(fold, x, axis=0), wanted), (fold, shape)
            assert same_bits(exactly_folded(fold, x.T.copy(), axis=1), wanted), (fold, shape)


def test_one_integer_alone() -> None:
    assert exactly_folded("l2", np.array(-5)) == 5
    assert exactly_folded("sum", np.array(2**53 + 3), dtype=np.float32) == np.float32(2**53)
    assert exactly_folded("mean", np.array(2**63 + 2**12, np.uint64), dtype=np.float64) == 2.0**63 + 2**12
    assert fw.mean(np.array(3), where=True) == 3


def test_integers_beyond_64_and_128_bits() -> None:
    most = np.full(6, 2**64 - 1, np.uint64)
    assert exactly_folded("mean", most) == float(2**64 - 1)
    assert exactly_folded("l2", most) == math.sqrt(6) * 2.0**64
    assert exactly_folded("mean", np.array([2**53 + 1, 2**53 + 1])) == 2.0**53
    assert exactly_folded("mean", np.array([2**53 + 1] * 99 + [2**53 + 2])) == 2.0**53 + 2


# ---- typed by hand

INF, NAN = math.inf, math.nan
MOST, LEAST = limits_of(np.dtype(np.float64)).max, 5e-324
ULP = 2.0**971  # of MOST
BY_HAND: tuple[tuple[str, str, list[float], Any], ...] = (
    ("sum", "float64", [1e308, 1e308, -1e308], 1e308),
    ("sum", "float64", [1, 1e100, 1, -1e100], 2),
    ("sum", "float64", [0.1] * 10, 1),
    ("sum", "float64", [2.0**53, 1], 2.0**53),
    ("sum", "float64", [2.0**53, 1, LEAST], 2.0**53 + 2),
    ("sum", "float64", [2.0**53, 1, -LEAST], 2.0**53),
    ("sum", "float64", [2.0**53 + 2, 1], 2.0**53 + 4),
    ("sum", "float64", [-(2.0**53) - 2, -1, LEAST], -(2.0**53) - 2),
    ("sum", "float64", [MOST, MOST, LEAST, -MOST, -MOST], LEAST),
    ("sum", "float64", [MOST, ULP / 2], INF),
    ("sum", "float64", [MOST, ULP / 2, -LEAST], MOST),
    ("sum", "float64", [-MOST, -ULP / 2], -INF),
    ("sum", "float64", [2.0**-1022, -LEAST], 2.0**-1022 - LEAST),
    ("sum", "float32", [2.0**24, 1, 2.0**-149], 2.0**24 + 2),
    ("sum", "float16", [1] * 60_000, 60_000),
    ("sum", "float16", [65504, 16], INF),
    ("sum", "float16", [65504, 16, -(2.0**-24)], 65504),
    ("sum", "float16", [2048, 1], 2048),
    ("sum", "bfloat16", [256, 1], 256),
    ("sum", "bfloat16", [258, 1], 260),
    ("sum", "bfloat16", [256, 1, 2.0**-133], 258),
    ("sum", "float64", [], 0),
    ("sum", "float64", [-0.0], 0),
    ("sum", "float32", [-0.0, -0.0], 0),
    ("sum", "float64", [1, -1, -0.0], 0),
    ("sum", "float64", [INF, MOST, MOST], INF),
    ("sum", "float64", [-INF, MOST], -INF),
    ("sum", "float64", [INF, -INF], NAN),
    ("sum", "float64", [INF, NAN], NAN),
    ("mean", "float64", [], NAN),
    ("mean", "float64", [MOST, MOST], MOST),
    ("mean", "float64", [LEAST, 0], 0),
    ("mean", "float64", [LEAST, LEAST, LEAST, 0], LEAST),
    ("mean", "float64", [1, 1 + 2.0**-52], 1),
    ("mean", "float64", [1 + 2.0**-52, 1 + 2.0**-51], 1 + 2.0**-51),
    ("mean", "float64", [1, 0, 0], 1 / 3),
    ("mean", "float16", [65504] * 3, 65504),
    ("mean", "float64", [-INF, 1], -INF),
    ("l1", "float64", [1, -2, 3], 6),
    ("l1", "float64", [MOST, -MOST], INF),
    ("l1", "float64", [INF, -INF], INF),
    ("l1", "float32", [-(2.0**24), -1, 2.0**-149], 2.0**24 + 2),
    ("sumsquare", "float64", [2.0**-538] * 4, LEAST),
    ("sumsquare", "float64", [2.0**-538, 2.0**-538], 0),
    ("sumsquare", "float64", [2.0**-538, 2.0**-538, LEAST], LEAST),
    ("sumsquare", "float64", [1e200], INF),
    ("sumsquare", "float64", [2.0**27 + 1], 2.0**54 + 2.0**28),
    ("sumsquare", "float64", [2.0**27 + 1, 1], 2.0**54 + 2.0**28),
    ("sumsquare", "float64", [2.0**26 + 1, 2.0**13, LEAST], 2.0**52 + 2.0**27 + 2.0**26 + 1),
    ("l2", "float64", [3 * 2.0**1020, -4 * 2.0**1020], 5 * 2.0**1020),
    ("l2", "float64", [MOST, MOST], INF),
    ("l2", "float64", [LEAST] * 4, 2 * LEAST),
    ("l2", "float64", [LEAST, LEAST], LEAST),
    ("l2", "float16", [3, 4], 5),
    ("l2", "float64", [-INF, 1], INF),
    ("l2", "float64", [], 0),
    ("cumsum", "float64", [1e308, 1e308, -1e308, -1e308], [1e308, INF, 1e308, 0]),
    ("cumsum", "float64", [2.0**53, 1, 1, LEAST], [2.0**53, 2.0**53, 2.0**53 + 2, 2.0**53 + 2]),
    ("cumsum", "float64", [1, 1e100, 1, -1e100], [1, 1e100, 1e100, 2]),
    ("cumsum", "float16", [-0.0, 65504, 16, -16], [0, 65504, INF, 65504]),
    ("cumsum", "float32", [1, INF, 1, -INF, 1], [1, INF, INF, NAN, NAN]),
    ("cumsum", "float32", [], []),
)


@pytest.mark.parametrize(("fold", "dtype", "values", "wanted"), BY_HAND)
def test_typed_by_hand(fold: str, dtype: str, values: list[float], wanted: Any) -> None:
    assert same_bits(exactly_folded(fold, array(values, dtype)), array(wanted, dtype))


def test_no_rounding_on_the_way_to_a_narrower_dtype() -> None:
    """One in between would leave a tie."""
    x = np.array([1, 2.0**-11, 2.0**-60])
    assert exactly_folded("sum", x, dtype=np.float16) == 1 + 2.0**-10
    assert exactly_folded("sum", x[:2], dtype=np.float16) == 1
    assert exactly_folded("sum", np.array([-(2.0**-25), -LEAST]), dtype=np.float16) == -(2.0**-24)
    vanished = exactly_folded("sum", np.array([-(2.0**-25)]), dtype=np.float16)
    assert same_bits(vanished, np.float16(-0.0))


def test_an_initial_value_is_one_more_summand() -> None:
    x = np.array([-60_000], np.float16)
    assert exactly_folded("sum", x, initial=70_000.0) == 10_000
    assert exactly_folded("sum", np.array([2048, 1], np.float16), initial=LEAST) == 2050
    assert exactly_folded("sum", np.array([MOST]), initial=-MOST) == 0
    assert exactly_folded("sum", np.array([[1e308, 1e308]] * 2), axis=1, initial=-1e308).tolist() == [1e308, 1e308]
    assert np.isnan(exactly_folded("sum", np.array([INF]), initial=-INF))
    assert same_bits(exactly_folded("sum", np.array([]), initial=-0.0), np.float64(0.0))


@EVERY_FLOAT
def test_the_default_is_the_canonical_tree(dtype: str) -> None:
    x = cases.values(dtype, domains.normal, (3, 2100))
    for fold in exact_calls.FOLDS:
        function = getattr(fw, fold)
        assert same_bits(function(x, axis=1, accuracy="default"), function(x, axis=1))


@pytest.mark.parametrize("dtype", cases.FLOATS)
@pytest.mark.parametrize("source", ["int64", "uint64"])
def test_running_sums_of_integers_beyond_a_double_are_rounded_once(source: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    kind = np.iinfo(source)
    x = rng.integers(kind.min, kind.max, (3, 200), source, endpoint=True)
    x[0] >>= np.dtype(source).type(50)
    found = exactly_folded("cumsum", x, axis=1, dtype=cases.dtype_of(dtype), reverse=True)
    for row, prefixes in zip(x[:, ::-1].tolist(), found[:, ::-1], strict=True):
        totals = np.array(list(itertools.accumulate(row)), object)
        assert same_bits(prefixes, exactly.rounded(totals, 0, cases.dtype_of(dtype)))
