"""The contenders: each turns a case into a call that does its work and nothing else.

Whatever can be done once is done in `prepare`, outside the clock: models are compiled, arrays are wrapped
without a copy. By default every call makes a fresh result, as users' calls do; with `reuse` the result of the
first call is the output of all later ones, where a contender can. Who cannot do a case raises what it likes.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from .cases import Array, Axes, Case
from .measure import Call


class CannotDoError(Exception):
    """The contender has no way to do this case."""


class Contender(Protocol):
    """What the benchmark asks of a library."""

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call: ...


class Foldwise:
    def __init__(self, threads: int) -> None:
        import foldwise

        foldwise.set_num_threads(threads)
        self.library = foldwise

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        function = getattr(self.library, case.op)
        if case.flipped:
            function = partial(function, exclusive=True, reverse=True)
        return into_its_first_result(partial(function, x, axis=case.axis), reuse)


class NumPy:
    """One thread, whatever is asked for."""

    def __init__(self, threads: int) -> None:
        np.seterr(all="ignore")

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        function = numpy_exclusive_reverse if case.flipped else getattr(np, case.op)
        return into_its_first_result(partial(function, x, axis=case.axis), reuse)


def numpy_exclusive_reverse(x: Array, axis: Axes, out: Array | None = None) -> Array:
    """Scan flipped views into a flipped view, one place on: no pass but the scan itself."""
    if not isinstance(axis, int):
        x, axis = x.reshape(-1), 0
    y = np.empty(x.shape, scan_dtype(x)) if out is None else out
    backwards, result = (np.flip(np.moveaxis(a, axis, 0), 0) for a in (x, y))
    result[0] = 0
    np.cumsum(backwards[:-1], axis=0, out=result[1:])
    return y


def scan_dtype(x: Array) -> np.dtype[Any]:
    return np.cumsum(x[(0,) * x.ndim]).dtype


class Ufunc:
    """np.add.reduce and its kin, for who counts nanoseconds."""

    def __init__(self, threads: int) -> None:
        self.calls: dict[str, Callable[..., Array]] = {
            "sum": np.add.reduce,
            "prod": np.multiply.reduce,
            "cumsum": np.add.accumulate,
        }

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        if case.layout != "tiny" or case.flipped:
            raise CannotDoError("as NumPy, but for tiny arrays")
        kind = {"dtype": scan_dtype(x)} if case.dtype == "int32" else {}
        return into_its_first_result(partial(self.calls[case.op], x, axis=case.axis, **kind), reuse)


class Bottleneck:
    def __init__(self, threads: int) -> None:
        import bottleneck

        self.nansum = bottleneck.nansum

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        if case.op != "sum" or case.layout != "tiny" or "float16" in case.dtype:
            raise CannotDoError("entered for its low overhead: nansum of a tiny array")
        return partial(self.nansum, x, axis=case.axis)


def into_its_first_result(job: Callable[[], Any], reuse: bool) -> Call:
    """Hand `out` to a library's own function; what is put together here from several has none."""
    if not (reuse and isinstance(job, partial)):
        return job
    result = job()
    return partial(job, out=result) if result.ndim else job


