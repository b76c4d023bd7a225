"""The reference of the operators: all of them on one page, a page for each, and a page for each version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from foldwise import folds
from foldwise.operators import CATALOG, Schema
from foldwise.operators.definition import DOMAINS, Definition, definition
from foldwise.operators.prose import edge_cases
from foldwise.runtimes import ROWS
from foldwise.runtimes.support import support

from . import difference
from .comparison import difference_of, pair
from .drawing import drawings
from .examples import examples, shown
from .frame import Page, heading, linked, table
from .guides import GUIDES
from .words import said

NAMES = tuple(dict.fromkeys(schema.name for schema in CATALOG.schemas))
"""Every operator of either dialect."""
STATUSES = ("runs", "wrong", "refused")
"""What a runtime does with a dtype, in the words that `support` has for it."""


def pages() -> Iterator[Page]:
    """The whole reference."""
    yield index()
    yield from map(operator_page, NAMES)
    yield from map(version_page, CATALOG.schemas)


def path(schema: Schema) -> str:
    """Where the page of a version lies."""
    return f"operators/{schema.dialect}-{schema.label}.html"


def operator_path(name: str) -> str:
    """Where the page of an operator lies."""
    return f"operators/{name}.html"


def _newest(name: str) -> Schema:
    return next(
        CATALOG.versions(dialect, name)[-1] for dialect in CATALOG.dialects if CATALOG.versions(dialect, name)
    )


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part)


# ---- all operators


def index() -> Page:
    """The first page: what this is, and every operator in a table."""
    cells = sum(len(schema.dtypes) for schema in CATALOG.schemas)
    rows = [
        (
            linked(operator_path(name), name),
            escape(_newest(name).summary),
            *(
                " ".join(linked(path(schema), str(schema.version)) for schema in CATALOG.versions(dialect, name)) or "-"
                for dialect in CATALOG.dialects
            ),
        )
        for name in NAMES
    ]
    titles = (dialect.title for dialect in CATALOG.dialects.values())
    body = f"""\
