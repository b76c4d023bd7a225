"""The whole site: every page, what they share, and how it is written and served."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from foldwise.errors import OptionError
from foldwise.operators import CATALOG
from foldwise.scale.targets import taken_aside

from . import comparison, guides, versions
from .difference import STYLE
from .frame import Page, framed
from .words import LANGUAGES, dictionary

MARK: Final = "assets/site.js"
"""What a folder holds that this module wrote; any other folder with something in it is left alone."""


def pages() -> Iterator[Page]:
    """Every page of the site."""
    yield from versions.pages()
    yield from guides.pages()
    yield from comparison.pages()


COUNT: Final = len(CATALOG.schemas) * (len(CATALOG.schemas) - 1)
"""About how many pages there are: one for each pair, and few others."""


def contents() -> Iterator[tuple[str, bytes]]:
    """Every file by its path."""
    found = []
    for page in pages():
        yield page.path, framed(page).encode()
        if not page.path.startswith("compare/") or page.path.endswith("index.html"):
            found.append([page.title, page.path, page.about, page.terms])
    yield "assets/search.js", _given("pages", found)
    for language in LANGUAGES:
        yield f"assets/words-{language}.js", _given("words", language, dictionary(language))
    yield from guides.pictures()
    yield "assets/site.css", (STYLE + _asset("site.css").decode()).encode()
    yield from ((f"assets/{name}", _asset(name)) for name in ("site.js", "icon.svg"))


def _given(function: str, *arguments: object) -> bytes:
    """A script that hands something to the one of the pages: unlike data, it comes from a disk, too."""
    given = ", ".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in arguments)
    return f"foldwise.{function}({given});\n".encode()


def _asset(name: str) -> bytes:
    return files(__package__).joinpath("assets", name).read_bytes()


def write(folder: str | os.PathLike[str], done: Callable[[int], None] = lambda count: None) -> int:
    """Write the site to a folder, and say how many files it has. What lay there goes once the new one is there."""
    target = Path(os.path.realpath(folder))
    if target.exists() and not _may_go(target):
        raise OptionError(f"docs: {target} holds something else; give a new or empty folder, or one that docs wrote")
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        count = 0
        for count, (path, data) in enumerate(contents(), 1):
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_bytes(data)
            done(count)
        made.chmod(0o755)
        with taken_aside(target):
            made.rename(target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return count


def _may_go(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MARK).is_file() or not any(folder.iterdir()))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Requests are nobody's concern."""


def server(folder: str | os.PathLike[str], port: int) -> http.server.ThreadingHTTPServer:
    """A server of a written site, for this machine alone. Port 0 takes any that is free."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(_Quiet, directory=os.fspath(folder)))
