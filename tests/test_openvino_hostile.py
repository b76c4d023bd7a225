"""Damaged and hostile OpenVINO IR files: each is refused, with its own words, before it takes memory or time."""

from __future__ import annotations

import contextlib
import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ir_models as irs
import pytest
from hostile_ir import ENDLESS, GOOD, LIMITED, REFUSED, STRINGS, axes, with_layers
from ir_models import AXES, ONE, OUT, SUM, X, layer, port

import foldwise as fw
from foldwise.models.limits import Limits
from foldwise.models.openvino_ir import read
from foldwise.models.openvino_xml import CHUNK, parse


@pytest.mark.parametrize(("xml", "says"), REFUSED.values(), ids=REFUSED)
def test_refused(xml: bytes, says: str) -> None:
    with pytest.raises(fw.ModelError) as caught:
        read(xml, ONE, Limits())
    message = str(caught.value)
    assert not isinstance(caught.value, fw.LimitError)
    assert [words for words in says.split("|") if words not in message] == [], message
    assert message.startswith("the model")
    assert len(message) < 400


def test_the_good_file_is_good() -> None:
    assert read(GOOD, ONE, Limits()).graph.nodes[0].name == "sum"


def test_messages_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.xml"
    path.write_bytes(axes(size="0"))
    with pytest.raises(fw.ModelError, match=r"^bad\.xml: layer 1 'axes' \(Const\)"):
        irs.loaded(path)


@pytest.mark.parametrize(("numbers", "text", "says"), STRINGS.values(), ids=STRINGS)
def test_damaged_strings(numbers: list[int], text: bytes, says: str) -> None:
    data = b"".join(each.to_bytes(4, "little") for each in numbers) + text
    with pytest.raises(fw.ModelError, match=rf"with string of shape \(1,\) has .*{says}"):
        read(axes(element_type="string", size="16"), data, Limits())


def test_strings_that_go_backwards() -> None:
    data = b"".join(each.to_bytes(4, "little") for each in (2, 0, 3, 1)) + b"abcd"
    with pytest.raises(fw.ModelError, match="overlap or lie outside"):
        read(axes(element_type="string", shape="2", size="20"), data, Limits())


def test_damage_anywhere_is_refused_or_harmless() -> None:
    rng = random.Random(7)
    pieces = [GOOD[a:b] for a in range(0, len(GOOD), 40) for b in (a + 1, a + 9)]
    refused = 0
    for _ in range(2000):
        damaged, a = bytearray(GOOD), rng.randrange(len(GOOD))
        damaged[a : a + rng.randrange(12)] = rng.choice([b"", bytes([rng.randrange(256)]), rng.choice(pieces)])
        try:
            read(bytes(damaged), ONE[: rng.randrange(12)], Limits())
        except fw.ModelError:
            refused += 1
    assert 1000 < refused < 2000


# ---- limits


@pytest.mark.parametrize(("xml", "limits", "says"), LIMITED.values(), ids=LIMITED)
def test_limits(xml: bytes, limits: dict[str, int], says: str) -> None:
    with pytest.raises(fw.LimitError) as caught:
        read(xml, ONE, Limits(**limits))
    assert says in str(caught.value)
    assert "limits=Limits(" in str(caught.value)


def test_constants_that_unfold_again_and_again() -> None:
    bits = layer(1, "axes", "Const", data='element_type="i4" shape="16" offset="0" size="8"', makes=port(0))
    many = [bits.replace('id="1" name="axes"', f'id="{k}" name="axes{k}"') for k in range(10, 15)]
    xml = with_layers(X, AXES, SUM, OUT, *many)
    with pytest.raises(fw.LimitError, match="the bytes of its values are 16; the limit grown_bytes is 15"):
        read(xml, ONE, Limits(grown_bytes=15))
    assert len(read(xml, ONE, Limits(grown_bytes=16)).graph.constants) == 6


