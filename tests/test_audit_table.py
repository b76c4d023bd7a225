"""Every row of the table of runtimes' faults happens, where it says; elsewhere it does not. Repairs repair."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import other_runtimes
import pytest

import foldwise as fw
from foldwise.models.example import example_inputs, example_model
from foldwise.models.onnx_file import to_proto
from foldwise.operators import CATALOG
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


def found(row: Row, model: fw.Model) -> fw.Audit:
    return fw.audit(model, row.runtime, {row.runtime: release(row)}).at_least(row.level)


def alike(one: Any, other: Any) -> bool:
    """The same; floats but for rounding."""
    if one is None or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.dtype.kind in "biu":
        return np.array_equal(one, other)
    wide = [np.asarray(each, np.float64) for each in (one, other)]
    return np.allclose(*wide, rtol=2**-7 if one.dtype.itemsize == 2 else 4e-7, atol=0, equal_nan=True)


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
    listed = found(row, example_model(row.example))
    assert [fault.row for fault in listed.findings] == [row.id]
    (fault,) = listed.findings
    assert (fault.effect, fault.level) == (row.effect, row.level)
    assert fault.surely == (not row.when)
    assert fault.node == (f"node '{row.example.operator.lower()}'" if row.where else "")


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
        assert value is None or not alike(happened.value, value)


@pytest.mark.parametrize("row", REPAIRED, ids=lambda row: row.id)
def test_the_repaired_model_is_right_there(row: Row, tmp_path: Path) -> None:
    made = found(row, example_model(row.example)).fix(row.level)
    assert [fault.row for fault in made.repaired] in ([row.id], [])
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


# ---- which dtypes run


BENIGN = (1, 1, 1, 2, 1, 0)
"""No sum, product or logarithm of these leaves a dtype, or lies halfway between two integers."""


@pytest.mark.parametrize("runtime", other_runtimes.INSTALLED)
def test_support_is_as_the_table_says(runtime: str, tmp_path: Path) -> None:
    for schema in CATALOG.schemas:
        for line in support(schema, other_runtimes.INSTALLED):
            if line.runtime == runtime:
                ir = 14 if schema.version > 26 else 13 if schema.version > 20 else 8
                values = tuple(map(bool, BENIGN)) if line.dtype == "bool" else BENIGN
                example = Example(
                    schema.name, schema.version, line.dtype, (2, 3), values, (1,), dialect=schema.dialect, ir=ir
                )  # fmt: skip
                model, inputs = example_model(example), example_inputs(example)
                happened = other_runtimes.outcome(runtime, model, inputs, tmp_path)
                where = (schema.full_name, line.dtype, happened)
                assert (line.status == "refused") == (happened.status != "runs"), where
                if happened.value is not None:
                    (value,) = model.run(inputs).values()
                    assert (line.status == "wrong") == (not alike(happened.value, value)), where


# ---- PyTorch's export


def test_torch_has_no_cumprod() -> None:
    torch = pytest.importorskip("torch")

    class Running(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.cumprod(x, 1)

    with pytest.raises(Exception, match="cumprod"):
        torch.onnx.export(Running(), (torch.ones(2, 3),), "unused.onnx", dynamo=False)


def test_torch_leaves_noop_on_old_nodes() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Mean(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.mean(dtype=torch.float64)

    made = torch.onnx.export(Mean(), (torch.ones(2, 3),), dynamo=True, opset_version=17).model_proto
    (fault,) = fw.audit(made, "pytorch").findings
    assert fault.row == "pytorch-early-noop"
