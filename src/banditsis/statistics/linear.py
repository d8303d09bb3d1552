"""Linear statistics: correlation, analysis of variance and score tests as data (A, B, v).

A is an intercept and the covariates, B what the response asks (its values, indicators of classes, residuals
of a null model), and v the weights of rows (sample weights times the variances of a generalised linear
model). A source multiplies its cells by the columns of A and B and by v; see ``Weights`` in
:mod:`banditsis.statistics.weights`. The sums of [A B z] give every score, effect size, null distribution and
degree of freedom, with and without covariates, sample weights and missing cells; see
:mod:`banditsis.statistics.moments`. What differs between statistics is in
:mod:`banditsis.statistics.families` and :mod:`banditsis.statistics.glm`.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar, Self, TypeVar

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import (
    SMALLEST,
    Array,
    Floats,
    Indices,
    Rows,
    chunks,
    count_rows,
    near_zero,
    spread,
    take,
)
from banditsis.core.parallel import map_in_threads
from banditsis.statistics.base import (
    MIN_PRESENT,
    RowSizes,
    Statistic,
    check_residual_rows,
    is_mostly_missing,
    mean_drift,
    no_covariates,
    ratio,
)
from banditsis.statistics.covariates import Covariates
from banditsis.statistics.moments import (
    SMALLEST_RESIDUAL,
    Layout,
    Moments,
    complete_moments,
    present_moments,
    response_moments,
)
from banditsis.statistics.null_distributions import NullDistribution
from banditsis.statistics.regression import Explained, explain, squared_influence
from banditsis.statistics.saddlepoint import ScoreParts
from banditsis.statistics.shape import power_sums
from banditsis.statistics.weights import WeightArrays, Weights

#: Cells of targets and covariates that stay in the cache.
CELLS_AT_ONCE, MIN_ROWS_AT_ONCE, MIN_ROWS_ALONE = 1 << 16, 1 << 7, 1 << 12
#: Sums that are worth another thread.
SUMS_OF_THREAD = 1 << 18
R = TypeVar("R")
_explaining = threading.Lock()


class LinearStatistic(Statistic):
    """A statistic that is a function of sums over rows, so each round reads only its new rows.

    A subclass says which numbers the responses are (``values``), which targets these make (``targets``), and
    how moments of residuals become scores, null distributions and effect sizes.
    """

    #: Whether the last line of the sums is Σz⁴, which tells how many rows are informative.
    evidence: bool = False
    #: Whether targets are indicators of classes.
    one_hot: bool = False
    #: Scores are from minus this to this.
    max_score: ClassVar[float] = 1.0
    covariates: Covariates | None = None

    def __init__(self, y: Array, pairwise: bool) -> None:
        self.y, self.pairwise = y, pairwise
        #: targets are ``scale · values - scale · centre``
        self.centre, self.scale = np.zeros(y.shape[1]), np.ones(y.shape[1])
        #: sums of powers of the targets over all rows, once they are known
        self._powers: Floats | None = None
        #: sums, and what the covariates explain of them
        self._explained: tuple[Floats, Explained] | None = None

    @classmethod
    @abstractmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        """Validate the responses and create the statistic for them."""

    @classmethod
    def bind_partial(cls, y: Array, pairwise: bool, covariates: Covariates) -> Self:
        """As :meth:`bind`, for the partial association given the covariates."""
        bound = cls.bind(y, pairwise)
        if bound._has_own_scores:
            raise no_covariates(cls.name)
        return bound.adjust(covariates)

    def adjust(self, covariates: Covariates) -> Self:
        """The statistic given covariates."""
        return self.copy_with(covariates=covariates)

    @property
    def _has_own_scores(self) -> bool:
        """Whether a subclass computes other scores."""
        return type(self).scores is not LinearStatistic.scores

    # The response side: A, B and v.

    @property
    def shares_pass(self) -> bool:
        """Whether several responses can share one pass over the data: each is one target."""
        return True

    @property
    def shows_spread(self) -> bool:
        """Whether sums in strata of the response show how the spread of a feature depends on it."""
        return self.covariates is None

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return self.n_responses

    def targets_of(self, response: int) -> Sequence[int]:
        """The targets of a response."""
        return [response] if self.shares_pass else range(self.n_targets)

    @property
    def rank(self) -> int:
        """Number of covariates that are linearly independent of each other and an intercept."""
        return 0 if self.covariates is None else self.covariates.rank

    @property
    def min_present(self) -> int:
        return MIN_PRESENT + self.rank

    @property
    def has_variances(self) -> bool:
        """Whether the variance of the response differs between rows, in a model with covariates."""
        return False

    @property
    def layout(self) -> Layout:
        """Where each sum is."""
        weighted = self.has_variances or self.sample_weight is not None
        return Layout(1 + self.rank, self.n_targets, weighted, self.pairwise, self.one_hot)

    @property
    def n_sums(self) -> int:
        """Number of lines of the sums."""
        return self.layout.n_lines + self.evidence

    def lines(self, response: int) -> list[int]:
        """Lines of the sums that one response needs, if responses share a pass."""
        lines = self.layout.of_target(response)
        return [*lines, self.n_sums - 1] if self.evidence else lines

    def make_sums(self, n_strata: int, n_features: int) -> Floats:
        """Zeros to which a source adds, strata × lines × features, where the features are scored."""
        return np.zeros((n_strata, self.n_sums, n_features))

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
        return self.scaled(rows)

    def variances(self, rows: Rows) -> Floats | None:
        """Variances of the response in some rows, up to a factor; None if they are equal."""
        return None

    def columns(self, rows: Rows) -> tuple[Floats, Floats, Floats, Floats | None]:
        """A, B, B times the sample weights, and v of some rows."""
        B, v = self.targets(rows), self.variances(rows)
        if self.sample_weight is None:
            return self.design(rows), B, B, v
        v = self.sample_weight[rows] if v is None else self.weigh(v, rows)
        return self.design(rows), B, self.weigh(B, rows), v

    def weights(self, rows: Rows) -> Weights:
        """Weights of some rows, which are computed when they are used."""
        layout = self.layout
        n_presence = layout.n_lines - layout.n_rows if self.pairwise else 0
        n_linear = self.rank + self.n_targets
        return Weights(rows, self._weight_arrays, n_linear, layout.weighted, n_presence, self.evidence)

    def _weight_arrays(self, rows: Rows) -> WeightArrays:
        A, B, weighted, v = self.columns(rows)
        presence = self.layout.presence(A, B, weighted, v) if self.pairwise else None
        if self.rank:
            weighted = np.column_stack([A[:, 1:] if v is None else A[:, 1:] * v[:, None], weighted])
        return weighted, v, presence

    def calibrate(self, rows: Rows) -> Self:
        """Centre by the median of a sample, which is robust to outliers, and scale by a power of two.

        The scale is exact in floating point, and keeps the squares of the response from overflowing.
        """
        if self.covariates is not None:
            check_residual_rows(rows, self.rank, len(self.y))
        low, high = self.find_ends(rows)
        if (low == high).any():
            k = int(np.argmax(low == high))
            raise self.constant_response(k, self.y[rows][0, k])
        sample = np.sort(self.values(spread(rows, 1001)), axis=0)
        centre = sample[len(sample) // 2]  # np.median imports masked arrays
        reach = np.maximum(np.maximum(high / 2 - centre / 2, centre / 2 - low / 2), SMALLEST)
        exponent = np.clip(np.frexp(reach)[1] + 1, -1000, 1000)
        return self.copy_with(centre=centre, scale=np.ldexp(1.0, -exponent), _powers=None)

    def find_ends(self, rows: Rows) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each response."""

        def find(part: Rows) -> tuple[Floats, Floats]:
            values = self.values(part)
            return values.min(axis=0), values.max(axis=0)

        low, high = zip(*self.map_rows(find, rows, MIN_ROWS_ALONE), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def subset(self, responses: Sequence[int]) -> Self:
        k = list(responses)
        y = self.y[:, k[0] : k[-1] + 1] if k == list(range(k[0], k[-1] + 1)) else self.y[:, k]
        positive = None if self.positive is None else self.positive[k]
        return self.copy_with(
            y=y, centre=self.centre[k], scale=self.scale[k], positive=positive, _powers=None, _explained=None
        )

    def map_rows(self, function: Callable[[Rows], R], rows: Rows, least: int = MIN_ROWS_AT_ONCE) -> list[R]:
        """Apply a function to some rows at a time, in threads."""
        width = max(1, self.n_targets)
        min_parts = 2 if self.rank else 64 if width == 1 else 4
        return map_in_threads(function, chunks(rows, max(least, CELLS_AT_ONCE // width)), min_parts)

    # Sums over the responses alone.

    def summary(self, rows: Rows) -> Floats:
        """Lines n, AᵀvA, AᵀB, Σb², one column for each target; n and AᵀvA are the same in all columns.

        Of AᵀvA there is the upper triangle. Summaries of disjoint sets of rows can be added.
        """
        if self.rank == 0 and not self.layout.weighted and not self.one_hot:
            n = np.full(self.n_targets, count_rows(rows))
            return np.vstack([n, n, self.powers(rows, 2)])
        triangle = np.triu_indices(self.layout.n_design)

        def add_up(part: Rows) -> Floats:
            A, B, weighted, v = self.columns(part)
            gram = (A.T @ (A if v is None else A * v[:, None]))[triangle]
            same = np.repeat(np.append(len(A), gram)[:, None], B.shape[1], axis=1)
            return np.vstack([same, A.T @ weighted, np.einsum("ij,ij->j", weighted, B)])

        zeros = np.zeros((2 + self.layout.n_pairs + self.layout.n_design, self.n_targets))
        return np.asarray(sum(self.map_rows(add_up, rows), zeros))

    def powers(self, rows: Rows, n_powers: int) -> Floats:
        """Sums of the first powers of each target, one line for each power."""
        everything = isinstance(rows, slice) and count_rows(rows) == len(self.y)
        if everything and self._powers is not None:
            return self._powers[:n_powers]
        n_added = 4 if everything else n_powers  # those that are not asked for yet will be

        def add_up(part: Rows) -> Floats:
            if self.n_responses > 1 or self.rank or not kernels.are_loaded():
                return power_sums(self.targets(part), n_added)
            y, sums = np.ascontiguousarray(self.values(part)[:, 0]), np.empty(5)
            kernels.shape.power_sums(y, y, self.scale[0], self.centre[0] * self.scale[0], sums)
            return sums[:n_added, None]

        parts = self.map_rows(add_up, rows, MIN_ROWS_ALONE)
        found = np.asarray(np.sum([np.zeros((n_added, self.n_responses)), *parts], axis=0))
        self._powers = found if everything else self._powers
        return found[:n_powers]

    def summaries(self, rows: Rows, edges: Indices) -> Floats:
        """The summary of each group of rows, which end at the next edge."""
        groups = [take(rows, start, stop) for start, stop in pairwise(edges.tolist())]
        plain = self.rank == 0 and not self.layout.weighted and not self.one_hot
        if len(groups) == 1 or self.n_responses > 1 or not plain:
            return np.stack([self.summary(group) for group in groups])
        y, counts = self.scaled(rows)[:, 0], np.diff(edges)
        codes = np.repeat(np.arange(len(groups)), counts)
        sums = [np.bincount(codes, weights, len(groups)) for weights in (y, np.square(y))]
        return np.stack([counts, counts, *sums], axis=1)[:, :, None]

    def gram(self, summary: Floats, targets: Sequence[int]) -> Floats:
        """The Gram matrix of [A B] for some targets of a response, whose products with each other are 0."""
        a, t = self.layout.n_design, len(targets)
        end = 1 + self.layout.n_pairs
        matrix = np.zeros((a + t, a + t))
        matrix[np.triu_indices(a)] = summary[1:end, targets[0]]
        matrix[:a, a:] = summary[end : end + a, targets]
        matrix = np.triu(matrix, 1) + matrix.T
        matrix[np.arange(a, a + t), np.arange(a, a + t)] = summary[end + a, targets]
        return matrix

    # Scores.

    def find_nonfinite(self, sums: Floats) -> Indices:
        """Positions of the features whose sums are not finite, except those of fourth powers."""
        sums = sums[: len(sums) - self.evidence]
        n_lines = 1 + SUMS_OF_THREAD // sums.shape[1]

        def add_up(start: int) -> float:
            with np.errstate(over="ignore", invalid="ignore"):
                return float(sums[start : start + n_lines].sum())

        if np.isfinite(sum(map_in_threads(add_up, range(0, len(sums), n_lines)))):
            return np.arange(0)
        return np.flatnonzero(~np.isfinite(sums).all(axis=0))

    def scores_at_once(self, sums: Floats) -> int:
        """How many features to score at once: as many as fit in the cache."""
        return 1 << 15

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        """Number of rows in which each column is present, or None if no cell can be missing."""
        return sums[self.layout.n_rows, columns] if self.pairwise else None

    def has_missing(self, sums: Floats, summary: Floats, columns: Indices | slice) -> bool:
        """Whether some columns have missing values; otherwise the sums over all rows are enough."""
        present = self.present(sums, columns)
        return present is not None and bool((present != summary[0, 0]).any())

    def moments(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Moments:
        """Moments of the residuals of a response and some columns given the design."""
        targets, layout = self.targets_of(response), self.layout
        gram = self.gram(summary, targets)
        if self.has_missing(sums, summary, columns):
            total = np.diag(gram)[: layout.n_design]
            return present_moments(sums, layout, targets, columns, total, self.resolution)
        given = np.stack([sums[layout.n_design + target, columns] for target in targets])
        return complete_moments(self.explain(sums, summary, columns), given, float(summary[0, 0]), gram)

    @property
    def resolution(self) -> float:
        """A feature whose residual variance given the covariates is a smaller share depends on them alone."""
        return 0.0 if self.covariates is None else self.covariates.resolution

    def explain(self, sums: Floats, summary: Floats, columns: Indices | slice) -> Explained:
        """What the design explains of some columns without missing values.

        Responses that share a pass share what the covariates explain of all columns.
        """
        if self.rank == 0 or self.n_targets == len(self.targets_of(0)):
            return self._explain(sums, summary, columns)
        with _explaining:
            if self._explained is None or self._explained[0] is not sums:
                self._explained = sums, self._explain(sums, summary, slice(None))
        return self._explained[1].take(columns)

    def _explain(self, sums: Floats, summary: Floats, columns: Indices | slice) -> Explained:
        a, squares = self.layout.n_design, sums[self.layout.squares, columns]
        given = np.stack([sums[line, columns] for line in range(a)])
        return explain(given, squares, self.gram(summary, [0])[:a, :a], self.resolution)

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        """Signed scores of some columns of the sums for one response; a constant feature scores 0."""
        if len(self.targets_of(response)) == 1 and not self.has_missing(sums, summary, columns):
            return self._complete_scores(sums, summary, response, columns)
        found, n = self.moments(sums, summary, response, columns), float(summary[0, 0])
        scores = self.score(found, summary, response)
        few = is_mostly_missing(np.asarray(found.n_rows), n, self.min_present)
        return np.where(few, 0.0, scores * np.sqrt(found.n_rows / n))

    def _complete_scores(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> Floats:
        """Scores of columns without missing values for a single target."""
        if self.rank or not kernels.are_loaded():
            return self.score(self.moments(sums, summary, response, columns), summary, response)
        (target,) = self.targets_of(response)
        n, gram = float(summary[0, 0]), self.gram(summary, [target])
        spread = float(self.response_spread(response_moments(n, gram, 1), summary, response))
        given = [sums[line, columns] for line in (0, 1 + target, self.layout.squares)]
        r = np.empty_like(given[0])
        kernels.scores.correlate(*given, gram[0, 0], gram[0, 1], spread, self.max_score, r)
        return np.abs(r, out=r) if self.one_sided else r

    def score(self, found: Moments, summary: Floats, response: int) -> Floats:
        """Scores over the present rows, from the moments of residuals."""
        spread = np.sqrt(found.squares) * self.response_spread(found, summary, response)
        return np.clip(ratio(found.products[0], spread), -self.max_score, self.max_score)

    def response_spread(self, found: Moments, summary: Floats, response: int) -> float | Floats:
        """Spread of a response, by which products of residuals are divided, as by that of the feature."""
        left = found.targets[0, 0]
        return np.sqrt(np.where(left > SMALLEST_RESIDUAL * found.target_squares[0], left, 0.0))

    @abstractmethod
    def null(self, found: Moments, summary: Floats, response: int) -> NullDistribution | None:
        """Distribution of the scores of features without association, given the moments of residuals."""

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        """Distribution of the scores of features without association, or None if it is not known."""
        if self._has_own_scores:
            return None
        if not self.has_missing(sums, summary, columns):  # which is the same for all features
            columns = slice(0, 0)
        return self.null(self.moments(sums, summary, response, columns), summary, response)

    def effects(self, found: Moments, summary: Floats, response: int) -> Floats | None:
        """Effect size of a score of 1 over the present rows, in units of scaled features."""
        return None

    def effect_factors(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        """Factors that turn the scores of some columns into effect sizes, or None if there are none.

        ``scale`` is that of the columns: the sums are of ``z = scale · x - shift``. The factor is 0 or NaN
        for a feature without an effect size, such as a constant one.
        """
        if self._has_own_scores:
            return None
        found = self.moments(sums, summary, response, columns)
        factors = self.effects(found, summary, response)
        if factors is None:
            return None
        factors = factors / scale if self.one_sided else factors * scale
        # Scores were multiplied by the root of the share of rows that are present.
        return np.asarray(factors * np.sqrt(summary[0, 0] / np.maximum(found.n_rows, 1)))

    def missingness(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> tuple[Floats, Array] | None:
        """Correlation of the response with the presence of each column, and where present rows are alike.

        Present rows are alike if the response is constant among them. None if this is not known.
        """
        if not self.pairwise or self.rank:
            return None
        layout, targets, n = self.layout, self.targets_of(response), float(summary[0, 0])
        # The presence of a feature is a feature, whose sums are those of presence.
        start = layout.n_rows + layout.weighted
        lines = [start, *layout.crossed(targets)[0].tolist()]
        given = sums[[*lines, start]][:, columns]
        gram = self.gram(summary, targets)
        presence = complete_moments(explain(given[:1], given[-1], gram[:1, :1], 0.0), given[1:-1], n, gram)
        between, _ = presence.between()
        r = np.sqrt(np.clip(ratio(between, presence.squares), 0.0, 1.0))
        if len(targets) == 1 and not self.one_sided:
            r = np.where(presence.products[0] < 0, -r, r)
        found = present_moments(sums, layout, targets, columns, gram[:1, 0], 0.0)
        least = 1e-9 * presence.targets[range(len(targets)), range(len(targets))] / n
        left = found.targets[range(len(targets)), range(len(targets))]
        return r, np.asarray((left <= least[:, None] * found.weight).all(axis=0))

    # How much each row says, and whether responses are like normal data.

    def with_evidence(self) -> Self:
        """The statistic with Σz⁴ as last line of the sums, if scores are correlations; else itself."""
        known = self.is_correlation and not (self.pairwise and self.rank)
        return self.copy_with(evidence=True) if known else self

    def squares(self, sums: Floats, summary: Floats, columns: Indices | slice) -> Floats:
        """Sums of squares about the mean of some columns, or of their residuals; for correlations."""
        if self.rank:
            return self.explain(sums, summary, columns).squares
        present = self.present(sums, columns)
        n = summary[0, 0] if present is None else np.maximum(present, 1.0)
        sx, sxx = sums[0, columns], sums[self.layout.squares, columns]
        return np.asarray(np.maximum(sxx - sx * (sx / n), 0.0))

    def inflation(
        self,
        strata: Floats,
        per_row: Floats,
        counts: Indices,
        sums: Floats,
        summary: Floats,
        columns: Indices | slice,
    ) -> Floats:
        """Variance inflation of some columns whose spread depends on the response, if the sums show it.

        ``strata`` are the sums of each stratum, ``per_row`` the share of the variance that each of its rows
        stands for, and ``counts`` its rows; ``sums`` and ``summary`` are over all strata.
        """
        n, present = float(counts.sum()), self.present(sums, columns)

        def add_up(line: int) -> Floats:
            return np.asarray(np.einsum("h,hj->j", per_row, strata[:, line, columns]))

        mean = sums[0, columns] / (n if present is None else np.maximum(present, 1.0))
        weight = per_row @ counts if present is None else add_up(self.layout.n_rows)
        squares = add_up(self.layout.squares) - mean * (2 * add_up(0) - mean * weight)
        return ratio(n * squares, self.squares(sums, summary, columns))

    def drift(self, rows: Rows, n: int) -> float:
        alone = (self.subset([k]) for k in range(self.n_responses))
        return max(mean_drift(one.targets(slice(0, n)), rows) for one in alone)

    def row_sizes(self) -> RowSizes | None:
        """Distance of the response from its mean, or that given the covariates, times the sample weight."""
        everything = slice(0, len(self.y))
        ready = self.calibrate(everything)
        if self.rank:
            return RowSizes(lambda rows: ready.weigh(ready.targets(rows)[:, 0], rows))
        gram = ready.gram(ready.summary(everything), [0])
        scale = float(ready.scale[0])
        mean = float(ready.centre[0] * scale + gram[0, 1] / gram[0, 0])
        if self.sample_weight is None:
            return RowSizes(lambda rows: self.values(rows)[:, 0], scale, mean)
        return RowSizes(lambda rows: self.weigh(self.values(rows)[:, 0] * scale - mean, rows))

    def influence(self, block: Array, rows: Rows, response: int, weights: Floats) -> Floats | None:
        x, y = np.asarray(near_zero(block), np.float64), self.scaled(rows)[:, response]
        if self.rank == 0:
            return squared_influence(x, y, weights)
        if self.pairwise:
            return None
        root = np.sqrt(weights)[:, None]
        Q, _ = np.linalg.qr(root * self.design(rows))
        both = np.column_stack([y, x])
        size = np.abs(both - both.mean(axis=0)).max(axis=0)
        both = both - Q @ (Q.T @ (root * both)) / root
        both[:, np.abs(both).max(axis=0) <= np.sqrt(self.resolution) * size] = 0.0
        return squared_influence(both[:, 1:], both[:, 0], weights)

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        if self.sample_weight is not None:
            return None
        return ScoreParts(self.targets(rows)[:, :1], self.design(rows) if self.rank else None)
