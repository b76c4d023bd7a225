"""The operators of onnx itself, of every domain and version, as what a diff compares."""

from __future__ import annotations

import difflib
import math
from typing import Any, Final

from onnx import defs, helper

from foldwise.errors import UnknownOperatorError
from foldwise.operators.definition import DOMAINS, Arity, Constant, Constraint, Definition, Option, Parameter

_UNBOUNDED: Final = 2**31 - 1
_OPTIONS: Final[dict[Any, Option]] = {
    defs.OpSchema.FormalParameterOption.Single: "Single",
    defs.OpSchema.FormalParameterOption.Optional: "Optional",
    defs.OpSchema.FormalParameterOption.Variadic: "Variadic",
}


def find(name: str, version: int | None = None, domain: str = "") -> Definition:
    """One version of an operator, or the newest."""
    domain = "" if domain == DOMAINS["onnx"] else domain
    everything = [schema for schema in defs.get_all_schemas_with_history() if schema.domain == domain]
    found = {schema.since_version: schema for schema in everything if schema.name == name}
    if not found:
        raise UnknownOperatorError(_unknown(name, domain, {schema.name for schema in everything}))
    if version is None:
        return _definition(found[max(found)])
    if version not in found:
        nearest = min(found, key=lambda each: (abs(each - version), each))
        listed = ", ".join(map(str, sorted(found)))
        raise UnknownOperatorError(
            f"operator: {_prefix(domain)}:{name} has no version {version}; there are {listed}, "
            f"the nearest is {_prefix(domain)}:{name}-{nearest}"
        )
    return _definition(found[version])


def _prefix(domain: str) -> str:
    return domain or "onnx"


def _unknown(name: str, domain: str, known: set[str]) -> str:
    if not known:
        domains = sorted({_prefix(schema.domain) for schema in defs.get_all_schemas_with_history()})
        return f"operator: onnx has no domain {domain!r}; it has {', '.join(domains)}"
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return f"operator: {_prefix(domain)} has no operator {name!r}{f'; did you mean {near[0]}?' if near else ''}"


def _definition(schema: Any) -> Definition:
    return Definition(
        "onnx",
        schema.domain or DOMAINS["onnx"],
        schema.name,
        schema.since_version,
        tuple(map(_parameter, schema.inputs)),
        tuple(map(_parameter, schema.outputs)),
        _arity(schema.min_input, schema.max_input),
        _arity(schema.min_output, schema.max_output),
        tuple(_constant(name, attribute) for name, attribute in schema.attributes.items()),
        tuple(Constraint(t.type_param_str, tuple(sorted(t.allowed_type_strs))) for t in schema.type_constraints),
        tuple(schema.doc.splitlines()),
        schema.deprecated,
    )


def _parameter(parameter: Any) -> Parameter:
    return Parameter(parameter.name, parameter.type_str, _OPTIONS[parameter.option])


def _arity(least: int, most: int) -> Arity:
    return Arity(least, math.inf if most == _UNBOUNDED else most)


def _constant(name: str, attribute: Any) -> Constant:
    proto = attribute.default_value
    default = helper.get_attribute_value(proto) if proto.name else None
    return Constant(name, attribute.type.name, _readable(default), attribute.required)


def _readable(default: Any) -> Any:
    """Strings as text; of float32 numbers the shortest digits that tell them."""
    if isinstance(default, bytes):
        return default.decode()
    if isinstance(default, list):
        return tuple(map(_readable, default))
    return float(f"{default:.7g}") if isinstance(default, float) else default
