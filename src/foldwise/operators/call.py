"""A dialect's call, checked completely, becomes a request in which nothing is left to decide."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from foldwise import dtypes
from foldwise.errors import ArgumentError, AxisError, DtypeError, FoldwiseWarning, OptionError, ShapeError

from .catalog import CATALOG
from .schema import Input, Schema

Dim = int | str | None
Shape = tuple[Dim, ...]


class Tensor(NamedTuple):
    """What a call shows of an input. None stands for what is not known, a string for a length that has a name."""

    dtype: str | None
    shape: Shape | None
    values: tuple[int, ...] | None = None
    """The integers it holds, where the call depends on them."""

    def __str__(self) -> str:
        return self.dtype or "a tensor" if self.shape is None else f"{self.dtype} of shape {shape_text(self.shape)}"


class Reduction(NamedTuple):
    """One fold over some axes, in rising order."""

    fold: str
    axes: tuple[int, ...]
    keepdims: bool
    copies: bool
    """No axis is folded and the result is the input, bit for bit (R-27)."""
    of_nothing: int | float | None
    """What each result is where the folded axes hold no element; None where they hold some."""


class Scanning(NamedTuple):
    """One fold along an axis with its steps kept."""

    fold: str
    axis: int
    exclusive: bool
    reverse: bool


class Search(NamedTuple):
    """The position of an extreme along an axis."""

    fold: str
    axis: int
    keepdims: bool
    last: bool


Request = Reduction | Scanning | Search


def request(
    schema: Schema, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any], lenient: bool = False
) -> Request:
    """The call as a request. Shapes are those of real arrays; `lenient` lets pass what runtimes tolerate."""
    options = checked_attributes(schema, attributes)
    tensors = checked_inputs(schema, inputs)
    shape = _known(tensors[0])
    if schema.kind == "scan":
        axis = scanned_axis(schema, tensors[1], len(shape), lenient)
        assert axis is not None
        return Scanning(schema.fold, axis, bool(options["exclusive"]), bool(options["reverse"]))
    keepdims = bool(options["keepdims"])
    if schema.kind == "arg":
        axis = one_axis(schema, "axis", options["axis"], len(shape))
        _refuse_empty(schema, tensors[0], (axis,))
        return Search(schema.fold, axis, keepdims, bool(options.get("select_last_index")))
    axes = folded_axes(schema, named_axes(tensors, options), options, len(shape), lenient)
    copies = not axes and schema.alone == "x"
    return Reduction(schema.fold, axes, keepdims, copies, _refuse_empty(schema, tensors[0], axes))


def _known(tensor: Tensor | None) -> tuple[int, ...]:
    assert tensor is not None
    assert tensor.shape is not None
    return tuple(n for n in tensor.shape if isinstance(n, int))


# ---- attributes


def checked_attributes(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every attribute by its role, defaults filled in."""
    known = {a.name: a for a in schema.attributes}
    for name in given:
        if name not in known:
            raise ArgumentError(f"{schema.label}: {_no_attribute(schema, name)}")
    return {a.means: _attribute(schema, a.name, a.type, given.get(a.name, a.default)) for a in schema.attributes}


def _attribute(schema: Schema, name: str, kind: str, value: Any) -> Any:
    if kind == "ints":
        return None if value is None else _integers(schema, name, value)
    if kind == "int":
        return _integer(schema, name, value)
    if isinstance(plain(value), int) and value in (0, 1):
        return int(value)
    accepted = "True and False" if kind == "boolean" else "0 and 1"
    raise OptionError(f"{schema.label}: attribute '{name}' = {_short(value)}; accepted are {accepted}")


def _integers(schema: Schema, name: str, value: Any) -> tuple[int, ...]:
    listed = value.tolist() if hasattr(value, "tolist") and not isinstance(value, type) else value
    if not isinstance(listed, list | tuple):
        example = f"; write {name}=[{listed}]" if isinstance(listed, int) else ""
        raise ArgumentError(
            f"{schema.label}: attribute '{name}' = {_short(value)} is of type {type(value).__name__}; "
            f"accepted is a list of ints{example}"
        )
    return tuple(_integer(schema, f"{name}[{i}]", each) for i, each in enumerate(listed))


def _integer(schema: Schema, name: str, value: Any) -> int:
    number = plain(value)
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    raise ArgumentError(
        f"{schema.label}: attribute '{name}' = {_short(value)} is of type {type(value).__name__}; it must be an int"
    )


