"""What one version of one operator of one dialect accepts, and how versions grow from each other by changes."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from foldwise import dtypes
from foldwise.errors import ArgumentError, OptionError, UnknownOperatorError

Kind = Literal["reduce", "arg", "scan"]
Nothing = int | float | Literal["lowest", "highest"] | None
"""What a fold of no elements gives: a number, an end of the dtype's range, or None where it is refused."""


class Input(NamedTuple):
    """A tensor that a call is given."""

    name: str
    type: str
    """The name of a type constraint, or of the one dtype."""
    text: str
    optional: bool = False
    ranks: tuple[int, ...] | None = None
    """The ranks it may have; None: any."""
    default: int | None = None
    """What stands for it when it is left out, where the dialect says so."""


def shown(default: Any, kind: str = "", absent: str = "absent") -> str:
    """A default as dialects write it, for an attribute of some type."""
    if default is None:
        return absent
    return str(bool(default)).lower() if kind == "boolean" else str(default)


class Output(NamedTuple):
    """A tensor that a call gives."""

    name: str
    type: str
    text: str


class Attribute(NamedTuple):
    """A constant of a call. A flag is an integer, 0 or 1; a default of None means that it may be absent."""

    name: str
    type: Literal["flag", "boolean", "int", "ints"]
    default: int | None
    text: str
    role: str = ""
    """What it stands for, where the dialect's name is another."""

    @property
    def means(self) -> str:
        """The name under which every dialect knows it."""
        return self.role or self.name

    @property
    def shown_default(self) -> str:
        """The default as the dialect writes it."""
        return shown(self.default, self.type)


class TypeConstraint(NamedTuple):
    """The dtypes that a letter of the signature stands for, in the order of the one table."""

    name: str
    dtypes: tuple[str, ...]
    text: str


class Empty(NamedTuple):
    """What a fold of no elements gives, for each kind of dtype."""

    floats: Nothing
    integers: Nothing
    bools: Nothing = None

    def of(self, dtype: dtypes.Dtype) -> int | float | None:
        """What it gives in this dtype, as a number, or None where it is refused."""
        given = self.floats if dtype.kind == "f" else self.bools if dtype.kind == "b" else self.integers
        if given == "lowest" or given == "highest":
            return dtypes.limits(dtype)[given == "highest"]
        return given


class Change(NamedTuple):
    """What one version changes against the one before it."""

    note: str = ""
    inputs: tuple[Input, ...] = ()
    """Inputs added at the end."""
    attributes: tuple[Attribute, ...] = ()
    """Attributes added."""
    removes: tuple[str, ...] = ()
    """Attributes that are gone."""
    gains: tuple[str, ...] = ()
    """Dtypes added to T."""
    loses: tuple[str, ...] = ()
    """Dtypes taken from T."""

    def apply(self, schema: Schema) -> Schema:
        """The schema after this change."""
        kept = tuple(a for a in schema.attributes if a.name not in self.removes)
        return replace(
            schema,
            inputs=schema.inputs + self.inputs,
            attributes=kept + self.attributes,
            types=tuple(self._retyped(t) if t.name == "T" else t for t in schema.types),
            changes=schema.changes + tuple(self.described()),
        )

    def _retyped(self, constraint: TypeConstraint) -> TypeConstraint:
        names = (set(constraint.dtypes) | set(self.gains)) - set(self.loses)
        return constraint._replace(dtypes=in_order(names))

    def described(self) -> Iterator[str]:
        """This change in words, a sentence each."""
        if self.note:
            yield self.note
        for added in self.inputs:
            moved = "is an input, no longer an attribute" if added.name in self.removes else "is a new input"
            yield f"{added.name} {moved}"
        for name in self.removes:
            if all(name != added.name for added in self.inputs):
                yield f"the attribute {name} is gone"
        for attribute in self.attributes:
            yield f"{attribute.name} is a new attribute, {attribute.shown_default} by default"
        if self.gains:
            yield f"T gains {', '.join(self.gains)}"
        if self.loses:
            yield f"T loses {', '.join(self.loses)}"


def in_order(names: set[str]) -> tuple[str, ...]:
    """Dtypes in the order of the one table."""
    return tuple(dtype.name for dtype in dtypes.TABLE if dtype.name in names)


class Base(NamedTuple):
    """What a family of operators has in common before any version changes it."""

    dialect: str
    kind: Kind
    inputs: tuple[Input, ...]
    output: Output
    attributes: tuple[Attribute, ...]
    types: tuple[TypeConstraint, ...]
    empty_axes: Literal["all", "none"] = "all"
    """What absent or empty axes stand for, where no attribute says otherwise."""


