"""What is written: blocks, in colours on a terminal where rich is installed, as plain text everywhere else."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

WIDEST_TEXT: Final = 100
"""Lines of prose are no longer, however wide the terminal."""

Tone = Literal["", "error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Title:
    """The first line of a page: its name, and what it is."""

    name: str
    about: str


@dataclass(frozen=True, slots=True)
class Heading:
    """What the next blocks are about."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Code:
    """A line to be read as a formula or a call."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """Sentences, each on a line of its own."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines as they are."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table. The last column may take several lines; the first ones may be numbers."""

    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()
    numbers: int = 0
    """How many columns are set flush right."""


Block = Title | Heading | Code | Items | Lines | Rows | str


def write(blocks: Iterable[Block]) -> None:
    """Blocks to wherever the output goes."""
    if sys.stdout.isatty() and importlib.util.find_spec("rich"):
        write_rich(blocks)
    else:
        write_plain(blocks, columns())


def write_json(data: Any) -> None:
    """Data for programs."""
    print(json.dumps(_in_json(data), indent=2, allow_nan=False))


def columns() -> int:
    """How wide the terminal is, or is said to be."""
    return shutil.get_terminal_size().columns


def visible(text: str) -> str:
    """Text that cannot act on a terminal: names in files may hold anything."""
    if text.isprintable():
        return text
    spaced = text.translate({ord("\n"): " ", ord("\t"): " "})
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in spaced)


def _in_json(value: Any) -> Any:
    """The same data with words for the floats that JSON has no numbers for."""
    if isinstance(value, dict):
        return {key: _in_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _spaced(blocks: Iterable[Block]) -> Iterator[tuple[bool, Block]]:
    """Blocks, and whether an empty line comes before each."""
    before: Block | None = None
    for block in blocks:
        yield before is not None and (isinstance(block, Heading) or isinstance(before, Rows | Title)), block
        before = block


# ---- plain text


def write_plain(blocks: Iterable[Block], width: int) -> None:
    """Blocks as text without colours, for pipes, files and terminals without rich."""
    for gap, block in _spaced(blocks):
        if gap:
            print()
        for line in _plain_lines(block, width):
            print(line.rstrip())


def _plain_lines(block: Block, width: int) -> Iterator[str]:
    """One block's lines."""
    text_width = min(width, WIDEST_TEXT)
    if isinstance(block, Title):
        yield visible(f"{block.name}  ({block.about})")
        yield "=" * len(visible(block.name))
    elif isinstance(block, Heading):
        yield from textwrap.wrap(visible(block.text), text_width, subsequent_indent="  ")
    elif isinstance(block, Code):
        yield from textwrap.wrap(visible(block.text), width, initial_indent="  ", subsequent_indent="    ")
    elif isinstance(block, Items):
        for text in block.texts:
            yield from textwrap.wrap(visible(text), text_width, initial_indent="  - ", subsequent_indent="    ")
    elif isinstance(block, Lines):
        for text in block.texts:
            yield visible(text)
    elif isinstance(block, Rows):
        yield from _plain_rows(block, width)
    else:
        yield from textwrap.wrap(visible(block), text_width)


def _plain_rows(table: Rows, width: int) -> Iterator[str]:
    """A table's lines: columns as wide as their words, the last one folded into what is left."""
    indent = "" if table.header else "  "
    rows = [tuple(map(visible, row)) for row in ((table.header, *table.rows) if table.header else table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    left = max(width - len(indent) - sum(widths) - 2 * len(widths), 12)
    for k, row in enumerate(rows):
        cells = [
            f"{cell:{'>' if column < table.numbers else '<'}{size}}  "
            for column, (cell, size) in enumerate(zip(row, widths, strict=False))
        ]
        start = indent + "".join(cells)
        for n, line in enumerate(textwrap.wrap(row[-1], left) or [""]):
            yield (start if n == 0 else " " * len(start)) + line
        if k == 0 and table.header:
            yield "-" * min(width, len(indent) + sum(widths) + 2 * len(widths) + left)


# ---- a terminal with colours


_COLOURS: Final[dict[Tone, str]] = {"": "bold", "error": "bold red", "warning": "bold yellow", "note": "bold blue"}


def write_rich(blocks: Iterable[Block]) -> None:
    """Blocks in colours, as wide as the terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print()
    for gap, block in _spaced(blocks):
        if gap:
            console.print()
        for piece in _rich_pieces(block):
            whole = isinstance(block, Rows | Code | Lines)
            width = console.width if whole else min(console.width, WIDEST_TEXT)
            console.print(piece, width=width, soft_wrap=isinstance(block, Lines))
    console.print()


def _rich_pieces(block: Block) -> Iterator[Any]:
    """One block as what rich prints."""
    from rich.padding import Padding
    from rich.text import Text

    if isinstance(block, Title):
        yield Text.assemble(" ", (visible(block.name), "bold cyan"), "  ", (visible(block.about), "dim"))
    elif isinstance(block, Heading):
        yield Padding(Text(visible(block.text), _COLOURS[block.tone]), (0, 0, 0, 1))
    elif isinstance(block, Code):
        yield Padding(Text(visible(block.text), "green"), (0, 0, 0, 3))
    elif isinstance(block, Items):
        yield _rich_rows(Rows(tuple(("-", text) for text in block.texts)), "dim", gap=1)
    elif isinstance(block, Lines):
        for text in block.texts:
            yield Text(f" {visible(text)}")
    elif isinstance(block, Rows):
        yield _rich_rows(block, "cyan", gap=1 if block.header else 2)  # a header's rule is one wide itself
    else:
        yield Padding(Text(visible(block)), (0, 0, 0, 1))


def _rich_rows(table: Rows, first: str, gap: int = 2) -> Any:
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
        side: Literal["left", "right"] = "right" if column < table.numbers else "left"
        made.add_column(name, style=style, justify=side, no_wrap=column < last, overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(visible(cell)) for cell in row))
    return Padding(made, (0, 0, 0, 1 if table.header else 3))
