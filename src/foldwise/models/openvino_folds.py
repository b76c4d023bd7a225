"""The family's nodes in the words of OpenVINO."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from foldwise import dtypes
from foldwise.operators import Schema

from .fold_writer import INEXACT, FoldWriter
from .meaning import UNKNOWN, Fact, Meaning, axes_array
from .rewriting import RefusedError

STEPS: Final = {
    "absolute": "Abs", "log": "Log", "exp": "Exp", "multiply": "Multiply", "add": "Add", "subtract": "Subtract",
    "equal": "Equal", "less": "Less", "select": "Select",
}  # fmt: skip
HALVES: Final = ("float16", "bfloat16")
BACKWARD: Final = -(1 << 31)
"""Before the beginning of any axis: where a slice that goes backward ends."""


class OpenvinoWriter(FoldWriter):
    """Writes layers."""

    # ---- steps

    def cast(self, x: str, dtype: str, out: str = "") -> str:
        """Another dtype."""
        if self.bench.fact(x).dtype == dtype and not out:
            return x
        kind = dtypes.BY_NAME[dtype].ir
        return self.bench.add("Convert", x, out=out, fact=Fact(dtype, self.bench.fact(x).shape), destination_type=kind)

    def same(self, x: str, out: str) -> str:
        """A copy: OpenVINO takes a cast that changes nothing away again."""
        dtype = self.bench.fact(x).dtype
        if dtype not in dtypes.BY_NAME:
            raise unknown_dtype(x)
        return self.cast(x, str(dtype), out or self.bench.names.new(f"{self.bench.near}/same"))

    def step(self, what: str, *inputs: str, dtype: str | None = None, out: str = "") -> str:
        """Arithmetic."""
        fact = Fact(dtype, self.bench.fact(inputs[-1]).shape)
        return self.bench.add(STEPS[what], *inputs, out=out, fact=fact)

    def reduce(self, fold: str, x: str, axes: str, keepdims: bool, out: str = "", fact: Fact = UNKNOWN) -> str:
        """A reduction as a layer."""
        schema = self.find("reduce", fold)
        place = self.bench.outputs(schema.name, out, 1, fact)
        self.bench.append(schema.name, [x, axes], place, {"keep_dims": keepdims})
        self.bench.nodes[-1].domain = f"opset{schema.version}"
        return place[0]

    def count(self, m: Meaning) -> str:
        """How many elements make each result."""
        shape = self.shape(m.x)
        lengths = self.bench.add("Gather", shape, self.axes(m), self.bench.constant(0, "int64"), fact=Fact("int64"))
        return self.reduce("prod", lengths, self.bench.constant(axes_array((0,))), False, fact=Fact("int64", ()))

    def shape(self, x: str) -> str:
        """The lengths of a value."""
        return self.bench.add("ShapeOf", x, fact=Fact("int64", (self.bench.fact(x).rank,)), output_type="i64")

    # ---- the family

    def axes(self, m: Meaning) -> str:
        """The axes as an input."""
        if m.computed:
            least = m.held.shape is not None and all(isinstance(n, int) and n > 0 for n in m.held.shape)
            if m.empty_is_all and not least:
                raise RefusedError(
                    "axes",
                    f"its axes are computed ('{m.computed}') and may turn out empty, which in ONNX stands for all axes "
                    f"and in OpenVINO for none",
                    "state how many there are, or make them a constant",
                )
            return m.computed
        if m.axes is not None:
            return self.bench.constant(axes_array(m.axes), what="axes")
        if m.data.rank is not None:
            return self.bench.constant(axes_array(tuple(range(m.data.rank))), what="axes")
        rank = self.bench.add("ShapeOf", self.shape(m.x), fact=Fact("int64", (1,)), output_type="i64")
        scalar = self.bench.add("Squeeze", rank, self.bench.constant(axes_array((0,))), fact=Fact("int64", ()))
        ends = [self.bench.constant(each, "int64") for each in (0, 1)]
        return self.bench.add("Range", ends[0], scalar, ends[1], fact=Fact("int64", (None,)), output_type="i64")

    def folded(self, schema: Schema, m: Meaning, out: str) -> str:
        """One reduction."""
        return self.reduce(schema.fold, m.x, self.axes(m), m.keepdims, out, self.fact(m))

    def composed(self, m: Meaning, out: str) -> str:
        """Of several layers; halves in float32, as they are accumulated (R-12)."""
        if m.dtype is None:
            raise unknown_dtype(m.x)
        wide = self.accumulated(m)
        inner = m if wide == m.dtype else self.through(m, wide)
        place = out if wide == m.dtype else ""
        if m.fold == "sumsquare":
            made = self.sum_of_squares(inner, place)
        elif m.fold == "logsum":
            made = self.step("log", self.summed(inner), dtype=wide, out=place)
        else:
            made = self.shifted(inner, place)
        return made if wide == m.dtype else self.cast(made, m.dtype, out)

    def accumulated(self, m: Meaning) -> str:
        """The dtype in which the layers compute what the fold does in one step."""
        assert m.dtype is not None
        if m.fold == "logsumexp" and self.exact:
            raise RefusedError(
                "bits",
                f"OpenVINO has no {m.schema.name}, and layers that come to the same round on their way",
                INEXACT,
            )
        if m.fold == "sumsquare":
            return self.accumulated_squares(m)
        if m.kind in ("i", "u"):
            return "float64"
        return "float32" if m.dtype in HALVES else m.dtype

    def accumulated_squares(self, m: Meaning) -> str:
        """Squares that no product rounds have twice the digits."""
        assert m.dtype is not None
        if not self.exact or m.kind in ("i", "u"):
            return "float32" if m.dtype in HALVES else m.dtype
        if m.dtype in ("float64", "bfloat16"):
            raise RefusedError(
                "bits",
                f"OpenVINO has no {m.schema.name}, and squares of {m.dtype} can leave the range of a product, where "
                f"the operator keeps them",
                INEXACT,
            )
        return "float32" if m.dtype == "float16" else "float64"

    def summed(self, m: Meaning, out: str = "") -> str:
        """The sum over its axes."""
        return self.reduce("sum", m.x, self.axes(m), m.keepdims, out, self.fact(m))

    def sum_of_squares(self, m: Meaning, out: str) -> str:
        squares = self.step("multiply", m.x, m.x, dtype=m.dtype)
        return self.summed(replace(m, x=squares), out)

    def shifted(self, m: Meaning, out: str) -> str:
        """By the largest element, where that is finite (R-19)."""
        axes = self.axes(m)
        kept = self.fact(replace(m, options={**m.options, "keepdims": 1}))
        largest = self.reduce("max", m.x, axes, True, fact=kept)
        size = self.step("absolute", largest, dtype=m.dtype)
        finite = self.step("less", size, self.bench.constant(math.inf, m.dtype), dtype="bool")
        shift = self.step("select", finite, largest, self.bench.constant(0, m.dtype), dtype=m.dtype)
        self.bench.facts[shift] = kept
        powers = self.step("exp", self.step("subtract", m.x, shift, dtype=m.dtype), dtype=m.dtype)
        self.bench.facts[powers] = m.data._replace(array=None)
        logs = self.step("log", self.reduce("sum", powers, axes, m.keepdims, fact=self.fact(m)), dtype=m.dtype)
        back = shift if m.keepdims else self.reduce("max", shift, axes, False, fact=self.fact(m))
        return self.step("add", logs, back, dtype=m.dtype, out=out)

    def scanned(self, schema: Schema, m: Meaning, out: str) -> str:
        """One scan."""
        axis = m.computed or self.bench.constant(np.array((m.axes or (0,))[0], np.int64), what="axis")
        place = self.bench.outputs(schema.name, out, 1, m.data._replace(array=None))
        flags = {name: bool(m.options[name]) for name in ("exclusive", "reverse")}
        self.bench.append(schema.name, [m.x, axis], place, flags)
        self.bench.nodes[-1].domain = f"opset{schema.version}"
        return place[0]

    def search(self, m: Meaning, out: str) -> None:
        """The one largest, or smallest; the last of equals by looking from the end."""
        if m.dtype is None:
            raise unknown_dtype(m.x)
        assert m.axes
        (axis,) = m.axes
        if axis < 0:
            raise RefusedError("axes", f"its axis counts from the end, and the rank of '{m.x}' is not known",
                          "state its shape, or count the axis from the front")  # fmt: skip
        last = bool(m.options.get("select_last_index"))
        x = self.reversed(m.x, axis) if last else m.x
        kept = self.fact(replace(m, options={**m.options, "keepdims": 1}), "int64")
        mode = m.fold.removeprefix("arg")
        place = "" if last or not m.keepdims else out
        values, found = self.bench.outputs("TopK", "", 1, kept._replace(dtype=m.dtype))[0], place
        found = found or self.bench.names.new(f"{self.bench.near}/indices")
        self.bench.facts[found] = kept
        one = self.bench.constant(1, "int64")
        self.bench.append(
            "TopK", [x, one], [values, found],
            {"axis": axis, "mode": mode, "sort": "value", "index_element_type": "i64", "stable": True},
        )  # fmt: skip
        if last:
            end = self.bench.add("Gather", self.shape(m.x), *(self.bench.constant(n, "int64") for n in (axis, 0)),
                                 fact=Fact("int64", ()))  # fmt: skip
            final = self.step("subtract", end, self.bench.constant(1, "int64"), dtype="int64")
            found = self.step("subtract", final, found, dtype="int64", out=out if m.keepdims else "")
        if not m.keepdims:
            place_ = self.bench.constant(axes_array((axis,)))
            self.bench.add("Squeeze", found, place_, out=out, fact=self.fact(m, "int64"))

    def reversed(self, x: str, axis: int) -> str:
        """From the end to the beginning."""
        given = (-1, BACKWARD, -1, axis)
        bounds = [self.bench.constant(axes_array((each,))) for each in given]
        return self.bench.add("Slice", x, *bounds, fact=self.bench.fact(x)._replace(array=None))


def unknown_dtype(x: str) -> RefusedError:
    """Layers state their dtypes."""
    return RefusedError("dtype", f"the dtype of '{x}' is not known", "state the dtypes of the model's values")
