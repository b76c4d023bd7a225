"""The machine under the contenders: what it is, what it can do, and who else uses it."""

import os
import platform
import re
import time
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from foldwise import _native

from .measure import Call
from .operations import Array

COPY_AT_MOST = 512 * 2**20  # bytes: far beyond every cache, copying more would only cost memory


class Machine:
    """The machine's own speed on the same bytes with the same threads: a probe and the bytes it moves."""

    def __init__(self, base: Array) -> None:
        self.memory = base.reshape(-1).view(np.uint8)

    @property
    def reading(self) -> tuple[Call, int]:
        return partial(_native.probe_read, self.memory), self.memory.nbytes

    @cached_property
    def copying(self) -> tuple[Call, int]:
        source = self.memory[:COPY_AT_MOST]
        return partial(_native.probe_copy, np.ones_like(source), source), 2 * source.nbytes


class Disturbance:
    """Watches how much processor time others take, from now on: programs here, or other virtual machines."""

    def __init__(self) -> None:
        self.start = time.monotonic(), seconds_used_by_others()

    def share(self) -> float | None:
        began, used = self.start
        if used is None:
            return None
        everything = (time.monotonic() - began) * (os.cpu_count() or 1)
        return max(0.0, ((seconds_used_by_others() or used) - used) / everything)


def seconds_used_by_others() -> float | None:
    counters = Path("/proc/stat")
    if not counters.exists():
        return None
    user, nice, system, _idle, _wait, irq, softirq, stolen = map(int, counters.read_text().split()[1:9])
    busy = (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else []
    return names[0] if names else platform.processor() or platform.machine()
