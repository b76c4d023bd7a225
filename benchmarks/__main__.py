"""Run the benchmark: `python -m benchmarks --help`."""

import argparse
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

from .cases import cases
from .goals import goals
from .measure import FULL, QUICK
from .outcome import Outcome, run
from .peers import CONTENDERS, OURS, Contender, version_of
from .report import HEADER, line, summary

QUICK_SECONDS = 95.0  # cases that a quick run has not started by then are left out


def main() -> None:
    wanted = arguments()
    if wanted.load:
        stored = json.loads(wanted.load.read_text())
        meta, outcomes = stored["meta"], [Outcome.from_json(case) for case in stored["cases"]]
        print("\n".join(map(line, outcomes)))
    else:
        meta, outcomes = measured(wanted)
    if not outcomes:
        sys.exit("benchmarks: no case matches --only")
    lines = goals(outcomes, meta["threads"])
    print("\n" + summary(outcomes, lines))
    if wanted.json:
        wanted.json.parent.mkdir(parents=True, exist_ok=True)
        stored = {"meta": meta, "goals": list(map(asdict, lines)), "cases": [o.to_json() for o in outcomes]}
        wanted.json.write_text(json.dumps(stored, indent=1) + "\n")
    if wanted.plot:
        from .plot import draw

        wanted.plot.parent.mkdir(parents=True, exist_ok=True)
        draw(outcomes, title(meta), wanted.plot)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description="foldwise against its peers")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    add = parser.add_argument
    add("--quick", action="store_true", help="a representative part in under two minutes")
    add("--only", metavar="PATTERN", default="", help="cases whose name this regular expression finds")
    add(
        "--threads",
        metavar="N",
        type=int,
        default=available,
        help="for every contender (default: %(default)s)",
    )
    add(
        "--rounds",
        metavar="R",
        type=int,
        help=f"interleaved rounds (default: {FULL.rounds}, quick: {QUICK.rounds})",
    )
    add(
        "--peers",
        nargs="+",
        metavar="PEER",
        choices=set(CONTENDERS) - {OURS},
        help="default: all that are installed",
    )
    add("--out", action="store_true", help="write into results that exist already, where a contender can")
    add("--json", metavar="FILE", type=Path, help="write every sample, with versions and machine")
    add("--plot", metavar="FILE", type=Path, help="draw the ratios (.png, .svg, .pdf)")
    add(
        "--load", metavar="FILE", type=Path, help="report on, and plot, what an earlier run wrote with --json"
    )
    return parser.parse_args()


def measured(wanted: argparse.Namespace) -> tuple[dict[str, Any], list[Outcome]]:
    started = time.monotonic()
    effort = QUICK if wanted.quick else FULL
    effort = replace(effort, rounds=wanted.rounds or effort.rounds)
    chosen = [case for case in cases(quick=wanted.quick) if re.search(wanted.only, case.name)]
    contenders = entered(wanted.peers or CONTENDERS, wanted.threads)
    meta = about(wanted, effort.rounds, list(contenders))
    print(title(meta), "\n" + HEADER)

    outcomes = []
    running = run(chosen, contenders, effort, reuse=wanted.out)
    for outcome in takewhile(
        lambda _: not wanted.quick or time.monotonic() - started < QUICK_SECONDS, running
    ):
        outcomes.append(outcome)
        print(line(outcome), flush=True)
    meta |= {"seconds": time.monotonic() - started, "left_out": len(chosen) - len(outcomes)}
    print(
        f"\n{len(outcomes)} cases in {meta['seconds']:.0f} s"
        + f", {meta['left_out']} left out" * bool(meta["left_out"])
    )
    return meta, outcomes


def entered(names: Iterable[str], threads: int) -> dict[str, Contender]:
    """Load the contenders that are installed, ourselves first."""
    contenders: dict[str, Contender] = {OURS: CONTENDERS[OURS](threads)}
    for name in names:
        try:
            contenders.setdefault(name, CONTENDERS[name](threads))
        except ModuleNotFoundError as missing:
            print(f"{name} does not take part: {missing}")
    return contenders


def about(wanted: argparse.Namespace, rounds: int, contenders: list[str]) -> dict[str, Any]:
    return {
        "cpu": processor(),
        "threads": wanted.threads,
        "rounds": rounds,
        "quick": wanted.quick,
        "reused_results": wanted.out,
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": {name: version_of(name) for name in contenders},
        "foldwise": import_module(OURS).show_config(mode="dicts"),
        "date": time.strftime("%Y-%m-%d"),
    }


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def title(meta: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in meta["versions"].items() if name != "ufunc")
    results = "results reused" if meta["reused_results"] else "fresh results"
    return f"{meta['cpu']}, {meta['threads']} thread(s), {meta['rounds']} rounds, {results}\n{versions}"


if __name__ == "__main__":
    main()
