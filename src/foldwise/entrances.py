"""The public functions' way in: NumPy's habits, checked and turned into a Reduce, Scan or Arg.

The core answers the plainest calls by itself; the functions called general here get all the others.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from . import arguments, dtypes, engine
from .arguments import Accuracy, Overflow, as_array, flag, normalised_axes, one_axis
from .engine import INT64, Arg, Reduce, Scan
from .errors import ArgumentError, DtypeError, OptionError
from .folds import FOLDS, PLACES
from .scale import home

Function = TypeVar("Function", bound=Callable[..., Any])

ENTRANCES: Final = (
    *((name, fold) for fold in FOLDS for name in (fold.name, fold.scan, fold.standard_scan) if name is not None),
    *((fold.name, fold) for fold in PLACES),
)
"""The public functions by number: what each is called in its errors, and the fold behind it."""


def entrance(name: str) -> int:
    """The number by which the core knows a public function."""
    return [known for known, _ in ENTRANCES].index(name)


# ---- arguments that are not plain
#
# What the core takes after the entrance is what these take, in their order; a default stands for what a public function
# does not have. What is no array comes here as one.


def reduce_general(
    code: int,
    x: Any = None,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
    overflow: Any = "wrap",
    accuracy: Any = "default",
) -> Any:
    """What `reduce` does with any but the plainest arguments: check them all, then run."""
    name, fold = ENTRANCES[code]
    far = home(x)
    source = arguments.accepted(name, x)
    axes = normalised_axes(name, axis, x.ndim)
    result = arguments.chosen_dtype(name, fold, source, dtype, overflow)
    keep = flag(name, "keepdims", keepdims)
    start = arguments.initial_value(name, initial, result, source, overflow)
    reduction = Reduce(fold, axes, result, keep, start, overflow, arguments.chosen_accuracy(name, accuracy))
    if far:
        return far.reduce(name, reduction, x, out, where)
    mask = None if where is None else arguments.mask_for(name, where, x)
    if out is not None:
        arguments.check_out(name, out, reduction.shape_for(x.shape), result, fold)
        if arguments.overlap(x, out) or (mask is not None and arguments.overlap(mask, out)):
            raise OptionError(f"{name}: out shares memory with the input; give another array, or leave out= away")
    folded = reduction.run(x, out, mask)
    return folded if out is not None or folded.ndim else folded[()]


def scan_general(
    code: int,
    x: Any = None,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    exclusive: Any = False,
    reverse: Any = False,
    include_initial: Any = False,
    overflow: Any = "wrap",
    accuracy: Any = "default",
) -> Any:
    """What `scan` does with any but the plainest arguments: check them all, then run."""
    name, fold = ENTRANCES[code]
    far = home(x)
    source = arguments.accepted(name, x)
    at = None if axis is None else one_axis(name, "axis", axis, x.ndim)
    scan = Scan(
        name,
        fold,
        0 if at is None and x.ndim == 1 else at,
        arguments.chosen_dtype(name, fold, source, dtype, overflow),
        flag(name, "exclusive", exclusive),
        flag(name, "reverse", reverse),
        flag(name, "include_initial", include_initial),
        overflow,
        arguments.chosen_accuracy(name, accuracy),
    )
    if scan.exclusive and scan.include_initial:
        raise OptionError(
            f"{name}: exclusive=True and include_initial=True exclude each other: the first drops the last "
            f"element to begin with the identity, the second keeps it"
        )
    if far:
        return far.scan(name, scan, x, out)
    if out is not None:
        arguments.check_out(name, out, scan.shape_for(x.shape), scan.result, fold)
        if arguments.overlap(x, out) and not arguments.same_memory(x, out):
            raise OptionError(
                f"{name}: out shares memory with the input without being the same array; give another array, "
                f"or leave out= away"
            )
    return scan.run(x, out)


def place_general(
    code: int, x: Any = None, axis: Any = None, out: Any = None, keepdims: Any = False, select_last_index: Any = False
) -> Any:
    """What `place` does with any but the plainest arguments: check them all, then run."""
    name, fold = ENTRANCES[code]
    far = home(x)
    arguments.accepted(name, x)
    axes = tuple(range(x.ndim)) if axis is None else (one_axis(name, "axis", axis, x.ndim),)
    arg = Arg(fold, axes, flag(name, "keepdims", keepdims), flag(name, "select_last_index", select_last_index))
    if far:
        return far.place(name, arg, x, out)
    if out is not None:
        arguments.check_out(name, out, arg.shape_for(x.shape), INT64, fold)
        if arguments.overlap(x, out):
            raise OptionError(f"{name}: out shares memory with the input; give another array, or leave out= away")
    found = arg.run(x, out)
    return found if out is not None or found.ndim else found[()]


# ---- several folds at once

TOGETHER: Final = {fold.name: entrance(fold.name) for fold in FOLDS}
"""The reductions that `many` knows, by name."""


def many_general(
    known: dict[str, int], x: Any = None, folds: Any = None, axis: Any = None, keepdims: Any = False, where: Any = None
) -> tuple[Any, ...]:
    """What `many` does with any but the plainest arguments: check them all, then run."""
    name = "reduce_many"
    far = home(x)
    source = arguments.accepted(name, x)
    axes = normalised_axes(name, axis, x.ndim)
    keep = flag(name, "keepdims", keepdims)
    accepted = ", ".join(known)
    try:
        if isinstance(folds, str):
            raise TypeError
        wanted = tuple(folds)
    except TypeError:
        raise ArgumentError(
            f'{name}: folds = {folds!r} is of type {type(folds).__name__}; give a list of names, as in ["sum", "max"] '
            f"(accepted: {accepted})"
        ) from None
    for each in wanted:
        if not isinstance(each, str) or each not in known:
            raise OptionError(f"{name}: {each!r} is no reduction; accepted are {accepted}")
    if not wanted:
        return ()
    chosen = [ENTRANCES[known[each]][1] for each in wanted]
    reductions = [Reduce(fold, axes, fold.result(source), keep) for fold in chosen]
    if far:
        folded: tuple[Any, ...] = far.many(name, reductions, x, where)
        return folded
    mask = None if where is None else arguments.mask_for(name, where, x)
    return tuple(done if done.ndim else done[()] for done in engine.run_together(reductions, x, mask))


# ---- into the core

_GENERAL: Final[dict[str, Callable[..., Any]]] = {
    "reduce": reduce_general,
    "scan": scan_general,
    "place": place_general,
    "many": many_general,
}


def _route(function: int, source: int, result: int, overflow: Overflow, accuracy: Accuracy) -> engine.Route:
    """From a dtype into another, or (past the last) into what the function gives when nobody says."""
    name, fold = ENTRANCES[function]
    read, unsaid = dtypes.TABLE[source], result == len(dtypes.TABLE)
    try:
        chosen = None if unsaid else arguments.NUMPY[result]
        written = fold.result(read) if fold in PLACES else arguments.chosen_dtype(name, fold, read, chosen, overflow)
    except (DtypeError, OptionError):
        return engine.NOWHERE  # where it is said why
    return engine.route(fold, read, written, overflow, accuracy, name != fold.name)


def _with_arrays(kind: str) -> Callable[..., Any]:
    """A general function for arrays, in memory or not; whatever else is read as one and tried by the core again."""
    general, core = _GENERAL[kind], engine.CORE[kind][0]

    def taken(code: Any, x: Any, *others: Any) -> Any:
        if type(x) is np.ndarray or home(x):
            return general(code, x, *others)
        return core(code, as_array("reduce_many" if kind == "many" else ENTRANCES[code][0], x), *others)

    return taken


engine.configure(len(ENTRANCES), _route, {kind: _with_arrays(kind) for kind in _GENERAL})

reduce: Final = engine.CORE["reduce"][0]
scan: Final = engine.CORE["scan"][0]
place: Final = engine.CORE["place"][0]
many: Final = engine.CORE["many"][0]


def _direct(kind: str, entered: Callable[[str], Any] = entrance) -> Callable[[Function], Function]:
    general = _GENERAL[kind]
    names = general.__code__.co_varnames[1 : general.__code__.co_argcount]
    taken = dict(zip(names, general.__defaults__ or (), strict=True))

    def stand_in(function: Function) -> Function:
        """The function of that name without its Python frame: same signature, same documentation."""
        made: Function = engine.CORE[kind][1](function, entered(function.__name__), taken)
        return made

    return stand_in


direct_reduction: Final = _direct("reduce")
direct_scan: Final = _direct("scan")
direct_place: Final = _direct("place")
direct_many: Final = _direct("many", lambda name: TOGETHER)
