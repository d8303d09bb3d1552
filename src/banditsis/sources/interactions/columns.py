"""The columns that :class:`Interactions` multiplies: read in blocks, centred, and checked for overflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, count_rows, take
from banditsis.core.parallel import Workers, count_jobs, map_in_threads
from banditsis.core.validation import is_on_gpu, to_memory
from banditsis.sources.array import check_names
from banditsis.sources.base import Source, SumContext, summing_dtype
from banditsis.statistics.weights import Weights

BLOCK_CELLS = 1 << 23
THREAD_ROWS = 256  # that a thread reads at once
#: Largest binary exponent of a product, by bytes, so it fits its type, and in float64 its square does.
LARGEST_EXPONENT = {4: 128, 8: 500}


class BaseColumns:
    """Base columns in the dtype of products, centred if asked for; see :class:`Interactions`."""

    def __init__(self, X: Any, names: Iterable[str] | None, center: bool | ArrayLike) -> None:
        self.source = _open(X)
        self.n_columns = self.source.shape[1]
        self.names = self.source.names if names is None else check_names(list(names), self.n_columns)
        self.dtype = summing_dtype(self.source.dtype)
        if isinstance(center, bool | np.bool_):
            self.means = self._compute_means() if center else None
        else:
            self.means = _check_means(center, self.n_columns)

    def name(self, column: int) -> str:
        """Name of a column."""
        return f"x{column}" if self.names is None else str(self.names[column])

    def read(self, rows: Rows, columns: Columns = None) -> Array:
        """Some rows of some columns, read by all threads."""
        if columns is not None and len(columns) == self.n_columns:
            columns = None
        means = self.means if self.means is None or columns is None else self.means[columns]
        n_columns = self.n_columns if columns is None else len(columns)
        block = np.empty((count_rows(rows), n_columns), self.dtype)
        step = max(THREAD_ROWS, min(self.source.block_rows, len(block)))

        def fill(i: int) -> None:
            part = self.source.read(take(rows, i, i + step), columns)
            block[i : i + step] = part if means is None else np.subtract(part, means, dtype=np.float64)

        map_in_threads(fill, range(0, len(block), step))
        return block

    def runs(self, rows: Rows) -> Iterator[slice]:
        """Positions of runs of rows that fit in memory, of equal length and, if possible, of whole blocks."""
        n, fitting = count_rows(rows), max(1, BLOCK_CELLS // self.n_columns)
        height = max(fitting, min(self.source.block_rows, 8 * fitting))
        step = max(1, -(-n // max(1, -(-n // height))))
        for i in range(0, n, step):
            yield slice(i, min(i + step, n))

    def _compute_means(self) -> Floats:
        n, m = self.source.shape
        if n == 0:
            raise ValueError(
                "center=True needs the mean of every column, but X has no rows: pass the means of the rows "
                "that a selector was fitted on (center=source.means), or center=False."
            )
        calibration, sums = self.source.calibrate(slice(0, n)), np.zeros((1, 3, m))
        with Workers(count_jobs(None)) as workers:
            context, weights = SumContext(calibration, sums, workers), Weights.of(np.zeros((n, 1)))
            self.source.add_sums(slice(0, n), np.array([0, n]), None, weights, context)
        # Constant columns are shifted by their value, so they become exactly 0.
        means = (calibration.shift + sums[0, 0] / n) / calibration.scale
        if not np.isfinite(means).all():
            name = self.name(int(np.argmax(~np.isfinite(means))))
            raise ValueError(
                f"center=True needs the mean of every column, but column {name!r} has values that are not "
                "finite: drop or replace them, or centre the columns before."
            )
        return np.asarray(means, np.float64)


def _check_means(center: ArrayLike, m: int) -> Floats:
    means = np.array(center, dtype=np.float64)
    gaps = "" if np.isfinite(means).all() else " with NaN or infinity"
    if means.shape != (m,) or gaps:
        raise ValueError(
            f"center must be True, False or a finite mean for each of the {m:,} columns, got an array{gaps} "
            f"of shape {means.shape}."
        )
    return means


def _open(X: Any) -> Source:
    from banditsis.formats.opening import is_sparse, open_source  # formats import sources

    # All columns of some rows are read, so a sparse matrix is stored by row.
    return open_source(X.tocsr() if is_sparse(X) else to_memory(X) if is_on_gpu(X) else X)


def find_overflow(block: Array, squares: bool) -> Indices:
    """Two columns whose product may overflow (the same one twice if squares are features), or none."""
    limit = LARGEST_EXPONENT[block.itemsize]
    if max(block.max(initial=0), -block.min(initial=0)) < 2.0 ** (limit // 2):
        return np.arange(0)
    size = np.where(np.isfinite(block), np.abs(block), 0).max(axis=0)
    largest = np.argsort(size)[::-1][[0, 0] if squares else slice(2)]
    return largest if np.frexp(size[largest])[1].sum() > limit else np.arange(0)