<h1>The reductions and scans of ONNX and OpenVINO</h1>
<p class="lead">A reduction folds axes of a tensor into one value; a scan keeps every step of the fold. Here is every
version of every such operator of both standards: {len(NAMES)} operators, {len(CATALOG.schemas)} versions,
{cells} pairs of version and type, each with examples that foldwise has run.</p>
<p>{linked("guides/start.html", "Getting started")} · {linked("functions.html", "The array functions")} ·
{linked("compare/index.html", "Any two versions side by side")}</p>
{heading(2, "operators")}
{table(("operator", "does", *titles), rows, "operators")}"""
    about = "Every version of every reduction and scan operator of ONNX and OpenVINO."
    return Page("index.html", "Operators", about, body)


# ---- an operator in all its versions


def operator_page(name: str) -> Page:
    """What an operator does, and its versions in both dialects."""
    newest = _newest(name)
    body = _joined(
        [
            f"<h1>{name}</h1>",
            f'<p class="lead">{escape(newest.summary)}</p>',
            f"<pre>{escape(newest.formula)}</pre>",
            heading(2, "shapes"),
            drawings(newest),
            heading(2, "versions"),
            *(_history(CATALOG.versions(dialect, name), None) for dialect in CATALOG.dialects),
            heading(2, "array functions"),
            _functions(newest),
        ]
    )
    return Page(operator_path(name), name, newest.summary, body, f"{newest.fold} {newest.formula}")


def _functions(schema: Schema) -> str:
    fold = folds.BY_NAME.get(schema.fold) or next(each for each in folds.PLACES if each.name == schema.fold)
    name = str(fold.scan if schema.kind == "scan" else fold.name)
    return f'<p><a href="/functions.html#{name}"><code>fw.{name}</code></a></p>'


def _history(schemas: tuple[Schema, ...], current: Schema | None) -> str:
    """The versions of one operator in one dialect, the newest first."""
    if not schemas:
        return ""
    title = CATALOG.dialects[schemas[0].dialect].title
    rows = [(_named(schema, current), _opsets(schema), _changes(schema)) for schema in reversed(schemas)]
    return f"<h3>{title}</h3>" * (current is None) + table(("version", "opsets", "changes"), rows, title)


def _named(schema: Schema, current: Schema | None) -> str:
    return f"{schema.version} ({said('current')})" if schema is current else linked(path(schema), str(schema.version))


def _opsets(schema: Schema) -> str:
    first, last = CATALOG.opsets(schema)
    return str(first) if first == last else f"{first} to {last}"


def _changes(schema: Schema) -> str:
    if schema.previous is None:
        return said("first version")
    before = CATALOG.find(schema.name, schema.previous, dialect=schema.dialect)
    return f"{escape('; '.join(schema.changes))} ({_compared(before, schema)})"


def _compared(old: Schema, new: Schema) -> str:
    return linked(pair(old, new), f"{old.version} → {new.version}")


# ---- one version


def version_page(schema: Schema) -> Page:
    """Everything about one version."""
    return Page(
        path(schema),
        f"{schema.name} - version {schema.version} ({CATALOG.dialects[schema.dialect].title})",
        schema.summary,
        _joined(_sections(schema)),
        f"{schema.full_name} {schema.fold} {' '.join(a.name for a in schema.attributes)}",
    )


def _sections(schema: Schema) -> Iterator[str]:
    defined = definition(schema)
    dialect = CATALOG.dialects[schema.dialect]
    yield f'<h1>{schema.name} <small>{dialect.title} {schema.version}</small></h1>'
    yield (
        f'<ul class="facts"><li>{said("domain")}: {DOMAINS[schema.dialect]}</li>'
        f"<li>{said('since version')}: {schema.version}</li><li>{said('opsets')}: {_opsets(schema)}</li></ul>"
    )
    yield f'<p class="lead">{escape(schema.summary)}</p>'
    yield f"<pre>{escape(schema.formula)}</pre>"
    yield f'<div class="wide" tabindex="0"><pre>{escape(schema.signature)}</pre></div>'
    yield heading(2, "inputs")
    yield _items(
        _parameter(each.name, given.type, each.text, each.optional, each.default)
        for each, given in zip(schema.inputs, defined.inputs, strict=True)
    )
    yield heading(2, "outputs")
    yield _items([_parameter(schema.output.name, defined.outputs[0].type, schema.output.text)])
    yield heading(2, "attributes")
    yield _items(
        f"<b>{each.name}</b> ({constant.type.lower()}, {said('default')} {escape(each.shown_default)}): "
        f"{escape(each.text)}"
        for each, constant in zip(schema.attributes, defined.attributes, strict=True)
    )
    yield heading(2, "type constraints")
    yield _items(_constraints(schema, defined))
    yield heading(2, "edges")
    yield _items(map(escape, edge_cases(schema)))
    yield heading(2, "shapes")
    yield drawings(schema)
    yield heading(2, "examples")
    for example in examples(schema):
        yield f"<h3>{example.name}</h3>"
        yield shown(schema, example)
    yield from _previous(schema)
    versions = CATALOG.versions(schema.dialect, schema.name)
    if len(versions) > 1:
        yield heading(2, "history")
        yield _history(versions, schema)
    yield heading(2, "other dialect")
    yield _counterparts(schema)
    yield heading(2, "runtimes")
    yield from _runtimes(schema)
    yield heading(2, "array functions")
    yield _functions(schema)


def _runtimes(schema: Schema) -> Iterator[str]:
    """Which dtypes run in which runtime, and what each of them is known to get wrong."""
    lines = support(schema)
    rows = []
    for runtime in dict.fromkeys((line.title, line.release) for line in lines):
        mine = [line for line in lines if (line.title, line.release) == runtime]
        statuses = (" ".join(line.dtype for line in mine if line.status == status) for status in STATUSES)
        rows.append((escape(" ".join(runtime)), *(types or "-" for types in statuses)))
    yield table(("runtime", *STATUSES), rows, "runtimes")
    faults: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        for row in line.rows:
            faults.setdefault((line.title, row), []).append(line.dtype)
    if faults:
        yield heading(3, "known faults")
        told = {row.id: row.fault for row in ROWS}
        yield _items(
            f"<b>{escape(title)}</b>{_some(types, schema)}: {escape(told[row])}"
            for (title, row), types in faults.items()
        )
    yield f"<p>{linked('guides/audit.html', GUIDES['audit'])}</p>"


def _some(types: list[str], schema: Schema) -> str:
    """The types that a fault concerns, unless it is all of them."""
    return "" if len(types) == len(schema.dtypes) else f", {' '.join(types)}"


def _items(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _parameter(name: str, kind: str, text: str, optional: bool = False, default: int | None = None) -> str:
    facts = [escape(kind)]
    if optional:
        facts.append(said("optional") if default is None else f"{said('default')} {default}")
    return f"<b>{name}</b> ({', '.join(facts)}): {escape(text)}"


def _constraints(schema: Schema, defined: Definition) -> Iterator[str]:
    for known, spelled in zip(schema.types, defined.constraints, strict=True):
        types = ", ".join(f"<code>{each}</code>" for each in spelled.types)
        yield f"<b>{known.name}</b>: {escape(known.text)}. {said('allowed types')}: {types}"


def _previous(schema: Schema) -> Iterator[str]:
    if schema.previous is None:
        return
    before = CATALOG.find(schema.name, schema.previous, dialect=schema.dialect)
    yield heading(2, "previous", more=f" ({schema.previous})")
    yield difference.contents(difference_of(before, schema), 3)


def _counterparts(schema: Schema) -> str:
    others = [other for other in CATALOG.schemas if other.name == schema.name and other.dialect != schema.dialect]
    items = [
        f"{linked(path(other), other.full_name)} "
        f"({linked(pair(schema, other), f'{schema.full_name} → {other.full_name}')})"
        for other in others
    ]
    return _items(items) if items else f"<p>{said('no counterpart')}</p>"
