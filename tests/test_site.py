"""The site as it is written: every page there, every link leading somewhere, what it says true. No browser needed."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import sites
from command_line import refused, written

import foldwise as fw
from foldwise.operators import CATALOG, Schema
from foldwise.pages import comparison, drawing, examples, frame, guides, site, versions, words

pytestmark = pytest.mark.xdist_group("site")  # it is written once for them all
ROOT = Path(__file__).parent.parent
PAGES = [page.path for page in (*versions.pages(), *guides.pages(), comparison.chooser())]
PAIRS = [(a, b) for a in CATALOG.schemas for b in CATALOG.schemas if a is not b]


@pytest.fixture(scope="module")
def folder() -> Path:
    return sites.folder()


# ---- what is there


def test_every_page_is_there(folder: Path) -> None:
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}
    assert there == {*PAGES, *(comparison.pair(*each) for each in PAIRS)}
    assert {f"operators/{s.dialect}-{s.label}.html" for s in CATALOG.schemas} < there


@pytest.mark.parametrize("path", PAGES)
def test_links_lead_somewhere(folder: Path, path: str) -> None:
    page = sites.Read(folder / path)
    assert len(page.names) == len(set(page.names))
    for link in page.links:
        target, _, name = link.partition("#")
        assert not target.startswith(("/", "file:")), link
        if "://" in target:
            continue
        found = (folder / path).parent / target if target else folder / path
        assert found.is_file(), f"{path}: {link}"
        assert not name or name in sites.Read(found).names, f"{path}: {link}"


def test_pairs_are_whole(folder: Path) -> None:
    for old, new in PAIRS[::37]:
        path = folder / comparison.pair(old, new)
        page = sites.Read(path)
        assert f"{old.full_name} → {new.full_name}" in page.text
        assert all((path.parent / link).is_file() for link in page.links if "#" not in link)


def test_no_page_weighs_too_much(folder: Path) -> None:
    shared = sum((folder / "assets" / name).stat().st_size for name in ("site.css", "site.js", "icon.svg", "search.js"))
    heaviest = max(folder.rglob("*.html"), key=lambda path: path.stat().st_size)
    assert heaviest.stat().st_size + shared < 100_000, heaviest


def test_nothing_is_asked_of_others(folder: Path) -> None:
    for path in [*(folder / "assets").iterdir(), *map(folder.joinpath, PAGES)]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(src|@import|url\()\W{0,2}https?:", text), path
        assert not re.search(r"<link[^>]*https?:", text), path


# ---- what it says


def test_the_page_of_a_version_holds_what_the_specification_s_page_holds(folder: Path) -> None:
    """As onnx's own documentation of ReduceSum-13 is organised, with the values that it shows."""
    text = sites.Read(folder / "operators/onnx-ReduceSum-13.html").text
    flat = " ".join(text.split())
    sections = [
        "ReduceSum", "Domain: ai.onnx", "Since version: 13", "Inputs", "data (T)", "axes (tensor(int64)", "Outputs",
        "reduced (T)", "Attributes", "keepdims (int", "noop_with_empty_axes (int", "Type constraints", "T:",
        "tensor(bfloat16), tensor(double), tensor(float), tensor(float16), tensor(int32), tensor(int64), "
        "tensor(uint32), tensor(uint64)",
        "Examples", "default_axes_keepdims", "reduced: shape=(1, 1, 1), dtype=float32", "[[[78.]]]",
        "do_not_keepdims", "keepdims = 0", "axes: shape=(1,), dtype=int64", "reduced: shape=(3, 2), dtype=float32",
        "[[ 4., 6.], [12., 14.], [20., 22.]]", "negative_axes_keepdims", "[-2]", "shape=(3, 1, 2)",
        "[[[ 4., 6.]], [[12., 14.]], [[20., 22.]]]",
        "Differences with previous version (11)", "Old version: ai.onnx ReduceSum 11",
        "New version: ai.onnx ReduceSum 13",
        "breaking", "Breaking reasons", "attribute 'axes' (removed): type=INTS; required=False",
        "added axes: at position 1; option=Optional; type_str='tensor(int64)'",
        "added noop_with_empty_axes: type=INT; required=False; default=0",
        "changed T: added types: ['tensor(bfloat16)']", "Documentation", "line similarity", "--- ReduceSum v11",
        "+++ ReduceSum v13", "Version history",
    ]  # fmt: skip
    place = 0
    for section in sections:
        assert section in flat[place:], section
        place = flat.index(section, place)
    assert "data: shape=(3, 2, 2), dtype=float32\n    [[[ 1.,  2.],\n      [ 3.,  4.]],\n\n     [[ 5.,  6.]," in text


