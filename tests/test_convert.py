"""Models converted: subgraphs, functions, plumbing, refusals; what comes out is valid, or nothing comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import loaded, model

import foldwise as fw
from foldwise.models import verify
from foldwise.models.onnx_file import to_proto
from foldwise.models.rewriting import Names

EXAMPLES = sorted((Path(__file__).parent.parent / "examples" / "models").glob("*.[ox][nm][nl]*"))


def operators(found: fw.Model) -> list[str]:
    return [node.operator for node in found.graph.walk()]


def attribute(found: fw.Model, name: str, place: int = 0) -> Any:
    return found.graph.nodes[place].constant(name)


def valid(found: fw.Model) -> bool:
    onnx.checker.check_model(to_proto(found.program), full_check=True)
    return True


def refusals(given: Any, **wanted: Any) -> list[Any]:
    with pytest.raises(fw.ConversionError) as caught:
        fw.convert(given, **wanted)
    return list(caught.value.findings)


# ---- among opsets


def test_axes_move_to_where_the_opset_has_them() -> None:
    given = loaded("g (float[2,3] x) => (float[2,1] y) <int64[1] axes = {-1}> { [sum] y = ReduceSum(x, axes) }", 13)
    down = fw.convert(given, 12, verify=True)
    assert (attribute(down, "axes"), down.graph.nodes[0].name, list(down.graph.constants)) == ([1], "sum", [])
    up = fw.convert(down, 28, verify=True)
    (held,) = up.graph.constants.values()
    assert (held.tolist(), held.dtype.name, up.program.opset()) == ([1], "int64", 28)
    assert attribute(up, "axes") is None
    assert [value.name for value in up.inputs] == ["x"]
    assert given.graph.nodes[0].inputs == ["x", "axes"]  # the given model is as it was


def test_a_constant_that_others_read_stays() -> None:
    given = loaded(
        "g (float[2,3] x) => (float[2,1] y, int64[1] z) <int64[1] axes = {1}>"
        "{ y = ReduceSum(x, axes) z = Identity(axes) }", 13,
    )  # fmt: skip
    assert list(fw.convert(given, 11, verify=True).graph.constants) == ["axes"]


def test_axes_from_a_constant_node() -> None:
    given = loaded(
        "g (float[2,3] x) => (float[2,1] y) { axes = Constant<value_ints=[1]>() y = ReduceProd(x, axes) }", 18
    )
    down = fw.convert(given, 17, verify=True)
    assert operators(down) == ["ReduceProd"]
    assert attribute(down, "axes") == [1]


@pytest.mark.parametrize(
    ("operator", "opset", "made"),
    [
        ("ReduceSum", 12, ["Identity"]),
        ("ReduceL2", 13, ["Abs"]),
        ("ReduceLogSum", 13, ["Log"]),
        ("ReduceSumSquare", 13, ["Mul"]),
        ("ReduceSumSquare", 6, ["Unsqueeze", "ReduceSumSquare"]),
        ("ReduceLogSum", 1, ["Unsqueeze", "ReduceLogSum"]),
    ],
)
def test_over_no_axes(operator: str, opset: int, made: list[str]) -> None:
    given = loaded(f"g (float[2,3] x) => (float[2,3] y) {{ y = {operator}<noop_with_empty_axes=1>(x) }}", 18)
    assert operators(fw.convert(given, opset, verify=True)) == made


def test_negative_axes_count_from_the_front_in_old_opsets() -> None:
    given = loaded("g (float[2,3,4] x) => (float[2,3,1] y) { y = ReduceMax<axes=[-1]>(x) }", 11)
    assert attribute(fw.convert(given, 10), "axes") == [2]
    given = loaded("g (float[2,3] x) => (int64[2,1] y) { y = ArgMax<axis=-1, select_last_index=1>(x) }", 13)
    (finding,) = refusals(given, opset=11)
    assert (finding.rule, finding.fix) == ("attribute", "convert to opset 12 or later")


def test_bools_through_bytes() -> None:
    given = loaded("g (bool[N,3] x) => (bool[N,1] y) <int64[1] axes = {1}> { y = ReduceMax(x, axes) }", 20)
    assert operators(fw.convert(given, 13, verify=True)) == ["Cast", "ReduceMax", "Cast"]
    given = loaded("g (bool[2,N] x) => (bool[2,1] y) <int64[1] axes = {1}> { y = ReduceMin(x, axes) }", 20)
    assert operators(fw.convert(given, 11, verify=True)) == ["Cast", "ReduceMin", "Clip", "Cast"]


def test_plumbing_follows() -> None:
    given = loaded(
        "g (float[2,1,3] x) => (float[1,2,3] y) <int64[1] one = {1}, int64[1] none = {0}, float low = {0}>"
        "{ a = Squeeze(x, one) b = Clip(a, low) c = Exp(b) y = Unsqueeze(c, none) }", 18,
    )  # fmt: skip
    for opset in (6, 10, 12, 28):
        found = fw.convert(given, opset, verify=True)
        assert valid(found)
        assert operators(found) == ["Squeeze", "Clip", "Exp", "Unsqueeze"]
    assert attribute(fw.convert(given, 10), "axes") == [1]
    assert operators(fw.convert(fw.convert(given, 10), 18, verify=True)) == operators(given)


def test_other_operators_by_the_official_converter() -> None:
    given = loaded(
        "g (float[2,3] x) => (float[2,3] y, float[2,1] z) { y = Softmax<axis=0>(x) z = ReduceSum<axes=[1]>(y) }", 12
    )
    found = fw.convert(given, 13, verify=True)
    assert valid(found)
    assert operators(found)[-1] == "ReduceSum"
    assert len(operators(found)) > 2  # all axes at once, which is no single axis
    (finding,) = refusals(loaded("g (float[N] x) => (float[L] y) { y = Dropout(x) }", 13), opset=10)
    assert (finding.operator, finding.rule) == ("Dropout", "form")
    assert finding.message == "Dropout is another since opset 12"  # ONNX's own converter lets such nodes pass


def test_graphs_inside_of_nodes() -> None:
    given = loaded(
        """g (float[2,3] x, bool c) => (float[2] y, float[3] z) <int64 n = {3}> {
          y = If(c) <then_branch = t () => (float[2] a) {
                       ta = Constant<value_ints=[1]>() a = ReduceSum<keepdims=0>(x, ta) },
                     else_branch = e () => (float[2] b) <int64[1] ea = {-1}> { b = ReduceProd<keepdims=0>(x, ea) }>
          s = ReduceSum<keepdims=0>(x, k)
          z = Loop(n, c, s) <body = b (int64 i, bool go, float[3] v) => (bool on, float[3] w) {
            on = Identity(go) m = ReduceMax<noop_with_empty_axes=1>(v) w = Add(m, v) }>
          k = Constant<value_ints=[0]>()
        }""", 18,
    )  # fmt: skip
    found = fw.convert(given, 11, verify=True)
    assert valid(found)
    kinds = ["Add", "Identity", "Identity", "If", "Loop", "ReduceProd", "ReduceSum", "ReduceSum"]
    assert sorted(operators(found)) == kinds
    assert all(node.constant("axes") for node in found.graph.walk() if node.operator.startswith("Reduce"))
    again = fw.convert(found, 28, verify=True)
    assert valid(again)
    (finding, other) = refusals(given, to="openvino")
    assert (finding.operator, other.operator) == ("If", "Loop")


FUNCTIONS = """<ir_version: 9, opset_import: ["" : 18, "my" : 1]>
g (float[N,3] x) => (float[N,1] y) { y = my.outer(x) }
<domain: "my", opset_import: ["" : 18, "my" : 1]>
outer (a) => (b) { c = my.inner(a) b = ReduceSumSquare<noop_with_empty_axes=1>(c) }
<domain: "my", opset_import: ["" : 18]>
inner (a) => (b) { axes = Constant<value_ints=[-1]>() b = ReduceMean(a, axes) }"""


def test_functions_stay_functions() -> None:
    given = fw.load(onnx.parser.parse_model(FUNCTIONS))
    found = fw.convert(given, 10, verify=True)
    assert valid(found)
    outer, inner = found.program.functions.values()
    assert [node.operator for node in outer.nodes] == ["inner", "Mul"]
    assert [(node.operator, node.constant("axes")) for node in inner.nodes] == [("ReduceMean", [1])]
    assert valid(fw.convert(found, 28, verify=True))
    layers = operators(fw.convert(given, to="openvino", verify=True))
    assert layers == ["ReduceMean", "Multiply"]  # unfolded; the mean is over an axis that is never empty


# ---- refusals


def test_all_refusals_at_once() -> None:
    given = loaded(
        """g (float[2,3] x, int64[1] k, bfloat16[2,3] h) => (float[M,L] y, bfloat16 z, float[2,3] w) {
          [first] y = ReduceSum(x, k)
          [second] z = ReduceProd<keepdims=0>(h)
          w = Abs(x)
        }""", 18,
    )  # fmt: skip
    found = refusals(given, opset=12)
    assert [(each.node, each.operator, each.rule) for each in found] == [
        ("node 'first'", "ReduceSum-13", "axes"), ("node 'second'", "ReduceProd-18", "dtype"),
    ]  # fmt: skip
    assert found[0].message == "its axes are computed ('k'), and ReduceSum-11 takes them as an attribute"
    assert found[0].fix == "make them a constant, or convert to opset 13 or later"
    with pytest.raises(fw.ModelError, match=r"2 nodes cannot be converted.*\n.*node 'first' \(ReduceSum-13\)"):
        fw.convert(given, 12)


def test_integer_logarithms_become_floats_and_come_back() -> None:
    given = loaded("g (int64[2,3] x) => (int64[2,1] y) <int64[1] axes = {1}> { y = ReduceLogSum(x, axes) }", 18)
    assert operators(fw.convert(given, 28, verify=True)) == ["Cast", "ReduceLogSum", "Cast"]


def test_what_rounds_on_its_way_is_asked_for() -> None:
    given = loaded(
        "g (float[2,3] x) => (float[2] y) <int64[1] axes = {1}> { y = ReduceLogSumExp<keepdims=0>(x, axes) }"
    )
    (finding,) = refusals(given, to="openvino")
    assert (finding.rule, finding.fix) == ("bits", "allow other last bits with exact=False")
    layers = fw.convert(given, to="openvino", exact=False, verify=True)
    assert "Exp" in operators(layers)
    given = loaded("g (float16[2,3] x, int64 k) => (float16[2,3] y) { y = CumSum(x, k) }", 14)
    assert refusals(given, opset=13)[0].rule == "dtype"
    assert operators(fw.convert(given, 13, exact=False)) == ["Cast", "CumSum", "Cast"]


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ({"opset": 29}, fw.OptionError, "convert: opset = 29; accepted are 1 to 28"),
        ({"opset": True}, fw.ArgumentError, "convert: opset is of type bool; give an int"),
        ({"to": "torch"}, fw.OptionError, "convert: to = 'torch'; accepted are 'onnx' and 'openvino'"),
        ({"to": "openvino", "opset": 3}, fw.OptionError, 'leave it out, or ask for to="onnx"'),
    ],
)
def test_asked_for_wrongly(wanted: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fw.convert(model("g (float[2] x) => (float[2] y) { y = Abs(x) }"), **wanted)


def test_unequal_layers_become_two_nodes(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    x = ov.opset1.parameter([2, 3], np.float32, name="x")
    ov.serialize(ov.Model([ov.opset1.not_equal(x, ov.opset1.sqrt(x))], [x], "unequal"), tmp_path / "m.xml")
    assert operators(fw.convert(tmp_path / "m.xml", 11, verify=True))[-2:] == ["Equal", "Not"]


def test_a_constant_of_half_bytes_comes_with_a_later_opset(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    x = ov.opset1.parameter([2, 3], np.float32, name="x")
    half = ov.op.Constant(ov.Type.i4, ov.Shape([3]), [0, 1, 0])
    ov.serialize(ov.Model([ov.opset1.add(x, ov.opset1.convert(half, "f32"))], [x], "half"), tmp_path / "m.xml")
    (finding,) = refusals(tmp_path / "m.xml", opset=20)
    assert finding.fix == "convert to opset 21 or later, or cast it before"
    assert operators(fw.convert(tmp_path / "m.xml", 21)) == ["Cast", "Add"]


def test_an_invalid_node_is_refused() -> None:
    given = loaded("g (float[2,3] x) => (float[2,1] y) <int64[1] axes = {5}> { y = ReduceSum(x, axes) }", 13)
    (finding,) = refusals(given, opset=12)
    assert finding.rule == "axes"
    assert "out of range for rank 2" in finding.message


def test_many_nodes_of_one_name_take_no_longer() -> None:
    names = Names(["n"])
    made = [names.new("n") for _ in range(50_000)]
    assert len({*made, "n"}) == 50_001


def test_a_difference_is_found_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    one = loaded("g (float[N,3] x) => (float[N,1] y) { y = ReduceMean<axes=[1]>(x) }", 13)
    other = loaded("g (float[N,3] x) => (float[N,1] y) { y = ReduceMax<axes=[1]>(x) }", 13)
    with pytest.raises(fw.ConversionError, match=r"'y' is float32\[2, 1\] .* instead of .*, for x = float32\[2, 3\]"):
        verify.compare(one, other, exact=True)
    never = loaded("g (float[N,3] x) => (float[N,3] y) <int64 k = {7}> { y = CumSum(x, k) }", 13)
    with pytest.raises(fw.ConversionError, match="refuses all corner inputs"):
        verify.compare(never, never, exact=True)


def test_inputs_and_outputs_are_named_as_such(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    x = ov.opset1.parameter(ov.PartialShape.dynamic(), np.float32, name="x")
    ov.serialize(ov.Model([ov.opset1.relu(x)], [x], "open"), tmp_path / "m.xml")
    with pytest.raises(fw.ConversionError) as caught:
        fw.convert(tmp_path / "m.xml", 18)
    assert [each.node.split()[0] for each in caught.value.findings] == ["input", "output"]
    assert "input 'x': its rank is not known" in str(caught.value)


def test_nothing_is_written_for_a_refusal(tmp_path: Path) -> None:
    given = loaded("g (float[2,3] x, int64 k) => (float[2,3] y) { y = CumProd(x, k) }", 26)
    with pytest.raises(fw.ConversionError):
        fw.convert(given, to="openvino").save(tmp_path / "m.xml")
    assert not list(tmp_path.iterdir())


# ---- whole models


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_go_everywhere(path: Path, tmp_path: Path) -> None:
    given = fw.load(path)
    for opset in (12, 13, 18, 20, 28):
        found = fw.convert(given, opset, verify="encoder" not in path.name)
        assert valid(found)
    layers = fw.convert(found, to="openvino", exact=False)
    layers.save(tmp_path / "m.xml")
    again = fw.convert(tmp_path / "m.xml", 20)
    assert valid(again)
    if "encoder" not in path.name:
        verify.compare(given, again, exact=False)
