"""Arrays of several megabytes, which threads really share: what is folded, and the digests of the results."""

from __future__ import annotations

import functools
import math
import sys
import zlib
from collections.abc import Iterator

import cases
import numpy as np
import references
from cases import Fold
from domains import Domain
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


@functools.lru_cache(maxsize=8)
def data(dtype: str, domain: Domain, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(zlib.crc32(f"{dtype} {shape}".encode()))
    return domain(rng, cases.dtype_of(dtype), math.prod(shape)).reshape(shape)


def calls(dtype: str) -> Iterator[tuple[Fold, Array, tuple[int, ...]]]:
    for turn, (shape, axes_list) in enumerate(SHAPES):
        for first, fold in enumerate(cases.FOLDS):
            if (first + turn) % min(fold.share, 3):
                continue
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
    """By the trees; of folds whose bits they do not know, those of this process."""
    found = {}
    for dtype in dtypes:
        for (name, result), (fold, x, axes) in zip(results(dtype), calls(dtype), strict=True):
            if fold.tree.slack:
                wanted: Array | None = result
            else:
                wanted = references.reference(fold, x, axes[0] if fold.scan else axes, fold.result_of(x))
            found[name] = cases.digest(wanted)
    return found


if __name__ == "__main__":
    sys.stdout.write(repr(digests()))
