"""The catalog says what the standards' own definitions say, for every version it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.defs
import openvino
import openvino.opset4
import openvino.opset16
import pytest

import foldwise as fw
from foldwise import dtypes
from foldwise.operators import CATALOG, Schema

ONNX = [schema for schema in CATALOG.schemas if schema.dialect == "onnx"]
OPENVINO = [schema for schema in CATALOG.schemas if schema.dialect == "openvino"]
BY_ONNX_NAME = {f"tensor({dtype.onnx})": dtype.name for dtype in dtypes.TABLE}


def each(schemas: list[Schema]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("schema", schemas, ids=lambda schema: schema.full_name)


# ---- ONNX


def official(schema: Schema) -> Any:
    return onnx.defs.get_schema(schema.name, schema.version, "")


def official_versions(name: str) -> list[int]:
    return sorted(
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if s.name == name and s.domain == "" and not s.deprecated
    )


@pytest.mark.parametrize("name", CATALOG.names("onnx"))
def test_the_versions_are_those_of_onnx(name: str) -> None:
    assert [schema.version for schema in CATALOG.versions("onnx", name)] == official_versions(name)


def test_no_reduction_or_scan_of_onnx_is_missing() -> None:
    """Also not one that a newer onnx has brought."""
    families = ("Reduce", "ArgM", "Cum")
    theirs = {
        s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and s.name.startswith(families)
    }
    assert set(CATALOG.names("onnx")) == theirs


def test_the_newest_opset_is_that_of_onnx() -> None:
    assert CATALOG.dialects["onnx"].newest_opset == onnx.defs.onnx_opset_version()


@each(ONNX)
def test_version(schema: Schema) -> None:
    assert schema.version == official(schema).since_version


@each(ONNX)
def test_inputs(schema: Schema) -> None:
    theirs = official(schema)
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    constraints = {t.name for t in schema.types}
    ours = [(i.name, i.type if i.type in constraints else f"tensor({i.type})", i.optional) for i in schema.inputs]
    assert ours == [(i.name, i.type_str, i.option == optional) for i in theirs.inputs]
    assert (schema.min_inputs, len(schema.inputs)) == (theirs.min_input, theirs.max_input)


@each(ONNX)
def test_outputs(schema: Schema) -> None:
    theirs = official(schema)
    (output,) = theirs.outputs
    kind = schema.output.type
    assert output.name == schema.output.name
    assert output.type_str == (kind if kind in {t.name for t in schema.types} else f"tensor({kind})")
    assert (theirs.min_output, theirs.max_output) == (1, 1)


@each(ONNX)
def test_attributes(schema: Schema) -> None:
    kinds = {"ints": "INTS", "int": "INT", "flag": "INT"}
    ours = {a.name: (kinds[a.type], False, a.default) for a in schema.attributes}
    assert ours == {
        name: (
            a.type.name,
            a.required,
            onnx.helper.get_attribute_value(a.default_value) if a.default_value.name else None,
        )
        for name, a in official(schema).attributes.items()
    }


@each(ONNX)
def test_type_constraints(schema: Schema) -> None:
    theirs = {
        t.type_param_str: {BY_ONNX_NAME[s] for s in t.allowed_type_strs} for t in official(schema).type_constraints
    }
    assert {t.name: set(t.dtypes) for t in schema.types} == theirs


@each(ONNX)
def test_every_opset_selects_the_version_that_onnx_selects(schema: Schema) -> None:
    for opset in range(schema.version, onnx.defs.onnx_opset_version() + 1):
        found = CATALOG.find(schema.name, opset=opset)
        assert found.version == onnx.defs.get_schema(schema.name, opset, "").since_version
    for opset in range(1, CATALOG.versions("onnx", schema.name)[0].version):
        with pytest.raises(fw.UnknownOperatorError, match=f"opset {opset} has no {schema.name}; it came with opset"):
            CATALOG.find(schema.name, opset=opset)


# ---- OpenVINO


def node(schema: Schema, dtype: str, *more: Any, **attributes: Any) -> Any:
    """OpenVINO's own node of this operator."""
    maker = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", schema.name).lower()
    data = openvino.opset4.parameter([2, 3], element_type(dtype))
    return getattr(openvino.opset4, maker)(data, *more, **attributes)


def element_type(dtype: str) -> Any:
    return openvino.Type(np.dtype(np.bool_)) if dtype == "bool" else getattr(openvino.Type, dtypes.BY_NAME[dtype].ir)


