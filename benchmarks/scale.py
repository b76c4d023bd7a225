"""Streams: `python -m benchmarks.scale` times sums and running sums of files beside plain reads of the same files.

Prints a table in markdown. All files are in the page cache, where reading is fastest and so whatever is slow shows; or,
with --cold, none is, and everybody waits for the disk.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

import foldwise as fw

from .machine import cores, processor
from .report import markdown

_PIECES = (1 << 20, 1 << 22, 1 << 24)
"""A plain read may choose what suits it best."""
_CHUNK = 1000


def plain_read(path: Path, piece: int) -> None:
    """The file from beginning to end into one buffer."""
    buffer = bytearray(piece)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def decoded(path: Path, rows: int) -> None:
    """Every chunk by zarr, so many rows of them at once, and nothing done with it."""
    array = zarr.open_array(str(path), mode="r")
    for start in range(0, array.shape[0], rows * _CHUNK):
        array[start : start + rows * _CHUNK]


def chunk_by_chunk(path: Path) -> None:
    """Every chunk by zarr, one after the other."""
    array = zarr.open_array(str(path), mode="r")
    for row, column in itertools.product(*(range(0, n, _CHUNK) for n in array.shape)):
        array[row : row + _CHUNK, column : column + _CHUNK]


def forget(folder: Path) -> None:
    """Leave nothing of a folder's files in the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


Calls = dict[str, Callable[[], object]]


def best_seconds(calls: Calls, rounds: int, cold: Path | None) -> dict[str, float]:
    """The least time of each, all of them once in every round; if asked, with nothing of a folder in the page cache."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            if cold is not None:
                forget(cold)
            start = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def rows(kind: str, size: int, limits: Calls, ours: Calls, rounds: int, cold: Path | None) -> list[list[str]]:
    """GB/s of ours, and as a share of the best of what only reads."""
    seconds = best_seconds({**limits, **ours}, rounds, cold)
    limit = min(seconds[name] for name in limits)
    table = [[kind, "only read", f"{size / limit / 1e9:.2f}", ""]]
    return table + [[kind, name, f"{size / seconds[name] / 1e9:.2f}", f"{limit / seconds[name]:.0%}"] for name in ours]


def written_files(folder: Path, megabytes: int, columns: int, dtype: str) -> tuple[Path, Path]:
    """Random numbers in both formats, a thousand rows at a time."""
    kind, random = np.dtype(dtype), np.random.default_rng(0)
    length = megabytes * 1_000_000 // (kind.itemsize * columns) // _CHUNK * _CHUNK
    npy, chunked = folder / "x.npy", folder / "x.zarr"
    array = np.lib.format.open_memmap(npy, "w+", kind, (length, columns))
    store = zarr.create_array(str(chunked), shape=array.shape, chunks=(_CHUNK, min(_CHUNK, columns)), dtype=kind)
    for start in range(0, length, _CHUNK):
        array[start : start + _CHUNK] = random.standard_normal((_CHUNK, columns))
        store[start : start + _CHUNK] = array[start : start + _CHUNK]
    array.flush()
    return npy, chunked


def measured(npy: Path, chunked: Path, budget: str, rounds: int, cold: bool) -> list[list[str]]:
    """The whole table."""
    folder, size = npy.parent, npy.stat().st_size

    def sums(path: Path) -> Calls:
        source = fw.open(path, memory_budget=budget)
        return {f"sum, axis={axis}": lambda axis=axis: fw.sum(source, axis=axis) for axis in (None, 0, 1)}  # type: ignore[misc]

    def written(name: str) -> Calls:
        source = fw.open(npy, memory_budget=budget)
        return {
            f"cumsum, axis={axis}, to {name}": lambda axis=axis: fw.cumsum(  # type: ignore[misc]
                source, axis=axis, out=fw.open(folder / name, mode="w")
            )
            for axis in (None, 0, 1)
        }

    plain: Calls = {
        f"readinto {piece}": lambda piece=piece: plain_read(npy, piece) for piece in _PIECES  # type: ignore[misc]
    }
    decoding: Calls = {
        "chunk by chunk": lambda: chunk_by_chunk(chunked),
        **{f"{count} rows": lambda count=count: decoded(chunked, count) for count in (1, 2, 4)},  # type: ignore[misc]
    }
    forgotten = folder if cold else None
    return (
        rows(".npy", size, plain, sums(npy), rounds, forgotten)
        + rows(".zarr", size, decoding, sums(chunked), rounds, forgotten)
        + rows(".npy", size, plain, written("y.npy"), max(1, rounds // 3), forgotten)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--memory", default="256MB")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--columns", type=int, default=2 * _CHUNK)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--cold", action="store_true", help="nothing in the page cache when a job begins")
    parser.add_argument("--folder", default=None, help="where the files are written")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        files = written_files(Path(folder), asked.megabytes, asked.columns, asked.dtype)
        table = measured(*files, asked.memory, asked.rounds, asked.cold)
    print(f"{processor()}, {cores()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{asked.megabytes} MB of {asked.dtype}, {asked.columns} columns, a budget of {asked.memory}\n")
    print(markdown(["file", "job", "GB/s", "of only reading"], table))


if __name__ == "__main__":
    main()
