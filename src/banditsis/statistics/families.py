"""The linear statistics: correlation, analysis of variance, and score tests of generalised linear models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Rows, count_rows, ratio, special
from banditsis.core.validation import distinct_values
from banditsis.statistics.base import RowSizes, check_classes, describe_response
from banditsis.statistics.covariates import CovariateError, Covariates, whiten
from banditsis.statistics.linear import L, LinearStatistic, map_rows, target_moments, weigh
from banditsis.statistics.moments import Moments, common
from banditsis.statistics.null_distributions import NormalNull, NullDistribution
from banditsis.statistics.saddlepoint import ScoreParts, describe_few_events, log_pvalue

TOLERANCE = 1e-10
#: The null model has no maximum if the information is a smaller share of that without covariates.
SMALLEST_INFORMATION = 1e-7


class Pearson(LinearStatistic):
    r"""Pearson correlation, the utility of sure independence screening [1]_.

    .. math:: r = \frac{\sum (x - \bar x)(y - \bar y)}
                       {\sqrt{\sum (x - \bar x)^2 \sum (y - \bar y)^2}}

    A response of two classes is the indicator of the label that sorts last (True, "yes"). With sample weights
    all sums and means are weighted. If values are missing, r of the rows in which the feature is present is
    multiplied by √(present rows / rows read), because features that are almost empty would win by chance.

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
        return _bind_second_class(cls, y, labels, pairwise, "numbers or two classes")

    def effects(self, found: Moments, response: int) -> Floats | None:
        """The slope of the response."""
        slopes = np.sqrt(ratio(np.maximum(found.targets[0, 0], 0.0), found.squares))
        return np.asarray(slopes / self.scale[response])


