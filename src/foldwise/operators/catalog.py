"""Every reduction and scan operator of ONNX and OpenVINO, each version as its changes on the family's base."""

from __future__ import annotations

from typing import Final

from .schema import Attribute, Base, Catalog, Change, Dialect, Empty, Entry, Input, Output, TypeConstraint, in_order

INFINITY: Final = float("inf")
NAN: Final = float("nan")

# ---- dtypes that the versions name together

WORDS: Final = ("int32", "int64", "uint32", "uint64")
FLOATS: Final = ("float16", "float32", "float64")
INTEGERS: Final = in_order({"int8", "int16", "uint8", "uint16", *WORDS})
NUMBERS: Final = in_order({"bfloat16", *FLOATS, *INTEGERS})

# ---- what ONNX versions change

STATED_RANGE: Final = Change(note="the range of axes is stated, -r..r-1; it holds in every version here")
BFLOAT16: Final = Change(gains=("bfloat16",))
HALVES: Final = Change(gains=("float16", "bfloat16"))
BYTES: Final = Change(gains=("int8", "uint8"))
BOOL: Final = Change(gains=("bool",), note="False is less than True")
FLOATS_ONLY: Final = Change(loses=WORDS)
AXES_INPUT: Final = Change(
    removes=("axes",),
    inputs=(Input("axes", "int64", "the axes to fold, each once, -r..r-1; absent or empty: all of them", True, (1,)),),
    attributes=(
        Attribute("noop_with_empty_axes", "flag", 0, "whether absent or empty axes fold nothing, not everything"),
    ),
)
LAST_INDEX: Final = Change(
    attributes=(Attribute("select_last_index", "flag", 0, "whether the last of equal extremes counts, not the first"),)
)

REDUCTION: Final = {1: (), 11: (STATED_RANGE,), 13: (BFLOAT16,), 18: (AXES_INPUT,)}
EXTREME: Final = REDUCTION | {12: (BYTES,), 20: (BOOL,)}
LOGARITHM: Final = REDUCTION | {28: (FLOATS_ONLY,)}

# ---- the families

DATA: Final = Input("data", "T", "the tensor to fold, of any rank")
REDUCED: Final = Output("reduced", "T", "one value for each place on the kept axes")
SCANNED: Final = Output("y", "T", "every step, in the shape of x")
KEEPDIMS: Final = Attribute("keepdims", "flag", 1, "whether folded axes stay, with length 1")
SCAN_FLAGS: Final = (
    Attribute("exclusive", "flag", 0, "whether each element is left out of its own step, the first of none"),
    Attribute("reverse", "flag", 0, "whether to go from the end of the axis to its beginning"),
)

ONNX_REDUCTION: Final = Base(
    dialect="onnx",
    kind="reduce",
    inputs=(DATA,),
    output=REDUCED,
    attributes=(
        Attribute("axes", "ints", None, "the axes to fold, each once, -r..r-1; absent or empty: all of them"),
        KEEPDIMS,
    ),
    types=(TypeConstraint("T", in_order({*FLOATS, *WORDS}), "what data and reduced hold"),),
)
ONNX_INDEX: Final = Base(
    dialect="onnx",
    kind="arg",
    inputs=(Input("data", "T", "the tensor to search, of rank 1 or more"),),
    output=Output("reduced", "int64", "the position along the axis, for each place on the other axes"),
    attributes=(Attribute("axis", "int", 0, "the one axis to search, -r..r-1"), KEEPDIMS),
    types=(TypeConstraint("T", in_order({*FLOATS, *INTEGERS}), "what data holds"),),
)
ONNX_SCAN: Final = Base(
    dialect="onnx",
    kind="scan",
    inputs=(
        Input("x", "T", "the tensor to scan, of rank 1 or more"),
        Input("axis", "T2", "the one axis to scan, a 0-D tensor, -r..r-1", ranks=(0,)),
    ),
    output=SCANNED,
    attributes=SCAN_FLAGS,
    types=(
        TypeConstraint("T", in_order({"float32", "float64", *WORDS}), "what x and y hold"),
        TypeConstraint("T2", ("int32", "int64"), "what axis holds"),
    ),
)
OPENVINO_REDUCTION: Final = Base(
    dialect="openvino",
    kind="reduce",
    inputs=(
        DATA,
        Input("axes", "T_IND", "the axes to fold, a scalar or 1-D, each once, -r..r-1; empty: none", ranks=(0, 1)),
    ),
    output=REDUCED,
    attributes=(KEEPDIMS._replace(name="keep_dims", type="boolean", default=0, role="keepdims"),),
    types=(
        TypeConstraint("T", NUMBERS, "what data and reduced hold"),
        TypeConstraint("T_IND", INTEGERS, "what axes holds"),
    ),
    empty_axes="none",
)
OPENVINO_LOGICAL: Final = Base(
    dialect="openvino",
    kind="reduce",
    inputs=OPENVINO_REDUCTION.inputs,
    output=REDUCED,
    attributes=OPENVINO_REDUCTION.attributes,
    types=(TypeConstraint("T", ("bool",), "what data and reduced hold"), OPENVINO_REDUCTION.types[1]),
    empty_axes="none",
)
OPENVINO_SCAN: Final = Base(
    dialect="openvino",
    kind="scan",
    inputs=(
        Input("data", "T", "the tensor to scan, of rank 1 or more"),
        Input("axis", "T_AXIS", "the one axis to scan, a scalar, -r..r-1; absent: 0", True, (0,), 0),
    ),
    output=Output("y", "T", "every step, in the shape of data"),
    attributes=tuple(flag._replace(type="boolean") for flag in SCAN_FLAGS),
    types=(
        TypeConstraint("T", NUMBERS, "what data and y hold"),
        TypeConstraint("T_AXIS", ("int32", "int64"), "what axis holds"),
    ),
)

