"""What `fw.diff` says of two operator versions: the definitions, the behaviour, the way over."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import processes
import pytest

import foldwise as fw
from foldwise.behaviour import Outcome
from foldwise.differences import Difference
from foldwise.operators import CATALOG, Schema
from foldwise.operators.definition import Arity, Constant, Constraint, Definition, Parameter, definition
from foldwise.operators.diff import compare

SCHEMAS = fw.operators()
PAIRS = [
    (CATALOG.find(schema.name, schema.previous), schema)
    for schema in SCHEMAS
    if schema.dialect == "onnx" and schema.previous
]
DIALECTS = [
    (schema, other)
    for schema in SCHEMAS
    for other in SCHEMAS
    if schema.name == other.name and schema.dialect != other.dialect
]
AXES_MOVED = ("Prod", "Mean", "Max", "Min", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
BREAKING = {
    ("ReduceSum", 11, 13),
    *((f"Reduce{name}", 13, 18) for name in AXES_MOVED),
    ("ReduceLogSum", 18, 28),
    ("ReduceLogSumExp", 18, 28),
}


def each(pairs: list[tuple[Schema, Schema]]) -> pytest.MarkDecorator:
    ids = [f"{old.full_name} to {new.full_name}" for old, new in pairs]
    return pytest.mark.parametrize(("old", "new"), pairs, ids=ids)


def finding(difference: Difference, about: str) -> Any:
    assert difference.behaviour
    (found,) = [each for each in difference.behaviour.findings if each.about == about]
    return found


# ---- consecutive versions


def test_which_of_the_consecutive_versions_break() -> None:
    assert len(PAIRS) == 42
    assert {(old.name, old.version, new.version) for old, new in PAIRS if fw.diff(old, new).breaking} == BREAKING


@each(PAIRS)
def test_the_catalog_and_onnx_itself_differ_alike(old: Schema, new: Schema) -> None:
    ours, theirs = fw.diff(old, new), fw.diff(old, new, text="onnx")
    assert ours.alterations == theirs.alterations
    assert ours.reasons == theirs.reasons
    assert ours.breaking == bool(ours.reasons) == theirs.breaking


@pytest.mark.parametrize(
    ("old", "new", "similarity", "added", "removed"),
    [
        ("ReduceSum-1", "ReduceSum-11", 0.80, 1, 2),
        ("ReduceSum-11", "ReduceSum-13", 0.25, 7, 5),
        ("ReduceMax-11", "ReduceMax-12", 0.80, 1, 2),
        ("ReduceMax-12", "ReduceMax-13", 0.25, 7, 5),
        ("ReduceMin-18", "ReduceMin-20", 0.90, 2, 0),
        ("ReduceL2-11", "ReduceL2-13", 0.25, 7, 5),
        ("ArgMax-1", "ArgMax-11", 0.73, 2, 1),
        ("ArgMax-11", "ArgMax-12", 0.71, 3, 1),
        ("ArgMin-12", "ArgMin-13", 0.88, 1, 1),
    ],
)
def test_how_alike_onnx_s_texts_are(old: str, new: str, similarity: float, added: int, removed: int) -> None:
    text = fw.diff(old, new, text="onnx").documentation
    assert text
    assert (round(text.similarity, 2), text.added, text.removed) == (similarity, added, removed)
    assert str(text) == f"line similarity: {similarity:.2f} (+{added}/-{removed} lines)"


@pytest.mark.parametrize("versions", [(13, 18), (1, 11)])
def test_texts_that_are_the_same_have_no_diff(versions: tuple[int, int]) -> None:
    assert fw.diff("ReduceMax", versions=versions, text="onnx").documentation is None


def test_a_difference_as_text_has_every_section_in_its_order() -> None:
    lines = str(fw.diff("ReduceSum", versions=(11, 13), text="onnx")).splitlines()
    assert lines[:18] == [
        "SchemaDiff: ReduceSum (domain 'ai.onnx')",
        "  old version : 11",
        "  new version : 13",
        "  breaking    : True",
        "Breaking reasons:",
        "  - attribute 'axes' (removed): type=INTS; required=False",
        "Inputs:",
        "  - added 'axes': at position 1; option=Optional; type_str='tensor(int64)'",
        "  - changed '<arity>': min_input 1 -> 1; max_input 1 -> 2",
        "Attributes:",
        "  - [BREAKING] removed 'axes': type=INTS; required=False",
        "  - added 'noop_with_empty_axes': type=INT; required=False; default=0",
        "Type constraints:",
        "  - changed 'T': added types: ['tensor(bfloat16)']",
        "Documentation:",
        "  - line similarity: 0.25 (+7/-5 lines)",
        "--- ReduceSum v11",
        "+++ ReduceSum v13",
    ]
    assert [line for line in lines if line in ("Behaviour:", "Migration:")] == ["Behaviour:", "Migration:"]


def test_types_that_are_gone_break() -> None:
    difference = fw.diff("ReduceLogSum", versions=(18, 28))
    lost = ["tensor(int32)", "tensor(int64)", "tensor(uint32)", "tensor(uint64)"]
    assert difference.reasons == (f"type constraint 'T' (changed): removed types: {lost}",)
    assert "float64" in difference.migration[0]


def test_versions_that_are_not_neighbours_and_the_way_back() -> None:
    down = fw.diff("ReduceMax-20", "ReduceMax-1")
    lost = ["tensor(bfloat16)", "tensor(bool)", "tensor(int8)", "tensor(uint8)"]
    assert down.reasons == (
        "input 'axes' (removed): was at position 1",
        "input '<arity>' (changed): min_input 1 -> 1; max_input 2 -> 1",
        "attribute 'noop_with_empty_axes' (removed): type=INT; required=False",
        f"type constraint 'T' (changed): removed types: {lost}",
    )


# ---- between dialects and operators


def test_between_dialects_attributes_go_by_their_role() -> None:
    difference = fw.diff("onnx:ReduceSum-13", "openvino:ReduceSum-1")
    (keepdims,) = [each for each in difference.alterations if each.name == "keep_dims"]
    assert keepdims.breaking
    assert keepdims.details == (
        "name changed 'keepdims' -> 'keep_dims'",
        "type changed INT -> boolean",
        "default value changed 1 -> false",
    )
    found = finding(difference, "keepdims")
    assert (found.old_outcome.result.shape, found.new_outcome.result.shape) == ((1,), ())
    found = finding(difference, "axes empty")
    assert (found.old_outcome.result.tolist(), found.new_outcome.result.tolist()) == ([3], [1, 2])
    assert "'axes' is missing" in finding(difference, "axes left out").new_outcome.refusal


def test_between_dialects_inputs_go_by_their_place_and_types_by_the_table() -> None:
    difference = fw.diff("CumSum-14", "openvino:CumSum-3")
    assert not difference.breaking
    details = {(each.part, each.name): each.details for each in difference.alterations}
    assert details["input", "data"] == ("name changed 'x' -> 'data'",)
    assert details["type constraint", "T_AXIS"] == ("name changed 'T2' -> 'T_AXIS'",)
    assert details["type constraint", "T"] == ("added types: ['int16', 'int8', 'uint16', 'uint8']",)
    assert details["attribute", "reverse"] == ("type changed INT -> boolean",)
    lost = fw.diff("openvino:CumSum-3", "CumSum-11").reasons
    assert "removed types: ['bfloat16', 'float16', 'int16', 'int8', 'uint16', 'uint8']" in lost[-1]


def test_nothing_along_an_axis_is_another_mean_in_each_dialect() -> None:
    difference = fw.diff("ReduceMean-18", "openvino:ReduceMean-1")
    found = finding(difference, "nothing to fold")
    assert np.isnan(found.old_outcome.result)
    assert found.new_outcome.result == 0
    assert difference.migration[-1].startswith("Guard the node")


def test_different_operators() -> None:
    difference = fw.diff("ReduceMax-13", "ReduceMin-13")
    assert not difference.alterations
    assert not difference.migration
    found = finding(difference, "elements")
    assert (found.old_outcome.result.tolist(), found.new_outcome.result.tolist()) == ([2], [1])
    assert str(difference).startswith("SchemaDiff: onnx:ReduceMax-13 -> onnx:ReduceMin-13\n")


# ---- behaviour


@each([*PAIRS, *DIALECTS, (CATALOG.find("ArgMax"), CATALOG.find("CumSum"))])
def test_what_was_found_is_found_again(old: Schema, new: Schema) -> None:
    difference = fw.diff(old, new)
    assert difference.behaviour
    assert difference.behaviour.asked > 60
    for found in difference.behaviour.findings:
        again = [outcome_of(call.schema, call.data, call.named) for call, _ in found.sides]
        assert again == [told(outcome) for _, outcome in found.sides]
        assert again[0] != again[1]
    assert str(fw.diff(old, new)) == str(difference)


def outcome_of(schema: Schema, data: Any, named: Any) -> Any:
    """Dtype, shape and bits of a result, or why there is none, from the operator that anybody can call."""
    try:
        result = fw.operator(schema.full_name)(data, **named)
    except fw.FoldwiseError as refusal:
        return str(refusal).removeprefix(f"{schema.label}: ")
    return result.dtype.name, result.shape, result.tobytes()


def told(outcome: Outcome) -> Any:
    result = outcome.result
    return outcome.refusal if result is None else (result.dtype.name, result.shape, result.tobytes())


@each([(old, new) for old, new in PAIRS if set(old.dtypes) == set(new.dtypes) and old.attributes == new.attributes])
def test_versions_that_differ_in_words_alone_agree_in_everything(old: Schema, new: Schema) -> None:
    behaviour = fw.diff(old, new).behaviour
    assert behaviour
    assert not behaviour.findings
    assert str(behaviour).endswith("the two agree on all of them")


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.full_name)
def test_a_version_does_not_differ_from_itself(schema: Schema) -> None:
    difference = fw.diff(schema, schema.full_name)
    assert not difference
    assert not difference.breaking
    assert not difference.alterations
    assert not difference.migration
    assert difference.documentation is None
    assert "No differences." in str(difference)


def test_the_smallest_come_first() -> None:
    behaviour = fw.diff("ReduceMean-18", "openvino:ReduceMean-1").behaviour
    assert behaviour
    sizes = [found.old.data.size for found in behaviour.findings]
    assert sizes == sorted(sizes)
    assert behaviour.findings[0].about == "nothing to fold"


# ---- the way over


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("ReduceSum-11", "ReduceSum-13", "from the attribute to the input axes, as 1-D int64"),
        ("ReduceSum-13", "ReduceSum-11", "where axes are computed, onnx:ReduceSum-11 cannot express the node"),
        ("ReduceL1-18", "ReduceL1-13", "put Abs in place of the node"),
        ("ReduceLogSum-18", "ReduceLogSum-13", "put Log in place of the node"),
        ("ReduceSumSquare-18", "ReduceSumSquare-13", "put a product of the tensor with itself in place of the node"),
        ("ReduceSum-13", "openvino:ReduceSum-1", "leave the node out"),
        ("ReduceSum-13", "openvino:ReduceSum-1", "Write keep_dims always, true or false: left out it means false"),
        ("openvino:ReduceSum-1", "ReduceSum-13", "set noop_with_empty_axes=1"),
        ("openvino:ReduceSum-1", "ReduceSum-13", "Cast int8, int16 to int32 before"),
        ("ReduceMax-20", "openvino:ReduceMax-1", "For bool, use openvino:ReduceLogicalOr-1"),
        ("openvino:ReduceLogicalAnd-1", "ReduceMin-13", "Cast bool to uint8 before"),
        ("ReduceMax-12", "ReduceMax-11", "Cast int8 to int32 before, and the result back after; of no elements"),
        ("ArgMax-12", "ArgMax-11", "Drop select_last_index=0"),
        ("ArgMax-13", "ArgMax-1", "Count axes from the front"),
        ("CumSum-14", "CumSum-11", "Cast float16, bfloat16 to float32"),
        ("CumSum-14", "openvino:CumSum-3", "Write exclusive as true or false"),
        ("openvino:CumSum-3", "CumSum-14", "Give the input axis always"),
    ],
)
def test_the_steps(old: str, new: str, says: str) -> None:
    assert says in " ".join(fw.diff(old, new).migration)


@each(PAIRS)
def test_what_breaks_can_be_moved(old: Schema, new: Schema) -> None:
    assert bool(fw.diff(old, new).migration) == fw.diff(old, new).breaking


# ---- kinds of alterations that the family does not have

A = Constant("a", "INT", 0)
T = Constraint("T", ("tensor(float)",))
PLAIN = Definition(
    "onnx", "ai.onnx", "Op", 1, (Parameter("x", "T"), Parameter("y", "T", "Optional")), (Parameter("z", "T"),),
    Arity(1, 2), Arity(1, 1), (A,), (T,), ("One.",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "says", "breaking"),
    [
        ({"inputs": PLAIN.inputs[::-1]}, "changed 'x': position changed 0 -> 1", True),
        ({"inputs": (PLAIN.inputs[0], Parameter("y", "T"))}, "changed 'y': option changed Optional -> Single", True),
        ({"inputs": (Parameter("x", "T", "Optional"), PLAIN.inputs[1])}, "option changed Single -> Optional", False),
        ({"inputs": (Parameter("x", "U"), PLAIN.inputs[1])}, "changed 'x': type_str changed 'T' -> 'U'", True),
        ({"inputs": (*PLAIN.inputs, Parameter("v", "T", "Variadic"))}, "position 2; option=Variadic", True),
        ({"input_count": Arity(1, float("inf"))}, "'<arity>': min_input 1 -> 1; max_input 2 -> ∞", False),
        ({"input_count": Arity(2, 2)}, "'<arity>': min_input 1 -> 2; max_input 2 -> 2", True),
        ({"outputs": ()}, "removed 'z': was at position 0", True),
        ({"output_count": Arity(0, 1)}, "'<arity>': min_output 1 -> 0; max_output 1 -> 1", False),
        ({"attributes": (Constant("a", "INT", 1),)}, "changed 'a': default value changed 0 -> 1", True),
        ({"attributes": (Constant("a", "INT"),)}, "changed 'a': default value changed 0 -> none", True),
        ({"attributes": (Constant("a", "FLOAT", 0),)}, "changed 'a': type changed INT -> FLOAT", True),
        ({"attributes": (Constant("a", "INT", 0, True),)}, "changed 'a': required changed False -> True", True),
        ({"attributes": (A, Constant("b", "INT", None, True))}, "added 'b': type=INT; required=True", True),
        ({"attributes": (A, Constant("b", "INTS"))}, "added 'b': type=INTS; required=False", False),
        ({"constraints": ()}, "removed 'T': entire constraint removed", True),
        ({"constraints": (T, Constraint("U", ("a", "b")))}, "added 'U': added types: ['a', 'b']", False),
        ({"deprecated": True}, "changed 'Op': deprecated changed False -> True", True),
        ({"text": ("Two.",)}, "line similarity: 0.00 (+1/-1 lines)", False),
    ],
)
def test_every_kind_of_alteration(changes: dict[str, Any], says: str, breaking: bool) -> None:
    difference = compare(PLAIN, replace(PLAIN, version=2, **changes))
    assert says in str(difference)
    assert difference.breaking is breaking
    assert f"breaking    : {breaking}" in str(difference)


# ---- other operators of onnx


def test_other_operators_of_onnx() -> None:
    difference = fw.diff("onnx:Resize-13", "onnx:Resize-18")
    assert [each.name for each in difference.alterations] == ["antialias", "axes", "keep_aspect_ratio_policy"]
    assert difference.behaviour is None
    assert difference.documentation
    assert not fw.diff("Softmax-13", "ai.onnx:Softmax")
    assert fw.diff("ai.onnx.ml:Normalizer-1", "Softmax-1").schema.old.full_name == "ai.onnx.ml:Normalizer-1"
    assert fw.diff("Softmax", versions=(1, 11)).schema.new.version == 11
    assert fw.diff("ReduceSum", "Softmax").documentation
    assert fw.diff("openvino:ReduceSum", "Softmax").breaking
    assert "max_input ∞" in str(fw.diff("Concat-13", "Softmax-13"))


def test_onnx_s_own_definition_of_ours_is_ours() -> None:
    for schema in SCHEMAS:
        if schema.dialect == "onnx":
            theirs = fw.diff(schema, schema, text="onnx").schema.old
            ours = replace(definition(schema), text=theirs.text)
            assert not compare(ours, theirs).alterations


def test_without_onnx() -> None:
    script = """
