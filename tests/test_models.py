"""Whole ONNX models run: the right results, in the right dtype, whoever runs which node."""

from __future__ import annotations

import math
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import data, loaded, model

import foldwise as fw
from foldwise.models.folding import Siblings

X = data(3, 4)


def steps(found: fw.Model, engine: str | None = None) -> list[tuple[str, str]]:
    """Who runs what."""
    return [(step.operator, step.by) for step in found.session(engine).plan.steps]


# ---- the seeds' own examples


def test_the_three_sums_of_the_operator_page() -> None:
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 2, 2)
    every = loaded("g (float[3,2,2] data) => (float[1,1,1] reduced) { reduced = ReduceSum(data) }", 13)
    assert every.run({"data": x})["reduced"].tolist() == [[[78]]]
    dropped = loaded(
        "g (float[3,2,2] data, int64[1] axes) => (float[3,2] reduced)"
        "{ reduced = ReduceSum<keepdims=0>(data, axes) }",
        13,
    )
    assert dropped.run({"data": x, "axes": [1]})["reduced"].tolist() == [[4, 6], [12, 14], [20, 22]]
    kept = loaded(
        "g (float[3,2,2] data, int64[1] axes) => (float[3,1,2] reduced) { reduced = ReduceSum(data, axes) }", 13
    )
    assert kept.run([x, np.array([-2])])["reduced"].tolist() == [[[4, 6]], [[12, 14]], [[20, 22]]]


@pytest.mark.parametrize("opset", [11, 14])
def test_the_four_running_sums_of_the_operator_page(opset: int) -> None:
    for attributes, wanted in (
        ("", [1, 3, 6]),
        ("<exclusive=1>", [0, 1, 3]),
        ("<reverse=1>", [6, 5, 3]),
        ("<exclusive=1, reverse=1>", [5, 3, 0]),
    ):
        found = loaded(f"g (float[3] x, int32 axis) => (float[3] y) {{ y = CumSum{attributes}(x, axis) }}", opset)
        assert found.run({"x": [1, 2, 3], "axis": 0})["y"].tolist() == wanted


# ---- what goes in and what comes out


def test_signature_and_words() -> None:
    found = loaded("sums (float[N,3] x) => (float[N] y) <int64[1] axes = {1}> { y = ReduceSum<keepdims=0>(x, axes) }")
    assert [str(value) for value in found.inputs] == ["x: float32 (N, 3)"]
    assert [str(value) for value in found.outputs] == ["y: float32 (N,)"]
    assert repr(found) == "<Model 'sums': onnx, opset 18, 1 node>"
    assert str(found).splitlines()[1:] == ["  in   x: float32 (N, 3)", "  out  y: float32 (N,)"]
    assert [node.operator for node in found.graph.nodes] == ["ReduceSum"]
    assert found.run([[[1, 2, 3]]])["y"].dtype == np.float32


REFUSED: list[tuple[Any, type[Exception], str]] = [
    ({}, fw.ModelError, r"run: input 'x' is missing; the model takes x: float32 \(N, 3\); k: int64 \(\)"),
    ({"x": X[:, :3]}, fw.ModelError, r"run: input 'k' is missing"),
    ({"X": X[:, :3], "k": 1}, fw.ModelError, r"run: the model has no input 'X' \(did you mean 'x'\?\)"),
    ({"x": X[:, :3], "k": 1, "zzz": 1}, fw.ModelError, r"run: the model has no input 'zzz'; it takes x"),
    ([X[:, :3], 1, 2], fw.ModelError, r"run: 3 inputs were given; the model takes x"),
    ({"x": X, "k": 1}, fw.ShapeError, r"input 'x' must have shape \(N, 3\), got float32 of shape \(3, 4\)"),
    ({"x": X[0, :3], "k": 1}, fw.ShapeError, r"input 'x' must have shape \(N, 3\), got float32 of shape \(3,\)"),
    (
        {"x": np.ones((1, 3)), "k": 1},
        fw.DtypeError,
        r"input 'x' must be float32, got float64 of shape \(1, 3\); give x\.astype\('float32'\)",
    ),
    ({"x": X[:, :3], "k": 1.5}, fw.DtypeError, r"input 'k' must be int64, got float64 of shape \(\)"),
    ({"x": [[1, 2], [3]], "k": 1}, fw.FoldwiseError, r"run: input 'x'"),
    (3, fw.ArgumentError, r"inputs is of type int; give a dict by name, or a list"),
    ("x", fw.ArgumentError, r"inputs is of type str"),
]


