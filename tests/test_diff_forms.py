"""A difference on the command line, as JSON and as HTML."""

from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from command_line import COLOUR, on_a_terminal, refused, run, written

import foldwise as fw
from foldwise.operators import CATALOG

NAMES = [
    ("ReduceSum-11", "ReduceSum-13"),
    ("ReduceSum-13", "openvino:ReduceSum-1"),
    ("ReduceMean-18", "openvino:ReduceMean"),
    ("CumSum", "ReduceMax"),
    ("ReduceSum-1", "ReduceSum-11"),
    ("onnx:Resize-13", "onnx:Resize-18"),
]
some = pytest.mark.parametrize(("old", "new"), NAMES)


# ---- the command


@some
def test_the_command_says_everything(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = written(capsys, "diff", old, new)
    flat = " ".join(page.split())
    difference = fw.diff(old, new)
    assert page.startswith(f"{difference.title}  ({difference.verdict})\n")
    texts = [*difference.reasons, *map(str, difference.alterations), *difference.migration]
    if difference.documentation:
        texts += [str(difference.documentation), *difference.documentation.lines]
    if difference.behaviour:
        texts.append(str(difference.behaviour))
        texts += [text for each in difference.behaviour.findings for side in each.sides for text in map(str, side[1:])]
    for text in texts:
        assert " ".join(text.split()) in flat
    assert ("Breaking reasons" in page) == difference.breaking
    assert not re.search(r" $", page, re.MULTILINE)


def test_the_command_gives_json(capsys: pytest.CaptureFixture[str]) -> None:
    for old, new in NAMES:
        data = json.loads(written(capsys, "diff", old, new, "--json"))
        as_words = json.loads(json.dumps(fw.diff(old, new).data()), parse_constant=str)  # NaN has no number in JSON
        assert data == as_words


def test_the_command_gives_html(capsys: pytest.CaptureFixture[str]) -> None:
    for old, new in NAMES:
        assert written(capsys, "diff", old, new, "--html") == fw.diff(old, new).html()


def test_the_command_compares_onnx_s_texts(capsys: pytest.CaptureFixture[str]) -> None:
    page = written(capsys, "diff", "ReduceSum-11", "ReduceSum-13", "--text", "onnx")
    assert "line similarity: 0.25 (+7/-5 lines)" in page


def test_the_same_words_in_colours_and_without() -> None:
    colours = COLOUR.sub("", on_a_terminal(200, "diff", *NAMES[1]))
    plain = run("diff", *NAMES[1], COLUMNS="200").stdout
    assert sorted(re.findall(r"\w+", colours)) == sorted(re.findall(r"\w+", plain))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ReduceSun", "ReduceSum"], "foldwise: onnx has no operator 'ReduceSun'; did you mean ReduceSum?"),
        (["ReduceSum-12", "ReduceSum"], "foldwise: onnx:ReduceSum has no version 12; there are 1, 11, 13"),
        (["ReduceSum", "openvino:ReduceSum", "--text", "onnx"], "onnx has no text of openvino:ReduceSum-1"),
        (["ReduceSum"], "the following arguments are required: new"),
        (["ReduceSum", "ReduceSum-1", "--json", "--html"], "not allowed with argument"),
    ],
)
def test_what_the_command_refuses(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(capsys, "diff", *arguments)


# ---- HTML


class Page(HTMLParser):
    """What a page holds: text, tags and addresses; wrongly nested tags are refused."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attributes if name in ("href", "src", "action", "data")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["title"]):
            self.words += data.split()


@some
def test_a_page_says_everything_and_asks_for_nothing(old: str, new: str) -> None:
    difference = fw.diff(old, new)
    html = difference.html()
    page = Page(html)
    assert html.isascii()
    assert not page.addresses
    assert not {"script", "link", "img", "iframe"} & {*page.tags}
    assert not re.search(r"url\(|@import|//", html)
    assert page.tags.count("h1") == 1
    assert page.tags[0] == "html"
    said = " ".join(page.words)
    for text in (*difference.reasons, *difference.migration, difference.title, difference.verdict):
        assert text in said
    for alteration in difference.alterations:
        assert f"{alteration.change} {alteration.name} : {'; '.join(alteration.details)}" in said
    for finding in difference.behaviour.findings if difference.behaviour else ():
        assert all(str(part) in said for side in finding.sides for part in side)


def test_colours_for_light_and_dark() -> None:
    """Every colour of text stands out from what lies behind it, as accessibility asks: 4.5 to 1."""
    html = fw.diff(*NAMES[0]).html()
    declared = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", html)
    assert len(declared) == 10
    for shade in (1, 2):
        colours = {each[0]: each[shade] for each in declared}
        for ground in ("ground", "panel", "added", "removed"):
            assert contrast(colours["text"], colours[ground]) >= 7
        for name in ("quiet", "bad", "good", "link"):
            assert contrast(colours[name], colours["ground"]) >= 4.5
        assert contrast(colours["quiet"], colours["panel"]) >= 4.5


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_notebook_gets_a_section() -> None:
    difference: Any = fw.diff(*NAMES[0])
    section = Page(difference._repr_html_())
    assert section.tags[:3] == ["style", "section", "h2"]
    assert "h1" not in section.tags


def test_what_is_written_cannot_become_html() -> None:
    difference = fw.diff("Resize-13", "Resize-18")
    assert "<br/>" in str(difference)
    assert "&lt;br/&gt;" in difference.html()
    assert "br" not in Page(difference.html()).tags


def test_every_pair_can_be_drawn() -> None:
    newest = [CATALOG.versions(s.dialect, s.name)[-1] for s in CATALOG.schemas if s.previous is None]
    for old, new in itertools.pairwise(newest):
        Page(fw.diff(old, new).html())
