"""Beyond one array in memory: sources that are read in blocks, and Dask's arrays.

Each of them has a home, a module that runs a checked Reduce, Scan or Arg on it where an array would run by itself:
`reduce(name, reduction, x, out, where)`, `scan(name, scan, x, out)`, `place(name, arg, x, out)` and
`many(name, reductions, x, where)`; and `mapped(name, said, function, operands)`, which puts a function of elements,
told from others by what is said of it, before a fold. Whatever the chunks, sums are folded exactly there, so the chunks
never show.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_HOMES: Final = (("foldwise.scale.sources", "Source", "stream"), ("dask.array", "Array", "dask"))
"""Where a class is defined, its name, and the home of its values. What nobody has imported has no values yet."""


def home(x: Any) -> ModuleType | None:
    """The module that folds `x`, if it is no array in memory."""
    for defined, name, its_home in _HOMES:
        if defined in sys.modules and isinstance(x, getattr(sys.modules[defined], name)):
            return import_module(f".{its_home}", __name__)
    return None


def within(budget: Any, x: Any) -> Any:
    """The same with another budget, if it is a source; whoever runs Dask's graphs sees to their memory."""
    if budget is None or "foldwise.scale.sources" not in sys.modules:
        return x
    from .sources import Source

    return x.within(budget) if isinstance(x, Source) else x
