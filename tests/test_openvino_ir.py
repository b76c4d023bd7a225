"""OpenVINO IR files: what openvino writes is read right, and what we write openvino reads as the same model."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import ir_models as irs
import ml_dtypes
import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

import foldwise as fw
from foldwise.models.graph import Attribute, Graph, Program, Value
from foldwise.models.openvino_ir import write

AXES: dict[str, Any] = {
    "one": np.array([1], np.int64),
    "two": np.array([0, -1], np.int32),
    "scalar": np.array(-1, np.int64),
    "bytes": np.array([0, 2], np.uint8),
    "input": None,
}
FAMILY = [
    pytest.param(schema, dtype, id=f"{schema.name}-{dtype}") for schema in irs.FAMILY for dtype in schema.dtypes
]


def rewritten(path: Path, program: Program | None = None) -> Path:
    """The file that is written of a file."""
    target = path.with_name(f"again-{path.name}")
    write(program or irs.loaded(path), target)
    return target


# ---- the family


@pytest.mark.parametrize(("schema", "dtype"), FAMILY)
def test_what_openvino_writes_is_read_and_written_to_the_same_bytes(schema: Any, dtype: str, tmp_path: Path) -> None:
    flags = [a.name for a in schema.attributes]
    axes = AXES if schema.kind == "reduce" else {"scalar": AXES["scalar"], "narrow": np.array(0, np.int32)}
    for given in axes.values():
        for shape, on in (((2, 3, 4), False), ((2, -1, 4), True), ((-1, -1, -1), given is None)):
            attributes = dict.fromkeys(flags, on)
            path = irs.serialized(irs.one_node(schema, dtype, shape, given, attributes), tmp_path)
            program = irs.loaded(path)
            check(program, schema, dtype, shape, given, attributes)
            again = rewritten(path, program)
            assert again.read_text() == path.read_text()
            assert again.with_suffix(".bin").read_bytes() == path.with_suffix(".bin").read_bytes()
            assert irs.same(irs.loaded(again), program)


def check(program: Program, schema: Any, dtype: str, shape: Any, axes: Any, attributes: dict[str, bool]) -> None:
    graph = program.graph
    (node,) = graph.nodes
    assert (program.dialect, program.version, graph.name) == ("openvino", 11, "one")
    assert (node.operator, node.domain) == (schema.name, f"opset{schema.version}")
    texts = {name: Attribute("string", str(on).lower()) for name, on in attributes.items()}
    assert node.attributes == texts
    assert graph.inputs[0][:3] == ("x", dtype, tuple(None if n < 0 else n for n in shape))
    assert [value.name for value in graph.outputs] == node.outputs
    assert graph.outputs[0].dtype == graph.values[node.outputs[0]].dtype == dtype
    assert node.name in graph.outputs[0].aliases
    if axes is None:
        assert graph.inputs[1][:3] == ("axes", "int64", (1,))
        assert (node.inputs, graph.constants) == (["x", "axes"], {})
    else:
        (found,) = graph.constants.values()
        assert (found.dtype, found.shape, found.tolist()) == (axes.dtype, axes.shape, axes.tolist())
        assert node.inputs == ["x", *graph.constants]
        assert not found.flags.writeable


@pytest.mark.parametrize("schema", irs.FAMILY, ids=lambda schema: schema.name)
def test_openvino_runs_what_is_written(schema: Any, tmp_path: Path) -> None:
    attributes = {a.name: True for a in schema.attributes}
    dtype = "bool" if "bool" in schema.dtypes else "float32"
    path = irs.serialized(irs.one_node(schema, dtype, (2, 3), np.array(1), attributes), tmp_path)
    x = irs.some_data(dtype, (2, 3))
    for one, other in zip(irs.output_of(path, [x]), irs.output_of(rewritten(path), [x]), strict=True):
        assert np.array_equal(one, other)


# ---- whole models


def pipeline() -> ov.Model:
    """Several inputs and outputs, operators outside the family, an operator of two outputs, a constant used twice."""
    x = ops.parameter([2, ov.Dimension(1, 8), -1], ov.Type.f32, name="x")
    x.output(0).set_names({"a,b"})
    y = ops.parameter([-1, 2], ov.Type.f32, name="y é")
    axis = ops.constant(np.array(-1, np.int64))
    scaled = ops.multiply(x, ops.constant(np.full((2, 1, 1), 0.5, np.float32)))
    top = ops.topk(scaled, ops.constant(np.array(2, np.int64)), axis=2, mode="max", sort="value")
    norm = ops.sqrt(ops.reduce_sum(ops.multiply(scaled, scaled), axis, keep_dims=True))
    running = ops.cum_sum(scaled, axis, exclusive=True, reverse=False)
    running.output(0).set_names({'odd "name" <&>\n\t'})
    least = ops.reduce_min(y, ops.constant(np.array([0], np.int32)))
    model = ov.Model([*top.outputs(), *(each.output(0) for each in (norm, running, least))], [x, y], "pipeline")
    model.set_rt_info("<some> & \"other\"", ["conversion_parameters", "framework"])
    model.inputs[0].get_node().set_layout(ov.Layout("NC?"))
    return model


def test_a_model_of_many_kinds(tmp_path: Path) -> None:
    path = irs.serialized(pipeline(), tmp_path)
    program = irs.loaded(path)
    graph = program.graph
    first, second = graph.inputs
    assert first[:4] == ("a,b", "float32", (2, None, None), ("x",))
    assert second[:4] == ("y é", "float32", (None, 2), ())
    assert "odd \"name\" <&>\n\t" in [value.name for value in graph.outputs]
    made = {node.operator: node for node in graph.nodes}
    assert made["TopK"].attributes["mode"] == Attribute("string", "max")
    assert len(made["TopK"].outputs) == 2
    assert graph.values[made["TopK"].outputs[1]].dtype == "int32"
    assert graph.values[made["CumSum"].outputs[0]].shape == (2, None, None)
    assert "framework" in program.notes["rt_info"]
    again = rewritten(path, program)
    assert irs.same(irs.loaded(again), program)
    text = again.read_text(encoding="utf-8")
    assert 'shape="2,1..8,?"' in text
    assert 'layout="[N,C,?]"' in text
    inputs = [irs.some_data("float32", (2, 3, 4)), irs.some_data("float32", (3, 2))]
    for one, other in zip(irs.output_of(path, inputs), irs.output_of(again, inputs), strict=True):
        assert np.array_equal(one, other)
    original, copy = (ov.Core().read_model(str(each)) for each in (path, again))
    assert copy.get_rt_info(["conversion_parameters", "framework"]).astype(str) == '<some> & "other"'
    for one, other in zip(original.inputs + original.outputs, copy.inputs + copy.outputs, strict=True):
        assert one.names == other.names
        assert one.partial_shape == other.partial_shape
    assert [p.friendly_name for p in copy.get_parameters()] == ["x", "y é"]


def test_constants_that_were_compressed_to_float16(tmp_path: Path) -> None:
    x = ops.parameter([4, 64], ov.Type.f32, name="x")
    weights = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    model = ov.Model([ops.reduce_l2(ops.multiply(x, ops.constant(weights)), ops.constant([1]))], [x], "m")
    path = tmp_path / "small.xml"
    ov.save_model(model, str(path))
    program = irs.loaded(path)
    (convert,) = [node for node in program.graph.nodes if node.operator == "Convert"]
    assert 'name="decompression"' in convert.notes["rt_info"]
    halves = program.graph.constants[convert.inputs[0]]
    assert halves.dtype == np.float16
    assert np.array_equal(halves, weights.astype(np.float16))
    again = rewritten(path, program)
    assert again.read_text() == path.read_text()
    inputs = [irs.some_data("float32", (4, 64))]
    assert np.array_equal(irs.output_of(path, inputs), irs.output_of(again, inputs))


def test_bodies_are_shown_and_not_written(tmp_path: Path) -> None:
    condition = ops.parameter([], ov.Type.boolean, name="condition")
    x = ops.parameter([3], ov.Type.f32, name="x")
    branches = []
    for number in (1, 2):
        inner = ops.parameter([3], ov.Type.f32)
        branches.append((inner, ov.Model([ops.add(inner, ops.constant(np.float32(number)))], [inner], "body")))
    choice = ops.if_op(condition)
    choice.set_then_body(branches[0][1])
    choice.set_else_body(branches[1][1])
    choice.set_input(x.output(0), branches[0][0], branches[1][0])
    out = choice.set_output(branches[0][1].results[0], branches[1][1].results[0])
    path = irs.serialized(ov.Model([out], [condition, x], "m"), tmp_path)
    (node,) = irs.loaded(path).graph.nodes
    assert node.attributes["then_body"].kind == "xml"
    assert node.attributes["then_body"].value.startswith("<then_body><layers><layer ")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(fw.ModelError, match=r"save: node 'If_\d+' \(If\) has a part <.*>, which .* not written"):
        rewritten(path)
    assert sorted(tmp_path.iterdir()) == before


# ---- constants

NARROW = {
    "int4": "i4", "uint4": "u4", "uint2": "u2", "float4_e2m1fn": "f4e2m1", "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2", "float8_e8m0fnu": "f8e8m0",
}  # fmt: skip
ELEMENTS = {each.to_string(): each for each in vars(ov.Type).values() if isinstance(each, ov.Type)}


@pytest.mark.parametrize("dtype", [*fw.dtypes.BY_NAME, *NARROW])
def test_constants_of_every_dtype_and_shape(dtype: str, tmp_path: Path) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    element = ELEMENTS[NARROW.get(dtype) or fw.dtypes.BY_NAME[dtype].ir]
    values = np.array([1, 2, 1, 1, 0.5, 4, 2, 1, 1, 1, 2, 1], np.float32)
    if kind.kind in "bu" or dtype == "uint2":
        values = values % 2 // 1
    arrays = [values[:1].reshape(()), values[:9], values.reshape(2, 3, 2), values[:0].reshape(0, 3)]
    results = [ops.result(ops.constant(array, element)) for array in arrays]
    path = irs.serialized(ov.Model(results, [], "m"), tmp_path)
    graph = irs.loaded(path).graph
    for value, given in zip(graph.outputs, arrays, strict=True):
        array = graph.constants[value.name]
        assert (array.dtype, array.shape) == (kind, given.shape)
        assert (array == given.astype(kind)).all()
    again = rewritten(path)
    assert again.read_text() == path.read_text()
    assert again.with_suffix(".bin").read_bytes() == path.with_suffix(".bin").read_bytes()


def test_constants_of_text(tmp_path: Path) -> None:
    texts = np.array([["", "ä"], ["two words", "\0"]])
    path = irs.serialized(ov.Model([ops.result(ops.constant(ov.Tensor(texts)))], [], "m"), tmp_path)
    graph = irs.loaded(path).graph
    (array,) = graph.constants.values()
    assert array.tolist() == texts.tolist()
    assert graph.outputs[0][1:3] == ("string", (2, 2))
    again = rewritten(path)
    assert again.with_suffix(".bin").read_bytes() == path.with_suffix(".bin").read_bytes()


@pytest.mark.parametrize("element", ["u1", "u3", "u6", "nf4"])
def test_constants_that_no_array_can_hold(element: str, tmp_path: Path) -> None:
    values = np.ones(8, np.float32)
    path = irs.serialized(ov.Model([ops.result(ops.constant(values, ELEMENTS[element]))], [], "m"), tmp_path)
    with pytest.raises(fw.ModelError, match=rf"Const\) has element_type '{element}'; constants may be of .*i4.*string"):
        irs.loaded(path)


@pytest.mark.parametrize("element", ELEMENTS)
def test_inputs_of_every_element_type(element: str, tmp_path: Path) -> None:
    x = ops.parameter([2], ELEMENTS[element], name="x")
    path = irs.serialized(ov.Model([ops.result(x)], [x], "m"), tmp_path)
    program = irs.loaded(path)
    ours = {dtype.ir: dtype.name for dtype in fw.dtypes.TABLE} | {"dynamic": None}
    assert program.graph.inputs[0].dtype == program.graph.outputs[0].dtype == ours.get(element, element)
    assert rewritten(path, program).read_text() == path.read_text()


def test_constants_are_mapped_where_they_lie(tmp_path: Path) -> None:
    values = np.arange(1 << 22, dtype=np.float32)
    path = irs.serialized(ov.Model([ops.result(ops.constant(values))], [], "m"), tmp_path)
    tracemalloc.start()
    (array,) = irs.loaded(path).graph.constants.values()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(array, values)
    assert peak < 1 << 20
    write(irs.loaded(path), path)  # over the file that is mapped
    assert np.array_equal(array, values)
    assert irs.same(irs.loaded(path), irs.loaded(path))


def test_equal_constants_lie_in_the_file_once(tmp_path: Path) -> None:
    graph = Graph("m", outputs=[Value(name) for name in "abcde"])
    ones = np.ones(5, np.int8)
    graph.constants = {"a": ones, "b": np.ones(3, np.float32), "c": ones.copy(), "d": ones[:3], "e": ones[:0]}
    path = tmp_path / "m.xml"
    write(Program("openvino", graph, 11), path)
    assert path.with_suffix(".bin").read_bytes() == ones.tobytes() + graph.constants["b"].tobytes() + b"\1\1\1\0"
    found = irs.loaded(path).graph.constants
    assert all(np.array_equal(found[name], array) for name, array in graph.constants.items())
    ov.Core().read_model(str(path))


def test_constants_in_any_layout_and_byte_order(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    graph = Graph("m", outputs=[Value("t"), Value("s"), Value("b")])
    graph.constants = {"t": values.T, "s": values[::-1, ::2], "b": values.astype(">f8")}
    write(Program("openvino", graph, 11), tmp_path / "m.xml")
    found = irs.loaded(tmp_path / "m.xml").graph.constants
    assert all(np.array_equal(found[name], array) for name, array in graph.constants.items())
    graph.constants["b"] = values.astype(complex)
    with pytest.raises(fw.ModelError, match=r"save: constant 'b' is of dtype complex128.*cast it to one of .*float64"):
        write(Program("openvino", graph, 11), tmp_path / "m.xml")
    graph.constants["b"] = np.array(["a", 1], object)
    with pytest.raises(fw.ModelError, match=r"save: constant 'b' holds a int among its strings"):
        write(Program("openvino", graph, 11), tmp_path / "m.xml")
