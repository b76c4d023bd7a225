"""Every row of the table of runtimes' faults happens, where it says; elsewhere it does not. Repairs repair."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import audit_document
import numpy as np
import onnx
import other_runtimes
import pytest

import foldwise as fw
from foldwise.models.example import example_inputs, example_model
from foldwise.models.onnx_file import to_proto
from foldwise.operators import CATALOG, Schema
from foldwise.runtimes import ROWS, RUNTIMES, Row
from foldwise.runtimes.row import MARKS, REFUSALS, Example
from foldwise.runtimes.support import support

EVERY_ROW = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
RUNNING = [row for row in ROWS if RUNTIMES[row.runtime].runs_models]
REPAIRED = [row for row in ROWS if row.repair]


def release(row: Row) -> str:
    """The newest known release that has it."""
    having = [each.number for each in RUNTIMES[row.runtime].releases if row.affects(each.number)]
    return having[-1]


def found(row: Row, version: str) -> fw.Audit:
    """What a release does with the row's example."""
    return fw.audit(example_model(row.example), row.runtime, {row.runtime: version}).at_least(row.level)


def too_new(row: Row, version: str) -> bool:
    """Whether the release refuses the example for its opset alone."""
    known = RUNTIMES[row.runtime].release(version)
    return bool(row.where) and (row.example.opset > known.opset or row.example.ir > known.ir)


def alike(one: Any, other: Any) -> bool:
    """The same; floats but for rounding."""
    if one is None or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.dtype.kind in "biu":
        return np.array_equal(one, other)
    wide, same = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return np.allclose(wide, same, rtol=2**-7 if one.dtype.itemsize == 2 else 4e-7, atol=0, equal_nan=True)


def wanted(row: Row) -> Any:
    """What foldwise gives; None where it refuses, too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fw.FoldwiseWarning)  # repeated axes, an axis as a list
            (value,) = example_model(row.example).run(example_inputs(row.example)).values()
    except fw.FoldwiseError:
        return None
    return value


# ---- what the rows say of themselves


def test_the_document_has_the_table_as_it_is() -> None:
    text = audit_document.DOCUMENT.read_text(encoding="utf-8")
    assert text == audit_document.document(), "run: python tests/audit_document.py --write"


def test_rows_have_names_of_their_own() -> None:
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids)
    for row in ROWS:
        assert row.id.startswith(f"{row.runtime}-")
        assert all(mark in MARKS for where in row.where for mark in where.marks)
        assert row.what.endswith(".")
        assert row.fix.endswith(".")
        assert all(source.count("#") == 1 for source in row.sources)


@EVERY_ROW
def test_the_audit_lists_the_row_for_its_example(row: Row) -> None:
    listed = found(row, release(row))
    assert [fault.row for fault in listed.findings] == [row.id]
    (fault,) = listed.findings
    assert (fault.effect, fault.level) == (row.effect, row.level)
    assert fault.surely == (not row.when)
    assert fault.node == (f"node '{row.example.schema.name.lower()}'" if row.where else "")


@EVERY_ROW
def test_releases_without_it_are_not_blamed(row: Row) -> None:
    runtime = RUNTIMES[row.runtime]
    assert release(row)
    for each in runtime.releases:
        if not row.affects(each.number) and runtime.runs_models:
            listed = fw.audit(example_model(row.example), row.runtime, {row.runtime: each.number})
            assert row.id not in [fault.row for fault in listed.findings]


# ---- what really happens


@pytest.mark.parametrize("row", RUNNING, ids=lambda row: row.id)
def test_it_happens_in_the_installed_runtime(row: Row, tmp_path: Path) -> None:
    version = other_runtimes.INSTALLED[row.runtime]
    if too_new(row, version):
        pytest.skip(f"{row.runtime} {version} loads no model of opset {row.example.opset}")
    happened = other_runtimes.outcome(row.runtime, example_model(row.example), example_inputs(row.example), tmp_path)
    value = wanted(row)
    if not row.affects(version):
        assert happened.status == "runs"
        assert alike(happened.value, value)
    elif row.effect in REFUSALS:
        assert happened.status == row.effect
        assert value is not None
    else:
        assert happened.status == "runs"
        assert value is None or alike(happened.value, value) == other_runtimes.spared(row.id)


@pytest.mark.parametrize("row", REPAIRED, ids=lambda row: row.id)
def test_the_repaired_model_is_right_there(row: Row, tmp_path: Path) -> None:
    version = other_runtimes.INSTALLED.get(row.runtime, release(row))
    if not row.affects(version) or too_new(row, version):
        pytest.skip(f"{row.runtime} {version} has it not, or loads no model of opset {row.example.opset}")
    made = found(row, version).fix(row.level)
    assert [fault.row for fault in made.repaired] in ([row.id], [])
    refusing = [left.fault.row for left in made.left if left.fault.effect in REFUSALS]
    if refusing or not row.repair_in(version):
        pytest.skip(f"in {row.runtime} {version} its repair does not help: {refusing}")
    inputs, value = example_inputs(row.example), wanted(row)
    (ours,) = made.model.run(inputs).values()
    runtimes = [row.runtime] if RUNTIMES[row.runtime].runs_models else ["onnxruntime", "reference"]
    for runtime in runtimes:
        happened = other_runtimes.outcome(runtime, made.model, inputs, tmp_path)
        assert happened.status == "runs"
        assert alike(happened.value, ours)
    assert value is None or alike(ours, value)
    if made.model.program.dialect == "onnx":
        onnx.checker.check_model(to_proto(made.model.program), full_check=True)


def like(example: Example, schema: Schema, dtype: str) -> Example:
    """The same of another operator's version and dtype."""
    dialect: Any = schema.dialect
    ir = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", schema.version)], ignore_unknown=True)
    values = tuple(map(abs, example.values)) if dtype.startswith("u") else example.values
    return example._replace(
        kind=schema.kind, fold=schema.fold, opset=schema.version, dtype=dtype, values=values, dialect=dialect,
        ir=max(ir, 8),
    )  # fmt: skip


