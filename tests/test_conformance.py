"""What every source and every statistic promises. A new one is one more entry in SOURCES or RESPONSES."""

from dataclasses import replace
from functools import cache

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import files
from banditsis import SIS, Interactions, Plan, open_source, screen
from banditsis.index.writer import build_index
from banditsis.sources.blocks import BlockSource
from banditsis.sources.views import Subset
from banditsis.statistics import STATISTICS as REGISTERED
from banditsis.statistics import BinnedStatistic, find_statistic
from source_promises import (  # noqa: F401 - the tests of sources are run here
    CELLS,
    GAPS,
    MOMENT,
    NAMES,
    RESPONSES,
    WEIGHTS,
    N,
    P,
    X,
    check_selection,
    check_sums,
    rng,
    test_correlation_among,
    test_cost_grows_with_what_is_read,
    test_fourth_powers,
    test_groups_of_rows_have_their_own_sums,
    test_read,
    test_same_selection_from_every_source,
    test_shape_and_names,
    test_sums,
)


def _subset(X):
    wide = np.full((2 * N + 5, P), 1e3)
    rows = np.sort(np.random.default_rng(1).choice(len(wide), N, replace=False))
    wide[rows] = X
    return Subset(open_source(wide, NAMES), rows)


def _columns(X):
    wide = np.full((N, 2 * P), 1e3)
    wide[:, 1::2] = X
    names = [name for pair in zip(NAMES, NAMES, strict=True) for name in pair]
    return Subset(open_source(wide, names), columns=np.arange(1, 2 * P, 2))


class Blocks(BlockSource):
    """The shortest source there can be, which several threads may read."""

    chunk = (64, 5)

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.names = array, array.shape, array.dtype, NAMES

    def read(self, rows, columns):
        some = self.array[rows]
        return some if columns is None else some[:, columns]


def _products(X):
    """The products of 1 and each column, which are the first features of all interactions with 1."""
    everything = Interactions(np.column_stack([np.ones(len(X)), X]), main_effects=False)
    everything.names = NAMES
    return Subset(everything, columns=np.arange(P))


def _file(write, *args, **options):
    """A source from a file, or made by a function, once for X and once for GAPS."""

    @cache
    def build(gaps):
        made = write(GAPS if gaps else X, NAMES, *args, **options)
        return open_source(made) if isinstance(made, files.Path) else made

    return lambda x: build(x is GAPS)


def _write_index(X, names):
    """An index that stores rows in the order of X, and whose user has them in this order too."""
    before = np.empty_like(X)
    before[np.random.default_rng(0).permutation(len(X))] = X
    path = build_index(open_source(before, names), files.new_path("data.index"), random_state=0)
    source = open_source(path)
    source.original_rows = np.arange(len(X))
    return source


FILES = {
    "index": _file(_write_index),
    "Parquet": _file(files.write_parquet),
    "folder of Parquet": _file(files.write_parquet_folder),
    "Feather": _file(files.write_feather),
    "CSV": _file(files.write_csv),
    "Zarr": _file(files.write_zarr, chunks=(64, 5), compressors=None),
    "sharded Zarr": _file(files.write_zarr, chunks=(32, 5), shards=(64, 10)),
    "Zarr by column": _file(files.write_zarr, chunks=(64, 5), zarr_format=2, order="F", compressors=None),
    "Zarr in memory": _file(files.zarr_in_memory),
    "HDF5": _file(files.write_hdf5),
    "chunked HDF5": _file(files.write_hdf5, chunks=(64, 5), compression="gzip", shuffle=True),
    "AnnData": _file(files.write_h5ad, "csr_matrix"),
    "large AnnData by row": _file(files.open_large, files.write_h5ad, "csr_matrix", chunks=(200,)),
    "large AnnData by column": _file(files.open_large, files.write_h5ad, "csc_matrix"),
    "AnnData in Zarr": _file(files.write_anndata_zarr),
    "large AnnData in Zarr by row": _file(files.open_large, files.write_anndata_zarr, "csr_matrix"),
    "large AnnData in Zarr by column": _file(files.open_large, files.write_anndata_zarr, "csc_matrix"),
}
SOURCES = FILES | {
    "blocks": Blocks,
    "array": lambda X: open_source(X, NAMES),
    "column-major array": lambda X: open_source(np.asfortranarray(X), NAMES),
    "transposed slice": lambda X: open_source(np.repeat(X, 2, axis=1).T[::2].T, NAMES),
    "float32 array": lambda X: open_source(X.astype("f4"), NAMES),
    "pandas frame": lambda X: open_source(pd.DataFrame(X, columns=NAMES)),
    "polars frame": lambda X: open_source(pl.DataFrame(dict(zip(NAMES, X.T, strict=True)))),
    "pyarrow table": lambda X: open_source(pa.table(dict(zip(NAMES, X.T, strict=True)))),
    "pandas frame in pieces": lambda X: open_source(pd.DataFrame(dict(zip(NAMES, X.T, strict=True)))),
    "row subset": _subset,
    "dask array": lambda X: open_source(da.from_array(X, chunks=(100, 9)), NAMES),
    "dask array, lazy": lambda X: open_source(da.from_array(X, chunks=(77, P)) + 0, NAMES),
    "dask frame": lambda X: open_source(dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3)),
    "interactions": _products,
    "column subset": _columns,
    "sparse by row": lambda X: open_source(sparse.csr_array(X), NAMES),
    "sparse by column": lambda X: open_source(sparse.csc_matrix(X), NAMES),
    "sparse coordinates": lambda X: open_source(sparse.coo_array(X), NAMES),
}


