"""The commands on arrays: every function and option, every kind of file, and what is refused."""

from __future__ import annotations

import inspect
import io
import json
import os
import resource
import subprocess
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from command_line import COLOUR, COMMAND, ended, on_a_terminal, refused, written

import foldwise as fw
from foldwise import dtypes
from foldwise.arguments import NUMPY
from foldwise.cli import arrays, files, summary
from foldwise.entrances import ENTRANCES

NAMES = [name for name, _ in ENTRANCES]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where each test runs; x.npy holds 24 different floats in three dimensions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    values = np.random.default_rng(7).standard_normal((2, 3, 4)).astype(np.float32)
    np.save("x.npy", values)
    return tmp_path


def loaded(name: str) -> Any:
    return np.load(name, allow_pickle=False)


def printed(value: Any) -> str:
    return f"{value!s}\n"


def same(left: Any, right: Any) -> bool:
    """The same dtype, shape and bits."""
    first, second = np.asarray(left), np.asarray(right)
    return (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())


# ---- functions and options


@pytest.mark.parametrize("name", NAMES)
def test_each_command_gives_what_its_function_gives(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for axis in (0, -1):
        assert written(capsys, name, "x.npy", "--axis", str(axis), "--out", "y.npy").startswith("y.npy: ")
        assert same(loaded("y.npy"), getattr(fw, name)(loaded("x.npy"), axis=axis))


@pytest.mark.parametrize("name", NAMES)
def test_a_command_has_the_options_of_its_function(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    has = set(inspect.signature(getattr(fw, name)).parameters)
    assert has - arrays.OPTIONS.keys() <= {"x", "out", "initial", "where"}
    page = written(capsys, name, "--help")
    for option in arrays.OPTIONS:
        assert (f"--{option.replace('_', '-')}" in page) == (option in has), option


@pytest.mark.parametrize(
    ("name", "words", "options"),
    [
        ("sum", ["--keepdims", "--axis", "1"], {"keepdims": True, "axis": 1}),
        ("sum", ["--dtype", "float64"], {"dtype": np.float64}),
        ("mean", ["--dtype", "float16", "--axis", "0"], {"dtype": np.float16, "axis": 0}),
        ("sum", ["--accuracy", "exact", "--axis", "0"], {"accuracy": "exact", "axis": 0}),
        ("cumsum", ["--exclusive", "--axis", "0"], {"exclusive": True, "axis": 0}),
        ("cumprod", ["--reverse", "--axis", "2"], {"reverse": True, "axis": 2}),
        ("cummax", ["--include-initial", "--axis", "2"], {"include_initial": True, "axis": 2}),
        ("cumsum", ["--reverse", "--exclusive"], {"reverse": True, "exclusive": True}),
        ("argmax", ["--select-last-index", "--keepdims", "--axis", "0"],
         {"select_last_index": True, "keepdims": True, "axis": 0}),
    ],
)  # fmt: skip
def test_options(name: str, words: list[str], options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    written(capsys, name, *words, "x.npy", "--out", "y.npy")
    assert same(loaded("y.npy"), getattr(fw, name)(loaded("x.npy"), **options))


def test_overflow(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("i.npy", np.array([200, 100], np.uint8))
    for overflow, says in (("wrap", "44\n"), ("saturate", "255\n")):
        assert written(capsys, "sum", "i.npy", "--dtype", "uint8", "--overflow", overflow) == says
    assert "lies outside uint8 (0..255)" in refused(capsys, "sum", "i.npy", "--dtype", "uint8", "--overflow", "raise")


@pytest.mark.parametrize(
    "words",
    [
        ["x.npy", "--axis", "0", "2"], ["x.npy", "--axis", "0,2"], ["x.npy", "--axis=0,2"], ["x.npy", "--axis=0", "2"],
        ["--axis", "0", "x.npy", "--axis", "-1"],
        ["--axis", "0", "2", "x.npy"], ["--axis", "-3", "-1", "x.npy"], ["--axis", "-1,-3", "x.npy"],
        ["--axis", "2", "0", "--keepdims", "x.npy"], ["--keepdims", "--axis", "0,2", "--", "x.npy"],
    ],
)  # fmt: skip
def test_ways_to_name_axes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    written(capsys, "sum", "--out", "y.npy", *words)
    assert same(loaded("y.npy"), fw.sum(loaded("x.npy"), axis=(0, 2), keepdims="--keepdims" in words))


# ---- what is written


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.float32(0.1), "0.1"),
        (np.float64(0.1) + 0.2, "0.30000000000000004"),
        (np.float16(0.1), "0.1"),
        (ml_dtypes.bfloat16(3.14159), "3.14062"),
        (np.float64("nan"), "nan"),
        (np.float64("-inf"), "-inf"),
        (np.int64(-(2**63)), str(-(2**63))),
        (np.uint64(2**64 - 1), str(2**64 - 1)),
        (np.bool_(True), "True"),
    ],
)
def test_a_single_value_is_a_number_in_full(value: Any, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("v.npy", np.asarray(value))
    assert written(capsys, "max", "v.npy") == f"{says}\n"


def test_an_array_is_summarised(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("a.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    assert written(capsys, "cumsum", "a.npy", "--axis", "1") == (
        "float32 (2, 3)\n"
        "  min 0.0   mean 4.3333335   max 12.0   NaN 0   inf 0\n"
        "  [[ 0.  1.  3.]\n"
        "   [ 3.  7. 12.]]\n"
    )
    assert written(capsys, "sum", "a.npy", "--keepdims") == "float32 (1, 1)\n  [[15.]]\n"
    np.save("e.npy", np.zeros((0, 3), np.int8))
    assert written(capsys, "cumsum", "e.npy", "--axis", "0") == "int64 (0, 3)\n  []\n"


def test_large_arrays_are_summarised_shortly(capsys: pytest.CaptureFixture[str]) -> None:
    for shape in ((100_000,), (1000, 300), (40, 50, 60), (3,) * 9):
        np.save("a.npy", np.random.default_rng(0).standard_normal(shape))
        lines = written(capsys, "cumsum", "a.npy", "--axis", "0").splitlines()
        assert len(lines) < 12, shape
        assert max(map(len, lines)) <= 80
        assert any("..." in line for line in lines)


def test_statistics() -> None:
    told = summary.statistics(np.array([1.0, np.nan, np.inf, 3.0, np.nan]))
    assert told == {"min": 1, "mean": np.inf, "max": np.inf, "nans": 2, "infinities": 1}
    told = summary.statistics(np.array([-np.inf, 2, 4], ml_dtypes.bfloat16))
    assert told == {"min": -np.inf, "mean": -np.inf, "max": 4, "nans": 0, "infinities": 1}
    told = summary.statistics(np.array([[np.nan]]))
    assert np.isnan([told["min"], told["mean"], told["max"]]).all()
    assert told["nans"] == 1
    assert summary.statistics(np.array([True, False])) == {
        "min": False, "mean": 0.5, "max": True, "nans": 0, "infinities": 0,
    }  # fmt: skip
    for nothing in (np.zeros((0, 2)), np.array(["a"]), np.ones(2, np.complex64)):
        assert summary.statistics(nothing) == {}


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e5m2, ml_dtypes.int4, "complex64", "U3", "M8[s]", object])
def test_dtypes_that_are_not_folded_are_shown(dtype: Any) -> None:
    array = np.ones((2, 2)).astype(dtype)
    told = summary.as_data(array)
    assert set(told) == {"dtype", "shape", "values"}
    json.dumps(told)
    assert [type(block).__name__ for block in summary.summary(array, "x")] == ["Heading", "Lines"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("n.npy", np.array([[1, np.nan], [np.inf, -np.inf]], np.float32))
    told = json.loads(written(capsys, "cummax", "n.npy", "--axis", "0", "--json"))
    assert told == {
        "function": "cummax",
        "dtype": "float32",
        "shape": [2, 2],
        "statistics": {"min": 1, "mean": "Infinity", "max": "Infinity", "nans": 2, "infinities": 1},
        "values": [[1, "NaN"], ["Infinity", "NaN"]],
    }
    np.save("one.npy", np.float32(0.1))
    assert json.loads(written(capsys, "sum", "one.npy", "--json"))["values"] == float(np.float32(0.1))
    np.save("i.npy", np.array([2**64 - 1], np.uint64))
    assert json.loads(written(capsys, "max", "i.npy", "--json"))["values"] == 2**64 - 1
    np.save("many.npy", np.ones(101, ml_dtypes.bfloat16))
    told = json.loads(written(capsys, "cumsum", "many.npy", "--json", "--out", "y.npy"))
    assert "values" not in told
    assert (told["file"], told["shape"], told["dtype"]) == ("y.npy", [101], "bfloat16")
    assert Path("y.npy").is_file()


def test_on_a_terminal(folder: Path) -> None:
    for columns in (80, 140):
        text = on_a_terminal(columns, "cumsum", "x.npy", "--axis", "0", folder=folder)
        assert COLOUR.search(text)
        assert max(map(len, COLOUR.sub("", text).splitlines())) <= columns
    assert on_a_terminal(80, "sum", "x.npy", folder=folder) == printed(fw.sum(loaded("x.npy")))
    assert "standard input is a terminal" in on_a_terminal(80, "sum", "-", status=2, folder=folder)
    assert "standard output is a terminal" in on_a_terminal(80, "sum", "x.npy", "--out", "-", status=2, folder=folder)


# ---- files that are read


@pytest.mark.parametrize("dtype", dtypes.TABLE, ids=lambda dtype: dtype.name)
def test_every_dtype_comes_back(dtype: dtypes.Dtype, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([[1, 0, 3], [0, 1, 2]]).astype(NUMPY[dtype.code])
    np.save("x.npy", x)
    assert same(files.read_array("x.npy"), x)
    written(capsys, "cummax", "x.npy", "--axis", "0", "--out", "y.npy")
    assert same(files.read_array("y.npy"), fw.cummax(x, axis=0))


def test_layouts_and_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    for x in (
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(4, dtype=">f4"), np.float64(3), np.zeros((3, 0, 2)),
        np.zeros((1,) * 20),
    ):  # fmt: skip
        np.save("x.npy", x)
        found = files.read_array("x.npy")
        assert found.dtype == x.dtype
        assert np.array_equal(found, x)
        assert found.flags.f_contiguous == np.asarray(x).flags.f_contiguous
        assert written(capsys, "sum", "x.npy") == printed(fw.sum(x))


def test_files_are_mapped_not_read() -> None:
    with open("large.npy", "wb") as file:  # a terabyte of zeros, of which the disk holds nothing
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 38,)})
        file.truncate(file.tell() + (1 << 40))
    array = files.read_array("large.npy")
    assert array.shape == (1 << 38,)
    assert array[-1] == 0


