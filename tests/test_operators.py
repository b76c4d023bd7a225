"""Every (operator, version, dtype) that the catalog holds: run, and compared with exact arithmetic."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import oracle
import pytest
from cases import DTYPES, FLOATS, LAYOUTS, dtype_of
from trees import Array

import foldwise as fw
from foldwise.operators import Schema

SCHEMAS = fw.operators()
REDUCTIONS = [schema for schema in SCHEMAS if schema.kind == "reduce"]
SEARCHES = [schema for schema in SCHEMAS if schema.kind == "arg"]
SCANS = [schema for schema in SCHEMAS if schema.kind == "scan"]
FOREIGN = ["complex64", "complex128", "object", "U3", "S3", "M8[s]", "m8[s]", "longdouble", "V2"]
FOREIGN += [ml_dtypes.float8_e4m3fn, ml_dtypes.int4]


def each(schemas: list[Schema] | tuple[Schema, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("schema", schemas, ids=lambda schema: schema.full_name)


# ---- reductions


def spellings(schema: Schema, axes: tuple[int, ...], rank: int) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The ways in which this version says these axes: by place and by name, from either end, left out, empty."""
    everything, nothing = axes == tuple(range(rank)), not axes
    from_the_end = [a - rank for a in reversed(axes)]
    if schema.dialect == "openvino":
        yield (np.array(axes, np.int32),), {}
        yield (), {"axes": from_the_end}
        if len(axes) == 1:
            yield (np.uint8(axes[0]),), {}
    elif len(schema.inputs) > 1:
        if axes:
            yield (np.array(axes, np.int64),), {"noop_with_empty_axes": rank % 2}
            yield (), {"axes": from_the_end}
        if everything:
            yield (), {}
            yield ([],), {"noop_with_empty_axes": 0}
            yield (None,), {}
        if nothing:
            yield (), {"noop_with_empty_axes": 1}
            yield (np.zeros(0, np.int64),), {"noop_with_empty_axes": 1}
    else:
        if axes:
            yield (), {"axes": list(axes)}
            yield (), {"axes": from_the_end}
        if everything:
            yield (), {}
            yield (), {"axes": []}


