"""Moment statistics adjusted for covariates.

The partial statistic of a feature is that of its residuals after regression on the covariates. The residuals
are never computed: the sums of the feature with the covariates are a few more products, and least squares
needs no more than these.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Indices, Rows, chunks, count_rows, near_zero, spread
from banditsis.core.parallel import map_in_threads
from banditsis.statistics.base import (
    MIN_PRESENT,
    MomentStatistic,
    RowSizes,
    Weights,
    describe_response,
    is_mostly_missing,
    mean_drift,
    ratio,
)
from banditsis.statistics.covariates import CovariateError, Covariates
from banditsis.statistics.null_distributions import BetaNull, NullDistribution
from banditsis.statistics.presence import FeatureLines, PresenceLines, PresentMoments, present_moments
from banditsis.statistics.regression import Explained, eliminate, explain, squared_influence, whiten
from banditsis.statistics.saddlepoint import ScoreParts
from banditsis.statistics.shape import are_like_normal, power_sums

if TYPE_CHECKING:
    from banditsis.statistics.anova import Anova
    from banditsis.statistics.pearson import Pearson

ROWS_FOR_SLOPE = 4000
#: Cells of responses and covariates that stay in the cache.
CELLS_AT_ONCE, MIN_ROWS_AT_ONCE = 1 << 16, 1 << 7
R = TypeVar("R")
#: Covariates explain a response, or a class, if a smaller share of its sum of squares is left.
SMALLEST_RESIDUAL = 1e-10
_explaining = threading.Lock()


class PartialStatistic(MomentStatistic):
    """A moment statistic adjusted for covariates: the common part.

    A row has the design ``A`` (an intercept, then the covariates), the targets ``B`` (functions of the
    response) and, in a generalised linear model, the variance ``v`` of the response. The lines of the sums
    are ``Σz``; ``Σz·b`` for each target; ``Σz·a`` for each covariate; ``Σz²``. With variances they are
    ``Σz``; ``Σz·b``; ``Σz·v·a`` for the intercept and each covariate; ``Σv·z²``. Sample weights multiply
    b, and v, which is 1 if rows have no variances. With pairwise deletion, the lines of
    :class:`PresenceLines` follow, so every sum of a feature is over the rows in which it is present.
    """

    #: Whether rows have variances or sample weights.
    weighted: bool = False
    #: The statistic without covariates.
    plain: MomentStatistic

    def __init__(self, plain: MomentStatistic, covariates: Covariates) -> None:
        self.plain, self.covariates = plain, covariates
        self.name, self.y, self.pairwise, self.positive = plain.name, plain.y, plain.pairwise, plain.positive
        self.unchecked_pvalues = plain.unchecked_pvalues
        #: sums, and what the covariates explain of them
        self._explained: tuple[Floats, Explained] | None = None

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        raise TypeError(f"{cls.__name__} is created by bind_partial of the statistic without covariates.")

    def with_sample_weight(self, sample_weight: Floats) -> Self:
        plain = self.plain.with_sample_weight(sample_weight)
        return super().with_sample_weight(sample_weight).copy_with(plain=plain, weighted=True)

    @property
    @abstractmethod
    def n_targets(self) -> int:
        """Number of targets."""

    @abstractmethod
    def columns(self, rows: Rows) -> tuple[Floats, Floats, Floats | None]:
        """Design, targets and variances of some rows."""

    def calibrate(self, rows: Rows) -> Self:
        check_residual_rows(rows, self.covariates.rank, len(self.y))
        return self.copy_with(plain=self.plain.calibrate(rows))

    def subset(self, responses: Sequence[int]) -> Self:
        plain = self.plain.subset(responses)
        return self.copy_with(plain=plain, y=plain.y)

    @property
    def min_present(self) -> int:
        return MIN_PRESENT + self.covariates.rank

    @property
    def _squares(self) -> int:
        """Line of Σz² or Σv·z²."""
        return 1 + self.n_targets + self.covariates.rank + self.weighted

    @property
    def _given(self) -> list[int]:
        """Lines of the products with the design."""
        return [*([] if self.weighted else [0]), *range(1 + self.n_targets, self._squares)]

    @property
    def presence(self) -> PresenceLines:
        """Lines of the sums with the presence mask, with pairwise deletion."""
        return PresenceLines(self._squares + 1, 1 + self.covariates.rank, self.n_targets)

    @property
    def n_sums(self) -> int:
        return self._squares + 1 + self.evidence + (self.presence.n_lines if self.pairwise else 0)

    def weights(self, rows: Rows) -> Weights:
        A, B, v = self.columns(rows)
        weighted, v = self._weigh(B, v, rows)
        linear = np.column_stack([weighted, A[:, 1:] if v is None else A * v[:, None]])
        presence = self.presence.columns(A, B, weighted, v) if self.pairwise else None
        return Weights(linear, self.pairwise, square=v, fourth=self.evidence, presence=presence)

    def _weigh(self, B: Floats, v: Floats | None, rows: Rows) -> tuple[Floats, Floats | None]:
        """Targets and variances of some rows times their sample weights."""
        if self.sample_weight is None:
            return B, v
        return self.weigh(B, rows), self.sample_weight[rows] if v is None else self.weigh(v, rows)

    def summary(self, rows: Rows) -> Floats:
        """Lines n, Σb², Aᵀb, AᵀvA, one column for each target; n and AᵀvA are the same in all columns."""
        width = 1 + self.covariates.rank
        total = np.zeros((2 + width + width * width, self.n_targets))

        def add_up(part: Rows) -> Floats:
            A, B, v = self.columns(part)
            weighted, v = self._weigh(B, v, part)
            gram = A.T @ (A if v is None else A * v[:, None])
            some = np.empty_like(total)
            some[0] = len(A)
            some[1] = np.einsum("ij,ij->j", weighted, B)
            some[2 : 2 + width] = A.T @ weighted
            some[2 + width :] = gram.reshape(-1, 1)
            return some

        for some in self.map_rows(add_up, rows):
            total += some
        return total

    def map_rows(self, function: Callable[[Rows], R], rows: Rows) -> list[R]:
        """Apply a function to some rows at a time, in threads."""
        return map_in_threads(
            function, chunks(rows, max(MIN_ROWS_AT_ONCE, CELLS_AT_ONCE // self.n_targets)), 2
        )

    def split_summary(self, summary: Floats) -> tuple[Floats, Floats]:
        """AᵀvA and AᵀB."""
        width = 1 + self.covariates.rank
        return summary[2 + width :, 0].reshape(width, width), summary[2 : 2 + width]

    def residual_moments(
        self, sums: Floats, summary: Floats, targets: Sequence[int], columns: Indices | slice
    ) -> tuple[Floats, Floats]:
        """Products of the features' residuals with some targets, and their sums of squares."""
        found, place = self.explain(sums, summary, columns)
        given = np.stack([sums[1 + target, columns] for target in targets])
        return found.products(given, targets, place), found.squares[place]

    def explain(
        self, sums: Floats, summary: Floats, columns: Indices | slice
    ) -> tuple[Explained, Indices | slice]:
        """What the covariates explain of some columns, and where these are in it.

        If there are several targets, these share what is explained of all columns.
        """
        if self.n_targets == 1:
            return self._explain(sums, summary, columns), slice(None)
        with _explaining:
            if self._explained is None or self._explained[0] is not sums:
                self._explained = sums, self._explain(sums, summary, slice(None))
        return self._explained[1], columns

    def _explain(self, sums: Floats, summary: Floats, columns: Indices | slice) -> Explained:
        given = np.stack([sums[line, columns] for line in self._given])
        split = self.split_summary(summary)
        return explain(given, sums[self._squares, columns], *split, self.covariates.resolution)

    def with_evidence(self) -> Self:
        return self if self.pairwise else super().with_evidence()

    def present_moments(
        self, sums: Floats, summary: Floats, targets: Sequence[int], columns: Indices | slice
    ) -> PresentMoments:
        """As :meth:`residual_moments`, with pairwise deletion."""
        feature = FeatureLines(self._given, [1 + target for target in targets], self._squares)
        total = np.diag(self.split_summary(summary)[0])
        return present_moments(
            sums, self.presence, feature, targets, columns, total, self.covariates.resolution
        )

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        return sums[self.presence.first, columns] if self.pairwise else None

    def has_missing(self, sums: Floats, summary: Floats, columns: Indices | slice) -> bool:
        """Whether some columns have missing values; otherwise the sums over all rows are enough."""
        present = self.present(sums, columns)
        return present is not None and bool((present != summary[0, 0]).any())

    def reduce(self, scores: Floats, n_present: Floats, n_read: float) -> Floats:
        """Scores over the present rows, multiplied by √(present rows / rows read); 0 if these are too few."""
        few = is_mostly_missing(n_present, n_read, self.min_present)
        return np.where(few, 0.0, scores * np.sqrt(n_present / n_read))

    def row_sizes(self) -> RowSizes | None:
        """Distance of the response from its mean given the covariates."""
        ready = self.calibrate(slice(0, len(self.y)))
        return RowSizes(lambda rows: ready.weigh(ready.columns(rows)[1][:, 0], rows))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        if self.sample_weight is not None:
            return None
        A, B, v = self.columns(rows)
        return ScoreParts(B[:, :1], A, v)

    def drift(self, rows: Rows, n: int) -> float:
        return self.plain.drift(rows, n)


