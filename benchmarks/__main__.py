"""Run the benchmark: `python -m benchmarks --help`."""

import argparse
import json
import math
import platform
import re
import sys
import time
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import foldwise

from .cases import cases
from .goals import Goal, goals
from .machine import Disturbance, cores, processor
from .measure import FULL, QUICK
from .operations import FAMILIES, Operation
from .outcome import Outcome, run
from .peers import CONTENDERS, OURS, entered, version_of
from .report import HEADER, line, of_own_tables, reached, summary

QUICK_SECONDS = 95.0  # for each family: what a quick run has not begun by then is left out


def main() -> None:
    wanted = arguments()
    meta, outcomes = loaded(wanted.load) if wanted.load else measured(wanted)
    if not outcomes:
        sys.exit(
            "benchmarks: nothing measured; --only is a regular expression for names such as 'sum float32 4x8 axis=1'"
        )
    if wanted.json:
        store(wanted.json, meta, outcomes, [])  # what was measured is safe before anything judges it
    print("\n" + summary(outcomes, meta["disturbed"]))
    lines = goals(outcomes, meta["threads"])
    print("\n" + reached(lines))
    if wanted.json:
        store(wanted.json, meta, outcomes, lines)
    if wanted.table:
        written(wanted.table, of_own_tables(outcomes) + "\n")
    if wanted.plot:
        from .plot import draw

        wanted.plot.parent.mkdir(parents=True, exist_ok=True)
        draw(outcomes, title(meta), wanted.plot)


def store(file: Path, meta: dict[str, Any], outcomes: list[Outcome], lines: list[Goal]) -> None:
    stored = {"meta": meta, "goals": list(map(asdict, lines)), "cases": [o.to_json() for o in outcomes]}
    written(file, json.dumps(stored, indent=1) + "\n")


def written(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description="foldwise against its peers")
    peers = [name for name in CONTENDERS if name != OURS]
    families = f"{', '.join(FAMILIES)}; others: all but core; all (default: core)"
    add = parser.add_argument
    add("--quick", action="store_true", help="a representative part in under two minutes a family")
    add("--family", nargs="+", metavar="FAMILY", default=["core"], choices=(*FAMILIES, "others", "all"), help=families)
    add("--only", metavar="PATTERN", default="", help="cases whose name this regular expression finds")
    add("--threads", metavar="N", type=int, default=cores(), help="for every contender (default: all cores)")
    add("--rounds", metavar="R", type=int, help=f"default: {FULL.rounds}; quick: {QUICK.rounds}")
    add("--peers", nargs="+", metavar="PEER", choices=peers, help=f"default: {', '.join(peers)}")
    add("--out", action="store_true", help="write into results that exist already, where a contender can")
    add("--json", metavar="FILE", type=Path, help="write every sample, with versions and machine")
    add("--plot", metavar="FILE", type=Path, help="draw the ratios (.png, .svg, .pdf)")
    add("--table", metavar="FILE", type=Path, help="write 'of own', as exact over default, every case, in markdown")
    add("--load", nargs="+", metavar="FILE", type=Path, help="report on what earlier runs wrote with --json")
    wanted = parser.parse_args()
    wanted.family = families_named(wanted.family)
    return wanted


def families_named(names: list[str]) -> list[str]:
    others = [family for family in FAMILIES if family != "core"]
    meant = {"all": list(FAMILIES), "others": others}
    return list(dict.fromkeys(family for name in names for family in meant.get(name, [name])))


def loaded(files: list[Path]) -> tuple[dict[str, Any], list[Outcome]]:
    """Join earlier runs; of a case that was measured twice, the later file counts."""
    runs = [json.loads(file.read_text()) for file in files]
    metas = [run["meta"] for run in runs]
    versions = {name: number for meta in metas for name, number in meta["versions"].items()}
    for meta in metas:
        same = all(meta[key] == metas[0][key] for key in ("cpu", "isa", "threads", "reused_results"))
        if not same or meta["versions"].items() - versions.items():
            sys.exit("benchmarks: these runs differ in machine, threads, kind of results or versions")
    outcomes = {case["name"]: Outcome.from_json(case) for run in runs for case in run["cases"]}
    print("\n".join(map(line, outcomes.values())))
    disturbed = max((meta["disturbed"] or 0.0 for meta in metas), default=None)
    return metas[-1] | {"disturbed": disturbed, "versions": versions}, list(outcomes.values())


def measured(wanted: argparse.Namespace) -> tuple[dict[str, Any], list[Outcome]]:
    started = time.monotonic()
    deadline = started + QUICK_SECONDS * len(wanted.family) if wanted.quick else math.inf
    effort = QUICK if wanted.quick else FULL
    effort = replace(effort, rounds=wanted.rounds or effort.rounds)
    found = cases(wanted.family, quick=wanted.quick)
    offered = {case.op for case in found if offers(foldwise, case.operation)}
    chosen = [case for case in found if re.search(wanted.only, case.name) and case.op in offered]
    for op in dict.fromkeys(case.op for case in found if case.op not in offered):
        print(f"{op} is left out: this foldwise has none")
    contenders = entered(wanted.peers or CONTENDERS, wanted.threads)
    meta = about(wanted, effort.rounds, list(contenders))
    print(title(meta), HEADER, sep="\n\n")

    outcomes: list[Outcome] = []
    disturbance = Disturbance()
    try:
        for outcome in run(chosen, contenders, effort, reuse=wanted.out):
            outcomes.append(outcome)
            print(line(outcome), flush=True)
            if time.monotonic() > deadline:
                break
    except KeyboardInterrupt:
        print("\nInterrupted: what follows is about the cases above.")
    left_out = len(chosen) - len(outcomes)
    meta |= {"seconds": time.monotonic() - started, "left_out": left_out, "disturbed": disturbance.share()}
    print(f"\n{len(outcomes)} cases in {meta['seconds']:.0f} s" + f", {left_out} left out" * (left_out > 0))
    return meta, outcomes


def offers(library: ModuleType, operation: Operation) -> bool:
    function = getattr(library, operation.function, None)
    return function is not None and (not operation.exact or "accuracy" in signature(function).parameters)


def about(wanted: argparse.Namespace, rounds: int, contenders: list[str]) -> dict[str, Any]:
    config = foldwise.show_config(mode="dicts") or {}
    return {
        "cpu": processor(),
        "threads": wanted.threads,
        "rounds": rounds,
        "quick": wanted.quick,
        "reused_results": wanted.out,
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": {name: version_of(name) for name in contenders},
        "isa": config["instruction sets"]["in use"],
        "foldwise": config,
        "date": time.strftime("%Y-%m-%d"),
    }


def title(meta: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in meta["versions"].items() if name != "ufunc")
    results = "results reused" if meta["reused_results"] else "fresh results"
    machine = f"{meta['cpu']}, {meta['isa']}, {meta['threads']} thread(s)"
    return f"{machine}, {meta['rounds']} rounds, {results}\n{versions}"


if __name__ == "__main__":
    main()