import sys
sys.modules["onnx"] = None
import foldwise as fw
print(fw.diff("ReduceSum-11", "ReduceSum-13").breaking)
for call in (lambda: fw.diff("Resize-13", "Resize-18"), lambda: fw.diff("ReduceSum-1", "ReduceSum-11", text="onnx")):
    try:
        call()
    except fw.UnknownOperatorError as error:
        print(error)
"""
    breaking, unknown, texts = processes.output("-c", script).splitlines()
    assert breaking == "True"
    assert unknown.startswith("operator: onnx has no operator 'Resize' here")
    install = 'where the package onnx is: pip install "foldwise[onnx]"'
    assert unknown.endswith(f"; more is known {install}")
    assert texts == f"diff: onnx's own texts are known {install}"


# ---- how it is asked


@pytest.mark.parametrize(
    ("arguments", "named", "says"),
    [
        (("ReduceSun-11", "ReduceSum-13"), {}, "onnx has no operator 'ReduceSun'; did you mean ReduceSum?"),
        (("ReduceSum-12", "ReduceSum-13"), {}, "onnx:ReduceSum has no version 12; there are 1, 11, 13"),
        (("ReduceSum", "Resize-12"), {}, "onnx:Resize has no version 12; there are 10, 11, 13, 18, 19, the nearest"),
        (("ReduceSum", "tf:Sum"), {}, "there is no dialect 'tf'; there are onnx, openvino"),
        (("ReduceSum", "openvino:Resize"), {}, "openvino has no operator 'Resize' here"),
        (("ReduceSum", "ai.onnx.mx:Sum"), {}, "onnx has no domain 'ai.onnx.mx'; it has ai.onnx.ml"),
        (("ReduceSum", 13), {}, "an operator is of type int; give its name"),
        (("ReduceSum",), {}, "give two operators, or one and versions=(11, 13)"),
        (("ReduceSum", "ReduceSum"), {"versions": (11, 13)}, "give two operators, or one and versions=(11, 13)"),
        (("ReduceSum",), {"versions": 11}, "versions = 11; it must be two ints, beside an operator's name"),
        (("ReduceSum",), {"versions": (11, "13")}, "version = '13' is of type str; give an int"),
        (("ReduceSum", "ReduceProd"), {"text": "ours"}, "text = 'ours'; accepted are \"foldwise\" and \"onnx\""),
        (("ReduceSum", "openvino:ReduceSum"), {"text": "onnx"}, "onnx has no text of openvino:ReduceSum-1"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], named: dict[str, Any], says: str) -> None:
    with pytest.raises(fw.FoldwiseError) as refusal:
        fw.diff(*arguments, **named)
    assert says in str(refusal.value)
    assert str(refusal.value).startswith(("diff: ", "operator: "))


def test_ways_to_name_two_versions() -> None:
    ways = [
        fw.diff("ReduceSum-11", "onnx:ReduceSum-13"),
        fw.diff(CATALOG.find("ReduceSum", 11), "ReduceSum"),
        fw.diff("ReduceSum", versions=(11, 13)),
    ]
    assert len({str(each) for each in ways}) == 1
    assert repr(ways[0]) == "<Difference onnx:ReduceSum-11 -> onnx:ReduceSum-13>"


# ---- data


@each([PAIRS[1], DIALECTS[3]])
def test_everything_as_data(old: Schema, new: Schema) -> None:
    difference = fw.diff(old, new)
    data = json.loads(json.dumps(difference.data()))
    assert (data["old"], data["new"], data["breaking"]) == (old.full_name, new.full_name, difference.breaking)
    assert data["reasons"] == list(difference.reasons)
    assert [each["name"] for each in data["alterations"]] == [each.name for each in difference.alterations]
    assert [each["about"] for each in data["behaviour"]["findings"]]
    assert data["migration"] == list(difference.migration)


def test_what_operator_gives_is_taken() -> None:
    by_name = fw.diff("onnx:ReduceSum-11", "onnx:ReduceSum-13")
    old, new = fw.operator("onnx:ReduceSum-11"), fw.operator("onnx:ReduceSum-13")
    assert str(fw.diff(old, new)) == str(fw.diff(old.schema, new)) == str(by_name)
