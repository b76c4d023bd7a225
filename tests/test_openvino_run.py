"""IR files run: those that openvino wrote give the exact result, and plumbing is what openvino makes of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ir_models as irs
import numpy as np
import openvino as ov
import processes
import pytest
from openvino import opset13 as op

import foldwise as fw
from foldwise.operators import Schema

NARROW = {"int64", "uint64", "uint32", "float64", "int8", "uint8", "bfloat16", "float16"}
"""What openvino's CPU plugin computes in another dtype, or clamps."""


def forms(schema: Schema) -> list[Any]:
    """Axes as a constant of several types and ranks, and as an input."""
    if schema.kind == "scan":
        return [np.array(1), np.array(-1, np.int32), None]
    return [np.array([1]), np.array([0, -1], np.int32), np.array(2, np.uint8), np.array([], np.int64), None]


@pytest.mark.parametrize("schema", irs.FAMILY, ids=lambda schema: schema.full_name)
def test_what_openvino_wrote_runs_exactly(schema: Schema, tmp_path: Path) -> None:
    flags = [attribute.name for attribute in schema.attributes]
    count = 0
    for dtype, dynamic, axes in itertools.product(schema.dtypes, (False, True), forms(schema)):
        for values in itertools.product((False, True), repeat=len(flags)):
            attributes = dict(zip(flags, values, strict=True))
            shape = (2, 3, 4)
            declared = (-1, 3, -1) if dynamic else shape
            made = irs.one_node(schema, dtype, declared, axes, attributes)
            found = fw.load(irs.serialized(made, tmp_path))
            x = irs.some_data(dtype, shape)
            given = np.array([1]) if axes is None else axes
            given = given.reshape(()) if schema.kind == "scan" else given
            inputs = [x] if axes is not None else [x, np.array([1])]
            result = next(iter(found.run(inputs).values())) if axes is not None or schema.kind != "scan" else None
            if result is None:
                with pytest.warns(fw.FoldwiseWarning, match="0-D tensor"):  # the parameter is one axis in a list
                    result = next(iter(found.run(inputs).values()))
            wanted = fw.operator(schema.full_name)(x, given, **attributes)
            assert (result.dtype, result.shape, result.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())
            count += 1
    assert count == len(schema.dtypes) * 2 * len(forms(schema)) * 2 ** len(flags)


@pytest.mark.parametrize("schema", irs.FAMILY, ids=lambda schema: schema.full_name)
def test_openvino_agrees_where_it_is_right(schema: Schema, tmp_path: Path) -> None:
    axes = np.array(1) if schema.kind == "scan" else np.array([1])
    for dtype in sorted({*schema.dtypes} - NARROW):
        path = irs.serialized(irs.one_node(schema, dtype, (2, 3, 4), axes, {}), tmp_path)
        x = irs.some_data(dtype, (2, 3, 4))
        found = fw.load(path)
        found.save(tmp_path / "again.xml")
        (ours,) = found.run([x]).values()
        (theirs,) = irs.output_of(tmp_path / "again.xml", [x])
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


# ---- the layers of the seed


@pytest.mark.parametrize(("axes", "keep", "shape"), [
    ([2, 3], "true", (6, 12, 1, 1)),
    ([2, 3], "false", (6, 12)),
    ([1], "false", (6, 10, 24)),
    ([-2], "false", (6, 12, 24)),
])  # fmt: skip
def test_the_four_layers_of_the_operation_page(axes: list[int], keep: str, shape: tuple[int, ...]) -> None:
    dims = (6, 12, 10, 24)
    layers = [
        irs.layer(0, "data", "Parameter", data='shape="6,12,10,24" element_type="f32"', makes=irs.port(0, dims)),
        irs.layer(
            1, "axes", "Const", data=f'element_type="i64" shape="{len(axes)}" offset="0" size="{8 * len(axes)}"',
            makes=irs.port(0, (len(axes),), "I64"),
        ),
        irs.layer(
            2, "sum", "ReduceSum", data=f'keep_dims="{keep}"',
            reads=irs.port(0, dims) + irs.port(1, (len(axes),), "I64"), makes=irs.port(2, shape),
        ),
        irs.layer(3, "out", "Result", reads=irs.port(0, shape)),
    ]  # fmt: skip
    found = fw.load(irs.net(layers, irs.EDGES), weights=np.array(axes, np.int64).tobytes())
    assert not found.check()
    x = np.random.default_rng(0).integers(0, 9, dims).astype(np.float32)
    (result,) = found.run({"data": x}).values()
    assert result.shape == shape
    assert np.array_equal(result, x.sum(tuple(axes), keepdims=keep == "true"))


