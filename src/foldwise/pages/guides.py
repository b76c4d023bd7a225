"""The user's documents as pages: what lies in docs/, and the functions from their own signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import foldwise
from foldwise import entrances
from foldwise.errors import EngineError

from .frame import Page, heading, linked
from .words import said

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

GUIDES: Final = {
    "start": "Installing it, and first steps with arrays, operators and models.",
    "migration": "What to write instead of NumPy, onnxruntime and OpenVINO, and what is different afterwards.",
    "operators": "Every operator of both standards as a callable, and what their versions have in common.",
    "models": "Whole models of both formats: loaded within limits, checked, run, saved.",
    "conversion": "Models in another opset or in the other standard, with the same bits or a refusal.",
    "audit": "What other runtimes refuse in a model or get wrong, in which releases, and the model repaired.",
    "onnxruntime": "Our kernels inside existing sessions of onnxruntime.",
    "command-line": "All of it without writing Python.",
    "scale": "Files, Zarr arrays and series of blocks larger than memory, within a budget.",
    "dask": "Dask's arrays and xarray: lazy graphs with the same bits for any chunks.",
    "numerics": "What a result is, to the bit, and how far it can be off.",
    "exact": "Sums rounded once, in any order; accumulators that merge; how good a sum is.",
    "performance": "How fast it is beside others, and how that is measured.",
    "kernels": "Why the kernels look as they do: what made them faster.",
    "exact-kernels": "Why exact sums are made as they are, and what made them faster.",
    "tried": "What was tried for the kernels and did not help.",
    "architecture": "The map of the code.",
}
"""The documents in the order in which one reads them, and what each is about."""
FUNCTIONS: Final = "functions.html"


def pages() -> Iterator[Page]:
    """All documents, what lists them, and the functions."""
    folder, markdown = _folder(), _markdown()
    texts = {name: (folder / f"{name}.md").read_text(encoding="utf-8") for name in GUIDES}
    made = [_guide(name, text, markdown) for name, text in texts.items()]
    yield _contents(made)
    yield from made
    yield functions(markdown)


def pictures() -> Iterator[tuple[str, bytes]]:
    """The pictures that the documents show, by the paths they have on the site."""
    for picture in sorted(_folder().glob("*.svg")):
        yield f"guides/{picture.name}", picture.read_bytes()


def _folder() -> Path:
    """Where the documents are: in an installed package beside this file, in a clone in docs/."""
    installed = Path(str(files(__package__).joinpath("docs")))
    return installed if installed.is_dir() else Path(__file__).parents[3] / "docs"


def _markdown() -> MarkdownIt:
    if find_spec("markdown_it") is None:
        raise EngineError('docs: the guides need markdown-it-py: pip install "foldwise[docs]"')
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


# ---- documents


def _contents(guides: list[Page]) -> Page:
    rows = [f"<li>{linked(guide.path, guide.title)}<br>{escape(guide.about)}</li>" for guide in guides]
    body = f'<h1>{said("guides")}</h1>\n<ul class="guides">{"".join(rows)}</ul>'
    return Page("guides/index.html", "Guides", "How to use foldwise, and what it rests on.", body)


def _guide(name: str, text: str, markdown: MarkdownIt) -> Page:
    title = text.partition("\n")[0].removeprefix("# ")
    html = _anchored(_linked(markdown.render(text)))
    headings = re.findall("^## (.+)$", text, re.MULTILINE)
    return Page(f"guides/{name}.html", title, GUIDES[name], f'<div class="prose">\n{html}</div>', " ".join(headings))


def _linked(html: str) -> str:
    """Links between documents lead to their pages; what is not on the site is named where it lies in the repository."""
    html = re.sub(r'href="([\w-]+)\.md(#[^"]*)?"', r'href="/guides/\1.html\2"', html)
    html = re.sub(r'src="([\w-]+\.svg)"', r'src="/guides/\1"', html)
    return re.sub(r'<a href="\.\./[^"]*">(.*?)</a>', r"\1", html)


def _anchored(html: str) -> str:
    """Headings with the names that links to them use; tables and code that scroll by themselves."""
    html = re.sub(
        r"<(h[2-4])>(.*?)</\1>",
        lambda found: f'<{found[1]} id="{_anchor(found[2])}">{found[2]}</{found[1]}>',
        html,
    )
    html = html.replace("<th></th>", "<td></td>")  # a corner that heads nothing
    html = html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    return html.replace("<pre>", '<pre tabindex="0">')


def _anchor(heading: str) -> str:
    plain = re.sub("<[^>]*>|&[^;]*;", "", heading).lower()
    return re.sub(r"[^\w -]", "", plain).replace(" ", "-")


# ---- functions


def functions(markdown: MarkdownIt) -> Page:
    """Every public function and class, by kind."""
    folded = dict.fromkeys(name for name, _ in entrances.ENTRANCES)
    reductions = [name for name in folded if entrances.ENTRANCES[entrances.entrance(name)][1].name == name]
    scans = [name for name in folded if name not in reductions]
    others = [name for name in foldwise.__all__ if name not in folded and callable(getattr(foldwise, name))]
    errors = [name for name in others if _is_error(getattr(foldwise, name))]
    kinds = {
        "reductions": reductions,
        "scans": scans,
        "more": [name for name in others if name not in errors],
        "errors": errors,
    }
    sections = "\n".join(
        f'{heading(2, word)}\n<dl class="functions">{"".join(_entry(name, markdown) for name in names)}</dl>'
        for word, names in kinds.items()
    )
    body = f"""\
<h1>{said("functions")}</h1>
<p class="lead">What <code>import foldwise as fw</code> offers. The functions on arrays take anything array-like, files
and chunked arrays that are larger than memory, and Dask's arrays.</p>
{sections}"""
    about = "Every public function: arguments, defaults, what it gives."
    return Page(FUNCTIONS, "Functions", about, body, " ".join([*folded, *others]))


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _entry(name: str, markdown: MarkdownIt) -> str:
    value = getattr(foldwise, name)
    text = inspect.getdoc(value) or ""
    members = "" if _is_error(value) else _members(value, markdown)
    return (
        f'<dt id="{name}"><code>fw.{name}{escape(_signature(value))}</code></dt>'
        f"<dd>{markdown.render(text)}{members}</dd>"
    )


def _members(value: Any, markdown: MarkdownIt) -> str:
    """The public methods and properties of a class."""
    if not isinstance(value, type):
        return ""
    found = []
    for name, member in vars(value).items():
        text, plain = inspect.getdoc(member), getattr(member, "__func__", member)
        if name.startswith("_") or not text or not (callable(plain) or isinstance(plain, property)):
            continue
        call = "" if isinstance(plain, property) else escape(_signature(plain))
        found.append(f"<dt><code>.{name}{call}</code></dt><dd>{markdown.render(text)}</dd>")
    return f"<dl>{''.join(found)}</dl>" if found else ""


def _signature(value: Any) -> str:
    """How it is called, without the types."""
    if _is_error(value):
        return ""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return "(...)"
    plain = [each.replace(annotation=each.empty) for each in signature.parameters.values() if each.name != "self"]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))
