"""Where every entrance meets: a checked Reduce or Scan, and the only calls into the native core."""

import operator
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from . import _native, dtypes
from .dtypes import Dtype
from .errors import ArgumentError, AxisError, DtypeError, OptionError, OverflowedError, ShapeError
from .folds import FOLDS, Fold

Overflow = Literal["wrap", "saturate", "raise"]
Function = TypeVar("Function", bound=Callable[..., Any])
Array = NDArray[Any]

__version__: Final = _native.VERSION

_NUMPY: Final = tuple(
    np.dtype(ml_dtypes.bfloat16 if dtype.name == "bfloat16" else dtype.name) for dtype in dtypes.TABLE
)
_BY_NUMBER: Final[dict[int, Dtype]] = {numpy.num: dtype for numpy, dtype in zip(_NUMPY, dtypes.TABLE, strict=True)}
_COLUMN_CODES: Final = {name: code for code, name in enumerate(dtypes.COLUMNS)}
_FOLD_CODES: Final = {name: code for code, name in enumerate(_native.fold_names())}
ENTRANCES: Final = tuple((name, fold) for fold in FOLDS for name in (fold.name, fold.scan, fold.standard_scan))
"""The public functions by number: what each is called in its errors, and the fold behind it."""
_OVERFLOWS: Final = ("wrap", "saturate", "raise")
_NO_LIMITS: Final = (0, 0)


# ---- what is asked for, checked


@dataclass(frozen=True, slots=True)
class Reduce:
    """One fold over some axes: everything decided, nothing left to guess."""

    fold: Fold
    axes: tuple[int, ...]
    result: Dtype
    keepdims: bool = False
    initial: int | float | None = None
    overflow: Overflow = "wrap"

    def run(self, x: Array, out: Array | None = None, where: Array | None = None) -> Array:
        """Fold `x`. `out`, where given, has the result's shape and dtype; `where` has the shape of `x`."""
        kept = tuple(1 if a in self.axes else n for a, n in enumerate(x.shape))
        dropped = tuple(n for a, n in enumerate(x.shape) if a not in self.axes)
        shape = kept if self.keepdims else dropped
        target, final = _working_array(self.fold.name, shape, self.result, None, out, self.overflow)
        # Over no axis a sum copies its element, the sign of a zero included: it starts from what changes nothing.
        neutral = -0.0 if self.fold.identity == 0 and not self.axes and where is None else self.fold.identity
        initial = neutral if self.initial is None else self.initial
        if x.size == 0:
            target[...] = initial
        else:
            folded = sum(1 << a for a in self.axes)
            fold, column, limits = _judging(self.fold, _dtype_of(x), self.result, self.overflow)
            finish = (float(initial), int(initial) & _WORD if self.result.kind != "f" else 0, *limits)
            # Axes of length 1 may be added to a view freely, so the core sees arrays of one rank.
            ranked = target if self.keepdims else target.reshape(kept)
            fits = _native.run_reduce(
                fold, column, _dtype_of(x).code, self.result.code, x, where, folded, ranked, finish
            )
            _refuse_overflow(fits, self.fold.name, self.result, self.overflow)
        return _delivered(target, final)


@dataclass(frozen=True, slots=True)
class Scan:
    """One fold along an axis with its steps kept. Axis None walks every axis in C order, into one dimension."""

    name: str
    fold: Fold
    axis: int | None
    result: Dtype
    exclusive: bool = False
    reverse: bool = False
    include_initial: bool = False
    overflow: Overflow = "wrap"

    def shape_for(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result."""
        more = int(self.include_initial)
        if self.axis is None:
            return (int(np.prod(shape, dtype=np.int64)) + more,)
        return tuple(n + more if a == self.axis else n for a, n in enumerate(shape))

    def run(self, x: Array, out: Array | None = None) -> Array:
        """Scan `x`. `out`, where given, has the result's shape and dtype, and may be `x` itself."""
        in_place = out is not None and _same_memory(x, out)
        read_again = self.exclusive or self.include_initial or (self.result.kind == "f" and self.fold.identity != 0)
        target, final = _working_array(
            self.name, self.shape_for(x.shape), self.result, x, out, self.overflow, in_place and read_again
        )
        if target.size and x.size == 0:
            target[...] = self.fold.identity
        elif target.size:
            fold, column, limits = _judging(self.fold, _dtype_of(x), self.result, self.overflow)
            fits = _native.run_scan(
                fold,
                column,
                _dtype_of(x).code,
                self.result.code,
                x,
                -1 if self.axis is None else self.axis,
                target,
                self.reverse,
                self.exclusive or self.include_initial,
                (float(self.fold.identity), self.fold.identity, *limits),
            )
            _refuse_overflow(fits, self.name, self.result, self.overflow)
        return _delivered(target, final)


_WORD: Final = (1 << 64) - 1


def _judging(fold: Fold, source: Dtype, result: Dtype, overflow: Overflow) -> tuple[int, int, tuple[int, int]]:
    """The native fold and column, and the limits it judges by."""
    if result.kind == "f" or overflow == "wrap":
        column = dtypes.column_for(source, result)
        return _FOLD_CODES[fold.wrapping], _COLUMN_CODES[column], _NO_LIMITS
    column = dtypes.judged_column_for(source)
    return _FOLD_CODES[fold.judged], _COLUMN_CODES[column], _limits(result)


def _limits(dtype: Dtype) -> tuple[int, int]:
    bits = 8 * dtype.size
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)


