"""What is done with the arrays: ONE row per operation, and how each peer does the same.

A row says how NumPy and PyTorch compute it, which node onnxruntime runs (its operator, and the opset that has it),
how an OpenVINO model spells it, and who is entered for the (4,8) cases. None: that peer has nothing like it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Axes = int | tuple[int, ...] | None

DTYPES = ("float32", "float64", "int32", "int64", "float16", "bfloat16")
FLOATS = ("float32", "float64", "float16", "bfloat16")
TRUTHS = ("bool", "float32", "int64")

FIVE = ("sum", "max", "min", "l2", "mean")  # what reduce_many is asked for


@dataclass(frozen=True)
class Node:
    """An ONNX operator, and the opset whose version of it is meant."""

    operator: str
    opset: int = 18


@dataclass(frozen=True)
class Operation:
    """A function of foldwise and its like elsewhere."""

    name: str
    family: str
    numpy: Callable[..., Any]  # (x, axis=..., out=...)
    torch: Callable[..., Callable[[], Any]] | None = None  # (torch, tensor, dim): a call, partial if it takes `out`
    onnx: Node | None = None
    openvino: Callable[..., Any] | None = None  # (opset, x, axes): a node
    ufunc: Callable[..., Any] | None = None  # (x, axis=..., dtype=...)
    bottleneck: str | None = None
    dtypes: tuple[str, ...] = DTYPES
    scan: bool = False
    place: bool = False  # the result is an index
    truth: bool = False  # of bools: the runtimes convert everything else first, in the same model
    like: str = ""  # our operation that runs beside it on the same array, to be compared with
    exact: bool = False  # the operation that it is like, with accuracy="exact"
    wraps: bool = False  # the operation that it is like, into the dtype of the elements
    parts: tuple[str, ...] = ()  # the operations that are done together

    @property
    def function(self) -> str:
        """What foldwise calls it."""
        return self.like if self.exact or self.wraps else self.name

    @property
    def one_axis(self) -> bool:
        """Whether it goes along one axis, or (None) along all of them flattened, but not along several."""
        return self.scan or self.place

    @property
    def single_parts(self) -> "list[Operation]":
        """Itself, or what it does in one go."""
        return [BY_NAME[part] for part in self.parts] or [self]

    @property
    def widens(self) -> bool:
        """Whether narrow integers accumulate into 64 bits."""
        return self.family == "core" and not self.wraps

    @property
    def both_ways(self) -> bool:
        """Whether it is measured with `exclusive` and `reverse`, too."""
        return self.function == "cumsum" and not self.exact


# How peers without a function of that name put one together. NumPy's take `out`, as its own functions do.


def running(ufunc: np.ufunc) -> Callable[..., Array]:
    def accumulate(x: Array, axis: int | None, out: Array | None = None) -> Array:
        flat = x.reshape(-1) if axis is None else x
        result: Array = ufunc.accumulate(flat, axis=axis or 0, out=out)
        return result

    return accumulate


def short_running_sum(x: Array, axis: int | None, out: Array | None = None) -> Any:
    return np.cumsum(x, axis=axis, dtype=x.dtype, out=out)


def sum_of_squares(x: Array, axis: Axes, out: Array | None = None) -> Any:
    """Along the last axis as dot products, which need no second array."""
    if axis == x.ndim - 1 and x.dtype.kind == "f":
        return np.vecdot(x, x, out=out)
    return np.sum(np.square(x), axis=axis, out=out)


def euclidean(x: Array, axis: Axes, out: Array | None = None) -> Any:
    return np.sqrt(sum_of_squares(x, axis), out=out)


def sum_of_magnitudes(x: Array, axis: Axes, out: Array | None = None) -> Any:
    return np.sum(np.abs(x), axis=axis, out=out)


def log_of_sum(x: Array, axis: Axes, out: Array | None = None) -> Any:
    return np.log(np.sum(x, axis=axis), out=out)


def log_of_exponentials(x: Array, axis: Axes, out: Array | None = None) -> Any:
    """Shifted by the largest element, in two arrays, the second in place."""
    largest = np.max(x, axis=axis, keepdims=True)
    shifted = np.subtract(x, largest)
    np.exp(shifted, out=shifted)
    return np.add(np.log(np.sum(shifted, axis=axis)), np.squeeze(largest, axis=axis), out=out)


def five_by_numpy(x: Array, axis: Axes) -> list[Any]:
    return [BY_NAME[part].numpy(x, axis=axis) for part in FIVE]


def torch_function(name: str) -> Callable[..., Callable[[], Any]]:
    return lambda torch, x, dim: partial(getattr(torch, name), x, dim=dim)


def torch_product(torch: Any, x: Any, axes: tuple[int, ...]) -> Callable[[], Any]:
    """Take one axis, or all; of several, flatten neighbours (a view) and fold the others one by one."""
    if len(axes) == x.ndim:
        return partial(torch.prod, x)
    if len(axes) == 1:
        return partial(torch.prod, x, axes[0])

    def one_by_one() -> Any:
        result, left = x, list(axes)
        while left:
            last = first = left.pop()
            while left and left[-1] == first - 1:
                first = left.pop()
            result = result.flatten(first, last).prod(first)
        return result

    return one_by_one


def torch_mean(torch: Any, x: Any, dim: tuple[int, ...]) -> Callable[[], Any]:
    """Of integers in float64: PyTorch has no other mean of them."""
    kind = {} if x.is_floating_point() else {"dtype": torch.float64}
    return partial(torch.mean, x, dim=dim, **kind)


def torch_l1(torch: Any, x: Any, dim: tuple[int, ...]) -> Callable[[], Any]:
    if x.is_floating_point():
        return partial(torch.linalg.vector_norm, x, 1, dim=dim)
    return lambda: x.abs().sum(dim)


def torch_l2(torch: Any, x: Any, dim: tuple[int, ...]) -> Callable[[], Any]:
    if x.is_floating_point():
        return partial(torch.linalg.vector_norm, x, 2, dim=dim)
    return lambda: torch.linalg.vector_norm(x.double(), 2, dim=dim)


def torch_squares(torch: Any, x: Any, dim: tuple[int, ...]) -> Callable[[], Any]:
    """Of floats the square of the norm, which needs no second array."""
    if x.is_floating_point():
        return lambda: torch.linalg.vector_norm(x, 2, dim=dim).square_()
    return lambda: x.square().sum(dim)


def five_by_torch(torch: Any, x: Any, dim: tuple[int, ...]) -> Callable[[], Any]:
    calls = [(BY_NAME[part].torch or torch_function(part))(torch, x, dim) for part in FIVE]
    return lambda: [call() for call in calls]


def reduced(name: str) -> Callable[..., Any]:
    """An OpenVINO reduction by its name in the opset."""
    return lambda ops, x, axes: getattr(ops, f"reduce_{name}")(x, ops.constant(list(axes), np.int64), False)


def openvino_running_sum(ops: Any, x: Any, axes: tuple[int, ...]) -> Any:
    return ops.cum_sum(x, ops.constant(axes[0], np.int64))


def openvino_logsumexp(ops: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """As OpenVINO's importer spells ReduceLogSumExp."""
    where = ops.constant(list(axes), np.int64)
    largest = ops.reduce_max(x, where, True)
    total = ops.log(ops.reduce_sum(ops.exp(ops.subtract(x, largest)), where, False))
    return ops.add(total, ops.squeeze(largest, where))


