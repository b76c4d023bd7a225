"""What the two standards say, as data: no array library, no onnx."""

from .catalog import CATALOG
from .schema import Schema

__all__ = ["CATALOG", "Schema"]
