"""More than 2**31 elements, and results of more than 2**31 elements."""

from __future__ import annotations

import os

import numpy as np
import processes
import pytest

import foldwise as fw

pytestmark = pytest.mark.xdist_group("large")  # one of them at a time is enough for most memories
COUNT = 2**31 + 5
GIB = 2**30


def available_memory() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


needs_8_gib = pytest.mark.skipif(available_memory() < 8 * GIB, reason="needs 8 GiB of free memory")

# ---- one value repeated needs no memory


def test_sums_of_a_repeated_value() -> None:
    assert fw.sum(np.broadcast_to(np.int8(-3), COUNT)) == -3 * COUNT
    assert fw.sum(np.broadcast_to(np.uint8(255), COUNT), dtype=np.uint8) == 255 * COUNT % 256
    assert fw.sum(np.broadcast_to(np.bool_(True), COUNT)) == COUNT
    assert fw.sum(np.broadcast_to(np.float16(1), COUNT)) == np.inf
    assert fw.sum(np.broadcast_to(np.float32(1), COUNT)) == np.float32(COUNT)
    assert fw.sum(np.broadcast_to(np.float64(1), COUNT)) == COUNT


def test_products_of_a_repeated_value() -> None:
    assert fw.prod(np.broadcast_to(np.int8(-1), COUNT)) == -1
    assert fw.prod(np.broadcast_to(np.float32(-1), COUNT)) == -1


def test_the_mean_of_so_many_chosen_integers() -> None:
    """Not even the sum of their lower halves would have room in 64 bits."""
    lowest = np.iinfo(np.int64).min
    assert fw.mean(np.broadcast_to(lowest + 1, COUNT), where=True, dtype=np.int64) == lowest + 1


def test_repeated_rows() -> None:
    row = np.arange(5, dtype=np.float32)
    many = np.broadcast_to(row, (2**29 + 1, 5))
    assert many.size > COUNT
    assert fw.sum(many, axis=0).tolist() == (row * (2**29 + 1)).tolist()


# ---- no copy of the input is ever made


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="sanitizers take memory of their own")
def test_views_are_folded_where_they_lie() -> None:
    script = """
import numpy as np, foldwise as fw, resource
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # MiB
memory = np.ones((2**26 + 1) * 4, np.uint8)
words = memory[:-4].view(np.int32)
views = [
    words, words[::-1], words[::2], words.byteswap(inplace=True).view(">i4"), memory[1:-3].view(np.float32),
    words.reshape(64, -1)[:, ::-2], words.reshape(-1, 64)[::-1].T, memory[:-4].view(np.float16), memory,
]
fw.sum(words[: 2**22])
before = peak()
for view in views:
    for axis in range(view.ndim):
        fw.sum(view, axis=axis, where=True)
        fw.prod(view, axis=axis)
        fw.sum(view, axis=axis, dtype=np.float64)
fw.mean(words, where=True)
fw.mean(memory[:-4].view(np.uint64), where=True)
for accuracy in "default", "exact":
    fw.sum(memory[:-4].view(np.int64), dtype=np.float32, accuracy=accuracy)
    fw.l1(words, dtype=np.float64, accuracy=accuracy)
    fw.mean(words, where=True, accuracy=accuracy)
fw.sum_report(memory)
fw.Accumulator("mean", np.int64, accuracy="exact").update(memory[:-4].view(np.int64))
print(before, peak())
"""
    before, after = map(int, processes.output("-c", script).split())
    assert before > 256
    assert after - before < 32


# ---- real memory


@needs_8_gib
def test_bytes_that_differ() -> None:
    x = np.ones(COUNT, np.uint8)
    x[[0, 7, 2**31 - 1, 2**31, -1]] = (2, 3, 4, 5, 6)
    total = COUNT - 5 + 20
    assert fw.sum(x) == total
    assert fw.sum(x[::-1]) == total
    assert fw.prod(x) == 2 * 3 * 4 * 5 * 6
    assert fw.sum(x.reshape(1, -1, 1), axis=1).item() == total

    running = fw.cumsum(x, dtype=np.uint8)
    for position in (0, 1, 6, 7, 8, 2**31 - 2, 2**31 - 1, 2**31, COUNT - 1):
        prefix = (
            position
            + 1
            + sum(
                more
                for at, more in ((0, 1), (7, 2), (2**31 - 1, 3), (2**31, 4), (COUNT - 1, 5))
                if at <= position
            )
        )
        assert running[position] == prefix % 256, position


@needs_8_gib
def test_results_longer_than_31_bits() -> None:
    """Kept elements this time: one row, one result per column."""
    only = np.ones((1, COUNT), np.uint8)
    only[0, [0, 2**31 - 1, -1]] = (200, 100, 7)
    result = fw.sum(only, axis=0, dtype=np.uint8)
    assert result.shape == (COUNT,)
    assert result[[0, 1, 2**31 - 2, 2**31 - 1, 2**31, -1]].tolist() == [200, 1, 1, 100, 1, 7]
    result[[0, 2**31 - 1, -1]] = 1
    assert result.min() == result.max() == 1
