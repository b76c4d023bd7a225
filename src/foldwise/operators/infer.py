"""The dtype and shape of a result, from as much as is known of the inputs.

A length is an int, a name that is carried through, or None. Sound before bold: what may differ is not said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from .call import (
    Shape,
    Tensor,
    checked_attributes,
    checked_inputs,
    folded_axes,
    folds_everything,
    named_axes,
    one_axis,
    scanned_axis,
)
from .schema import Schema

Length = TypeVar("Length")


class Inferred(NamedTuple):
    """What is known of a result; None where nothing is."""

    dtype: str | None
    shape: Shape | None


def infer(
    schema: Schema, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any], lenient: bool = False
) -> Inferred:
    """What a call gives. An axes input whose values are None is one that only running the model would tell."""
    options = checked_attributes(schema, attributes)
    tensors = [_with_values(each) for each in checked_inputs(schema, inputs)]
    data = tensors[0]
    assert data is not None
    dtype = data.dtype if schema.output.type == schema.data.type else schema.output.type
    if data.shape is None:
        return Inferred(dtype, None)
    rank = len(data.shape)
    if schema.kind == "scan":
        scanned_axis(schema, tensors[1], rank, lenient)
        return Inferred(dtype, data.shape)
    keepdims = bool(options["keepdims"])
    if schema.kind == "arg":
        return Inferred(dtype, without(data.shape, (one_axis(schema, "axis", options["axis"], rank),), keepdims))
    unknown = len(tensors) > 1 and tensors[1] is not None and tensors[1].values is None
    if unknown:
        return Inferred(dtype, _without_unknown(schema, tensors[1], options, data.shape))
    axes = folded_axes(schema, named_axes(tensors, options), options, rank, lenient)
    return Inferred(dtype, without(data.shape, axes, keepdims))


def without(shape: tuple[Length, ...], axes: Sequence[int], keepdims: bool) -> tuple[Length | int, ...]:
    """The shape after these axes are folded."""
    if keepdims:
        return tuple(1 if a in axes else n for a, n in enumerate(shape))
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def _with_values(tensor: Tensor | None) -> Tensor | None:
    """A tensor of no elements hides nothing."""
    if tensor is not None and tensor.values is None and tensor.shape is not None and 0 in tensor.shape:
        return Tensor(tensor.dtype, tensor.shape, ())
    return tensor


def _without_unknown(schema: Schema, axes: Tensor | None, options: Mapping[str, Any], shape: Shape) -> Shape | None:
    """What is sure when the axes are not known: with keepdims the rank, and with exactly one axis the rank less one."""
    assert axes is not None
    if options["keepdims"]:
        return (None,) * len(shape)
    if not shape and (axes.shape is None or None in axes.shape) and folds_everything(schema, options):
        return ()
    exactly_one = axes.shape is not None and axes.shape in ((), (1,))
    if not exactly_one:
        return None
    return (None,) * (len(shape) - 1) if shape else None