STRUCTURAL = [row for row in RUNNING if not row.when and any(where.marks for where in row.where)]


@pytest.mark.parametrize("row", STRUCTURAL, ids=lambda row: row.id)
def test_it_happens_to_every_operator_that_it_names(row: Row, tmp_path: Path) -> None:
    version = other_runtimes.INSTALLED[row.runtime]
    if not row.affects(version):
        pytest.skip(f"{row.runtime} {version} has it not")
    for schema, dtype in named(row, RUNTIMES[row.runtime].release(version).opset):
        example = like(row.example, schema, dtype)
        model, inputs = example_model(example), example_inputs(example)
        listed = fw.audit(model, row.runtime, {row.runtime: version}).findings
        if row.id in [fault.row for fault in listed]:
            happened = other_runtimes.outcome(row.runtime, model, inputs, tmp_path)
            if row.effect in REFUSALS:
                assert happened.status == row.effect, (schema, dtype)
            else:
                assert differs(happened, model, inputs), (schema, dtype)


def named(row: Row, newest: int) -> Iterator[tuple[Schema, str]]:
    """The operators' versions that a row concerns, each with its first and its last dtype."""
    flags = {name for name, _ in row.example.attributes}
    for where, schema in itertools.product(row.where, CATALOG.schemas):
        if where.names(schema) and schema.dialect in RUNTIMES[row.runtime].dialects and schema.version <= newest:
            taken = where.dtypes_of(schema)
            if flags <= {attribute.name for attribute in schema.attributes}:
                yield from ((schema, dtype) for dtype in dict.fromkeys((taken[0], taken[-1])))


def differs(happened: other_runtimes.Outcome, model: fw.Model, inputs: list[Any]) -> bool:
    """Whether a runtime gives what foldwise does not."""
    try:
        (value,) = model.run(inputs).values()
    except fw.FoldwiseError:
        return happened.status == "runs"
    return not alike(happened.value, value)


# ---- which dtypes run


BENIGN = (1, 1, 1, 2, 1, 0)
"""No sum, product or logarithm of these leaves a dtype, or lies halfway between two integers."""


@pytest.mark.parametrize("runtime", other_runtimes.INSTALLED)
def test_support_is_as_the_table_says(runtime: str, tmp_path: Path) -> None:
    for schema in CATALOG.schemas:
        for line in support(schema, other_runtimes.INSTALLED):
            if line.runtime == runtime:
                values = tuple(map(bool, BENIGN)) if line.dtype == "bool" else BENIGN
                plain = Example(schema.kind, schema.fold, schema.version, line.dtype, (2, 3), values, (1,))
                example = like(plain, schema, line.dtype)
                model, inputs = example_model(example), example_inputs(example)
                happened = other_runtimes.outcome(runtime, model, inputs, tmp_path)
                where = (schema.full_name, line.dtype, happened)
                assert (line.status == "refused") == (happened.status != "runs"), where
                if happened.value is not None:
                    (value,) = model.run(inputs).values()
                    assert (line.status == "wrong") == (not alike(happened.value, value)), where


# ---- PyTorch's export


def exported(function: Any, **how: Any) -> Any:
    """A module of one function, as PyTorch writes it."""
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    module = type("Module", (torch.nn.Module,), {"forward": lambda self, x: function(torch, x)})().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(module, (torch.ones(2, 3),), dynamo=True, verbose=False, **how).model_proto


def test_torch_exports_no_cumprod() -> None:
    with pytest.raises(Exception, match="Failed to convert the exported program"):
        exported(lambda torch, x: torch.cumprod(x, 1))


def test_torch_leaves_noop_on_old_nodes() -> None:
    made = exported(lambda torch, x: x.mean(dtype=torch.float64), opset_version=17)
    assert [fault.row for fault in fw.audit(made, "pytorch").findings] == ["pytorch-early-noop"]
