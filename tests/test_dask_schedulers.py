"""Dask arrays under every scheduler, a worker lost on the way included, and inside xarray."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import processes
import pytest
import xarray as xr
from dask.distributed import Client, LocalCluster
from exact import same_bits
from trees import Array

import foldwise as fw

SHAPE = (400, 300)


def block(number: int) -> Array:
    """Some rows of data that cancel, over many binades."""
    rng = np.random.default_rng(number)
    return (rng.standard_normal((40, 300)) * 2.0 ** rng.integers(-60, 60, (40, 300))).astype(np.float32)


def slow_block(number: int) -> Array:
    time.sleep(0.1)
    return block(number)


def lazily(make: Any) -> da.Array:
    """Made block by block where it is needed, in two columns of chunks."""
    blocks = [da.from_delayed(dask.delayed(make, pure=True)(number), (40, 300), np.float32) for number in range(10)]
    return da.concatenate([da.concatenate([each[:, :110], each[:, 110:]], axis=1) for each in blocks])


X = np.concatenate([block(number) for number in range(10)])


def calls(x: Any, **exact: Any) -> list[Any]:
    """One of each kind."""
    integers = x.astype(np.int8) if isinstance(x, np.ndarray) else x.map_blocks(np.ndarray.astype, np.int8, dtype="i1")
    return [
        fw.sum(x, **exact),
        fw.mean(x, axis=0, where=x > -1, **exact),
        fw.l2(x, axis=1, keepdims=True, **exact),
        fw.argmax(x, axis=0),
        fw.argmin(x),
        fw.max(x, axis=1),
        fw.cumsum(x, axis=0, exclusive=True, **exact),
        fw.cumsum(x, axis=1, reverse=True, **exact),
        fw.mean(integers, axis=0, **exact),
        fw.sum(integers, axis=1, dtype=np.int64, overflow="raise"),
        fw.cumprod(integers, axis=0, overflow="saturate"),
        *fw.reduce_many(x, ["max", "any"], axis=0),
    ]


@pytest.fixture(scope="module")
def wanted() -> list[Array]:
    with np.errstate(invalid="ignore"):
        return [np.asarray(each) for each in calls(X, accuracy="exact")]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=3, threads_per_worker=2, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(3)
        yield client


def same(found: Any, wanted: list[Array]) -> None:
    for each, other in zip(found, wanted, strict=True):
        assert same_bits(np.asarray(each), other)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_schedulers(scheduler: str, wanted: list[Array]) -> None:
    with np.errstate(invalid="ignore"):
        same(dask.compute(*calls(lazily(block)), scheduler=scheduler, num_workers=3), wanted)


def test_a_cluster(client: Client, wanted: list[Array]) -> None:
    same(client.gather(client.compute(calls(lazily(block)))), wanted)


def test_a_worker_that_dies_on_the_way(client: Client, wanted: list[Array]) -> None:
    lazy = lazily(slow_block)
    futures = client.compute([fw.sum(lazy), fw.cumsum(lazy, axis=0, exclusive=True)])
    deadline = time.monotonic() + 30
    while not any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    lost = sorted(client.run(os.getpid).values())[0]
    os.kill(lost, signal.SIGKILL)
    same(client.gather(futures), [wanted[0], wanted[6]])
    client.wait_for_workers(3)
    assert lost not in client.run(os.getpid).values()


def test_graphs_have_the_same_keys_everywhere() -> None:
    script = """
import dask.array as da, foldwise as fw
x = da.ones((6, 4), chunks=2)
lazy = fw.sum(x), fw.mean(x, axis=0, where=x > 0), fw.argmax(x), fw.cumsum(x, axis=1), *fw.reduce_many(x, ["max", "l2"])
print([each.name for each in lazy])
"""
    first, second = (processes.output("-W", "ignore", "-c", script, PYTHONHASHSEED=seed) for seed in "12")
    assert first == second
    x = da.ones((6, 4), chunks=2)
    names = [
        lazy.name
        for function in (fw.sum, fw.mean, fw.cumsum, fw.cumprod)
        for options in ({"axis": 0}, {"axis": 1}, {"axis": 0, "dtype": "f4"})
        for lazy in (function(x, **options), function(x + 1, **options))
    ]
    assert len(set(names)) == len(names)
    assert fw.sum(x, axis=0).name == fw.sum(x, axis=0).name


def test_lazy_results_pickle() -> None:
    for lazy, found in zip(calls(lazily(block)), pickle.loads(pickle.dumps(calls(lazily(block)))), strict=True):
        assert lazy.name == found.name


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    x = da.ones((6, 4), chunks=2).map_blocks(lambda each: 1 / 0, dtype=float, meta=np.empty((0, 0)))
    lazy = [fw.sum(x), fw.argmax(x), fw.cumsum(x, axis=0), fw.cumulative_sum(x, axis=0), *fw.reduce_many(x, ["max"])]
    with pytest.raises(ZeroDivisionError):
        lazy[0].compute(scheduler="synchronous")


# ---- xarray


def test_xarray() -> None:
    labelled = xr.DataArray(X, dims=("time", "place"), coords={"time": np.arange(400)})
    chunked = labelled.chunk(time=70, place=110)
    means = chunked.reduce(fw.mean, "time")
    assert means.chunks == ((110, 110, 80),)
    assert same_bits(means.compute().values, np.asarray(fw.mean(X, axis=0, accuracy="exact")))
    running = xr.apply_ufunc(
        fw.cumsum, chunked, input_core_dims=[["time"]], output_core_dims=[["time"]], kwargs={"axis": -1}, dask="allowed"
    )
    found = running.transpose("time", "place").compute()
    assert same_bits(np.ascontiguousarray(found.values), np.asarray(fw.cumsum(X, axis=0, accuracy="exact")))
    assert (found.time == labelled.time).all()
    of_both = xr.Dataset({"one": chunked, "two": -chunked}).reduce(fw.sum)
    assert of_both.one.values == -of_both.two.values == fw.sum(X, accuracy="exact")
