"""Two models that should be one, run on inputs of many kinds and compared bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from foldwise import dtypes
from foldwise.errors import ConversionError, EngineError, FoldwiseError

from .arithmetic import numpy_of
from .check import Finding
from .graph import Array, Graph, Value
from .model import Model

LENGTHS: Final = (2, 1, 3, 0)
"""What a length is that the model leaves open, one try each."""
SPECIAL: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0)
ROUNDINGS: Final = 16
"""With exact=False, results may be so many units in the last place apart."""


def compare(source: Model, made: Model, exact: bool) -> None:
    """Refuse a conversion that gives something else; what the source refuses, the other may do as it likes with."""
    other = next((value for value in source.inputs if not value.tensor), None)
    if other is not None:
        text = f"it cannot be verified here: input '{other.name}' is no tensor"
        raise _failed(source, "verify", text, "leave verify out")
    engine, its_engine = _engine(source), _engine(made)
    exact = exact and engine is its_engine is None  # the last bits of others are theirs, and differ between opsets
    compared = 0
    for what, inputs in corner_inputs(source.inputs, loops(source)):
        try:
            wanted = _run(source, inputs, engine)
        except FoldwiseError:
            continue
        try:
            found = _run(made, inputs, its_engine)
        except EngineError as error:
            raise _failed(source, "engine", f"it cannot be verified here: {error}", "leave verify out") from None
        except FoldwiseError as error:
            raise _failed(source, "verify", f"{what}: the converted model refuses: {error}", _REPORT) from None
        for value, one, other in zip(source.outputs, wanted, found, strict=True):
            if not alike(one, other, exact):
                shown = "; ".join(f"{v.name} = {_short(x)}" for v, x in zip(source.inputs, inputs, strict=True))
                text = f"{what}: '{value.name}' is {_short(other)} instead of {_short(one)}, for {shown}"
                raise _failed(source, "verify", text, _REPORT)
        compared += 1
    if not compared:
        raise _failed(source, "verify", "the model refuses all corner inputs, so nothing was compared", "check it")


_REPORT: Final = "the conversion is at fault: report the model"


def _failed(source: Model, rule: str, text: str, fix: str) -> ConversionError:
    finding = Finding("error", "", "", rule, text, fix)
    return ConversionError(f"convert: {source.program.origin}: {text}; {fix}", [finding])


def _engine(source: Model) -> str | None:
    """Who runs the model: foldwise alone if it can, otherwise with another's help."""
    refused: list[str] = []
    for engine in (None, "onnxruntime", "reference") if source.program.dialect == "onnx" else (None,):
        try:
            source.session(engine)
            return engine
        except EngineError as error:
            refused.append(str(error))
    raise _failed(source, "engine", f"it cannot be verified here: {refused[0]}", "leave verify out")


def _run(model: Model, inputs: Sequence[Array], engine: str | None) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.run(list(inputs), engine=engine)
    return [found[value.name] for value in model.outputs]  # an OpenVINO model may give one value twice


def alike(one: Any, other: Any, exact: bool = True) -> bool:
    """Whether two results are the same bits, whatever a NaN's are; or, where that is allowed, nearly."""
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(alike, one, other))
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.dtype.name not in dtypes.BY_NAME or dtypes.BY_NAME[one.dtype.name].kind != "f":
        return np.array_equal(one, other)
    missing = np.isnan(one)
    if not np.array_equal(missing, np.isnan(other)):
        return False
    first, second = (np.where(missing, one.dtype.type(0), each) for each in (one, other))
    if first.tobytes() == second.tobytes():
        return True
    if exact:
        return False
    unit = float(ml_dtypes.finfo(one.dtype).eps)  # type: ignore[no-untyped-call]
    wide = [each.astype(np.float64) for each in (first, second)]
    with np.errstate(all="ignore"):
        near = np.abs(wide[0] - wide[1]) <= ROUNDINGS * unit * (1 + np.abs(wide[0]))
    return bool(np.all(near | (wide[0] == wide[1])))


def _short(array: Any) -> str:
    text = " ".join(np.array2string(np.asarray(array), threshold=40, separator=", ").split())
    return f"{array.dtype}{list(array.shape)} {text[:300]}"


# ---- inputs


def loops(model: Model) -> bool:
    """Whether something in a model may say how often a graph is run: the largest integer of 64 bits has no end."""
    functions = (Graph(nodes=function.nodes) for function in model.program.functions.values())
    return any(node.operator == "Loop" for graph in (model.graph, *functions) for node in graph.walk())


def corner_inputs(inputs: Sequence[Value], small: bool = False) -> Iterator[tuple[str, list[Array]]]:
    """Inputs, and of what kind they are; small: without integers that are too large to count to."""
    if not inputs:
        yield "without inputs", []
        return
    lengths = LENGTHS if any(_open(value) for value in inputs) else LENGTHS[:1]
    for length in lengths:
        for kind in KINDS:
            yield (
                f"{kind} of length {length}" if len(lengths) > 1 else kind,
                [filled(value, kind, length, k, small) for k, value in enumerate(inputs)],
            )


def _open(value: Value) -> bool:
    return value.shape is None or not all(isinstance(n, int) for n in value.shape)


KINDS: Final = ("random values", "zeros", "negative zeros", "ones", "special values", "extremes", "tiny values")


def filled(value: Value, kind: str, length: int, place: int, small: bool = False) -> Array:
    """One input of a kind."""
    shape = (2, length) if value.shape is None else tuple(n if isinstance(n, int) else length for n in value.shape)
    dtype = numpy_of(value.dtype if value.dtype in dtypes.BY_NAME else "float32")
    generator = np.random.default_rng(place)
    number = dtypes.BY_NAME[dtype.name].kind
    if number == "b":
        chosen: Any = generator.integers(0, 2, shape) if kind == "random values" else np.full(shape, kind == "ones")
    elif number != "f":
        chosen = _integers(generator, kind, dtype, shape, 1 << 7 if small else 1 << 64)
    elif kind == "random values":
        chosen = generator.normal(size=shape) * 4
    elif kind == "special values":
        chosen = generator.choice(np.array(SPECIAL), shape)
    elif kind in ("extremes", "tiny values"):
        about = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        ends = [about.max, about.min, 1.0] if kind == "extremes" else [about.tiny, about.smallest_subnormal, 1.0]
        chosen = generator.choice(np.array(ends, np.float64), shape)
    else:
        chosen = np.full(shape, {"zeros": 0.0, "negative zeros": -0.0, "ones": 1.0}[kind])
    with np.errstate(all="ignore"):
        return np.asarray(chosen).astype(dtype)


def _integers(
    generator: np.random.Generator, kind: str, dtype: np.dtype[Any], shape: tuple[int, ...], most: int
) -> Array:
    ends = np.iinfo(dtype)
    if kind == "random values":
        return generator.integers(max(ends.min, -9), 10, shape)
    if kind in ("special values", "extremes"):
        return generator.choice(np.array([max(ends.min, -most), min(ends.max, most), 1], dtype), shape)
    least = -1 if dtype.kind == "i" else 1
    return np.full(shape, {"zeros": 0, "ones": 1, "tiny values": 2, "negative zeros": least}[kind], dtype)
