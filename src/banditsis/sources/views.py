"""Some rows, or some columns, of another source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows, StoredCells
from banditsis.sources.base import Calibration, Source, SumContext
from banditsis.statistics.moments import Weights


class Subset(Source):
    """Some rows or columns of another source, by sorted indices; None stands for all."""

    def __init__(self, base: Source, rows: Indices | None = None, columns: Indices | None = None) -> None:
        for attribute in Source.__annotations__:  # all of them, so none can be forgotten
            setattr(self, attribute, getattr(base, attribute))
        self.base, self.rows, self.columns = base, rows, columns
        n, p = base.shape
        if rows is not None:
            self.shape = n, p = len(rows), p
            self.block_rows = max(1, round(base.block_rows * n / max(1, base.shape[0])))
            edges = np.searchsorted(rows, np.cumsum([0, *base.stratum_sizes]))
            self.stratum_sizes = tuple(int(size) for size in np.diff(edges) if size)
        if columns is not None:
            self.shape = n, len(columns)
            if base.names is not None:
                self.names = [base.names[k] for k in columns]
            if base.encoding is not None:
                self.encoding = [base.encoding[k] for k in columns]
            self.annotations = {name: values[columns] for name, values in base.annotations.items()}

    def _rows(self, rows: Rows) -> Rows:
        return rows if self.rows is None else self.rows[rows]

    def _columns(self, columns: Any) -> Any:
        if self.columns is None:
            return columns
        return self.columns if columns is None else self.columns[columns]

    def name(self, column: int) -> str:
        return self.base.name(column if self.columns is None else int(self.columns[column]))

    def row_number(self, row: int) -> int:
        return self.base.row_number(row if self.rows is None else int(self.rows[row]))

    def block_edges(self) -> Indices:
        if self.rows is None:
            return self.base.block_edges()
        if self.block_rows == 1:
            return super().block_edges()
        return np.unique(np.searchsorted(self.rows, self.base.block_edges()))

    @cached_property
    def original_rows(self) -> Indices | None:
        if (order := self.base.original_rows) is None or self.rows is None:
            return order
        return np.argsort(np.argsort(order[self.rows]))  # their ranks

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.base.read(self._rows(rows), self._columns(columns))

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        return self.base.read_columns(self._rows(rows), self._columns(columns))

    def read_stored(self, rows: Rows, columns: Indices | slice) -> StoredCells:
        return self.base.read_stored(self._rows(rows), self._columns(columns))

    def calibrate(self, rows: Rows) -> Calibration:
        found = self.base.calibrate(self._rows(rows))
        return found if self.columns is None else found.take(self.columns)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        if self.columns is not None:
            shift = np.zeros(self.base.shape[1], context.calibration.shift.dtype)
            scale = np.ones_like(shift)
            shift[self.columns], scale[self.columns] = context.calibration.shift, context.calibration.scale
            context = context._replace(calibration=Calibration(shift, scale))
        self.base.add_sums(self._rows(rows), edges, self._columns(columns), weights, context)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if self.rows is not None and self.base.block_rows == 1:
            scattered = True
        elif self.rows is not None and not scattered:  # whole blocks are read, and the rows in between
            n_rows = round(n_rows * self.base.shape[0] / max(1, len(self.rows)))
        return self.base.bytes_touched(n_rows, n_columns, scattered=scattered)

    def release(self) -> None:
        self.base.release()


def take_original_rows(source: Source, rows: Indices) -> Subset:
    """Some rows of a source, by their sorted positions in the user's data."""
    if (order := source.original_rows) is not None:
        rows = np.flatnonzero(np.isin(order, rows))
    return Subset(source, rows)


def pick_rows(source: Source, rows: Any) -> Subset:
    """Some rows of the user's data, in any order, by indices, a mask or a slice."""
    picked = np.arange(source.shape[0])[rows]
    if picked.ndim != 1:
        raise TypeError(f"the rows of a source are picked by indices or a mask, got {rows!r}.")
    if len(np.unique(picked)) < len(picked):
        raise ValueError("rows of a source cannot be repeated: draw them without replacement.")
    stored = picked if source.original_rows is None else np.argsort(source.original_rows)[picked]
    order = np.argsort(stored)
    subset = Subset(source, stored[order])
    subset.original_rows = order if (order[1:] < order[:-1]).any() else None
    return subset
