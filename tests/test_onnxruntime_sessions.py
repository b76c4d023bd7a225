"""foldwise inside onnxruntime: sessions of every kind, their options, opsets, threads and processes."""

from __future__ import annotations

import concurrent.futures
import gc
import pathlib
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import processes
import pytest
from onnx import helper
from onnx_models import model

import foldwise as fw
from foldwise import engine

ort = pytest.importorskip("onnxruntime")

from onnxruntime_sessions import FLOATS, NEWEST, quiet, same_bits, session  # noqa: E402

import foldwise.plugins.onnxruntime as plugin  # noqa: E402


def test_opsets_live_together() -> None:
    """The attribute of one version is the input of another; sessions of both are made, then run, in turns."""
    x = FLOATS
    texts = {
        opset: "g (float[N,M] x) => (float[N] y) { "
        + ("y = ReduceMean <axes = [1], keepdims = 0> (x) }" if opset < 18 else
           "a = Constant <value_ints = [1]> () y = ReduceMean <keepdims = 0> (x, a) }")
        for opset in (7, 11, 12, 13, 17, 18, 20, NEWEST)
    }  # fmt: skip
    made = [session(model(text, opset)) for opset, text in texts.items() for _ in range(2)]
    for each in (*made, *reversed(made)):
        assert same_bits(each.run(None, {"x": x})[0], fw.mean(x, axis=1))


CONTROL = {
    "If": """g (float[N,M] x, bool c) => (float[N] y) {
        a = Constant <value_ints = [1]> ()
        y = If (c) <then_branch = t () => (float[N] p) { p = ReduceSum <keepdims = 0> (x, a) },
                    else_branch = e () => (float[N] q) { q = ReduceMax <keepdims = 0> (x, a) }>
    }""",
    "Loop": """g (float[N,M] x, bool c) => (float[N] y) {
        a = Constant <value_ints = [1]> ()
        n = Constant <value = int64 {3}> ()
        zero = Constant <value = float {0}> ()
        s = ReduceSum <keepdims = 0> (x, a)
        start = Mul (s, zero)
        y = Loop (n, c, start) <body = b (int64 i, bool on, float[N] last) => (bool still, float[N] next) {
            still = Identity (on)
            next = ReduceSum <keepdims = 0> (x, a)
        }>
    }""",
    "Scan": """g (float[N,M] x, bool c) => (float[N] y) {
        y = Scan (x) <num_scan_inputs = 1, body = b (float[M] row) => (float s) {
            s = ReduceSum <keepdims = 0> (row)
        }>
    }""",
    "function": """g (float[N,M] x, bool c) => (float[N] y) { y = own.Rows (x) }
        <domain: "own", opset_import: ["" : 18]> Rows (v) => (w) {
            a = Constant <value_ints = [1]> ()
            w = ReduceSum <keepdims = 0> (v, a)
        }""",
}


@pytest.mark.parametrize("kind", CONTROL)
@pytest.mark.parametrize("level", ["ORT_ENABLE_ALL", "ORT_DISABLE_ALL"])
def test_nodes_in_bodies(kind: str, level: str) -> None:
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "own" : 1]>\n{CONTROL[kind]}')
    options = quiet(graph_optimization_level=getattr(ort.GraphOptimizationLevel, level))
    (result,) = session(made, options).run(None, {"x": FLOATS, "c": np.array(True)})
    assert same_bits(result, fw.sum(FLOATS, axis=1))
    assert not same_bits(result, FLOATS.sum(1)), "these data tell ours from a plain sum"