def _refuse_overflow(fits: bool, name: str, result: Dtype, overflow: Overflow) -> None:
    if overflow == "raise" and not fits:
        low, high = _limits(result)
        raise OverflowedError(
            f"{name}: an exact result lies outside {result.name} ({low}..{high}); ask for a wider dtype=, "
            f'or for overflow="saturate" or "wrap"'
        )


def _working_array(
    name: str,
    shape: tuple[int, ...],
    result: Dtype,
    like: Array | None,
    out: Array | None,
    overflow: Overflow,
    detached: bool = False,
) -> tuple[Array, Array | None]:
    """The array to compute into, laid out in memory as `like` is, and where to copy it afterwards, if anywhere."""
    if out is not None and out.dtype.isnative and overflow != "raise" and not detached:
        return out, None
    try:
        return _native.empty(shape, result.code, like), out
    except (MemoryError, ValueError) as error:
        size = " x ".join(map(str, shape))
        raise MemoryError(f"{name}: no room for a {result.name} result of shape {size}") from error


def _delivered(target: Array, final: Array | None) -> Array:
    if final is None:
        return target
    final[...] = target
    return final


# ---- NumPy's habits, turned into a Reduce or Scan


def reduce_general(
    code: int,
    x: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: Any,
    initial: Any,
    where: Any,
    overflow: Any,
) -> Any:
    """What `reduce` does with anything but the plainest arguments: check them all, then run."""
    name, fold = ENTRANCES[code]
    array = as_array(name, x)
    source = _accepted(name, array)
    axes = normalised_axes(name, axis, array.ndim)
    result = chosen_dtype(name, source, dtype, overflow)
    flag = _flag(name, "keepdims", keepdims)
    start = _initial(name, initial, result, source, overflow)
    reduction = Reduce(fold, axes, result, flag, start, overflow)
    mask = None if where is None else _mask(name, where, array)
    if out is not None:
        shape = tuple(1 if a in axes else n for a, n in enumerate(array.shape) if flag or a not in axes)
        _check_out(name, out, shape, result)
        if _overlap(array, out) or (mask is not None and _overlap(mask, out)):
            raise OptionError(f"{name}: out shares memory with the input; give another array, or leave out= away")
    folded = reduction.run(array, out, mask)
    return folded if out is not None or folded.ndim else folded[()]


def scan_general(
    code: int,
    x: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    exclusive: Any,
    reverse: Any,
    include_initial: Any,
    overflow: Any,
) -> Any:
    """What `scan` does with anything but the plainest arguments: check them all, then run."""
    name, fold = ENTRANCES[code]
    array = as_array(name, x)
    source = _accepted(name, array)
    at = None if axis is None else _one_axis(name, "axis", axis, array.ndim)
    result = chosen_dtype(name, source, dtype, overflow)
    scan = Scan(
        name,
        fold,
        0 if at is None and array.ndim == 1 else at,
        result,
        _flag(name, "exclusive", exclusive),
        _flag(name, "reverse", reverse),
        _flag(name, "include_initial", include_initial),
        overflow,
    )
    if scan.exclusive and scan.include_initial:
        raise OptionError(
            f"{name}: exclusive=True and include_initial=True exclude each other: the first drops the last "
            f"element to begin with the identity, the second keeps it"
        )
    if out is not None:
        _check_out(name, out, scan.shape_for(array.shape), result)
        if _overlap(array, out) and not _same_memory(array, out):
            raise OptionError(
                f"{name}: out shares memory with the input without being the same array; give another array, "
                f"or leave out= away"
            )
    return scan.run(array, out)


def as_array(name: str, x: Any) -> Array:
    """Anything array-like as an array, without a copy where that can be."""
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentError(f"{name}: a masked array would lose its mask; pass x.data with where=~x.mask")
    if isinstance(x, np.ndarray):
        return x.view(np.ndarray)
    try:
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array_interface__") and not isinstance(x, np.generic):
            try:
                return np.from_dlpack(x)
            except (BufferError, RuntimeError, TypeError):
                pass  # a dtype or a device that DLPack does not carry to NumPy: __array__ may still
        return np.asarray(x)
    except Exception as error:
        raise ArgumentError(f"{name}: x of type {type(x).__name__} cannot be read as an array: {error}") from error