class Endless:
    """A file that goes on for ever, and counts what was read."""

    def __init__(self, begin: bytes, middle: bytes) -> None:
        self.begin, self.middle, self.given = begin, middle, 0

    def read(self, size: int) -> bytes:
        data = self.begin + self.middle * ((size - len(self.begin)) // len(self.middle))
        self.begin = b""
        self.given += len(data)
        return data


@pytest.mark.parametrize(("begin", "middle"), ENDLESS.values(), ids=ENDLESS)
def test_what_never_ends_is_stopped_while_it_is_read(begin: bytes, middle: bytes) -> None:
    file: Any = Endless(begin, middle)
    limits = Limits(nodes=10_000, text_bytes=1 << 17, file_bytes=1 << 25)
    tracemalloc.start()
    with pytest.raises(fw.LimitError):
        parse(file, "the model", limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24
    assert file.given <= limits.file_bytes + CHUNK


def test_small_hostile_files_take_no_memory() -> None:
    tight = Limits(nodes=10, data_bytes=1 << 40, text_bytes=500, rank=8)
    tracemalloc.start()
    for xml in [*(case[0] for case in REFUSED.values()), *(case[0] for case in LIMITED.values())]:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        with contextlib.suppress(fw.ModelError):  # some are harmless within these limits
            read(xml, ONE, tight)
        assert tracemalloc.get_traced_memory()[1] - before < 1 << 20
    tracemalloc.stop()


# ---- files that are none


def bad_xml(folder: Path, make: Callable[[Path], object]) -> str:
    path = folder / "m.xml"
    make(path)
    with pytest.raises(fw.ModelError) as caught:
        irs.loaded(path)
    return str(caught.value)


def bad_bin(folder: Path, make: Callable[[Path], object]) -> str:
    (folder / "m.xml").write_bytes(GOOD)
    return bad_xml(folder, lambda path: make(path.with_suffix(".bin")))


def test_files_that_are_no_regular_files(tmp_path: Path) -> None:
    for make, folder in ((bad_xml, tmp_path / "a"), (bad_bin, tmp_path / "b")):
        for kind in (os.mkfifo, Path.mkdir):
            inner = folder / kind.__name__
            inner.mkdir(parents=True)
            assert "is no regular file; put a plain copy there" in make(inner, kind)


def test_a_missing_bin(tmp_path: Path) -> None:
    message = bad_bin(tmp_path, lambda path: None)
    assert message.startswith("m.xml: layer 1 'axes' (Const) with int64 of shape (1,) lies in '")
    assert message.endswith("m.bin', which is not there; name the .bin: weights=")
    with pytest.raises(fw.ModelError, match=r"the model came as bytes: give its bytes or path as weights="):
        read(GOOD, None, Limits())


def test_an_empty_bin(tmp_path: Path) -> None:
    assert "lies at bytes 0 to 8 of its .bin, which ends at 0" in bad_bin(tmp_path, Path.touch)


def test_a_link_out_of_the_folder(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "model"
    folder.mkdir()
    secret.write_bytes(ONE)
    message = bad_bin(folder, lambda path: path.symlink_to("../secret"))
    assert "its m.bin is a symbolic link out of the model's folder; if you trust it, name it: weights=" in message
    assert read(folder / "m.xml", folder / "m.bin", Limits()).graph.constants["axes"].tolist() == [1]


def test_a_device_is_no_bin(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_bytes(GOOD)
    with pytest.raises(fw.ModelError, match="is no regular file"):
        read(tmp_path / "m.xml", "/dev/zero", Limits())


@pytest.mark.parametrize("weights", [3, ["m.bin"], bytearray(8)])
def test_weights_of_the_wrong_type(weights: Any) -> None:
    with pytest.raises(fw.ArgumentError, match=rf"load: weights is of type {type(weights).__name__}; give a path, or"):
        read(GOOD, weights, Limits())


def test_a_large_file_is_refused_by_its_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(fw.LimitError, match=r"m\.xml: its bytes are 3,221,225,472; the limit file_bytes is"):
        irs.loaded(path)
