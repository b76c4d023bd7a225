"""Any two versions side by side: a page to choose them on, and a page for each pair."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from foldwise.differences import Difference, diff
from foldwise.operators import CATALOG, Schema

from . import difference
from .frame import Page, heading, linked
from .words import said


def pages() -> Iterator[Page]:
    """The chooser and every pair."""
    yield chooser()
    for old in CATALOG.schemas:
        yield from (comparison(old, new) for new in CATALOG.schemas if new is not old)


@cache
def difference_of(old: Schema, new: Schema) -> Difference:
    """What `fw.diff` finds, once for all pages that show it."""
    return diff(old, new)


def pair(old: Schema, new: Schema) -> str:
    """Where the page of a pair lies."""
    return f"compare/{old.dialect}-{old.label}/{new.dialect}-{new.label}.html"


def comparison(old: Schema, new: Schema) -> Page:
    """One pair."""
    found = difference_of(old, new)
    turned = linked(pair(new, old), f"{new.full_name} → {old.full_name}")
    body = (
        f"<h1>{old.full_name} → {new.full_name}</h1>\n{difference.contents(found, 2)}\n"
        f"<p>{said('reverse')}: {turned}</p>"
    )
    return Page(pair(old, new), f"{old.full_name} → {new.full_name}", f"What changes: {found.verdict}.", body)


def chooser() -> Page:
    """Two lists to choose from, and below, for readers without scripts too, every pair of one operator."""
    body = f"""\
<h1>{said("compare")}</h1>
<p class="lead">What one version has and the other has not, what of that breaks a model, the smallest calls on which
the two part, and the steps from one to the other.</p>
<form id="compare" hidden>
<p><label for="old">{said("old")}</label> <select id="old">{_options()}</select></p>
<p><label for="new">{said("new")}</label> <select id="new">{_options()}</select></p>
<p><button>{said("show")}</button></p>
<p role="status" hidden>{said("two versions")}</p>
</form>
{heading(2, "all pairs")}
{"".join(map(_matrix, dict.fromkeys(schema.name for schema in CATALOG.schemas)))}"""
    return Page("compare/index.html", "Compare", "Choose any two operator versions and see what changes.", body)


def _options() -> str:
    groups = []
    for name, dialect in CATALOG.dialects.items():
        options = [f"<option>{schema.full_name}</option>" for schema in CATALOG.schemas if schema.dialect == name]
        groups.append(f'<optgroup label="{dialect.title}">{"".join(options)}</optgroup>')
    return "".join(groups)


def _matrix(name: str) -> str:
    """One operator's versions against each other: the old ones down, the new ones across."""
    versions = [schema for schema in CATALOG.schemas if schema.name == name]
    if len(versions) < 2:
        return ""
    head = "".join(f'<th scope="col">{_short(new)}</th>' for new in versions)
    rows = "".join(
        f'<tr><th scope="row">{_short(old)}</th>{"".join(_cell(old, new) for new in versions)}</tr>' for old in versions
    )
    return (
        f'<h3 id="{name}">{name}</h3><div class="wide" tabindex="0" role="region" aria-label="{name}">'
        f'<table class="matrix">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _short(schema: Schema) -> str:
    return f"{CATALOG.dialects[schema.dialect].title} {schema.version}"


def _cell(old: Schema, new: Schema) -> str:
    if old is new:
        return "<td>=</td>"
    verdict = difference_of(old, new).verdict
    tone = {"breaking": "bad", "not breaking": "good"}.get(verdict, "quiet")
    label = f"{old.full_name} → {new.full_name}: {verdict}"
    return f'<td><a class="{tone}" href="/{pair(old, new)}" aria-label="{label}">{said(verdict)}</a></td>'
