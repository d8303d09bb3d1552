"""Sample statistics: features are scored from all rows so far, which every round reads again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, count_rows, to_columns
from banditsis.core.parallel import Workers
from banditsis.engine.sampling import Strata, join_rows
from banditsis.engine.state import Positions, Scored
from banditsis.sources.base import Source
from banditsis.statistics.base import Effects, find_effects
from banditsis.statistics.covariates import CovariateError
from banditsis.statistics.null_distributions import KnownPvalues, NormalNull, NullDistribution
from banditsis.statistics.sample import SampleStatistic

CELLS_IN_TILE, CELLS_IN_CHUNKS = 1 << 20, 1 << 23  # 8 MB a thread; 64 MB if chunks must be decoded
CELLS_IN_STORED = 1 << 22  # stored cells of a sparse matrix
MIN_WIDTH, MAX_WIDTH = 16, 64  # columns of a tile
TILES_AT_ONCE = 32


@dataclass(frozen=True)
class RereadState:
    """The scores of the features that any response has left; has the methods of ``SumState``."""

    source: Source
    statistic: SampleStatistic
    strata: Strata
    columns: Columns
    #: lines × responses × features: scores and what else the statistic returns, see :class:`SampleStatistic`
    lines: Floats
    present: Floats | None
    rows: Rows = field(default_factory=lambda: slice(0, 0))
    #: sampling weights of those rows; None if all are equal
    weights: Floats | None = None
    #: what the statistic computed from the response over those rows
    prepared: Any = None

    @classmethod
    def start(
        cls, source: Source, statistic: SampleStatistic, rows: Rows, strata: Strata, columns: Columns = None
    ) -> RereadState:
        """No scores yet."""
        p = source.shape[1] if columns is None else len(columns)
        others = (statistic.returns_null_scale, statistic.returns_pvalues, statistic.returns_effect_factor)
        lines = np.zeros((1 + sum(others), statistic.n_responses, p))
        return cls(source, statistic, strata, columns, lines, np.zeros(p) if statistic.pairwise else None)

    @property
    def n_read(self) -> int:
        """Number of rows so far."""
        return count_rows(self.rows)

    @property
    def n_columns(self) -> int:
        """Number of features that are left."""
        return int(self.lines.shape[-1])

    def n_new(self, rows: Rows) -> int:
        """Number of rows that a round with some new rows reads."""
        return self.n_read if count_rows(rows) else 0

    def features(self, positions: Array | slice) -> Indices:
        """Indices of the features at some positions."""
        return (np.arange(self.n_columns) if self.columns is None else self.columns)[positions]

    def add(self, rows: Rows, workers: Workers, tick: Callable[[int], None]) -> RereadState:
        """Score the features over all rows so far."""
        rows = join_rows(self.rows, rows) if count_rows(self.rows) else rows
        new = replace(self, rows=rows, weights=self.strata.row_weights(rows))
        y = self.statistic.response(rows)
        new = replace(new, prepared=new._prepare(y, slice(None)))
        m, p = len(y), self.n_columns
        width = self._tile_width(m, p)
        for start in range(0, p, width * TILES_AT_ONCE):
            stop = min(start + width * TILES_AT_ONCE, p)
            workers.run([(new._score, slice(j, min(j + width, stop)), y) for j in range(start, stop, width)])
            tick(m * (stop - start))
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

    def _tile_width(self, n_rows: int, n_columns: int) -> int:
        """Columns of a tile: depends on the sizes and the source, never on the number of threads."""
        stored_together = self.source.chunk[1]
        if self._reads_stored:
            return int(max(1, CELLS_IN_STORED // (self.source.density * n_rows + 1)))
        if stored_together > 1:
            return int(max(1, min(stored_together, CELLS_IN_CHUNKS // n_rows)))
        width = max(MIN_WIDTH, -(-n_columns // TILES_AT_ONCE))
        return max(1, min(width, MAX_WIDTH, CELLS_IN_TILE // n_rows))

    def _score(self, positions: slice, y: Floats) -> None:
        """Score some of the features, in place; the score is NaN if a cell cannot be used."""
        width = positions.stop - positions.start
        if self._reads_stored:
            cells = self.source.read_stored(self.rows, self._columns(positions))
            if np.isfinite(cells.values).all():
                self.lines[..., positions] = self.statistic.score_stored(cells, self.prepared)
                if self.present is not None:
                    self.present[positions] = len(y)
                return
            width = max(1, CELLS_IN_TILE // len(y))  # all cells of these features take much more memory
        for start in range(positions.start, positions.stop, width):
            self._score_cells(slice(start, min(start + width, positions.stop)), y)

    def _columns(self, positions: slice) -> Indices | slice:
        return positions if self.columns is None else self.columns[positions]

    def _score_cells(self, positions: slice, y: Floats) -> None:
        """Score some of the features by all of their cells, as :meth:`_score` does."""
        block = to_columns(self.source.read(self.rows, self._columns(positions)))
        lines = self.lines[..., positions]
        finite = np.isfinite(block)
        complete = finite.all(axis=0)
        lines[:] = np.nan
        if complete.any():
            some = block if complete.all() else np.asfortranarray(block[:, complete])
            lines[..., complete] = self._score_block(some, self.prepared)
        if self.present is not None:
            self.present[positions] = finite.sum(axis=0)
            for j in np.flatnonzero(~complete & ~np.isinf(block).any(axis=0)):
                lines[..., j] = self._score_present(block[:, j], y, finite[:, j])

    def _score_block(self, block: Floats, prepared: Any) -> Floats:
        """Lines × responses × columns of a block."""
        return self.statistic.score_block(block, prepared).reshape(*self.lines.shape[:2], -1)

    def _score_present(self, x: Floats, y: Floats, known: Array) -> Floats:
        """The score of a feature over the rows in which it is present, reduced for missing rows."""
        n_read, x, y = len(y), x[known], y[known]
        if len(x) < self.statistic.min_present or not self.statistic.can_rank(y):
            return np.zeros(self.lines.shape[:2])
        try:
            prepared = self._prepare(y, known)
        except CovariateError:  # the null model does not converge in these rows
            return np.zeros(self.lines.shape[:2])
        lines = self._score_block(x[:, None], prepared)[..., 0]
        reduction = np.sqrt(len(x) / n_read)
        lines[0] *= reduction
        if not self.statistic.returns_pvalues:
            lines[1:] /= reduction
        return lines

    def find_nonfinite(self) -> Indices:
        """Features without a score because a cell is not finite."""
        return self.features(np.flatnonzero(np.isnan(self.lines[0]).any(axis=0)))

    def score(self, response: int, left: Positions) -> Scored:
        """The scores of all features that are left."""
        counts = np.diff(self.strata.group(self.rows)[1])
        present = None if self.present is None else self.present[left]
        lines = self.lines[:, response, left]
        null = self._null_distribution(lines, present) if self.strata.is_uniform(counts) else None
        return Scored(lines[0], null, present)

    def _null_distribution(self, lines: Floats, present: Floats | None) -> NullDistribution | None:
        if self.statistic.returns_pvalues:
            return KnownPvalues(lines[1])
        if self.statistic.returns_null_scale:
            return NormalNull(lines[1], two_sided=not self.statistic.one_sided)
        return self.statistic.null_distribution(self.prepared, count_rows(self.rows), present)

    def effects(self, response: int, left: Positions, scores: Floats) -> Effects | None:
        """Effect sizes of the features that are left, given their scores."""
        if not self.statistic.returns_effect_factor:
            return None
        state = self.take(left)
        return find_effects(scores, state.lines[-1, response], state.score(response, slice(None)).null)

    def take(self, positions: Positions) -> RereadState:
        """Keep the features at some positions."""
        return replace(
            self,
            columns=self.features(positions),
            lines=self.lines[..., positions],
            present=None if self.present is None else self.present[positions],
        )