@pytest.mark.parametrize(("inputs", "error", "message"), REFUSED)
def test_inputs_that_do_not_fit(inputs: Any, error: type[Exception], message: str) -> None:
    found = loaded("g (float[N,3] x, int64 k) => (float[N,3] y) { y = CumSum(x, k) }")
    with pytest.raises(error, match=message):
        found.run(inputs)
    assert found.run({"x": X[:, :3], "k": 1})["y"].shape == (3, 3)


def test_a_length_with_a_name_is_one_length() -> None:
    found = loaded("g (float[N] a, float[N] b) => (float[N] y) { y = Add(a, b) }")
    assert found.run([np.ones(3, np.float32)] * 2)["y"].tolist() == [2, 2, 2]
    with pytest.raises(fw.ShapeError, match="the length 'N' is 3 in input 'a' and 1 in input 'b'; it must be one"):
        found.run([np.ones(3, np.float32), np.ones(1, np.float32)])


def test_inputs_with_a_default() -> None:
    proto = model("g (float[2] x, float[2] w) => (float[2] y) { y = Mul(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 3], np.float32), "w"))
    found = fw.load(proto)
    assert [value.name for value in found.inputs] == ["x"]
    assert found.run({"x": [1, 1]})["y"].tolist() == [2, 3]
    assert found.run([[1, 1]])["y"].tolist() == [2, 3]
    assert found.run({"x": [1, 1], "w": [5, 7]})["y"].tolist() == [5, 7]
    assert found.run({"x": [1, 1]})["y"].tolist() == [2, 3]


def test_outputs_are_nobody_elses_memory() -> None:
    found = loaded(
        "g (float[3,4] x) => (float[3,4] same, float[12] flat, float[2] held) <float[2] c = {1, 2}, int64[1] n = {-1}>"
        "{ same = Identity(x) flat = Reshape(x, n) held = Identity(c) }"
    )
    x = X.copy()
    first = found.run([x])
    for made in first.values():
        made[...] = 77
    assert np.array_equal(x, X)
    assert found.run([x])["held"].tolist() == [1, 2]
    assert np.array_equal(found.run([x])["flat"], X.reshape(-1))


def test_any_array_goes_in() -> None:
    found = loaded("g (float[3,4] x) => (float y) { y = ReduceSum<keepdims=0>(x) }")
    big, turned = X.astype(">f4"), np.asfortranarray(X)
    for x in (X, big, turned, X[::-1, ::-1], X.tolist()):
        assert found.run([x])["y"] == X.sum()


def test_buffers_go_when_their_last_reader_is_done() -> None:
    """Ten values of 8 MB one after the other take the memory of a few."""
    import tracemalloc

    chain = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(10))
    found = loaded(f"g (float[N] v0) => (float[N] v10) {{ {chain} }}")
    x = np.ones(2_000_000, np.float32)
    found.run([x])
    tracemalloc.start()
    try:
        found.run([x])
        assert tracemalloc.get_traced_memory()[1] < 3.5 * x.nbytes
    finally:
        tracemalloc.stop()


# ---- siblings are folded together, bit for bit as alone

