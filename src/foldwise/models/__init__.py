"""Whole models, from .onnx and .xml files: load, check, audit, run, convert, save."""

from .audit import Audit, audit
from .convert import convert
from .limits import Limits
from .model import Model, load

__all__ = ["Audit", "Limits", "Model", "audit", "convert", "load"]
