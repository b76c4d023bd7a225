"""Accumulators as bytes: they come back as they were, and whatever none has written is refused."""

from __future__ import annotations

import copy
import hashlib
import itertools
import pickle
import struct

import numpy as np
import pytest
from accumulated import NAMES, data, empty
from exact import same_bits
from marks import EVERY_DTYPE

import foldwise as fw

EVERY_NAME = pytest.mark.parametrize("name", NAMES)

# ---- as bytes


@EVERY_DTYPE
@EVERY_NAME
def test_there_and_back(name: str, dtype: str) -> None:
    for shape, accuracy in itertools.product([(), (3,), (2, 2)], ["default", None]):
        x = data(name, dtype, (20, *(shape or (3,))))
        for count in (0, 11):
            found = empty(name, x, shape, accuracy=accuracy).update(x[:count])
            for back in (
                fw.Accumulator.from_bytes(found.to_bytes()),
                pickle.loads(pickle.dumps(found)),
                copy.deepcopy(found),
            ):
                same = (back.fold, back.dtype, back.accuracy, back.shape, back.count)
                assert same == (name, x.dtype, found.accuracy, shape, count * (1 if shape else 3))
                assert back.to_bytes() == found.to_bytes()
                assert repr(back) == repr(found)
                after, wanted = back.update(x[11:]), found.copy().update(x[11:])
                assert same_bits(np.asarray(after.result()), np.asarray(wanted.result()))


SMALL = (
    fw.Accumulator("sum", "float32").update(np.array([1, -1e30, 3e-20], np.float32)),
    fw.Accumulator("mean", "int64", shape=(2,)).update([[1, -(2**62)], [3, 5]]),
    fw.Accumulator("argmax", "float64").update([1.0, 5.0, 2.0]),
    fw.Accumulator("all", "bool", shape=(3,)).update([[True, False, True]]),
    fw.Accumulator("prod", "float64").update([0.1] * 7),
    fw.Accumulator("l2", "float64", accuracy="default").update([3.0, 4.0]),
)


@pytest.mark.parametrize("small", SMALL, ids=repr)
def test_every_damage_is_noticed(small: fw.Accumulator) -> None:
    stored = small.to_bytes()
    assert fw.Accumulator.from_bytes(bytearray(stored)).to_bytes() == stored
    damaged = [stored[:at] for at in range(len(stored))]
    damaged += [stored + more for more in (b"\0", stored)]
    for at, flipped in itertools.product(range(len(stored)), (1, 0x80, 0xFF)):
        damaged.append(stored[:at] + bytes([stored[at] ^ flipped]) + stored[at + 1 :])
    for each in damaged:
        with pytest.raises(fw.StateError, match=r"^from_bytes: "):
            fw.Accumulator.from_bytes(each)


def sealed(body: bytes, version: int = 1) -> bytes:
    """Bytes that are intact, whatever they say."""
    data = struct.pack("<6sHQ", b"\x93FWACC", version, 16 + len(body) + 16) + body
    return data + hashlib.blake2b(data, digest_size=16).digest()


@pytest.mark.parametrize("small", SMALL, ids=repr)
def test_lies_are_refused_or_true(small: fw.Accumulator) -> None:
    body = small.to_bytes()[16:-16]
    assert sealed(body) == small.to_bytes()
    for at, byte in itertools.product(range(len(body)), (0, 1, 2, 3, 5, 0x7F, 0x80, 0xFF)):
        lie = sealed(body[:at] + bytes([byte]) + body[at + 1 :])
        try:
            back = fw.Accumulator.from_bytes(lie)
        except fw.StateError:
            continue
        assert back.to_bytes() == lie
        with np.errstate(all="ignore"):
            assert np.shape(back.result()) == back.shape
    for size in range(len(body)):
        with pytest.raises(fw.StateError):
            fw.Accumulator.from_bytes(sealed(body[:size]))
    with pytest.raises(fw.StateError):
        fw.Accumulator.from_bytes(sealed(body + b"\0"))


def told(fold: bytes, dtype: bytes, accuracy: bytes, shape: tuple[int, ...], count: int, payload: bytes) -> bytes:
    words = b"".join(bytes([len(word)]) + word for word in (fold, dtype, accuracy))
    return words + struct.pack(f"<B{len(shape)}QQ", len(shape), *shape, count) + payload