def test_a_function_of_another_opset_is_not_read_as_the_models() -> None:
    """onnxruntime puts its body among nodes of the model's opset, and refuses what does not go with it."""
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
        g (float[N,M] x) => (float[N] y) { y = own.Rows (x) }
        <domain: "own", opset_import: ["" : 13]> Rows (v) => (w) { w = ReduceMean <axes = [1], keepdims = 0> (v) }"""
    with pytest.raises(Exception, match="ReduceMean-18: 'axes' is an input in this version, not an attribute"):
        session(onnx.parser.parse_model(text))


TWO_WAYS = """g (float[N,M] x, int32[N,M] k) => (float[M] y, int32[M] z) {
    a = Constant <value_ints = [0]> ()
    y = ReduceLogSumExp <keepdims = 0> (x, a)
    z = ReduceMean <keepdims = 0> (k, a)
}"""
"""The core runs the first node, Python the second."""


@pytest.mark.parametrize("mode", ["ORT_SEQUENTIAL", "ORT_PARALLEL"])
def test_threads(mode: str) -> None:
    """One session from many threads, and onnxruntime's own threads: nobody waits for anybody for ever."""
    options = quiet(execution_mode=getattr(ort.ExecutionMode, mode), inter_op_num_threads=3, intra_op_num_threads=2)
    made = session(model(TWO_WAYS), options)
    whole = np.arange(2400, dtype=np.int32).reshape(40, 60)
    wanted = fw.logsumexp(FLOATS, axis=0), fw.operator("ReduceMean")(whole, [0], keepdims=0)

    def run(_: int) -> bool:
        found = made.run(None, {"x": FLOATS, "k": whole})
        return all(map(same_bits, found, wanted))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(200)))


def test_sessions_are_made_in_many_threads_at_once() -> None:
    def made(opset: int) -> bool:
        text = "g (float[N,M] x) => (float[N] y) { y = ReduceL2 <axes = [1], keepdims = 0> (x) }"
        return same_bits(session(model(text, opset)).run(None, {"x": FLOATS})[0], fw.l2(FLOATS, axis=1))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(made, [7, 11, 13, 15] * 10))


def test_large_arrays_are_shared_among_threads() -> None:
    x = np.random.default_rng(2).standard_normal((3000, 1000)).astype(np.float32)
    made = session(model("g (float[N,M] x) => (float[M] y) { y = ReduceSum <axes = [0], keepdims = 0> (x) }", 12))
    for count in (1, 3):
        fw.set_num_threads(count)
        assert same_bits(made.run(None, {"x": x})[0], fw.sum(x, axis=0))


@pytest.mark.parametrize(
    "text",
    [
        "g (float[4,6] x) => (int64[1] y) { s = Shape (x) y = ReduceProd (s) }",
        "g (float[4,6] x) => (int64[1] y) { s = Constant <value_ints = [4, 6]> () y = ReduceProd (s) }",
        """g (float[4,6] x) => (int64[1] y) {
            s = Constant <value_ints = [46, 52]> ()
            m = ReduceMean (s)
            half = Constant <value_ints = [25]> ()
            y = Sub (m, half)
        }""",
    ],
)
def test_reductions_of_constants(text: str) -> None:
    """Where onnxruntime wants to fold constants, for which it has no use of other people's kernels."""
    x = np.ones((4, 6), np.float32)
    registered = ort.InferenceSession(model(text).SerializeToString(), plugin.register(quiet(), 18))
    for each in (session(model(text)), registered):
        assert each.run(None, {"x": x})[0].tolist() == [24]


def test_optimizers_that_were_switched_off_stay_off() -> None:
    key = "optimization.disable_specified_optimizers"
    options = quiet()
    options.add_session_config_entry(key, "ReshapeFusion")
    for _ in range(2):
        plugin.register(options, 18)
        assert options.get_session_config_entry(key) == "ReshapeFusion;ConstantFolding"
    text = "g (float[4,6] x) => (int64[1] y) { s = Shape (x) y = ReduceProd (s) }"
    made = session(model(text), disabled_optimizers={"ReshapeFusion"})
    assert made.run(None, {"x": np.ones((4, 6), np.float32)})[0].tolist() == [24]


def test_a_layer_normalization_stays_one() -> None:
    """onnxruntime knows patterns by their operators' versions: it must find them as before."""
    text = """g (float[N,60] x) => (float[N,60] y) {
        a = Constant <value_ints = [-1]> ()
        two = Constant <value = float {2}> ()
        tiny = Constant <value = float {0.00001}> ()
        scale = Constant <value_floats = SCALE> ()
        mean = ReduceMean (x, a)
        d = Sub (x, mean)
        square = Pow (d, two)
        variance = ReduceMean (square, a)
        safe = Add (variance, tiny)
        root = Sqrt (safe)
        z = Div (d, root)
        y = Mul (z, scale)
    }""".replace("SCALE", str([1.5] * 60))
    wanted = ort.InferenceSession(model(text).SerializeToString(), quiet()).run(None, {"x": FLOATS})
    np.testing.assert_allclose(session(model(text)).run(None, {"x": FLOATS})[0], wanted[0], rtol=1e-4, atol=1e-5)


