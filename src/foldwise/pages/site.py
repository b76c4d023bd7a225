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

LIST: Final = "assets/files.txt"
"""The paths of all files of a site: a folder that holds anything else is left alone."""


def pages() -> Iterator[Page]:
    """Every page of the site."""
    yield from versions.pages()
    yield from guides.pages()
    yield from comparison.pages()


COUNT: Final = len(CATALOG.schemas) * (len(CATALOG.schemas) - 1)
"""About how many pages there are: one for each pair, and few others."""


def contents() -> Iterator[tuple[str, bytes]]:
    """Every file by its path, but for the list of them."""
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
    _refuse_others(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        count = 0
        for count, (path, data) in enumerate(_listed(contents()), 1):
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


def _listed(found: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Files, and after them their list."""
    paths = [LIST]
    for path, data in found:
        paths.append(path)
        yield path, data
    yield LIST, "\n".join(paths).encode()


def _refuse_others(target: Path) -> None:
    """What is no folder, or holds what `docs` has not written there: it would be gone."""
    way_out = "give a new or empty folder, or one that holds only what docs wrote"
    if not target.is_dir():
        if target.exists():
            raise OptionError(f"docs: {target} is no folder; {way_out}")
        return
    known = target / LIST
    written = set(known.read_text(encoding="utf-8", errors="replace").splitlines()) if known.is_file() else set()
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target).as_posix()
        if name not in written and (path.is_symlink() or not path.is_dir()):
            raise OptionError(f"docs: {target} holds {name!r}, which docs did not write; {way_out}")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Requests are nobody's concern."""


def server(folder: str | os.PathLike[str], port: int) -> http.server.ThreadingHTTPServer:
    """A server of a written site, for this machine alone. Port 0 takes any that is free."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(_Quiet, directory=os.fspath(folder)))
