"""What is measured: ONE table of cases, operations x dtypes x shapes x axes.

`LAYOUTS` says which arrays exist and over which axes they are folded, `OPERATIONS` what is done with them, and in
which dtypes; everything else is derived. Core cases are frozen, those of sum, prod and cumsum above all: figures of
two versions compare only if they stay.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from .operations import BY_NAME, DTYPES, FLOATS, OPERATIONS, Array, Axes, Operation

VIEWS: dict[str, Callable[[Array], Array]] = {
    "": lambda base: base,
    ".T": lambda base: base.T,
    "[::2]": lambda base: base[..., ::2],
}

# Below this the data may lie in a cache: 48 MiB is more than a common machine's last cache gives one process.
DRAM_BYTES = 48 * 2**20


@dataclass(frozen=True)
class Layout:
    """An array in memory, the view taken of it, and the axes folded."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[Axes, ...]
    view: str = ""
    quick: tuple[int, ...] | None = None  # its shape in a quick run; None: not part of one
    values: str = ""  # what it holds, if not what all hold: one of SPREADS


# fmt: off
LAYOUTS = (
    Layout("tiny",         (4, 8),            (1,),                   quick=(4, 8)),
    Layout("small",        (256, 512),        (1, 0, None),           quick=(256, 512)),
    Layout("flat",         (2**26,),          (0,),                   quick=(2**24,)),
    Layout("flat",         (2**26,),          (0,), "[::2]"),
    Layout("matrix",       (4096, 16384),     (0, 1),                 quick=(2048, 8192)),
    Layout("matrix",       (4096, 16384),     (0, 1), ".T",           quick=(2048, 8192)),
    Layout("matrix",       (4096, 16384),     (1,), "[::2]"),
    Layout("nchw",         (64, 128, 56, 56), ((2, 3), (0, 2, 3), 1), quick=(40, 128, 56, 56)),
    Layout("triples",      (40_000_000, 3),   (1, 0),                 quick=(5_000_000, 3)),
    Layout("long triples", (3, 40_000_000),   (0,)),
    Layout("triples 1M",   (1_000_000, 3),    (1, 0)),
    Layout("rows of 64",   (250_000, 64),     (1,)),
    Layout("rows of 200",  (80_000, 200),     (1,),                   quick=(80_000, 200)),
)
SHORT = ("int8", "uint8", "int16", "bool")  # of integers that are summed into 64 bits
BESIDE_ONLY = ("cumprod", "short cumsum")
EXACT = tuple(operation.name for operation in OPERATIONS if operation.exact)
WIDE = ("float32", "float64", "bfloat16")  # floats of more than 40 binades
BESIDE = (  # (layout, operations, dtypes) beside the frozen core
    (Layout("small",       (256, 512),        (1, 0)),     ("cumprod",), ("float32", "float64", "int64")),
    (Layout("flat",        (2**26,),          (0,)),       ("cumprod",), ("float32", "float64", "int64")),
    (Layout("small",       (256, 512),        (1, 0), quick=(256, 512)),     ("short cumsum",), ("int32",)),
    (Layout("flat",        (2**26,),          (0,), quick=(2**24,)),         ("short cumsum",), ("int32",)),
    (Layout("matrix",      (4096, 16384),     (0, 1), quick=(2048, 8192)),   ("short cumsum",), ("int32",)),
    (Layout("flat",        (2**26,),          (0,)),       ("sum",),     SHORT),
    (Layout("matrix",      (4096, 16384),     (0, 1)),     ("sum",),     SHORT),
    (Layout("pixels",      (400, 224, 224, 3), ((0, 1, 2),)), ("sum",),  ("uint8",)),
    (Layout("matrix",      (4096, 16384),     (1,)),       ("cumsum",),  ("int8", "uint8")),
    (Layout("rows of 8",   (2_000_000, 8),    (1,)),       ("sum",),     ("float32", "float64", "bfloat16")),
    (Layout("tiny",        (64,),             (0,), quick=(64,)),    EXACT, FLOATS),
    (Layout("flat in L2",  (2**16,),          (0,), quick=(2**16,)), EXACT, FLOATS),
    *(
        (Layout(name, shape, (0,), quick=quick, values=values), EXACT, dtypes)
        for name, shape, quick in (("flat", (2**26,), (2**24,)), ("flat in L2", (2**16,), (2**16,)))
        for values, dtypes in (("normal", FLOATS), ("40 binades", FLOATS), ("full range", WIDE))
    ),
)
# fmt: on
QUICK_DTYPES = {  # otherwise float32 and bfloat16
    "flat": DTYPES,
    "tiny": ("float32", "int64", "bfloat16"),
    "small": ("float32", "int64", "bfloat16"),
}