class Entry(NamedTuple):
    """One operator: its fold, its prose, and its versions as changes on the family's base."""

    name: str
    fold: str
    base: Base
    versions: Mapping[int, tuple[Change, ...]]
    summary: str
    formula: str
    empty: Empty | None = None
    alone: str = "x"
    """What a single element becomes; "x" where a fold over no axes is a copy, bit for bit (R-27)."""
    notes: tuple[str, ...] = ()
    integer_notes: tuple[str, ...] = ()
    """Notes for the versions that take integers."""

    def under(self, base: Base, version: int, empty: Empty | None = None) -> Entry:
        """The same fold as another dialect has it, in its only version."""
        return self._replace(base=base, versions={version: ()}, empty=empty or self.empty)

    def schemas(self) -> Iterator[Schema]:
        """Every version, the oldest first."""
        schema: Schema | None = None
        for version, changes in sorted(self.versions.items()):
            previous = schema.version if schema else None
            schema = replace(schema or self._first(version), version=version, previous=previous, changes=())
            for change in changes:
                schema = change.apply(schema)
            if previous is None:
                schema = replace(schema, changes=())
            yield replace(schema, notes=self._notes(schema))

    def _first(self, version: int) -> Schema:
        base = self.base
        return Schema(
            base.dialect, self.name, version, base.kind, self.fold, base.inputs, base.output, base.attributes,
            base.types, base.empty_axes, self.empty, self.alone, self.summary, self.formula,
        )  # fmt: skip

    def _notes(self, schema: Schema) -> tuple[str, ...]:
        integers = any(dtypes.BY_NAME[name].kind in "iu" for name in schema.dtypes)
        return self.notes + (self.integer_notes if integers else ())


