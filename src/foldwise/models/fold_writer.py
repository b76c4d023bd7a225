"""What a node of the family means, said in one dialect and opset: as a node, as a few, or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Final

from foldwise import dtypes
from foldwise.errors import UnknownOperatorError
from foldwise.operators import CATALOG, Schema
from foldwise.operators.infer import without

from .meaning import Fact, Meaning
from .rewriting import Bench, RefusedError

AMONG_BOOLS: Final = {"max": "any", "min": "all", "any": "max", "all": "min"}
"""What is one fold of bools under two names (R-26)."""
LOGS: Final = ("logsum", "logsumexp")
INEXACT: Final = "allow other last bits with exact=False"


class FoldWriter(ABC):
    """Writes the family's nodes; each dialect has its own words for the steps."""

    def __init__(self, bench: Bench, exact: bool) -> None:
        self.bench = bench
        self.exact = exact

    def write(self, m: Meaning, out: str) -> None:
        """The nodes that make `out`, or a refusal."""
        if m.schema.kind == "scan":
            self.scan(m, out)
        elif m.schema.kind == "arg":
            self.search(m, out)
        else:
            self.reduction(m, out)

    # ---- the steps in the dialect's words

    @abstractmethod
    def cast(self, x: str, dtype: str, out: str = "") -> str: ...

    @abstractmethod
    def same(self, x: str, out: str) -> str:
        """A copy."""

    @abstractmethod
    def step(self, what: str, *inputs: str, dtype: str | None = None, out: str = "") -> str:
        """Arithmetic: absolute, log, multiply, equal, select."""

    @abstractmethod
    def folded(self, schema: Schema, m: Meaning, out: str) -> str:
        """The one node that says it."""

    @abstractmethod
    def count(self, m: Meaning) -> str:
        """How many elements make each result, as one int64."""

    @abstractmethod
    def composed(self, m: Meaning, out: str) -> str:
        """A reduction that the dialect has no operator for."""

    @abstractmethod
    def search(self, m: Meaning, out: str) -> None:
        """The position of an extreme."""

    # ---- reductions

    def reduction(self, m: Meaning, out: str = "") -> str:
        """A reduction; the name of what is made."""
        if m.axes == ():
            return self.alone(m, out)
        schema = self.schema(m)
        if schema is None:
            return self.composed(m, out)
        self.check_known(m, schema)
        if m.dtype is not None and m.dtype not in schema.dtypes:
            return self.carried(m, schema, out)
        return self.guarded(m, schema, out)

    def schema(self, m: Meaning) -> Schema | None:
        """The operator here that folds as it does."""
        dialect, opset = self.bench.dialect, self.bench.opset
        of_bools = m.kind == "b" or m.fold in ("any", "all")
        wanted = {m.fold, AMONG_BOOLS.get(m.fold, m.fold)} if of_bools else {m.fold}
        kind = m.schema.kind
        names = [s.name for s in CATALOG.schemas if (s.dialect, s.kind) == (dialect, kind) and s.fold in wanted]
        found = [CATALOG.versions(dialect, name)[-1] for name in dict.fromkeys(names)]
        if dialect == "openvino":
            return next((s for s in found if m.kind != "b" or "bool" in s.dtypes), None)
        try:
            return CATALOG.find(names[0], opset=opset, dialect=dialect) if names else None
        except UnknownOperatorError as error:
            raise RefusedError("operator", str(error).removeprefix("operator: "), _later(found[0])) from None

    def check_known(self, m: Meaning, schema: Schema) -> None:
        """A dtype that is not known could be one that is not taken here."""
        lost = [name for name in m.schema.dtypes if name not in schema.dtypes]
        if m.dtype is None and lost:
            raise RefusedError(
                "dtype",
                f"the dtype of '{m.x}' is not known, and {schema.label} does not take {', '.join(lost)}",
                "state the dtypes of the model's values",
            )

    def alone(self, m: Meaning, out: str) -> str:
        """Over no axes only what is done to each element is left (R-8, R-9)."""
        if m.schema.alone == "x":
            return self.same(m.x, out)
        if m.schema.alone == "|x|":
            return self.step("absolute", m.x, dtype=m.dtype, out=out)
        if m.schema.alone == "x^2":
            return self.step("multiply", m.x, m.x, dtype=m.dtype, out=out)
        if m.kind in ("i", "u"):
            logs = self.step("log", self.cast(m.x, "float64"), dtype="float64")
            return self.cast(logs, str(m.dtype), out)
        return self.step("log", m.x, dtype=m.dtype, out=out)

    def carried(self, m: Meaning, schema: Schema, out: str) -> str:
        """Through a wider dtype, where every value of this one has its place and comes back as it was."""
        wide = self.carrier(m, schema)
        inner = self.through(m, wide)
        return self.back(m, self.within(m, self.reduction(inner), wide), out)

    def back(self, m: Meaning, made: str, out: str) -> str:
        """From a wider dtype to its own: modulo 2^n (R-11), which casts of floats that do not fit are not."""
        if m.fold == "logsumexp" and m.kind in ("i", "u") and dtypes.BY_NAME[str(m.dtype)].size < 8:
            made = self.cast(made, "int64")
        return self.cast(made, str(m.dtype), out)

    def within(self, m: Meaning, made: str, wide: str) -> str:
        """What comes out of a wider dtype, where the narrow one has its value: of integers, in a wider integer."""
        return made

    def through(self, m: Meaning, dtype: str) -> Meaning:
        """The same of a value that was cast."""
        return replace(m, x=self.cast(m.x, dtype), data=m.data._replace(dtype=dtype, array=None))

    def carrier(self, m: Meaning, schema: Schema) -> str:
        """The dtype that carries one which the operator does not take."""
        dtype = dtypes.BY_NAME[str(m.dtype)]
        if dtype.kind == "f":
            if self.exact or "float32" not in schema.dtypes or (dtype.name == "bfloat16" and not self.has_bfloat16):
                raise self.untaken(m, schema, INEXACT if self.has_bfloat16 or dtype.name != "bfloat16" else "")
            return "float32"
        if m.fold in LOGS:
            return "float64"
        if m.fold in AMONG_BOOLS and dtype.size <= 2:
            return "uint8" if dtype.kind == "b" and "uint8" in schema.dtypes else "float32"
        if dtype.size <= 2 and dtype.kind != "b":
            return "int32"
        raise self.untaken(m, schema)

    @property
    def has_bfloat16(self) -> bool:
        """Whether anything here takes it."""
        return True

    def untaken(self, m: Meaning, schema: Schema, way_out: str = "") -> RefusedError:
        """A dtype that the operator does not take here."""
        takers = [s for s in CATALOG.versions(schema.dialect, schema.name) if m.dtype in s.dtypes]
        ways = [f"convert to opset {takers[0].version} or later"] if takers else ["cast it before"]
        return RefusedError(
            "dtype", f"{schema.label} does not take {m.dtype}", ", or ".join(filter(None, [*ways, way_out]))
        )

    def guarded(self, m: Meaning, schema: Schema, out: str) -> str:
        """One node; where the dialects differ in what no elements give, beside what the other one gives (R-14)."""
        given, wanted = (self.of_nothing(s, m) for s in (schema, m.schema))
        if wanted is None or str(given) == str(wanted) or not m.may_be_empty:
            return self.folded(schema, m, out)
        if given is None:
            raise RefusedError(
                "empty",
                f"the folded axes may have no elements, of which {m.schema.label} makes {wanted}, and {schema.label} "
                f"nothing",
                "state the lengths of the folded axes",
            )
        made = self.folded(schema, m, "")
        none = self.step("equal", self.count(m), self.bench.constant(0, "int64"), dtype="bool")
        number = self.bench.constant(wanted, m.dtype)
        return self.step("select", none, number, made, dtype=m.dtype, out=out)

    def of_nothing(self, schema: Schema, m: Meaning) -> int | float | None:
        """What no elements give; None where they are refused."""
        known = schema.empty is not None and m.dtype is not None
        return schema.empty.of(dtypes.BY_NAME[str(m.dtype)]) if known and schema.empty is not None else None

    # ---- scans

    def scan(self, m: Meaning, out: str) -> None:
        """A scan."""
        schema = self.schema(m)
        if schema is None:
            raise RefusedError(
                "operator", f"{self.bench.dialect} has no scan of {m.fold}", "compute it outside of the model"
            )
        self.check_known(m, schema)
        if m.dtype is None or m.dtype in schema.dtypes:
            self.scanned(schema, m, out)
            return
        made = self.scanned(schema, self.through(m, self.carrier(m, schema)), "")
        self.cast(made, m.dtype, out)

    @abstractmethod
    def scanned(self, schema: Schema, m: Meaning, out: str) -> str:
        """The node of a scan."""

    # ---- shared

    def versions(self, name: str) -> tuple[Schema, ...]:
        """All versions of an operator here."""
        return CATALOG.versions(self.bench.dialect, name)

    def find(self, kind: str, fold: str) -> Schema:
        """The operator here, for what the opset surely has."""
        name = next(s.name for s in CATALOG.schemas if (s.dialect, s.kind, s.fold) == (self.bench.dialect, kind, fold))
        opset = self.bench.opset if self.bench.dialect == "onnx" else None
        return CATALOG.find(name, opset=opset, dialect=self.bench.dialect)

    def fact(self, m: Meaning, dtype: str | None = None) -> Fact:
        """What is known of the result."""
        shape = m.data.shape
        if shape is None or (m.axes is None and m.computed):
            return Fact(dtype or m.dtype)
        axes = tuple(range(len(shape))) if m.axes is None else m.axes
        return Fact(dtype or m.dtype, without(shape, axes, m.keepdims))


def _later(schema: Schema) -> str:
    first = CATALOG.versions(schema.dialect, schema.name)[0].version
    return f"convert to opset {first} or later"