LIES: dict[str, tuple[bytes, str]] = {
    "a fold": (told(b"total", b"int8", b"exact", (), 0, bytes(8)), "'total' is no reduction"),
    "a dtype": (told(b"sum", b"complex64", b"exact", (), 0, bytes(8)), "complex64.*accepted"),
    "a dtype that Python cannot read": (told(b"sum", b",", b"exact", (), 0, bytes(8)), "dtype = ','.*accepted"),
    "an accuracy": (told(b"sum", b"int8", b"vague", (), 0, bytes(8)), "vague"),
    "an accuracy that is none": (told(b"prod", b"float32", b"exact", (), 0, bytes(16)), "no exact form"),
    "words beyond ASCII": (told(b"\xff\xfe", b"int8", b"exact", (), 0, bytes(8)), "no reduction"),
    "many outputs": (told(b"sum", b"float64", b"exact", (1 << 40,), 0, bytes(99)), "99 bytes"),
    "many outputs of integers": (told(b"sum", b"int64", b"exact", (1 << 40,), 0, bytes(99)), "99 bytes"),
    "more outputs than there can be": (told(b"sum", b"int64", b"exact", (1 << 62,) * 3, 0, bytes(8)), "shape"),
    "none of very many": (told(b"sum", b"int64", b"exact", (0, 1 << 62), 0, b""), "shape"),
    "a rank": (told(b"sum", b"int64", b"exact", (1,) * 63, 0, bytes(8)), "shape"),
    "a count": (told(b"sum", b"int64", b"exact", (), 1 << 63, bytes(8)), "count"),
    "a place": (told(b"argmax", b"int8", b"exact", (), 3, bytes(1) + struct.pack("<q", 3)), "places"),
    "a place before all": (told(b"argmax", b"int8", b"exact", (), 3, bytes(1) + struct.pack("<q", -1)), "places"),
    "a truth": (told(b"all", b"int8", b"exact", (), 3, b"\2"), "truth"),
    "digits": (told(b"sum", b"float64", b"exact", (), 3, bytes([0, 137, 139]) + bytes(8)), "no such sums"),
    "digits beyond any sum": (
        told(b"sum", b"float64", b"exact", (), 3, bytes([0, 137, 138]) + bytes([1] * 4)),
        "too often",
    ),
    "digits that end before they begin": (told(b"sum", b"float64", b"exact", (), 3, bytes([0, 9, 8])), "no such sums"),
    "sums of integers that are none": (
        told(b"mean", b"int64", b"exact", (), 3, bytes([0, 67, 68, 1, 0, 0, 0])), "sums of integers are integers"
    ),
    "an infinite sum of integers": (told(b"mean", b"int8", b"exact", (), 3, bytes([1, 0, 0])), "sums of integers"),
    "an extreme of no elements": (told(b"max", b"int8", b"exact", (2,), 0, bytes([0x80, 3])), "of no elements max"),
    "another name of a dtype": (told(b"sum", b"i8", b"exact", (), 0, bytes(8)), "written otherwise"),
    "digits with a 0 more": (told(b"sum", b"float64", b"exact", (), 3, bytes([0, 1, 3, 7] + [0] * 7)), "otherwise"),
    "something special": (told(b"sum", b"float64", b"exact", (), 3, bytes([6, 0, 0])), "no such sums"),
}


@pytest.mark.parametrize("what", LIES)
def test_lies(what: str) -> None:
    lie, says = LIES[what]
    with pytest.raises(fw.StateError, match=f"^from_bytes: this is no accumulator: .*{says}"):
        fw.Accumulator.from_bytes(sealed(lie))


def test_bytes_of_others_are_refused() -> None:
    stored = SMALL[0].to_bytes()
    with pytest.raises(fw.StateError, match="format 2, this foldwise knows 1"):
        fw.Accumulator.from_bytes(sealed(stored[16:-16], version=2))
    for other in (b"\x93NUMPY\x01\x00 and so on and so on and so on", b"hello"):
        with pytest.raises(fw.StateError, match="do not begin"):
            fw.Accumulator.from_bytes(other)
    for nothing in (None, "text", 3, [1, 2]):
        with pytest.raises(fw.ArgumentError, match=f"data is of type {type(nothing).__name__}"):
            fw.Accumulator.from_bytes(nothing)


def test_the_format_stays_readable() -> None:
    """Bytes that were written once: whoever changes the format gives it another version, and reads both."""
    written = bytes.fromhex(
        "93465741434301005a00000000000000"  # magic, version, length
        "0373756d07666c6f6174333205657861637400"  # sum, float32, exact, rank 0
        "0300000000000000"  # 3 elements
        "00414800c6ab8d0000000000000000010000000000000000"  # nothing special; digits 0x41 to 0x48
        "60d360f3ffffff7c4e6735c2a3468e6d772decc6215465"  # the last of them; the digest
    )
    assert SMALL[0].to_bytes() == written
    assert fw.Accumulator.from_bytes(written).result() == np.float32(-1e30)
