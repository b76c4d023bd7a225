"""The command `audit`: what other runtimes get wrong about a model, and the model repaired."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import foldwise
from foldwise.models import Limits
from foldwise.models.audit import LEVELS, Fault, Repaired

from .blocks import Block, Heading, Items, Rows, write, write_json
from .files import UsageError
from .inputs import MODEL_FILE
from .models import limit


def held(text: str) -> tuple[str, str | None]:
    """A runtime, and its release if one is named: onnxruntime=1.26."""
    name, equals, version = text.partition("=")
    return name, version if equals else None


def add(commands: Any) -> None:
    """The command `audit`."""
    command = commands.add_parser(
        "audit",
        help="find what other runtimes get wrong about a model",
        description="Find what onnxruntime, OpenVINO, onnx's evaluator and PyTorch's export get wrong about a model.",
    )
    command.add_argument("model", metavar="MODEL", help=MODEL_FILE)
    command.add_argument("--fix", metavar="OUT", help="write the model with what can be repaired rewritten")
    command.add_argument("--verify", action="store_true", help="with --fix: run both models on many inputs and compare")
    command.add_argument(
        "--runtime", action="append", type=held, default=[], metavar="NAME[=VERSION]",
        help="one of them, and its release, as in onnxruntime=1.26; all, in their newest known ones, if left out",
    )  # fmt: skip
    command.add_argument("--installed", action="store_true", help="the releases that are installed here")
    command.add_argument(
        "--level", choices=LEVELS, default="warning",
        help="what is told and repaired: error (it happens), warning (it may, if left out), note (only with NaNs, "
        "infinities or empty tensors)",
    )  # fmt: skip
    command.add_argument("--strict", action="store_true", help="let warnings count as errors")
    asking = "what a model may ask for, as in data_bytes=100GB"
    command.add_argument("--limit", action="append", type=limit, default=[], metavar="NAME=N", help=asking)
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write JSON, for programs")
    form.add_argument("--sarif", action="store_true", help="write SARIF 2.1.0, for tools that show findings")
    command.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    """The command `audit`: 1 if there are errors, or if they are left."""
    if asked.verify and asked.fix is None:
        raise UsageError("audit: --verify compares a repaired model, which --fix OUT asks for; add that")
    found = _audited(asked)
    shown = found.at_least(asked.level)
    made = None if asked.fix is None else shown.fix(asked.level, verify=asked.verify)
    if made is not None:
        made.model.save(asked.fix)
    if asked.sarif:
        write_json(shown.sarif(Path(asked.model).as_posix()))
    elif asked.json:
        write_json({"model": asked.model, **shown.data(), **({} if made is None else fixed_data(asked.fix, made))})
    else:
        write(page(asked.model, found, shown))
        if made is not None:
            write(fixed_page(asked.fix, made))
    counting = ("error", "warning") if asked.strict else ("error",)
    left = found.findings if made is None else [each.fault for each in made.left]
    return int(any(fault.level in counting for fault in left))


def _audited(asked: argparse.Namespace) -> foldwise.Audit:
    """The model held against what was asked for."""
    names = [name for name, _ in asked.runtime] or None
    versions = {name: version for name, version in asked.runtime if version is not None}
    if asked.installed and versions:
        raise UsageError("audit: --installed and a release are two answers to one question; give one of them")
    model = foldwise.load(asked.model, limits=Limits(**dict(asked.limit)))
    return foldwise.audit(model, names, "installed" if asked.installed else versions)


def page(model: str, found: foldwise.Audit, shown: foldwise.Audit) -> Iterator[Block]:
    """Each fault, and how many there are."""
    for fault in shown.findings:
        yield Heading(f"{fault.level}: {fault.where}", fault.level)
        yield Rows(tuple(row for row in _told(fault) if row[1]))
    for finding in found.unread:
        yield Heading(f"not read: {finding.node} ({finding.operator}): {finding.message}", "warning")
    counted = [f"{n} {level}{'s' if n > 1 else ''}" for level, n in shown.counts().items() if n]
    hidden = len(found.findings) - len(shown.findings)
    more = f"; {hidden} more with --level note" if hidden else ""
    yield f"{model}: {', '.join(counted) or 'no faults are known'}{more}"
    yield f"held against {', '.join(f'{name} {version}' for name, version in found.versions.items())}"


def _told(fault: Fault) -> tuple[tuple[str, str], ...]:
    return (
        ("who", f"{fault.title}, {fault.releases}"),
        ("what", f"{fault.happens}. {fault.what}"),
        ("fix", fault.fix),
        ("row", fault.row),
    )


def fixed_page(out: str, made: Repaired) -> Iterator[Block]:
    """What was rewritten, and what was not, and why."""
    yield ""
    yield Heading(f"{out}: {repr(made.model)[7:-1]}")
    yield Items(tuple(str(made).splitlines()))


def fixed_data(out: str, made: Repaired) -> dict[str, Any]:
    """The same for programs."""
    return {
        "file": out,
        "repaired": [fault._asdict() for fault in made.repaired],
        "left": [{**fault._asdict(), "why": why} for fault, why in made.left],
    }
