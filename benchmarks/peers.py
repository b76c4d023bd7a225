"""The contenders: each turns a case into a call that does its work and nothing else.

Whatever can be done once is done in `prepare`, outside the clock: models are compiled, arrays are wrapped
without a copy. By default every call makes a fresh result, as users' calls do; with `reuse` the result of the
first call is the output of all later ones, where a contender can. Who cannot do a case raises what it likes.
"""

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from .cases import Case
from .measure import Call
from .operations import Array, Axes, Node, Operation


class CannotDoError(Exception):
    """The contender has no way to do this case."""


class Contender(Protocol):
    """What the benchmark asks of a library."""

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call: ...

    def values(self, returned: Any) -> Array:
        """What a call has returned, as an array, for who looks at results."""
        return np.asarray(returned)


class Foldwise(Contender):
    def __init__(self, threads: int) -> None:
        import foldwise

        foldwise.set_num_threads(threads)
        self.library = foldwise

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        function = getattr(self.library, case.operation.function)
        if case.operation.parts:
            return partial(function, x, case.operation.parts, axis=case.axis)
        if case.operation.exact:
            function = partial(function, accuracy="exact")
        if case.operation.wraps:
            function = partial(function, dtype=x.dtype)
        if case.flipped:
            function = partial(function, exclusive=True, reverse=True)
        return into_its_first_result(partial(function, x, axis=case.axis), reuse)


class NumPy(Contender):
    """One thread, whatever is asked for."""

    def __init__(self, threads: int) -> None:
        np.seterr(all="ignore")

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        function = case.operation.numpy
        if case.flipped:
            function = partial(numpy_exclusive_reverse, dtype=scan_dtype(x) if case.operation.widens else x.dtype)
        return into_its_first_result(partial(function, x, axis=case.axis), reuse)


def numpy_exclusive_reverse(x: Array, axis: Axes, dtype: np.dtype[Any], out: Array | None = None) -> Array:
    """Scan flipped views into a flipped view, one place on: no pass but the scan itself."""
    if not isinstance(axis, int):
        x, axis = x.reshape(-1), 0
    y = np.empty(x.shape, dtype) if out is None else out
    backwards, result = (np.flip(np.moveaxis(a, axis, 0), 0) for a in (x, y))
    result[0] = 0
    np.cumsum(backwards[:-1], axis=0, dtype=dtype, out=result[1:])
    return y


def scan_dtype(x: Array) -> np.dtype[Any]:
    return np.cumsum(x[(0,) * x.ndim]).dtype


class Ufunc(Contender):
    """np.add.reduce and its kin, for who counts nanoseconds."""

    def __init__(self, threads: int) -> None:
        pass

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        ufunc = case.operation.ufunc
        if ufunc is None or case.layout != "tiny" or case.flipped:
            raise CannotDoError("as NumPy, but for tiny arrays")
        kind = {"dtype": scan_dtype(x)} if case.dtype == "int32" and case.operation.widens else {}
        return into_its_first_result(partial(ufunc, x, axis=case.axis, **kind), reuse)


class Bottleneck(Contender):
    def __init__(self, threads: int) -> None:
        import bottleneck

        self.library = bottleneck

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        name = case.operation.bottleneck
        if name is None or case.layout != "tiny" or "float16" in case.dtype:
            raise CannotDoError("entered for its low overhead: nansum and its kin on a tiny array")
        return partial(getattr(self.library, name), x, axis=case.axis)


def into_its_first_result(job: Callable[[], Any], reuse: bool) -> Call:
    """Hand `out` to a library's own function; what is put together here from several has none."""
    if not (reuse and isinstance(job, partial)):
        return job
    result = job()
    return partial(job, out=result) if getattr(result, "ndim", 0) else job


class PyTorch(Contender):
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
        operation = case.operation
        if operation.torch is None:
            raise CannotDoError("has no such function")
        if not operation.one_axis:
            return operation.torch(self.torch, tensor, case.axes)
        tensor = tensor.flatten() if case.axis is None else tensor
        (dim,) = case.axes
        if case.flipped:
            kind = {"dtype": tensor.dtype} if operation.wraps else {}
            return lambda: tensor.flip(dim).cumsum(dim, **kind).flip(dim).sub_(tensor)
        return operation.torch(self.torch, tensor, dim)


