"""The command `diff`: two operator versions side by side."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from foldwise.behaviour import Finding
from foldwise.differences import Difference, diff
from foldwise.operators import CATALOG

from .blocks import Block, Heading, Items, Lines, Rows, Title, write, write_json


def add(commands: Any) -> None:
    """The command `diff`."""
    first, second = (schema.full_name for schema in CATALOG.schemas[1:3])
    command = commands.add_parser(
        "diff", help="compare two versions", description="Compare two operator versions of either dialect."
    )
    command.add_argument("old", help=f"such as {first}; with onnx installed, any operator of onnx")
    command.add_argument("new", help=f"such as {second}")
    command.add_argument(
        "--text", choices=("foldwise", "onnx"), default="foldwise", help="whose definitions and texts to compare"
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write JSON, for programs")
    form.add_argument("--html", action="store_true", help="write a page of HTML that needs nothing else")
    command.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    """The command `diff`."""
    found = diff(asked.old, asked.new, text=asked.text)
    if asked.json:
        write_json(found.data())
    elif asked.html:
        print(found.html(), end="")
    else:
        write(page(found))
    return 0


def page(difference: Difference) -> Iterator[Block]:
    """Everything about one difference."""
    yield Title(difference.title, difference.verdict)
    if difference.reasons:
        yield Heading("Breaking reasons", "error")
        yield Items(difference.reasons)
    for heading, alterations in difference.schema.sections():
        yield Heading(heading)
        yield Items(tuple(map(str, alterations)))
    if difference.documentation:
        yield Heading("Documentation")
        yield str(difference.documentation)
        yield Lines(difference.documentation.lines)
    if difference.behaviour:
        yield Heading("Behaviour")
        yield f"{difference.behaviour}."
        for finding in difference.behaviour.findings:
            yield Heading(finding.about)
            yield _sides(finding)
    if difference.migration:
        yield Heading("Migration")
        yield Items(difference.migration)


def _sides(finding: Finding) -> Rows:
    return Rows(tuple((call.schema.full_name, f"{call.arguments} -> {outcome}") for call, outcome in finding.sides))
