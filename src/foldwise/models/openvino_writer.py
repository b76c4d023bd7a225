"""Programs to OpenVINO IR files: an .xml, and a .bin beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, SubElement

from foldwise.errors import ModelError
from foldwise.operators.call import Shape

from .files import written_whole
from .graph import Node, Program, Value
from .openvino_data import Storage, of_name, read_shape
from .openvino_xml import document_text, join_names, kept_element

VERSION: Final = "11"
"""Of the IR that is written."""
FIRST_OPSET: Final = "opset1"
"""Has the layers that are no nodes."""


class Kept(NamedTuple):
    """What an IR says of a value beside its meaning, to be written again."""

    layer: str = ""
    """The name of the layer that became an input, an output or a constant."""
    names: str = ""
    """The tensor names, as a port lists them."""
    shape: str = ""
    """A shape that says more than its lengths: bounds."""
    layer_info: str = ""
    """The rt_info of the layer."""
    port_info: str = ""
    """The rt_info of the port."""


def write(program: Program, path: Path) -> None:
    """Write a program to an .xml and the .bin beside it.

    Each appears whole or not at all, the .bin first: if the .xml cannot follow, the .bin stays beside what it was.
    """
    with written_whole(path) as file, written_whole(path.with_suffix(".bin")) as data:  # the inner one goes first
        for line in document_text(_Writer(program, Storage(data)).document()):
            file.write(line.encode())


class _Writer:
    def __init__(self, program: Program, storage: Storage) -> None:
        if program.dialect != "openvino" or program.functions:
            raise ModelError("save: only a model of OpenVINO's operators can be an .xml; convert it first")
        self.program = program
        self.graph = program.graph
        self.storage = storage
        self.layers = Element("layers")
        self.edges: list[tuple[int, ...]] = []
        self.places: dict[str, tuple[int, int]] = {}
        self.ends = {value.name for value in (*self.graph.inputs, *self.graph.outputs)}
        self.stated = self.graph.values | {value.name: value for value in self.graph.inputs}

    def document(self) -> Element:
        """The whole net: inputs, nodes with their constants before them, outputs."""
        graph = self.graph
        for value in graph.inputs:
            self.add_input(value)
        for node in graph.nodes:
            self.add_constants(node.inputs)
            self.add_node(node)
        self.add_constants(graph.constants)
        for value in graph.outputs:
            self.add_output(value)
        net = Element("net", {"name": graph.name, "version": VERSION})
        net.append(self.layers)
        edges = SubElement(net, "edges")
        ends = ("from-layer", "from-port", "to-layer", "to-port")
        for edge in sorted(self.edges):
            SubElement(edges, "edge", dict(zip(ends, map(str, edge), strict=True)))
        for text in self.program.notes.values():
            net.append(kept_element(text))
        return net

    # ---- layers

    def layer(self, name: str, kind: str, version: str, data: dict[str, str], info: str, **more: str) -> Element:
        place = str(len(self.layers))
        layer = SubElement(self.layers, "layer", {"id": place, "name": name, "type": kind, "version": version, **more})
        if data:
            SubElement(layer, "data", data)
        if info:
            layer.append(kept_element(info))
        return layer

    def port(self, side: Element, place: int, name: str, names: str = "", info: str = "") -> None:
        value = self.stated.get(name, Value(name))
        port = SubElement(side, "port", {"id": str(place), "precision": of_name(value.dtype).precision})
        if names:
            port.set("names", names)
        for length in value.shape or ():
            SubElement(port, "dim").text = str(length if isinstance(length, int) else -1)
        if info:
            port.append(kept_element(info))

    def add_read(self, layer: Element, names: Sequence[str], infos: Mapping[int, str], what: str) -> None:
        """Input ports, and the edges that lead there."""
        side = SubElement(layer, "input") if names else layer
        for k, name in enumerate(names):
            if name not in self.places:
                fault = f"reads '{name}', which nothing makes" if name else f"leaves out input {k}, but has later ones"
                raise ModelError(f"{what} {fault}; OpenVINO has no such layers")
            self.port(side, k, name, info=infos.get(k, ""))
            self.edges.append((*self.places[name], int(layer.attrib["id"]), k))

    def add_made(self, layer: Element, names: Sequence[str], first: int) -> None:
        """Output ports, which go on counting where the input ports end."""
        side = SubElement(layer, "output") if names else layer
        for k, name in enumerate(names):
            plain = layer.attrib["name"] if len(names) == 1 else f"{layer.attrib['name']}:{k}"
            value = self.stated.get(name, Value(name))
            kept = _kept(value)
            if kept is None:
                named = name != plain or name in self.ends
                kept = Kept(names=join_names(filter(None, (name, *value.aliases))) if named else "")
            self.port(side, first + k, name, kept.names, kept.port_info)
            if name:
                self.places[name] = int(layer.attrib["id"]), first + k

    def add_input(self, value: Value) -> None:
        if value.name in self.graph.constants:
            raise ModelError(f"save: input '{value.name}' has a default, which OpenVINO has not; make it a constant")
        kept = _kept(value) or Kept()
        bounded = kept.shape and read_shape(kept.shape, f"save: input '{value.name}'") == value.shape
        shape = kept.shape if bounded else _shape_text(value.shape)
        data = {"shape": shape, "element_type": of_name(value.dtype).ir}
        layer = self.layer(kept.layer or value.name, "Parameter", FIRST_OPSET, data, kept.layer_info)
        self.add_made(layer, [value.name], 0)

    def add_constants(self, names: Iterable[str]) -> None:
        """Those that are not there yet."""
        for name in dict.fromkeys(names):
            if name in self.graph.constants and name not in self.places:
                self.add_constant(name)

    def add_constant(self, name: str) -> None:
        array, other = self.graph.constants[name], _kept(self.stated.get(name))
        kept = other or Kept()
        kind, offset, size = self.storage.store(array, f"save: constant '{name}'")
        shape = ", ".join(map(str, array.shape))
        data = {"element_type": kind.ir, "shape": shape, "offset": str(offset), "size": str(size)}
        self.stated[name] = Value(name, kind.name, array.shape, other=other)
        layer = self.layer(kept.layer or name, "Const", FIRST_OPSET, data, kept.layer_info)
        self.add_made(layer, [name], 0)

    def add_node(self, node: Node) -> None:
        what = f"save: {node.label} ({node.operator})"
        if not node.domain:
            raise ModelError(f"{what} names no opset; an OpenVINO layer needs one, such as '{FIRST_OPSET}'")
        for name, attribute in node.attributes.items():
            if attribute.kind == "xml":
                raise ModelError(
                    f"{what} has a part <{name}>, which can be shown but not written again; edit the .xml it came from"
                )
            if attribute.kind != "string":
                raise ModelError(f"{what}: its attribute '{name}' is no text, as OpenVINO's are")
        inputs = list(node.inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        data = {name: attribute.value for name, attribute in node.attributes.items()}
        name = node.name or next(filter(None, node.outputs), node.operator)
        layer = self.layer(name, node.operator, node.domain, data, node.notes.get("rt_info", ""))
        self.add_read(layer, inputs, {k: node.notes.get(f"rt_info of input {k}", "") for k in range(len(inputs))}, what)
        self.add_made(layer, node.outputs, len(inputs))

    def add_output(self, value: Value) -> None:
        kept = _kept(value) or Kept()
        more = {"output_names": kept.names} if kept.names else {}
        layer = self.layer(kept.layer or value.name, "Result", FIRST_OPSET, {}, kept.layer_info, **more)
        self.add_read(layer, [value.name], {0: kept.port_info}, f"save: output '{value.name}'")


def _kept(value: Value | None) -> Kept | None:
    return value.other if value is not None and isinstance(value.other, Kept) else None


def _shape_text(shape: Shape | None) -> str:
    if shape is None:
        return "..."
    return ",".join(str(length) if isinstance(length, int) else "?" for length in shape)
