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

import exact
import numpy as np
import trees
from trees import Array, limits_of

Generator = np.random.Generator
Domain = Callable[[Generator, np.dtype[Any], int], Array]

# ---- dtypes

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, *FLOATS)


def dtype_of(name: str) -> np.dtype[Any]:
    return trees.BFLOAT16 if name == "bfloat16" else np.dtype(name)


BY_DTYPE = {dtype_of(name): name for name in DTYPES}


def result_dtype(name: str) -> str:
    """What a sum or product comes in when nobody says."""
    if name in FLOATS:
        return name
    return "uint64" if name.startswith("u") else "int64"


def allowed_results(name: str) -> tuple[str, ...]:
    """What `dtype=` may ask for."""
    return FLOATS if name in FLOATS else INTEGERS + FLOATS


# ---- domains: values worth folding, per kind of dtype


def any_bits(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return np.array(np.frombuffer(rng.bytes(count * dtype.itemsize), dtype))


def odd_bits(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Products of these do not soon become zero modulo 2**n."""
    return np.asarray(any_bits(rng, dtype, count) | dtype.type(1))


def small(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return rng.integers(-3 if dtype.kind == "i" else 0, 3, count, endpoint=True).astype(dtype)


def truths(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return rng.integers(0, 2, count).astype(dtype)


def normal(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return rng.standard_normal(count).astype(dtype)


def wide(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    binades = 6 if dtype == np.float16 else 20
    return (rng.standard_normal(count) * 2.0 ** rng.uniform(-binades, binades, count)).astype(dtype)


def subnormal(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    digits = limits_of(dtype).nmant
    smallest = float(limits_of(dtype).smallest_subnormal)
    return (rng.integers(-(2**digits), 2**digits, count) * smallest).astype(dtype)


def near_one(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return (rng.choice([-1, 1], count) * (1 + rng.standard_normal(count) / 16)).astype(dtype)


def there_and_back(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Exponents over the whole range, the second half undoing the first: partial products leave the range."""
    limits = limits_of(dtype)
    half = rng.uniform(limits.minexp - limits.nmant + 1, limits.maxexp - 1, count // 2)
    exponents = np.concatenate([half, np.zeros(count % 2), -half[::-1]])
    return np.asarray(2.0 ** np.clip(exponents, limits.minexp - limits.nmant, limits.maxexp - 1)).astype(
        dtype
    )


def special(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    """Signed ones, few enough for exact results, and rarely a zero, an infinity or a NaN of either sign."""
    values = rng.choice([-1.0, 1.0], count)
    rare = rng.random(count) < 0.05
    odd_ones = np.array([0.0, -0.0, np.inf, np.inf, -np.inf, np.nan, np.copysign(np.nan, -1)])
    return np.where(rare, rng.choice(odd_ones, count), values).astype(dtype)


def negative_zeros(rng: Generator, dtype: np.dtype[Any], count: int) -> Array:
    return np.where(rng.random(count) < 0.01, 0.0, -0.0).astype(dtype)


Domains = dict[str, tuple[Domain, ...]]

ADDENDS: Domains = {
    "b": (truths,),
    "i": (any_bits, small),
    "f": (normal, wide, subnormal, special, negative_zeros),
}
FACTORS: Domains = {
    "b": (truths,),
    "i": (odd_bits, small),
    "f": (near_one, there_and_back, special, negative_zeros),
}
BEYOND_ARITHMETIC = (special, negative_zeros)  # NumPy's own float64 is their reference

# ---- folds


@dataclass(frozen=True, eq=False)
class Fold:
    name: str
    scan: bool
    tree: trees.Arithmetic  # its canonical bits
    exact: Callable[[Array, str], exact.Exact]  # its exact values
    ufunc: np.ufunc  # what NumPy calls it
    roundings: Callable[[int, np.dtype[Any]], int]  # how many one element meets at most
    domains: Domains

    def of(self, module: Any) -> Callable[..., Any]:
        """This fold's function in a module: foldwise, or numpy."""
        return getattr(module, self.name)  # type: ignore[no-any-return]


def each_product_rounds(count: int, accumulator: np.dtype[Any]) -> int:
    return count + 1  # the last one where the product leaves the normal range


FOLDS = (
    Fold("sum", False, trees.SUM, exact.sums, np.add, trees.reduction_roundings, ADDENDS),
    Fold("prod", False, trees.PROD, exact.products, np.multiply, each_product_rounds, FACTORS),
    Fold("cumsum", True, trees.SUM, exact.sums, np.add, trees.scan_roundings, ADDENDS),
    Fold("cumprod", True, trees.PROD, exact.products, np.multiply, each_product_rounds, FACTORS),
)
BY_NAME = {fold.name: fold for fold in FOLDS}
REDUCTIONS = tuple(fold for fold in FOLDS if not fold.scan)
SCANS = tuple(fold for fold in FOLDS if fold.scan)
PAIRS = tuple((fold, scan) for fold in REDUCTIONS for scan in SCANS if scan.tree is fold.tree)

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
        return dtype_of(dict(self.options).get("dtype", result_dtype(self.dtype)))


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
    for domain in domains_of(fold, dtype):
        for shape in SHAPES if fold.scan else SHAPES + LONG:
            for layout in LAYOUTS:
                for axis in axes_of(fold, len(shape)):
                    yield Case(fold, dtype, domain, shape, layout, axis)
        for shape, layout in itertools.product(FEW_SHAPES, FEW_LAYOUTS):
            for axis, options in itertools.product(axes_of(fold, len(shape)), options_of(fold, dtype)):
                yield Case(fold, dtype, domain, shape, layout, axis, options)


def options_of(fold: Fold, dtype: str) -> Iterator[tuple[tuple[str, Any], ...]]:
    for out in allowed_results(dtype):
        yield (("dtype", out),)
        if out in INTEGERS:
            yield (("dtype", out), ("overflow", "saturate"))
            yield (("dtype", out), ("overflow", "raise"))
    if fold.scan:
        yield (("exclusive", True),)
        yield (("reverse", True),)
        yield (("exclusive", True), ("reverse", True))
        yield (("include_initial", True),)
        yield (("include_initial", True), ("reverse", True))
    else:
        yield (("initial", 3),)
        yield (("where", True),)
        yield (("where", True), ("initial", 3))
        yield (("keepdims", True),)


# ---- references


def expected(case: Case) -> Array | None:
    """The one right answer, bit for bit; None where the call must be refused."""
    options = {name: value for name, value in case.arguments.items() if name not in ("axis", "dtype")}
    keepdims, overflow = options.pop("keepdims", False), options.pop("overflow", "wrap")
    if not trees.is_float(case.out):
        result = integers(case, overflow != "wrap", **options)
        if overflow == "raise" and not exact.fits(result, case.out):
            return None
        result = exact.clamped(result, case.out) if overflow == "saturate" else result.astype(case.out)
    elif case.fold.scan:
        result = trees.scanned(case.fold.tree, case.x, case.axis, case.out, **options)
    elif case.axis or options:
        result = trees.reduced(case.fold.tree, case.x, case.axis, case.out, **options)
    else:  # no axis, no fold: -0.0 stays
        result = trees.rounded(case.x.astype(trees.reduced_in(case.x.dtype, case.out)), case.out)
    return np.expand_dims(result, case.axis) if keepdims else result


def integers(case: Case, judged: bool, initial: int = 0, where: Any = True, **options: bool) -> Array:
    """Python's integers where the exact value is judged, NumPy's 64 bits where it wraps."""
    fold, identity = case.fold, int(case.fold.tree.identity)
    wide = object if judged else dtype_of(result_dtype(case.dtype))
    if fold.scan:
        return trees.arranged(
            lambda line: fold.ufunc.accumulate(line, 0, wide), identity, case.x, case.axis, **options
        )
    x = np.where(where, case.x.astype(wide), identity).astype(wide)
    return np.asarray(fold.ufunc.reduce(x, case.axis, wide, initial=initial or identity))


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