def openvino_place(mode: str) -> Callable[..., Any]:
    """The index of the one best element."""

    def best(ops: Any, x: Any, axes: tuple[int, ...]) -> Any:
        one = ops.topk(x, ops.constant(1, np.int64), axes[0], mode, "none", "i64")
        return ops.squeeze(one.output(1), ops.constant(list(axes), np.int64))

    return best


# fmt: off
OPERATIONS = (
    Operation("sum", "core", np.sum, torch_function("sum"), Node("ReduceSum"), reduced("sum"),
              np.add.reduce, "nansum"),
    Operation("prod", "core", np.prod, torch_product, Node("ReduceProd"), reduced("prod"), np.multiply.reduce),
    Operation("cumsum", "core", np.cumsum, torch_function("cumsum"), Node("CumSum"), openvino_running_sum,
              np.add.accumulate, scan=True),
    Operation("short cumsum", "core", short_running_sum,
              lambda torch, x, dim: partial(torch.cumsum, x, dim=dim, dtype=x.dtype), Node("CumSum"),
              openvino_running_sum, scan=True, like="cumsum", wraps=True),
    Operation("cumprod", "core", np.cumprod, torch_function("cumprod"), Node("CumProd", 26),
              ufunc=np.multiply.accumulate, scan=True),

    Operation("mean", "norms", np.mean, torch_mean, Node("ReduceMean"), reduced("mean"),
              bottleneck="nanmean", like="sum"),
    Operation("l1", "norms", sum_of_magnitudes, torch_l1, Node("ReduceL1"), reduced("l1")),
    Operation("l2", "norms", euclidean, torch_l2, Node("ReduceL2"), reduced("l2"), like="sum"),
    Operation("sumsquare", "norms", sum_of_squares, torch_squares, Node("ReduceSumSquare"),
              lambda ops, x, axes: reduced("sum")(ops, ops.multiply(x, x), axes), bottleneck="ss", like="sum"),

    Operation("max", "extremes", np.max, torch_function("amax"), Node("ReduceMax", 20), reduced("max"),
              np.maximum.reduce, "nanmax", like="sum"),
    Operation("min", "extremes", np.min, torch_function("amin"), Node("ReduceMin", 20), reduced("min"),
              np.minimum.reduce, "nanmin", like="sum"),

    Operation("logsum", "logs", log_of_sum, lambda torch, x, dim: lambda: x.sum(dim).log_(), Node("ReduceLogSum"),
              lambda ops, x, axes: ops.log(reduced("sum")(ops, x, axes)), dtypes=FLOATS),
    Operation("logsumexp", "logs", log_of_exponentials, torch_function("logsumexp"), Node("ReduceLogSumExp"),
              openvino_logsumexp, np.logaddexp.reduce, dtypes=FLOATS),

    Operation("all", "truth", np.all, torch_function("all"), Node("ReduceMin", 20), reduced("logical_and"),
              np.logical_and.reduce, dtypes=TRUTHS, truth=True),
    Operation("any", "truth", np.any, torch_function("any"), Node("ReduceMax", 20), reduced("logical_or"),
              np.logical_or.reduce, dtypes=TRUTHS, truth=True),

    Operation("argmax", "places", np.argmax, torch_function("argmax"), Node("ArgMax"), openvino_place("max"),
              bottleneck="nanargmax", place=True),
    Operation("argmin", "places", np.argmin, torch_function("argmin"), Node("ArgMin"), openvino_place("min"),
              bottleneck="nanargmin", place=True),

    Operation("cummax", "scans", running(np.maximum), lambda torch, x, dim: lambda: torch.cummax(x, dim), scan=True),
    Operation("cummin", "scans", running(np.minimum), lambda torch, x, dim: lambda: torch.cummin(x, dim), scan=True),
    Operation("logcumsumexp", "scans", running(np.logaddexp), torch_function("logcumsumexp"), dtypes=FLOATS,
              scan=True),

    Operation("exact sum", "exact", np.sum, torch_function("sum"), Node("ReduceSum"), reduced("sum"),
              np.add.reduce, "nansum", dtypes=FLOATS, like="sum", exact=True),
    Operation("exact cumsum", "exact", np.cumsum, torch_function("cumsum"), Node("CumSum"), openvino_running_sum,
              np.add.accumulate, dtypes=FLOATS, scan=True, like="cumsum", exact=True),

    Operation("reduce_many", "many", five_by_numpy, five_by_torch, like="sum", parts=FIVE),
)
# fmt: on
BY_NAME = {operation.name: operation for operation in OPERATIONS}
FAMILIES = tuple(dict.fromkeys(operation.family for operation in OPERATIONS))
