"""Damaged and hostile OpenVINO IR files, and what is said of each."""

from __future__ import annotations

from ir_models import AXES, EDGES, OUT, SUM, X, edge, layer, net, port

LAYERS = (X, AXES, SUM, OUT)
GOOD = net(LAYERS, EDGES)
LAUGHS = b'<?xml version="1.0"?><!DOCTYPE n [<!ENTITY a "aaaaaaaaaa">' + b"".join(
    b'<!ENTITY %c "%s">' % (after, b"&%c;" % before * 9) for before, after in zip(b"abcdef", b"bcdefg", strict=True)
) + b"]><net>&g;</net>"  # fmt: skip


def with_layers(*layers: str, edges: tuple[str, ...] = EDGES) -> bytes:
    return net(layers, edges)


def instead(old: str, new: str) -> bytes:
    """The good file with one thing changed, everywhere it is."""
    assert old.encode() in GOOD
    return GOOD.replace(old.encode(), new.encode())


def axes(**changes: str) -> bytes:
    data = {"element_type": "i64", "shape": "1", "offset": "0", "size": "8"} | changes
    text = " ".join(f'{name}="{value}"' for name, value in data.items() if value != "-")
    return with_layers(X, layer(1, "axes", "Const", data=text, makes=port(0, (1,), "I64")), SUM, OUT)


AT_AXES = "the model: layer 1 'axes' (Const)"
AT_SUM = "the model: layer 2 'sum' (ReduceSum)"

