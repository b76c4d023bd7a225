"""onnx's own test runner over our backend, and the interface it asks for."""

from __future__ import annotations

import re
import unittest
import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx_models import FAMILY, data, model, official

import foldwise as fw
from foldwise.plugins import onnx_backend

EXPANDED = "_expanded"
SUMS = model(
    "g (float[2,3] x) => (float[2,1] y, float[1,1] z) <int64[1] i = {1}> { y = ReduceSum(x, i) z = ReduceMax(x) }"
)


def runner(backend: Any, *patterns: str) -> Any:
    """onnx's runner over a backend; the names of its tests begin with these patterns, and end in the device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other operators' cases overflow on purpose
        made = onnx.backend.test.BackendTest(backend, __name__)
    for pattern in patterns:
        made.include(rf"^{pattern}_cpu$")
    return made


def outcome(made: Any) -> tuple[unittest.TestResult, list[str]]:
    """What came of the tests, and the names of those that ran."""
    suite, names = unittest.TestSuite(), []
    for case in made.test_cases.values():
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
            suite.addTest(test)
            names.append(cast(unittest.TestCase, test).id().rsplit(".", 1)[-1])
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite.run(result)
    return result, sorted(set(names) - {test.id().rsplit(".", 1)[-1] for test, _ in result.skipped})


def said(result: unittest.TestResult) -> str:
    return "\n".join(f"{test.id()}: {text.splitlines()[-1]}" for test, text in result.failures + result.errors)


def test_every_official_test_of_the_family(record_property: Callable[[str, object], None]) -> None:
    cases = official()
    single = [
        name
        for name, case in cases.items()
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in FAMILY
    ]
    expanded = [name + EXPANDED for name in single if name + EXPANDED in cases]
    result, ran = outcome(runner(onnx_backend, *single, *expanded))
    counted = f"onnx {onnx.__version__}: {len(ran)} node tests of the family, {len(single)} of them single nodes"
    record_property("counted", counted)
    assert not said(result)
    assert len(ran) == len(single) + len(expanded) >= 182


def test_every_official_test_that_runs_without_an_engine() -> None:
    """The plumbing, too: what is compatible gives the expected outputs. Only data tells what CastLike casts to."""
    shorter = re.compile(r"castlike_\w*_to_(FLOAT4E2M1|U?INT[24])$")
    cases = {name: case for name, case in official().items() if not shorter.search(name)}
    runnable = [name for name, case in cases.items() if onnx_backend.is_compatible(case.model)]
    result, ran = outcome(runner(onnx_backend, *runnable))
    assert not said(result)
    assert len(ran) == len(runnable) > 600


class WithReference(onnx_backend.FoldwiseBackend):
    """foldwise, and onnx's evaluator for the rest."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", *rest: Any, **named: Any) -> onnx_backend.Prepared:
        return onnx_backend.FoldwiseBackend.prepare(model, device, "reference")


RANDOM = ("bernoulli", "training_dropout")
THEIRS = ("scatter_with", "adagrad", "adam", "momentum", "nesterov", "gradient", "scan_sum", "loop16_seq", "if_opt")
"""What the evaluator itself does not run, or gives back unwrapped."""


def test_every_official_model_that_holds_one_of_ours_with_the_evaluator() -> None:
    """Softmax, normalisations, losses ... as functions unfolded: our reductions inside other operators' bodies."""
    mixed = [
        name
        for name, case in official().items()
        if len(case.model.graph.node) > 1
        and any(node.op_type in FAMILY for node in case.model.graph.node)
        and not any(word in name for word in (*RANDOM, *THEIRS))
    ]
    result, ran = outcome(runner(WithReference, *mixed))
    assert not said(result)
    assert len(ran) == len(mixed) > 150


# ---- the interface


def test_prepare_and_run() -> None:
    x = data(2, 3)
    prepared = onnx_backend.prepare(SUMS)
    for given in ([x], {"x": x}, x):
        made = prepared.run(given)
        assert np.array_equal(made.y, x.sum(1, keepdims=True))
        assert np.array_equal(made["z"], made[1])
    assert np.array_equal(onnx_backend.run_model(SUMS, [x])[0], made.y)


def test_run_node() -> None:
    x = data(2, 3)
    node = onnx.helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    (made,) = onnx_backend.run_node(node, [x, np.array([0])])
    assert np.array_equal(made, x.sum(0))
    old = onnx.helper.make_node("ReduceSum", ["x"], ["y"], axes=[1], keepdims=0)
    assert np.array_equal(onnx_backend.run_node(old, {"x": x}, opset_version=11)[0], x.sum(1))
    with pytest.raises(fw.FoldwiseError, match="ReduceSum-13: 'axes' is an input in this version"):
        onnx_backend.run_node(old, [x])


def test_devices() -> None:
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA")
    assert not onnx_backend.supports_device("nonsense")
    with pytest.raises(fw.OptionError, match="device = 'CUDA'; foldwise runs on CPUs"):
        onnx_backend.prepare(SUMS, "CUDA")


def test_what_is_not_compatible() -> None:
    other = model("g (float[2] x) => (float[2] y) { y = Erf(x) }")
    assert not onnx_backend.is_compatible(other)
    assert onnx_backend.is_compatible(other, engine="reference")
    with pytest.raises(fw.EngineError, match="Erf"):
        onnx_backend.prepare(other)
    broken = model("g (float[2] x) => (float[2] y) { y = ReduceSum(x) }")
    broken.graph.node[0].input[0] = "nowhere"
    assert not onnx_backend.is_compatible(broken)
    assert np.array_equal(onnx_backend.prepare(other, engine="reference").run([[0, 0]])[0], [0, 0])
