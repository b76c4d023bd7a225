"""The walk behind an audit over ONNX models, inside their subgraphs and functions too."""

from __future__ import annotations

from collections.abc import Mapping

from foldwise.errors import FoldwiseError

from .auditing import Watch
from .graph import Node, Program
from .limits import Limits
from .meaning import Fact, axes_array
from .nodes import schema_of
from .onnx_conversion import OnnxConversion
from .onnx_folds import OnnxWriter
from .repairs import Repairs
from .rewriting import Bench


class OnnxRepairs(Repairs, OnnxWriter):
    """In ONNX's words."""

    def last(self, x: str, axis: int, keep: bool, out: str, fact: Fact) -> str:
        """A Gather: of a list it keeps the axis, of a number it does not."""
        place = self.bench.constant(axes_array((-1,)) if keep else -1, "int64", "last")
        return self.bench.add("Gather", x, place, out=out, fact=fact, axis=axis)


class LookingAtNodes(OnnxConversion):
    """A conversion to the opset that the model has, which leaves alone what is not wanted otherwise."""

    def __init__(self, source: Program, watch: Watch, limits: Limits) -> None:
        super().__init__(source, source.opset() or 1, True, limits)
        self.watch = watch

    def node(self, node: Node, bench: Bench, opsets: Mapping[str, int]) -> None:
        """One node; what is not written as it should be stays, and is told."""
        referring = any(each.kind == "reference" for each in node.attributes.values())
        schema = None
        try:
            schema = schema_of(self.source, node, opsets)
            if (
                schema
                and not referring
                and self.watch.look(self, schema, node, bench, opsets, OnnxRepairs(bench, self.exact))
            ):
                return
            if self.watch.wanted:
                super().node(node, bench, opsets)  # a function may be of another opset than the model
            else:
                self.kept(node, bench)
        except FoldwiseError as error:
            self.refuse(node, schema.label if schema else node.operator, error)
            bench.nodes.append(node)

    def kept(self, node: Node, bench: Bench) -> None:
        """As it is. What is given to functions is remembered."""
        key = (node.domain, node.operator, node.overload)
        if key in self.source.functions:
            self.uses.setdefault(key, []).append([bench.fact(name) for name in node.inputs])
        bench.nodes.append(node)

    def finish(self, made: Program) -> Program:
        """Nothing is refused: whatever could not be read is as it was."""
        self.watch.unread += self.refusals
        return made
