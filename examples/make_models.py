"""Makes the small models beside it, in both formats: blocks of real networks that live on reductions and scans.

    python examples/make_models.py [FOLDER]

Without a folder they go to examples/models, where they lie already; the result is the same to the byte.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx

import foldwise as fw
from foldwise.models.graph import Attribute, Graph, Node, Program, Value

HERE = Path(__file__).parent / "models"

ENCODER = """
<ir_version: 8, opset_import: ["" : 17], producer_name: "foldwise examples">
encoder_block (float[N, T, 8] x) => (float[N, T, 8] y)
  <float half = {0.5}, float one = {1.0}, float two = {2.0}, float tiny = {0.00001}, float root = {1.41421356},
   float scale = {0.35355339}>
{
  # layer normalisation, as exporters spell it out
  mean = ReduceMean<axes = [-1]>(x)
  centred = Sub(x, mean)
  squared = Pow(centred, two)
  variance = ReduceMean<axes = [-1]>(squared)
  shifted = Add(variance, tiny)
  spread = Sqrt(shifted)
  normal = Div(centred, spread)
  # attention of every place to every other; the softmax is spelled out, too
  q = MatMul(normal, wq)
  k = MatMul(normal, wk)
  v = MatMul(normal, wv)
  kt = Transpose<perm = [0, 2, 1]>(k)
  raw = MatMul(q, kt)
  scores = Mul(raw, scale)
  highest = ReduceMax<axes = [-1]>(scores)
  lowered = Sub(scores, highest)
  powers = Exp(lowered)
  minus_one = Constant<value_ints = [-1]>()
  total = ReduceSum(powers, minus_one)
  weights = Div(powers, total)
  mixed = MatMul(weights, v)
  added = Add(x, mixed)
  # GELU
  over = Div(added, root)
  bent = Erf(over)
  raised = Add(bent, one)
  gated = Mul(added, raised)
  y = Mul(gated, half)
}
"""

POOLING = """
<ir_version: 8, opset_import: ["" : 18], producer_name: "foldwise examples">
mean_pooling (float[N, T, D] embeddings, int64[N, T] mask) => (float[N, D] sentence, int64[N] words)
  <int64[1] places = {1}, int64[1] last = {-1}, float least = {0.000000001}>
{
  # the mean over the places that the mask keeps, scaled to length one
  real = Cast<to = 1>(mask)
  wide = Unsqueeze(real, last)
  kept = Mul(embeddings, wide)
  total = ReduceSum<keepdims = 0>(kept, places)
  count = ReduceSum<keepdims = 0>(wide, places)
  count_or_least = Clip(count, least)
  mean = Div(total, count_or_least)
  length = ReduceL2<keepdims = 1>(mean, last)
  sentence = Div(mean, length)
  words = ReduceSum<keepdims = 0>(mask, places)
}
"""

BEAM = """
<ir_version: 8, opset_import: ["" : 18], producer_name: "foldwise examples">
beam_step (float[B, V] logits, float[B] scores, int64[B, T] finished)
  => (int64[B] words, float[B] best, float[B, V] reached, int64[B, T] before)
  <int64[1] vocabulary = {-1}, int64 along = {-1}>
{
  # one step of a beam search: log-probabilities, the best word of each beam, its score
  norm = ReduceLogSumExp<keepdims = 1>(logits, vocabulary)
  logs = Sub(logits, norm)
  column = Unsqueeze(scores, vocabulary)
  all = Add(logs, column)
  words = ArgMax<axis = -1, keepdims = 0>(all)
  best = ReduceMax<keepdims = 0>(all, vocabulary)
  # the probability reached up to each word, and how many places of each beam were finished before each place
  chances = Exp(logs)
  reached = CumSum(chances, along)
  before = CumSum<exclusive = 1>(finished, along)
}
"""


def weights() -> dict[str, np.ndarray]:
    """Three matrices, the same in every run."""
    rows, columns = np.ogrid[1:9, 1:9]
    return {name: (np.sin(k * rows * columns) / 4).astype(np.float32) for k, name in enumerate(("wq", "wk", "wv"), 1)}


def parsed(text: str, constants: dict[str, np.ndarray] | None = None) -> fw.Model:
    """A model from onnx's own notation."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    proto = onnx.parser.parse_model("\n".join(lines))
    for name, array in (constants or {}).items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return fw.load(proto)


def running_share() -> fw.Model:
    """An OpenVINO model: what share of a row's total is reached at each place."""
    graph = Graph(
        "running_share",
        inputs=[Value("data", "float32", (None, 12))],
        outputs=[Value("share", "float32", (None, 12))],
        constants={"axis": np.array(1, np.int64), "rows": np.array([1], np.int64)},
        nodes=[
            Node("Abs", ["data"], ["sizes"], name="sizes", domain="opset1"),
            Node(
                "CumSum", ["sizes", "axis"], ["steps"], name="steps", domain="opset3",
                attributes={"exclusive": Attribute("string", "false"), "reverse": Attribute("string", "false")},
            ),
            Node(
                "ReduceSum", ["sizes", "rows"], ["total"], name="total", domain="opset1",
                attributes={"keep_dims": Attribute("string", "true")},
            ),
            Node("Divide", ["steps", "total"], ["share"], name="share", domain="opset1"),
        ],
    )  # fmt: skip
    return fw.Model(Program("openvino", graph, 11))


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, model in (
        ("encoder_block.onnx", parsed(ENCODER, weights())),
        ("mean_pooling.onnx", parsed(POOLING)),
        ("beam_step.onnx", parsed(BEAM)),
        ("running_share.xml", running_share()),
    ):
        model.save(folder / name)
        print(f"{name}\n{model}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
