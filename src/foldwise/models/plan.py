"""A graph as a list of steps over numbered places, each value forgotten when its last reader is done."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from foldwise.errors import DtypeError, EngineError, FoldwiseError, ModelError

from .control import control
from .folding import FixedFolding, Folding, Siblings
from .graph import Array, Graph, Program, size_of
from .limits import ROOM, Limits
from .nodes import UNEXPECTED, Meant, attribute_values, defining, relabelled, schema_of, unexpected, unfolded
from .plumbing import SEVERAL, Need, need, runner, said


class StepReport(NamedTuple):
    """What a step did."""

    label: str
    operator: str
    by: str
    """Who ran it: foldwise, numpy, or another engine."""
    seconds: float
    read: int
    """Bytes of its inputs."""
    written: int
    """Bytes of its outputs."""
    done: int
    total: int


Observer = Callable[[StepReport], None]


class Step(NamedTuple):
    """Some nodes that run as one."""

    work: Callable[..., Any]
    take: Callable[[list[Any]], Sequence[Any]]
    """Picks what it reads of all values."""
    writes: tuple[int, ...]
    frees: tuple[int, ...]
    label: str
    operator: str
    by: str
    need: Need
    said: str


class Part(NamedTuple):
    """A step while it still has names instead of places."""

    work: Callable[..., Any]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    label: str
    operator: str
    by: str
    need: Need = "whole"
    said: str = ""
    """What the node says, where its result may be made in parts later, so that others' are not taken for them."""


Piece = list[tuple[Meant, Part | None]]
"""Nodes, each with the step that runs it here, if anything here does."""

_LARGEST_KEPT: Final = 16 << 20
"""What is computed once and kept has no more bytes; what has is made anew in each run, and forgotten."""
_NOTHING: Final = -1
"""The place that is never filled: what an input that is left out reads."""
_UNWANTED: Final = -2
"""The place of outputs that nobody named."""


class Plan:
    """Steps, ready to run over and over."""

    def __init__(
        self, parts: Sequence[Part], inputs: Sequence[str], outputs: Sequence[str], constants: Mapping[str, Array]
    ) -> None:
        names = dict.fromkeys([*inputs, *constants, *(name for part in parts for name in part.writes if name)])
        place = {name: i for i, name in enumerate(names)}
        needed = [*(name for part in parts for name in part.reads if name), *outputs]
        missing = next((name for name in needed if name not in place), None)
        if missing is not None:
            raise ModelError(f"'{missing}' is read, but made by no node")
        for array in constants.values():
            array.flags.writeable = False  # so that what is made of it knows that it is shared
        self._inputs = len(inputs)
        self._held = sum(map(size_of, constants.values()))
        self._grows = any(not isinstance(part.work, FixedFolding | Folding | Siblings) for part in parts)
        folded = [part for part in parts if isinstance(part.work, FixedFolding | Folding | Siblings)]
        self.all_fresh = {name for part in folded for name in part.writes}.issuperset(outputs)
        """Whether every output is memory of its own, whatever the inputs are."""
        self._blank: list[Any] = [constants.get(name) for name in names] + [None, None]
        self._outputs = [place[name] for name in outputs]
        last = {place[name]: i for i, part in enumerate(parts) for name in (*part.writes, *part.reads) if name}
        kept = {place[name] for name in constants} | set(self._outputs)
        frees: list[list[int]] = [[] for _ in parts]
        for at, i in last.items():
            if at not in kept:
                frees[i].append(at)
        self.steps = [
            Step(
                part.work,
                _taker([place[name] if name else _NOTHING for name in part.reads]),
                tuple(place[name] if name else _UNWANTED for name in part.writes),
                tuple(frees[i]), part.label, part.operator, part.by, part.need, part.said,
            )
            for i, part in enumerate(parts)
        ]  # fmt: skip

    def run(self, inputs: Sequence[Any], observe: Observer | None = None) -> list[Any]:
        """The outputs. An input whose place a constant fills may be None, and is that constant then."""
        values = self._blank.copy()
        for i, value in enumerate(inputs):
            if value is not None:
                values[i] = value
        if not self._grows:
            return self._follow(values, observe)
        given, taken = ROOM.given, ROOM.taken
        follow = self._follow
        if given is None:
            ROOM.given, ROOM.turns = self._held + sum([getattr(each, "nbytes", 0) for each in inputs]), 0
            follow = self._follow_quietly
        try:
            return follow(values, observe)
        finally:
            ROOM.given, ROOM.taken = given, taken

    def beyond_memory(self) -> Plan:
        """The same plan for inputs that need not be in memory."""
        from .beyond import beyond  # for those who have such

        made = copy.copy(self)
        made.steps = [step._replace(work=beyond(step)) for step in self.steps]
        return made

    @np.errstate(all="ignore")
    def _follow_quietly(self, values: list[Any], observe: Observer | None) -> list[Any]:
        """All steps, in which NumPy warns of nothing; those of the graphs inside too."""
        return self._follow(values, observe)

    def _follow(self, values: list[Any], observe: Observer | None) -> list[Any]:
        grows, inputs = self._grows, self._inputs
        for done, step in enumerate(self.steps, 1):
            work, take, writes, frees = step[:4]
            began = time.perf_counter() if observe else 0.0
            taken = take(values)
            try:
                made = work(*taken)
            except FoldwiseError as error:
                raise relabelled(error, step.label, step.operator) from error.__cause__
            except UNEXPECTED as error:
                raise ModelError(f"{step.label} ({step.operator}) does not take these inputs ({error})") from error
            if len(writes) == 1:
                values[writes[0]] = made
            else:
                for i, value in zip(writes, made, strict=False):
                    values[i] = value
            if observe:
                seconds = time.perf_counter() - began
                sizes = size_of(taken), sum(size_of(values[i]) for i in writes)
                observe(StepReport(step.label, step.operator, step.by, seconds, *sizes, done, len(self.steps)))
            if grows:
                more = size_of(made)
                for i in frees:
                    if i >= inputs:
                        more -= size_of(values[i])
                ROOM.taken += more
            for i in frees:
                values[i] = None
        return [values[i] for i in self._outputs]


