"""Models at their edges: names that clash, memory that is shared, bodies that do not fit, values that just fit."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import data, loaded, model

import foldwise as fw


def test_a_functions_branch_hides_nothing_of_its_caller() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18, "l" : 1]>'
        "g (float[2,3] x, bool c) => (float[2,3] y) { r = Neg(x) y = l.f(r, c) }"
        '<domain: "l", opset_import: ["" : 18]> f (a, c) => (o) {'
        " o = If<then_branch = t () => (q) { r = Constant<value_float = 100.0>() q = Add(r, a) },"
        " else_branch = e () => (r2) { r2 = Abs(a) }>(c) }"
    )
    found = fw.load(proto)
    x = data(2, 3)
    assert np.array_equal(found.run({"x": x, "c": True})["y"], 100 - x)
    assert np.array_equal(found.run({"x": x, "c": False})["y"], abs(x))


def test_outputs_of_branches_are_nobody_elses_memory() -> None:
    text = (
        "g (bool c, float[2] x) => (float[2] y, float[2] a, float[2] b, float[2,2] e) <int64[2] n = {2, 2}> {"
        " y = If<then_branch = t () => (float[2] k) <float[2] k = {1, 2}> { u = Neg(k) },"
        " else_branch = f () => (float[2] m) { m = Constant<value_floats = [3.0, 4.0]>() }>(c)"
        " s = Neg(x) a = Identity(s) b = Identity(s) e = Expand(s, n) }"
    )
    found = loaded(text)
    for model_of in (lambda: found, lambda: copy.deepcopy(found), lambda: pickle.loads(pickle.dumps(found))):
        made = model_of().run({"c": True, "x": [1, 2]})
        for value in made.values():
            value += 100
        assert made["a"].tolist() == made["b"].tolist() == [99, 98]
        assert model_of().run({"c": True, "x": [1, 2]})["y"].tolist() == [1, 2]


def test_branches_and_bodies_make_what_their_node_has() -> None:
    for text in (
        "y, z = If<then_branch = t () => (a) { a = Neg(x) }, else_branch = e () => (b) { b = Neg(x) }>(c)",
        "y = If<then_branch = t () => (a, a2) { a = Neg(x) a2 = Neg(x) }, else_branch = e () => (b) { b = Neg(x) }>(c)",
        "y, z = Loop<body = b (int64 i, bool g) => (h, s) { h = Identity(g) s = Neg(x) }>(, c)",
        "y, z = Scan<num_scan_inputs = 1, body = b (row) => (s) { s = Neg(row) }>(x)",
        "y = Scan<num_scan_inputs = 9, body = b (row) => (s) { s = Neg(row) }>(x)",
    ):
        with pytest.raises(fw.ModelError, match=r"outputs; its graph|which do not go with"):
            loaded(f"g (float[2] x, bool c) => (y) {{ {text} }}").run({"x": [1, 2], "c": True})


def test_no_loop_is_endless() -> None:
    inner = "v = Loop<body = n (int64 j, bool k, float w) => (k2, w2) { k2 = Identity(k) w2 = Neg(w) }>(many, on, u)"
    for text in (
        "y = Loop<body = b (int64 i, bool g, float u) => (h, v) { h = Identity(g) v = Neg(u) }>(, on, x)",
        f"y = Loop<body = b (int64 i, bool g, float u) => (h, v) {{ h = Identity(g) {inner} }}>(many, on, x)",
    ):
        looping = fw.load(
            model(f"g (bool on, int64 many, float x) => (float y) {{ {text} }}"), limits=fw.Limits(turns=1000)
        )
        with pytest.raises(fw.LimitError, match=r"the turns of all loops of this run are 1,001; the limit turns is"):
            looping.run({"on": True, "many": 999, "x": 1.0})
        for _ in range(3):
            assert looping.run({"on": "many" in text, "many": 20, "x": 1.0})["y"] == 1


@pytest.mark.parametrize(("text", "inputs", "wanted"), [
    ("y = Range(a, b, c)", {"a": np.array(0.0), "b": np.array(0.9), "c": np.array(0.3)}, [0, 0.3, 0.6]),
    ("y = Slice(a, b, c, d, e)", {"a": np.arange(4.0), "b": [-100], "c": [-200], "d": [0], "e": [-1]}, [0]),
    ("y = Pow(a, b)", {"a": np.array([-1.0], np.float32), "b": [2**24 + 1]}, [-1]),
    ("y = Pow(a, b)", {"a": np.array([1, -1], np.int32), "b": [2**32 + 1, 2**31 + 1]}, [1, -1]),
    ("y = Sigmoid(a)", {"a": np.array([-12], np.float16)}, [np.float16(6.1e-6)]),
])  # fmt: skip
def test_plumbing_at_its_edges(text: str, inputs: dict[str, Any], wanted: list[float]) -> None:
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    proto = model(f"g () => (y) {{ {text} }}")
    for name, array in arrays.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, None))
    np.testing.assert_allclose(fw.load(proto).run(arrays)["y"], wanted, rtol=0.02)


def test_floats_are_asked_for_and_integers_refused() -> None:
    for operator in ("Sqrt", "Exp", "Log", "Tanh", "Sigmoid"):
        with pytest.raises(fw.DtypeError, match=f"{operator} takes floats, got int32: cast first"):
            loaded(f"g (int32[2] x) => (y) {{ y = {operator}(x) }}").run([[1, 2]])
    with pytest.raises(fw.ModelError, match=r"input 'x' is missing"):
        loaded("g (float[2] x) => (y) { y = Neg(x) }").run([None])
    assert loaded("g (uint8[2] x) => (y) { y = Identity(x) }").run([[1, 2]])["y"].dtype == np.uint8


def test_numpy_warns_of_nothing_in_a_model() -> None:
    """Neither of constants, nor in a run, nor in the graphs inside; around it the caller's settings hold."""
    found = loaded(
        "g (float[N] x, int64 n) => (float[N] y, float[N] z, float[N] w) <float[1] zero = {0}> {"
        " c = Log(zero) b = Sqrt(c) y = Div(x, zero) a = Sqrt(x) z = Add(a, b)"
        " w = Loop<body = t (int64 i, bool g, float[N] v) => (h, u) { h = Identity(g) u = Div(v, zero) }>(n, , x) }"
    )
    with np.errstate(all="raise"):
        made = found.run({"x": [1, -1, 0], "n": 2})
        assert np.geterr() == dict.fromkeys(("divide", "over", "under", "invalid"), "raise")
    assert np.array_equal(made["y"], [np.inf, -np.inf, np.nan], equal_nan=True)
    assert np.array_equal(made["w"], made["y"], equal_nan=True)
    assert np.isnan(made["z"]).all()


