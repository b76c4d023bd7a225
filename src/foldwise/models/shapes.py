"""Shapes, places and constants: what moves elements around, as thin calls to NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from foldwise.arrays import argmax, argmin
from foldwise.errors import AxisError, DtypeError, ModelError, ShapeError

from .arithmetic import BY_IR, Run, numpy_of
from .graph import Array, Node, bytes_of
from .limits import Limits

MOST_AXES = 64


def _ints(array: Array) -> list[int]:
    """Axes, or a number for each axis."""
    if array.size > MOST_AXES:
        raise ShapeError(f"{array.size:,} numbers are given where one for each axis is meant, at most {MOST_AXES}")
    found: list[int] = array.reshape(-1).tolist()
    return found


def reshape(node: Node, limits: Limits) -> Run | None:
    fixed = node.constant("shape")
    zero_copies = not int(node.constant("allowzero", 0))
    if "special_zero" in node.attributes or node.domain.startswith("opset"):
        zero_copies = str(node.constant("special_zero", "false")).lower() in ("true", "1")

    def run(x: Array, shape: Array | None = None) -> Array:
        wanted = list(fixed) if shape is None else _ints(shape)
        if zero_copies:
            if 0 in wanted[x.ndim :]:
                raise ShapeError(f"the shape {wanted} copies a length from beyond the {x.ndim} axes there are")
            wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
        if any(n < -1 for n in wanted):
            raise ShapeError(f"the shape {wanted} has a negative length; only -1 stands for what is left")
        try:
            return x.reshape(wanted)
        except ValueError:
            raise ShapeError(f"a tensor of shape {x.shape} does not reshape to {wanted}") from None

    return run


def _axes_of(node: Node) -> Callable[[Array | None], list[int] | None]:
    """Axes, as an attribute in older opsets, as an input in newer ones."""
    fixed = node.constant("axes")
    return lambda given: (None if fixed is None else list(fixed)) if given is None else _ints(given)


def _counted(axes: Sequence[int], rank: int) -> list[int]:
    """Axes from the front, each once."""
    if any(not -rank <= a < rank for a in axes):
        raise AxisError(f"axes {list(axes)} go beyond rank {rank} (accepted: {-rank}..{rank - 1})")
    counted = [a % rank for a in axes]
    if len(set(counted)) < len(counted):
        raise AxisError(f"axes {list(axes)} name an axis twice")
    return counted


def squeeze(node: Node, limits: Limits) -> Run | None:
    axes_of = _axes_of(node)

    def run(x: Array, axes: Array | None = None) -> Array:
        wanted = axes_of(axes)
        everything = wanted is None or (not wanted and node.domain.startswith("opset"))
        at = [i for i, n in enumerate(x.shape) if n == 1] if everything else _counted(wanted or [], x.ndim)
        if any(x.shape[a] != 1 for a in at):
            raise ShapeError(f"shape {x.shape} cannot lose axes {at}: only axes of length 1 can go")
        return x.reshape([n for i, n in enumerate(x.shape) if i not in at])

    return run


def unsqueeze(node: Node, limits: Limits) -> Run | None:
    axes_of = _axes_of(node)

    def run(x: Array, axes: Array | None = None) -> Array:
        wanted = axes_of(axes) or []
        at = _counted(wanted, x.ndim + len(wanted))
        limits.check("rank", x.ndim + len(wanted), "Unsqueeze: the axes it makes are")
        lengths = iter(x.shape)
        return x.reshape([1 if i in at else next(lengths) for i in range(x.ndim + len(wanted))])

    return run


def flatten(node: Node, limits: Limits) -> Run | None:
    axis = int(node.constant("axis", 1))

    def run(x: Array) -> Array:
        at = axis + x.ndim if axis < 0 else axis
        if not 0 <= at <= x.ndim:
            raise AxisError(f"axis {axis} is out of range for rank {x.ndim}")
        return x.reshape(int(np.prod(x.shape[:at])), int(np.prod(x.shape[at:])))

    return run


def shape_of(node: Node, limits: Limits) -> Run | None:
    start, end = node.constant("start", 0), node.constant("end")
    target = np.dtype(np.int32 if node.constant("output_type") == "i32" else np.int64)
    return lambda x: np.array(x.shape[start:end], target)


def transpose(node: Node, limits: Limits) -> Run | None:
    fixed = node.constant("perm")

    def run(x: Array, order: Array | None = None) -> Array:
        wanted = fixed if order is None else _ints(order) or None
        if wanted is not None and sorted(wanted) != list(range(x.ndim)):
            raise AxisError(f"perm {list(wanted)} is no order of the {x.ndim} axes of shape {x.shape}")
        return x.transpose(wanted)

    return run


def expand(node: Node, limits: Limits) -> Run | None:
    def run(x: Array, shape: Array) -> Array:
        try:
            wanted = np.broadcast_shapes(x.shape, tuple(_ints(shape)))
        except ValueError:
            raise ShapeError(f"a tensor of shape {x.shape} does not expand to {_ints(shape)}") from None
        limits.check_growth(bytes_of(x.dtype, wanted), x.nbytes, node.operator)
        return np.broadcast_to(x, wanted)

    return run if not node.domain or node.constant("mode", "numpy") == "bidirectional" else _broadcast(node, run)


def _broadcast(node: Node, run: Run) -> Run | None:
    """OpenVINO's, which makes the very shape that it is given."""

    def exactly(x: Array, shape: Array) -> Array:
        made: Array = run(x, shape)
        if made.shape != tuple(_ints(shape)):
            raise ShapeError(f"a tensor of shape {x.shape} does not broadcast to {_ints(shape)}")
        return made

    return exactly if node.constant("mode", "numpy") == "numpy" else None


