"""The clock: contenders take turns, round by round, so that whatever drifts hits all alike."""

import gc
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from random import Random
from statistics import median, quantiles

Call = Callable[[], object]


@dataclass(frozen=True)
class Effort:
    """How much time a figure is worth."""

    rounds: int
    batch: float  # seconds: quick calls are repeated within a round until they fill this
    budget: float  # seconds that a contender far behind may spend on one case


FULL = Effort(rounds=7, batch=15e-3, budget=1.0)
QUICK = Effort(rounds=5, batch=3e-3, budget=0.05)

THREADS = Path("/proc/self/task")

# A peer that needs this many times the fastest peer's time gets as many rounds as the budget pays for;
# everybody else runs in all of them.
FAR_BEHIND = 3.0


@dataclass
class Samples:
    """Seconds per call of one contender, by round."""

    inner: int  # calls per round
    seconds: dict[int, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return median(self.seconds.values())

    @property
    def spread(self) -> float:
        """The interquartile range over the median: how far to trust it."""
        if len(self.seconds) < 4:
            return 0.0
        low, middle, high = quantiles(self.seconds.values(), n=4)
        return (high - low) / middle


def times_faster(ours: Samples, theirs: Samples) -> float:
    """Compare round by round, within which the machine was the same, and take the median."""
    return median(theirs.seconds[r] / ours.seconds[r] for r in theirs.seconds.keys() & ours.seconds.keys())


@dataclass(frozen=True)
class Racer:
    """A call, about how many seconds it takes, and whether it runs in every round however slow it is."""

    call: Call
    seconds: float
    always: bool


def as_written(call: Call) -> Call:
    """A prepared call as somebody would write it: keywords that stand in the code cost less than a partial's."""
    if not isinstance(call, partial):
        return call
    places = [f"a{i}" for i in range(len(call.args))]
    words = [f"{name}={name}" for name in call.keywords]
    given, passed = ", ".join(["f", *places, *call.keywords]), ", ".join([*places, *words])
    written: Call = eval(f"lambda {given}: lambda: f({passed})")(call.func, *call.args, **call.keywords)
    return written


def race(racers: Mapping[str, Racer], effort: Effort) -> dict[str, Samples]:
    """Time all racers in rounds, each in an order of its own: what the one before leaves in the caches counts."""
    takes = rounds_of_each(racers, effort)
    samples = {name: Samples(max(1, round(effort.batch / racer.seconds))) for name, racer in racers.items()}
    with no_garbage_collection():
        for turn in range(effort.rounds):
            for name in Random(turn).sample(list(racers), len(racers)):
                if takes_part(turn, takes[name], effort.rounds):
                    samples[name].seconds[turn] = turn_of(racers[name].call, samples[name].inner)
    return samples


def rounds_of_each(racers: Mapping[str, Racer], effort: Effort) -> dict[str, int]:
    fastest = min((racer.seconds for racer in racers.values() if not racer.always), default=0.0)
    return {
        name: effort.rounds
        if racer.always or racer.seconds < FAR_BEHIND * fastest
        else min(effort.rounds, max(1, int(effort.budget / max(racer.seconds, effort.batch))))
        for name, racer in racers.items()
    }


def takes_part(turn: int, takes: int, rounds: int) -> bool:
    """Spread the rounds a contender takes evenly over all; turn 0 is one of them."""
    return turn == 0 or turn * takes // rounds != (turn - 1) * takes // rounds


def turn_of(call: Call, inner: int) -> float:
    rest()
    if inner > 1:
        call()  # brings its data back to the caches and its threads back to work
    return timed(call, inner)


def rest() -> None:
    """Until the worker threads of the contender before have stopped spinning: OpenMP's go on for up to 10 ms."""
    at_most = time.perf_counter() + 30e-3
    time.sleep(1e-3 if THREADS.exists() else 10e-3)
    while others_run() and time.perf_counter() < at_most:
        time.sleep(0.5e-3)


def others_run() -> bool:
    """Whether a thread of this program runs beside this one, where the system tells."""
    here = str(threading.get_native_id())
    return THREADS.exists() and any(state_of(thread) == "R" for thread in THREADS.iterdir() if thread.name != here)


def state_of(thread: Path) -> str:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has ended
        return ""


def seconds_per_call(call: Call, effort: Effort) -> float:
    """Estimate a call's time, generously; of a slow one, the first call says enough."""
    seconds = timed(call, 1)
    calls = 1
    while seconds * calls < effort.batch / 4:
        calls *= 4
        seconds = timed(call, calls)
    return min(timed(call, calls), timed(call, calls)) if seconds < effort.budget else seconds


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def timed(call: Call, calls: int) -> float:
    turns = repeat(None, calls)
    start = time.perf_counter()
    for _ in turns:
        call()
    return (time.perf_counter() - start) / calls
