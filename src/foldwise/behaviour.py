"""What two operator versions do differently, found by asking both for the same.

The questions are few, fixed, and the smallest of their kind come first. Each is put in a version's own form: axes as an
attribute or as an input, flags as integers or booleans, by the names that the version knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import dtypes
from .errors import FoldwiseError
from .operation import Operator
from .operators import Schema
from .operators.call import shape_text

Array = NDArray[Any]

NAN: Final = float("nan")
INFINITY: Final = float("inf")
_PREFERRED: Final = tuple(dict.fromkeys(["float32", "int32", "bool", *dtypes.BY_NAME]))
"""Where several dtypes do, the plainest."""


class Question(NamedTuple):
    """What both versions are asked: what to fold, along which axes, and with which options, by their roles."""

    data: Array
    axes: tuple[int, ...] | None = (0,)
    """None: they are left out."""
    options: Mapping[str, int] = {"keepdims": 1}
    axes_dtype: str = "int64"
    other_rank: bool = False
    """Whether the axes come as a scalar where a list is usual, or as a list where a scalar is."""


class Outcome(NamedTuple):
    """What came of a call: a result, or a refusal and why."""

    result: Array | None
    refusal: str = ""

    def agrees(self, other: Outcome) -> bool:
        """Whether both are refusals, or the same dtype, shape and bits."""
        mine, theirs = self.result, other.result
        if mine is None or theirs is None:
            return mine is theirs
        return (mine.dtype, mine.shape, mine.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())

    def data(self) -> dict[str, Any]:
        """The same for programs."""
        if self.result is None:
            return {"refused": self.refusal}
        return {"dtype": self.result.dtype.name, "shape": list(self.result.shape), "values": self.result.tolist()}

    def __str__(self) -> str:
        return f"refused: {self.refusal}" if self.result is None else _described(self.result)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of one version, as that version is called."""

    schema: Schema
    data: Array
    named: Mapping[str, Any]

    def run(self) -> Outcome:
        """What comes of it."""
        try:
            return Outcome(Operator(self.schema)(self.data, **self.named))
        except FoldwiseError as error:
            return Outcome(None, str(error).removeprefix(f"{self.schema.label}: "))

    @property
    def arguments(self) -> str:
        """What is given, in parentheses."""
        named = [f"{name}={_written(value)}" for name, value in self.named.items()]
        return f"({', '.join([_described(self.data), *named])})"

    def __str__(self) -> str:
        return f"{self.schema.full_name}{self.arguments}"


class Finding(NamedTuple):
    """The smallest call of its kind after which two versions part."""

    about: str
    old: Call
    old_outcome: Outcome
    new: Call
    new_outcome: Outcome

    @property
    def sides(self) -> tuple[tuple[Call, Outcome], ...]:
        """Each call with what came of it."""
        return (self.old, self.old_outcome), (self.new, self.new_outcome)

    def data(self) -> dict[str, Any]:
        """The same for programs."""
        shown = [{"call": str(call), "outcome": outcome.data()} for call, outcome in self.sides]
        return {"about": self.about, "old": shown[0], "new": shown[1]}


class Behaviour(NamedTuple):
    """How two versions answered."""

    asked: int
    findings: tuple[Finding, ...]
    """One for each kind of question on which they part, the smallest first; none where they always agree."""

    def __str__(self) -> str:
        if self.findings:
            return f"{self.asked} calls were tried; on these, the smallest of their kind, the two part"
        return f"{self.asked} calls were tried, and the two agree on all of them"


def behaviour(old: Schema, new: Schema) -> Behaviour:
    """Ask both versions everything."""
    asked, findings = 0, []
    for about, questions in _questions(old, new).items():
        asked += len(questions)
        telling = (finding for each in questions if (finding := _finding(about, old, new, each)))
        findings += [*itertools.islice(telling, 1)]
    return Behaviour(asked, tuple(sorted(findings, key=lambda each: each.old.data.size)))


