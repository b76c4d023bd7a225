"""OpenVINO models for the tests of IR files: built by openvino itself, or written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import openvino as ov
from openvino import opset13

from foldwise import dtypes
from foldwise.models.graph import Program
from foldwise.models.limits import Limits
from foldwise.models.openvino_ir import read
from foldwise.operators import CATALOG, Schema

FAMILY = tuple(schema for schema in CATALOG.schemas if schema.dialect == "openvino")
UNLIMITED = Limits()


def element(dtype: str) -> ov.Type:
    """The element type of a dtype's name."""
    return ov.Type(np.dtype(dtype)) if dtype != "bfloat16" else ov.Type.bf16


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def builder(schema: Schema) -> Any:
    """The function of openvino that makes this operator."""
    return getattr(opset13, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", schema.name).lower())


def one_node(
    schema: Schema, dtype: str, shape: tuple[int, ...], axes: Any, attributes: dict[str, bool]
) -> ov.Model:
    """A model of one operator; axes are an array, or None where they are an input."""
    data = opset13.parameter(shape, element(dtype), name="x")
    given = opset13.parameter([1], ov.Type.i64, name="axes") if axes is None else opset13.constant(axes)
    made = builder(schema)(data, given, **attributes)
    return ov.Model([made], [data] if axes is not None else [data, given], "one")


def serialized(model: ov.Model, folder: Path, name: str = "model") -> Path:
    path = folder / f"{name}.xml"
    ov.serialize(model, str(path), str(path.with_suffix(".bin")))
    return path


def loaded(path: Path) -> Program:
    return read(path, None, UNLIMITED)


def same(one: Program, other: Program) -> bool:
    """Whether two programs are equal, but for where they came from."""
    first, second = one.graph.constants, other.graph.constants
    if first.keys() != second.keys():
        return False
    for name, array in first.items():
        twin = second[name]
        if (array.dtype, array.shape, array.tobytes()) != (twin.dtype, twin.shape, twin.tobytes()):
            return array.dtype == object and array.tolist() == twin.tolist()
    plain = [replace(p, origin="", version=11, graph=replace(p.graph, constants={})) for p in (one, other)]
    return plain[0] == plain[1]


def output_of(path: Path, inputs: list[Any]) -> list[Any]:
    """What OpenVINO makes of a file."""
    model = ov.Core().read_model(str(path))
    compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled(inputs)
    return [results[k] for k in range(len(compiled.outputs))]


def some_data(dtype: str, shape: tuple[int, ...]) -> Any:
    kind = dtypes.BY_NAME[dtype].kind
    values = np.random.default_rng(5).integers(0 if kind in "bu" else -3, 2 if kind == "b" else 4, shape)
    return values.astype(numpy_dtype(dtype))


# ---- files written by hand


def port(place: int, dims: Iterable[int] = (), precision: str = "FP32", **more: str) -> str:
    attributes = "".join(f' {name}="{text}"' for name, text in more.items())
    lengths = "".join(f"<dim>{dim}</dim>" for dim in dims)
    return f'<port id="{place}" precision="{precision}"{attributes}>{lengths}</port>'


def layer(
    place: object, name: str, kind: str, *, version: str = "opset1", data: str = "", reads: str = "", makes: str = "",
    more: str = "",
) -> str:
    inputs = f"<input>{reads}</input>" if reads else ""
    outputs = f"<output>{makes}</output>" if makes else ""
    start = f'<layer id="{place}" name="{name}" type="{kind}" version="{version}">'
    return f"{start}<data {data}/>{inputs}{outputs}{more}</layer>"


def edge(begin: object, from_port: object, end: object, to_port: object) -> str:
    return f'<edge from-layer="{begin}" from-port="{from_port}" to-layer="{end}" to-port="{to_port}"/>'


def net(layers: Iterable[str], edges: Iterable[str], version: object = 11, more: str = "") -> bytes:
    inside = f"<layers>{''.join(layers)}</layers><edges>{''.join(edges)}</edges>{more}"
    return f'<?xml version="1.0"?><net name="m" version="{version}">{inside}</net>'.encode()


X = layer(0, "x", "Parameter", data='shape="2,3" element_type="f32"', makes=port(0, (2, 3), names="x"))
AXES = layer(1, "axes", "Const", data='element_type="i64" shape="1" offset="0" size="8"', makes=port(0, (1,), "I64"))
SUM = layer(
    2, "sum", "ReduceSum", data='keep_dims="true"',
    reads=port(0, (2, 3)) + port(1, (1,), "I64"), makes=port(2, (2, 1), names="y"),
)  # fmt: skip
OUT = layer(3, "out", "Result", reads=port(0, (2, 1)))
EDGES = (edge(0, 0, 2, 0), edge(1, 0, 2, 1), edge(2, 2, 3, 0))
ONE = (1).to_bytes(8, "little")
"""The .bin that goes with these layers."""
