"""Correlation and analysis of variance: their responses, null distributions and effect sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Rows, ratio
from banditsis.core.validation import distinct_values
from banditsis.statistics.base import RowSizes, check_classes
from banditsis.statistics.covariates import CovariateError, Covariates
from banditsis.statistics.linear import LinearStatistic
from banditsis.statistics.moments import Moments, common
from banditsis.statistics.null_distributions import BetaNull, NullDistribution
from banditsis.statistics.saddlepoint import ScoreParts


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

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        if y.dtype.kind not in "OUSb":
            return cls(y, pairwise)
        labels = [[False, True] if y.dtype.kind == "b" else distinct_values(column, 3) for column in y.T]
        if any(len(found) != 2 for found in labels):
            more = "more classes" if max(map(len, labels)) > 2 else "one class"
            raise ValueError(
                f"statistic {cls.name!r} needs numbers or two classes, got {more}; use 'anova' for three or "
                "more classes."
            )
        return cls.of_second_class(y, labels, pairwise)

    def null(self, found: Moments, response: int) -> NullDistribution | None:
        """Student's t distribution, for the rows in which a feature is present."""
        return beta_null(found, 1)

    def effects(self, found: Moments, response: int) -> Floats | None:
        """The slope of the response."""
        slopes = np.sqrt(ratio(np.maximum(found.targets[0, 0], 0.0), found.squares))
        return np.asarray(slopes / self.scale[response])


def beta_null(found: Moments, n_directions: float | Floats) -> BetaNull:
    """Distribution of a correlation with so many directions, in scores reduced for missing values."""
    freedom = np.asarray(found.n_rows - found.rank - n_directions)
    directions = n_directions if isinstance(n_directions, int) else common(np.asarray(n_directions))
    return BetaNull(common(freedom), directions, scale=common(1 / found.reduction))


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
        if any(len(found) > 2 for found in labels):
            return cls(y, pairwise).copy_with(labels=labels, one_hot=True)
        return cls.of_second_class(y, labels, pairwise).copy_with(labels=labels, is_correlation=True)

    def given(self, covariates: Covariates | None, sample_weight: Floats | None) -> Self:
        found = super().given(covariates, sample_weight)
        return found if covariates is None else found.copy_with(is_correlation=False)

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
        """Class of each row in the first response, as a number."""
        return np.searchsorted(self.labels[0], self.y[rows, 0])

    def targets(self, rows: Rows) -> Floats:
        """Indicators of all classes but the first; of two classes, centred and scaled."""
        if not self.one_hot:
            return super().targets(rows)
        return np.eye(self.n_classes, self.n_classes - 1, -1)[self.codes(rows)]

    def fit(self, rows: Rows) -> Self:
        if not self.one_hot:
            return super().fit(rows)
        gram = self.gram(np.zeros((self.n_sums, 0)), self.summary(rows))
        if gram.moments(self.targets_of(0), slice(None)).between()[1] == 0:
            raise CovariateError(
                "the classes of the response are linear combinations of the covariates, and features have "
                "nothing to explain: omit these covariates."
            )
        return self

    def score(self, found: Moments, response: int) -> Floats:
        if not self.one_hot:
            return super().score(found, response)
        return np.sqrt(np.clip(ratio(found.between()[0], found.squares), 0.0, 1.0))

    def null(self, found: Moments, response: int) -> NullDistribution | None:
        return beta_null(found, found.between()[1])

    def effects(self, found: Moments, response: int) -> Floats | None:
        """Of two classes, the difference of the means of the feature: its slope on the indicator."""
        if self.n_classes > 2:
            return None
        sign = np.where(found.products[0] < 0, -1, 1)
        return np.asarray(sign * np.sqrt(ratio(found.squares, found.targets[0, 0])) * self.scale[response])

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        """The indicator of one of two classes; the score of more is not linear in the feature."""
        return super().score_parts(rows) if self.n_classes == 2 else None

    def row_sizes(self) -> RowSizes | None:
        """Large in rare classes, whose means are the least certain: √((1 - π) / π) for a class of share π."""
        if not self.one_hot:
            return super().row_sizes()
        share = np.bincount(self.codes(slice(0, len(self.y))), self.sample_weight) / len(self.y)
        size = np.sqrt((1.0 - share) / share)
        return lambda rows: self.weigh(size[self.codes(rows)], rows)
