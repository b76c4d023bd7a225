"""How much memory a job may take."""

import os
import re
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any, Final

from foldwise.errors import ArgumentError, BudgetError, OptionError

_UNITS: Final = {unit: 1000**power for power, unit in enumerate(("", "K", "M", "G", "T"))} | {
    f"{unit}i": 1024**power for power, unit in enumerate(("", "K", "M", "G", "T")) if unit
}
_WRITTEN: Final = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s*([KMGT]i?)?B?", re.IGNORECASE)
SIZES: Final = 'whole bytes from 1 on, or with a unit, as in "512MB", "2GB", "1.5GiB"'
"""What is accepted as a budget."""
_USUAL: Final = 1 << 30


def in_bytes(name: str, budget: Any) -> int:
    """A budget as somebody writes it, as in "2GB", "512 MiB" or 10**9. Without one: a GiB, or a quarter of what is."""
    if budget is None:
        return min(_USUAL, _memory() // 4)
    if isinstance(budget, bool) or not isinstance(budget, str | Integral):
        raise ArgumentError(f"{name}: memory_budget is of type {type(budget).__name__}; accepted are {SIZES}")
    size = _read(budget) if isinstance(budget, str) else int(budget)
    if size < 1:
        raise OptionError(f"{name}: memory_budget = {budget!r}; accepted are {SIZES}")
    return size


def _read(text: str) -> int:
    """How many bytes somebody has written; none where that is no size."""
    found = _WRITTEN.fullmatch(text.strip())
    return int(Fraction(found[1]) * _UNITS[(found[2] or "").upper().replace("I", "i")]) if found else 0


def in_words(size: int) -> str:
    """Bytes as somebody reads them, never rounded down."""
    for unit, power in ("GB", 10**9), ("MB", 10**6), ("kB", 10**3):
        if size >= 10 * power:
            return f"{-(-size // power)} {unit}"
    return f"{size} bytes"


def refuse(name: str, budget: int, needed: int, why: str) -> None:
    """A budget that is too small."""
    raise BudgetError(
        f"{name}: a memory budget of {in_words(budget)} is too small: {why}; the smallest that works is "
        f"memory_budget={needed} ({in_words(needed)})",
        needed,
    )


def _memory() -> int:
    """The machine's memory, or what this process's group may have of it."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine
