"""What sources refuse: files that are not what they should be, chunks that are damaged, options that mean nothing."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import streams
import zarr
from streams import agree, in_memory
from trees import Array
from zarr.storage import LocalStore

import foldwise as fw

X = np.random.default_rng(0).standard_normal((40, 30))


def npy(header: dict[str, Any], data: bytes = b"") -> bytes:
    """An .npy file with any header."""
    written = io.BytesIO()
    np.lib.format.write_array_header_2_0(written, header)
    return written.getvalue() + data


def header(descr: str, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"descr": descr, "fortran_order": False, "shape": shape}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not an .npy file"),
        (b"\x93NUMPY\x01\x00", "is not an .npy file"),
        (npy(header("<f8", (4,)), bytes(31)), "is truncated: of 32 bytes of data it has 31"),
        (npy(header("<f8", (1 << 40, 1 << 40))), "is truncated: of 9,671,406,556,917,033,397,649,408 bytes"),
        (npy(header("<f8", (-4,)), bytes(32)), "has a damaged header"),
        (npy(header("<f8", (1,) * 65), bytes(8)), "has a damaged header"),
        (npy(header("|O", (4,)), bytes(32)), "holds pickled Python objects, which are never loaded"),
        (npy(header("<c16", (2,)), bytes(32)), "x has dtype complex128"),
    ],
)
def test_npy_files_that_are_none(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(fw.FoldwiseError, match=message):
        fw.sum(fw.open(path))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in "x.npy", "x.zarr", "x.parquet", "x.arrow":
        with pytest.raises(fw.SourceError, match=r"there is no|cannot be read"):
            fw.open(tmp_path / name)
    with pytest.raises(fw.SourceError, match="cannot be read"):
        fw.open(tmp_path / "x.bin", dtype="float32")
    with pytest.raises(fw.SourceError, match="there is no folder"):
        fw.open(tmp_path / "no" / "y.npy", mode="w")


def test_paths_that_can_name_no_file(tmp_path: Path) -> None:
    class Bytes:
        def __fspath__(self) -> bytes:
            return bytes(tmp_path / "x.npy")

    path = streams.saved(tmp_path / "x.npy", X)
    wrong: list[Any] = [Bytes(), "a\0b.npy", "a\ud800.npy"]
    for place in wrong:
        for asked in (
            lambda place: fw.open(place),
            lambda place: fw.open(place, mode="w"),
            lambda place: fw.open(path, checkpoint=place),
        ):
            with pytest.raises(fw.ArgumentError, match="is no path; accepted are those of text that can name a file"):
                asked(place)
    for place in "", ".", "/":
        with pytest.raises(fw.OptionError, match=f"checkpoint = {place!r}; accepted are names of files"):
            fw.open(path, checkpoint=place)


def test_pipes_and_devices_are_no_files(tmp_path: Path) -> None:
    for name in "x.npy", "x.bin":
        os.mkfifo(tmp_path / name)
    options: dict[str, Any] = {"dtype": "f4"}
    for place, given in (tmp_path / "x.npy", {}), (tmp_path / "x.bin", options), ("/dev/zero", options):
        with pytest.raises(fw.SourceError, match="is a pipe or device, and no file"):
            fw.open(place, **given)


def test_shapes_that_no_array_has(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    for shape in (1 << 62, 0), (0, 1 << 40, 1 << 40):
        path.write_bytes(npy(header("<f4", shape)))
        with pytest.raises(fw.SourceError, match="has a damaged header: dtype float32, shape"):
            fw.open(path)
        path.rename(tmp_path / "x.bin")
        with pytest.raises(fw.ShapeError, match="there is no array of float32 with such axes"):
            fw.open(tmp_path / "x.bin", dtype="f4", shape=shape)


def test_bytes_that_are_no_whole_elements(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(63))
    with pytest.raises(fw.OptionError, match=r"the 61 bytes of .* from offset = 2 on are no whole number of float32"):
        fw.open(path, dtype="f4", offset=2)
    assert fw.open(path, dtype="f4", shape=15).shape == fw.open(path, dtype="f4", offset=3).shape == (15,)


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    path = streams.saved(tmp_path / "x.npy", X)
    source = fw.open(path)
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(fw.SourceError, match="has become shorter since it was opened"):
        fw.sum(source)


def test_raw_files(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"head" + X.astype(">f4").tobytes())
    wanted = fw.sum(X.astype(np.float32), accuracy="exact")
    assert fw.sum(fw.open(path, dtype=">f4", offset=4)) == wanted
    assert fw.sum(fw.open(path, dtype=">f4", offset=4, shape=(40, 30)), axis=(0, 1)) == wanted
    with pytest.raises(fw.SourceError, match="is truncated"):
        fw.open(path, dtype=">f4", offset=4, shape=(41, 30))
    with pytest.raises(fw.OptionError, match="offset = -1"):
        fw.open(path, dtype=">f4", offset=-1)
    for dtype in ("complex64", ",", "01"):
        with pytest.raises(fw.DtypeError, match="is no dtype of elements"):
            fw.open(path, dtype=dtype)
    half = X.astype(ml_dtypes.bfloat16)
    half.tofile(path)
    assert agree("sum", fw.sum(fw.open(path, dtype="bfloat16")), in_memory("sum", half))


def test_maps_give_what_they_hold(tmp_path: Path) -> None:
    """Of a shared one that is the file; of a copy-on-write one it is what nobody has written."""
    for mode in "r+", "c":
        mapped = np.load(streams.saved(tmp_path / "x.npy", X), mmap_mode=mode)
        mapped[:] = 5
        assert fw.sum(fw.open(mapped)) == 5 * X.size
        assert np.load(tmp_path / "x.npy")[0, 0] == (X[0, 0] if mode == "c" else 5)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_damaged_chunk_is_named(zarr_format: int, tmp_path: Path) -> None:
    path = streams.chunked(tmp_path / "x.zarr", X, (10, 10), zarr_format)
    key = "2.1" if zarr_format == 2 else "c/2/1"
    (path / key).write_bytes(b"no chunk at all")
    for function in fw.sum, fw.cumsum:
        with pytest.raises(fw.SourceError, match=rf"chunk '{key}' cannot be read: "):
            function(fw.open(path), axis=0)


def test_a_missing_chunk_is_the_fill_value(tmp_path: Path) -> None:
    made = zarr.create_array(str(tmp_path / "x.zarr"), shape=(40, 30), chunks=(10, 10), dtype="f8", fill_value=2.5)
    made[:10] = X[:10]
    wanted = np.concatenate([X[:10], np.full((30, 30), 2.5)])
    assert agree("sum", fw.sum(fw.open(tmp_path / "x.zarr"), axis=0), in_memory("sum", wanted, axis=0))


def test_zarr_groups_and_damaged_metadata(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "g.zarr"))
    group.create_array("inside", shape=(3,), dtype="f8")[...] = 1
    with pytest.raises(fw.SourceError, match=r"is a Zarr group; name one of its arrays \(.*g.zarr/inside\)"):
        fw.open(tmp_path / "g.zarr")
    assert fw.sum(fw.open(tmp_path / "g.zarr" / "inside")) == 3
    assert fw.sum(fw.open(group["inside"])) == 3
    (tmp_path / "g.zarr" / "inside" / "zarr.json").write_text("{")
    with pytest.raises(fw.SourceError, match="is no Zarr array, or a damaged one"):
        fw.open(tmp_path / "g.zarr" / "inside")


class Counting(LocalStore):
    """A store that knows how often each chunk was read and written."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.reads: dict[str, int] = {}

    async def get(self, key: str, *arguments: Any, **named: Any) -> Any:
        self.reads[key] = self.reads.get(key, 0) + 1
        return await super().get(key, *arguments, **named)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["sum", "cumsum", "reduce_many"])
def test_every_chunk_is_read_once(name: str, axis: int | None, tmp_path: Path) -> None:
    streams.chunked(tmp_path / "x.zarr", X, (10, 10))
    store = Counting(str(tmp_path / "x.zarr"), read_only=True)
    source = fw.open(zarr.open_array(store, mode="r"), memory_budget="20MB")
    more = {"folds": ["sum", "max"]} if name == "reduce_many" else {}
    getattr(fw, name)(source, axis=axis, **more)
    chunks = {key: count for key, count in store.reads.items() if key.startswith("c/")}
    assert len(chunks) == 12
    assert set(chunks.values()) == {1}


def test_every_chunk_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams.chunked(tmp_path / "x.zarr", X, (10, 10))
    written: list[str] = []
    put = LocalStore.set

    async def counted(self: LocalStore, key: str, *arguments: Any) -> None:
        written.append(key)
        await put(self, key, *arguments)

    monkeypatch.setattr(LocalStore, "set", counted)
    fw.cumsum(fw.open(tmp_path / "x.zarr"), axis=0, out=fw.open(tmp_path / "y.zarr", mode="w"))
    chunks = [key for key in written if "c/" in key]
    assert len(chunks) == len(set(chunks)) >= 1
    found = zarr.open_array(str(tmp_path / "y.zarr"), mode="r")
    assert np.asarray(found[...]).tobytes() == in_memory("cumsum", X, axis=0).tobytes()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_columns_of_tables(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    numbers, counts = X.ravel(), np.arange(1200, dtype=np.int16)
    table = pa.table({"price": numbers, "count": counts, "name": ["x"] * 1200, "holes": [None, *range(1199)]})
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=100)
    else:
        pyarrow.feather.write_feather(table, path, chunksize=100, compression="uncompressed")
    source = fw.open(path, column="price")
    assert source.shape == (1200,)
    assert agree("sum", fw.sum(source), in_memory("sum", numbers))
    assert agree("cumsum", fw.cumsum(source), in_memory("cumsum", numbers))
    assert agree("sum", fw.sum(fw.open(path, column="count")), in_memory("sum", counts))
    with pytest.raises(fw.OptionError, match="'price', 'count', 'name', 'holes'"):
        fw.open(path)
    with pytest.raises(fw.DtypeError, match=r"column 'name' of .* is of type string"):
        fw.open(path, column="name")
    with pytest.raises(fw.SourceError, match="has nulls"):
        fw.sum(fw.open(path, column="holes"))
    path.write_bytes(b"no table")
    with pytest.raises(fw.SourceError, match="cannot be read"):
        fw.open(path, column="price")