@pytest.mark.parametrize("schema", CATALOG.schemas, ids=lambda s: s.full_name)
def test_examples_are_what_the_operator_gives(schema: Schema) -> None:
    shown = [*examples.examples(schema)]
    assert len(shown) >= 3
    for each in shown:
        name, result = each.output
        assert name == schema.output.name
        called = fw.operator(schema.full_name)(*each.inputs.values(), **each.attributes)
        assert np.array_equal(called, result)
        assert called.dtype == result.dtype


def test_a_version_names_its_neighbours(folder: Path) -> None:
    page = sites.Read(folder / "operators/openvino-CumSum-3.html")
    assert "../operators/onnx-CumSum-14.html" in page.links
    assert "../compare/openvino-CumSum-3/onnx-CumSum-11.html" in page.links
    assert "The other standard has no such operator." in sites.Read(folder / "operators/onnx-ArgMax-13.html").text


def test_drawings_show_every_axis() -> None:
    drawn = drawing.drawings(CATALOG.find("ReduceSum"))
    assert re.findall(r'aria-label="([^"]+)"', drawn) == [
        "axes = [0]: (3, 4) → (1, 4)", "axes = [1]: (3, 4) → (3, 1)", "axes = [0, 1]: (3, 4) → (1, 1)",
    ]  # fmt: skip
    assert drawn.count("<rect") == 3 * 12 + 4 + 3 + 1
    # Over the rows of one column everything that meets has one colour.
    first = drawn.partition("</svg>")[0]
    assert [len(re.findall(f'class="g{k}"', first)) for k in range(4)] == [4, 4, 4, 4]


def test_every_public_name_is_a_function_of_the_reference(folder: Path) -> None:
    page = sites.Read(folder / "functions.html")
    assert {name for name in fw.__all__ if callable(getattr(fw, name))} <= set(page.names)
    assert "fw.sum(x, /, axis=None, dtype=None, out=None" in page.text
    assert ".merge(other)" in page.text


def test_every_document_is_a_guide() -> None:
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} == set(guides.GUIDES)


def test_what_is_found_by_searching(folder: Path) -> None:
    text = (folder / "assets/search.js").read_text(encoding="utf-8")
    pages = json.loads(text.removeprefix("foldwise.pages(").removesuffix(");\n"))
    assert {path for _, path, _, _ in pages} == set(PAGES)


# ---- languages


def test_every_word_is_there_in_every_language() -> None:
    for key, said in words.WORDS.items():
        assert len(said) == len(words.LANGUAGES)
        assert all(said), key
        simplified, traditional, japanese = said[1:]
        assert all(re.search("[\u3040-\u30ff\u4e00-\u9fff]", each) for each in said[1:]) or key == "opsets"
        assert {simplified, traditional, japanese} != {said[0]}


def test_pages_use_only_known_words(folder: Path) -> None:
    for path in PAGES:
        text = (folder / path).read_text(encoding="utf-8")
        used = set(re.findall(r'data-(?:word|label|placeholder)="([^"]+)"', text))
        assert used <= set(words.WORDS), path


