"""Runs Python in a fresh process: some things, the instruction set for one, are settled at import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent


def completed(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python arguments...` with the tests importable; whatever the outcome."""
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    everything = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(
        [sys.executable, *arguments], env=everything, capture_output=True, text=True, timeout=300, check=False
    )


def output(*arguments: str, **environment: str) -> str:
    """What it prints, having ended well."""
    process = completed(*arguments, **environment)
    assert process.returncode == 0, f"exit status {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process.stdout
