"""Sample statistics: features are scored from all rows so far, which every round reads again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, count_rows, near_zero
from banditsis.core.parallel import Workers
from banditsis.engine.strata import Strata
from banditsis.engine.trace import Trace
from banditsis.results.result import strength
from banditsis.sources.base import Source
from banditsis.statistics.covariates import CovariateError
from banditsis.statistics.null_distributions import NormalNull, NullDistribution
from banditsis.statistics.sample import SampleStatistic

CELLS_IN_TILE, CELLS_IN_CHUNKS = 1 << 20, 1 << 23  # 8 MB a thread; 64 MB if chunks must be decoded
MIN_WIDTH, MAX_WIDTH = 16, 64  # columns of a tile
TILES_AT_ONCE = 32
ROWS_AT_ONCE = 512  # rows that stay in the cache while they are transposed


@dataclass
class RereadingAccumulator:
    """One response and the features it has left; has the methods of ``MomentAccumulator``."""

    members: list[int]
    statistic: SampleStatistic
    source: Source
    strata: Strata
    columns: Columns
    #: scores and, if the statistic returns them, the factors that make them standard normal or effect sizes
    lines: Floats
    present: Floats | None
    rows: Rows | None = None
    #: sampling weights of those rows; None if all are equal
    weights: Floats | None = None
    #: what the statistic computed from the response over those rows
    prepared: Any = None

    @classmethod
    def start(
        cls, source: Source, statistic: SampleStatistic, response: int, strata: Strata, columns: Columns
    ) -> RereadingAccumulator:
        """Some features for one of the statistic's responses."""
        p = source.shape[1] if columns is None else len(columns)
        lines = np.zeros((1 + statistic.returns_null_scale + statistic.returns_effect_factor, p))
        present = np.zeros(p) if statistic.pairwise else None
        return cls([response], statistic.subset([response]), source, strata, columns, lines, present)

    @property
    def scores(self) -> Floats:
        """Scores of the remaining features."""
        return np.asarray(self.lines[0])

    @property
    def n_left(self) -> list[int]:
        """Number of remaining features."""
        return [len(self.scores)]

    def features(self, positions: Array | slice) -> Indices:
        """Indices of the features at some positions of the scores."""
        columns = np.arange(len(self.scores)) if self.columns is None else self.columns
        return columns[positions]

    def read(self, rows: Rows, workers: Workers, tick: Callable[[int], None]) -> int:
        """Score the remaining features over all rows so far; return how many rows were read."""
        self.rows = rows if self.rows is None else join_rows(self.rows, rows)
        m, p = count_rows(self.rows), len(self.scores)
        y = self.statistic.response(self.rows)
        self.weights = self.strata.row_weights(self.rows)
        self.prepared = self._prepare(y, slice(None))
        width = self._tile_width(m, p)
        for start in range(0, p, width * TILES_AT_ONCE):
            stop = min(start + width * TILES_AT_ONCE, p)
            workers.run([(self._score, slice(j, min(j + width, stop)), y) for j in range(start, stop, width)])
            tick(m * (stop - start))
        return m

    def _prepare(self, y: Floats, rows: Array | slice) -> Any:
        """What the statistic computes from the response in some of the rows."""
        if self.weights is None:
            return self.statistic.prepare(y)
        weights = self.weights[rows]
        return self.statistic.prepare_weighted(y, weights / weights.mean())

    def _tile_width(self, n_rows: int, n_columns: int) -> int:
        """Columns of a tile: depends on the sizes and the source, never on the number of threads."""
        stored_together = self.source.chunk[1]
        if stored_together > 1:
            return int(max(1, min(stored_together, CELLS_IN_CHUNKS // n_rows)))
        width = max(MIN_WIDTH, -(-n_columns // TILES_AT_ONCE))
        return max(1, min(width, MAX_WIDTH, CELLS_IN_TILE // n_rows))

    def _score(self, positions: slice, y: Floats) -> None:
        """Score some of the features; the score is NaN if a cell cannot be used."""
        assert self.rows is not None
        columns = positions if self.columns is None else self.columns[positions]
        block = _to_columns(self.source.read(self.rows, columns))
        finite = np.isfinite(block)
        complete = finite.all(axis=0)
        lines = self.lines[:, positions]
        lines[:] = np.nan
        if complete.all():
            lines[:] = self.statistic.score_block(block, self.prepared)
        elif complete.any():
            lines[:, complete] = self.statistic.score_block(
                np.asfortranarray(block[:, complete]), self.prepared
            )
        if self.present is not None:
            self.present[positions] = finite.sum(axis=0)
            for j in np.flatnonzero(~complete & ~np.isinf(block).any(axis=0)):
                lines[:, j] = self._score_present(block[:, j], y, finite[:, j])

    def _score_present(self, x: Floats, y: Floats, known: Array) -> Floats:
        """The score of a feature over the rows in which it is present, reduced for missing rows."""
        n_read, x, y = len(y), x[known], y[known]
        if len(x) < self.statistic.min_present or not self.statistic.can_rank(y):
            return np.zeros(len(self.lines))
        try:
            prepared = self._prepare(y, known)
        except CovariateError:  # the null model does not converge in these rows
            return np.zeros(len(self.lines))
        lines = np.atleast_2d(self.statistic.score_block(x[:, None], prepared))[:, 0]
        reduction = (len(x) / n_read) ** self.statistic.noise
        return np.append(lines[0] * reduction, lines[1:] / reduction)

    def nonfinite_features(self) -> Indices:
        """Features without a score because a cell is not finite."""
        return self.features(np.flatnonzero(np.isnan(self.scores)))

    def keep_best(
        self, keep: Callable[[Floats, None], tuple[Indices, float]], traces: Sequence[Trace]
    ) -> list[float]:
        """Keep some of the features and return the cutoff."""
        trace = traces[0]
        trace.record_scores(self.columns, self.scores)
        assert self.rows is not None
        counts = np.array([count_rows(rows) for rows in self.strata.split(self.rows)])
        uniform = self.strata.is_uniform(counts)
        trace.null_distribution = self._null_distribution() if uniform else None
        if self.present is not None:
            assert self.rows is not None
            n_read, least = count_rows(self.rows), self.statistic.min_present
            trace.record_present(self.features(slice(None)), self.present, n_read, least)
        kept, cutoff = keep(strength(self.scores, self.statistic.one_sided), None)
        self.columns, self.lines = self.features(kept), self.lines[:, kept]
        self.present = None if self.present is None else self.present[kept]
        return [cutoff]

    def _null_distribution(self) -> NullDistribution | None:
        assert self.rows is not None
        if self.statistic.returns_null_scale:
            return NormalNull(self.lines[1], two_sided=not self.statistic.one_sided)
        return self.statistic.null_distribution(self.prepared, count_rows(self.rows), self.present)

    def narrow(self) -> None:
        """Scores of dropped features are not kept in any case."""

    def finish(self, traces: Sequence[Trace]) -> None:
        """Record the features that are left at the end."""
        traces[self.members[0]].selected = self.features(slice(None))
        traces[self.members[0]].present = self.present

    def record_effects(self, traces: Sequence[Trace]) -> None:
        """Record the effect sizes of the selected features."""
        trace = traces[self.members[0]]
        if self.statistic.returns_effect_factor:
            trace.record_effects(self.lines[-1], trace.null_distribution)


def join_rows(rows: Rows, more: Rows) -> Rows:
    """The sorted union of disjoint rows.

    Examples
    --------
    >>> join_rows(slice(0, 3), slice(3, 5))
    slice(0, 5, None)
    >>> join_rows(np.array([1, 5]), np.array([0, 3]))
    array([0, 1, 3, 5])
    """
    if isinstance(rows, slice) and isinstance(more, slice):
        return slice(rows.start, more.stop)
    return np.sort(np.concatenate([rows, more]))


def _to_columns(block: Array) -> Floats:
    """A float64 copy with contiguous columns, shifted if float64 would round them."""
    block = near_zero(block)
    out = np.empty(block.shape, order="F")
    for i in range(0, len(block), ROWS_AT_ONCE):
        out[i : i + ROWS_AT_ONCE] = block[i : i + ROWS_AT_ONCE]
    return out