REFUSED: dict[str, tuple[bytes, str]] = {
    # no IR, or a damaged one
    "nothing": (b"", "the model is not well-formed XML (no element found|cut off or damaged"),
    "html": (
        b"<html><body>404</body></html>",
        "the model is no OpenVINO IR: its root element is 'html'; an IR's is 'net'",
    ),
    "text": (b"not XML at all", "not well-formed XML (syntax error: line 1, column 0)"),
    "cut off": (GOOD[:-100], "not well-formed XML|cut off or damaged: fetch or write it again"),
    "more after it": (GOOD + b"<net/>", "not well-formed XML (junk after document element"),
    "no UTF-8": (
        GOOD.replace(b'name="x"', b'name="\xff\xfe"'),
        "not well-formed XML (not well-formed (invalid token)",
    ),
    "latin": (
        b'<?xml version="1.0" encoding="latin-1"?>' + GOOD[21:].replace(b'"x"', b'"\xe9"'),
        "(invalid token)",
    ),
    "NUL": (GOOD.replace(b'"x"', b'"x\0"'), "not well-formed XML"),
    "an attribute twice": (
        instead('name="x"', 'name="x" name="x"'),
        "not well-formed XML (duplicate attribute",
    ),
    "version 9": (
        net(LAYERS, EDGES, 9),
        "this OpenVINO IR is of version '9'; read are 10 and 11|save the model again",
    ),
    "version 12": (net(LAYERS, EDGES, 12), "is of version '12'; read are 10 and 11"),
    "version 11.0": (net(LAYERS, EDGES, "11.0"), "is of version '11.0'"),
    "no version": (GOOD.replace(b' version="11"', b""), "this OpenVINO IR states no version"),
    "no layers": (
        b'<net version="11"><edges/></net>',
        "the model is no OpenVINO IR: its <net> has no <layers>",
    ),
    "layers twice": (
        instead("<edges>", "<layers/><edges>"),
        "the model: the net has two 'layers' elements; put them into one",
    ),
    "edges twice": (instead("<edges>", "<edges/><edges>"), "the net has two 'edges' elements"),
    "a layer of another kind": (
        instead("<edges>", "<edges><layer/>"),
        "a 'layer' element among the edges; take it away",
    ),
    # what unfolds
    "billion laughs": (LAUGHS, "the model has a DOCTYPE in line 1|an OpenVINO IR has none: remove it"),
    "external entity": (
        b'<!DOCTYPE net [<!ENTITY e SYSTEM "file:///etc/passwd">]><net version="11" name="&e;"/>', "has a DOCTYPE",
    ),
    "external DTD": (b'<!DOCTYPE net SYSTEM "http://127.0.0.1/x.dtd"><net version="11"/>', "has a DOCTYPE"),
    "undefined entity": (instead('name="x"', 'name="&x;"'), "not well-formed XML (undefined entity"),
    # layers
    "no id": (
        instead(' id="2" name="sum"', ' name="sum"'),
        "the layer with name 'sum', type 'ReduceSum', version 'opset1' has no id",
    ),
    "no name": (
        instead(' name="sum"', ""),
        "the layer with id '2', type 'ReduceSum', version 'opset1' has no name",
    ),
    "no type": (instead(' type="ReduceSum"', ""), "has no type; each layer needs id, name, type, version"),
    "no opset": (instead('"ReduceSum" version="opset1"', '"ReduceSum"'), "has no version; each layer needs"),
    "id of letters": (
        instead('id="2" name="sum"', 'id="two" name="sum"'),
        "the id of layer 'sum' is 'two'; it must be an integer",
    ),
    "negative id": (instead('id="2" name="sum"', 'id="-2" name="sum"'), "the id of layer 'sum' is '-2'"),
    "ids twice": (
        instead('id="1" name="axes"', 'id="0" name="axes"'),
        "layer 0 'x' (Parameter) and layer 0 'axes' (Const) have one id; number them apart",
    ),
    "inputs of one name": (
        with_layers(*LAYERS, X.replace('id="0" name', 'id="9" name')),
        "layer 0 'x' (Parameter) and layer 9 'x' (Parameter) have one name; rename one of these inputs",
    ),
    "data twice": (
        instead("<data keep", "<data/><data keep"),
        "the model: the layer 'sum' has two 'data' elements; put them into one",
    ),
    "rt_info twice": (
        instead("<output><port id=\"2\"", "<rt_info/><rt_info/><output><port id=\"2\""),
        f"{AT_SUM} has two 'rt_info' elements; put",
    ),
    "output twice": (instead("</output></layer>", "</output><output/></layer>"), "has two 'output' elements"),
    "an unknown opset": (
        instead('"ReduceSum" version="opset1"', '"ReduceSum" version="opset99"'),
        f"{AT_SUM} is of opset99; known are opset1 to opset17",
    ),
    "opset 0": (
        instead('"ReduceSum" version="opset1"', '"ReduceSum" version="opset0"'),
        f"{AT_SUM} is of version 'opset0'; known are",
    ),
    "no opset at all": (
        instead('"ReduceSum" version="opset1"', '"ReduceSum" version="mine"'),
        "is of version 'mine'; known are opset1",
    ),
    "ReduceL1 in opset1": (
        instead('"ReduceSum"', '"ReduceL1"'),
        "(ReduceL1) is of opset1, which has no ReduceL1; it came with opset4",
    ),
    "CumSum in opset2": (
        instead('"ReduceSum" version="opset1"', '"CumSum" version="opset2"'),
        "it came with opset3",
    ),
    "an operator of others in opset18": (
        with_layers(*LAYERS, layer(7, "n", "New", version="opset18")),
        "(New) is of opset18; known are",
    ),
    "an input that reads": (
        instead('type="ReduceSum"', 'type="Parameter"'),
        "(Parameter) has 2 input and 1 output ports; a Parameter has 0 and 1",
    ),
    "a result of two": (
        with_layers(X, AXES, SUM, OUT.replace("</input>", port(1) + "</input>")),
        "layer 3 'out' (Result) has 2 input and 0 output ports; a Result has 1 and 0",
    ),
    "an input without a shape": (
        instead('shape="2,3" ', ""),
        "layer 0 'x' (Parameter) states no shape; a Parameter's data has",
    ),
    "an input without a type": (instead('element_type="f32"', ""), "states no element_type"),
    # shapes and ports
    "shape of letters": (
        instead('"2,3"', '"2,N"'),
        "layer 0 'x' (Parameter): a length of its shape is 'N'; it must be an integer",
    ),
    "shape with a gap": (instead('"2,3"', '"2,,3"'), "a length of its shape is ''"),
    "negative length": (
        instead('"2,3"', '"2,-3"'),
        "a length of its shape is '-3'; it must be an integer from 0",
    ),
    "length beyond 2^63": (
        instead('"2,3"', '"9223372036854775808"'),
        "is '9223372036854775808'; it must be an integer from 0 to 2^63 - 1",
    ),
    "length of many digits": (instead('"2,3"', f'"{"9" * 5000}"'), "a length of its shape is '999"),
    "bounds turned": (
        instead('"2,3"', '"8..1"'),
        "has the length '8..1' in its shape; the lower bound comes first",
    ),
    "dim of letters": (
        instead("<dim>1</dim>", "<dim>one</dim>"),
        "port 0: a dim is 'one'; it must be an integer from -1",
    ),
    "negative dim": (instead("<dim>1</dim>", "<dim>-2</dim>"), "a dim is '-2'"),
    "broken dim": (instead("<dim>1</dim>", "<dim>1.5</dim>"), "a dim is '1.5'"),
    "empty dim": (instead("<dim>1</dim>", "<dim/>"), "a dim is ''"),
    "port ids twice": (
        instead('port id="1"', 'port id="0"'),
        f"{AT_SUM} has two input ports with the id 0; number them apart",
    ),
    "port without id": (instead('port id="1"', "port"), f"{AT_SUM}: the id of an input port is missing"),
    "what is no port": (instead("<input>", "<input><dim/>"), "there is a 'dim' element among its input ports"),
    "what is no dim": (instead("<dim>1</dim>", "<x/>"), "has a 'x' element; it may have dims and one rt_info"),
    # edges
    "edge from nowhere": (
        with_layers(*LAYERS, edges=(*EDGES[1:], edge(8, 0, 2, 0))),
        "the edge from layer 8 port 0 to layer 2 port 0 names layer 8, which is not there",
    ),
    "edge to nowhere": (
        with_layers(*LAYERS, edges=(*EDGES, edge(0, 0, 8, 0))),
        "names layer 8, which is not there",
    ),
    "edge from no port": (
        with_layers(*LAYERS, edges=(edge(0, 5, 2, 0), *EDGES[1:])),
        "layer 0 'x' (Parameter) has no output port 5 (it has: 0)",
    ),
    "edge to no port": (
        with_layers(*LAYERS, edges=(edge(0, 0, 2, 7), *EDGES[1:])), "(ReduceSum) has no input port 7 (it has: 0, 1)",
    ),
    "edge into an output": (with_layers(*LAYERS, edges=(*EDGES, edge(0, 0, 2, 2))), "has no input port 2"),
    "edge out of a result": (
        with_layers(*LAYERS, edges=(*EDGES, edge(3, 0, 2, 0))),
        "(Result) has no output port 0 (it has: none)",
    ),
    "two edges": (
        with_layers(*LAYERS, edges=(*EDGES, EDGES[0])),
        "two edges lead into input port 0 of layer 2 'sum' (ReduceSum); take one away",
    ),
    "no edge": (
        with_layers(*LAYERS, edges=EDGES[1:]),
        f"{AT_SUM} has nothing at input port 0; add the edge|or take the port away",
    ),
    "a result of nothing": (
        with_layers(*LAYERS, edges=EDGES[:2]),
        "layer 3 'out' (Result) has nothing at input port 0",
    ),
    "edge without an end": (GOOD.replace(b' to-port="1"', b""), "the model: an edge's to-port is missing"),
    "edge of letters": (GOOD.replace(b'to-port="1"', b'to-port="a"'), "an edge's to-port is 'a'"),
    "a cycle": (
        with_layers(X, AXES, SUM, OUT, layer(4, "back", "Abs", reads=port(0), makes=port(1)),
                    edges=(edge(4, 1, 2, 0), EDGES[1], EDGES[2], edge(2, 2, 4, 0))),
        "the model: node '|is part of a cycle",
    ),
    "a cycle of one": (
        with_layers(*LAYERS, edges=(edge(2, 2, 2, 0), *EDGES[1:])),
        "node 'sum' (ReduceSum) is part of a cycle",
    ),
    # constants
    "no element type": (axes(element_type="-"), f"{AT_AXES} has element_type ''; constants may be of bool|i64"),
    "an unknown element type": (axes(element_type="i65"), f"{AT_AXES} has element_type 'i65'"),
    "a dynamic constant": (axes(element_type="dynamic"), "has element_type 'dynamic'"),
    "no shape": (axes(shape="-"), f"{AT_AXES} has no shape; a scalar's is the empty text"),
    "a shape that is not known": (
        axes(shape="1,?"),
        "has the shape '1,?'; all lengths of a constant are known",
    ),
    "a rank that is not known": (axes(shape="..."), "has the shape '...'"),
    "no offset": (axes(offset="-"), f"{AT_AXES}: its offset is missing"),
    "no size": (axes(size="-"), "its size is missing"),
    "negative offset": (axes(offset="-8"), "its offset is '-8'; it must be an integer from 0 to 2^63 - 1"),
    "hexadecimal offset": (axes(offset="0x0"), "its offset is '0x0'"),
    "offset of other digits": (axes(offset="\u0663"), "its offset is '\u0663'"),
    "negative size": (axes(size="-1"), "its size is '-1'"),
    "beyond the end": (
        axes(offset="1"),
        f"{AT_AXES} with int64 of shape (1,) lies at bytes 1 to 9 of its .bin, which ends at 8|that of another model",
    ),
    "far beyond the end": (axes(offset=str((1 << 63) - 1), size=str((1 << 63) - 1)), "which ends at 8"),
    "sum beyond 2^64": (
        axes(offset=str((1 << 63) - 1), size="8"),
        "lies at bytes 9,223,372,036,854,775,807 to",
    ),
    "size larger than the .bin": (axes(size="9"), "lies at bytes 0 to 9 of its .bin, which ends at 8"),
    "size too small": (axes(shape="2"), f"{AT_AXES} with int64 of shape (2,) needs 16 bytes; its size says 8"),
    "size 0": (axes(size="0"), "needs 8 bytes; its size says 0"),
    "packed too small": (
        axes(element_type="i4", shape="17"),
        "i4 of shape (17,) needs 9 bytes; its size says 8",
    ),
    "an empty one of no possible shape": (
        axes(shape="0,9223372036854775807,9223372036854775807"),
        "has no elements, and other lengths that no array can have",
    ),
    "strings without lengths": (
        axes(element_type="string"),
        "string of shape (1,) needs 12 bytes for its strings' lengths; its size says 8",
    ),
}  # fmt: skip

