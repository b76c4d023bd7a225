"""What the format of OpenVINO's IR allows beside what openvino writes today, and what a program becomes in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ir_models as irs
import numpy as np
import openvino as ov
import pytest
from ir_models import AXES, EDGES, ONE, OUT, SUM, X, edge, layer, net, port

import foldwise as fw
from foldwise.models.graph import Attribute, Graph, Node, Program, Value
from foldwise.models.limits import Limits
from foldwise.models.openvino_ir import read, write


def program_of(xml: bytes, weights: Any = ONE) -> Program:
    return read(xml, weights, Limits())


def of_layers(*layers: str, edges: tuple[str, ...] = EDGES, version: int = 11) -> Program:
    return program_of(net(layers, edges, version))


def written(program: Program, folder: Path) -> Path:
    path = folder / "written.xml"
    write(program, path)
    assert irs.same(irs.loaded(path), program)
    ov.Core().read_model(str(path))
    return path


BASE = of_layers(X, AXES, SUM, OUT)


# ---- the file


def test_layers_and_edges_may_come_in_any_order(tmp_path: Path) -> None:
    turned = of_layers(OUT, SUM, AXES, X, edges=EDGES[::-1])
    assert irs.same(turned, BASE)
    last = layer(9, "last", "Abs", reads=port(0, (2, 1)), makes=port(1, (2, 1)))
    out = layer(3, "out", "Result", reads=port(0))
    edges = (*EDGES[:2], edge(2, 2, 9, 0), edge(9, 1, 3, 0))
    program = of_layers(last, out, SUM, AXES, X, edges=edges)
    assert [node.operator for node in program.graph.nodes] == ["ReduceSum", "Abs"]
    written(program, tmp_path)


def test_edges_may_come_before_layers() -> None:
    xml = net([X, AXES, SUM, OUT], EDGES)
    head, layers, edges = xml.replace(b"<edges>", b"|<edges>").replace(b"<layers>", b"|<layers>").split(b"|")
    assert irs.same(program_of(head + edges.replace(b"</net>", b"") + layers + b"</net>"), BASE)


def test_ids_may_be_any_numbers() -> None:
    sums = SUM.replace('layer id="2"', 'layer id="77"')
    sums = sums.replace('port id="0"', 'port id="5"').replace('port id="1"', 'port id="4"')
    edges = (edge(0, 0, 77, 5), edge(1, 0, 77, 4), edge(77, 2, 3, 0))
    assert irs.same(of_layers(X, AXES, sums, OUT, edges=edges), BASE)
    both = SUM.replace('port id="2"', 'port id="0"')
    assert irs.same(of_layers(X, AXES, both, OUT, edges=(*EDGES[:2], edge(2, 0, 3, 0))), BASE)


@pytest.mark.parametrize("kind", ["reducesum", "REDUCESUM", "ReduceSum"])
def test_types_are_spelled_in_any_case(kind: str) -> None:
    assert irs.same(of_layers(X.replace("Parameter", "pARAMETER"), AXES, SUM.replace("ReduceSum", kind), OUT), BASE)


@pytest.mark.parametrize("opset", [1, 4, 13, 17])
def test_any_opset_that_has_the_operator(opset: int) -> None:
    (node,) = of_layers(X, AXES, SUM.replace("opset1", f"opset{opset}"), OUT).graph.nodes
    assert node.domain == f"opset{opset}"


def test_data_and_dims_and_precisions_may_be_missing(tmp_path: Path) -> None:
    bare = SUM.replace('<data keep_dims="true"/>', "").replace("<dim>2</dim><dim>1</dim>", "")
    bare = bare.replace(' precision="FP32"', "")
    program = of_layers(X, AXES, bare, OUT)
    assert program.graph.nodes[0].attributes == {}
    assert program.graph.outputs[0][:3] == ("y", None, None)
    written(program, tmp_path)


def test_more_in_the_bin_than_a_constant_needs() -> None:
    xml = net([X, AXES.replace('size="8"', 'size="9"').replace('offset="0"', 'offset="3"'), SUM, OUT], EDGES)
    assert irs.same(program_of(xml, b"abc" + ONE + b"more"), BASE)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_an_empty_constant_of_any_size(size: int, tmp_path: Path) -> None:
    empty = AXES.replace('shape="1" offset="0" size="8"', f'shape="0" offset="0" size="{size}"')
    program = program_of(net([X, empty, SUM, OUT], EDGES), b"\0" * size)
    assert program.graph.constants["axes"].shape == (0,)
    path = written(program, tmp_path)
    assert 'size="1"' in path.read_text()
    assert path.with_suffix(".bin").read_bytes() == b"\0"


def test_booleans_of_any_byte() -> None:
    mask = AXES.replace("i64", "BOOLEAN").replace('shape="1"', 'shape=" 2, 4 "')
    (array,) = program_of(net([X, mask, SUM, OUT], EDGES), bytes([0, 1, 2, 255, 0, 0, 128, 1])).graph.constants.values()
    assert array.tolist() == [[False, True, True, True], [False, False, True, True]]


SHAPES: list[tuple[str, Any, str]] = [
    ("2,3", (2, 3), "2,3"),
    ("2, 3", (2, 3), "2,3"),
    ("[2,3]", (2, 3), "2,3"),
    ("", (), ""),
    (" ", (), ""),
    ("?", (None,), "?"),
    ("-1,0", (None, 0), "?,0"),
    ("1..8,?,2", (None, None, 2), "1..8,?,2"),
    ("3..,..4", (None, None), "3..,..4"),
    ("...", None, "..."),
]


@pytest.mark.parametrize(("text", "shape", "again"), SHAPES, ids=[repr(row[0]) for row in SHAPES])
def test_shapes(text: str, shape: Any, again: str, tmp_path: Path) -> None:
    program = of_layers(X.replace('"2,3"', f'"{text}"'), OUT, edges=(edge(0, 0, 3, 0),))
    assert program.graph.inputs[0].shape == program.graph.outputs[0].shape == shape
    path = written(program, tmp_path)
    assert f'shape="{again}" element_type="f32"' in path.read_text()
    found = ov.Core().read_model(str(path)).inputs[0].partial_shape
    assert found == ov.PartialShape(text.replace(" ", "") if "." in text or "?" in text else f"[{again}]")


def test_a_shape_that_was_changed_is_written_as_it_is_now(tmp_path: Path) -> None:
    program = of_layers(X.replace('"2,3"', '"1..8,3"'), AXES, SUM, OUT)
    program.graph.inputs[0] = program.graph.inputs[0]._replace(shape=(4, 3))
    write(program, tmp_path / "m.xml")
    assert irs.loaded(tmp_path / "m.xml").graph.inputs[0].shape == (4, 3)


def test_version_10(tmp_path: Path) -> None:
    old = [each.replace(' names="x"', "").replace(' names="y"', "") for each in (X, AXES, SUM, OUT)]
    program = of_layers(*old, version=10)
    assert program.version == 10
    assert (program.graph.inputs[0].name, program.graph.outputs[0].name) == ("x", "sum")
    path = written(program, tmp_path)
    again = ov.Core().read_model(str(path))
    before = ov.Core().read_model(net(old, EDGES, 10), ONE)
    assert [each.names for each in again.inputs + again.outputs] == [{"x"}, {"sum"}]
    assert [each.names for each in before.inputs + before.outputs] == [{"x"}, {"sum"}]


def test_a_layer_that_nobody_knows(tmp_path: Path) -> None:
    own = layer(
        4, "mine", "MyOwn", version="my_extension", data='alpha="0.5" TEXT="a &lt; b"', reads=port(0),
        makes=port(1) + port(2), more="<rt_info><attribute name='a' version='0'/></rt_info>",
    )  # fmt: skip
    program = of_layers(X, AXES, SUM, OUT, own, edges=(*EDGES[:2], edge(2, 2, 4, 0), edge(4, 2, 3, 0)))
    node = program.graph.nodes[-1]
    assert (node.operator, node.domain, node.inputs) == ("MyOwn", "my_extension", ["y"])
    assert node.outputs == ["mine:0", "mine:1"]
    assert node.attributes == {"alpha": Attribute("string", "0.5"), "TEXT": Attribute("string", "a < b")}
    path = tmp_path / "m.xml"
    write(program, path)
    assert irs.same(irs.loaded(path), program)
    assert '<attribute name="a" version="0" />' in path.read_text()


# ---- names


def names_of(*, x: str = "x", y: str = "y", out: str = "") -> tuple[Value, Value, Program]:
    result = OUT.replace('version="opset1"', f'version="opset1" {out}')
    program = of_layers(X.replace('names="x"', x), AXES, SUM.replace('names="y"', y), result)
    return program.graph.inputs[0], program.graph.outputs[0], program


NAMES: list[tuple[dict[str, str], tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]]] = [
    ({"x": 'names="x"', "y": 'names="y"'}, ("x", ()), ("y", ("out", "sum"))),
    ({"x": "", "y": ""}, ("x", ()), ("sum", ("out",))),
    ({"x": 'names="p,q"', "y": 'names="q,r"'}, ("p", ("x",)), ("r", ("out", "sum"))),
    ({"x": 'names="p,q"', "y": 'names="s,r"'}, ("p", ("q", "x")), ("s", ("r", "out", "sum"))),
    ({"x": 'names="sum"', "y": ""}, ("sum", ("x",)), ("sum#2", ("out", "sum"))),
    ({"x": r'names="a\,b,c\,"', "y": 'names=" y,"'}, ("a,b", ("c,", "x")), (" y", ("out", "sum"))),
    ({"x": 'names="x,x"', "y": 'names="y"', "out": 'output_names="o\\,1,y"'}, ("x", ()), ("y", ("o,1", "out", "sum"))),
]


@pytest.mark.parametrize(("texts", "begin", "end"), NAMES)
def test_names(texts: dict[str, str], begin: Any, end: Any, tmp_path: Path) -> None:
    first, last, program = names_of(**texts)
    assert (first.name, first.aliases) == begin
    assert (last.name, last.aliases) == end
    path = tmp_path / "m.xml"
    write(program, path)
    assert irs.same(irs.loaded(path), program)
    again, before = ov.Core().read_model(str(path)), ov.Core().read_model(
        net([X.replace('names="x"', texts["x"]), AXES, SUM.replace('names="y"', texts["y"]),
             OUT.replace('version="opset1"', f'version="opset1" {texts.get("out", "")}')], EDGES), ONE
    )  # fmt: skip
    for one, other in zip(again.inputs + again.outputs, before.inputs + before.outputs, strict=True):
        assert one.names == other.names
    assert [op.friendly_name for op in again.get_ordered_ops()] == [op.friendly_name for op in before.get_ordered_ops()]


def test_two_results_of_one_tensor(tmp_path: Path) -> None:
    other = layer(5, "other", "Result", reads=port(0, (2, 1)))
    program = of_layers(X, AXES, SUM, OUT, other, edges=(*EDGES, edge(2, 2, 5, 0)))
    assert [value.name for value in program.graph.outputs] == ["y", "y"]
    assert ["out" in value.aliases for value in program.graph.outputs] == [True, False]
    written(program, tmp_path)


def test_a_result_of_an_input_and_of_a_constant(tmp_path: Path) -> None:
    layers = (X, AXES, OUT, layer(4, "two", "Result", reads=port(0)))
    program = of_layers(*layers, edges=(edge(0, 0, 3, 0), edge(1, 0, 4, 0)))
    assert [value[:3] for value in program.graph.outputs] == [("x", "float32", (2, 3)), ("axes", "int64", (1,))]
    written(program, tmp_path)


# ---- programs that come from elsewhere


def made() -> Program:
    graph = Graph("made")
    graph.inputs = [Value("in, put", "float32", ("N", 3), ("also",)), Value("axes", "int64", None)]
    graph.constants = {"two": np.array(2.0, np.float32)}
    graph.nodes = [
        Node("Multiply", ["in, put", "two"], ["twice"], {"auto_broadcast": Attribute("string", "numpy")}, "", "opset1"),
        Node("ReduceSum", ["twice", "axes", ""], ["total"], {"keep_dims": Attribute("string", "true")}, "s", "opset1"),
    ]
    graph.outputs = [Value("total", "float32"), Value("twice")]
    return Program("openvino", graph, 11)


def test_a_program_without_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    write(made(), path)
    model = ov.Core().read_model(str(path))
    assert [each.names for each in model.inputs] == [{"in, put", "also"}, {"axes"}]
    assert [each.names for each in model.outputs] == [{"total"}, {"twice"}]
    assert [str(each.partial_shape) for each in model.inputs] == ["[?,3]", "[...]"]
    assert {"twice", "s", "two"} <= {op.friendly_name for op in model.get_ordered_ops()}
    program = irs.loaded(path)
    assert program.graph.inputs[0][:4] == ("in, put", "float32", (None, 3), ("also",))
    assert [value.name for value in program.graph.outputs] == ["total", "twice"]


def test_a_program_of_the_family_runs_in_openvino(tmp_path: Path) -> None:
    program = made()
    program.graph.inputs = [Value("in, put", "float32", (2, 3))]
    program.graph.constants["axes"] = np.array([1])
    write(program, tmp_path / "m.xml")
    total, twice = irs.output_of(tmp_path / "m.xml", [np.ones((2, 3), np.float32)])
    assert (total.tolist(), twice.tolist()) == ([[6], [6]], [[2, 2, 2]] * 2)


def broken(**changes: Any) -> Program:
    program = made()
    for name, value in changes.items():
        setattr(program.graph.nodes[1], name, value)
    return program


def with_default() -> Program:
    program = made()
    program.graph.constants["axes"] = np.array([1])
    return program


def of_onnx() -> Program:
    return Program("onnx", Graph("m"), 10)


UNWRITABLE: dict[str, tuple[Program, str]] = {
    "onnx": (of_onnx(), "save: only a model of OpenVINO's operators can be an .xml; convert it first"),
    "no opset": (broken(domain=""), "save: node 's' (ReduceSum) names no opset; an OpenVINO layer needs one"),
    "unknown": (broken(inputs=["nothing"]), "save: node 's' (ReduceSum) reads 'nothing', which nothing makes"),
    "gap": (broken(inputs=["", "axes"]), "save: node 's' (ReduceSum) leaves out input 0, but has later ones"),
    "kind": (broken(attributes={"k": Attribute("int", 1)}), "(ReduceSum): its attribute 'k' is no text"),
    "body": (broken(attributes={"body": Attribute("xml", "<body/>")}), "has a part <body>, which can be shown"),
    "control": (broken(name="a\x01"), "has the character '\\x01', which XML cannot hold; rename it"),
    "surrogate": (broken(name="a\udc80"), "has the character '\\udc80', which XML cannot hold; rename it"),
    "default": (with_default(), "save: input 'axes' has a default, which OpenVINO has not; make it a constant"),
}


@pytest.mark.parametrize(("program", "says"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_what_cannot_be_written_leaves_everything_as_it_was(program: Program, says: str, tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    write(made(), path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(fw.ModelError) as caught:
        write(program, path)
    assert says in str(caught.value)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_folder_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "m.xml").mkdir()
    with pytest.raises(fw.ModelError, match=r"save: '.*m\.xml' is a folder; name a file"):
        write(made(), tmp_path / "m.xml")
    assert os.listdir(tmp_path) == ["m.xml"]


# ---- where the .bin is


def test_weights_beside_the_model_given_as_bytes_or_named(tmp_path: Path) -> None:
    xml = net([X, AXES, SUM, OUT], EDGES)
    path, elsewhere = tmp_path / "m.xml", tmp_path / "other" / "w.dat"
    path.write_bytes(xml)
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(ONE)
    for weights in (ONE, elsewhere, str(elsewhere)):
        assert irs.same(read(path, weights, Limits()), BASE)
        assert irs.same(read(xml, weights, Limits()), BASE)
    path.with_suffix(".bin").write_bytes(ONE)
    assert irs.same(read(path, None, Limits()), BASE)
    assert read(path, None, Limits()).origin == "m.xml"


def test_links_as_caches_of_models_have_them(tmp_path: Path) -> None:
    store, shown = tmp_path / "blobs", tmp_path / "snapshot"
    store.mkdir()
    shown.mkdir()
    for suffix, data in (("xml", net([X, AXES, SUM, OUT], EDGES)), ("bin", ONE)):
        (store / f"{suffix}-hash").write_bytes(data)
        (shown / f"m.{suffix}").symlink_to(f"../blobs/{suffix}-hash")
    assert irs.same(read(shown / "m.xml", None, Limits()), BASE)


def test_no_bin_where_no_constant_needs_one(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    axes = layer(1, "axes", "Parameter", data='element_type="i64" shape="1"', makes=port(0, (1,), "I64"))
    path.write_bytes(net([X, axes, SUM, OUT], EDGES))
    assert irs.loaded(path).graph.constants == {}