def _dtype_of(array: Array) -> Dtype:
    return _BY_NUMBER[_number(array.dtype)]


def _accepted(name: str, array: Array) -> Dtype:
    dtype = _BY_NUMBER.get(_number(array.dtype))
    if dtype is None:
        known = ", ".join(d.name for d in dtypes.TABLE)
        raise DtypeError(f"{name}: x has dtype {array.dtype}, shape {array.shape}; accepted are {known}")
    return dtype


def _number(dtype: "np.dtype[Any]") -> int:
    """NumPy has two numbers for an integer of one size on some platforms; the table knows one."""
    if dtype.kind in "iu":
        return np.dtype(f"{dtype.kind}{dtype.itemsize}").num
    return dtype.num


def normalised_axes(name: str, axis: Any, rank: int) -> tuple[int, ...]:
    """The axes to fold, in rising order."""
    if axis is None:
        return tuple(range(rank))
    if not isinstance(axis, tuple):
        return (_one_axis(name, "axis", axis, rank),)
    axes = [_one_axis(name, f"axis[{i}]", a, rank) for i, a in enumerate(axis)]
    for i, a in enumerate(axes):
        if a in axes[:i]:
            raise AxisError(
                f"{name}: axis {axis} names axis {a} twice, at positions {axes.index(a)} and {i}; name each axis once"
            )
    return tuple(sorted(axes))


def _one_axis(name: str, what: str, axis: Any, rank: int) -> int:
    try:
        if isinstance(axis, bool | np.bool_):
            raise TypeError
        index = operator.index(axis)
    except TypeError:
        raise ArgumentError(
            f"{name}: {what} = {axis!r} is of type {type(axis).__name__}; accepted are an int, a tuple of ints "
            f"(reductions only), or None"
        ) from None
    if -rank <= index < rank:
        return index % rank
    accepted = f"accepted: {-rank}..{rank - 1}" if rank else "a 0-d array has no axis; use axis=None"
    shown = f"axis {index}" if what == "axis" else f"{what} = {index}"
    raise AxisError(f"{name}: {shown} is out of range for rank {rank} ({accepted})")


def chosen_dtype(name: str, source: Dtype, dtype: Any, overflow: Any) -> Dtype:
    """The result's dtype: `dtype`, or what NumPy and the Array API make of the source's."""
    result = dtypes.accumulated(source) if dtype is None else _named_dtype(name, dtype)
    if source.kind == "f" and result.kind != "f":
        raise DtypeError(
            f"{name}: {source.name} cannot be folded into dtype={result.name} without choosing a rounding; "
            f"use x.astype({result.name}), or round the result"
        )
    if not isinstance(overflow, str) or overflow not in _OVERFLOWS:
        raise OptionError(f'{name}: overflow = {overflow!r}; accepted are "wrap", "saturate" and "raise"')
    if overflow != "wrap" and result.kind == "f":
        raise OptionError(
            f'{name}: overflow="{overflow}" is for integers; a {result.name} result overflows to infinity'
        )
    return result


def _named_dtype(name: str, dtype: Any) -> Dtype:
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        try:
            wanted = np.dtype(getattr(ml_dtypes, dtype)) if isinstance(dtype, str) else None
        except (AttributeError, TypeError):
            wanted = None
    found = _BY_NUMBER.get(_number(wanted)) if wanted is not None else None
    if found is None or found.kind == "b":
        known = ", ".join(d.name for d in dtypes.TABLE if d.kind != "b")
        raise DtypeError(f"{name}: dtype = {dtype!r} is no dtype of results; accepted are {known}")
    return found


