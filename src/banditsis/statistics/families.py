"""The linear statistics: correlation, analysis of variance, and score tests of generalised linear models.

Each says which targets its responses make, and how moments of residuals become scores, null distributions
and effect sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Rows, count_rows, near_zero, spread
from banditsis.core.validation import distinct_values
from banditsis.statistics.base import (
    RowSizes,
    check_classes,
    check_residual_rows,
    class_drift,
    describe_response,
    ratio,
)
from banditsis.statistics.covariates import CovariateError, Covariates
from banditsis.statistics.linear import LinearStatistic
from banditsis.statistics.moments import SMALLEST_RESIDUAL, Moments, find_contrasts, response_moments
from banditsis.statistics.null_distributions import BetaNull, NullDistribution
from banditsis.statistics.regression import whiten
from banditsis.statistics.saddlepoint import ScoreParts
from banditsis.statistics.shape import are_like_normal, power_sums

ROWS_FOR_SLOPE = 4000


class Pearson(LinearStatistic):
    r"""Pearson correlation, the utility of sure independence screening [1]_.

    .. math:: r = \frac{\sum (x - \bar x)(y - \bar y)}
                       {\sqrt{\sum (x - \bar x)^2 \sum (y - \bar y)^2}}

    A response of two classes is the indicator of the label that sorts last (True, "yes").

    It is computed from the sums of ``z``, ``zy`` and ``z²``. With sample weights all sums and means are
    weighted, and p-values are those of the slope in weighted least squares. If values are missing, it is
    computed from the rows in which the feature is present and multiplied by √(present rows / rows read);
    without this factor, features that are almost empty would win by chance.

    References
    ----------
    .. [1] Fan, J. and Lv, J. (2008). Sure independence screening for ultrahigh dimensional
       feature space. J. R. Stat. Soc. B 70, 849-911.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 1.0]])
    >>> screen(X, [1.0, 2.0, 4.0], Plan.exact(3, 2, 2)).scores.round(4)
    array([ 0.982 , -0.7559])
    """

    name = "pearson"
    is_correlation = True
    #: Coefficients of the responses on A in a sample. Targets are residuals, which keeps their precision.
    slope: Floats | None = None

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        if y.dtype.kind not in "OUSb":
            return cls(near_zero(y), pairwise)
        labels = [[False, True] if y.dtype.kind == "b" else distinct_values(column, 3) for column in y.T]
        if any(len(found) != 2 for found in labels):
            more = "more classes" if max(map(len, labels)) > 2 else "one class"
            raise ValueError(
                f"statistic {cls.name!r} needs numbers or two classes, got {more}; use 'anova' for three or "
                "more classes."
            )
        positive = np.array([high for _, high in labels])
        return cls(y if y.dtype.kind == "b" else y == positive, pairwise).copy_with(positive=positive)

    def calibrate(self, rows: Rows) -> Self:
        """Take the covariates out of the response, twice for the digits that the first time lost."""
        ready = super().calibrate(rows)
        if self.rank == 0:
            return ready
        sample = spread(rows, ROWS_FOR_SLOPE)
        A = self.design(sample)
        white = whiten(A.T @ A)  # covariates are uncorrelated, so this is precise

        def multiply(part: Rows) -> tuple[Floats, Floats]:
            y = ready.targets(part)
            return self.design(part).T @ y, np.einsum("ij,ij->j", y, y)

        squares, slope = [], np.zeros((A.shape[1], self.n_responses))
        for _ in range(2):
            ready = ready.copy_with(slope=slope)
            cross, square = (sum(some) for some in zip(*ready.map_rows(multiply, sample), strict=True))
            explained = white @ cross
            squares += [square - cross[0] ** 2 / len(A), square - np.square(explained).sum(axis=0)]
            slope = slope + white.T @ explained
        explained_all = squares[-1] <= SMALLEST_RESIDUAL**2 * squares[0]
        if explained_all.any():
            k = int(np.argmax(explained_all))
            raise CovariateError(
                f"the response{describe_response(k, self.n_responses)} is a linear combination of the "
                "covariates, and features have nothing to explain: omit these covariates."
            )
        return ready.copy_with(slope=slope)

    def subset(self, responses: Sequence[int]) -> Self:
        slope = None if self.slope is None else self.slope[:, list(responses)]
        return super().subset(responses).copy_with(slope=slope)

    def targets(self, rows: Rows) -> Floats:
        y = self.scaled(rows)
        return y if self.slope is None else y - self.design(rows) @ self.slope

    def null(self, found: Moments, summary: Floats, response: int) -> NullDistribution | None:
        """Student's t distribution, for the rows in which a feature is present."""
        return BetaNull(found.n_rows - found.rank - 1, scale=reduction(found, summary))

    def effects(self, found: Moments, summary: Floats, response: int) -> Floats | None:
        """The slope of the response."""
        squares = np.broadcast_to(np.maximum(found.targets[0, 0], 0.0), found.squares.shape)
        return np.asarray(np.sqrt(ratio(squares, found.squares)) / self.scale[response])

    def normal_responses(self, rows: Rows) -> Array:
        if self.sample_weight is not None or self._has_own_scores:
            return super().normal_responses(rows)
        n = count_rows(rows)
        if self.rank == 0:
            return are_like_normal(n, self.powers(rows, 4))
        summary, a = self.summary(rows), self.layout.n_design
        gram = self.gram(summary, range(self.n_targets))
        white = whiten(gram[:a, :a])
        slope = white.T @ (white @ gram[:a, a:])

        def add_up(part: Rows) -> Floats:
            return power_sums(self.targets(part) - self.design(part) @ slope, 4)

        return are_like_normal(n, np.sum(self.map_rows(add_up, rows), axis=0))