def _finding(about: str, old: Schema, new: Schema, question: Question) -> Finding | None:
    """Where the two part, unless they do already when they are asked more plainly."""
    before, after = expressed(old, question), expressed(new, question)
    outcomes = before.run(), after.run()
    if outcomes[0].agrees(outcomes[1]):
        return None
    plainer = Question(question.data), Question(question.data, question.axes)
    if any(_finding(about, old, new, each) for each in plainer if _is_plainer(each, question)):
        return None
    return Finding(about, before, outcomes[0], after, outcomes[1])


def _is_plainer(one: Question, than: Question) -> bool:
    return one.data.ndim > 0 and one[1:] != than[1:]


# ---- a question in a version's own form


def expressed(schema: Schema, question: Question) -> Call:
    """The call by which a version is asked. What it has no word for goes by its name elsewhere, and is refused."""
    options = {
        _name_of(schema, role): _own_form(schema, role, value)
        for role, value in question.options.items()
        if schema.attribute(role) or not _goes_without_saying(schema, role, value, question.axes)
    }
    return Call(schema, question.data, _axes(schema, question) | options)


def _name_of(schema: Schema, role: str) -> str:
    attribute = schema.attribute(role)
    return attribute.name if attribute else role


def _own_form(schema: Schema, role: str, value: int) -> int | bool:
    attribute = schema.attribute(role)
    return bool(value) if attribute and attribute.type == "boolean" else value


def _goes_without_saying(schema: Schema, role: str, value: int, axes: tuple[int, ...] | None) -> bool:
    """Whether a version does of itself what others do when told: a scan keeps its axis."""
    if role == "keepdims":
        return schema.kind == "scan"
    if role == "noop_with_empty_axes":
        return schema.empty_axes == "none" or bool(axes)
    return not value


def _axes(schema: Schema, question: Question) -> dict[str, Any]:
    if question.axes is None:
        return {}
    one = question.axes[0] if question.axes else None
    if schema.kind == "arg":
        return {"axis": one}
    if len(schema.inputs) < 2:
        return {"axes": list(question.axes)}
    scalar = (schema.kind == "scan") != question.other_rank
    return {schema.inputs[1].name: np.array(one if scalar else question.axes, question.axes_dtype)}


# ---- the questions


def _questions(old: Schema, new: Schema) -> dict[str, tuple[Question, ...]]:
    """Questions by what they are about, the smaller ones first."""
    shared = [dtype for dtype in _PREFERRED if dtype in old.dtypes and dtype in new.dtypes]
    either = [dtype for dtype in dtypes.BY_NAME if dtype in old.dtypes or dtype in new.dtypes]
    about: dict[str, Iterable[Question]] = {"dtypes": (Question(_filled((1,), dtype)) for dtype in either)}
    if shared:
        plain = shared[0]
        about |= {
            "elements": _of_elements(shared),
            "several axes": _of_shapes(plain),
            "keepdims": _of_keepdims(plain),
            "nothing to fold": _of_nothing(shared),
            "rank 0": (Question(_filled((), plain), ()),),
            "axes left out": (Question(_filled(shape, plain), None) for shape in ((1,), (), (2,), (2, 2))),
            "axes empty": (Question(_filled(shape, plain), ()) for shape in ((1,), (2,), (2, 2))),
            "no axes, to fold nothing": _of_noop(plain),
            "the order, sign and range of axes": _of_one_axis(plain),
            "the dtype and rank of axes": _of_forms(plain) if min(len(old.inputs), len(new.inputs)) > 1 else (),
            **dict(_of_flags(old, new, plain)),
        }
    return {name: tuple(_sensible(questions, old, new)) for name, questions in about.items()}


def _sensible(questions: Iterable[Question], old: Schema, new: Schema) -> list[Question]:
    """The smaller ones first; an operator of one axis is asked for one axis."""
    several = {old.kind, new.kind} == {"reduce"}
    fit = [each for each in questions if several or (each.axes is None or len(each.axes) == 1)]
    return sorted(fit, key=lambda each: each.data.size)


def _filled(shape: tuple[int, ...], dtype: str) -> Array:
    """1, 2, 3, ... in rows; of booleans, every other one is true."""
    count = np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape)
    return (count % 2 if dtype == "bool" else count).astype(dtype)