def plain(value: Any) -> Any:
    """A scalar of an array library as Python's own; anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () else value


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _no_attribute(schema: Schema, name: str) -> str:
    """Why there is no such attribute, and where there is one."""
    having = [
        s
        for s in CATALOG.versions(schema.dialect, schema.name)
        if any(name == a.name for a in s.attributes) or any(name == i.name for i in s.inputs)
    ]
    if any(name == i.name for i in schema.inputs):
        return f"'{name}' is an input in this version, not an attribute"
    accepted = ", ".join([*(i.name for i in schema.inputs), *(a.name for a in schema.attributes)])
    where = f" ({_versions(having, 'has', 'have')} it)" if having else _nearest(schema, name)
    return f"there is no argument '{name}'{where}; accepted are {accepted}"


def _nearest(schema: Schema, name: str) -> str:
    import difflib  # only a misspelt name needs it

    names = [i.name for i in schema.inputs] + [a.name for a in schema.attributes]
    near = difflib.get_close_matches(name, names, 1)
    return f" (did you mean '{near[0]}'?)" if near else ""


# ---- inputs


def checked_inputs(schema: Schema, given: Sequence[Tensor | None]) -> list[Tensor | None]:
    """As many tensors as the schema has inputs, None where one is left out, each of an accepted dtype and rank."""
    if len(given) > len(schema.inputs):
        raise ArgumentError(f"{schema.label}: {_too_many(schema, len(given))}")
    tensors = [*given, *[None] * (len(schema.inputs) - len(given))]
    for place, tensor in zip(schema.inputs, tensors, strict=True):
        if tensor is None and not place.optional:
            raise ArgumentError(f"{schema.label}: input '{place.name}' is missing; it is {place.text}")
        if tensor is not None:
            _check_input(schema, place, tensor)
    return tensors


def _too_many(schema: Schema, count: int) -> str:
    names = [i.name for i in schema.inputs]
    text = f"{count} inputs were given; accepted: {len(names)} ({', '.join(names)})"
    attributes = ", ".join(f"{a.name}=" for a in schema.attributes)
    return f"{text}; attributes go by name: {attributes}"


def _check_input(schema: Schema, place: Input, tensor: Tensor) -> None:
    accepted = schema.dtypes_of(place.type)
    if place.ranks is not None:
        wrong_rank = tensor.shape is not None and len(tensor.shape) not in place.ranks
        wrong = wrong_rank or (tensor.dtype is not None and tensor.dtype not in accepted)
        if wrong and not _squeezable(place, tensor, accepted):
            raise _unfit_axes(schema, place, tensor, accepted)
    elif tensor.dtype is not None and tensor.dtype not in accepted:
        raise DtypeError(
            f"{schema.label}: input '{place.name}' must be one of {', '.join(accepted)}, got {tensor}; "
            f"{_taking(schema, tensor.dtype)}"
        )


def _squeezable(place: Input, tensor: Tensor, accepted: tuple[str, ...]) -> bool:
    """A scalar that came with one axis around it: `scanned_axis` refuses or tolerates it (R-13)."""
    return place.ranks == (0,) and tensor.shape == (1,) and (tensor.dtype is None or tensor.dtype in accepted)


def _unfit_axes(schema: Schema, place: Input, tensor: Tensor, accepted: tuple[str, ...]) -> DtypeError | ShapeError:
    ranks = " or ".join(f"{rank}-D" for rank in place.ranks or ())
    hint = (
        f"; put the axis into a list: [{tensor.values[0]}]"
        if tensor.values and not tensor.shape and 0 not in (place.ranks or ())
        else ""
    )
    dtype = " or ".join(accepted) if len(accepted) < 3 else "integer"
    message = f"{schema.label}: input '{place.name}' must be a {ranks} {dtype} tensor, got {tensor}{hint}"
    return (ShapeError if tensor.dtype is None or tensor.dtype in accepted else DtypeError)(message)


def _taking(schema: Schema, dtype: str) -> str:
    """The way out for a dtype that this version does not take."""
    takers = [s for s in CATALOG.versions(schema.dialect, schema.name) if dtype in s.dtypes]
    return f"{_versions(takers, 'takes', 'take')} {dtype}" if takers else "cast it first"


def _versions(schemas: Sequence[Schema], one: str, several: str) -> str:
    numbers = ", ".join(str(s.version) for s in schemas)
    return f"version {numbers} {one}" if len(schemas) == 1 else f"versions {numbers} {several}"


# ---- axes


def named_axes(tensors: Sequence[Tensor | None], options: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The axes that a call names, as an input or as an attribute; None where it names none."""
    if len(tensors) > 1:
        return None if tensors[1] is None else tensors[1].values
    given: tuple[int, ...] | None = options["axes"]
    return given


