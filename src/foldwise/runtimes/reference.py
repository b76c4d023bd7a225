"""What onnx's reference evaluator gets wrong or lacks."""

from typing import Final

from .among import FLOATS, HALVES, INTEGERS, LOGS, LONG_SUM, RANGE, SUMS, of
from .row import Example, Release, Row, Runtime, Where

REFERENCE: Final = Runtime(
    "reference",
    "onnx's reference evaluator",
    "onnx",
    ("onnx",),
    (Release("1.18.0"), Release("1.20.0"), Release("1.21.0"), Release("1.23.2")),
)
INFINITY: Final = float("inf")

ROWS: Final = (
    Row(
        "reference-integer-logs",
        "reference",
        "fails to run",
        (Where(("reduce",), LOGS, dtypes=INTEGERS),),
        "Integers raise a TypeError, though versions before 28 take them.",
        "Cast to double before, and back after.",
        Example("reduce", "logsum", 18, "int64", (2, 2), (1, 20, 3, 4), (1,)),
        repair="through",
    ),
    Row(
        "reference-square-dtype",
        "reference",
        "differs",
        (Where(("reduce",), ("sumsquare",), dtypes=("int32", "uint32")),),
        "The result is of 64 bits where the operator gives 32.",
        "Write a product and a sum.",
        Example("reduce", "sumsquare", 18, "int32", (2, 2), (1, 2, 3, 4), (1,)),
        repair="steps",
    ),
    Row(
        "reference-infinite-logsumexp",
        "reference",
        "differs",
        (Where(("reduce",), ("logsumexp",), dtypes=FLOATS),),
        "An infinity as the largest element gives NaN.",
        "Clip infinities away before, or run it elsewhere.",
        Example("reduce", "logsumexp", 18, "float32", (1, 2), (-INFINITY, -INFINITY), (1,)),
        when="the largest element is infinite",
        level="note",
    ),
    Row(
        "reference-scalar-logsumexp",
        "reference",
        "fails to run",
        (Where(("reduce",), ("logsumexp",), marks=("rank 0",)),),
        "A tensor without axes raises an error.",
        "Write Identity: the logarithm of one exponential is the element.",
        Example("reduce", "logsumexp", 18, "float32", (), (2.5,)),
        repair="plain",
    ),
    Row(
        "reference-half-sum",
        "reference",
        "differs",
        (Where(("reduce", "scan"), SUMS, dtypes=HALVES),),
        "Floats of 16 bits are squared and added in 16 bits along most axes: sums of ones stop at 2048, or at 256 in "
        "bfloat16, and float16 squares overflow from 256 on.",
        "Cast to float before, and back after.",
        Example("reduce", "sum", 13, "bfloat16", (600, 1), (1,), (0,)),
        when="partial sums need more digits than the dtype has",
        level="warning",
        repair="through",
        repair_since="1.20",
        sources=("ml_dtypes#63",),
    ),
    of("reference", LONG_SUM),
    of("reference", RANGE),
    Row(
        "reference-integer-root",
        "reference",
        "differs",
        (Where(("reduce",), ("l2",), dtypes=INTEGERS),),
        "Squares and their sum wrap in the dtype before the root is taken.",
        "Cast to int64 before, and back after.",
        Example("reduce", "l2", 18, "int32", (1, 1), (46341,), (1,)),
        when="the sum of squares leaves the dtype",
        level="warning",
        repair="through",
    ),
    Row(
        "reference-repeated-axes",
        "reference",
        "fails to run",
        (Where(("reduce",), marks=("repeated axes",)),),
        "An axis named twice raises an error.",
        "Name each axis once.",
        Example("reduce", "sum", 13, "float32", (2, 3), (1, 2, 3), (1, 1)),
        repair="plain",
    ),
    Row(
        "reference-scan-axis",
        "reference",
        "fails to run",
        (Where(("scan",), marks=("axis as a list",)),),
        "An axis of shape (1,) raises an error.",
        "Make it a scalar.",
        Example("scan", "sum", 14, "float32", (2, 3), (1, 2, 3), (1,), form="list"),
        repair="plain",
        since="1.21",
    ),
    Row(
        "reference-no-cumprod",
        "reference",
        "fails to load",
        (Where(("scan",), ("prod",)),),
        "It does not know the operator yet.",
        "Take onnx 1.21 or later.",
        Example("scan", "prod", 26, "float32", (2, 3), (1, 2, 3), (1,), ir=13),
        until="1.21",
    ),
)