def test_what_is_shown_is_escaped() -> None:
    page = frame.framed(frame.Page("a/b.html", "<T>", 'a "quote"', "<p></p>"))
    assert "<title>&lt;T&gt; · foldwise</title>" in page
    assert 'content="a &quot;quote&quot;"' in page
    assert 'href="../assets/site.css"' in page


# ---- writing and serving


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("mine")
    with pytest.raises(fw.OptionError, match=r"holds 'thesis\.txt', which docs did not write; give a new or empty"):
        site.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert "holds 'thesis.txt'" in refused(capsys, "docs", "--out", str(tmp_path))
    assert "is no folder" in refused(capsys, "docs", "--out", str(thesis))


@pytest.mark.parametrize("name", ["CNAME", "assets/logo.svg", ".git/HEAD", "more/notes.txt"])
def test_what_somebody_put_beside_a_site_is_not_lost(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "site"
    monkeypatch.setattr(site, "contents", lambda: iter([("index.html", b"old"), ("gone/by.html", b"")]))
    site.write(target)
    (target / name).parent.mkdir(exist_ok=True)
    (target / name).write_text("mine")
    monkeypatch.setattr(site, "contents", lambda: iter([("index.html", b"new")]))
    with pytest.raises(fw.OptionError, match=f"holds {name!r}, which docs did not write"):
        site.write(target)
    assert (target / "index.html").read_bytes() == b"old"
    (target / name).unlink()
    site.write(target)
    assert sorted(path.name for path in target.rglob("*.*")) == ["files.txt", "index.html"]


def test_it_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "site"
    few = [("index.html", b"old"), ("assets/site.js", b"")]
    monkeypatch.setattr(site, "contents", lambda: iter(few))
    assert site.write(target) == 3

    def broken() -> Iterator[tuple[str, bytes]]:
        yield "index.html", b"new"
        raise OSError("no space left on device")

    monkeypatch.setattr(site, "contents", broken)
    with pytest.raises(OSError, match="no space"):
        site.write(target)
    assert (target / "index.html").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    monkeypatch.setattr(site, "contents", lambda: iter([*few, ("more.html", b"")]))
    assert site.write(target) == 4
    assert (target / "more.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_what_was_there_comes_back_where_the_new_one_cannot_take_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, rename = tmp_path / "site", Path.rename

    def refusing(self: Path, other: Path) -> Path:
        """A disk that refuses what was just made."""
        if self.name.startswith(".site-"):
            raise OSError(5, "Input/output error")
        return rename(self, other)

    monkeypatch.setattr(site, "contents", lambda: iter([("index.html", b"old"), ("assets/site.js", b"")]))
    site.write(target)
    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(OSError, match="Input/output error"):
        site.write(target)
    assert (target / "index.html").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_it_is_written_where_a_link_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "contents", lambda: iter([("index.html", b""), ("assets/site.js", b"")]))
    link, target = tmp_path / "link", tmp_path / "site"
    target.mkdir()
    link.symlink_to(target)
    for _ in range(2):
        assert site.write(link) == 3
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "site"]


def test_it_is_served_to_this_machine(folder: Path) -> None:
    with site.server(folder, 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/operators/CumSum.html") as answer:
            assert b"<h1>CumSum</h1>" in answer.read()
        server.shutdown()


def test_the_command_says_where_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(site, "contents", lambda: iter([("index.html", b""), ("assets/site.js", b"")]))
    target = tmp_path / "site"
    said = written(capsys, "docs", "--out", str(target))
    assert said == f"{target}: 3 files, the first is {target / 'index.html'}\n"


@pytest.mark.parametrize("port", ["65536", "99999", "-1", "x", "80.5", ""])
def test_ports_that_are_none(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "docs", "--serve", f"--port={port}")
    assert said.endswith(f"argument --port: {port!r} is no port; give an integer from 0 to 65535")


def test_a_port_in_use_is_refused_before_pages_are_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "write", lambda *given: pytest.fail("pages were written"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(capsys, "docs", "--serve", "--port", str(port))
    assert said == f"foldwise: --port {port}: Address already in use; --port 0 takes any that is free"
