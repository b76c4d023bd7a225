"""What other runtimes get wrong or lack for the operators here: a table, each row with the releases that have it."""

from typing import Final

from . import onnxruntime, openvino, pytorch, reference
from .row import Row, Runtime

RUNTIMES: Final[dict[str, Runtime]] = {
    each.name: each for each in (onnxruntime.ONNXRUNTIME, openvino.OPENVINO, reference.REFERENCE, pytorch.PYTORCH)
}
ROWS: Final[tuple[Row, ...]] = (*onnxruntime.ROWS, *openvino.ROWS, *reference.ROWS, *pytorch.ROWS)

__all__ = ["ROWS", "RUNTIMES", "Row", "Runtime"]
