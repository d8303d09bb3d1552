"""What runs on a worker: one block in, small sums out. Nothing here imports Dask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows, count_rows, spread
from banditsis.parallel import Workers, one_blas_thread
from banditsis.sources.base import Calibration, Source, SumContext
from banditsis.sources.calibration import PILOT_ROWS
from banditsis.statistics.base import Weights


@dataclass(frozen=True)
class Panel:
    """What every block of one column of blocks needs to know in a pass."""

    columns: Indices | None
    #: of these columns alone
    calibration: Calibration
    n_sums: int

    def widened(self, n_columns: int) -> Calibration:
        """The calibration as sources take it, for all columns of a block."""
        if self.columns is None:
            return self.calibration
        shift, scale = (
            np.zeros(n_columns, self.calibration.shift.dtype),
            np.ones(n_columns, self.calibration.scale.dtype),
        )
        shift[self.columns], scale[self.columns] = self.calibration.shift, self.calibration.scale
        return Calibration(shift, scale)


def open_block(block: Any) -> Source:
    """A block as a source of its own."""
    from banditsis.formats.opening import open_source

    if hasattr(block, "open"):  # a window on a file
        return cast(Source, block.open())
    return open_source(block.to_numpy() if hasattr(block, "to_numpy") else block)


def block_sums(block: Any, panel: Panel, rows: Rows, weights: Weights) -> Floats:
    """Sums of some rows of a block, by the kernels that arrays in memory run, in one thread."""
    source = open_block(block)
    width = source.shape[1] if panel.columns is None else len(panel.columns)
    out = np.zeros((panel.n_sums, width))

    def weigh(some: Rows) -> Weights:
        return weights.part(_within(rows, some))

    if count_rows(rows):
        with one_blas_thread(weights.linear.shape[1] > 1), Workers(1) as workers:
            source.sums(
                rows,
                panel.columns,
                weigh,
                SumContext(panel.widened(source.shape[1]), out, workers),
            )
    return out


def _within(rows: Rows, some: Rows) -> Rows:
    """Places of some of the rows among the rows."""
    if isinstance(rows, slice) and isinstance(some, slice):
        return slice(some.start - rows.start, some.stop - rows.start)
    return np.searchsorted(_listed(rows), _listed(some))


def add_up(parts: Sequence[Floats]) -> Floats:
    """Sums of several blocks, added in order."""
    total = np.array(parts[0], dtype=np.float64)
    for part in parts[1:]:
        total += part
    return total


def pilot(block: Any, rows: Rows) -> Calibration:
    """Shift and scale of the columns of a block, from some of its rows, or from others if those are few."""
    source = open_block(block)
    if count_rows(rows) < PILOT_ROWS:
        rows = spread(slice(0, source.shape[0]), PILOT_ROWS)
    return source.calibrate(rows)


def take_cells(block: Any, rows: Rows, columns: Indices | slice) -> Array:
    """Some cells of a block, dense."""
    return np.ascontiguousarray(open_block(block).read(rows, columns))


def _listed(rows: Rows) -> Indices:
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
