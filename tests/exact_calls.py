"""Calls with accuracy="exact": data, memory and options, all drawn from one number; and what each must give.

`python exact_calls.py FILE FIRST COUNT LONGEST` computes so many of each fold and dtype, on the ISA of FOLDWISE_ISA: a
digest per call, of results made at once and made in blocks.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cases
import exactly
import hard
import in_blocks
import numpy as np
from domains import Generator
from trees import Array

import foldwise as fw

FOLDS = (*exactly.FOLDS, "cumsum")
WAYS: dict[str, Any] = {"at once": fw, "in blocks": in_blocks}
ARRANGEMENTS = ("F", "KF", "KF", "FK", "FK", "KFK", "FF", "KFF", "FKF", "FFK", "FKFF")
"""Axes in memory: F is folded, K is kept. So FKFF is a batch of images, whose channels are kept."""
CHANGED = ("first repeated", "last repeated", "windows")
LAYOUTS = [name for name in cases.LAYOUTS if name not in CHANGED]
WRITABLE = ("C", "Fortran", "every second", "backwards", "byte-swapped", "unaligned", "field", "awkward")
ELEMENTS = 6000  # of most calls
INITIAL = (0.0, -0.0, 1.0, 0.1, -1e308, 1.7e308, 5e-324, -(2.0**-25), 65520.0, 2.0**128, math.inf, math.nan)


@dataclass(frozen=True)
class Call:
    fold: str
    dtype: str
    number: int
    kind: str
    arrangement: str
    kept: tuple[int, ...]
    folded: tuple[int, ...]
    layout: str
    options: tuple[tuple[str, Any], ...]  # where is a density, out a layout, dtype a name

    @property
    def rows(self) -> int:
        """How many cases this is."""
        return math.prod(self.kept)

    @property
    def length(self) -> int:
        return math.prod(self.folded)

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(axis for axis, letter in enumerate(self.arrangement) if letter == "F")

    @property
    def out(self) -> np.dtype[Any]:
        return cases.dtype_of(dict(self.options).get("dtype", self.dtype))

    def rng(self, what: str) -> Generator:
        return generator(self.fold, self.dtype, self.number, what)

    def data(self) -> Array:
        """A row for each case."""
        kind = getattr(hard, self.kind)
        x: Array = kind(self.rng("data"), cases.dtype_of(self.dtype), self.rows, self.length)
        return x

    def mask(self) -> Array | None:
        density = dict(self.options).get("where")
        return None if density is None else self.rng("mask").random((self.rows, self.length)) < density

    def arranged(self, rows: Array) -> Array:
        """The same as an array whose axes are those of the arrangement."""
        whole = rows.reshape(self.kept + self.folded)
        kept, folded = iter(range(len(self.kept))), iter(range(len(self.kept), whole.ndim))
        order = [next(folded if letter == "F" else kept) for letter in self.arrangement]
        return np.ascontiguousarray(whole.transpose(order))

    def found(self, module: Any = fw) -> Array:
        arguments = dict(self.options)
        mask = self.mask()
        if mask is not None:
            arguments["where"] = self.arranged(mask)
        if "dtype" in arguments:
            arguments["dtype"] = self.out
        if "out" in arguments:
            shape = np.shape(self.shaped(np.empty((self.results, self.rows), bool)))
            arguments["out"] = cases.LAYOUTS[arguments["out"]](np.full(shape, 99, self.out))
        x = cases.LAYOUTS[self.layout](self.arranged(self.data()))
        result = np.asarray(getattr(module, self.fold)(x, accuracy="exact", **arguments))
        return result.astype(result.dtype.newbyteorder("="))

    def wanted(self) -> Array:
        options = {name: value for name, value in self.options if name not in ("axis", "dtype", "out", "keepdims")}
        columns = self.data().T
        if self.fold == "cumsum":
            return self.shaped(exactly.scanned(columns, self.out, **options))
        mask = self.mask()
        options["where"] = None if mask is None else mask.T
        return self.shaped(exactly.reduced(self.fold, columns, self.out, **options)[np.newaxis])

    @property
    def results(self) -> int:
        """How many there are of each case."""
        return self.length + dict(self.options).get("include_initial", False) if self.fold == "cumsum" else 1

    def shaped(self, columns: Array) -> Array:
        """Results in the shape that the call gives them."""
        whole = columns.T.reshape(*self.kept, self.results)
        if self.fold == "cumsum":
            return np.moveaxis(whole, -1, self.axes[0])
        return np.expand_dims(whole[..., 0], self.axes) if dict(self.options).get("keepdims") else whole[..., 0]


def exactly_folded(fold: str, x: Any, **options: Any) -> Any:
    return getattr(fw, fold)(x, accuracy="exact", **options)


# ---- drawing


def generator(*words: Any) -> Generator:
    return np.random.default_rng(zlib.crc32(" ".join(map(str, words)).encode()))


def drawn(fold: str, dtype: str, number: int, longest: int) -> Call:
    rng = generator(fold, dtype, number, "call")
    scan = fold == "cumsum"
    arrangement = str(rng.choice([name for name in ARRANGEMENTS if not scan or name.count("F") == 1]))
    length = a_size(rng, 0, longest)
    most = max(ELEMENTS // max(length, 12), 1)
    rows = a_size(rng, min(most, 8), most) if "K" in arrangement else 1
    kept, folded = split(rng, rows, arrangement.count("K")), split(rng, length, arrangement.count("F"))
    options = dict(scan_options(rng) if scan else reduction_options(rng, fold))
    axes = tuple(axis for axis, letter in enumerate(arrangement) if letter == "F")
    options["axis"] = an_axis(rng, axes, len(arrangement))
    return Call(
        *(fold, dtype, number, hard.KINDS[rng.integers(len(hard.KINDS))].__name__, arrangement, kept, folded),
        *("C" if rng.random() < 0.3 else str(rng.choice(LAYOUTS)), tuple(options.items())),
    )


def a_size(rng: Generator, least: int, most: int) -> int:
    """Log-uniform; now and then a power of two, by which division is exact."""
    size = int(math.expm1(rng.uniform(math.log1p(least), math.log1p(most + 0.99))))
    return 1 << size.bit_length() - 1 if size and rng.random() < 0.25 else size


def split(rng: Generator, size: int, parts: int) -> tuple[int, ...]:
    """Extents of about that product."""
    if parts <= 1:
        return (size,) * parts
    first = max(int(size ** rng.random()), 1)
    return (first, *split(rng, size // first, parts - 1))


def an_axis(rng: Generator, axes: tuple[int, ...], rank: int) -> Any:
    if len(axes) == rank and rng.random() < 0.5:
        return None
    counted = tuple(axis - rank if rng.random() < 0.3 else axis for axis in axes)
    return counted[0] if len(counted) == 1 else counted


def common_options(rng: Generator) -> Iterator[tuple[str, Any]]:
    if rng.random() < 0.5:
        yield "dtype", str(rng.choice(cases.FLOATS))
    if rng.random() < 0.3:
        yield "out", str(rng.choice(WRITABLE))


def reduction_options(rng: Generator, fold: str) -> Iterator[tuple[str, Any]]:
    yield from common_options(rng)
    if rng.random() < 0.2:
        yield "keepdims", True
    if rng.random() < 0.25:
        yield "where", float(rng.choice([0.0, 0.1, 0.7, 0.9, 0.99]))
    if fold == "sum" and rng.random() < 0.25:
        yield "initial", float(rng.choice(INITIAL))


def scan_options(rng: Generator) -> Iterator[tuple[str, Any]]:
    yield from common_options(rng)
    if rng.random() < 0.4:
        yield "reverse", True
    if rng.random() < 0.4:
        yield str(rng.choice(["exclusive", "include_initial"])), True


# ---- all of them


def calls(fold: str, dtype: str, first: int, count: int, longest: int) -> Iterator[Call]:
    for number in range(first, first + count):
        yield drawn(fold, dtype, number, longest)


def digests(module: Any, fold: str, dtype: str, *which: int) -> Array:
    return np.array([cases.digest(call.found(module)) for call in calls(fold, dtype, *which)], np.int64)


def main(path: str, *which: str) -> None:
    numbers = [int(word) for word in which]
    table = {
        f"{fold} {dtype} {way}": digests(module, fold, dtype, *numbers)
        for way, module in WAYS.items()
        for fold in FOLDS
        for dtype in cases.FLOATS
    }
    np.savez(path, allow_pickle=False, **table)


if __name__ == "__main__":
    main(*sys.argv[1:])
