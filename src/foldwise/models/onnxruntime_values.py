"""Arrays into onnxruntime's sessions and out of them, those of bfloat16 too: it knows the dtype, and NumPy does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

_BFLOAT16: Final = 16
"""ONNX's number for it."""
_BFLOAT16_TENSOR: Final = "tensor(bfloat16)"


def has_bfloat16(session: Any) -> bool:
    """Whether its inputs or outputs hold some, so that its own `run` does not take or give them."""
    return any(each.type == _BFLOAT16_TENSOR for each in (*session.get_inputs(), *session.get_outputs()))


def run(session: Any, names: Sequence[str] | None, given: Mapping[str, Any], options: Any = None) -> list[Any]:
    """What the session's own `run` gives, and arrays of `ml_dtypes.bfloat16` go in and come out."""
    values = {name: _value_of(array) for name, array in given.items()}
    return [_array_of(value) for value in session.run_with_ort_values(names, values, options)]


def _value_of(array: Any) -> Any:
    from onnxruntime import OrtValue  # which not everybody has

    if isinstance(array, OrtValue):
        return array
    array = np.asarray(array, order="C")
    if array.dtype != ml_dtypes.bfloat16:
        return OrtValue.ortvalue_from_numpy(array)
    return OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _BFLOAT16)


def _array_of(value: Any) -> Any:
    if value.data_type() != _BFLOAT16_TENSOR:
        return value.numpy()
    return np.array(_Bits(value)).view(ml_dtypes.bfloat16)


class _Bits:
    """A bfloat16 value's memory as NumPy reads it."""

    def __init__(self, value: Any) -> None:
        self.value = value  # keeps the memory
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(value.shape()),
            "typestr": "<u2",
            "data": (value.data_ptr(), True),
        }
