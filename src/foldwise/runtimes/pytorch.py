"""What PyTorch's exporter to ONNX gets wrong or lacks."""

from typing import Final

from .row import Example, Release, Row, Runtime, Where

PYTORCH: Final = Runtime(
    "pytorch",
    "PyTorch's export",
    "torch",
    ("onnx",),
    (Release("2.0.1", reported=True), Release("2.13.0")),
    runs_models=False,
)

ROWS: Final = (
    Row(
        "pytorch-axes-attribute",
        "pytorch",
        "fails to load",
        (Where(("reduce",), marks=("axes as an attribute",)),),
        "At opset 18 the exporter wrote axes as an attribute: onnxruntime refuses them, OpenVINO folds everything.",
        "Make them an input.",
        Example("reduce", "mean", 18, "float32", (2, 3), (1, 2, 3), (1,), form="attribute"),
        repair="plain",
        until="2.13",
        sources=("pytorch#97344", "pytorch#104190", "pytorch#130424"),
    ),
    Row(
        "pytorch-early-noop",
        "pytorch",
        "fails to load",
        (Where(("reduce",), marks=("noop too early",)),),
        "Below opset 18 the exporter, through onnx's version converter, leaves noop_with_empty_axes on nodes that do "
        "not have it yet, and onnxruntime refuses the model.",
        "Take the attribute away.",
        Example("reduce", "mean", 17, "float32", (2, 3), (1, 2, 3), (1,), attributes=(("noop_with_empty_axes", 0),)),
        repair="plain",
        sources=("onnx#5290",),
    ),
    Row(
        "pytorch-no-cumprod",
        "pytorch",
        "fails to export",
        (Where(("scan",), ("prod",)),),
        "torch.cumprod is not exported, so no such node comes from it.",
        "Write the node into the model after the export.",
        Example("scan", "prod", 26, "float32", (2, 3), (1, 2, 3), (1,), ir=13),
        level="note",
        sources=("pytorch#102948",),
    ),
)
