"""Models in another opset of ONNX or in the other dialect: every node converted, or all refusals at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from foldwise.errors import ArgumentError, EngineError, OptionError
from foldwise.operators import CATALOG

from .graph import Program
from .limits import Limits
from .model import DEFAULT, Model, load

TARGETS: Final = ("onnx", "openvino")
FIRST_COMPLETE: Final = 20
"""The oldest opset that says whatever OpenVINO's operators do: axes as inputs, extremes of bools."""


def convert(
    model: Any,
    opset: int | None = None,
    *,
    to: Literal["onnx", "openvino"] | None = None,
    exact: bool = True,
    verify: bool = False,
    limits: Limits = DEFAULT,
) -> Model:
    """The same model in another opset of ONNX, or in the other dialect; `save` writes it.

    `model` is a Model, or anything that `load` takes. Whatever would change what the model gives is refused: a
    ConversionError has all refusals, each with its node, the reason and the way out. With exact=False, operators that
    the target lacks may become steps that round on their way. `verify` runs both models on inputs of many kinds and
    compares the bits of what they give; it is off by default because it runs the model, however large it is.
    """
    given = model if isinstance(model, Model) else load(model, limits=limits)
    program = given.program
    target = _target(program, to, opset)
    opset = _opset(program, target, opset)
    try:
        made = _converted(program, target, opset, exact, given.limits)
    except ImportError as error:
        raise EngineError('convert: ONNX models need the package onnx: pip install "foldwise[onnx]"') from error
    found = Model(made, given.limits)
    if verify:
        from .verify import compare

        compare(given, found, exact)
    return found


def _target(program: Program, to: str | None, opset: int | None) -> Literal["onnx", "openvino"]:
    if to is None:
        return "onnx" if opset is not None else program.dialect
    if to == "onnx":
        return "onnx"
    if to == "openvino":
        if opset is not None:
            raise OptionError(
                f"convert: opset = {opset!r} is ONNX's, and an OpenVINO model has none; leave it out, "
                f'or ask for to="onnx"'
            )
        return "openvino"
    raise OptionError(f"convert: to = {to!r}; accepted are {' and '.join(repr(name) for name in TARGETS)}")


def _opset(program: Program, target: str, opset: int | None) -> int:
    if target == "openvino":
        return 0
    if opset is None:
        return program.opset() or FIRST_COMPLETE if program.dialect == "onnx" else FIRST_COMPLETE
    if isinstance(opset, bool) or not isinstance(opset, int | np.integer):
        raise ArgumentError(f"convert: opset is of type {type(opset).__name__}; give an int")
    newest = CATALOG.dialects["onnx"].newest_opset
    if not 1 <= opset <= newest:
        raise OptionError(f"convert: opset = {opset}; accepted are 1 to {newest}")
    return int(opset)


def _converted(program: Program, target: str, opset: int, exact: bool, limits: Limits) -> Program:
    """The program in the other form, or a ConversionError."""
    if program.dialect == "onnx" and target == "onnx":
        from .onnx_conversion import OnnxConversion

        return OnnxConversion(program, opset, exact, limits).program()
    if program.dialect == "onnx":
        from .openvino_conversion import ToOpenvino

        return ToOpenvino(program, exact, limits).program()
    if target == "onnx":
        from .from_openvino import FromOpenvino

        return FromOpenvino(program, opset, exact, limits).program()
    return replace(program)
