"""A bar on the terminal for work that takes its time."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from threading import Timer
from typing import Final

PATIENCE: Final = 1.0
"""Seconds without a bar."""


@contextlib.contextmanager
def progress(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Something to be told how much is done, of how much. It draws only on a terminal, and on standard error.

    Of bytes it also tells how fast they go, and how much time is left.
    """
    if not (sys.stderr.isatty() and importlib.util.find_spec("rich")):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    counted: list[ProgressColumn] = [MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn()]
    if unit == "bytes":
        counted = [DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *counted,
        console=console,
        transient=True,
        redirect_stdout=False,
        disable=not console.is_interactive,
    )
    task = bar.add_task(what, total=None)
    timer = Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
