"""A command for each reduction and scan of arrays."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Sequence
from typing import Any, Final, get_args

import numpy as np

import foldwise
from foldwise.arguments import Accuracy, Array, Overflow
from foldwise.entrances import ENTRANCES
from foldwise.errors import FoldwiseError
from foldwise.folds import FOLDS
from foldwise.scale.memory import SIZES, in_bytes

from .blocks import Lines, write, write_json
from .files import UsageError, place_for, read_array, write_array
from .progress import progress
from .summary import as_data, described, summary

STREAMED: Final = (".zarr", ".parquet", ".arrow", ".feather")
"""Files that are read in blocks, whether or not anybody asks for it."""
_AXES: Final = re.compile(r"[+-]?\d+(,[+-]?\d+)*")


def axes(text: str) -> list[int]:
    """One axis or several."""
    if not _AXES.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no axis; give integers, as in --axis 0 or --axis 0,-1")
    return [int(axis) for axis in text.split(",")]


def size(text: str) -> int:
    """So much memory."""
    try:
        return in_bytes("", text)
    except FoldwiseError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; give {SIZES}") from None


def joined_axes(words: Sequence[str]) -> list[str]:
    """`--axis 0 -1` as `--axis=0,-1`: what follows would otherwise be taken for a file or an option."""
    joined: list[str] = []
    for word in words:
        last = joined[-1] if joined else ""
        an_axis = bool(_AXES.fullmatch(word))
        if last == "--axis" and (an_axis or not word.startswith("-")):
            joined[-1] = f"--axis={word}"  # whatever it is, to be refused with its name
        elif last.startswith("--axis=") and an_axis:
            joined[-1] += f",{word}"
        else:
            joined.append(word)
    return joined


_FLAG: Final = {"action": "store_true"}
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "axis": {"type": axes, "action": "extend", "metavar": "AXIS"},
    "dtype": {"metavar": "DTYPE", "help": "the dtype of the result, as in float64"},
    "keepdims": {**_FLAG, "help": "keep folded axes, with length 1"},
    "select_last_index": {**_FLAG, "help": "of equals the last, not the first"},
    "exclusive": {**_FLAG, "help": "leave each element out of its own result"},
    "reverse": {**_FLAG, "help": "run from the end"},
    "include_initial": {**_FLAG, "help": "begin with what no elements give, one result more"},
    "overflow": {"choices": get_args(Overflow), "help": "what becomes of an integer that the result cannot hold"},
    "accuracy": {"choices": get_args(Accuracy), "help": "exact: the exact value, rounded once"},
}
"""Arguments of the functions that are options here. A command has those that its function has."""
_REDUCTIONS: Final = {fold.name for fold in FOLDS}


def summaries() -> dict[str, str]:
    """Each command, and the first sentence about its function, in which None and () stand for axes left out."""
    found = {}
    for name, _ in ENTRANCES:
        sentence = re.split(r"\.\s", f"{inspect.getdoc(getattr(foldwise, name))}\n")[0]
        found[name] = re.sub(r" \(None.*\)", "", sentence).replace("`", "")
    return found


def add(commands: Any) -> None:
    """A command for each function. The help of all commands lists them by itself."""
    for name, says in summaries().items():
        command = commands.add_parser(name, description=f"{says}.")
        command.add_argument(
            "file",
            metavar="FILE",
            help="an .npy file, file.npz:name, or - for standard input; a Zarr array, a .parquet or .arrow file",
        )
        for option in inspect.signature(getattr(foldwise, name)).parameters:
            if option in OPTIONS:
                kind = {**OPTIONS[option]}
                if option == "axis":
                    several = name in _REDUCTIONS
                    kind["help"] = "axes, as in 0 or 0,-1; all if left out" if several else "one axis, as in 0 or -1"
                command.add_argument(f"--{option.replace('_', '-')}", default=argparse.SUPPRESS, **kind)
        command.add_argument(
            "--out", metavar="OUT", help="write the result to this .npy file or .zarr; - for standard output"
        )
        command.add_argument(
            "--memory", type=size, metavar="SIZE", help="read in blocks, within so much memory, as in 2GB"
        )
        command.add_argument("--checkpoint", metavar="NOTES", help="note here how far it is, and go on from there")
        command.add_argument("--column", metavar="NAME", help="the column of a .parquet or .arrow file")
        command.add_argument("--json", action="store_true", help="write JSON, for programs")
        command.set_defaults(run=run, function=name)


def run(asked: argparse.Namespace) -> int:
    """Any of these commands."""
    if asked.out == "-" and asked.json:
        raise UsageError("--out - and --json both want standard output; leave one of them out")
    options = {name: value for name, value in vars(asked).items() if name in OPTIONS}
    if "axis" in options:
        if len(asked.axis) > 1 and asked.function not in _REDUCTIONS:
            listed = ",".join(map(str, asked.axis))
            raise UsageError(f"{asked.function}: --axis {listed} are {len(asked.axis)} axes; give one, as in --axis 0")
        options["axis"] = tuple(asked.axis) if len(asked.axis) > 1 else asked.axis[0]
    streamed = asked.memory or asked.checkpoint or asked.column or asked.file.rstrip("/").endswith(STREAMED)
    return _stream(asked, options) if streamed else _at_once(asked, options)


def _at_once(asked: argparse.Namespace, options: dict[str, Any]) -> int:
    """With the array in memory."""
    place = None if asked.out is None else place_for(asked.out)
    result = np.asarray(getattr(foldwise, asked.function)(read_array(asked.file), **options))
    if asked.out is not None:
        write_array(place, result)
    if asked.json:
        file = {} if asked.out is None else {"file": asked.out}
        write_json({"function": asked.function, **as_data(result), **file})
    elif place is not None:
        write([Lines((f"{asked.out}: {described(result)}",))])
    elif asked.out is None:
        _show(result)
    return 0


def _stream(asked: argparse.Namespace, options: dict[str, Any]) -> int:
    """In blocks: the result goes to a file while it is made, or is small."""
    function = getattr(foldwise, asked.function)
    if asked.out is not None and (asked.out == "-" or "out" not in inspect.signature(function).parameters):
        raise UsageError(f"--out {asked.out}: what is read in blocks is written to files, by functions that have out=")
    out = {} if asked.out is None else {"out": foldwise.open(asked.out, mode="w")}
    with progress(f"{asked.function} {asked.file}", "bytes") as told:
        source = foldwise.open(
            asked.file, memory_budget=asked.memory, progress=told, checkpoint=asked.checkpoint, column=asked.column
        )
        result = function(source, **options, **out)
    if isinstance(result, foldwise.Source):
        dtype, shape = str(result.dtype), result.shape
        if asked.json:
            write_json({"function": asked.function, "dtype": dtype, "shape": shape, "file": asked.out})
        else:
            write([Lines((f"{asked.out}: {dtype} {shape}",))])
    elif asked.json:
        write_json({"function": asked.function, **as_data(np.asarray(result))})
    else:
        _show(np.asarray(result))
    return 0


def _show(result: Array) -> None:
    if result.ndim:
        write(summary(result))
    else:
        print(result[()])
