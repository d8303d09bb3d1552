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
        self.dtype, self.names, self.multiplies = base.dtype, base.names, base.multiplies

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
            assert not isinstance(base_rows, slice)  # what is handed on below is a list
            return weights(np.searchsorted(self.rows, base_rows))

        self.base.sums(self.rows[rows], columns, weights_of_base_rows, calibration, out, workers, tick)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return self.base.bytes_touched(n_rows, n_columns, scattered=True)
