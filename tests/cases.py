"""THE table: folds x dtypes x domains x shapes x layouts x axes x options, and what each case must give.

A new fold is one row of FOLDS. Everything else here, and every test that walks the table, follows from it.
"""

from __future__ import annotations

import functools
import itertools
import math
import platform
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import domains
import exact
import numpy as np
import trees
from domains import Domain, Domains
from trees import Array

# ---- dtypes

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, *FLOATS)


def dtype_of(name: str) -> np.dtype[Any]:
    return trees.BFLOAT16 if name == "bfloat16" else np.dtype(name)


BY_DTYPE = {dtype_of(name): name for name in DTYPES}


# What a fold of a dtype comes in when nobody says.


def accumulated(name: str) -> str:
    if name in FLOATS:
        return name
    return "uint64" if name.startswith("u") else "int64"


def the_same(name: str) -> str:
    return name


def real(name: str) -> str:
    return name if name in FLOATS else "float64"


def truth(name: str) -> str:
    return "bool"


# ---- folds

Step = Callable[[Array], Any]
Exactly = Callable[[Array, str], exact.Exact]
Roundings = Callable[[int, np.dtype[Any]], int]
SHARE = 6


@dataclass(frozen=True, eq=False)
class Fold:
    name: str
    scan: bool
    tree: trees.Arithmetic  # its canonical bits
    exact: Exactly  # its exact values
    ufunc: np.ufunc  # what NumPy calls it
    roundings: Roundings  # how many one element meets at most
    domains: Domains
    result: Callable[[str], str] = accumulated  # the dtype of its results
    options: tuple[str, ...] = ("dtype", "overflow", "initial")  # those that not every fold has
    before: Step = trees.same  # what NumPy does to each element first
    after: Callable[[Array, Any], Array] = trees.as_it_is  # and to what it has made of so many
    whole: Callable[[int, int], int] | None = None  # the same of exact integers, into integers
    floating: Callable[[int, int], float] | None = None  # and into float64
    share: int = 1  # of the layouts, each shape has only one in so many

    def of(self, module: Any) -> Callable[..., Any]:
        """This fold's function in a module: foldwise, or numpy."""
        return getattr(module, self.name)  # type: ignore[no-any-return]

    @property
    def stays_whole(self) -> bool:
        """Whether integers come out as integers."""
        return self.result("int8") not in FLOATS

    @property
    def joins(self) -> bool:
        """Whether folding results of folds is folding: nothing is done before, nothing after."""
        return self.stays_whole and self.before is trees.same

    def result_of(self, x: Array) -> np.dtype[Any]:
        return dtype_of(self.result(BY_DTYPE[x.dtype.newbyteorder("=")]))

    def identity(self, result: np.dtype[Any]) -> Any:
        """What changes no result of that dtype, though perhaps the sign of a zero."""
        value = self.tree.identity
        if trees.is_float(result):
            return value
        if np.isfinite(value):
            return int(value)
        if result.kind == "b":
            return int(value > 0)
        return int(np.iinfo(result).max if value > 0 else np.iinfo(result).min)

    def of_nothing(self, result: np.dtype[Any]) -> Any:
        """The fold of no elements, into that dtype."""
        with np.errstate(all="ignore"):
            ended = self.after(np.asarray(self.identity(result)).astype(result), np.float64(0))
            return trees.rounded(np.asarray(ended), result)[()]

    def numpy(self, x: Any, axis: Any = None, dtype: Any = None, where: Any = True, initial: Any = None) -> Any:
        """By NumPy's functions and in NumPy's order."""
        x = np.asarray(x)
        result = np.dtype(dtype or self.result_of(x))
        with np.errstate(all="ignore"):
            values = np.asarray(self.before(x.astype(self.result_of(x)))).astype(result)
            if self.scan:
                return self.ufunc.accumulate(values.reshape(-1) if axis is None else values, axis or 0, dtype)
            first = self.identity(result) if initial is None else initial
            total = self.ufunc.reduce(values, axis, result, initial=first, where=where)
            return self.after(total, np.sum(np.broadcast_to(where, x.shape), axis))


def reduced_more(more: int) -> Roundings:
    """One rounding of each element before, or of the result after, and so on."""
    return lambda count, accumulator: trees.reduction_roundings(count, accumulator) + more


def each_product_rounds(count: int, accumulator: np.dtype[Any]) -> int:
    return count + 1  # the last one where the product leaves the normal range