def _of_elements(shared: list[str]) -> Iterator[Question]:
    """Values that tell folds apart, then those at the ends of a dtype and beyond numbers."""
    for dtype in shared:
        kind = dtypes.BY_NAME[dtype].kind
        signed: tuple[Any, ...] = ([-1], [-1, -2], [-1, 2]) if kind in "if" else ()
        for values in ([1], [0], [2], [0, 0], [1, 1], [1, 2], [2, 1], *signed, *_extreme(dtype)):
            yield Question(np.array(values, dtype))


def _extreme(dtype: str) -> tuple[list[float], ...]:
    """Lists that overflow a dtype; of floats also those that hold no numbers."""
    described = dtypes.BY_NAME[dtype]
    if described.kind == "f":
        return [NAN], [INFINITY], [-INFINITY], [-0.0], [NAN, 1], [1, NAN], [INFINITY, -INFINITY], [-INFINITY, -INFINITY]
    lowest, highest = dtypes.limits(described)
    return ([highest], [lowest], [highest, 1], [highest, highest], [lowest, lowest])


def _of_shapes(dtype: str) -> Iterator[Question]:
    for shape, axes in (((2, 2), (1,)), ((2, 2), (0, 1)), ((1, 2, 2), (2, 0)), ((2, 2, 2), (0, 2))):
        for keepdims in (0, 1):
            yield Question(_filled(shape, dtype), axes, {"keepdims": keepdims})


def _of_keepdims(dtype: str) -> Iterator[Question]:
    for options in ({}, {"keepdims": 0}):
        yield Question(_filled((1,), dtype), options=options)


def _of_nothing(shared: list[str]) -> Iterator[Question]:
    """Axes of length 0: of one dtype of each kind."""
    firsts = {dtypes.BY_NAME[dtype].kind: dtype for dtype in reversed(shared)}
    for dtype in sorted(firsts.values(), key=shared.index):
        for shape, axis in (((0,), 0), ((0, 2), 0), ((0, 2), 1)):
            yield Question(_filled(shape, dtype), (axis,))


def _of_one_axis(dtype: str) -> Iterator[Question]:
    for axes in ((-1,), (1,), (-2,), (0, 0)):
        yield Question(_filled((2,), dtype), axes)
    for axes in ((-1, 0), (1, 0), (1, -1), (-2,)):
        yield Question(_filled((2, 2), dtype), axes)


def _of_forms(dtype: str) -> Iterator[Question]:
    yield Question(_filled((1,), dtype), other_rank=True)
    for axes_dtype in ("int32", "int8", "uint64"):
        yield Question(_filled((1,), dtype), axes_dtype=axes_dtype)


def _of_noop(dtype: str) -> Iterator[Question]:
    told = {"keepdims": 1, "noop_with_empty_axes": 1}
    for shape in ((1,), (2,)):
        for axes in (None, (), (0,)):
            yield Question(_filled(shape, dtype), axes, told)


def _of_flags(old: Schema, new: Schema, dtype: str) -> Iterator[tuple[str, tuple[Question, ...]]]:
    """Each flag that either has, set and not; of three elements, two of them equal."""
    flags = {a.means for schema in (old, new) for a in schema.attributes if a.type in ("flag", "boolean")}
    for flag in sorted(flags - {"keepdims", "noop_with_empty_axes"}):
        data = [_filled((1,), dtype), _filled((2,), dtype), np.array([1, 0, 1], dtype), np.array([0, 1, 0], dtype)]
        yield flag, tuple(Question(each, options={"keepdims": 1, flag: value}) for each in data for value in (0, 1))


# ---- in words


def _described(array: Array) -> str:
    """Dtype, shape where the values do not show it, and values."""
    shape = "" if array.size else f" of shape {shape_text(array.shape)}"
    return f"{array.dtype.name}{shape} {_written(array.tolist())}".rstrip()


def _written(value: Any) -> str:
    """An argument as it is typed; a tensor of axes without its dtype where that is int64."""
    if isinstance(value, np.ndarray):
        return str(value.tolist()) if value.dtype == np.int64 else f"{value.dtype.name} {value.tolist()}"
    return str(value)
