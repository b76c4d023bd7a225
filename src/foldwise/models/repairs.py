"""Nodes of the family written in another way, for runtimes that get the plain one wrong. The bits stay."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from foldwise import dtypes
from foldwise.operators.infer import without

from .fold_writer import LOGS, FoldWriter
from .meaning import Fact, Meaning, axes_array
from .openvino_folds import OpenvinoWriter
from .rewriting import RefusedError

WRAPPING: Final = ("sum", "prod", "sumsquare")
"""Folds of which signed and unsigned integers have the same bits."""


class Repairs(FoldWriter):
    """The ways, each by the name that the table gives it."""

    def repair(self, way: str, m: Meaning, out: str) -> None:
        """The nodes that make `out`, or a refusal."""
        ways: dict[str, Callable[[Meaning, str], object]] = {
            "plain": self.write, "through": self.wider, "scan": self.last_step, "steps": self.in_steps,
        }  # fmt: skip
        ways[way](m, out)

    # ---- through another dtype

    def wider(self, m: Meaning, out: str) -> None:
        """In a dtype that holds every value and every result that comes back."""
        if m.axes == () and m.schema.alone == "x" and m.schema.kind == "reduce":
            self.alone(m, out)  # a copy, which no dtype improves
            return
        inner = self.through(m, self.wide(m))
        if m.schema.kind == "arg":
            self.search(inner, out)
            return
        schema = self.schema(inner)
        made = self.scanned(schema, inner, "") if m.schema.kind == "scan" and schema else self.reduction(inner)
        self.back(m, made, out)

    def wide(self, m: Meaning) -> str:
        """The next dtype that carries it."""
        if m.dtype is None:
            raise RefusedError("dtype", f"the dtype of '{m.x}' is not known", "state the dtypes of the model's values")
        dtype = dtypes.BY_NAME[m.dtype]
        if dtype.kind == "f" and dtype.size < 8:
            return "float64" if dtype.size == 4 else "float32"
        if dtype.kind == "b":
            return "uint8"
        if m.fold in LOGS and dtype.kind in "iu":
            return "float64"
        if dtype.size < 8 and dtype.kind in "iu":
            return "int32" if dtype.size < 4 else "int64"
        if dtype.name == "uint64" and m.fold in WRAPPING:
            return "int64"
        why = f"no wider dtype carries the {m.fold} of {m.dtype}"
        raise RefusedError("dtype", why, "cast it before, if its values allow")

    # ---- the last step of a scan

    def last_step(self, m: Meaning, out: str) -> None:
        """Sums and products of integers as running ones, axis by axis, of which the last step is kept."""
        if m.fold not in ("sum", "l1", "sumsquare", "prod"):
            raise RefusedError("form", f"no scan has {m.schema.label} as its last step", "keep its values small")
        if m.axes == ():
            self.alone(m, out)
            return
        if m.data.shape is None or m.computed:
            raise RefusedError("axes", f"the rank of '{m.x}' or its axes are not known", "state them")
        if m.may_be_empty:
            why = "the folded axes may be empty, and then no step is the last"
            raise RefusedError("empty", why, "state the lengths")
        fold = "prod" if m.fold == "prod" else "sum"
        axes = tuple(range(len(m.data.shape))) if m.axes is None else m.axes
        scan, x, shape = self.schema(self.scan_meaning(m, fold)), self.elements(m), m.data.shape
        assert scan is not None
        for axis in sorted(axes, reverse=True):
            step = replace(m, schema=scan, x=x, data=Fact(m.dtype, shape), axes=(axis,), options=STEPS_INCLUSIVE)
            scanned = self.scanned(scan, step, "")
            shape = without(shape, (axis,), m.keepdims)
            x = self.last(scanned, axis, m.keepdims, out if axis == min(axes) else "", Fact(m.dtype, shape))

    def scan_meaning(self, m: Meaning, fold: str) -> Meaning:
        """The scan whose last step the reduction is."""
        return replace(m, schema=self.find("scan", fold))

    def elements(self, m: Meaning) -> str:
        """What is added up."""
        if m.fold == "l1":
            return self.step("absolute", m.x, dtype=m.dtype)
        return self.step("multiply", m.x, m.x, dtype=m.dtype) if m.fold == "sumsquare" else m.x

    @abstractmethod
    def last(self, x: str, axis: int, keep: bool, out: str, fact: Fact) -> str:
        """The last place along an axis."""

    # ---- a step at a time

    def in_steps(self, m: Meaning, out: str) -> None:
        """A sum of squares as a product and a sum."""
        squares = self.elements(m)
        self.reduction(replace(m, schema=self.find("reduce", "sum"), x=squares), out)


STEPS_INCLUSIVE: Final = {"exclusive": 0, "reverse": 0}


class OpenvinoRepairs(Repairs, OpenvinoWriter):
    """In OpenVINO's words."""

    def last(self, x: str, axis: int, keep: bool, out: str, fact: Fact) -> str:
        """The same, with the axis as an input."""
        place = self.bench.constant(axes_array((-1,)) if keep else -1, "int64", "last")
        return self.bench.add("Gather", x, place, self.bench.constant(axis, "int64"), out=out, fact=fact)
