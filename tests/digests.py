"""Digests of the whole table's results, on the ISA of FOLDWISE_ISA.

`python digests.py FILE` saves one per case. `python digests.py --write` writes down one per fold and dtype, for every
machine and release to be held against: they change with the table, or with a release that gives other bits.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import cases
import numpy as np
from trees import Array

import foldwise

WRITTEN = Path(__file__).with_suffix(".txt")


def columns() -> dict[str, Array]:
    return {
        f"{fold.name} {dtype}": np.array([digest(case) for case in cases.cases(fold, dtype)], np.int64)
        for fold in cases.FOLDS
        for dtype in cases.DTYPES
    }


def digest(case: cases.Case) -> int:
    try:
        return cases.digest(case.fold.of(foldwise)(case.x, **case.arguments))
    except foldwise.FoldwiseError:
        return cases.digest(None)


def of_all(digests: Array) -> str:
    return f"{zlib.crc32(digests.astype('<i8').tobytes()):08x}"


def written() -> dict[str, str]:
    lines = WRITTEN.read_text(encoding="ascii").splitlines()
    return dict(line.rsplit(maxsplit=1) for line in lines)


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        WRITTEN.write_text("".join(f"{name} {of_all(found)}\n" for name, found in columns().items()), encoding="ascii")
    else:
        np.savez(sys.argv[1], allow_pickle=False, **columns())
