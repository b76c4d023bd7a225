"""What one case came to, and the figures that everybody quotes."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from statistics import geometric_mean
from typing import Any

from .cases import Case, sharing_data
from .machine import Machine
from .measure import Effort, Racer, Samples, as_written, race, seconds_per_call, times_faster
from .operations import Array
from .peers import OURS, Contender

LIMIT = "limit"


@dataclass
class Outcome:
    """The samples of all contenders on one case."""

    case: Case
    samples: dict[str, Samples]
    limit_scale: float = 1.0  # what the case moves through memory, relative to what the probe moves
    absent: dict[str, str] = field(default_factory=dict)  # contender: why

    @property
    def seconds(self) -> float:
        return self.samples[OURS].median

    @property
    def gigabytes_per_second(self) -> float:
        return self.case.input_bytes / self.seconds / 1e9

    @property
    def peers(self) -> list[str]:
        """Who else took part, fastest first."""
        others = [name for name in self.samples if name not in (OURS, LIMIT, beside(self.case))]
        return sorted(others, key=lambda name: self.samples[name].median)

    @cached_property
    def ratio(self) -> float | None:
        """How many times faster than the fastest peer."""
        return self.times_faster_than(self.peers[0]) if self.peers else None

    @cached_property
    def of_own(self) -> float | None:
        """Our speed relative to that of our own operation beside it."""
        return self.times_faster_than(beside(self.case))

    @cached_property
    def of_limit(self) -> float:
        """The part of the measured read bandwidth (reductions) or copy bandwidth (scans) that is used."""
        return self.limit_scale * times_faster(self.samples[OURS], self.samples[LIMIT])

    @cached_property
    def peer_of_limit(self) -> float | None:
        """The same for the fastest peer."""
        if not self.peers:
            return None
        return self.limit_scale * times_faster(self.samples[self.peers[0]], self.samples[LIMIT])

    def times_faster_than(self, peer: str) -> float | None:
        if peer not in self.samples:
            return None
        return times_faster(self.samples[OURS], self.samples[peer])

    def to_json(self) -> dict[str, Any]:
        figures = {
            "name": self.case.name,
            "seconds": self.seconds,
            "gigabytes_per_second": self.gigabytes_per_second,
            "best_peer": self.peers[0] if self.peers else None,
            "ratio": self.ratio,
            "of_own": self.of_own,
            "of_limit": self.of_limit,
            "peer_of_limit": self.peer_of_limit,
        }
        return figures | asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Outcome":
        case: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in stored["case"].items()
        }
        samples = {
            name: Samples(taken["inner"], {int(turn): seconds for turn, seconds in taken["seconds"].items()})
            for name, taken in stored["samples"].items()
        }
        return cls(Case(**case), samples, stored["limit_scale"], stored["absent"])


def geomean(outcomes: Iterable[Outcome]) -> float | None:
    """Average the ratios to the best peer, as ratios are averaged."""
    ratios = [outcome.ratio for outcome in outcomes if outcome.ratio is not None]
    return geometric_mean(ratios) if ratios else None


def run(cases: Iterable[Case], contenders: dict[str, Contender], effort: Effort, *, reuse: bool) -> Iterator[Outcome]:
    """Measure case after case; those that share an array follow each other."""
    for base, group in sharing_data(cases):
        machine = Machine(base)
        for case in group:
            yield outcome_of(case, base, contenders, machine, effort, reuse=reuse)


def outcome_of(
    case: Case,
    base: Array,
    contenders: dict[str, Contender],
    machine: Machine,
    effort: Effort,
    *,
    reuse: bool,
) -> Outcome:
    racers: dict[str, Racer] = {}
    absent: dict[str, str] = {}
    for name, contender in contenders.items():
        try:
            call = as_written(contender.prepare(case, case.view_of(base), reuse=reuse))
            racers[name] = Racer(call, seconds_per_call(call, effort), always=name == OURS)
        except Exception as reason:  # whatever a peer raises when it lacks a dtype or an operator
            if name == OURS:
                raise
            absent[name] = str(reason).splitlines()[0]
    probe, moved = machine.copying if case.is_scan else machine.reading
    racers[LIMIT] = Racer(probe, seconds_per_call(probe, effort), always=True)
    if like := case.operation.like:
        own = as_written(contenders[OURS].prepare(replace(case, op=like), case.view_of(base), reuse=reuse))
        racers[beside(case)] = Racer(own, seconds_per_call(own, effort), always=True)
    return Outcome(case, race(racers, effort), moves(case) / moved, absent)


def beside(case: Case) -> str:
    """What our own operation on the same array runs as: it costs what a fold should that does little more."""
    return f"our {case.operation.like}"


def moves(case: Case) -> int:
    """Bytes through memory: a reduction reads; a scan reads and writes, often wider elements."""
    return case.base_bytes + (case.output_bytes if case.is_scan else 0)
