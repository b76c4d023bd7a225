"""Whole models, from .onnx and .xml files: load, check, run, convert, save."""

from .convert import convert
from .limits import Limits
from .model import Model, load

__all__ = ["Limits", "Model", "convert", "load"]