def each_segment_rounds(count: int, accumulator: np.dtype[Any]) -> int:
    return trees.scan_roundings(count, accumulator) + count // trees.SEGMENT


def nothing_rounds(count: int, accumulator: np.dtype[Any]) -> int:
    return 0


def quotient(total: Array, count: Any) -> Array:
    return np.asarray(total / count)


def cut_quotient(total: int, count: int) -> int:
    """An error where there are no elements: there is no such mean."""
    return abs(total) // count * (1 if total > 0 else -1)


def exact_quotient(total: int, count: int) -> float:
    return total / count if count else math.nan


def root(total: Array, count: Any) -> Array:
    return np.sqrt(total)


def exact_root(total: int, count: int) -> int:
    return math.isqrt(total)


def logarithm(total: Array, count: Any) -> Array:
    return np.log(total)


# Kinds of rows.


def choice(name: str, scan: bool, tree: trees.Arithmetic, values: Exactly, ufunc: np.ufunc) -> Fold:
    options = () if scan else ("initial",)
    return Fold(name, scan, tree, values, ufunc, nothing_rounds, domains.CHOSEN, the_same, options, share=SHARE)


def question(name: str, tree: trees.Arithmetic, values: Exactly, ufunc: np.ufunc) -> Fold:
    return Fold(name, False, tree, values, ufunc, nothing_rounds, domains.TRUTHS, truth, (), share=SHARE)


def total(name: str, tree: trees.Arithmetic, values: Exactly, within: Domains, **more: Any) -> Fold:
    """A sum of something, of which something is made: that is at most three roundings more."""
    return Fold(
        name, False, tree, values, np.add, reduced_more(3), within, options=("dtype",), share=SHARE, **more
    )


def powers(name: str, scan: bool, roundings: Roundings) -> Fold:
    """Python's integers have no exponentials: trees.LOGSUMEXP stands for the exact values."""
    tree, within = trees.LOGSUMEXP, domains.POWERS
    return Fold(name, scan, tree, exact.sums, np.logaddexp, roundings, within, real, ("dtype",), share=SHARE)


REDUCED = trees.reduction_roundings
FOLDS = (
    Fold("sum", False, trees.SUM, exact.sums, np.add, REDUCED, domains.ADDENDS),
    Fold("prod", False, trees.PROD, exact.products, np.multiply, each_product_rounds, domains.FACTORS),
    Fold(
        "cumsum",
        True,
        trees.SUM,
        exact.sums,
        np.add,
        trees.scan_roundings,
        domains.ADDENDS,
        options=("dtype", "overflow"),
    ),
    Fold(
        "cumprod",
        True,
        trees.PROD,
        exact.products,
        np.multiply,
        each_product_rounds,
        domains.FACTORS,
        options=("dtype", "overflow"),
    ),
    choice("max", False, trees.MAX, exact.largest, np.maximum),
    choice("min", False, trees.MIN, exact.smallest, np.minimum),
    choice("cummax", True, trees.MAX, exact.largest, np.maximum),
    choice("cummin", True, trees.MIN, exact.smallest, np.minimum),
    question("all", trees.ALL, exact.all_true, np.logical_and),
    question("any", trees.ANY, exact.any_true, np.logical_or),
    total("l1", trees.L1, exact.magnitudes, domains.ADDENDS, before=np.abs),
    total("sumsquare", trees.SUMSQUARE, exact.squares, domains.SQUARED, before=np.square),
    total(
        "l2",
        trees.L2,
        exact.roots,
        domains.SQUARED,
        result=real,
        before=np.square,
        after=root,
        whole=exact_root,
    ),
    total(
        "mean",
        trees.MEAN,
        exact.means,
        domains.ADDENDS,
        result=real,
        after=quotient,
        whole=cut_quotient,
        floating=exact_quotient,
    ),
    total("logsum", trees.LOGSUM, exact.sums, domains.POWERS, result=real, after=logarithm),
    powers("logsumexp", False, REDUCED),
    powers("logcumsumexp", True, each_segment_rounds),
)
BY_NAME = {fold.name: fold for fold in FOLDS}
REDUCTIONS = tuple(fold for fold in FOLDS if not fold.scan)
SCANS = tuple(fold for fold in FOLDS if fold.scan)
PAIRS = tuple((fold, scan) for fold in REDUCTIONS for scan in SCANS if scan.tree is fold.tree and not fold.tree.slack)