def test_what_fits_once_is_looked_at_again_when_it_changes() -> None:
    found = loaded("g (float[N] x, float[M] y) => (float[K] z) { z = Add(x, y) }")
    for n, m in ((3, 3), (3, 3), (3, 1), (1, 3), (3, 3)):
        assert found.run([np.ones(n, np.float32), np.ones(m, np.float32)])["z"].tolist() == [2, 2, 2]
    for n, m in ((3, 4), (4, 3), (2, 3)):
        with pytest.raises(fw.ShapeError, match="do not broadcast to one"):
            found.run([np.ones(n, np.float32), np.ones(m, np.float32)])


def test_inputs_that_are_done_with_were_not_made() -> None:
    """All values of a run may take eight times what it is given; x itself is none of them."""
    text = "g (float[4] x) => (float[M,4] z) <int64[2] n = {%d, 4}> { y = Neg(x) z = Expand(y, n) }"
    limits = fw.Limits(grown_bytes=0)
    x = np.ones(4, np.float32)
    given = x.nbytes + 16  # the shape is a constant of the model
    fits = 8 * given // x.nbytes - 1  # beside y
    assert fw.load(model(text % fits), limits=limits).run([x])["z"].shape == (fits, 4)
    with pytest.raises(fw.LimitError, match="the limit grown_bytes is 0"):
        fw.load(model(text % (fits + 1)), limits=limits).run([x])
