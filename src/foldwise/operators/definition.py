"""What a diff compares: one version of any operator, in words that both standards' own definitions can be put into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from foldwise import dtypes

from .prose import edge_cases
from .schema import Attribute, Schema, shown

Option = Literal["Single", "Optional", "Variadic"]

COMMON: Final = {spelled: d.name for d in dtypes.TABLE for spelled in (f"tensor({d.onnx})", d.ir)}
"""The types of both dialects by their names in the one table."""


class Parameter(NamedTuple):
    """An input or an output."""

    name: str
    type: str
    """The name of a type constraint, or a type as the dialect spells it."""
    option: Option = "Single"


class Arity(NamedTuple):
    """How many inputs or outputs there are."""

    least: int
    most: float


class Constant(NamedTuple):
    """An attribute, its type in the dialect's word. A default of None means that there is none."""

    name: str
    type: str
    default: Any = None
    required: bool = False
    role: str = ""
    """What it stands for, where the dialect's name is another."""

    @property
    def means(self) -> str:
        """The name under which every dialect knows it."""
        return self.role or self.name

    @property
    def shown_default(self) -> str:
        """The default as the dialect writes it."""
        return shown(self.default, self.type, "none")


class Constraint(NamedTuple):
    """The types, as the dialect spells them, that a letter of the signature stands for."""

    name: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """One version of any operator of one dialect."""

    dialect: str
    domain: str
    """What the dialect itself calls its operators."""
    name: str
    version: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    input_count: Arity
    output_count: Arity
    attributes: tuple[Constant, ...]
    constraints: tuple[Constraint, ...]
    text: tuple[str, ...]
    """Its documentation, line by line."""
    deprecated: bool = False

    @property
    def full_name(self) -> str:
        """With the dialect, or with a domain that is not the dialect's own: onnx:ReduceSum-13."""
        elsewhere = self.domain not in DOMAINS.values()
        return f"{self.domain if elsewhere else self.dialect}:{self.name}-{self.version}"

    def types_of(self, kind: str) -> tuple[str, ...]:
        """The types behind a constraint's name; a type stands for itself."""
        return next((c.types for c in self.constraints if c.name == kind), (kind,))


DOMAINS: Final = {"onnx": "ai.onnx", "openvino": "openvino"}
_FLAGS: Final = {"flag": "INT", "int": "INT", "ints": "INTS", "boolean": "boolean"}


def definition(schema: Schema) -> Definition:
    """A version of the catalog as what a diff compares, with our own prose."""
    inputs = tuple(
        Parameter(i.name, _spelled(schema, i.type), "Optional" if i.optional else "Single") for i in schema.inputs
    )
    return Definition(
        schema.dialect,
        DOMAINS[schema.dialect],
        schema.name,
        schema.version,
        inputs,
        (Parameter(schema.output.name, _spelled(schema, schema.output.type)),),
        Arity(schema.min_inputs, len(schema.inputs)),
        Arity(1, 1),
        tuple(map(_constant, schema.attributes)),
        tuple(Constraint(t.name, tuple(sorted(_spelled(schema, dtype) for dtype in t.dtypes))) for t in schema.types),
        (schema.summary, schema.formula, *edge_cases(schema)),
    )


def _constant(attribute: Attribute) -> Constant:
    return Constant(attribute.name, _FLAGS[attribute.type], attribute.default, role=attribute.role)


def _spelled(schema: Schema, kind: str) -> str:
    """A dtype as the dialect spells it; the name of a constraint as it is."""
    dtype = dtypes.BY_NAME.get(kind)
    if dtype is None:
        return kind
    return f"tensor({dtype.onnx})" if schema.dialect == "onnx" else dtype.ir
