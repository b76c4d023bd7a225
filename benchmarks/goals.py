"""The lines to reach, for the core and for the other folds, each judged on the figures of one run."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import foldwise

from .operations import FIVE
from .outcome import Outcome, geomean

Figure = Callable[[Outcome], float | None]
CONTIGUOUS = ("float32", "float64", "int32", "int64")
LONG_FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")
NEAR_SUM = 0.85  # of sum's speed: what "within 15%" comes to
FULL_RANGE = "full range"
TIMES_ONE = 1.3  # the time of one fold that five together may take


@dataclass(frozen=True)
class Goal:
    """A line to reach: None when this run could not tell."""

    text: str
    reached: bool | None
    figures: str

    @property
    def verdict(self) -> str:
        return {True: "PASS", False: "FAIL", None: "  - "}[self.reached]


def goals(outcomes: Iterable[Outcome], threads: int) -> list[Goal]:
    """Judge the core and exact results where they were measured, and the other folds where any of them was."""
    outcomes = list(outcomes)
    core = [outcome for outcome in outcomes if outcome.case.family == "core"]
    exact = [outcome for outcome in outcomes if outcome.case.family == "exact"]
    others = [outcome for outcome in outcomes if outcome.case.family not in ("core", "exact")]
    lines = core_goals([outcome for outcome in core if outcome.case.core], threads) if core else []
    lines += exact_goals(exact, threads) if exact else []
    return lines + (goals_of_the_others(others) if others else [])


def exact_goals(outcomes: list[Outcome], threads: int) -> list[Goal]:
    """Judge exact results mostly by what they cost beside the default, little of it where memory is the limit."""
    sums, scans = of_operation("exact sum", outcomes), of_operation("exact cumsum", outcomes)
    usual = [o for o in sums if not o.case.view and o.case.values != FULL_RANGE]
    rows = [o for o in usual if o.case.axes == tuple(range(len(o.case.shape)))]
    axes = [o for o in usual if o not in rows]

    def from_dram(dtype: str) -> list[Outcome]:
        return [o for o in rows if o.case.from_dram and o.case.dtype == dtype]

    def in_cache(dtypes: tuple[str, ...]) -> list[Outcome]:
        return [o for o in filter(in_l2, rows) if o.case.dtype in dtypes]

    return [
        *(
            at_least(bar, of_own, f"exact 1-D {dtype} sums from DRAM >= {bar} of the default's speed", from_dram(dtype))
            for dtype, bar in (("float64", 0.95), ("float32", 0.88), ("float16", 0.80))
        ),
        *(
            at_least(
                0.50,
                of_own,
                f"exact 1-D {' and '.join(some)} sums in L2 >= 0.5 of the default's speed",
                in_cache(some),
            )
            for some in (LONG_FLOATS, HALVES)
        ),
        at_least(
            0.80,
            of_own,
            "exact sums over some axes from DRAM >= 0.8 of the default's speed",
            [o for o in axes if o.case.from_dram],
        ),
        at_least(0.45, of_own, "the same in L2 >= 0.45 of the default's speed", filter(in_l2, axes)),
        at_least(
            1.5,
            lambda outcome: outcome.gigabytes_per_second / threads,
            "exact 1-D sums from DRAM over all exponents >= 1.5 GB/s a core",
            [o for o in sums if o.case.values == FULL_RANGE and o.case.from_dram],
        ),
        at_least(
            1 / 3,
            of_own,
            "exact cumsum of uniform and normal numbers in at most 3 times the default's time (1/3 = 0.33)",
            [o for o in scans if o.case.values in ("", "normal")],
        ),
        at_least(
            0.2,
            lambda outcome: outcome.gigabytes_per_second,
            "exact cumsum over all exponents >= 0.2 GB/s",
            [o for o in scans if o.case.values == FULL_RANGE],
        ),
        at_least(
            0.5,
            of_own,
            "exact results of up to 64 elements in at most twice the default's time (1/2 = 0.5)",
            [o for o in outcomes if o.case.layout == "tiny"],
        ),
    ]


def goals_of_the_others(outcomes: list[Outcome]) -> list[Goal]:
    dram = [outcome for outcome in outcomes if outcome.case.from_dram]
    return [
        at_least(0.97, ratio, "the other folds, every case >= 0.97x the fastest peer", outcomes),
        *(
            at_least(NEAR_SUM, of_own, f"{op} from DRAM >= {NEAR_SUM:.0%} of our sum's speed", of_operation(op, dram))
            for op in ("max", "min", "mean", "l2", "sumsquare")
        ),
        at_least(3.0, ratio, "logsumexp >= 3x the fastest peer", of_operation("logsumexp", outcomes)),
        at_least(
            2.0,
            lambda outcome: outcome.times_faster_than("numpy"),
            "argmax >= 2x NumPy's",
            of_operation("argmax", outcomes),
        ),
        five_in_one(of_operation("reduce_many", dram)),
    ]


def five_in_one(outcomes: list[Outcome]) -> Goal:
    text = f"reduce_many of {', '.join(FIVE)} from DRAM in at most {TIMES_ONE} times our sum's time"
    return at_least(1 / TIMES_ONE, of_own, f"{text} (1/{TIMES_ONE} = {1 / TIMES_ONE:.2f})", outcomes)


def of_operation(op: str, outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.case.op == op]


def core_goals(core: list[Outcome], threads: int) -> list[Goal]:
    dram = [outcome for outcome in core if outcome.case.from_dram and not outcome.case.view]
    sums = [outcome for outcome in dram if outcome.case.op == "sum"]
    return [
        at_least(0.97, ratio, "rows of 200 aside, every case >= 0.97x the fastest peer", not_(rows_of_200, core)),
        at_least(0.90, ratio, "(80000,200) >= 0.9x the fastest peer", filter(rows_of_200, core)),
        at_least(1.50, ratio, ">= 1.5x where the fastest peer is under 60% of the limit", filter(has_room, core)),
        cumsum_mean([outcome for outcome in core if outcome.case.op == "cumsum"]),
        flat_sums([o for o in sums if o.case.layout == "flat" and o.case.dtype in CONTIGUOUS], threads),
        at_least(
            0.70,
            of_limit,
            "reductions of (4096,16384), (64,128,56,56), (40000000,3) over any axis >= 70% of read",
            [o for o in dram if not o.case.is_scan and o.case.layout in ("matrix", "nchw", "triples")],
        ),
        at_least(
            0.70,
            of_limit,
            "float16 and bfloat16 sums >= 70% of read",
            [o for o in sums if o.case.dtype in HALVES],
        ),
        copy_speed_scans([o for o in dram if o.case.job == "cumsum" and o.case.layout in ("flat", "matrix")], threads),
        tiny_sum(core, 4, "numpy", "at most a quarter of np.sum's time"),
        tiny_sum(core, 1, "ufunc", "less than np.add.reduce"),
        tiny_sum(core, 1, "bottleneck", "less than bottleneck's nansum"),
        import_time(),
        installed_size(),
    ]


def ratio(outcome: Outcome) -> float | None:
    return outcome.ratio


def of_own(outcome: Outcome) -> float | None:
    return outcome.of_own


def of_limit(outcome: Outcome) -> float | None:
    return outcome.of_limit


def rows_of_200(outcome: Outcome) -> bool:
    return outcome.case.layout == "rows of 200"


def in_l2(outcome: Outcome) -> bool:
    return outcome.case.layout in ("small", "flat in L2")


def has_room(outcome: Outcome) -> bool:
    """Tell whether the fastest peer leaves memory idle; what limits tiny arrays is the call, not memory."""
    return outcome.case.layout != "tiny" and (outcome.peer_of_limit or 1.0) < 0.6


def not_(condition: Callable[[Outcome], bool], outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if not condition(outcome)]


def at_least(bar: float, figure: Figure, text: str, outcomes: Iterable[Outcome]) -> Goal:
    """Judge by the worst case, and say how many reach the bar."""
    reached = [(value, outcome) for outcome in outcomes if (value := figure(outcome)) is not None]
    if not reached:
        return Goal(text, None, "no such case in this run")
    worst, where = min(reached, key=lambda pair: pair[0])
    good = sum(value >= bar for value, _ in reached)
    return Goal(text, good == len(reached), f"{good} of {len(reached)}; worst {worst:.2f}: {where.case.name}")


def cumsum_mean(scans: list[Outcome]) -> Goal:
    text = "cumsum geometric mean >= 2.5x the fastest peer"
    mean = geomean(scans)
    if mean is None:
        return Goal(text, None, "no such case in this run")
    plain = geomean(outcome for outcome in scans if not outcome.case.flipped)
    aside = "" if plain is None else f" ({plain:.2f} without exclusive+reverse)"
    return Goal(text, mean >= 2.5, f"{mean:.2f}{aside} over {len(scans)} cases")


def flat_sums(sums: list[Outcome], threads: int) -> Goal:
    bar = 0.85 if threads == 1 else 0.90
    return at_least(bar, of_limit, f"contiguous DRAM-sized sums >= {bar:.0%} of read, {threads} thread(s)", sums)


def copy_speed_scans(scans: list[Outcome], threads: int) -> Goal:
    text = "1-D and both-axes cumsum >= 70% of copy with 2 threads"
    goal = at_least(0.70, of_limit, text, scans)
    return goal if threads >= 2 else Goal(text, None, f"judged with 2 threads; here 1: {goal.figures}")


def tiny_sum(core: list[Outcome], bar: float, peer: str, text: str) -> Goal:
    tiny = [o for o in core if o.case.layout == "tiny" and o.case.job == "sum" and o.case.dtype == "float32"]
    return at_least(bar, lambda outcome: outcome.times_faster_than(peer), f"a (4,8) float32 sum costs {text}", tiny)


def import_time() -> Goal:
    script = "import time, numpy; t = time.perf_counter(); import foldwise; print(time.perf_counter() - t)"
    text = "import foldwise adds < 50 ms to import numpy"
    try:
        seconds_printed_by(script)  # writes the bytecode that an installed package has
        milliseconds = 1e3 * median(seconds_printed_by(script) for _ in range(5))
    except (subprocess.SubprocessError, OSError, ValueError) as failure:
        return Goal(text, None, f"could not be measured: {reason_of(failure)}")
    return Goal(text, milliseconds < 50, f"{milliseconds:.1f} ms")


def seconds_printed_by(script: str) -> float:
    command = [sys.executable, "-c", script]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment)
    return float(ended.stdout)


def reason_of(failure: Exception) -> str:
    """Give the last line the process left, or what is known without it."""
    if isinstance(failure, subprocess.TimeoutExpired):
        return f"no answer within {failure.timeout:g} s"
    if isinstance(failure, subprocess.CalledProcessError):
        said = failure.stderr.strip().splitlines()
        return said[-1] if said else f"the process ended with {failure.returncode}"
    return str(failure)


def installed_size() -> Goal:
    files = [path for folder in foldwise.__path__ for path in Path(folder).rglob("*.so")]
    size = sum(path.stat().st_size for path in files) / 1e6
    return Goal("native part < 12 MB", size < 12, f"{size:.1f} MB")
