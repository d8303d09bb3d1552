"""Arrays in memory, of half precision too, and mapped files: what is read, and files that change."""

import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

import files
from banditsis import BanditSIS, Plan, open_source, screen
from banditsis.kernels.cells import convert_half
from banditsis.sources import memmap
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Calibration
from banditsis.sources.memmap import MappedSource
from banditsis.statistics.moments import Weights
from reference import same
from source_promises import plain_sums

rng = np.random.default_rng(5)
X = rng.standard_normal((600, 70)).astype(np.float16)
X[:, 3] = 7.0
X[::7, 5] = np.float16(6e-8)  # subnormal
Y = X[:, 1].astype(np.float64) - X[:, 2] + rng.standard_normal(600)
Z = rng.standard_normal((600, 2))
LABELS = np.digitize(Y, [-1.0, 1.0])


def test_every_number_is_converted_exactly():
    bits = np.arange(1 << 16, dtype=np.uint16)
    tile = np.empty((1, bits.size), np.float32)
    convert_half(bits, np.array([0]), tile)
    expected = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(tile[0], expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(tile[0][known]), np.signbit(expected[known]))


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("options", [{}, {"covariates": Z}, {"missing": "pairwise"}, {"y": LABELS}])
def test_scores_are_those_of_float32(order, options):
    x = np.repeat(X, 2, axis=1)[:, ::2] if order == "strided" else np.array(X, order=order)
    options = {"y": Y, "keep": Plan.exact(*X.shape, 5), **options}
    found, expected = (screen(data, **options).scores for data in (x, X.astype(np.float32)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("missing", ["raise", "pairwise"])
def test_cells_that_are_not_finite(order, value, missing):
    large = np.zeros((6000, 200), np.float16, order=order)  # too large to be checked as a whole
    large[:] = rng.standard_normal((6000, 200))
    large[4321, 17] = value
    plan, y = Plan.exact(6000, 200, 2), rng.standard_normal(6000)
    if missing == "pairwise" and np.isnan(value):
        screen(large, y, plan, missing=missing)
        return
    with pytest.raises(ValueError, match=r"row 4,?321"):
        screen(large, y, plan, missing=missing)


SHAPES = [(1, 1), (7, 3), (8, 16), (9, 17), (123, 15), (130, 40), (251, 33), (2100, 5), (16, 2100)]


def sums(x, shift, weights):
    out = np.ones((weights.n_lines, x.shape[1]))
    ArraySource(x).add_all(weights, Calibration(shift, np.ones_like(shift)), out)
    return out


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_those_of_products(shape, dtype, order):
    (n, m), wide = shape, (shape[0] + 3, shape[1] + 2)
    x = np.array(rng.standard_normal(wide) + 5, dtype, order=order)[1 : n + 1, 1 : m + 1]
    shift = x.mean(axis=0).astype(dtype)
    z = x.astype(np.float64) - shift
    for q, squared, fourth in ((2, False, False), (5, False, True), (11, True, False), (24, False, False)):
        linear, v = rng.standard_normal((n, q)), rng.random(n) if squared else None
        weights = Weights.of(linear, v, fourth=fourth)
        sizes = plain_sums(np.abs(z), Weights.of(np.abs(linear), v, fourth=fourth))
        limit = sizes * np.finfo(dtype).eps * (8 + np.sqrt(n)) + 1e-13
        assert (np.abs(sums(x, shift, weights) - 1 - plain_sums(z, weights)) <= limit).all()


@pytest.mark.parametrize("order", "CF")
def test_missing_numbers_reach_the_sums(order):
    x = np.ones((24, 20), np.float32, order=order)
    x[9, 17] = np.nan
    found = sums(x, np.zeros(20, np.float32), Weights.of(rng.standard_normal((24, 2))))
    np.testing.assert_array_equal(np.isnan(found).any(axis=0), np.arange(20) == 17)


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_of_an_array_are_read_in_place(order):
    x = np.asarray(rng.standard_normal((5000, 9)), order=order)
    columns = ArraySource(x).read_columns(slice(10, 5000), np.array([1, 7]))
    np.testing.assert_array_equal(columns, x[10:, [1, 7]].T)
    assert all(column.flags.c_contiguous for column in columns)
    assert np.shares_memory(columns[0], x) == (order == "F")


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
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
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
    y, plan = rng.standard_normal(X.shape[0]), Plan.paper(*X.shape, 20)
    found = screen(source, y, plan, row_order="random", random_state=0)
    same(found, screen(np.array(X), y, plan, random_state=0), 1e-6)


def write_npy(X):
    path = files.new_path("x.npy")
    np.save(path, X)
    return path


def write_arrow(X):
    parts = (files.table(part, [f"x{j}" for j in range(X.shape[1])]) for part in np.split(X, 4))
    return files.write_tables("feather", *parts)


MAPPED = {"npy": write_npy, "feather": write_arrow, "h5": lambda X: files.write_hdf5(X, list("abcdefghijkl"))}


def test_selectors_know_that_an_array_is_mapped(monkeypatch):
    monkeypatch.setattr(memmap, "AS_IN_MEMORY", 0)
    X = rng.standard_normal((40_000, 12))
    mapped = np.load(write_npy(X), mmap_mode="r")
    for data in (mapped, np.asarray(mapped), mapped[:, :], open_source(MAPPED["h5"](X))):
        selector = BanditSIS(2, alpha=0.5, random_state=0).fit(data, X[:, 3] + rng.standard_normal(40_000))
        assert selector.result_.parameters["row_order"] == "blocks"
    selector = BanditSIS(2, alpha=0.5, random_state=0).fit(mapped + 1.0, X[:, 3])  # in memory again
    assert selector.result_.parameters["row_order"] == "random"


SHRINKING = """
import os, sys
import numpy as np
from banditsis import Plan, open_source, screen

when, *paths = sys.argv[1:]

class Shrink:
    def __call__(self, *counts):
        pass
    def round_done(self, round):
        os.truncate(path, 5000)

for path in paths:
    source = open_source(path)
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
def test_files_that_are_cut_during_a_run(when):
    paths = [write(rng.standard_normal((20_000, 12))) for write in MAPPED.values()]
    command = [sys.executable, "-c", SHRINKING, when, *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for path, line in zip(paths, run.stdout.splitlines(), strict=True):
        assert f"{path} became shorter while it was read" in line
        assert "to 5,000 bytes" in line