@pytest.fixture(params=SOURCES)
def build(request):
    return SOURCES[request.param]


@pytest.fixture(params=REGISTERED)
def name(request):
    return request.param


#: Each sums by code of its own, so every choice of cells meets every kind of weights, and every statistic.
KERNELS = ["blocks", "array", "column-major array", "interactions", "sparse by row", "sparse by column"]


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_all_cells_by_all_weights(kernel, kind):
    x = GAPS if "gaps" in kind else X
    for rows, columns in CELLS.values():
        check_sums(SOURCES[kernel](x), x, rows, columns, WEIGHTS[kind])


@pytest.mark.parametrize("kernel", KERNELS)
def test_same_selection_by_every_statistic(name, kernel):
    check_selection(SOURCES[kernel](X), name)


@pytest.mark.parametrize("name", REGISTERED)
def test_copies_are_not_chosen_twice(name):
    both = np.column_stack([X, X[:, ::-1]])
    selected = SIS(6, statistic=name, avoid_redundancy=True).fit(both, RESPONSES[name]).result_.selected
    assert len(set(np.minimum(selected, 2 * P - 1 - selected))) == 6


@pytest.mark.parametrize("name", [name for name in MOMENT if isinstance(find_statistic(name), type)])
def test_summaries_add_up(name):
    statistic = find_statistic(name).bind(RESPONSES[name][:, None], False)
    (whole,) = statistic.summaries(slice(0, N), np.array([0, N]))
    parts = statistic.summaries(slice(0, N), np.array([0, 100, N]))
    np.testing.assert_allclose(parts.sum(axis=0), whole, atol=1e-9)
    (last,) = statistic.summaries(np.arange(100, N), np.array([0, N - 100]))
    np.testing.assert_allclose(last, parts[1], atol=1e-9)


@pytest.mark.parametrize("missing", ["raise", "pairwise"])
def test_scores_do_not_depend_on_shift_and_scale_of_a_feature(name, missing):
    x = GAPS if missing == "pairwise" else X
    plan = Plan.exact(N, P, P)
    scores = screen(x, RESPONSES[name], plan, statistic=name, missing=missing).scores
    moved = screen(1e-3 * x + 7, RESPONSES[name], plan, statistic=name, missing=missing).scores
    np.testing.assert_allclose(moved, scores, atol=1e-10)
    assert (np.abs(scores) <= 1).all() or name == "information_value"


def test_constant_features_score_zero(name):
    x = np.column_stack([np.full(N, 0.1), X[:, 0]])
    scores = screen(x, RESPONSES[name], Plan.exact(N, 2, 2), statistic=name).scores
    assert scores[0] == 0
    assert scores[1] != 0


def test_reading_in_pieces_equals_reading_at_once(name):
    """Sums add up; what is not sums reads all rows in its last piece. Bins are those of the first rows."""
    x = X if not isinstance(find_statistic(name), BinnedStatistic) else np.clip(np.round(X), 2, 4)
    at_once = screen(x, RESPONSES[name], Plan.exact(N, P, P), statistic=name)
    pieces = Plan(N, P, ((50, P), (51, P), (200, P), (N, P)))
    in_pieces = screen(x, RESPONSES[name], pieces, statistic=name, random_state=0)
    np.testing.assert_allclose(in_pieces.scores, at_once.scores, atol=1e-12)


def test_cells_are_those_of_the_plan(name):
    plan = Plan.paper(N, P, 4)
    result = screen(X, RESPONSES[name], plan, statistic=name, random_state=0)
    assert result.cells_read == replace(plan, rereads=find_statistic(name).rereads).cells
    assert (result.cells_read > plan.cells) == (name not in MOMENT)
