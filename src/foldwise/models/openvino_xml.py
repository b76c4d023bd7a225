"""The XML of an OpenVINO IR as layers and edges, and back. Nothing is believed before it is counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import IO, Final, NamedTuple
from xml.etree.ElementTree import Element, fromstring, tostring
from xml.parsers import expat

from foldwise.errors import ModelError
from foldwise.operators.call import Shape

from .limits import Limits

CHUNK: Final = 1 << 16
LARGEST: Final = (1 << 63) - 1
READ_VERSIONS: Final = ("10", "11")
LEVELS: Final = {"net": 0, "layers": 1, "edges": 1, "data": 3, "input": 3, "output": 3}
"""How deep the elements lie of which there is one at most in the net, or in a layer."""
_INTEGER: Final = re.compile(r"\s*(-?[0-9]{1,19})\s*", re.ASCII)
MANDATORY: Final = ("id", "name", "type", "version")


class Port(NamedTuple):
    """Where an edge begins or ends, and what is stated of the tensor there."""

    id: int
    precision: str
    dims: Shape
    names: str
    rt_info: str


class Layer(NamedTuple):
    """One layer as the file has it."""

    id: int
    name: str
    type: str
    version: str
    output_names: str
    data: dict[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    rt_info: str
    others: dict[str, str]
    """The texts of elements that are no data and no ports: bodies, port maps."""

    def __str__(self) -> str:
        return f"layer {self.id} {shown(self.name)} ({self.type})"


class Edge(NamedTuple):
    """From an output port to an input port."""

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int

    def __str__(self) -> str:
        begin, end = (f"layer {layer} port {port}" for layer, port in (self[:2], self[2:]))
        return f"the edge from {begin} to {end}"


class Document(NamedTuple):
    """A whole net, in the order of the file."""

    name: str
    version: int
    layers: list[Layer]
    edges: list[Edge]
    others: dict[str, str]
    """The texts of the net's other elements."""


