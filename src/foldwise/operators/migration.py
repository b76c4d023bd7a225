"""How a node of one version becomes nodes of another that give the same, in sentences, a step each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from foldwise import dtypes

from .catalog import CATALOG
from .prose import of_nothing
from .schema import Attribute, Schema

AXES: Final = ("axes", "noop_with_empty_axes")

LOGICAL: Final = {"any": "max", "all": "min"}
"""Folds of truth values, and the folds that they are when False is less than True (R-26)."""

STAND_INS: Final = {"x": "Identity", "|x|": "Abs", "log x": "Log", "x^2": "a product of the tensor with itself"}
"""What does to each element what a fold over no axes does (R-8)."""


def migration(old: Schema, new: Schema) -> tuple[str, ...]:
    """The steps, where both fold alike: none where a node can stay as it is, or where nothing would give the same."""
    if old.kind != new.kind or _plain_fold(old) != _plain_fold(new):
        return ()
    return (*_axes(old, new), *_attributes(old, new), *_dtypes(old, new), *_nothing(old, new))


def _plain_fold(schema: Schema) -> str:
    return LOGICAL.get(schema.fold, schema.fold)


# ---- axes


def _axes(old: Schema, new: Schema) -> Iterator[str]:
    if old.kind == "scan":
        if old.inputs[1].optional and not new.inputs[1].optional:
            yield "Give the input axis always, as a 0-D tensor; left out it means 0."
    elif old.kind == "reduce" and (_takes_input(old), old.empty_axes) != (_takes_input(new), new.empty_axes):
        yield from _named_axes(old, new)
        yield from _no_axes(old, new)
    counted = new.attribute("axes") or new.attribute("axis")
    if counted and new.previous is None and new.version < old.version and new.dialect == old.dialect:
        yield f"Count axes from the front where the rank is known: {new.full_name} promises no negative ones."


def _takes_input(schema: Schema) -> bool:
    return len(schema.inputs) > 1


def _named_axes(old: Schema, new: Schema) -> Iterator[str]:
    """Where axes are named."""
    if not _takes_input(new):
        yield (
            "Write constant axes that are not empty as the attribute axes; "
            f"where axes are computed, {new.full_name} cannot express the node."
        )
    elif not _takes_input(old):
        yield f"Move axes that are not empty from the attribute to the input axes, as {_accepted(new)}."
    elif new.empty_axes == "all":
        yield f"Make constant axes that are not empty {_accepted(new)}: a scalar becomes a list of one."
        yield (
            f"Cast computed axes to {new.inputs[1].type}, reshape them to 1-D, and set noop_with_empty_axes=1: "
            f"in {old.full_name} empty axes fold nothing."
        )
    else:
        yield "Where axes are computed, make sure that they are never empty: that would fold nothing."


def _accepted(schema: Schema) -> str:
    ranks = " or ".join(f"{rank}-D" for rank in schema.inputs[1].ranks or ())
    kinds = schema.dtypes_of(schema.inputs[1].type)
    return f"{ranks} {kinds[0] if len(kinds) == 1 else 'integers'}"


def _no_axes(old: Schema, new: Schema) -> Iterator[str]:
    """Where axes are left out, or are an empty constant."""
    idle = new.dialect == "openvino" and new.alone == "x"
    stand_in = "leave the node out" if idle else f"put {STAND_INS[new.alone]} in place of the node"
    if old.empty_axes == "none":
        yield f"Where constant axes are empty, {stand_in}."
        return
    if new.empty_axes == "all":
        yield "Leave empty axes out: both then fold all of them."
    else:
        yield "Where axes are left out or empty, write all of them, 0 to r-1."
    if old.attribute("noop_with_empty_axes"):
        yield f"But where noop_with_empty_axes=1 meets absent or empty axes, {stand_in}; elsewhere drop the attribute."


# ---- attributes


def _attributes(old: Schema, new: Schema) -> Iterator[str]:
    for mine in old.attributes:
        if mine.means in AXES:
            continue
        theirs = new.attribute(mine.means)
        if theirs is None:
            yield f"Drop {mine.name}={mine.shown_default}; {new.full_name} cannot express any other."
        else:
            yield from _attribute(old, mine, theirs)


def _attribute(old: Schema, mine: Attribute, theirs: Attribute) -> Iterator[str]:
    if mine.default != theirs.default:
        yield (
            f"Write {theirs.name} always, {_values(theirs)}: left out it means {theirs.shown_default}, "
            f"but {mine.name} in {old.full_name} means {mine.shown_default}."
        )
    elif mine.type != theirs.type:
        yield f"Write {theirs.name} as {_values(theirs)}."


def _values(attribute: Attribute) -> str:
    return "true or false" if attribute.type == "boolean" else "1 or 0"


# ---- dtypes


def _dtypes(old: Schema, new: Schema) -> Iterator[str]:
    """What to do with data that the new version does not take."""
    through: dict[str | None, list[str]] = {}
    for dtype in old.dtypes:
        if dtype not in new.dtypes:
            through.setdefault(_stand_in(dtype, new), []).append(dtype)
    for stand_in, lost in through.items():
        partner = _logical(new)
        if lost == ["bool"] and partner:
            yield f"For bool, use {partner.full_name}, which gives the same."
        elif stand_in is None:
            yield f"Data of {', '.join(lost)} cannot be folded by {new.full_name}, nor cast to what it takes."
        else:
            care = "".join(dict.fromkeys(_care(old, new, dtype, stand_in) for dtype in lost))
            yield f"Cast {', '.join(lost)} to {stand_in} before, and the result back after{care}."


def _logical(new: Schema) -> Schema | None:
    """What folds truth values in that dialect as this one's fold would."""
    return next((s for s in CATALOG.schemas if s.dialect == new.dialect and LOGICAL.get(s.fold) == new.fold), None)


