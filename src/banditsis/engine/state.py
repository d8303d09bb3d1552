"""What the rows read so far say about the features that are left: sums, for linear statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis.core.arrays import SMALLEST, Columns, Floats, Indices, Rows, count_rows, ratio
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.engine.evidence import rows_of_response
from banditsis.engine.exchangeability import GroupSums
from banditsis.engine.sampling import Strata, join_rows
from banditsis.plans import ORDINARY_KURTOSIS
from banditsis.sources import Calibration, Source, SumContext
from banditsis.statistics import Effects, Gram, NullDistribution, find_effects, is_mostly_missing

#: So many fit in the cache.
SUMS_AT_ONCE = 1 << 15
#: More sums of groups of rows would take much memory; some features are then read again.
MAX_GROUP_SUMS = 1 << 25
#: Positions among the columns of a state.
Positions: TypeAlias = "Indices | slice"


class Scored(NamedTuple):
    """The scores of the features that one response has left, and how far they can be trusted."""

    scores: Floats
    null: NullDistribution | None  #: None if it is not known
    present: Floats | None = None  #: rows in which each feature is present; None if no cell can be missing
    #: rows that say something about each feature, and about the response; None if they are not known
    informative: Floats | None = None
    informative_response: float | None = None
    inflation: Floats | None = None  #: variance inflation of each feature by its spread in the strata


@dataclass(frozen=True)
class State:
    """What is known of the features that any of some responses has left. A round makes a new state."""

    source: Source
    statistic: Any
    strata: Strata
    columns: Indices  #: the features that are left, in order

    @property
    def chosen(self) -> Columns:
        """The features that are left, as sources take them: None for all."""
        return None if len(self.columns) == self.source.shape[1] else self.columns


@dataclass(frozen=True)
class SumState(State):
    """Sums of the features, for each stratum of rows.

    Before features are scored, the strata are added up with their weights, which gives what a uniform sample
    of as many rows would have on average.
    """

    calibration: Calibration
    sums: Floats  #: strata × lines × features
    summaries: Floats  #: the summary of the responses in each stratum
    counts: Indices  #: number of rows of each stratum in the sums
    read: tuple[Rows, ...] = ()  #: the rows in the sums, in the order of the steps
    #: informative rows of each response in the first step: about the population, and about all rows
    first_informative: Floats | None = None
    groups: GroupSums | None = None  #: sums over groups of the rows added last, if they were asked for

    @classmethod
    def begin(
        cls, source: Source, statistic: Any, calibration: Calibration, strata: Strata, columns: Columns = None
    ) -> SumState:
        """No sums yet."""
        columns = np.arange(source.shape[1]) if columns is None else columns
        sums = np.zeros((strata.n_strata, statistic.layout.n_lines, len(columns)))
        counts = np.zeros(strata.n_strata, np.intp)
        return cls(source, statistic, strata, columns, calibration, sums, np.zeros(()), counts)

    @property
    def n_read(self) -> int:
        """Number of rows in the sums."""
        return int(self.counts.sum())

    def add(
        self, rows: Rows, workers: Workers, tick: Callable[[int], None], cuts: Indices | None = None
    ) -> SumState:
        """Add new rows to the sums, in place; groups of rows begin and end at the positions ``cuts``."""
        statistic, groups = self.statistic, None
        grouped, edges = self.strata.group(rows)
        if cuts is not None:  # one group, or weighted squares, do not show how features vary
            useful = len(cuts) > 2 and not statistic.layout.weighted
            cuts = cuts if useful and len(cuts) * self.sums.size < MAX_GROUP_SUMS else None
        sums = self.sums if cuts is None else np.zeros((len(cuts) - 1, *self.sums.shape[1:]))
        context = SumContext(self.calibration, sums, workers, tick)
        weights = statistic.weights(grouped)
        self.source.add_sums(grouped, edges if cuts is None else cuts, self.chosen, weights, context)
        if cuts is not None:
            self.sums[0] += sums.sum(axis=0)
            present = statistic.layout.present(sums.swapaxes(0, 1), slice(None))
            counts = np.diff(cuts)[:, None] if present is None else present
            groups = GroupSums(sums[:, 0], sums[:, statistic.layout.squares], counts)
        first = self.first_informative
        if statistic.evidence and first is None:
            first = rows_of_response(statistic, rows, self.strata)
        return replace(
            self,
            summaries=self.summaries + statistic.summaries(grouped, edges),
            counts=self.counts + np.diff(edges),
            read=(*self.read, rows),
            first_informative=first,
            groups=groups,
        )

    @cached_property
    def combined(self) -> tuple[Floats, Floats, Floats]:
        """Sums over all strata, with their weights and with squared weights, and the summary of responses."""
        weights, n_strata = self.strata.weights(self.counts), len(self.sums)
        summary = np.sum(self.summaries.T * weights, axis=-1).T
        if n_strata == 1:
            return self.sums[0], self.sums[0], summary
        powers = np.stack([weights, np.square(weights)])[: 1 + self.statistic.evidence]
        out = (powers @ self.sums.reshape(n_strata, -1)).reshape(-1, *self.sums[0].shape)
        return out[0], out[-1], summary

    @cached_property
    def gram(self) -> Gram:
        """The Gram matrix of the design, the targets and the features."""
        sums, _, summary = self.combined
        return Gram(self.statistic.layout, sums, summary)

    def find_nonfinite(self) -> Indices:
        """Features whose sums are not finite."""
        return np.asarray(self.columns[self.statistic.layout.find_nonfinite(self.combined[0])])

    def score(self, response: int, left: Positions) -> Scored:
        """Score the features that a response has left."""
        statistic, sums = self.statistic, self.combined[0]
        size = sums.shape[1] if isinstance(left, slice) else len(left)
        scores, informative, inflation = np.empty(size), None, None
        if statistic.evidence:
            informative = np.empty(size)
            inflation = np.empty(size) if statistic.rank == 0 and len(self.sums) > 1 else None
            # of each row, the share of the variance that it stands for by the spread of its stratum
            design = self.strata.design
            shares = design.variances(self.n_read) * np.square(design.relative_spreads)
            per_row = shares / max(float(shares.sum()), SMALLEST) / np.maximum(self.counts, 1)

        def score_some(start: int) -> None:
            piece = slice(start, start + SUMS_AT_ONCE)
            columns = piece if isinstance(left, slice) else left[piece]
            found = self.gram.moments(statistic.targets_of(response), columns)
            few = is_mostly_missing(found.n_rows, found.n_read, statistic.min_present)
            scores[piece] = np.where(few, 0.0, statistic.score(found, response) * found.reduction)
            if informative is not None:
                informative[piece] = self._informative_rows(columns)
            if inflation is not None:
                inflation[piece] = self.gram.inflation(self.sums, per_row, self.counts, columns)

        map_in_threads(score_some, range(0, size, SUMS_AT_ONCE), 4)
        null, present = self._null(response, left), statistic.layout.present(sums, left)
        if informative is None:
            return Scored(scores, null, present)
        in_population, in_data = self._rows_of_response(response).tolist()
        return Scored(scores, null, present, np.minimum(informative, in_data), in_population, inflation)

    def _null(self, response: int, left: Positions) -> NullDistribution | None:
        """Null distribution of some features, if the rows are like a uniform sample."""
        if not self.strata.is_uniform(self.counts):
            return None
        columns = left if self.gram.has_missing else slice(0, 0)  # it is the same for all
        found = self.gram.moments(self.statistic.targets_of(response), columns)
        null: NullDistribution | None = self.statistic.null(found, response)
        return null

    def _informative_rows(self, columns: Positions) -> Floats:
        """Number of informative rows of some features, at most those in which they are present.

        With sampling weights w, this is (Σwz²)² / Σw²z⁴ about the mean of z. Sums of z³ are not known, so
        features are taken to be symmetric about the mean, to which their shift is close.
        """
        (sums, squared, _), layout = self.combined, self.statistic.layout
        weight, n_rows = layout.present(squared, columns), layout.present(sums, columns)
        if weight is None:
            weights = self.strata.weights(self.counts)
            weight, n_rows = np.array([weights**2 @ self.counts]), np.array([self.n_read])
        plain, square, fourth = (squared[k, columns] for k in (0, layout.squares, -1))
        mean, squares = ratio(sums[0, columns], n_rows), self.gram.squares[columns]
        mean2 = np.square(mean)
        with np.errstate(over="ignore", invalid="ignore"):
            centred = fourth - 6 * mean2 * square + 8 * mean2 * mean * plain - 3 * weight * np.square(mean2)
            rows = np.square(ratio(squares, np.sqrt(np.maximum(centred, 0.0))))
        # Fourth powers of very small values are 0, which says nothing.
        return np.where(centred > 0, np.minimum(rows, n_rows), np.where(squares > 0, n_rows, 0.0))

    def _rows_of_response(self, response: int) -> Floats:
        """Informative rows of a response, about the population and about all rows of the data."""
        assert self.first_informative is not None
        first, n_first = self.first_informative[:, response], count_rows(self.read[0])
        if len(self.read) == 1 or first.min() >= n_first / ORDINARY_KURTOSIS:
            return np.asarray(first * (self.n_read / n_first))  # it grows with the sample
        rows = reduce(join_rows, self.read)
        return rows_of_response(self.statistic, rows, self.strata, [response])[:, 0]

    def effects(self, response: int, left: Positions, scores: Floats) -> Effects | None:
        """Effect sizes of the features that a response has left, given their scores."""
        found = self.gram.moments(self.statistic.targets_of(response), left)
        scale = np.asarray(self.calibration.scale[self.columns[left]], np.float64)
        with np.errstate(over="ignore"):  # an infinite slope counts as unknown
            if (effects := self.statistic.effects(found, response)) is None:
                return None
            effects = effects / scale if self.statistic.one_sided else effects * scale
            factors = effects / found.reduction
        return find_effects(scores, factors, self._null(response, left))

    def take(self, positions: Indices) -> SumState:
        """Keep the sums of the features at some positions."""
        sums: Any = self.sums  # on a GPU if a plan with several steps reads all rows in the first
        before = sums if isinstance(sums, np.ndarray) else sums.get()
        return replace(self, columns=self.columns[positions], sums=np.take(before, positions, axis=2))
