"""The run as one picture: a dot per case, by operator and dtype."""

from pathlib import Path

from .operations import DTYPES, OPERATIONS
from .outcome import Outcome, geomean

KINDS = (  # label, colour, layouts; views are told by their hollow dot
    ("tiny, cache", "#4477aa", ("tiny", "small", "triples 1M")),
    ("flat", "#228833", ("flat",)),
    ("matrix", "#ee6677", ("matrix",)),
    ("NCHW", "#aa3377", ("nchw",)),
    ("short axis", "#ccbb44", ("triples", "long triples", "rows of 8", "rows of 64", "rows of 200")),
)


def draw(outcomes: list[Outcome], title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, NullLocator

    core = [outcome for outcome in outcomes if outcome.case.core and outcome.ratio is not None]
    rows = [row for row in all_rows() if any(row_of(outcome) == row for outcome in core)]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 1.6 + 0.32 * len(rows)), sharey=True, width_ratios=(3, 2), layout="constrained"
    )
    for label, colour, layouts in KINDS:
        for hollow in (False, True):
            dots = [o for o in core if o.case.layout in layouts and bool(o.case.view) == hollow]
            height = [rows.index(row_of(o)) + shift_of(label) for o in dots]
            look = {
                "s": 24,
                "facecolors": "none" if hollow else colour,
                "edgecolors": colour,
                "linewidths": 1.1,
            }
            left.scatter([o.ratio for o in dots], height, **look)
            right.scatter([min(o.of_limit, 1.2) for o in dots], height, **look)

    left.set_xscale("log")
    left.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}x"))
    left.xaxis.set_minor_locator(NullLocator())
    left.set_xticks([t for t in (0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if seen(t, core)])
    left.set_title("times faster than the best peer (log; the row's geometric mean on the right)", fontsize=10)
    left.axvline(1, color="black", linewidth=1)
    ratios = [outcome.ratio or 1.0 for outcome in core]
    left.set_xlim(min(0.9, *ratios) / 1.1, max(1.1, *ratios) * 1.1)
    left.axvspan(left.get_xlim()[0], 1, color="#cc3311", alpha=0.06, linewidth=0)
    for index, row in enumerate(rows):
        mean = geomean(o for o in core if row_of(o) == row)
        left.annotate(f"{mean:.2g}x", (1.01, index), xycoords=("axes fraction", "data"), va="center", fontsize=9)
    right.set_xlim(0, 1.22)
    right.set_title("part of the read (reductions) or copy (scans) bandwidth", fontsize=10)
    right.axvline(1, color="black", linewidth=1)
    left.set_yticks(range(len(rows)), [f"{job}  {dtype}" for job, dtype in rows], fontsize=9)
    left.set_ylim(len(rows) - 0.5, -0.5)
    for axes in (left, right):
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        for border in ("top", "right", "left"):
            axes.spines[border].set_visible(False)
        for index in range(1, len(rows)):
            heavy = rows[index][0] != rows[index - 1][0]
            axes.axhline(index - 0.5, color="#888888" if heavy else "#eeeeee", linewidth=0.8)
    marks = [Line2D([], [], marker="o", linestyle="", color=colour, label=label) for label, colour, _ in KINDS]
    marks.append(Line2D([], [], marker="o", linestyle="", mfc="none", color="#555555", label="strided view"))
    figure.legend(handles=marks, ncols=len(marks), loc="outside lower center", frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def all_rows() -> list[tuple[str, str]]:
    jobs = [operation.name for operation in OPERATIONS]
    jobs.insert(jobs.index("cumsum") + 1, "cumsum excl+rev")
    return [(job, dtype) for job in jobs for dtype in (*DTYPES, "bool")]


def row_of(outcome: Outcome) -> tuple[str, str]:
    return outcome.case.job, outcome.case.dtype


def shift_of(label: str) -> float:
    """Keep the kinds apart within a row."""
    place = [kind for kind, _, _ in KINDS].index(label)
    return (place - (len(KINDS) - 1) / 2) * 0.15


def seen(tick: float, outcomes: list[Outcome]) -> bool:
    ratios = [outcome.ratio or 1.0 for outcome in outcomes]
    return min(ratios, default=1.0) / 1.5 <= tick <= max(ratios, default=1.0) * 1.5 or tick == 1
