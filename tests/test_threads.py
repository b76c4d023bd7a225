"""Threads: any number gives the same bits, after a fork and for several callers too; none for small work."""

from __future__ import annotations

import ast
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cases
import large_arrays
import numpy as np
import processes
import pytest
from cases import Fold
from exact import same_bits
from marks import EVERY_REDUCTION
from trees import Array

import foldwise as fw

ROOM = 2_000_003
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")


def large(dtype: Any = np.float32) -> Array:
    return np.random.default_rng(7).standard_normal(ROOM).astype(dtype)


# ---- contract item 2: thread counts, and the ISAs when work is shared


@pytest.mark.parametrize("dtype", large_arrays.DTYPES)
def test_any_number_of_threads_gives_the_same_bits(dtype: str) -> None:
    fw.set_num_threads(1)
    wanted = large_arrays.digests((dtype,))
    for count in (2, 3, 7, 61):
        fw.set_num_threads(count)
        assert fw.get_num_threads() == count
        assert large_arrays.digests((dtype,)) == wanted, count


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@EVERY_REDUCTION
def test_some_chunks_of_columns_need_care(fold: Fold, dtype: str) -> None:
    x = large_arrays.data(dtype, cases.domains_of(fold, dtype)[0], (20_011, 50)).copy()
    large = np.finfo(dtype).max / 4
    x[7_000:7_040, 13], x[15_000:15_040, 13], x[9_000:9_003, 40] = large, 1 / large, large
    alone = np.stack([np.asarray(fold.of(fw)(x[:, column].copy(), axis=0)) for column in (0, 13, 40, 49)], axis=-1)
    for count in (1, 2, 7):
        fw.set_num_threads(count)
        assert same_bits(fold.of(fw)(x, axis=0)[..., [0, 13, 40, 49]], alone), count


def test_shared_work_follows_the_canonical_trees() -> None:
    fw.set_num_threads(3)
    assert large_arrays.digests(("float32",)) == large_arrays.expected_digests(("float32",))


def test_every_isa_shares_work_alike() -> None:
    fw.set_num_threads(2)
    wanted = large_arrays.digests()
    script = str(processes.TESTS / "large_arrays.py")
    for isa, count in zip(cases.ISAS, ("3", "2", "1"), strict=False):
        found = processes.output(script, FOLDWISE_ISA=isa, FOLDWISE_NUM_THREADS=count)
        assert ast.literal_eval(found) == wanted, isa


def test_thread_counts_of_outputs_and_options() -> None:
    """What is written, masked, wrapped or judged by several threads."""
    x = large()[: 1500 * 1009].reshape(1500, 1009)
    whole = np.random.default_rng(8).integers(-(2**40), 2**40, x.shape)
    mask = x > 0

    def everything() -> list[Array]:
        return [
            fw.sum(x, axis=0, where=mask, initial=2),
            fw.sum(x, axis=1, out=np.empty(1500, np.float32)),
            fw.sum(x[::-2, ::3], axis=0),
            fw.sum(x.astype(">f4"), axis=1),
            fw.sum(whole, axis=0, overflow="saturate", dtype=np.int32),
            fw.cumsum(whole, axis=1, overflow="raise"),
            fw.cumsum(x, axis=0, exclusive=True, reverse=True),
            fw.cumsum(x, axis=1, include_initial=True),
            fw.cumsum(x, dtype=np.float64),
            fw.cumprod(x, axis=1),
            fw.prod(x, axis=(0, 1), keepdims=True),
            *fw.reduce_many(x, ["sum", "prod", "l2", "logsumexp", "mean"], axis=1),
            *fw.reduce_many(x, ["max", "prod", "sum"], keepdims=True),
            *fw.reduce_many(whole, ["l2", "sum", "any"], axis=0),
            fw.argmax(x, axis=0),
            fw.argmin(x, axis=1),
        ]

    fw.set_num_threads(1)
    wanted = [result.tobytes() for result in everything()]
    for count in (2, 3, 7, 61):
        fw.set_num_threads(count)
        assert [result.tobytes() for result in everything()] == wanted


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_scans_in_place_by_several_threads(dtype: str) -> None:
    for shape, axis in (
        ((1_000_003,), 0),
        ((1001, 803), 0),
        ((1001, 803), 1),
        ((250_009, 3), 0),
        ((3, 250_009), 1),
    ):
        for fold in cases.SCANS:
            if fold.result(dtype) != dtype:
                continue
            x = large_arrays.data(dtype, cases.domains_of(fold, dtype)[0], shape)
            for options in ({}, {"reverse": True}, {"exclusive": True}, {"exclusive": True, "reverse": True}):
                scan = fold.of(fw)
                fw.set_num_threads(1)
                wanted = scan(x, axis=axis, **options)
                fw.set_num_threads(3)
                work = x.copy()
                scan(work, axis=axis, out=work, **options)
                assert work.tobytes() == wanted.tobytes(), (fold.name, shape, axis, options)


