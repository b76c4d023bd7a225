"""A difference between two operator versions as HTML: a page by itself, or a section for another page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from foldwise.operators.diff import Alteration

if TYPE_CHECKING:
    from foldwise.behaviour import Behaviour, Finding
    from foldwise.differences import Difference
    from foldwise.operators.diff import TextDiff

STYLE: Final = """\
.foldwise { --text: #1f2328; --quiet: #59636e; --ground: #ffffff; --panel: #f4f6f8; --line: #d1d9e0;
  --bad: #b3261e; --good: #116329; --added: #d7f5de; --removed: #ffe3e0;
  color: var(--text); background: var(--ground); font: 1rem/1.55 system-ui, sans-serif; color-scheme: light dark;
  max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { .foldwise { --text: #e6e8eb; --quiet: #a3adb8; --ground: #14171c;
  --panel: #1f242b; --line: #3a424c; --bad: #ff9a90; --good: #7ddb97; --added: #143d23; --removed: #541d1f; } }
.foldwise :is(h1, h2, h3) { line-height: 1.25; margin: 1.6em 0 .4em; }
.foldwise > :is(h1, h2):first-of-type { margin-top: 0; }
.foldwise :is(ul, ol) { margin: .3em 0; padding-left: 1.4em; }
.foldwise :is(code, pre, td) { font-family: ui-monospace, monospace; font-size: .875rem; }
.foldwise .quiet { color: var(--quiet); }
.foldwise .bad { color: var(--bad); font-weight: 600; }
.foldwise .good { color: var(--good); font-weight: 600; }
.foldwise .wide { overflow-x: auto; background: var(--panel); border: 1px solid var(--line); border-radius: .4rem;
  padding: .6rem .8rem; margin: .5em 0; }
.foldwise pre { margin: 0; white-space: pre-wrap; }
.foldwise ins { background: var(--added); text-decoration: none; }
.foldwise del { background: var(--removed); text-decoration: none; }
.foldwise table { border-collapse: collapse; width: 100%; }
.foldwise :is(td, th) { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; min-width: 9rem; }
.foldwise tbody th { font-weight: 600; min-width: 7rem; }
.foldwise tbody + tbody tr:first-child > * { border-top: 1px solid var(--line); }
"""


def page(difference: Difference) -> str:
    """A page by itself."""
    title = escape(difference.title)
    return _ascii(f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ margin: 0; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #14171c; }} }}
{STYLE}</style>
</head>
<body>
<main class="foldwise">
{_body(difference, 1)}
</main>
</body>
</html>
""")


def fragment(difference: Difference) -> str:
    """A section for another page."""
    return _ascii(f'<style>\n{STYLE}</style>\n<section class="foldwise">\n{_body(difference, 2)}\n</section>\n')


def _ascii(html: str) -> str:
    """The same in characters that no encoding spoils on the way to a file."""
    return html.encode("ascii", "xmlcharrefreplace").decode()


def _body(difference: Difference, level: int) -> str:
    return "\n".join(_blocks(difference, level))


def _blocks(difference: Difference, level: int) -> Iterator[str]:
    yield _heading(level, difference.title)
    yield f"<p>{_verdict(difference)}</p>"
    if difference.reasons:
        yield _heading(level + 1, "Breaking reasons")
        yield _list(map(escape, difference.reasons))
    for heading, alterations in difference.schema.sections():
        yield _heading(level + 1, heading)
        yield _list(map(_alteration, alterations))
    if difference.documentation:
        yield _heading(level + 1, "Documentation")
        yield from _text(difference.documentation)
    if difference.behaviour:
        yield _heading(level + 1, "Behaviour")
        yield from _behaviour(difference.behaviour)
    if difference.migration:
        yield _heading(level + 1, "Migration")
        yield _list(map(escape, difference.migration), "ol")


def _heading(level: int, text: str) -> str:
    return f"<h{level}>{escape(text)}</h{level}>"


def _list(items: Iterable[str], kind: str = "ul") -> str:
    return "\n".join([f"<{kind}>", *(f"<li>{each}</li>" for each in items), f"</{kind}>"])


def _verdict(difference: Difference) -> str:
    domains = dict.fromkeys((difference.schema.old.domain, difference.schema.new.domain))
    tone = "bad" if difference.breaking else "good"
    return f'<span class="{tone}">{difference.verdict}</span> <span class="quiet">{escape(", ".join(domains))}</span>'


def _alteration(each: Alteration) -> str:
    mark = '<span class="bad">[BREAKING]</span> ' if each.breaking else ""
    return f"{mark}{each.change} <code>{escape(each.name)}</code>: {escape('; '.join(each.details))}"


def _text(text: TextDiff) -> Iterator[str]:
    yield f"<p>{escape(str(text))}</p>"
    lines = "\n".join(map(_line, text.lines))
    yield f'<div class="wide"><pre>{lines}</pre></div>'


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
        yield '<thead><tr><th scope="col">about</th><th scope="col">call</th><th scope="col">outcome</th></tr></thead>'
        yield from map(_finding, behaviour.findings)
        yield "</table></div>"


def _finding(finding: Finding) -> str:
    cells = [f"<td>{escape(str(call))}</td><td>{escape(str(outcome))}</td>" for call, outcome in finding.sides]
    about = f'<th scope="rowgroup" rowspan="2">{escape(finding.about)}</th>'
    return f"<tbody><tr>{about}{cells[0]}</tr><tr>{cells[1]}</tr></tbody>"