@dataclass(frozen=True)
class Case:
    """One thing to do: an operation over one axis, or several, of one array."""

    op: str
    dtype: str
    layout: str
    shape: tuple[int, ...]  # of the array in memory, before the view
    axis: Axes
    view: str = ""
    flipped: bool = False  # scans: exclusive=True and reverse=True
    core: bool = True  # one of LAYOUTS, not beside them
    values: str = ""  # as of its layout

    @property
    def operation(self) -> Operation:
        return BY_NAME[self.op]

    @property
    def family(self) -> str:
        return self.operation.family

    @property
    def job(self) -> str:
        return self.op + (" excl+rev" if self.flipped else "")

    @property
    def place(self) -> str:
        axis = "all" if self.axis is None else str(self.axis).replace(" ", "")
        return f"{'x'.join(map(str, self.shape))}{self.view} axis={axis} {self.values}".rstrip()

    @property
    def name(self) -> str:
        return f"{self.job} {self.dtype} {self.place}"

    @property
    def is_scan(self) -> bool:
        return self.operation.scan

    @property
    def viewed(self) -> tuple[int, ...]:
        """The shape that is folded, after the view."""
        return VIEWS[self.view](np.broadcast_to(np.empty((), np.uint8), self.shape)).shape

    @property
    def axes(self) -> tuple[int, ...]:
        """The folded axes, spelt out."""
        if self.axis is None and self.operation.one_axis:
            return (0,)  # of all elements in one row
        if self.axis is None:
            return tuple(range(len(self.viewed)))
        return (self.axis,) if isinstance(self.axis, int) else self.axis

    @property
    def base_bytes(self) -> int:
        """What has to come from memory: every second element lies on as many cache lines as all of them."""
        return prod(self.shape) * dtype_of(self.dtype).itemsize

    @property
    def input_bytes(self) -> int:
        """What is folded: the bytes in GB/s."""
        return prod(self.viewed) * dtype_of(self.dtype).itemsize

    @property
    def output_bytes(self) -> int:
        """What a scan writes."""
        wide = self.operation.widens and not is_float(self.dtype)
        return prod(self.viewed) * (8 if wide else dtype_of(self.dtype).itemsize)

    @property
    def from_dram(self) -> bool:
        return self.base_bytes >= DRAM_BYTES

    @property
    def filling(self) -> str:
        """What the array holds: it may have to, lest somebody stop early or take the logarithm of a negative number."""
        return {"any": "zeros", "logsum": "magnitudes"}.get(self.op, self.values)

    def view_of(self, base: Array) -> Array:
        return VIEWS[self.view](base)


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def is_float(name: str) -> bool:
    return "float" in name


def cases(families: Collection[str], *, quick: bool = False) -> list[Case]:
    """Build every case of some families, those that share an array side by side."""
    wanted = [operation for operation in OPERATIONS if operation.family in families]
    found = list((quick_cases if quick else full_cases)(wanted))
    shapes = list(dict.fromkeys(case.shape for case in found))
    return sorted(found, key=lambda case: (not case.core, shapes.index(case.shape), rank_of(case.dtype), case.filling))


def rank_of(dtype: str) -> tuple[int, str]:
    return (DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES), dtype)


def full_cases(wanted: list[Operation]) -> Iterator[Case]:
    for layout in LAYOUTS:
        for operation in within_layouts(wanted):
            for dtype in operation.dtypes:
                yield from cases_of(layout, layout.shape, dtype, operation)
    yield from cases_beside(wanted, quick=False)


def quick_cases(wanted: list[Operation]) -> Iterator[Case]:
    """Build the small ones, and of the large ones the layouts that are marked, those of LAYOUTS in fewer dtypes."""
    for layout in LAYOUTS:
        for operation in within_layouts(wanted) if layout.quick else ():
            for dtype in quick_dtypes(operation, layout):
                found = cases_of(layout, layout.quick or layout.shape, dtype, operation)
                yield from (case for case in found if not case.flipped or layout.name == "flat")
    yield from cases_beside(wanted, quick=True)


