"""`python digests.py FILE` computes the whole table, on the ISA of FOLDWISE_ISA: a digest per case."""

from __future__ import annotations

import sys

import cases
import numpy as np

import foldwise


def main(path: str) -> None:
    table = {
        f"{fold.name} {dtype}": np.array([digest(case) for case in cases.cases(fold, dtype)], np.int64)
        for fold in cases.FOLDS
        for dtype in cases.DTYPES
    }
    np.savez(path, allow_pickle=False, **table)


def digest(case: cases.Case) -> int:
    try:
        return cases.digest(case.fold.of(foldwise)(case.x, **case.arguments))
    except foldwise.FoldwiseError:
        return cases.digest(None)


if __name__ == "__main__":
    main(sys.argv[1])
