"""What is told of an array: its dtype and shape, statistics, and its first elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

import foldwise
from foldwise import dtypes
from foldwise.arguments import Array

from .blocks import WIDEST_TEXT, Block, Code, Heading, Lines, columns

FEW: Final = 100
"""Arrays of so many elements are told in full."""
FIRST: Final = 10
"""How many elements of the others are shown, where they cannot be shown as a table."""


def described(array: Array) -> str:
    """Dtype and shape."""
    return f"{array.dtype} {array.shape}"


def statistics(array: Array) -> dict[str, Any]:
    """The least, the mean and the largest of what is no NaN; how many NaNs and infinities. Of numbers only."""
    if array.dtype.name not in dtypes.BY_NAME or not array.size:
        return {}
    names = ["min", "mean", "max"]
    found = foldwise.reduce_many(array, names)
    nans = infinities = 0
    if not (np.isfinite(found[0]) and np.isfinite(found[2])):
        numbers = ~np.isnan(array)
        nans, infinities = int(np.count_nonzero(~numbers)), int(np.count_nonzero(np.isinf(array)))
        if 0 < nans < array.size:
            found = foldwise.reduce_many(array, names, where=numbers)
    return {**dict(zip(names, found, strict=True)), "nans": nans, "infinities": infinities}


def summary(array: Array, name: str = "") -> Iterator[Block]:
    """An array as a few lines."""
    yield Heading(f"{name}: {described(array)}" if name else described(array))
    told = statistics(array)
    if array.size > 1 and told:
        words = {"nans": "NaN", "infinities": "inf"}
        yield Code("   ".join(f"{words.get(key, key)} {value!s}" for key, value in told.items()))
    yield Lines(tuple(f"  {line}" for line in elements(array).splitlines()))


def elements(array: Array) -> str:
    """The elements as NumPy prints them; of many in more than two dimensions the first ones, in C order."""
    width = min(columns(), WIDEST_TEXT) - 4
    if not array.ndim:
        return str(array[()])
    if array.size == 1:
        return np.array2string(array, floatmode="unique")
    if array.size <= FEW or array.ndim <= 2:
        return np.array2string(array, max_line_width=width, threshold=FEW, edgeitems=3 if array.ndim == 1 else 2)
    return np.array2string(array.flat[:FIRST], max_line_width=width)[:-1] + " ...]"


def as_data(array: Array) -> dict[str, Any]:
    """The same for programs; elements only where they are few."""
    data: dict[str, Any] = {"dtype": str(array.dtype), "shape": array.shape}
    told = {key: plain(np.asarray(value)) for key, value in statistics(array).items()}
    if told:
        data["statistics"] = told
    if array.size <= FEW:
        data["values"] = plain(array)
    return data


def plain(array: Array) -> Any:
    """An array as Python's numbers, or else as words, in lists as deep as its shape."""
    known = dtypes.BY_NAME.get(array.dtype.name)
    if known is None:
        return np.array([str(each) for each in array.flat], object).reshape(array.shape).tolist()
    return (array.astype(np.float64) if known.kind == "f" else array).tolist()
