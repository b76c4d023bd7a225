"""How far off sums are: `python -m benchmarks.errors` measures every contender against exact values.

Prints tables in markdown and draws how errors grow with the number of elements. Peers' figures depend on the machine
and on the number of threads, as their results do.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import foldwise as fw

from .cases import Case
from .machine import cores, processor
from .operations import Array
from .peers import OURS, Contender, entered, version_of
from .report import markdown

PEERS = ("numpy", "torch", "onnxruntime", "openvino")
EXACT = "foldwise, exact"
NAMES = {"numpy": "NumPy", "torch": "PyTorch", "openvino": "OpenVINO"}
Kind = type[np.float32] | type[np.float64]
SIZES = [round(10 ** (half / 2)) for half in range(4, 15)]
ROWS = 4  # as many sums of each kind: the tables have the largest error

# ---- data: rows of numbers, each to be summed


def uniform(numbers: np.random.Generator, rows: int, n: int, dtype: Kind) -> Array:
    return numbers.random((rows, n), dtype)


def ill_conditioned(numbers: np.random.Generator, rows: int, n: int, dtype: Kind, *, condition: float) -> Array:
    """Numbers and nearly their negatives, in any order: the sum is the sum of their magnitudes over `condition`."""
    x = numbers.random((rows, n // 2 - 1))
    nearly = -x * (1 + 1e-3 * numbers.standard_normal(x.shape))
    values: Array = np.concatenate([x, nearly], axis=1).astype(dtype)
    wanted = fw.l1(values.astype(np.float64), axis=1, accuracy="exact") / condition
    while values.shape[1] < n:  # each brings the sum as near as its digits allow
        missing = wanted - exact_sums(values)[0]
        values = np.concatenate([values, missing.astype(dtype)[:, None]], axis=1)
    return numbers.permuted(values, axis=1)


def wide(numbers: np.random.Generator, rows: int, n: int, dtype: Kind) -> Array:
    """Exponents from -40 to 40, of both signs."""
    sizes = np.ldexp(numbers.uniform(1, 2, (rows, n)), numbers.integers(-40, 40, (rows, n), endpoint=True))
    return np.asarray(sizes * numbers.choice([-1.0, 1.0], (rows, n)), dtype)


@dataclass(frozen=True)
class Data:
    """What is added up, and along which axes of an array: 1 is the contiguous one."""

    name: str
    make: Callable[[np.random.Generator, int, int, Kind], Array]
    powers: dict[Kind, int]  # of ten: how many numbers
    axes: tuple[int, ...] = (1,)
    ops: tuple[str, ...] = ("sum", "cumsum")

    def of(self, dtype: Kind) -> Array:
        return self.make(np.random.default_rng(0), ROWS, 10 ** self.powers[dtype], dtype)


MILLION: dict[Kind, int] = {np.float32: 6, np.float64: 6}
DATA = (
    Data("uniform [0, 1)", uniform, {np.float32: 7, np.float64: 6}, (1, 0)),
    Data("condition 10⁴", partial(ill_conditioned, condition=1e4), MILLION, ops=("sum",)),
    Data("condition 10⁸", partial(ill_conditioned, condition=1e8), MILLION),
    Data("condition 10¹²", partial(ill_conditioned, condition=1e12), MILLION, ops=("sum",)),
    Data("2⁻⁴⁰ to 2⁴⁰", wide, MILLION),
)

# ---- exact values: each the sum of two numbers, so that half a unit in the last place can be told


class Exact(NamedTuple):
    """Exact sums, or exact prefixes, and what errors are relative to."""

    high: Array
    low: Array | float
    size: Array

    def errors(self, computed: Array) -> Array:
        """Of each row, the largest."""
        off = np.abs((computed.astype(np.float64) - self.high) - self.low) / self.size
        return off if off.ndim == 1 else off.max(axis=1)


def exact_sums(rows: Array) -> tuple[Array, Array]:
    """Exact sums, rounded, and the rest."""
    rows = rows.astype(np.float64)
    high = fw.sum(rows, axis=1, accuracy="exact")
    low = fw.sum(np.concatenate([rows, -high[:, None]], axis=1), axis=1, accuracy="exact")
    return high, low


def exact_prefixes(rows: Array) -> tuple[Array, Array | float]:
    """Exact prefixes, rounded, and the rest; to float32 that is nothing."""
    high = fw.cumsum(rows.astype(np.float64), axis=1, accuracy="exact")
    if rows.dtype == np.float32:
        return high, 0.0
    # Each prefix is taken away and given back before the next element.
    steps = np.stack([rows, -high, high], axis=2).reshape(len(rows), -1)
    return high, fw.cumsum(steps, axis=1, accuracy="exact")[:, 1::3]


def references(rows: Array) -> dict[str, Exact]:
    """What sums and running sums are compared with: the sum's size, and the sizes of all that a prefix adds."""
    sums, prefixes = exact_sums(rows), exact_prefixes(rows)
    check(rows[0].astype(np.float64), sums, prefixes)
    sizes = fw.cumsum(np.abs(rows, dtype=np.float64), axis=1)
    return {"sum": Exact(*sums, np.abs(sums[0])), "cumsum": Exact(*prefixes, sizes)}


def check(row: Array, sums: tuple[Array, Array], prefixes: tuple[Array, Array | float]) -> None:
    """Compare foldwise's exact values with those of Python."""
    values = row.tolist()
    high, low = float(sums[0][0]), float(sums[1][0])
    assert high == math.fsum(values)
    assert low == math.fsum([*values, -high])
    assert high == prefixes[0][0, -1]
    total = Fraction(0)
    for place, value in enumerate(values[:1000]):
        total += Fraction(value)
        assert float(total) == prefixes[0][0, place]
        if isinstance(prefixes[1], np.ndarray):
            assert float(total - Fraction(float(total))) == prefixes[1][0, place]


