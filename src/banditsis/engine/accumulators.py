"""The sums of each feature, and which features each response has left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import SMALLEST, Array, Columns, Floats, Indices, Rows, count_rows
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.engine.evidence import MAX_PROBED, discount, rows_of_response
from banditsis.engine.rereading import RereadingAccumulator, join_rows
from banditsis.engine.strata import Strata
from banditsis.engine.trace import Trace
from banditsis.plans.detection_floor import ORDINARY_KURTOSIS
from banditsis.results.result import strength
from banditsis.sources.base import Calibration, Source, SumContext
from banditsis.statistics.base import Statistic
from banditsis.statistics.linear import SUMS_OF_THREAD, LinearStatistic
from banditsis.statistics.sample import SampleStatistic

SUMS_AT_ONCE = 1 << 15
SCORES_OF_THREAD = 1 << 15  # that are worth another thread


#: Positions of the features to keep and the cutoff, given their strengths and informative rows.
Keep: TypeAlias = "Callable[[Floats, Floats | None], tuple[Indices, float]]"


class Combined(NamedTuple):
    """Sums over all strata, lines × features."""

    #: with the weights of strata: what a uniform sample of as many rows would have on average
    sums: Floats
    #: with squared weights
    squared: Floats
    #: what the scores need to know about the responses themselves
    summary: Floats


@dataclass
class MomentAccumulator:
    """Responses that share a pass over the data: the sums of every feature that any of them has left.

    There is a set of sums for each stratum of rows. Before features are scored, these are added up with the
    weights of the strata, which gives what a uniform sample of as many rows would have on average.
    """

    #: indices of the responses
    members: list[int]
    statistic: LinearStatistic
    source: Source
    calibration: Calibration
    strata: Strata
    #: features that have sums; None for all
    columns: Columns
    #: strata × lines × features
    sums: Floats
    #: positions among the columns that each member has left
    left: list[Indices | slice]
    #: what the scores need to know about the responses themselves; the first dimension are the strata
    summaries: Floats
    #: number of rows of each stratum in the sums
    counts: Indices
    #: the rows in the sums, in the order of the steps
    rows: list[Rows]
    #: number of informative rows of each response in the first step; None if it is not known yet
    first_informative: list[Floats] | None = None
    #: the sums over all strata; None if they have to be computed
    _combined: Combined | None = None

    @property
    def n_left(self) -> list[int]:
        """Number of features that each member has left."""
        return [self._count(left) for left in self.left]

    def _count(self, left: Indices | slice) -> int:
        return int(self.sums.shape[-1] if isinstance(left, slice) else len(left))

    def features(self, positions: Array | slice) -> Indices:
        """Indices of the features at some positions of the sums."""
        if self.columns is None and isinstance(positions, np.ndarray):
            return positions
        columns = np.arange(self.sums.shape[-1]) if self.columns is None else self.columns
        return columns[positions]

    def read(self, rows: Rows, workers: Workers, tick: Callable[[int], None]) -> int:
        """Add new rows to the sums; return how many were read."""
        used = sum(self.n_left) / self.sums.shape[-1]
        context = SumContext(self.calibration, self.sums, workers, lambda cells: tick(round(cells * used)))
        self.rows = [*self.rows, rows]
        grouped, edges = self.strata.group(rows)
        self.source.add_sums(grouped, edges, self.columns, self.statistic.weights(grouped), context)
        self.summaries = self.summaries + self.statistic.summaries(grouped, edges)
        self.counts = self.counts + np.diff(edges)
        self._combined = None
        return count_rows(rows)

    @property
    def combined(self) -> Combined:
        """The sums over all strata, up to date."""
        if self._combined is None:
            self._combined = self._combine()
        return self._combined

    def _combine(self) -> Combined:
        """Add up the strata; nothing is copied of a single one."""
        weights, n_strata = self.strata.weights(self.counts), len(self.sums)
        summary = np.sum(self.summaries.T * weights, axis=-1).T
        if n_strata == 1:
            return Combined(self.sums[0], self.sums[0], summary)
        powers = np.stack([weights, np.square(weights)])[: 1 + self.statistic.evidence]
        sums, out = self.sums.reshape(n_strata, -1), np.zeros((len(powers), self.sums[0].size))

        def combine_some(start: int) -> None:
            kernels.strata.combine(sums, powers, start, start + SUMS_AT_ONCE, out)

        map_in_threads(combine_some, range(0, out.shape[1], SUMS_AT_ONCE), 4)
        combined, squared = (out[k].reshape(self.sums[0].shape) for k in (0, -1))
        return Combined(combined, squared, summary)

    def nonfinite_features(self) -> Indices:
        """Features whose sums are not finite."""
        return self.features(self.statistic.find_nonfinite(self.combined.sums))

    def keep_best(self, keep: Keep, traces: Sequence[Trace]) -> list[float]:
        """Score the remaining features, keep some of them, and return the cutoffs."""
        # Threads wait for each other between short operations, so more are slower than few.
        n_threads = 1 + max(self.n_left) // SCORES_OF_THREAD
        numbers = range(len(traces))
        return map_in_threads(
            lambda k: self._keep_best(k, keep, traces[k]), numbers, -(-len(numbers) // n_threads)
        )

    def _keep_best(self, k: int, keep: Keep, trace: Trace) -> float:
        """The same for one of the members."""
        statistic, left, n_read = self.statistic, self.left[k], int(self.counts.sum())
        sums, _, summary = self.combined
        scores, informative, inflation = self._scores(k, left)
        trace.record_scores(self.columns if isinstance(left, slice) else self.features(left), scores)
        trace.null_distribution = statistic.null_distribution(sums, summary, k, left)
        if statistic.pairwise:
            present = statistic.present(sums, left)
            assert present is not None
            trace.record_present(self.features(left), present, n_read, statistic.min_present)
            if not trace.rounds and (found := statistic.missingness(sums, summary, k, left)) is not None:
                trace.record_missingness(*found, present, n_read)
        if not self.strata.is_uniform(self.counts):
            trace.null_distribution = None
        if informative is not None:
            in_population, in_data = self._rows_of_response(k).tolist()
            informative = np.minimum(self._informative_rows(left, informative), in_data)
        kept, cutoff = keep(strength(scores, statistic.one_sided), informative)
        dropped = trace.record_evidence(informative, inflation, kept, n_read)
        if informative is not None:
            trace.informative_response = in_population
            trace.informative = np.minimum(informative[kept], in_population)
        if not isinstance(left, slice):
            kept, dropped = left[kept], left[dropped]
        trace.undecided.append(self.features(dropped))
        self.left[k] = kept
        return cutoff

    def _informative_rows(self, left: Indices | slice, informative: Floats) -> Floats:
        """Number of rows that say something about each remaining feature, less if it is heavy-tailed."""
        if (informative < MAX_PROBED).any():
            rows = reduce(join_rows, self.rows)
            informative = discount(informative, self.features(left), self.source, rows, self.strata)
        return informative

    def _informative_rows_of_features(self, columns: Indices | slice) -> Floats:
        """Number of rows that say something about some features."""
        (sums, squared, summary), weights = self.combined, self.strata.weights(self.counts)
        squares = self.statistic.squares(sums, summary, columns)
        square = self.statistic.layout.squares
        given = [sums[0, columns], *(squared[line, columns] for line in (0, square, -1))]
        present = [self.statistic.present(part, columns) for part in (squared, sums)]
        if present[0] is None:
            totals = float(weights**2 @ self.counts), float(self.counts.sum())
            present = [np.full_like(squares, total) for total in totals]
        kernels.scores.count_informative(squares, *given, *present, out := np.empty_like(squares))
        return out

    def _rows_of_response(self, k: int) -> Floats:
        """Number of informative rows of the response of a member; see :func:`rows_of_response`."""
        n_first, n_read = count_rows(self.rows[0]), int(self.counts.sum())
        if self.first_informative is None:
            self.first_informative = [
                rows_of_response(self.statistic, j, self.rows[0], self.strata)
                for j in range(len(self.members))
            ]
        first = self.first_informative[k]
        if len(self.rows) == 1 or first.min() >= n_first / ORDINARY_KURTOSIS:
            return first * n_read / n_first  # it grows with the sample
        return rows_of_response(self.statistic, k, reduce(join_rows, self.rows), self.strata)

    def _inflation(self, columns: Indices | slice) -> Floats:
        """Variance inflation of some features by their spread in the strata."""
        design = self.strata.design
        shares = design.variances(int(self.counts.sum())) * np.square(design.relative_spreads)
        per_row = shares / max(float(shares.sum()), SMALLEST) / np.maximum(self.counts, 1)
        sums, _, summary = self.combined
        return self.statistic.inflation(self.sums, per_row, self.counts, sums, summary, columns)

    def _scores(self, k: int, left: Indices | slice) -> tuple[Floats, Floats | None, Floats | None]:
        """Scores of one member, and informative rows and variance inflation of its features."""
        size, (sums, _, summary) = self._count(left), self.combined
        at_once = self.statistic.scores_at_once(sums)
        scores, informative = np.empty(size), np.empty(size) if self.statistic.evidence else None
        by_stratum = self.statistic.evidence and self.statistic.shows_spread and len(self.sums) > 1
        inflation = np.empty(size) if by_stratum else None

        def score_some(start: int) -> None:
            piece = slice(start, start + at_once)
            columns = piece if isinstance(left, slice) else left[piece]
            scores[piece] = self.statistic.scores(sums, summary, k, columns)
            if informative is not None:
                informative[piece] = self._informative_rows_of_features(columns)
            if inflation is not None:
                inflation[piece] = self._inflation(columns)

        map_in_threads(score_some, range(0, size, at_once), 4)
        return scores, informative, inflation

    def narrow(self) -> None:
        """Drop the sums of features that no member has left."""
        if len(self.members) == 1:
            (left,) = self.left
            if not isinstance(left, slice):
                self._restrict(left)
                self.left = [slice(None)]
            return
        in_use = np.zeros(self.sums.shape[-1], bool)
        for left in self.left:
            in_use[left] = True
        position = np.cumsum(in_use) - 1
        self.left = [position[left] for left in self.left]
        self._restrict(np.flatnonzero(in_use))

    def _restrict(self, positions: Indices) -> None:
        """Drop the sums of all features but those at some positions."""
        sums: Any = self.sums  # on a GPU if a plan with several steps reads all rows in the first
        before = sums if isinstance(sums, np.ndarray) else sums.get()
        after = np.empty((*before.shape[:2], len(positions)))

        def take(stratum: int) -> None:
            np.take(before[stratum], positions, axis=1, out=after[stratum], mode="clip")  # without a buffer

        if after.size < SUMS_OF_THREAD:
            np.take(before, positions, axis=2, out=after, mode="clip")
        else:
            map_in_threads(take, range(len(after)))
        self.columns, self.sums, self._combined = self.features(positions), after, None

    def finish(self, traces: Sequence[Trace]) -> None:
        """Record the features that are left at the end."""
        for k, left in zip(self.members, self.left, strict=True):
            traces[k].selected = self.features(left)
            if self.statistic.pairwise:
                traces[k].present = self.statistic.present(self.combined.sums, left)

    def record_effects(self, traces: Sequence[Trace]) -> None:
        """Record the effect sizes of the selected features, from all rows in the sums."""
        uniform, (sums, _, summary) = self.strata.is_uniform(self.counts), self.combined
        for k, member in enumerate(self.members):
            trace, given = traces[member], (sums, summary, k, self.left[k])
            scale = np.asarray(self.calibration.scale[trace.selected], np.float64)
            with np.errstate(over="ignore"):  # an infinite slope counts as unknown
                factors = self.statistic.effect_factors(*given, scale)
            if factors is not None:
                trace.record_effects(factors, self.statistic.null_distribution(*given) if uniform else None)


#: Both have the same methods.
Accumulator: TypeAlias = "MomentAccumulator | RereadingAccumulator"


def start_accumulators(
    source: Source, statistic: Statistic, rows: Rows, strata: Strata, columns: Columns = None
) -> list[Accumulator]:
    """Accumulators of some features for all responses; ``rows`` are the rows of the first step."""
    responses = list(range(statistic.n_responses))
    n_features = source.shape[1] if columns is None else len(columns)
    if isinstance(statistic, SampleStatistic):
        return [RereadingAccumulator.start(source, statistic, k, strata, columns) for k in responses]
    assert isinstance(statistic, LinearStatistic)
    calibration = source.calibrate(rows)
    accumulators: list[Accumulator] = []
    for members in [responses] if statistic.shares_pass else [[k] for k in responses]:
        bound = statistic if len(members) == len(responses) else statistic.subset(members)
        n_strata = strata.design.n_strata
        accumulators.append(
            MomentAccumulator(
                members,
                bound,
                source,
                calibration,
                strata,
                columns,
                sums=bound.make_sums(n_strata, n_features),
                left=[slice(None)] * len(members),
                summaries=np.zeros(()),
                counts=np.zeros(n_strata, np.intp),
                rows=[],
            )
        )
    return accumulators
