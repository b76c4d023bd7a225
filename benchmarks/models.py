"""Whole models: `python -m benchmarks.models` times one-node models here, in onnxruntime, and here inside onnxruntime.

Prints a table in markdown: microseconds per call, and how they compare to the array function's and onnxruntime's own.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime

import foldwise as fw
from foldwise.plugins.onnxruntime import InferenceSession

from .machine import cores, processor
from .measure import FULL, QUICK, Effort, Racer, as_written, race, seconds_per_call, times_faster
from .report import markdown


class Node(NamedTuple):
    """One operator over one axis, and the array function that is the same."""

    operator: str
    function: str
    shape: tuple[int, ...]
    axis: int

    def model(self) -> bytes:
        """A model of this node alone."""
        dims, result = ", ".join(map(str, self.shape)), "int64" if self.function == "argmax" else "float"
        constant, call = {
            "argmax": ("", f"{self.operator}<axis = {self.axis}>(x)"),
            "cumsum": (f"<int64 axis = {{{self.axis}}}>", f"{self.operator}(x, axis)"),
        }.get(self.function, (f"<int64[1] axes = {{{self.axis}}}>", f"{self.operator}(x, axes)"))
        text = f"g (float[{dims}] x) => ({result} y) {constant} {{ y = {call} }}"
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
        proto.graph.output[0].type.tensor_type.ClearField("shape")
        serialized: bytes = proto.SerializeToString()
        return serialized


NODES = [
    Node(operator, function, shape, axis)
    for operator, function in (
        ("ReduceSum", "sum"), ("ReduceMax", "max"), ("ReduceLogSumExp", "logsumexp"), ("ArgMax", "argmax"),
        ("CumSum", "cumsum"),
    )
    for shape, axis in (((64, 64), 1), ((256, 512), 1), ((256, 512), 0), ((4096, 16384), 1), ((4096, 16384), 0))
]  # fmt: skip


def contenders(node: Node, x: Any, threads: int) -> dict[str, Any]:
    """Everybody who can run the node, as calls without arguments."""
    options = [onnxruntime.SessionOptions() for _ in range(2)]
    for each in options:
        each.intra_op_num_threads = threads
    model, serialized = fw.load(node.model()), node.model()
    keep = {} if node.function == "cumsum" else {"keepdims": True}
    feeds = {"x": x}
    return {
        "model": partial(model.run, feeds),
        "function": partial(getattr(fw, node.function), x, axis=node.axis, **keep),
        "onnxruntime": partial(onnxruntime.InferenceSession(serialized, options[0]).run, None, feeds),
        "inside": partial(InferenceSession(serialized, options[1]).run, None, feeds),
    }


def row(node: Node, effort: Effort, threads: int) -> list[str]:
    """One node's line of the table."""
    x = np.random.default_rng(0).random(node.shape, np.float32)
    calls = {name: as_written(call) for name, call in contenders(node, x, threads).items()}
    racers = {name: Racer(call, seconds_per_call(call, effort), True) for name, call in calls.items()}
    found = race(racers, effort)
    times = [f"{1e6 * found[name].median:.1f}" for name in calls]
    return [
        f"{node.operator} {'x'.join(map(str, node.shape))} axis={node.axis}",
        *times,
        f"{times_faster(found['model'], found['function']):.2f}",
        f"{times_faster(found['model'], found['onnxruntime']):.2f}",
        f"{times_faster(found['inside'], found['onnxruntime']):.2f}",
    ]


def main() -> None:
    asked = argparse.ArgumentParser("python -m benchmarks.models", description=__doc__)
    asked.add_argument("--quick", action="store_true", help="fewer rounds")
    asked.add_argument("--threads", type=int, default=cores(), help="for everybody; all cores if not given")
    given = asked.parse_args()
    fw.set_num_threads(given.threads)
    effort = QUICK if given.quick else FULL
    print(f"{processor()}, {given.threads} thread(s), onnxruntime {onnxruntime.__version__}; microseconds per call\n")
    header = [
        "one node of float32", "model.run", "array function", "onnxruntime", "foldwise in onnxruntime",
        "model / function", "model / onnxruntime", "inside / onnxruntime",
    ]  # fmt: skip
    print(markdown(header, [row(node, effort, given.threads) for node in NODES]))


if __name__ == "__main__":
    main()
