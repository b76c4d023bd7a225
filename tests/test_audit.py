"""`fw.audit`: what it looks into, what it says, and what it writes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import ir_models as ir
import onnx
import processes
import pytest
from onnx_models import loaded

import foldwise as fw
from foldwise.models import verify
from foldwise.operators import CATALOG
from foldwise.runtimes import ROWS, RUNTIMES
from foldwise.runtimes.row import numbers, span
from foldwise.runtimes.support import support

EXAMPLES = sorted((Path(__file__).parent.parent / "examples" / "models").glob("*.[ox][nm][nl]*"))
STAMPS = "g (int64[N,4] x) => (int64[N,1] y) <int64[1] axes = {1}> { [total] y = ReduceSum(x, axes) }"
NORM = "g (float[N,3] x) => (float[N,1] y) { [norm] y = ReduceL1<axes=[1]>(x) }"


def rows(given: Any, *wanted: Any, level: Any = "note") -> list[tuple[str, str]]:
    return [(fault.node, fault.row) for fault in fw.audit(given, *wanted).at_least(level).findings]


def operators(found: fw.Model) -> list[str]:
    return [node.operator for node in found.graph.walk()]


# ---- what it looks into


def test_a_clean_model_has_no_faults() -> None:
    text = "g (float[N,3] x) => (float[N,1] y) <int64[1] axes = {1}> { [sum] y = ReduceSum(x, axes) }"
    found = fw.audit(loaded(text))
    assert not found
    assert (found.findings, found.unread) == ((), ())
    assert found.versions == {name: each.newest for name, each in RUNTIMES.items()}
    assert str(found) == "the model: no faults are known"
    assert str(found.fix()) == "nothing to repair"
    assert found.fix().model is found.model


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_work_everywhere_for_plain_values(path: Path) -> None:
    found = fw.audit(path)
    assert found.counts()["error"] == 0
    assert not found.unread
    assert set(found.versions) == set(RUNTIMES if path.suffix == ".onnx" else ["openvino"])


def test_runtimes_and_releases_are_chosen() -> None:
    given = loaded(STAMPS, 13)
    both = [("node 'total'", "onnxruntime-integer-sum"), ("node 'total'", "openvino-narrow-integers")]
    assert rows(given) == both
    assert rows(given, "onnxruntime") == both[:1]
    assert rows(given, ["openvino", "reference"]) == both[1:]
    assert rows(given, "onnxruntime", {"onnxruntime": "1.26"}) == []
    assert rows(given, "onnxruntime", {"onnxruntime": "1.27.0.dev3"}) == both[:1]
    installed = fw.audit(given, versions="installed").versions
    assert installed["onnxruntime"] == importlib.metadata.version("onnxruntime")
    assert ("pytorch" in installed) == (importlib.util.find_spec("torch") is not None)


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ({"runtimes": "tensorrt"}, fw.OptionError, "runtime 'tensorrt' is not known; known are onnxruntime, openvino"),
        ({"versions": "newest"}, fw.ArgumentError, "accepted are \"installed\" and a mapping"),
        ({"versions": {"onnx": "1"}}, fw.OptionError, "names 'onnx', which is not among the runtimes"),
        ({"versions": {"openvino": "new"}}, fw.OptionError, "'new' is no version of openvino; give one as '2026"),
    ],
)
def test_asked_for_wrongly(wanted: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fw.audit(loaded(NORM, 13), **wanted)
    with pytest.raises(fw.OptionError, match="level = 'fatal'; accepted are error, warning, note"):
        fw.audit(loaded(NORM, 13)).fix("fatal")  # type: ignore[arg-type]


def test_graphs_inside_of_nodes_and_functions() -> None:
    given = loaded(
        """g (int64[2,3] x, bool c) => (int64[2,1] y) {
          y = If(c) <then_branch = t () => (int64[2,1] a) { [inner] a = ReduceSumSquare<axes=[1]>(x) },
                     else_branch = e () => (int64[2,1] b) { [other] b = ReduceMax<axes=[1]>(x) }>
        }""", 13,
    )  # fmt: skip
    assert rows(given, "onnxruntime") == [("node 'inner'", "onnxruntime-integer-sum")]
    made = fw.audit(given, "onnxruntime").fix(verify=True)
    assert operators(made.model) == ["If", "Mul", "CumSum", "Gather", "ReduceMax"]
    function = """<ir_version: 8, opset_import: ["" : 13, "my" : 1]>
        g (uint32[N,3] x) => (uint32[N,1] y) { y = my.norm(x) }
        <domain: "my", opset_import: ["" : 13]>
        norm (a) => (b) { [in_it] b = ReduceL1<axes=[-1]>(a) }"""
    given = fw.load(onnx.parser.parse_model(function))
    assert rows(given, "onnxruntime") == [("node 'in_it'", "onnxruntime-no-kernel")]
    made = fw.audit(given, "onnxruntime").fix(verify=True)
    assert [left.fault.row for left in made.left] == []
    (inside,) = made.model.program.functions.values()
    assert [node.operator for node in inside.nodes if node.operator != "Constant"] == [
        "Cast", "Abs", "CumSum", "Gather", "Cast",
    ]  # fmt: skip


def test_what_is_not_known_may_happen() -> None:
    text = "g (float x) => (float y) { z = Foo(x) [norm] y = ReduceL1<axes=[0]>(z) }"
    unknown = fw.load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{text}'))
    (fault,) = [each for each in fw.audit(unknown, "openvino").findings if each.effect == "ignores axes"]
    assert (fault.surely, fault.level) == (False, "warning")
    assert "may: ignores axes" in str(fault)
    (fault,) = [each for each in fw.audit(unknown, "onnxruntime").findings if each.effect == "fails to load"]
    assert fault.level == "note"  # its dtype is not known
    empty = loaded("g (float[2,N] x) => (int64[2,1] y) { [best] y = ArgMax<axis=1>(x) }", 13)
    assert ("node 'best'", "openvino-empty-index") in rows(empty)
    assert rows(empty, level="warning") == []


def test_nodes_that_no_version_takes_are_left_to_check() -> None:
    found = fw.audit(loaded("g (float[2] x) => (float[1] y) <int64[1] far = {7}> { y = ReduceSum(x, far) }", 13))
    assert not found
    (finding,) = found.unread
    assert (finding.operator, finding.rule) == ("ReduceSum-13", "axes")


def test_models_of_openvino() -> None:
    sums = ir.layer(
        2, "sum", "ReduceSum", data='keep_dims="false"',
        reads=ir.port(0, (2, 3)) + ir.port(1, (0,), "I64"), makes=ir.port(2, (2, 3), names="y"),
    )  # fmt: skip
    none = ir.layer(
        1, "axes", "Const", data='element_type="i64" shape="0" offset="0" size="0"', makes=ir.port(0, (0,), "I64")
    )
    given = fw.load(ir.net([ir.X, none, sums, ir.OUT], ir.EDGES), weights=b"")
    (fault,) = fw.audit(given).findings
    assert (fault.node, fault.operator, fault.row) == ("node 'sum'", "ReduceSum-1", "openvino-empty-axes")
    made = fw.audit(given).fix(verify=True)
    assert (operators(made.model), made.left) == (["Convert"], ())


# ---- what it says


def test_text_data_and_sarif() -> None:
    found = fw.audit(loaded(NORM, 13), "openvino")
    (fault,) = found.findings
    assert str(found) == (
        "error: node 'norm' (ReduceL1-13): OpenVINO (CPU) (since 2025.2) ignores axes. At opsets 13 to 17 the "
        "attribute axes is not read, and everything is folded. -> Move to opset 18, where axes are an input. "
        "[openvino-l1-ignores-axes]"
    )
    assert repr(found) == "<Audit of the model: 1 error>"
    data = json.loads(json.dumps(found.data()))
    assert data["counts"] == {"error": 1, "warning": 0, "note": 0}
    assert data["findings"] == [fault._asdict()]
    log = json.loads(json.dumps(found.sarif("models/a b.onnx")))
    assert (log["version"], log["$schema"]) == ("2.1.0", "https://json.schemastore.org/sarif-2.1.0.json")
    ((run),) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [row.id for row in ROWS if row.runtime == "openvino"]
    assert all(rule["shortDescription"]["text"] and rule["fullDescription"]["text"] for rule in rules)
    assert all(rule["defaultConfiguration"]["level"] in ("error", "warning", "note") for rule in rules)
    (result,) = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == fault.row
    assert (result["level"], result["message"]["text"][:12]) == ("error", "node 'norm' ")
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "models/a%20b.onnx"
    assert place["logicalLocations"] == [{"name": "norm", "fullyQualifiedName": "node 'norm'"}]


def test_releases_are_compared_as_numbers() -> None:
    assert numbers("1.9") < numbers("1.10.1+cpu")
    assert numbers("2026.1.0-123") == (2026, 1)
    assert [span("", ""), span("1.2", ""), span("", "3"), span("1", "2")] == [
        "all known", "since 1.2", "before 3", "since 1, before 2",
    ]  # fmt: skip


# ---- what it writes


def test_repairs_repair_one_another() -> None:
    given = loaded("g (uint32[2,3] x) => (uint32[2] y) { [sum] y = ReduceL1<axes=[1], keepdims=0>(x) }", 13)
    made = fw.audit(given, ["onnxruntime", "openvino"]).fix(verify=True)
    rewritten = {fault.row for fault in made.repaired}
    assert {"onnxruntime-no-kernel", "openvino-l1-ignores-axes"} <= rewritten
    assert made.model.program.opset() == 18
    assert not [left for left in made.left if left.fault.level == "error"]


def test_what_is_not_repaired_says_why() -> None:
    given = loaded("g (float[2,3] x, int64 k) => (float[2,3] y) { [steps] y = CumProd(x, k) }", 26, ir=13)
    (left,) = fw.audit(given, "openvino").fix().left
    assert (left.fault.row, left.why) == (
        "openvino-no-cumprod", "nothing here rewrites it; compute it outside of the model.",
    )  # fmt: skip
    given = loaded("g (int64[2,N] x) => (int64[2,1] y) { [sum] y = ReduceSumSquare<axes=[1]>(x) }", 13)
    (left,) = fw.audit(given, "onnxruntime").fix().left
    assert left.why == "the folded axes may be empty, and then no step is the last; state the lengths"


def test_an_opset_that_cannot_be_had_says_why() -> None:
    given = loaded("g (float[2,3] x, int64 k) => (float[2,3] y) { [steps] y = CumProd(x, k) }", 26, ir=13)
    (left,) = fw.audit(given, "onnxruntime", {"onnxruntime": "1.24.1"}).fix().left
    assert left.fault.releases == "before 1.25.1"
    assert left.why == (
        "node 'steps': onnx opset 25 has no CumProd; it came with opset 26; convert to opset 26 or later"
    )


def test_the_given_model_stays_as_it_was() -> None:
    given = loaded(STAMPS, 13)
    made = fw.audit(given).fix()
    assert operators(given) == ["ReduceSum"]
    assert operators(made.model) == ["CumSum", "Gather"]
    assert made.model.graph.nodes[-1].name == "total"
    verify.compare(given, made.model, exact=True)


def test_models_too_new_become_older() -> None:
    given = loaded("g (float[2,3] x) => (float[1,1] y) { [log] y = ReduceLogSum(x) }", 28, ir=14)
    assert not fw.audit(given, "onnxruntime", {"onnxruntime": "1.32.0"}).at_least("error").findings
    found = fw.audit(given, "onnxruntime", {"onnxruntime": "1.31.1"})
    (fault,) = found.at_least("error").findings
    assert (fault.node, fault.row, fault.releases) == ("", "onnxruntime-new-model", "before 1.32.0")
    made = found.fix(verify=True)
    assert (made.model.program.opset(), made.model.program.version, made.left) == (26, 13, ())
    older = fw.audit(given, "onnxruntime", {"onnxruntime": "1.22"}).fix()
    assert (older.model.program.opset(), older.model.program.version) == (22, 10)


@pytest.mark.parametrize("noop", [0, 1])
def test_noop_on_old_nodes_means_what_it_meant(noop: int) -> None:
    text = f"g (float[2,2] x) => (float[a,b] y) {{ [norm] y = ReduceL1<noop_with_empty_axes={noop}>(x) }}"
    made = fw.audit(loaded(text, 13), "pytorch").fix()
    wanted = {0: ["ReduceL1"], 1: ["Abs"]}
    assert operators(made.model) == wanted[noop]


# ---- for documents


def test_support_needs_neither_onnx_nor_a_runtime() -> None:
    script = """
import sys
from foldwise.operators import CATALOG
from foldwise.runtimes.support import support
print(len(support(CATALOG.find("ReduceSum"))), *({"onnx", "onnxruntime", "openvino"} & set(sys.modules)))
"""
    assert processes.output("-c", script).split() == ["24"]


def test_support_tells_runs_refused_and_wrong() -> None:
    lines = {(line.runtime, line.dtype): line for line in support(CATALOG.find("onnx:ReduceL1-13"))}
    assert lines["openvino", "float32"].status == "wrong"
    assert lines["onnxruntime", "uint64"].status == "refused"
    assert lines["reference", "float32"].status == "runs"
    (old, *_) = support(CATALOG.find("onnx:CumProd-26"), {"onnxruntime": "1.24.1"})
    assert (old.status, old.rows) == ("refused", ("onnxruntime-new-model",))
    counted = {
        runtime: sum(line.status != "refused" for schema in CATALOG.schemas for line in support(schema)
                     if line.runtime == runtime and schema.dialect == "onnx")
        for runtime in ("onnxruntime", "openvino", "reference")
    }  # fmt: skip
    assert counted == {"onnxruntime": 303, "openvino": 448, "reference": 428}