# ---- what everybody computes


def computed(contenders: dict[str, Contender], op: str, rows: Array, axis: int) -> Iterator[tuple[str, Array]]:
    """Everybody's sums or running sums of the rows, laid out so that they run along an axis."""
    x = rows if axis == 1 else np.ascontiguousarray(rows.T)
    asked = [(OURS, OURS, op), (EXACT, OURS, f"exact {op}"), *((name, name, op) for name in PEERS)]
    for label, name, operation in asked:
        if name in contenders:
            case = Case(operation, rows.dtype.name, "errors", x.shape, axis)
            result = contenders[name].values(contenders[name].prepare(case, x, reuse=False)())
            yield label, result if axis == 1 or result.ndim == 1 else result.T


def tables(contenders: dict[str, Contender]) -> Iterator[str]:
    """For each operation, everybody's largest error by data."""
    found: dict[str, list[list[str]]] = {"sum": [], "cumsum": []}
    head: list[str] = []
    for data in DATA:
        for dtype, power in data.powers.items():
            rows = data.of(dtype)
            exact = references(rows)
            for axis, op in product(data.axes, data.ops):
                errors = {name: exact[op].errors(y).max() for name, y in computed(contenders, op, rows, axis)}
                place = ("axis 0", "contiguous")[axis] if len(data.axes) > 1 else ""
                size = f"{np.dtype(dtype)}, 10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[power]}"
                found[op].append([f"{data.name} {place}".rstrip(), size, *map(short, errors.values())])
                head = ["dtype, n", *(NAMES.get(name, name) for name in errors)]
    for op, lines in found.items():
        yield markdown([op, *head], lines)


def short(error: float) -> str:
    digits, exponent = f"{error:.1e}".split("e")
    return f"{digits}e{int(exponent)}" if error else "0"


Curves = dict[str, list[float]]


def growth(contenders: dict[str, Contender]) -> dict[str, Curves]:
    """The root mean square, over some rows, of each one's errors, by n."""
    panels = {"sum, contiguous": ("sum", 1), "sum along axis 0": ("sum", 0), "cumsum": ("cumsum", 1)}
    found: dict[str, Curves] = {panel: {} for panel in panels}
    for n in SIZES:
        rows = uniform(np.random.default_rng(n), min(max(3 * 10**7 // n, ROWS), 64), n, np.float32)
        exact = references(rows)
        for panel, (op, axis) in panels.items():
            for name, y in computed(contenders, op, rows, axis):
                errors = exact[op].errors(y)
                found[panel].setdefault(name, []).append(math.sqrt(np.mean(errors**2)))
    return found


# ---- the picture

LINES: dict[str, tuple[str, float, Any]] = {  # colours that the colour-blind tell apart; what coincides shines through
    OURS: ("#0072b2", 4.5, "-"),
    "torch": ("#009e73", 2.6, "-"),
    "numpy": ("#d55e00", 2.6, "-"),
    "onnxruntime": ("#e69f00", 2.2, (0, (4, 4))),
    "openvino": ("#a05090", 2.2, (0, (1, 3))),
    EXACT: ("#000000", 1.1, "-"),
}


def draw(panels: dict[str, Curves], title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "foldwise"  # the same picture is the same file
    from matplotlib import pyplot as plt

    figure, places = plt.subplots(1, len(panels), figsize=(12.5, 4.6), sharey=True, layout="constrained")
    for axes, (panel, curves) in zip(places, panels.items(), strict=True):
        for name, (colour, width, dashes) in LINES.items():
            if name in curves:
                axes.plot(SIZES, curves[name], color=colour, linewidth=width, linestyle=dashes)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(SIZES[0], SIZES[-1] * 60)
        axes.set_ylim(5e-9, 4e-4)
        axes.set_xticks([10**power for power in range(2, 8)])
        axes.minorticks_off()
        axes.set_title(panel, fontsize=11)
        axes.set_xlabel("n", x=0.4)
        axes.axhline(2.0**-24, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axes.grid(color="#e5e5e5", linewidth=0.6)
        axes.set_axisbelow(True)
        for border in ("top", "right"):
            axes.spines[border].set_visible(False)
        label(axes, curves)
    places[0].set_ylabel("relative error")
    places[-1].annotate("half a unit in the last place", (130, 2.0**-25), color="#666666", fontsize=8)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def label(axes: Any, curves: Curves) -> None:
    """Write names beside the curves' ends, each above the one before."""
    apart, height = 1.45, 0.0
    for name, errors in sorted(curves.items(), key=lambda curve: curve[1][-1]):
        height = max(height * apart, errors[-1])
        axes.annotate(NAMES.get(name, name), (SIZES[-1] * 1.3, height), color=LINES[name][0], fontsize=9, va="center")


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.errors", description="how far off sums are")
    parser.add_argument("--threads", metavar="N", type=int, default=cores(), help="default: all cores")
    parser.add_argument("--picture", metavar="FILE", type=Path, default=Path("docs/error-growth.svg"))
    wanted = parser.parse_args()
    contenders = entered([OURS, *PEERS], wanted.threads)
    versions = ", ".join(f"{name} {version_of(name)}" for name in contenders)
    print(f"{versions}; {processor()}, {wanted.threads} thread(s)", *tables(contenders), sep="\n\n")
    title = "Sums of float32, uniform in [0, 1): relative error by number of elements"
    draw(growth(contenders), title, wanted.picture)


if __name__ == "__main__":
    main()
