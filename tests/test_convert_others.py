"""Other operators at another opset: kept where they say the same, turned, or refused with a way out."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx_models import loaded, official

import foldwise as fw
from foldwise.models.onnx_file import to_proto

X = "g (float[2,3,4] x) => "
COUNTED: dict[str, tuple[str, str, Any]] = {
    "Concat": ("(float[2,3,8] y) { y = Concat<axis=-1>(x, x) }", "axis", 2),
    "Flatten": ("(float[6,4] y) { y = Flatten<axis=-1>(x) }", "axis", 2),
    "Gather": ("(float[2,3,1] y) <int64[1] i = {-1}> { y = Gather<axis=-1>(x, i) }", "axis", 2),
    "Unsqueeze": ("(float[2,3,4,1] y) <int64[1] a = {-1}> { y = Unsqueeze(x, a) }", "axes", [3]),
    "Squeeze": ("(float[2,3,1,4] y) <int64[1] a = {-2}> { z = Unsqueeze(x, a) y = Identity(z) }", "axes", [2]),
    "Slice": ("(float[2,3,1] y) <int64[1] s = {-1}, int64[1] e = {9}, int64[1] a = {-1}> { y = Slice(x, s, e, a) }",
              "axes", [2]),
}  # fmt: skip


def refused(given: fw.Model, opset: int) -> tuple[str, str]:
    with pytest.raises(fw.ConversionError) as caught:
        fw.convert(given, opset)
    (finding,) = caught.value.findings
    return finding.message, finding.fix


@pytest.mark.parametrize("operator", COUNTED)
def test_what_counts_from_the_end_counts_from_the_front_before_opset_11(operator: str) -> None:
    text, name, wanted = COUNTED[operator]
    found = fw.convert(loaded(X + text, 13), 9, verify=True)
    onnx.checker.check_model(to_proto(found.program), full_check=True)
    assert found.graph.nodes[0].constant(name) == wanted
    again = fw.convert(found, 28, verify=True)
    assert again.graph.nodes[0].operator == found.graph.nodes[0].operator


def test_places_from_the_end() -> None:
    given = loaded("g (float[2,3] x) => (float[1,3] y) <int64[1] i = {-1}> { y = Gather(x, i) }", 13)
    (held,) = fw.convert(given, 10, verify=True).graph.constants.values()
    assert held.tolist() == [1]
    given = loaded("g (float[N,3] x) => (float[1,3] y) <int64[1] i = {-1}> { y = Gather(x, i) }", 13)
    assert refused(given, 10)[1] == "state its shape, or convert to opset 11 or later"


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_softmax_along_its_axis(operator: str, axis: int) -> None:
    given = loaded(f"{X} (float[2,3,4] y) {{ y = {operator}<axis={axis}>(x) }}", 13)
    found = fw.convert(given, 12, verify=True)
    turned = ["Transpose", operator, "Transpose"]
    assert [node.operator for node in found.graph.nodes] == (turned if axis >= 0 else [operator])
    if axis < 0:
        again = fw.convert(found, 13, verify=True)
        assert [(node.operator, node.constant("axis")) for node in again.graph.nodes] == [(operator, 2)]


def test_a_softmax_of_which_no_rank_is_known() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "own" : 1]>
    g (float[2,3] x) => (float[2,3] y) { a = own.Thing(x) y = Softmax(a) }"""
    why = "Softmax is another since opset 13"
    assert refused(fw.load(onnx.parser.parse_model(text)), 12) == (why, "stay at opset 13, or replace it")


@pytest.mark.parametrize(
    ("text", "source", "opset"),
    [
        ("(float[2,3,4] y) { y = Elu(x) }", 22, 6),
        ("(float[2,3,4] y) { y = Dropout(x) }", 22, 12),
        ("(float[6,4] y) <float[4,4] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> { z = Flatten<axis=2>(x) y = Gemm(z, w) }",
         17, 11),
        ("(float[1,3,4] y, float[1,3,4] z) <int64[2] n = {1,1}> { y, z = Split(x, n) }", 13, 11),
        ("(float[6,4] y) <int64[2] s = {6,4}> { y = Reshape<allowzero=0>(x, s) }", 14, 5),
    ],
)  # fmt: skip
def test_versions_that_differ_in_dtypes_or_in_form(text: str, source: int, opset: int) -> None:
    given = loaded(X + text, source)
    found = fw.convert(given, opset, verify=True)
    operators = [node.operator for node in given.graph.nodes]
    assert [node.operator for node in found.graph.nodes] == operators
    again = fw.convert(found, source, verify=True)
    assert [node.operator for node in again.graph.nodes if node.operator != "Constant"] == operators


def test_behind_an_operator_that_only_its_owner_knows() -> None:
    text = """<ir_version: 8, opset_import: ["" : 11, "own" : 1]>
    g (float[2,3] x) => (float[2,3] y) { a = own.Thing(x) b = Relu(a) y = Conv(b, b) }"""
    found = fw.convert(onnx.parser.parse_model(text), 28)
    assert [node.operator for node in found.graph.nodes] == ["Thing", "Relu", "Conv"]


@pytest.mark.parametrize(
    ("text", "opset", "why", "fix"),
    [
        ("(float[2,3,4] y) { y = Max(x, x) }", 7, "Max is another since opset 8",
         "convert to opset 8 or later, or replace it"),
        ("(int32[2,3,4] y) { z = Cast<to=6>(x) y = MatMul(z, z) }", 7, "MatMul-1: its input 'z' may not be int32",
         "convert to opset 9 or later, or replace it"),
        ("(float[2,3,4] y) <bool c = {1}> { y = Where(c, x, x) }", 8, "opset 8 has no Where",
         "convert to opset 9 or later, or replace it"),
        ("(float8e4m3fn[2,3,4] y) { y = Cast<to=17>(x) }", 13, "Cast-13: its output 'y' may not be float8e4m3fn",
         "convert to opset 19 or later, or replace it"),
        ("(float[6,4] y) <int64[2] s = {6,4}> { y = Reshape<allowzero=1>(x, s) }", 13,
         "Reshape-13 has no attribute 'allowzero'", "convert to opset 14 or later, or replace it"),
    ],
)  # fmt: skip
def test_refusals_name_the_nearest_opset(text: str, opset: int, why: str, fix: str) -> None:
    assert refused(loaded(X + text, 20), opset) == (why, fix)


def test_an_attribute_that_a_function_is_given() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
    g (float[2,3] x) => (float[2,3] y) { y = own.f<k = 1.0>(x) }
    <domain: "own", opset_import: ["" : 18]>
    f <k>(a) => (b) { c = Constant<value_float: float = @k>() b = Add(a, c) }"""
    given = fw.load(onnx.parser.parse_model(text))
    assert fw.convert(given, 28, verify=True).program.opset() == 28
    with pytest.raises(fw.ConversionError, match=r"comes from each use of the function.*; write the value into the"):
        fw.convert(given, 11)


@pytest.mark.parametrize("opset", [10, 13, 18])
def test_no_official_case_becomes_invalid(opset: int) -> None:
    count, rules = 0, set()
    for case in official().values():
        if len(case.model.graph.node) > 1 or any(each.domain for each in case.model.opset_import):
            continue
        try:
            fw.convert(case.model, opset)
            count += 1
        except fw.ConversionError as error:
            rules |= {each.rule for each in error.findings}
    assert count > 150
    assert rules <= {"axes", "dtype", "operator", "opset", "attribute", "form", "shape"}
