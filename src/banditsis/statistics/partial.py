"""Correlation and analysis of variance given covariates, from the same sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows, count_rows, spread
from banditsis.statistics.anova import Anova
from banditsis.statistics.base import Weights, describe_rows_read, ratio
from banditsis.statistics.covariates import CovariateError, Covariates, chunks
from banditsis.statistics.null_distributions import BetaNull, NullDistribution
from banditsis.statistics.pearson import Pearson
from banditsis.statistics.projection import residual_moments, usable, whiten

ROWS_FOR_SLOPE = 4000


class PartialPearson(Pearson):
    r"""Partial correlation: that of what the covariates and an intercept leave of feature and response.

    With A the covariates and a column of ones, over the rows read,

    .. math:: r = \frac{s_{xy} - b^\top G^{-1} c}
                       {\sqrt{(s_{xx} - b^\top G^{-1} b)(s_{yy} - c^\top G^{-1} c)}},
              \quad b = A^\top x, \; c = A^\top y, \; G = A^\top A

    which is the correlation of the residuals of two regressions on A. The sums of a feature with the
    covariates are k more products; nothing is residualised but the response, a few rows at a time.

    References
    ----------
    .. [1] Frisch, R. and Waugh, F. V. (1933). Partial time regressions as compared with individual trends.
       Econometrica 1, 387-401.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> rng = np.random.default_rng(0)
    >>> age = rng.standard_normal(500)
    >>> X = np.column_stack([age + rng.standard_normal(500), rng.standard_normal(500)])
    >>> y = 2 * age + X[:, 1] + rng.standard_normal(500)
    >>> screen(X, y, Plan.exact(500, 2, 2)).scores.round(2)
    array([0.62, 0.43])
    >>> screen(X, y, Plan.exact(500, 2, 2), covariates=age).scores.round(2)
    array([0.05, 0.71])
    """

    covariates: Covariates
    #: of the scaled responses on the intercept and the covariates: taken off first, so that their digits go
    #: to the rest
    slope: Floats

    @classmethod
    def of(cls, plain: Pearson, covariates: Covariates) -> Self:
        """The partial correlation with the same response."""
        made = cls(plain.y, plain.pairwise, plain.centre, plain.scale)
        return made.changed(covariates=covariates, slope=np.zeros((1 + covariates.rank, plain.n_responses)))

    @property
    def width(self) -> int:
        """Columns of weights for a row: the responses, then the covariates."""
        return self.n_responses + self.covariates.rank

    def calibrate(self, rows: Rows) -> Self:
        check_residual_rows(rows, self.covariates.rank, self.y.shape[0])
        ready = super().calibrate(rows)
        sample = spread(rows, ROWS_FOR_SLOPE)
        A = np.column_stack([np.ones(len(sample)), self.covariates.columns(sample)])
        y = ready.scaled(sample)
        slope = np.linalg.lstsq(A, y, rcond=None)[0]
        spread_y, rest = np.linalg.norm(y - y.mean(axis=0), axis=0), np.linalg.norm(y - A @ slope, axis=0)
        if (rest <= 1e-10 * spread_y).any():
            k = int(np.argmax(rest <= 1e-10 * spread_y))
            where = "" if self.n_responses == 1 else f" (response {k})"
            raise CovariateError(
                f"y{where} is a linear combination of the covariates, so that nothing is left for features "
                "to explain: leave such covariates out."
            )
        return ready.changed(slope=slope)

    def subset(self, responses: Sequence[int]) -> Self:
        return super().subset(responses).changed(slope=self.slope[:, list(responses)])

    def lines(self, response: int) -> list[int]:
        q = self.n_responses
        return [0, 1 + response, *range(1 + q, self.n_sums)]

    @property
    def n_sums(self) -> int:
        return 2 + self.width

    def _columns(self, rows: Rows) -> Floats:
        """What the weights of some rows are: what is left of the responses, then the covariates."""
        columns = np.empty((count_rows(rows), self.width))
        start = 0
        for part in chunks(rows):
            here = columns[start : start + count_rows(part)]
            given = self.covariates.columns(part, out=here[:, self.n_responses :])
            here[:, : self.n_responses] = self.scaled(part) - self.slope[0] - given @ self.slope[1:]
            start += len(here)
        return columns

    def weights(self, rows: Rows) -> Weights:
        return Weights(self._columns(rows))

    def summary(self, rows: Rows) -> Floats:
        """Lines n, Σy, Σy², Aᵀy, AᵀA of each response; the last are alike for all."""
        q, r = self.n_responses, self.covariates.rank
        products = np.zeros((1 + self.width, 1 + self.width))
        squares = np.zeros(q)
        for part in chunks(rows):
            W = np.column_stack([self._columns(part), np.ones(count_rows(part))])
            products += W.T @ W
            squares += np.einsum("ij,ij->j", W[:, :q], W[:, :q])
        given = [q + r, *range(q, q + r)]
        gram = products[np.ix_(given, given)].reshape(-1, 1)
        n, sy = products[-1, -1], products[-1, :q]
        return np.vstack([np.full(q, n), sy, squares, products[given, :q], np.tile(gram, (1, q))])

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        q, r = self.n_responses, self.covariates.rank
        one = summary[:, response]
        cross, gram = one[3 : 4 + r], one[4 + r :].reshape(r + 1, r + 1)
        given = [0, *range(1 + q, 1 + q + r)]
        left = residual_moments(sums, given, [1 + response], 1 + q + r, gram, cross[:, None], columns)
        syy = max(one[2] - float(np.sum((whiten(gram) @ cross) ** 2)), 0.0)
        size = np.sqrt(usable(left, self.covariates.resolution)) * np.sqrt(syy)
        return np.clip(ratio(left.products[0], size), -1.0, 1.0)

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        return BetaNull(float(summary[0, response]) - 2 - self.covariates.rank)

    def influence(self, block: Array, rows: Rows, response: int) -> Floats | None:
        A = np.column_stack([np.ones(count_rows(rows)), self.covariates.columns(rows)])
        Q, _ = np.linalg.qr(A)
        both = np.column_stack([self.scaled(rows)[:, [response]], np.asarray(block, np.float64)])
        size = np.abs(both - both.mean(axis=0)).max(axis=0)
        both = both - Q @ (Q.T @ both)
        both[:, np.abs(both).max(axis=0) <= np.sqrt(self.covariates.resolution) * size] = 0.0
        return self._influence(np.ascontiguousarray(both[:, 1:]), both[:, [0]])


class PartialAnova(Anova):
    r"""Correlation ratio of a feature given the class and covariates; ranks as the partial F test does.

    .. math:: \eta = \sqrt{\frac{RSS_0 - RSS_1}{RSS_0}}, \qquad
              F = \frac{\eta^2 / (k - 1)}{(1 - \eta^2) / (n - k - r)}

    with RSS₀ what covariates of rank r and an intercept leave of the feature, and RSS₁ what they and the
    classes leave. The indicators of the classes are weights, as the covariates are.
    """

    covariates: Covariates

    @classmethod
    def of(cls, plain: Anova, covariates: Covariates) -> Self:
        """The partial correlation ratio with the same response."""
        made = cls(plain.y, plain.pairwise, plain.labels)
        made.covariates = covariates
        return made

    def calibrate(self, rows: Rows) -> Self:
        check_residual_rows(rows, self.covariates.rank + len(self.labels) - 1, self.y.shape[0])
        Anova.calibrate(self, rows)
        if len(self._between(self._gram(self.summary(rows)))[0]) == 0:
            raise CovariateError(
                "the classes of y follow from the covariates, so that nothing is left for features to "
                "explain: leave such covariates out."
            )
        return self

    def subset(self, responses: Sequence[int]) -> Self:
        return self.of(super().subset(responses), self.covariates)

    @property
    def n_sums(self) -> int:
        return 1 + len(self.labels) + self.covariates.rank

    def _columns(self, rows: Rows) -> Floats:
        """Covariates, then indicators of all classes but the last."""
        indicators = np.eye(len(self.labels))[self._codes(rows)]
        return np.column_stack([self.covariates.columns(rows), indicators[:, :-1]])

    def weights(self, rows: Rows) -> Weights:
        return Weights(self._columns(rows))

    def summary(self, rows: Rows) -> Floats:
        """How many rows each class has, then the products of all columns."""
        width = self.n_sums - 1
        counts, products = np.zeros(len(self.labels)), np.zeros((width, width))
        for part in chunks(rows):
            W = np.column_stack([np.ones(count_rows(part)), self._columns(part)])
            products += W.T @ W
            counts += np.bincount(self._codes(part), minlength=len(self.labels))
        return np.concatenate([counts, products.reshape(-1)])

    def _gram(self, summary: Floats) -> Floats:
        width = self.n_sums - 1
        return summary[len(self.labels) :].reshape(width, width)

    def _between(self, gram: Floats) -> tuple[Floats, Floats]:
        """What turns the products with the classes, beside the covariates, into independent shares."""
        g = 1 + self.covariates.rank
        cross = whiten(gram[:g, :g]) @ gram[:g, g:]
        rest = gram[g:, g:] - cross.T @ cross
        size = np.diag(gram)[g:]
        own = np.diag(rest) > 1e-10 * size  # others follow from the covariates
        white = np.zeros((0, len(size)))
        if own.any():
            white = np.zeros((len(inner := whiten(rest[np.ix_(own, own)])), len(size)))
            white[:, own] = inner
        return white, cross

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        gram, g = self._gram(summary), 1 + self.covariates.rank
        white, _ = self._between(gram)
        classes = list(range(g, self.n_sums - 1))
        left = residual_moments(
            sums, list(range(g)), classes, self.n_sums - 1, gram[:g, :g], gram[:g, g:], columns
        )
        between = np.square(white @ left.products).sum(axis=0)
        return np.sqrt(np.clip(ratio(between, usable(left, self.covariates.resolution)), 0.0, 1.0))

    def drift(self, rows: Rows, n: int) -> float:
        return Anova(self.y, False, self.labels).drift(rows, n)

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        n = float(summary[: len(self.labels)].sum())
        between = len(self._between(self._gram(summary))[0])
        return BetaNull(n - 1 - self.covariates.rank - between, float(between))


def check_residual_rows(rows: Rows, rank: int, n: int) -> None:
    """Refuse to regress on more columns than the rows can tell apart, of n in all."""
    if (m := count_rows(rows)) < rank + 3:
        rows_read = f"{m:,} rows are read first" if m < n else f"there are {m:,} rows"
        raise CovariateError(
            f"{rows_read}, and {rank} covariates with "
            f"an intercept need {rank + 3:,} or more: give fewer covariates{describe_rows_read(rows, n)[1]}."
        )
