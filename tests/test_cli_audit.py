"""The command `foldwise audit`."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from command_line import ended, refused, written
from onnx_models import model

import foldwise as fw

NORM = "norms (float[N,3] x) => (float[N,1] y) { [norm] y = ReduceL1<axes=[1]>(x) }"
STAMPS = "stamps (int64[N,4] x) => (int64[N,1] y) { [total] y = ReduceSum(x, axes) axes = Constant<value_ints=[1]>() }"
SCAN = "scan (float[2,3] x, int64 k) => (float[2,3] y) { [steps] y = CumProd(x, k) }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(model(NORM, 13), tmp_path / "norm.onnx")
    onnx.save(model(STAMPS, 13), tmp_path / "stamps.onnx")
    onnx.save(model(SCAN, 26), tmp_path / "scan.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_errors_and_warnings_have_their_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ended(capsys, "audit", "norm.onnx")
    assert (status, err) == (1, "")
    assert "error: node 'norm' (ReduceL1-13)" in out
    assert "row   openvino-l1-ignores-axes" in out
    assert "norm.onnx: 1 error" in out
    assert "warning: node 'total'" in written(capsys, "audit", "stamps.onnx")
    assert ended(capsys, "audit", "stamps.onnx", "--strict")[0] == 1
    assert written(capsys, "audit", "stamps.onnx", "--runtime", "onnxruntime=1.26").startswith(
        "stamps.onnx: no faults are known\nheld against onnxruntime 1.26"
    )
    assert "held against openvino" in written(capsys, "audit", "stamps.onnx", "--installed", "--runtime", "openvino")


def test_the_repaired_model_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = written(capsys, "audit", "norm.onnx", "--fix", "fixed.onnx", "--verify")
    assert "fixed.onnx: 'norms': onnx, opset 18, 1 node" in said
    assert "repaired: node 'norm' (ReduceL1-13): openvino-l1-ignores-axes" in said
    assert fw.load("fixed.onnx").graph.nodes[0].inputs[0] == "x"
    status, out, _ = ended(capsys, "audit", "scan.onnx", "--fix", "same.onnx", "--json", "--runtime", "openvino")
    told = json.loads(out)
    assert (status, told["file"], told["repaired"]) == (1, "same.onnx", [])
    assert told["left"][0]["why"] == "nothing here rewrites it; compute it outside of the model."
    status, out, _ = ended(capsys, "audit", "stamps.onnx", "--fix", "stamps.onnx", "--runtime", "onnxruntime")
    assert (status, [node.operator for node in fw.load("stamps.onnx").graph.nodes]) == (0, ["CumSum", "Gather"])
    assert sorted(path.name for path in folder.iterdir()) == [
        "fixed.onnx", "norm.onnx", "same.onnx", "scan.onnx", "stamps.onnx",
    ]  # fmt: skip


def test_nothing_is_written_where_writing_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not end in .onnx" in refused(capsys, "audit", "norm.onnx", "--fix", "fixed.xml")

    def fails(*given: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", fails)
    assert "the disk is full" in refused(capsys, "audit", "norm.onnx", "--fix", "fixed.onnx")
    assert not [path for path in folder.iterdir() if "fixed" in path.name]


@pytest.mark.usefixtures("folder")
def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ended(capsys, "audit", "norm.onnx", "--json", "--level", "note")
    told = json.loads(out)
    assert (status, told["model"], told["counts"]["error"]) == (1, "norm.onnx", 1)
    assert told["findings"][0]["fix"] == "Move to opset 18, where axes are an input."
    status, out, _ = ended(capsys, "audit", "norm.onnx", "--sarif")
    log = json.loads(out)
    (result,) = log["runs"][0]["results"]
    assert (status, log["version"], result["ruleId"]) == (1, "2.1.0", "openvino-l1-ignores-axes")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "norm.onnx"


@pytest.mark.usefixtures("folder")
def test_asked_for_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--verify compares a repaired model, which --fix OUT asks for" in refused(
        capsys, "audit", "faulty.onnx", "--verify"
    )
    assert "runtime 'trt' is not known" in refused(capsys, "audit", "norm.onnx", "--runtime", "trt")
    assert "'x' is no version of openvino" in refused(capsys, "audit", "norm.onnx", "--runtime", "openvino=x")
    assert "give one of them" in refused(capsys, "audit", "norm.onnx", "--installed", "--runtime", "openvino=2026.1")
    assert "there is no file" in refused(capsys, "audit", "none.onnx")
    assert "not allowed with" in refused(capsys, "audit", "norm.onnx", "--json", "--sarif")