SIBLINGS = (
    "g (float[4,5,600] x) => (float[4,1,600] a, float[4,1,600] b, float[4,1,600] c, float[4,5,1] d, float[4,600] e,"
    " float[4,1,600] f) <int64[1] i = {1}, int64[1] j = {-1}, int64[1] k = {-2}>"
    "{ a = ReduceSum(x, i) b = ReduceMax(x, k) n = Neg(b) c = ReduceL2(x, i) d = ReduceMean(x, j)"
    " e = ReduceLogSumExp<keepdims=0>(x, i) f = ReduceMean(x, i) }"
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint64", "int64"])
def test_siblings(dtype: str) -> None:
    proto = model(SIBLINGS)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = kind
    found = fw.load(proto)
    assert [operator for operator, by in steps(found) if by == "foldwise"] == [
        "ReduceSum-13 and ReduceMax-18 and ReduceL2-18 and ReduceMean-18 and ReduceLogSumExp-18 and ReduceMean-18"
    ]
    x = data(4, 5, 600, dtype=np.dtype(getattr(ml_dtypes, dtype, dtype)))
    x = np.abs(x) if dtype != "bfloat16" else x
    for _ in range(2):
        made = found.run([x])
        for name, operator, axes, keepdims in (
            ("a", "ReduceSum", 1, 1), ("b", "ReduceMax", 1, 1), ("c", "ReduceL2", 1, 1), ("d", "ReduceMean", 2, 1),
            ("e", "ReduceLogSumExp", 1, 0), ("f", "ReduceMean", 1, 1),
        ):  # fmt: skip
            alone = fw.operator(operator, opset=18)(x, axes=[axes], keepdims=keepdims)
            assert made[name].dtype == x.dtype
            assert made[name].tobytes() == alone.tobytes(), name


def test_siblings_of_nothing_and_over_nothing() -> None:
    found = loaded(
        "g (float[N,M] x) => (float[M] a, float[M] b, float[N,M] c) <int64[1] i = {0}, int64[0] e = {}>"
        "{ a = ReduceSum<keepdims=0>(x, i) b = ReduceMin<keepdims=0>(x, i)"
        " c = ReduceMax<noop_with_empty_axes=1>(x, e) }"
    )
    assert isinstance(found.session().plan.steps[0].work, Siblings)
    made = found.run([np.ones((0, 2), np.float32)])
    assert (made["a"].tolist(), made["b"].tolist(), made["c"].shape) == ([0, 0], [np.inf, np.inf], (0, 2))
    assert found.run([X])["c"].tolist() == X.tolist()


# ---- plumbing


def test_axes_that_are_computed() -> None:
    found = loaded(
        "g (float[N,M] x) => (float[N,M] y, float[K] s) <int64 one = {1}, int64 zero = {0}, int64[1] shape = {1}>"
        "{ size = Shape(x) rank = Shape(size) last = Sub(rank, one_) one_ = Reshape(one, shape)"
        " first = Gather(size, zero) s = ReduceSum<keepdims=0>(x, last) flat = Squeeze(last) y = CumSum(x, flat) }"
    )
    made = found.run([X])
    assert np.array_equal(made["y"], np.cumsum(X, 1))
    assert np.array_equal(made["s"], X.sum(1))


def test_constants_are_computed_once() -> None:
    found = loaded(
        "g (float[3,4] x) => (float[4] y)"
        "{ a = Constant<value_int=-1>() one = Constant<value_ints=[1]>()"
        " b = Abs(a) c = Sub(b, b) d = Reshape(c, one) y = ReduceSum<keepdims=0>(x, d) }"
    )
    assert steps(found) == [("ReduceSum-13", "foldwise")]
    assert np.array_equal(found.run([X])["y"], X.sum(0))




def test_a_node_that_does_not_take_what_comes() -> None:
    for text, message in (
        ("y = Add(x, k)", r"^node 'n' \(Add\): the inputs are of float32 and int64; they must be of one dtype"),
        ("y = Add(x, w)", r"the inputs' shapes \(3, 4\) and \(2,\) do not broadcast to one"),
        ("y = Reshape(x, k)", r"a tensor of shape \(3, 4\) does not reshape to \[5\]"),
        ("y = Squeeze(x, z)", r"shape \(3, 4\) cannot lose axes \[0\]: only axes of length 1 can go"),
        ("y = Unsqueeze(x, zz)", r"axes \[0, 0\] name an axis twice"),
        ("y = Gather(x, k)", r"an index lies outside of axis 0 of length 3 \(accepted: -3..2\)"),
        ("y = Concat<axis=0>(x, w)", r"the shapes \(3, 4\), \(2,\) do not go together along axis 0"),
        ("y = Transpose<perm=[0]>(x)", r"perm \[0\] is no order of the 2 axes of shape \(3, 4\)"),
        ("y = Expand(x, k)", r"a tensor of shape \(3, 4\) does not expand to \[5\]"),
        ("q = Shape(x) z_ = Sub(q, q) y = Div(q, z_)", r"an integer is divided by zero"),
        ("y = ReduceSum(x, k)", r"ReduceSum-13: axes\[0\] = 5 is out of range for rank 2 \(accepted: -2\.\.1\)"),
        ("y = CumSum(x, k)", r"CumSum-14: .*5"),
        ("y = ReduceSum<keepdims=2>(x)", r"ReduceSum-13: attribute 'keepdims' = 2; accepted are 0 and 1"),
        ("y = ReduceMean<axes=[1]>(x)", r"ReduceMean-18: 'axes' is an input in this version, not an attribute"),
        ("y = CumProd(x, k)", r"onnx opset 18 has no CumProd; it came with opset 26"),
        ("y = ReduceSum()", r"ReduceSum-13: input 'data' is missing"),
    ):
        proto = model(
            "g (float[3,4] x) => (y)"
            " <int64[1] k = {5}, float[2] w = {1, 2}, int64[1] z = {0}, int64[2] zz = {0, 0}>"
            f"{{ {text} }}"
        )
        proto.graph.node[-1].name = "n"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fw.FoldwiseWarning)
            with pytest.raises(fw.FoldwiseError, match=message) as caught:
                fw.load(proto).run([X])
        assert str(caught.value).startswith("node 'n'"), str(caught.value)


