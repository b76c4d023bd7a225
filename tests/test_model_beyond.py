"""Models whose inputs are not in memory: sources of fw.open and Dask's arrays give what arrays give, exactly summed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import zarr
from onnx_models import loaded, model

import foldwise as fw
from foldwise.scale.files import File

NORMS = """g (float[N,D] x, float[D] scale) => (float[N,D] y, float[N,1] mean, float[D] total, float[D] peak,
  float[N,D] steps, int64[2] shape, int64[N] best, float[D] nothing)
  <int64[1] last = {-1}, int64[1] first = {0}, int64 zero = {0}, float eps = {0.00001}> {
    mean = ReduceMean (x, last)
    apart = Sub (x, mean)
    square = Mul (apart, apart)
    spread = ReduceMean (square, last)
    wider = Add (spread, eps)
    root = Sqrt (wider)
    even = Div (apart, root)
    [scaled] y = Mul (even, scale)
    total = ReduceSum <keepdims = 0> (x, first)
    peak = ReduceMax <keepdims = 0> (x, first)
    steps = CumSum (x, zero)
    shape = Shape (x)
    best = ArgMax <axis = 1, keepdims = 0> (x)
    nothing = ReduceSumSquare <keepdims = 0> (square, first)
  }"""


@pytest.fixture
def x() -> Any:
    return np.random.default_rng(5).standard_normal((3000, 17)).astype(np.float32)


@pytest.fixture
def scale() -> Any:
    return np.linspace(1, 2, 17, dtype=np.float32)


def sources(x: Any, folder: Path) -> list[Any]:
    """The same array in several places, in blocks of several shapes."""
    np.save(folder / "c.npy", x)
    np.save(folder / "f.npy", np.asfortranarray(x))
    made = [fw.open(folder / "c.npy"), fw.open(folder / "f.npy")]
    for i, chunks in enumerate([(100, 17), (999, 4)]):
        where = str(folder / f"{i}.zarr")
        zarr.create_array(where, shape=x.shape, chunks=chunks, dtype=x.dtype)[...] = x
        made.append(fw.open(where))
    return made


def wanted(x: Any, scale: Any) -> dict[str, Any]:
    """Each step by itself, sums exact."""
    mean = fw.mean(x, axis=1, keepdims=True, accuracy="exact")
    apart = x - mean
    spread = fw.mean(apart * apart, axis=1, keepdims=True, accuracy="exact")
    return {
        "y": apart / np.sqrt(spread + np.float32(1e-5)) * scale,
        "mean": mean,
        "total": fw.sum(x, axis=0, accuracy="exact"),
        "peak": x.max(axis=0),
        "steps": fw.cumsum(x, axis=0, accuracy="exact"),
        "shape": np.array([3000, 17]),
        "best": x.argmax(axis=1),
        "nothing": fw.sumsquare(apart * apart, axis=0, accuracy="exact"),
    }


def same(found: Any, right: Any) -> bool:
    return bool(found.dtype == right.dtype and found.shape == right.shape and found.tobytes() == right.tobytes())


def test_sources_give_what_arrays_give(x: Any, scale: Any, tmp_path: Path) -> None:
    norms, right = fw.load(model(NORMS)), wanted(x, scale)
    for source in sources(x, tmp_path):
        made = norms.run({"x": source, "scale": scale}, memory_budget="32MB")
        assert isinstance(made["y"], fw.Source)
        written = fw.sum(made.pop("y"), axis=(), out=fw.open(tmp_path / "y.npy", mode="w"))
        assert same(np.load(tmp_path / "y.npy"), right["y"])
        assert fw.max(written) == right["y"].max()
        assert all(same(made[name], right[name]) for name in made)


def test_arrays_of_dask_give_what_arrays_give(x: Any, scale: Any) -> None:
    da = pytest.importorskip("dask.array")
    norms, right = fw.load(model(NORMS)), wanted(x, scale)
    for chunks in ((3000, 17), (700, 5), (1000, 17)):
        made = norms.run({"x": da.from_array(x, chunks), "scale": scale})
        assert all(isinstance(made[name], da.Array) for name in made if name != "shape")
        assert all(same(np.asarray(made[name]), right[name]) for name in made)


def test_layers_of_openvino(x: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x[:, :12])
    share = fw.load("examples/models/running_share.xml")
    (made,) = share.run([fw.open(tmp_path / "x.npy")]).values()
    whole = fw.sum(made, axis=()) if isinstance(made, fw.Source) else made
    np.testing.assert_allclose(whole, share.run([x[:, :12]])["share"], rtol=1e-5)


def test_one_read_for_siblings(x: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x)
    told: list[tuple[int, int]] = []
    source = fw.open(tmp_path / "x.npy", progress=lambda done, total: told.append((done, total)))
    text = """g (float[N,D] x) => (float[D] a, float[D] b, float[D] c) <int64[1] first = {0}> {
        a = ReduceSum <keepdims = 0> (x, first) b = ReduceMax <keepdims = 0> (x, first)
        c = ReduceL2 <keepdims = 0> (x, first) }"""
    made = fw.load(model(text)).run([source])
    assert same(made["c"], fw.l2(x, axis=0, accuracy="exact"))
    assert [done for done, _ in told].count(x.nbytes) == 1


@pytest.mark.parametrize("text", ["Transpose (x)", "MatMul (x, x)"])
def test_what_needs_all_of_it_at_once_is_refused(text: str, x: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x)
    asked = fw.load(model(f"g (float[N,D] x) => (y) {{ [n] y = {text} }}"))
    with pytest.raises(fw.ModelError, match=r"node 'n' \(\w+\): it needs its inputs whole, and one of them is not in"):
        asked.run([fw.open(tmp_path / "x.npy")])


def test_what_onnx_defines_by_folds_runs_too(x: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x)
    softmax = fw.load(model("g (float[N,D] x) => (y) { y = Softmax (x) }"))
    made = fw.sum(softmax.run([fw.open(tmp_path / "x.npy")])["y"], axis=())
    np.testing.assert_allclose(made, softmax.run([x])["y"], rtol=1e-6)


def test_what_does_not_fit_is_refused(x: Any, scale: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x.astype(np.float64))
    norms = fw.load(model(NORMS))
    with pytest.raises(fw.DtypeError, match="input 'x' must be float32, got float64 of shape"):
        norms.run([fw.open(tmp_path / "x.npy"), scale])
    np.save(tmp_path / "x.npy", x[:, :5])
    with pytest.raises(fw.ShapeError, match="'D' is 5 in input 'x' and 17 in input 'scale'"):
        norms.run([fw.open(tmp_path / "x.npy"), scale])
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(fw.BudgetError, match=r"node|ReduceM.*: a memory budget of 1000 kB is too small") as caught:
        norms.run([fw.open(tmp_path / "x.npy"), scale], memory_budget="1MB")
    assert caught.value.needed > 10**6
    with pytest.raises(fw.OptionError, match="memory_budget = 'much'"):
        norms.run([fw.open(tmp_path / "x.npy"), scale], memory_budget="much")
    once = fw.open((each for each in np.split(x, 3)), shape=x.shape)
    with pytest.raises(fw.FoldwiseError, match=r"in their order cannot be read along|handed over already"):
        norms.run([once, scale])


@pytest.mark.parametrize(
    ("node", "other"),
    [
        ("Clip <min = 0.0> (x)", "Clip <min = 0.5> (x)"),
        ("Abs (x)", "Neg (x)"),
        ("Sub (x, half)", "Sub (half, x)"),
    ],
)
def test_a_checkpoint_knows_what_the_nodes_before_the_fold_do(
    node: str, other: str, x: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(File, "pleasant", x.nbytes // 10)
    np.save(tmp_path / "x.npy", x)

    def made(done: str, x: Any) -> Any:
        text = f"g (float[N,D] x) => (float[N,D] y) <float half = {{0.5}}> {{ [same] y = {done} }}"
        return loaded(text, opset=10).run([x])["y"]

    def total(done: str, progress: Any = None) -> Any:
        source = fw.open(tmp_path / "x.npy", checkpoint=tmp_path / "notes", checkpoint_seconds=0, progress=progress)
        return fw.sum(made(done, source))

    def stop(done: int, whole: int) -> None:
        if done > whole // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        total(node, stop)
    with pytest.raises(fw.StateError, match="is the checkpoint of another job"):
        total(other)
    assert total(node) == fw.sum(made(node, x), accuracy="exact")


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    """Several steps over 160 MB with a budget of 24 MB."""
    import processes

    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (400_000, 100)).flush()
    without_scan = NORMS.replace("float[N,D] steps, ", "").replace("steps = CumSum (x, zero)", "")
    onnx.save(model(without_scan), tmp_path / "m.onnx")
    script = f"""
import resource, sys
import numpy as np
import foldwise as fw
norms = fw.load({os.fspath(tmp_path / "m.onnx")!r})
small = np.ones((10, 100), np.float32)
norms.run([small, np.ones(100, np.float32)])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
made = norms.run([fw.open({os.fspath(tmp_path / "x.npy")!r}), np.ones(100, np.float32)], memory_budget="24MB")
fw.sum(made["y"], axis=(), out=fw.open({os.fspath(tmp_path / "y.npy")!r}, mode="w"))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""
    assert int(processes.output("-c", script)) < 24e6 + 4 * 400_000 * 4  # and results of a row each


def test_numpy_warns_of_nothing_beyond_memory(tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    np.save(tmp_path / "x.npy", np.array([[1, -1], [0, 4]], np.float32))
    found = loaded(
        "g (float[2,2] x) => (float[2] y) <float[1] zero = {0}, int64[1] axis = {1}> {"
        " a = Div(x, zero) b = Sqrt(x) c = Add(a, b) y = ReduceMax<keepdims = 0>(c, axis) }"
    )
    for x in (fw.open(tmp_path / "x.npy"), da.from_array(np.load(tmp_path / "x.npy"))):
        assert np.isnan(np.asarray(found.run([x])["y"])).all()