def shown(text: str) -> str:
    """A text of the file, in a message."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def number(text: str | None, what: str, least: int = 0) -> int:
    """An integer of the format."""
    if text is None:
        raise ModelError(f"{what} is missing")
    found = _INTEGER.fullmatch(text)
    if found is None or not least <= int(found[1]) <= LARGEST:
        raise ModelError(f"{what} is {shown(text)}; it must be an integer from {least} to 2^63 - 1")
    return int(found[1])


def split_names(text: str) -> list[str]:
    """The tensor names of a port; a comma within one has a backslash before it."""
    return [name.replace("\\,", ",") for name in re.split(r"(?<!\\),", text) if name]


def join_names(names: Iterable[str]) -> str:
    """Tensor names as a port has them."""
    return ",".join(name.replace(",", "\\,") for name in names)


# ---- reading


def parse(file: IO[bytes], origin: str, limits: Limits) -> Document:
    """The net in a file; what asks for too much is refused while it is read."""
    return _Parser(origin, limits).document(file)


class _Parser:
    def __init__(self, origin: str, limits: Limits) -> None:
        self.origin = origin
        self.limits = limits
        self.open: list[Element] = []
        self.counts: dict[str, int] = {}
        self.root: Element | None = None
        self.seen: set[str] = set()
        self.layers: list[Layer] = []
        self.edges: list[Edge] = []
        self.others: dict[str, str] = {}
        self.expat = expat.ParserCreate("utf-8")
        self.expat.buffer_text = True
        self.expat.StartDoctypeDeclHandler = self.doctype
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.text

    def document(self, file: IO[bytes]) -> Document:
        try:
            self.feed(file)
        except expat.ExpatError as error:
            raise ModelError(
                f"{self.origin} is not well-formed XML ({error}); it may be cut off or damaged: fetch or write it again"
            ) from None
        assert self.root is not None
        if "layers" not in self.seen:
            raise ModelError(f"{self.origin} is no OpenVINO IR: its <net> has no <layers>")
        version = int(self.root.get("version", ""))
        return Document(self.root.get("name", ""), version, self.layers, self.edges, self.others)

    def feed(self, file: IO[bytes]) -> None:
        fed = 0
        while chunk := file.read(CHUNK):
            fed += len(chunk)
            self.limits.check("file_bytes", fed, f"{self.origin}: its bytes are at least")
            self.expat.Parse(chunk, False)
            # A tag without end is kept until it ends. Newer expats look again only when what waits has doubled.
            waiting = fed - max(self.expat.CurrentByteIndex, 0) - 2 * CHUNK
            self.limits.check("text_bytes", waiting // 2, f"{self.origin}: the bytes of one tag are at least")
        self.expat.Parse(b"", True)

    # ---- what expat reports

    def doctype(self, *declared: object) -> None:
        raise ModelError(
            f"{self.origin} has a DOCTYPE in line {self.expat.CurrentLineNumber}, whose entities could unfold without "
            f"end; an OpenVINO IR has none: remove it"
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.limits.check("depth", len(self.open) + 1, f"{self.origin}: the levels of elements inside elements are")
        size = len(tag) + sum(map(len, attributes)) + sum(map(len, attributes.values()))
        self.limits.check("text_bytes", size, f"{self.origin}: the bytes of one tag are at least")
        parent = self.open[-1] if self.open else None
        if parent is not None and (tag, parent.tag) == ("dim", "port"):
            self.limits.check("rank", len(parent) + 1, f"{self.origin}: a port has rank")
        elif LEVELS.get(tag) == len(self.open):
            self.refuse_second(tag, parent)
        else:
            self.count(tag)
        element = Element(tag, attributes)
        if parent is None:
            self.check_root(element)
        self.open.append(element)

    def refuse_second(self, tag: str, parent: Element | None) -> None:
        if parent is not None and any(child.tag == tag for child in parent):
            where = f"the layer {shown(parent.get('name', ''))}" if parent.tag == "layer" else f"the {parent.tag}"
            raise ModelError(f"{self.origin}: {where} has two {shown(tag)} elements; put them into one")

    def count(self, tag: str) -> None:
        """Layers, ports and edges are counted apart, as there are several ports to a layer."""
        kind = tag if tag in ("layer", "port", "edge") else "other"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.limits.check("nodes", self.counts[kind], f"{self.origin}: its {kind} elements are at least")

    def text(self, text: str) -> None:
        """Text after a child is layout."""
        element = self.open[-1]
        if not len(element):
            element.text = (element.text or "") + text
            self.limits.check("text_bytes", len(element.text), f"{self.origin}: the bytes of one text are at least")

    def end(self, tag: str) -> None:
        element = self.open.pop()
        if element.text and not element.text.strip():
            element.text = None
        if len(self.open) == 1:
            self.part(element)
        elif len(self.open) == 2 and self.open[1].tag in ("layers", "edges"):
            self.member(element, self.open[1].tag)
        elif self.open:
            self.open[-1].append(element)

    # ---- what it means

    def check_root(self, element: Element) -> None:
        if element.tag != "net":
            raise ModelError(
                f"{self.origin} is no OpenVINO IR: its root element is {shown(element.tag)}; an IR's is 'net'"
            )
        version = element.get("version")
        if version not in READ_VERSIONS:
            given = "states no version" if version is None else f"is of version {shown(version)}"
            raise ModelError(
                f"{self.origin}: this OpenVINO IR {given}; read are {' and '.join(READ_VERSIONS)} "
                f"(save the model again with a current OpenVINO)"
            )
        self.root = element

    def member(self, element: Element, part: str) -> None:
        """One of the layers or edges; its element is needed no longer."""
        if element.tag + "s" != part:
            raise ModelError(f"{self.origin}: there is a {shown(element.tag)} element among the {part}; take it away")
        if part == "layers":
            self.layers.append(self.layer(element))
        else:
            self.edges.append(self.edge(element))

    def part(self, element: Element) -> None:
        """One of the parts of the net."""
        if element.tag in self.seen:
            raise ModelError(f"{self.origin}: the net has two {shown(element.tag)} elements; put them into one")
        self.seen.add(element.tag)
        if element.tag not in ("layers", "edges"):
            self.others[element.tag] = tostring(element, "unicode")

    def edge(self, element: Element) -> Edge:
        what = f"{self.origin}: an edge's"
        ends = ("from-layer", "from-port", "to-layer", "to-port")
        return Edge(*(number(element.get(end), f"{what} {end}") for end in ends))

    def layer(self, element: Element) -> Layer:
        for key in MANDATORY:
            if not element.get(key):
                known = ", ".join(f"{each} {shown(element.attrib[each])}" for each in MANDATORY if element.get(each))
                raise ModelError(
                    f"{self.origin}: the layer with {known or 'nothing'} has no {key}; "
                    f"each layer needs {', '.join(MANDATORY)}"
                )
        name, kind, version = (element.attrib[key] for key in MANDATORY[1:])
        place = number(element.get("id"), f"{self.origin}: the id of layer {shown(name)}")
        what = f"{self.origin}: layer {place} {shown(name)} ({kind[:60]})"
        parts: dict[str, Element] = {}
        for child in element:
            if child.tag in parts:
                raise ModelError(f"{what} has two {shown(child.tag)} elements; put them into one")
            parts[child.tag] = child
        data = parts.pop("data", Element("data"))
        inputs, outputs = (self.ports(parts.pop(side, None), side, what) for side in ("input", "output"))
        rt_info = _text_of(parts.pop("rt_info", None))
        if len(data):
            parts["data"] = data
        others = {tag: tostring(child, "unicode") for tag, child in parts.items()}
        output_names = element.get("output_names", "")
        return Layer(place, name, kind, version, output_names, data.attrib, inputs, outputs, rt_info, others)

    def ports(self, parent: Element | None, side: str, what: str) -> tuple[Port, ...]:
        found: dict[int, Port] = {}
        for element in () if parent is None else parent:
            if element.tag != "port":
                raise ModelError(f"{what}: there is a {shown(element.tag)} element among its {side} ports")
            place = number(element.get("id"), f"{what}: the id of an {side} port")
            if place in found:
                raise ModelError(f"{what} has two {side} ports with the id {place}; number them apart")
            found[place] = self.port(element, place, f"{what} {side} port {place}")
        return tuple(found.values())

    def port(self, element: Element, place: int, what: str) -> Port:
        rt_info, dims = "", []
        for child in element:
            if child.tag == "dim":
                length = number(child.text or "", f"{what}: a dim", -1)
                dims.append(None if length < 0 else length)
            elif child.tag == "rt_info" and not rt_info:
                rt_info = _text_of(child)
            else:
                raise ModelError(f"{what} has a {shown(child.tag)} element; it may have dims and one rt_info")
        return Port(place, element.get("precision", ""), tuple(dims), element.get("names", ""), rt_info)


def _text_of(element: Element | None) -> str:
    return "" if element is None else tostring(element, "unicode")


# ---- writing


def document_text(root: Element) -> Iterator[str]:
    """A document as OpenVINO lays it out: an element a line, a tab a level."""
    yield '<?xml version="1.0"?>\n'
    yield from _lines(root, 0)


def kept_element(text: str) -> Element:
    """An element that was kept as its text."""
    return fromstring(text)


def _lines(element: Element, level: int) -> Iterator[str]:
    indent = "\t" * level
    attributes = "".join(f' {name}="{_escaped(text, name)}"' for name, text in element.attrib.items())
    if len(element):
        yield f"{indent}<{element.tag}{attributes}>\n"
        for child in element:
            yield from _lines(child, level + 1)
        yield f"{indent}</{element.tag}>\n"
    elif element.text:
        text = _escaped(element.text, element.tag).replace(">", "&gt;")
        yield f"{indent}<{element.tag}{attributes}>{text}</{element.tag}>\n"
    else:
        yield f"{indent}<{element.tag}{attributes} />\n"


_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#09;", "\n": "&#10;", "\r": "&#13;"})


def _escaped(text: str, what: str) -> str:
    unfit = _NO_XML.search(text)
    if unfit:
        raise ModelError(f"save: {what} {shown(text)} has the character {unfit[0]!r}, which XML cannot hold; rename it")
    return text.translate(_ESCAPES)
