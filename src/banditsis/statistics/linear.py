"""Linear statistics: correlation, analysis of variance and score tests as functions of sums.

What the responses ask is data (A, B, v): A is an intercept and the covariates, B the targets (the values of a
response, indicators of its classes, residuals of a null model), and v the weights of rows (sample weights
times the variances of a generalised linear model). A source multiplies its cells by these columns, see
:mod:`banditsis.statistics.moments`. The sums give every score, effect size, null distribution and degree of
freedom, with and without covariates, weights and missing cells, see :mod:`banditsis.statistics.moments`. What
differs between statistics is in :mod:`banditsis.statistics.families` and :mod:`banditsis.statistics.glm`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from banditsis.core.arrays import (
    SMALLEST,
    Array,
    Floats,
    Indices,
    Rows,
    chunks,
    count_rows,
    ratio,
    spread,
    take,
)
from banditsis.core.parallel import map_in_threads
from banditsis.statistics.base import RowSizes, Statistic, describe_response, is_mostly_missing
from banditsis.statistics.covariates import CovariateError
from banditsis.statistics.moments import SMALLEST_RESIDUAL, Gram, Layout, Moments, WeightArrays, Weights
from banditsis.statistics.null_distributions import NullDistribution
from banditsis.statistics.saddlepoint import ScoreParts, are_like_normal

#: Cells of targets and covariates that stay in the cache, and rows that are worth a piece of their own.
CELLS_AT_ONCE, MIN_ROWS_AT_ONCE = 1 << 16, 1 << 8
ROWS_FOR_SLOPE = 4000
R = TypeVar("R")


class LinearStatistic(Statistic):
    """A statistic that is a function of sums over rows, so each round reads only its new rows.

    A subclass says which targets the responses make, and how moments of residuals become scores, null
    distributions and effect sizes.
    """

    adjusts = True
    #: Whether the last line of the sums is Σz⁴, which tells how many rows are informative.
    evidence: bool = False
    #: Whether the targets of a response are indicators of its classes; otherwise each is one target.
    one_hot: bool = False
    #: Whether the variance of the response differs between rows, in a model with covariates.
    has_variances: bool = False
    #: Coefficients of the responses on A, once they are known. Targets are residuals given these.
    coefficients: Floats | None = None
    #: Scores are from minus this to this.
    max_score: float = 1.0

    def __init__(self, y: Array, pairwise: bool) -> None:
        self.y, self.pairwise = y, pairwise
        #: targets are ``scale · values - scale · centre``
        self.centre, self.scale = np.zeros(y.shape[1]), np.ones(y.shape[1])

    @classmethod
    @abstractmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        """Validate the responses and create the statistic for them."""

    @classmethod
    def of_second_class(cls, y: Array, labels: Sequence[Sequence[Any] | Array], pairwise: bool) -> Self:
        """The statistic for the indicator of the label that sorts last, given the two of each response."""
        positive = np.array([high for _, high in labels])
        return cls(y if y.dtype.kind == "b" else y == positive, pairwise).copy_with(positive=positive)

    def with_evidence(self) -> Self:
        """The statistic with Σz⁴ as last line of the sums, if scores are correlations; else itself."""
        known = self.is_correlation and not (self.pairwise and self.rank)
        return self.copy_with(evidence=True) if known else self

    @property
    def shares_pass(self) -> bool:
        """Whether several responses can share one pass over the data: each is one target."""
        return not (self.one_hot or self.has_variances)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return self.n_responses

    def targets_of(self, response: int) -> slice:
        """The targets of a response."""
        return slice(response, response + 1) if self.shares_pass else slice(0, self.n_targets)

    @property
    def layout(self) -> Layout:
        """Where each sum is."""
        weighted = self.has_variances or self.sample_weight is not None
        return Layout(1 + self.rank, self.n_targets, weighted, self.pairwise)

    @property
    def n_sums(self) -> int:
        """Number of lines of the sums."""
        return self.layout.n_lines + self.evidence

    def values(self, rows: Rows) -> Floats:
        """Responses of some rows as numbers."""
        return np.asarray(self.y[rows], dtype=np.float64)

    def scaled(self, rows: Rows) -> Floats:
        """Responses of some rows, centred and scaled."""
        y = self.values(rows) * self.scale
        y -= self.centre * self.scale  # the difference of large values could overflow
        return y

    def design(self, rows: Rows) -> Floats:
        """A of some rows."""
        return np.ones((count_rows(rows), 1)) if self.covariates is None else self.covariates.design(rows)

    def targets(self, rows: Rows) -> Floats:
        """B of some rows."""
        y = self.scaled(rows)
        return y if self.coefficients is None else y - self.design(rows) @ self.coefficients

    def variances(self, rows: Rows) -> Floats | None:
        """Variances of the response in some rows, up to a factor; None if they are equal."""
        return None

    def weigh(self, values: Floats, rows: Rows) -> Floats:
        """Values of some rows times their sample weights."""
        return values if self.sample_weight is None else np.asarray((values.T * self.sample_weight[rows]).T)

    def columns(self, rows: Rows) -> tuple[Floats, Floats, Floats, Floats | None]:
        """A, B, B times the sample weights, and v of some rows."""
        B, v = self.targets(rows), self.variances(rows)
        if self.sample_weight is not None:
            v = self.sample_weight[rows] * (1.0 if v is None else v)
        return self.design(rows), B, self.weigh(B, rows), v

    def weights(self, rows: Rows) -> Weights:
        """Weights of some rows, which are computed when they are used."""
        layout = self.layout
        n_linear, n_presence = layout.squares - 1, layout.n_presence * self.pairwise
        return Weights(rows, self._weight_arrays, n_linear, layout.weighted, n_presence, self.evidence)

    def _weight_arrays(self, rows: Rows) -> WeightArrays:
        A, B, weighted, v = self.columns(rows)
        presence = self.layout.presence(A, B, weighted, v) if self.pairwise else None
        if self.rank:
            weighted = np.column_stack([A[:, 1:] if v is None else A[:, 1:] * v[:, None], weighted])
        return weighted, v, presence

    def calibrate(self, rows: Rows) -> Self:
        ready = super().calibrate(rows)
        ready = ready if self.one_hot else ready.rescale(rows)
        return ready.fit(rows) if self.rank else ready

    def rescale(self, rows: Rows) -> Self:
        """Centre by the median of a sample, which is robust, and scale by a power of two, which is exact."""

        def find_ends(part: Rows) -> tuple[Floats, Floats]:
            values = self.values(part)
            return values.min(axis=0), values.max(axis=0)

        lows, highs = zip(*self.map_rows(find_ends, rows), strict=True)
        sample = np.sort(self.values(spread(rows, 1001)), axis=0)
        centre = sample[len(sample) // 2]  # np.median imports masked arrays
        reach = np.maximum(np.max(highs, axis=0) / 2 - centre / 2, centre / 2 - np.min(lows, axis=0) / 2)
        exponent = np.clip(np.frexp(np.maximum(reach, SMALLEST))[1] + 1, -1000, 1000)
        return self.copy_with(centre=centre, scale=np.ldexp(1.0, -exponent))

    def fit(self, rows: Rows) -> Self:
        """Take the covariates out of the responses, as far as a sample tells, which keeps their precision."""
        sample = spread(rows, ROWS_FOR_SLOPE)
        A, y = self.design(sample), self.scaled(sample)
        coefficients = np.linalg.lstsq(A, y, rcond=1e-6)[0]
        left, before = (np.square(part).sum(axis=0) for part in (y - A @ coefficients, y - y.mean(axis=0)))
        for k in np.flatnonzero(left <= SMALLEST_RESIDUAL**2 * before):
            raise CovariateError(
                f"the response{describe_response(int(k), self.n_responses)} is a linear combination of the "
                "covariates, and features have nothing to explain: omit these covariates."
            )
        return self.copy_with(coefficients=coefficients)

    def subset(self, responses: Sequence[int]) -> Self:
        k = list(responses)
        y = self.y[:, k[0] : k[-1] + 1] if k == list(range(k[0], k[-1] + 1)) else self.y[:, k]
        return self.copy_with(
            y=y,
            centre=self.centre[k],
            scale=self.scale[k],
            positive=None if self.positive is None else self.positive[k],
            coefficients=None if self.coefficients is None else self.coefficients[:, k],
        )

    def map_rows(self, function: Callable[[Rows], R], rows: Rows) -> list[R]:
        """Apply a function to some rows at a time, in threads."""
        size = max(MIN_ROWS_AT_ONCE, CELLS_AT_ONCE // (self.rank + max(self.n_targets, 1)))
        return map_in_threads(function, chunks(rows, size), 8)

    def summary(self, rows: Rows) -> Floats:
        """Sums of the lines of presence over all of some rows; those of disjoint sets can be added."""
        return np.asarray(self.summaries(rows, np.array([0, count_rows(rows)]))[0])

    def summaries(self, rows: Rows, edges: Indices) -> Floats:
        """The summary of each group of rows, which end at the next edge."""

        def add_up(part: Any) -> Floats:
            A, B, weighted, v = self.columns(take(rows, part.start, part.stop))
            inner = np.clip(edges - part.start, 0, len(A)).tolist()
            groups = [slice(start, stop) for start, stop in pairwise(inner)]
            return np.stack(
                [
                    self.layout.total(A[group], B[group], weighted[group], None if v is None else v[group])
                    for group in groups
                ]
            )

        parts = self.map_rows(add_up, slice(0, count_rows(rows)))
        return np.asarray(sum(parts, np.zeros((len(edges) - 1, self.layout.n_presence))))

    def gram(self, sums: Floats, summary: Floats) -> Gram:
        """The Gram matrix of [A B z], given the sums and the summary of the responses over the same rows."""
        return Gram(self.layout, sums, summary, self.resolution)

    @property
    def resolution(self) -> float:
        """A feature whose residual variance given the covariates is a smaller share depends on them alone."""
        return 0.0 if self.covariates is None else self.covariates.resolution

    def find_nonfinite(self, sums: Floats) -> Indices:
        """Positions of the features whose sums are not finite, except those of fourth powers."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(sums[: self.layout.n_lines].sum()):  # as nearly always
                return np.empty(0, np.intp)
            return np.flatnonzero(~np.isfinite(sums[: self.layout.n_lines].sum(axis=0)))

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        """Number of rows in which each column is present, or None if no cell can be missing."""
        return sums[self.layout.n_rows, columns] if self.pairwise else None

    def scores(self, found: Moments, response: int) -> Floats:
        """Signed scores of features; a constant feature scores 0."""
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

    def effects(self, found: Moments, response: int) -> Floats | None:
        """Effect size of a score of 1 over the present rows, in units of scaled features."""
        return None

    def effect_factors(self, found: Moments, response: int, scale: Floats) -> Floats | None:
        """Factors that turn scores into effect sizes, or None; 0 or NaN for a feature without an effect size.

        The sums are of ``z = scale · x - shift``.
        """
        factors = self.effects(found, response)
        if factors is None:
            return None
        return np.asarray((factors / scale if self.one_sided else factors * scale) / found.reduction)

    def normal_responses(self, rows: Rows) -> Array:
        if not self.shares_pass or self.sample_weight is not None:
            return super().normal_responses(rows)

        def add_up(part: Rows) -> Floats:
            left = self.targets(part)
            square = np.square(left)
            pairs = (left, left), (left, square), (square, square)
            return np.stack([left.sum(axis=0), *(np.einsum("ij,ij->j", *pair) for pair in pairs)])

        return are_like_normal(count_rows(rows), np.sum(self.map_rows(add_up, rows), axis=0))

    def row_sizes(self) -> RowSizes | None:
        """Distance of the response from its mean, or that given the covariates, times the sample weight."""
        ready, n = self.calibrate(slice(0, len(self.y))), len(self.y)

        def distance(rows: Rows, mean: float = 0.0) -> Floats:
            return ready.weigh(ready.targets(rows)[:, 0] - mean, rows)

        mean = sum(ready.map_rows(lambda rows: float(distance(rows).sum()), slice(0, n))) / n
        return lambda rows: np.abs(distance(rows, mean))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        if self.sample_weight is not None:
            return None
        return ScoreParts(self.targets(rows)[:, :1], self.design(rows) if self.rank else None)

    def influence(self, block: Array, rows: Rows, response: int, weights: Floats) -> Floats:
        """Squared influence of rows with sampling weights on artanh of the score of each column of a block.

        NaN for constant columns; not known for covariates and missing values together.
        """
        x, y = np.asarray(block, np.float64), self.scaled(rows)[:, response]
        if self.rank == 0:
            return squared_influence(x, y, weights)
        root = np.sqrt(weights)[:, None]
        Q, _ = np.linalg.qr(root * self.design(rows))
        both = np.column_stack([y, x])
        size = np.abs(both - both.mean(axis=0)).max(axis=0)
        both = both - Q @ (Q.T @ (root * both)) / root
        both[:, np.abs(both).max(axis=0) <= np.sqrt(self.resolution) * size] = 0.0
        return squared_influence(both[:, 1:], both[:, 0], weights)


