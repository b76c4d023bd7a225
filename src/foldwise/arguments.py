"""What callers pass, checked: arrays, axes, dtypes, masks and places for results."""

import itertools
import math
import operator
from collections.abc import Iterable
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from . import dtypes
from .dtypes import Dtype
from .errors import ArgumentError, AxisError, DtypeError, OptionError, ShapeError
from .folds import Fold

Array = NDArray[Any]
Overflow = Literal["wrap", "saturate", "raise"]
Accuracy = Literal["default", "exact"]

OVERFLOWS: Final = ("wrap", "saturate", "raise")
NUMPY: Final = tuple(
    np.dtype(ml_dtypes.bfloat16 if dtype.name == "bfloat16" else dtype.name) for dtype in dtypes.TABLE
)
"""NumPy's dtypes, in the order of the table."""
_BY_NUMBER: Final[dict[int, Dtype]] = {numpy.num: dtype for numpy, dtype in zip(NUMPY, dtypes.TABLE, strict=True)}


def as_array(name: str, x: Any, what: str = "x") -> Array:
    """Anything array-like as an array, without a copy where that can be."""
    if isinstance(x, np.ndarray):
        array: Array = x
    else:
        try:
            array = _read(x)
        except Exception as error:
            raise ArgumentError(
                f"{name}: {what} of type {type(x).__name__} cannot be read as an array: {error}"
            ) from error
    if isinstance(array, np.ma.MaskedArray) or (isinstance(x, list | tuple) and _holds_masks(x, array.ndim)):
        given, m = ("", what) if array is x else (f" m from {what} of type {type(x).__name__}", "m")
        way_out = f"pass {m}.data with where=~{m}.mask" if what == "x" else f"pass {m}.filled(False)"
        raise ArgumentError(f"{name}: a masked array{given} would lose its mask; {way_out}")
    return array.view(np.ndarray)


def _read(x: Any) -> Array:
    """What is no array of NumPy's as one, by the first protocol that gives one."""
    refused: Exception | None = None
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array_interface__") and not isinstance(x, np.generic):
        try:
            return np.from_dlpack(x)
        except Exception as error:  # a dtype or a device that DLPack does not carry to NumPy: __array__ may still
            refused = error
    array: Array = np.asanyarray(x)
    if refused is not None and array.dtype == object:  # NumPy knows no other way in, and holds the thing itself
        raise refused
    return array


def _holds_masks(listed: Iterable[Any], depth: int) -> bool:
    """Whether lists of lists hold masked arrays, which NumPy reads without their masks."""
    for _ in range(depth):
        level = list(listed)
        if any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, level))):
            return True
        listed = itertools.chain.from_iterable(each for each in level if isinstance(each, list | tuple))
    return False


def dtype_of(array: Array) -> Dtype:
    return _BY_NUMBER[number_of(array.dtype)]


def accepted(name: str, array: Array) -> Dtype:
    dtype = _BY_NUMBER.get(number_of(array.dtype))
    if dtype is None:
        known = ", ".join(d.name for d in dtypes.TABLE)
        raise DtypeError(f"{name}: x has dtype {array.dtype}, shape {array.shape}; accepted are {known}")
    return dtype


def number_of(dtype: "np.dtype[Any]") -> int:
    """NumPy has two numbers for an integer of one size on some platforms; the table knows one."""
    if dtype.kind in "iu":
        return np.dtype(f"{dtype.kind}{dtype.itemsize}").num
    return dtype.num


def normalised_axes(name: str, axis: Any, rank: int) -> tuple[int, ...]:
    """The axes to fold, in rising order."""
    if axis is None:
        return tuple(range(rank))
    if not isinstance(axis, tuple):
        return (one_axis(name, "axis", axis, rank),)
    axes = [one_axis(name, f"axis[{i}]", a, rank) for i, a in enumerate(axis)]
    for i, a in enumerate(axes):
        if a in axes[:i]:
            raise AxisError(
                f"{name}: axis {axis} names axis {a} twice, at positions {axes.index(a)} and {i}; name each axis once"
            )
    return tuple(sorted(axes))


def one_axis(name: str, what: str, axis: Any, rank: int) -> int:
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


def folded_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes)


def chosen_dtype(name: str, fold: Fold, source: Dtype, dtype: Any, overflow: Any) -> Dtype:
    """The result's dtype: `dtype`, or what NumPy and the Array API make of the source's."""
    result = fold.result(source) if dtype is None else named_dtype(name, dtype)
    if source.kind == "f" and result.kind in "iu":
        raise DtypeError(
            f"{name}: {source.name} cannot be folded into dtype={result.name} without choosing a rounding; "
            f"use x.astype({result.name}), or round the result"
        )
    if not isinstance(overflow, str) or overflow not in OVERFLOWS:
        raise OptionError(f'{name}: overflow = {overflow!r}; accepted are "wrap", "saturate" and "raise"')
    if overflow != "wrap" and result.kind == "f":
        raise OptionError(
            f'{name}: overflow="{overflow}" is for integers; a {result.name} result overflows to infinity'
        )
    return result


def chosen_accuracy(name: str, accuracy: Any) -> Accuracy:
    if isinstance(accuracy, str):
        if accuracy == "default":
            return "default"
        if accuracy == "exact":
            return "exact"
    shown = f"= {accuracy!r}" if isinstance(accuracy, str) else f"is of type {type(accuracy).__name__}"
    raise OptionError(f'{name}: accuracy {shown}; accepted are "default" and "exact"')


