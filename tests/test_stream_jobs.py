"""Jobs on streams: within their budget, resumed after they were killed, with results that are whole or absent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import processes
import pytest
import streams
import zarr
from trees import Array
from zarr.storage import MemoryStore

import foldwise as fw

JOB = str(processes.TESTS / "stream_job.py")
BUDGET = 24_000_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Array]:
    """More than four times the budget."""
    folder = tmp_path_factory.mktemp("large")
    x = np.random.default_rng(0).standard_normal((16_000, 800))
    assert x.nbytes > 4 * BUDGET
    return streams.saved(folder / "x.npy", x), x


def run(name: str, path: Path, budget: int = BUDGET, **more: Any) -> dict[str, Any]:
    """A job in a process of its own."""
    found: dict[str, Any] = json.loads(processes.output(JOB, name, str(path), str(budget), json.dumps(more)))
    return found


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_stay_within_the_budget(axis: int | None, large: tuple[Path, Array]) -> None:
    path, x = large
    found = run("sum", path, axis=axis, limit=True)
    assert found["peak"] <= BUDGET
    assert found["bits"] == np.asarray(fw.sum(x, axis, accuracy="exact")).tobytes().hex()


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_scans_stay_within_the_budget(
    axis: int | None, suffix: str, large: tuple[Path, Array], tmp_path: Path
) -> None:
    path, x = large
    budget = BUDGET if suffix == ".npy" else 3 * BUDGET
    found = run("cumsum", path, budget, axis=axis, out=str(tmp_path / f"y{suffix}"), limit=suffix == ".npy")
    assert found["peak"] <= budget
    written = fw.open(tmp_path / f"y{suffix}")
    wanted = fw.cumsum(x, axis, accuracy="exact")
    assert written.shape == wanted.shape
    for start in range(0, len(wanted), -(-len(wanted) // 7)):
        box = (slice(start, min(start + len(wanted) // 7, len(wanted))), *(slice(0, n) for n in wanted.shape[1:]))
        assert written.read(box, np.empty(wanted[box].nbytes, np.uint8)).tobytes() == wanted[box].tobytes()


def test_zarr_stays_within_the_budget(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((4000, 4000))
    path = streams.chunked(tmp_path / "x.zarr", x, (500, 500))
    for axis in None, 0, 1:
        found = run("sum", path, 40_000_000, axis=axis)
        assert found["peak"] <= 40_000_000
        assert found["bits"] == np.asarray(fw.sum(x, axis, accuracy="exact")).tobytes().hex()


def test_masks_are_part_of_the_budget(large: tuple[Path, Array], tmp_path: Path) -> None:
    path, x = large
    where = x > 0
    mask = streams.chunked(tmp_path / "w.zarr", where, (500, 800))
    with pytest.raises(fw.BudgetError):
        fw.sum(fw.open(path, memory_budget="15MB"), axis=0, where=fw.open(mask))
    found = run("sum", path, axis=0, where=str(mask))
    assert found["peak"] <= BUDGET
    assert found["bits"] == fw.sum(x, axis=0, where=where, accuracy="exact").tobytes().hex()


def test_too_small_a_budget_names_the_smallest_that_works(large: tuple[Path, Array], tmp_path: Path) -> None:
    path, _ = large
    for name, axis in ("cumsum", 1), ("sum", None), ("sum", 0):
        with pytest.raises(fw.BudgetError, match="the smallest that works is memory_budget=") as refused:
            getattr(fw, name)(fw.open(path, memory_budget=100_000), axis=axis, out=fw.open(tmp_path / "y.npy", "w"))
        needed = refused.value.needed
        with pytest.raises(fw.BudgetError, match=f"memory_budget={needed} "):
            getattr(fw, name)(fw.open(path, memory_budget=needed - 1), axis=axis, out=fw.open(tmp_path / "y.npy", "w"))
    found = run("sum", path, needed, axis=0, out=str(tmp_path / "y.npy"))
    assert found["peak"] <= needed
    with pytest.raises(fw.BudgetError, match="the result takes 103 MB, unless out="):
        fw.cumsum(fw.open(path, memory_budget="50MB"), axis=0)


def started(name: str, path: Path, **more: Any) -> subprocess.Popen[str]:
    """A slow job that is under way."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, JOB, name, str(path), str(BUDGET), json.dumps({"pause": 0.05, **more})]
    job = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert job.stderr is not None
    assert job.stderr.readline() == "under way\n"
    return job


