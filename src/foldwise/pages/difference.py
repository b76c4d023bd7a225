"""A difference between two operator versions as HTML: a page by itself, or a section for another page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from foldwise.operators.diff import Alteration

from .frame import opening
from .words import WORDS, said

if TYPE_CHECKING:
    from foldwise.behaviour import Behaviour, Finding
    from foldwise.differences import Difference
    from foldwise.operators.diff import TextDiff

STYLE: Final = files(__package__).joinpath("assets", "foldwise.css").read_text(encoding="utf-8")
"""How our pages look, light or dark: everything inside an element of the class foldwise."""


def page(difference: Difference) -> str:
    """A page by itself."""
    return _ascii(f"""\
{opening(escape(difference.title))}\
<style>
{STYLE}</style>
</head>
<body>
<main class="foldwise">
{_titled(difference, 1)}
</main>
</body>
</html>
""")


def fragment(difference: Difference) -> str:
    """A section for another page."""
    return _ascii(f'<style>\n{STYLE}</style>\n<section class="foldwise">\n{_titled(difference, 2)}\n</section>\n')


def _ascii(html: str) -> str:
    """The same in characters that no encoding spoils on the way to a file."""
    return html.encode("ascii", "xmlcharrefreplace").decode()


def _titled(difference: Difference, level: int) -> str:
    return f"{_heading(level, difference.title)}\n{contents(difference, level + 1)}"


def contents(difference: Difference, level: int) -> str:
    """Everything but the title, under headings of this level."""
    return "\n".join(_blocks(difference, level))


def _blocks(difference: Difference, level: int) -> Iterator[str]:
    yield _verdict(difference)
    if difference.reasons:
        yield _heading(level, "Breaking reasons")
        yield _list(map(escape, difference.reasons))
    for heading, alterations in difference.schema.sections():
        yield _heading(level, heading)
        yield _list(map(_alteration, alterations))
    if difference.documentation:
        yield _heading(level, "Documentation")
        yield from _text(difference.documentation)
    if difference.behaviour:
        yield _heading(level, "Behaviour")
        yield from _behaviour(difference.behaviour)
    if difference.migration:
        yield _heading(level, "Migration")
        yield _list(map(escape, difference.migration), "ol")


def _heading(level: int, text: str) -> str:
    """A heading, of the furniture where that has the word."""
    return f"<h{level}>{_furniture(text)}</h{level}>"


def _furniture(text: str) -> str:
    return said(text.lower()) if text.lower() in WORDS else escape(text)


def _list(items: Iterable[str], kind: str = "ul") -> str:
    return "\n".join([f"<{kind}>", *(f"<li>{each}</li>" for each in items), f"</{kind}>"])


def _verdict(difference: Difference) -> str:
    old, new = difference.schema.old, difference.schema.new
    tone = "bad" if difference.breaking else "good"
    return (
        f'<ul class="facts"><li>{said("old")}: {escape(f"{old.domain} {old.name} {old.version}")}</li>'
        f"<li>{said('new')}: {escape(f'{new.domain} {new.name} {new.version}')}</li>"
        f'<li class="{tone}">{said(difference.verdict)}</li></ul>'
    )


def _alteration(each: Alteration) -> str:
    mark = '<span class="bad">[BREAKING]</span> ' if each.breaking else ""
    return f"{mark}{each.change} <code>{escape(each.name)}</code>: {escape('; '.join(each.details))}"


def _text(text: TextDiff) -> Iterator[str]:
    yield f"<p>{escape(str(text))}</p>"
    lines = "\n".join(map(_line, text.lines))
    yield f'<div class="wide" tabindex="0"><pre>{lines}</pre></div>'


def _line(line: str) -> str:
    written = escape(line)
    if line.startswith(("---", "+++", "@@")):
        return f'<span class="quiet">{written}</span>'
    tag = {"+": "ins", "-": "del"}.get(line[:1])
    return f"<{tag}>{written}</{tag}>" if tag else written


def _behaviour(behaviour: Behaviour) -> Iterator[str]:
    yield f"<p>{escape(str(behaviour))}.</p>"
    if behaviour.findings:
        yield '<div class="wide" role="region" aria-label="Behaviour" tabindex="0"><table>'
        columns = "".join(f'<th scope="col">{said(word)}</th>' for word in ("about", "call", "outcome"))
        yield f"<thead><tr>{columns}</tr></thead>"
        yield from map(_finding, behaviour.findings)
        yield "</table></div>"


def _finding(finding: Finding) -> str:
    cells = [f"<td>{escape(str(call))}</td><td>{escape(str(outcome))}</td>" for call, outcome in finding.sides]
    about = f'<th scope="rowgroup" rowspan="2">{escape(finding.about)}</th>'
    return f"<tbody><tr>{about}{cells[0]}</tr><tr>{cells[1]}</tr></tbody>"