# ---- what runtimes accept


def test_what_both_runtimes_accept_runs_with_a_warning() -> None:
    axis = loaded("g (float[3,4] x) => (float[3,4] y) <int64[1] a = {1}> { y = CumSum(x, a) }")
    twice = loaded("g (float[3,4] x) => (float[3] y) <int64[2] a = {1, -1}> { y = ReduceSum<keepdims=0>(x, a) }")
    for found, wanted in ((axis, np.cumsum(X, 1)), (twice, X.sum(1))):
        with pytest.warns(fw.FoldwiseWarning, match=r"CumSum-14: input 'axis'|ReduceSum-13: axes"):
            assert np.array_equal(found.run([X])["y"], wanted)
        with pytest.raises(fw.FoldwiseError, match=r"0-D tensor|names axis 1 twice"):
            found.run([X], strict=True)
        (finding,) = found.check()
        assert (finding.severity, finding.rule) == ("warning", "tolerated")
        assert "lenient" not in str(finding)


# ---- graphs inside graphs

CONTROL = {
    "if": "g (float[3,4] x, bool c) => (float[4] y) <int64[1] i = {0}> { s = Neg(x) y = If<"
    "then_branch = t () => (float[4] a) { a = ReduceSum<keepdims=0>(s, i) },"
    "else_branch = e () => (float[4] b) { b = ReduceMax<keepdims=0>(x, i) }>(c) }",
    "loop": "g (float[3,4] x, bool c) => (float[3,4] last, float[N,4] sums) <int64 n = {3}, int64[1] i = {0}> {"
    " last, sums = Loop<body = b (int64 t, bool going, float[3,4] v) => (bool again, float[3,4] w, float[4] s)"
    " { again = Identity(going) w = Add(v, x) s = ReduceSum<keepdims=0>(w, i) }>(n, c, x) }",
    "scan": "g (float[3,4] x, bool c) => (float total, float[N] sums) <float z = {0}, int64[1] i = {0}> {"
    " total, sums = Scan<num_scan_inputs=1, body = b (float t, float[4] row) => (float u, float s)"
    " { r = ReduceSum<keepdims=0>(row, i) u = Add(t, r) s = Identity(u) }>(z, x) }",
}
BACKWARD = (
    "g (float[3,4] x, bool c) => (float total, float[N] sums) <float z = {0}, int64[1] i = {0}> {"
    " total, sums = Scan<num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1], scan_output_directions=[1],"
    " body = b (float t, float[3] row) => (float u, float s)"
    " { r = ReduceSum<keepdims=0>(row, i) u = Add(t, r) s = Identity(u) }>(z, x) }"
)


@pytest.mark.parametrize(("kind", "condition"), [("if", True), ("if", False), ("loop", True), ("scan", True)])
def test_reductions_inside_of_other_graphs(kind: str, condition: bool) -> None:
    proto = model(CONTROL[kind])
    made = fw.load(proto).run({"x": X, "c": condition})
    wanted = ReferenceEvaluator(proto).run(None, {"x": X, "c": np.array(condition)})
    for name, reference in zip(made, wanted, strict=True):
        assert made[name].shape == reference.shape
        assert np.array_equal(made[name], reference)