@pytest.mark.parametrize(
    ("name", "axis", "suffix"),
    [("sum", None, ""), ("sum", 0, ".npy"), ("sum", 1, ".npy"), ("cumsum", 0, ".npy"), ("cumsum", None, ".zarr")],
)
def test_a_killed_job_goes_on(
    name: str, axis: int | None, suffix: str, large: tuple[Path, Array], tmp_path: Path
) -> None:
    path, x = large
    notes, out = tmp_path / "notes", tmp_path / f"y{suffix}"
    more: dict[str, Any] = {"axis": axis, "checkpoint": str(notes), **({"out": str(out)} if suffix else {})}
    job = started(name, path, **more)
    time.sleep(0.4)
    job.kill()
    job.communicate()
    assert notes.is_file()
    assert not suffix or not out.exists()
    with pytest.raises(fw.StateError, match="the checkpoint of another job"):
        fw.max(fw.open(path, checkpoint=notes))
    found = run(name, path, **more)
    anew: dict[str, Any] = {"out": str(tmp_path / f"z{suffix}")} if suffix else {}
    whole = run(name, path, axis=axis, **anew)
    assert found["begun"] > 0 == whole["begun"]
    assert found["bits"] == whole["bits"]
    assert not notes.exists()
    if suffix:
        wanted = getattr(fw, name)(x, axis, accuracy="exact")
        written = fw.open(out)
        box = tuple(slice(0, n) for n in wanted.shape)
        assert written.read(box, np.empty(wanted.nbytes, np.uint8)).tobytes() == wanted.tobytes()
        assert sorted(each.name for each in tmp_path.iterdir()) == sorted([out.name, f"z{suffix}"])


def test_a_checkpoint_of_an_input_that_has_changed_is_refused(large: tuple[Path, Array], tmp_path: Path) -> None:
    path = streams.saved(tmp_path / "x.npy", large[1])
    more: dict[str, Any] = {"axis": 0, "checkpoint": str(tmp_path / "notes")}
    job = started("sum", path, **more)
    job.kill()
    job.communicate()
    os.utime(path)
    with pytest.raises(fw.StateError, match="or the input has changed"):
        fw.sum(fw.open(path, memory_budget=BUDGET, checkpoint=tmp_path / "notes"), axis=0)
    (tmp_path / "notes").write_bytes(b"anything")
    with pytest.raises(fw.StateError, match="holds no checkpoint, or a damaged one"):
        fw.sum(fw.open(path, memory_budget=BUDGET, checkpoint=tmp_path / "notes"), axis=0)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("axis", "shape"), [(None, (40, 30)), (0, (600, 100)), (1, (5, 600))])
def test_a_scan_goes_on_after_each_of_its_blocks(axis: int | None, shape: tuple[int, int], tmp_path: Path) -> None:
    """Down the columns there are tiles of 48, 48 and 4, along the rows each is one."""
    x, notes, told = np.random.default_rng(0).standard_normal(shape), tmp_path / "notes", list[int]()
    path, budget = streams.saved(tmp_path / "x.npy", x), 6_000_000

    def resumed() -> Array:
        source = fw.open(path, memory_budget=budget, progress=lambda done, _: told.append(done), checkpoint=notes)
        return np.asarray(fw.cumsum(source, axis=axis))

    wanted = resumed()
    assert wanted.tobytes() == fw.cumsum(x, axis, accuracy="exact").tobytes()
    after = told[1:-1]
    assert len(after) > 7
    for i, done in enumerate(after):
        streams.interrupt(i + 1, notes, "cumsum", path, budget, axis=axis)
        told.clear()
        assert resumed().tobytes() == wanted.tobytes(), done
        assert told[0] == done


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["cumsum", "sum"])
def test_a_job_that_could_not_take_its_name_has_nothing_left_to_read(
    name: str, axis: int | None, tmp_path: Path
) -> None:
    x, out = np.random.default_rng(0).standard_normal((40, 30)), tmp_path / "y.npy"
    path, told = streams.saved(tmp_path / "x.npy", x), list[int]()

    def obstruct(done: int, total: int) -> None:
        if done == total:
            out.mkdir()

    def job(progress: Any) -> None:
        source = fw.open(path, progress=progress, checkpoint=tmp_path / "notes", checkpoint_seconds=0)
        getattr(fw, name)(source, axis=axis, out=fw.open(out, mode="w"))

    with pytest.raises(fw.SourceError, match="cannot be written"):
        job(obstruct)
    out.rmdir()
    job(lambda done, total: told.append(done))
    assert told == [x.nbytes]
    assert np.array_equal(np.load(out), getattr(fw, name)(x, axis, accuracy="exact"))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "memory"])
