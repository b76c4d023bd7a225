"""Dask arrays: `python -m benchmarks.dask` times reductions and scans of ours against those of dask.array.

Same chunks, each in memory of its own, as after `persist`; same threaded scheduler. Of a scan's chunks one element
each is kept, so that no results pile up. Prints a table in markdown: milliseconds, the share of the memory's read
bandwidth, and how much faster ours are. Takes 9 GB.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np

import foldwise as fw

from .machine import Machine, cores, processor
from .measure import FULL, QUICK, Effort, Racer, as_written, race, seconds_per_call, times_faster
from .operations import Array
from .report import markdown


class Case(NamedTuple):
    """A function of an array in chunks."""

    function: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    axis: int | None

    @property
    def name(self) -> str:
        shape, chunks = ("x".join(map(str, each)) for each in (self.shape, self.chunks))
        return f"{self.function} {self.dtype} {shape} in {chunks} axis={self.axis}"

    def lazy(self, module: Any, x: da.Array) -> da.Array:
        found = getattr(module, self.function)(x, axis=self.axis)
        return found.map_blocks(_one_element) if self.function == "cumsum" else found


def _cases(dtype: str) -> list[Case]:
    """Reductions of 4 GB in chunks of 256 MB, or of 80 that are wide; scans of 1 GB in chunks of 128 or 64 MB."""
    item = np.dtype(dtype).itemsize
    size, wide, narrow = (1 << 32) // item, (1 << 17) // item, (1 << 16) // item
    return [
        Case("sum", dtype, (size,), (size >> 4,), None),
        Case("sum", dtype, (1 << 15, wide), (1 << 13, wide >> 2), 0),
        Case("sum", dtype, (1 << 15, wide), (1 << 13, wide >> 2), 1),
        Case("sum", dtype, (8000 // item, 100_000), (800 // item, 100_000), 0),
        Case("max", dtype, (1 << 15, wide), (1 << 13, wide >> 2), None),
        Case("cumsum", dtype, (size >> 2,), (size >> 5,), 0),
        Case("cumsum", dtype, (1 << 14, narrow), (1 << 12, narrow >> 2), 0),
        Case("cumsum", dtype, (1 << 14, narrow), (1 << 12, narrow >> 2), 1),
    ]


CASES = [case for dtype in ("float32", "float64", "float16", "int32") for case in _cases(dtype)]


def _one_element(block: Array) -> Array:
    return block[(slice(0, 1),) * block.ndim]


def row(case: Case, effort: Effort, threads: int) -> list[str]:
    """One case's line of the table."""
    some = np.random.default_rng(0).standard_normal(1 << 20) * 100
    x = np.resize(some.astype(case.dtype), case.shape)
    options = {"scheduler": "threads", "num_workers": threads}
    chunks = da.from_array(x, case.chunks, name=False).map_blocks(np.copy, order="C").persist(**options)
    calls: dict[str, Any] = {
        name: partial(case.lazy(module, chunks).compute, **options) for name, module in (("ours", fw), ("dask", da))
    }
    calls["read"] = Machine(x).reading[0]
    racers = {
        name: Racer(call, seconds_per_call(call, effort), True)
        for name, call in ((name, as_written(call)) for name, call in calls.items())
    }
    found = race(racers, effort)
    times = [f"{1e3 * found[name].median:.1f}" for name in ("ours", "dask")]
    return [case.name, *times, *(f"{times_faster(found['ours'], found[other]):.2f}" for other in ("read", "dask"))]


def main() -> None:
    asked = argparse.ArgumentParser("python -m benchmarks.dask", description=__doc__)
    asked.add_argument("--quick", action="store_true", help="fewer rounds")
    asked.add_argument("--only", default="", help="cases whose name has this in it")
    asked.add_argument("--threads", type=int, default=cores(), help="of Dask's scheduler; all cores if not given")
    given = asked.parse_args()
    effort = QUICK if given.quick else FULL
    print(f"{processor()}, {given.threads} thread(s), dask {dask.__version__}\n")
    header, rows = ["case", "foldwise, ms", "dask.array, ms", "of reading", "times faster"], []
    for case in CASES:
        if given.only in case.name:
            with np.errstate(over="ignore"):  # float16 sums, in NumPy's hands
                rows.append(row(case, effort, given.threads))
            print("  ".join(rows[-1]), flush=True)
    print("\n" + markdown(header, rows))


if __name__ == "__main__":
    main()
