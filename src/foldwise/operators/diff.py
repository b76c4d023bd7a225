"""Any two operator versions side by side: what one has and the other has not, and what of that breaks a model.

Something breaks where a model made for the old version, left as it is, could be refused or do something else under
the new one. Between dialects, inputs go by their place, attributes by their role, types by the one table of dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from .definition import COMMON, Arity, Constant, Constraint, Definition, Parameter

Part = Literal["operator", "input", "output", "attribute", "type constraint"]
T = TypeVar("T")

PARTS: Final[tuple[tuple[Part, str], ...]] = (
    ("operator", "Operator"),
    ("input", "Inputs"),
    ("output", "Outputs"),
    ("attribute", "Attributes"),
    ("type constraint", "Type constraints"),
)
"""What a diff goes through, in this order, and the headings of its sections."""


class Detail(NamedTuple):
    """One thing that an alteration consists of."""

    text: str
    breaks: bool = False


class Alteration(NamedTuple):
    """One part of a definition that is not the same in the other."""

    part: Part
    change: Literal["added", "removed", "changed"]
    name: str
    details: tuple[str, ...]
    breaking: bool

    @property
    def reason(self) -> str:
        """As a reason for breaking: attribute 'axes' (removed): type=INTS; required=False."""
        return f"{self.part} '{self.name}' ({self.change}): {'; '.join(self.details)}"

    def __str__(self) -> str:
        return f"{'[BREAKING] ' if self.breaking else ''}{self.change} '{self.name}': {'; '.join(self.details)}"


class TextDiff(NamedTuple):
    """Two documentations, line by line."""

    similarity: float
    added: int
    removed: int
    lines: tuple[str, ...]
    """A unified diff."""

    def __str__(self) -> str:
        return f"line similarity: {self.similarity:.2f} (+{self.added}/-{self.removed} lines)"


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """What two definitions do not have in common."""

    old: Definition
    new: Definition
    alterations: tuple[Alteration, ...]
    documentation: TextDiff | None
    """None where the texts are the same."""

    @property
    def breaking(self) -> bool:
        """Whether a model of the old version cannot be sure of the new one."""
        return any(each.breaking for each in self.alterations)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it breaks."""
        return tuple(each.reason for each in self.alterations if each.breaking)

    @property
    def same_operator(self) -> bool:
        """Whether these are two versions of one operator."""
        return (self.old.domain, self.old.name) == (self.new.domain, self.new.name)

    @property
    def title(self) -> str:
        """What is compared."""
        if self.same_operator:
            return f"{self.old.name} (domain '{self.old.domain}')"
        return f"{self.old.full_name} -> {self.new.full_name}"

    def sections(self) -> Iterator[tuple[str, tuple[Alteration, ...]]]:
        """The sections that have entries, each with its heading."""
        for part, heading in PARTS:
            found = tuple(each for each in self.alterations if each.part == part)
            if found:
                yield heading, found

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"SchemaDiff: {self.title}"
        yield f"  old version : {self.old.version}"
        yield f"  new version : {self.new.version}"
        yield f"  breaking    : {self.breaking}"
        if self.reasons:
            yield "Breaking reasons:"
            yield from (f"  - {reason}" for reason in self.reasons)
        for heading, alterations in self.sections():
            yield f"{heading}:"
            yield from (f"  - {each}" for each in alterations)
        if self.documentation:
            yield "Documentation:"
            yield f"  - {self.documentation}"
            yield from self.documentation.lines


def compare(old: Definition, new: Definition) -> SchemaDiff:
    """The differences from one definition to another."""
    alterations = (
        *_changed("operator", new.name, _deprecation(old, new)),
        *_parameters("input", old, new),
        *_parameters("output", old, new),
        *_attributes(old, new),
        *_constraints(old, new),
    )
    return SchemaDiff(old, new, alterations, _text_diff(old, new))


def _deprecation(old: Definition, new: Definition) -> Iterator[Detail]:
    if old.deprecated != new.deprecated:
        yield Detail(f"deprecated changed {old.deprecated} -> {new.deprecated}", new.deprecated)


def _foreign(old: Definition, new: Definition) -> bool:
    return old.dialect != new.dialect


def _paired(before: Mapping[Hashable, T], after: Mapping[Hashable, T]) -> Iterator[tuple[T | None, T | None]]:
    """What belongs together, in the order of the old and then of the new; None where one side has nothing."""
    for key in dict.fromkeys([*before, *after]):
        yield before.get(key), after.get(key)


def _changed(part: Part, name: str, details: Iterable[Detail]) -> Iterator[Alteration]:
    """One alteration for all the details, if there are any."""
    found = tuple(details)
    if found:
        yield Alteration(part, "changed", name, tuple(d.text for d in found), any(d.breaks for d in found))


def _renamed(old: str, new: str) -> Iterator[Detail]:
    if old != new:
        yield Detail(f"name changed '{old}' -> '{new}'")


# ---- inputs and outputs


class _Placed(NamedTuple):
    place: int
    parameter: Parameter


def _parameters(part: Part, old: Definition, new: Definition) -> Iterator[Alteration]:
    (mine, my_count), (theirs, their_count) = (_side(each, part) for each in (old, new))
    foreign = _foreign(old, new)
    for was, now in _paired(_placed(mine, foreign), _placed(theirs, foreign)):
        if was is None:
            assert now is not None
            yield _added_parameter(part, now)
        elif now is None:
            yield Alteration(part, "removed", was.parameter.name, (f"was at position {was.place}",), True)
        else:
            yield from _changed(part, now.parameter.name, _parameter_details(old, new, was, now))
    yield from _changed(part, "<arity>", _arity_details(part, my_count, their_count))


