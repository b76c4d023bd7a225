"""Runs the command line: in this process, in another one, and on a terminal."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import processes
import pytest

from foldwise import cli

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COMMAND = [sys.executable, "-m", "foldwise"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, into pipes; whatever the outcome."""
    return processes.completed("-m", "foldwise", *arguments, **environment)


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """In this process: its exit code, and what it wrote to standard output and standard error."""
    try:
        status = cli.main(arguments)
    except SystemExit as stopped:  # so argparse ends
        status = int(stopped.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What it writes when all goes well, and nothing is to be warned of."""
    status, out, err = ended(capsys, *arguments)
    assert (status, err) == (0, "")
    return out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Why it refuses: in one line, and with nothing on standard output."""
    status, out, err = ended(capsys, *arguments)
    assert (status, out) == (2, ""), err
    last = err.splitlines()[-1]
    assert last.startswith("foldwise")
    assert err.count("\n") == 1 or err.startswith("usage:"), err
    return last


def on_a_terminal(
    columns: int, *arguments: str, before: str = "", status: int = 0, folder: Path | None = None, **environment: str
) -> str:
    """What the command writes to a terminal of that many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    script = f"import sys; {before}\nfrom foldwise.cli import main; sys.exit(main({list(arguments)!r}))"
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM")}
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**kept, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(ours)
    assert child.wait(timeout=60) == status, pieces
    return b"".join(pieces).decode().replace("\r\n", "\n")
