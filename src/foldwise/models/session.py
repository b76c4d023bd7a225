"""Running a model: what is given is held against what the model says, then its plan is followed."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from foldwise import dtypes
from foldwise.arguments import as_array
from foldwise.errors import ArgumentError, DtypeError, EngineError, ModelError, OptionError, ShapeError
from foldwise.operators.call import shape_text
from foldwise.scale import home, within

from .arithmetic import numpy_of
from .graph import Array, Program, Value
from .limits import Limits
from .plan import Observer, Planner, StepReport

__all__ = ["Session", "StepReport"]


ENGINES: Final = {"onnxruntime": "onnxruntime", "reference": "onnx"}
"""The engines by name, and the package that each comes with."""


def check_engine(engine: str | None) -> None:
    """Refuse an engine that there is not."""
    if engine is None:
        return
    known = " and ".join(f'"{name}"' for name in ENGINES)
    if not isinstance(engine, str) or engine not in ENGINES:
        raise OptionError(f"run: engine = {engine!r}; accepted are {known}, or None for foldwise alone")
    if importlib.util.find_spec(ENGINES[engine]) is None:
        raise EngineError(
            f'run: engine = "{engine}" needs the package {ENGINES[engine]}: pip install {ENGINES[engine]}'
        )


class Session:
    """A program, planned for one engine."""

    def __init__(self, program: Program, engine: str | None, strict: bool, limits: Limits) -> None:
        check_engine(engine)
        graph = program.graph
        self.plan = Planner(program, engine, strict, limits).plan(graph)
        self._inputs = graph.inputs
        self._defaults = graph.constants
        self._output_names = [value.name for value in graph.outputs]
        self._names = [value.name for value in graph.inputs]
        self._fitting: list[set[Any]] = [set() for _ in graph.inputs]
        """The dtypes and shapes that each input was found to fit."""
        self._symbols = any(isinstance(n, str) for value in graph.inputs for n in value.shape or ())

    def run(
        self, inputs: Mapping[str, Any] | Sequence[Any], observe: Observer | None = None, budget: Any = None
    ) -> dict[str, Array]:
        """The outputs by name. Inputs that are not in memory are folded within a budget."""
        given, plan = self._in_order(inputs), self.plan
        if budget is not None or any(map(home, given)):
            given, plan = [within(budget, each) for each in given], plan.beyond_memory()
        for i, each in enumerate(given):
            if type(each) is not np.ndarray or (each.dtype, each.shape) not in self._fitting[i]:
                given[i] = self._checked(i, each)
        if self._symbols:
            self._check_symbols(given)
        found = plan.run(given, observe)
        if not plan.all_fresh:
            found = _detached(found, given)
        return dict(zip(self._output_names, found, strict=True))

    def _in_order(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        if type(inputs) is dict and len(inputs) == len(self._names):
            try:
                return [inputs[name] for name in self._names]
            except KeyError:
                pass  # an alias, or a name that there is not
        elif type(inputs) is list and len(inputs) == len(self._names) and not self._defaults:
            return inputs.copy()
        if isinstance(inputs, Mapping):
            named = dict(inputs)
            given = []
            for value in self._inputs:
                name = next((each for each in (value.name, *value.aliases) if each in named), None)
                given.append(None if name is None else named.pop(name))
            if named:
                raise ModelError(self._unknown(next(iter(named))))
        elif isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes):
            needed = [i for i, value in enumerate(self._inputs) if value.name not in self._defaults]
            if len(inputs) > len(needed):
                raise ModelError(f"run: {len(inputs)} inputs were given; the model takes {self._accepted()}")
            given = [None] * len(self._inputs)
            for i, each in zip(needed, inputs, strict=False):
                given[i] = each
        else:
            raise ArgumentError(
                f"run: inputs is of type {type(inputs).__name__}; give a dict by name, or a list: {self._accepted()}"
            )
        for value, each in zip(self._inputs, given, strict=True):
            if each is None and value.name not in self._defaults:
                raise ModelError(f"run: input '{value.name}' is missing; the model takes {self._accepted()}")
        return given

    def _accepted(self) -> str:
        return "; ".join(str(value) for value in self._inputs if value.name not in self._defaults) or "no input"

    def _unknown(self, name: Any) -> str:
        folded = {value.name.lower(): value.name for value in self._inputs}
        near = difflib.get_close_matches(str(name).lower(), folded, 1)
        hint = f" (did you mean '{folded[near[0]]}'?)" if near else ""
        return f"run: the model has no input {name!r}{hint}; it takes {self._accepted()}"

    def _checked(self, place: int, given: Any) -> Any:
        """One input as an array of the dtype and shape that the model states."""
        value = self._inputs[place]
        if given is None and value.name not in self._defaults:
            raise ModelError(f"run: input '{value.name}' is missing; the model takes {self._accepted()}")
        if given is None or not value.tensor:
            return given
        array = given if home(given) else self._array(value, given)
        if value.dtype in dtypes.BY_NAME and array.dtype.name != value.dtype:
            raise DtypeError(
                f"run: input '{value.name}' must be {value.dtype}, got {array.dtype} of shape {array.shape}; "
                f"give x.astype({value.dtype!r})"
            )
        if value.shape is not None and not _fits(value.shape, array.shape):
            raise ShapeError(
                f"run: input '{value.name}' must have shape {shape_text(value.shape)}, got {array.dtype} of shape "
                f"{array.shape}"
            )
        if home(given):
            return given
        if not array.dtype.isnative:
            return array.astype(array.dtype.newbyteorder("="))
        if len(self._fitting[place]) < 64:
            self._fitting[place].add((array.dtype, array.shape))
        return array

    def _array(self, value: Value, given: Any) -> Array:
        """Python's numbers and lists take the dtype that the model states, if they fit it."""
        if isinstance(given, bool | int | float | list | tuple) and value.dtype in dtypes.BY_NAME:
            wanted = numpy_of(value.dtype)
            array = as_array(f"run: input '{value.name}'", given)
            if array.dtype.kind in "biuf" and (array.size == 0 or wanted.kind != "b" or array.dtype.kind == "b"):
                with np.errstate(all="ignore"):
                    made = array.astype(wanted)
                if wanted.kind == "f" or wanted.name == "bfloat16" or np.array_equal(made, array):
                    return made
            return array
        return as_array(f"run: input '{value.name}'", given) if not isinstance(given, np.ndarray) else given

    def _check_symbols(self, values: Sequence[Any]) -> None:
        """A length with a name is the same wherever the name is."""
        lengths: dict[str, tuple[int, str]] = {}
        for value, array in zip(self._inputs, values, strict=True):
            for name, length in zip(value.shape or (), getattr(array, "shape", ()), strict=False):
                if not isinstance(name, str):
                    continue
                first, where = lengths.setdefault(name, (length, value.name))
                if first != length:
                    raise ShapeError(
                        f"run: the length '{name}' is {first} in input '{where}' and {length} in input '{value.name}'; "
                        f"it must be one"
                    )


def _detached(outputs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Outputs that are nobody else's: no part of an input, of a constant, or of each other."""
    taken = {id(_root(each)) for each in inputs if each is not None}
    found = []
    for made in outputs:
        if isinstance(made, np.ndarray):
            root = _root(made)
            if id(root) in taken or not made.flags.writeable:
                made = made.copy()
            taken.add(id(root))
        found.append(made)
    return found


def _root(array: Any) -> Any:
    """The array that owns the memory."""
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return array


def _fits(stated: Sequence[Any], shape: tuple[int, ...]) -> bool:
    if len(stated) != len(shape):
        return False
    return all(not isinstance(n, int) or n == length for n, length in zip(stated, shape, strict=True))
