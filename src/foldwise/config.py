"""What this foldwise is made of and runs on."""

import platform
from typing import Any, Literal

import ml_dtypes
import numpy as np

from . import engine
from .errors import OptionError


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
        "threads": {"in use": engine.get_num_threads()},
    }
    if mode == "dicts":
        return config
    for heading, entries in config.items():
        print(f"{heading}:")
        for key, value in entries.items():
            print(f"  {key}: {', '.join(value) if isinstance(value, list) else value}")
    return None