@dataclass(frozen=True, slots=True, repr=False)
class Schema:
    """What one version of one operator of one dialect accepts, and what it gives."""

    dialect: str
    name: str
    version: int
    """The opset that introduced it."""
    kind: Kind
    fold: str
    inputs: tuple[Input, ...]
    output: Output
    attributes: tuple[Attribute, ...]
    types: tuple[TypeConstraint, ...]
    empty_axes: Literal["all", "none"]
    empty: Empty | None
    alone: str
    summary: str
    formula: str
    notes: tuple[str, ...] = ()
    previous: int | None = None
    """The version before this one."""
    changes: tuple[str, ...] = ()
    """What is different from the version before."""

    @property
    def label(self) -> str:
        """Name and version, as errors begin: ReduceSum-13."""
        return f"{self.name}-{self.version}"

    @property
    def full_name(self) -> str:
        """With the dialect: onnx:ReduceSum-13."""
        return f"{self.dialect}:{self.label}"

    @property
    def data(self) -> Input:
        """The input that is folded."""
        return self.inputs[0]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What the folded input may hold."""
        return self.dtypes_of(self.data.type)

    @property
    def min_inputs(self) -> int:
        """How many inputs must be given."""
        return sum(not each.optional for each in self.inputs)

    def dtypes_of(self, kind: str) -> tuple[str, ...]:
        """The dtypes behind a constraint's name; a dtype's name stands for itself."""
        return next((t.dtypes for t in self.types if t.name == kind), (kind,))

    def attribute(self, role: str) -> Attribute | None:
        """The attribute of that role, if this version has one."""
        return next((a for a in self.attributes if a.means == role), None)

    @property
    def signature(self) -> str:
        """The call in one line: ReduceSum-11(data: T, *, axes=absent, keepdims=1) -> reduced: T."""
        inputs = [f"{i.name}: {i.type}" + (f" = {shown(i.default)}" if i.optional else "") for i in self.inputs]
        attributes = [f"{a.name}={a.shown_default}" for a in self.attributes]
        arguments = ", ".join([*inputs, "*", *attributes])
        return f"{self.label}({arguments}) -> {self.output.name}: {self.output.type}"

    def __repr__(self) -> str:
        return f"<Schema {self.full_name}>"

    def __str__(self) -> str:
        types = [f"{t.name}: {', '.join(t.dtypes)}" for t in self.types]
        return "\n".join([f"{self.dialect}:{self.signature}", f"{self.summary} {self.formula}", *types])


class Dialect(NamedTuple):
    """One of the two standards."""

    name: str
    title: str
    newest_opset: int


class Catalog:
    """Every version of every operator, and how to find one."""

    def __init__(self, dialects: tuple[Dialect, ...], entries: tuple[Entry, ...]) -> None:
        self.dialects: Final = {dialect.name: dialect for dialect in dialects}
        self._entries: Final = entries

    @cached_property
    def schemas(self) -> tuple[Schema, ...]:
        """All of them, made when one is first asked for: arrays need none."""
        return tuple(schema for entry in self._entries for schema in entry.schemas())

    def names(self, dialect: str) -> tuple[str, ...]:
        """The operators of a dialect."""
        return tuple(dict.fromkeys(s.name for s in self.schemas if s.dialect == dialect))

    def versions(self, dialect: str, name: str) -> tuple[Schema, ...]:
        """All versions of one operator, the oldest first."""
        return tuple(s for s in self.schemas if (s.dialect, s.name) == (dialect, name))

    def opsets(self, schema: Schema) -> tuple[int, int]:
        """The first and the last opset in which this version is the one."""
        later = [s.version for s in self.versions(schema.dialect, schema.name) if s.version > schema.version]
        return schema.version, min(later, default=self.dialects[schema.dialect].newest_opset + 1) - 1

    def find(
        self, name: str, version: int | None = None, opset: int | None = None, dialect: str | None = None
    ) -> Schema:
        """One version: "onnx:ReduceSum-11", or a name with a version, or with a model's opset; else the newest."""
        dialect, name, version = self.named(name, version, dialect)
        version, opset = _number("version", version), _number("opset", opset)
        if version is not None and opset is not None:
            raise OptionError(f"operator: both version {version} and opset {opset} were given for {name}; give one")
        found = self.versions(dialect, name)
        if not found:
            raise UnknownOperatorError(self._unknown(name, dialect))
        if opset is not None:
            return self._at_opset(found, opset)
        if version is None:
            return found[-1]
        for schema in found:
            if schema.version == version:
                return schema
        nearest = min(found, key=lambda s: (abs(s.version - version), s.version))
        within = found[0].version <= version <= (self.dialects[dialect].newest_opset if dialect == "onnx" else 0)
        meant = f" (a model of opset {version} has {self._at_opset(found, version).full_name})" if within else ""
        raise UnknownOperatorError(
            f"operator: {dialect}:{name} has no version {version}; there are {_listed(found)}, "
            f"the nearest is {nearest.full_name}{meant}"
        )

    def named(self, name: str, version: int | None = None, dialect: str | None = None) -> tuple[str, str, int | None]:
        """The dialect, operator and version that "onnx:ReduceSum-11" speaks of, whether they exist or not."""
        if not isinstance(name, str):
            raise ArgumentError(
                f'operator: name = {name!r} is of type {type(name).__name__}; give one such as "{self.schemas[0].name}"'
            )
        prefix, colon, rest = name.rpartition(":")
        if colon and dialect is not None and prefix != dialect:
            raise OptionError(f"operator: {name!r} and dialect={dialect!r} disagree; give one of them")
        if colon or dialect is None:
            dialect = prefix if colon else next(iter(self.dialects))
        if not isinstance(dialect, str) or dialect not in self.dialects:
            known = ", ".join(self.dialects)
            raise UnknownOperatorError(f"operator: there is no dialect {dialect!r}; there are {known}")
        plain, dash, digits = rest.rpartition("-")
        if not (dash and digits.isascii() and digits.isdigit() and len(digits) < 10):
            return dialect, rest, version
        if version is not None and version != int(digits):
            raise OptionError(f"operator: {name!r} and version={version} disagree; give one of them")
        return dialect, plain, int(digits)

    def _at_opset(self, found: tuple[Schema, ...], opset: int) -> Schema:
        first, newest = found[0], self.dialects[found[0].dialect].newest_opset
        if not 1 <= opset <= newest:
            raise UnknownOperatorError(
                f"operator: {first.dialect} opset {opset} is not known; known are 1..{newest} "
                f"(the newest version of {first.name} is {found[-1].version})"
            )
        if opset < first.version:
            raise UnknownOperatorError(
                f"operator: {first.dialect} opset {opset} has no {first.name}; it came with opset {first.version}"
            )
        return max((s for s in found if s.version <= opset), key=lambda s: s.version)

    def _unknown(self, name: str, dialect: str) -> str:
        import difflib  # only a misspelt name needs it

        known = self.names(dialect)
        folded = {each.lower(): each for each in known}
        near = difflib.get_close_matches(name.lower(), folded, 1, 0.5)
        elsewhere = [other for other in self.dialects if name in self.names(other)]
        if elsewhere:
            hint = f"there is {elsewhere[0]}:{name}"
        else:
            hint = f"did you mean {folded[near[0]]}?" if near else "its operators are these"
        return f"operator: {dialect} has no operator {name!r} here; {hint} ({', '.join(known)})"


def _number(what: str, given: Any) -> int | None:
    """A version or an opset as Python's int."""
    try:
        if isinstance(given, bool):
            raise TypeError
        return None if given is None else operator.index(given)
    except TypeError:
        raise ArgumentError(f"operator: {what} = {given!r} is of type {type(given).__name__}; give an int") from None


def _listed(found: tuple[Schema, ...]) -> str:
    return ", ".join(str(schema.version) for schema in found)
