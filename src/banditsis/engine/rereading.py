"""Sample statistics: features are scored from all rows so far, which every round reads again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, count_rows, to_columns
from banditsis.core.parallel import Workers
from banditsis.engine.sampling import Strata, join_rows
from banditsis.engine.state import Positions, Scored, State
from banditsis.sources.base import Source
from banditsis.statistics.base import Effects, find_effects
from banditsis.statistics.covariates import CovariateError
from banditsis.statistics.null_distributions import KnownPvalues

CELLS_IN_TILE, CELLS_IN_CHUNKS = 1 << 20, 1 << 23  # 8 MB a thread; 64 MB if chunks must be decoded
CELLS_IN_STORED = 1 << 22  # stored cells of a sparse matrix
MIN_WIDTH, MAX_WIDTH = 16, 64  # columns of a tile
TILES_AT_ONCE = 32


@dataclass(frozen=True)
class RereadState(State):
    """The scores of the features that any response has left."""

    #: lines × responses × features: scores and what else the statistic returns, see :class:`SampleStatistic`
    lines: Floats
    present: Floats | None
    rows: Rows = field(default_factory=lambda: slice(0, 0))
    weights: Floats | None = None  #: sampling weights of those rows; None if all are equal
    prepared: Any = None  #: what the statistic computed from the response over those rows

    @classmethod
    def start(cls, source: Source, statistic: Any, strata: Strata, columns: Columns = None) -> RereadState:
        """No scores yet."""
        columns = np.arange(source.shape[1]) if columns is None else columns
        n_lines = 1 + statistic.returns_pvalues + statistic.returns_effect_factor
        lines = np.zeros((n_lines, statistic.n_responses, len(columns)))
        present = np.zeros(len(columns)) if statistic.pairwise else None
        return cls(source, statistic, strata, columns, lines, present)

    @property
    def n_read(self) -> int:
        """Number of rows so far."""
        return count_rows(self.rows)

    def add(self, rows: Rows, workers: Workers, tick: Callable[[int], None]) -> RereadState:
        """Score the features over all rows so far, in place."""
        rows = join_rows(self.rows, rows) if self.n_read else rows
        new = replace(self, rows=rows, weights=self.strata.row_weights(rows))
        y, p = self.statistic.response(rows), len(self.columns)
        new = replace(new, prepared=new._prepare(y, slice(None)))
        # The width of tiles depends on the sizes and the source, never on the number of threads.
        if self._reads_stored:
            width = int(CELLS_IN_STORED // (self.source.density * len(y) + 1))
        elif (stored_together := self.source.chunk[1]) > 1:
            width = min(stored_together, CELLS_IN_CHUNKS // len(y))
        else:
            width = min(max(MIN_WIDTH, -(-p // TILES_AT_ONCE)), MAX_WIDTH, CELLS_IN_TILE // len(y))
        width = max(1, width)
        for start in range(0, p, width * TILES_AT_ONCE):
            stop = min(start + width * TILES_AT_ONCE, p)
            workers.run((new._score, slice(j, min(j + width, stop)), y) for j in range(start, stop, width))
            tick(len(y) * (stop - start))
        return new

    def _prepare(self, y: Floats, rows: Array | slice) -> Any:
        """What the statistic computes from the response in some of the rows."""
        if self.weights is None:
            return self.statistic.prepare(y)
        weights = self.weights[rows]
        return self.statistic.prepare_weighted(y, weights / weights.mean())

    @property
    def _reads_stored(self) -> bool:
        """Whether the statistic scores the stored cells of a sparse matrix."""
        return self.statistic.reads_stored and self.source.density < 1

    def _score(self, positions: slice, y: Floats) -> None:
        """Score some of the features, in place; the score is NaN if a cell cannot be used."""
        width = positions.stop - positions.start
        if self._reads_stored:
            columns = positions if self.chosen is None else self.columns[positions]
            cells = self.source.read_stored(self.rows, columns)
            if np.isfinite(cells.values).all():
                self.lines[..., positions] = self.statistic.score_stored(cells, self.prepared)
                if self.present is not None:
                    self.present[positions] = len(y)
                return
            width = max(1, CELLS_IN_TILE // len(y))  # all cells of these features take much more memory
        for start in range(positions.start, positions.stop, width):
            self._score_cells(slice(start, min(start + width, positions.stop)), y)

    def _score_cells(self, positions: slice, y: Floats) -> None:
        """Score some of the features by all of their cells."""
        columns = positions if self.chosen is None else self.columns[positions]
        block = to_columns(self.source.read(self.rows, columns))
        lines, shape = self.lines[..., positions], (*self.lines.shape[:2], -1)
        finite = np.isfinite(block)
        complete = finite.all(axis=0)
        lines[:] = np.nan
        if complete.any():
            some = block if complete.all() else np.asfortranarray(block[:, complete])
            lines[..., complete] = self.statistic.score_block(some, self.prepared).reshape(shape)
        if self.present is not None:
            self.present[positions] = finite.sum(axis=0)
            for j in np.flatnonzero(~complete & ~np.isinf(block).any(axis=0)):
                lines[..., j] = self._score_present(block[:, j], y, finite[:, j])

    def _score_present(self, x: Floats, y: Floats, known: Array) -> Floats:
        """The score of a feature over the rows in which it is present, reduced for missing rows."""
        n_read, x, y, statistic = len(y), x[known], y[known], self.statistic
        lines = np.zeros(self.lines.shape[:2])
        if len(x) < statistic.min_present or not statistic.can_rank(y):
            return lines
        try:
            lines[:] = statistic.score_block(x[:, None], self._prepare(y, known)).reshape(lines.shape)
        except CovariateError:  # the null model does not converge in these rows
            return lines
        reduction = np.sqrt(len(x) / n_read)
        lines[0] *= reduction
        if statistic.returns_effect_factor:
            lines[-1] /= reduction
        return lines

    def find_nonfinite(self) -> Indices:
        """Features without a score because a cell is not finite."""
        return self.columns[np.flatnonzero(np.isnan(self.lines[0]).any(axis=0))]

    def score(self, response: int, left: Positions) -> Scored:
        """The scores of the features that a response has left."""
        present = None if self.present is None else self.present[left]
        lines, null = self.lines[:, response, left], None
        if self.strata.is_uniform(np.diff(self.strata.group(self.rows)[1])):
            null = (
                KnownPvalues(lines[1])
                if self.statistic.returns_pvalues
                else self.statistic.null_distribution(self.prepared, self.n_read, present)
            )
        return Scored(lines[0], null, present)

    def effects(self, response: int, left: Positions, scores: Floats) -> Effects | None:
        """Effect sizes of the features that a response has left, given their scores."""
        if not self.statistic.returns_effect_factor:
            return None
        return find_effects(scores, self.lines[-1, response, left], self.score(response, left).null)

    def take(self, positions: Positions) -> RereadState:
        """Keep the features at some positions."""
        return replace(
            self,
            columns=self.columns[positions],
            lines=self.lines[..., positions],
            present=None if self.present is None else self.present[positions],
        )
