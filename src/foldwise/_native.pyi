"""The native core: arithmetic and loops. Only engine.py calls it; see there for what the arguments mean."""

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

VERSION: str
MOST_THREADS: int
TOTAL_WORDS: int
DOUBLES: int

_Function = TypeVar("_Function", bound=Callable[..., Any])

_Job = tuple[int, int, int, int]
"""A row and a column of the table, the dtype that is read and the one that is written."""

_Finish = tuple[float, int, int, int, int]
"""The initial value as float and as 64-bit pattern, the limits that integers are judged by, and the ending."""

_Route = tuple[int, int, int, _Finish]
"""A row and a column of the table, the dtype that comes out, and how it ends."""

_Node = tuple[_Route, bool, bool, bool, bool, tuple[int, ...]]
"""What a node comes to: its route (a row of -1: Python runs it), whether folded axes are kept, whether no named axis
means all, whether to walk backwards, whether shifted (of positions: the last of equals), the axes by attribute."""

_Operator = tuple[
    str,
    int,
    int,
    tuple[tuple[int, bool], ...],
    int,
    tuple[str, ...],
    Callable[[int, int, int, dict[str, Any]], _Node | str],
    Callable[[dict[str, Any], NDArray[Any], NDArray[Any] | None], NDArray[Any] | str],
]
"""Name, version, kind (0 reduction, 1 position, 2 scan), inputs as dtype (-1: any) and whether optional, the output's
dtype (-1: the first input's), the attributes to look for, and two functions, which refuse with a text: what a node
comes to, from its data's dtype (-1: none of ours), onnxruntime's number for that, how many inputs it has, and its
attributes; and its result."""

# After the entrance, everything that the general function of that kind takes: entrances.py.
def reduce(entrance: int, /, *arguments: Any) -> Any: ...
def scan(entrance: int, /, *arguments: Any) -> Any: ...
def place(entrance: int, /, *arguments: Any) -> Any: ...
def reduce_many(entrances: dict[str, int], /, *arguments: Any) -> Any: ...
def direct_reduce(function: _Function, entrance: int, arguments: dict[str, Any], /) -> _Function: ...
def direct_scan(function: _Function, entrance: int, arguments: dict[str, Any], /) -> _Function: ...
def direct_place(function: _Function, entrance: int, arguments: dict[str, Any], /) -> _Function: ...
def direct_many(function: _Function, entrances: dict[str, int], arguments: dict[str, Any], /) -> _Function: ...
def run_reduce(
    x: NDArray[Any],
    mask: NDArray[Any] | None,
    folded: int,
    jobs: tuple[tuple[_Job, _Finish, NDArray[Any]], ...],
    /,
) -> tuple[bool, ...]: ...
def run_scan(
    job: _Job,
    finish: _Finish,
    x: NDArray[Any],
    axis: int,
    out: NDArray[Any],
    reverse: bool,
    shifted: bool,
    carried: NDArray[Any] | None,
    /,
) -> bool: ...
def merge_totals(totals: NDArray[Any], others: NDArray[Any], subtract: bool, /) -> bool: ...
def merge_doubles(doubles: NDArray[Any], others: NDArray[Any], /) -> bool: ...
def convert_sums(sums: NDArray[Any], into: NDArray[Any], /) -> bool: ...
def round_doubles(
    doubles: NDArray[Any], counts: NDArray[Any] | None, ending: int, code: int, out: NDArray[Any], /
) -> None: ...
def round_totals(
    totals: NDArray[Any], counts: NDArray[Any] | None, ending: int, code: int, out: NDArray[Any], /
) -> None: ...
def empty(shape: tuple[int, ...], code: int, like: NDArray[Any] | None, /) -> NDArray[Any]: ...
def keep_memory(most: int, /) -> None: ...
def configure(
    numbers: tuple[int, ...],
    entrances: int,
    route: Callable[[int, int, int, str, str], _Route],
    general: tuple[Callable[..., Any], ...],
    overflows: tuple[str, str, str],
    accuracies: tuple[str, str],
    /,
) -> None: ...
def declare_operators(operators: tuple[_Operator, ...], /) -> int: ...
def choose_operators(number: int, /) -> None: ...
def available_isas() -> list[str]: ...
def use_isa(name: str, /) -> None: ...
def isa() -> str: ...
def fold_names() -> tuple[str, ...]: ...
def ending_names() -> tuple[str, ...]: ...
def set_threads(count: int, /) -> None: ...
def threads() -> int: ...
def work_alone(alone: bool, /) -> bool: ...
def probe_read(array: NDArray[Any], /) -> int: ...
def probe_copy(to: NDArray[Any], source: NDArray[Any], /) -> None: ...