def _flag(name: str, what: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ArgumentError(f"{name}: {what} = {value!r} is of type {type(value).__name__}; accepted are True and False")


def _initial(name: str, initial: Any, result: Dtype, source: Dtype, overflow: Overflow) -> int | float | None:
    if initial is None:
        return None
    try:
        if result.kind == "f" and not isinstance(initial, str | bytes):
            return float(initial)
        value = operator.index(initial)
    except OverflowError:
        raise OptionError(f"{name}: initial is too large for a {result.name} result; give one below 2**1024") from None
    except (TypeError, ValueError):
        kind = "number" if result.kind == "f" else "integer"
        raise ArgumentError(
            f"{name}: initial = {initial!r} is of type {type(initial).__name__}; "
            f"a {result.name} result takes one {kind}"
        ) from None
    low, high = _limits(result)
    if overflow != "wrap":
        low = max(low, -(1 << 63) if source.kind == "i" else 0)
        high = min(high, (1 << 63) - 1 if source.kind == "i" else high)
    if low <= value <= high:
        return value
    raise OptionError(f"{name}: initial = {value} does not fit {result.name} (accepted: {low}..{high})")


def _mask(name: str, where: Any, array: Array) -> Array:
    mask = np.asarray(where)
    if mask.dtype != np.bool_:
        raise DtypeError(f"{name}: where has dtype {mask.dtype}; it must be bool, as in where=x > 0")
    try:
        return np.broadcast_to(mask, array.shape)
    except ValueError:
        raise ShapeError(
            f"{name}: where of shape {mask.shape} does not broadcast to x of shape {array.shape}"
        ) from None


def _check_out(name: str, out: Any, shape: tuple[int, ...], result: Dtype) -> None:
    if not isinstance(out, np.ndarray):
        raise ArgumentError(f"{name}: out is of type {type(out).__name__}; it must be a NumPy array")
    if out.shape != shape:
        raise ShapeError(f"{name}: out has shape {out.shape}; this result has shape {shape}")
    if _BY_NUMBER.get(_number(out.dtype)) is not result:
        raise DtypeError(
            f"{name}: out has dtype {out.dtype}; this result is {result.name} (choose another with dtype=)"
        )
    if not out.flags.writeable:
        raise OptionError(f"{name}: out is read-only; give a writable array")


def _overlap(x: Array, out: Array) -> bool:
    if not np.may_share_memory(x, out):
        return False
    try:
        return np.shares_memory(x, out, max_work=10_000)  # type: ignore[arg-type]  # any number of steps is accepted
    except np.exceptions.TooHardError:
        return True


def _same_memory(x: Array, out: Array) -> bool:
    return (
        x.ctypes.data == out.ctypes.data and x.shape == out.shape and x.strides == out.strides and x.dtype == out.dtype
    )


# ---- threads, ISA, configuration


def set_num_threads(count: int) -> None:
    """Use at most `count` threads from now on, in this process. It changes no result."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise ArgumentError(f"set_num_threads: count = {count!r} is of type {type(count).__name__}; it must be an int")
    if not 1 <= count <= 1024:
        raise OptionError(f"set_num_threads: count = {count} is out of range (accepted: 1..1024)")
    _native.set_threads(int(count))


def get_num_threads() -> int:
    """How many threads foldwise may use. The default is the CPUs this process may run on."""
    return _native.threads()


def isa() -> str:
    """The instruction set the kernels run on."""
    return _native.isa()


def available_isas() -> list[str]:
    """The instruction sets this machine could run, the most capable last."""
    return _native.available_isas()


def _default_kept_memory() -> int:
    """An eighth of the machine's memory, and no more than 1 GiB."""
    return min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8, 1 << 30)


def _configure() -> None:
    """Tell the core what is declared in Python: dtypes, public functions, and the way of each through the table."""
    results = [dtypes.accumulated(dtype) for dtype in dtypes.TABLE]
    routes = tuple(
        (_COLUMN_CODES[dtypes.column_for(dtype, result)], result.code)
        for dtype, result in zip(dtypes.TABLE, results, strict=True)
    )
    entrances = tuple((_FOLD_CODES[fold.wrapping], float(fold.identity), routes) for _, fold in ENTRANCES)
    numbers = tuple(numpy.num for numpy in _NUMPY)
    _native.configure(numbers, entrances, reduce_general, scan_general, "wrap")

    isas = _native.available_isas()
    wanted = os.environ.get("FOLDWISE_ISA") or isas[-1]
    if wanted not in isas:
        raise OptionError(f"FOLDWISE_ISA={wanted}: this machine has {', '.join(isas)}; choose one, or unset it")
    _native.use_isa(wanted)

    keep = os.environ.get("FOLDWISE_KEEP_MEMORY")
    if keep and not (keep.isascii() and keep.isdigit()):
        raise OptionError(f"FOLDWISE_KEEP_MEMORY={keep}: accepted are whole numbers of bytes, 0 to keep none")
    _native.keep_memory(min(int(keep), 1 << 62) if keep else _default_kept_memory())

    threads = os.environ.get("FOLDWISE_NUM_THREADS")
    if threads:
        if not threads.isascii() or not threads.isdigit() or not 1 <= int(threads) <= 1024:
            raise OptionError(f"FOLDWISE_NUM_THREADS={threads}: accepted are whole numbers 1..1024")
        _native.set_threads(int(threads))


_configure()

reduce: Final[Callable[..., Any]] = _native.reduce
scan: Final[Callable[..., Any]] = _native.scan


def entrance(name: str) -> int:
    """The number by which `reduce` and `scan` know a public function."""
    return [known for known, _ in ENTRANCES].index(name)


def direct_reduction(function: Function) -> Function:
    """The function of that name in ENTRANCES without its Python frame: same signature, same documentation."""
    return _native.direct_reduce(function, entrance(function.__name__))


def direct_scan(function: Function) -> Function:
    """The same for a scan."""
    return _native.direct_scan(function, entrance(function.__name__))
