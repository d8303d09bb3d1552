"""Some rows, or some columns, of another source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows, StoredCells
from banditsis.sources.base import Calibration, Source, SourceView, SumContext
from banditsis.statistics.moments import Weights


class RowSubset(SourceView):
    """Some rows of a source, by sorted indices."""

    def __init__(self, base: Source, rows: Indices) -> None:
        super().__init__(base)
        self.rows = rows
        self.shape = (len(rows), base.shape[1])
        share = len(rows) / max(1, base.shape[0])
        self.block_rows = max(1, round(base.block_rows * share))
        edges = np.searchsorted(rows, np.cumsum([0, *base.stratum_sizes]))
        self.stratum_sizes = tuple(int(size) for size in np.diff(edges) if size)

    def block_edges(self) -> Indices:
        if self.block_rows == 1:
            return Source.block_edges(self)
        return np.unique(np.searchsorted(self.rows, self.base.block_edges()))

    def row_number(self, row: int) -> int:
        return self.base.row_number(int(self.rows[row]))

    @cached_property
    def original_rows(self) -> Indices | None:
        if (rows := self.base.original_rows) is None:
            return None
        return np.argsort(np.argsort(rows[self.rows]))  # their ranks

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.base.read(self.rows[rows], columns)

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        return self.base.read_columns(self.rows[rows], columns)

    def read_stored(self, rows: Rows, columns: Indices | slice) -> StoredCells:
        return self.base.read_stored(self.rows[rows], columns)

    def calibrate(self, rows: Rows) -> Calibration:
        return self.base.calibrate(self.rows[rows])

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        self.base.add_sums(self.rows[rows], edges, columns, weights, context)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if scattered or self.base.block_rows == 1:
            return self.base.bytes_touched(n_rows, n_columns, scattered=True)
        # Whole blocks are read, including the rows in between.
        n_base_rows = round(n_rows * self.base.shape[0] / max(1, len(self.rows)))
        return self.base.bytes_touched(n_base_rows, n_columns, scattered=False)


def take_rows(source: Source, rows: Indices) -> RowSubset:
    """Some rows of a source that may itself be some rows of another."""
    if isinstance(source, RowSubset):
        return RowSubset(source.base, source.rows[rows])
    return RowSubset(source, rows)


def take_original_rows(source: Source, rows: Indices) -> RowSubset:
    """Some rows of a source, by their sorted positions in the user's data."""
    if (order := source.original_rows) is not None:
        rows = np.flatnonzero(np.isin(order, rows))
    return take_rows(source, rows)


def pick_rows(source: Source, rows: Any) -> RowSubset:
    """Some rows of the user's data, in any order, by indices, a mask or a slice."""
    picked = np.arange(source.shape[0])[rows]
    if picked.ndim != 1:
        raise TypeError(f"the rows of a source are picked by indices or a mask, got {rows!r}.")
    if len(np.unique(picked)) < len(picked):
        raise ValueError("rows of a source cannot be repeated: draw them without replacement.")
    stored = picked if source.original_rows is None else np.argsort(source.original_rows)[picked]
    order = np.argsort(stored)
    subset = take_rows(source, stored[order])
    subset.original_rows = order if (order[1:] < order[:-1]).any() else None
    return subset


class ColumnSubset(SourceView):
    """Some columns of a source, by sorted indices."""

    def __init__(self, base: Source, columns: Indices) -> None:
        super().__init__(base)
        self.columns = columns
        self.shape = (base.shape[0], len(columns))
        if base.names is not None:
            self.names = [base.names[k] for k in columns]
        if base.encoding is not None:
            self.encoding = [base.encoding[k] for k in columns]
        self.annotations = {name: values[columns] for name, values in base.annotations.items()}

    def name(self, column: int) -> str:
        return self.base.name(int(self.columns[column]))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.base.read(rows, self.columns if columns is None else self.columns[columns])

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        return self.base.read_columns(rows, self.columns[columns])

    def read_stored(self, rows: Rows, columns: Indices | slice) -> StoredCells:
        return self.base.read_stored(rows, self.columns[columns])

    def calibrate(self, rows: Rows) -> Calibration:
        return self.base.calibrate(rows).take(self.columns)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        shift = np.zeros(self.base.shape[1], context.calibration.shift.dtype)
        scale = np.ones_like(shift)
        shift[self.columns], scale[self.columns] = context.calibration.shift, context.calibration.scale
        chosen = self.columns if columns is None else self.columns[columns]
        base_context = context._replace(calibration=Calibration(shift, scale))
        self.base.add_sums(rows, edges, chosen, weights, base_context)
