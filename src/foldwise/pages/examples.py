"""Calls that a page shows: each is run when the page is made, and shows what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foldwise import dtypes
from foldwise.arguments import NUMPY
from foldwise.operation import Operator
from foldwise.operators import Schema

Array = NDArray[Any]


class Example(NamedTuple):
    """A call: what it shows, its inputs by name, its attributes, and what comes of it."""

    name: str
    inputs: Mapping[str, Array]
    attributes: Mapping[str, Any]
    output: tuple[str, Array]


class _Case(NamedTuple):
    """What to call, by the roles that inputs and attributes have in every dialect."""

    name: str
    axes: tuple[int, ...] | int | None
    options: Mapping[str, int] = {}


_CASES: Final[dict[str, tuple[_Case, ...]]] = {
    "reduce": (
        _Case("default_axes_keepdims", None, {"keepdims": 1}),
        _Case("do_not_keepdims", (1,), {"keepdims": 0}),
        _Case("negative_axes_keepdims", (-2,), {"keepdims": 1}),
    ),
    "arg": (
        _Case("keepdims", 1, {"keepdims": 1}),
        _Case("do_not_keepdims", 1, {"keepdims": 0}),
        _Case("negative_axis_keepdims", -1, {"keepdims": 1}),
        _Case("select_last_index", 1, {"select_last_index": 1}),
    ),
    "scan": (
        _Case("axis_0", 0),
        _Case("negative_axis", -1),
        _Case("exclusive", 1, {"exclusive": 1}),
        _Case("reverse", 1, {"reverse": 1}),
        _Case("reverse_exclusive", 1, {"exclusive": 1, "reverse": 1}),
    ),
}


def examples(schema: Schema) -> Iterator[Example]:
    """The calls that show what one version does."""
    for case in _CASES[schema.kind]:
        if all(schema.attribute(role) for role in case.options):
            yield _run(schema, case)


def _run(schema: Schema, case: _Case) -> Example:
    inputs: dict[str, Array] = {schema.data.name: _data(schema)}
    attributes: dict[str, Any] = {}
    for role, value in case.options.items():
        known = schema.attribute(role)
        # What is the default anyway need not be said.
        if known and known.default != value:
            attributes[known.name] = bool(value) if known.type == "boolean" else value
    place = next(iter(schema.inputs[1:]), None)
    axes = case.axes
    if axes is None and schema.empty_axes == "none":
        axes = (0, 1, 2)
    if axes is not None and place:
        inputs[place.name] = np.array(axes, np.int64)
    elif axes is not None:
        attributes["axis" if schema.attribute("axis") else "axes"] = list(axes) if isinstance(axes, tuple) else axes
    result = Operator(schema)(*inputs.values(), **attributes)
    return Example(case.name, inputs, attributes, (schema.output.name, result))


def _data(schema: Schema) -> Array:
    """The numbers from 1 on; where only truth counts, both of its values."""
    plain = next(name for name in ("float32", "bool", *schema.dtypes) if name in schema.dtypes)
    dtype = NUMPY[dtypes.BY_NAME[plain].code]
    if schema.kind == "reduce":
        return _counted(dtype, 3, 2, 2)
    if schema.kind == "scan":
        return _counted(dtype, 2, 3)
    return np.array([[2, 2], [3, 10]], dtype)


def _counted(dtype: np.dtype[Any], *shape: int) -> Array:
    count = np.arange(1, 1 + int(np.prod(shape)))
    return (count % 3 > 0 if dtype.kind == "b" else count).astype(dtype).reshape(shape)


def shown(schema: Schema, example: Example) -> str:
    """One example as HTML: the call in Python, and every tensor with its shape, dtype and values."""
    names = list(example.inputs)
    arguments = [names[0], *(f"{name}={_written(example.inputs[name])}" for name in names[1:])]
    arguments += [f"{name}={value!r}" for name, value in example.attributes.items()]
    lines = [f'fw.operator("{schema.full_name}")({", ".join(arguments)})', ""]
    if example.attributes:
        lines += ["Attributes:", *(f"  {name} = {value}" for name, value in example.attributes.items())]
    lines.append("Inputs:")
    for tensor in example.inputs.items():
        lines += _tensor(*tensor)
    lines += ["", "Outputs:", *_tensor(*example.output)]
    return f'<div class="wide" tabindex="0"><pre>{escape(chr(10).join(lines))}</pre></div>'


def _written(array: Array) -> str:
    return f"np.array({array.tolist()})"


def _tensor(name: str, array: Array) -> list[str]:
    values = np.array2string(array, separator=", ").splitlines()
    return [f"  {name}: shape={array.shape}, dtype={array.dtype.name}", *(f"    {line}".rstrip() for line in values)]