class Anova(LinearStatistic):
    r"""Correlation ratio of a feature and the class; ranks features as the F statistic does.

    .. math:: \eta = \sqrt{\frac{\sum_c n_c (\bar x_c - \bar x)^2}{\sum_i (x_i - \bar x)^2}},
              \qquad F = \frac{\eta^2 / (k - 1)}{(1 - \eta^2) / (n - k)}

    The response holds class labels, numbers or strings. With two classes η is the absolute correlation with
    their indicator. With sample weights all sums and means are weighted.

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

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        labels = check_classes(cls.name, y)
        if any(len(found) > 2 for found in labels):
            return cls(y, pairwise).copy_with(labels=labels, one_hot=True, shares_pass=False)
        return _bind_second_class(cls, y, labels, pairwise).copy_with(labels=labels, is_correlation=True)

    @property
    def n_classes(self) -> int:
        """Number of classes of the first response, which is scored."""
        return len(self.labels[0])

    def codes(self, rows: Rows) -> Array:
        """Class of each row in the first response, as a number."""
        return np.searchsorted(self.labels[0], self.y[rows, 0])

    def targets(self, rows: Rows) -> Floats:
        """Indicators of all classes but the first; of two classes, centred and scaled."""
        if not self.one_hot:
            return super().targets(rows)
        return np.eye(self.n_classes, self.n_classes - 1, -1)[self.codes(rows)]

    def calibrate(self, rows: Rows) -> Self:
        ready = super().calibrate(rows)
        if self.one_hot and self.rank and target_moments(self, rows).between()[1] == 0:
            raise CovariateError(
                "the classes of the response are linear combinations of the covariates, and features have "
                "nothing to explain: omit these covariates."
            )
        return ready

    def score(self, found: Moments, response: int) -> Floats:
        if not self.one_hot:
            return super().score(found, response)
        return np.sqrt(np.clip(ratio(found.between()[0], found.squares), 0.0, 1.0))

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
        """√((1 - π) / π) for a class of share π: the means of rare classes are the least certain."""
        if not self.one_hot:
            return super().row_sizes()
        share = np.bincount(self.codes(slice(0, len(self.y))), self.sample_weight) / len(self.y)
        size = np.sqrt((1.0 - share) / share)
        return lambda rows: weigh(self, size[self.codes(rows)], rows)


@dataclass(frozen=True)
class Family:
    """A generalised linear model with the canonical link."""

    #: Mean of the response as a function of the linear predictor, and the inverse of it.
    mean: Callable[[Floats], Floats]
    link: Callable[[float], float]
    #: Variance of the response as a function of its mean.
    variance: Callable[[Floats], Floats]
    #: The log-likelihood is the sum of y·predictor minus this function of the predictor, up to a constant.
    cumulant: Callable[[Floats], Floats]
    #: Message if the model with the covariates alone does not converge.
    divergence: str
    #: Whether the variance of the response can differ from that of the model by a factor.
    dispersed: bool = False


class ScoreTest(LinearStatistic):
    """A score test of one feature in a generalised linear model.

    With covariates, the null model is fitted once, to all rows; targets are its residuals, and v contains the
    variances of the response. Without, its only coefficient is the mean of the rows read, and targets and
    weights are those of a correlation.
    """

    family: ClassVar[Family]
    max_score = np.inf

    def given(self, covariates: Covariates | None, sample_weight: Floats | None) -> Self:
        found = super().given(covariates, sample_weight)
        own = {"has_variances": True, "shares_pass": False, "max_score": np.inf}
        return found.copy_with(**own) if covariates is not None else found

    def calibrate(self, rows: Rows) -> Self:
        ready = super().calibrate(rows)
        if self.rank and self.coefficients is None:  # and not again if this is calibrated with other rows
            models = [self.subset([k]) for k in range(self.n_responses)]
            self.coefficients = np.column_stack([fit_null_model(model) for model in models])
        return ready.copy_with(coefficients=self.coefficients)

    def predictor(self, rows: Rows) -> Floats:
        """Linear predictor of the null model with covariates in some rows."""
        return np.asarray(self.design(rows) @ np.asarray(self.coefficients)[:, 0])

    def targets(self, rows: Rows) -> Floats:
        if self.rank == 0:
            return super().targets(rows)
        return np.asarray(self.y[rows, :1], np.float64) - self.family.mean(self.predictor(rows))[:, None]

    def variances(self, rows: Rows) -> Floats | None:
        return self.family.variance(self.family.mean(self.predictor(rows))) if self.rank else None

    def model(self, found: Moments, response: int) -> tuple[float, float]:
        """Without covariates: the mean of the targets, and the variance of the response in their units."""
        if self.rank:  # which targets and weights contain
            return 0.0, 1.0
        scale, mean = float(self.scale[response]), float(found.means[0])
        expected = max(mean / scale + float(self.centre[response]), 0.0)
        return mean, float(self.family.variance(np.array(expected))) * scale**2

    def response_spread(self, found: Moments, response: int) -> Floats:
        return np.sqrt(found.n_rows * self.model(found, response)[1])

    def null(self, found: Moments, response: int) -> NullDistribution | None:
        if not self.family.dispersed:
            return NormalNull(float(np.sqrt(found.n_read)))
        mean, variance = self.model(found, response)
        squares = found.target_squares[0] - mean * (2 * found.target_sums[0] - mean * found.weight)
        freedom = 1 - found.rank / np.maximum(np.maximum(found.n_rows, found.rank), 1)
        return NormalNull(common(np.sqrt(found.n_read * ratio(variance * found.weight * freedom, squares))))

    def effects(self, found: Moments, response: int) -> Floats | None:
        """One Newton step: β = U / V."""
        scale = 1.0 if self.rank else self.scale[response]
        information = self.model(found, response)[1] / scale**2 * found.squares
        return np.sqrt(ratio(found.n_rows, information))

    def few_events(self, rows: Rows) -> str | None:
        total = float(self.y[rows, 0].sum()) if self.rank else 0.0
        rarer = total if self.family.dispersed else min(total, count_rows(rows) - total)
        return describe_few_events(int(rarer), self.rank)

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        parts = super().score_parts(rows)
        if parts is None or self.rank == 0:
            return parts
        by_likelihood = partial(self._log_pvalue, parts, self.variances(rows), self.predictor(rows))
        return parts._replace(by_likelihood=by_likelihood)

    def _log_pvalue(self, parts: ScoreParts, v: Any, predictor: Floats, x: Array) -> float:
        """By the distribution that the null model gives to the response of each row."""
        family, A = self.family, np.asarray(parts.design)
        g = x - x.mean(dtype=np.float64)
        g = g - A @ (white := whiten(A.T @ (A * v[:, None]))).T @ (white @ (A.T @ (v * g)))
        information = float(v @ np.square(g))
        if not information > 0:
            return -np.inf
        g /= np.sqrt(information)
        residuals, root = parts.residuals[:, 0], 1.0
        if family.dispersed:  # counts with dispersion φ vary as if they came in steps of φ: K(φ t) / φ
            root = np.sqrt(residuals @ residuals / v.sum() * len(v) / (len(v) - A.shape[1]))
        mean, start = g @ family.mean(predictor), family.cumulant(predictor).sum()

        def cumulants(t: float) -> tuple[float, float, float]:
            tilted = predictor + t * root * g
            means = family.mean(tilted)
            value = (family.cumulant(tilted).sum() - start) / root**2 - t * mean / root
            return float(value), float(g @ means - mean) / root, float(np.square(g) @ family.variance(means))

        return log_pvalue(cumulants, float(g @ residuals) / root)


class Logistic(ScoreTest):
    r"""Score test of one feature in a logistic regression.

    .. math:: U = \sum x (y - \mu), \quad V = \sum v x^2 - b^\top (A^\top v A)^{-1} b, \quad b = A^\top v x,
              \quad v = \mu (1 - \mu)

    A contains an intercept and the covariates, and μ comes from the null model, which contains only these and
    is fitted to all rows. The score is :math:`U / \sqrt{V n}`; its square times n is the χ² of Rao's test
    [1]_. Without covariates μ is the mean of the rows read, and the score is the correlation with the class.
    The response has two classes; the one that sorts last (True, 1, "yes") counts as 1.

    References
    ----------
    .. [1] Rao, C. R. (1948). Large sample tests of statistical hypotheses concerning several parameters.
       Proc. Camb. Phil. Soc. 44, 50-57.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [5.0, 2.0], [6.0, 1.0]])
    >>> screen(X, ["no", "no", "yes", "yes"], Plan.exact(4, 2, 1), statistic="logistic").scores.round(4)
    array([0.9701, 0.    ])
    """

    name = "logistic"
    by_class = True
    is_correlation = True
    max_score = 1.0
    family = Family(
        mean=lambda predictor: special.expit(predictor),
        link=lambda mean: special.logit(mean),
        variance=lambda mean: mean * (1.0 - mean),
        cumulant=lambda predictor: np.logaddexp(0.0, predictor),
        divergence="the logistic regression on the covariates alone does not converge: they separate the two "
        "classes perfectly, or nearly so; omit the covariate that does, or merge rare levels.",
    )

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        return _bind_second_class(cls, y, [np.unique(column) for column in y.T], pairwise)


def _exp(predictor: Floats) -> Floats:
    """Exponential without overflow."""
    return np.exp(np.minimum(predictor, 700.0))


class Poisson(ScoreTest):
    r"""Score test of one feature in a Poisson regression of counts with the log link.

    As :class:`Logistic`, with :math:`v = \mu`. Without covariates the score is

    .. math:: \frac{\sum (x - \bar x)(y - \bar y)}{\sqrt{n \bar y \sum (x - \bar x)^2}}

    Counts often vary more than the model says. For p-values the χ² is divided by the dispersion of the null
    model with k coefficients, :math:`φ = \frac{n}{n - k} \sum (y - μ)^2 / \sum μ` (quasi-likelihood [1]_).
    Unlike the mean of (y - μ)²/μ, it also holds if the variance grows faster than the mean.

    References
    ----------
    .. [1] McCullagh, P. and Nelder, J. A. (1989). Generalized Linear Models, 2nd edition. Chapman & Hall.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 1.0]])
    >>> screen(X, [1, 2, 4], Plan.exact(3, 2, 2), statistic="poisson").scores.round(4)
    array([ 0.8018, -0.6172])
    """

    name = "poisson"
    family = Family(
        mean=_exp,
        link=np.log,
        variance=lambda mean: mean,
        cumulant=_exp,
        divergence="the Poisson regression on the covariates alone does not converge: for some level of a "
        "covariate all counts are 0, or a covariate grows too fast; omit it, merge levels, or take its "
        "logarithm.",
        dispersed=True,
    )

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        if y.dtype.kind not in "fiub":
            raise ValueError("statistic 'poisson' needs counts, got labels; use 'anova' or 'logistic'.")
        if (bad := (y < 0) | (y % 1 != 0)).any():
            row, k = (int(i) for i in np.argwhere(bad)[0])
            raise ValueError(
                f"statistic 'poisson' needs counts, 0, 1, 2, …, got {y[row, k]:g} in row {row:,}; use "
                "'pearson' for other numbers."
            )
        return cls(y, pairwise)


def _bind_second_class(
    cls: type[L], y: Array, labels: Sequence[Any], pairwise: bool, needed: str = "two classes"
) -> L:
    """The statistic for the indicator of the label that sorts last of two, or raise."""
    for k, found in enumerate(labels):
        if len(found) != 2:
            classes = np.unique(y[:, k])
            listed = ", ".join(map(str, classes[:4].tolist())) + (", …" if len(classes) > 4 else "")
            raise ValueError(
                f"statistic {cls.name!r} needs {needed}, got {len(classes):,}"
                f"{describe_response(k, len(labels))}: {listed}; use 'anova' for more classes, 'pearson' for "
                "numbers."
            )
    positive = np.array([high for _, high in labels])
    return cls(y if y.dtype.kind == "b" else y == positive, pairwise).copy_with(positive=positive)


def fit_null_model(model: ScoreTest) -> Floats:
    """Maximum likelihood coefficients of an intercept and the covariates, for one response."""
    family, rows, start = model.family, slice(0, len(model.y)), np.zeros(1 + model.rank)

    def add_up(part: Rows, beta: Floats) -> tuple[float, Floats, Floats]:
        A, y = model.design(part), np.asarray(model.y[part, 0], np.float64)
        predictor = A @ beta
        mean = family.mean(predictor)
        value = weigh(model, y * predictor - family.cumulant(predictor), part).sum()
        information = A.T @ (A * weigh(model, family.variance(mean), part)[:, None])
        return value, A.T @ weigh(model, y - mean, part), information

    def derivatives(beta: Floats) -> Any:
        parts = map_rows(model, lambda part: add_up(part, beta), rows)
        return [sum(some) for some in zip(*parts, strict=True)]

    mean = float(np.average(model.y[:, 0], weights=model.sample_weight))
    start[0] = family.link(mean)
    maximum = maximise(derivatives, start, TOLERANCE)
    least = SMALLEST_INFORMATION * len(model.y) * float(family.variance(np.array(mean)))
    if maximum is None or np.linalg.eigvalsh(maximum[1])[0] < least:
        raise CovariateError(family.divergence)
    return maximum[0]


def maximise(
    derivatives: Callable[[Floats], tuple[float, Floats, Floats]], start: Floats, tolerance: float
) -> tuple[Floats, Floats] | None:
    """Maximise a log-likelihood by Newton's method with step halving; None if there is no convergence.

    ``derivatives`` returns its value, gradient and information matrix at some coefficients. The last step
    increases it by about half of the tolerance. Returns the coefficients, and the information before it.
    """
    beta, (value, gradient, information) = start, derivatives(start)
    for _ in range(100):
        white = whiten(information)
        step, gain = white.T @ (white @ gradient), float(np.square(white @ gradient).sum())
        if not np.isfinite(gain) or len(white) < len(beta):
            return None
        if gain < tolerance:
            return beta + step, information
        for size in 0.5 ** np.arange(30):
            found = derivatives(beta + size * step)
            if found[0] >= value:
                break
        else:  # near the maximum, rounding can hide the increase
            return (beta + step, information) if gain < 1e-6 else None
        beta, (value, gradient, information) = beta + size * step, found
    return None