def test_blocks_are_handed_over_once() -> None:
    source = fw.open(iter([X, X]))
    assert fw.sum(source) == fw.sum(np.stack([X, X]), accuracy="exact")
    with pytest.raises(fw.StateError, match="were handed over already"):
        fw.sum(source)
    again = fw.open([X, X], shape=(80, 30))
    assert fw.sum(again) == fw.sum(again)


def test_blocks_that_do_not_go_together() -> None:
    def blocks(*them: Any) -> Iterator[Any]:
        yield from them

    for second in X[:, :2], X.astype(np.float32), np.float64(3):
        with pytest.raises(fw.ShapeError, match="where the first one promised float64"):
            fw.sum(fw.open(blocks(X, second)))
    for rows, said in (81, "only 80"), (79, "more"):
        with pytest.raises(fw.SourceError, match=f"there are {said}"):
            fw.sum(fw.open(blocks(X, X), shape=(rows, 30)))
    with pytest.raises(fw.ShapeError, match="there is not one block"):
        fw.open(blocks())
    with pytest.raises(fw.ShapeError, match="the first block is of rank 0"):
        fw.open(blocks(3.0))
    with pytest.raises(fw.OptionError, match="reverse=True begins at the end"):
        fw.cumsum(fw.open([X], shape=X.shape), axis=0, reverse=True)
    with pytest.raises(fw.ArgumentError, match="place is of type int"):
        fw.open(3)
    with pytest.raises(RuntimeError, match="theirs"):
        fw.sum(fw.open(_failing()))


def _failing() -> Iterator[Array]:
    yield X
    raise RuntimeError("theirs")


def test_whatever_has_slices() -> None:
    class Slices:
        shape, dtype, chunks = X.shape, X.dtype, (7, 7)

        def __getitem__(self, box: Any) -> Array:
            return np.asarray(X[box])

    assert agree("sum", fw.sum(fw.open(Slices()), axis=0), in_memory("sum", X, axis=0))


@pytest.mark.parametrize("fold", ["sum", "max", "cumsum", "argmax"])
@pytest.mark.parametrize("wrong", ["wider", "narrower", "fewer", "more", "flat", "alone", "complex"])
def test_slices_that_are_not_what_was_promised(wrong: str, fold: str) -> None:
    class Slices:
        shape, dtype = (4, 3), np.dtype(np.int32)

        def __getitem__(self, box: Any) -> Any:
            return {
                "wider": np.ones((4, 3))[box],
                "narrower": np.ones((4, 3), np.uint8)[box],
                "fewer": np.ones((1, 3), np.int32),
                "more": np.ones((9, 3), np.int32),
                "flat": np.ones(3, np.int32),
                "alone": np.int32(3),
                "complex": np.ones((4, 3), complex)[box],
            }[wrong]

    with pytest.raises(fw.SourceError, match=r"a slice is of dtype .* where int32, shape \(\d, 3\) was promised"):
        getattr(fw, fold)(fw.open(Slices()), axis=0)


