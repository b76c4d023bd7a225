"""Large results come from memory that is kept for the next: no array may ever see that another used it before."""

from __future__ import annotations

import os
import pathlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import processes
import pytest
from test_threads import in_a_child, needs_fork
from trees import Array

import foldwise as fw
from foldwise import _native

COUNT = 4_000_000  # of float32: far above what counts as large


def ramp(step: int) -> Array:
    """The running sum of a constant, exact at this size."""
    return np.asarray(fw.cumsum(np.full(COUNT, step, np.int64)))


def is_ramp(result: Array, step: int) -> bool:
    return np.array_equal(result, np.arange(1, COUNT + 1) * step)


def allocator() -> str:
    core: Any = getattr(np, "_core", None) or getattr(np, "core")  # noqa: B009 - NumPy 1 and 2 name it differently
    return str(core.multiarray.get_handler_name())


def test_results_do_not_share_memory() -> None:
    results = [ramp(step) for step in range(5)]
    assert all(is_ramp(result, step) for step, result in enumerate(results))
    del results[1], results[2]
    more = [ramp(step) for step in (7, 8, 9)]
    assert [is_ramp(result, step) for result, step in zip(results, (0, 2, 4), strict=True)] == [True] * 3
    assert [is_ramp(result, step) for result, step in zip(more, (7, 8, 9), strict=True)] == [True] * 3


def test_a_view_keeps_its_memory() -> None:
    view = ramp(3)[::2]
    others = [ramp(step) for step in (1, 2)]
    assert np.array_equal(view, np.arange(1, COUNT + 1, 2) * 3)
    assert len(others) == 2


def test_every_element_of_a_reused_result_is_written() -> None:
    for axis in (0, 1):
        for shape in ((2000, 2001), (4_002_000, 1), (3, 1_334_000)):
            spoilt = fw.cumsum(np.full(shape, 99, np.int64), axis=axis)
            del spoilt
            found = fw.cumsum(np.zeros(shape, np.int64), axis=axis)
            assert not found.any()
            spoilt = fw.cumsum(np.full(shape, 99, np.int64), axis=axis)
            del spoilt, found
            assert not fw.sum(np.zeros((2, *shape), np.int64), axis=0).any()


def test_a_result_may_be_resized() -> None:
    result = ramp(2)
    result.resize(2 * COUNT, refcheck=False)
    assert is_ramp(result[:COUNT], 2)
    assert not result[COUNT:].any()
    result.resize(10, refcheck=False)
    assert result.tolist() == list(range(2, 22, 2))


def test_numpys_own_memory_stays_numpys() -> None:
    before = allocator()
    ramp(1)
    assert allocator() == before
    with pytest.raises(fw.OverflowedError):
        fw.cumsum(np.full(COUNT, 2**62, np.int64), overflow="raise")
    assert allocator() == before
    with pytest.raises(fw.AxisError):
        fw.cumsum(np.zeros(COUNT), axis=1)
    assert allocator() == before


def test_results_die_on_other_threads() -> None:
    def work(step: int) -> bool:
        return all(is_ramp(ramp(step + k), step + k) for k in range(4))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(0, 80, 10)))
    handed_over = [ramp(5)]
    thread = threading.Thread(target=handed_over.clear)
    thread.start()
    thread.join()
    assert is_ramp(ramp(6), 6)


@needs_fork
def test_results_live_on_after_a_fork() -> None:
    result = ramp(4)

    def use_and_free() -> bool:
        nonlocal result
        good = is_ramp(result, 4)
        result = ramp(5)
        return good and is_ramp(result, 5) and is_ramp(ramp(6), 6)

    assert in_a_child(use_and_free)
    assert is_ramp(result, 4)


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="nothing tells which pages are mapped")
def test_constants_are_at_hand() -> None:
    """Kernels that leave out all of a constant nobody has looked at are slow, here and in children of this process."""

    def at_hand() -> bool:
        constants, sizes = False, {"Size:": 0, "Rss:": 0}
        library = os.path.realpath(_native.__file__)
        for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                constants = words[1] == "r--p" and line.endswith(library)
            elif constants and words[0] in sizes:
                sizes[words[0]] += int(words[1])
        return sizes["Size:"] == sizes["Rss:"] > 0

    assert at_hand()
    if hasattr(os, "fork"):
        assert in_a_child(at_hand)


