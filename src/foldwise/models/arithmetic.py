"""Arithmetic of elements, casts and matrix products, as thin calls to NumPy."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from foldwise import dtypes
from foldwise.arrays import logsum
from foldwise.errors import ArgumentError, DtypeError, OverflowedError, ShapeError

from .graph import Array, Node, bytes_of
from .limits import Limits

Run = Callable[..., Any]
"""What a node does with its inputs."""
Maker = Callable[[Node, Limits], Run | None]
"""Makes what runs a node; None for a form of it that is not known here."""


def always(function: Run) -> Maker:
    """A node that nothing changes what it does."""
    return lambda node, limits: function


# ---- element by element


def elementwise(function: Callable[..., Any], same: bool = True) -> Maker:
    """A function of elements, over inputs that broadcast; `same` where they must be of one dtype."""

    def make(node: Node, limits: Limits) -> Run | None:
        if node.constant("auto_broadcast", "numpy") not in ("numpy", "none"):
            return None

        taken = function.nin if isinstance(function, np.ufunc) else None
        alike = node.constant("auto_broadcast") == "none"
        fitting: set[Any] = set()

        def run(*inputs: Array) -> Any:
            kinds = tuple(map(_KIND, inputs))
            if kinds not in fitting:
                check(inputs, kinds)
            return function(*inputs)

        def check(inputs: Sequence[Array], kinds: Any) -> None:
            if taken is not None and len(inputs) != taken:  # NumPy would write into one more
                raise ArgumentError(f"{node.operator} takes {taken} inputs, got {len(inputs)}")
            shape = _shape_together(inputs, same)
            if alike and any(each.shape != shape for each in inputs):
                shapes = " and ".join(str(each.shape) for each in inputs)
                raise ShapeError(f'with auto_broadcast="none" the inputs must have one shape, got {shapes}')
            made = math.prod(shape) * max([each.itemsize for each in inputs])
            if made > _SMALL:
                limits.check_growth(made, sum(each.nbytes for each in inputs), node.operator)
            elif len(fitting) < _MOST_REMEMBERED:
                fitting.add(kinds)

        return run

    return make


_KIND: Final = operator.attrgetter("dtype", "shape")
"""What of an array decides whether it goes with others."""
_MOST_REMEMBERED: Final = 64
_SMALL: Final = 1 << 16
"""So many bytes are not worth a look at the budget."""


def _shape_together(inputs: Sequence[Array], same: bool) -> tuple[int, ...]:
    """The shape that the inputs broadcast to."""
    first = inputs[0]
    shape: tuple[int, ...] = first.shape
    for other in inputs[1:]:
        if same and other.dtype != first.dtype:
            raise DtypeError(f"the inputs are of {first.dtype} and {other.dtype}; they must be of one dtype: cast one")
        if other.shape != shape:
            missing = len(shape) - len(other.shape)
            lengths = zip((1,) * -missing + shape, (1,) * missing + other.shape, strict=True)
            shape = tuple(m if n in (1, m) else n if m == 1 else -1 for n, m in lengths)
    if -1 in shape:
        shapes = " and ".join(str(each.shape) for each in inputs)
        raise ShapeError(f"the inputs' shapes {shapes} do not broadcast to one")
    return shape


def divided(x: Array, y: Array) -> Any:
    """As C divides: integers toward zero."""
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    _refuse_zeros(y)
    quotient = x // y
    return quotient + ((x % y != 0) & ((x < 0) != (y < 0))).astype(x.dtype) if x.dtype.kind == "i" else quotient


def divide_layer(node: Node, limits: Limits) -> Run | None:
    """OpenVINO divides integers as Python does, unless it is told otherwise."""
    floors = str(node.constant("m_pythondiv", "true")).lower() in ("true", "1")
    return elementwise(floor_divided if floors else divided)(node, limits)


def floor_divided(x: Array, y: Array) -> Any:
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    _refuse_zeros(y)
    return x // y


def _refuse_zeros(y: Array) -> None:
    if not y.all():
        raise OverflowedError(f"an integer is divided by zero, which no {y.dtype} can hold; divide floats")


def power(x: Array, y: Array) -> Any:
    """In the first input's dtype; the exponent keeps all its digits."""
    if x.dtype == y.dtype and (x.dtype.kind != "i" or not (y < 0).any()):
        return np.power(x, y)
    if x.dtype.kind in "iu" and y.dtype.kind in "iu" and not (y < 0).any():
        wide = np.uint64 if x.dtype.kind == "u" else np.int64  # modulo 2^64 is modulo whatever divides it
        return np.power(x.astype(wide), y.astype(wide)).astype(x.dtype)
    return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


