"""The command `docs`: the site of all operators, functions and guides, written to a folder or served."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

from .files import UsageError
from .progress import progress

_PORTS: Final = range(1 << 16)


def port_number(text: str) -> int:
    """Where a machine can serve."""
    if not text.isdecimal() or int(text) not in _PORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give an integer from 0 to {_PORTS[-1]}")
    return int(text)


def add(commands: Any) -> None:
    """The command `docs`."""
    command = commands.add_parser(
        "docs",
        help="write the documentation as a site",
        description="Write the reference of all operators and functions, every comparison and the guides as a site "
        "that needs no server, or serve it on this machine.",
    )
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", metavar="DIR", help="a new folder, an empty one, or one of only what docs wrote before")
    where.add_argument("--serve", action="store_true", help="serve it to this machine until interrupted")
    command.add_argument("--port", type=port_number, default=8000, help="where to serve it; 0 takes any that is free")
    command.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    """The command `docs`."""
    if asked.serve:
        _serve(asked.port)
    else:
        count = _written(Path(asked.out))
        print(f"{asked.out}: {count:,} files, the first is {Path(asked.out, 'index.html')}")
    return 0


def _written(folder: Path) -> int:
    from foldwise.pages import site

    with progress("writing pages", "files") as tell:
        return site.write(folder, lambda done: tell(done, max(done, site.COUNT)))


def _serve(port: int) -> None:
    from foldwise.pages import site

    with tempfile.TemporaryDirectory() as folder:
        try:
            server = site.server(folder, port)  # before the pages are written, for which nobody should wait in vain
        except OSError as error:
            raise UsageError(f"--port {port}: {error.strerror or error}; --port 0 takes any that is free") from None
        with server:
            _written(Path(folder))
            print(f"http://127.0.0.1:{server.server_port}/index.html", flush=True)
            server.serve_forever()
