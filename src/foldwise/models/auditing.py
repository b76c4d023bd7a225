"""The walks behind an audit: which rows of the table a node shows, and, where that is wanted, others in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from foldwise.errors import FoldwiseError
from foldwise.operators import Schema
from foldwise.runtimes import ROWS, RUNTIMES
from foldwise.runtimes.row import OLDER, Row

from .audit import LEVELS, Fault, Level
from .check import Finding
from .conversion import Conversion, read_in, swept
from .graph import Node, Program
from .limits import Limits
from .meaning import Meaning, axes_array, fact_of
from .nodes import schema_of
from .repairs import OpenvinoRepairs, Repairs
from .rewriting import Bench
from .sights import Shown, Sight, misplaced, shown, sight


class Seen(NamedTuple):
    """A node that shows a row."""

    node: Node
    schema: Schema
    shown: Shown


@dataclass(slots=True)
class Watch:
    """What to look for, and what was found. Only what shows a row of `wanted` is written anew."""

    rows: Sequence[Row]
    wanted: frozenset[str] = frozenset()
    seen: list[Seen] = field(default_factory=list)
    rewritten: list[Seen] = field(default_factory=list)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why a node, by its label, is not rewritten for a row."""
    unread: list[Finding] = field(default_factory=list)
    """Nodes that are not written as their operator wants them."""

    def look(
        self, walk: Conversion, schema: Schema, node: Node, bench: Bench, opsets: Mapping[str, int], writer: Repairs
    ) -> bool:
        """One node of the family. Whether its repair is written in its place."""
        wrong = misplaced(schema, node)
        found = walk.meant(as_meant(node, wrong, bench), opsets, bench.facts)
        assert found is not None
        if wrong == "noop too early" and node.constant("noop_with_empty_axes") and found.axes is None:
            found = replace(found, axes=())
        looks = Sight(schema, None, {wrong: True}) if wrong else sight(schema, node, found, bench.facts)
        mine = [Seen(node, schema, each) for each in shown(self.rows, looks)]
        self.seen += mine
        return any(self.rewrite(each, found, bench, writer) for each in mine if each.shown.row.id in self.wanted)

    def rewrite(self, seen: Seen, found: Meaning, bench: Bench, writer: Repairs) -> bool:
        """Whether other nodes took its place."""
        nodes, constants = len(bench.nodes), {*bench.constants}
        try:
            writer.repair(seen.shown.row.repair, found, seen.node.outputs[0])
        except FoldwiseError as error:
            del bench.nodes[nodes:]
            for name in bench.constants.keys() - constants:
                del bench.constants[name]
            self.refused[seen.node.label, seen.shown.row.id] = str(error).removeprefix("operator: ")
            return False
        self.rewritten.append(seen)
        return True


def as_meant(node: Node, wrong: str, bench: Bench) -> Node:
    """A node without what its version does not have; axes become an input that only its meaning knows."""
    if not wrong:
        return node
    gone = "axes" if wrong == "axes as an attribute" else "noop_with_empty_axes"
    rest = {name: each for name, each in node.attributes.items() if name != gone}
    if gone != "axes":
        return replace(node, attributes=rest)
    axes = bench.names.new("axes")
    bench.facts[axes] = fact_of(axes_array(tuple(node.constant("axes"))))
    return replace(node, inputs=[node.inputs[0], axes], attributes=rest)


def findings(
    program: Program, versions: Mapping[str, str], limits: Limits
) -> tuple[tuple[Fault, ...], dict[str, str], tuple[Finding, ...]]:
    """What there is, the runtimes that can be meant and their releases, and the nodes that cannot be read."""
    held = {name: release for name, release in versions.items() if program.dialect in RUNTIMES[name].dialects}
    watch = Watch([row for row in ROWS if row.runtime in held and _concerns(row, held[row.runtime])])
    walked(program, watch, limits)
    faults = (*_too_new(program, watch.rows, held), *(_of_node(seen, held) for seen in watch.seen))
    return faults, held, tuple(watch.unread)


def _concerns(row: Row, release: str) -> bool:
    """Whether a release has it. What was once written wrongly stays so, whatever the newest release writes."""
    return row.affects(release) or not RUNTIMES[row.runtime].runs_models


def _of_node(seen: Seen, held: Mapping[str, str]) -> Fault:
    row, surely = seen.shown.row, seen.shown.surely
    level = row.level
    if seen.shown.open or (not surely and not row.when):
        level = "note" if seen.shown.open else max(level, "warning", key=LEVELS.index)
    return _told(row, held, level, surely, seen.node.label, seen.schema.label)


def _told(row: Row, held: Mapping[str, str], level: Level, surely: bool, node: str = "", operator: str = "") -> Fault:
    title, repair = RUNTIMES[row.runtime].title, row.repair_in(held[row.runtime])
    return Fault(
        level, node, operator, row.runtime, title, row.releases, row.effect, surely, row.what, row.when, row.fix,
        repair, row.id,
    )  # fmt: skip


def _too_new(program: Program, rows: Sequence[Row], held: Mapping[str, str]) -> Iterator[Fault]:
    """Models of an opset or a file format that came after the release."""
    for row in rows:
        if row.repair == OLDER:
            runtime = RUNTIMES[row.runtime]
            known = runtime.release(held[row.runtime])
            if known.opset < program.opset() or known.ir < program.version:
                first = runtime.first_with(program.opset(), program.version)
                yield _told(row._replace(until=first), held, row.level, surely=True)


def walked(program: Program, watch: Watch, limits: Limits) -> Program:
    """The program after a walk over all its nodes."""
    if program.dialect == "onnx":
        from .onnx_audit import LookingAtNodes

        return LookingAtNodes(program, watch, limits).program()
    return LookingAtLayers(program, watch, limits).program()


class LookingAtLayers(Conversion):
    """An OpenVINO model."""

    def __init__(self, source: Program, watch: Watch, limits: Limits) -> None:
        super().__init__(source, True, limits)
        self.watch = watch

    def program(self) -> Program:
        """The model, with other layers where that was wanted."""
        graph = self.source.graph
        bench = self.bench("openvino", 0, self.known(graph, {}, {}))
        for node in graph.nodes:
            bench.maker, bench.near = node, node.name or next(filter(None, node.outputs), node.operator)
            schema = schema_of(self.source, node, {})
            writer = OpenvinoRepairs(bench, self.exact)
            try:
                if schema is None or not self.watch.look(self, schema, node, bench, {}, writer):
                    bench.nodes.append(node)
                if schema is None:
                    self.infer(node, bench.facts)
            except FoldwiseError as error:
                self.refuse(node, schema.label if schema else node.operator, error)
                bench.nodes.append(node)
            self.compute(node, 0, bench.facts)
        self.watch.unread += self.refusals
        new = [name for node in bench.nodes for name in node.outputs if name and name not in graph.values]
        made = replace(
            graph,
            nodes=bench.nodes,
            constants={**graph.constants, **bench.constants},
            values={**graph.values, **{name: bench.stated(name) for name in new}},
        )
        return replace(self.source, graph=swept(made, {*graph.constants, *read_in([graph])}, read_in([made])))
