"""The columns that :class:`Interactions` multiplies: read in blocks, centred, and checked for overflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, count_rows, take
from banditsis.core.parallel import Workers
from banditsis.sources.array import check_names
from banditsis.sources.base import Source, summing_dtype

BLOCK_CELLS = 1 << 23
THREAD_ROWS = 256  # that a thread reads at once


class BaseColumns:
    """Base columns in the dtype of products, centred if asked for; see :class:`Interactions`."""

    def __init__(self, X: Any, names: Iterable[str] | None, center: bool | ArrayLike) -> None:
        self.source = _open(X, names)
        self.n_columns = self.source.shape[1]
        self.dtype = summing_dtype(self.source.dtype)
        if isinstance(center, bool | np.bool_):
            self.means = self._compute_means() if center else None
        else:
            self.means = _check_means(center, self.n_columns)

    def read(self, rows: Rows, columns: Columns = None) -> Array:
        """Some rows of some columns."""
        if columns is not None and len(columns) == self.n_columns:
            columns = None
        block = self.source.read(rows, columns)
        if self.means is not None:
            means = self.means if columns is None else self.means[columns]
            block = np.subtract(block, means, dtype=np.float64)
        return np.asarray(block, dtype=self.dtype)

    def read_parallel(self, rows: Rows, columns: Indices, workers: Workers) -> Array:
        """Some rows of some columns, read by all threads."""
        block = np.empty((count_rows(rows), len(columns)), self.dtype)
        step = max(THREAD_ROWS, min(self.source.block_rows, len(block)))

        def fill(i: int) -> None:
            block[i : i + step] = self.read(take(rows, i, i + step), columns)

        workers.run([(fill, i) for i in range(0, len(block), step)])
        return block

    def runs(self, rows: Rows) -> Iterator[Rows]:
        """Cut rows into runs of equal length that fit in memory and, if possible, hold whole blocks."""
        n, fitting = count_rows(rows), max(1, BLOCK_CELLS // self.n_columns)
        height = max(fitting, min(self.source.block_rows, 8 * fitting))
        step = max(1, -(-n // max(1, -(-n // height))))
        for i in range(0, n, step):
            yield take(rows, i, i + step)

    def _compute_means(self) -> Floats:
        n = self.source.shape[0]
        if n == 0:
            raise ValueError(
                "center=True needs the mean of every column, but X has no rows: pass the means of the rows "
                "that a selector was fitted on (center=source.means), or center=False."
            )
        total = np.zeros(self.n_columns)
        low, high = np.full_like(total, np.inf), np.full_like(total, -np.inf)
        for run in self.runs(slice(0, n)):
            block = self.source.read(run, None)
            total += block.sum(axis=0, dtype=np.float64)
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        if not np.isfinite(total).all():
            name = self.source.name(int(np.argmax(~np.isfinite(total))))
            raise ValueError(
                f"center=True needs the mean of every column, but column {name!r} has values that are not "
                "finite: drop or replace them, or centre the columns before."
            )
        # The exact value for a constant column, which then becomes exactly 0.
        return np.where(low == high, low, total / n).astype(np.float64, copy=False)


def _check_means(center: ArrayLike, m: int) -> Floats:
    means = np.array(center, dtype=np.float64)
    if means.shape != (m,):
        raise ValueError(
            f"center must be True, False or a mean for each of the {m:,} columns, got an array of shape "
            f"{means.shape}."
        )
    if not np.isfinite(means).all():
        raise ValueError(f"center must have finite means, got {means[~np.isfinite(means)][0]}.")
    return means


def _open(X: Any, names: Iterable[str] | None) -> Source:
    from banditsis.formats.opening import is_sparse, open_source  # formats import sources

    names = None if names is None else list(names)
    # All columns of some rows are read, so a sparse matrix is stored by row.
    source = open_source(X.tocsr() if is_sparse(X) else X, names)
    if names is not None and source.names is not names:  # X is a source with its own names
        source = copy(source)
        source.names = check_names(names, source.shape[1])
    return source


def find_overflow(block: Array, squares: bool, dtype: np.dtype) -> tuple[int, int] | None:
    """Two columns whose product overflows in some row, found from the two largest values of each row."""
    limit = float(np.finfo(dtype).max)
    high, low = block.max(initial=0), block.min(initial=0)
    if np.isnan(high):  # which takes longer to ignore
        high, low = (extreme.reduce(block, axis=None, initial=0) for extreme in (np.fmax, np.fmin))
    if max(high, -low) <= np.sqrt(limit):
        return None
    size = np.where(np.isfinite(block), np.abs(block), 0)
    first, each_row = size.argmax(axis=1), np.arange(len(size))
    largest = size[each_row, first]
    if not squares:
        size[each_row, first] = 0
    second = size.argmax(axis=1)
    overflows = limit / np.maximum(largest, 1) < size[each_row, second]
    row = int(overflows.argmax())
    return (int(first[row]), int(second[row])) if overflows[row] else None
