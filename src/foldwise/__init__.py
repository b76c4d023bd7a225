"""foldwise: the reductions and scans of ONNX and OpenVINO, exact, fast, and the same bits everywhere."""

import importlib as _importlib
import typing as _typing

from .arrays import (
    all,
    any,
    argmax,
    argmin,
    cummax,
    cummin,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    l1,
    l2,
    logcumsumexp,
    logsum,
    logsumexp,
    max,
    mean,
    min,
    prod,
    reduce_many,
    sum,
    sumsquare,
)
from .config import get_num_threads, set_num_threads, show_config
from .engine import __version__
from .errors import (
    ArgumentError,
    AxisError,
    BudgetError,
    ConversionError,
    DtypeError,
    EngineError,
    FoldwiseError,
    FoldwiseWarning,
    LimitError,
    ModelError,
    OptionError,
    OverflowedError,
    ShapeError,
    SourceError,
    StateError,
    UnknownOperatorError,
)
from .operation import operator, operators

if _typing.TYPE_CHECKING:
    from .accumulator import Accumulator
    from .differences import Difference, diff
    from .models.audit import Audit, audit
    from .models.convert import convert
    from .models.limits import Limits
    from .models.model import Model, load
    from .plugins import reference_ops
    from .report import SumReport, sum_report
    from .scale.sources import Source, open
else:
    _LATER = {
        "Accumulator": "accumulator",
        **dict.fromkeys(("Difference", "diff"), "differences"),
        **dict.fromkeys(("Audit", "Limits", "Model", "audit", "convert", "load"), "models"),
        "reference_ops": "plugins",
        **dict.fromkeys(("SumReport", "sum_report"), "report"),
        **dict.fromkeys(("Source", "open"), "scale.sources"),
    }

    def __getattr__(name: str) -> object:
        """What arrays do not need is imported when it is asked for."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(_importlib.import_module(f".{_LATER[name]}", __name__), name))


__all__ = [
    "Accumulator",
    "ArgumentError",
    "Audit",
    "AxisError",
    "BudgetError",
    "ConversionError",
    "Difference",
    "DtypeError",
    "EngineError",
    "FoldwiseError",
    "FoldwiseWarning",
    "LimitError",
    "Limits",
    "Model",
    "ModelError",
    "OptionError",
    "OverflowedError",
    "ShapeError",
    "Source",
    "SourceError",
    "StateError",
    "SumReport",
    "UnknownOperatorError",
    "__version__",
    "all",
    "any",
    "argmax",
    "argmin",
    "audit",
    "convert",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "get_num_threads",
    "l1",
    "l2",
    "load",
    "logcumsumexp",
    "logsum",
    "logsumexp",
    "max",
    "mean",
    "min",
    "open",
    "operator",
    "operators",
    "prod",
    "reduce_many",
    "reference_ops",
    "set_num_threads",
    "show_config",
    "sum",
    "sum_report",
    "sumsquare",
]
