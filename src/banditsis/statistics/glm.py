"""Score tests of one feature in a generalised linear model: logistic and Poisson regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, chunks, count_rows, special, spread
from banditsis.statistics.base import MomentStatistic, describe_response, ratio
from banditsis.statistics.covariates import CovariateError, Covariates
from banditsis.statistics.null_distributions import NormalNull, NullDistribution
from banditsis.statistics.partial import PartialStatistic
from banditsis.statistics.pearson import Pearson
from banditsis.statistics.regression import maximise, whiten
from banditsis.statistics.saddlepoint import ScoreParts, describe_few_events, log_pvalue

SAMPLE_SIZE = 20_000
TOLERANCE = 1e-10
#: The null model has no maximum if the information is a smaller share of that without covariates.
SMALLEST_INFORMATION = 1e-7


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


class GeneralisedLinear(Pearson):
    """Common part of the score tests. Without covariates all rows have the same weight, as for Pearson."""

    family: ClassVar[Family]
    is_correlation = False

    @classmethod
    def bind_partial(cls, y: Array, pairwise: bool, covariates: Covariates) -> MomentStatistic:
        return PartialScoreTest(cls.bind(y, pairwise), covariates)

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        n_read, present = self.n_rows(summary, response), self.present(sums, columns)
        if not self.family.dispersed:
            return NormalNull(np.sqrt(n_read))
        n, sy, syy = summary[:3, response]
        rows: float | Floats = n_read
        if present is not None:
            n, sy, syy = self.moments(sums, response, columns)[3:]
            rows = np.maximum(present, 2)
            n = rows if self.sample_weight is None else np.where(n > 0, n, 1.0)
        expected = np.square(self.response_spread(n, sy, syy, response)) * (1 - 1 / rows)
        found = np.asarray(syy - sy * (sy / n))
        varies = found > 1e-12 * expected  # counts that are equal in the present rows have p-value 1
        inverse = np.divide(expected, found, out=np.zeros_like(found), where=varies)
        return NormalNull(np.sqrt(n_read * inverse))

    def effect_factor(self, n: float | Floats, spread_x: Floats, spread_y: float | Floats) -> Floats:
        """One Newton step: β = U / V with V = Σ(x - x̄)² times the mean variance of the response."""
        return ratio(np.broadcast_to(n, spread_x.shape), spread_x * spread_y)


class Logistic(GeneralisedLinear):
    r"""Score test of one feature in a logistic regression.

    .. math:: U = \sum x (y - \mu), \quad V = \sum v x^2 - b^\top (A^\top v A)^{-1} b, \quad b = A^\top v x,
              \quad v = \mu (1 - \mu)

    A contains an intercept and the covariates, and μ comes from the null model, which contains only these.
    The score is :math:`U / \sqrt{V n}`; its square times n is the χ² of Rao's test [1]_. Without covariates
    it is the correlation with the indicator of the second class.

    The response has two classes, numbers or strings; the one that sorts last (True, 1, "yes") counts as 1.
    Without covariates, μ is the mean of the rows read. With covariates, the null model is fitted to all rows,
    and its residuals in the rows read are projected on the complement of A.

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
        labels = [np.unique(column) for column in y.T]
        for k, found in enumerate(labels):
            if len(found) != 2:
                listed = ", ".join(map(str, found[:4].tolist())) + (", …" if len(found) > 4 else "")
                raise ValueError(
                    f"statistic 'logistic' needs two classes, got {len(found):,}"
                    f"{describe_response(k, len(labels))}: {listed}; use 'anova' for more classes, 'pearson' "
                    "for numbers."
                )
        return cls(y, pairwise).copy_with(positive=np.array([found[1] for found in labels]))

    def values(self, rows: Rows) -> Floats:
        return np.asarray(self.y[rows] == self.positive, dtype=np.float64)


def _exp(predictor: Floats) -> Floats:
    """Exponential without overflow."""
    return np.exp(np.minimum(predictor, 700.0))


