"""Models on their way to the disk: each file whole or not at all, the constants' before the model's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from onnx_models import data, model

import foldwise as fw
from foldwise.models import onnx_file, openvino_ir
from foldwise.models.files import written_whole
from foldwise.models.graph import Graph, Program, Value

WEIGHTS = data(40, 50)


def of_onnx(path: Path) -> None:
    """A model whose constants are too large for one file."""
    proto = model("g () => (float[40,50] y) { y = Identity(w) }")
    proto.graph.initializer.append(numpy_helper.from_array(WEIGHTS, "w"))
    onnx_file.write(fw.load(proto).program, path, largest=1000)


def of_openvino(path: Path) -> None:
    openvino_ir.write(Program("openvino", Graph("m", outputs=[Value("w")], constants={"w": WEIGHTS}), 11), path)


FORMATS = pytest.mark.parametrize(
    ("write", "name", "beside"), [(of_onnx, "m.onnx", "m.onnx.data"), (of_openvino, "m.xml", "m.bin")]
)
Write = Callable[[Path], None]


def refuse(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a disk refuse one name."""
    replace = Path.replace

    def refusing(self: Path, target: Path) -> Path:
        if target.name == name:
            raise OSError(5, "Input/output error", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refusing)


@FORMATS
def test_a_model_is_not_there_before_its_constants(
    write: Write, name: str, beside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, beside)
    with pytest.raises(OSError, match="Input/output error"):
        write(tmp_path / name)
    assert not any(tmp_path.iterdir())


@FORMATS
def test_constants_stay_where_the_model_cannot_follow(
    write: Write, name: str, beside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(b"before")
    refuse(monkeypatch, name)
    with pytest.raises(OSError, match="Input/output error") as caught:
        write(tmp_path / name)
    assert caught.value.filename == str(tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"before"
    assert (tmp_path / beside).read_bytes().endswith(WEIGHTS.tobytes())
    assert len(list(tmp_path.iterdir())) == 2


def test_bytes_are_on_the_disk_before_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, settled, fsync = tmp_path / "x", [], os.fsync

    def noted(descriptor: int) -> None:
        assert not path.exists()
        settled.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with written_whole(path) as file:
        file.write(np.ones(1000, np.int8).tobytes())
    assert settled == [1000]