# ---- shapes: around packs (8), lanes (32, 64), segments (1024) and blocks (1024, 2048)

SHAPES: tuple[tuple[int, ...], ...] = (
    *((n,) for n in (0, 1, 2, 7, 8, 9, 31, 33, 64, 65, 127, 1000, 1023, 1024, 1025, 2049, 2100)),
    *((), (0, 3), (3, 0), (1, 1), (4, 8), (8, 4), (1, 33), (33, 1), (5, 67), (67, 5), (17, 200), (200, 17)),
    *(
        (3, 1100),
        (1100, 3),
        (2, 3, 4),
        (3, 1, 5),
        (6, 7, 33),
        (65, 3, 9),
        (5, 0, 2),
        (2, 3, 4, 5),
        (7, 5, 6, 6),
    ),
    (1, 2, 1, 3, 1, 2),
)
LONG = ((9000,), (3, 4500), (4500, 3))  # several blocks; too long for the exact prefixes of a product
FEW_SHAPES = ((0,), (1,), (9,), (1025,), (5, 67), (67, 5), (2, 3, 4))


def subsets(rank: int) -> Iterator[tuple[int, ...]]:
    for count in range(rank + 1):
        yield from itertools.combinations(range(rank), count)


def axes_of(fold: Fold, rank: int) -> Iterator[Any]:
    """Every axis of a scan, every set of axes of a reduction; now and then counted from the end."""
    if fold.scan:
        yield from (axis - rank if axis % 2 else axis for axis in range(rank))
    else:
        yield from (tuple(axis - rank if len(axes) == 2 else axis for axis in axes) for axes in subsets(rank))


# ---- layouts: the same values, other memory


def every_one(step: int, a: Array) -> Any:
    """The index that takes steps along every axis."""
    return (..., *(slice(None, None, step),) * a.ndim)


def every(step: int, a: Array) -> Array:
    """A view of every step-th element of a larger array, whose other elements would spoil any result."""
    larger = np.full([abs(step) * n for n in a.shape], 99, a.dtype)
    view: Array = larger[every_one(step, a)]
    view[...] = a
    return view


def unaligned(a: Array) -> Array:
    moved = np.ndarray(a.shape, a.dtype, bytearray(a.nbytes + 1), offset=1)
    moved[...] = a
    return moved


def field(a: Array) -> Array:
    """Of records that are no multiple of an element long."""
    records = np.zeros(a.shape[:1], [("before", np.int8), ("elements", a.dtype, a.shape[1:])])
    records["elements"] = a
    elements: Array = records["elements"]
    return elements


def read_only(a: Array) -> Array:
    a = a.copy()
    a.flags.writeable = False
    return a


def rolled_axes(a: Array) -> Array:
    """Memory order is neither C nor Fortran: the last axis comes first."""
    return a if a.ndim == 0 else np.moveaxis(np.moveaxis(a, -1, 0).copy(), 0, -1)


def windows(a: Array) -> Array:
    """Overlapping windows: the same stride on every axis, other values than a's."""
    return np.lib.stride_tricks.as_strided(a.ravel(), a.shape, (a.itemsize,) * a.ndim, writeable=False)


def awkward(a: Array) -> Array:
    """Byte-swapped, unaligned, backwards, and not all of it."""
    larger = unaligned(np.full([2 * n for n in a.shape], 99, a.dtype.newbyteorder()))
    view: Array = larger[every_one(-2, a)]
    view[...] = a
    return view


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": lambda a: a,
    "Fortran": lambda a: a.copy(order="F"),
    "rolled axes": rolled_axes,
    "every second": lambda a: every(2, a),
    "backwards": lambda a: every(-1, a),
    "every second backwards": lambda a: every(-2, a),
    "first repeated": lambda a: np.broadcast_to(a[:1], a.shape) if a.ndim else a,
    "last repeated": lambda a: np.broadcast_to(a[..., :1], a.shape) if a.ndim else a,
    "windows": windows,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": unaligned,
    "field": field,
    "read-only": read_only,
    "awkward": awkward,
}
FEW_LAYOUTS = ("C", "awkward")

# ---- cases


