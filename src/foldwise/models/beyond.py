"""Steps of a model on what is not in memory: folds read it in blocks, and what works element by element follows them.

A step whose inputs all are in memory runs as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from foldwise import dtypes, folds
from foldwise.engine import Arg, Reduce, Scan
from foldwise.errors import ModelError
from foldwise.operators.call import Reduction, Request, Scanning
from foldwise.operators.infer import without
from foldwise.scale import home

from .folding import FixedFolding, Folding, Siblings
from .plan import Step

Work = Callable[..., Any]


def beyond(step: Step) -> Work:
    """The work of a step, for inputs wherever they are."""

    def work(*inputs: Any) -> Any:
        far = next(filter(home, inputs), None)
        if far is None or step.need == "shape":
            return step.work(*inputs)
        where = home(far)
        assert where is not None
        if isinstance(step.work, Folding | FixedFolding):
            return _folded(where, step.operator, step.work.asked(*_asks(step.work, inputs)), far)
        if isinstance(step.work, Siblings):
            return _siblings(where, step.work, far)
        if step.need == "place":
            return where.mapped(step.label, step.said, np.errstate(all="ignore")(step.work), inputs)
        raise ModelError(
            "it needs its inputs whole, and one of them is not in memory; there, folds, scans and what works element "
            "by element are done. Give that input as an array"
        )

    return work


def _asks(work: Folding | FixedFolding, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What tells a folding what is asked for."""
    return (inputs,) if isinstance(work, Folding) else tuple(inputs)


def _folded(where: ModuleType, label: str, asked: Request, x: Any) -> Any:
    """What a node of the family makes of it."""
    if isinstance(asked, Reduction):
        return _reduced(where, label, [asked], x)[0]
    dtype, fold = dtypes.BY_NAME[x.dtype.name], folds.BY_NAME[asked.fold]
    if isinstance(asked, Scanning):
        return where.scan(label, Scan(label, fold, asked.axis, dtype, asked.exclusive, asked.reverse), x, None)
    return where.place(label, Arg(fold, (asked.axis,), asked.keepdims, asked.last), x, None)


def _reduced(where: ModuleType, label: str, all_asked: Sequence[Reduction], x: Any) -> list[Any]:
    """Reductions over the same axes: it is read once for all of them."""
    first, dtype = all_asked[0], dtypes.BY_NAME[x.dtype.name]
    if first.copies:
        return [x] * len(all_asked)
    if first.of_nothing is not None:
        shape = without(x.shape, first.axes, first.keepdims)
        return [np.full(shape, each.of_nothing, x.dtype) for each in all_asked]
    reductions = [Reduce(folds.BY_NAME[each.fold], each.axes, dtype, each.keepdims) for each in all_asked]
    return list(where.many(label, reductions, x, None))


def _siblings(where: ModuleType, work: Siblings, x: Any) -> list[Any]:
    found: dict[int, Any] = {}
    groups: dict[Any, list[int]] = {}
    asked = [each.asked(x) for each in work.foldings]
    for i, each in enumerate(asked):
        assert isinstance(each, Reduction)
        groups.setdefault((each.axes, each.keepdims, each.copies), []).append(i)
    for places in groups.values():
        label = " and ".join(work.foldings[i].folding.schema.label for i in places)
        together = [each for i in places if isinstance(each := asked[i], Reduction)]
        found.update(zip(places, _reduced(where, label, together, x), strict=True))
    return [found[i] for i in range(len(asked))]