@functools.lru_cache(maxsize=8192)
def wanted(fold: str, name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> list[list[Any]]:
    return oracle.groups(oracle.data(fold, name, shape), axes)


def agrees(schema: Schema, name: str, axes: tuple[int, ...], x: Array, result: Array) -> bool:
    """Whether a result holds the right values."""
    dtype = dtype_of(name)
    values = wanted(schema.fold, name, x.shape, axes)
    if not axes and schema.alone == "x":
        return result.tobytes() == x.tobytes()
    if any(not group for group in values):
        value = empty_value(schema, dtype)
        return bool((np.isnan(result) if value != value else result == value).all())
    if name == "bool":
        return bool(result.ravel().tolist() == [oracle.REDUCTIONS[schema.fold](group) for group in values])
    if name in FLOATS:
        return all(oracle.close(schema.fold, r, g, dtype) for r, g in zip(result.ravel(), values, strict=True))
    return bool(result.ravel().tolist() == [oracle.cut(schema.fold, group, dtype) for group in values])


def empty_value(schema: Schema, dtype: np.dtype[Any]) -> Any:
    """What nothing gives; None where the call is to be refused."""
    if schema.fold == "mean":
        return 0 if schema.dialect == "openvino" else None if dtype.kind in "iu" else math.nan
    return oracle.OF_NOTHING[schema.fold](dtype)


@each(REDUCTIONS)
def test_reduction(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    keeps = schema.attribute("keepdims")
    assert keeps is not None
    ran = set()
    for name, shape in itertools.product(schema.dtypes, oracle.SHAPES):
        x = oracle.data(schema.fold, name, shape)
        for axes in oracle.subsets(len(shape)):
            for k, (inputs, named) in enumerate(spellings(schema, axes, len(shape))):
                keepdims = (k + len(axes)) % 2
                if keepdims != keeps.default or k > 1:
                    named = {**named, keeps.name: keepdims}
                where = f"{schema!r}({name}{list(shape)}, {inputs}, {named})"
                empties = any(not group for group in wanted(schema.fold, name, shape, axes))
                if empties and empty_value(schema, x.dtype) is None:
                    with pytest.raises(fw.ShapeError, match=f"^{schema.label}: .*nothing along axes"):
                        operator(x, *inputs, **named)
                    continue
                result = operator(x, *inputs, **named)
                assert isinstance(result, np.ndarray), where
                assert result.dtype == x.dtype, where
                assert result.shape == oracle.reduced_shape(shape, axes, bool(keepdims)), where
                assert agrees(schema, name, axes, x, result), where
                ran.add(name)
    assert ran == set(schema.dtypes)


# ---- positions


@each(SEARCHES)
def test_search(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    best = max if schema.fold == "argmax" else min
    lasts = [0, 1] if schema.attribute("select_last_index") else [None]
    for name, shape, last, keepdims in itertools.product(schema.dtypes, oracle.SHAPES, lasts, (0, 1, None)):
        x = (oracle.data("sum", name, shape).astype(np.float64) % 3).astype(dtype_of(name))  # with ties
        for axis in range(-len(shape), len(shape)):
            named: dict[str, Any] = {} if axis == 0 else {"axis": axis}
            named |= {} if keepdims is None else {"keepdims": keepdims}
            named |= {} if last is None else {"select_last_index": last}
            place = axis % len(shape)
            groups = oracle.groups(x, (place,))
            if any(not group for group in groups):
                with pytest.raises(fw.ShapeError, match=f"^{schema.label}: .*no element along axis"):
                    operator(x, **named)
                continue
            result = operator(x, **named)
            positions = [len(g) - 1 - g[::-1].index(best(g)) if last else g.index(best(g)) for g in groups]
            assert result.dtype == np.int64
            assert result.shape == oracle.reduced_shape(shape, (place,), keepdims != 0)
            assert result.ravel().tolist() == positions, f"{schema!r}({x!r}, {named})"


# ---- scans


def steps(values: list[Any], fold: str, exclusive: bool, reverse: bool) -> list[list[Any]]:
    """The elements that each step has met."""
    line = values[::-1] if reverse else values
    met = [line[: i if exclusive else i + 1] for i in range(len(line))]
    return met[::-1] if reverse else met


@each(SCANS)
def test_scan(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    for name, shape in itertools.product(schema.dtypes, oracle.SHAPES):
        x = oracle.data(schema.fold, name, shape)
        for k, axis in enumerate(range(-len(shape), len(shape))):
            exclusive, reverse = bool(k & 1), bool(k & 2) != (axis < 0)
            for form in (np.int32(axis), np.array(axis, np.int64), axis):
                result = operator(x, form, exclusive=int(exclusive), reverse=int(reverse))
                assert (result.dtype, result.shape) == (x.dtype, x.shape)
            if not result.size:
                continue
            lines = oracle.groups(x, (axis % len(shape),))
            moved = np.moveaxis(result, axis, -1).reshape(-1, shape[axis])
            for got, line in zip(moved, lines, strict=True):
                for value, met in zip(got, steps(line, schema.fold, exclusive, reverse), strict=True):
                    assert step_agrees(schema.fold, name, value, met), f"{schema!r}({name}{list(shape)}, {axis})"


def step_agrees(fold: str, name: str, value: Any, met: list[Any]) -> bool:
    dtype = dtype_of(name)
    if not met:
        return bool(value == oracle.OF_NOTHING[fold](dtype))
    if name in FLOATS:
        return oracle.close(fold, value, met, dtype)
    return int(value) == oracle.cut(fold, met, dtype)


@each(SCANS)
def test_scan_defaults(schema: Schema) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    plain = np.cumsum(x, 1) if schema.fold == "sum" else np.cumprod(x, 1)
    assert fw.operator(schema.full_name)(x, 1).tolist() == plain.tolist()


# ---- what every operator does


def plainest(schema: Schema, x: Any) -> Any:
    """The call with as little as this version allows."""
    operator = fw.operator(schema.full_name)
    return operator(x) if schema.min_inputs == 1 else operator(x, 0)


@each(SCHEMAS)
def test_other_dtypes_are_refused(schema: Schema) -> None:
    others = [dtype_of(name) for name in DTYPES if name not in schema.dtypes]
    for dtype in [*others, *map(np.dtype, FOREIGN)]:
        with pytest.raises(fw.DtypeError) as caught:
            plainest(schema, np.zeros((2, 3), dtype))
        message = str(caught.value)
        assert message.startswith(f"{schema.label}: input '{schema.data.name}' must be one of {schema.dtypes[0]}")
        assert f"got {dtype.name} of shape (2, 3); " in message
        takers = [s for s in SCHEMAS if (s.dialect, s.name) == (schema.dialect, schema.name) and dtype.name in s.dtypes]
        assert (f" {dtype.name}" in message.rpartition("; ")[2]) == bool(takers)
        assert all(str(s.version) in message for s in takers)


@each(SCHEMAS)
def test_layouts(schema: Schema) -> None:
    """Strides, byte order, alignment and write protection of the input are all one."""
    operator = fw.operator(schema.full_name)
    name = schema.dtypes[-1]
    x = oracle.data(schema.fold if schema.kind == "reduce" else "sum", name, (3, 1, 4))
    more = () if schema.min_inputs == 1 else (-1,)
    for layout, arrange in LAYOUTS.items():
        view = arrange(x)
        assert operator(view, *more).tolist() == operator(np.array(view, x.dtype), *more).tolist(), layout


@each(SCHEMAS)
def test_the_input_stays_and_the_result_is_new(schema: Schema) -> None:
    x = np.ones((2, 3), dtype_of(schema.dtypes[0]))
    before = x.copy()
    result = plainest(schema, x)
    assert not np.shares_memory(x, result)
    assert result.dtype.isnative
    result[...] = 0
    assert np.array_equal(x, before)


@each(SCHEMAS)
def test_lists_and_scalars(schema: Schema) -> None:
    dtype = "bool" if schema.dtypes == ("bool",) else "float64"
    listed = [[True, False]] if dtype == "bool" else [[1.5, 2.5]]
    assert plainest(schema, listed).tolist() == plainest(schema, np.array(listed, dtype)).tolist()


@each(SCHEMAS)
def test_repr_and_str(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    assert operator.schema is schema
    assert repr(operator) == f"<Operator {schema.dialect}:{schema.signature}>"
    assert repr(fw.operator(schema.full_name, lenient=True)).endswith(", lenient>")
    text = str(operator)
    assert schema.signature in text
    assert schema.summary in text
    assert all(dtype in text for dtype in schema.dtypes)
    assert len(text.splitlines()) == 2 + len(schema.types)
    assert repr(schema) == f"<Schema {schema.full_name}>"


def test_operators_lists_every_version() -> None:
    assert len(fw.operators()) == 66
    assert len({schema.full_name for schema in fw.operators()}) == 66


# ---- special values

INF, NAN = math.inf, math.nan
SPECIAL: dict[str, list[tuple[list[float], float]]] = {
    "sum": [([1, NAN], NAN), ([INF, -INF], NAN), ([INF, 1], INF), ([-INF, 1], -INF)],
    "prod": [([1, NAN], NAN), ([INF, 0], NAN), ([INF, -2], -INF)],
    "mean": [([1, NAN], NAN), ([INF, -INF], NAN), ([INF, 1], INF)],
    "max": [([NAN, 1], NAN), ([1, NAN, 3], NAN), ([-INF, -INF], -INF), ([INF, 1], INF)],
    "min": [([NAN, 1], NAN), ([1, NAN, 3], NAN), ([INF, INF], INF), ([-INF, 1], -INF)],
    "l1": [([1, NAN], NAN), ([INF, -INF], INF)],
    "l2": [([1, NAN], NAN), ([INF, -INF], INF)],
    "sumsquare": [([1, NAN], NAN), ([INF, -INF], INF)],
    "logsum": [([1, NAN], NAN), ([0, 0], -INF), ([-1, 0], NAN), ([INF, 1], INF), ([INF, -INF], NAN)],
    "logsumexp": [([1, NAN, 3], NAN), ([INF, -INF], INF), ([-INF, -INF], -INF), ([-INF, 3], 3)],
    "argmax": [([1, NAN, 3, NAN], 1), ([1, INF, INF], 1), ([-INF, -INF], 0), ([-0.0, 0.0], 0)],
    "argmin": [([1, NAN, 0, NAN], 1), ([1, -INF, -INF], 1), ([INF, INF], 0), ([0.0, -0.0], 0)],
}


@each([schema for schema in SCHEMAS if schema.kind != "scan" and schema.dtypes != ("bool",)])
def test_special_values(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    named: dict[str, Any] = {} if schema.kind == "arg" else {"axes": [0]}
    for name in set(FLOATS) & set(schema.dtypes):
        for values, wanted in SPECIAL[schema.fold]:
            result = operator(np.array(values, dtype_of(name)), **named)
            np.testing.assert_array_equal(result.astype(np.float64).ravel(), [wanted], f"{schema!r} of {name} {values}")


@each([schema for schema in SEARCHES if schema.attribute("select_last_index")])
def test_the_last_of_equal_extremes(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    for values, last in ([3, NAN, 1, NAN, 2], 3), ([5, 5, 5], 2), ([0.0, -0.0], 1):
        for name in set(FLOATS) & set(schema.dtypes):
            assert operator(np.array(values, dtype_of(name)), select_last_index=1).tolist() == [last]


@each(SCANS)
def test_special_values_spread_onwards(schema: Schema) -> None:
    operator = fw.operator(schema.full_name)
    for name in set(FLOATS) & set(schema.dtypes):
        x = np.array([1, 2, NAN, 3], dtype_of(name))
        assert np.isnan(operator(x, 0)).tolist() == [False, False, True, True]
        assert np.isnan(operator(x, 0, reverse=1)).tolist() == [True, True, True, False]
        assert np.isnan(operator(x, 0, exclusive=1)).tolist() == [False, False, False, True]
        first = operator(np.array([-0.0, -0.0], dtype_of(name)), 0)
        assert np.signbit(first[0])  # copied as it is
