"""The same examples in every run; `HYPOTHESIS_PROFILE=explore` looks for new ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

import foldwise as fw

hypothesis.settings.register_profile(
    "steady", derandomize=True, deadline=None, database=None, max_examples=100
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets what it starts in the background ignore interrupts, and so would the programs that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def same_threads_afterwards() -> Iterator[None]:
    before = fw.get_num_threads()
    yield
    fw.set_num_threads(before)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few elements, so that small arrays are read in many."""
    monkeypatch.setattr("foldwise.scale.sources.Source.pleasant", 600)
    monkeypatch.setattr("foldwise.scale.files._PIECE", 64)
    monkeypatch.setattr("foldwise.scale.chunked._TOGETHER", 1)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests counted stands at the end, whichever process ran them."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "counted" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