def test_a_scan_from_the_end() -> None:
    made = loaded(BACKWARD).run({"x": X, "c": True})
    assert made["total"] == X.sum()
    assert np.array_equal(made["sums"], np.cumsum(X.sum(0)[::-1])[::-1])


def test_a_loop_that_never_ran_gives_nothing() -> None:
    found = loaded(CONTROL["loop"])
    made = found.run({"x": X, "c": False})
    assert made["sums"].shape == (0, 4)
    assert made["sums"].dtype == np.float32
    assert np.array_equal(made["last"], X)


# ---- functions of the model's own


def test_functions_are_unfolded() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "ours" : 1]>'
        "g (float[3,4] x) => (float[3,4] y, float[3,1] z) { y = ours.Softmax<axis=-1>(x) z = ours.Total(x) }"
        '<domain: "ours", opset_import: ["" : 18]> Softmax<axis>(a) => (b) {'
        " i = Constant<value_ints: ints = @axes>() m = ReduceMax(a) s = Sub(a, m) e = Exp(s) t = ReduceSum(e)"
        " b = Div(e, t) }"
        '<domain: "ours", opset_import: ["" : 11]> Total(a) => (b) { b = ReduceSum<axes=[1]>(a) }'
    )
    del proto.functions[0].node[0]
    found = fw.load(proto)
    made = found.run([X])
    e = np.exp(X - X.max())
    np.testing.assert_allclose(made["y"], e / e.sum(), rtol=1e-6)
    assert np.array_equal(made["z"], X.sum(1, keepdims=True))
    assert "ReduceSum-11" in steps(found)[0][0]  # the function's own opset, not the model's


def test_a_function_whose_branches_read_its_inputs() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "ours" : 1]>'
        "g (float[3,4] x, bool c) => (float[3,4] y) { y = ours.F(x, c) }"
        '<domain: "ours", opset_import: ["" : 18]> F(a, k) => (b) {'
        " b = If<then_branch = t () => (p) { p = Neg(a) }, else_branch = e () => (q) { q = Identity(a) }>(k) }"
    )
    found = fw.load(proto)
    assert np.array_equal(found.run({"x": X, "c": True})["y"], -X)
    assert np.array_equal(found.run({"x": X, "c": False})["y"], X)


def test_attributes_that_a_function_passes_on() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 11, "ours" : 1]>'
        "g (float[3,4] x) => (float[3] y, float[1,1] z) { y = ours.F<axes=[1], keep=0>(x) z = ours.F(x) }"
        '<domain: "ours", opset_import: ["" : 11]> F<axes, keep>(a) => (b) {'
        " b = ReduceSum<axes: ints = @axes, keepdims: int = @keep>(a) }"
    )
    made = fw.load(proto).run([X])
    assert np.array_equal(made["y"], X.sum(1))
    assert np.array_equal(made["z"], X.sum(keepdims=True))


# ---- other engines


NETWORK = (
    "g (float[2,3,8,8] x) => (float[2,1] y) <float[4,3,3,3] w = {"
    + ", ".join(str(i % 7 - 3) for i in range(108))
    + "}, int64[2] space = {2, 3}, int64[1] channels = {1}> {"
    " c = Conv(x, w) r = Relu(c) t = Tanh(r) p = ReduceMean<keepdims=0>(t, space) n = ReduceL2(p, channels)"
    " q = Div(p, n) h = Erf(q) y = ReduceSum(h, channels) }"
)


@pytest.mark.parametrize("engine", ["reference", "onnxruntime"])
def test_what_is_not_ours_goes_to_an_engine(engine: str) -> None:
    pytest.importorskip(engine.replace("reference", "onnx"))
    proto = model(NETWORK)
    x = data(2, 3, 8, 8)
    found = fw.load(proto)
    made = found.run({"x": x}, engine=engine)
    np.testing.assert_allclose(made["y"], ReferenceEvaluator(proto).run(None, {"x": x})[0], rtol=1e-5)
    assert steps(found, engine) == [
        ("Conv, Relu, Tanh", engine),
        ("ReduceMean-18", "foldwise"),
        ("ReduceL2-18", "foldwise"),
        ("Div", "numpy"),
        ("Erf", engine),
        ("ReduceSum-13", "foldwise"),
    ]


