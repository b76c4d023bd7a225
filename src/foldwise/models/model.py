"""A model as its users see it. What reads, checks and runs it is imported when it is asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldwise.errors import ArgumentError, EngineError, ModelError

from .limits import Limits

if TYPE_CHECKING:
    from .check import Finding
    from .graph import Graph, Program, Value
    from .session import Session, StepReport

DEFAULT = Limits()


def load(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    weights: str | os.PathLike[str] | bytes | None = None,
    limits: Limits = DEFAULT,
) -> Model:
    """A model from an .onnx file or an OpenVINO .xml file, from the bytes of one, or from an onnx ModelProto.

    `weights` is the .bin of an .xml, where it does not lie beside it under the same name. Nothing is allocated before
    it is held against `limits`, and nothing is read outside the model's own folder.
    """
    if not isinstance(limits, Limits):
        raise ArgumentError(f"load: limits is of type {type(limits).__name__}; it must be a foldwise.Limits")
    if isinstance(model, str | os.PathLike):
        source: Any = Path(model)
        xml = _is_xml(_start(source))
    else:
        source, xml = model, isinstance(model, bytes) and _is_xml(model[:64])
    if xml:
        from . import openvino_ir

        return Model(openvino_ir.read(source, weights, limits), limits)
    if weights is not None:
        raise ArgumentError("load: weights= is for OpenVINO models; an ONNX model names its own data files")
    try:
        from . import onnx_file
    except ImportError as error:
        raise EngineError('load: ONNX models need the package onnx: pip install "foldwise[onnx]"') from error
    return Model(onnx_file.read(source, limits), limits)


def _start(path: Path) -> bytes:
    """How a file begins."""
    try:
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(64)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # or it cannot be the name of one
        raise ModelError(f"load: there is no file {str(path)!r}") from None
    except OSError as error:
        raise ModelError(f"load: {str(path)!r} cannot be read: {error.strerror or error}") from None
    raise ModelError(f"load: there is no file {str(path)!r}: it is a folder or a device")


def _is_xml(start: bytes) -> bool:
    return start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")


def _counted(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


class Model:
    """A loaded model."""

    def __init__(self, program: Program, limits: Limits = DEFAULT) -> None:
        self.program = program
        self.limits = limits
        self._sessions: dict[tuple[str | None, bool], Session] = {}

    @property
    def graph(self) -> Graph:
        """Its nodes and constants, to look at: sessions have made their plans of it."""
        return self.program.graph

    @property
    def inputs(self) -> tuple[Value, ...]:
        """What `run` must be given: names, dtypes, and shapes as far as they are known."""
        return tuple(value for value in self.graph.inputs if value.name not in self.graph.constants)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """What `run` gives."""
        return tuple(self.graph.outputs)

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        engine: str | None = None,
        strict: bool = False,
        observe: Callable[[StepReport], None] | None = None,
        memory_budget: str | int | None = None,
    ) -> dict[str, Any]:
        """The outputs by name, for inputs by name or in their order.

        Reductions, scans and the plumbing around them run here. What else the model holds goes to `engine`,
        "onnxruntime" or "reference" (ONNX's own evaluator); without one it is refused. `strict` refuses, too, what the
        specifications forbid and runtimes accept, of which there is a warning otherwise. `observe` is called after
        each step with what it did and how long it took.

        Inputs that are not in memory, sources of `fw.open` and Dask's arrays, go to reductions and scans in blocks;
        what works element by element is done to each block, and what needs a tensor whole is refused. Each step that
        reads a source may take `memory_budget` for it, or what the source was opened with. What is never folded comes
        out as a source or a Dask array again.
        """
        return self.session(engine, strict).run(inputs, observe, memory_budget)

    def session(self, engine: str | None = None, strict: bool = False) -> Session:
        """The plan that `run` follows, made once."""
        found = self._sessions.get((engine, strict)) if engine is None or isinstance(engine, str) else None
        if found is None:
            from .session import Session

            found = self._sessions[engine, strict] = Session(self.program, engine, strict, self.limits)
        return found

    def check(self) -> list[Finding]:
        """Everything about the model that its format or its operators' specifications do not allow."""
        from .check import findings

        return findings(self.program, self.limits)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model: a file appears whole or not at all. An .xml has its .bin beside it."""
        target = Path(path)
        wanted = ".onnx" if self.program.dialect == "onnx" else ".xml"
        if target.suffix != wanted:
            raise ArgumentError(
                f"save: {str(target)!r} does not end in {wanted}, but this is an {self.program.dialect} model"
            )
        if self.program.dialect == "onnx":
            from . import onnx_file

            onnx_file.write(self.program, target)
        else:
            from . import openvino_ir

            openvino_ir.write(self.program, target)

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: the program. Plans are made anew."""
        return {"program": self.program, "limits": self.limits, "_sessions": {}}

    def __repr__(self) -> str:
        graph, dialect = self.graph, self.program.dialect
        opset = f", opset {self.program.opset()}" if dialect == "onnx" else ""
        return f"<Model {graph.name!r}: {dialect}{opset}, {_counted(len(graph.nodes))}>"

    def __str__(self) -> str:
        """The signature, one value a line."""
        rows = [repr(self)[1:-1]]
        rows += [f"  in   {value}" for value in self.inputs]
        rows += [f"  out  {value}" for value in self.outputs]
        return "\n".join(rows)