def test_slices_that_hide_some() -> None:
    class Slices:
        shape, dtype = (4, 3), np.dtype(np.float64)

        def __getitem__(self, box: Any) -> Any:
            return np.ma.masked_less(np.arange(12.0).reshape(4, 3), 5)[box]

    with pytest.raises(fw.ArgumentError, match="a masked array would lose its mask"):
        fw.sum(fw.open(Slices()))


def test_options_that_mean_nothing(tmp_path: Path) -> None:
    path = streams.saved(tmp_path / "x.npy", X)
    (tmp_path / "x.txt").write_text("1 2 3")
    for options, message in (
        ({"mode": "a"}, "mode = 'a'; accepted are"),
        ({"memory_budget": "many"}, "memory_budget = 'many'; accepted are"),
        ({"memory_budget": 0}, "memory_budget = 0; accepted are whole bytes from 1 on, or with a unit"),
        ({"memory_budget": "0.001"}, "memory_budget = '0.001'; accepted are whole bytes from 1 on"),
        ({"memory_budget": "9" * 5000}, "accepted are whole bytes from 1 on"),
        ({"memory_budget": 2.5}, "memory_budget is of type float"),
        ({"chunks": (3,)}, "chunks are those of a result"),
        ({"mode": "w", "chunks": (3,)}, "an .npy file has no chunks"),
    ):
        with pytest.raises(fw.FoldwiseError, match=message):
            fw.open(path, **options)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"shape": "ab"}, "shape = 'ab'; accepted are an int and a tuple of ints"),
        ({"shape": (2.5,)}, r"shape = \(2.5,\); accepted are an int"),
        ({"shape": -1}, r"shape = \(-1,\); accepted are up to 64 lengths from 0 on"),
        ({"shape": (1,) * 65}, "accepted are up to 64 lengths"),
        ({"progress": 3}, "progress is of type int; accepted is a function"),
        ({"checkpoint": 3}, "checkpoint is of type int; accepted is a path"),
        ({"checkpoint_seconds": "x"}, "checkpoint_seconds = 'x'; accepted are numbers from 0 on"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds = -1; accepted are numbers from 0 on"),
    ]
    for options, message in wrong:
        for place in path, [X]:
            with pytest.raises(fw.FoldwiseError, match=message):
                fw.open(place, **options)
    offset: Any
    for offset in 1.5, "x", -1, 1000:
        with pytest.raises(fw.OptionError, match=f"offset = {offset!r}; accepted are ints from 0 to the 5 bytes of"):
            fw.open(tmp_path / "x.txt", dtype="i1", offset=offset)
    for offset in 2, np.int8(2):
        assert fw.open(tmp_path / "x.txt", dtype="i1", shape=3, offset=offset).shape == (3,)
    assert fw.sum(fw.open([X[0]], shape=30)) == fw.sum(X[0], accuracy="exact")
    with pytest.raises(fw.ShapeError, match="but the first block is of shape"):
        fw.open([X], shape=())
    with pytest.raises(fw.ArgumentError, match=r"chunks = \(2.5,\); accepted are an int and a tuple of ints"):
        fw.open(tmp_path / "y.zarr", mode="w", chunks=(2.5,))  # type: ignore[call-overload]
    fw.cumsum(fw.open(X.ravel()), out=fw.open(tmp_path / "y.zarr", mode="w", chunks=100))
    assert zarr.open_array(str(tmp_path / "y.zarr"), mode="r").chunks == (100,)
    with pytest.raises(fw.OptionError, match=r"is of no kind that is known by its name \(.npy, .zarr"):
        fw.open(tmp_path / "x.txt")
    with pytest.raises(fw.OptionError, match=r"results are written to paths that end in .npy or .zarr"):
        fw.open(tmp_path / "x.txt", mode="w")
    with pytest.raises(fw.OptionError, match="a checkpoint would not help"):
        fw.sum(fw.open([X], checkpoint=tmp_path / "notes"))


