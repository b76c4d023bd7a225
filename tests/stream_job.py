"""One job on a source in a process of its own: with little memory, slowly, or until somebody kills it.

`python stream_job.py FUNCTION PATH BUDGET JSON`, where JSON has the function's arguments, and of these `out`, `where`
and `checkpoint` paths, `pause` seconds after each block, `limit` whether memory is limited hard, the `file_size` that
is allowed. It prints JSON: the result's bytes as hexadecimal digits, how much memory the job took, and how many bytes
of the input were done when it began.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import foldwise as fw

_STACKS = 48 << 20
"""Address space of threads that nobody touches."""


def status(key: str) -> int:
    """A line of what the kernel knows of this process, in bytes."""
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


def main(name: str, path: str, budget: int, more: dict[str, Any]) -> None:
    told: list[int] = []

    def progress(done: int, total: int) -> None:
        told.append(done)
        if len(told) == 4:
            print("under way", file=sys.stderr, flush=True)
        time.sleep(more.get("pause", 0))

    source = fw.open(
        path,
        memory_budget=budget,
        progress=progress,
        checkpoint=more.get("checkpoint"),
        checkpoint_seconds=more.get("seconds", 0.0),
    )
    arguments = {key: value for key, value in more.items() if key in ("axis", "folds")}
    if "where" in more:
        arguments["where"] = fw.open(more["where"])
    if "out" in more:
        arguments["out"] = fw.open(more["out"], mode="w")
    # What is used for the first time would be counted otherwise: threads, code.
    fw.sum(np.ones(1 << 22))
    fw.cumsum(fw.open(np.ones(10)))
    told.clear()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    if more.get("limit"):
        most = status("VmData") + budget + _STACKS
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    if "file_size" in more:
        resource.setrlimit(resource.RLIMIT_FSIZE, (more["file_size"], more["file_size"]))
    found = getattr(fw, name)(source, **arguments)
    peak = status("VmHWM") - before
    bits = "" if isinstance(found, fw.Source) else np.asarray(found).tobytes().hex()
    print(json.dumps({"bits": bits, "peak": peak, "begun": told[0]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