def test_an_overflow_in_any_thread_is_raised() -> None:
    fw.set_num_threads(3)
    x = np.ones((700, 3000), np.int64)
    for row in (0, 350, 699):
        x[row, 5] = 2**63 - 1
        with pytest.raises(fw.OverflowedError):
            fw.sum(x, axis=1, overflow="raise")
        with pytest.raises(fw.OverflowedError):
            fw.cumsum(x.reshape(-1), overflow="raise")
        x[row, 5] = 1
    assert fw.sum(x, overflow="raise") == x.size


# ---- the count itself


def test_setting_and_reading_the_count() -> None:
    counts: list[Any] = [1, 2, 5, np.int64(3)]
    for count in counts:
        fw.set_num_threads(count)
        assert fw.get_num_threads() == count


def test_the_environment_sets_the_count() -> None:
    script = (
        "import foldwise as fw; print(fw.get_num_threads(), fw.show_config('dicts')['threads']['in use'])"
    )
    assert processes.output("-c", script, FOLDWISE_NUM_THREADS="5").split() == ["5", "5"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity here")
def test_the_default_is_the_cpus_this_process_may_use() -> None:
    script = "import os; os.sched_setaffinity(0, {}); import foldwise as fw; print(fw.get_num_threads())"
    allowed = sorted(os.sched_getaffinity(0))
    environment = {"FOLDWISE_NUM_THREADS": ""}
    assert processes.output("-c", script.format({allowed[0]}), **environment).strip() == "1"
    assert processes.output("-c", script.format(set(allowed)), **environment).strip() == str(len(allowed))


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_a_senseless_environment_is_refused(value: str) -> None:
    process = processes.completed("-c", "import foldwise", FOLDWISE_NUM_THREADS=value)
    assert process.returncode != 0
    assert "FOLDWISE_NUM_THREADS" in process.stderr
    assert value in process.stderr


@needs_proc
def test_small_work_never_wakes_a_thread() -> None:
    script = f"""
import os, numpy as np, foldwise as fw
def threads(): return len(os.listdir("/proc/self/task"))
fw.set_num_threads(4)
before = threads()
for shape in (4, 8), (1000,), (64, 64), (1, 1), (0, 3):
    x = np.ones(shape, np.float32)
    for axis in range(x.ndim):
        for fold in fw.sum, fw.prod, fw.cumsum, fw.cumprod:
            fold(x, axis=axis)
small = threads()
fw.sum(np.ones({4 * ROOM}, np.float32))
print(small - before, threads() - small)
"""
    woken_by_small, woken_by_large = map(int, processes.output("-c", script).split())
    assert woken_by_small == 0
    assert woken_by_large > 0  # or this test, and those of the thread counts, would prove nothing


# ---- several callers


@needs_proc
def test_threads_that_the_system_refuses() -> None:
    """Whoever calls does their work, and asks for them again."""
    script = """
import os, pathlib, resource
import numpy as np, foldwise as fw
def threads(): return len(os.listdir("/proc/self/task"))
x = np.arange(1 << 22)
def both(): return fw.sum(x), fw.cumsum(x, out=steps).copy()
steps = np.empty_like(x)
fw.set_num_threads(1)
wanted = both()
fw.set_num_threads(4)
before, found = threads(), [np.empty_like(x)]
taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
unlimited = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (taken + (4 << 20), unlimited[1]))  # no stack has room
total = fw.sum(x)
fw.cumsum(x, out=found[0])
alone = threads() == before
resource.setrlimit(resource.RLIMIT_AS, unlimited)
again = both()
print(total == wanted[0] == again[0], np.array_equal(found[0], wanted[1]), np.array_equal(again[1], wanted[1]))
print(alone, threads() - before)
"""
    limited = """
import os, resource, sys
_, most = resource.getrlimit(resource.RLIMIT_STACK)
resource.setrlimit(resource.RLIMIT_STACK, (64 << 20 if most < 0 else min(64 << 20, most), most))
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
    assert processes.output("-c", limited, script).split() == ["True", "True", "True", "True", "3"]


@needs_proc
@pytest.mark.skipif(fw.get_num_threads() < 2, reason="one processor has nowhere else to send a worker")
def test_a_sleeping_worker_is_woken_where_its_caller_is_not() -> None:
    script = """
import os, time
import numpy as np, foldwise as fw
ours = os.sched_getaffinity(0)
fw.set_num_threads(2)
before = set(os.listdir("/proc/self/task"))
x = np.ones(2_000_000)
fw.sum(x)
[worker] = set(os.listdir("/proc/self/task")) - before
time.sleep(0.2)
assert fw.sum(x) == x.size
theirs = os.sched_getaffinity(int(worker))
assert theirs < ours and len(theirs) == len(ours) - 1, (theirs, ours)
time.sleep(0.2)
os.sched_setaffinity(0, theirs)
assert fw.sum(x) == x.size
assert os.sched_getaffinity(int(worker))
"""
    processes.output("-c", script)


def test_a_late_worker_takes_nothing_of_the_next_job() -> None:
    """More workers than processors, so that most come late; each job has other data, elsewhere, than the one before."""
    inputs = [np.full((256, 512), value, np.float64) for value in range(1, 6)]
    for turn in range(4000):
        fw.set_num_threads((2, 9, 3, 6)[turn % 4])
        x = inputs[turn % 5]
        assert (fw.sum(x, axis=turn % 2) == x.shape[turn % 2] * x[0, 0]).all()


def test_several_python_threads_at_once() -> None:
    fw.set_num_threads(3)
    inputs = [np.random.default_rng(k).standard_normal((300 + k, 1000)).astype(np.float32) for k in range(6)]

    def work(x: Array) -> list[bytes]:
        return [
            result.tobytes()
            for axis in (0, 1)
            for result in (
                *(fold(x, axis=axis) for fold in (fw.sum, fw.prod, fw.cumsum)),
                *fw.reduce_many(x, ["max", "mean", "sum"], axis=axis),
            )
        ]

    wanted = [work(x) for x in inputs]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            assert list(pool.map(work, inputs)) == wanted


def test_the_count_may_change_while_others_compute() -> None:
    x = large()
    wanted = fw.sum(x)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            for count in (1, 4, 2, 7):
                fw.set_num_threads(count)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        assert all(fw.sum(x) == wanted for _ in range(200))
    finally:
        stop.set()
        changer.join()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no lock to give away")
def test_large_work_lets_other_python_threads_run() -> None:
    """With a switch interval this long, another thread only gets to run when the lock is given away."""
    x = np.ones(2**25, np.float32)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        for fold in (fw.sum, fw.cumsum):
            assert any(someone_ran_during(fold, x) for _ in range(20)), fold.__name__
            assert not someone_ran_during(len, x)
    finally:
        sys.setswitchinterval(before)


def someone_ran_during(work: Callable[..., Any], x: Array) -> bool:
    go, ready, ran = threading.Lock(), threading.Event(), []

    def wait_and_run() -> None:
        ready.set()
        with go:
            ran.append(True)

    go.acquire()
    waiter = threading.Thread(target=wait_and_run)
    waiter.start()
    ready.wait()
    go.release()
    work(x)
    result = bool(ran)
    waiter.join()
    return result


# ---- fork


def in_a_child(check: Callable[[], bool]) -> bool:
    """Whether a forked child finds it true, within a minute."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, of forking with threads about
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            status = 0 if check() else 1
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert not os.WIFSIGNALED(status), f"the child was ended by signal {os.WTERMSIG(status)}"
    return os.WEXITSTATUS(status) == 0


@needs_fork
def test_after_a_fork() -> None:
    fw.set_num_threads(3)
    x = large()
    total, sums = fw.sum(x), fw.cumsum(x)  # the threads exist now; the child has none of them

    def same() -> bool:
        again = all(fw.sum(x) == total and np.array_equal(fw.cumsum(x), sums) for _ in range(20))
        fw.set_num_threads(5)
        return again and bool(fw.sum(x) == total)

    assert in_a_child(same)
    assert in_a_child(lambda: in_a_child(same) and same())
    assert not in_a_child(lambda: False)
    assert same()


@needs_fork
def test_a_fork_while_others_compute() -> None:
    fw.set_num_threads(3)
    x = large()
    total = fw.sum(x)
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            fw.sum(x)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        for _ in range(20):
            assert in_a_child(lambda: bool(fw.sum(x) == total))
    finally:
        stop.set()
        busy.join()


@needs_proc
@needs_fork
def test_a_forked_child_uses_threads_again() -> None:
    fw.set_num_threads(3)
    x = large(np.float64)
    fw.sum(x)

    def threads_appear() -> bool:
        before = len(list(Path("/proc/self/task").iterdir()))
        fw.sum(x)
        return before == 1 and len(list(Path("/proc/self/task").iterdir())) > 1

    assert in_a_child(threads_appear)