def filled(node: Node, limits: Limits) -> Run | None:
    value = node.constant("value", np.zeros(1, np.float32))

    def run(shape: Array) -> Array:
        wanted = tuple(_ints(shape))
        if any(n < 0 for n in wanted):
            raise ShapeError(f"shape {list(wanted)} has a negative length")
        limits.check("rank", len(wanted), "ConstantOfShape: the axes it makes are")
        limits.check_growth(bytes_of(value.dtype, wanted), 0, node.operator)
        return np.full(wanted, value.reshape(-1)[0], value.dtype)

    return run


def range_of(node: Node, limits: Limits) -> Run | None:
    output = node.constant("output_type")
    target = numpy_of(BY_IR[output]) if output in BY_IR else None

    def run(start: Array, limit: Array, delta: Array) -> Array:
        first, last, step = (each.reshape(()).item() for each in (start, limit, delta))
        if step == 0:
            raise ShapeError("a range with a step of 0 has no end")
        count = _steps(first, last, step)
        if count < 0:
            raise ShapeError(f"a range from {first} to {last} by {step} has no length")
        dtype = start.dtype if target is None else target
        limits.check_growth(count * dtype.itemsize, 0, node.operator)
        made: Array = (first + np.arange(count) * step).astype(dtype)
        return made

    return run


