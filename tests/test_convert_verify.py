"""What `verify` runs: it ends, it blames nobody wrongly, and it finds what differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import loaded

import foldwise as fw


def test_counts_that_are_inputs_do_not_run_forever() -> None:
    given = loaded(
        """g (float[2,3] x, int64 n) => (float[2,3] y) <bool c = {1}> {
          y = Loop(n, c, x) <body = b (int64 i, bool go, float[2,3] v) => (bool on, float[2,3] w) {
            on = Identity(go) s = ReduceMax<axes=[1]>(v) w = Sub(v, s) }>
        }""", 13,
    )  # fmt: skip
    assert fw.convert(given, 18, verify=True).program.opset() == 18


def test_what_only_the_other_opset_needs_an_engine_for() -> None:
    given = loaded(
        "g (float[2,3] x) => (float[2,1] y) <int64[1] s = {0}, int64[1] e = {1}, int64[1] a = {1}>"
        "{ y = Slice(x, s, e, a) }", 13,
    )  # fmt: skip
    assert fw.convert(given, 9, verify=True).graph.nodes[0].constant("starts") == [0]


def test_words_and_sequences() -> None:
    given = loaded("g (int32[K] x) => (string[K] y) { y = Cast<to=8>(x) }")
    assert fw.convert(given, 13, verify=True).program.opset() == 13
    given = loaded("g (seq(float[2]) x) => (float[2] y) <int64 i = {0}> { y = SequenceAt(x, i) }", 12)
    with pytest.raises(fw.ConversionError, match="'x' is no tensor; leave verify out"):
        fw.convert(given, 18, verify=True)


def test_what_no_engine_runs_is_nobody_s_fault() -> None:
    given = loaded(
        "g (float[2,4] x) => (float[2,2] y, float[2,2] z) <int64[2] n = {2,2}> { y, z = Split<axis=1>(x, n) }", 13
    )
    with pytest.raises(fw.ConversionError, match=r"cannot be verified here: .*; leave verify out"):
        fw.convert(given, 1, verify=True)


def test_a_value_that_is_given_twice(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    x = ov.opset1.parameter([2, 3], np.float32)
    total = ov.opset1.reduce_sum(x, ov.opset1.constant(np.array([1])), True)
    ov.serialize(ov.Model([total, total, x], [x], "twice"), tmp_path / "m.xml")
    assert len(fw.convert(tmp_path / "m.xml", 18, verify=True).outputs) == 3


def test_layers_that_nothing_here_runs() -> None:
    given = loaded("g (float[2,3] x) => (float[2,3] y) { y = Sin(x) }", 13)
    with pytest.raises(fw.ConversionError, match=r"cannot be verified here: .*Sin.*; leave verify out"):
        fw.convert(given, to="openvino", verify=True)
