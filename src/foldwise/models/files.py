"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from foldwise.errors import ModelError


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to. It takes its name when the block ends well; otherwise nothing is left of it.

    Its bytes are on the disk before, so that a power cut leaves no name without them.
    """
    if path.is_dir():
        raise ModelError(f"save: {str(path)!r} is a folder; name a file")
    if not path.parent.is_dir():
        raise ModelError(f"save: there is no folder {str(path.parent)!r} for {path.name!r}; make it first")
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        if error.filename != str(unfinished):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from None  # not the name that nobody asked for
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
