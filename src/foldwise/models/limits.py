"""The budgets of a safe load: what a model may ask for before anything is allocated for it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields
from typing import Final

from foldwise.errors import ArgumentError, LimitError, ModelError

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a model may ask for. Raise one with `load(path, limits=Limits(data_bytes=200 << 30))`."""

    file_bytes: int = 2 * GIB
    """The model file itself."""
    data_bytes: int = 64 * GIB
    """All constants together, those in files beside the model included (these are mapped, not read)."""
    grown_bytes: int = 512 * MIB
    """What the values of a run may take beyond eight times its inputs and constants, and what a constant unfolds to."""
    nodes: int = 1_000_000
    """Nodes, constants and values, in subgraphs and unfolded functions too."""
    depth: int = 24
    """Subgraphs inside subgraphs, functions that use functions, elements inside elements."""
    text_bytes: int = MIB
    """A name, or a text that is no data."""
    rank: int = 64
    """Axes of a tensor."""
    turns: int = 10_000_000
    """How often the loops of a run go round, all together: none is endless."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ArgumentError(f"Limits: {each.name} = {value!r}; it must be an int from 0 on")

    def check(self, name: str, asked: int, what: str) -> None:
        """Refuse what is more than one of the budgets."""
        allowed = getattr(self, name)
        if asked > allowed:
            raise LimitError(
                f"{what} {asked:,}; the limit {name} is {allowed:,} (if you trust the model, raise it: "
                f"limits=Limits({name}={asked}))"
            )

    def check_growth(self, made: int, given: int, what: str) -> None:
        """Refuse what grows out of little: all values of a run may take eight times what it was given, and more.

        `given` stands for that where nothing runs yet, while a model is read and planned.
        """
        allowance = 8 * (given if ROOM.given is None else ROOM.given)
        asked = ROOM.taken + made - allowance
        self.check("grown_bytes", asked, f"{what}: beyond eight times what it is given, the bytes of its values are")

    def check_turn(self, what: str) -> None:
        """One more turn of a loop."""
        ROOM.turns += 1
        self.check("turns", ROOM.turns, f"{what}: the turns of all loops of this run are")


class Room(threading.local):
    """The memory of the run that a thread is in."""

    given: int | None = None
    """The bytes of its inputs and constants; None where nothing runs."""
    taken = 0
    """The bytes of the values that are alive."""
    turns = 0
    """How often its loops have gone round."""


ROOM: Final = Room()


class Budget:
    """What one model has asked for so far, while it is read."""

    def __init__(self, limits: Limits, origin: str) -> None:
        self.limits = limits
        self.origin = origin
        self._data = 0
        self._nodes = 0

    def spend_data(self, count: int, what: str) -> None:
        """So many more bytes of constants."""
        self._data += count
        self.limits.check("data_bytes", self._data, f"{what}: with it the bytes of all constants are")

    def spend_nodes(self, count: int) -> None:
        """So many more nodes, constants and values."""
        self._nodes += count
        self.limits.check("nodes", self._nodes, f"{self.origin}: its nodes, constants and values are")

    def check_text(self, text: str | bytes, what: str) -> None:
        """A name or a text that is no data; bytes are what protobuf gives where they are no UTF-8."""
        if isinstance(text, bytes):
            raise ModelError(f"{self.origin}: {what} is no text in UTF-8: {text[:40]!r}")
        self.limits.check("text_bytes", len(text), f"{self.origin}: the bytes of {what} are")