def test_a_checkpoint_knows_whether_chunks_or_bytes_have_changed(kind: str, tmp_path: Path) -> None:
    x, notes = np.random.default_rng(0).standard_normal((40, 30)), tmp_path / "notes"

    def made(x: Array) -> Any:
        return x if kind == "memory" else streams.chunked(tmp_path / "x.zarr", x, (10, 10), int(kind[-1]))

    place = made(x)
    streams.interrupt(2, notes, "sum", place)
    assert streams.agree("sum", fw.sum(fw.open(place, checkpoint=notes)), streams.in_memory("sum", x))
    streams.interrupt(2, notes, "sum", place)
    x[39, 29] += 1
    if kind != "memory":
        zarr.open_array(str(place), mode="r+")[39, 29] = x[39, 29]
    with pytest.raises(fw.StateError, match="or the input has changed"):
        fw.sum(fw.open(place, checkpoint=notes))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", [">f8", "<f8"])
def test_a_job_goes_on_into_an_array_of_any_byte_order(dtype: str, tmp_path: Path) -> None:
    x, notes, out = np.random.default_rng(0).standard_normal((40, 30)), tmp_path / "notes", np.empty(40, dtype)
    path = streams.saved(tmp_path / "x.npy", x)
    streams.interrupt(3, notes, "sum", path, axis=1, out=out)
    out[:] = 0
    fw.sum(fw.open(path, checkpoint=notes), axis=1, out=out)
    assert np.array_equal(out, fw.sum(x, axis=1, accuracy="exact"))


def test_what_cannot_be_told_from_another_one_has_no_checkpoint(tmp_path: Path) -> None:
    class Slices:
        shape, dtype = (3,), np.dtype(float)

        def __getitem__(self, box: Any) -> Array:
            return np.asarray(np.ones(3)[box])

    elsewhere = zarr.create_array(MemoryStore(), shape=(3,), dtype=float)
    for place in Slices(), elsewhere:
        with pytest.raises(fw.OptionError, match=r"nobody can tell whether it has changed .* leave checkpoint= away"):
            fw.sum(fw.open(place, checkpoint=tmp_path / "notes"))


