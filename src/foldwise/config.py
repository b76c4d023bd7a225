"""What this foldwise is made of and runs on, as far as that can be chosen."""

import contextlib
import os
import platform
import threading
from collections.abc import Iterator
from typing import Any, Literal

import ml_dtypes
import numpy as np

from . import engine
from .errors import ArgumentError, OptionError


def show_config(mode: Literal["print", "dicts"] = "print") -> dict[str, dict[str, Any]] | None:
    """Print versions, instruction sets and threads, or return them as dictionaries, as NumPy does."""
    if mode not in ("print", "dicts"):
        raise OptionError(f'show_config: mode = {mode!r}; accepted are "print" and "dicts"')
    config: dict[str, dict[str, Any]] = {
        "versions": {
            "foldwise": engine.__version__,
            "numpy": np.__version__,
            "ml_dtypes": ml_dtypes.__version__,
            "python": platform.python_version(),
        },
        "instruction sets": {
            "in use": engine.isa(),
            "available": engine.available_isas(),
            "machine": platform.machine(),
        },
        "threads": {"in use": engine.threads()},
    }
    if mode == "dicts":
        return config
    for heading, entries in config.items():
        print(f"{heading}:")
        for key, value in entries.items():
            print(f"  {key}: {', '.join(value) if isinstance(value, list) else value}")
    return None


def set_num_threads(count: int) -> None:
    """Use at most `count` threads from now on, in this process. It changes no result."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise ArgumentError(f"set_num_threads: count = {count!r} is of type {type(count).__name__}; it must be an int")
    if not 1 <= count <= engine.most_threads:
        raise OptionError(f"set_num_threads: count = {count} is out of range (accepted: 1..{engine.most_threads})")
    engine.set_threads(int(count))


def get_num_threads() -> int:
    """How many threads foldwise may use. The default is the CPUs this process may run on."""
    return engine.threads()


@contextlib.contextmanager
def alone(on_main: bool = True) -> Iterator[None]:
    """Let this thread fold by itself: the other cores are at work for others like it. It changes no result."""
    before = engine.work_alone(on_main or threading.current_thread() is not threading.main_thread())
    try:
        yield
    finally:
        engine.work_alone(before)


def _default_kept_memory() -> int:
    """An eighth of the machine's memory, and no more than 1 GiB."""
    return min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8, 1 << 30)


def _heed_environment() -> None:
    isas = engine.available_isas()
    wanted = os.environ.get("FOLDWISE_ISA") or isas[-1]
    if wanted not in isas:
        raise OptionError(f"FOLDWISE_ISA={wanted}: this machine has {', '.join(isas)}; choose one, or unset it")
    engine.use_isa(wanted)

    keep = os.environ.get("FOLDWISE_KEEP_MEMORY")
    if keep and not (keep.isascii() and keep.isdigit()):
        raise OptionError(f"FOLDWISE_KEEP_MEMORY={keep}: accepted are whole numbers of bytes, 0 to keep none")
    engine.keep_memory(min(int(keep), 1 << 62) if keep else _default_kept_memory())

    threads = os.environ.get("FOLDWISE_NUM_THREADS")
    if threads:
        if not threads.isascii() or not threads.isdigit() or not 1 <= int(threads) <= engine.most_threads:
            raise OptionError(f"FOLDWISE_NUM_THREADS={threads}: accepted are whole numbers 1..{engine.most_threads}")
        engine.set_threads(int(threads))


_heed_environment()