# ---- plumbing


def softmax(x: Any) -> Any:
    last = op.constant([-1])
    e = op.exp(op.subtract(x, op.reduce_max(x, last, True)))
    return op.divide(e, op.reduce_sum(e, last, True))


def layer_norm(x: Any) -> Any:
    last = op.constant([-1])
    centred = op.subtract(x, op.reduce_mean(x, last, True))
    spread = op.reduce_mean(op.power(centred, op.constant(np.float32(2))), last, True)
    return op.divide(centred, op.sqrt(op.add(spread, op.constant(np.float32(1e-5)))))


def pooled(x: Any) -> Any:
    """The mean over the places that are positive."""
    mask = op.convert(op.greater(x, op.constant(np.float32(0))), "f32")
    total = op.reduce_sum(op.multiply(x, mask), op.constant([1]), False)
    count = op.maximum(op.reduce_sum(mask, op.constant([1]), False), op.constant(np.float32(1)))
    return op.divide(total, count)


def shapes(x: Any) -> Any:
    size = op.shape_of(x)
    first = op.gather(size, op.constant([0]), op.constant(0))
    target = op.concat([first, op.constant([-1])], 0)
    flat = op.reshape(x, target, special_zero=False)
    rows = op.transpose(op.unsqueeze(flat, op.constant([0])), op.constant([1, 0, 2]))
    return op.cum_sum(op.squeeze(rows, op.constant([1])), op.constant(1), exclusive=True, reverse=True)


def choices(x: Any) -> Any:
    low = op.less_equal(op.abs(x), op.constant(np.float32(1)))
    chosen = op.select(op.logical_and(low, op.logical_not(op.equal(x, op.constant(np.float32(0))))), x, op.negative(x))
    clamped = op.clamp(op.floor(op.log(op.add(op.exp(chosen), op.constant(np.float32(1))))), 0.0, 3.0)
    return op.reduce_logical_or(op.greater_equal(op.tanh(clamped), op.sigmoid(chosen)), op.constant([0, 2]), False)


def products(x: Any) -> Any:
    squares = op.matmul(x, x, False, True)
    ones = op.broadcast(op.constant(np.float32(1)), op.shape_of(squares))
    steps = op.range(op.constant(0), op.constant(3), op.constant(1), "f32")
    return op.reduce_l2(op.add(op.minimum(squares, ones), steps), op.constant([1]), False)


@pytest.mark.parametrize("build", [softmax, layer_norm, pooled, shapes, choices, products])
@pytest.mark.parametrize("dynamic", [False, True])
def test_plumbing_is_what_openvino_makes_of_it(build: Callable[[Any], Any], dynamic: bool, tmp_path: Path) -> None:
    parameter = op.parameter([-1, 3, -1] if dynamic else [2, 3, 4], ov.Type.f32, name="x")
    path = irs.serialized(ov.Model([build(parameter)], [parameter], "m"), tmp_path)
    x = (np.random.default_rng(3).integers(-8, 9, (2, 3, 4)) / 4).astype(np.float32)
    found = fw.load(path)
    assert [value.name for value in found.inputs] == ["x"]
    (ours,) = found.run({"x": x}).values()
    (theirs,) = irs.output_of(path, [x])
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_compressed_weights_are_unpacked(tmp_path: Path) -> None:
    x = op.parameter([2, 8], ov.Type.f32, name="x")
    weights = op.constant(np.linspace(-1, 1, 8, dtype=np.float32))
    model = ov.Model([op.reduce_sum(op.multiply(x, weights), op.constant([1]), False)], [x], "m")
    ov.save_model(model, str(tmp_path / "m.xml"), compress_to_fp16=True)
    found = fw.load(tmp_path / "m.xml")
    assert any(array.dtype == np.float16 for array in found.graph.constants.values())
    (result,) = found.run([np.ones((2, 8), np.float32)]).values()
    assert result.tolist() == [np.linspace(-1, 1, 8).astype(np.float16).astype(np.float32).sum()] * 2


