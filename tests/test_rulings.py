"""Where the specifications are silent or contradict themselves: the rulings R-1 to R-29, each by a call.

The code cites them by number. R-30 is about comparing versions, not about calls.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import foldwise as fw
from foldwise.operators import Schema

SCHEMAS = fw.operators()
ONNX = [schema for schema in SCHEMAS if schema.dialect == "onnx"]
OPENVINO = [schema for schema in SCHEMAS if schema.dialect == "openvino"]
REDUCTIONS = [schema for schema in ONNX if schema.kind == "reduce"]
BY_ATTRIBUTE = [schema for schema in REDUCTIONS if len(schema.inputs) == 1]
BY_INPUT = [schema for schema in REDUCTIONS if len(schema.inputs) == 2]
X = np.arange(6, dtype=np.float32).reshape(2, 3) + 1


def each(schemas: list[Schema] | tuple[Schema, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("schema", schemas, ids=lambda schema: schema.full_name)


def run(name: str, *inputs: Any, **named: Any) -> Any:
    return fw.operator(name)(*inputs, **named)


def plain(schema: Schema) -> Any:
    """An array that the version takes."""
    return X > 2 if schema.dtypes == ("bool",) else X


def along(schema: Schema, axes: Any, x: Any = None, lenient: bool = False, **named: Any) -> Any:
    """The call over these axes, whichever way this version is told of them."""
    operator = fw.operator(schema.full_name, lenient=lenient)
    return operator(plain(schema) if x is None else x, axes=axes, **named)


def test_r1_when_axes_is_an_input() -> None:
    for schema in REDUCTIONS:
        assert (len(schema.inputs) == 2) == (schema.version >= (13 if schema.name == "ReduceSum" else 18))


@each(SCHEMAS)
def test_r2_the_default_of_keepdims(schema: Schema) -> None:
    if schema.kind == "scan":
        return
    result = along(schema, [1]) if schema.kind == "reduce" else run(schema.full_name, X, axis=1)
    assert result.shape == ((2, 1) if schema.dialect == "onnx" else (2,))


@each([schema for schema in SCHEMAS if schema.kind == "reduce"])
def test_r3_negative_axes_in_every_version(schema: Schema) -> None:
    assert np.array_equal(along(schema, [-2]), along(schema, [0]))


@each([schema for schema in ONNX if schema.kind == "reduce" and schema.version in (11, 12)])
def test_r4_empty_sets_and_rank_0_of_versions_11_and_12(schema: Schema) -> None:
    first = fw.operator(schema.name, version=1)
    for x in (np.zeros((0, 2), np.float32), np.float32(3)):
        np.testing.assert_array_equal(run(schema.full_name, x), first(x))


@each(BY_ATTRIBUTE)
def test_r5_an_empty_list_of_axes(schema: Schema) -> None:
    assert np.array_equal(along(schema, []), run(schema.full_name, X))
    assert along(schema, []).shape == (1, 1)


@each([schema for schema in SCHEMAS if schema.kind == "reduce"])
def test_r6_duplicate_axes(schema: Schema) -> None:
    for axes, second in (([1, 1], 1), ([0, 1, -2], 2)):
        with pytest.raises(fw.AxisError, match=f"^{schema.label}: axes = .* twice, at positions 0 and {second}"):
            along(schema, axes)
    with pytest.warns(fw.FoldwiseWarning, match=f"^{schema.label}: axes = .* names axis 1 twice") as caught:
        assert np.array_equal(along(schema, [1, 1], lenient=True), along(schema, [1]))
    assert caught[0].filename == __file__


@each([schema for schema in SCHEMAS if schema.kind == "reduce"])
def test_r7_axes_out_of_range(schema: Schema) -> None:
    for axes, place in (([2], 0), ([-3], 0), ([0, 5], 1)):
        with pytest.raises(fw.AxisError) as caught:
            along(schema, axes, lenient=True)
        wanted = f"{schema.label}: axes[{place}] = {axes[place]} is out of range for rank 2 (accepted: -2..1)"
        assert str(caught.value) == wanted
    with pytest.raises(fw.AxisError, match=rf"^{schema.label}: .* rank 0 \(a 0-D tensor has no axis"):
        along(schema, [0], plain(schema)[0, 0])


STEPS: dict[str, Callable[[Any], Any]] = {"x": lambda x: x, "|x|": np.abs, "x^2": np.square, "log x": np.log}


@each(BY_INPUT)
def test_r8_no_axes_leave_the_steps_on_each_element(schema: Schema) -> None:
    x = np.array([[1.0, 4.0], [9.0, 0.5]]) * (1 if "log" in schema.alone else -1)
    nothing: tuple[Any, ...] = (None, [])
    for axes in nothing:
        for keepdims in (0, 1):
            result = along(schema, axes, x, noop_with_empty_axes=1, keepdims=keepdims)
            np.testing.assert_allclose(result, STEPS[schema.alone](x), rtol=1e-15)
    assert along(schema, [0], x, noop_with_empty_axes=1).shape == (1, 2)


def test_r9_l1_and_l2_of_openvino_over_no_axes() -> None:
    for name in ("openvino:ReduceL1-4", "openvino:ReduceL2-4"):
        assert run(name, -X, []).tolist() == X.tolist()


@pytest.mark.parametrize("name", ["ReduceMax-1", "ReduceMin-1", "openvino:ReduceMax-1", "openvino:ReduceMin-1"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_r10_nan_in_extremes(name: str, dtype: Any) -> None:
    for place in range(40):
        x = np.arange(40).astype(dtype)
        x[place] = np.nan
        assert np.isnan(fw.operator(name)(x, axes=[0])).all()


def test_r11_integers_wrap() -> None:
    top = 2**31 - 1
    assert run("ReduceSum-13", np.array([top, 1], np.int32)).tolist() == [-(2**31)]
    assert run("ReduceProd-18", np.array([2**40, 2**40], np.int64)).tolist() == [0]
    assert run("ReduceL1-18", np.array([-(2**31)], np.int32)).tolist() == [-(2**31)]
    assert run("ReduceSumSquare-18", np.array([2**16, 3], np.int32)).tolist() == [9]
    assert run("CumSum-14", np.array([top, 1, 1], np.int32), 0).tolist() == [top, -(2**31), -top]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_r12_narrow_floats_accumulate_in_wider_ones(dtype: Any) -> None:
    for axis in (0, 1):
        x = np.ones((4096, 2) if axis == 0 else (2, 4096), dtype)
        assert (run("ReduceSum-13", x, [axis]) == 4096).all()
        assert (run("CumSum-14", x, axis).max(axis) == 4096).all()
    assert run("ReduceMean-18", np.full(4096, 30, dtype)).tolist() == [30]
    assert float(run("ReduceL2-18", np.array([300], dtype))[0]) == 300


@each([schema for schema in SCHEMAS if schema.kind == "scan"])
def test_r13_the_axis_of_a_scan_is_0_d(schema: Schema) -> None:
    for axis in ([1], np.array([1], np.int32)):
        with pytest.raises(fw.ShapeError, match=rf"^{schema.label}: input 'axis' must be a 0-D tensor, got int"):
            run(schema.full_name, X, axis)
        with pytest.warns(fw.FoldwiseWarning, match=rf"^{schema.label}: input 'axis'"):
            result = fw.operator(schema.full_name, lenient=True)(X, axis)
        assert np.array_equal(result, run(schema.full_name, X, 1))
    for wrong in ([], [0, 1], [[0]]):
        with pytest.raises(fw.ShapeError, match=f"^{schema.label}: input 'axis' must be a 0-D int32 or int64 tensor"):
            fw.operator(schema.full_name, lenient=True)(X, wrong)


def test_r14_the_mean_of_nothing() -> None:
    for version in (1, 11, 13, 18):
        operator = fw.operator("ReduceMean", version)
        assert np.isnan(operator(np.zeros((0, 2), np.float32), axes=[0])).all()
        with pytest.raises(fw.ShapeError, match=rf"^ReduceMean-{version}: .* nothing along axes \[0\].* no int32"):
            operator(np.zeros((0, 2), np.int32), axes=[0])
        assert operator(np.zeros((0, 2), np.int32), axes=[1]).shape == (0, 1)  # no result, nothing to refuse
    for dtype in (np.float32, np.int8, ml_dtypes.bfloat16):
        assert run("openvino:ReduceMean-1", np.zeros((0, 2), dtype), 0).tolist() == [0, 0]


def test_r15_the_extremes_of_nothing_in_openvino() -> None:
    for dtype in (np.int16, np.uint32, np.int64):
        assert run("openvino:ReduceMax-1", np.zeros(0, dtype), 0) == np.iinfo(dtype).min
        assert run("openvino:ReduceMin-1", np.zeros(0, dtype), 0) == np.iinfo(dtype).max
    assert run("openvino:ReduceMax-1", np.zeros(0, np.float32), 0) == -np.inf
    assert run("openvino:ReduceMin-1", np.zeros(0, np.float32), 0) == np.inf


def test_r16_integer_means() -> None:
    assert run("ReduceMean-18", np.array([-1, -2], np.int32)).tolist() == [-1]
    assert run("ReduceMean-18", np.array([7, 8], np.int32)).tolist() == [7]
    high = 2**63 - 1
    assert run("ReduceMean-18", np.array([high, high, high - 3], np.int64)).tolist() == [high - 1]
    assert run("openvino:ReduceMean-1", np.full(10, 200, np.uint8), 0) == 200


def test_r17_integer_l2() -> None:
    assert run("ReduceL2-18", np.array([1, 2], np.int32)).tolist() == [2]
    assert run("ReduceL2-18", np.array([46341], np.int32)).tolist() == [46341]
    for value in (94906267, 2**31 - 1, 3037000500, 2**62 + 1):
        assert run("ReduceL2-18", np.array([value, 0], np.int64)).tolist() == [value]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_r18_integer_logarithms(dtype: str) -> None:
    for version in (1, 11, 13, 18):
        assert run(f"ReduceLogSum-{version}", np.array([12, 8], dtype)).tolist() == [2]
        assert run(f"ReduceLogSumExp-{version}", np.array([3, 3, 3], dtype)).tolist() == [4]
        with pytest.raises(fw.OverflowedError, match=rf"^ReduceLogSum-{version}: .*data.* {dtype}, .*not finite"):
            run(f"ReduceLogSum-{version}", np.array([0, 0], dtype))
        for name in ("ReduceLogSum", "ReduceLogSumExp"):
            with pytest.raises(fw.ShapeError, match=rf"^{name}-{version}: .*nothing along axes \[0\]"):
                run(f"{name}-{version}", np.zeros(0, dtype))
    limits = np.iinfo(dtype)
    found = run("ReduceLogSumExp-18", np.full(3, limits.max, dtype))  # is one more, of 64 bits as float64 has it: R-11
    assert found.tolist() == [limits.min]
    for name in ("ReduceLogSum-28", "ReduceLogSumExp-28"):
        with pytest.raises(fw.DtypeError, match=rf"^{name}: .* got {dtype} of shape \(2,\)"):
            run(name, np.array([12, 8], dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_r19_log_sum_exp_is_shifted(dtype: Any) -> None:
    inf, nan = math.inf, math.nan
    cases = {
        (1000, 1000): 1000 + math.log(2),
        (-1000, -1000): -1000 + math.log(2),
        (inf, -inf): inf,
        (-inf, -inf): -inf,
        (inf, inf): inf,
        (-inf, 3): 3,
        (1, nan): nan,
        (inf, nan): nan,
    }
    for values, wanted in cases.items():
        result = run("ReduceLogSumExp-18", np.array(values, dtype))
        np.testing.assert_allclose(result, [wanted], rtol=np.finfo(dtype).eps)
    assert run("ReduceLogSumExp-18", dtype(1000)) == 1000


def test_r20_l2_of_float64_stays_float64() -> None:
    assert run("ReduceL2-18", np.array([1.0, 2.0])).tolist() == [math.sqrt(5)]


@each([schema for schema in ONNX if schema.name == "ReduceSumSquare"])
def test_r21_squares_keep_their_dtype(schema: Schema) -> None:
    for dtype in schema.dtypes:
        x = np.arange(4).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        assert run(schema.full_name, x).dtype == x.dtype


@each(SCHEMAS)
def test_r22_flags_are_0_or_1(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    for attribute in schema.attributes:
        if attribute.type not in ("flag", "boolean"):
            continue
        wrong: list[Any] = [2, -1, 1.0, "1", None, [1], np.array([1])]
        right: list[Any] = [True, np.True_, np.int64(1), np.array(1)]
        for value in wrong:
            with pytest.raises(
                fw.OptionError, match=rf"^{schema.label}: attribute '{attribute.name}' = .*accepted are"
            ):
                operator(plain(schema), *[0] * (len(schema.inputs) - 1), **{attribute.name: value})
        for value in right:
            more = [0 if schema.kind == "scan" or schema.dialect == "openvino" else [0]] * (len(schema.inputs) - 1)
            result = operator(plain(schema), *more, **{attribute.name: value})
            assert np.array_equal(result, operator(plain(schema), *more, **{attribute.name: 1}))


@each(BY_INPUT)
def test_r23_axes_of_onnx_are_1_d(schema: Schema) -> None:
    for axes, shape in ((1, r"\(\)"), ([[1]], r"\(1, 1\)"), (np.zeros((1, 0), np.int64), r"\(1, 0\)")):
        with pytest.raises(
            fw.ShapeError, match=rf"^{schema.label}: input 'axes' must be a 1-D int64 .*int64 of shape {shape}"
        ):
            along(schema, axes, lenient=True)
    for dtype in ("int32", "uint64", "float64", "bool"):
        with pytest.raises(fw.DtypeError) as caught:
            along(schema, np.array([0, 1], dtype))
        wanted = f"{schema.label}: input 'axes' must be a 1-D int64 tensor, got {dtype} of shape (2,)"
        assert str(caught.value) == wanted


@each([schema for schema in SCHEMAS if schema.kind != "reduce"])
def test_r24_rank_0_has_no_axis(schema: Schema) -> None:
    more = [0] if schema.kind == "scan" else []
    with pytest.raises(
        fw.AxisError, match=rf"^{schema.label}: axis = 0 is out of range for rank 0 \('.*rank 1 or more"
    ):
        run(schema.full_name, np.float32(1), *more)


def test_r25_openvino_scans_axis_0_when_none_is_given() -> None:
    assert np.array_equal(run("openvino:CumSum-3", X), run("openvino:CumSum-3", X, 0))


def test_r26_truths_have_extremes() -> None:
    x = np.array([[True, False], [True, True]])
    assert run("ReduceMax-20", x, [1]).tolist() == [[True], [True]]
    assert run("ReduceMin-20", x, [1]).tolist() == [[False], [True]]
    empty = np.zeros((0, 1), bool)
    assert run("ReduceMax-20", empty, [0]).tolist() == [[False]]
    assert run("ReduceMin-20", empty, [0]).tolist() == [[True]]


@each([schema for schema in [*BY_INPUT, *OPENVINO] if schema.kind == "reduce" and schema.alone == "x"])
def test_r27_no_axes_copy_every_bit(schema: Schema) -> None:
    if schema.dtypes == ("bool",):
        x = np.array([True, False])
    else:
        x = np.array([0x80000000, 0x7FC00001, 0xFF800000, 0x7F800001, 1], np.uint32).view(np.float32)
    named: dict[str, Any] = {} if schema.dialect == "openvino" else {"noop_with_empty_axes": 1}
    for given in (x, x.astype(x.dtype.newbyteorder()) if x.itemsize == 1 else x.byteswap().view(">f4"), x[::-1][::-1]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = along(schema, [], given, **named)
        assert result.dtype == x.dtype
        assert result.tobytes() == x.tobytes()
        assert not np.shares_memory(result, x)


def test_r28_openvino_in_full_width() -> None:
    big = np.array([2**31, 2**31, 5])
    assert run("openvino:ReduceSum-1", big, 0) == 2**32 + 5
    assert run("openvino:CumSum-3", np.array([2**40, 1])).tolist() == [2**40, 2**40 + 1]
    assert run("openvino:ReduceMax-1", np.array([1e300, 1.0]), 0) == 1e300
    assert run("openvino:ReduceMax-1", np.array([2**31 - 1, 1], np.int32), 0) == 2**31 - 1


def test_r29_openvino_integers_wrap() -> None:
    assert run("openvino:ReduceSum-1", np.array([200, 100], np.uint8), 0) == 44
    assert run("openvino:ReduceSum-1", np.array([2**15 - 1, 1], np.int16), 0) == -(2**15)
    assert run("openvino:ReduceProd-1", np.array([16, 16], np.int8), 0) == 0


def test_every_ruling_that_touches_a_call_has_a_test() -> None:
    named = {int(name.split("_")[1][1:]) for name in globals() if name.startswith("test_r")}
    assert named == set(range(1, 30))
