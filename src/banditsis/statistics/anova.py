"""Analysis of variance between classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows
from banditsis.statistics.base import (
    MomentStatistic,
    RowSizes,
    Weights,
    check_classes,
    class_drift,
    is_mostly_missing,
    ratio,
)
from banditsis.statistics.covariates import Covariates
from banditsis.statistics.glm import Logistic
from banditsis.statistics.null_distributions import BetaNull, NullDistribution
from banditsis.statistics.partial import PartialAnova
from banditsis.statistics.saddlepoint import ScoreParts


class Anova(MomentStatistic):
    r"""Correlation ratio of a feature and the class; ranks features as the F statistic does.

    .. math:: \eta = \sqrt{\frac{\sum_c n_c (\bar x_c - \bar x)^2}{\sum_i (x_i - \bar x)^2}},
              \qquad F = \frac{\eta^2 / (k - 1)}{(1 - \eta^2) / (n - k)}

    The response holds class labels, numbers or strings. The score is computed from the sums of ``z`` in each
    class and of ``z²``, all of them weighted if rows have sample weights. With two classes η is the absolute
    correlation with their indicator.

    References
    ----------
    .. [1] Fisher, R. A. (1925). Statistical Methods for Research Workers, section 45.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [5.0, 2.0], [6.0, 1.0]])
    >>> screen(X, ["a", "a", "b", "b"], Plan.exact(4, 2, 1), statistic="anova").scores.round(4)
    array([0.9701, 0.    ])
    """

    name = "anova"
    by_class = True
    one_sided = True
    unchecked_pvalues = (
        "p-values are those of the F test, which assumes normal data: with three or more classes they are "
        "not checked, and are too small if features are skewed and some classes are rare."
    )

    def __init__(self, y: Array, pairwise: bool, labels: list[Array]) -> None:
        self.y, self.pairwise = y, pairwise
        self.labels = labels  # of each response

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> MomentStatistic:  # type: ignore[override]
        labels = check_classes(cls.name, y)
        if cls is Anova and all(len(found) == 2 for found in labels):
            return TwoClassAnova.bind(y, pairwise)
        return cls(y, pairwise, labels)

    @classmethod
    def bind_partial(cls, y: Array, pairwise: bool, covariates: Covariates) -> MomentStatistic:
        if cls is not Anova:  # a subclass with its own scores
            return super().bind_partial(y, pairwise, covariates)
        return PartialAnova(cls(y, pairwise, check_classes(cls.name, y)), covariates)

    def calibrate(self, rows: Rows) -> Self:
        return self  # bind has checked that there are several classes

    def subset(self, responses: Sequence[int]) -> Self:
        return self.copy_with(y=self.y[:, list(responses)], labels=[self.labels[k] for k in responses])

    @property
    def n_classes(self) -> int:
        """Number of classes of the first response, which is scored."""
        return len(self.labels[0])

    @property
    def n_sums(self) -> int:
        if self.sample_weight is not None:
            return 2 + self.n_classes + (1 + 2 * self.n_classes if self.pairwise else 0)
        return 1 + self.n_classes * (2 if self.pairwise else 1)

    def codes(self, rows: Rows) -> Array:
        """Class of each row, as a number."""
        return np.searchsorted(self.labels[0], self.y[rows, 0])

    def weights(self, rows: Rows) -> Weights:
        codes = self.codes(rows)
        if self.sample_weight is not None:
            indicators = self.weigh(np.eye(self.n_classes)[codes], rows)
            return Weights(indicators, self.pairwise, square=self.sample_weight[rows])
        return Weights(np.empty((len(codes), 0)), self.pairwise, codes, self.n_classes)

    def summary(self, rows: Rows) -> Floats:
        """Number of rows of each class; with sample weights the sum of these, then the number of rows."""
        codes = self.codes(rows)
        if self.sample_weight is None:
            return np.bincount(codes, minlength=self.n_classes).astype(np.float64)
        weights = np.bincount(codes, self.sample_weight[rows], minlength=self.n_classes)
        return np.append(weights, len(codes))

    def n_rows(self, summary: Floats) -> float:
        """Number of rows read."""
        return float(summary.sum() if self.sample_weight is None else summary[-1])

    def class_counts(self, sums: Floats, summary: Floats, columns: Indices | slice) -> Floats:
        """Rows of each class, or their weight, in which each column is present."""
        k = self.n_classes
        if not self.pairwise:
            return summary[:k, None]
        start = k + 1 if self.sample_weight is None else k + 3
        return sums[start : start + k, columns]

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        first = 0 if self.sample_weight is None else 1
        k = first + self.n_classes
        counts = self.class_counts(sums, summary, columns)
        n = counts.sum(axis=0)
        totals = sums[first:k, columns]
        sx = totals.sum(axis=0)
        overall = sx * ratio(sx, np.broadcast_to(n, sx.shape))
        between = (totals * ratio(totals, np.broadcast_to(counts, totals.shape))).sum(axis=0) - overall
        eta = np.sqrt(np.clip(ratio(between, sums[k, columns] - overall), 0.0, 1.0))
        n_present, n_read = self.present(sums, columns), self.n_rows(summary)
        if n_present is None:
            return eta
        return np.where(is_mostly_missing(n_present, n_read), 0.0, eta * np.sqrt(n_present / n_read))

    def effect_factors(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        if self.n_classes != 2 or type(self).scores is not Anova.scores:
            return None
        first = 0 if self.sample_weight is None else 1
        totals, squares = sums[first : first + 2, columns], sums[first + 2, columns]
        counts = np.broadcast_to(self.class_counts(sums, summary, columns), totals.shape)
        n, sx = counts.sum(axis=0), totals.sum(axis=0)
        spread_x = np.sqrt(np.maximum(squares - sx * ratio(sx, n), 0.0))
        spread_y = np.sqrt(ratio(counts[0] * counts[1], n))
        low, high = ratio(totals, counts)
        present = self.present(sums, columns)
        share = 1.0 if present is None else present / self.n_rows(summary)
        return np.where(low > high, -1, 1) * ratio(spread_x, spread_y * np.sqrt(share)) / scale

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        n, k = self.n_rows(summary), self.n_classes
        if type(self).scores is not Anova.scores:  # a subclass with its own scores
            return None
        present = self.present(sums, columns)
        if present is None:
            return BetaNull(n - k, k - 1.0)
        counts, rounding = self.class_counts(sums, summary, columns), 1e-12 * summary[:k, None]
        classes = np.count_nonzero(counts > rounding, axis=0)
        return BetaNull(present - classes, classes - 1.0, np.sqrt(n / np.maximum(present, 1)))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        """The indicator of one of two classes; the score of more is not linear in the feature."""
        if self.sample_weight is not None or self.n_classes > 2:
            return None
        return ScoreParts(self.codes(rows)[:, None] == 0)

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        if not self.pairwise:
            return None
        k = self.n_classes
        return sums[k + 1 :, columns].sum(axis=0) if self.sample_weight is None else sums[k + 2, columns]

    def missingness(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> tuple[Floats, Array] | None:
        if not self.pairwise:
            return None
        total, present = summary[: self.n_classes, None], self.class_counts(sums, summary, columns)
        m, n = present.sum(axis=0), total.sum()
        between = ratio(np.square(present), np.broadcast_to(total, present.shape)).sum(axis=0) - m * (m / n)
        eta = np.sqrt(np.clip(ratio(between, m - m * (m / n)), 0.0, 1.0))
        return eta, np.count_nonzero(present > 1e-12 * total, axis=0) <= 1

    def row_sizes(self) -> RowSizes | None:
        """Large in rare classes, whose means are the least certain: √((1 - π) / π) for a class of share π."""
        share = self.summary(slice(0, len(self.y)))[: self.n_classes] / len(self.y)
        size = np.sqrt((1.0 - share) / share)
        return RowSizes(lambda rows: self.weigh(size[self.codes(rows)], rows))

    def drift(self, rows: Rows, n: int) -> float:
        alone = (self.subset([k]) for k in range(self.n_responses))
        return max(class_drift(one.codes(slice(0, n)), rows) for one in alone)


class TwoClassAnova(Logistic):
    """The correlation ratio for two classes: the absolute correlation with their indicator."""

    name = "anova"
    one_sided = True

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        return np.abs(super().scores(sums, summary, response, columns))

    def effect_factors(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        """The difference of the means of the feature is its slope on the indicator."""
        _, product, spread_x, spread_y = self._centred(sums, summary, response, columns)
        factors = ratio(spread_x / scale, np.broadcast_to(spread_y / self.scale[response], spread_x.shape))
        return np.where(product < 0, -1, 1) * factors * self._inverse_share(sums, summary, response, columns)

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        return self.student_null(sums, summary, response, columns)
