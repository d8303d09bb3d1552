"""Score tests of one feature in a generalised linear model: logistic and Poisson regression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows, count_rows
from banditsis.statistics.base import MomentStatistic, Weights, ratio
from banditsis.statistics.covariates import Covariates, chunks
from banditsis.statistics.null_distributions import NormalNull, NullDistribution
from banditsis.statistics.null_model import fit
from banditsis.statistics.partial import check_residual_rows
from banditsis.statistics.pearson import Pearson
from banditsis.statistics.projection import residual_moments, usable


class GeneralisedLinear(Pearson):
    """What the score tests have in common. Without covariates all weights are alike, as for Pearson."""

    @classmethod
    def bind_partial(cls, y: Array, covariates: Covariates) -> MomentStatistic:
        return GivenCovariates(cls.bind(y, False), covariates, np.empty((0, 0)))

    @abstractmethod
    def mean(self, predictor: Floats) -> Floats:
        """Mean of the response by the linear predictor."""

    @abstractmethod
    def variance(self, mean: Floats) -> Floats:
        """Variance of the response by its mean."""

    @abstractmethod
    def link(self, mean: float) -> float:
        """Linear predictor by the mean."""

    @abstractmethod
    def log_likelihood(self, y: Floats, predictor: Floats) -> float:
        """Log-likelihood of some rows, less what does not depend on the predictor."""

    @abstractmethod
    def diverged(self) -> str:
        """What to tell if the null model has no maximum."""

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        return NormalNull(np.sqrt(float(summary[0, response])))

    def influence(self, block: Array, rows: Rows, response: int) -> Floats | None:
        return None


class Logistic(GeneralisedLinear):
    r"""Score test of one feature in a logistic regression.

    .. math:: U = \sum x (y - \mu), \quad V = \sum v x^2 - b^\top (A^\top v A)^{-1} b, \quad b = A^\top v x,
              \quad v = \mu (1 - \mu)

    with A the covariates and an intercept and μ from the null model, which has these alone. The score is
    :math:`U / \sqrt{V n}`; its square times n is the χ² of Rao's test [1]_. Without covariates it is the
    correlation with the indicator of the second class.

    The response has two classes, numbers or strings; the one that sorts last (True, 1, "yes") counts as 1.
    Without covariates the mean is that of the rows read. With them the null model is fitted to all rows, and
    what it leaves in the rows read is projected out.

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

    #: the label of each response that counts as 1
    positive: Array

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        labels = [np.unique(y[:, k]) for k in range(y.shape[1])]
        for k, found in enumerate(labels):
            if len(found) != 2:
                where = "" if y.shape[1] == 1 else f" (response {k})"
                some = ", ".join(map(str, found[:4].tolist())) + (", …" if len(found) > 4 else "")
                raise ValueError(
                    f"statistic='logistic' needs two classes, got {len(found):,}{where}: {some}; use 'anova' "
                    "for more classes, 'pearson' for numbers."
                )
        q = y.shape[1]
        made = cls(y, pairwise, np.zeros(q), np.ones(q))
        return made.changed(positive=np.array([found[1] for found in labels]))

    def subset(self, responses: Sequence[int]) -> Self:
        return super().subset(responses).changed(positive=self.positive[list(responses)])

    def values(self, rows: Rows) -> Floats:
        return np.asarray(self.y[rows] == self.positive, dtype=np.float64)

    def mean(self, predictor: Floats) -> Floats:
        from scipy.special import expit

        return np.asarray(expit(predictor))

    def variance(self, mean: Floats) -> Floats:
        return mean * (1.0 - mean)

    def link(self, mean: float) -> float:
        return float(np.log(mean) - np.log1p(-mean))

    def log_likelihood(self, y: Floats, predictor: Floats) -> float:
        return float(y @ predictor - np.logaddexp(0.0, predictor).sum())

    def diverged(self) -> str:
        return (
            "the logistic regression on the covariates alone does not converge: they tell the two classes "
            "apart perfectly, or nearly so; leave out the covariate that does, or merge rare levels."
        )