class Poisson(GeneralisedLinear):
    r"""Score test of one feature in a Poisson regression of counts with the log link.

    As :class:`Logistic`, with :math:`v = \mu`. Without covariates the score is

    .. math:: \frac{\sum (x - \bar x)(y - \bar y)}{\sqrt{n \bar y \sum (x - \bar x)^2}}

    Counts often vary more than the model says. For p-values the χ² is divided by the dispersion of the null
    model with k coefficients, :math:`φ = \frac{n}{n - k} \sum (y - μ)^2 / \sum μ` (quasi-likelihood). Unlike
    the mean of (y - μ)²/μ, this estimate also holds if the variance grows faster than the mean, as long as
    the feature does not depend on the covariates.

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
    max_score = np.inf
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
        for rows in chunks(slice(0, len(y))):
            part = y[rows]
            bad = part < 0
            if y.dtype.kind == "f":
                bad |= part != np.floor(part)
            if bad.any():
                row, k = (int(i) for i in np.argwhere(bad)[0])
                raise ValueError(
                    f"statistic 'poisson' needs counts, 0, 1, 2, …, got {part[row, k]:g} in row "
                    f"{rows.start + row:,}; use 'pearson' for other numbers."
                )
        return cls(y, pairwise)

    def response_spread(
        self, n: float | Floats, sy: float | Floats, syy: float | Floats, response: int
    ) -> float | Floats:
        mean = np.maximum(sy / n / self.scale[response] + self.centre[response], 0.0)
        return np.asarray(np.sqrt(n * mean) * self.scale[response])


class PartialScoreTest(PartialStatistic):
    """A score test with covariates in the null model, which is fitted once, to all rows."""

    weighted = True
    n_targets = 1
    plain: GeneralisedLinear
    #: Coefficients of the null model, one column for each response, once it is fitted.
    coefficients: Floats | None = None

    def calibrate(self, rows: Rows) -> Self:
        if self.coefficients is None:  # and not again in a copy that is calibrated with other rows
            for k in self.constant_responses(slice(0, len(self.y))):
                raise self.constant_response(k, self.y[0, k])
            models = [self.plain.subset([k]) for k in range(self.n_responses)]
            self.coefficients = np.column_stack([fit_null_model(model, self.covariates) for model in models])
        return super().calibrate(rows)

    def subset(self, responses: Sequence[int]) -> Self:
        fitted = None if self.coefficients is None else self.coefficients[:, list(responses)]
        return super().subset(responses).copy_with(coefficients=fitted)

    def columns(self, rows: Rows) -> tuple[Floats, Floats, Floats | None]:
        assert self.coefficients is not None
        A = self.covariates.design(rows)
        mean = self.plain.family.mean(A @ self.coefficients[:, 0])
        return A, self.plain.values(rows)[:, :1] - mean[:, None], self.plain.family.variance(mean)

    def few_events(self, rows: Rows) -> str | None:
        total = float(self.plain.values(rows)[:, 0].sum())
        rarer = total if self.plain.family.dispersed else min(total, count_rows(rows) - total)
        return describe_few_events(int(rarer), self.covariates.rank)

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        parts = super().score_parts(rows)
        if parts is None:
            return None
        assert self.coefficients is not None
        predictor = self.covariates.design(rows) @ self.coefficients[:, 0]
        return parts._replace(by_likelihood=partial(self._log_pvalue, parts, predictor))

    def _log_pvalue(self, parts: ScoreParts, predictor: Floats, x: Array) -> float:
        """By the distribution that the null model gives to the response of each row."""
        family, A, v = self.plain.family, parts.design, parts.variances
        assert A is not None
        assert v is not None
        g = x - x.mean(dtype=np.float64)
        g = g - A @ (white := whiten(A.T @ (A * v[:, None]))).T @ (white @ (A.T @ (v * g)))
        information = float(v @ np.square(g))
        if not information > 0:
            return -np.inf
        g /= np.sqrt(information)
        mean, start = float(g @ family.mean(predictor)), float(family.cumulant(predictor).sum())

        def cumulants(t: float) -> tuple[float, float, float]:
            tilted = predictor + t * g
            means = family.mean(tilted)
            value = float(family.cumulant(tilted).sum()) - start - t * mean
            return value, float(g @ means) - mean, float(np.square(g) @ family.variance(means))

        residuals = parts.residuals[:, 0]
        if not family.dispersed:
            return log_pvalue(cumulants, float(g @ residuals))
        # Counts with dispersion φ vary as if they came in steps of φ: K(φ t) / φ.
        root = float(np.sqrt(residuals @ residuals / v.sum() * len(v) / (len(v) - A.shape[1])))

        def dispersed(t: float) -> tuple[float, float, float]:
            value, first, second = cumulants(root * t)
            return value / root**2, first / root, second

        return log_pvalue(dispersed, float(g @ residuals) / root)

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        if self.has_missing(sums, summary, columns):
            found = self.present_moments(sums, summary, [0], columns)
            scores = ratio(found.products[0], np.sqrt(found.squares) * np.sqrt(found.n_rows))
            return self.reduce(scores, found.n_rows, summary[0, 0])
        (products,), squares = self.residual_moments(sums, summary, [0], columns)
        return ratio(products, np.sqrt(squares) * np.sqrt(summary[0, 0]))

    def effect_factors(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        if self.has_missing(sums, summary, columns):
            information = self.present_moments(sums, summary, [0], columns).squares
        else:
            information = self.residual_moments(sums, summary, [0], columns)[1]
        return np.sqrt(ratio(np.full_like(information, summary[0, 0]), information)) * scale

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        n = float(summary[0, 0])
        if not self.plain.family.dispersed:
            return NormalNull(float(np.sqrt(n)))
        if self.has_missing(sums, summary, columns):
            found = self.present_moments(sums, summary, [0], columns)
            model = found.variance * ratio(found.n_rows - found.rank, found.n_rows)
            return NormalNull(np.sqrt(n * ratio(model, found.target_squares[0])))
        expected = float(self.split_summary(summary)[0][0, 0]) * (1 - (1 + self.covariates.rank) / n)
        return NormalNull(float(np.sqrt(n * expected / summary[1, 0])))


def fit_null_model(model: GeneralisedLinear, covariates: Covariates) -> Floats:
    """Maximum likelihood coefficients of an intercept and the covariates, for a model of one response."""
    family = model.family

    def derivatives(rows: Rows, beta: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, information = 0.0, np.zeros(len(beta)), np.zeros((len(beta), len(beta)))
        for part in chunks(rows):
            A = covariates.design(part)
            y, predictor = model.values(part)[:, 0], A @ beta
            mean = family.mean(predictor)
            weighted, cumulant = model.weigh(y, part), model.weigh(family.cumulant(predictor), part)
            value += float(weighted @ predictor - cumulant.sum())
            gradient += A.T @ model.weigh(y - mean, part)
            information += A.T @ (A * model.weigh(family.variance(mean), part)[:, None])
        return value, gradient, information

    def fit(rows: Rows, start: Floats) -> Floats | None:
        maximum = maximise(lambda beta: derivatives(rows, beta), start, TOLERANCE)
        if maximum is None:
            return None
        beta, information = maximum
        without = count_rows(rows) * float(family.variance(family.mean(start[:1]))[0])
        return beta if np.linalg.eigvalsh(information)[0] >= SMALLEST_INFORMATION * without else None

    n = len(model.y)
    start = np.zeros(1 + covariates.rank)
    totals = (model.weigh(model.values(part), part).sum() for part in chunks(slice(0, n)))
    start[0] = family.link(sum(map(float, totals)) / n)
    if n > 5 * SAMPLE_SIZE:  # a fit to a sample is a good start
        sample = spread(slice(0, n), SAMPLE_SIZE)
        fitted = fit(sample, start) if model.values(sample).mean() > 0 else None
        start = start if fitted is None else fitted
    if (beta := fit(slice(0, n), start)) is None:
        raise CovariateError(family.divergence)
    return beta
