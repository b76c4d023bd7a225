"""Our kernels inside onnxruntime's sessions: the operators of the family are ours, all others stay its own."""

from __future__ import annotations

import functools
import io
import itertools
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

import numpy as np

from foldwise import dtypes, engine, folds
from foldwise.arguments import Accuracy, Array, chosen_accuracy
from foldwise.errors import EngineError, FoldwiseError, ModelError, OptionError
from foldwise.models import onnxruntime_values
from foldwise.operation import operator
from foldwise.operators import CATALOG, Schema
from foldwise.operators.call import Tensor, checked_attributes, folds_everything
from foldwise.operators.infer import infer

_NEEDED: Final = "foldwise.plugins.onnxruntime needs onnxruntime 1.20 or later: pip install 'onnxruntime>=1.20'"

try:
    import onnxruntime
except ImportError as error:
    raise ImportError(_NEEDED) from error
if tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) < (1, 20):
    raise ImportError(f"{_NEEDED} (this is {onnxruntime.__version__})")


class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]  # onnxruntime has no types here
    """onnxruntime's session, in which reductions and scans run on foldwise's kernels. bfloat16 goes in and out, too.

    `accuracy="exact"` rounds sums, means, norms and running sums of floats correctly; `strict` refuses what the
    specification forbids and runtimes accept.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        *,
        accuracy: Accuracy = "default",
        strict: bool = False,
        **kwargs: Any,
    ) -> None:
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        _register(options, path_or_bytes, accuracy, strict)
        try:
            super().__init__(path_or_bytes, options, providers, provider_options, **kwargs)
        except Exception as error:  # its errors have no kind in common
            if _NOT_FOLDED not in str(error):
                raise
            kwargs["disabled_optimizers"] = {*(kwargs.get("disabled_optimizers") or ()), _FOLDING}
            super().__init__(path_or_bytes, options, providers, provider_options, **kwargs)
        if onnxruntime_values.has_bfloat16(self):
            self.__class__ = _ConvertingSession  # other sessions have no frame more than onnxruntime's


class _ConvertingSession(InferenceSession):
    """One whose inputs or outputs hold bfloat16."""

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """As onnxruntime runs it, and arrays of `ml_dtypes.bfloat16` go in and come out."""
        return onnxruntime_values.run(self, output_names, input_feed, run_options)


_FOLDING: Final = "ConstantFolding"
_NOT_FOLDED: Final = "Failed to find args for kernel type string"
"""What onnxruntime says when it would fold constants with our operators: it looks for kernels of its own, in vain."""


def register(
    options: Any,
    model: str | bytes | os.PathLike[str] | int,
    *,
    accuracy: Accuracy = "default",
    strict: bool = False,
) -> Any:
    """These SessionOptions, with our operators for sessions of that model, or of models of that opset.

    onnxruntime's constant folding is switched off in them: it fails where a reduction reads nothing but constants.
    """
    if not _register(options, model, accuracy, strict):
        return options
    try:
        disabled = options.get_session_config_entry(_DISABLED)
    except RuntimeError:  # there is none
        disabled = ""
    options.add_session_config_entry(_DISABLED, ";".join(filter(None, [disabled, _FOLDING])))
    return options


_DISABLED: Final = "optimization.disable_specified_optimizers"


def _register(options: Any, model: str | bytes | os.PathLike[str] | int, accuracy: Accuracy, strict: bool) -> bool:
    """Whether that made a difference to the options."""
    opset = model if isinstance(model, int) else _opset_of(model)
    if opset is None:  # the model has none of the standard's operators
        return False
    _check_opset(opset)
    wanted = _schemas(opset), chosen_accuracy("register", accuracy), strict
    held = _held.get(options)
    if held is None:
        engine.choose_operators(_declared(*wanted))
        options.register_custom_ops_library(engine.LIBRARY)
        _held[options] = wanted, f'opset {opset}, accuracy="{accuracy}", strict={strict}'
    elif held[0] != wanted:
        raise OptionError(
            f"register: these SessionOptions have foldwise's operators for {held[1]}; for opset {opset}, "
            f'accuracy="{accuracy}", strict={strict} give other SessionOptions'
        )
    return held is None


_held: Final[weakref.WeakKeyDictionary[Any, tuple[Any, str]]] = weakref.WeakKeyDictionary()
"""The SessionOptions that have our operators, and which."""


# ---- what onnxruntime is told of the operators

_KINDS: Final = ("reduce", "arg", "scan")
_ANY: Final = -1
_ATTRIBUTES: Final = tuple({a.name for s in CATALOG.schemas if s.dialect == "onnx" for a in s.attributes})
"""All that a node may have by mistake, too: onnxruntime does not look at those of operators that are not its own."""


def _schemas(opset: int) -> tuple[Schema, ...]:
    """The operators as they are in that opset."""
    known = ((schema, *CATALOG.opsets(schema)) for schema in CATALOG.schemas if schema.dialect == "onnx")
    return tuple(schema for schema, first, last in known if first <= opset <= last)


@functools.cache
def _declared(schemas: tuple[Schema, ...], accuracy: Accuracy, strict: bool) -> int:
    """The number by which the core knows them."""
    return engine.declare_operators(tuple(row for each in schemas for row in _Node(each, accuracy, strict).rows()))


class _Node:
    """An operator as the nodes of a session need it."""

    def __init__(self, schema: Schema, accuracy: Accuracy, strict: bool) -> None:
        self.schema = schema
        self.accuracy: Accuracy = accuracy
        self.operator = operator(schema.full_name, lenient=not strict)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The operator as the core declares it to onnxruntime: once for each dtype that an axis may have."""
        schema = self.schema
        output = _ANY if schema.output.type == schema.data.type else dtypes.BY_NAME[schema.output.type].code
        for types in itertools.product(*(schema.dtypes_of(place.type) for place in schema.inputs[1:])):
            codes = (_ANY, *(dtypes.BY_NAME[name].code for name in types))
            inputs = tuple((code, place.optional) for code, place in zip(codes, schema.inputs, strict=True))
            kind = _KINDS.index(schema.kind)
            yield schema.name, schema.version, kind, inputs, output, _ATTRIBUTES, self.prepare, self.answer

    def prepare(self, code: int, element_type: int, inputs: int, attributes: dict[str, Any]) -> Any:
        """What a node comes to, as _native.pyi says; or the text of a refusal."""
        known = 0 <= code < len(dtypes.TABLE)
        name = dtypes.TABLE[code].name if known else f"a tensor of ONNX's element type {element_type}"
        try:
            infer(self.schema, [Tensor(name, None), *[Tensor(None, None)] * (inputs - 1)], attributes)
        except FoldwiseError as error:
            return str(error)
        options = checked_attributes(self.schema, attributes)
        source, fold = dtypes.TABLE[code], folds.BY_NAME[self.schema.fold]
        result = engine.INT64 if self.schema.kind == "arg" else source
        axes = (options["axis"],) if self.schema.kind == "arg" else options.get("axes") or ()
        return (
            engine.route(fold, source, result, "wrap", self.accuracy, False),
            bool(options.get("keepdims")),
            self.schema.kind == "reduce" and folds_everything(self.schema, options),
            bool(options.get("reverse")),
            bool(options.get("exclusive") or options.get("select_last_index")),
            axes,
        )

    def answer(self, attributes: dict[str, Any], x: Array, axes: Array | None) -> Any:
        """A node's result, or the text of a refusal."""
        try:
            inputs = [x, axes][: len(self.schema.inputs)]
            return np.asarray(self.operator(*inputs, **attributes), order="C")
        except FoldwiseError as error:
            return str(error)
        except BaseException as error:  # it must not pass through onnxruntime
            return f"{self.schema.label}: {type(error).__name__}: {error}"


