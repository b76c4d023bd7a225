"""Our reductions inside onnx's reference evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import FAMILY, data, model, official

import foldwise as fw


def evaluated(proto: onnx.ModelProto, *inputs: object) -> list[np.ndarray]:
    evaluator = ReferenceEvaluator(proto, new_ops=fw.reference_ops())
    return evaluator.run(None, dict(zip(evaluator.input_names, inputs, strict=True)))  # type: ignore[no-any-return]


def test_all_of_them_are_there() -> None:
    assert sorted(op.__name__ for op in fw.reference_ops()) == FAMILY
    assert {op.op_domain for op in fw.reference_ops()} == {""}


def test_the_official_tests_of_the_family() -> None:
    cases = [case for case in official().values() if any(n.op_type in FAMILY for n in case.model.graph.node)]
    single = [case for case in cases if len(case.model.graph.node) == 1]
    assert len(single) >= 141
    for case in single:
        for inputs, outputs in case.data_sets:
            for made, wanted in zip(evaluated(case.model, *inputs), outputs, strict=True):
                assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape), case.name
                np.testing.assert_allclose(made, wanted, case.rtol, case.atol, err_msg=case.name)


@pytest.mark.parametrize(("opset", "text"), [
    (1, "y = ReduceSum<axes=[0], keepdims=0>(x)"),
    (11, "y = ReduceSum<axes=[0], keepdims=0>(x)"),
    (13, "k = Constant<value_ints=[0]>() y = ReduceSum<keepdims=0>(x, k)"),
])  # fmt: skip
def test_each_opset_means_its_own_version(opset: int, text: str) -> None:
    x = np.ones((1 << 13, 3), ml_dtypes.bfloat16 if opset >= 13 else np.float16)
    proto = model(f"g (float16[N,3] x) => (float16[3] y) {{ {text} }}", opset, 8)
    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = kind
    (made,) = evaluated(proto, x)
    assert made.dtype == x.dtype
    assert made.tolist() == [1 << 13] * 3
    (theirs,) = ReferenceEvaluator(proto).run(None, {"x": x})
    assert theirs.tolist() != made.tolist(), "the evaluator's own sum stalls, or else this test shows nothing"


def test_what_a_version_does_not_have_is_refused() -> None:
    proto = model("g (float[N,3] x) => (float[3] y) { y = ReduceSum<axes=[0]>(x) }", 13)
    with pytest.raises(TypeError) as caught:  # the evaluator's own, with ours behind it
        evaluated(proto, data(2, 3))
    assert isinstance(caught.value.__cause__, fw.ArgumentError)
    assert "ReduceSum-13: 'axes' is an input in this version" in str(caught.value.__cause__)


def test_inside_functions_and_branches() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "ours" : 1]>'
        "g (float[2,3] x, bool c) => (float[2] y) { y = If<"
        "then_branch = t () => (float[2] a) { a = ours.Total<keep=0>(x) },"
        "else_branch = e () => (float[2] b) { k = Constant<value_ints=[1]>() b = ReduceMax<keepdims=0>(x, k) }>(c) }"
        '<domain: "ours", opset_import: ["" : 11]> Total<keep>(a) => (b) {'
        " b = ReduceSum<axes=[1], keepdims: int = @keep>(a) }"
    )
    x = data(2, 3)
    assert np.array_equal(evaluated(proto, x, np.array(True))[0], x.sum(1))
    assert np.array_equal(evaluated(proto, x, np.array(False))[0], x.max(1))
