"""What one version does where one might wonder, in sentences, for terminals and pages."""

from __future__ import annotations

from collections.abc import Iterator

from foldwise import dtypes

from .schema import Nothing, Schema


def edge_cases(schema: Schema) -> tuple[str, ...]:
    """The edges of one version, a sentence or two each."""
    if schema.kind != "reduce":
        return schema.notes
    return (*_of_axes(schema), of_nothing(schema), *schema.notes)


def _of_axes(schema: Schema) -> Iterator[str]:
    alone = "is copied, bit for bit" if schema.alone == "x" else f"becomes {schema.alone}"
    noop = schema.attribute("noop_with_empty_axes")
    if schema.empty_axes == "none":
        yield f"Empty axes fold none: each element {alone}."
    elif noop:
        yield f"Absent or empty axes fold all of them; with {noop.name}=1 none, and each element {alone}."
    else:
        yield "Absent or empty axes fold all of them."
    yield "An axis named twice is refused, save with lenient=True."
    yield "Rank 0 is folded as its one element; it has no axis to name."


def of_nothing(schema: Schema) -> str:
    """What a reduction of no elements gives."""
    assert schema.empty is not None
    empty = schema.empty
    kinds = {"f": ("floats", empty.floats), "b": ("bool", empty.bools)}
    kinds |= dict.fromkeys("iu", ("integers", empty.integers))
    given = dict(kinds[dtypes.BY_NAME[name].kind] for name in reversed(schema.dtypes))
    said = {kind: _in_words(kind, value) for kind, value in given.items()}
    if len(set(said.values())) == 1:
        return f"Of no elements: {next(iter(said.values()))}."
    return f"Of no elements: {', '.join(f'{words} for {kind}' for kind, words in said.items())}."


def _in_words(kind: str, value: Nothing) -> str:
    if value is None:
        return "refused"
    if value == "lowest" or value == "highest":
        ends = ("-inf", "inf") if kind == "floats" else ("the dtype's lowest value", "the dtype's highest value")
        return ends[value == "highest"]
    return "NaN" if value != value else str(value)
