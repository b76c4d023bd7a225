"""What a fact about a runtime is: the nodes it concerns, in which releases, what happens, and a model that shows it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from foldwise.operators import CATALOG, Schema
from foldwise.operators.schema import Kind

Effect = Literal["fails to load", "fails to run", "fails to export", "saturates", "narrows", "ignores axes", "differs"]
Level = Literal["error", "warning", "note"]
REFUSALS: Final = frozenset({"fails to load", "fails to run", "fails to export"})

MARKS: Final = {
    "axes as an attribute": "the axes are written as an attribute where this version has an input",
    "noop too early": "noop_with_empty_axes is written where this version does not have it",
    "axes left out": "the axes input is written, but empty",
    "open axes": "the axes are not a constant, and how many there are is not known",
    "several axes": "the axes are not a constant, and may be more than one",
    "repeated axes": "an axis is named twice",
    "some axes": "not all axes are folded",
    "outer axes": "the last axis is not folded",
    "no axes": "no axis is folded",
    "axis as a list": "the axis is of shape (1,)",
    "axis left out": "the axis is not given",
    "dropped axes": "folded axes are dropped",
    "no elements": "the folded axes hold no element",
    "rank 0": "the tensor has no axis",
    "last index": "select_last_index is 1",
}
"""What may be true of a node beside its operator and dtype."""


UNLIMITED: Final = 1 << 31
"""Any opset, or any version of the file format."""
OLDER: Final = "older"
"""The repair of whole models that are too new."""


class Release(NamedTuple):
    """A release of a runtime, and the newest models that it loads."""

    number: str
    opset: int = UNLIMITED
    ir: int = UNLIMITED
    reported: bool = False
    """Whether others say so, and it was not run here."""


class Runtime(NamedTuple):
    """Who runs models, or writes them."""

    name: str
    title: str
    package: str
    """Where its version is looked up."""
    dialects: tuple[str, ...]
    releases: tuple[Release, ...]
    """Those that the table was held against, the oldest first; opsets and file formats are as they load them."""
    runs_models: bool = True
    """Whether it runs models, and does not only write them."""

    @property
    def newest(self) -> str:
        """The newest release that is known."""
        return self.releases[-1].number

    def release(self, version: str) -> Release:
        """What is known of a version: the last one that is not newer, or else the first."""
        past = [each for each in self.releases if numbers(each.number) <= numbers(version)]
        return past[-1] if past else self.releases[0]

    def first_with(self, opset: int, ir: int) -> str:
        """The first known release that loads such a model; nothing where none does."""
        return next((each.number for each in self.releases if each.opset >= opset and each.ir >= ir), "")


class Where(NamedTuple):
    """Which nodes: those for which everything that is said here holds. What is left out holds for all."""

    kinds: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()
    versions: tuple[int, int] | None = None
    """The first and the last version of the operator."""
    dtypes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    length: int = 0
    """How many elements, at least, are folded into one."""
    dialects: tuple[str, ...] = ("onnx", "openvino")

    @property
    def plain(self) -> bool:
        """Whether nothing but some axes is needed beside the operator and the dtype."""
        return not self.length and set(self.marks) <= {"some axes"}

    def names(self, schema: Schema) -> bool:
        """Whether this version of this operator is meant, for some dtype and form."""
        return (
            schema.dialect in self.dialects
            and (not self.kinds or schema.kind in self.kinds)
            and (not self.folds or schema.fold in self.folds)
            and (self.versions is None or self.versions[0] <= schema.version <= self.versions[1])
            and bool(self.dtypes_of(schema))
        )

    def dtypes_of(self, schema: Schema) -> tuple[str, ...]:
        """The dtypes that it concerns."""
        return tuple(name for name in schema.dtypes if not self.dtypes or name in self.dtypes)


class Example(NamedTuple):
    """A model of one node that shows the fault, and what it is given."""

    kind: Kind
    fold: str
    opset: int
    dtype: str
    shape: tuple[int, ...]
    values: tuple[float, ...]
    """Repeated until the shape is full."""
    axes: tuple[int, ...] | None = None
    form: Literal["plain", "attribute", "left out", "computed", "open", "list"] = "plain"
    """How the axes are written: as the version wants it, or in a form of MARKS."""
    attributes: tuple[tuple[str, int], ...] = ()
    dialect: Literal["onnx", "openvino"] = "onnx"
    ir: int = 8

    @property
    def schema(self) -> Schema:
        """The operator's version in that opset."""
        alike = ("dialect", "kind", "fold")
        name = next(s.name for s in CATALOG.schemas if all(getattr(s, a) == getattr(self, a) for a in alike))
        return CATALOG.find(name, opset=self.opset if self.dialect == "onnx" else None, dialect=self.dialect)


class Row(NamedTuple):
    """One fact: what a runtime gets wrong, or lacks."""

    id: str
    runtime: str
    effect: Effect
    where: tuple[Where, ...]
    """Any of these; none, where it concerns whole models."""
    what: str
    """What happens, a sentence."""
    fix: str
    """What to do about it, a sentence."""
    example: Example
    when: str = ""
    """Which values it takes; nothing: whatever the values are."""
    level: Level = "error"
    """How grave it is where it surely happens."""
    repair: str = ""
    """The name of what rewrites the node; nothing where nothing here does."""
    repair_since: str = ""
    """The first release in which that helps; nothing: in all."""
    since: str = ""
    """The first release that has it; nothing: the oldest known ones have it."""
    until: str = ""
    """The first release without it; nothing: the newest known ones have it."""
    sources: tuple[str, ...] = ()

    @property
    def fault(self) -> str:
        """When what happens, in a sentence."""
        return f"When {self.when}: {self.what[0].lower()}{self.what[1:]}" if self.when else self.what

    @property
    def of_model(self) -> bool:
        """Whether its repair is one of the whole model."""
        return self.repair == OLDER or self.repair.startswith("opset ")

    def repair_in(self, version: str) -> str:
        """What rewrites the node for a release."""
        return self.repair if numbers(self.repair_since) <= numbers(version) else ""

    def affects(self, version: str) -> bool:
        """Whether a release has it."""
        return (not self.since or numbers(self.since) <= numbers(version)) and (
            not self.until or numbers(version) < numbers(self.until)
        )

    @property
    def releases(self) -> str:
        """The releases that have it, in words."""
        return span(self.since, self.until)


def span(since: str, until: str) -> str:
    """Releases in words."""
    if since and until:
        return f"since {since}, before {until}"
    return f"since {since}" if since else f"before {until}" if until else "all known"


def numbers(version: str) -> tuple[int, ...]:
    """A release's number, to be compared; what is no number counts for nothing."""
    found = []
    for part in version.split("+")[0].split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)
