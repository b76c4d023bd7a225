"""The family's nodes in the words of ONNX, at any opset."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from foldwise import dtypes
from foldwise.operators import Schema

from .fold_writer import FoldWriter
from .meaning import Fact, Meaning, axes_array
from .onnx_tensors import NUMBERS
from .rewriting import RefusedError

STEPS: Final = {"absolute": "Abs", "log": "Log", "multiply": "Mul", "equal": "Equal", "select": "Where"}
SINCE: Final = {"Abs": 6, "Log": 6, "Mul": 7, "Equal": 7, "Where": 9, "Clip": 6}
"""From where on these do what is needed of them here."""


class OnnxWriter(FoldWriter):
    """Writes for one opset."""

    @property
    def has_bfloat16(self) -> bool:
        """Since opset 13."""
        return self.bench.opset >= 13

    # ---- steps

    def cast(self, x: str, dtype: str, out: str = "") -> str:
        """Another dtype."""
        if self.bench.fact(x).dtype == dtype and not out:
            return x
        self.need("Cast", 6)
        shape = self.bench.fact(x).shape
        return self.bench.add("Cast", x, out=out, fact=Fact(dtype, shape), to=NUMBERS[dtype])

    def same(self, x: str, out: str) -> str:
        """A copy."""
        return self.bench.add("Identity", x, out=out, fact=self.bench.fact(x)._replace(array=None))

    def step(self, what: str, *inputs: str, dtype: str | None = None, out: str = "") -> str:
        """Arithmetic."""
        operator = STEPS[what]
        self.need(operator, SINCE[operator])
        return self.bench.add(operator, *inputs, out=out, fact=Fact(dtype, self.bench.fact(inputs[-1]).shape))

    def need(self, operator: str, since: int) -> None:
        """Refuse what an older operator of the name would not do."""
        if self.bench.opset < since:
            raise RefusedError(
                "opset",
                f"it needs {operator} as it is since opset {since}, for what opset {self.bench.opset} cannot say by "
                f"itself",
                f"convert to opset {since} or later",
            )

    def within(self, m: Meaning, made: str, wide: str) -> str:
        """Of no integers in float32 comes an infinity: then the end of their range."""
        if wide != "float32" or m.kind == "f" or not m.may_be_empty:
            return made
        self.need("Clip", SINCE["Clip"])
        low, high = map(float, dtypes.limits(dtypes.BY_NAME[str(m.dtype)]))
        if self.bench.opset < 11:
            return self.bench.add("Clip", made, fact=self.bench.fact(made), min=low, max=high)
        ends = [self.bench.constant(each, "float32") for each in (low, high)]
        return self.bench.add("Clip", made, *ends, fact=self.bench.fact(made))

    def count(self, m: Meaning) -> str:
        """How many elements make each result."""
        if m.axes is None and not m.computed:
            return self.bench.add("Size", m.x, fact=Fact("int64", ()))
        shape = self.bench.add("Shape", m.x, fact=Fact("int64", (m.data.rank,)))
        axes = m.computed or self.bench.constant(axes_array(m.axes or ()))
        lengths = self.bench.add("Gather", shape, axes, fact=Fact("int64", (None,)))
        return self.bench.add(self.find("reduce", "prod").name, lengths, fact=Fact("int64", ()), keepdims=0)

    # ---- the family

    def alone(self, m: Meaning, out: str) -> str:
        """Where an opset has not yet the step for it, over an axis of length 1."""
        if m.dtype == "bfloat16" and not self.has_bfloat16:
            raise self.untaken(m, self.find("reduce", m.fold))
        late = {"|x|": 6, "x^2": 7, "log x": 6}.get(m.schema.alone, 0)
        if self.bench.opset >= late:
            return super().alone(m, out)
        lone = self.bench.add("Unsqueeze", m.x, fact=Fact(m.dtype), axes=[0])
        schema = self.find("reduce", m.fold)
        return self.bench.add(schema.name, lone, out=out, fact=m.data, axes=[0], keepdims=0)

    def folded(self, schema: Schema, m: Meaning, out: str) -> str:
        """One reduction."""
        inputs, attributes = [m.x], {"keepdims": int(m.keepdims)}
        as_input = schema.attribute("axes") is None
        if m.computed and not as_input:
            raise RefusedError(
                "axes",
                f"its axes are computed ('{m.computed}'), and {schema.label} takes them as an attribute",
                f"make them a constant, or convert to opset {self.first_with_input(schema)} or later",
            )
        if m.computed:
            inputs.append(self.axes_input(m))
            attributes["noop_with_empty_axes"] = int(not m.empty_is_all)
        elif m.axes is not None and as_input:
            inputs.append(self.bench.constant(axes_array(m.axes), what="axes"))
        elif m.axes is not None:
            attributes["axes"] = list(self.from_the_front(m))  # type: ignore[assignment]
        return self.bench.add(schema.name, *inputs, out=out, fact=self.fact(m), **attributes)

    def from_the_front(self, m: Meaning) -> tuple[int, ...]:
        """Axes as an attribute: before opset 11 no text allows negative ones."""
        assert m.axes is not None
        if self.bench.opset < 11 and any(a < 0 for a in m.axes):
            raise negative_axes(m.x)
        return m.axes

    def first_with_input(self, schema: Schema) -> int:
        """Since when the axes are an input."""
        return next(s.version for s in self.versions(schema.name) if s.attribute("axes") is None)

    def axes_input(self, m: Meaning) -> str:
        """Computed axes as ONNX takes them: a list of int64."""
        axes = self.cast(m.computed, "int64")
        if m.held.shape is None:
            raise RefusedError(
                "axes", f"the rank of its axes ('{m.computed}') is not known; it must be 1", "state their shape"
            )
        return axes if m.held.rank else self.bench.add("Reshape", axes, self.bench.constant(axes_array((-1,))))

    def composed(self, m: Meaning, out: str) -> str:
        """ONNX has every fold."""
        raise RefusedError("operator", f"onnx has no reduction by {m.fold}", "compute it outside of the model")

    def scanned(self, schema: Schema, m: Meaning, out: str) -> str:
        """One scan."""
        axis = m.computed or self.bench.constant(np.array((m.axes or (0,))[0], np.int64), what="axis")
        flags: dict[str, Any] = {name: int(m.options[name]) for name in ("exclusive", "reverse")}
        return self.bench.add(schema.name, m.x, axis, out=out, fact=m.data._replace(array=None), **flags)

    def search(self, m: Meaning, out: str) -> None:
        """The position of an extreme."""
        schema = self.schema(m)
        assert schema is not None
        self.check_known(m, schema)
        if m.dtype is not None and m.dtype not in schema.dtypes:
            raise self.untaken(m, schema)
        last = m.options.get("select_last_index")
        if last and schema.attribute("select_last_index") is None:
            first = next(s.version for s in self.versions(schema.name) if s.attribute("select_last_index"))
            raise RefusedError(
                "attribute",
                f"select_last_index=1, which {schema.label} has not",
                f"convert to opset {first} or later",
            )
        assert m.axes
        (axis,) = self.from_the_front(m)
        flags = {"select_last_index": 1} if last else {}
        self.bench.add(
            schema.name, m.x, out=out, fact=self.fact(m, "int64"), axis=axis, keepdims=int(m.keepdims), **flags
        )


def negative_axes(x: str) -> RefusedError:
    """Counting from the end, which the oldest texts do not know."""
    return RefusedError(
        "axes",
        f"its axes count from the end, which opset 11 was the first to allow, and the rank of '{x}' is not known",
        "state its shape, or convert to opset 11 or later",
    )