def constant(values: Any, dtype: str = "int64") -> Any:
    return openvino.opset4.constant(np.asarray(values, dtype))


@each(OPENVINO)
def test_openvino_has_it_in_that_opset(schema: Schema) -> None:
    info = node(schema, schema.dtypes[0], constant(0)).get_type_info()
    assert (info.name, info.version_id) == (schema.name, f"opset{schema.version}")


@each(OPENVINO)
def test_openvino_takes_the_same_dtypes(schema: Schema) -> None:
    for dtype in dtypes.BY_NAME:
        if dtype in schema.dtypes:
            assert node(schema, dtype, constant(0)).get_output_element_type(0) == element_type(dtype)
        elif schema.kind == "reduce":  # its CumSum takes anything when it is made
            with pytest.raises(RuntimeError):
                node(schema, dtype, constant(0))


@each(OPENVINO)
def test_openvino_takes_the_same_dtypes_of_axes(schema: Schema) -> None:
    for dtype in dtypes.BY_NAME:
        if dtype in schema.dtypes_of(schema.inputs[1].type):
            node(schema, schema.dtypes[0], constant(0, dtype))
        elif dtype != "bfloat16":  # NumPy has none
            with pytest.raises(RuntimeError):
                node(schema, schema.dtypes[0], constant(0, dtype))


@each(OPENVINO)
def test_openvino_has_the_same_attributes(schema: Schema) -> None:
    theirs = node(schema, schema.dtypes[0], constant(0)).get_attributes()
    assert {a.name: bool(a.default) for a in schema.attributes} == theirs
    assert {a.type for a in schema.attributes} == {"boolean"}


@each(OPENVINO)
def test_openvino_takes_the_same_ranks_of_axes(schema: Schema) -> None:
    second = schema.inputs[1]
    assert second.ranks is not None
    for rank in range(3):
        if rank in second.ranks:
            node(schema, schema.dtypes[0], constant(np.zeros((1,) * rank)))
        elif schema.kind == "reduce":  # its CumSum looks at the rank only when it runs
            with pytest.raises(RuntimeError):
                node(schema, schema.dtypes[0], constant(np.zeros((1,) * rank)))


def test_openvino_has_no_other_reductions_and_scans() -> None:
    for opset in (openvino.opset4, openvino.opset16):
        theirs = {name.replace("_", "") for name in dir(opset) if name.startswith(("reduce_", "cum"))}
        assert theirs == {name.lower() for name in CATALOG.names("openvino")}


# ---- the catalog by itself


def cells(schemas: list[Schema]) -> Iterator[tuple[Schema, str]]:
    for schema in schemas:
        yield from ((schema, dtype) for dtype in schema.dtypes)


def test_how_much_there_is() -> None:
    """The catalog grows with the standards; these are the numbers of ONNX 1.23 and OpenVINO 2026."""
    assert (len(ONNX), len(OPENVINO)) == (56, 10)
    assert (len([*cells(ONNX)]), len([*cells(OPENVINO)])) == (460, 98)


def test_every_schema_is_found_by_its_names() -> None:
    for schema in fw.operators():
        assert CATALOG.find(schema.full_name) is schema
        assert CATALOG.find(schema.name, schema.version, dialect=schema.dialect) is schema
        assert CATALOG.find(schema.label, dialect=schema.dialect) is schema
        newest = CATALOG.versions(schema.dialect, schema.name)[-1]
        assert CATALOG.find(schema.name, dialect=schema.dialect) is newest


def test_every_schema_tells_what_changed() -> None:
    for schema in CATALOG.schemas:
        assert bool(schema.changes) == (schema.previous is not None)
        if schema.previous is not None:
            before = CATALOG.find(schema.name, schema.previous, dialect=schema.dialect)
            gained = [dtype for dtype in schema.dtypes if dtype not in before.dtypes]
            assert all(any(dtype in change for change in schema.changes) for dtype in gained)


def test_prose_is_complete_and_short() -> None:
    for schema in CATALOG.schemas:
        texts = [schema.summary, schema.formula, *schema.notes, schema.data.text, schema.output.text]
        texts += [a.text for a in schema.attributes] + [t.text for t in schema.types]
        assert all(text and len(text) < 100 for text in texts), schema
        assert schema.summary.endswith(".")


def test_integers_are_not_spoken_of_where_there_are_none() -> None:
    for schema in CATALOG.schemas:
        if all(dtypes.BY_NAME[dtype].kind in "fb" for dtype in schema.dtypes):
            assert not [note for note in schema.notes if "nteger" in note]
