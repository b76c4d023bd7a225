"""ONNX files: read and written without loss; what is wrong in them is refused before anything is allocated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, SparseTensorProto, TensorProto, helper, numpy_helper
from onnx_models import data, model, official, with_tensor

import foldwise as fw
from foldwise.models import onnx_file

SIX = np.arange(6, dtype=np.float32)
SUM = "g (float[N,3] x) => (float[N] y) <int64[1] axes = {1}> { y = ReduceSum<keepdims=0>(x, axes) }"


def raw_form(proto: ModelProto) -> ModelProto:
    """The same model as foldwise writes it: data of tensors raw, and no name for those inside attributes."""

    def rewrite(message: Any, named: bool) -> None:
        if isinstance(message, TensorProto):
            name = message.name if named else ""
            message.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(message), name))
            return
        for field, value in message.ListFields():
            if field.message_type is not None:
                for each in value if hasattr(value, "__len__") else [value]:
                    rewrite(each, not isinstance(message, AttributeProto | SparseTensorProto) or field.name == "values")

    made = ModelProto()
    made.CopyFrom(proto)
    rewrite(made, named=True)
    return made


def shown(proto: ModelProto) -> str:
    """A model as text, empty texts left out."""
    return re.sub(r"^\s*\w+: \"\"\n", "", str(proto), flags=re.MULTILINE)


# ---- nothing is lost


def test_every_official_model_comes_back_as_it_was() -> None:
    """Some two thousand models with every operator, attribute and type that onnx has."""
    cases = official()
    assert len(cases) > 1500
    for name, case in cases.items():
        again = onnx_file.to_proto(fw.load(case.model).program)
        assert shown(again) == shown(raw_form(case.model)), name


def test_what_is_beside_the_meaning_stays() -> None:
    proto = model(SUM)
    proto.producer_name, proto.doc_string = "somebody", "of the model"
    proto.metadata_props.add(key="k", value="v")
    proto.graph.doc_string = "of the graph"
    proto.graph.node[0].doc_string = "of the node"
    proto.graph.node[0].metadata_props.add(key="n", value="w")
    proto.graph.input[0].doc_string = "of the input"
    proto.graph.quantization_annotation.add(tensor_name="y")
    assert shown(onnx_file.to_proto(fw.load(proto).program)) == shown(raw_form(proto))


@pytest.mark.parametrize("version", range(3, onnx.IR_VERSION + 1))
def test_every_version_of_the_format(version: int, tmp_path: Path) -> None:
    proto = model(SUM, opset=13, ir=version)
    if version < 4:  # initializers are inputs, too
        proto.graph.input.append(helper.make_tensor_value_info("axes", TensorProto.INT64, [1]))
    path = tmp_path / "m.onnx"
    fw.load(proto).save(path)
    again = fw.load(path)
    assert shown(onnx.load(path)) == shown(raw_form(proto))
    assert [value.name for value in again.inputs] == ["x"]
    assert again.run([np.ones((2, 3), np.float32)])["y"].tolist() == [3, 3]


def test_a_model_without_opsets_is_of_the_first() -> None:
    proto = model("g (float[2] x) => (float[1] y) { y = ReduceSum<axes=[0]>(x) }", opset=1, ir=3)
    del proto.opset_import[:]
    proto.ir_version = 2
    assert fw.load(proto).run([np.ones(2, np.float32)])["y"].tolist() == [2]


def test_large_constants_go_beside_the_model(tmp_path: Path) -> None:
    weights = {"w": data(40, 50), "small": data(3), "v": data(1000, dtype=np.int8)}
    proto = model("g () => (float[40,50] y) { y = Identity(w) }")
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    path = tmp_path / "large.onnx"
    onnx_file.write(fw.load(proto).program, path, largest=1000)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["large.onnx", "large.onnx.data"]
    onnx.checker.check_model(str(path))
    assert {t.name: numpy_helper.to_array(t).tolist() for t in onnx.load(path).graph.initializer} == {
        name: array.tolist() for name, array in weights.items()
    }
    again = fw.load(path)
    assert isinstance(again.graph.constants["w"].base, np.memmap | np.ndarray)
    assert np.array_equal(again.run({})["y"], weights["w"])


def test_data_of_every_dtype_beside_the_model(tmp_path: Path) -> None:
    for dtype in ("float32", "float16", "int64", "uint8", "bool", "float64"):
        array = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
        proto = model("g () => (float[3,4] y) { y = Identity(w) }")
        proto.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        proto.graph.initializer.append(numpy_helper.from_array(array, "w"))
        path = tmp_path / f"{dtype}.onnx"
        onnx.save(proto, path, save_as_external_data=True, location=f"{dtype}.bin", size_threshold=0)
        assert np.array_equal(fw.load(path).run({})["y"], array)


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")
    monkeypatch.setattr(onnx_file, "to_proto", lambda program: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fw.load(model(SUM)).save(path)
    assert path.read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_saving_under_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fw.ArgumentError, match=r"does not end in \.onnx, but this is an onnx model"):
        fw.load(model(SUM)).save(tmp_path / "m.xml")


def test_sparse_constants(tmp_path: Path) -> None:
    values = helper.make_tensor("s", TensorProto.FLOAT, [2], [1.5, -2.0])
    for indices in (np.array([1, 5]), np.array([[0, 1], [1, 2]])):
        proto = model("g () => (float[2,3] y) { y = Identity(s) }")
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices.astype(np.int64), "i"), [2, 3])
        proto.graph.sparse_initializer.append(sparse)
        assert fw.load(proto).run({})["y"].tolist() == [[0, 1.5, 0], [0, 0, -2]]


# ---- hostile files


def with_graph(change: Callable[[Any], Any]) -> ModelProto:
    proto = model(SUM)
    change(proto.graph)
    return proto


def nested(depth: int) -> ModelProto:
    """If inside If inside If."""
    plain = body = model("g () => (float[1] y) { y = Constant<value_floats=[1.0]>() }").graph
    for _ in range(depth):
        outer = model("g () => (float[1] y) { c = Constant<value = bool {1}>() y = Identity(c) }").graph
        outer.node[1].op_type = "If"
        for name, branch in (("then_branch", body), ("else_branch", plain)):
            outer.node[1].attribute.append(helper.make_attribute(name, branch))
        body = outer
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def functions(*bodies: tuple[str, str]) -> ModelProto:
    proto = model("g (float[N] x) => (float[N] y) { y = ours.A(x) }")
    proto.opset_import.add(domain="ours", version=1)
    for name, used in bodies:
        node = helper.make_node(used, ["a"], ["b"], domain="ours" if used in "ABC" else "")
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ours", 1)]
        proto.functions.append(helper.make_function("ours", name, ["a"], ["b"], [node], opsets))
    return proto


TENSORS: list[tuple[dict[str, Any], str]] = [
    ({"raw_data": SIX.tobytes()[:-1]}, r"tensor 'w' \(float32 of shape \(2, 3\)\) needs 24 bytes; raw_data has 23"),
    ({"raw_data": SIX.tobytes() + b"\0"}, r"needs 24 bytes; raw_data has 25"),
    ({"float_data": [1.0] * 5}, r"needs 6 elements in float_data; it has 5"),
    ({}, r"needs 6 elements in float_data; it has 0"),
    ({"dims": [1 << 31, 1 << 33]}, r"bytes of all constants are 73,786,976,294,838,206,464; the limit data_bytes"),
    ({"dims": [1 << 30]}, r"needs 1,073,741,824 elements in float_data; it has 0"),
    ({"dims": [-2, -3], "raw_data": SIX.tobytes()}, r"negative length in its shape \(-2, -3\)"),
    ({"dims": [1] * 65, "raw_data": b"\0" * 4}, r"has rank 65; the limit rank is 64"),
    ({"data_type": 99, "raw_data": SIX.tobytes()}, r"element type 99, which onnx .* does not know"),
    ({"data_type": 0, "raw_data": SIX.tobytes()}, r"element type 0"),
    ({"raw_data": SIX.tobytes(), "float_data": SIX.tolist()}, r"data both in raw_data and in float_data"),
    ({"int32_data": [1] * 6}, r"data in int32_data; elements of float32 belong into float_data"),
    ({"data_type": TensorProto.STRING, "raw_data": b"abcdef"}, r"strings in raw_data"),
    ({"data_type": TensorProto.INT4, "raw_data": b"\0" * 4}, r"int4 of shape \(2, 3\)\) needs 3 bytes; raw_data has 4"),
    ({"segment": TensorProto.Segment(begin=0, end=3), "raw_data": b""}, r"one segment of a tensor"),
]


@pytest.mark.parametrize(("fields", "message"), TENSORS, ids=[message[:40] for _, message in TENSORS])
def test_tensors_that_are_not_what_they_say(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(fw.ModelError, match=message):
        fw.load(with_tensor(**fields))
    inner = model("g () => (float[2,3] y) { y = Constant<value = float[1] {1.0}>() }")
    tensor = with_tensor(**fields).graph.initializer[0]
    inner.graph.node[0].attribute[0].t.CopyFrom(tensor)
    with pytest.raises(fw.ModelError, match=message):
        fw.load(inner)


GRAPHS: list[tuple[Callable[[], ModelProto], str]] = [
    (lambda: with_graph(lambda g: g.node[0].input.__setitem__(0, "nowhere")), "reads 'nowhere', which nothing makes"),
    (lambda: with_graph(lambda g: g.node.append(g.node[0])), "value 'y' is there twice"),
    (lambda: with_graph(lambda g: g.input.append(g.input[0])), "the input 'x' is there twice"),
    (lambda: with_graph(lambda g: g.output.append(g.output[0])), "the output 'y' is there twice"),
    (lambda: with_graph(lambda g: g.initializer.append(g.initializer[0])), "constant 'axes' is there twice"),
    (lambda: with_graph(lambda g: g.node[0].attribute.append(g.node[0].attribute[0])), "attribute 'keepdims' twice"),
    (lambda: with_graph(lambda g: g.node[0].output.__setitem__(0, "z")), "output 'y' is made by no node"),
    (lambda: with_graph(lambda g: setattr(g.initializer[0], "name", "")), "a constant has no name"),
    (lambda: with_graph(lambda g: setattr(g.node[0], "op_type", "")), "names no operator"),
    (lambda: with_graph(lambda g: setattr(g.node[0], "name", "n" * (1 << 21))), "the limit text_bytes is 1,048,576"),
    (lambda: with_graph(lambda g: g.node[0].attribute[0].ClearField("type")), "does not say of which type"),
    (lambda: with_graph(lambda g: setattr(g.input[0].type.tensor_type, "elem_type", 77)), "element type 77"),
    (
        lambda: with_graph(lambda g: setattr(g.input[0].type.tensor_type.shape.dim[1], "dim_value", -3)),
        "input 'x' has a negative length, -3",
    ),
    (lambda: model("g (float[1] x) => (float[1] y) { y = Add(x, z) z = Neg(y) }"), "part of a cycle"),
    (lambda: nested(30), "levels of graphs inside graphs are 25; the limit depth is 24"),
    (lambda: functions(("A", "B"), ("B", "A")), "function 'A' uses itself"),
    (lambda: functions(("A", "A")), "function 'A' uses itself"),
    (lambda: functions(("A", "Neg"), ("A", "Neg")), r"defines a function twice \(A, A\)"),
]


@pytest.mark.parametrize(("make", "message"), GRAPHS, ids=[message[:40] for _, message in GRAPHS])
def test_graphs_that_do_not_hold_together(make: Callable[[], ModelProto], message: str) -> None:
    with pytest.raises(fw.ModelError, match=message):
        fw.load(make()).run([np.ones(1, np.float32)])


@pytest.mark.parametrize(("whole", "broken"), [(b"ReduceSum", b"Reduce\xffum"), (b"axes", b"ax\xfes"), (b"N", b"\xc3")])
def test_texts_that_are_no_texts(whole: bytes, broken: bytes) -> None:
    good = model(SUM).SerializeToString()
    assert whole in good
    with pytest.raises(fw.ModelError, match="is no text in UTF-8"):
        fw.load(good.replace(whole, broken))


@pytest.mark.parametrize(("text", "message"), [
    ("y = Abs()", r"Abs takes 1 inputs, got 0"),
    ("y = Add(x)", r"Add"),
    ("y = Abs(x, x)", r"Abs takes 1 inputs, got 2"),
    ("y = Concat()", r"Concat"),
    ("y = Concat<axis=\"a\">(x)", r"Concat is not written like this"),
    ("y = Cast(x)", r"Cast"),
    ("y = Cast<to=\"float\">(x)", r"Cast"),
    ("y = If(x)", r"attribute 'then_branch' must be a graph"),
    ("y = Loop<body=3>(x, x)", r"attribute 'body' must be a graph"),
    ("y = ReduceSum<keepdims=\"1\">(x)", r"ReduceSum-13: attribute 'keepdims'"),
    ("y = ReduceSum<keepdims=[1]>(x)", r"ReduceSum-13: attribute 'keepdims'"),
    ("y = CumSum(x)", r"CumSum-14: input 'axis' is missing"),
    ("y = CumSum(x, x, x)", r"CumSum-14: 3 inputs were given"),
])  # fmt: skip
def test_nodes_that_are_written_otherwise(text: str, message: str) -> None:
    """Refused in our words, when the model is run and when it is checked."""
    broken = fw.load(model(f"g (float[N] x) => (float[N] y) {{ {text} }}"))
    with pytest.raises(fw.FoldwiseError, match=message):
        broken.run([np.ones(2, np.float32)])
    broken.check()


def test_functions_that_unfold_without_end() -> None:
    """Twenty functions of two nodes each are a million nodes."""
    proto = model("g (float[N] x) => (float[N] y) { y = ours.F20(x) }")
    proto.opset_import.add(domain="ours", version=1)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ours", 1)]
    for i in range(1, 21):
        kind, domain = (f"F{i - 1}", "ours") if i > 1 else ("Neg", "")
        nodes = [helper.make_node(kind, [a], [b], domain=domain) for a, b in (("a", "m"), ("m", "b"))]
        proto.functions.append(helper.make_function("ours", f"F{i}", ["a"], ["b"], nodes, opsets))
    with pytest.raises(fw.LimitError, match="nodes after unfolding functions are 1,022; the limit nodes is 1,000"):
        fw.load(proto, limits=fw.Limits(nodes=1000))


SPARSE: list[tuple[list[int], list[int], str]] = [
    ([1 << 40], [0], "beyond eight times what it is given, the bytes of its values are"),
    ([4], [4], "has an index outside of it"),
    ([4], [-1], "has an index outside of it"),
    ([-4], [0], "has a negative length"),
]


@pytest.mark.parametrize(("dims", "indices", "message"), SPARSE)
def test_sparse_tensors_that_grow_or_point_outside(dims: list[int], indices: list[int], message: str) -> None:
    proto = model("g () => (float[N] y) { y = Identity(s) }")
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0])
    places = numpy_helper.from_array(np.array(indices, np.int64), "i")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, dims))
    with pytest.raises(fw.ModelError, match=message):
        fw.load(proto)


EXTERNAL: list[tuple[list[tuple[str, str]], str]] = [
    ([("location", "/etc/passwd")], "must lie in the model's own folder"),
    ([("location", "../secret")], "must lie in the model's own folder"),
    ([("location", "a/../../secret")], "must lie in the model's own folder"),
    ([("location", "C:\\secret")], "must lie in the model's own folder"),
    ([("location", "a\0b")], "names no file"),
    ([("location", "")], "names no file"),
    ([], "names no file"),
    ([("location", "none.bin")], r"'none.bin' cannot be opened \(No such file"),
    ([("location", "good.bin"), ("colour", "red")], "has the key 'colour'; known are location, offset, length"),
    ([("location", "good.bin"), ("location", "good.bin")], "has the key 'location' twice"),
    ([("location", "good.bin"), ("offset", "-8")], "offset = '-8'; it must be a number from 0"),
    ([("location", "good.bin"), ("offset", str(1 << 64))], "it must be a number from 0 to 2\\^63 - 1"),
    ([("location", "good.bin"), ("length", "1e9")], "length = '1e9'"),
    ([("location", "good.bin"), ("length", "23")], "needs 24 bytes; its external data says length = 23"),
    ([("location", "good.bin"), ("offset", "1")], r"lies at bytes 1 to 25 of 'good.bin', which ends at 24"),
    ([("location", "good.bin"), ("offset", str((1 << 63) - 1))], "which ends at 24"),
    ([("location", "link.bin")], "leads through the symbolic link 'link.bin'"),
    ([("location", "folder/good.bin")], "leads through the symbolic link 'folder'"),
    ([("location", "hard.bin")], r"has a second name \(a hard link\)"),
    ([("location", "pipe")], "is no regular file"),
    ([("location", "inner")], "is no regular file"),
]


@pytest.mark.parametrize(("entries", "message"), EXTERNAL, ids=[str(entries)[:60] for entries, _ in EXTERNAL])
def test_external_data_from_where_it_must_not_be(
    entries: list[tuple[str, str]], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    (folder / "good.bin").write_bytes(SIX.tobytes())
    (folder / "inner" / "good.bin").write_bytes(SIX.tobytes())
    (tmp_path / "secret").write_bytes(SIX.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(folder / "inner")
    (folder / "twice.bin").write_bytes(SIX.tobytes())
    os.link(folder / "twice.bin", folder / "hard.bin")
    os.mkfifo(folder / "pipe")
    path = folder / "m.onnx"
    path.write_bytes(with_tensor(external=entries).SerializeToString())
    with pytest.raises(fw.ModelError, match=message):
        fw.load(path)
    for good in ("good.bin", "inner/good.bin", "./good.bin"):
        path.write_bytes(with_tensor(external=[("location", good)]).SerializeToString())
        assert fw.load(path).run({})["y"].tolist() == SIX.reshape(2, 3).tolist()


def test_external_data_needs_the_models_own_file() -> None:
    with pytest.raises(fw.ModelError, match=r"lies in the file 'good\.bin' beside the model; load the model from its"):
        fw.load(with_tensor(external=[("location", "good.bin")]).SerializeToString())


def test_data_both_inside_and_outside(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(with_tensor(external=[("location", "x")], raw_data=SIX.tobytes()).SerializeToString())
    with pytest.raises(fw.ModelError, match="data both in the file and outside of it"):
        fw.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\0" * 100, b"\x08\x08", bytes(range(200, 250)), b"PK\x03\x04" + b"\0" * 60]
)
def test_files_that_are_no_models(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    for source in (path, content):
        with pytest.raises(fw.ModelError, match=r"is no ONNX model|is of IR version"):
            fw.load(source)


def test_a_truncated_file(tmp_path: Path) -> None:
    whole = with_tensor(raw_data=SIX.tobytes()).SerializeToString()
    for size in range(1, len(whole)):
        with pytest.raises(fw.FoldwiseError):
            fw.load(whole[:size]).run({})


def test_versions_that_are_not_known() -> None:
    for version in (0, onnx.IR_VERSION + 1):
        proto = model(SUM)
        proto.ir_version = version
        with pytest.raises(fw.ModelError, match=rf"of IR version {version}; onnx .* knows 1 to {onnx.IR_VERSION}"):
            fw.load(proto)
    for opset in (0, onnx.defs.onnx_opset_version() + 1):
        proto = model(SUM)
        proto.opset_import[0].version = opset
        with pytest.raises(fw.ModelError, match=rf"asks for opset {opset}; onnx .* knows 1 to"):
            fw.load(proto)
    proto = model(SUM)
    proto.opset_import.add(domain="ai.onnx", version=13)
    with pytest.raises(fw.ModelError, match=r"asks for two opsets of domain 'ai\.onnx'"):
        fw.load(proto)


def test_what_cannot_be_loaded_at_all(tmp_path: Path) -> None:
    with pytest.raises(fw.ModelError, match="there is no file"):
        fw.load(tmp_path / "none.onnx")
    with pytest.raises(fw.ModelError, match="there is no file"):
        fw.load("no\0name.onnx")
    with pytest.raises(fw.ModelError, match=r"there is no file .*: it is a folder or a device"):
        fw.load(tmp_path)
    with pytest.raises(fw.ModelError, match="cannot be read: File name too long"):
        fw.load("x" * 300)
    with pytest.raises(fw.ArgumentError, match="the model is of type int"):
        fw.load(3)
    with pytest.raises(fw.ArgumentError, match=r"limits is of type int; it must be a foldwise\.Limits"):
        fw.load(model(SUM), limits=3)  # type: ignore[arg-type]
    with pytest.raises(fw.ArgumentError, match=r"Limits: depth = -1; it must be an int from 0 on"):
        fw.Limits(depth=-1)


def test_limits_name_themselves_and_can_be_raised(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(with_tensor(raw_data=SIX.tobytes()).SerializeToString())
    size = path.stat().st_size
    for limits, message in (
        (fw.Limits(file_bytes=10), rf"its bytes are {size}; the limit file_bytes is 10 .*: limits=Limits\(file_"),
        (fw.Limits(data_bytes=23), r"the bytes of all constants are 24; the limit data_bytes is 23"),
        (fw.Limits(nodes=1), r"its nodes, constants and values are 2; the limit nodes is 1"),
        (fw.Limits(rank=1), r"output 'y' has rank 2; the limit rank is 1"),
    ):
        with pytest.raises(fw.LimitError, match=message):
            fw.load(path, limits=limits)
    assert fw.load(path, limits=fw.Limits(data_bytes=24, nodes=2)).run({})["y"].shape == (2, 3)


GREEDY = {
    "a constant without data": with_tensor(dims=[1 << 28]),
    "a shape that is data": model(
        "g () => (float[N] y) <int64[1] n = {1000000000}> { y = ConstantOfShape(n) }"
    ),
    "an expansion": model("g (float[1] x) => (float[N] y) <int64[1] n = {1000000000}> { y = Expand(x, n) z = Neg(y) }"),
    "an outer product": model(
        "g () => (float[N, M] y) <int64[2] a = {40000, 1}, int64[2] b = {1, 40000}>"
        "{ p = ConstantOfShape(a) q = ConstantOfShape(b) y = Add(p, q) }"
    ),
    "a matrix product": model(
        "g () => (float[N, M] y) <int64[2] a = {40000, 1}, int64[2] b = {1, 40000}>"
        "{ p = ConstantOfShape(a) q = ConstantOfShape(b) y = MatMul(p, q) }"
    ),
    "a range": model(
        "g () => (int64[N] y) <int64 a = {0}, int64 b = {1000000000000}, int64 c = {1}> { y = Range(a, b, c) }"
    ),
    "a chain": model(
        "g () => (float y) <int64[1] n = {4000000}> { a = ConstantOfShape(n) b = Concat<axis=0>(a, a, a, a)"
        " c = Concat<axis=0>(b, b, b, b) d = Concat<axis=0>(c, c, c, c) y = ReduceSum<keepdims=0>(d) }"
    ),
    "many that nobody reads": model(
        "g () => (float y) <int64[1] n = {10000000}, int64[1] k = {2}> { "
        + " ".join(f"v{i} = ConstantOfShape(n) w{i} = Neg(v{i})" for i in range(3))
        + " e = Concat<axis=0>(w0, w1, w2) s = ConstantOfShape(k) y = ReduceSum<keepdims=0>(s) z = Neg(e) }"
    ),
    "a choice": model(
        "g () => (double[N, M] y) <int64[2] a = {16384, 1}, int64[2] b = {1, 32768}>"
        "{ p = ConstantOfShape<value = bool[1] {1}>(a) q = ConstantOfShape<value = double[1] {1}>(b)"
        " y = Where(p, q, q) }"
    ),
    "a cast": model(
        "g () => (double[N] y) <int64[1] n = {60000000}>"
        "{ p = ConstantOfShape<value = uint8[1] {1}>(n) y = Cast<to = 11>(p) }"
    ),
    "a loop": model(
        "g () => (float[N] y) <int64 n = {1000000000}> { y = Loop<body = b (int64 i, bool c) => (bool c2, float[P] s)"
        "{ c2 = Identity(c) k = Constant<value_ints=[100000]>() s = ConstantOfShape(k) }>(n, ) }"
    ),
}


@pytest.mark.parametrize("kind", GREEDY)
def test_small_files_do_not_take_memory(kind: str, tmp_path: Path) -> None:
    """In a process that has half a gigabyte beyond what it starts with."""
    path = tmp_path / "m.onnx"
    path.write_bytes(GREEDY[kind].SerializeToString())
    assert path.stat().st_size < 600
    script = """
import resource, sys
import numpy as np, onnx, onnx.numpy_helper, foldwise as fw
from foldwise.models import onnx_file, session, plan
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    model = fw.load(sys.argv[1], limits=fw.Limits(grown_bytes=1 << 26))
    model.run([np.ones(1, np.float32)] * len(model.inputs))
except fw.ModelError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=100, check=False
    )
    assert re.search(r"the limit grown_bytes is|needs 268,435,456 elements", done.stdout), done.stdout + done.stderr