def squared_influence(x: Floats, y: Floats, weights: Floats) -> Floats:
    r"""Squared influence of each row on artanh(r) of each column of x, over the rows in which x is present.

    With x and y standardised, the influence is :math:`ψ / (1 - r^2)`, where
    :math:`ψ = xy - r (x^2 + y^2) / 2`. With missing values, its square is divided by the share of rows that
    are present, and 0 in the others. Rows have sampling weights. Columns that are constant or copies of y are
    NaN.
    """
    absent, share, y, known = np.isnan(x), weights / weights.sum(), y[:, None], np.ones(1)
    add_up: Callable[[Floats], Floats] = share.__matmul__
    if gaps := bool(absent.any()):
        x, y, shares = np.where(absent, 0.0, x), np.where(absent, 0.0, y), share[:, None] * ~absent
        known = shares.sum(axis=0)
        shares /= np.where(known > 0, known, 1.0)
        add_up = partial(np.einsum, "ij,ij->j", shares)
    x, y = (_standardise(values, add_up, absent if gaps else None) for values in (x, y))
    product = x * y
    r = add_up(product)
    usable = (np.abs(r) < 1.0 - 1e-6) & x.any(axis=0) & y.any(axis=0)
    x *= x
    x += y * y
    x *= 0.5 * r
    product -= x
    product /= np.where(usable, (1.0 - r * r) * np.sqrt(known), np.nan)
    return np.square(product, out=product)


def _standardise(x: Floats, add_up: Callable[[Floats], Floats], absent: Array | None) -> Floats:
    """Columns with mean 0 and mean square 1, but 0 if they are constant or where they are absent."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = add_up(x)  # could overflow, as a difference could
        centred = x - mean
        if absent is not None:
            centred[absent] = 0.0
        reach = np.maximum(centred.max(axis=0), -centred.min(axis=0))
    varies = (reach > 1e-9 * np.abs(mean)) & (reach < np.inf)
    if not varies.all():
        centred[:, ~varies] = 0.0
    centred /= np.where(varies, reach, 1.0)
    centred /= np.sqrt(np.where(varies, add_up(np.square(centred)), 1.0))
    return centred