def reduction(found: Moments, summary: Floats) -> float | Floats:
    """√(rows read / present rows), which undoes the reduction of scores for missing values."""
    if isinstance(found.n_rows, float):
        return 1.0
    return np.asarray(np.sqrt(summary[0, 0] / np.maximum(found.n_rows, 1)))


class Anova(LinearStatistic):
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
    #: of each response
    labels: list[Array]

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        labels = check_classes(cls.name, y)
        bound = cls(y, pairwise).copy_with(labels=labels, one_hot=True)
        if any(len(found) > 2 for found in labels):
            return bound
        positive = np.array([found[1] for found in labels])
        return bound.copy_with(positive=positive, one_hot=False, is_correlation=True)

    def adjust(self, covariates: Covariates) -> Self:
        return super().adjust(covariates).copy_with(positive=None, one_hot=True, is_correlation=False)

    @property
    def shares_pass(self) -> bool:
        return not self.one_hot

    @property
    def shows_spread(self) -> bool:
        return not self.one_hot

    @property
    def n_classes(self) -> int:
        """Number of classes of the first response, which is scored."""
        return len(self.labels[0])

    @property
    def n_targets(self) -> int:
        return self.n_classes - 1 if self.one_hot else self.n_responses

    def subset(self, responses: Sequence[int]) -> Self:
        return super().subset(responses).copy_with(labels=[self.labels[k] for k in responses])

    def codes(self, rows: Rows) -> Array:
        """Class of each row, as a number."""
        return np.searchsorted(self.labels[0], self.y[rows, 0])

    def values(self, rows: Rows) -> Floats:
        return np.asarray(self.y[rows] == self.positive, dtype=np.float64)

    def targets(self, rows: Rows) -> Floats:
        """Indicators of all classes but the first; of two classes, centred and scaled."""
        if not self.one_hot:
            return self.scaled(rows)
        return np.eye(self.n_classes, self.n_classes - 1, -1)[self.codes(rows)]

    def calibrate(self, rows: Rows) -> Self:
        if not self.one_hot:
            return super().calibrate(rows)
        if self.rank == 0:
            return self  # bind has checked that there are several classes
        check_residual_rows(rows, self.rank + self.n_targets, len(self.y))
        gram = self.gram(self.summary(rows), range(self.n_targets))
        found = response_moments(1.0, gram, self.layout.n_design)
        if len(find_contrasts(found.targets, found.target_squares)) == 0:
            raise CovariateError(
                "the classes of the response are linear combinations of the covariates, and features have "
                "nothing to explain: omit these covariates."
            )
        return self

    def score(self, found: Moments, summary: Floats, response: int) -> Floats:
        between, _ = found.between()
        return np.sqrt(np.clip(ratio(between, found.squares), 0.0, 1.0))

    def null(self, found: Moments, summary: Floats, response: int) -> NullDistribution | None:
        _, rank = found.between()
        return BetaNull(found.n_rows - found.rank - rank, rank, reduction(found, summary))

    def effects(self, found: Moments, summary: Floats, response: int) -> Floats | None:
        """Of two classes, the difference of the means of the feature: its slope on the indicator."""
        if len(found.targets) > 1:
            return None
        squares = np.broadcast_to(found.targets[0, 0], found.squares.shape)
        spreads = np.sqrt(ratio(found.squares, squares)) * self.scale[response]
        return np.asarray(np.where(found.products[0] < 0, -1, 1) * spreads)

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        """The indicator of one of two classes; the score of more is not linear in the feature."""
        return super().score_parts(rows) if self.n_classes == 2 else None

    def row_sizes(self) -> RowSizes | None:
        """Large in rare classes, whose means are the least certain: √((1 - π) / π) for a class of share π."""
        if not self.one_hot:
            return super().row_sizes()
        everything = slice(0, len(self.y))
        weights = None if self.sample_weight is None else self.sample_weight
        share = np.bincount(self.codes(everything), weights, self.n_classes) / len(self.y)
        size = np.sqrt((1.0 - share) / share)
        return RowSizes(lambda rows: self.weigh(size[self.codes(rows)], rows))

    def drift(self, rows: Rows, n: int) -> float:
        if not self.one_hot:
            return super().drift(rows, n)
        alone = (self.subset([k]) for k in range(self.n_responses))
        return max(class_drift(one.codes(slice(0, n)), rows) for one in alone)
