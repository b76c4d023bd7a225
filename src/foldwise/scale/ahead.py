"""Reading the next block while the last one is folded."""

from collections.abc import Callable, Generator, Iterable
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

Piece = TypeVar("Piece")
Buffer = TypeVar("Buffer")
Read = TypeVar("Read")

BUFFERS = 2
"""One that is read into, one that is folded."""


def read_ahead(
    pieces: Iterable[Piece], read: Callable[[Piece, Buffer], Read], buffers: list[Buffer]
) -> Generator[tuple[Piece, Read]]:
    """Each piece and what was read of it, which is good until the next one is asked for."""
    free: SimpleQueue[Buffer | None] = SimpleQueue()
    done: SimpleQueue[tuple[Piece, Read, Buffer] | BaseException | None] = SimpleQueue()
    for buffer in buffers:
        free.put(buffer)

    def work() -> None:
        try:
            for piece in pieces:
                buffer = free.get()
                if buffer is None:
                    return
                done.put((piece, read(piece, buffer), buffer))
            done.put(None)
        except BaseException as error:
            done.put(error)

    reader = Thread(target=work, name="foldwise reader", daemon=True)
    reader.start()
    try:
        while (item := done.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[:2]
            free.put(item[2])
    finally:
        free.put(None)
        reader.join()


def read_in_turn(
    pieces: Iterable[Piece], read: Callable[[Piece, Buffer], Read], buffers: list[Buffer]
) -> Generator[tuple[Piece, Read]]:
    """The same without a thread, for what is read by somebody else's code."""
    for piece in pieces:
        yield piece, read(piece, buffers[0])
