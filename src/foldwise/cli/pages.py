"""What there is to read about operators: all of them in a list, and one version as a page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from foldwise import dtypes
from foldwise.operators import CATALOG, Schema
from foldwise.operators.prose import edge_cases
from foldwise.operators.schema import Attribute, Input, shown

from .blocks import Block, Code, Heading, Items, Rows, Title, write, write_json


def add(commands: Any) -> None:
    """The commands `ops` and `show`."""
    listing = commands.add_parser("ops", help="list every operator", description="List every operator.")
    page = commands.add_parser("show", help="show one version", description="Show one version of an operator.")
    example = CATALOG.schemas[0]
    page.add_argument("operator", help=f"such as {example.full_name}, or {example.name} for the newest version")
    page.add_argument("--opset", type=int, help="the version that a model of this opset means")
    page.add_argument("--dialect", help=f"{' or '.join(CATALOG.dialects)}; the first if none is named")
    for command, run in ((listing, ops), (page, show)):
        command.add_argument("--json", action="store_true", help="write JSON, for programs")
        command.set_defaults(run=run)


def ops(asked: argparse.Namespace) -> int:
    """The command `ops`."""
    if asked.json:
        write_json([*every_operator()])
    else:
        write(ops_page())
    return 0


def show(asked: argparse.Namespace) -> int:
    """The command `show`."""
    schema = CATALOG.find(asked.operator, opset=asked.opset, dialect=asked.dialect)
    if asked.json:
        write_json(show_data(schema))
    else:
        write(show_page(schema))
    return 0


# ---- pages


def ops_page() -> Iterator[Block]:
    """All operators in one table."""
    rows = tuple(
        (each["operator"], each["title"], " ".join(map(str, each["versions"])), short_dtypes(each["dtypes"]))
        for each in every_operator()
    )
    yield Rows(rows, ("operator", "dialect", "versions", "dtypes of the newest"))
    cells = sum(len(schema.dtypes) for schema in CATALOG.schemas)
    yield f"{len(rows)} operators, {len(CATALOG.schemas)} versions, {cells} pairs of version and dtype."
    yield f"`foldwise show {CATALOG.find(rows[0][0]).full_name}` shows one version."


def every_operator() -> Iterator[dict[str, Any]]:
    """Each operator with its versions, and the dtypes of the newest."""
    for name, dialect in CATALOG.dialects.items():
        for operator in CATALOG.names(name):
            found = CATALOG.versions(name, operator)
            yield {
                "operator": operator,
                "dialect": name,
                "title": dialect.title,
                "versions": [schema.version for schema in found],
                "dtypes": list(found[-1].dtypes),
            }


def short_dtypes(names: Sequence[str]) -> str:
    """Dtypes by their short names, floats first; all widths of a kind of integer as i8..i64."""
    words = []
    for kind in "fiub":
        short = [dtype.ir for dtype in dtypes.TABLE if dtype.kind == kind and dtype.name in names]
        whole = kind in "iu" and len(short) == sum(dtype.kind == kind for dtype in dtypes.TABLE)
        words += [f"{short[0]}..{short[-1]}"] if whole else short
    return " ".join(words).replace("boolean", "bool")


def show_page(schema: Schema) -> Iterator[Block]:
    """Everything about one version."""
    dialect = CATALOG.dialects[schema.dialect]
    first, last = CATALOG.opsets(schema)
    opsets = f"opset {first}" if first == last else f"opsets {first} to {last}"
    yield Title(schema.label, f"{dialect.title}, {opsets}")
    yield schema.summary
    yield Code(schema.formula)
    yield Heading("Call")
    yield Code(schema.signature)
    yield Heading("Inputs")
    yield Rows(tuple((i.name, input_facts(i), i.text) for i in schema.inputs))
    yield Heading("Attributes")
    yield Rows(tuple((a.name, attribute_facts(a), a.text) for a in schema.attributes))
    yield Heading("Output")
    yield Rows(((schema.output.name, schema.output.type, schema.output.text),))
    yield Heading("Types")
    yield Rows(tuple((t.name, " ".join(t.dtypes)) for t in schema.types))
    yield Heading("At the edges")
    yield Items(edge_cases(schema))
    if schema.previous is not None:
        yield Heading(f"Since version {schema.previous}")
        yield Items(schema.changes)
    numbers = [s.version for s in CATALOG.versions(schema.dialect, schema.name)]
    if len(numbers) > 1:
        yield Heading("Versions")
        yield Rows(((" ".join(f"[{n}]" if n == schema.version else str(n) for n in numbers),),))


def input_facts(place: Input) -> str:
    """An input's type, ranks and default in a few words."""
    ranks = " or ".join(f"{rank}-D" for rank in place.ranks or ())
    default = "optional" if place.default is None else f"default {shown(place.default)}"
    return ", ".join(filter(None, (place.type, ranks, default if place.optional else "")))


def attribute_facts(attribute: Attribute) -> str:
    """An attribute's values and default in a few words."""
    accepted = {"flag": "0 or 1", "boolean": "true or false", "int": "int", "ints": "list of ints"}[attribute.type]
    return f"{accepted}, {'optional' if attribute.default is None else f'default {attribute.shown_default}'}"


def show_data(schema: Schema) -> dict[str, Any]:
    """The same as a page holds, for programs."""
    return {
        "name": schema.full_name,
        "operator": schema.name,
        "dialect": schema.dialect,
        "version": schema.version,
        "opsets": CATALOG.opsets(schema),
        "summary": schema.summary,
        "formula": schema.formula,
        "signature": schema.signature,
        "inputs": [
            {
                "name": i.name,
                "type": i.type,
                "dtypes": schema.dtypes_of(i.type),
                "ranks": i.ranks,
                "optional": i.optional,
                "default": i.default,
                "text": i.text,
            }
            for i in schema.inputs
        ],
        "attributes": [
            {"name": a.name, "type": a.type, "default": a.default, "text": a.text} for a in schema.attributes
        ],
        "output": {"name": schema.output.name, "type": schema.output.type, "text": schema.output.text},
        "types": {t.name: t.dtypes for t in schema.types},
        "edge_cases": edge_cases(schema),
        "previous": schema.previous,
        "changes": schema.changes,
    }
