"""Arrays as every kind of source, for the tests of streams."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import zarr
from trees import Array

import foldwise as fw

EXACT = {"sum", "mean", "l1", "l2", "sumsquare", "cumsum"}
"""What streams compute as accuracy="exact" does."""
ROUNDED = {"prod", "logsum", "logsumexp", "cumprod", "logcumsumexp"}
"""What rounds in each block, or asks for an exact sum where the function of arrays has none."""


def saved(path: Path, x: Array, order: Literal["C", "F"] = "C") -> Path:
    """An .npy file."""
    np.save(path, np.asarray(x, order=order))
    return path


def chunked(path: Path, x: Array, chunks: Sequence[int], zarr_format: Any = 3) -> Path:
    """A Zarr array."""
    if path.exists():
        shutil.rmtree(path)
    made = zarr.create_array(str(path), shape=x.shape, chunks=tuple(chunks), dtype=x.dtype, zarr_format=zarr_format)
    made[...] = x
    return path


def sources(folder: Path, x: Array) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Each kind of source: its name, and what opens it."""
    yield "npy", saved(folder / "c.npy", x), {}
    yield "fortran", saved(folder / "f.npy", x, "F"), {}
    yield "map", np.load(folder / "f.npy", mmap_mode="r"), {}
    x.tofile(folder / "raw.bin")
    yield "raw", folder / "raw.bin", {"dtype": x.dtype, "shape": x.shape}
    thirds = [max(1, n // 3) for n in x.shape]
    for zarr_format in 2, 3:
        yield f"zarr {zarr_format}", chunked(folder / f"{zarr_format}.zarr", x, thirds, zarr_format), {}
    if x.ndim:
        yield "blocks", np.array_split(x, 4), {"shape": x.shape}
    yield "memory", x, {}


def within(budget: int | str | None, name: str, place: Any, options: dict[str, Any], **arguments: Any) -> Any:
    """A function of a source, with a budget or the smallest that works."""
    try:
        return getattr(fw, name)(fw.open(place, memory_budget=budget, **options), **arguments)
    except fw.BudgetError as error:
        return getattr(fw, name)(fw.open(place, memory_budget=error.needed, **options), **arguments)


def interrupt(blocks: int, notes: Path, name: str, place: Any, budget: int | None = None, **arguments: Any) -> None:
    """Begin a job on a source, note what each block comes to, and stop while the one after so many is at work."""
    told = itertools.count()

    def progress(done: int, total: int) -> None:
        if next(told) > blocks:
            raise KeyboardInterrupt

    source = fw.open(place, memory_budget=budget, progress=progress, checkpoint=notes, checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        getattr(fw, name)(source, **arguments)
    assert notes.is_file()


def in_memory(name: str, x: Array, **arguments: Any) -> Any:
    """The same of an array, exactly where that can be asked for."""
    return getattr(fw, name)(x, **arguments, **({"accuracy": "exact"} if name in EXACT else {}))


def agree(name: str, found: Any, wanted: Any) -> bool:
    """Whether they are the same bits, or nearly so where blocks round."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    bits: tuple[bytes, bytes] = found.tobytes(), wanted.tobytes()
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if name in ROUNDED and found.dtype.kind not in "iub":
        rough = {2: 1e-2, 4: 1e-4, 8: 1e-10}[found.dtype.itemsize]
        return bool(np.allclose(found.astype(float), wanted.astype(float), rough, rough, equal_nan=True))
    return bits[0] == bits[1]