def _steps(first: float, last: float, step: float) -> int:
    """How many steps lie before the end; -1 where nobody can say."""
    if isinstance(step, int):
        return max(0, -int(-(last - first) // step))
    quotient = (last - first) / step
    return max(0, math.ceil(quotient)) if math.isfinite(quotient) else -1


def concat(node: Node, limits: Limits) -> Run | None:
    if node.constant("axis") is None:
        raise ModelError(f"{node.operator} must name its axis")
    axis = int(node.constant("axis"))

    def run(*inputs: Array) -> Array:
        (at,) = _counted([axis], inputs[0].ndim) if inputs[0].ndim else (0,)
        if len({each.dtype for each in inputs}) > 1:
            raise DtypeError(f"the inputs are of {', '.join(sorted({str(each.dtype) for each in inputs}))}; cast them")
        limits.check_growth(sum(bytes_of(each.dtype, each.shape) for each in inputs), inputs[0].nbytes, node.operator)
        try:
            return np.concatenate(inputs, at)
        except ValueError:
            shapes = ", ".join(str(each.shape) for each in inputs)
            raise ShapeError(f"the shapes {shapes} do not go together along axis {axis}") from None

    return run


def gather(node: Node, limits: Limits) -> Run | None:
    fixed = int(node.constant("axis", 0))
    if int(node.constant("batch_dims", 0)):
        return None

    def run(x: Array, indices: Array, axis: Array | None = None) -> Array:
        (at,) = _counted([fixed if axis is None else _ints(axis)[0]], x.ndim)
        length = x.shape[at]
        if indices.size and (indices.min() < -length or indices.max() >= length):
            raise AxisError(
                f"an index lies outside of axis {at} of length {length} (accepted: {-length}..{length - 1})"
            )
        made = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
        limits.check_growth(bytes_of(x.dtype, made), x.nbytes + indices.nbytes, node.operator)
        return np.take(x, indices, at)

    return run


def slice_node(node: Node, limits: Limits) -> Run | None:
    """Slices by inputs."""

    def run(x: Array, starts: Array, ends: Array, first: Array | None = None, second: Array | None = None) -> Array:
        axes, steps = (second, first) if node.domain.startswith("opset") else (first, second)
        at = _counted(list(range(starts.size)) if axes is None else _ints(axes), x.ndim)
        by = [1] * starts.size if steps is None else _ints(steps)
        if 0 in by:
            raise ShapeError("a slice with a step of 0 has no end")
        chosen = [slice(None)] * x.ndim
        for a, start, end, step in zip(at, _ints(starts), _ints(ends), by, strict=True):
            chosen[a] = _slice_of(start, end, step, x.shape[a])
        return x[tuple(chosen)]

    return run


def top(node: Node, limits: Limits) -> Run | None:
    """The one largest or smallest element along an axis, the first of equals, and where it is."""
    axis, mode = int(node.constant("axis", 0)), node.constant("mode")
    target = numpy_of(BY_IR.get(str(node.constant("index_element_type", "i32")), "int32"))

    def run(x: Array, count: Array) -> tuple[Array, Array]:
        if count.reshape(()).item() != 1:
            raise ShapeError(f"TopK of {count.reshape(()).item()} elements is not run here; of 1 it is")
        (at,) = _counted([axis], x.ndim)
        places = np.asarray((argmax if mode == "max" else argmin)(x, axis=at, keepdims=True))
        return np.take_along_axis(x, places, at), places.astype(target)

    return run if mode in ("max", "min") else None


def _slice_of(start: int, end: int, step: int, length: int) -> slice:
    """As ONNX clamps: a negative bound counts from the end, and one beyond an end means that end."""
    if not length:
        return slice(0, 0)
    begin, stop = (n + length if n < 0 else n for n in (start, end))
    if step > 0:
        return slice(max(0, min(length, begin)), max(0, min(length, stop)), step)
    begin, stop = max(0, min(length - 1, begin)), max(-1, min(length - 1, stop))
    return slice(begin, None if stop < 0 else stop, step)


def _constant_of(node: Node) -> Array | None:
    """What a node that holds a value gives; None for a kind of value that arrays do not hold."""
    for name, value in node.attributes.items():
        if name in ("value", "sparse_value"):
            return np.asarray(value.value)
        if name.startswith("value_int"):
            return np.asarray(value.value, np.int64)
        if name.startswith("value_float"):
            return np.asarray(value.value, np.float32)
    return None


def constant(node: Node, limits: Limits) -> Run | None:
    value = _constant_of(node)
    return None if value is None else lambda: value
