"""The command line: `foldwise ops`, `foldwise sum x.npy`, `foldwise run model.onnx` and their like."""

from .commands import main

__all__ = ["main"]
