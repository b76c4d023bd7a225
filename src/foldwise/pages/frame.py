"""What lies around the content of every page: head, navigation, search, language, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from .words import LANGUAGES, WORDS, said


class Page(NamedTuple):
    """One page of the site. Links in its body begin with / for the root of the site, wherever that will lie."""

    path: str
    title: str
    about: str
    """What it holds in a sentence, for whoever searches."""
    body: str
    terms: str = ""
    """More words by which it is found."""


NAVIGATION: Final = (
    ("operators", "/index.html"),
    ("functions", "/functions.html"),
    ("compare", "/compare/index.html"),
    ("guides", "/guides/index.html"),
)
THEMES: Final = ("auto", "light", "dark")


def opening(title: str) -> str:
    """How every page begins, as far as its title, which is HTML already."""
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
"""


def framed(page: Page) -> str:
    """The page with everything around it, and its links as they are where it lies."""
    html = f"""\
{opening(f"{escape(page.title)} · foldwise")}\
<meta name="description" content="{escape(page.about)}">
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/site.css">
<script src="/assets/site.js" data-root="/"></script>
</head>
<body>
<a class="skip" href="#content">{said("skip")}</a>
<header>
<a class="home" href="/index.html">foldwise</a>
<nav aria-label="{WORDS["pages"][0]}" data-label="pages">{_navigation(page)}</nav>
<search>{_search()}</search>
<div class="choices">{_themes()}{_languages()}</div>
</header>
<main id="content" class="foldwise" tabindex="-1">
{page.body}
</main>
</body>
</html>
"""
    return html.replace('="/', f'="{"../" * page.path.count("/")}')


def _navigation(page: Page) -> str:
    links = [
        f'<a href="{path}"{" aria-current=page" if path == f"/{page.path}" else ""}>{said(word)}</a>'
        for word, path in NAVIGATION
    ]
    return "".join(links)


def _search() -> str:
    label = WORDS["search"][0]
    return (
        f'<input id="search" type="search" role="combobox" autocomplete="off" spellcheck="false" hidden '
        f'aria-expanded="false" aria-controls="results" aria-autocomplete="list" aria-keyshortcuts="/" '
        f'aria-label="{label}" placeholder="{label}" data-label="search" data-placeholder="search">'
        f'<ul id="results" role="listbox" aria-label="{WORDS["results"][0]}" data-label="results" hidden></ul>'
        f'<p id="found-nothing" role="status" hidden>{said("no results")}</p>'
    )


def _themes() -> str:
    options = [f'<option value="{theme}" data-word="{theme}">{WORDS[theme][0]}</option>' for theme in THEMES]
    return _choice("theme", "theme", options)


def _languages() -> str:
    options = [f'<option value="{code}" lang="{code}">{name}</option>' for code, name in LANGUAGES.items()]
    return _choice("language", "language", options)


def _choice(name: str, word: str, options: list[str]) -> str:
    """A list to choose from, shown only where the script that obeys it runs."""
    label = WORDS[word][0]
    return f'<select id="{name}" aria-label="{label}" data-label="{word}" hidden>{"".join(options)}</select>'


def linked(path: str, text: str) -> str:
    """A link within the site."""
    return f'<a href="/{escape(path)}">{escape(text)}</a>'


def heading(level: int, word: str, anchor: str = "", more: str = "") -> str:
    """A heading of the furniture, to which links can lead."""
    return f'<h{level} id="{anchor or word.replace(" ", "-")}">{said(word)}{more}</h{level}>'


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], label: str) -> str:
    """A table that scrolls by itself where it is too wide. Its first column names the rows; cells are HTML.

    What is no word of the furniture, in the head or as the label, stands as it is.
    """
    columns = "".join(f'<th scope="col">{said(word) if word in WORDS else escape(word)}</th>' for word in head)
    lines = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    named = f'"{WORDS[label][0]}" data-label="{label}"' if label in WORDS else f'"{escape(label)}"'
    return (
        f'<div class="wide" role="region" aria-label={named} tabindex="0">'
        f"<table><thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
