"""Other engines, for the nodes that foldwise does not run: handed to them in pieces as large as can be."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from foldwise.errors import EngineError, FoldwiseError

from . import onnxruntime_values
from .graph import Array, Graph, Program, Value
from .nodes import Meant
from .onnx_file import to_proto

Runner = Callable[[Sequence[Any]], Sequence[Any]]


class Foreign:
    """Nodes that another engine runs, all at once."""

    def __init__(
        self,
        program: Program,
        nodes: Sequence[Meant],
        reads: Sequence[str],
        writes: Sequence[str],
        constants: Mapping[str, Array],
        engine: str,
        apart: Callable[[], Runner] | None,
    ) -> None:
        self.program = program
        self.nodes = nodes
        self.reads = reads
        self.writes = writes
        self.constants = constants
        self.engine = engine
        self._apart = apart
        self._runners: dict[Any, Runner] = {}

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """The values that others read of these nodes. What the engine refuses as a whole is run node by node."""
        key = tuple(_type_key(each) for each in inputs)
        try:
            if key not in self._runners:
                self._runners[key] = self._made(inputs)
            return self._runners[key](inputs)
        except FoldwiseError:
            raise
        except Exception as error:  # each engine refuses in its own way
            if self._apart is None:
                kind = self.nodes[0].node.operator
                raise EngineError(f"{self.engine} does not run {kind}: {' '.join(str(error).split())}") from error
        self._runners[key] = self._apart()
        return self._runners[key](inputs)

    def _made(self, inputs: Sequence[Any]) -> Runner:
        given = dict(zip(self.reads, inputs, strict=True))
        model = piece(self.program, self.nodes, given, self.writes, self.constants)
        return _onnxruntime(model) if self.engine == "onnxruntime" else _reference(model)


def _type_key(value: Any) -> Any:
    return (value.dtype, value.ndim) if isinstance(value, np.ndarray) else type(value)


# ---- a part of a model as a model


def piece(
    program: Program,
    nodes: Sequence[Meant],
    inputs: Mapping[str, Any],
    writes: Sequence[str],
    constants: Mapping[str, Array],
) -> onnx.ModelProto:
    """Some nodes as a model of their own: of the oldest opset that means the same, so that more engines load it."""
    graph = Graph("part", [_described(program, name, value) for name, value in inputs.items()])
    graph.outputs = [Value(name) for name in writes]
    graph.constants = dict(constants)
    graph.nodes = [each.node for each in nodes]
    opsets: dict[str, int] = {}
    for each in nodes:
        for domain, version in _opsets_needed(each).items():
            opsets[domain] = max(version, opsets.get(domain, 1))
    opsets = opsets or {"": program.opset()}
    ids = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    version = onnx.helper.find_min_ir_version_for(ids, ignore_unknown=True)
    used = {(node.domain, node.operator, node.overload) for node in graph.walk()}
    functions = program.functions if used & program.functions.keys() else {}
    return to_proto(Program("onnx", graph, max(version, 8), opsets, functions))


def _opsets_needed(meant: Meant) -> dict[str, int]:
    """For each domain of a node and of what it runs inside, since when the operators are what they are."""
    found: dict[str, int] = {}
    for node in Graph(nodes=[meant.node]).walk():
        asked = meant.opsets.get(node.domain, 1)
        try:
            since = onnx.defs.get_schema(node.operator, asked, node.domain).since_version
        except (onnx.defs.SchemaError, TypeError):
            since = asked
        found[node.domain] = max(since, found.get(node.domain, 1))
    return found


def _described(program: Program, name: str, value: Any) -> Value:
    """An input of a piece, by what it turns out to be."""
    if isinstance(value, np.ndarray):
        dtype = onnx.helper.np_dtype_to_tensor_dtype(value.dtype.newbyteorder("="))
        shape = (None,) * value.ndim
        return Value(name, other=onnx.helper.make_tensor_value_info(name, dtype, shape))
    stated = program.graph.values.get(name) or next((v for v in program.graph.inputs if v.name == name), None)
    return stated if stated is not None else Value(name)


# ---- the engines


def _onnxruntime(model: onnx.ModelProto) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    halves = onnxruntime_values.has_bfloat16(session)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        given = dict(zip(names, map(_native_order, inputs), strict=True))
        if halves:
            return onnxruntime_values.run(session, None, given)
        found: Sequence[Any] = session.run(None, given)
        return found

    return run


def _native_order(value: Any) -> Any:
    """onnxruntime reads arrays of another byte order as if they were of ours."""
    swapped = isinstance(value, np.ndarray) and not value.dtype.isnative
    return value.astype(value.dtype.newbyteorder("=")) if swapped else value


def _reference(model: onnx.ModelProto) -> Runner:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    names = list(evaluator.input_names)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = evaluator.run(None, dict(zip(names, inputs, strict=True)))
        return [np.asarray(each) if isinstance(each, np.generic) else each for each in found]

    return run
