"""What runs on a worker: one block in, small sums out. Nothing here imports Dask."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from banditsis._typing import Array, Floats, Indices, Rows
from banditsis.deviations import Deviation
from banditsis.parallel import Workers, one_blas_thread
from banditsis.sampling import count_rows, spread
from banditsis.sources.base import Calibration, Source
from banditsis.sources.calibration import PILOT_ROWS
from banditsis.statistics.base import Weights

#: Sums of a block, and the summary of its responses where that is made on the worker too.
Parts = list[Any]
#: Which responses of a block are meant; None for all.
Chosen = list[int] | None


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
    from banditsis.sources import open_source

    if hasattr(block, "open"):  # a window on a file
        return cast(Source, block.open())
    return open_source(block.to_numpy() if hasattr(block, "to_numpy") else block)


def block_sums(block: Any, panel: Panel, rows: Rows, weights: Weights) -> Parts:
    """Sums of some rows of a block, by the kernels that arrays in memory run, in one thread."""
    source = open_block(block)
    width = source.shape[1] if panel.columns is None else len(panel.columns)
    out = np.zeros((panel.n_sums, width))

    def weigh(some: Rows) -> Weights:
        return weights.part(_within(rows, some))

    if count_rows(rows):
        with one_blas_thread(weights.linear.shape[1] > 1), Workers(1) as workers:
            source.sums(
                rows, panel.columns, weigh, panel.widened(source.shape[1]), out, workers, _tell_nobody
            )
    return [out]


def _within(rows: Rows, some: Rows) -> Rows:
    """Places of some of the rows among the rows."""
    if isinstance(rows, slice) and isinstance(some, slice):
        return slice(some.start - rows.start, some.stop - rows.start)
    return np.searchsorted(_listed(rows), _listed(some))


def bound_sums(block: Any, panel: Panel, rows: Rows, statistic: Any, y: Any, chosen: Chosen) -> Parts:
    """As :func:`block_sums`, with weights made here from the block's own responses."""
    values = response_block(y, chosen)
    if statistic.pairwise and values.dtype.kind == "f":  # rows without a response are left out
        known = np.asarray(~np.isnan(values).any(axis=1))
        if not known.all():
            rows = _listed(rows)[known[rows]]
    bound = copy(statistic)
    bound.y = values
    return [*block_sums(block, panel, rows, bound.weights(rows)), bound.summary(rows)]


def response_block(y: Any, chosen: Chosen) -> Array:
    """A block of responses, rows × the chosen responses."""
    values = np.asarray(y)
    values = values.reshape(len(values), -1)
    return values if chosen is None else values[:, chosen]


def add_up(parts: Sequence[Parts]) -> Parts:
    """Parts of several blocks, added in order."""
    total = [np.array(part, dtype=np.float64) for part in parts[0]]
    for more in parts[1:]:
        for k, part in enumerate(more):
            total[k] += part
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


def take_responses(y: Any, rows: Rows, chosen: Chosen) -> Array:
    """Some rows of a block of responses."""
    return response_block(y, chosen)[rows]


def distinct(y: Any, chosen: Chosen) -> Array:
    """The different values of the responses in a block."""
    return np.unique(response_block(y, chosen))


def union(parts: Sequence[Array]) -> Array:
    """The different values of several blocks."""
    return np.unique(np.concatenate(list(parts)))


def moments(
    y: Any, rows: Rows, chosen: Chosen, labels: list[Any], looks: list[Deviation] | tuple[()] = ()
) -> Floats:
    """Count, mean and sum of squares about it: of each response and its deviations, or of each label."""
    values = response_block(y, chosen)[rows]
    if labels:
        values = np.hstack([values == label for label in labels])
    numbers = np.asarray(values, dtype=np.float64)
    if looks:
        numbers = np.column_stack([numbers, *(look(numbers[:, k]) for k, look in enumerate(looks))])
    mean = numbers.mean(axis=0)
    return np.stack([np.full(len(mean), float(len(numbers))), mean, ((numbers - mean) ** 2).sum(axis=0)])


def _listed(rows: Rows) -> Indices:
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def _tell_nobody(cells: int) -> None:
    """Whole blocks are told by the one who waits for them."""
