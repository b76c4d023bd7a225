"""Every operator, version and dtype in an onnxruntime session is what it is here, bit for bit, refusals included."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import oracle
import pytest
from onnx import helper
from onnx_models import FAMILY, model, official
from trees import Array

import foldwise as fw
from foldwise.operators import CATALOG, Schema

ort = pytest.importorskip("onnxruntime")

from onnxruntime_sessions import FLOATS, NEWEST, quiet, same_bits, session  # noqa: E402

SCHEMAS = [s for s in fw.operators() if s.dialect == "onnx" and s.version <= NEWEST]
EVERY_SCHEMA = pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.label)


def element_type(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


class Node(NamedTuple):
    """One call: the data, what stands for the axes (by an input, given at run time or constant), and attributes."""

    x: Array
    axes: Array | None
    attributes: dict[str, Any]
    constant: bool = False


def session_of(schema: Schema, nodes: list[Node], opset: int, **named: Any) -> tuple[Any, dict[str, Any]]:
    """A session of nodes, an output each, and what it is fed."""
    feeds: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    made = []
    for i, node in enumerate(nodes):
        data = f"x{'_'.join(map(str, node.x.shape))}"
        feeds[data] = node.x
        inputs = [data]
        if node.axes is not None:
            (constants if node.constant else feeds)[f"axes{i}"] = node.axes
            inputs.append(f"axes{i}")
        made.append(helper.make_node(schema.name, inputs, [f"y{i}"], f"node{i}", **node.attributes))
    output = int(onnx.TensorProto.INT64) if schema.output.type == "int64" else element_type(nodes[0].x)
    graph = helper.make_graph(
        made,
        "nodes",
        [helper.make_tensor_value_info(n, element_type(a), [None] * a.ndim) for n, a in feeds.items()],
        [helper.make_tensor_value_info(f"y{i}", output, None) for i in range(len(nodes))],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return session(helper.make_model(graph, opset_imports=imports, ir_version=8), **named), feeds


def calls(schema: Schema, x: Array) -> Iterator[Node]:
    """The ways in which nodes of this version say which axes, and the other attributes with them."""
    rank = x.ndim
    turns = itertools.cycle((0, 1, None))

    def flags(*names: str) -> dict[str, Any]:
        known = [n for n in names if schema.attribute(n)]
        return {n: turn for n, turn in zip(known, turns, strict=False) if turn is not None}

    by_input = len(schema.inputs) > 1
    if schema.kind == "arg":
        for axis in range(-rank, rank):
            yield Node(x, None, {"axis": axis, **flags("keepdims", "select_last_index")})
    elif schema.kind == "scan":
        for axis, dtype in itertools.product(range(-rank, rank), (np.int32, np.int64)):
            yield Node(x, np.array(axis, dtype), flags("exclusive", "reverse"), axis < 0)
    else:
        yield Node(x, None, flags("keepdims"))
        for axes in oracle.subsets(rank):
            named = [axis - rank * (i % 2) for i, axis in enumerate(axes)]
            if by_input:
                for noop in (0, 1):
                    more = {"noop_with_empty_axes": noop, **flags("keepdims")}
                    yield Node(x, np.array(named, np.int64), more, bool(noop))
            elif axes:
                yield Node(x, None, {"axes": named, **flags("keepdims")})
        if by_input:
            yield Node(x, None, {"noop_with_empty_axes": 1})


def told(schema: Schema, node: Node) -> tuple[Any, str]:
    """What the operator gives, or why it refuses."""
    try:
        return fw.operator(schema.full_name)(node.x, *[node.axes][: node.axes is not None], **node.attributes), ""
    except fw.FoldwiseError as error:
        return None, str(error)


# ---- every operator, version and dtype


@EVERY_SCHEMA
def test_every_dtype_has_the_operators_bits(schema: Schema) -> None:
    opset = min(CATALOG.opsets(schema)[1], NEWEST)
    for name in schema.dtypes:
        shapes = [shape for shape in oracle.SHAPES if shape or schema.kind == "reduce"]
        nodes = [
            node for shape in shapes for node in calls(schema, oracle.data(schema.fold, name, shape))
        ]
        pairs = [(node, told(schema, node)) for node in nodes]
        running = [(node, result) for node, (result, refusal) in pairs if not refusal]
        assert len(running) > 5
        made, feeds = session_of(schema, [node for node, _ in running], opset)
        for (node, wanted), result in zip(running, made.run(None, feeds), strict=True):
            assert same_bits(result, wanted), f"{schema.label} {name}{node.x.shape} {node.axes} {node.attributes}"
        for node, refusal in [(node, refusal) for node, (_, refusal) in pairs if refusal][::7]:
            made, feeds = session_of(schema, [node], opset)
            with pytest.raises(Exception, match=re.escape(refusal)):
                made.run(None, feeds)


@EVERY_SCHEMA
def test_hard_values_and_layouts_have_the_operators_bits(schema: Schema) -> None:
    """NaN, infinities, signed zeros; long rows, columns, and what lies between kept axes."""
    for name in set(schema.dtypes) & {"float16", "bfloat16", "float32", "float64"}:
        x = np.random.default_rng(1).standard_normal((5, 300, 70)).astype(name)
        x[0, 0, :3] = [np.nan, np.inf, -0.0]
        x[1] = -0.0
        nodes = [node for node in calls(schema, x) if node.axes is None or node.axes.size]
        made, feeds = session_of(schema, nodes[::2], min(CATALOG.opsets(schema)[1], NEWEST))
        for node, result in zip(nodes[::2], made.run(None, feeds), strict=True):
            assert same_bits(result, told(schema, node)[0]), f"{schema.label} {name} {node.axes} {node.attributes}"


def test_the_whole_family_is_there() -> None:
    later = {schema.name for schema in fw.operators() if schema.version > NEWEST}
    assert {schema.name for schema in SCHEMAS} | later == set(FAMILY)
    assert len(SCHEMAS) > 45


def test_the_official_node_tests() -> None:
    ran = 0
    for name, case in official().items():
        imports = {each.domain: each.version for each in case.model.opset_import}
        ours = any(node.op_type in FAMILY for node in case.model.graph.node)
        if not ours or imports[""] > NEWEST or len(imports) > 1 or not case.data_sets:
            continue
        if case.name.startswith("test_affine_grid"):  # no reduction's fault
            continue
        try:
            ort.InferenceSession(case.model.SerializeToString(), quiet())
        except Exception:  # onnxruntime lacks something
            if len(case.model.graph.node) > 1:
                continue
        made = session(case.model)
        for inputs, outputs in case.data_sets:
            feeds = {each.name: np.asarray(v) for each, v in zip(case.model.graph.input, inputs, strict=True)}
            for result, wanted in zip(made.run(None, feeds), outputs, strict=True):
                assert result.dtype == wanted.dtype, name
                np.testing.assert_allclose(result, wanted, case.rtol, case.atol, err_msg=name)
        ran += 1
    assert ran > 150


# ---- what nodes are refused for


@pytest.mark.parametrize(
    ("text", "opset", "refusal"),
    [
        (
            "g (float[2,3] x) => (float y) { y = ReduceSum <axes = [1]> (x) }",
            13,
            "ReduceSum-13: 'axes' is an input in this version, not an attribute",
        ),
        (
            "g (float[2,3] x) => (float y) { y = ReduceSum <axis = 1> (x) }",
            11,
            "ReduceSum-11: there is no argument 'axis' (did you mean 'axes'?)",
        ),
        (
            "g (float[2,3] x) => (float y) { y = ReduceMax <keepdims = 0.5> (x) }",
            13,
            "ReduceMax-13: attribute 'keepdims' = 0.5; accepted are 0 and 1",
        ),
        (
            "g (float[2,3] x) => (float y) { y = ReduceMax <keepdims = [1]> (x) }",
            13,
            "ReduceMax-13: attribute 'keepdims' = [1]; accepted are 0 and 1",
        ),
        (
            "g (int8[2,3] x) => (int8 y) { y = ReduceSum (x) }",
            18,
            "ReduceSum-13: input 'data' must be one of int32, int64, uint32, uint64, float16, bfloat16, float32, "
            "float64, got int8",
        ),
        (
            "g (string[2,3] x) => (string y) { y = ReduceMin (x) }",
            18,
            "got a tensor of ONNX's element type 8; cast it first",
        ),
    ],
)
def test_nodes_are_refused_when_the_session_is_made(text: str, opset: int, refusal: str) -> None:
    with pytest.raises(Exception, match=re.escape(refusal)):
        session(model(text, opset))


def test_integers_without_a_finite_result_are_refused() -> None:
    made = session(model("g (int32[N] x) => (int32 y) { y = ReduceLogSum <keepdims = 0> (x) }"))
    assert made.run(None, {"x": np.array([3, 7], np.int32)})[0] == 2
    with pytest.raises(Exception, match=r"ReduceLogSum-18: a result for input 'data' of dtype int32, shape \(2,\)"):
        made.run(None, {"x": np.array([3, -3], np.int32)})
    assert made.run(None, {"x": np.array([3, 7], np.int32)})[0] == 2  # the session goes on


def test_what_runtimes_tolerate_is_let_pass_unless_strict() -> None:
    made = model("g (float[N,M] x, int64[K] axis) => (float[N,M] y) { y = CumSum (x, axis) }", 14)
    feeds = {"x": FLOATS, "axis": np.array([1])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.FoldwiseWarning)
        (result,) = session(made).run(None, feeds)
    assert same_bits(result, fw.cumsum(FLOATS, axis=1))
    with pytest.raises(Exception, match=r"CumSum-14: FoldwiseWarning: CumSum-14: input 'axis' must be a 0-D tensor"):
        session(made).run(None, feeds)
    with pytest.raises(Exception, match=r"CumSum-14: input 'axis' must be a 0-D tensor, got int64 of shape \(1,\)"):
        session(made, strict=True).run(None, feeds)
