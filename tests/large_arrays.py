"""Arrays of several megabytes, which threads really share: what is folded, and the digests of the results."""

from __future__ import annotations

import functools
import math
import sys
import zlib
from collections.abc import Iterator

import cases
import numpy as np
import trees
from cases import Domain, Fold
from trees import Array

import foldwise as fw

# A shape, and what a reduction folds of it; a scan walks each of those axes by itself.
SHAPES: tuple[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], ...] = (
    ((1_000_003,), ((0,),)),
    ((1001, 803), ((0,), (1,), (0, 1))),
    ((250_009, 3), ((0,), (1,))),
    ((3, 250_009), ((0,), (1,))),
    ((20_011, 50), ((0,), (1,))),
    ((16, 32, 40, 40), ((2, 3), (0, 2, 3), (1,))),
)
DTYPES = ("float16", "bfloat16", "float32", "float64", "int32")


@functools.lru_cache(maxsize=1)
def data(dtype: str, domain: Domain, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(zlib.crc32(f"{dtype} {shape}".encode()))
    return domain(rng, cases.dtype_of(dtype), math.prod(shape)).reshape(shape)


def calls(dtype: str) -> Iterator[tuple[Fold, Array, tuple[int, ...]]]:
    for shape, axes_list in SHAPES:
        for fold in cases.FOLDS:
            domain = cases.domains_of(fold, dtype)[0]
            for axes in axes_list:
                if not fold.scan or len(axes) == 1:
                    yield fold, data(dtype, domain, shape), axes


def results(dtype: str) -> Iterator[tuple[str, Array]]:
    for fold, x, axes in calls(dtype):
        axis = axes[0] if fold.scan else axes
        yield f"{fold.name} {dtype}{list(x.shape)} axis {axis}", fold.of(fw)(x, axis=axis)


def digests(dtypes: tuple[str, ...] = DTYPES) -> dict[str, int]:
    return {name: cases.digest(result) for dtype in dtypes for name, result in results(dtype)}


def expected_digests(dtypes: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for dtype in dtypes:
        for fold, x, axes in calls(dtype):
            if fold.scan:
                result = trees.scanned(fold.tree, x, axes[0], x.dtype)
            else:
                result = trees.reduced(fold.tree, x, axes, x.dtype)
            found[f"{fold.name} {dtype}{list(x.shape)} axis {axes[0] if fold.scan else axes}"] = cases.digest(
                result
            )
    return found


if __name__ == "__main__":
    sys.stdout.write(repr(digests()))