class Poisson(GeneralisedLinear):
    r"""Score test of one feature in a Poisson regression of counts, with the logarithm as link.

    As :class:`Logistic`, with :math:`v = \mu`. Without covariates the score is

    .. math:: \frac{\sum (x - \bar x)(y - \bar y)}{\sqrt{n \bar y \sum (x - \bar x)^2}}

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

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        if y.dtype.kind not in "fiub":
            raise ValueError("statistic='poisson' needs counts, got labels; use 'anova' or 'logistic'.")
        for rows in chunks(slice(0, len(y))):
            part = y[rows]
            bad = part < 0
            if y.dtype.kind == "f":
                bad |= part != np.floor(part)
            if bad.any():
                row, k = (int(i) for i in np.argwhere(bad)[0])
                raise ValueError(
                    f"statistic='poisson' needs counts, 0, 1, 2, …, got {part[row, k]:g} in row "
                    f"{rows.start + row:,}; use 'pearson' for other numbers."
                )
        return cls(y, pairwise, np.zeros(y.shape[1]), np.ones(y.shape[1]))

    def standardised(
        self,
        n: float | Floats,
        sx: Floats,
        sxy: Floats,
        sxx: Floats,
        sy: float | Floats,
        syy: float | Floats,
        response: int,
    ) -> Floats:
        spread_x = np.sqrt(np.maximum(sxx - sx * (sx / n), 0.0))
        mean = np.maximum(sy / n / self.scale[response] + self.centre[response], 0.0)
        return ratio((sxy - sx * (sy / n)) / self.scale[response], spread_x * np.sqrt(n * mean))

    def mean(self, predictor: Floats) -> Floats:
        return np.exp(np.minimum(predictor, 700.0))

    def variance(self, mean: Floats) -> Floats:
        return mean

    def link(self, mean: float) -> float:
        return float(np.log(mean))

    def log_likelihood(self, y: Floats, predictor: Floats) -> float:
        return float(y @ predictor - self.mean(predictor).sum())

    def diverged(self) -> str:
        return (
            "the Poisson regression on the covariates alone does not converge: for some level of them all "
            "counts are 0, or a covariate grows too fast; leave it out, merge levels, or take its logarithm."
        )


class GivenCovariates(MomentStatistic):
    """A score test with covariates in the null model, whose coefficients are found once, from all rows."""

    def __init__(self, model: GeneralisedLinear, covariates: Covariates, coefficients: Floats) -> None:
        self.model, self.covariates, self.coefficients = model, covariates, coefficients
        self.y, self.pairwise = model.y, False
        self.name = model.name  # type: ignore[misc]

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        raise TypeError("GivenCovariates is made by bind_partial of another statistic.")

    def calibrate(self, rows: Rows) -> Self:
        check_residual_rows(rows, self.covariates.rank, self.y.shape[0])
        self.model.calibrate(rows)  # refuses a constant response
        if self.coefficients.size:
            return self
        fits = [fit(self.model.subset([k]), self.covariates) for k in range(self.n_responses)]
        return type(self)(self.model, self.covariates, np.column_stack(fits))

    def subset(self, responses: Sequence[int]) -> Self:
        coefficients = self.coefficients[:, list(responses)] if self.coefficients.size else self.coefficients
        return type(self)(self.model.subset(responses), self.covariates, coefficients)

    @property
    def n_sums(self) -> int:
        return 4 + self.covariates.rank

    def lines(self, response: int) -> list[int]:
        return list(range(self.n_sums))

    def _parts(self, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Given columns, variances and residuals of some rows, for the one response."""
        A = np.column_stack([np.ones(count_rows(rows)), self.covariates.columns(rows)])
        mean = self.model.mean(A @ self.coefficients[:, 0])
        return A, self.model.variance(mean), self.model.values(rows)[:, 0] - mean

    def weights(self, rows: Rows) -> Weights:
        A, variance, residual = self._parts(rows)
        return Weights(np.column_stack([residual, A * variance[:, None]]), square=variance)

    def summary(self, rows: Rows) -> Floats:
        """n, then Aᵀ times the residuals, then AᵀvA."""
        width = 1 + self.covariates.rank
        total = np.zeros(1 + width + width * width)
        if not self.coefficients.size:
            return total
        for part in chunks(rows):
            A, variance, residual = self._parts(part)
            gram = A.T @ (A * variance[:, None])
            total += np.concatenate([[len(A)], A.T @ residual, gram.reshape(-1)])
        return total

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        width = 1 + self.covariates.rank
        cross, gram = summary[1 : 1 + width], summary[1 + width :].reshape(width, width)
        left = residual_moments(
            sums, list(range(2, 2 + width)), [1], 2 + width, gram, cross[:, None], columns
        )
        size = np.sqrt(usable(left, self.covariates.resolution)) * np.sqrt(summary[0])
        return ratio(left.products[0], size)

    def drift(self, rows: Rows, n: int) -> float:
        return self.model.drift(rows, n)

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        return NormalNull(float(np.sqrt(summary[0])))

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        return None
