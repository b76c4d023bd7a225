"""`check` finds everything at once, and says what to do."""

from __future__ import annotations

from pathlib import Path

import onnx
import openvino as ov
import pytest
from onnx_models import loaded, model, official

import foldwise as fw
from foldwise.models.check import Finding
from foldwise.plugins import onnx_backend


def found(text: str, opset: int = 18) -> list[tuple[str, str, str]]:
    return [(each.severity, each.rule, each.operator) for each in loaded(text, opset).check()]


def test_a_good_model_has_nothing_to_find() -> None:
    assert found("g (float[3,N] x) => (float[3] y) <int64[1] i = {1}> { y = ReduceSum<keepdims=0>(x, i) }") == []


def accepted(proto: onnx.ModelProto) -> bool:
    """Whether onnx's own checker accepts a model."""
    try:
        onnx.checker.check_model(proto, full_check=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def test_every_official_model_of_the_family_is_good() -> None:
    checked = 0
    for name, case in official().items():
        if onnx_backend.is_compatible(case.model) and len(case.model.graph.node) < 5:
            errors = [each for each in fw.load(case.model).check() if each.severity == "error"]
            assert not errors or (errors[0].rule == "onnx.checker" and not accepted(case.model)), name
            checked += 1
    assert checked > 400


MANY = (
    "g (float[3,4] x, int32[3] n, bool[2] b) => (float[3] y, int64[4] z) <int64[1] far = {7}, int64[2] two = {0, 0}> {"
    " a = ReduceSum<keepdims=2, noop_with_empty_axes=3>(x, far)"
    " c = ReduceMean<axes=[1]>(x)"
    " d = ReduceProd(b)"
    " e = CumProd(x, far)"
    " f = ReduceMax(x, n)"
    " y = ReduceMin<keepdims=0>(x, two)"
    " z = ArgMax<axis=0, keepdims=0>(x)"
    " h = Erf(x) h2 = Erf(h) }"
)


def test_all_findings_at_once() -> None:
    assert found(MANY) == [
        ("error", "attribute", "ReduceSum-13"),
        ("error", "attribute", "ReduceSum-13"),
        ("error", "axes", "ReduceSum-13"),
        ("error", "arguments", "ReduceMean-18"),
        ("error", "dtype", "ReduceProd-18"),
        ("error", "operator", "CumProd"),
        ("error", "dtype", "ReduceMax-18"),
        ("warning", "tolerated", "ReduceMin-18"),
        ("error", "statement", "ReduceMin"),
        ("note", "engine", "Erf"),
    ]


def test_what_a_finding_says() -> None:
    by_rule = {each.rule: each for each in loaded(MANY).check()}
    assert by_rule["axes"].message == "axes[0] = 7 is out of range for rank 2 (accepted: -2..1)"
    assert by_rule["dtype"].node == "the node that makes 'f'"
    assert "must be a 1-D int64 tensor, got int32 of shape (3,)" in by_rule["dtype"].message
    assert by_rule["tolerated"].fix == "name each axis once"
    assert "came with opset 26" in str(by_rule["operator"])
    assert by_rule["engine"].fix == 'run it with engine="onnxruntime" or engine="reference"'
    assert str(Finding("error", "node 'n'", "Op-1", "axes", "wrong", "do right")) == (
        "error: node 'n' (Op-1): wrong -> do right"
    )


def test_statements_that_are_not_so() -> None:
    text = "g (float[3,4] x) => (float[4] y) <int64[1] i = {1}> { y = ReduceSum<keepdims=0>(x, i) }"
    (finding,) = loaded(text).check()
    assert (finding.severity, finding.rule) == ("error", "statement")
    assert "the file states y: float32 (4,), but the node makes float32 (3,)" in finding.message
    assert found("g (float[3,4] x) => (int32[4] y) { y = ArgMax<keepdims=0>(x) }") == [("error", "statement", "ArgMax")]


def test_axes_that_come_through_plumbing() -> None:
    text = (
        "g (float[3,4] x) => (float[3] y) { a = Constant<value_int=5>() one = Constant<value_ints=[1]>()"
        " b = Reshape(a, one) c = Cast<to=7>(b) y = ReduceSum<keepdims=0>(x, c) }"
    )
    assert found(text) == [("error", "axes", "ReduceSum-13")]


def test_inside_of_branches_and_functions() -> None:
    text = (
        "g (float[3,4] x, bool c) => (float[4] y) { y = If<"
        "then_branch = t () => (float[4] a) { i = Constant<value_ints=[3]>() a = ReduceSum<keepdims=0>(x, i) },"
        "else_branch = e () => (float[4] b) { j = Constant<value_ints=[-3]>() b = ReduceMax<keepdims=0>(x, j) }>(c) }"
    )
    assert found(text) == [("error", "axes", "ReduceSum-13"), ("error", "axes", "ReduceMax-18")]
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "ours" : 1]> g (float[3,4] x) => (float[3] y) { y = ours.F(x) }'
        '<domain: "ours", opset_import: ["" : 18]> F(a) => (b) { b = ReduceSum<axes=[1]>(a) }'
    )
    assert [each.rule for each in fw.load(proto).check()] == ["arguments"]


def test_the_official_checker_has_the_last_word() -> None:
    proto = model("g (float[3,4] x) => (float[3,4] y) { y = Neg<alpha=1.0>(x) }")
    (finding,) = fw.load(proto).check()
    assert finding.rule == "onnx.checker"
    assert "alpha" in finding.message


def test_a_model_of_the_other_format(tmp_path: Path) -> None:
    x = ov.opset13.parameter([3, 4], ov.Type.f32, name="x")
    good = ov.Model([ov.opset13.reduce_sum(x, ov.opset13.constant([1]), True)], [x], "m")
    path = tmp_path / "m.xml"
    ov.serialize(good, path)
    assert fw.load(path).check() == []
    text = path.read_text().replace('keep_dims="true"', 'keep_dims="yes"')
    path.write_text(text)
    (finding,) = fw.load(path).check()
    assert (finding.severity, finding.rule) == ("error", "attribute")
    assert finding.message.startswith("attribute 'keep_dims' = 'yes'")
    with pytest.raises(fw.OptionError, match="keep_dims"):
        fw.load(path).run([[[1, 2, 3, 4]] * 3])