def test_shapes_that_the_model_states_stay() -> None:
    text = """g (float[N,5] x, int64[2] s) => (float[A,B] y, float[C] z) {
        a = Constant <value = int64 {1}> ()
        r = Reshape (x, s)
        one = Constant <value_ints = [1]> ()
        y = CumSum (r, a)
        z = ReduceMax <keepdims = 0> (y, one)
    }"""
    assert [each.shape for each in session(model(text)).get_outputs()] == [["A", "B"], ["C"]]


def test_bfloat16_goes_in_and_out_beside_others() -> None:
    text = """g (bfloat16[N,M] x, float[N,M] k) => (bfloat16[N] y, float[N] z, bfloat16 t) {
        a = Constant <value_ints = [1]> ()
        y = ReduceSum <keepdims = 0> (x, a)
        z = ReduceSum <keepdims = 0> (k, a)
        t = ReduceMax <keepdims = 0> (x)
    }"""
    x = FLOATS.astype(ml_dtypes.bfloat16)
    made = session(model(text))
    wanted = [fw.sum(x, axis=1), fw.sum(FLOATS, axis=1), np.asarray(fw.max(x))]
    assert all(map(same_bits, made.run(None, {"x": x, "k": FLOATS}), wanted))
    found = made.run(["t", "y"], {"x": np.asfortranarray(x), "k": FLOATS})
    del made
    gc.collect()
    assert same_bits(found[0], wanted[2])
    assert same_bits(found[1], wanted[0])
    assert found[1].flags.writeable


def test_exact() -> None:
    x = FLOATS * np.float32(10.0) ** np.random.default_rng(3).integers(-30, 30, FLOATS.shape).astype(np.float32)
    text = """g (float[N,M] x) => (float[N] y, float[N,M] z, float[N] m) {
        a = Constant <value_ints = [1]> ()
        one = Constant <value = int64 {1}> ()
        y = ReduceSum <keepdims = 0> (x, a)
        z = CumSum (x, one)
        m = ReduceMax <keepdims = 0> (x, a)
    }"""
    wanted = fw.sum(x, axis=1, accuracy="exact"), fw.cumsum(x, axis=1, accuracy="exact"), fw.max(x, axis=1)
    assert not same_bits(wanted[0], fw.sum(x, axis=1))
    assert all(map(same_bits, session(model(text), accuracy="exact").run(None, {"x": x}), wanted))
    assert same_bits(session(model(text)).run(None, {"x": x})[0], fw.sum(x, axis=1))
    with pytest.raises(fw.OptionError, match="register: accuracy = 'best'; accepted are"):
        session(model(text), accuracy="best")


# ---- session options


SUM = "g (float[N,M] x) => (float[N] y) { a = Constant <value_ints = [1]> () y = ReduceSum <keepdims = 0> (x, a) }"


def registered_runs(options: Any, opset: int) -> bool:
    made = ort.InferenceSession(model(SUM, opset).SerializeToString(), options)
    return same_bits(made.run(None, {"x": FLOATS})[0], fw.sum(FLOATS, axis=1))


