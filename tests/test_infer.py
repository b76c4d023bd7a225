"""Type and shape inference, against ONNX's and OpenVINO's own where these are right."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import openvino
import openvino.opset4
import oracle
import pytest
from cases import dtype_of

import foldwise as fw
from foldwise import dtypes
from foldwise.operators import Schema

SCHEMAS = fw.operators()
ONNX = [schema for schema in SCHEMAS if schema.dialect == "onnx"]
OPENVINO = [schema for schema in SCHEMAS if schema.dialect == "openvino"]
Shape = tuple[int | str | None, ...]
SHAPES: list[Shape | None] = [(), (3,), ("N",), (None,), (2, 0), ("N", 3, None), (2, "N", "N", 5), None]


def each(schemas: list[Schema] | tuple[Schema, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("schema", schemas, ids=lambda schema: schema.full_name)


def axes_for(rank: int) -> Iterator[tuple[int, ...]]:
    for axes in oracle.subsets(rank):
        yield tuple(a - rank if a % 2 else a for a in axes)


# ---- ONNX's own


def told_by_onnx(schema: Schema, dtype: str, shape: Shape | None, second: Any, attributes: dict[str, Any]) -> Any:
    """The dtype and shape that onnx infers; `second` is an array, a name of an unknown input, or None."""
    element = onnx.helper.np_dtype_to_tensor_dtype(dtype_of(dtype))
    inputs = [onnx.helper.make_tensor_value_info("x", element, shape)]
    initializers = []
    if isinstance(second, np.ndarray):
        initializers.append(onnx.numpy_helper.from_array(second, "axes"))
    elif second is not None:
        inputs.append(onnx.helper.make_tensor_value_info("axes", onnx.TensorProto.INT64, second))
    node = onnx.helper.make_node(schema.name, ["x"] if second is None else ["x", "axes"], ["y"], **attributes)
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", schema.version)])
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    kind = inferred.graph.output[0].type.tensor_type
    name = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    return name, told_shape(kind) if kind.HasField("shape") else None


def told_shape(kind: Any) -> Shape:
    """Lengths, names and None; what onnx knows nothing of, it gives names of its own making."""
    lengths: list[int | str | None] = []
    for dim in kind.shape.dim:
        named = dim.dim_param if dim.dim_param and not dim.dim_param.startswith("unk__") else None
        lengths.append(dim.dim_value if dim.HasField("dim_value") else named)
    return tuple(lengths)


@each([schema for schema in ONNX if schema.kind == "reduce"])
def test_reductions_agree_with_onnx(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    takes_input = len(schema.inputs) > 1
    for shape, keepdims in itertools.product(SHAPES, (None, 0, 1)):
        flags = {} if keepdims is None else {"keepdims": keepdims}
        for k, axes in enumerate([None, *axes_for(0 if shape is None else len(shape))]):
            dtype = schema.dtypes[k % len(schema.dtypes)]
            if axes == () and not takes_input:
                continue  # make_node refuses an empty list
            if takes_input:
                flags["noop_with_empty_axes"] = k % 2
                second = None if axes is None else np.array(axes, np.int64)
                wanted = told_by_onnx(schema, dtype, shape, second, flags)
                assert operator.infer([dtype], [shape], axes=second, **flags) == wanted
            else:
                attributes = flags if axes is None else {**flags, "axes": list(axes)}
                wanted = told_by_onnx(schema, dtype, shape, None, attributes)
                assert operator.infer([dtype], [shape], **attributes) == wanted


@each([schema for schema in ONNX if schema.kind == "arg"])
def test_searches_agree_with_onnx(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    for shape, keepdims in itertools.product(SHAPES[1:], (0, 1)):
        for axis in range(-1, 0 if shape is None else len(shape)):
            attributes = {"axis": axis, "keepdims": keepdims}
            wanted = told_by_onnx(schema, "float32", shape, None, attributes)
            assert operator.infer(["float32"], [shape], **attributes) == wanted


@each([schema for schema in ONNX if schema.kind == "scan"])
def test_scans_agree_with_onnx(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    for shape in SHAPES[1:]:
        for axis in range(-1, 0 if shape is None else len(shape)):
            wanted = told_by_onnx(schema, "int32", shape, np.array(axis), {"reverse": 1})
            assert operator.infer(["int32"], [shape], axis=axis, reverse=1) == wanted
        wanted = told_by_onnx(schema, "float64", shape, (), {})
        assert operator.infer(["float64", "int64"], [shape, ()]) == wanted


@each([schema for schema in ONNX if len(schema.inputs) > 1 and schema.kind == "reduce"])
def test_unknown_axes_tell_no_less_than_onnx(schema: Schema) -> None:
    """ONNX says nothing then; the rank may still be known."""
    operator = fw.operator(schema.full_name)
    shape: Shape = (2, "N", 4)
    for length in (1, 2, "K", None):
        types, shapes = ["float32", "int64"], [shape, (length,)]
        assert told_by_onnx(schema, "float32", shape, (length,), {}) == ("float32", None)
        assert operator.infer(types, shapes) == ("float32", (None, None, None))
        without = (None, None) if length == 1 else None
        assert operator.infer(types, shapes, keepdims=0) == ("float32", without)
    assert operator.infer(types, [shape, None], keepdims=0) == ("float32", None)
    assert operator.infer(types, [None, (1,)]) == ("float32", None)


@each([schema for schema in ONNX if len(schema.inputs) > 1 and schema.kind == "reduce"])
def test_axes_of_no_elements_are_known(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    types, shapes = ["float32", "int64"], [(2, "N"), (0,)]
    assert operator.infer(types, shapes) == ("float32", (1, 1))
    assert operator.infer(types, shapes, keepdims=0) == ("float32", ())
    assert operator.infer(types, shapes, noop_with_empty_axes=1) == ("float32", (2, "N"))


# ---- OpenVINO's own


@each([schema for schema in OPENVINO if schema.kind == "reduce"])
def test_reductions_agree_with_openvino(schema: Schema) -> None:
    maker = getattr(openvino.opset4, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", schema.name).lower())
    operator = fw.operator(schema.full_name)
    for shape, keep, dtype in itertools.product(SHAPES, (False, True), schema.dtypes[-1:]):
        element = (
            openvino.Type(np.dtype(dtype)) if dtype == "bool" else getattr(openvino.Type, dtypes.BY_NAME[dtype].ir)
        )
        partial = openvino.PartialShape.dynamic() if shape is None else openvino.PartialShape(numbers(shape))
        data = openvino.opset4.parameter(partial, element)
        for axes in axes_for(0 if shape is None else len(shape)):
            node = maker(data, openvino.op.Constant(np.array(axes, np.int64)), keep_dims=keep)
            inferred = operator.infer([dtype], [shape], axes=list(axes), keep_dims=keep)
            assert inferred.dtype == dtype
            assert lengths_of(node) == (None if inferred.shape is None else numbers(inferred.shape))
        for count, unknown in ((1, (1,)), (None, (None,))):
            places = openvino.opset4.parameter(
                openvino.PartialShape([-1 if count is None else count]), openvino.Type.i64
            )
            if shape:
                wanted = lengths_of(maker(data, places, keep_dims=keep))
                found = operator.infer([dtype, "int64"], [shape, unknown], keep_dims=keep).shape
                assert (None if found is None else numbers(found)) == wanted


def numbers(shape: Shape) -> list[int]:
    return [n if isinstance(n, int) else -1 for n in shape]


def lengths_of(node: Any) -> list[int] | None:
    shape = node.get_output_partial_shape(0)
    if shape.rank.is_dynamic:
        return None
    return [d.get_length() if d.is_static else -1 for d in shape]


def test_the_scan_of_openvino_has_a_default_axis() -> None:
    operator = fw.operator("openvino:CumSum-3")
    assert operator.infer(["bfloat16"], [("N", 2)]) == ("bfloat16", ("N", 2))
    with pytest.raises(fw.AxisError, match=r"^CumSum-3: axis = 0 is out of range for rank 0"):
        operator.infer(["bfloat16"], [()])


# ---- inference and calls agree


@each(SCHEMAS)
def test_what_is_inferred_is_what_comes(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    keeps = schema.attribute("keepdims")
    for dtype, shape in itertools.product(schema.dtypes, [(2,), (2, 3), (2, 1, 3)]):
        for axis, keep in itertools.product(range(len(shape)), (0, 1)):
            named: dict[str, Any] = {"axis": axis} if schema.kind != "reduce" else {"axes": [axis]}
            named |= {keeps.name: keep} if keeps else {}
            result = operator(np.ones(shape, dtype_of(dtype)), **named)
            assert operator.infer([dtype], [shape], **named) == (result.dtype.name, result.shape)
            assert operator.infer([None], [shape], **named).shape == result.shape


# ---- what ONNX's own overlooks, refused here


@pytest.mark.parametrize(
    ("name", "shapes", "named", "says"),
    [
        ("ReduceSum-1", [(2, 3)], {"axes": [2]}, "axes[0] = 2 is out of range for rank 2 (accepted: -2..1)"),
        ("ArgMax-1", [(2, 3)], {"axis": -3}, "axis = -3 is out of range for rank 2"),
        ("ReduceSum-13", [(2, 3)], {"axes": [0, -2]}, "names axis 0 twice"),
        ("ReduceSum-13", [(2, 3)], {"axes": 0}, "must be a 1-D int64 tensor, got int64 of shape ()"),
        ("ReduceSum-13", [(2, 3), (1, 1)], {}, "must be a 1-D int64 tensor, got int64 of shape (1, 1)"),
        ("ReduceSum-13", [(2, 3)], {"keepdims": 2}, "attribute 'keepdims' = 2; accepted are 0 and 1"),
        ("CumSum-14", [("N", 3)], {"axis": 2}, "axis = 2 is out of range for rank 2"),
        ("CumSum-14", [(), ()], {}, "axis = 0 is out of range for rank 0"),
        ("CumProd-26", [(3,), (1,)], {}, "must be a 0-D tensor, got int64 of shape (1,)"),
        ("ArgMin-13", [()], {}, "axis = 0 is out of range for rank 0"),
    ],
)
def test_refused(name: str, shapes: list[Any], named: dict[str, Any], says: str) -> None:
    with pytest.raises(fw.FoldwiseError) as caught:
        fw.operator(name).infer(["float32", "int64"][: len(shapes)], shapes, **named)
    assert str(caught.value).startswith(f"{name}: ")
    assert says in str(caught.value)


@each(SCHEMAS)
def test_dtypes_outside_the_constraint_are_refused(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    for dtype in set(dtypes.BY_NAME) - set(schema.dtypes):
        with pytest.raises(fw.DtypeError, match=f"^{schema.label}: input '{schema.data.name}' must be one of"):
            operator.infer([dtype, "int64"][: schema.min_inputs], [(2, 3), ()][: schema.min_inputs])


def test_what_may_be_said() -> None:
    operator = fw.operator("ReduceSum-13")
    assert operator.infer([np.float32], [np.array([2, 3])]) == ("float32", (1, 1))
    assert operator.infer([None], [None]) == (None, None)
    types: list[Any] = ["float", 3, "float33"]
    for dtype in types:
        with pytest.raises(fw.DtypeError, match=r"^ReduceSum-13: types\[0\] = .*; accepted are bool, .* and None$"):
            operator.infer([dtype], [(2,)])
    with pytest.raises(fw.DtypeError, match=r"^ReduceSum-13: types\[0\] = b',';"):
        operator.infer([b","], [(2,)])
    shapes: list[Any] = [(2, -1), (2, 1.0), (True,), 5, "NM", {2: 3.0}.values(), np.array(5)]
    for shape in shapes:
        with pytest.raises(fw.ShapeError, match=r"^ReduceSum-13: shapes\[0\] = .* list of lengths, each an int from 0"):
            operator.infer(["float32"], [shape])
    with pytest.raises(fw.ArgumentError, match=r"^ReduceSum-13: types lists 1 and shapes 2; give one of each per"):
        operator.infer(["float32"], [(2,), (1,)])
    for kinds, lengths, what in (None, [(1,)], "types"), ("float32", [(1,)], "types"), (["float32"], 3, "shapes"):
        with pytest.raises(fw.ArgumentError, match=rf"^ReduceSum-13: {what} is of type .*; give a list, one for"):
            operator.infer(kinds, lengths)  # type: ignore[arg-type]
