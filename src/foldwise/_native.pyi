"""The native core: arithmetic and loops. Only engine.py calls it; see there for what the arguments mean."""

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

VERSION: str

_Function = TypeVar("_Function", bound=Callable[..., Any])

_Job = tuple[int, int, int, int]
"""A row and a column of the table, the dtype that is read and the one that is written."""

_Finish = tuple[float, int, int, int, int]
"""The initial value as float and as 64-bit pattern, the limits that integers are judged by, and the ending."""

def reduce(
    entrance: int,
    x: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: Any,
    initial: Any,
    where: Any,
    overflow: Any,
    /,
) -> Any: ...
def scan(
    entrance: int,
    x: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    exclusive: Any,
    reverse: Any,
    include_initial: Any,
    overflow: Any,
    /,
) -> Any: ...
def place(
    entrance: int,
    x: Any,
    axis: Any,
    out: Any,
    keepdims: Any,
    select_last_index: Any,
    /,
) -> Any: ...
def reduce_many(
    entrances: dict[str, int],
    x: Any,
    folds: Any,
    axis: Any,
    keepdims: Any,
    where: Any,
    /,
) -> Any: ...
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
    /,
) -> bool: ...
def empty(shape: tuple[int, ...], code: int, like: NDArray[Any] | None, /) -> NDArray[Any]: ...
def keep_memory(most: int, /) -> None: ...
def configure(
    numbers: tuple[int, ...],
    entrances: tuple[tuple[tuple[int, int, int, int, float, int], ...], ...],
    general: tuple[Callable[..., Any], ...],
    wrap: str,
    /,
) -> None: ...
def available_isas() -> list[str]: ...
def use_isa(name: str, /) -> None: ...
def isa() -> str: ...
def fold_names() -> tuple[str, ...]: ...
def ending_names() -> tuple[str, ...]: ...
def set_threads(count: int, /) -> None: ...
def threads() -> int: ...
def probe_read(array: NDArray[Any], /) -> int: ...
def probe_copy(to: NDArray[Any], source: NDArray[Any], /) -> None: ...
