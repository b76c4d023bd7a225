"""Every operator, version, form and dtype to every other opset, to OpenVINO and back: the same bits, or a reason."""

from __future__ import annotations

import conversion_matrix as matrix
import numpy as np
import onnx
import pytest

import foldwise as fw
from foldwise.operators import CATALOG

RULES = {"axes", "dtype", "empty", "operator", "opset", "attribute", "bits"}
"""The reasons that docs/conversion.md explains."""


@pytest.mark.parametrize("operator", matrix.OPERATORS)
def test_the_same_bits_or_a_reason(operator: str) -> None:
    counts, rules = matrix.counted(operator)
    made = sum(1 for _ in matrix.cases(operator))
    others = sum(opset != case.schema.version for case in matrix.cases(operator) for opset in matrix.targets(operator))
    assert counts["onnx", True] + counts["onnx", False] == others
    assert counts["openvino", True] + counts["openvino", False] == made
    assert counts["back", True] + counts["back", False] == len(matrix.RETURNS) * counts["openvino", True]
    assert set(rules) <= RULES
    print(f"{operator}: {dict(counts)}, refused by {dict(rules)}")


def test_the_document_has_these_counts() -> None:
    text = matrix.DOCUMENT.read_text(encoding="utf-8")
    assert matrix.written(text) == matrix.table(), "python tests/conversion_matrix.py --write brings it up to date"
    for rule in RULES:
        assert f"| `{rule}` |" in text


def test_between_an_operators_versions_nothing_changes() -> None:
    """Every opset from 1 to 28 gives what the nearest tested one below gives."""
    count = 0
    for operator in matrix.OPERATORS:
        steps = sorted({*matrix.targets(operator), 6, 9, 11, 12, 13})
        for schema in CATALOG.versions("onnx", operator):
            for form in matrix.forms(schema):
                given = matrix.Case(schema, form, "float32").model
                said: dict[int, bool] = {}
                for opset in range(1, 29):
                    try:
                        onnx.checker.check_model(onnx_of(fw.convert(given, opset)), full_check=True)
                        said[opset] = True
                    except fw.ConversionError:
                        said[opset] = False
                    assert said[opset] == said[max(step for step in steps if step <= opset)], (form, opset)
                    count += 1
    assert count == 28 * sum(len(matrix.forms(schema)) for schema in CATALOG.schemas if schema.dialect == "onnx")


def onnx_of(model: fw.Model) -> onnx.ModelProto:
    from foldwise.models.onnx_file import to_proto

    return to_proto(model.program)


@pytest.mark.parametrize("operator", matrix.OPERATORS)
def test_with_open_lengths(operator: str) -> None:
    """Where a folded axis may have no element, the dialects differ: the same all the same."""
    schema = CATALOG.versions("onnx", operator)[-1]
    dtype = "int32" if "int32" in schema.dtypes else "float32"
    for form in matrix.forms(schema):
        for kind in {"float32", dtype}:
            given = fw.load(matrix.model(schema, form, kind, ("N", 3, "M")))
            layers, rule = matrix.outcome(given, to="openvino")
            if layers is not None:
                again, rule = matrix.outcome(layers, opset=20)
                assert again is not None or rule == "empty"
            else:
                assert rule in ("operator", "bits")


@pytest.mark.parametrize("operator", [name for name in matrix.OPERATORS if "Reduce" in name])
def test_axes_that_may_turn_out_empty(operator: str) -> None:
    schema = CATALOG.versions("onnx", operator)[-1]
    given = fw.load(matrix.model(schema, matrix.Form("computed", "computed"), "float32", count="K"))
    with pytest.raises(
        fw.ConversionError, match=r"other last bits|in ONNX stands for all axes and in OpenVINO for none"
    ):
        fw.convert(given, to="openvino")
    form = matrix.Form("noop, computed", "computed", (("noop_with_empty_axes", 1),))
    given = fw.load(matrix.model(schema, form, "float32", count="K"))
    layers, rule = matrix.outcome(given, to="openvino")
    assert layers is not None or rule == "bits"
    if layers is not None:
        for axes in (np.array([], np.int64), np.array([1])):
            x = np.linspace(0.5, 4, 24, dtype=np.float32).reshape(2, 3, 4)
            one, other = (next(iter(each.run([x, axes]).values())) for each in (given, layers))
            assert (one.shape, one.tobytes()) == (other.shape, other.tobytes())
