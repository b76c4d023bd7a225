"""The first thing to run after installing: digits, speed and bits, beside plain NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

import foldwise as fw


def milliseconds(job: Callable[[], object]) -> float:
    """The median time of one run, after one to warm up."""
    times = []
    for _ in range(6):
        start = time.perf_counter()
        job()
        times.append(1000 * (time.perf_counter() - start))
    return median(times[1:])


def no_axis_loses_digits() -> None:
    ones = np.ones((2**25, 2), dtype=np.float32)
    half = np.ones((60_000, 16), dtype=np.float16)
    print("1. No axis loses digits: columns of ones, summed over axis 0\n")
    print(f"   {'':34}{'truth':>12}{'numpy':>12}{'foldwise':>12}")
    for name, x in ("float32, 33,554,432 rows", ones), ("float16, 60,000 rows", half):
        truth, numpy, ours = len(x), np.sum(x, axis=0)[0], fw.sum(x, axis=0)[0]
        print(f"   {name:34}{truth:>12,}{numpy:>12,.0f}{ours:>12,.0f}")


def speed() -> None:
    rng = np.random.default_rng(1)
    images = rng.random((64, 128, 56, 56), dtype=np.float32)
    table = rng.random((4096, 8192), dtype=np.float32)
    cases: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        ("sum of images over (0, 2, 3), float32",
         lambda: np.sum(images, axis=(0, 2, 3)), lambda: fw.sum(images, axis=(0, 2, 3))),
        ("sum of rows, float32",
         lambda: np.sum(table, axis=1), lambda: fw.sum(table, axis=1)),
        ("prod of columns, float32",
         lambda: np.prod(table, axis=0), lambda: fw.prod(table, axis=0)),
        ("running sum along rows, float32",
         lambda: np.cumsum(table, axis=1), lambda: fw.cumsum(table, axis=1)),
    ]  # fmt: skip
    half = (images - 0.5).astype(np.float16)  # centred: 200,704 values per channel would pass float16's 65,504
    cases.append(("sum of images over (0, 2, 3), float16",
                  lambda: np.sum(half, axis=(0, 2, 3)), lambda: fw.sum(half, axis=(0, 2, 3))))  # fmt: skip
    print(f"\n2. Speed: milliseconds on this machine, {fw.get_num_threads()} thread(s)\n")
    print(f"   {'':46}{'numpy':>12}{'foldwise':>12}")
    for name, numpy, ours in cases:
        theirs, mine = milliseconds(numpy), milliseconds(ours)
        print(f"   {name:46}{theirs:>12.1f}{mine:>12.1f}   {theirs / mine:5.1f} times")


def same_bits() -> None:
    x = np.random.default_rng(2).standard_normal(10_000_001, dtype=np.float32)
    threads = fw.get_num_threads()
    print("\n3. The same bits, however many threads work: 10,000,001 normal float32 values\n")
    for count in 1, 2, 3:
        fw.set_num_threads(count)
        total, last = fw.sum(x), fw.cumsum(x)[-1]
        print(f"   {count} thread(s)   sum {float(total).hex():24} cumsum ends in {float(last).hex()}")
    fw.set_num_threads(threads)


if __name__ == "__main__":
    no_axis_loses_digits()
    speed()
    same_bits()
