"""Ways through memory that only some arrays take: the results are those of the others."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import cases
import numpy as np
import pytest
from trees import Array, limits_of

import foldwise as fw


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64", "uint64"])
def test_columns_of_what_has_no_order(dtype: str, threads: int) -> None:
    fw.set_num_threads(threads)
    numbers = np.random.default_rng(5)
    for rows, columns in ((130, 40_001), (2100, 2503), (70_000, 75)):
        x = numbers.integers(0, 2 if dtype == "bool" else 200, (rows, columns)).astype(dtype)
        x[:, ::7] = 0
        x[rows // 2, ::14] = 1
        for part in (x, x[1:, 3:-2], x[::-2]):
            for fold in ("sum", "max", "min", "any", "all"):
                wanted = getattr(np, fold)(part, axis=0)
                assert np.array_equal(getattr(fw, fold)(part, axis=0), wanted), (fold, part.shape)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["bool", "int16", "int64", "float32"])
def test_truths_that_are_decided_somewhere(dtype: str, threads: int) -> None:
    """What comes afterwards is not looked at: it is another's that counts for the next output, or nobody's."""
    fw.set_num_threads(threads)
    for places in ([], [0], [300_000], [799_999], [5, 500_000]):
        x = np.zeros(800_000, dtype)
        x[places] = 1
        for part in (x, x[::-1], x.reshape(4, -1), x.reshape(-1, 4), x.reshape(2, 100_000, 4), x.reshape(2, 4, -1)):
            none = part == 0
            for axis in (None, 0, part.ndim - 1, *([(0, 2)] if part.ndim == 3 else [])):
                assert np.array_equal(fw.any(part, axis=axis), np.any(part, axis=axis)), (places, part.shape, axis)
                assert np.array_equal(fw.all(none, axis=axis), np.all(none, axis=axis)), (places, part.shape, axis)
        both = fw.reduce_many(x, ["any", "all", "sum"])
        assert (bool(both[0]), bool(both[1]), int(both[2])) == (bool(places), False, len(places))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["int32", "float64", "float32", "float16"])
def test_running_sums_backwards_leave_past_the_caches(dtype: str, threads: int) -> None:
    fw.set_num_threads(threads)
    count = 9_000_011  # 16 MiB and more of results
    x = (np.arange(count) * 7919 % 31).astype(dtype)
    turned = fw.cumsum(np.ascontiguousarray(x[::-1]))
    size = turned.itemsize
    room = np.full(count * size + 128, 0xAA, np.uint8)
    for offset in (0, size, 3, 64 - size, 61):
        out = room[offset : offset + count * size].view(turned.dtype)
        fw.cumsum(x, reverse=True, out=out)
        assert np.array_equal(out[::-1], turned), offset
        fw.cumsum(x[::-1], out=out)
        assert np.array_equal(out, turned), offset
        assert (room[:offset] == 0xAA).all()
        assert (room[offset + count * size :] == 0xAA).all()
        room[:] = 0xAA


def in_a_page(shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> Array:
    """A new array that begins so many bytes after a page of memory does."""
    size = math.prod(shape) * dtype.itemsize
    room = np.zeros(size + 2 * 4096, np.uint8)
    first = -room.ctypes.data % 4096 + offset
    return room[first : first + size].view(dtype).reshape(shape)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "int32", "int64"])
def test_running_sums_down_columns_leave_by_lines(dtype: str, threads: int) -> None:
    """Past the caches, whether or not rows begin on lines of cache, they are those along lines, NaN by its bits too."""
    fw.set_num_threads(threads)
    numbers = np.random.default_rng(5).integers(-50, 50, (1043, 8192)).astype(cases.dtype_of(dtype))
    if not dtype.startswith("int"):
        numbers[1029:1036, ::100] = np.copysign(np.nan, -1.0)  # on both sides of a segment's end
        numbers[3, 5000:5100] = np.inf
    for x in (numbers, numbers[:, 3:-5], numbers[::-1]):
        lines = np.ascontiguousarray(x.T)
        ways: list[dict[str, Any]] = [{}, {"exclusive": True}, {"exclusive": True, "reverse": True}]
        for options in ways:
            wanted = np.ascontiguousarray(fw.cumsum(lines, axis=1, **options).T)
            assert fw.cumsum(x, axis=0, **options).tobytes() == wanted.tobytes(), options
            room = np.zeros((x.shape[0], x.shape[1] + 3), wanted.dtype)
            apart = room[:, 1:-2]
            fw.cumsum(x, axis=0, out=apart, **options)
            assert apart.tobytes() == wanted.tobytes(), options
            assert not room[:, 0].any()
            assert not room[:, -2:].any()
            for offset in (0, 4032):  # elements that lie where results do within a page, or a line behind
                y, out = in_a_page(x.shape, x.dtype, offset), in_a_page(x.shape, wanted.dtype, 0)
                y[:] = x
                assert fw.cumsum(y, axis=0, out=out, **options).tobytes() == wanted.tobytes(), (options, offset)


@pytest.mark.parametrize("scan", ["cumsum", "cumprod", "cummax"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
def test_running_results_down_columns_begin_anywhere_on_a_line(dtype: str, scan: str) -> None:
    """In cache, in place too: they are those along lines, and what lies beside them stays."""
    running = getattr(fw, scan)
    a_page_apart = [(19, 4095 // size) for size in (2, 4, 8)]
    for rows, columns in ((21, 160), (1037, 64), (9, 33), (20, 1100), *a_page_apart):
        x = np.random.default_rng(7).integers(1, 4, (rows, columns)).astype(dtype)
        if scan != "cummax" and x.dtype.kind == "f":
            x[rows // 2, ::11] = math.nan
        wanted = running(np.ascontiguousarray(x.T), axis=1).T
        size = wanted.itemsize
        pitch = (columns * size // 64 + 1) * 64  # all rows begin at the same place of a line
        for offset in (*range(0, 64, size), 3):
            room = in_a_page((rows * pitch,), np.dtype(np.uint8), offset)
            out: Array = np.ndarray(x.shape, wanted.dtype, room.data, strides=(pitch, size))
            for source in (x, out):
                room[:] = 77
                out[...] = x
                assert running(source, axis=0, out=out).tobytes() == wanted.tobytes(), (rows, offset)
                assert (room.reshape(rows, pitch)[:, columns * size :] == 77).all(), (rows, offset)
            from_the_end: dict[str, Any] = {"exclusive": True, "reverse": True}
            wanted_so = running(np.ascontiguousarray(x.T), axis=1, **from_the_end).T
            assert running(x, axis=0, out=out, **from_the_end).tobytes() == wanted_so.tobytes(), (rows, offset)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("scale", [0.5, 1.0, 1000.0])
def test_running_products_down_columns(dtype: str, scale: float, threads: int) -> None:
    """They are those along lines, whether or not they leave the range on the way."""
    fw.set_num_threads(threads)
    x = np.random.default_rng(5).uniform(0.5, 1.5, (2600, 37))
    x[:, ::3] *= scale
    x[700::1000, 8], x[50, 20], x[60, 21] = 0, np.nan, np.inf
    x = x.astype(cases.dtype_of(dtype))
    for columns in (x, x[::-1], x[:, ::-2], np.stack([x[:1300], x[1300:]])):
        lines = np.ascontiguousarray(columns.swapaxes(-1, -2))
        ways: list[dict[str, Any]] = [{}, {"reverse": True}, {"exclusive": True}, {"include_initial": True}]
        for options in ways:
            found = fw.cumprod(columns, axis=-2, **options)
            wanted = fw.cumprod(lines, axis=-1, **options).swapaxes(-1, -2)
            assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes(), options


@pytest.mark.parametrize("fold", ["cumsum", "cumprod", "cummax"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_running_results_that_pass_the_caches(fold: str, dtype: str) -> None:
    """At once where they begin on a vector, or by way of the first cache: the bits of fewer, which stay in caches."""
    kind = cases.dtype_of(dtype)
    count = (17 << 20) // kind.itemsize + 77
    x = np.random.default_rng(12).uniform(0.9, 1.1, count)
    x[count // 2 + 5] = np.copysign(np.nan, -1) if kind.kind == "f" else 3  # a NaN like no result
    x = x.astype(kind)
    scan = getattr(fw, fold) if fold == "cummax" else partial(getattr(fw, fold), dtype=kind)
    for threads, options in itertools.product((1, 2), ({}, {"exclusive": True}, {"reverse": True})):
        fw.set_num_threads(threads)
        wanted = scan(x, **options)
        for beyond in (0, 1, 8, 16):
            room = np.full(count + 64, 7, kind)
            first = -room.ctypes.data % 64 // kind.itemsize + beyond
            scan(x, out=room[first : first + count], **options)
            assert room[first : first + count].tobytes() == wanted.tobytes(), (beyond, options)
            assert np.delete(room, slice(first, first + count)).tolist() == [7] * 64
        fewer = slice(-count + 200_000, None) if "reverse" in options else slice(count - 200_000)
        assert scan(x[fewer], **options).tobytes() == wanted[fewer].tobytes(), options


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_logsumexp_down_columns_from_memory(dtype: str, threads: int) -> None:
    """Rows that stream past the caches are the lines they make, bit for bit."""
    fw.set_num_threads(threads)
    x = np.random.default_rng(6).normal(0, 20, (2, 1700, 803))
    x[0, 5], x[1, :, 7], x[0, 900, 9] = -np.inf, -np.inf, np.inf
    x[1, 1600, 11] = np.nan
    x = x.astype(cases.dtype_of(dtype))
    for columns in (x, x[0], x[0, :100]):
        lines = np.ascontiguousarray(columns.swapaxes(-1, -2))
        assert fw.logsumexp(columns, axis=-2).tobytes() == fw.logsumexp(lines, axis=-1).tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_logsumexp_of_rows_shorter_than_lanes(dtype: str) -> None:
    """They become columns, wherever they lie, some at a time: the same bits as of columns."""
    numbers = np.random.default_rng(8)
    for length in range(1, 70):
        for count in (1, 5, 71, 301) if length < 5 else (1, 5, 71):
            room = numbers.normal(0, 20, (2, count, length + 3))
            room[..., length:] = np.nan  # not theirs
            room[0, count // 2, 0] = -np.inf
            room[1, -1, length // 2] = np.inf
            room[1, 0, length - 1] = np.nan
            room[0, 0, :length] = -np.inf
            apart = room.astype(cases.dtype_of(dtype))[..., :length]
            adjoining = np.ascontiguousarray(apart)
            size = apart.itemsize
            over = np.lib.stride_tricks.as_strided(apart[1], (count, length), (2 * size, size))  # each other
            turned = [apart[..., ::-1]] if length <= 32 else []  # beyond, lanes go the other way
            for rows in (adjoining, apart, apart[:, ::-1], over, *turned):
                columns = np.ascontiguousarray(rows.swapaxes(-1, -2))
                wanted = fw.logsumexp(columns, axis=-2)
                assert fw.logsumexp(rows, axis=-1).tobytes() == wanted.tobytes(), (length, count)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_columns_of_few_rows(dtype: str) -> None:
    """In registers: the same bits as of rows, and as of what has to be gathered."""
    numbers = np.random.default_rng(10)
    for count in range(1, 35):
        for columns in (1, 5, 75, 4200):
            x = (numbers.normal(0, 1, (count, columns)) * 3 + 0.25).astype(cases.dtype_of(dtype))
            rows = np.ascontiguousarray(x.T)
            for fold in ("sum", "prod", "max", "min", "mean", "l1", "l2", "sumsquare"):
                wanted = getattr(fw, fold)(rows, axis=1).tobytes()
                for same in (x, np.repeat(x, 2, axis=1)[:, ::2]):
                    assert getattr(fw, fold)(same, axis=0).tobytes() == wanted, (fold, x.shape)
            if x.dtype.kind != "i" and count > 2:  # and again in careful arithmetic
                x[count // 2, ::3] = np.nan
                x[0, ::2], x[1, ::2], x[count - 1, ::2] = (float(limits_of(x.dtype).max),) * 2 + (0.125,)
                rows = np.ascontiguousarray(x.T)
                for fold in ("prod", "max", "sumsquare"):
                    wanted = getattr(fw, fold)(rows, axis=1).tobytes()
                    assert getattr(fw, fold)(x, axis=0).tobytes() == wanted, (fold, x.shape)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_means_of_integers_where_doubles_begin_to_round(dtype: str) -> None:
    ends = [2**bits + more for bits in (50, 51, 52, 53, 54, 62) for more in (-3, -2, -1, 0, 1, 2)]
    sums = [0, 1, 7, *ends, *([] if dtype == "uint64" else [-end for end in ends])]
    for count in (1, 3, 5, 10):
        for some in (sums, *([each] * 40 for each in sums), sums[:8] * 3):  # together in a vector, and alone
            x = np.zeros((len(some), count), dtype)
            x[:, count // 2] = some
            wanted = [each / count for each in some]  # Python rounds quotients of integers once
            assert fw.mean(x, axis=1).tolist() == wanted, count
            assert fw.mean(np.ascontiguousarray(x.T), axis=0).tolist() == wanted, count


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_what_lies_beside_a_row_takes_no_part_and_stays(dtype: str) -> None:
    """Of rows that fill no vector."""
    numbers = np.random.default_rng(9)
    for length in range(1, 40):
        room = numbers.integers(1, 3, (7, length + 2)).astype(cases.dtype_of(dtype))
        room[:, length:] = 113
        rows, whole = room[:, :length], room[:, :length].astype(np.int64)
        wanted = {"sum": whole.sum(1), "max": whole.max(1), "sumsquare": (whole * whole).sum(1), "prod": whole.prod(1)}
        for fold, numbers_wanted in wanted.items():
            if (fold, dtype) == ("prod", "float16"):
                continue  # 2^16 and more
            assert np.array_equal(getattr(fw, fold)(rows, axis=1).astype(np.int64), numbers_wanted), (fold, length)
        for scan, prefixes in (("cumsum", whole.cumsum(1)), ("cummax", np.maximum.accumulate(whole, axis=1))):
            out = np.full((7, length + 2), 77, getattr(fw, scan)(rows, axis=1).dtype)
            getattr(fw, scan)(rows, axis=1, out=out[:, :length])
            assert np.array_equal(out[:, :length].astype(np.int64), prefixes), (scan, length)
            assert (out[:, length:] == 77).all(), (scan, length)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bfloat16"])
def test_rows_of_a_few_elements_whose_results_leave_past_the_caches(dtype: str, threads: int) -> None:
    fw.set_num_threads(threads)
    count = 2_200_000 if dtype in ("float64", "int64", "int32") else 4_300_000  # 16 MiB and more of results, mostly
    x = np.random.default_rng(7).integers(-90, 90, (count + 37, 4)).astype(cases.dtype_of(dtype))
    if dtype.startswith("float"):
        x[5::1_000_003, 1], x[77, 2] = np.nan, -0.0
    for length in (2, 3, 4):
        rows = np.ascontiguousarray(x[:, :length])
        for fold in (fw.sum, fw.max, fw.prod):
            wanted = fold(np.ascontiguousarray(rows.T), axis=0)  # column by column: no way of rows
            size = wanted.itemsize
            room = np.full(wanted.nbytes + 128, 0xAA, np.uint8)
            for offset in (0, 3, 64 - size):
                out = room[offset : offset + wanted.nbytes].view(wanted.dtype)
                fold(rows, axis=1, out=out)
                assert out.tobytes() == wanted.tobytes(), (fold, length, offset)
                assert (room[:offset] == 0xAA).all()
                assert (room[offset + wanted.nbytes :] == 0xAA).all()
                room[:] = 0xAA


@pytest.mark.parametrize("threads", [1, 2])
def test_running_sums_in_a_shorter_dtype_leave_past_the_caches(threads: int) -> None:
    fw.set_num_threads(threads)
    for source, dtype in ((np.int32, np.int32), (np.int32, np.int16), (np.int64, np.int32)):
        x = np.arange(9_000_011, dtype=source) * 7919
        with np.errstate(over="ignore"):
            wanted = np.cumsum(x, dtype=dtype)
        room = np.empty(x.size + 1, dtype)
        for out in (room[:-1], room[1:]):
            assert np.array_equal(fw.cumsum(x, dtype=dtype, out=out), wanted)


SHORT_SCANS = (((100_003,), 0), ((3000, 700), 0), ((3000, 700), 1), ((5000, 3), 0), ((100, 3), 1), ((7, 5, 9), 1))


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_running_sums_that_wrap_at_every_step(dtype: str) -> None:
    """Into results as short as the elements, whatever their sign, and into shorter and longer ones."""
    limits = np.iinfo(dtype)
    for shape, axis in SHORT_SCANS:
        x = np.random.default_rng(1).integers(limits.min, limits.max, shape, dtype, endpoint=True)
        for part in (x, x[::-1], x[..., ::2]):
            for result in ("int32", "uint32", "int16", "int64"):
                wanted = np.cumsum(part.astype("int64"), axis=axis).astype(result)
                assert np.array_equal(fw.cumsum(part, axis=axis, dtype=result), wanted), (shape, axis, result)
                backwards = fw.cumsum(np.flip(part, axis), axis=axis, dtype=result, reverse=True)
                assert np.array_equal(backwards, np.flip(wanted, axis)), (shape, axis, result)
                shifted = fw.cumsum(part, axis=axis, dtype=result, exclusive=True)
                assert np.array_equal(shifted + part.astype(result), wanted), (shape, axis, result)
                assert np.array_equal(fw.sum(part, axis=axis, dtype=result), np.take(wanted, -1, axis))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"])
def test_running_results_of_short_lines_that_do_not_lie_as_they_are_scanned(dtype: str) -> None:
    numbers = np.random.default_rng(8)
    for length in (2, 3, 4, 5, 17, 300, 1024):
        x = numbers.integers(0, 2 if dtype == "bool" else 5, (2 * 5000 // length + 7, 2 * length + 1)).astype(dtype)
        dense = x[:, 1:].copy()[:, ::2]  # each line begins where the next element of the one before it would be
        for part in (dense, x[:, 1::2], x[::-1, ::-2], x[:, -length - 1 : -1][:, ::-1], x[::3, :length]):
            swapped = part.astype(part.dtype.newbyteorder())
            alike = np.ascontiguousarray(part)
            for scan in ("cumsum", "cumprod", "cummax", "logcumsumexp"):
                for options in ({}, {"exclusive": True}, {"reverse": True}, {"include_initial": True}):
                    wanted = getattr(fw, scan)(alike, axis=1, **options)
                    for each in (part, swapped):
                        found = getattr(fw, scan)(each, axis=1, **options)
                        assert found.tobytes() == wanted.tobytes(), (scan, options, length, part.strides)
            out = np.zeros((len(part), part.shape[1] + 2), np.int64)
            if part.dtype.kind in "bi":
                fw.cumsum(part, axis=1, out=out[:, 1:-1])
                assert np.array_equal(out[:, 1:-1], np.cumsum(part, axis=1))
                assert not out[:, [0, -1]].any()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "float64"])
def test_truths_that_are_gathered_until_they_are_decided(dtype: str) -> None:
    for places in ([], [0], [70_001], [99_999], [5, 50_000]):
        flat = np.zeros(100_000, dtype)
        flat[places] = 1
        x = np.repeat(flat, 2)[::2]
        rows = np.repeat(flat.reshape(100, -1), 2, 0)[::2]
        for part in (x, x[::-1], x.reshape(4, -1), x.reshape(4, -1).T, x.reshape(50, 2, -1), rows):
            none = part == 0
            for axis in (None, 0, part.ndim - 1, *([(0, 2)] if part.ndim == 3 else [])):
                assert np.array_equal(fw.any(part, axis=axis), np.any(part, axis=axis)), (places, part.shape, axis)
                assert np.array_equal(fw.all(none, axis=axis), np.all(none, axis=axis)), (places, part.shape, axis)
                where = part != 0
                assert np.array_equal(fw.any(where, axis=axis, where=where), np.any(part, axis=axis))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float64"])
def test_integers_of_any_length_at_every_second_place_and_in_short_lines(dtype: str) -> None:
    """Gathered, and converted, by vectors or one by one."""
    numbers = np.random.default_rng(9)
    for shape in ((3, 2), (40, 10), (9, 31), (7, 64), (3, 65), (5, 1030), (2, 5, 70), (30, 4, 3)):
        x = numbers.integers(0, 2 if dtype == "bool" else 100, [2 * n for n in shape]).astype(dtype)
        inner = tuple(slice(0, n) for n in shape)
        seconds = x[..., 1::2][inner]
        for part in (seconds, x[inner], x[..., ::-2][inner], seconds.swapaxes(0, -1), x[..., ::3]):
            for axis in (None, *range(part.ndim)):
                for name in ("sum", "max", "argmax", "argmin", "cumsum", *(["prod"] if part.dtype.kind != "f" else [])):
                    found, wanted = getattr(fw, name)(part, axis=axis), getattr(np, name)(part, axis=axis)
                    assert np.array_equal(found, wanted), (name, part.shape, part.strides, axis)
                if part.dtype.kind in "biu":
                    total = fw.sum(part, axis=axis, dtype=np.float64)
                    assert np.array_equal(total, np.sum(part, axis=axis, dtype=np.float64))