def test_a_layer_that_is_not_run_here(tmp_path: Path) -> None:
    x = op.parameter([1, 1, 4, 4], ov.Type.f32, name="x")
    kernel = op.constant(np.ones((1, 1, 2, 2), np.float32))
    model = ov.Model([op.convolution(x, kernel, [1, 1], [0, 0], [0, 0], [1, 1])], [x], "m")
    found = fw.load(irs.serialized(model, tmp_path))
    with pytest.raises(fw.EngineError, match=r"Convolution: .* an OpenVINO model of other operators"):
        found.run([np.ones((1, 1, 4, 4), np.float32)])
    (note,) = found.check()
    assert (note.severity, note.rule, note.operator) == ("note", "engine", "Convolution")


def test_shapes_that_may_not_broadcast(tmp_path: Path) -> None:
    one, other = op.parameter([-1], np.float32), op.parameter([-1], np.float32)
    made = ov.Model([op.add(one, other, auto_broadcast="none")], [one, other])
    found = fw.load(irs.serialized(made, tmp_path))
    ones = np.ones(3, np.float32)
    assert next(iter(found.run([ones, ones]).values())).tolist() == [2, 2, 2]
    with pytest.raises(fw.ShapeError, match=r'broadcast="none" the inputs must have one shape, got \(3,\) and'):
        found.run([ones, ones[:1]])


@pytest.mark.parametrize(("rows", "fits"), [(5, True), (6, False)])
def test_both_results_of_a_node_are_memory(rows: int, fits: bool, tmp_path: Path) -> None:
    """4,000 bytes are given, a choice with its places has 12,000; eight times what is given leaves five rows more."""
    x = op.parameter([1, 1000], ov.Type.f32, name="x")
    top = op.topk(x, op.constant(np.int64(1)), 0, "max", "none", index_element_type="i64")
    grown = op.broadcast(top.output(0), op.constant(np.array([rows, 1000])))
    results = [op.reduce_sum(grown, op.constant([1]), False).output(0), top.output(1)]
    found = fw.load(irs.serialized(ov.Model(results, [x], "m"), tmp_path), limits=fw.Limits(grown_bytes=0))
    if fits:
        found.run([np.ones((1, 1000), np.float32)])
    else:
        with pytest.raises(fw.LimitError, match=r"Broadcast: beyond eight times what it is given, the bytes of its"):
            found.run([np.ones((1, 1000), np.float32)])


def test_names_that_callers_may_use(tmp_path: Path) -> None:
    x = op.parameter([2, 3], ov.Type.f32, name="layer")
    x.output(0).set_names({"tensor"})
    path = irs.serialized(ov.Model([op.reduce_sum(x, op.constant([1]), False)], [x], "m"), tmp_path)
    found = fw.load(path)
    for name in ("layer", "tensor"):
        assert next(iter(found.run({name: np.ones((2, 3), np.float32)}).values())).tolist() == [3, 3]
    with pytest.raises(fw.ModelError, match="no input 'other'"):
        found.run({"other": np.ones((2, 3), np.float32)})


def test_onnx_is_not_needed(tmp_path: Path) -> None:
    x = op.parameter([2, 3], ov.Type.f32, name="x")
    path = irs.serialized(ov.Model([softmax(x)], [x], "m"), tmp_path)
    script = """
import sys
sys.modules["onnx"] = None
import numpy as np, foldwise as fw
model = fw.load(sys.argv[1])
print(model.check(), model.run([np.zeros((2, 3), np.float32)])["OUTPUT"].sum())
model.save(sys.argv[2])
try:
    fw.load(b"no model")
except fw.EngineError as error:
    print(error)
""".replace("OUTPUT", fw.load(path).outputs[0].name)
    said = processes.output("-c", script, str(path), str(tmp_path / "again.xml"))
    assert said.splitlines()[0] == "[] 2.0"
    assert said.splitlines()[1] == 'load: ONNX models need the package onnx: pip install "foldwise[onnx]"'
