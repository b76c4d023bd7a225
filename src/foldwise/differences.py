"""`fw.diff`: any two operator versions side by side, in what they say, in what they do, and in how to move over.

What compares them is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .errors import ArgumentError, OptionError, UnknownOperatorError
from .operators import CATALOG, Schema

if TYPE_CHECKING:
    from .behaviour import Behaviour
    from .operation import Operator
    from .operators.definition import Definition
    from .operators.diff import Alteration, SchemaDiff, TextDiff

Text = Literal["foldwise", "onnx"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What two operator versions do not have in common. It is true where there is anything."""

    schema: SchemaDiff
    """Inputs, outputs, attributes, types and documentation."""
    behaviour: Behaviour | None = None
    """The smallest calls on which the two part; None for operators that foldwise does not run."""
    migration: tuple[str, ...] = ()
    """How a node of the old version becomes nodes of the new one, a step each."""

    @property
    def breaking(self) -> bool:
        """Whether a model of the old version, left as it is, could be refused or do something else now."""
        return self.schema.breaking

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it breaks."""
        return self.schema.reasons

    @property
    def alterations(self) -> tuple[Alteration, ...]:
        """What is added, removed or changed among inputs, outputs, attributes and type constraints."""
        return self.schema.alterations

    @property
    def documentation(self) -> TextDiff | None:
        """The two texts, line by line; None where they are the same."""
        return self.schema.documentation

    @property
    def title(self) -> str:
        """What is compared with what, in a few words."""
        old, new = self.schema.old, self.schema.new
        if self.schema.same_operator:
            return f"{old.name} {old.version} -> {new.version}"
        return f"{old.full_name} -> {new.full_name}"

    @property
    def verdict(self) -> str:
        """The difference in a word or two."""
        return "breaking" if self.breaking else "not breaking" if self else "no differences"

    def __bool__(self) -> bool:
        acts = self.behaviour is not None and bool(self.behaviour.findings)
        return bool(self.alterations or self.documentation or acts)

    def data(self) -> dict[str, Any]:
        """Everything, for programs: dicts, lists, strings and numbers."""
        text = self.documentation
        return {
            "old": self.schema.old.full_name,
            "new": self.schema.new.full_name,
            "breaking": self.breaking,
            "reasons": list(self.reasons),
            "alterations": [{**each._asdict(), "details": list(each.details)} for each in self.alterations],
            "documentation": text and {**text._asdict(), "lines": list(text.lines)},
            "behaviour": self.behaviour and {
                "asked": self.behaviour.asked,
                "findings": [finding.data() for finding in self.behaviour.findings],
            },
            "migration": list(self.migration),
        }  # fmt: skip

    def html(self) -> str:
        """A page that needs nothing else: no scripts, no requests, light or dark as the reader has it."""
        from .pages.difference import page

        return page(self)

    def _repr_html_(self) -> str:
        from .pages.difference import fragment

        return fragment(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"<Difference {self.schema.old.full_name} -> {self.schema.new.full_name}>"

    def _lines(self) -> Iterator[str]:
        yield str(self.schema)
        if not self:
            yield "No differences."
        if self.behaviour:
            yield "Behaviour:"
            yield f"  - {self.behaviour}"
            for finding in self.behaviour.findings:
                yield f"  - {finding.about}:"
                yield from (f"      {call} -> {outcome}" for call, outcome in finding.sides)
        if self.migration:
            yield "Migration:"
            yield from (f"  - {step}" for step in self.migration)


def diff(
    old: str | Schema | Operator,
    new: str | Schema | Operator | None = None,
    *,
    versions: tuple[int, int] | None = None,
    text: Text = "foldwise",
) -> Difference:
    """What changes from one operator version to another: fw.diff("onnx:ReduceSum-11", "openvino:ReduceSum-1").

    Names are those of `fw.operator`, and what that gives is taken, too; of one operator, `versions=(11, 13)` chooses
    two. Where onnx is installed, other operators of onnx are compared, too, by their definitions alone, and
    `text="onnx"` compares onnx's own definitions and texts of operators whose prose would be ours. Between dialects,
    inputs go by their place and attributes by their role.
    """
    if text not in ("foldwise", "onnx"):
        raise OptionError(f'diff: text = {text!r}; accepted are "foldwise" and "onnx"')
    from .behaviour import behaviour
    from .operators.diff import compare
    from .operators.migration import migration

    before, after = (_found(*each) for each in _two(old, new, versions))
    if not isinstance(before, Schema) or not isinstance(after, Schema):
        return Difference(compare(_official(before), _official(after)))
    schemas = compare(_defined(before, text), _defined(after, text))
    return Difference(schemas, behaviour(before, after), migration(before, after))


def _two(
    old: str | Schema | Operator, new: str | Schema | Operator | None, versions: tuple[int, int] | None
) -> tuple[tuple[str | Schema | Operator, int | None], ...]:
    """The two sides, each with the version that was named apart from it."""
    if new is not None and versions is None:
        return (old, None), (new, None)
    if new is not None or versions is None:
        raise ArgumentError("diff: give two operators, or one and versions=(11, 13)")
    if not isinstance(old, str) or not isinstance(versions, tuple | list) or len(versions) != 2:
        raise ArgumentError(f"diff: versions = {versions!r}; it must be two ints, beside an operator's name")
    first, second = versions
    return (old, first), (old, second)


def _found(name: str | Schema | Operator, version: int | None) -> Schema | Definition:
    """A version of the catalog, or of onnx where the catalog has no such operator."""
    schema = getattr(name, "schema", name)
    if isinstance(schema, Schema):
        return schema
    if not isinstance(name, str):
        raise ArgumentError(
            f"diff: an operator is of type {type(name).__name__}; give its name, such as "
            f'"{CATALOG.schemas[0].full_name}", or what fw.operator gives'
        )
    try:
        return CATALOG.find(name, version)
    except UnknownOperatorError as unknown:
        domain, colon, rest = name.rpartition(":")
        _, plain, number = CATALOG.named(rest, version)
        inside = not colon or domain == "onnx"
        if plain in CATALOG.names("onnx") if inside else not domain.startswith("ai.onnx"):
            raise
        return _in_onnx(plain, number, "" if inside else domain, unknown)


def _in_onnx(name: str, version: int | None, domain: str, unknown: Exception | None = None) -> Definition:
    """What onnx itself says of an operator, if it is installed."""
    try:
        from .models import onnx_definitions
    except ImportError:
        why = f"{unknown}; more is known" if unknown else "diff: onnx's own texts are known"
        raise UnknownOperatorError(f'{why} where the package onnx is: pip install "foldwise[onnx]"') from None
    return onnx_definitions.find(name, version, domain)


def _official(found: Schema | Definition) -> Definition:
    """A definition of onnx, of its own operators; ours of others."""
    if not isinstance(found, Schema):
        return found
    return _defined(found, "onnx" if found.dialect == "onnx" else "foldwise")


def _defined(schema: Schema, text: Text) -> Definition:
    """Our definition, or onnx's own."""
    from .operators.definition import definition

    if text == "foldwise":
        return definition(schema)
    if schema.dialect != "onnx":
        raise OptionError(f'diff: text="onnx", but onnx has no text of {schema.full_name}; leave it out')
    return _in_onnx(schema.name, schema.version, "")