def test_archives(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("a.npz", x=np.ones(3), y=np.arange(4))
    np.savez_compressed("one.npz", np.full((1000, 1000), 2.0))
    assert written(capsys, "sum", "a.npz:x") == "3.0\n"
    assert written(capsys, "sum", "a.npz:y") == "6\n"
    assert written(capsys, "sum", "one.npz") == "2000000.0\n"
    assert refused(capsys, "sum", "a.npz") == "foldwise: a.npz holds a.npz:x, a.npz:y; name one"
    assert refused(capsys, "sum", "a.npz:z") == "foldwise: a.npz holds a.npz:x, a.npz:y, and no 'z'"


def test_standard_input_and_pipes(folder: Path) -> None:
    data = Path("x.npy").read_bytes()
    total = printed(fw.sum(loaded("x.npy"))).encode()
    assert subprocess.run([*COMMAND, "sum", "-"], input=data, capture_output=True, check=True).stdout == total
    with open("x.npy", "rb") as file:
        assert subprocess.run([*COMMAND, "sum", "-"], stdin=file, capture_output=True, check=True).stdout == total
    os.mkfifo("pipe")
    threading.Thread(target=lambda: Path("pipe").write_bytes(data)).start()
    assert subprocess.run([*COMMAND, "sum", "pipe"], capture_output=True, check=True).stdout == total
    chain = " | ".join(" ".join([*COMMAND, *words]) for words in (
        ["cumsum", "x.npy", "--axis", "0", "--out", "-"], ["max", "-", "--axis", "-1", "--out", "-"], ["sum", "-"],
    ))  # fmt: skip
    found = subprocess.run(["bash", "-c", chain], capture_output=True, check=True)
    assert found.stdout == printed(fw.sum(fw.max(fw.cumsum(loaded("x.npy"), axis=0), axis=-1))).encode()
    assert not found.stderr


# ---- files that are written


def test_a_result_takes_the_place_of_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = loaded("x.npy")
    os.symlink("x.npy", "link.npy")
    written(capsys, "cumsum", "x.npy", "--axis", "1", "--out", "link.npy")
    assert os.path.islink("link.npy")
    assert same(loaded("x.npy"), fw.cumsum(before, axis=1))
    assert sorted(os.listdir()) == ["link.npy", "x.npy"]
    mask = os.umask(0)
    os.umask(mask)
    assert os.stat("x.npy").st_mode & 0o777 == 0o666 & ~mask


def test_a_full_disk_leaves_what_was_there(folder: Path) -> None:
    np.save("old.npy", np.ones(3))
    np.save("large.npy", np.ones(100_000))
    process = subprocess.run(
        [*COMMAND, "cumsum", "large.npy", "--out", "old.npy"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
    )
    assert process.returncode == 2, process.stderr
    assert process.stderr.startswith(f"foldwise: {folder / 'old.npy'} cannot be written: ")
    assert process.stderr.count("\n") == 1
    assert same(loaded("old.npy"), np.ones(3))
    assert sorted(os.listdir()) == ["large.npy", "old.npy", "x.npy"]


def test_nothing_is_left_when_the_work_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, "sum", "x.npy", "--axis", "9", "--out", "y.npy")
    assert os.listdir() == ["x.npy"]


# ---- bad input


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sum"], "the following arguments are required: FILE"),
        (["sum", "none.npy"], "there is no file 'none.npy'"),
        (["sum", "."], "'.' cannot be read: Is a directory"),
        (["sum", "a\0b"], "cannot be read: embedded null byte"),
        (["sum", "none.npz:x"], "there is no file 'none.npz'"),
        (["sum", "x.npy", "--axis", "3"], "sum: axis 3 is out of range for rank 3 (accepted: -3..2)"),
        (["sum", "x.npy", "--axis", "0", "-3"], "names axis 0 twice"),
        (["sum", "x.npy", "--axis", "x"], "'x' is no axis; give integers, as in --axis 0 or --axis 0,-1"),
        (["sum", "x.npy", "--axis=1.5"], "'1.5' is no axis"),
        (["sum", "--axis", "x.npy"], "'x.npy' is no axis"),
        (["sum", "x.npy", "--axis"], "--axis: expected one argument"),
        (["sum", "x.npy", "--axis", "--keepdims"], "--axis: expected one argument"),
        (["cumsum", "x.npy", "--axis", "0", "1"], "cumsum: --axis 0,1 are 2 axes; give one, as in --axis 0"),
        (["argmax", "x.npy", "--axis", "0,1"], "argmax: --axis 0,1 are 2 axes; give one, as in --axis 0"),
        (["cumulative_sum", "x.npy"], "axis must be given for rank 3"),
        (["sum", "x.npy", "--dtype", "float33"], "--dtype 'float33' is no dtype of results; accepted are int8"),
        (["sum", "x.npy", "--dtype", "int8"], "float32 cannot be folded into --dtype int8"),
        (["sum", "x.npy", "--overflow", "raise"], "--overflow raise is for integers"),
        (["sum", "x.npy", "--accuracy", "best"], "invalid choice: 'best'"),
        (["cumsum", "x.npy", "--exclusive", "--include-initial"], "--exclusive and --include-initial exclude each"),
        (["min", "x.npy", "--dtype", "float32"], "unrecognized arguments: --dtype"),
        (["cumsum", "x.npy", "--keepdims"], "unrecognized arguments: --keepdims"),
        (["sum", "x.npy", "--key"], "unrecognized arguments: --key"),
        (["sum", "x.npy", "y.npy"], "unrecognized arguments: y.npy"),
        (["sum", "x.npy", "--out", "y.txt"], "--out y.txt: results are written as .npy; give a name that ends so"),
        (["sum", "x.npy", "--out", "y.zarr"], "give a name that ends so, or --memory to write a .zarr"),
        (["sum", "x.npy", "--out", "no/y.npy"], "--out no/y.npy: there is no folder"),
        (["sum", "x.npy", "--out", "-", "--json"], "--out - and --json both want standard output"),
    ],
)
def test_wrong_usage(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(capsys, *words)


def npy(header: str, data: bytes = b"", version: bytes = b"\1\0") -> bytes:
    """An .npy file with this header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version == b"\1\0" else 4, "little") + text + data


def archive(name: str, data: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr(zipfile.ZipInfo(name), data)  # of no time: tests are named after its bytes
    return held.getvalue()


PICKLED = io.BytesIO()
np.save(PICKLED, np.array([{}], object), allow_pickle=True)
HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}}}"
WHOLE = npy(HEADER.format("<f4", (4,)), bytes(16))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not an .npy file, as numpy.save writes it (EOF"),
        (b"hello, world", "is not an .npy file, as numpy.save writes it (the magic string is not correct"),
        (WHOLE[:30], "is not an .npy file"),
        (WHOLE[:-1], "is truncated: of 16 bytes of data it has 15"),
        (npy(HEADER.format("<f4", (10**15,))), "is truncated: of 4,000,000,000,000,000 bytes of data it has 0"),
        (npy(HEADER.format("<f4", (-4,)), bytes(16)), "has a damaged header: dtype float32, shape (-4,)"),
        (npy(HEADER.format("<f4", (1,) * 65), bytes(16)), "has a damaged header"),
        (npy(HEADER.format("<U0", (3,)), bytes(16)), "has a damaged header"),
        (npy(HEADER.format("<q9", (3,)), bytes(16)), "is not an .npy file"),
        (npy("{'descr': __import__('os')}", bytes(16)), "is not an .npy file"),
        (npy("(" * 5000, bytes(16)), "is not an .npy file"),
        (npy("'''", bytes(16)), "is not an .npy file"),
        (npy("{}" + " " * 20_000, bytes(16)), "is not an .npy file"),
        (npy("{}", b"", b"\7\0"), "is not an .npy file"),
        (PICKLED.getvalue(), "holds pickled Python objects, which are never loaded; save numbers instead"),
        (npy(HEADER.format("<c8", (2,)), bytes(16)), "x has dtype complex64, shape (2,); accepted are bool, int8"),
        (npy(HEADER.format("<U2", (2,)), bytes(16)), "x has dtype <U2"),
        (npy(HEADER.format("|V8", (2,)), bytes(16)), "x has dtype |V8"),
        (archive("x.npy", WHOLE[:-1]), "is truncated: of 16 bytes of data it has 15"),
        (archive("x.npy", npy(HEADER.format("<f4", (10**15,)))), "is truncated"),
        (archive("x.npy", WHOLE).replace(b"PK\1\2", b"PK\1\3"), "is no .npz file, or a damaged one"),
        (archive("x.npy", WHOLE).replace(bytes(16), bytes(15) + b"\1"), "is no .npz file, or a damaged one (Bad CRC"),
        (archive("x.txt", b"hello"), "is not an .npy file"),
        (io.BytesIO(b"PK\3\4").getvalue() + bytes(50), "is no .npz file, or a damaged one"),
    ],
)
def test_damaged_files(content: bytes, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.npy").write_bytes(content)
    message = refused(capsys, "sum", "bad.npy")
    assert message.startswith("foldwise: bad.npy") or "dtype" in message
    assert says in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "standard input is not an .npy file"),
        (WHOLE[:-1], "standard input is truncated: of 16 bytes of data it has 15"),
        (npy(HEADER.format("<f4", (10**6,)), bytes(9)), "is truncated: of 4,000,000 bytes of data it has 9"),
        (npy(HEADER.format("<f4", (1 << 50,))), "there is not enough memory (Unable to allocate"),
    ],
)
def test_damaged_standard_input(
    content: bytes, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False))
    assert says in refused(capsys, "sum", "-")


def test_version_3_headers(capsys: pytest.CaptureFixture[str]) -> None:
    Path("v.npy").write_bytes(npy(HEADER.format("<f4", (4,)), np.ones(4, np.float32).tobytes(), b"\3\0"))
    assert ended(capsys, "sum", "v.npy") == (0, "4.0\n", "")
