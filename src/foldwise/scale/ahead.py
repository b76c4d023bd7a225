"""Reading while folding."""

from collections.abc import Callable, Generator, Iterable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

from foldwise.config import alone

Piece = TypeVar("Piece")
Buffer = TypeVar("Buffer")
Read = TypeVar("Read")

BUFFERS = 2
"""One that is read into, one that is folded; or one for each of two workers."""


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


def side_by_side(
    pieces: Iterable[Piece],
    read: Callable[[Piece, Buffer], Read],
    fold: Callable[[Piece, Read], None],
    buffers: list[Buffer],
) -> None:
    """Read pieces and fold them, in whatever order they come, with a worker for each buffer.

    What a worker has read it folds itself, alone on its core, while the others read. One folds at a time. The caller is
    one of the workers.
    """
    coming, folding = Lock(), Lock()
    left = iter(pieces)
    failed: list[BaseException] = []

    def work(buffer: Buffer) -> None:
        try:
            while not failed:
                with coming:
                    piece = next(left, None)
                if piece is None:
                    return
                found = read(piece, buffer)
                with folding, alone():
                    fold(piece, found)
        except BaseException as error:
            failed.append(error)

    others = [Thread(target=work, args=(buffer,), name="foldwise reader", daemon=True) for buffer in buffers[1:]]
    for other in others:
        other.start()
    try:
        work(buffers[0])
        for other in others:
            other.join()
    except BaseException as error:  # an interrupt between the lines above
        failed.append(error)
        for other in others:
            other.join()
    if failed:
        raise failed[0]
