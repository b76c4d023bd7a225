"""Blocks of well-known networks run the same through every engine; they are the shipped examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ir_models import output_of
from onnx.reference import ReferenceEvaluator

import foldwise as fw

EXAMPLES = Path(__file__).parent.parent / "examples"
MODELS = EXAMPLES / "models"
RNG = np.random.default_rng(7)
BLOCKS: dict[str, dict[str, Any]] = {
    "encoder_block": {"x": RNG.standard_normal((2, 5, 8), np.float32)},
    "mean_pooling": {
        "embeddings": RNG.standard_normal((3, 6, 16), np.float32),
        "mask": (np.arange(6) < np.array([[6], [2], [1]])).astype(np.int64),
    },
    "beam_step": {
        "logits": RNG.standard_normal((4, 50), np.float32) * 9,
        "scores": RNG.standard_normal(4, np.float32),
        "finished": RNG.integers(0, 2, (4, 7)),
    },
}
OURS = {
    "encoder_block": ["ReduceMean-13", "ReduceMean-13", "ReduceMax-13", "ReduceSum-13"],
    "mean_pooling": ["ReduceSum-13", "ReduceSum-13", "ReduceSum-13", "ReduceL2-18"],
    "beam_step": ["ReduceLogSumExp-18", "ArgMax-13", "ReduceMax-18", "CumSum-14", "CumSum-14"],
}


def test_the_script_makes_what_is_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "make_models.py"), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in MODELS.iterdir()}


@pytest.mark.parametrize("name", BLOCKS)
def test_every_engine_agrees(name: str) -> None:
    path, inputs = MODELS / f"{name}.onnx", BLOCKS[name]
    found = fw.load(path)
    assert not [each for each in found.check() if each.severity != "note"]
    wanted = ReferenceEvaluator(str(path)).run(None, inputs)
    others = [found.run(inputs, engine="reference")]
    if name != "encoder_block":
        others.append(found.run(inputs))
    runtime = pytest.importorskip("onnxruntime")
    others.append(found.run(inputs, engine="onnxruntime"))
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    others.append(dict(zip([value.name for value in found.outputs], session.run(None, inputs), strict=True)))
    for made in others:
        for value, reference in zip(found.outputs, wanted, strict=True):
            assert made[value.name].dtype == reference.dtype == value.dtype
            np.testing.assert_allclose(made[value.name], reference, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("engine", ["reference", "onnxruntime"])
def test_our_reductions_are_inside(name: str, engine: str) -> None:
    pytest.importorskip(engine.replace("reference", "onnx"))
    seen: list[Any] = []
    fw.load(MODELS / f"{name}.onnx").run(BLOCKS[name], engine=engine, observe=seen.append)
    ours = [each for step in seen if step.by == "foldwise" for each in step.operator.split(" and ")]
    assert sorted(ours) == sorted(OURS[name])
    assert {step.by for step in seen} - {"foldwise", "numpy"} == ({engine} if name == "encoder_block" else set())


def test_the_block_that_needs_an_engine_says_so() -> None:
    with pytest.raises(fw.EngineError, match="Erf"):
        fw.load(MODELS / "encoder_block.onnx").run(BLOCKS["encoder_block"])


def test_the_openvino_example() -> None:
    x = np.random.default_rng(1).standard_normal((3, 12), np.float32)
    found = fw.load(MODELS / "running_share.xml")
    assert found.check() == []
    (share,) = found.run({"data": x}).values()
    np.testing.assert_allclose(share, np.cumsum(abs(x), 1) / abs(x).sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(share, output_of(MODELS / "running_share.xml", [x])[0], rtol=1e-5)


@pytest.mark.parametrize("name", BLOCKS)
def test_saved_models_are_good(name: str, tmp_path: Path) -> None:
    found = fw.load(MODELS / f"{name}.onnx")
    found.save(tmp_path / "again.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "again.onnx"), full_check=True)
    assert (tmp_path / "again.onnx").read_bytes() == (MODELS / f"{name}.onnx").read_bytes()