# ---- opsets


def _opset_of(model: str | bytes | os.PathLike[str]) -> int | None:
    """The opset of the standard's operators that a model imports; None where it imports none."""
    opset = None
    with io.BytesIO(model) if isinstance(model, bytes) else open(model, "rb") as file:
        for number, content in _fields(file, keep=_OPSET_IMPORT):
            if number == _OPSET_IMPORT:
                entry = dict(_fields(io.BytesIO(content), keep=1))
                if entry.get(1, b"") in (b"", b"ai.onnx"):
                    opset = entry.get(2, 0)
    return opset


_OPSET_IMPORT: Final = 8
"""The field of a model that says which operator sets it imports: 1, their domain, and 2, their version."""


def _fields(file: IO[bytes], keep: int) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: numbers, and the content of those with the number `keep`."""
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    while file.tell() < end:
        key = _varint(file)
        number, wire = key >> 3, key & 7
        if not number or wire not in (0, 2, *_FIXED):
            raise ModelError("register: this is no ONNX model (models in onnxruntime's own format are not read here)")
        size = 0 if wire == 0 else _varint(file) if wire == 2 else _FIXED[wire]
        if file.tell() + size > end:
            raise ModelError("register: the model ends in the middle of a field; is the file complete?")
        if wire == 0:
            yield number, _varint(file)
        elif number == keep:
            yield number, file.read(size)
        else:
            file.seek(size, os.SEEK_CUR)


_FIXED: Final = {1: 8, 5: 4}
"""The bytes of the kinds of fields that always have as many."""


def _varint(file: IO[bytes]) -> int:
    value = shift = 0
    while True:
        (byte,) = file.read(1) or b"\0"  # the end is noticed where the next field begins
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value


@functools.cache
def _check_opset(opset: int) -> None:
    """Refuse what onnxruntime refuses. With any operators registered, it would take every opset."""
    newest = CATALOG.dialects["onnx"].newest_opset
    if not 1 <= opset <= newest:
        raise EngineError(f"register: ONNX's opset {opset} is not known here; known are 1..{newest}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(_identity(opset), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        why = " ".join(str(error).split())
        raise EngineError(
            f"register: onnxruntime {onnxruntime.__version__} does not run opset {opset}: {why}"
        ) from None


def _identity(opset: int) -> bytes:
    """The least model of an opset."""
    value = _field(1, b"x"), _field(2, _field(1, _field(1, 1)))
    node = _field(1, b"x") + _field(2, b"y") + _field(4, b"Identity")
    graph = _field(1, node) + _field(2, b"g") + _field(11, b"".join(value)) + _field(12, _field(1, b"y") + value[1])
    return _field(1, 3) + _field(7, graph) + _field(_OPSET_IMPORT, _field(2, opset))


def _field(number: int, content: int | bytes) -> bytes:
    """A short field of a protobuf message."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    return bytes([number << 3 | 2, len(content)]) + content
