"""Operators of the two standards as callables: one version each, with its own argument names, defaults and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import dtypes, engine, folds
from .arguments import NUMPY, as_array, flag
from .entrances import TOGETHER, entrance, many, place, reduce, scan
from .errors import ArgumentError, DtypeError, FoldwiseError, OverflowedError, ShapeError
from .operators import CATALOG, Schema
from .operators.call import Reduction, Request, Scanning, Search, Shape, Tensor, plain, request
from .operators.infer import Inferred, infer, without
from .operators.schema import Input

Array = NDArray[Any]
Run = TypeVar("Run", bound=Callable[..., Any])


def operator(
    name: str,
    version: int | None = None,
    *,
    opset: int | None = None,
    dialect: str | None = None,
    lenient: bool = False,
) -> Operator:
    """One version of an operator: by version, by a model's opset, by a name such as "onnx:ReduceSum-11", or the newest.

    `dialect` is "onnx" unless the name says otherwise. `lenient` lets pass, with a warning, what the specification
    forbids and runtimes accept: an axis named twice, and a scan's axis of shape (1,).
    """
    return Operator(CATALOG.find(name, version, opset, dialect), flag("operator", "lenient", lenient))


def operators() -> tuple[Schema, ...]:
    """Every version of every operator of both dialects."""
    return CATALOG.schemas


class Operator:
    """A callable version of an operator. Inputs go by place or by name, attributes by name."""

    __slots__ = ("_ready", "lenient", "schema")

    def __init__(self, schema: Schema, lenient: bool = False) -> None:
        self.schema = schema
        self.lenient = lenient
        self._ready: dict[Any, Callable[[Array], Array]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Operator, (self.schema, self.lenient)

    def __call__(self, *inputs: Any, **named: Any) -> Array:
        """The operator's one output."""
        key = call_key(inputs, named)
        run = self._ready.get(key)
        if run is not None:
            return run(inputs[0])
        arrays, tensors, attributes = self._read(inputs, named)
        if self.lenient and not strictly_right(self.schema, tensors, attributes):
            key = None  # so that it warns each time
        asked = request(self.schema, tensors, attributes, self.lenient)
        return remembered(self._ready, key, prepared(self.schema, asked, arrays[0]))(arrays[0])

    def _read(
        self, inputs: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[list[Any], list[Tensor | None], dict[str, Any]]:
        """The inputs as arrays, what they show, and the attributes."""
        given, attributes = self._sorted(inputs, named)
        arrays = [
            None if each is None else self._array(place, each)
            for place, each in zip(self.schema.inputs, given, strict=False)
        ]
        tensors = [
            None if array is None else tensor_of(array, i > 0 and array.ndim < 2) for i, array in enumerate(arrays)
        ]
        # Tensors beyond the schema's places are counted, not read.
        return arrays, [*tensors, *[None] * (len(given) - len(arrays))], attributes

    def infer(self, types: Sequence[Any], shapes: Sequence[Any], **named: Any) -> Inferred:
        """The result's dtype and shape, from the inputs' dtypes and shapes.

        A length is an int, a name that is carried through, or None; so is a dtype or a whole shape that is not
        known. Axes whose values are known go by name, as in a call: op.infer(["float32"], [("N", 3)], axes=[1]).
        """
        kinds, sizes = self._listed("types", types), self._listed("shapes", shapes)
        if len(kinds) != len(sizes):
            raise ArgumentError(
                f"{self.schema.label}: types lists {len(kinds)} and shapes {len(sizes)}; give one of each per input"
            )
        tensors = [
            Tensor(self._named_dtype(i, dtype), self._shape(i, shape))
            for i, (dtype, shape) in enumerate(zip(kinds, sizes, strict=True))
        ]
        given, attributes = self._sorted(tensors, named)
        places = [*self.schema.inputs, *[self.schema.data] * len(given)]
        described = [
            each if each is None or isinstance(each, Tensor) else tensor_of(self._array(place, each), True)
            for place, each in zip(places, given, strict=False)
        ]
        return infer(self.schema, described, attributes, self.lenient)

    def _sorted(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Inputs in their places, and attributes by name."""
        given, attributes = list(inputs), dict(named)
        for i, known in enumerate(self.schema.inputs):
            if known.name in attributes:
                if i < len(inputs):
                    raise ArgumentError(
                        f"{self.schema.label}: input '{known.name}' was given twice, by place and by name"
                    )
                given += [None] * (i + 1 - len(given))
                given[i] = attributes.pop(known.name)
        return given, attributes

    def _array(self, place: Input, value: Any) -> Array:
        array = as_array(f"{self.schema.label}: input '{place.name}'", value)
        # Of an empty list NumPy makes floats; where integers are wanted, it holds no float.
        return array.astype(np.int64) if isinstance(value, list | tuple) and not array.size and place.ranks else array

    def _listed(self, what: str, given: Any) -> list[Any]:
        """What is said of each input."""
        try:
            if isinstance(given, str):
                raise TypeError
            return list(given)
        except TypeError:
            raise ArgumentError(
                f"{self.schema.label}: {what} is of type {type(given).__name__}; give a list, one for each input"
            ) from None

    def _named_dtype(self, i: int, dtype: Any) -> str | None:
        if dtype is None:
            return None
        try:
            # To NumPy the word "float" is float64, to ONNX float32: words are those of the one table.
            name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        except (TypeError, ValueError, SyntaxError):
            name = ""
        if name in dtypes.BY_NAME or (name and not isinstance(dtype, str)):
            return name
        known = ", ".join(dtypes.BY_NAME)
        raise DtypeError(f"{self.schema.label}: types[{i}] = {dtype!r}; accepted are {known} and None")

    def _shape(self, i: int, shape: Any) -> Shape | None:
        if shape is None:
            return None
        given = plain(shape)
        listed = isinstance(given, Iterable) and not isinstance(given, str)
        lengths = tuple(plain(n) for n in given) if listed else ()
        if listed and all(n is None or isinstance(n, str) or (type(n) is int and n >= 0) for n in lengths):
            return lengths
        raise ShapeError(
            f"{self.schema.label}: shapes[{i}] = {shape!r}; it must be a list of lengths, each an int from 0 on, "
            f"a name, or None"
        )

    def __repr__(self) -> str:
        lenient = ", lenient" if self.lenient else ""
        return f"<Operator {self.schema.dialect}:{self.schema.signature}{lenient}>"

    def __str__(self) -> str:
        return str(self.schema)


def strictly_right(schema: Schema, tensors: Sequence[Tensor | None], attributes: Mapping[str, Any]) -> bool:
    """Whether a call needs no leniency."""
    try:
        request(schema, tensors, attributes)
    except FoldwiseError:
        return False
    return True


_KEPT = 64
"""So many kinds of calls are remembered; then all are forgotten."""


def remembered(known: dict[Any, Run], key: Any, run: Run) -> Run:
    """What runs a kind of call, kept for the next one where the kind has a key."""
    if key is not None:
        if len(known) >= _KEPT:
            known.clear()
        known[key] = run
    return run


_MOST_VALUES = 64
"""No tensor has more axes to name."""


def call_key(inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """All that decides what runs a call; None where that takes a closer look.

    Of the first input these are dtype and rank: where it holds elements, its lengths decide nothing.
    """
    if not inputs or type(inputs[0]) is not np.ndarray or not inputs[0].size:
        return None
    key: list[Any] = [inputs[0].dtype, inputs[0].ndim]
    for each in inputs[1:]:
        key.append(_plain_value(each))
    for name, each in named.items():
        key += name, _plain_value(each)
    return None if () in key else tuple(key)


def _plain_value(given: Any) -> tuple[Any, ...]:
    """Type and value, as True equals 1 and 1.0; empty where one of them is not plain."""
    kind = type(given)
    if kind is np.ndarray:
        return (given.dtype, given.shape, given.tobytes()) if given.size <= _MOST_VALUES else ()
    if kind is int or kind is bool or given is None:
        return kind, given
    plain_list = (kind is list or kind is tuple) and len(given) <= _MOST_VALUES and all(type(n) is int for n in given)
    return (kind, *given) if plain_list else ()


def tensor_of(array: Array, with_values: bool) -> Tensor:
    """What a call shows of an array."""
    values = tuple(array.ravel().tolist()) if with_values and array.dtype.kind in "iu" else None
    return Tensor(array.dtype.name, array.shape, values)


def prepared(schema: Schema, asked: Request, x: Array) -> Callable[[Array], Array]:
    """What runs a request, on `x` and on every other array of its dtype and shape."""
    dtype, fold = dtypes.BY_NAME[x.dtype.name], folds.BY_NAME[asked.fold]
    if not isinstance(asked, Reduction):
        return _walked(schema, asked, fold, dtype)
    if asked.copies:
        return lambda x: np.array(x, x.dtype.newbyteorder("="))
    if asked.of_nothing is not None:
        nothing, shape = asked.of_nothing, without(x.shape, asked.axes, asked.keepdims)
        return lambda x: np.full(shape, nothing, x.dtype.newbyteorder("="))
    chosen = _chosen(fold, dtype)
    entered = _entered(fold.name, asked, chosen)
    return entered if chosen is None else _refusing(schema, entered)


def _entered(name: str, asked: Reduction, chosen: np.dtype[Any] | None) -> Callable[[Array], Array]:
    """The array function of that name, which the core answers by itself."""
    code, axes, keepdims = entrance(name), asked.axes, asked.keepdims
    return lambda x: np.asarray(reduce(code, x, axes, chosen, None, keepdims, None, None, "wrap", "default"))


def _chosen(fold: folds.Fold, dtype: dtypes.Dtype) -> np.dtype[Any] | None:
    """What an array function must be told to give a result of the elements' dtype."""
    return None if fold.result(dtype) is dtype else NUMPY[dtype.code]


def _walked(
    schema: Schema, asked: Scanning | Search, fold: folds.Fold, dtype: dtypes.Dtype
) -> Callable[[Array], Array]:
    """A scan or a search, by the array function of that name wherever it gives what the operator does."""
    axis = asked.axis
    if isinstance(asked, Search):
        code, keepdims, last = entrance(fold.name), asked.keepdims, asked.last
        return lambda x: np.asarray(place(code, x, axis, None, keepdims, last))
    exclusive, reverse, code, chosen = asked.exclusive, asked.reverse, entrance(str(fold.scan)), _chosen(fold, dtype)
    return lambda x: np.asarray(scan(code, x, axis, chosen, None, exclusive, reverse, False, "wrap", "default"))


def prepared_together(asked: Sequence[tuple[Schema, Request]], x: Array) -> Callable[[Array], list[Array]]:
    """What runs several requests of one array: those that fold the same axes read it once."""
    dtype = dtypes.BY_NAME[x.dtype.name]
    groups: dict[Any, list[int]] = {}
    for i, (_, wanted) in enumerate(asked):
        groups.setdefault(_company(wanted, dtype) or i, []).append(i)
    steps = [(places, _several([asked[i] for i in places], dtype, x)) for places in groups.values()]

    def run(x: Array) -> list[Array]:
        found: dict[int, Array] = {}
        for places, step in steps:
            found.update(zip(places, step(x), strict=True))
        return [found[i] for i in range(len(asked))]

    return run


def _company(request: Request, dtype: dtypes.Dtype) -> tuple[tuple[int, ...], bool] | None:
    """What requests that can read together agree in; None for one that runs by itself."""
    if not isinstance(request, Reduction) or request.copies or request.of_nothing is not None:
        return None
    refuses = dtype.kind != "f" and folds.BY_NAME[request.fold].result is dtypes.real
    return None if refuses else (request.axes, request.keepdims)


def _several(asked: Sequence[tuple[Schema, Request]], dtype: dtypes.Dtype, x: Array) -> Callable[[Array], list[Array]]:
    if len(asked) == 1:
        alone = prepared(*asked[0], x)
        return lambda x: [alone(x)]
    reductions = [
        engine.Reduce(folds.BY_NAME[request.fold], request.axes, dtype, request.keepdims)
        for _, request in asked
        if isinstance(request, Reduction)
    ]
    if any(_chosen(each.fold, dtype) is not None for each in reductions):
        return lambda x: engine.run_together(reductions, x)
    names, axes, keepdims = [each.fold.name for each in reductions], reductions[0].axes, reductions[0].keepdims
    return lambda x: [np.asarray(each) for each in many(TOGETHER, x, names, axes, keepdims, None)]


def _refusing(schema: Schema, run: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A fold of integers that may have no result: the fold knows what happened, the operator's name is known here."""

    def checked(x: Array) -> Array:
        try:
            return run(x)
        except OverflowedError:
            raise OverflowedError(
                f"{schema.label}: a result for input '{schema.data.name}' of dtype {x.dtype.name}, shape {x.shape} "
                f"is not finite, which no {x.dtype.name} can hold; cast it to a float dtype first"
            ) from None

    return checked
