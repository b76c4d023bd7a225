"""What a run prints: a line per case, then what they come to."""

from collections.abc import Iterable
from statistics import median

from .goals import Goal
from .operations import DTYPES
from .outcome import Outcome, geomean

GOOD = 0.97
HEADER = (
    "GB/s: input bytes. of limit: of the read (reductions) or copy bandwidth (scans), measured alongside.\n"
    "of own: our sum's time over ours (exact results: over the default's), of the same array, measured alongside.\n"
    "ratio: the best peer's time over ours; above 1 we are faster.\n\n"
    f"{'case':<62}{'time':>10}{'GB/s':>8}{'of limit':>10}{'of own':>8}{'ratio':>8}  best peer"
)


def line(outcome: Outcome) -> str:
    case = outcome.case
    speed = f"{duration(outcome.seconds):>10}{outcome.gigabytes_per_second:>8.1f}{outcome.of_limit:>10.2f}"
    speed += " " * 8 if outcome.of_own is None else f"{outcome.of_own:>8.2f}"
    if outcome.ratio is None:
        return f"{case.name:<62}{speed}{'':>8}  nobody else does this"
    peer = outcome.peers[0]
    best = f"{peer} {duration(outcome.samples[peer].median)}"
    return f"{case.name:<62}{speed}{outcome.ratio:>7.2f}x  {best:<24}{remarks(outcome)}".rstrip()


def remarks(outcome: Outcome) -> str:
    most = max(len(samples.seconds) for samples in outcome.samples.values())
    fewer = [f"{peer} {len(s.seconds)}" for peer, s in outcome.samples.items() if len(s.seconds) < most]
    return f"fewer rounds: {', '.join(fewer)}" if fewer else ""


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def summary(outcomes: list[Outcome], disturbed: float | None) -> str:
    return "\n\n".join([slower(outcomes), means(outcomes), noise(outcomes, disturbed)])


def slower(outcomes: list[Outcome]) -> str:
    slow = sorted((o for o in outcomes if o.ratio is not None and o.ratio < GOOD), key=lambda o: o.ratio or 0)
    head = f"Slower than the best peer (ratio below {GOOD}): {len(slow)} of {len(outcomes)} cases"
    return "\n".join([head, *(f"  {line(outcome)}" for outcome in slow)])


def means(outcomes: list[Outcome]) -> str:
    """Tabulate geometric means of the ratios, jobs by dtypes."""
    jobs = list(dict.fromkeys(o.case.job for o in sorted(outcomes, key=lambda o: not o.case.core)))
    dtypes = [d for d in (*DTYPES, "bool") if any(o.case.dtype == d for o in outcomes)]
    lines = ["Geometric mean of the ratios to the best peer", f"  {'':<18}{'all':>9}" + columns(dtypes)]
    for job in jobs:
        mine = [o for o in outcomes if o.case.job == job]
        figures = [geomean(mine), *(geomean(o for o in mine if o.case.dtype == d) for d in dtypes)]
        lines.append(f"  {job:<18}" + columns("" if figure is None else f"{figure:.2f}x" for figure in figures))
    return "\n".join(lines)


def columns(texts: Iterable[str]) -> str:
    return "".join(f"{text:>9}" for text in texts)


def of_own_tables(outcomes: list[Outcome]) -> str:
    """Tabulate, in markdown, every case that one of our own ran beside: its speed over that one's."""
    beside = [outcome for outcome in outcomes if outcome.of_own is not None]
    operations = list(dict.fromkeys(outcome.case.operation for outcome in beside))
    return "\n\n".join(
        table_of(f"{o.name} over {o.like}", [outcome for outcome in beside if outcome.case.operation is o])
        for o in operations
    )


def table_of(title: str, outcomes: list[Outcome]) -> str:
    dtypes = [dtype for dtype in DTYPES if any(o.case.dtype == dtype for o in outcomes)]
    figures = {(o.case.place, o.case.dtype): f"{o.of_own:.2f}" for o in outcomes}
    places = dict.fromkeys(o.case.place for o in outcomes)
    rows = [[place, *(figures.get((place, dtype), "") for dtype in dtypes)] for place in places]
    return markdown([title, *dtypes], rows)


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def noise(outcomes: list[Outcome], disturbed: float | None) -> str:
    spreads = [samples.spread for o in outcomes for samples in o.samples.values() if samples.spread]
    lines = ["Noise"]
    if spreads:
        lines.append(f"  the middle half of a contender's times usually spans {median(spreads):.0%} of the median")
    if disturbed is not None:
        lines.append(f"  other programs and virtual machines took {disturbed:.0%} of the processors' time")
    return "\n".join(lines)


def reached(goals: Iterable[Goal]) -> str:
    return "\n".join(["To reach", *(f"  {goal.verdict}  {goal.text}\n        {goal.figures}" for goal in goals)])