def folds_everything(schema: Schema, options: Mapping[str, Any]) -> bool:
    """Whether absent or empty axes stand for all of them (R-5), or for none."""
    return schema.empty_axes == "all" and not options.get("noop_with_empty_axes")


def folded_axes(
    schema: Schema, named: Sequence[int] | None, options: Mapping[str, Any], rank: int, lenient: bool = False
) -> tuple[int, ...]:
    """The axes to fold, in rising order, each once."""
    if not named:
        return tuple(range(rank)) if folds_everything(schema, options) else ()
    axes = [one_axis(schema, f"axes[{i}]", a, rank) for i, a in enumerate(named)]
    first = {a: i for i, a in reversed([*enumerate(axes)])}
    again = next((i for i, a in enumerate(axes) if first[a] != i), None)
    if again is not None:
        _tolerate(
            AxisError,
            f"{schema.label}: axes = {_short(list(named))} names axis {axes[again]} twice, "
            f"at positions {first[axes[again]]} and {again}",
            "name each axis once",
            lenient,
        )
    return tuple(sorted(first))


def one_axis(schema: Schema, what: str, axis: int, rank: int) -> int:
    """An axis counted from the front (R-3, R-7)."""
    if -rank <= axis < rank:
        return axis % rank
    accepted = f"accepted: {-rank}..{rank - 1}" if rank else _without_axes(schema)
    raise AxisError(f"{schema.label}: {what} = {axis} is out of range for rank {rank} ({accepted})")


def _without_axes(schema: Schema) -> str:
    if schema.kind != "reduce":
        return f"'{schema.data.name}' must have rank 1 or more: reshape it to (1,)"
    return f"a 0-D tensor has no axis: {'leave axes out' if schema.empty_axes == 'all' else 'give axes=[]'}"


def scanned_axis(schema: Schema, tensor: Tensor | None, rank: int, lenient: bool = False) -> int | None:
    """The one axis of a scan; None where its value is not known."""
    place = schema.inputs[1]
    if tensor is None:
        assert place.default is not None
        return one_axis(schema, place.name, place.default, rank)
    if tensor.shape == (1,):
        _tolerate(
            ShapeError,
            f"{schema.label}: input '{place.name}' must be a 0-D tensor, got {tensor}",
            f"give the scalar {tensor.values[0]}" if tensor.values else "squeeze it",
            lenient,
        )
    if tensor.values is not None:
        return one_axis(schema, place.name, tensor.values[0], rank)
    if not rank:
        one_axis(schema, place.name, 0, rank)  # whatever it is, it is out of range
    return None


def _tolerate(error: type[Exception], message: str, way_out: str, lenient: bool) -> None:
    """Refuse what the specification forbids and runtimes accept, or warn of it."""
    if not lenient:
        raise error(f"{message}; {way_out}, or ask for lenient=True")
    warnings.warn(f"{message}; {way_out} (let pass by lenient=True)", FoldwiseWarning, stacklevel=5)


# ---- nothing to fold


def _refuse_empty(schema: Schema, tensor: Tensor | None, axes: tuple[int, ...]) -> int | float | None:
    """What each result is where the folded axes hold no element, or a refusal."""
    assert tensor is not None
    shape = _known(tensor)
    if math.prod(shape[a] for a in axes) or not math.prod(n for a, n in enumerate(shape) if a not in axes):
        return None
    if schema.kind == "arg":
        raise ShapeError(
            f"{schema.label}: input '{schema.data.name}' of shape {shape_text(shape)} has no element along axis "
            f"{axes[0]}, so that there is no place to give; give data whose axis {axes[0]} has length 1 or more"
        )
    dtype = dtypes.BY_NAME[str(tensor.dtype)]
    given = schema.empty.of(dtype) if schema.empty else None
    if given is None:
        raise ShapeError(
            f"{schema.label}: input '{schema.data.name}' of dtype {dtype.name}, shape {shape_text(shape)} has "
            f"nothing along axes {list(axes)}, for which there is no {dtype.name} value; "
            f"give data whose folded axes have length 1 or more"
        )
    return given


def shape_text(shape: Shape) -> str:
    """A shape as Python writes it, names bare and unknown lengths as a question mark."""
    parts = ["?" if n is None else str(n) for n in shape]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