def _taker(places: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Picks the values at some places, in one call."""
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1 or None))
    return itemgetter(*places) if places else lambda values: ()


class Planner:
    """Makes plans of a program's graphs."""

    def __init__(self, program: Program, engine: str | None, strict: bool, limits: Limits) -> None:
        self.program = program
        self.engine = engine
        self.strict = strict
        self.limits = limits
        self._defining = None if engine else defining(program, limits)

    def plan(self, graph: Graph, around: Mapping[str, Array] | None = None, captured: Iterable[str] = ()) -> Plan:
        """A graph's plan. `around` are constants of the graphs around it, `captured` other values of theirs."""
        known = {**(around or {}), **graph.constants}
        for value in graph.inputs:
            known.pop(value.name, None)  # a caller may give another than its default
        outputs = [value.name for value in graph.outputs]
        parts = self._parts(unfolded(self.program, graph, self.limits, self._defining), known, outputs)
        inputs = [*(value.name for value in graph.inputs), *captured]
        defaults = {value.name: graph.constants[value.name] for value in graph.inputs if value.name in graph.constants}
        return Plan(parts, inputs, outputs, {**known, **defaults})

    def _parts(self, nodes: Sequence[Meant], known: dict[str, Array], outputs: Sequence[str]) -> list[Part]:
        """Steps in an order that works: what other engines run is put together, what depends on nothing is done."""
        made = [(meant, self._native(meant, known)) for meant in nodes]
        made = [(meant, part) for meant, part in made if part is None or part.writes[0] not in known]
        foreign = [meant for meant, part in made if part is None]
        if foreign and self.engine is None:
            raise EngineError(self._no_engine(foreign))
        parts: list[Part] = []
        for ours, piece in _pieces(made):
            if ours:
                parts += _with_siblings([self._helped(each, nodes, known, outputs) for each in piece])
            else:
                parts.append(self._foreign(piece, nodes, known, outputs))
        return parts

    def _helped(
        self,
        item: tuple[Meant, Part | None],
        everything: Sequence[Meant],
        known: Mapping[str, Array],
        outputs: Sequence[str],
    ) -> Part:
        """A step of ours. For dtypes that NumPy does not do, plumbing goes to the engine, if there is one."""
        meant, part = item
        assert part is not None
        if part.by != "numpy" or self.engine is None:
            return part

        def other(inputs: Sequence[Any]) -> Any:
            alone = self._foreign([(meant, None)], everything, {}, outputs)
            return alone.work(*(inputs[part.reads.index(name)] for name in alone.reads))

        return part._replace(work=_or_else(part.work, other))

    def _native(self, meant: Meant, known: dict[str, Array]) -> Part | None:
        """The step of a node that foldwise or NumPy runs."""
        node, opsets = meant
        label = node.label
        if not any(node.outputs):
            raise ModelError(f"{self.program.origin}: {label} ({node.operator}) makes nothing")
        try:
            schema = schema_of(self.program, node, opsets)
            if schema is not None:
                fold = Folding(schema, attribute_values(schema, node), lenient=not self.strict)
                others = node.inputs[1:]
                made = (node.outputs[0],)
                if not node.inputs or any(name and name not in known for name in others):
                    return Part(fold, tuple(node.inputs), made, label, schema.label, "foldwise")
                fixed = FixedFolding(fold, [known.get(name) for name in others])
                return Part(fixed, (node.inputs[0],), made, label, schema.label, "foldwise")
            opset = opsets.get("", 1)
            make = control(node, opset)
            if make is not None:
                work, captured = make(self, node, known)
                return Part(work, (*node.inputs, *captured), tuple(node.outputs), label, node.operator, "foldwise")
            run = runner(self.program.dialect, node, opset, self.limits)
            if run is None:
                return None
            work = _arrays_of(run)
            several = node.operator in SEVERAL
            writes = tuple(node.outputs) if several else (node.outputs[0],)
            if several and len(writes) == 1:
                work = _only(work)
            which = self.program.dialect, node, opset
            part = Part(work, tuple(node.inputs), writes, label, node.operator, "numpy", need(*which), said(*which))
            if len(writes) == 1 and all(name in known for name in node.inputs):
                with np.errstate(all="ignore"):
                    made_now = part.work(*(known[name] for name in node.inputs))
                if size_of(made_now) <= _LARGEST_KEPT:
                    known[node.outputs[0]] = made_now
            return part
        except FoldwiseError as error:
            raise relabelled(error, label, node.operator) from None
        except UNEXPECTED as error:
            raise relabelled(unexpected(node, error), label, node.operator) from error

    def _no_engine(self, foreign: Sequence[Meant]) -> str:
        kinds = sorted({meant.node.operator for meant in foreign})
        shown = ", ".join(kinds[:8]) + (f" and {len(kinds) - 8} more" if len(kinds) > 8 else "")
        first = foreign[0].node.label
        way = (
            'run(..., engine="onnxruntime") or engine="reference" hands them over'
            if self.program.dialect == "onnx"
            else "an OpenVINO model of other operators cannot be run here"
        )
        return f"{first}: {shown}: foldwise runs reductions, scans and the plumbing around them; {way}"

    def _foreign(
        self, piece: Piece, everything: Sequence[Meant], known: Mapping[str, Array], outputs: Sequence[str]
    ) -> Part:
        """Nodes as one step of the engine's; where it refuses them together, each by itself, the plumbing here."""
        from .engines import Foreign  # whose package not everybody has

        nodes = [meant for meant, _ in piece]
        inside = {id(meant) for meant in nodes}
        made = dict.fromkeys(name for meant in nodes for name in meant.node.outputs if name)
        read = dict.fromkeys(name for meant in nodes for name in meant.node.reads() if name not in made)
        wanted = {name for meant in everything if id(meant) not in inside for name in meant.node.reads()}
        writes = [name for name in made if name in wanted or name in outputs] or list(made)[:1]
        held = {name: known[name] for name in read if name in known}
        reads = [name for name in read if name not in held]

        def apart() -> Callable[..., Any]:
            singly = [part or self._foreign([(meant, None)], everything, known, outputs) for meant, part in piece]
            return Plan(singly, reads, writes, held).run

        work = Foreign(self.program, nodes, reads, writes, held, str(self.engine), apart if len(nodes) > 1 else None)
        kinds = list(dict.fromkeys(meant.node.operator for meant in nodes))
        operator = ", ".join(kinds[:3]) + (f" and {len(kinds) - 3} more" if len(kinds) > 3 else "")
        label = nodes[0].node.label if len(nodes) == 1 else f"{len(nodes)} nodes from {nodes[0].node.label}"
        run = _only(work) if len(writes) == 1 else work
        return Part(run, tuple(reads), tuple(writes), label, operator, work.engine)


def _only(work: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs: work(*inputs)[0]


def _arrays_of(run: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy gives scalars where there is no axis left."""

    def work(*inputs: Any) -> Any:
        made = run(*inputs)
        return np.asarray(made) if isinstance(made, np.generic) else made

    return work


def _or_else(work: Callable[..., Any], other: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    def run(*inputs: Any) -> Any:
        try:
            return work(*inputs)
        except DtypeError:
            return other(inputs)

    return run


def _pieces(made: Piece) -> list[tuple[bool, Piece]]:
    """Nodes in as few alternations between us and the engine as their dependencies allow; whether each piece is ours.

    A node's phase is the first one of its kind, even for ours and odd for the engine's, in which all that it reads is
    there. Plumbing, which both can do, goes where its inputs come from.
    """
    phase_of: dict[str, int] = {}
    phases: dict[int, Piece] = {}
    for meant, part in made:
        phase = max((phase_of.get(name, 0) for name in meant.node.reads()), default=0)
        if part is None:
            phase += phase % 2 == 0
        elif part.by != "numpy":
            phase += phase % 2
        phase_of.update(dict.fromkeys(meant.node.outputs, phase))
        phases.setdefault(phase, []).append((meant, part))
    return [(phase % 2 == 0, phases[phase]) for phase in sorted(phases)]


def _with_siblings(parts: Sequence[Part]) -> list[Part]:
    """Reductions of one tensor over constant axes, put together at the first of them."""
    families: dict[str, list[Part]] = {}
    for part in parts:
        if isinstance(part.work, FixedFolding) and part.work.folding.schema.kind == "reduce":
            families.setdefault(part.reads[0], []).append(part)
    found = []
    for part in parts:
        reduces = isinstance(part.work, FixedFolding) and part.work.folding.schema.kind == "reduce"
        family = families[part.reads[0]] if reduces else [part]
        if len(family) == 1:
            found.append(part)
        elif part is family[0]:
            found.append(_joined(family))
    return found


def _joined(family: Sequence[Part]) -> Part:
    work = Siblings([part.work for part in family if isinstance(part.work, FixedFolding)])
    labels = " and ".join(part.label for part in family)
    operators = " and ".join(part.operator for part in family)
    return Part(work, family[0].reads, tuple(part.writes[0] for part in family), labels, operators, "foldwise")
