"""The whole table: canonical bits on every instruction set of this machine, exact values within bounds."""

from __future__ import annotations

import functools
import math
from typing import Any

import cases
import domains
import exact
import numpy as np
import processes
import pytest
import references
import trees
from cases import Case, Fold
from digests import of_all
from digests import written as written_down
from trees import Array

import foldwise as fw

EVERY_COLUMN = [
    pytest.param(fold, dtype, id=f"{fold.name}-{dtype}") for fold in cases.FOLDS for dtype in cases.DTYPES
]


def compute(case: Case) -> Any:
    try:
        return case.fold.of(fw)(case.x, **case.arguments)
    except fw.FoldwiseError:
        return None


@functools.cache
def expected_digests(fold: Fold, dtype: str) -> Array:
    """By the trees; where they do not know the bits, those of this process, whatever its instruction set."""
    right = compute if fold.tree.slack else references.expected
    return np.array([cases.digest(right(case)) for case in cases.cases(fold, dtype)], np.int64)


@pytest.fixture(scope="module", params=cases.ISAS)
def digests(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("digests") / f"{request.param}.npz"
    processes.output(str(processes.TESTS / "digests.py"), str(path), FOLDWISE_ISA=request.param)
    return np.load(path)


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return written_down()


@pytest.mark.parametrize(("fold", "dtype"), EVERY_COLUMN)
def test_canonical_bits_on_every_isa(digests: Any, fold: Fold, dtype: str) -> None:
    found = digests[f"{fold.name} {dtype}"]
    wanted = expected_digests(fold, dtype)
    assert found.shape == wanted.shape
    different = set(np.flatnonzero(found != wanted).tolist())
    assert not different, differences(fold, dtype, different)


def differences(fold: Fold, dtype: str, different: set[int]) -> str:
    """The first cases that differ, with what this process makes of them."""
    chosen = [case for k, case in enumerate(cases.cases(fold, dtype)) if k in different][:10]
    words = [f"{case}\n  wanted {references.expected(case)!r}\n  here   {compute(case)!r}" for case in chosen]
    return "\n".join([f"{len(different)} cases differ, the first:", *words])


@pytest.mark.parametrize(("fold", "dtype"), EVERY_COLUMN)
def test_the_same_bits_on_every_machine(written: dict[str, str], fold: Fold, dtype: str) -> None:
    assert of_all(expected_digests(fold, dtype)) == written[f"{fold.name} {dtype}"], processes.TESTS / "digests.py"


def test_every_column_is_written_down(written: dict[str, str]) -> None:
    assert list(written) == [f"{fold.name} {dtype}" for fold in cases.FOLDS for dtype in cases.DTYPES]


@pytest.mark.parametrize(("fold", "dtype"), EVERY_COLUMN)
def test_exact_within_the_bound(fold: Fold, dtype: str) -> None:
    if fold.tree.slack:
        for case in cases.cases(fold, dtype):
            count = folded(case)
            found, wanted = compute(case), references.expected(case)
            assert references.alike(fold, found, wanted, count, case.x.dtype), f"{case}\n{found!r}\n{wanted!r}"
        return
    plain = [case for case in cases.cases(fold, dtype) if case.layout == "C" and not case.options]
    assert plain
    for case in plain:
        if fold.scan or case.axis:
            assert_near_exact(case, np.asarray(compute(case)))


def folded(case: Case) -> int:
    axes = (case.axis,) if case.fold.scan else case.axis
    return math.prod(case.shape[axis] for axis in axes)


def assert_near_exact(case: Case, result: Array) -> None:
    fold = case.fold
    if fold.scan:
        method, x, result = "accumulate", np.moveaxis(case.x, case.axis, 0), np.moveaxis(result, case.axis, 0)
    else:
        method, x = "reduce", trees.memory_order(case.x, case.axis)
    if not len(x):
        nothing = np.full(result.shape, fold.of_nothing(case.out))
        assert np.array_equal(result, nothing, equal_nan=trees.is_float(case.out)), f"{case}\n{result!r}"
    elif not trees.is_float(case.out):
        wanted = exact.wrapped(fold.exact(x, method)[0], case.out)
        assert np.array_equal(result, wanted), f"{case}\n{result!r}\n{wanted!r}"
    elif case.domain in domains.BEYOND_ARITHMETIC:
        with np.errstate(all="ignore"):
            values = getattr(fold.ufunc, method)(fold.before(x.astype(np.float64)), axis=0)
            ended = fold.after(np.asarray(values), len(x)).astype(fold.tree.reduced_in(x.dtype, case.out))
            wanted = trees.rounded(np.asarray(ended), case.out)
        assert np.array_equal(result, wanted, equal_nan=True), f"{case}\n{result!r}\n{wanted!r}"
    else:
        accumulator = (fold.tree.scanned_in if fold.scan else fold.tree.reduced_in)(x.dtype, case.out)
        bound = exact.Bound(fold.roundings(len(x), accumulator), accumulator, case.out)
        value, magnitude = fold.exact(x, method), fold.exact(exact.absolute(x), method)
        for index in np.ndindex(result.shape):
            here = [
                (int(integers[index]), int(exponents[index])) for integers, exponents in (value, magnitude)
            ]
            assert bound.holds(result[index], *here), f"{case} at {index}: {result[index]!r}, exact {here[0]}"
