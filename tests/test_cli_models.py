"""The commands on whole models: `foldwise run` and `foldwise check`, on .onnx and .xml files."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import openvino
import pytest
from command_line import COLOUR, ended, on_a_terminal, refused, run, written
from openvino import opset13 as layers

import foldwise as fw
from foldwise.cli import inputs
from foldwise.cli.models import file_names, limit
from foldwise.models.graph import Graph, Value

MODELS = {
    "rows": """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, 3, 4] data) => (float[N, 4] reduced, float[N, 4] steps)
        <int64[1] axes = {1}, int64 axis = {0}> {
          [fold] reduced = ReduceSum <keepdims = 0> (data, axes)
          e = Exp (reduced)
          [scan] steps = CumSum (e, axis)
        }""",
    "several": """<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, 3] x, int64[1] axes, int64 axis) => (float[N, M] y, float[N, 3] z) {
          y = ReduceSum (x, axes)
          z = CumSum (x, axis)
        }""",
    "defaults": """<ir_version: 9, opset_import: ["" : 18]>
        g (float[2, 3] x, int64[1] axes) => (float[2, M] y) <int64[1] axes = {1}> {
          y = ReduceSum (x, axes)
        }""",
    "foreign": """<ir_version: 9, opset_import: ["" : 18]>
        g (float[4] x) => (float[1] y) {
          [error] e = Erf (x)
          y = ReduceMax (e)
        }""",
    "sequence": """<ir_version: 9, opset_import: ["" : 18]>
        g (float[4] x) => (seq(float[]) parts) {
          parts = SplitToSequence <axis = 0> (x)
        }""",
    "tolerated": """<ir_version: 9, opset_import: ["" : 18]>
        g (float[2, 3] x) => (float[2, 3] y) <int64[1] axis = {1}> {
          [scan] y = CumSum (x, axis)
        }""",
    "wrong": """<ir_version: 9, opset_import: ["" : 18]>
        g (float[2, 3] x) => (float[2, 1] y, float[2, 3] z) <int64 axis = {5}> {
          [fold] y = ReduceSum <axes = [1]> (x)
          z = CumSum (x, axis)
        }""",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where each test runs: the models, and x.npy for those of three dimensions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name, text in MODELS.items():
        onnx.save(onnx.parser.parse_model(text), f"{name}.onnx")
    np.save("x.npy", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    return tmp_path


def write_ir() -> None:
    """model.xml, by OpenVINO itself."""
    data = layers.parameter([-1, 3, 4], np.float32, name="data")
    data.output(0).tensor.set_names({"data", "in:0"})
    folded = layers.reduce_sum(data, layers.constant(np.array([1])), True)
    folded.output(0).tensor.set_names({"sum"})
    openvino.save_model(openvino.Model([folded], [data]), "model.xml", compress_to_fp16=False)


def given(*values: Value) -> Any:
    """A model as far as its inputs go."""
    return SimpleNamespace(inputs=values, graph=Graph(inputs=list(values)))


# ---- run


def test_outputs_are_summarised(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, "run", "rows.onnx", "--input", "data=zeros:2,3,4") == (
        "reduced: float32 (2, 4)\n"
        "  min 0.0   mean 0.0   max 0.0   NaN 0   inf 0\n"
        "  [[0. 0. 0. 0.]\n"
        "   [0. 0. 0. 0.]]\n"
        "\n"
        "steps: float32 (2, 4)\n"
        "  min 1.0   mean 1.5   max 2.0   NaN 0   inf 0\n"
        "  [[1. 1. 1. 1.]\n"
        "   [2. 2. 2. 2.]]\n"
    )


def test_outputs_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(written(capsys, "run", "rows.onnx", "--input", "x.npy", "--json", "--profile"))
    assert told["model"] == "rows.onnx"
    assert list(told["outputs"]) == ["reduced", "steps"]
    assert told["outputs"]["reduced"]["values"] == [[12, 15, 18, 21], [48, 51, 54, 57]]
    assert told["outputs"]["steps"]["statistics"]["infinities"] == 0
    assert [step["operator"] for step in told["profile"]] == ["ReduceSum-13", "Exp", "CumSum-14"]
    assert all(step["seconds"] >= 0 and step["written"] == 32 for step in told["profile"])


def test_outputs_as_files(capsys: pytest.CaptureFixture[str]) -> None:
    text = written(capsys, "run", "rows.onnx", "--input", "x.npy", "--output-dir", "made/here")
    assert text == "made/here/reduced.npy: float32 (2, 4)\nmade/here/steps.npy: float32 (2, 4)\n"
    found = fw.load("rows.onnx").run([np.load("x.npy")])
    for name, array in found.items():
        assert np.array_equal(np.load(f"made/here/{name}.npy"), array)
    assert sorted(path.name for path in Path("made/here").iterdir()) == ["reduced.npy", "steps.npy"]
    told = json.loads(written(capsys, "run", "rows.onnx", "--input", "x.npy", "--output-dir", "made", "--json"))
    assert told["outputs"]["steps"]["file"] == "made/steps.npy"


def test_openvino_models_run(capsys: pytest.CaptureFixture[str]) -> None:
    write_ir()
    for word in ("x.npy", "data=x.npy", "in:0=x.npy"):
        told = json.loads(written(capsys, "run", "model.xml", "--input", word, "--json"))
        (output,) = told["outputs"].values()
        assert output["values"] == [[[12, 15, 18, 21]], [[48, 51, 54, 57]]]
    assert written(capsys, "check", "model.xml") == "model.xml: nothing wrong was found\n"


def test_outputs_that_are_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "sequence.onnx", "--input", "[1,2,3,4]", "--engine", "reference"]
    assert list(json.loads(written(capsys, *words, "--json"))["outputs"]) == [f"parts[{k}]" for k in range(4)]
    written(capsys, *words, "--output-dir", ".")
    assert np.load("parts_3_.npy").tolist() == [4]


def test_another_engine_runs_what_foldwise_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "run", "foreign.onnx", "--input", "[0,1,2,3]")
    assert "Erf" in message
    assert "--engine onnxruntime or --engine reference" in message
    text = written(capsys, "run", "foreign.onnx", "--input", "[0,1,2,3]", "--engine", "reference", "--profile")
    assert text.startswith("y: float32 (1,)\n  [0.99")
    assert re.search(r" reference +Erf, node 'error'\n", text)
    assert "engine = 'best'" in refused(capsys, "run", "foreign.onnx", "--input", "[0,1,2,3]", "--engine", "best")


def test_the_profile_is_in_running_order(capsys: pytest.CaptureFixture[str]) -> None:
    text = written(capsys, "run", "rows.onnx", "--input", "data=random:1000,3,4", "--profile")
    lines = text.split("\nSteps\n")[1].splitlines()
    assert lines[0].split() == ["ms", "share", "GB/s", "by", "operator", "and", "node"]
    rows = [line.split(maxsplit=4) for line in lines[2:]]
    assert [row[3:] for row in rows[:3]] == [
        ["foldwise", "ReduceSum-13, node 'fold'"],
        ["numpy", "Exp, the node that makes 'e'"],
        ["foldwise", "CumSum-14, node 'scan'"],
    ]
    assert rows[3][1] == "100.0%"
    assert rows[3][3] == "total"
    assert float(rows[3][0]) == pytest.approx(sum(float(row[0]) for row in rows[:3]), abs=0.002)


def test_what_runtimes_tolerate(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ended(capsys, "run", "tolerated.onnx", "--input", "[[1,2,3],[4,5,6]]")
    assert status == 0
    assert "[ 4.  9. 15.]]" in out
    assert re.fullmatch(r"foldwise: warning: .*CumSum-14: .* \(--strict refuses it\)\n", err)
    message = refused(capsys, "run", "tolerated.onnx", "--input", "[[1,2,3],[4,5,6]]", "--strict")
    assert "leave out --strict" in message


def test_names_in_a_model_cannot_act_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.load("rows.onnx")
    model.graph.output[0].name = model.graph.node[0].output[0] = model.graph.node[1].input[0] = "a\x1b[2J/../b"
    onnx.save(model, "named.onnx")
    assert written(capsys, "run", "named.onnx", "--input", "x.npy").startswith("a\\x1b[2J/../b: float32 (2, 4)\n")
    written(capsys, "run", "named.onnx", "--input", "x.npy", "--output-dir", "out")
    assert sorted(path.name for path in Path("out").iterdir()) == ["a__2J_.._b.npy", "steps.npy"]


def test_names_for_files() -> None:
    names = ["y", "Y", "a/b", "a:b", "../../etc/x", "", ".hidden", "-rf", "x" * 300, "é.0", "y"]
    assert file_names(names) == [
        "y.npy", "Y-2.npy", "a_b.npy", "a_b-2.npy", "_.._etc_x.npy", "output.npy", "hidden.npy", "rf.npy",
        "x" * 100 + ".npy", "é.0.npy", "y-3.npy",
    ]  # fmt: skip


# ---- what inputs are


X = Value("x", "float32", (2, 3))


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        (X, "zeros", np.zeros((2, 3), np.float32)),
        (X, "ones:4", np.ones(4, np.float32)),
        (X, "ones:int8", np.ones((2, 3), np.int8)),
        (X, "zeros:bfloat16:2,1", np.zeros((2, 1), ml_dtypes.bfloat16)),
        (X, "ones:bool:", np.ones((), np.bool_)),
        (X, "zeros:0,3", np.zeros((0, 3), np.float32)),
        (Value("x"), "ones:uint64:2", np.ones(2, np.uint64)),
        (X, "3.5", 3.5),
        (X, "[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        (X, "true", True),
        (X, "[]", []),
    ],
)
def test_forms_of_inputs(value: Value, text: str, expected: Any) -> None:
    found = inputs.made(value, text, np.random.default_rng(0))
    assert type(found) is type(expected)
    assert np.array_equal(found, expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("name", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64"])
def test_random_inputs(name: str) -> None:
    words = [f"x=random:{name}:100,100", f"y=random:{name}:100,100"]
    first = inputs.given(given(Value("x"), Value("y")), words, 3)
    again = inputs.given(given(Value("x"), Value("y")), [words[0], f"y=zeros:{name}:1"], 3)
    other = inputs.given(given(Value("x"), Value("y")), words, 4)
    assert first["x"].dtype.name == name
    assert np.array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], first["y"])
    assert not np.array_equal(first["x"], other["x"])
    if first["x"].dtype.kind in "iu":
        assert {int(each) for each in np.unique(first["x"])} == set(range(-9 if name.startswith("i") else 0, 10))
    elif name != "bool":
        assert abs(first["x"].astype(float).mean()) < 0.05
        assert abs(first["x"].astype(float).std() - 1) < 0.05


def test_names_of_inputs() -> None:
    model = given(Value("a", "int64", ()), Value("a=b", "int64", ()), Value("c", "int64", (), ("see", "a=c")))
    assert inputs.given(model, ["a=1", "a=b=2", "3"], 0) == {"a": 1, "a=b": 2, "c": 3}
    assert inputs.given(model, ["4", "see=3", "a=b=2"], 0) == {"a": 4, "a=b": 2, "c": 3}
    Path("a=x.npy").write_bytes(Path("x.npy").read_bytes())
    assert inputs.given(given(Value("b")), ["a=x.npy"], 0)["b"].shape == (2, 3, 4)


def test_inputs_with_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "defaults.onnx", "--json", "--input", "x=[[1,2,3],[4,5,6]]"]
    assert json.loads(written(capsys, *words))["outputs"]["y"]["values"] == [[6], [15]]
    assert json.loads(written(capsys, *words, "--input", "axes=[0]"))["outputs"]["y"]["values"] == [[5, 7, 9]]


def test_a_missing_input_is_told_with_an_example_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    write_ir()
    for model, count in (("rows.onnx", 1), ("several.onnx", 3), ("model.xml", 1)):
        message = refused(capsys, "run", model)
        advice = shlex.split(message.split("Add, for example, ")[1])
        assert len(advice) == 2 * count
        written(capsys, "run", model, *advice)
    message = refused(capsys, "run", "several.onnx", "--input", "axes=[1]", "--input", "axis=0")
    assert message == (
        "foldwise: there is no value for x: float32 (N, 3). Add, for example, --input x=random:float32:1,3"
    )
    assert inputs.example(Value("it's", "float8_e5m2", (2,))) == "it's=x.npy"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["x.npy"], "which of the inputs? name it, as in --input x=x.npy (inputs without one: x, axes, axis)"),
        (["x=random:1,3", "axes=[1]", "axis=0", "7"], "--input 7 is for which of the inputs?"),
        (["z=1"], "the model has no input 'z'; its inputs: x, axes, axis"),
        (["x=1", "x=2"], "input 'x' is given twice"),
        (["x=random", "axes=[1]", "axis=0"], "say which shape, as in random:float32:3,4; the model states (N, 3)"),
        (["x=random:float33:1,3", "axes=[1]", "axis=0"], "'float33' in random:float33:1,3 is neither a shape"),
        (["x=random:1,3:1,3", "axes=[1]", "axis=0"], "'1,3' in random:1,3:1,3 is neither"),
        (["x=zeros:-1,3", "axes=[1]", "axis=0"], "'-1,3' in zeros:-1,3 is neither"),
        (["x=none.npy", "axes=[1]", "axis=0"], "there is no file 'none.npy'"),
        (["x=[[1,2],[3]]", "axes=[1]", "axis=0"], "input 'x': [[1,2],[3]] is no number and no even list of numbers"),
        (["x={}", "axes=[1]", "axis=0"], "input 'x': {} is no number"),
        (['x="a"', "axes=[1]", "axis=0"], "is no number and no even list"),
        (["x=x.npy", "axes=[1]", "axis=0"], "input 'x' must have shape (N, 3), got float32 of shape (2, 3, 4)"),
        (["x=zeros:float64:1,3", "axes=[1]", "axis=0"], "input 'x' must be float32, got float64"),
        (["x=zeros:1,3", "axes=[1]", "axis=0.5"], "input 'axis' must be int64, got float64"),
        (["x=zeros:1,3", "axes=[9]", "axis=0"], "axes[0] = 9 is out of range for rank 2"),
        (["x=zeros:999999999,999999999", "axes=[1]", "axis=0"], "there is not enough memory"),
        (["x=ones:999999999999999999,9,9", "axes=[1]", "axis=0"], "there can be no such array as ones:9"),
        (["x=random:" + "1," * 65, "axes=[1]", "axis=0"], "there can be no such array as random:1,1"),
        (["x=random:" + "9" * 19, "axes=[1]", "axis=0"], "is neither a shape"),
        (["x=" + "[" * 100_000, "axes=[1]", "axis=0"], "File name too long"),
    ],
)
def test_wrong_inputs(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    given_words = [each for word in words for each in ("--input", word)]
    assert says in refused(capsys, "run", "several.onnx", *given_words)


def test_inputs_of_unknown_type() -> None:
    with pytest.raises(fw.FoldwiseError, match=r"input 'x': say which dtype, as in random:float32$"):
        inputs.made(Value("x"), "random", np.random.default_rng(0))
    with pytest.raises(fw.FoldwiseError, match=r"input 'x': say which shape, as in ones:int8:3,4$"):
        inputs.made(Value("x"), "ones:int8", np.random.default_rng(0))


# ---- check


def test_check_tells_every_finding(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ended(capsys, "check", "wrong.onnx")
    assert (status, err) == (1, "")
    assert out.startswith("error: node 'fold', ReduceSum-13\n  what  ")
    assert "\n\nerror: the node that makes 'z', CumSum-14\n  what  axis = 5 is out of range" in out
    found = fw.load("wrong.onnx").check()
    assert len(found) > 1
    assert out.endswith(f"\n\nwrong.onnx: {len(found)} errors\n")
    status, out, err = ended(capsys, "check", "wrong.onnx", "--json")
    told = json.loads(out)
    assert (status, told["counts"]) == (1, {"error": len(found), "warning": 0, "note": 0})
    assert told["findings"] == [finding._asdict() for finding in found]


def test_check_of_good_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, "check", "rows.onnx") == "rows.onnx: nothing wrong was found\n"
    assert json.loads(written(capsys, "check", "rows.onnx", "--json")) == {
        "model": "rows.onnx", "counts": {"error": 0, "warning": 0, "note": 0}, "findings": [],
    }  # fmt: skip


def test_warnings_are_errors_when_strict(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ended(capsys, "check", "tolerated.onnx")
    assert status == 0
    assert out.startswith("warning: node 'scan', CumSum-14\n")
    assert ended(capsys, "check", "tolerated.onnx", "--strict")[0] == 1


# ---- files and limits


@pytest.mark.parametrize("command", ["run", "check"])
def test_unreadable_models(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.onnx").write_text("hello")
    Path("broken.xml").write_text("<net><layers>")
    Path("entity.xml").write_text('<!DOCTYPE net [<!ENTITY a "b">]><net/>')
    Path("cut.onnx").write_bytes(Path("rows.onnx").read_bytes()[:60])
    for name in ("none.onnx", ".", "text.onnx", "x.npy", "broken.xml", "entity.xml", "cut.onnx"):
        assert name in refused(capsys, command, name)


def test_limits(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "run", "rows.onnx", "--input", "x.npy", "--limit", "nodes=2")
    advice = re.findall(r"--limit nodes=\d+", message)[0].split()
    written(capsys, "run", "rows.onnx", "--input", "x.npy", *advice)
    assert limit("data_bytes=100GB") == ("data_bytes", 100 * 10**9)
    assert limit("data_bytes=1.5 GiB") == ("data_bytes", 3 << 29)
    assert limit("file_bytes=9007199254740993") == ("file_bytes", 2**53 + 1)
    for text in ("data=3", "nodes=-1", "nodes=many", "nodes=3XB", "nodes", "nodes="):
        with pytest.raises(argparse.ArgumentTypeError, match="write it as data_bytes=100GB"):
            limit(text)
    assert "is no limit" in refused(capsys, "check", "rows.onnx", "--limit", "nodes=many")


def test_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "rows.onnx", "--input", "random:2,3,4", "--seed"]
    assert written(capsys, *words, "0") == written(capsys, *words[:-1]) != written(capsys, *words, "1")
    assert "'-1' is no seed" in refused(capsys, *words, "-1")


def test_folders_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "run", "rows.onnx", "--input", "x.npy", "--output-dir", "x.npy")
    assert message == "foldwise: --output-dir x.npy: File exists"


# ---- on a terminal

SLOW = """
import time
import foldwise, foldwise.cli.progress
foldwise.cli.progress.PATIENCE = 0.01
run = foldwise.Model.run
def slowly(*given, observe, **named):
    def told(step):
        time.sleep(0.3)
        observe(step)
    return run(*given, observe=told, **named)
