"""What tests run over, each a decorator: every fold, every dtype, every ISA of this machine."""

from __future__ import annotations

import cases
import pytest


def _named(fold: cases.Fold) -> str:
    return fold.name


EVERY_FOLD = pytest.mark.parametrize("fold", cases.FOLDS, ids=_named)
EVERY_REDUCTION = pytest.mark.parametrize("fold", cases.REDUCTIONS, ids=_named)
EVERY_SCAN = pytest.mark.parametrize("fold", cases.SCANS, ids=_named)
EVERY_PAIR = pytest.mark.parametrize(("reduction", "scan"), cases.PAIRS, ids=_named)

EVERY_DTYPE = pytest.mark.parametrize("dtype", cases.DTYPES)
EVERY_WHOLE = pytest.mark.parametrize("dtype", ["bool", *cases.INTEGERS])
EVERY_INTEGER = pytest.mark.parametrize("dtype", cases.INTEGERS)
EVERY_FLOAT = pytest.mark.parametrize("dtype", cases.FLOATS)

EVERY_ISA = pytest.mark.parametrize("isa", cases.ISAS)