class PyTorch:
    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch = torch

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        return into_its_first_result(self.job(case, self.tensor(case, x)), reuse)

    def tensor(self, case: Case, x: Array) -> Any:
        if case.dtype == "bfloat16":
            return self.torch.from_numpy(x.view(np.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(x)

    def job(self, case: Case, tensor: Any) -> Callable[[], Any]:
        torch = self.torch
        if case.is_scan:
            if case.axis is None:
                tensor = tensor.flatten()
            dim = case.axis or 0
            if case.flipped:
                return lambda: tensor.flip(dim).cumsum(dim).flip(dim).sub_(tensor)
            return partial(getattr(torch, case.op), tensor, dim)
        if case.op == "prod":
            return self.product(tensor, case.axes)
        return partial(torch.sum, tensor, dim=case.axes)

    def product(self, tensor: Any, axes: tuple[int, ...]) -> Callable[[], Any]:
        """Take one axis, or all; of several, flatten neighbours (a view) and fold the others one by one."""
        if len(axes) == tensor.ndim:
            return partial(self.torch.prod, tensor)
        if len(axes) == 1:
            return partial(self.torch.prod, tensor, axes[0])

        def one_by_one() -> Any:
            result, left = tensor, list(axes)
            while left:
                last = first = left.pop()
                while left and left[-1] == first - 1:
                    first = left.pop()
                result = result.flatten(first, last).prod(first)
            return result

        return one_by_one


class OnnxRuntime:
    """One model of one node per case. Results have the input's dtype: int32 stays int32."""

    OPERATORS = {"sum": "ReduceSum", "prod": "ReduceProd", "cumsum": "CumSum", "cumprod": "CumProd"}  # noqa: RUF012

    def __init__(self, threads: int) -> None:
        import onnx
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        self.onnx, self.runtime, self.threads = onnx, onnxruntime, threads

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        if not x.flags.c_contiguous:
            raise CannotDoError("takes contiguous tensors only")
        x = x.reshape(-1) if case.is_scan and case.axis is None else x
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        session = self.session(case, x.shape, kind)
        binding = session.io_binding()
        raw = x.view(np.uint16) if case.dtype == "bfloat16" else x
        binding.bind_ortvalue_input("x", self.runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, kind))
        binding.bind_output("y")

        def into_the_same_result() -> None:
            session.run_with_iobinding(binding)

        def into_a_fresh_result() -> None:
            binding.clear_binding_outputs()
            binding.bind_output("y")
            session.run_with_iobinding(binding)

        return into_the_same_result if reuse else into_a_fresh_result

    def session(self, case: Case, shape: tuple[int, ...], kind: int) -> Any:
        make = self.onnx.helper
        if case.is_scan:
            axes = make.make_tensor("axes", self.onnx.TensorProto.INT64, [], [case.axis or 0])
            options = {"exclusive": int(case.flipped), "reverse": int(case.flipped)}
        else:
            axes = make.make_tensor("axes", self.onnx.TensorProto.INT64, [len(case.axes)], case.axes)
            options = {"keepdims": 0}
        node = make.make_node(self.OPERATORS[case.op], ["x", "axes"], ["y"], **options)
        x, y = make.make_tensor_value_info("x", kind, shape), make.make_tensor_value_info("y", kind, None)
        opset = make.make_opsetid("", 26 if case.op == "cumprod" else 18)
        graph = make.make_graph([node], case.op, [x], [y], [axes])
        model = make.make_model(graph, opset_imports=[opset], ir_version=10)
        settings = self.runtime.SessionOptions()
        settings.intra_op_num_threads = self.threads
        settings.inter_op_num_threads = 1
        return self.runtime.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"])


class OpenVINO:
    """One model of one node per case. Results have the input's dtype; a request always reuses its output."""

    TYPES = {  # noqa: RUF012
        "float16": "f16",
        "bfloat16": "bf16",
        "float32": "f32",
        "float64": "f64",
        "int32": "i32",
        "int64": "i64",
        "int8": "i8",
        "uint8": "u8",
    }

    def __init__(self, threads: int) -> None:
        import openvino
        from openvino import opset13

        self.openvino, self.opset = openvino, opset13
        self.core = openvino.Core()
        self.settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        if not x.flags.c_contiguous:
            raise CannotDoError("takes contiguous tensors only")
        if case.dtype not in self.TYPES:
            raise CannotDoError(f"no such operator on {case.dtype}")
        x = x.reshape(-1) if case.is_scan and case.axis is None else x
        kind = getattr(self.openvino.Type, self.TYPES[case.dtype])
        tensor = self.openvino.Tensor(x.view(np.uint16), x.shape, kind) if case.dtype == "bfloat16" else None
        parameter = self.opset.parameter(list(x.shape), kind)
        model = self.openvino.Model([self.node(case, parameter)], [parameter])
        request = self.core.compile_model(model, "CPU", self.settings).create_infer_request()
        request.set_input_tensor(tensor or self.openvino.Tensor(x, shared_memory=True))
        return partial(request.infer, share_outputs=True)

    def node(self, case: Case, x: Any) -> Any:
        if case.op == "cumsum":
            axis = self.opset.constant(case.axis or 0, np.int64)
            return self.opset.cum_sum(x, axis, exclusive=case.flipped, reverse=case.flipped)
        if case.op == "cumprod":
            raise CannotDoError("has no CumProd")
        reduce = self.opset.reduce_sum if case.op == "sum" else self.opset.reduce_prod
        return reduce(x, self.opset.constant(list(case.axes), np.int64), False)


OURS = "foldwise"
CONTENDERS: dict[str, Callable[[int], Contender]] = {
    OURS: Foldwise,
    "numpy": NumPy,
    "torch": PyTorch,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVINO,
    "ufunc": Ufunc,
    "bottleneck": Bottleneck,
}
MODULE = {"ufunc": "numpy"}  # where a contender is not called like its module


def version_of(contender: str) -> str:
    found: str = import_module(MODULE.get(contender, contender)).__version__
    return found.split("-")[0]