class PartialPearson(PartialStatistic):
    r"""Partial correlation: the correlation of the residuals of feature and response.

    With A the covariates and a column of ones, over the rows read,

    .. math:: r = \frac{s_{xy} - b^\top G^{-1} c}
                       {\sqrt{(s_{xx} - b^\top G^{-1} b)(s_{yy} - c^\top G^{-1} c)}},
              \quad b = A^\top x, \; c = A^\top y, \; G = A^\top A

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

    shares_pass = True
    is_correlation = True
    plain: Pearson
    #: Coefficients of the responses on A in a sample. The targets are residuals, which keeps their precision.
    slope: Floats

    def __init__(self, plain: Pearson, covariates: Covariates) -> None:
        super().__init__(plain, covariates)
        self.slope = np.zeros((1 + covariates.rank, plain.n_responses))

    @property
    def n_targets(self) -> int:
        return self.n_responses

    def calibrate(self, rows: Rows) -> Self:
        ready = super().calibrate(rows)
        sample = spread(rows, ROWS_FOR_SLOPE)
        A = self.covariates.design(sample)
        white = whiten(A.T @ A)  # covariates are uncorrelated, so this is precise

        def multiply(part: Rows) -> tuple[Floats, Floats]:
            A, y, _ = ready.columns(part)
            return A.T @ y, np.einsum("ij,ij->j", y, y)

        squares = []
        for _ in range(2):  # the second time for the digits that the first one lost
            cross, square = (sum(some) for some in zip(*ready.map_rows(multiply, sample), strict=True))
            explained = white @ cross
            squares += [square - cross[0] ** 2 / len(A), square - np.square(explained).sum(axis=0)]
            ready = ready.copy_with(slope=ready.slope + white.T @ explained)
        explained_all = squares[-1] <= SMALLEST_RESIDUAL**2 * squares[0]
        if explained_all.any():
            k = int(np.argmax(explained_all))
            raise CovariateError(
                f"the response{describe_response(k, self.n_responses)} is a linear combination of the "
                "covariates, and features have nothing to explain: omit these covariates."
            )
        return ready

    def subset(self, responses: Sequence[int]) -> Self:
        return super().subset(responses).copy_with(slope=self.slope[:, list(responses)])

    def lines(self, response: int) -> list[int]:
        lines = [0, 1 + response, *range(1 + self.n_responses, self._squares + 1 + self.evidence)]
        return [*lines, *self.presence.lines(response)] if self.pairwise else lines

    def columns(self, rows: Rows) -> tuple[Floats, Floats, Floats | None]:
        A = self.covariates.design(rows)
        return A, self.plain.scaled(rows) - A @ self.slope, None

    def squares(self, sums: Floats, summary: Floats, columns: Indices | slice) -> Floats:
        found, place = self.explain(sums, summary, columns)
        return found.squares[place]

    def deviations(self, rows: Rows) -> Floats:
        return self.columns(rows)[1]

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        if self.has_missing(sums, summary, columns):
            known = self.present_moments(sums, summary, [response], columns)
            left = known.residuals[0, 0]
            left = np.where(left > SMALLEST_RESIDUAL * known.target_squares[0], left, 0.0)
            r = np.clip(ratio(known.products[0], np.sqrt(known.squares) * np.sqrt(left)), -1.0, 1.0)
            return self.reduce(r, known.n_rows, summary[0, response])
        found, place = self.explain(sums, summary, columns)
        products = found.targets[:, response] @ found.features[:, place]
        np.subtract(sums[1 + response, columns], products, out=products)
        spread_y = np.sqrt(self._residual_squares(summary, response, found))
        squares = found.squares[place]
        if not kernels.are_loaded():
            return np.clip(ratio(products, np.sqrt(squares) * spread_y), -1.0, 1.0)
        zeros, r = np.zeros((2, len(products)))  # residuals have mean 0
        kernels.scores.correlate(zeros, products, squares, 1.0, 0.0, spread_y, 1.0, r)
        return r

    def effect_factors(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        n = float(summary[0, response])
        if self.has_missing(sums, summary, columns):
            found = self.present_moments(sums, summary, [response], columns)
            squares_y, squares_x = found.residuals[0, 0] * n / np.maximum(found.n_rows, 1), found.squares
        else:
            explained, place = self.explain(sums, summary, columns)
            squares_x = explained.squares[place]
            squares_y = np.full_like(squares_x, self._residual_squares(summary, response, explained))
        factors = np.sqrt(ratio(np.maximum(squares_y, 0.0), squares_x))
        return np.asarray(factors * scale / self.plain.scale[response])

    def _residual_squares(self, summary: Floats, response: int, found: Explained) -> float:
        """Sum of squares of a response given the covariates."""
        return max(float(summary[1, response] - np.sum(found.targets[:, response] ** 2)), 0.0)

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        n = float(summary[0, response])
        if not self.has_missing(sums, summary, columns):
            return BetaNull(n - 2 - self.covariates.rank)
        found = self.present_moments(sums, summary, [response], columns)
        return BetaNull(found.n_rows - found.rank - 1, scale=np.sqrt(n / np.maximum(found.n_rows, 1)))

    def normal_responses(self, rows: Rows) -> Array:
        if self.sample_weight is not None:
            return super().normal_responses(rows)
        gram, cross = self.split_summary(self.summary(rows))
        white = whiten(gram)
        slope = white.T @ (white @ cross)

        def add_up(part: Rows) -> Floats:
            A, B, _ = self.columns(part)
            return power_sums(B - A @ slope, 4)

        return are_like_normal(count_rows(rows), np.sum(self.map_rows(add_up, rows), axis=0))

    def drift(self, rows: Rows, n: int) -> float:
        alone = (self.subset([k]) for k in range(self.n_responses))
        return max(mean_drift(one.columns(slice(0, n))[1], rows) for one in alone)

    def influence(self, block: Array, rows: Rows, response: int, weights: Floats) -> Floats | None:
        if self.pairwise:
            return None
        root = np.sqrt(weights)[:, None]
        Q, _ = np.linalg.qr(root * self.covariates.design(rows))
        both = np.column_stack(
            [self.plain.scaled(rows)[:, response], np.asarray(near_zero(block), np.float64)]
        )
        size = np.abs(both - both.mean(axis=0)).max(axis=0)
        both = both - Q @ (Q.T @ (root * both)) / root
        both[:, np.abs(both).max(axis=0) <= np.sqrt(self.covariates.resolution) * size] = 0.0
        return squared_influence(both[:, 1:], both[:, 0], weights)


class PartialAnova(PartialStatistic):
    r"""Correlation ratio of a feature and the class given covariates; ranks as the partial F test does.

    .. math:: \eta = \sqrt{\frac{RSS_0 - RSS_1}{RSS_0}}, \qquad
              F = \frac{\eta^2 / (k - 1)}{(1 - \eta^2) / (n - k - r)}

    RSS₀ is the residual sum of squares of the feature on an intercept and covariates of rank r, RSS₁ that on
    these and the classes. The targets are indicators of all classes but the last.
    """

    plain: Anova

    @property
    def n_targets(self) -> int:
        return self.plain.n_classes - 1

    def calibrate(self, rows: Rows) -> Self:
        check_residual_rows(rows, self.covariates.rank + self.n_targets, len(self.y))
        ready = super().calibrate(rows)
        if len(self._contrasts(self.summary(rows))) == 0:
            raise CovariateError(
                "the classes of the response are linear combinations of the covariates, and features have "
                "nothing to explain: omit these covariates."
            )
        return ready

    def row_sizes(self) -> RowSizes | None:
        return self.plain.row_sizes()

    def columns(self, rows: Rows) -> tuple[Floats, Floats, Floats | None]:
        indicators = np.eye(self.plain.n_classes)[self.plain.codes(rows)]
        return self.covariates.design(rows), indicators[:, :-1], None

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        parts = self.plain.score_parts(rows)
        return None if parts is None else parts._replace(design=self.covariates.design(rows))

    def _contrasts(self, summary: Floats) -> Floats:
        """Matrix that turns products with the indicators into independent components given the covariates."""
        gram, cross = self.split_summary(summary)
        counts, explained = cross[0], whiten(gram) @ cross
        residual = np.diag(counts) - explained.T @ explained
        # the classes that the covariates do not explain
        free = np.flatnonzero(np.diag(residual) > SMALLEST_RESIDUAL * counts)
        white = whiten(residual[np.ix_(free, free)])
        contrasts = np.zeros((len(white), self.n_targets))
        contrasts[:, free] = white
        return contrasts

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        if self.has_missing(sums, summary, columns):
            found, within, _ = self._present_classes(sums, summary, columns)
            between = np.maximum(found.squares - within, 0.0)
            eta = np.sqrt(np.clip(ratio(between, found.squares), 0.0, 1.0))
            return self.reduce(eta, found.n_rows, summary[0, 0])
        products, squares = self.residual_moments(sums, summary, range(self.n_targets), columns)
        between = np.square(self._contrasts(summary) @ products).sum(axis=0)
        return np.sqrt(np.clip(ratio(between, squares), 0.0, 1.0))

    def effect_factors(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        if self.n_targets > 1:
            return None
        if self.has_missing(sums, summary, columns):
            found = self.present_moments(sums, summary, [0], columns)
            products, squares = found.products[0], found.squares * summary[0, 0] / np.maximum(found.n_rows, 1)
            spreads = np.sqrt(ratio(squares, found.residuals[0, 0]))
        else:
            (products,), squares = self.residual_moments(sums, summary, [0], columns)
            spreads = np.sqrt(squares) * self._contrasts(summary).sum()
        # The target is the indicator of the first class.
        return np.where(products > 0, -1, 1) * np.abs(spreads) / scale

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        n = float(summary[0, 0])
        if self.has_missing(sums, summary, columns):
            found, _, between = self._present_classes(sums, summary, columns)
            scale = np.sqrt(n / np.maximum(found.n_rows, 1))
            return BetaNull(found.n_rows - found.rank - between, between, scale)
        n_between = len(self._contrasts(summary))
        return BetaNull(n - 1 - self.covariates.rank - n_between, float(n_between))

    def _present_classes(
        self, sums: Floats, summary: Floats, columns: Indices | slice
    ) -> tuple[PresentMoments, Floats, Floats]:
        """Moments, residual sum of squares given the classes too, and their rank given the covariates."""
        found = self.present_moments(sums, summary, range(self.n_targets), columns)
        counts = self.split_summary(summary)[1][0]
        residuals, between = eliminate(found.residuals.copy(), SMALLEST_RESIDUAL * counts)
        return found, residuals[0, 0], between


def check_residual_rows(rows: Rows, rank: int, n: int) -> None:
    """Raise if the rows that are read first are too few for a regression on covariates of this rank."""
    if (m := count_rows(rows)) < rank + 3:
        rows_read = f"{m:,} rows are read first" if m < n else f"there are {m:,} rows"
        raise CovariateError(
            f"{rows_read}, but {rank} covariates with an intercept need {rank + 3:,} or more: use fewer "
            f"covariates{', or read more rows, or all of them' if m < n else ''}."
        )