@needs_fork
@pytest.mark.skipif(sys.platform != "linux", reason="another loader")
def test_a_fork_does_not_ask_the_loader() -> None:
    """Another thread may hold the loader's lock, which the child then has for ever."""
    script = """
import ctypes, os, signal, threading, time
import foldwise
inside, forked = threading.Event(), threading.Event()
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
def hold(*library):
    inside.set()
    forked.wait(30)
    return 1
holder = threading.Thread(target=ctypes.CDLL(None).dl_iterate_phdr, args=(hold, None))
holder.start()
inside.wait()
child = os.fork()
if child == 0: os._exit(7)
forked.set()
end, ended, status = time.monotonic() + 30, 0, 0
while not ended and time.monotonic() < end:
    ended, status = os.waitpid(child, os.WNOHANG)
    time.sleep(0.01)
if not ended: os.kill(child, signal.SIGKILL)
holder.join()
print(os.waitstatus_to_exitcode(status) if ended else "hangs")
"""
    assert processes.output("-W", "ignore", "-c", script).strip() == "7"


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="sanitizers take memory of their own")
@pytest.mark.parametrize("keep", [0, 64])
def test_what_is_kept_has_an_end(keep: int) -> None:
    """Results of many sizes, one at a time: the process grows by what may be kept, and by one result."""
    script = """
import numpy as np, foldwise as fw, resource
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # MiB
x = np.ones(40 << 20, np.uint8)
before = peak()
for size in range(8, 40):
    for extra in 0, 100_000, 300_000:
        fw.cumsum(x[: (size << 20) + extra], dtype=np.uint8)
print(before, peak())
"""
    before, after = map(int, processes.output("-c", script, FOLDWISE_KEEP_MEMORY=str(keep << 20)).split())
    assert before > 40
    assert after - before < keep + 60


@pytest.mark.parametrize("value", ["-1", "much", "1.5"])
def test_a_senseless_limit_is_refused(value: str) -> None:
    process = processes.completed("-c", "import foldwise", FOLDWISE_KEEP_MEMORY=value)
    assert process.returncode != 0
    assert f"FOLDWISE_KEEP_MEMORY={value}: accepted" in process.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="another way to protect pages")
def test_pages_beside_an_array_are_not_read() -> None:
    """Not even where its first or last line of cache is shared with something else."""
    script = """
import ctypes, math, mmap
import ml_dtypes, numpy as np
import foldwise as fw
fw.set_num_threads(1)
page, pages = mmap.PAGESIZE, 560
room = mmap.mmap(-1, pages * page)
begin = ctypes.addressof(ctypes.c_char.from_buffer(room))
for guard in (0, pages - 1):
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(begin + guard * page), ctypes.c_size_t(page), 0) == 0
inside = np.frombuffer(room, np.uint8)[page:-page]
folds = "sum", "prod", "max", "l1", "l2", "any", "mean", "argmax", "cumsum", "cummax"
for dtype in ("float32", "float64", "float16", ml_dtypes.bfloat16, "int8", "int32", "int64"):
    dtype = np.dtype(dtype)
    rows = ((1,), 0), ((70,), 0), ((1023,), 0), ((50000,), 0), ((7, 1900), 1), ((90, 3), 1), ((90, 33), 1)
    columns = ((90, 640), 0), ((90, 651), 0), ((2200, 128), 0), ((3, 90, 64), 1)
    nests = ((2, 5, 6, 512), (0, 2)), ((2, 16, 5, 128), (0, 1))
    for shape, axis in (*rows, *columns, *nests):
        count = math.prod(shape)
        last = len(inside) - count * dtype.itemsize
        for first in (0, last, 16, last - 16, 32, last - 48):
            inside[:] = 255  # as floats they are NaN
            x = inside[first : first + count * dtype.itemsize].view(dtype).reshape(shape)
            x[...] = np.random.default_rng(3).integers(0, 3, shape)
            apart = np.empty(x.nbytes + 64, np.uint8)
            apart = apart[-apart.ctypes.data % 64 :][: x.nbytes].view(dtype).reshape(shape)  # on a line of cache
            apart[...] = x
            for fold in folds if isinstance(axis, int) else folds[:7]:
                found, wanted = getattr(fw, fold)(x, axis=axis), getattr(fw, fold)(apart, axis=axis)
                assert found.tobytes() == wanted.tobytes(), (fold, dtype, shape, first)
print("read")
"""
    assert processes.output("-c", script).strip() == "read"