def test_options_are_for_places_that_do_not_say_it_themselves(tmp_path: Path) -> None:
    npy = streams.saved(tmp_path / "x.npy", X)
    bare, table = tmp_path / "x.bin", tmp_path / "x.parquet"
    X.tofile(bare)
    pyarrow.parquet.write_table(pa.table({"a": X[0]}), table)
    chunked = streams.chunked(tmp_path / "x.zarr", X, (10, 10))
    mapped = np.load(npy, mmap_mode="r")
    said: dict[str, Any] = {"dtype": "f8", "shape": (3,), "offset": 8, "column": "a"}
    for place, kind, meant in (
        (npy, "an .npy file", ""),
        (chunked, "a Zarr array", ""),
        (table, "a table of columns", "column"),
        (bare, "a file of numbers without a header", "dtype shape offset"),
        (mapped, "an array", ""),
        (X, "an array", ""),
        ([X], "an iterable of blocks", "shape"),
    ):
        for option in said.keys() - meant.split():
            also: dict[str, Any] = {"dtype": "f8"} if place is bare else {}
            with pytest.raises(fw.OptionError, match=f"{option} = .* is for .* is {kind}, so leave {option}= away"):
                fw.open(place, **{**also, option: said[option]})


def test_what_is_no_place_is_told_so_whatever_is_said_with_it(tmp_path: Path) -> None:
    path = streams.saved(tmp_path / "x.npy", X)
    with path.open("rb") as file:
        for place, kind in (3, "int"), (bytes(path), "bytes"), (file, "BufferedReader"):
            with pytest.raises(fw.ArgumentError, match=f"place is of type {kind}; accepted are a path, an array, or"):
                fw.open(place, dtype="f8")


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16"])
def test_what_takes_arrays_tells_how_a_source_becomes_one(dtype: str, tmp_path: Path) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)
    source, target = fw.open(streams.saved(tmp_path / "x.npy", x)), fw.open(tmp_path / "y.npy", mode="w")
    total = fw.Accumulator("sum", dtype=dtype)
    takers: list[Callable[[Any], Any]] = [
        fw.sum_report,
        total.update,
        fw.operator("ReduceMax"),
        fw.operator("openvino:ReduceSum"),
        lambda given: fw.sum([given, given]),
        lambda given: fw.sum(np.ones(3), where=given),
        np.sum,
    ]
    for taker in takers:
        with pytest.raises(fw.ArgumentError, match=r"x\.npy is opened, not in memory; .* as fw\.max\(source,"):
            taker(source)
        with pytest.raises(fw.ArgumentError, match=r"y\.npy is a place for a result, as out="):
            taker(target)
    made = fw.max(source, axis=())
    assert made.dtype == x.dtype
    assert np.array_equal(made, x)


def test_a_place_for_a_result_takes_no_options_of_reading(tmp_path: Path) -> None:
    said = {"dtype": "f8", "shape": (3,), "offset": 8, "column": "a"}
    said |= {"memory_budget": "1GB", "progress": print, "checkpoint": "notes", "checkpoint_seconds": 1}
    for option, value in said.items():
        for mode in "w", "x":
            with pytest.raises(fw.OptionError, match=f"{option}= is for what is read, and mode='{mode}'"):
                fw.open(tmp_path / "y.npy", mode, **{option: value})  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("512 MiB", 1 << 29),
        ("1.5gib", 3 << 29),
        ("100", 100),
        (7777, 7777),
        (np.int64(7777), 7777),
        ("0.001KB", 1),
        (f"{2**53 + 1}", 2**53 + 1),
    ],
)
def test_budgets_as_they_are_written(text: Any, size: int) -> None:
    assert fw.open(X, memory_budget=text).job.budget == size


def test_a_source_tells_what_it_is(tmp_path: Path) -> None:
    source = fw.open(streams.saved(tmp_path / "x.npy", X))
    assert (source.shape, source.ndim, source.size, source.nbytes) == ((40, 30), 2, 1200, 9600)
    assert repr(source) == f"<Source {tmp_path / 'x.npy'}: float64 (40, 30)>"
    assert repr(fw.open(tmp_path / "y.npy", mode="w")) == f"<Target {tmp_path / 'y.npy'}>"
