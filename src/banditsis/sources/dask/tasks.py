"""Tasks that run on workers: a block goes in, small sums come out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, as_indices, count_rows, spread
from banditsis.core.parallel import Workers, one_blas_thread
from banditsis.sources.base import PILOT_ROWS, Calibration, Source, SumContext
from banditsis.sources.blocks import shift_rows
from banditsis.sources.views import ColumnSubset
from banditsis.statistics.weights import Weights


class Window(NamedTuple):
    """A block of consecutive rows of a file, which the worker opens itself with some options."""

    path: str
    options: tuple[tuple[str, Any], ...]
    start: int
    stop: int


class Panel(NamedTuple):
    """The columns of a block that are summed, and their calibration."""

    columns: Rows
    calibration: Calibration


@lru_cache(maxsize=8)
def _open_file(path: str, options: tuple[tuple[str, Any], ...]) -> Source:
    """Open a file once in each worker."""
    from banditsis.formats.targets import open_data  # formats import sources

    return open_data(path, **dict(options)).features


def _open_block(block: Any) -> tuple[Source, slice]:
    """A source, and the rows of it that the block consists of."""
    from banditsis.formats.opening import open_source  # which imports this package

    if isinstance(block, Window):
        return _open_file(block.path, block.options), slice(block.start, block.stop)
    source = open_source(block.to_numpy() if hasattr(block, "to_numpy") else block)
    return source, slice(0, source.shape[0])


def block_sums(block: Any, panel: Panel, rows: Rows, weights: Weights) -> Floats:
    """Sums of some rows of a block, by the same kernels as in memory, in one thread."""
    source, window = _open_block(block)
    n, p = count_rows(rows), count_rows(panel.columns)
    out = np.zeros((1, weights.n_lines, p))
    columns = source if p == source.shape[1] else ColumnSubset(source, as_indices(panel.columns))
    with one_blas_thread(weights.n_linear > 1), Workers(1) as workers:
        context = SumContext(panel.calibration, out, workers)
        columns.add_sums(shift_rows(rows, window.start), np.array([0, n]), None, weights, context)
    return np.asarray(out[0])


def calibrate_block(block: Any, rows: Rows) -> Calibration:
    """Calibrate the columns of a block from some of its rows, or from all if these are too few."""
    source, window = _open_block(block)
    if count_rows(rows) < PILOT_ROWS:
        return source.calibrate(spread(window, PILOT_ROWS))
    return source.calibrate(shift_rows(rows, window.start))


def read_block(block: Any, rows: Rows, columns: Indices | slice) -> Array:
    """Some cells of a block as a dense array."""
    source, window = _open_block(block)
    return np.ascontiguousarray(source.read(shift_rows(rows, window.start), columns))
