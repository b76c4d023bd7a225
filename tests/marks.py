"""What tests run over, each a decorator: every fold, dtype and kind of hard data, every ISA of this machine."""

from __future__ import annotations

from collections.abc import Callable

import cases
import hard
import pytest


def _named(fold: cases.Fold) -> str:
    return fold.name


EVERY_FOLD = pytest.mark.parametrize("fold", cases.FOLDS, ids=_named)
EVERY_REDUCTION = pytest.mark.parametrize("fold", cases.REDUCTIONS, ids=_named)
EVERY_SCAN = pytest.mark.parametrize("fold", cases.SCANS, ids=_named)
EVERY_PAIR = pytest.mark.parametrize(("reduction", "scan"), cases.PAIRS, ids=_named)



def _every(folds: tuple[cases.Fold, ...], has: Callable[[cases.Fold], bool]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fold", [fold for fold in folds if has(fold)], ids=_named)


EVERY_FOLD_INTO_FLOATS = _every(cases.FOLDS, lambda fold: fold.result("float32") == "float32")
EVERY_REDUCTION_THAT_JOINS = _every(cases.REDUCTIONS, lambda fold: fold.joins)
EVERY_REDUCTION_OF_INTEGERS = _every(cases.REDUCTIONS, lambda fold: fold.stays_whole)
EVERY_FOLD_OF_INTEGERS = _every(cases.FOLDS, lambda fold: fold.stays_whole)
EVERY_REDUCTION_WITH_INITIAL = _every(cases.REDUCTIONS, lambda fold: "initial" in fold.options)
EVERY_FOLD_WITH_DTYPE = _every(cases.FOLDS, lambda fold: "dtype" in fold.options)
EVERY_FOLD_WITH_OVERFLOW = _every(cases.FOLDS, lambda fold: "overflow" in fold.options)

EVERY_DTYPE = pytest.mark.parametrize("dtype", cases.DTYPES)
EVERY_WHOLE = pytest.mark.parametrize("dtype", ["bool", *cases.INTEGERS])
EVERY_INTEGER = pytest.mark.parametrize("dtype", cases.INTEGERS)
EVERY_FLOAT = pytest.mark.parametrize("dtype", cases.FLOATS)

EVERY_ISA = pytest.mark.parametrize("isa", cases.ISAS)

EVERY_KIND = pytest.mark.parametrize("kind", dict.fromkeys(hard.KINDS), ids=lambda kind: kind.__name__)
