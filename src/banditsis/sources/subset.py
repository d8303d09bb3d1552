"""Some rows of another source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from banditsis._typing import Array, Columns, Floats, Indices, Rows
from banditsis.parallel import Workers
from banditsis.sources.base import Calibration, Source
from banditsis.statistics.base import Weights


class RowSubset(Source):
    """The given rows of a source, in order, seen as a source of their own.

    Parameters
    ----------
    base : Source
        Where the rows are.
    rows : ndarray of int
        Sorted indices.
    """

    def __init__(self, base: Source, rows: Indices) -> None:
        self.base, self.rows = base, rows
        self.shape = (len(rows), base.shape[1])
        self.dtype, self.names, self.means = base.dtype, base.names, base.means
        self.recipe, self.notes = base.recipe, base.notes
        self.shuffled, self.multiplies = base.shuffled, base.multiplies
        share = len(rows) / max(1, base.shape[0])
        self.block_rows = max(1, round(base.block_rows * share))

    def block_edges(self) -> Indices:
        if self.block_rows == 1:
            return super().block_edges()
        return np.unique(np.searchsorted(self.rows, self.base.block_edges()))

    def row_number(self, row: int) -> int:
        return self.base.row_number(int(self.rows[row]))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.base.read(self.rows[rows], columns)

    def calibrate(self, rows: Rows) -> Calibration:
        return self.base.calibrate(self.rows[rows])

    def sums(
        self,
        rows: Rows,
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: Calibration,
        out: Floats,
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        def weights_of_base_rows(base_rows: Rows) -> Weights:
            if isinstance(base_rows, slice):  # neighbours in the base, so neighbours here
                first = int(np.searchsorted(self.rows, base_rows.start))
                return weights(slice(first, first + base_rows.stop - base_rows.start))
            return weights(np.searchsorted(self.rows, base_rows))

        self.base.sums(self.rows[rows], columns, weights_of_base_rows, calibration, out, workers, tick)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if scattered or self.base.block_rows == 1:
            return self.base.bytes_touched(n_rows, n_columns, scattered=True)
        # Whole blocks come with the rows between.
        whole = round(n_rows * self.base.shape[0] / max(1, len(self.rows)))
        return self.base.bytes_touched(whole, n_columns, scattered=False)