def several(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A function of two, over any number of inputs."""

    def run(*inputs: Array) -> Any:
        total: Any = inputs[0]
        for each in inputs[1:]:
            total = function(total, each)
        return total

    return run


def logarithm(x: Array) -> Any:
    """Ours, which has the same bits everywhere: a fold over no axes takes the logarithm of each element."""
    ours = x.dtype.name in dtypes.BY_NAME and x.dtype.kind not in "biu"
    return logsum(x, axis=()) if ours else np.log(x)


def half_to_even(node: Node, limits: Limits) -> Run | None:
    """OpenVINO's rounding, in the mode that NumPy has."""
    return np.rint if node.constant("mode", "half_to_even") == "half_to_even" else None


def sigmoid(x: Array) -> Any:
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x  # float16 has no such large exponentials
    return (1 / (1 + np.exp(-wide))).astype(x.dtype)


def of_reals(function: Callable[..., Any]) -> Maker:
    """A function of floats. OpenVINO takes integers, too, and cuts what comes out."""

    def make(node: Node, limits: Limits) -> Run | None:
        integers = node.domain.startswith("opset")

        def run(x: Array) -> Any:
            if x.dtype.kind in "biu" and not integers:
                raise DtypeError(f"{node.operator} takes floats, got {x.dtype}: cast first")
            if x.nbytes > _SMALL:
                limits.check_growth(x.nbytes, x.nbytes, node.operator)
            return function(x).astype(x.dtype, copy=False)

        return run

    return make


def clipped(x: Array, low: Array | None = None, high: Array | None = None) -> Any:
    for bound in (low, high):
        if bound is not None and bound.dtype != x.dtype:
            raise DtypeError(f"the inputs are of {x.dtype} and {bound.dtype}; they must be of one dtype: cast one")
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


_LARGEST = 3.4028234663852886e38


def clip(node: Node, limits: Limits) -> Run | None:
    """Bounds that are attributes; those of integers are the integers between them."""
    low, high = float(node.constant("min", -_LARGEST)), float(node.constant("max", _LARGEST))

    def run(x: Array) -> Any:
        ends: tuple[float, float] = low, high
        if x.dtype.kind in "iu":
            least, most = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
            ends = max(least, min(most, math.ceil(low))), min(most, max(least, math.floor(high)))
        return clipped(x, *(np.asarray(end).astype(x.dtype) for end in ends))

    return run


def chosen(condition: Array, x: Array, y: Array) -> Array:
    if x.dtype != y.dtype:
        raise DtypeError(f"the inputs are of {x.dtype} and {y.dtype}; they must be of one dtype: cast one")
    return np.where(condition, x, y)


def matmul(node: Node, limits: Limits) -> Run | None:
    turned = [str(node.constant(name, "false")).lower() in ("true", "1") for name in ("transpose_a", "transpose_b")]

    def run(x: Array, y: Array) -> Any:
        left, right = (
            np.swapaxes(each, -1, -2) if turn and each.ndim > 1 else each
            for each, turn in zip((x, y), turned, strict=True)
        )
        if x.dtype != y.dtype:
            raise DtypeError(f"the inputs are of {x.dtype} and {y.dtype}; they must be of one dtype: cast one")
        if min(left.ndim, right.ndim) > 1:
            made = (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])
            limits.check_growth(bytes_of(x.dtype, made), x.nbytes + y.nbytes, node.operator)
        if x.dtype.kind in "iu" or x.dtype.itemsize >= 4:
            return np.matmul(left, right)
        return np.matmul(left.astype(np.float32), right.astype(np.float32)).astype(x.dtype)

    return run


# ---- dtypes

_BY_CODE: Final = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
                   10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn",
                   18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz"}  # fmt: skip
"""ONNX numbers its element types; the other dtypes are not cast here."""
_CAST: Final = frozenset(_BY_CODE.values())
BY_IR: Final = {dtype.ir: dtype.name for dtype in dtypes.TABLE}


def numpy_of(name: str) -> np.dtype[Any]:
    """The array dtype of a name in the one table, or of a shorter float."""
    return np.dtype(getattr(ml_dtypes, name) if name.startswith(("bfloat", "float8")) else name)


def _cast_to(name: str | None, limits: Limits, saturate: bool = True) -> Run | None:
    if name is None:
        return None
    target = numpy_of(name)
    return lambda x: cast(x, target, limits, saturate)


def cast(x: Array, target: np.dtype[Any], limits: Limits, saturate: bool = True) -> Array:
    """Another dtype for the elements; floats are cut toward zero on the way to integers, and clamped to float8."""
    if x.dtype.kind in "OSUTc" or target.name not in _CAST:
        raise DtypeError(f"{x.dtype} is not cast to {target.name} here; let an engine do it")
    limits.check_growth(bytes_of(target, x.shape), x.nbytes, f"a cast to {target.name}")
    with np.errstate(all="ignore"):
        if saturate and target.name.startswith("float8"):
            ends = ml_dtypes.finfo(target)  # type: ignore[no-untyped-call]
            x = np.clip(x.astype(np.float32), float(ends.min), float(ends.max))
        return x.astype(target)


def cast_node(node: Node, limits: Limits) -> Run | None:
    return _cast_to(_BY_CODE.get(node.constant("to")), limits, bool(node.constant("saturate", 1)))


def cast_like(node: Node, limits: Limits) -> Run | None:
    saturate = bool(node.constant("saturate", 1))
    return lambda x, like: cast(x, like.dtype, limits, saturate)


def convert(node: Node, limits: Limits) -> Run | None:
    return _cast_to(BY_IR.get(str(node.constant("destination_type")).lower()), limits)