def test_a_checkpoint_knows_as_what_bytes_were_read(tmp_path: Path) -> None:
    raw: dict[str, Any] = {"place": tmp_path / "x.bin", "checkpoint": tmp_path / "notes"}
    np.arange(100.0).tofile(raw["place"])
    ways = ({"dtype": "<f8"}, {"dtype": ">f8"}, {"dtype": "<f8", "shape": (10, 10)}, {"dtype": "<f8", "offset": 8})
    identities = [str(fw.open(**raw, **way).identity()) for way in ways]
    assert len(set(identities)) == len(ways)


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_an_interrupted_job_leaves_nothing(suffix: str, large: tuple[Path, Array], tmp_path: Path) -> None:
    out = tmp_path / f"y{suffix}"
    job = started("cumsum", large[0], axis=0, out=str(out))
    job.send_signal(signal.SIGINT)
    _, said = job.communicate(timeout=60)
    assert job.returncode != 0
    assert "KeyboardInterrupt" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_a_full_disk_leaves_nothing(suffix: str, large: tuple[Path, Array], tmp_path: Path) -> None:
    """As a limit of what files may grow to says it: for the file at once, for chunks when the first one is written."""
    arguments = {"axis": 0, "out": str(tmp_path / f"y{suffix}"), "file_size": 100_000}
    job = processes.completed(JOB, "cumsum", str(large[0]), str(3 * BUDGET), json.dumps(arguments))
    assert job.returncode == 1
    assert "foldwise.errors.SourceError" in job.stderr
    assert "cannot be written: File too large" in job.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays_until_the_new_is_whole(large: tuple[Path, Array], tmp_path: Path) -> None:
    old = np.arange(3.0)
    for out in streams.saved(tmp_path / "y.npy", old), streams.chunked(tmp_path / "y.zarr", old, (2,)):

        def stop(done: int, total: int) -> None:
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            fw.cumsum(fw.open(large[0], progress=stop), axis=0, out=fw.open(out, mode="w"))
        assert fw.sum(fw.open(out)) == 3
        with pytest.raises(fw.SourceError, match="is there already"):
            fw.open(out, mode="x")
        fw.sum(fw.open(large[0]), axis=0, out=fw.open(out, mode="w"))
        assert fw.open(out).shape == (800,)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["y.npy", "y.zarr"]


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_what_came_to_be_during_the_job_stays(suffix: str, tmp_path: Path) -> None:
    x, out = np.ones((40, 30)), tmp_path / f"y{suffix}"

    def intrude(done: int, total: int) -> None:
        if done == total:
            fw.cumsum(fw.open(x), axis=0, out=fw.open(out, mode="w"))

    with pytest.raises(fw.SourceError, match="has come to be in the meantime; nothing was replaced"):
        fw.cumsum(fw.open(x, progress=intrude), axis=1, out=fw.open(out, mode="x"))
    assert fw.sum(fw.open(out)) == fw.sum(fw.cumsum(x, axis=0))
    assert [each.name for each in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_what_comes_to_be_as_the_job_ends_stays(suffix: str, tmp_path: Path) -> None:
    x, out = np.arange(6.0), tmp_path / f"y{suffix}"
    target = fw.open(out, mode="x")
    target.begin(x.shape, x.dtype, x.shape)
    fw.cumsum(fw.open(x), out=fw.open(out, mode="w"))
    with pytest.raises(OSError, match=r"File exists|Directory not empty"):
        target.take_name()
    assert fw.sum(fw.open(out)) == fw.sum(fw.cumsum(x))
    target.close()
    target.abandon()


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_job_that_fails_closes_its_files(checkpointed: bool, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    notes = tmp_path / "notes" if checkpointed else None
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(RuntimeError, match="enough"):
            fw.cumsum(
                fw.open(np.ones(9), checkpoint=notes, progress=stop), out=fw.open(tmp_path / "y.npy", mode="w")
            )
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(os.listdir(tmp_path)) == checkpointed


def test_a_file_takes_its_name_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    fw.cumsum(fw.open(np.arange(6.0)), out=fw.open(tmp_path / "y.npy", mode="x"))
    assert [each.name for each in tmp_path.iterdir()] == ["y.npy"]
    assert np.load(tmp_path / "y.npy").tolist() == [0, 1, 3, 6, 10, 15]


@pytest.mark.usefixtures("small_blocks")
def test_notes_that_have_no_place(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((40, 30))
    path = streams.saved(tmp_path / "x.npy", x)
    for notes, message in (
        (tmp_path, "is no file; give another name for the checkpoint"),
        ("/dev/full", "is no file; give another name for the checkpoint"),
        (path, "holds no checkpoint, or a damaged one"),
        (tmp_path / "no" / "notes", "there is no folder .* for a checkpoint"),
        (path / "notes", "there is no folder .* for a checkpoint"),
        ("/proc/notes", "/proc/notes cannot be read: No such file"),
        (tmp_path / ("n" * 255), "cannot be written: File name too long"),
        (tmp_path / ("n" * 300), "cannot be read: File name too long"),
    ):
        with pytest.raises(fw.FoldwiseError, match=message):
            fw.sum(fw.open(path, checkpoint=notes, checkpoint_seconds=0))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_one_job_at_a_time_has_the_notes(suffix: str, noted: bool, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((40, 30))
    path, out = streams.saved(tmp_path / "x.npy", x), tmp_path / f"y{suffix}"
    refusals: list[str] = []

    def job(progress: Any) -> None:
        seconds = 0 if noted else 1000
        source = fw.open(path, checkpoint=tmp_path / "notes", checkpoint_seconds=seconds, progress=progress)
        fw.cumsum(source, axis=1, out=fw.open(out, mode="w"))

    def another(done: int, total: int) -> None:
        with pytest.raises(fw.StateError, match=r"a job that is running notes in .*; wait for it") as refused:
            job(None)
        refusals.append(str(refused.value))

    job(another)
    assert len(refusals) > 2
    assert np.array_equal(fw.max(fw.open(out), axis=()), fw.cumsum(x, axis=1, accuracy="exact"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.npy", out.name]

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(stop)
    assert (tmp_path / "notes").exists() == noted
    job(None)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_notes_and_the_result_lie_apart(suffix: str, tmp_path: Path) -> None:
    path, out = streams.saved(tmp_path / "x.npy", np.ones((40, 30))), tmp_path / f"y{suffix}"
    for notes in out, tmp_path / f".{out.name}.unfinished":
        with pytest.raises(fw.OptionError, match="is to be checkpoint and result; give another name"):
            fw.cumsum(fw.open(path, checkpoint=notes, checkpoint_seconds=0), 0, out=fw.open(out, mode="w"))
    assert [each.name for each in tmp_path.iterdir()] == ["x.npy"]


def test_a_name_with_no_room_for_what_is_unfinished(tmp_path: Path) -> None:
    for suffix in ".npy", ".zarr":
        with pytest.raises(fw.SourceError, match="cannot be written: File name too long"):
            fw.cumsum(fw.open(np.ones(3)), out=fw.open(tmp_path / ("y" * 250 + suffix), mode="w"))


def test_progress_is_told_in_bytes(large: tuple[Path, Array]) -> None:
    told: list[tuple[int, int]] = []
    source = fw.open(large[0], progress=lambda done, total: told.append((done, total)))
    fw.sum(source)
    assert told[0] == (0, source.nbytes)
    assert told[-1] == (source.nbytes, source.nbytes)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