@dataclass(frozen=True)
class Case:
    fold: Fold
    dtype: str
    domain: Domain
    shape: tuple[int, ...]
    layout: str
    axis: Any
    options: tuple[tuple[str, Any], ...] = ()  # where=True stands for a mask made from the shape

    def __str__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options)
        call = f"{self.fold.name}({self.dtype}{list(self.shape)}, axis={self.axis}{options})"
        return f"{call} of {self.domain.__name__}, {self.layout}"

    @property
    def x(self) -> Array:
        return laid_out(self.dtype, self.domain, self.shape, self.layout)

    @property
    def arguments(self) -> dict[str, Any]:
        arguments = dict(self.options)
        if "where" in arguments:
            arguments["where"] = mask(self.shape)
        if "dtype" in arguments:
            arguments["dtype"] = dtype_of(arguments["dtype"])
        return {"axis": self.axis, **arguments}

    @property
    def out(self) -> np.dtype[Any]:
        return dtype_of(dict(self.options).get("dtype", self.fold.result(self.dtype)))


@functools.lru_cache(maxsize=64)
def laid_out(dtype: str, domain: Domain, shape: tuple[int, ...], layout: str) -> Array:
    return LAYOUTS[layout](values(dtype, domain, shape))


@functools.lru_cache(maxsize=8)
def values(dtype: str, domain: Domain, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(zlib.crc32(f"{dtype} {domain.__name__} {shape}".encode()))
    return domain(rng, dtype_of(dtype), math.prod(shape)).reshape(shape)


def mask(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(len(shape)).random(shape) < 0.7


def domains_of(fold: Fold, dtype: str) -> tuple[Domain, ...]:
    return fold.domains["b" if dtype == "bool" else "f" if dtype in FLOATS else "i"]


def cases(fold: Fold, dtype: str) -> Iterator[Case]:
    """Everything the table holds for one fold and one dtype."""
    layouts = list(LAYOUTS)
    for first, domain in enumerate(domains_of(fold, dtype)):
        for turn, shape in enumerate(SHAPES if fold.scan else SHAPES + LONG, first):
            for layout in layouts[turn % fold.share :: fold.share]:
                for axis in axes_of(fold, len(shape)):
                    yield Case(fold, dtype, domain, shape, layout, axis)
        for shape, layout in itertools.product(FEW_SHAPES, FEW_LAYOUTS):
            for axis, options in itertools.product(axes_of(fold, len(shape)), options_of(fold, dtype)):
                yield Case(fold, dtype, domain, shape, layout, axis, options)


def allowed_results(fold: Fold, dtype: str) -> tuple[str, ...]:
    """What `dtype=` may ask for. Logarithms as integers: test_fold_laws.py."""
    if "dtype" not in fold.options:
        return ()
    return FLOATS if dtype in FLOATS or fold.tree.slack else INTEGERS + FLOATS


def options_of(fold: Fold, dtype: str) -> Iterator[tuple[tuple[str, Any], ...]]:
    for out in allowed_results(fold, dtype):
        yield (("dtype", out),)
        if out in INTEGERS and "overflow" in fold.options:
            yield (("dtype", out), ("overflow", "saturate"))
            yield (("dtype", out), ("overflow", "raise"))
    if fold.scan:
        yield (("exclusive", True),)
        yield (("reverse", True),)
        yield (("exclusive", True), ("reverse", True))
        yield (("include_initial", True),)
        yield (("include_initial", True), ("reverse", True))
    else:
        yield (("where", True),)
        yield (("keepdims", True),)
        if fold.whole and dtype not in FLOATS:
            yield (("where", True), ("dtype", "int16"))
        if "initial" in fold.options:
            initial = 1 if fold.result(dtype) == "bool" else 3
            yield (("initial", initial),)
            yield (("where", True), ("initial", initial))


def digest(result: Any) -> int:
    """A result's bits, dtype and shape in one number; -1 for a refusal."""
    if result is None:
        return -1
    return zlib.crc32(
        f"{result.dtype} {result.shape}".encode(), zlib.crc32(np.ascontiguousarray(result).tobytes())
    )


# ---- instruction sets of this machine


def machine_isas() -> tuple[str, ...]:
    if platform.machine() in ("aarch64", "arm64"):
        return ("neon",)
    flags = set(Path("/proc/cpuinfo").read_text().split())
    needs = {"sse2": {"sse2"}, "avx2": {"avx2", "fma", "f16c", "bmi1", "bmi2"}}
    needs["avx512"] = needs["avx2"] | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
    return tuple(isa for isa, need in needs.items() if need <= flags)


ISAS = machine_isas()
