"""The commands, and how they end."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from foldwise.engine import __version__
from foldwise.errors import FoldwiseError, FoldwiseWarning

from . import arrays, audits, differences, docs, models, pages
from .blocks import visible

WRONG: Final = 2
INTERRUPTED: Final = 130

ENDINGS: Final = f"""\
exit codes:
  0    done; for check and audit: no errors
  1    check, audit: errors (with --fix, left ones); convert: refused nodes, no file
  {WRONG}    asked for wrongly, or refused: the message says what and why
  {INTERRUPTED}  interrupted
"""


def parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    made = argparse.ArgumentParser(
        "foldwise",
        description="Reductions and scans: of arrays, in models, and as ONNX and OpenVINO specify them.",
        epilog=f"{_array_commands()}\n{ENDINGS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"foldwise {__version__}")
    commands = made.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Command)
    for module in (models, audits, arrays, pages, differences, docs):
        module.add(commands)
    return made


class _Command(argparse.ArgumentParser):
    """One command, whose help ends with the exit codes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            **settings, epilog=ENDINGS, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )


def _array_commands() -> str:
    """The commands on arrays, and what each does."""
    said = arrays.summaries()
    width = max(map(len, said)) + 4
    lines = [f"  {name}".ljust(width) + re.split("[:,] ", says[0].lower() + says[1:])[0] for name, says in said.items()]
    return "\n".join(["commands on arrays, as in foldwise sum x.npy --axis 0:", *lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and say how it ended: 0 well, 1 for a model with errors, 2 refused, 130 interrupted."""
    asked = parser().parse_args(arrays.joined_axes(sys.argv[1:] if arguments is None else arguments))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names in files may hold any character
    try:
        with _clean_warnings():
            status: int = asked.run(asked)
        sys.stdout.flush()
    except FoldwiseError as error:
        return _refused(said_here(str(error)))
    except MemoryError as error:
        return _refused(f"there is not enough memory ({str(error) or 'none was left'})")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it exits
        return 1
    except OSError as error:
        return _refused(": ".join(str(each) for each in (error.filename, error.strerror or error) if each))
    except KeyboardInterrupt:
        print("foldwise: interrupted", file=sys.stderr)
        return INTERRUPTED
    return status


def _refused(why: str) -> int:
    print(f"foldwise: {visible(why)}", file=sys.stderr)
    return WRONG


_HERE: Final = (
    (r"^(operator|load|diff|audit|open): ", ""),
    (r"memory_budget=(\d+)", r"--memory \1"),
    (r'out=fw\.open\(path, mode="w"\)', "--out FILE"),
    ("for the numbers of any other file give dtype= and shape=", "save it as .npy, or leave --memory and its like out"),
    (r"\b(column|dtype) = ", r"--\1 "),
    (r"\b(column|checkpoint)=(?!\w)", r"--\1"),
    (r"\bdtype=(\w+)", r"--dtype \1"),
    (r'\boverflow="(\w+)"', r"--overflow \1"),
    (r"\b(exclusive|reverse)=True", r"--\1"),
    (r"\binclude_initial=True", "--include-initial"),
    (r"give x\.astype\('(\w+)'\)", r"give it as \1"),
    (r'ask for to="onnx"', "name an .onnx file"),
    (r"limits=Limits\((\w+=\d+)\)", r"--limit \1"),
    (r'(?:run\(\.\.\., )?\bengine="(\w+)"\)?', r"--engine \1"),
    (r"strict=True", "--strict"),
    (r"exact=False", "--inexact"),
    (r"ask for lenient=True", "leave out --strict"),
    (r"let pass by lenient=True", "--strict refuses it"),
)


def said_here(text: str) -> str:
    """A message for Python's users in the words of the command line."""
    for theirs, ours in _HERE:
        text = re.sub(theirs, ours, text)
    return text


@contextlib.contextmanager
def _clean_warnings() -> Iterator[None]:
    """Our own warnings as one line each; all others as Python prints them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("default", category=FoldwiseWarning)
        warnings.showwarning = _shown_cleanly(warnings.showwarning)
        yield


def _shown_cleanly(otherwise: Callable[..., None]) -> Callable[..., None]:
    def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
        if issubclass(category, FoldwiseWarning):
            print(f"foldwise: warning: {visible(said_here(str(message)))}", file=sys.stderr)
        else:
            otherwise(message, category, *rest, **named)

    return show
