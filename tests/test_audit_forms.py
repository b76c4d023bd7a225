"""Every version of every operator, in every form and dtype, audited and repaired: valid, and the same in meaning."""

from __future__ import annotations

import warnings

import conversion_matrix
import onnx
import pytest

import foldwise as fw
from foldwise.models.onnx_file import to_proto
from foldwise.models.verify import compare


@pytest.mark.parametrize("operator", conversion_matrix.OPERATORS)
def test_repaired_models_mean_the_same(operator: str) -> None:
    rewritten = 0
    for case in conversion_matrix.cases(operator):
        given = case.model
        found = fw.audit(given)
        assert not found.unread
        made = found.fix("note")
        if made.model is not given:
            rewritten += 1
            onnx.checker.check_model(to_proto(made.model.program), full_check=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", fw.FoldwiseWarning)
                compare(given, made.model, exact=False)
    assert rewritten
