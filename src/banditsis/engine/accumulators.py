"""What is left of each response, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from banditsis.arrays import Array, Columns, Floats, Indices, Rows, count_rows
from banditsis.engine.rereading import RereadingAccumulator
from banditsis.engine.trace import Trace, best
from banditsis.parallel import Workers
from banditsis.sources.base import Calibration, Source, SumContext
from banditsis.statistics.base import MomentStatistic, Statistic
from banditsis.statistics.sample import SampleStatistic

# Costs in units of a scattered cell, read and summed for one response alone; by these, responses share a
# pass or go on alone. Cells that several responses share lie denser, and matrix products are cheap.
SHARED_CELL, SHARED_RESPONSE, PASS = 0.2, 0.0025, 40_000


SCORES_AT_ONCE = 1 << 15


@dataclass
class MomentAccumulator:
    """Responses that share a pass over the data: sums of every feature that any of them has left."""

    members: list[int]
    statistic: MomentStatistic
    source: Source
    calibration: Calibration
    columns: Columns
    sums: Floats
    #: which of the columns each member has left
    left: list[Indices | slice]
    summary: Floats

    @property
    def n_left(self) -> list[int]:
        """How many features each member has left."""
        width = self.sums.shape[1]
        return [width if isinstance(left, slice) else len(left) for left in self.left]

    def indices(self, places: Array | slice) -> Indices:
        """Indices of the features in some places of the sums."""
        if self.columns is None and isinstance(places, np.ndarray):
            return places
        columns = np.arange(self.sums.shape[1]) if self.columns is None else self.columns
        return columns[places]

    def read(self, rows: Rows, workers: Workers, tick: Callable[[int], None]) -> int:
        """Add new rows to the sums; return how many were read."""
        used, weights = sum(self.n_left) / self.sums.shape[1], self.statistic.weights
        self.source.sums(
            rows,
            self.columns,
            weights,
            SumContext(self.calibration, self.sums, workers, lambda cells: tick(round(cells * used))),
        )
        self.summary = self.summary + self.statistic.summary(rows)
        return count_rows(rows)

    def unusable(self) -> Indices:
        """Features whose sums are not finite, since a cell cannot be used."""
        if np.isfinite(self.sums).all():
            return np.arange(0)
        return self.indices(np.flatnonzero(~np.isfinite(self.sums).all(axis=0)))

    def keep_best(self, count: Callable[[Floats], int], traces: Sequence[Trace]) -> list[float]:
        """Score what is left, keep as many of the best as ``count`` says, and return the smallest kept."""
        cutoffs = []
        for k, trace in enumerate(traces):
            left = self.left[k]
            scores = self._scores(k, left)
            trace.record(self.columns if isinstance(left, slice) else self.indices(left), scores)
            trace.law = self.statistic.null_distribution(self.sums, self.summary, k, left)
            present = self.statistic.present(self.sums, left)
            if present is not None:
                trace.note_present(self.indices(left), present)
            kept, cutoff = best(scores, count(scores), one_sided=self.statistic.one_sided)
            self.left[k] = kept if isinstance(left, slice) else left[kept]
            cutoffs.append(cutoff)
        return cutoffs

    def _scores(self, k: int, left: Indices | slice) -> Floats:
        """Scores of one member, a piece at a time so that what they are computed from stays in the cache."""
        size = self.n_left[k]
        if size <= SCORES_AT_ONCE:
            return self.statistic.scores(self.sums, self.summary, k, left)
        scores = np.empty(size)
        for i in range(0, size, SCORES_AT_ONCE):
            piece = slice(i, i + SCORES_AT_ONCE)
            columns = piece if isinstance(left, slice) else left[piece]
            scores[piece] = self.statistic.scores(self.sums, self.summary, k, columns)
        return scores

    def narrow(self, n_rows: int) -> list[MomentAccumulator]:
        """Forget the features that no member has left; part where going on alone is cheaper."""
        if len(self.members) == 1:
            (left,) = self.left
            if not isinstance(left, slice):
                self.columns, self.sums = self.indices(left), np.take(self.sums, left, axis=1)
                self.left = [slice(None)]
            return [self]
        alone = sum(self.n_left) * n_rows + PASS * len(self.members)
        mask = np.zeros(self.sums.shape[1], bool)
        for left in self.left:
            mask[left] = True
        union = np.flatnonzero(mask)
        shared = SHARED_CELL + SHARED_RESPONSE * len(self.members)
        together = len(union) * n_rows * shared + PASS
        if alone < together:
            return [self._alone(k) for k in range(len(self.members))]
        place = np.cumsum(mask) - 1
        self.left = [place[left] for left in self.left]
        self.columns = self.indices(union)
        self.sums = self.sums[:, union]
        return [self]

    def _alone(self, k: int) -> MomentAccumulator:
        return MomentAccumulator(
            members=[self.members[k]],
            statistic=self.statistic.subset([k]),
            source=self.source,
            calibration=self.calibration,
            columns=self.indices(self.left[k]),
            sums=self.sums[self.statistic.lines(k)][:, self.left[k]],
            left=[slice(None)],
            summary=self.summary[:, [k]],
        )

    def restrict(self, features: Indices) -> None:
        """Go on with some of the features alone, sorted."""
        self.columns, self.sums = features, self.sums[:, features]

    def finish(self, traces: Sequence[Trace]) -> None:
        """Hand over what is left at the end."""
        for k, left in zip(self.members, self.left, strict=True):
            traces[k].selected = self.indices(left)
            traces[k].present = self.statistic.present(self.sums, left)


#: Both have the same methods.
Accumulator: TypeAlias = "MomentAccumulator | RereadingAccumulator"


def start_accumulators(source: Source, statistic: Statistic, rows: Rows) -> list[Accumulator]:
    """All features for all responses: together if the statistic allows it; ``rows`` are those read first."""
    everyone = list(range(statistic.n_responses))
    n_features = source.shape[1]
    if isinstance(statistic, SampleStatistic):
        return [
            RereadingAccumulator(
                [k],
                statistic.subset([k]),
                source,
                None,
                np.zeros((2 if statistic.returns_null_scale else 1, n_features)),
                np.zeros(n_features) if statistic.pairwise else None,
            )
            for k in everyone
        ]
    assert isinstance(statistic, MomentStatistic)
    calibration = source.calibrate(rows)
    shares = [everyone] if statistic.shares_pass else [[k] for k in everyone]
    groups: list[Accumulator] = []
    for members in shares:
        bound = statistic if len(members) == len(everyone) else statistic.subset(members)
        sums = np.zeros((bound.n_sums, n_features))
        left: list[Any] = [slice(None)] * len(members)
        groups.append(MomentAccumulator(members, bound, source, calibration, None, sums, left, np.zeros(())))
    return groups
