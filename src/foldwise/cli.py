"""The command line: `foldwise ops` lists the operators, `foldwise show NAME` is one version as a page.

A terminal gets colours where rich is installed; pipes, files and terminals without rich get plain text.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import dtypes
from .engine import __version__
from .errors import FoldwiseError
from .operators import CATALOG, Schema
from .operators.prose import edge_cases
from .operators.schema import Attribute, Input, shown

WIDEST_TEXT = 100
"""Lines of prose are no longer, however wide the terminal."""

# ---- what is written: blocks, whatever writes them


@dataclass(frozen=True, slots=True)
class Title:
    """The first line of a page: its name, and what it is."""

    name: str
    about: str


@dataclass(frozen=True, slots=True)
class Heading:
    """What the next blocks are about."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A line to be read as a formula or a call."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """Sentences, each on a line of its own."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table. The first column names what the others describe, the last one may take several lines."""

    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()


Block = Title | Heading | Code | Items | Rows | str


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


def spaced(blocks: Iterator[Block]) -> Iterator[tuple[bool, Block]]:
    """Blocks, and whether an empty line comes before each."""
    before: Block = ""
    for block in blocks:
        yield isinstance(block, Heading) or isinstance(before, Rows | Title), block
        before = block


# ---- plain text


def write_plain(blocks: Iterator[Block], width: int) -> None:
    """Blocks as text without colours, in ASCII, for pipes, files and terminals without rich."""
    for gap, block in spaced(blocks):
        if gap:
            print()
        for line in plain_lines(block, width):
            print(line.rstrip())


def plain_lines(block: Block, width: int) -> Iterator[str]:
    """One block's lines."""
    text_width = min(width, WIDEST_TEXT)
    if isinstance(block, Title):
        yield f"{block.name}  ({block.about})"
        yield "=" * len(block.name)
    elif isinstance(block, Heading):
        yield block.text
    elif isinstance(block, Code):
        yield from textwrap.wrap(block.text, width, initial_indent="  ", subsequent_indent="    ")
    elif isinstance(block, Items):
        for text in block.texts:
            yield from textwrap.wrap(text, text_width, initial_indent="  - ", subsequent_indent="    ")
    elif isinstance(block, Rows):
        yield from plain_rows(block, width)
    else:
        yield from textwrap.wrap(block, text_width)


def plain_rows(table: Rows, width: int) -> Iterator[str]:
    """A table's lines: columns as wide as their words, the last one folded into what is left."""
    indent = "" if table.header else "  "
    rows = [table.header, *table.rows] if table.header else list(table.rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    left = max(width - len(indent) - sum(widths) - 2 * len(widths), 12)
    for k, row in enumerate(rows):
        start = indent + "".join(f"{cell:<{size}}  " for cell, size in zip(row, widths, strict=False))
        for n, line in enumerate(textwrap.wrap(row[-1], left) or [""]):
            yield (start if n == 0 else " " * len(start)) + line
        if k == 0 and table.header:
            yield "-" * min(width, len(indent) + sum(widths) + 2 * len(widths) + left)


# ---- a terminal with colours


def write_rich(blocks: Iterator[Block]) -> None:
    """Blocks in colours, as wide as the terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print()
    for gap, block in spaced(blocks):
        if gap:
            console.print()
        for piece in rich_pieces(block):
            whole = isinstance(block, Rows | Code)
            console.print(piece, width=console.width if whole else min(console.width, WIDEST_TEXT))
    console.print()


def rich_pieces(block: Block) -> Iterator[Any]:
    """One block as what rich prints."""
    from rich.padding import Padding
    from rich.text import Text

    if isinstance(block, Title):
        yield Text.assemble(" ", (block.name, "bold cyan"), "  ", (block.about, "dim"))
    elif isinstance(block, Heading):
        yield Text(f" {block.text}", "bold")
    elif isinstance(block, Code):
        yield Padding(Text(block.text, "green"), (0, 0, 0, 3))
    elif isinstance(block, Items):
        yield rich_rows(Rows(tuple(("-", text) for text in block.texts)), "dim", gap=1)
    elif isinstance(block, Rows):
        yield rich_rows(block, "cyan", gap=1 if block.header else 2)  # a header's rule is one wide itself
    else:
        yield Padding(Text(block), (0, 0, 0, 1))


def rich_rows(table: Rows, first: str, gap: int = 2) -> Any:
    """A table, its first column in a colour of its own."""
    from rich import box
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=box.SIMPLE_HEAD if table.header else None,
        show_header=bool(table.header),
        header_style="bold",
        show_edge=False,
        pad_edge=False,
        padding=(0, gap, 0, 0),
    )
    last = len(table.rows[0]) - 1
    for column, name in enumerate(table.header or ("",) * (last + 1)):
        style = first if column == 0 else "default" if column == last else "yellow"
        made.add_column(name, style=style, no_wrap=column < last, overflow="fold")
    for row in table.rows:
        made.add_row(*map(Text, row))
    return Padding(made, (0, 0, 0, 1 if table.header else 3))


# ---- commands


def write(blocks: Iterator[Block]) -> None:
    """Blocks to wherever the output goes."""
    if sys.stdout.isatty() and importlib.util.find_spec("rich"):
        write_rich(blocks)
    else:
        write_plain(blocks, shutil.get_terminal_size().columns)


def ops(arguments: argparse.Namespace) -> None:
    """The command `ops`."""
    if arguments.json:
        print(json.dumps([*every_operator()], indent=2))
    else:
        write(ops_page())


def show(arguments: argparse.Namespace) -> None:
    """The command `show`."""
    schema = CATALOG.find(arguments.operator, opset=arguments.opset, dialect=arguments.dialect)
    if arguments.json:
        print(json.dumps(show_data(schema), indent=2))
    else:
        write(show_page(schema))


def parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    made = argparse.ArgumentParser("foldwise", description="The reduction and scan operators of ONNX and OpenVINO.")
    made.add_argument("--version", action="version", version=f"foldwise {__version__}")
    commands = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = commands.add_parser("ops", help="list every operator", description="List every operator.")
    page = commands.add_parser("show", help="show one version", description="Show one version of an operator.")
    example = CATALOG.schemas[0]
    page.add_argument("operator", help=f"such as {example.full_name}, or {example.name} for the newest version")
    page.add_argument("--opset", type=int, help="the version that a model of this opset means")
    page.add_argument("--dialect", help=f"{' or '.join(CATALOG.dialects)}; the first if none is named")
    for command, run in ((listing, ops), (page, show)):
        command.add_argument("--json", action="store_true", help="write JSON, for programs")
        command.set_defaults(run=run)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command: 0 if all went well, 2 if it was asked for wrongly, 1 if nobody reads the output."""
    asked = parser().parse_args(arguments)
    try:
        asked.run(asked)
        sys.stdout.flush()
    except FoldwiseError as error:
        print(f"foldwise: {str(error).removeprefix('operator: ')}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it exits
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
