"""The rules of the house that a linter cannot hold."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import processes
import pytest

import foldwise as fw

PACKAGE = Path(fw.__file__).parent
SOURCE = processes.ROOT / "src" / "foldwise"
MODULES = sorted(SOURCE.glob("**/*.py"))
WRITTEN = {".py", ".pyi", ".h", ".cpp", ".def", ".md", ".toml", ".txt", ".cmake"}

in_the_repository = pytest.mark.skipif(not SOURCE.is_dir(), reason="needs the repository")


@in_the_repository
def test_no_file_is_longer_than_500_lines() -> None:
    folders = ("src", "tests", "benchmarks", "examples", "docs")
    files = [
        path for folder in folders for path in (processes.ROOT / folder).rglob("*") if path.suffix in WRITTEN
    ]
    files += [path for path in processes.ROOT.iterdir() if path.suffix in WRITTEN]
    assert len(files) > 20
    long = {
        str(path): count
        for path in files
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert not long


def imported(path: Path) -> set[str]:
    """Every name a module imports, absolute or relative, as far as it is spelled out."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            found |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return found


@in_the_repository
def test_the_native_core_is_called_from_one_place() -> None:
    assert MODULES
    callers = [
        path.name for path in MODULES if any(name.split(".")[-1] == "_native" for name in imported(path))
    ]
    assert callers == ["engine.py"]


@in_the_repository
def test_operators_import_nothing_heavier_than_dtypes() -> None:
    """What the standards say is data: no array library, no onnx, none of our own modules but the light ones."""
    light = {"foldwise.dtypes", "foldwise.errors"}
    modules = sorted((SOURCE / "operators").glob("*.py"))
    assert {path.name for path in modules} >= {"catalog.py", "schema.py", "call.py", "infer.py"}
    for path in modules:
        for name in imported(path):
            first = name.split(".")[0]
            own = name in light | {"foldwise"} or any(name.startswith(f"{each}.") for each in light)
            neighbour = name.startswith(".") and not name.startswith("..")
            assert first in sys.stdlib_module_names or own or neighbour, f"{path.name} imports {name}"


@in_the_repository
def test_only_the_catalog_names_operators() -> None:
    names = {schema.name for schema in fw.operators()}
    for path in MODULES:
        words = set(re.findall(r"\w+", code_of(path)))
        assert path.name == "catalog.py" or not words & names, path.name


def code_of(path: Path) -> str:
    """A module without its docstrings and comments, which may give examples."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.unparse(tree)


def test_importing_foldwise_loads_numpy_and_ml_dtypes_and_nothing_more() -> None:
    script = """
import sys, numpy, ml_dtypes
before = set(sys.modules)
import foldwise
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""
    loaded = set(processes.output("-c", script).split())
    assert loaded - set(sys.stdlib_module_names) - {"numpy", "ml_dtypes"} == {"foldwise"}


def test_importing_foldwise_starts_no_thread_and_prints_nothing() -> None:
    tasks = "/proc/self/task"
    count = f"len(os.listdir('{tasks}')) if os.path.isdir('{tasks}') else 1"
    script = f"import numpy, ml_dtypes, {{}}os; print({count})"
    with_foldwise, without = (processes.output("-c", script.format(more)) for more in ("foldwise, ", ""))
    assert with_foldwise == without


def test_a_name_is_exported_once() -> None:
    assert len(fw.__all__) == len(set(fw.__all__))
    names = {module.name for module in pkgutil.iter_modules(fw.__path__)}
    modules = [importlib.import_module(f"foldwise.{name}") for name in names - {"_native"}]
    homes: dict[str, list[str]] = {}
    for module in modules:
        for name, value in vars(module).items():
            if (
                callable(value)
                and not name.startswith("_")
                and getattr(value, "__module__", None) == module.__name__
            ):
                homes.setdefault(name, []).append(module.__name__)
    assert {"sum", "AxisError", "show_config"} <= set(homes)
    assert not {name: places for name, places in homes.items() if len(places) > 1}
    assert all(hasattr(fw, name) for name in fw.__all__)  # some are imported when they are asked for
    public = {name for name in vars(fw) if not name.startswith("_")} - (names - set(fw.__all__))
    assert public == set(fw.__all__) - {"__version__"}


def test_no_public_object_has_two_names() -> None:
    objects = [id(getattr(fw, name)) for name in fw.__all__]
    assert len(objects) == len(set(objects))


def project() -> Any:
    """What pyproject.toml says of the package."""
    return tomllib.loads((processes.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@in_the_repository
def test_all_is_every_part_that_users_may_want() -> None:
    extras = project()["optional-dependencies"]
    parts = [name for name in extras if name not in ("all", "test", "lint", "bench")]
    assert extras["all"] == [f"foldwise[{','.join(parts)}]"]


@in_the_repository
def test_the_benchmarks_import_what_their_extra_brings() -> None:
    said = project()
    brought = {re.split(r"\W", each)[0] for each in said["dependencies"] + said["optional-dependencies"]["bench"]}
    used = {name.split(".")[0] for path in (processes.ROOT / "benchmarks").glob("*.py") for name in imported(path)}
    assert used - sys.stdlib_module_names - {"", "foldwise"} == brought


def test_types_travel_with_the_package() -> None:
    assert (PACKAGE / "py.typed").is_file()
