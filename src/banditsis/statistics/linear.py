"""Linear statistics: correlation, analysis of variance and score tests as functions of sums.

The sums of [A B z], where A, B and v are data (see :mod:`banditsis.statistics.response`), give every score,
effect size, null distribution and degree of freedom, with and without covariates, sample weights and missing
cells; see :mod:`banditsis.statistics.moments`. What differs between statistics is in
:mod:`banditsis.statistics.families` and :mod:`banditsis.statistics.glm`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows
from banditsis.statistics.base import is_mostly_missing, ratio
from banditsis.statistics.moments import SMALLEST_RESIDUAL, Moments, find_moments, residual_moments
from banditsis.statistics.null_distributions import NullDistribution
from banditsis.statistics.regression import squared_influence
from banditsis.statistics.response import LinearResponse


class LinearStatistic(LinearResponse):
    """A statistic that is a function of sums over rows, so each round reads only its new rows.

    A subclass says which targets the responses make, and how moments of residuals become scores, null
    distributions and effect sizes.
    """

    #: Scores are from minus this to this.
    max_score: float = 1.0

    def find_nonfinite(self, sums: Floats) -> Indices:
        """Positions of the features whose sums are not finite, except those of fourth powers."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.flatnonzero(~np.isfinite(sums[: self.layout.n_lines].sum(axis=0)))

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        """Number of rows in which each column is present, or None if no cell can be missing."""
        return sums[self.layout.n_rows, columns] if self.pairwise else None

    def has_missing(self, sums: Floats, summary: Floats, columns: Indices | slice) -> bool:
        """Whether some columns have missing values; otherwise the sums over all rows are enough."""
        present = self.present(sums, columns)
        return present is not None and bool((present != summary[0]).any())

    @property
    def resolution(self) -> float:
        """A feature whose residual variance given the covariates is a smaller share depends on them alone."""
        return 0.0 if self.covariates is None else self.covariates.resolution

    def moments(
        self, sums: Floats, summary: Floats, targets: Sequence[int], columns: Indices | slice
    ) -> Moments:
        """Moments of the residuals of some targets and some columns given the design."""
        missing = self.has_missing(sums, summary, columns)
        return find_moments(self.layout, targets, sums, summary, columns, self.resolution, missing=missing)

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        """Signed scores of some columns of the sums for one response; a constant feature scores 0."""
        found = self.moments(sums, summary, self.targets_of(response), columns)
        few = is_mostly_missing(found.n_rows, found.n_read, self.min_present)
        return np.where(few, 0.0, self.score(found, response) * found.reduction)

    def score(self, found: Moments, response: int) -> Floats:
        """Scores over the present rows, from the moments of residuals."""
        r = ratio(found.products[0], np.sqrt(found.squares) * self.response_spread(found, response))
        r = np.clip(r, -self.max_score, self.max_score)
        return np.abs(r) if self.one_sided else r

    def response_spread(self, found: Moments, response: int) -> Floats:
        """Spread of a response, by which products of residuals are divided, as by that of the feature."""
        left = found.targets[0, 0]
        return np.sqrt(np.where(left > SMALLEST_RESIDUAL * found.target_squares[0], left, 0.0))

    @abstractmethod
    def null(self, found: Moments, response: int) -> NullDistribution | None:
        """Distribution of the scores of features without association; None if it is not known."""

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        """Distribution of the scores of features without association, or None if it is not known."""
        if not self.has_missing(sums, summary, columns):  # which is the same for all features
            columns = slice(0, 0)
        return self.null(self.moments(sums, summary, self.targets_of(response), columns), response)

    def effects(self, found: Moments, response: int) -> Floats | None:
        """Effect size of a score of 1 over the present rows, in units of scaled features."""
        return None

    def effect_factors(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        """Factors that turn the scores of some columns into effect sizes, or None if there are none.

        ``scale`` is that of the columns: the sums are of ``z = scale · x - shift``. The factor is 0 or NaN
        for a feature without an effect size, such as a constant one.
        """
        found = self.moments(sums, summary, self.targets_of(response), columns)
        factors = self.effects(found, response)
        if factors is None:
            return None
        return np.asarray((factors / scale if self.one_sided else factors * scale) / found.reduction)

    def missingness(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> tuple[Floats, Array] | None:
        """Correlation of the response with the presence of each column, and where present rows are alike.

        Present rows are alike if the response is constant among them. None if this is not known.
        """
        if not self.pairwise or self.rank:
            return None
        layout, targets = self.layout, self.targets_of(response)
        found = self.moments(sums, summary, targets, columns)
        # The presence of a feature is a feature, whose sums are those of presence.
        given = sums[layout.n_rows + layout.gram(targets)[0]][:, columns]
        presence = residual_moments(
            found.n_read, found.total, summary[:1], found.total.copy(), given[:1], given[1:], given[0], 0.0
        )
        r = np.sqrt(np.clip(ratio(presence.between()[0], presence.squares), 0.0, 1.0))
        if len(targets) == 1 and not self.one_sided:
            r = np.where(presence.products[0] < 0, -r, r)
        own = range(len(targets))
        least = 1e-9 * presence.targets[own, own] / found.n_read * found.weight
        return r, np.broadcast_to((found.targets[own, own] <= least).all(axis=0), r.shape)

    def with_evidence(self) -> Self:
        """The statistic with Σz⁴ as last line of the sums, if scores are correlations; else itself."""
        known = self.is_correlation and not (self.pairwise and self.rank)
        return self.copy_with(evidence=True) if known else self

    def squares(self, sums: Floats, summary: Floats, columns: Indices | slice) -> Floats:
        """Sums of squares about the mean of some columns, or of their residuals; for correlations."""
        if self.rank:
            return self.moments(sums, summary, [], columns).squares
        present, sx = self.present(sums, columns), sums[0, columns]  # the same in a quarter of the time
        n = summary[0] if present is None else np.maximum(present, 1.0)
        return np.asarray(np.maximum(sums[self.layout.squares, columns] - sx * (sx / n), 0.0))

    def inflation(
        self,
        strata: Floats,
        per_row: Floats,
        counts: Indices,
        sums: Floats,
        summary: Floats,
        columns: Indices | slice,
    ) -> Floats:
        """Variance inflation of some columns whose spread depends on the response, if the sums show it.

        ``strata`` are the sums of each stratum, ``per_row`` the share of the variance that each of its rows
        stands for, and ``counts`` its rows; ``sums`` and ``summary`` are over all strata.
        """
        n, present = float(counts.sum()), self.present(sums, columns)

        def add_up(line: int) -> Floats:
            return np.asarray(np.einsum("h,hj->j", per_row, strata[:, line, columns]))

        mean = sums[0, columns] / (n if present is None else np.maximum(present, 1.0))
        weight = per_row @ counts if present is None else add_up(self.layout.n_rows)
        squares = add_up(self.layout.squares) - mean * (2 * add_up(0) - mean * weight)
        return ratio(n * squares, self.squares(sums, summary, columns))

    def influence(self, block: Array, rows: Rows, response: int, weights: Floats) -> Floats | None:
        """Squared influence of each row on artanh of the score of each column of a block.

        Rows have sampling weights. NaN for constant columns; None if the influence is not known.
        """
        x, y = np.asarray(block, np.float64), self.scaled(rows)[:, response]
        if self.rank == 0:
            return squared_influence(x, y, weights)
        if self.pairwise:
            return None
        root = np.sqrt(weights)[:, None]
        Q, _ = np.linalg.qr(root * self.design(rows))
        both = np.column_stack([y, x])
        size = np.abs(both - both.mean(axis=0)).max(axis=0)
        both = both - Q @ (Q.T @ (root * both)) / root
        both[:, np.abs(both).max(axis=0) <= np.sqrt(self.resolution) * size] = 0.0
        return squared_influence(both[:, 1:], both[:, 0], weights)
