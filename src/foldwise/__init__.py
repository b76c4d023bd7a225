"""foldwise: the reductions and scans of ONNX and OpenVINO, exact, fast, and the same bits everywhere."""

from .arrays import cumprod, cumsum, cumulative_prod, cumulative_sum, prod, sum
from .config import show_config
from .engine import __version__, get_num_threads, set_num_threads
from .errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    FoldwiseError,
    OptionError,
    OverflowedError,
    ShapeError,
)

__all__ = [
    "ArgumentError",
    "AxisError",
    "DtypeError",
    "FoldwiseError",
    "OptionError",
    "OverflowedError",
    "ShapeError",
    "__version__",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "get_num_threads",
    "prod",
    "set_num_threads",
    "show_config",
    "sum",
]
