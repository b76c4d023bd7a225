"""Whole models: `foldwise run`, `foldwise check` and `foldwise convert`."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import foldwise
from foldwise.arguments import Array
from foldwise.models import Limits
from foldwise.npy import SUFFIX

from . import inputs
from .blocks import Block, Heading, Lines, Rows, write, write_json
from .files import UsageError, write_array
from .progress import progress
from .summary import as_data, described, summary

if TYPE_CHECKING:
    from foldwise.models.check import Finding
    from foldwise.models.session import StepReport

_SEVERITIES: Final = ("error", "warning", "note")
_LIMITS: Final = tuple(each.name for each in fields(Limits))
_UNITS: Final = {
    "": 1,
    "B": 1,
    **{f"{prefix}{unit}": base**k for unit, base in (("B", 1000), ("iB", 1024)) for k, prefix in enumerate("KMGT", 1)},
}


def limit(text: str) -> tuple[str, int]:
    """One budget, as in data_bytes=100GB."""
    found = re.fullmatch(r"(\w+)=(\d+(?:\.\d+)?) ?(\w*)", text)
    if found is None or found[1] not in _LIMITS or found[3] not in _UNITS:
        accepted = ", ".join(_LIMITS)
        raise argparse.ArgumentTypeError(f"{text!r} is no limit; write it as data_bytes=100GB (accepted: {accepted})")
    return found[1], int(Fraction(found[2]) * _UNITS[found[3]])


def seed(text: str) -> int:
    """What random inputs begin with."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; give an integer from 0 on")
    return int(text)


def add(commands: Any) -> None:
    """The commands `run`, `check` and `convert`."""
    running = commands.add_parser("run", help="run a model", description="Run a model and tell what it gives.")
    running.add_argument("model", metavar="MODEL", help=inputs.MODEL_FILE)
    running.add_argument("--input", action="append", default=[], metavar="[NAME=]X", help="what an input is: see below")
    running.add_argument("--output-dir", metavar="DIR", help=f"write each output to DIR/NAME{SUFFIX}")
    running.add_argument("--engine", metavar="ENGINE", help="onnxruntime or reference: who runs what foldwise does not")
    running.add_argument("--seed", type=seed, default=0, metavar="N", help="of random inputs; 0 if left out")
    running.add_argument("--profile", action="store_true", help="tell how long each step took")
    running.epilog = f"{inputs.FORMS}\n{running.epilog}"
    checking = commands.add_parser(
        "check", help="find what is wrong in a model", description="Find everything that is wrong in a model."
    )
    checking.add_argument("model", metavar="MODEL", help=inputs.MODEL_FILE)
    converting = commands.add_parser(
        "convert",
        help="write a model in another opset, or in the other format",
        description="Write a model in another opset of ONNX, or in the other format: the ending of OUT says which.",
    )
    converting.add_argument("model", metavar="IN", help=inputs.MODEL_FILE)
    converting.add_argument("out", metavar="OUT", help="an .onnx file, or an .xml, whose .bin lies beside it")
    converting.add_argument("--opset", type=int, metavar="N", help="the opset of an .onnx file")
    converting.add_argument("--inexact", action="store_true", help="allow steps that round on their way")
    converting.add_argument("--verify", action="store_true", help="run both models on inputs of many kinds and compare")
    for command, run, strict in (
        (running, run_model, "refuse what specifications forbid, even where runtimes accept it"),
        (checking, check_model, "let warnings count as errors"),
        (converting, convert_model, ""),
    ):
        if strict:
            command.add_argument("--strict", action="store_true", help=strict)
        asking = "what a model may ask for, as in data_bytes=100GB"
        command.add_argument("--limit", action="append", type=limit, default=[], metavar="NAME=N", help=asking)
        command.add_argument("--json", action="store_true", help="write JSON, for programs")
        command.set_defaults(run=run)


def _loaded(asked: argparse.Namespace) -> foldwise.Model:
    return foldwise.load(asked.model, limits=Limits(**dict(asked.limit)))


# ---- run


def run_model(asked: argparse.Namespace) -> int:
    """The command `run`."""
    model = _loaded(asked)
    given = inputs.given(model, asked.input, asked.seed)
    folder = None if asked.output_dir is None else _folder(asked.output_dir)
    steps: list[StepReport] = []
    with progress(Path(asked.model).name, "steps") as tell:

        def observe(step: StepReport) -> None:
            steps.append(step)
            tell(step.done, step.total)

        found = model.run(given, engine=asked.engine, strict=asked.strict, observe=observe)
    outputs = {name: array for key, value in found.items() for name, array in _arrays(key, value)}
    files = {} if folder is None else _written(folder, outputs)
    if asked.json:
        told = {name: as_data(array) for name, array in outputs.items()}
        for name, path in files.items():
            told[name]["file"] = str(path)
        profile = {"profile": profile_data(steps)} if asked.profile else {}
        write_json({"model": asked.model, "outputs": told, **profile})
    else:
        write(run_page(outputs, files, steps if asked.profile else ()))
    return 0


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """An output as arrays: those of a sequence by their places, words as what NumPy takes for words."""
    if isinstance(value, list):
        for k, each in enumerate(value):
            yield from _arrays(f"{name}[{k}]", each)
    else:
        array = np.asarray(value)
        words = array.dtype.hasobject and all(isinstance(each, str) for each in array.flat)
        yield name, array.astype(np.str_) if words else array