def named_dtype(name: str, dtype: Any) -> Dtype:
    found = _found_dtype(dtype)
    if found is None or found.kind == "b":
        known = ", ".join(d.name for d in dtypes.TABLE if d.kind != "b")
        raise DtypeError(f"{name}: dtype = {dtype!r} is no dtype of results; accepted are {known}")
    return found


def elements_dtype(name: str, dtype: Any) -> Dtype:
    """The dtype of elements that are still to come."""
    found = None if dtype is None else _found_dtype(dtype)
    if found is None:
        known = ", ".join(d.name for d in dtypes.TABLE)
        raise DtypeError(f"{name}: dtype = {dtype!r} is no dtype of elements; accepted are {known}")
    return found


def _found_dtype(dtype: Any) -> Dtype | None:
    try:
        wanted = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # NumPy has Python read a text of numbers and commas
        try:
            wanted = np.dtype(getattr(ml_dtypes, dtype)) if isinstance(dtype, str) else None
        except (AttributeError, TypeError):
            wanted = None
    return _BY_NUMBER.get(number_of(wanted)) if wanted is not None else None


def lengths(name: str, what: str, given: Any) -> tuple[int, ...]:
    """How long axes are: one, or several."""
    try:
        return tuple(map(operator.index, given if isinstance(given, Iterable) else (given,)))
    except TypeError:
        raise ArgumentError(f"{name}: {what} = {given!r}; accepted are an int and a tuple of ints") from None


def flag(name: str, what: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ArgumentError(f"{name}: {what} = {value!r} is of type {type(value).__name__}; accepted are True and False")


def initial_value(name: str, initial: Any, result: Dtype, source: Dtype, overflow: Overflow) -> int | float | None:
    if initial is None:
        return None
    try:
        if not _may_be_real(initial):
            raise TypeError
        if result.kind == "f":
            real = float(initial)
            return _as_whole(initial, real) if real == real else math.nan  # the one NaN
        value = operator.index(initial)
    except OverflowError:
        raise OptionError(f"{name}: initial is too large for a {result.name} result; give one below 2**1024") from None
    except (TypeError, ValueError):
        kind = "number" if result.kind == "f" else "integer"
        raise ArgumentError(
            f"{name}: initial = {' '.join(repr(initial).split())} is of type {type(initial).__name__}; "
            f"a {result.name} result takes one {kind}"
        ) from None
    lowest, highest = low, high = dtypes.limits(result)
    if overflow != "wrap":
        low = max(low, 0 if source.name == "uint64" else -(1 << 63))
        high = min(high, (1 << 63) - 1 if source.kind == "i" else high)
    if low <= value <= high:
        return value
    judged = f'does not go with {source.name} elements and overflow="{overflow}"'
    why = judged if lowest <= value <= highest else f"does not fit {result.name}"
    raise OptionError(f"{name}: initial = {value} {why} (accepted: {low}..{high})")


def _as_whole(number: Any, real: float) -> int | float:
    """An integer that no float64 is stays itself: exact sums take all of it."""
    try:
        whole = operator.index(number)
    except TypeError:
        return real
    return real if whole == real else whole


def _may_be_real(value: Any) -> bool:
    """Whether Python's conversions of it can be trusted: they read text, drop masks and imaginary parts."""
    if isinstance(value, np.ndarray | np.generic):
        known = value.dtype.kind in "biuf" or value.dtype.num in _BY_NUMBER
        return known and value.ndim == 0 and not isinstance(value, np.ma.MaskedArray)
    return hasattr(value, "__float__") or hasattr(value, "__index__")


def mask_for(name: str, where: Any, array: Array) -> Array:
    mask = as_array(name, where, "where")
    if mask.dtype != np.bool_:
        raise DtypeError(f"{name}: where has dtype {mask.dtype}; it must be bool, as in where=x > 0")
    try:
        return np.broadcast_to(mask, array.shape)
    except ValueError:
        raise ShapeError(
            f"{name}: where of shape {mask.shape} does not broadcast to x of shape {array.shape}"
        ) from None


def check_out(name: str, out: Any, shape: tuple[int, ...], result: Dtype, fold: Fold) -> None:
    if not isinstance(out, np.ndarray):
        raise ArgumentError(f"{name}: out is of type {type(out).__name__}; it must be a NumPy array")
    if out.shape != shape:
        raise ShapeError(f"{name}: out has shape {out.shape}; this result has shape {shape}")
    if _BY_NUMBER.get(number_of(out.dtype)) is not result:
        choice = " (choose another with dtype=)" if fold.result in (dtypes.accumulated, dtypes.real) else ""
        raise DtypeError(f"{name}: out has dtype {out.dtype}; this result is {result.name}{choice}")
    if not out.flags.writeable:
        raise OptionError(f"{name}: out is read-only; give a writable array")


def overlap(x: Array, out: Array) -> bool:
    if not np.may_share_memory(x, out):
        return False
    try:
        return np.shares_memory(x, out, max_work=10_000)  # type: ignore[arg-type]  # any number of steps is accepted
    except np.exceptions.TooHardError:
        return True


def same_memory(x: Array, out: Array) -> bool:
    return (
        x.ctypes.data == out.ctypes.data and x.shape == out.shape and x.strides == out.strides and x.dtype == out.dtype
    )
