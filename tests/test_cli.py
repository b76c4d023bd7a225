"""The command line: what it writes to pipes and terminals, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import processes
import pytest
from command_line import COLOUR, COMMAND, ended, on_a_terminal, run, written

import foldwise as fw
from foldwise.cli import arrays, commands
from foldwise.cli.blocks import visible
from foldwise.operators import CATALOG

SCHEMAS = fw.operators()


# ---- ops


def test_ops_lists_every_operator_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    lines = written(capsys, "ops").splitlines()
    assert lines[0].split() == ["operator", "dialect", "versions", "dtypes", "of", "the", "newest"]
    for dialect in CATALOG.dialects.values():
        for name in CATALOG.names(dialect.name):
            versions = " ".join(str(schema.version) for schema in CATALOG.versions(dialect.name, name))
            assert [line for line in lines if re.match(rf"{name} +{dialect.title} +{versions} ", line)], name
    assert f"{len(SCHEMAS)} versions, {sum(len(s.dtypes) for s in SCHEMAS)} pairs" in lines[-2]


def test_ops_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(written(capsys, "ops", "--json"))
    found = {(each["dialect"], each["operator"], version) for each in listed for version in each["versions"]}
    assert found == {(s.dialect, s.name, s.version) for s in SCHEMAS}
    assert all(each["dtypes"] for each in listed)


# ---- show


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.full_name)
def test_a_page_says_everything(schema: Any, capsys: pytest.CaptureFixture[str]) -> None:
    page = written(capsys, "show", schema.full_name)
    flat = " ".join(page.split())
    assert page.startswith(f"{schema.label}  (")
    for text in (schema.summary, schema.formula, schema.signature, schema.output.text, *schema.notes, *schema.changes):
        assert " ".join(text.split()) in flat
    for named in (*schema.inputs, *schema.attributes, *schema.types):
        assert re.search(rf"^  {named.name} ", page, re.MULTILINE)
    assert all(dtype in flat for dtype in schema.dtypes)
    assert ("Since version" in page) == (schema.previous is not None)
    assert max(map(len, page.splitlines())) <= 80
    assert page.isascii()
    assert not re.search(r" $", page, re.MULTILINE)


@pytest.mark.parametrize("schema", SCHEMAS[::9], ids=lambda schema: schema.full_name)
def test_a_page_as_json(schema: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(written(capsys, "show", schema.full_name, "--json"))
    assert data["name"] == schema.full_name
    assert data["types"] == {t.name: [*t.dtypes] for t in schema.types}
    assert [i["name"] for i in data["inputs"]] == [i.name for i in schema.inputs]
    assert {a["name"]: a["default"] for a in data["attributes"]} == {a.name: a.default for a in schema.attributes}
    assert data["edge_cases"]
    assert data["opsets"][0] == schema.version


def test_ways_to_name_a_version(capsys: pytest.CaptureFixture[str]) -> None:
    pages = [
        written(capsys, "show", *arguments)
        for arguments in (["onnx:ReduceSum-13"], ["ReduceSum-13"], ["ReduceSum"], ["ReduceSum", "--opset", "20"])
    ]
    assert len(set(pages)) == 1
    assert written(capsys, "show", "ReduceSum", "--dialect", "openvino").startswith("ReduceSum-1  (OpenVINO, opsets 1")


def test_edges_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    for name, says in {
        "ReduceMean": "Of no elements: NaN for floats, refused for integers.",
        "openvino:ReduceMean": "Of no elements: 0.",
        "ReduceMax-20": "-inf for floats, the dtype's lowest value for integers, False for bool.",
        "ReduceSumSquare": "with noop_with_empty_axes=1 none, and each element becomes x^2.",
        "openvino:ReduceL1": "Empty axes fold none: each element becomes |x|.",
        "ReduceSum-1": "Absent or empty axes fold all of them.",
        "ArgMax": "NaN counts as the extreme.",
        "CumSum": "An axis tensor of shape (1,) is refused, save with lenient=True.",
    }.items():
        assert says in " ".join(written(capsys, "show", name).split())


# ---- pipes and terminals


def test_a_pipe_gets_plain_text_as_wide_as_asked() -> None:
    for columns in (60, 80, 140):
        for arguments in (["ops"], ["show", "ReduceMax-18"]):
            process = run(*arguments, COLUMNS=str(columns), FORCE_COLOR="")
            assert process.returncode == 0
            assert "\x1b" not in process.stdout
            assert max(map(len, process.stdout.splitlines())) <= columns
    assert max(map(len, run("ops", COLUMNS="140").stdout.splitlines())) > 80


@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_gets_colours_and_its_width(columns: int) -> None:
    for arguments in (["ops"], ["show", "ReduceLogSum-18"]):
        text = on_a_terminal(columns, *arguments)
        assert COLOUR.search(text)
        lines = COLOUR.sub("", text).splitlines()
        assert max(map(len, lines)) <= columns
        plain = on_a_terminal(columns, *arguments, NO_COLOR="1")
        assert "\x1b[3" not in plain
        assert [line.rstrip() for line in COLOUR.sub("", plain).splitlines()] == [line.rstrip() for line in lines]


def test_a_terminal_without_rich_gets_plain_text() -> None:
    for arguments in (["ops"], ["show", "CumSum"]):
        text = on_a_terminal(100, *arguments, before="sys.modules['rich'] = None")
        assert text == run(*arguments, COLUMNS="100").stdout


def test_the_same_words_in_colours_and_without() -> None:
    for name in ("ReduceMax-18", "openvino:CumSum-3"):
        colours = COLOUR.sub("", on_a_terminal(100, "show", name))
        plain = run("show", name, COLUMNS="100").stdout
        assert sorted(re.findall(r"\w+", colours)) == sorted(re.findall(r"\w+", plain))


def test_a_reader_that_goes_away() -> None:
    script = f"{sys.executable} -m foldwise ops | head -n 1"
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout.startswith("operator")
    assert not process.stderr


# ---- how it ends


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["shwo"], "invalid choice: 'shwo'"),
        (["show"], "the following arguments are required: operator"),
        (["show", "ReduceSum", "--opset", "x"], "argument --opset: invalid int value: 'x'"),
        (["show", "ReduceSun"], "foldwise: onnx has no operator 'ReduceSun' here; did you mean ReduceSum?"),
        (["show", "ReduceSum-12"], "foldwise: onnx:ReduceSum has no version 12; there are 1, 11, 13"),
        (["show", "CumSum", "--opset", "9"], "foldwise: onnx opset 9 has no CumSum; it came with opset 11"),
        (["show", "CumProd", "--dialect", "openvino"], "there is onnx:CumProd"),
        (["ops", "--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ended(capsys, *arguments)
    assert status == 2
    assert says in err
    assert not out


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, says in (
        (["--version"], f"foldwise {fw.__version__}"),
        (["--help"], "ops"),
        (["show", "-h"], "--json"),
    ):
        assert says in written(capsys, *arguments)


def test_the_library_does_not_load_the_command_line() -> None:
    loaded = processes.output(
        "-c", "import sys, foldwise; print('foldwise.cli' in sys.modules, 'argparse' in sys.modules)"
    )
    assert loaded.split()[0] == "False"


def test_every_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    overview = written(capsys, "--help")
    for name in ("ops", "show", "diff", "run", "check", "audit", *arrays.summaries()):
        assert re.search(rf"^ +{name} +\w", overview, re.MULTILINE), name
        page = written(capsys, name, "--help")
        assert "exit codes:" in page
        assert max(map(len, page.splitlines())) <= 100
    assert max(map(len, overview.splitlines())) <= 84


def test_nothing_is_loaded_before_it_is_needed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    script = f"""
import sys
from foldwise.cli import main
main(["ops"])
main(["sum", {str(tmp_path / "x.npy")!r}])
print({{name.split(".")[0] for name in sys.modules}} & {{"onnx", "onnxruntime", "openvino", "rich", "dask", "zarr"}})
"""
    assert processes.output("-c", script).splitlines()[-2:] == ["3.0", "set()"]


def test_an_interrupt_ends_with_130_and_one_line() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, "sum", "-"], stdin=pipe, stdout=pipe, stderr=pipe) as child:
        assert child.stdin is not None
        child.stdin.write(b"\x93NUMP")
        child.stdin.flush()
        while int.from_bytes(ioctl(child.stdin, termios.FIONREAD, bytes(4)), sys.byteorder):
            time.sleep(0.01)  # until it has read that, and waits for more
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, b"", b"foldwise: interrupted\n")


@pytest.mark.parametrize(
    ("says", "here"),
    [
        ("load: there is no file 'x'", "there is no file 'x'"),
        ("operator: no 'x' here", "no 'x' here"),
        ("raise it: limits=Limits(nodes=12))", "raise it: --limit nodes=12)"),
        ('run(..., engine="reference") or engine="x" helps', "--engine reference or --engine x helps"),
        ('have none; leave it out, or ask for to="onnx"', "have none; leave it out, or name an .onnx file"),
        ("got float64; give x.astype('float32')", "got float64; give it as float32"),
        ("nobody can tell; leave checkpoint= away", "nobody can tell; leave --checkpoint away"),
        ("include_initial=True or reverse=True", "--include-initial or --reverse"),
        ("give the scalar 0, or ask for lenient=True", "give the scalar 0, or leave out --strict"),
    ],
)
def test_messages_speak_of_options(says: str, here: str) -> None:
    assert commands.said_here(says) == here


def test_names_in_files_cannot_act_on_a_terminal() -> None:
    assert visible("a\x1b[2Jb\n\tc\u202ed é") == "a\\x1b[2Jb  c\\u202ed é"


# ---- the page about it

MODEL = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[N, 3, 4] data) => (float[N, 4] reduced, float[N, 4] steps)
    <int64[1] axes = {1}, int64 axis = {0}> {
      [fold] reduced = ReduceSum <keepdims = 0> (data, axes)
      e = Exp (reduced)
      [scan] steps = CumSum (e, axis)
    }"""