class OnnxRuntime(Contender):
    """One model per case, of one node if one does it. Results have the input's dtype: int32 stays int32."""

    def __init__(self, threads: int) -> None:
        import onnx
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        self.onnx, self.runtime, self.threads = onnx, onnxruntime, threads

    def prepare(self, case: Case, x: Array, *, reuse: bool) -> Call:
        x = as_one_tensor(case, x)
        nodes = nodes_of(case.operation)
        results = [f"y{index}" for index in range(len(nodes))]
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        session = self.session(case, self.graph(case, nodes, x.shape, kind, results))
        binding = session.io_binding()
        raw = x.view(np.uint16) if case.dtype == "bfloat16" else x
        binding.bind_ortvalue_input("x", self.runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, kind))
        for result in results:
            binding.bind_output(result)

        def into_the_same_result() -> Any:
            session.run_with_iobinding(binding)
            return binding

        def into_a_fresh_result() -> Any:
            binding.clear_binding_outputs()
            for result in results:
                binding.bind_output(result)
            session.run_with_iobinding(binding)
            return binding

        return into_the_same_result if reuse else into_a_fresh_result

    def values(self, returned: Any) -> Array:
        result: Array = returned.get_outputs()[0].numpy()
        return result

    def graph(self, case: Case, nodes: list[Node], shape: tuple[int, ...], kind: int, results: list[str]) -> Any:
        make, types = self.onnx.helper, self.onnx.TensorProto
        x, made, given = "x", [], []
        if case.operation.truth and case.dtype != "bool":
            x, kind_out = "truth", types.BOOL
            made.append(make.make_node("Cast", ["x"], [x], to=types.BOOL))
        else:
            kind_out = types.INT64 if case.operation.place else kind
        if case.operation.place:
            inputs, options = [x], {"axis": case.axes[0], "keepdims": 0}
        else:
            given.append(make.make_tensor("axes", types.INT64, [] if case.is_scan else [len(case.axes)], case.axes))
            flags = {"exclusive": int(case.flipped), "reverse": int(case.flipped)}
            inputs, options = [x, "axes"], flags if case.is_scan else {"keepdims": 0}
        made += [make.make_node(node.operator, inputs, [y], **options) for node, y in zip(nodes, results, strict=True)]
        taken = [make.make_tensor_value_info("x", kind, shape)]
        returned = [make.make_tensor_value_info(y, kind_out, None) for y in results]
        return make.make_graph(made, case.op, taken, returned, given)

    def session(self, case: Case, graph: Any) -> Any:
        opset = self.onnx.helper.make_opsetid("", max(node.opset for node in nodes_of(case.operation)))
        model = self.onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
        settings = self.runtime.SessionOptions()
        settings.intra_op_num_threads = self.threads
        settings.inter_op_num_threads = 1
        return self.runtime.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"])


def nodes_of(operation: Operation) -> list[Node]:
    nodes = [part.onnx for part in operation.single_parts if part.onnx]
    if not nodes:
        raise CannotDoError("ONNX has no such operator")
    return nodes


def as_one_tensor(case: Case, x: Array) -> Array:
    """Give the runtimes what they take: contiguous, and in one row where all elements are."""
    if not x.flags.c_contiguous:
        raise CannotDoError("takes contiguous tensors only")
    return x.reshape(-1) if case.operation.one_axis and case.axis is None else x


class OpenVINO(Contender):
    """One model per case. Results have the input's dtype; a request always reuses its output."""

    TYPES = {  # noqa: RUF012
        "float16": "f16",
        "bfloat16": "bf16",
        "float32": "f32",
        "float64": "f64",
        "int32": "i32",
        "int64": "i64",
        "int8": "i8",
        "uint8": "u8",
        "bool": "boolean",
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
        x = as_one_tensor(case, x)
        if case.dtype == "bool" and not case.operation.truth:
            raise CannotDoError("no such operator on bool")
        kind = getattr(self.openvino.Type, self.TYPES[case.dtype])
        tensor = self.openvino.Tensor(x.view(np.uint16), x.shape, kind) if case.dtype == "bfloat16" else None
        parameter = self.opset.parameter(list(x.shape), kind)
        model = self.openvino.Model(self.nodes(case, parameter), [parameter])
        request = self.core.compile_model(model, "CPU", self.settings).create_infer_request()
        request.set_input_tensor(tensor or self.openvino.Tensor(x, shared_memory=True))
        return partial(request.infer, share_outputs=True)

    def values(self, returned: Any) -> Array:
        result: Array = next(iter(returned.values()))
        return result

    def nodes(self, case: Case, x: Any) -> list[Any]:
        if case.flipped:
            axis = self.opset.constant(case.axes[0], np.int64)
            return [self.opset.cum_sum(x, axis, exclusive=True, reverse=True)]
        if case.operation.truth and case.dtype != "bool":
            x = self.opset.convert(x, "boolean")
        spelt = [part.openvino for part in case.operation.single_parts if part.openvino]
        if not spelt:
            raise CannotDoError("has no such operator")
        return [node(self.opset, x, case.axes) for node in spelt]


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


def entered(names: Iterable[str], threads: int) -> dict[str, Contender]:
    """Load the contenders that are installed, ourselves first."""
    contenders: dict[str, Contender] = {OURS: CONTENDERS[OURS](threads)}
    for name in names:
        try:
            contenders.setdefault(name, CONTENDERS[name](threads))
        except ModuleNotFoundError as missing:
            print(f"{name} does not take part: {missing}")
    return contenders


MODULE = {"ufunc": "numpy"}  # where a contender is not called like its module


def version_of(contender: str) -> str:
    found: str = import_module(MODULE.get(contender, contender)).__version__
    return found.split("-")[0]
