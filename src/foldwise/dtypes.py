"""The one table of dtypes: what the two standards call each, and which kernel column reads it as it lies."""

from math import inf
from typing import Any, Final, Literal, NamedTuple


class Dtype(NamedTuple):
    """A dtype, by its name in NumPy (ml_dtypes for bfloat16)."""

    name: str
    onnx: str
    ir: str
    kind: str
    """b: boolean, i: signed, u: unsigned, f: floating."""
    size: int
    column: str
    """The kernel column that folds it; a column of another name converts it in cache, block by block."""
    code: int

    def __reduce__(self) -> tuple[Any, ...]:
        """What comes from another process is the one of this table: dtypes are told apart by identity."""
        return _known, (self.name,)


def _known(name: str) -> Dtype:
    return BY_NAME[name]


_ROWS = [
    # name      ONNX        OpenVINO   kind size column
    ("bool", "bool", "boolean", "b", 1, "int64"),
    ("int8", "int8", "i8", "i", 1, "int64"),
    ("int16", "int16", "i16", "i", 2, "int64"),
    ("int32", "int32", "i32", "i", 4, "int32"),
    ("int64", "int64", "i64", "i", 8, "int64"),
    ("uint8", "uint8", "u8", "u", 1, "int64"),
    ("uint16", "uint16", "u16", "u", 2, "int64"),
    ("uint32", "uint32", "u32", "u", 4, "int64"),
    ("uint64", "uint64", "u64", "u", 8, "int64"),
    ("float16", "float16", "f16", "f", 2, "float16"),
    ("bfloat16", "bfloat16", "bf16", "f", 2, "bfloat16"),
    ("float32", "float", "f32", "f", 4, "float32"),
    ("float64", "double", "f64", "f", 8, "float64"),
]

TABLE: Final = tuple(Dtype(*row, code) for code, row in enumerate(_ROWS))
BY_NAME: Final = {dtype.name: dtype for dtype in TABLE}
COLUMNS: Final = (
    *("float16", "bfloat16", "float32", "float64"),
    *("int32", "int64", "uint64", "uint8", "int8", "int16", "uint16"),
)
"""The kernel columns, in the order of the native table."""


def accumulated(dtype: Dtype) -> Dtype:
    """What a sum or product of this dtype comes out as when nobody says: NumPy's and the Array API's rule."""
    if dtype.kind == "f" or dtype.size == 8:
        return dtype
    return BY_NAME["uint64" if dtype.kind == "u" else "int64"]


def same(dtype: Dtype) -> Dtype:
    """What a fold that chooses among its elements comes out as."""
    return dtype


def real(dtype: Dtype) -> Dtype:
    """What a mean, a root or a logarithm comes out as."""
    return dtype if dtype.kind == "f" else BY_NAME["float64"]


def truth(dtype: Dtype) -> Dtype:
    """What a question comes out as."""
    return BY_NAME["bool"]


def index(dtype: Dtype) -> Dtype:
    """What a place comes out as."""
    return BY_NAME["int64"]


def limits(dtype: Dtype) -> tuple[int, int] | tuple[float, float]:
    """The lowest and the highest value."""
    if dtype.kind == "f":
        return -inf, inf
    if dtype.kind == "b":
        return 0, 1
    bits = 8 * dtype.size
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)


Reading = Literal["bits", "signed", "narrow", "truths"]
"""What a fold sees of integers: their bits, which fold alike whatever the sign; the sign, too; that, and narrow ones as
they lie; or of any element whether it is zero, asked alike of integers of one size and of sixteen-bit floats."""


def column_for(source: Dtype, result: Dtype, reads: Reading = "bits") -> str:
    """The kernel column in which `source` is folded into `result`: nothing is rounded before the fold."""
    if reads == "truths" and source.kind != "f":
        return {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}[source.size]
    if reads == "truths":
        return "float16" if source.size == 2 else source.column
    if source.size <= 2 and reads == "narrow" and source is result and source.kind != "f":
        return "uint8" if source.kind == "b" else source.name
    if source.name == "uint32" and reads == "bits" and result.kind != "f" and result.size <= source.size:
        return "int32"
    if result.kind != "f" or (source.kind == "f" and result.size <= max(source.size, 4)):
        return "uint64" if source.name == "uint64" and reads in ("signed", "narrow") else source.column
    return "float64"


def exact_column_for(source: Dtype, kernel: str) -> str:
    """The column that a native exact fold reads `source` in: what has none is widened, which rounds nothing."""
    if source.kind != "f":
        return "float64"
    return source.column if source.size > 2 or kernel == "exact_sum" else "float32"


def judged_column_for(source: Dtype, start: float = 0) -> str:
    """The column that folds integers by their exact value, and what the fold starts from."""
    return "int64" if source.kind == "i" or (source.size < 8 and start < 0) else "uint64"
