"""Linear statistics: correlation, analysis of variance and score tests as functions of sums.

What the responses ask is data (A, B, v): A is an intercept and the covariates, B the targets (the values of a
response, indicators of its classes, residuals of a null model), and v the weights of rows (sample weights
times the variances of a generalised linear model). A source multiplies its cells by these columns, and the
sums give every score, effect size and null distribution, with and without covariates, weights and missing
cells. What differs between statistics is in :mod:`banditsis.statistics.families`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
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
from banditsis.statistics.base import RowSizes, Statistic, describe_response
from banditsis.statistics.covariates import CovariateError
from banditsis.statistics.moments import (
    SMALLEST_RESIDUAL,
    Gram,
    Layout,
    Moments,
    WeightArrays,
    Weights,
    common,
)
from banditsis.statistics.null_distributions import BetaNull, NullDistribution
from banditsis.statistics.saddlepoint import ScoreParts, are_like_normal

#: Cells of targets and covariates that stay in the cache, and rows that are worth a piece of their own.
CELLS_AT_ONCE, MIN_ROWS_AT_ONCE = 1 << 16, 1 << 8
ROWS_FOR_SLOPE = 4000
L = TypeVar("L", bound="LinearStatistic")
R = TypeVar("R")


class LinearStatistic(Statistic):
    """A statistic that is a function of sums over rows, so each round reads only its new rows.

    A subclass says which targets the responses make, and how moments of residuals become scores, null
    distributions and effect sizes.
    """

    adjusts = True
    #: Whether the last line of the sums is Σz⁴, which tells how many rows are informative.
    evidence: bool = False
    #: Whether several responses can share one pass over the data: each is one target.
    shares_pass: bool = True
    #: Whether the targets are indicators of the classes of the response.
    one_hot: bool = False
    #: Whether the variance of the response differs between rows, in a model with covariates.
    has_variances: bool = False
    #: Coefficients of the responses on A, once they are known. Targets are residuals given these.
    coefficients: Floats | None = None
    #: Scores are from minus this to this.
    max_score: float = 1.0

    def __init__(self, y: Array, pairwise: bool) -> None:
        self.y, self.pairwise = y, pairwise
        #: targets are ``scale · y - scale · centre``
        self.centre, self.scale = np.zeros(y.shape[1]), np.ones(y.shape[1])

    @classmethod
    @abstractmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        """Validate the responses and create the statistic for them."""

    @property
    def layout(self) -> Layout:
        """Where each sum is."""
        weighted = self.has_variances or self.sample_weight is not None
        resolution = 0.0 if self.covariates is None else self.covariates.resolution
        n_targets = self.n_responses if self.shares_pass else len(self.labels[0]) - 1 if self.one_hot else 1
        return Layout(1 + self.rank, n_targets, weighted, self.pairwise, self.evidence, resolution)

    def targets_of(self, response: int) -> slice:
        """The targets of a response."""
        return slice(response, response + 1) if self.shares_pass else slice(0, self.layout.n_targets)

    def targets(self, rows: Rows) -> Floats:
        """B of some rows."""
        y = np.asarray(self.y[rows], dtype=np.float64) * self.scale
        y -= self.centre * self.scale  # the difference of large values could overflow
        return y if self.coefficients is None else y - self.design(rows) @ self.coefficients

    def variances(self, rows: Rows) -> Floats | None:
        """Variances of the response in some rows, up to a factor; None if they are equal."""
        return None

    def weights(self, rows: Rows) -> Weights:
        """Weights of some rows, which are computed when they are used."""
        layout = self.layout

        def compute(rows: Rows) -> WeightArrays:
            A, B, weighted, v = _columns(self, rows)
            presence = layout.presence(A, B, weighted, v) if self.pairwise else None
            if self.rank:
                weighted = np.column_stack([A[:, 1:] if v is None else A[:, 1:] * v[:, None], weighted])
            return weighted, v, presence

        n_presence = layout.n_presence * self.pairwise
        return Weights(rows, compute, layout.squares - 1, layout.weighted, n_presence, self.evidence)

    def summaries(self, rows: Rows, edges: Indices) -> Floats:
        """Sums of :meth:`Layout.presence` over each group of rows, which ends at the next edge."""
        layout = self.layout

        def add_up(part: Any) -> Floats:
            A, B, weighted, v = _columns(self, take(rows, part.start, part.stop))
            inner = np.clip(edges - part.start, 0, len(A)).tolist()
            groups = [slice(start, stop) for start, stop in pairwise(inner)]
            return np.stack(
                [layout.total(A[g], B[g], weighted[g], None if v is None else v[g]) for g in groups]
            )

        parts = map_rows(self, add_up, slice(0, count_rows(rows)))
        return np.asarray(sum(parts, np.zeros((len(edges) - 1, layout.n_presence))))

    def calibrate(self, rows: Rows) -> Self:
        ready = super().calibrate(rows)
        if self.one_hot:
            return ready
        ready = rescale(ready, rows)
        if not self.rank or self.has_variances:
            return ready
        # Take the covariates out of the responses, as far as a sample tells, which keeps their precision.
        sample = spread(rows, ROWS_FOR_SLOPE)
        A, y = ready.design(sample), ready.targets(sample)
        coefficients = np.linalg.lstsq(A, y, rcond=1e-6)[0]
        left, before = (np.square(part).sum(axis=0) for part in (y - A @ coefficients, y - y.mean(axis=0)))
        for k in np.flatnonzero(left <= SMALLEST_RESIDUAL**2 * before):
            raise CovariateError(
                f"the response{describe_response(int(k), self.n_responses)} is a linear combination of the "
                "covariates, and features have nothing to explain: omit these covariates."
            )
        return ready.copy_with(coefficients=coefficients)

    def score(self, found: Moments, response: int) -> Floats:
        """Signed scores over the present rows, from the moments of residuals; 0 for constant features."""
        r = ratio(found.products[0], np.sqrt(found.squares) * self.response_spread(found, response))
        r = np.clip(r, -self.max_score, self.max_score)
        return np.abs(r) if self.one_sided else r

    def response_spread(self, found: Moments, response: int) -> Floats:
        """Spread of a response, by which products of residuals are divided, as by that of the feature."""
        left = found.targets[0, 0]
        return np.sqrt(np.where(left > SMALLEST_RESIDUAL * found.target_squares[0], left, 0.0))

    def null(self, found: Moments, response: int) -> NullDistribution | None:
        """Distribution of the scores of features without association; None if it is not known.

        By default their squares are shares of variance, as in the t and the F test.
        """
        _, directions = found.between()
        freedom = common(found.n_rows - found.rank - directions)
        return BetaNull(freedom, common(directions), scale=common(1 / found.reduction))

    def effects(self, found: Moments, response: int) -> Floats | None:
        """Effect size of a score of 1 over the present rows, in units of scaled features."""
        return None

    def row_sizes(self) -> RowSizes | None:
        """Distance of the response from its mean, or that given the covariates, times the sample weight."""
        ready, n = self.calibrate(slice(0, len(self.y))), len(self.y)

        def distance(rows: Rows, mean: float = 0.0) -> Floats:
            return weigh(ready, ready.targets(rows)[:, 0] - mean, rows)

        mean = sum(map_rows(ready, lambda rows: float(distance(rows).sum()), slice(0, n))) / n
        return lambda rows: np.abs(distance(rows, mean))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        if self.sample_weight is not None:
            return None
        return ScoreParts(self.targets(rows)[:, :1], self.design(rows) if self.rank else None)


def map_rows(statistic: LinearStatistic, function: Callable[[Rows], R], rows: Rows) -> list[R]:
    """Apply a function to some rows at a time, in threads."""
    size = max(MIN_ROWS_AT_ONCE, CELLS_AT_ONCE // (statistic.rank + max(statistic.layout.n_targets, 1)))
    return map_in_threads(function, chunks(rows, size), 8)


def weigh(statistic: Statistic, values: Floats, rows: Rows) -> Floats:
    """Values of some rows times their sample weights."""
    weight = statistic.sample_weight
    return values if weight is None else np.asarray((values.T * weight[rows]).T)


def _columns(statistic: LinearStatistic, rows: Rows) -> tuple[Floats, Floats, Floats, Floats | None]:
    """A, B, B times the sample weights, and v of some rows."""
    B, v = statistic.targets(rows), statistic.variances(rows)
    if statistic.sample_weight is not None:
        v = statistic.sample_weight[rows] * (1.0 if v is None else v)
    return statistic.design(rows), B, weigh(statistic, B, rows), v


def rescale(statistic: L, rows: Rows) -> L:
    """Centre responses by the median of a sample, which is robust, and scale by a power of two: exact."""

    def find_ends(part: Rows) -> Floats:
        values = np.asarray(statistic.y[part], dtype=np.float64)
        return np.stack([values.min(axis=0), values.max(axis=0)])

    ends = np.concatenate(map_rows(statistic, find_ends, rows))
    sample = np.sort(np.asarray(statistic.y[spread(rows, 1001)], dtype=np.float64), axis=0)
    centre = sample[len(sample) // 2]  # np.median imports masked arrays
    reach = np.maximum(ends.max(axis=0) / 2 - centre / 2, centre / 2 - ends.min(axis=0) / 2)
    exponent = np.clip(np.frexp(np.maximum(reach, SMALLEST))[1] + 1, -1000, 1000)
    return statistic.copy_with(centre=centre, scale=np.ldexp(1.0, -exponent), coefficients=None)


def target_moments(statistic: LinearStatistic, rows: Rows, response: int = 0) -> Moments:
    """Moments of the residuals of the targets of a response over some rows, for no feature."""
    layout, n = statistic.layout, count_rows(rows)
    (summary,) = statistic.summaries(rows, np.array([0, n]))
    gram = Gram(layout, np.zeros((layout.n_lines, 0)), summary)
    return gram.moments(statistic.targets_of(response), slice(None))


def normal_responses(statistic: Statistic, rows: Rows) -> Array:
    """Which responses are known to be like normal data in these rows, so their p-values need no check."""
    weight = statistic.sample_weight
    if not isinstance(statistic, LinearStatistic) or not statistic.shares_pass or weight is not None:
        return np.zeros(statistic.n_responses, bool)

    def add_up(part: Rows) -> Floats:
        left = statistic.targets(part)
        square = np.square(left)
        pairs = (left, left), (left, square), (square, square)
        return np.stack([left.sum(axis=0), *(np.einsum("ij,ij->j", *pair) for pair in pairs)])

    return are_like_normal(count_rows(rows), np.sum(map_rows(statistic, add_up, rows), axis=0))


def influence(statistic: LinearStatistic, block: Array, rows: Rows, response: int, weights: Floats) -> Floats:
    """Squared influence of rows with sampling weights on artanh of the score of each column of a block."""
    x, y = np.asarray(block, np.float64), statistic.targets(rows)[:, response]
    if statistic.rank == 0:
        return squared_influence(x, y, weights)
    root = np.sqrt(weights)[:, None]
    Q, _ = np.linalg.qr(root * statistic.design(rows))
    both = np.column_stack([y, x])
    size = np.abs(both - both.mean(axis=0)).max(axis=0)
    both = both - Q @ (Q.T @ (root * both)) / root
    both[:, np.abs(both).max(axis=0) <= np.sqrt(statistic.layout.resolution) * size] = 0.0
    return squared_influence(both[:, 1:], both[:, 0], weights)


def squared_influence(x: Floats, y: Floats, weights: Floats) -> Floats:
    r"""Squared influence of each row on artanh(r) of each column of x, over the rows in which x is present.

    With x and y standardised, the influence is :math:`ψ / (1 - r^2)`, where
    :math:`ψ = xy - r (x^2 + y^2) / 2`. With missing values, its square is divided by the share of rows that
    are present, and 0 in the others. Rows have sampling weights. Columns that are constant or copies of y are
    NaN.
    """
    y, shares, known = y[:, None], weights[:, None] / weights.sum(), np.ones(1)
    present: Any = True
    if (absent := np.isnan(x)).any():
        present = ~absent
        x, y, shares = np.where(present, x, 0.0), np.where(present, y, 0.0), shares * present
        known = shares.sum(axis=0)
        shares /= np.where(known > 0, known, 1.0)
    x, y = (_standardise(values, shares, present) for values in (x, y))
    product = x * y
    r = np.einsum("ij,ij->j", shares, product)
    usable = (np.abs(r) < 1.0 - 1e-6) & x.any(axis=0) & y.any(axis=0)
    product -= 0.5 * r * (np.square(x) + np.square(y))
    product /= np.where(usable, (1.0 - r * r) * np.sqrt(known), np.nan)
    return np.asarray(np.square(product, out=product))


def _standardise(x: Floats, shares: Floats, present: Any) -> Floats:
    """Columns with mean 0 and mean square 1, but 0 if they are constant or where they are absent."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.einsum("ij,ij->j", shares, x)  # could overflow, as a difference could
        centred = (x - mean) * present
        reach = np.abs(centred).max(axis=0)
    varies = (reach > 1e-9 * np.abs(mean)) & (reach < np.inf)
    if not varies.all():
        centred[:, ~varies] = 0.0
    centred /= np.where(varies, reach, 1.0)
    centred /= np.sqrt(np.where(varies, np.einsum("ij,ij->j", shares, np.square(centred)), 1.0))
    return np.asarray(centred)
