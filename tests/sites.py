"""The written site, once for all tests of a process, and the browser that opens it."""

from __future__ import annotations

import functools
import shutil
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

from foldwise.pages import site

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (on Debian: apt-get install chromium)")
# What Chromium asks its makers for at every start has no place in a test of what our pages ask for.
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@functools.cache
def folder() -> Path:
    """A folder with the whole site."""
    kept = Path(tempfile.mkdtemp(prefix="foldwise-site-"))
    site.write(kept / "site")
    return kept / "site"


class Read(HTMLParser):
    """What a page links to, the names in it that links lead to, its text, and whether its tags pair up."""

    ALONE = frozenset({"meta", "link", "input", "br", "img", "hr"})

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))
        self.close()
        assert not self.open, f"{page}: {self.open} left open"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = dict(attributes)
        self.links += [value for name in ("href", "src") if (value := known.get(name)) is not None]
        if name := known.get("id"):
            self.names.append(name)
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself, as in drawings."""

    def handle_endtag(self, tag: str) -> None:
        opened = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        self.text += data