def test_without_an_engine_the_way_out_is_named() -> None:
    found = loaded(NETWORK)
    with pytest.raises(fw.EngineError, match=r'node that makes \'c\': Conv, Erf: .* engine="onnxruntime"'):
        found.run({"x": data(2, 3, 8, 8)})
    with pytest.raises(fw.OptionError, match=r'engine = "?\'torch\'"?; accepted are "onnxruntime" and "reference"'):
        found.run({"x": data(2, 3, 8, 8)}, engine="torch")


def test_an_engine_that_refuses_together_is_asked_singly() -> None:
    """onnxruntime has no bfloat16 Neg, but an Erf; NumPy does the rest."""
    pytest.importorskip("onnxruntime")
    found = loaded("g (float[4] x) => (float[4] y) { h = Erf(x) b = Cast<to=16>(h) n = Neg(b) y = Cast<to=1>(n) }")
    x = data(4)
    made = found.run({"x": x}, engine="onnxruntime")["y"]
    erf = np.array([math.erf(each) for each in x])
    wanted = -erf.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_allclose(made, wanted, rtol=1e-2)


def test_a_number_of_bfloat16_goes_to_an_engine_as_one() -> None:
    pytest.importorskip("onnxruntime")
    found = loaded("g (bfloat16 x) => (bool y) { y = IsInf(x) }", opset=20)
    made = found.run({"x": np.array(-np.inf, ml_dtypes.bfloat16)}, engine="onnxruntime")["y"]
    assert (made.shape, made.item()) == ((), True)


SOFT = (
    "g (float[2,3,4] x, float[4] s) => (float[2,3,4] a, float[2,3,4] b, float[2,3,4] c, float[2,3,4] d)"
    "{ a = Softmax<axis=1>(x) b = LogSoftmax(x) c = LayerNormalization(x, s) d = Gelu<approximate=\"tanh\">(x) }"
)


def test_what_onnx_defines_by_others_is_unfolded() -> None:
    proto = model(SOFT, 20, 9)
    inputs = {"x": data(2, 3, 4), "s": np.array([1, 2, 3, 4], np.float32)}
    found = fw.load(proto)
    for made, wanted in zip(found.run(inputs).values(), ReferenceEvaluator(proto).run(None, inputs), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
    ours = [operator for operator, by in steps(found) if by == "foldwise"]
    assert len(ours) >= 5
    assert {by for _, by in steps(found)} == {"foldwise", "numpy"}
    assert {by for _, by in steps(found, "reference")} == {"reference"}  # which does it by itself
    assert not [each for each in found.check() if each.rule == "engine"]


def test_plumbing_of_other_dtypes_goes_to_the_engine() -> None:
    found = loaded("g (string[2] x) => (bool[2] y, bool[2] z) { y = Equal(x, x) z = Identity(y) }", 19, 9)
    made = found.run({"x": np.array(["a", "b"], object)}, engine="reference")
    assert made["y"].tolist() == made["z"].tolist() == [True, True]
    cast = loaded("g (string[2] x) => (float[2] y) { y = Cast<to=1>(x) }")
    assert cast.run({"x": np.array(["1.5", "2"], object)}, engine="reference")["y"].tolist() == [1.5, 2]
    with pytest.raises(fw.DtypeError, match=r"\(Cast\): object is not cast to float32 here; let an engine do it"):
        cast.run({"x": np.array(["1.5", "2"], object)})


def test_an_engine_that_cannot_says_so() -> None:
    proto = model("g (float[4] x) => (float[4] y) { y = other.Thing(x) }")
    proto.opset_import.add(domain="other", version=1)
    with pytest.raises(fw.EngineError, match=r"the node that makes 'y'.*: reference does not run Thing"):
        fw.load(proto).run([data(4)], engine="reference")


def test_steps_are_observed() -> None:
    seen: list[Any] = []
    found = loaded("g (float[3,4] x) => (float[1,1] y) { n = Neg(x) y = ReduceSum(n) }")
    found.run([X], observe=seen.append)
    assert [(s.operator, s.by, s.read, s.written, s.done, s.total) for s in seen] == [
        ("Neg", "numpy", 48, 48, 1, 2),
        ("ReduceSum-13", "foldwise", 48, 4, 2, 2),
    ]
    assert all(s.seconds >= 0 and s.label for s in seen)
