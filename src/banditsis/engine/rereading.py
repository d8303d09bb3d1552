"""Features that are scored from all rows so far, read again in each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Floats, Indices, Rows, count_rows
from banditsis.engine.trace import Trace, best
from banditsis.parallel import Workers
from banditsis.sources.base import Source
from banditsis.statistics.base import MIN_PRESENT
from banditsis.statistics.null_distributions import NormalNull, NullDistribution
from banditsis.statistics.sample import SampleStatistic

CELLS_IN_TILE, CELLS_IN_CHUNKS = 1 << 20, 1 << 23  # 8 MB for each thread, 64 MB where chunks must be unpacked
NARROW, WIDEST = 16, 64  # columns of a tile: more than a few, and enough tiles for all threads
TILES_AT_ONCE = 32
ROWS_AT_ONCE = 512  # lines of so many rows stay in the cache while they are turned into columns


@dataclass
class RereadingAccumulator:
    """One response and the features it has left; a sample statistic's counterpart of ``Group``."""

    members: list[int]
    statistic: SampleStatistic
    source: Source
    columns: Columns
    #: scores, and where the statistic tells it, what makes them standard normal
    lines: Floats
    present: Floats | None
    rows: Rows | None = None
    #: what the statistic made of the response over those rows
    side: Any = None

    @property
    def scores(self) -> Floats:
        """Scores of the features that are left."""
        return np.asarray(self.lines[0])

    @property
    def n_left(self) -> list[int]:
        """How many features are left."""
        return [len(self.scores)]

    def indices(self, places: Array | slice) -> Indices:
        """Indices of the features in some places of the scores."""
        columns = np.arange(len(self.scores)) if self.columns is None else self.columns
        return columns[places]

    def read(self, rows: Rows, workers: Workers, tick: Callable[[int], None]) -> int:
        """Score all features that are left over all rows so far; return how many rows that took."""
        self.rows = rows if self.rows is None else join(self.rows, rows)
        m, p = count_rows(self.rows), len(self.scores)
        y = self.statistic.response(self.rows)
        side = self.side = self.statistic.prepare(y)
        width = self._width(m, p)
        for start in range(0, p, width * TILES_AT_ONCE):
            stop = min(start + width * TILES_AT_ONCE, p)
            workers.run(
                [(self._score, slice(j, min(j + width, stop)), y, side) for j in range(start, stop, width)]
            )
            tick(m * (stop - start))
        return m

    def _law(self) -> NullDistribution | None:
        """The null law of the features that are left."""
        assert self.rows is not None
        if self.statistic.returns_null_scale:
            return NormalNull(self.lines[1], two_sided=not self.statistic.one_sided)
        return self.statistic.null_distribution(self.side, count_rows(self.rows), self.present)

    def _width(self, n_rows: int, n_columns: int) -> int:
        """Columns of a tile: a function of the sizes and of the source alone, never of the threads."""
        together = self.source.chunk[1]  # what is stored together is best read once
        if together > 1:
            return int(max(1, min(together, CELLS_IN_CHUNKS // n_rows)))
        wanted = max(NARROW, -(-n_columns // TILES_AT_ONCE))
        return max(1, min(wanted, WIDEST, CELLS_IN_TILE // n_rows))

    def _score(self, place: slice, y: Floats, side: Any) -> None:
        """Score some of the features; a score is NaN where cells cannot be used."""
        assert self.rows is not None
        columns = place if self.columns is None else self.columns[place]
        block = as_columns(self.source.read(self.rows, columns))
        finite = np.isfinite(block)
        whole = finite.all(axis=0)
        lines = self.lines[:, place]
        lines[:] = np.nan
        if whole.all():
            lines[:] = self.statistic.score_block(block, side)
        elif whole.any():
            lines[:, whole] = self.statistic.score_block(np.asfortranarray(block[:, whole]), side)
        if self.present is not None:
            self.present[place] = finite.sum(axis=0)
            for j in np.flatnonzero(~whole & ~np.isinf(block).any(axis=0)):
                lines[:, j] = self._score_present(block[finite[:, j], j], y[finite[:, j]], len(y))

    def _score_present(self, x: Floats, y: Floats, n_read: int) -> Floats:
        """The score of a feature over the rows in which it is present, and less for having few of them."""
        if len(x) < MIN_PRESENT or not self.statistic.can_rank(y):
            return np.zeros(len(self.lines))
        lines = np.atleast_2d(self.statistic.score_block(x[:, None], self.statistic.prepare(y)))[:, 0]
        less = (len(x) / n_read) ** self.statistic.noise
        return np.asarray(lines * np.array([less, 1 / less])[: len(lines)])

    def unusable(self) -> Indices:
        """Features that have no score, since a cell cannot be used."""
        return self.indices(np.flatnonzero(np.isnan(self.scores)))

    def keep_best(self, count: Callable[[Floats], int], traces: Sequence[Trace]) -> list[float]:
        """Keep as many of the best as ``count`` says, and return the smallest kept."""
        trace = traces[0]
        trace.record(self.columns, self.scores)
        trace.law = self._law()
        if self.present is not None:
            trace.note_present(self.indices(slice(None)), self.present)
        kept, cutoff = best(self.scores, count(self.scores), one_sided=self.statistic.one_sided)
        self.columns, self.lines = self.indices(kept), self.lines[:, kept]
        self.present = None if self.present is None else self.present[kept]
        return [cutoff]

    def narrow(self, n_rows: int) -> list[RereadingAccumulator]:
        """There is nothing to share, so nothing to part."""
        return [self]

    def restrict(self, features: Indices) -> None:
        """Go on with some of the features alone, sorted."""
        self.columns, self.lines = features, self.lines[:, features]
        self.present = None if self.present is None else self.present[features]

    def finish(self, traces: Sequence[Trace]) -> None:
        """Hand over what is left at the end."""
        traces[self.members[0]].selected = self.indices(slice(None))
        traces[self.members[0]].present = self.present


def join(some: Rows, more: Rows) -> Rows:
    """Sorted rows of both; they have none in common.

    Examples
    --------
    >>> join(slice(0, 3), slice(3, 5))
    slice(0, 5, None)
    >>> join(np.array([1, 5]), np.array([0, 3]))
    array([0, 1, 3, 5])
    """
    if isinstance(some, slice) and isinstance(more, slice):
        return slice(some.start, more.stop)
    rows = np.concatenate([some, more])
    rows.sort()
    return rows


def as_columns(block: Array) -> Floats:
    """A copy in float64 whose columns are contiguous."""
    out = np.empty(block.shape, order="F")
    for i in range(0, len(block), ROWS_AT_ONCE):
        out[i : i + ROWS_AT_ONCE] = block[i : i + ROWS_AT_ONCE]
    return out