def test_options_for_a_session_class_of_ones_own(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sum.onnx"
    path.write_bytes(model(SUM).SerializeToString())
    for given in (18, path, str(path), path.read_bytes()):
        options = quiet()
        assert plugin.register(options, given) is options
        assert registered_runs(options, 18)
    assert same_bits(plugin.InferenceSession(path).run(None, {"x": FLOATS})[0], fw.sum(FLOATS, axis=1))


def test_options_are_registered_once() -> None:
    options = plugin.register(quiet(), 18)
    plugin.register(options, 18)
    plugin.register(options, 19)  # the same versions of all operators
    assert registered_runs(options, 18)
    assert registered_runs(options, 19)
    with pytest.raises(fw.OptionError, match="opset 18, accuracy=\"default\", strict=False; for opset 13, accuracy"):
        plugin.register(options, 13)
    with pytest.raises(fw.OptionError, match='for opset 18, accuracy="exact", strict=False give other SessionOptions'):
        plugin.register(options, 18, accuracy="exact")


def test_options_are_not_kept_alive() -> None:
    options = plugin.register(quiet(), 18)
    gone = weakref.ref(options)
    del options
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("opset", "why"),
    [
        *((opset, f"onnxruntime [0-9.]+ does not run opset {opset}: ") for opset in range(NEWEST + 1, 29)),
        (29, r"ONNX's opset 29 is not known here; known are 1\.\.28"),
        (1000, "ONNX's opset 1000 is not known here"),
        (0, "ONNX's opset 0 is not known here"),
    ],
)
def test_opsets_that_onnxruntime_refuses_stay_refused(opset: int, why: str) -> None:
    options = quiet()
    with pytest.raises(fw.EngineError, match=why):
        plugin.register(options, opset)
    plugin.register(options, 18)
    assert registered_runs(options, 18)


def test_the_opset_is_read_from_the_model() -> None:
    imports = [helper.make_opsetid("other", 3), helper.make_opsetid("ai.onnx", 17)]
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node] * 300, "g" * 300, [], [], doc_string="d" * 70000)
    made = helper.make_model(graph, opset_imports=imports, producer_name="p", model_version=1 << 40)
    assert plugin._opset_of(made.SerializeToString()) == 17
    del made.opset_import[1]
    assert plugin._opset_of(made.SerializeToString()) is None
    options = quiet()
    assert plugin.register(options, made.SerializeToString()) is options
    complete = model(SUM).SerializeToString()
    for cut in range(5, len(complete) - 8):
        with pytest.raises(fw.ModelError, match="ends in the middle of a field"):
            plugin.register(quiet(), complete[:cut])
    for junk in (b"\x0f", b"\x38\x00\x00\x00ORTM", b"not a model"):
        with pytest.raises(fw.ModelError, match="this is no ONNX model"):
            plugin.register(quiet(), junk)


def test_the_library_alone_says_what_to_do() -> None:
    with pytest.raises(Exception, match=r"foldwise: register its operators with foldwise\.plugins\.onnxruntime"):
        quiet().register_custom_ops_library(engine.LIBRARY)


# ---- processes


def test_fork_and_the_end_of_the_process() -> None:
    script = """
import os, sys
import numpy as np, onnx
import foldwise as fw
from foldwise.plugins.onnxruntime import InferenceSession
text = '<ir_version: 8, opset_import: ["" : 12]> g (float[N] x, int32[N] k) => (float y, int32 z)'
made = onnx.parser.parse_model(text + '{ y = ReduceSum <keepdims=0> (x) z = ReduceMean <keepdims=0> (k) }')
session = InferenceSession(made.SerializeToString())
x = np.ones(1 << 20, np.float32)
def run():
    y, z = session.run(None, {"x": x, "k": x.astype(np.int32)})
    return y == 1 << 20 and z == 1
assert run()
child = os.fork()
if child == 0:
    os._exit(0 if run() else 1)
assert os.waitpid(child, 0)[1] == 0
assert run()
print("well")
"""
    assert processes.output("-W", "ignore::DeprecationWarning", "-c", script) == "well\n"


@pytest.mark.parametrize("version", ["1.19.2", None])
def test_onnxruntime_that_is_too_old_or_missing(version: str | None) -> None:
    script = f"""
import sys, types
sys.modules["onnxruntime"] = stand_in = types.ModuleType("onnxruntime") if {version!r} else None
if stand_in:
    stand_in.__version__ = {version!r}
try:
    import foldwise.plugins.onnxruntime
except ImportError as error:
    print(error)
"""
    needed = "foldwise.plugins.onnxruntime needs onnxruntime 1.20 or later: pip install 'onnxruntime>=1.20'"
    assert processes.output("-c", script).strip() == needed + (f" (this is {version})" if version else "")