# ---- what several operators say of themselves

WRAPS: Final = "Integers are exact; a result beyond the dtype is taken modulo 2^n."
ROUNDS_ONCE: Final = "Floats of 16 bits are accumulated in float32 or wider, and rounded once."
NAN_SPREADS: Final = "NaN anywhere gives NaN."
NAN_WINS: Final = "NaN anywhere gives NaN, wherever it lies."
TRUNCATES: Final = (
    "Of integers: computed in float64, cut toward zero, taken modulo 2^n; refused if not finite."
)
POSITIONS: Final = (
    "NaN counts as the extreme.",
    "0.0 and -0.0 are equal.",
    "An axis of length 0 is refused: no position exists.",
    "Rank 0 is refused: no axis exists.",
)
STEPS: Final = (
    "Inclusive, the first step is the first element; exclusive, it is the identity.",
    "NaN and infinities spread from their place onwards.",
    ROUNDS_ONCE,
    "Rank 0 is refused: no axis exists.",
    "An axis tensor of shape (1,) is refused, save with lenient=True.",
)

SUM: Final = Entry(
    "ReduceSum",
    "sum",
    ONNX_REDUCTION,
    {1: (), 11: (STATED_RANGE,), 13: (BFLOAT16, AXES_INPUT)},
    "Adds up the elements.",
    "x1 + x2 + ... + xn",
    Empty(0, 0),
    notes=(NAN_SPREADS, "inf + -inf is NaN.", ROUNDS_ONCE),
    integer_notes=(WRAPS,),
)
PROD: Final = Entry(
    "ReduceProd",
    "prod",
    ONNX_REDUCTION,
    REDUCTION,
    "Multiplies the elements.",
    "x1 * x2 * ... * xn",
    Empty(1, 1),
    notes=(NAN_SPREADS, "inf * 0 is NaN.", "Nothing overflows or underflows on the way.", ROUNDS_ONCE),
    integer_notes=(WRAPS,),
)
MEAN: Final = Entry(
    "ReduceMean",
    "mean",
    ONNX_REDUCTION,
    REDUCTION,
    "Averages the elements.",
    "(x1 + x2 + ... + xn) / n",
    Empty(NAN, None),
    notes=(NAN_SPREADS, ROUNDS_ONCE),
    integer_notes=("Of integers: the exact sum, divided and cut toward zero.",),
)
MAX: Final = Entry(
    "ReduceMax",
    "max",
    ONNX_REDUCTION,
    EXTREME,
    "Finds the largest element.",
    "max(x1, x2, ..., xn)",
    Empty("lowest", "lowest", False),
    notes=(NAN_WINS, "Which of 0.0 and -0.0 comes out is left open."),
)
MIN: Final = Entry(
    "ReduceMin",
    "min",
    ONNX_REDUCTION,
    EXTREME,
    "Finds the smallest element.",
    "min(x1, x2, ..., xn)",
    Empty("highest", "highest", True),
    notes=MAX.notes,
)
L1: Final = Entry(
    "ReduceL1",
    "l1",
    ONNX_REDUCTION,
    REDUCTION,
    "Adds up the absolute values.",
    "|x1| + |x2| + ... + |xn|",
    Empty(0, 0),
    alone="|x|",
    notes=(NAN_SPREADS, ROUNDS_ONCE),
    integer_notes=(WRAPS, "So the lowest integer is its own absolute value."),
)
L2: Final = Entry(
    "ReduceL2",
    "l2",
    ONNX_REDUCTION,
    REDUCTION,
    "Takes the square root of the sum of squares.",
    "sqrt(x1^2 + x2^2 + ... + xn^2)",
    Empty(0, 0),
    alone="|x|",
    notes=(NAN_SPREADS, "float64 stays float64 throughout.", ROUNDS_ONCE),
    integer_notes=("Of integers: the exact root, cut to an integer.",),
)
LOG_SUM: Final = Entry(
    "ReduceLogSum",
    "logsum",
    ONNX_REDUCTION,
    LOGARITHM,
    "Takes the natural logarithm of the sum.",
    "log(x1 + x2 + ... + xn)",
    Empty(-INFINITY, None),
    alone="log x",
    notes=(NAN_SPREADS, "A sum of 0 gives -inf, a negative sum NaN.", ROUNDS_ONCE),
    integer_notes=(TRUNCATES,),
)
LOG_SUM_EXP: Final = Entry(
    "ReduceLogSumExp",
    "logsumexp",
    ONNX_REDUCTION,
    LOGARITHM,
    "Takes the natural logarithm of the sum of exponentials.",
    "log(e^x1 + e^x2 + ... + e^xn)",
    Empty(-INFINITY, None),
    notes=(
        "Shifted by the largest element, so that large elements do not overflow.",
        NAN_SPREADS,
        "inf among the elements gives inf; -inf adds nothing, and alone gives -inf.",
        ROUNDS_ONCE,
    ),
    integer_notes=(TRUNCATES,),
)
SUM_SQUARE: Final = Entry(
    "ReduceSumSquare",
    "sumsquare",
    ONNX_REDUCTION,
    REDUCTION,
    "Adds up the squares.",
    "x1^2 + x2^2 + ... + xn^2",
    Empty(0, 0),
    alone="x^2",
    notes=(NAN_SPREADS, ROUNDS_ONCE),
    integer_notes=(WRAPS,),  # in T, never wider
)
ARG_VERSIONS: Final = {1: (), 11: (STATED_RANGE,), 12: (LAST_INDEX,), 13: (BFLOAT16,)}