PAGE = processes.ROOT / "docs" / "command-line.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="needs the repository")
@pytest.mark.parametrize(("page", "least"), [(PAGE, 9), (processes.ROOT / "README.md", 4)], ids=["page", "README"])
def test_the_page_shows_what_is_written(page: Path, least: int, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    if page != PAGE:  # which makes its own
        np.save(tmp_path / "x.npy", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
        for suffix in (".xml", ".bin"):
            shutil.copy(processes.ROOT / "examples" / "models" / f"running_share{suffix}", tmp_path / f"model{suffix}")
    sessions = re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(sessions), re.MULTILINE)
    assert len(shown) >= least
    for command, output in shown:
        script = f'python() {{ {sys.executable} "$@"; }}; foldwise() {{ python -m foldwise "$@"; }}; {command}'
        process = subprocess.run(["bash", "-c", f"exec 2>&1; {script}"], cwd=tmp_path, capture_output=True, text=True)
        assert process.stdout == output if output else process.returncode == 0, command


@pytest.mark.skipif(not PAGE.is_file(), reason="needs the repository")
def test_the_page_and_the_helps_tell_the_same_exit_codes() -> None:
    codes = re.findall(r"^\| (\d+) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert codes == re.findall(r"^  (\d+) ", commands.ENDINGS, re.MULTILINE)
