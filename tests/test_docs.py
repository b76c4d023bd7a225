"""The documents say what is true: their code runs, their commands are the ones that CI runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of one language: the line each begins at, and its text."""
    text = document.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, found.start("body")) + 1, found["body"])
        for found in FENCE.finditer(text)
        if found["language"] == language
    ]


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if blocks(each, "python")], ids=name)
def test_python_blocks_run(document: Path) -> None:
    """A document's blocks run from top to bottom in one namespace, as a reader would type them."""
    namespace: dict[str, object] = {"__name__": name(document)}
    for line, body in blocks(document, "python"):
        padded = "\n" * (line - 1) + body  # a traceback then points at the line of the document
        exec(compile(padded, str(document), "exec"), namespace)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=name)
def test_example_runs(example: Path) -> None:
    finished = subprocess.run([sys.executable, "-W", "error", str(example)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout


def test_ci_runs_the_commands_of_the_readme() -> None:
    commands = [body.strip() for _, body in blocks(ROOT / "README.md", "sh")][:2]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert len(commands) == 2
    for command in commands:
        assert command in script


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    local = [target for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) if "://" not in target]
    missing = [target for target in local if not (document.parent / target).exists()]
    assert not missing


def placed(rows: str) -> list[str]:
    """The files that the rows of a map are about: one without a folder lies where the one before it does."""
    found = []
    for cell in re.findall(r"^\| (`[^|]*) \|", rows, re.MULTILINE):
        folder = ""
        for each in re.findall(r"`([^`]+)`", cell):
            folder = each[: each.rfind("/") + 1] or folder
            found.append(folder + each[each.rfind("/") + 1 :])
    return sorted(found)


def test_the_map_has_every_file_once() -> None:
    source = ROOT / "src" / "foldwise"
    python, native = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("Inside `_native`:")
    files = {path.relative_to(source).as_posix() for path in source.rglob("*.py") if path.name != "__init__.py"}
    assert placed(python) == sorted([*files, "__init__.py", "_native/"])
    assert placed(native) == sorted(path.name for path in (source / "_native").iterdir())


def test_stub_matches_the_native_module() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "foldwise._native"], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
