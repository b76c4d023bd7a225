"""The command line on what is read in blocks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import streams
from command_line import COLOUR, on_a_terminal, refused, written

import foldwise as fw
from foldwise.scale.memory import SIZES

X = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    streams.saved(Path("x.npy"), X)
    streams.chunked(Path("x.zarr"), X, (10, 10))


@pytest.mark.parametrize("file", [["x.npy", "--memory", "20MB"], ["x.zarr"], ["x.npy", "--checkpoint", "notes"]])
def test_results_are_those_of_the_functions(file: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, "sum", *file) == str(fw.sum(X, accuracy="exact")) + "\n"
    told = json.loads(written(capsys, "mean", *file, "--axis", "0", "--json"))
    assert told["shape"] == [30]
    for suffix in ".npy", ".zarr":
        said = written(capsys, "cumsum", *file, "--axis", "0", "--out", f"y{suffix}")
        assert said == f"y{suffix}: float32 (40, 30)\n"
        assert fw.sum(fw.open(f"y{suffix}")) == fw.sum(fw.cumsum(X, axis=0, accuracy="exact"), accuracy="exact")
    told = json.loads(written(capsys, "cumsum", *file, "--axis", "0", "--out", "y.npy", "--json"))
    assert told == {"function": "cumsum", "dtype": "float32", "shape": [40, 30], "file": "y.npy"}
    assert written(capsys, "cumulative_sum", *file, "--axis", "1").startswith("float32 (40, 30)\n")


def test_refusals_name_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert "the smallest that works is --memory 4" in refused(capsys, "sum", "x.npy", "--memory", "1MB")
    np.save("large.npy", np.ones((1000, 1000)))
    assert "unless --out FILE" in refused(capsys, "cumsum", "large.npy", "--axis", "0", "--memory", "9MB")
    for size in "much", "0.001", "0", "-5", "1e9", "nan", "":
        said = refused(capsys, "sum", "x.npy", f"--memory={size}")
        assert said.endswith(f"--memory: {size!r} is no size; give {SIZES}")
    assert "x.npy is an .npy file, so leave --column away" in refused(capsys, "sum", "x.npy", "--column", "a")
    for file in "x.npz:a", "-":
        assert "leave --memory and its like out" in refused(capsys, "sum", file, "--memory", "1GB")
    assert "--out -: what is read in blocks is written to files" in refused(capsys, "sum", "x.zarr", "--out", "-")
    assert "by functions that have out=" in refused(capsys, "cumulative_sum", "x.zarr", "--axis", "0", "--out", "y.npy")
    assert "there is no Zarr array 'no.zarr'" in refused(capsys, "sum", "no.zarr")




def test_a_bar_tells_rate_and_time_left() -> None:
    slow = (
        "import time; from foldwise.cli import progress; from foldwise.scale.files import File; read = File.read; "
        "progress.PATIENCE = 0; File.pleasant = 240; "
        "File.read = lambda *given: (time.sleep(0.1), read(*given))[1]"
    )
    seen = on_a_terminal(100, "sum", "x.npy", "--memory", "20MB", before=slow, folder=Path())
    assert re.search(r"sum x\.npy .*\d/4\.8 kB [\d.]+ (k?B|bytes)/s 0:00:\d\d", COLOUR.sub("", seen)), seen
    assert seen.splitlines()[-1].endswith("K-38.423927")  # and the bar is gone