ENTRIES: Final = (
    SUM, PROD, MEAN, MAX, MIN, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE,
    Entry(
        "ArgMax", "argmax", ONNX_INDEX, ARG_VERSIONS,
        "Finds where the largest element is.", "the least k with xk = max(x)", Empty(None, None), notes=POSITIONS,
    ),
    Entry(
        "ArgMin", "argmin", ONNX_INDEX, ARG_VERSIONS,
        "Finds where the smallest element is.", "the least k with xk = min(x)", Empty(None, None), notes=POSITIONS,
    ),
    Entry(
        "CumSum", "sum", ONNX_SCAN, {11: (), 14: (HALVES,)},
        "Keeps every step of a sum along an axis.", "yk = x1 + ... + xk", notes=STEPS, integer_notes=(WRAPS,),
    ),
    Entry(
        "CumProd", "prod", ONNX_SCAN, {26: (HALVES,)},
        "Keeps every step of a product along an axis.", "yk = x1 * ... * xk", notes=STEPS, integer_notes=(WRAPS,),
    ),
    SUM.under(OPENVINO_REDUCTION, 1),
    PROD.under(OPENVINO_REDUCTION, 1),
    MEAN.under(OPENVINO_REDUCTION, 1, Empty(0, 0)),
    MAX.under(OPENVINO_REDUCTION, 1),
    MIN.under(OPENVINO_REDUCTION, 1),
    L1.under(OPENVINO_REDUCTION, 4),
    L2.under(OPENVINO_REDUCTION, 4),
    Entry(
        "ReduceLogicalAnd", "all", OPENVINO_LOGICAL, {1: ()},
        "Says whether every element is true.", "x1 and x2 and ... and xn", Empty(None, None, True),
    ),
    Entry(
        "ReduceLogicalOr", "any", OPENVINO_LOGICAL, {1: ()},
        "Says whether some element is true.", "x1 or x2 or ... or xn", Empty(None, None, False),
    ),
    Entry(
        "CumSum", "sum", OPENVINO_SCAN, {3: ()},
        "Keeps every step of a sum along an axis.", "yk = x1 + ... + xk", notes=STEPS, integer_notes=(WRAPS,),
    ),
)  # fmt: skip

CATALOG: Final = Catalog((Dialect("onnx", "ONNX", 28), Dialect("openvino", "OpenVINO", 17)), ENTRIES)