def cases_beside(wanted: list[Operation], *, quick: bool) -> Iterator[Case]:
    for layout, ops, dtypes in BESIDE:
        shape = layout.quick if quick else layout.shape
        for operation in wanted if shape else ():
            for dtype in dtypes if operation.name in ops else ():
                yield from cases_of(layout, shape or layout.shape, dtype, operation, core=False)


def within_layouts(wanted: list[Operation]) -> list[Operation]:
    return [operation for operation in wanted if operation.name not in BESIDE_ONLY]


def quick_dtypes(operation: Operation, layout: Layout) -> Iterable[str]:
    """Choose fewer dtypes, of bools and whatever they come from all."""
    few = QUICK_DTYPES.get(layout.name, ("float32", "bfloat16"))
    return operation.dtypes if operation.truth else [dtype for dtype in few if dtype in operation.dtypes]


def cases_of(
    layout: Layout, shape: tuple[int, ...], dtype: str, operation: Operation, *, core: bool = True
) -> Iterator[Case]:
    for axis in layout.axes:
        if operation.one_axis and isinstance(axis, tuple):
            continue  # a scan runs along one axis, or along all of them flattened
        for flipped in (False, True) if operation.both_ways else (False,):
            yield Case(operation.name, dtype, layout.name, shape, axis, layout.view, flipped, core, layout.values)


def sharing_data(found: Iterable[Case]) -> Iterator[tuple[Array, list[Case]]]:
    """Yield each array once, with the cases that fold it; one array at a time is alive."""
    for (shape, dtype, filling), group in groupby(found, key=lambda c: (c.shape, c.dtype, c.filling)):
        yield data(shape, dtype, filling), list(group)


def data(shape: tuple[int, ...], dtype: str, filling: str = "") -> Array:
    """Repeat a short period, or the same number all along."""
    if filling == "zeros":
        return np.full(shape, 0, dtype_of(dtype))  # written: untouched pages are all one page of zeros
    numbers = np.random.default_rng(2)
    if filling in SPREADS:
        limits = ml_dtypes.finfo(dtype_of(dtype))  # type: ignore[no-untyped-call]
        elements = in_twos(SPREADS[filling](numbers, 2**15, limits))
    else:
        elements = in_fours(numbers, dtype)
        elements = abs(elements) if filling == "magnitudes" else elements
    period = numbers.permutation(elements).astype(dtype_of(dtype))
    array = np.resize(np.tile(period, 2**20 // period.size), prod(shape))  # tiled first: few large copies
    return array.reshape(shape)


def in_fours(numbers: np.random.Generator, dtype: str) -> Array:
    """Choose elements so that neither sums nor products leave the normal numbers, however they are computed.

    They come in fours, v, 1/v, -v, -1/v: their sum and their product are 1, and because their number is prime, a
    walk with any stride meets all of them. So running sums and products keep coming back, and no contender is slowed
    by subnormals or gains from an early infinity. Bools are all true.
    """
    if is_float(dtype):
        # 1/v must be exact where digits are few, or the product of a period would not be one.
        few = "float16" in dtype
        v = 2.0 ** (numbers.random(504) < 1 / 64) if few else numbers.uniform(0.9, 1.1, 504)
        return np.concatenate([v, 1 / v, -v, -1 / v, [1.0]])
    v = numbers.choice([1, 3, 5, 7], 504)
    fours = np.concatenate([v, -v, v, -v, [1]])
    return fours if dtype_of(dtype).kind == "i" else abs(fours)


def in_twos(v: Array) -> Array:
    """Sums alone come back. Again a prime number of elements, so many that no processor learns their sizes by heart."""
    return np.concatenate([v, -v, [1.0]])


def over_binades(numbers: np.random.Generator, count: int, low: int, high: int) -> Array:
    return np.ldexp(numbers.uniform(1, 1.9, count), numbers.integers(low, high, count))  # 1.9 is not rounded to 2


def over_full_range(numbers: np.random.Generator, count: int, limits: Any) -> Array:
    """All exponents but the 12 highest, which are left to running sums."""
    return over_binades(numbers, count, limits.minexp - limits.nmant, limits.maxexp - 12)


SPREADS: dict[str, Callable[[np.random.Generator, int, Any], Array]] = {
    "normal": lambda numbers, count, limits: numbers.standard_normal(count),
    "40 binades": lambda numbers, count, limits: over_binades(numbers, count, -24, 16),  # all that float16 has
    "full range": over_full_range,
}