def _stand_in(dtype: str, new: Schema) -> str | None:
    """The least dtype taken that holds all values of this one; for integers, if need be, float64."""
    kind = dtypes.BY_NAME[dtype].kind
    order = {
        "b": ("uint8", "int32"), "i": ("int32", "int64", "float64"), "u": ("uint32", "uint64", "float64"),
        "f": ("float32", "float64"),
    }[kind]  # fmt: skip
    return next((each for each in order if each in new.dtypes), None)


def _care(old: Schema, new: Schema, dtype: str, stand_in: str) -> str:
    """What is not the same after casting."""
    mine, theirs = dtypes.BY_NAME[dtype], dtypes.BY_NAME[stand_in]
    if mine.kind == "f":
        return "; the last bit may differ"
    if theirs.kind == "f":
        return "; what is refused because it is not finite comes out as something"
    if old.empty and new.empty and old.empty.of(mine) != _cast(new.empty.of(theirs), mine):
        return "; of no elements that gives something else"
    return ""


def _cast(value: int | float | None, dtype: dtypes.Dtype) -> int | float | None:
    """An integer in a narrower dtype: modulo 2^n, or whether it is not 0."""
    if not isinstance(value, int):
        return value
    lowest, highest = dtypes.limits(dtype)
    return bool(value) if dtype.kind == "b" else (value - lowest) % (highest - lowest + 1) + lowest


# ---- nothing


def _nothing(old: Schema, new: Schema) -> Iterator[str]:
    shared = [dtypes.BY_NAME[dtype] for dtype in old.dtypes if dtype in new.dtypes]
    if old.empty and new.empty and any(repr(old.empty.of(d)) != repr(new.empty.of(d)) for d in shared):
        meant = " ".join(f"{s.full_name}: {of_nothing(s).removeprefix('Of no elements: ')}" for s in (old, new))
        yield f"Guard the node where axes of length 0 may be folded, which is another matter in each. {meant}"
