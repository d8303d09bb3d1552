"""Analysis of variance between classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows
from banditsis.statistics.base import MIN_PRESENT, MomentStatistic, Weights, describe_rows_read, ratio
from banditsis.statistics.classes import check_labels, shown
from banditsis.statistics.covariates import Covariates
from banditsis.statistics.null_distributions import BetaNull, NullDistribution


class Anova(MomentStatistic):
    r"""Correlation ratio of a feature given the class; ranks features as the F statistic does.

    .. math:: \eta = \sqrt{\frac{\sum_c n_c (\bar x_c - \bar x)^2}{\sum_i (x_i - \bar x)^2}},
              \qquad F = \frac{\eta^2 / (k - 1)}{(1 - \eta^2) / (n - k)}

    The response holds class labels, numbers or strings. It comes from the sums of ``z`` in each class and
    of ``z²``. With two classes η is the absolute correlation with their indicator.

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

    def __init__(self, y: Array, pairwise: bool, labels: Array) -> None:
        self.y, self.pairwise, self.labels = y, pairwise, labels

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        for k in range(y.shape[1]):
            check_labels(
                cls.name, np.unique(y[:, k]), len(y), y.dtype.kind, "" if y.shape[1] == 1 else f" {k}"
            )
        return cls(y, pairwise, np.unique(y[:, 0]))

    @classmethod
    def bind_partial(cls, y: Array, covariates: Covariates) -> MomentStatistic:
        from banditsis.statistics.partial import PartialAnova

        if cls is not Anova:  # its scores are its own
            return super().bind_partial(y, covariates)
        return PartialAnova.of(cls.bind(y, False), covariates)

    def calibrate(self, rows: Rows) -> Self:
        counts = self.summary(rows)[: len(self.labels)]
        if np.count_nonzero(counts) < 2:
            label = self.labels[np.argmax(counts)]
            first, more = describe_rows_read(rows, self.y.shape[0])
            raise ValueError(
                f"{first} have one class alone, {shown(label)}: check that the right column was taken as "
                f"the response, and that rows are not sorted by it{more}."
            )
        return self

    def subset(self, responses: Sequence[int]) -> Self:
        y = self.y[:, list(responses)]
        return type(self)(y, self.pairwise, np.unique(y[:, 0]))

    def lines(self, response: int) -> list[int]:
        return list(range(self.n_sums))

    @property
    def n_sums(self) -> int:
        return 1 + len(self.labels) * (2 if self.pairwise else 1)

    def _codes(self, rows: Rows) -> Array:
        return np.searchsorted(self.labels, self.y[rows, 0])

    def weights(self, rows: Rows) -> Weights:
        codes = self._codes(rows)
        return Weights(np.empty((len(codes), 0)), self.pairwise, codes, len(self.labels))

    def summary(self, rows: Rows) -> Floats:
        return np.bincount(self._codes(rows), minlength=len(self.labels)).astype(np.float64)

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        k = len(self.labels)
        counts = sums[k + 1 :, columns] if self.pairwise else summary[:, None]
        n = counts.sum(axis=0)
        totals = sums[:k, columns]
        sx = totals.sum(axis=0)
        overall = sx * ratio(sx, np.broadcast_to(n, sx.shape))
        between = (totals * ratio(totals, np.broadcast_to(counts, totals.shape))).sum(axis=0) - overall
        eta = np.sqrt(np.clip(ratio(between, sums[k, columns] - overall), 0.0, 1.0))
        if not self.pairwise:
            return eta
        return np.where(n < MIN_PRESENT, 0.0, eta * np.sqrt(n / summary.sum()))

    def drift(self, rows: Rows, n: int) -> float:
        some, all_rows = self.summary(rows), self.summary(slice(0, n))
        m, share = some.sum(), all_rows / n
        error = np.sqrt(share * (1 - share) * (1 / m - 1 / n)) if m < n else np.inf
        return float(np.max(np.abs(some / m - share) / error))

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        n, k = float(summary.sum()), len(self.labels)
        if type(self).scores is not Anova.scores:  # a statistic of its own
            return None
        if not self.pairwise:
            return BetaNull(n - k, k - 1.0)
        counts = sums[k + 1 :, columns]
        present, classes = counts.sum(axis=0), np.count_nonzero(counts, axis=0)
        return BetaNull(present - classes, classes - 1.0, np.sqrt(n / np.maximum(present, 1)))

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        k = len(self.labels)
        return sums[k + 1 :, columns].sum(axis=0) if self.pairwise else None