def _folder(name: str) -> Path:
    """The folder for outputs, made if it is not there."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output-dir {name}: {error.strerror or error}") from None
    return folder


def _written(folder: Path, outputs: dict[str, Array]) -> dict[str, Path]:
    """Each output's file."""
    files = {name: folder / file for name, file in zip(outputs, file_names(list(outputs)), strict=True)}
    for name, path in files.items():
        write_array(path, outputs[name])
    return files


def file_names(names: Sequence[str]) -> list[str]:
    """Names for files: none leads elsewhere or is hidden, and no two are the same, even where case does not count."""
    taken: set[str] = set()
    found = []
    for name in names:
        safe = re.sub(r"[^\w.+-]", "_", name)[:100].lstrip(".-") or "output"
        unique, k = safe, 1
        while unique.casefold() in taken:
            k += 1
            unique = f"{safe}-{k}"
        taken.add(unique.casefold())
        found.append(unique + SUFFIX)
    return found


def run_page(outputs: dict[str, Array], files: dict[str, Path], steps: Sequence[StepReport]) -> Iterator[Block]:
    """What came out, and how long it took."""
    if files:
        yield Lines(tuple(f"{files[name]}: {described(array)}" for name, array in outputs.items()))
    else:
        for name, array in outputs.items():
            yield from summary(array, name)
    if steps:
        yield Heading("Steps")
        yield profile_table(steps)


def profile_table(steps: Sequence[StepReport]) -> Rows:
    """A line for each step in running order, and one for all."""
    seconds = sum(step.seconds for step in steps)
    moved = sum(step.read + step.written for step in steps)
    rows = [
        (*_times(step.seconds, seconds, step.read + step.written), step.by, f"{step.operator}, {step.label}")
        for step in steps
    ]
    rows.append((*_times(seconds, seconds, moved), "", "total"))
    return Rows(tuple(rows), ("ms", "share", "GB/s", "by", "operator and node"), numbers=3)


def _times(seconds: float, whole: float, moved: int) -> tuple[str, str, str]:
    share = seconds / whole if whole else 0.0
    return f"{seconds * 1e3:.3f}", f"{share:.1%}", f"{moved / seconds / 1e9:.2f}" if seconds else "-"


def profile_data(steps: Sequence[StepReport]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {key: getattr(step, key) for key in ("label", "operator", "by", "seconds", "read", "written")} for step in steps
    ]


# ---- check


def check_model(asked: argparse.Namespace) -> int:
    """The command `check`: 1 if there are errors."""
    findings = _loaded(asked).check()
    counts: Counter[str] = Counter(finding.severity for finding in findings)
    _tell_findings(asked, findings, counts)
    return int(counts["error"] > 0 or (asked.strict and counts["warning"] > 0))


def _tell_findings(asked: argparse.Namespace, findings: Sequence[Finding], counts: Counter[str]) -> None:
    if asked.json:
        told = {kind: counts[kind] for kind in _SEVERITIES}
        write_json({"model": asked.model, "counts": told, "findings": [finding._asdict() for finding in findings]})
    else:
        write(check_page(asked.model, findings, counts))


def check_page(model: str, findings: Sequence[Finding], counts: Counter[str]) -> Iterator[Block]:
    """Each finding, and how many there are."""
    for finding in findings:
        where = ", ".join(filter(None, (finding.node, finding.operator)))
        yield Heading(f"{finding.severity}: {where or 'the model'}", finding.severity)
        told = (("what", finding.message), ("rule", finding.rule), ("fix", finding.fix))
        yield Rows(tuple(row for row in told if row[1]))
    counted = [f"{n} {kind}{'s' if n > 1 else ''}" for kind in _SEVERITIES if (n := counts[kind])]
    yield f"{model}: {', '.join(counted) or 'nothing wrong was found'}"


# ---- convert

_FORMATS: Final = {".onnx": "onnx", ".xml": "openvino"}


def convert_model(asked: argparse.Namespace) -> int:
    """The command `convert`: 1 if there are nodes that cannot be converted."""
    target = _FORMATS.get(Path(asked.out).suffix)
    if target is None:
        raise UsageError(f"convert: {asked.out} ends neither in .onnx nor in .xml, so its format is open; rename it")
    to: Any = target
    try:
        made = foldwise.convert(
            _loaded(asked), asked.opset, to=to, exact=not asked.inexact, verify=asked.verify
        )  # fmt: skip
    except foldwise.ConversionError as error:
        counts: Counter[str] = Counter(finding.severity for finding in error.findings)
        _tell_findings(asked, error.findings, counts)
        return 1
    made.save(asked.out)
    if asked.json:
        write_json({"model": asked.model, "file": asked.out, "nodes": len(made.graph.nodes), "findings": []})
    else:
        write(iter([f"{asked.out}: {repr(made)[7:-1]}"]))
    return 0
