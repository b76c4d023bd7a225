"""The project's chores, each one command, as in `nox -s lint`. What follows `--` goes to pytest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["tests", "lint", "drift"]

OLDEST_CLANG = 15  # as CMakeLists.txt has it
PROJECT = nox.project.load_toml("pyproject.toml")["project"]
BUILD = Path("build").resolve()
# A sanitizer reports to the process's own stderr and ends it: pytest must not be holding that back.
UNCAPTURED = ["--capture=sys", "--numprocesses=0", "-p", "no:cacheprovider"]
# Their allocators do not come through a fork in the middle of another thread's allocation; glibc's does.
NO_FORK_AMID = ["--deselect", "tests/test_threads.py::test_a_fork_while_others_compute"]
# What reaches the core directly. The other tests reach it by no other way, and load runtimes (onnxruntime, OpenVINO,
# Arrow, a browser) that bring allocators of their own, which no sanitizer can stand in for.
OF_THE_CORE = [
    f"tests/test_{part}.py"
    for part in (
        "exact", "exact_ways", "accumulator", "accumulator_bytes", "arg", "many", "extremes", "report", "partial",
        "doubles", "elementary", "memory", "errors", "results", "oracles", "threads", "laws", "fold_laws", "table",
        "reproducible", "api",
    )
]  # fmt: skip


def requirements(*extras: str) -> list[str]:
    """What the library and these extras need, without building the library itself."""
    found: list[str] = [*PROJECT["dependencies"]]
    for extra in extras:
        found += PROJECT["optional-dependencies"][extra]
    return found


@nox.session
def tests(session: nox.Session) -> None:
    """The whole test table on every ISA of this machine."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, and strict types over everything that is Python."""
    session.install(*requirements("test", "lint"))
    session.run("ruff", "check", ".")
    session.run("mypy")


@nox.session
def drift(session: nox.Session) -> None:
    """What is written twice must agree: documents and library, stub and native module."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", "tests/test_docs.py", *session.posargs)


@nox.session
def sanitize(session: nox.Session) -> None:
    """The tests of the core under AddressSanitizer and UndefinedBehaviorSanitizer; a report fails the run."""
    install_sanitized(session, "address,undefined")
    chosen = session.posargs or OF_THE_CORE
    session.run(
        "python", "-m", "pytest", *UNCAPTURED, *NO_FORK_AMID, *chosen,
        env={
            # libstdc++ comes along so that the runtime finds its exception machinery when Python starts.
            "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libstdc++.so')}",
            # CPython keeps memory until the very end on purpose, so leaks say nothing about this library.
            "ASAN_OPTIONS": "detect_leaks=0:strict_string_checks=1:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            # One allocation, one red zone: Python's own pools would hide an overrun.
            "PYTHONMALLOC": "malloc",
        },
    )  # fmt: skip


@nox.session
def tsan(session: nox.Session) -> None:
    """The threaded tests under ThreadSanitizer; a report fails the run."""
    install_sanitized(session, "thread")
    # Where addresses are randomised widely, the runtime cannot map its shadow memory: no randomising here.
    steady = ["setarch", "-R"] if shutil.which("setarch") else []
    chosen = session.posargs or ["tests/test_threads.py"]
    session.run(
        *steady, "python", "-m", "pytest", *UNCAPTURED, *NO_FORK_AMID, *chosen,
        external=True,
        env={
            "LD_PRELOAD": runtime("libtsan.so"),
            "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:second_deadlock_stack=1:history_size=4",
        },
    )  # fmt: skip


@nox.session
def neon(session: nox.Session) -> None:
    """Compiles the NEON kernels with a cross-compiler, where one is installed; warnings are errors."""
    compiler = shutil.which("aarch64-linux-gnu-g++")
    if compiler is None:
        session.skip("no aarch64-linux-gnu-g++ here (on Debian: apt-get install g++-aarch64-linux-gnu)")
    session.install("cmake", "ninja")
    folder = BUILD / "neon"
    session.run(
        "cmake", "-S", ".", "-B", str(folder), "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={compiler}",
        "-DFOLDWISE_KERNELS_ONLY=ON", "-DFOLDWISE_WERROR=ON",
    )  # fmt: skip
    session.run("cmake", "--build", str(folder))


@nox.session
def clang(session: nox.Session) -> None:
    """Has the other compiler read everything, where a new enough one is installed; warnings are errors."""
    names = ["clang++", *(f"clang++-{version}" for version in range(OLDEST_CLANG, OLDEST_CLANG + 20))]
    compiler = next((found for found in map(shutil.which, names) if found and version_of(found) >= OLDEST_CLANG), None)
    if compiler is None:
        session.skip(f"no clang++ from {OLDEST_CLANG} on here (on Debian: apt-get install clang-{OLDEST_CLANG})")
    session.install("cmake", "ninja", "numpy")
    folder = BUILD / "clang"
    session.run(
        "cmake", "-S", ".", "-B", str(folder), "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
        "-DCMAKE_BUILD_TYPE=Reading", "-DCMAKE_CXX_FLAGS_READING=-fsyntax-only",
        "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "-DCMAKE_CXX_CREATE_SHARED_MODULE=true",  # there is nothing to link
        f"-DPython_EXECUTABLE={session.virtualenv.bin}/python", "-DSKBUILD_PROJECT_VERSION_FULL=0",
        "-DFOLDWISE_WERROR=ON",
    )  # fmt: skip
    session.run("cmake", "--build", str(folder))


def version_of(compiler: str) -> int:
    said = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, check=True).stdout
    return int(said.split(".")[0])


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmark against NumPy, PyTorch, onnxruntime and OpenVINO in one run."""
    session.install(".[bench]")
    session.run("python", "-m", "benchmarks", *session.posargs)


def install_sanitized(session: nox.Session, sanitizers: str) -> None:
    if not sys.platform.startswith("linux"):
        session.skip("the sanitizer sessions preload their runtime, which needs Linux")
    folder = BUILD / f"sanitize-{sanitizers.replace(',', '-')}"
    session.install(
        "-C", f"cmake.define.FOLDWISE_SANITIZE={sanitizers}", "-C", "install.strip=false",
        "-C", f"build-dir={folder}", ".[test]", env={"CXX": "g++"},
    )  # fmt: skip


def runtime(library: str) -> str:
    """Where g++ keeps a runtime library."""
    found = subprocess.run(["g++", f"-print-file-name={library}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()
