"""The command `foldwise convert`."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from command_line import ended, refused, written
from onnx_models import model

import foldwise as fw

SUM = "rows (float[N,3] x) => (float[N,1] y) <int64[1] axes = {1}> { [sum] y = ReduceSum(x, axes) }"
SCAN = "scan (float[2,3] x, int64 k) => (float[2,3] y) { [steps] y = CumProd(x, k) }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(model(SUM, 18), tmp_path / "sum.onnx")
    onnx.save(model(SCAN, 26), tmp_path / "scan.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_to_an_opset_and_to_the_other_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = written(capsys, "convert", "sum.onnx", "old.onnx", "--opset", "11", "--verify")
    assert said == "old.onnx: 'rows': onnx, opset 11, 1 node\n"
    assert fw.load("old.onnx").graph.nodes[0].constant("axes") == [1]
    assert written(capsys, "convert", "old.onnx", "m.xml") == "m.xml: 'rows': openvino, 1 node\n"
    assert (folder / "m.bin").is_file()
    assert "opset 20" in written(capsys, "convert", "m.xml", "back.onnx")
    told = json.loads(written(capsys, "convert", "m.xml", "back.onnx", "--opset", "18", "--json"))
    assert told == {"model": "m.xml", "file": "back.onnx", "nodes": 1, "findings": []}


def test_refusals_are_told_and_nothing_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ended(capsys, "convert", "scan.onnx", "m.xml")
    assert (status, err) == (1, "")
    assert "error: node 'steps', CumProd-26" in out
    assert "scan.onnx: 1 error" in out
    assert not (folder / "m.xml").exists()
    status, out, err = ended(capsys, "convert", "scan.onnx", "m.xml", "--json")
    (finding,) = json.loads(out)["findings"]
    assert (status, finding["rule"]) == (1, "operator")


@pytest.mark.usefixtures("folder")
def test_asked_for_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    assert "m.pb ends neither in .onnx nor in .xml" in refused(capsys, "convert", "sum.onnx", "m.pb")
    assert "opset = 99; accepted are 1 to 28" in refused(capsys, "convert", "sum.onnx", "m.onnx", "--opset", "99")
    assert "an OpenVINO model has none" in refused(capsys, "convert", "sum.onnx", "m.xml", "--opset", "9")
    assert "there is no file" in refused(capsys, "convert", "none.onnx", "m.onnx")


def test_where_nothing_can_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "taken.onnx").mkdir()
    assert "there is no folder 'no' for 'm.onnx'; make it first" in refused(capsys, "convert", "sum.onnx", "no/m.onnx")
    assert "'taken.onnx' is a folder; name a file" in refused(capsys, "convert", "sum.onnx", "taken.onnx")
    assert sorted(path.name for path in folder.iterdir()) == ["scan.onnx", "sum.onnx", "taken.onnx"]


@pytest.mark.usefixtures("folder")
def test_onto_itself(capsys: pytest.CaptureFixture[str]) -> None:
    written(capsys, "convert", "sum.onnx", "sum.onnx", "--opset", "11")
    assert fw.load("sum.onnx").program.opset() == 11
