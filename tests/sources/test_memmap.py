"""Mapped files: what is read from the disk, and what happens if a file changes while it is read."""

import ctypes
import mmap
import os
import subprocess
import sys

import h5py
import numpy as np
import pyarrow as pa
import pytest

from banditsis import BanditSIS, Plan, open_source, screen
from banditsis.sources import memmap
from banditsis.sources.memmap import MappedSource

rng = np.random.default_rng(0)


def drop_from_cache(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def cached_bytes(path):
    """Bytes of a file that are in the page cache."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as map:
        first = (ctypes.c_char * len(map)).from_buffer(map)
        pages = (ctypes.c_ubyte * -(-len(map) // mmap.PAGESIZE))()
        library = ctypes.CDLL(None, use_errno=True)
        assert library.mincore(ctypes.c_void_p(ctypes.addressof(first)), len(map), pages) == 0
        del first
        return mmap.PAGESIZE * int((np.frombuffer(pages, np.uint8) & 1).sum())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux to look at the page cache")
@pytest.mark.parametrize("p", [200, 6000, 200_000])
def test_the_bytes_that_are_estimated_are_those_read_from_the_disk(p, tmp_path):
    n = 72_000_000 // (4 * p)
    path = tmp_path / "x.npy"
    np.save(path, rng.standard_normal((n, p), dtype=np.float32))
    drop_from_cache(path)
    if cached_bytes(path):
        pytest.skip("this file system keeps its files in memory")
    source, plan = open_source(path), Plan.paper(n, p, 5, 0.5)
    result = screen(source, rng.standard_normal(n), plan, missing="pairwise", random_state=0)
    scattered = result.parameters["row_order"] == "random"
    shapes = [(r.cells // r.n_features, r.n_features) for r in result.rounds]
    estimated = sum(source.bytes_touched(*s, scattered=scattered and s[0] < n) for s in shapes)
    assert 0.7 < min(estimated, path.stat().st_size) / cached_bytes(path) < 1.4


LAYOUTS = {
    "row-major": lambda X: X,
    "some columns": lambda X: X[3:, 5:-2:3],
    "reversed": lambda X: X[::-1, ::-1],
    "column-major": lambda X: X.T,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_scattered_cells_are_requested_and_summed(layout, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(memmap, "AS_IN_MEMORY", 0)
    monkeypatch.setattr(memmap, "MIN_DISK_SECONDS", 0)  # as if nothing were cached
    np.save(tmp_path / "x.npy", (100 * rng.standard_normal((600, 9000))).astype(dtype))
    X = LAYOUTS[layout](np.load(tmp_path / "x.npy", mmap_mode="r"))
    source = open_source(X)
    assert isinstance(source, MappedSource)
    rows, columns = np.arange(7, X.shape[0], 11), np.append(np.arange(4), np.arange(400, X.shape[1], 37))
    starts, stops = source._byte_ranges(*((rows, columns) if source.by_row else (columns, rows)))
    first = X.ctypes.data - np.frombuffer(X._mmap, np.uint8).ctypes.data
    cells = first + np.add.outer(rows * X.strides[0], columns * X.strides[1]).ravel()
    place = np.searchsorted(starts, cells, side="right") - 1
    assert (cells + X.itemsize <= stops[place]).all()
    assert starts[0] >= 0
    assert stops[-1] <= len(X._mmap)
    assert source.read(rows[:0], columns).shape == (0, len(columns))
    y = rng.standard_normal(X.shape[0])
    plan = Plan.paper(*X.shape, 20)
    result = screen(source, y, plan, row_order="random", random_state=0)
    expected = screen(np.array(X), y, plan, random_state=0)
    np.testing.assert_array_equal(result.selected, expected.selected)
    np.testing.assert_allclose(result.scores, expected.scores, atol=1e-6)


def test_selectors_know_that_an_array_is_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(memmap, "AS_IN_MEMORY", 0)
    X = rng.standard_normal((40_000, 8))
    np.save(tmp_path / "x.npy", X)
    _write_hdf5(tmp_path / "x.h5", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for data in (mapped, np.asarray(mapped), mapped[:, :], open_source(tmp_path / "x.h5")):
        selector = BanditSIS(2, alpha=0.5, random_state=0).fit(data, X[:, 3] + rng.standard_normal(40_000))
        assert selector.result_.parameters["row_order"] == "blocks"
    selector = BanditSIS(2, alpha=0.5, random_state=0).fit(mapped + 1.0, X[:, 3])  # in memory again
    assert selector.result_.parameters["row_order"] == "random"


def _write_feather(path, X):
    table = pa.table({f"x{j}": x for j, x in enumerate(X.T)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=5000)


def _write_hdf5(path, X):
    with h5py.File(path, "w") as file:
        file["x"] = X


WRITERS = {"x.npy": np.save, "x.feather": _write_feather, "x.h5": _write_hdf5}
SHRINKING = """
import os, sys
import numpy as np
from banditsis import Plan, open_source, screen

path, when = sys.argv[1:]
source = open_source(path)

class Shrink:
    def __call__(self, *counts):
        pass
    def round_done(self, round):
        os.truncate(path, 5000)

if when == "opened":
    os.truncate(path, 5000)
n, p = source.shape
try:
    screen(source, np.arange(n) % 7.0, Plan.paper(n, p, 2), row_order="random", progress=Shrink())
except ValueError as error:
    print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows does not let others shorten a mapped file")
@pytest.mark.parametrize("when", ["opened", "screened"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_cut_during_a_run(name, when, tmp_path):
    path = tmp_path / name
    WRITERS[name](path, rng.standard_normal((20_000, 12)))
    command = [sys.executable, "-c", SHRINKING, str(path), when]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert f"{path} became shorter while it was read" in run.stdout
    assert "to 5,000 bytes" in run.stdout