foldwise.Model.run = slowly
"""


def test_long_work_has_a_bar_on_a_terminal_only(folder: Path) -> None:
    words = ["run", "rows.onnx", "--input", "x.npy"]
    text = COLOUR.sub("", on_a_terminal(80, *words, before=SLOW, folder=folder))
    assert re.search(r"rows.onnx .*━.* 1/3 steps 0:00:0", text)
    assert "━" not in on_a_terminal(80, *words, folder=folder)
    assert "━" not in on_a_terminal(80, *words, before=f"{SLOW}\nsys.modules['rich'] = None", folder=folder)
    assert "reduced: float32" in on_a_terminal(80, *words, before=SLOW, folder=folder, TERM="dumb")


def test_names_of_files_are_never_cut(folder: Path) -> None:
    name = "long" * 30
    text = on_a_terminal(60, "run", "rows.onnx", "--input", "x.npy", "--output-dir", name, folder=folder)
    assert f" {name}/steps.npy: float32 (2, 4)\n" in COLOUR.sub("", text)


def test_pages_fit_a_terminal(folder: Path) -> None:
    for columns in (80, 140):
        for words, status in (
            (["run", "rows.onnx", "--input", "data=random:200,3,4", "--profile"], 0),
            (["check", "wrong.onnx"], 1),
        ):
            text = on_a_terminal(columns, *words, status=status, folder=folder)
            assert COLOUR.search(text)
            lines = [line.rstrip() for line in COLOUR.sub("", text).splitlines()]
            assert max(map(len, lines)) <= columns


def test_in_a_process_of_its_own() -> None:
    process = run("check", "wrong.onnx")
    assert (process.returncode, process.stderr) == (1, "")
    process = run("run", "rows.onnx")
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.count("\n") == 1