def _side(definition: Definition, part: Part) -> tuple[tuple[Parameter, ...], Arity]:
    inputs = part == "input"
    return (definition.inputs, definition.input_count) if inputs else (definition.outputs, definition.output_count)


def _placed(parameters: tuple[Parameter, ...], by_place: bool) -> dict[Hashable, _Placed]:
    """Parameters by what they go by: their place, or their name."""
    return {place if by_place else each.name: _Placed(place, each) for place, each in enumerate(parameters)}


def _added_parameter(part: Part, now: _Placed) -> Alteration:
    added = now.parameter
    details = (f"at position {now.place}", f"option={added.option}", f"type_str='{added.type}'")
    return Alteration(part, "added", added.name, details, added.option != "Optional")


def _parameter_details(old: Definition, new: Definition, was: _Placed, now: _Placed) -> Iterator[Detail]:
    before, after = was.parameter, now.parameter
    yield from _renamed(before.name, after.name)
    if was.place != now.place:
        yield Detail(f"position changed {was.place} -> {now.place}", True)
    if before.option != after.option:
        yield Detail(f"option changed {before.option} -> {after.option}", before.option == "Optional")
    if before.type != after.type:
        breaks = not _foreign(old, new) or bool(_common(old, before.type) - _common(new, after.type))
        yield Detail(f"type_str changed '{before.type}' -> '{after.type}'", breaks)


def _common(definition: Definition, kind: str) -> set[str]:
    """The types behind a parameter, as the one table names them."""
    return {COMMON.get(each, each) for each in definition.types_of(kind)}


def _arity_details(part: str, before: Arity, after: Arity) -> Iterator[Detail]:
    if before != after:
        yield Detail(f"min_{part} {before.least} -> {after.least}", after.least > before.least)
        yield Detail(f"max_{part} {_shown(before.most)} -> {_shown(after.most)}", after.most < before.most)


def _shown(most: float) -> str:
    return "∞" if math.isinf(most) else str(most)


# ---- attributes


def _attributes(old: Definition, new: Definition) -> Iterator[Alteration]:
    before, after = ({each.means: each for each in d.attributes} for d in (old, new))
    for means in sorted({*before, *after}):
        was, now = before.get(means), after.get(means)
        if was is None:
            assert now is not None
            default = () if now.required or now.default is None else (f"default={now.shown_default}",)
            yield Alteration("attribute", "added", now.name, (*_kind_of(now), *default), now.required)
        elif now is None:
            yield Alteration("attribute", "removed", was.name, _kind_of(was), True)
        else:
            yield from _changed("attribute", now.name, _attribute_details(was, now, _foreign(old, new)))


def _kind_of(attribute: Constant) -> tuple[str, ...]:
    return f"type={attribute.type}", f"required={attribute.required}"


def _attribute_details(was: Constant, now: Constant, foreign: bool) -> Iterator[Detail]:
    yield from _renamed(was.name, now.name)
    if was.type != now.type:
        one_flag = foreign and {was.type, now.type} == {"INT", "boolean"}
        yield Detail(f"type changed {was.type} -> {now.type}", not one_flag)
    if was.required != now.required:
        yield Detail(f"required changed {was.required} -> {now.required}", now.required)
    if was.default != now.default:
        yield Detail(f"default value changed {was.shown_default} -> {now.shown_default}", True)


# ---- type constraints


def _constraints(old: Definition, new: Definition) -> Iterator[Alteration]:
    foreign = _foreign(old, new)
    before, after = ({_used_by(d, each) if foreign else each.name: each for each in d.constraints} for d in (old, new))
    for was, now in _paired(before, after):
        if now is None:
            assert was is not None
            yield Alteration("type constraint", "removed", was.name, ("entire constraint removed",), True)
            continue
        mine, theirs = (
            {COMMON.get(t, t) if foreign else t for t in each.types} if each else set() for each in (was, now)
        )
        details = [*(_renamed(was.name, now.name) if was else ()), *_type_details(mine, theirs)]
        if was is None:
            yield Alteration("type constraint", "added", now.name, tuple(d.text for d in details), False)
        else:
            yield from _changed("type constraint", now.name, details)


def _used_by(definition: Definition, constraint: Constraint) -> Hashable:
    """The first place that a constraint is for: where letters differ, this tells which belong together."""
    parameters: Sequence[Parameter] = (*definition.inputs, *definition.outputs)
    return next((place for place, each in enumerate(parameters) if each.type == constraint.name), constraint.name)


def _type_details(before: set[str], after: set[str]) -> Iterator[Detail]:
    if after - before:
        yield Detail(f"added types: {sorted(after - before)}")
    if before - after:
        yield Detail(f"removed types: {sorted(before - after)}", True)


# ---- documentation


def _text_diff(old: Definition, new: Definition) -> TextDiff | None:
    if old.text == new.text:
        return None
    import difflib  # only a diff needs it

    before, after = (f"{_owner(each, old, new)} v{each.version}" for each in (old, new))
    lines = tuple(difflib.unified_diff(old.text, new.text, before, after, lineterm=""))
    similarity = difflib.SequenceMatcher(None, old.text, new.text).ratio()
    signs = [line[0] for line in lines[2:]]
    return TextDiff(similarity, signs.count("+"), signs.count("-"), lines)


def _owner(each: Definition, old: Definition, new: Definition) -> str:
    return f"{each.dialect}:{each.name}" if _foreign(old, new) else each.name
