"""Every version of every operator, in every form of its attributes and every dtype, converted to every target.

`python tests/conversion_matrix.py --write` puts the counts into docs/conversion.md.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

import foldwise as fw
from foldwise.models.onnx_tensors import NUMBERS
from foldwise.models.verify import compare
from foldwise.operators import CATALOG, Schema

DOCUMENT = Path(__file__).parent.parent / "docs" / "conversion.md"
BEGIN, END = "<!-- counts -->\n", "<!-- end of counts -->\n"
SHAPE = (2, 3, 4)
OPERATORS = tuple(CATALOG.names("onnx"))
RETURNS = (12, 20)
"""The opsets to which models come back from OpenVINO: axes as attributes, and as inputs."""


class Form(NamedTuple):
    """One way to write a node."""

    name: str
    axes: Any = None
    """A tuple, an array for scans, "computed", or None where they are left out."""
    attributes: tuple[tuple[str, int], ...] = ()


def forms(schema: Schema) -> list[Form]:
    """All ways to write a node of a version."""
    if schema.kind == "scan":
        flags = (("exclusive", 1),), (("reverse", 1),)
        return [
            Form("given", np.array(1)), Form("negative", np.array(-2, np.int32), flags[0]),
            Form("reverse", np.array(0), flags[1]), Form("computed", "computed", flags[0] + flags[1]),
        ]  # fmt: skip
    if schema.kind == "arg":
        found = [
            Form("absent"),
            Form("given", None, (("axis", 1), ("keepdims", 0))),
            Form("negative", None, (("axis", -1),)),
        ]
        if schema.attribute("select_last_index"):
            found.append(Form("last", None, (("axis", 1), ("select_last_index", 1))))
        return found
    found = [Form("absent"), Form("empty", ()), Form("given", (0, 2), (("keepdims", 0),)), Form("negative", (-1,))]
    if schema.attribute("axes") is None:
        noop = (("noop_with_empty_axes", 1),)
        found += [
            Form("computed", "computed"), Form("noop", None, (*noop, ("keepdims", 0))), Form("noop, empty", (), noop),
            Form("noop, given", (1,), noop), Form("noop, computed", "computed", noop),
        ]  # fmt: skip
    return found


def model(schema: Schema, form: Form, dtype: str, shape: tuple[Any, ...] = SHAPE, count: Any = 1) -> onnx.ModelProto:
    """One node in a model of the opset that its version came with."""
    inputs = [helper.make_tensor_value_info("x", NUMBERS[dtype], shape)]
    names, constants, attributes = ["x"], [], dict(form.attributes)
    axes = form.axes
    if isinstance(axes, str):
        names.append("axes")
        lengths = () if schema.kind == "scan" else (count,)
        inputs.append(helper.make_tensor_value_info("axes", onnx.TensorProto.INT64, lengths))
    elif axes is not None and schema.attribute("axes") is None:
        names.append("axes")
        held = axes if schema.kind == "scan" else np.array(axes, np.int64)
        constants.append(numpy_helper.from_array(held, "axes"))
    node = helper.make_node(schema.name, names, ["y"], **attributes)
    if isinstance(axes, tuple) and schema.attribute("axes") is not None:
        node.attribute.append(AttributeProto(name="axes", type=AttributeProto.INTS, ints=axes))
    kept = schema.kind == "scan" or attributes.get("keepdims", 1) or form.name.startswith("noop")
    rank = len(shape) if kept else len(shape) - (1 if schema.kind == "arg" else len(axes or shape))
    result = "int64" if schema.kind == "arg" else dtype
    output = helper.make_tensor_value_info("y", NUMBERS[result], [None] * rank)
    graph = helper.make_graph([node], "one", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", schema.version)], ir_version=8)


class Case(NamedTuple):
    """A version, a form, a dtype."""

    schema: Schema
    form: Form
    dtype: str

    @property
    def model(self) -> fw.Model:
        return fw.load(model(*self))


def cases(operator: str) -> Iterator[Case]:
    for schema in CATALOG.versions("onnx", operator):
        for form in forms(schema):
            for dtype in schema.dtypes:
                yield Case(schema, form, dtype)


def targets(operator: str) -> list[int]:
    """Opsets that differ for an operator, or for the steps that stand for it; between them nothing changes."""
    return sorted({1, 7, 28} | {schema.version for schema in CATALOG.versions("onnx", operator)})


def outcome(given: fw.Model, **wanted: Any) -> tuple[fw.Model | None, str]:
    """What is made, or the rule by which it is refused; what is made gives the same bits."""
    try:
        return fw.convert(given, verify=True, **wanted), ""
    except fw.ConversionError as error:
        if any(each.rule in ("verify", "onnx.checker", "engine") or not each.fix for each in error.findings):
            raise  # a fault of the conversion, and no reason
        return None, error.findings[0].rule


@functools.cache
def counted(operator: str) -> tuple[Counter[tuple[str, bool]], Counter[str]]:
    """How many are converted and how many refused, by target; and by which rules."""
    counts: Counter[tuple[str, bool]] = Counter()
    rules: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.FoldwiseWarning)
        for case in cases(operator):
            given = case.model
            for opset in targets(operator):
                if opset != case.schema.version:
                    made, rule = outcome(given, opset=opset)
                    counts["onnx", made is not None] += 1
                    rules[rule] += made is None
            layers, rule = outcome(given, to="openvino")
            counts["openvino", layers is not None] += 1
            rules[rule] += layers is None
            for opset in RETURNS if layers is not None else ():
                assert layers is not None
                again, rule = outcome(layers, opset=opset)
                counts["back", again is not None] += 1
                rules[rule] += again is None
                if again is not None:
                    compare(given, again, exact=True)
    return counts, +rules


def table() -> str:
    """The counts as a table of Markdown."""
    places = ("onnx", "openvino", "back")
    rows = [
        "| operator | forms and dtypes | to other opsets | refused | to OpenVINO | refused | back | refused |",
        "|---|---|---|---|---|---|---|---|",
    ]
    totals: Counter[tuple[str, bool]] = Counter()
    number = 0
    for operator in OPERATORS:
        counts, _ = counted(operator)
        totals += counts
        size = sum(1 for _ in cases(operator))
        number += size
        cells = [f"{counts[place, done]:,}" for place in places for done in (True, False)]
        rows.append(f"| {operator} | {size:,} | {' | '.join(cells)} |")
    cells = [f"**{totals[place, done]:,}**" for place in places for done in (True, False)]
    rows.append(f"| **all** | **{number:,}** | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def written(text: str) -> str:
    """The document's part between the two marks."""
    found = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), text, re.DOTALL)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    made = table()
    print(made)
    if "--write" in sys.argv[1:]:
        text = DOCUMENT.read_text(encoding="utf-8")
        old, new = (f"{BEGIN}{each}{END}" for each in (written(text), made))
        DOCUMENT.write_text(text.replace(old, new), encoding="utf-8")
