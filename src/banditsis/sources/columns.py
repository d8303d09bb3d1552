"""Some columns of another source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from banditsis._typing import Array, Columns, Floats, Indices, Rows
from banditsis.parallel import Workers
from banditsis.sources.base import Calibration, Source
from banditsis.sources.files import Opened, find_column
from banditsis.statistics.base import Weights


class ColumnSubset(Source):
    """The given columns of a source, in order, seen as a source of their own.

    Parameters
    ----------
    base : Source
        Where the columns are.
    columns : ndarray of int
        Sorted indices.
    """

    def __init__(self, base: Source, columns: Indices) -> None:
        self.base, self.columns = base, columns
        self.shape = (base.shape[0], len(columns))
        self.dtype, self.multiplies = base.dtype, base.multiplies
        self.block_rows, self.shuffled, self.notes = base.block_rows, base.shuffled, base.notes
        if base.names is not None:
            self.names = [base.names[k] for k in columns]

    @classmethod
    def without(cls, base: Source, column: int) -> ColumnSubset:
        """All columns but one."""
        return cls(base, np.delete(np.arange(base.shape[1]), column))

    def name(self, column: int) -> str:
        return self.base.name(int(self.columns[column]))

    def row_number(self, row: int) -> int:
        return self.base.row_number(row)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.base.read(rows, self.columns if columns is None else self.columns[columns])

    def calibrate(self, rows: Rows) -> Calibration:
        found = self.base.calibrate(rows)
        return Calibration(found.shift[self.columns], found.scale[self.columns])

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
        shift = np.zeros(self.base.shape[1], calibration.shift.dtype)
        scale = np.ones_like(shift)
        shift[self.columns], scale[self.columns] = calibration.shift, calibration.scale
        chosen = self.columns if columns is None else self.columns[columns]
        self.base.sums(rows, chosen, weights, Calibration(shift, scale), out, workers, tick)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return self.base.bytes_touched(n_rows, n_columns, scattered=scattered)


def take_out(source: Source, target: str, where: object, ids: Array | None = None) -> Opened:
    """Take a column out of the features of a source and read it as the target."""
    n, p = source.shape
    column = find_column([source.name(j) for j in range(p)], target, where)
    y = source.read(slice(0, n), slice(column, column + 1))[:, 0]
    return Opened(ColumnSubset.without(source, column), np.array(y), ids, source.name(column))
