"""What a model is given: `name=x.npy`, `name=random:float32:3,4`, `name=[1, 2]`, made the arrays that they mean."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from foldwise import dtypes
from foldwise.arguments import NUMPY, Array
from foldwise.npy import SUFFIX
from foldwise.operators.call import shape_text

from .files import UsageError, read_array

if TYPE_CHECKING:
    from foldwise.models import Model
    from foldwise.models.graph import Value

MODEL_FILE: Final = "an .onnx file, or the .xml of an OpenVINO model"
FORMS: Final = """\
what --input takes, with or without name= before it:
  x.npy                  an array from a file; x.npz:member; - for standard input
  random:float32:3,4     normally distributed floats, integers from -9 to 9, or bools
  zeros:int64:3          zeros; ones: likewise
  3.5  [1, 2]  true      a value, written as in JSON
A dtype or shape may be left out where the model states it, as in name=random.
"""
_LARGEST: Final = 9
"""Random integers are no larger."""


def given(model: Model, words: Sequence[str], seed: int) -> dict[str, Any]:
    """What each input of a model is; all must be given but those with a default, and one may come without its name."""
    values = model.graph.inputs
    named, nameless = _named(values, words)
    missing = [value for value in model.inputs if value.name not in named]
    if len(nameless) == 1 and len(missing) == 1:
        named[missing.pop().name] = nameless.pop()
    if nameless:
        listed = ", ".join(value.name for value in missing or values)
        choice = f"name it, as in --input {(missing or values)[0].name}={nameless[0]}" if values else "leave it out"
        raise UsageError(
            f"--input {nameless[0]} is for which of the inputs? {choice} (inputs{' without one' if missing else ''}: "
            f"{listed or 'none'})"
        )
    if missing:
        listed = "; ".join(map(str, missing))
        examples = " ".join(f"--input {shlex.quote(example(value))}" for value in missing)
        raise UsageError(f"there is no value for {listed}. Add, for example, {examples}")
    return {
        value.name: made(value, named[value.name], np.random.default_rng((seed, k)))
        for k, value in enumerate(values)
        if value.name in named
    }


def _named(values: Sequence[Value], words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """What is given by an input's name or by another name of it, and what by none."""
    names = {alias: value.name for value in values for alias in value.aliases}
    names |= {value.name: value.name for value in values}
    named: dict[str, str] = {}
    nameless = []
    for word in words:
        # A name may hold an equals sign itself.
        known = max((name for name in names if word.startswith(f"{name}=")), key=len, default=None)
        if known is None:
            asked, equals, _ = word.partition("=")
            if equals and not os.path.exists(word):
                listed = ", ".join(value.name for value in values) or "none"
                raise UsageError(f"the model has no input {asked!r}; its inputs: {listed}")
            nameless.append(word)
        elif names[known] in named:
            raise UsageError(f"input {names[known]!r} is given twice")
        else:
            named[names[known]] = word.removeprefix(f"{known}=")
    return named, nameless


def example(value: Value) -> str:
    """Something that could be given for an input."""
    dtype = dtypes.BY_NAME.get(value.dtype or "")
    if dtype is None or value.shape is None:
        return f"{value.name}=x{SUFFIX}"
    if not value.shape:
        return f"{value.name}=0"
    # Integers may be axes or places: 0 is one, whatever the others are.
    kind = "random" if dtype.kind == "f" else "zeros"
    lengths = ",".join(str(length) if isinstance(length, int) else "1" for length in value.shape)
    return f"{value.name}={kind}:{dtype.name}:{lengths}"


# ---- one input


def made(value: Value, text: str, generator: np.random.Generator) -> Any:
    """The array, number or list that a word means, for one input."""
    kind, *rest = text.split(":")
    if kind in _MAKERS:
        dtype, shape = _dtype_and_shape(value, text, rest)
        try:
            return _MAKERS[kind](generator, dtype, shape)
        except ValueError as error:
            raise UsageError(f"input {value.name!r}: there can be no such array as {text} ({error})") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return read_array(text)
    try:
        numbers = np.asarray(data).dtype.kind in "biuf"
    except ValueError:  # lists of different lengths
        numbers = False
    if not numbers:
        raise UsageError(f"input {value.name!r}: {text} is no number and no even list of numbers")
    return data


def _dtype_and_shape(value: Value, text: str, words: Sequence[str]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """What `random:DTYPE:SHAPE` says, or the model where it says nothing."""
    dtype = shape = None
    for word in words:
        if word in dtypes.BY_NAME and dtype is None and shape is None:
            dtype = word
        elif re.fullmatch(r"(\d{1,18}(,\d{1,18})*,?)?", word) and shape is None:
            shape = tuple(int(length) for length in word.split(",") if length)
        else:
            raise UsageError(
                f"input {value.name!r}: {word!r} in {text} is neither a shape, as in 3,4, nor a dtype (accepted: "
                f"{', '.join(dtypes.BY_NAME)})"
            )
    if dtype is None:
        dtype = value.dtype
    if dtype not in dtypes.BY_NAME:
        raise UsageError(f"input {value.name!r}: say which dtype, as in {words_for(text, 'float32', shape)}")
    if shape is None:
        lengths = value.shape
        if lengths is None or not all(isinstance(length, int) for length in lengths):
            stated = "" if lengths is None else f"; the model states {shape_text(lengths)}"
            raise UsageError(f"input {value.name!r}: say which shape, as in {words_for(text, dtype, (3, 4))}{stated}")
        shape = tuple(int(length) for length in lengths if isinstance(length, int))
    return NUMPY[dtypes.BY_NAME[dtype].code], shape


def words_for(text: str, dtype: str, shape: tuple[int, ...] | None) -> str:
    """The same with a dtype and, where there is one, a shape."""
    lengths = "" if shape is None else ":" + ",".join(map(str, shape))
    return f"{text.split(':')[0]}:{dtype}{lengths}"


def _random(generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    kind = dtypes.BY_NAME[dtype.name].kind
    if kind == "b":
        return generator.integers(0, 2, shape, np.uint8).view(np.bool_)
    if kind == "f":
        drawn = generator.standard_normal(shape, np.float64 if dtype == np.float64 else np.float32)
        return np.asarray(drawn).astype(dtype, copy=False)
    least = -_LARGEST if kind == "i" else 0
    return np.asarray(generator.integers(least, _LARGEST, shape, dtype, endpoint=True))


_MAKERS: Final[dict[str, Callable[[np.random.Generator, np.dtype[Any], tuple[int, ...]], Array]]] = {
    "random": _random,
    "zeros": lambda _, dtype, shape: np.zeros(shape, dtype),
    "ones": lambda _, dtype, shape: np.ones(shape, dtype),
}