STRINGS: dict[str, tuple[list[int], bytes, str]] = {
    "another number": ([2, 0, 1], b"abcd", "strings that overlap or lie outside of it"),
    "not from the beginning": ([1, 1, 2], b"abcd", "overlap or lie outside"),
    "beyond the end": ([1, 0, 5], b"abcd", "overlap or lie outside"),
    "far beyond the end": ([1, 0, 0xFFFFFFFF], b"abcd", "overlap or lie outside"),
    "no UTF-8": ([1, 0, 2], b"\xff\xfe..", "a string that is not UTF-8"),
}


def deep(levels: int) -> bytes:
    inside = "<a>" * levels + "</a>" * levels
    return net(LAYERS, EDGES, more=f"<rt_info>{inside}</rt_info>")


LIMITED: dict[str, tuple[bytes, dict[str, int], str]] = {
    "file": (GOOD, {"file_bytes": 100}, "its bytes are 1,"),
    "depth": (deep(40), {}, "the levels of elements inside elements are 25; the limit depth is 24"),
    "layers": (net([X] * 9, ()), {"nodes": 8}, "its layer elements are at least 9; the limit nodes is 8"),
    "ports": (
        with_layers(X, layer(1, "a", "Abs", makes="".join(port(k) for k in range(9)))),
        {"nodes": 8}, "its port elements",
    ),
    "edges": (with_layers(X, edges=EDGES * 4), {"nodes": 11}, "its edge elements are at least 12"),
    "what else there is": (
        net(LAYERS, EDGES, more=f"<x>{'<y/>' * 40}</x>"),
        {"nodes": 40}, "its other elements",
    ),
    "inside of bodies": (
        with_layers(X, layer(1, "i", "If", version="opset8", more=f"<body>{'<layer/>' * 9}</body>")),
        {"nodes": 10}, "its layer elements",
    ),
    "an attribute": (
        instead('name="x"', f'name="{"x" * 2000}"'),
        {"text_bytes": 1000}, "the bytes of one tag are at least 2,",
    ),
    "many attributes": (
        instead('keep_dims="true"', " ".join(f'a{k}=""' for k in range(999))),
        {"text_bytes": 1000}, "the bytes of one tag",
    ),
    "a tag": (instead("<edges>", f"<{'e' * 2000}/><edges>"), {"text_bytes": 1000}, "the bytes of one tag"),
    "a text": (
        net(LAYERS, EDGES, more=f"<x>{'y' * 2000}</x>"),
        {"text_bytes": 1000}, "the bytes of one text are at least",
    ),
    "rank of an input": (
        instead('"2,3"', f'"{"1," * 64}1"'),
        {}, "layer 0 'x' (Parameter) has rank 65; the limit rank is 64",
    ),
    "rank of a constant": (axes(shape="1," * 64 + "1"), {}, "layer 1 'axes' (Const) has rank 65"),
    "rank of a port": (
        instead("<dim>1</dim>", "<dim>1</dim>" * 65),
        {}, "a port has rank 65; the limit rank is 64",
    ),
    "data": (
        axes(),
        {"data_bytes": 7},
        "with int64 of shape (1,): with it the bytes of all constants are 8; the limit data_bytes is 7",
    ),
    "data beyond memory": (
        axes(shape="99999999999,99999999999"),
        {}, "with it the bytes of all constants are 79,999,999,998,",
    ),
}  # fmt: skip

START = b'<net version="11"><layers>'
ENDLESS = {
    "one attribute": (START + b'<layer name="', b"x"),
    "attributes": (START + b"<layer ", b"x='' "),
    "a comment": (START + b"<!--", b"x"),
    "an instruction": (START + b"<?x ", b"x"),
    "a text": (b"<net version='11'><x>", b"x"),
    "elements": (b"<net version='11'><x>", b"<y/>"),
    "levels": (b"<net version='11'>", b"<y>"),
    "layers": (START, b"<layer id='1' name='x' type='X' version='opset1'/>"),
    "edges": (b"<net version='11'><edges>", edge(1, 0, 2, 0).encode()),
    "ports": (START + b"<layer id='1' name='x' type='X' version='opset1'><input>", b"<port id='1'/>"),
    "dims": (START + b"<layer id='1' name='x' type='X' version='opset1'><input><port id='1'>", b"<dim>1</dim>"),
    "dims elsewhere": (START + b"<layer id='1' name='x' type='X' version='opset1'>", b"<dim>1</dim>"),
    "space": (START, b" "),
}
