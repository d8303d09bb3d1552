"""Pearson correlation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import (
    SMALLEST,
    Array,
    Floats,
    Indices,
    Rows,
    as_indices,
    chunks,
    count_rows,
    near_zero,
    spread,
)
from banditsis.core.parallel import map_in_threads
from banditsis.core.validation import distinct_values
from banditsis.statistics.base import (
    MomentStatistic,
    RowSizes,
    Weights,
    is_mostly_missing,
    mean_drift,
    ratio,
)
from banditsis.statistics.covariates import Covariates
from banditsis.statistics.null_distributions import BetaNull, NullDistribution
from banditsis.statistics.partial import PartialPearson
from banditsis.statistics.regression import squared_influence
from banditsis.statistics.saddlepoint import ScoreParts
from banditsis.statistics.shape import are_like_normal, power_sums

CELLS_AT_ONCE, MIN_ROWS_AT_ONCE = 1 << 16, 1 << 12


class Pearson(MomentStatistic):
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
    shares_pass = True
    is_correlation = True
    shows_spread = True
    max_score: ClassVar[float] = 1.0

    def __init__(self, y: Array, pairwise: bool) -> None:
        self.y, self.pairwise = y, pairwise
        self.centre, self.scale = np.zeros(y.shape[1]), np.ones(y.shape[1])
        #: sums of powers over all rows, once they are known
        self._powers: Floats | None = None

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

    @classmethod
    def bind_partial(cls, y: Array, pairwise: bool, covariates: Covariates) -> MomentStatistic:
        if cls is not Pearson:  # a subclass with its own scores
            return super().bind_partial(y, pairwise, covariates)
        return PartialPearson(cls.bind(y, pairwise), covariates)

    def calibrate(self, rows: Rows) -> Self:
        """Centre by the median of a sample, which is robust to outliers, and scale by a power of two.

        The scale is exact in floating point, and keeps the squares of the response from overflowing.
        """
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

        min_parts = 64 if self.n_responses == 1 else 4
        low, high = zip(*map_in_threads(find, chunks(rows, self._rows_at_once), min_parts), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def subset(self, responses: Sequence[int]) -> Self:
        k = list(responses)
        y = self.y[:, k[0] : k[-1] + 1] if k == list(range(k[0], k[-1] + 1)) else self.y[:, k]
        positive = None if self.positive is None else self.positive[k]
        return self.copy_with(
            y=y, centre=self.centre[k], scale=self.scale[k], positive=positive, _powers=None
        )

    @property
    def n_linear(self) -> int:
        """Number of linear weights: each y; with sample weights each wy, w and, if ``pairwise``, each wy²."""
        q = self.n_responses
        return q if self.sample_weight is None else 1 + (2 * q if self.pairwise else q)

    @property
    def n_sums(self) -> int:
        return 2 + self.n_linear + (1 + 2 * self.n_linear if self.pairwise else 0) + self.evidence

    def lines(self, response: int) -> list[int]:
        q, k = self.n_responses, self.n_linear
        linear = [response]
        if self.sample_weight is not None:
            linear += [q, q + 1 + response] if self.pairwise else [q]
        lines = [0, *(1 + column for column in linear), 1 + k]
        if self.pairwise:
            lines += [
                k + 2,
                *(k + 3 + column for column in linear),
                *(2 * k + 3 + column for column in linear),
            ]
        return [*lines, self.n_sums - 1] if self.evidence else lines

    def moments(self, sums: Floats, response: int, columns: Indices | slice) -> list[Floats]:
        """Σz, Σzy, Σz²; if ``pairwise`` also n, Σy, Σy² of the present rows; all times the sample weights."""
        q, k = self.n_responses, self.n_linear
        if self.sample_weight is None:
            lines = self.lines(response)[: 6 if self.pairwise else 3]
        else:
            present = [k + 3 + q, k + 3 + response, k + 3 + q + 1 + response] if self.pairwise else []
            lines = [1 + q, 1 + response, 1 + k, *present]
        return [sums[line, columns] for line in lines]

    def values(self, rows: Rows) -> Floats:
        """Responses of some rows as numbers."""
        return np.asarray(self.y[rows], dtype=np.float64)

    def scaled(self, rows: Rows) -> Floats:
        """Responses of some rows, centred and scaled."""
        y = self.values(rows) * self.scale
        y -= self.centre * self.scale  # the difference of large values could overflow
        return y

    @property
    def _rows_at_once(self) -> int:
        return max(MIN_ROWS_AT_ONCE, CELLS_AT_ONCE // self.n_responses)

    def weights(self, rows: Rows) -> Weights:
        y = self.scaled(rows)
        if self.sample_weight is None:
            return Weights(y, self.pairwise, fourth=self.evidence)
        w = self.sample_weight[rows]
        linear = [self.weigh(y, rows), w, *([self.weigh(np.square(y), rows)] if self.pairwise else [])]
        return Weights(np.column_stack(linear), self.pairwise, square=w)

    def summary(self, rows: Rows) -> Floats:
        """Lines n, Σy, Σy²; one column for each response. With sample weights w: Σw, Σwy, Σwy², n."""
        total = np.zeros((3 if self.sample_weight is None else 4, self.n_responses))
        if self.sample_weight is not None:
            for part in chunks(rows, self._rows_at_once):
                y, w = self.scaled(part), self.sample_weight[part]
                total += [np.full(y.shape[1], w.sum()), w @ y, w @ np.square(y), np.full(y.shape[1], len(y))]
            return total

        return np.vstack([np.full(self.n_responses, count_rows(rows)), self.powers(rows, 2)])

    def powers(self, rows: Rows, n_powers: int) -> Floats:
        """Sums of the first powers of each scaled response, one line for each power."""

        everything = isinstance(rows, slice) and count_rows(rows) == len(self.y)
        if everything and self._powers is not None:
            return self._powers[:n_powers]
        n_added = 4 if everything else n_powers  # those that are not asked for yet will be

        def add_up(part: Rows) -> Floats:
            if self.n_responses > 1 or not kernels.are_loaded():
                return power_sums(self.scaled(part), n_added)
            y, sums = np.ascontiguousarray(self.values(part)[:, 0]), np.empty(5)
            kernels.shape.power_sums(y, y, self.scale[0], self.centre[0] * self.scale[0], sums)
            return sums[:n_added, None]

        min_parts = 64 if self.n_responses == 1 else 4
        parts = map_in_threads(add_up, chunks(rows, self._rows_at_once), min_parts)
        found = np.asarray(np.sum([np.zeros((n_added, self.n_responses)), *parts], axis=0))
        self._powers = found if everything else self._powers
        return found[:n_powers]

    def summaries(self, strata: Sequence[Rows]) -> Floats:
        if len(strata) == 1 or self.n_responses > 1 or self.sample_weight is not None:
            return super().summaries(strata)
        y = self.scaled(np.concatenate([as_indices(rows) for rows in strata]))[:, 0]
        counts = np.array([count_rows(rows) for rows in strata])
        codes = np.repeat(np.arange(len(strata)), counts)
        sums = [np.bincount(codes, weights, len(strata)) for weights in (y, np.square(y))]
        return np.stack([counts, *sums], axis=1)[:, :, None]

    @property
    def _has_own_scores(self) -> bool:
        """Whether a subclass computes other scores."""
        return type(self).scores is not Pearson.scores

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        if not self.pairwise and kernels.are_loaded():
            moments, (n, sy, syy) = self.moments(sums, response, columns), summary[:3, response]
            spread, r = float(self.response_spread(n, sy, syy, response)), np.empty_like(moments[0])
            kernels.scores.correlate(*moments, n, sy, spread, self.max_score, r)
            return r
        _, product, spread_x, spread_y = self._centred(sums, summary, response, columns)
        r = np.clip(ratio(product, spread_x * spread_y), -self.max_score, self.max_score)
        n_present, n_read = self.present(sums, columns), self.n_rows(summary, response)
        if n_present is None:
            return r
        return np.where(is_mostly_missing(n_present, n_read), 0.0, r * np.sqrt(n_present / n_read))

    def _centred(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> tuple[float | Floats, Floats, Floats, float | Floats]:
        """Rows or their weight, Σ(z - z̄)(y - ȳ), √Σ(z - z̄)², and the spread of the scaled response."""
        n, sy, syy = summary[:3, response]
        sx, sxy, sxx, *presence = self.moments(sums, response, columns)
        if self.pairwise:
            n, sy, syy = presence
            n = np.where(n > 0, n, 1.0)
        spread_x = np.sqrt(np.maximum(sxx - sx * (sx / n), 0.0))
        return n, sxy - sx * (sy / n), spread_x, self.response_spread(n, sy, syy, response)

    def effect_factors(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice, scale: Floats
    ) -> Floats | None:
        if self._has_own_scores:
            return None
        n, _, spread_x, spread_y = self._centred(sums, summary, response, columns)
        factors = self.effect_factor(n, spread_x / scale, spread_y / self.scale[response])
        return factors * self._inverse_share(sums, summary, response, columns)

    def effect_factor(self, n: float | Floats, spread_x: Floats, spread_y: float | Floats) -> Floats:
        """Effect size of a score of 1; the spreads are in the units of feature and response."""
        return ratio(np.broadcast_to(spread_y, spread_x.shape), spread_x)

    def _inverse_share(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> float | Floats:
        """√(rows read / present rows), which undoes the reduction of scores for missing values."""
        present = self.present(sums, columns)
        return 1.0 if present is None else np.sqrt(self.n_rows(summary, response) / np.maximum(present, 1))

    def squares(self, sums: Floats, summary: Floats, columns: Indices | slice) -> Floats:
        sx, sxx, present = sums[0, columns], sums[1 + self.n_responses, columns], self.present(sums, columns)
        n = summary[0, 0] if present is None else np.maximum(present, 1.0)
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
        n, present = float(counts.sum()), self.present(sums, columns)

        def add_up(line: int) -> Floats:
            return np.asarray(np.einsum("h,hj->j", per_row, strata[:, line, columns]))

        mean = sums[0, columns] / (n if present is None else np.maximum(present, 1.0))
        weight = per_row @ counts if present is None else add_up(self.n_linear + 2)
        squares = add_up(1 + self.n_linear) - mean * (2 * add_up(0) - mean * weight)
        return ratio(n * squares, self.squares(sums, summary, columns))

    def deviations(self, rows: Rows) -> Floats:
        return self.scaled(rows)

    def response_spread(
        self, n: float | Floats, sy: float | Floats, syy: float | Floats, response: int
    ) -> float | Floats:
        """√Σ(y - ȳ)² of n scaled responses, by which covariances are divided."""
        return np.sqrt(np.maximum(syy - sy * (sy / n), 0.0))

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        if self._has_own_scores:
            return None
        return self.student_null(sums, summary, response, columns)

    def student_null(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution:
        """Student's t distribution, for the rows in which a feature is present."""
        n, present = self.n_rows(summary, response), self.present(sums, columns)
        if present is None or (present == n).all():
            return BetaNull(n - 2)
        return BetaNull(present - 2, scale=np.sqrt(n / np.maximum(present, 1)))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        return None if self.sample_weight is not None else ScoreParts(self.scaled(rows)[:, :1])

    def normal_responses(self, rows: Rows) -> Array:
        if self.sample_weight is not None or self._has_own_scores:
            return super().normal_responses(rows)
        return are_like_normal(count_rows(rows), self.powers(rows, 4))

    def n_rows(self, summary: Floats, response: int) -> float:
        """Number of rows read."""
        return float(summary[0 if self.sample_weight is None else 3, response])

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        return sums[self.n_linear + 2, columns] if self.pairwise else None

    def missingness(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> tuple[Floats, Array] | None:
        if not self.pairwise:
            return None
        (n, sy, syy), (m, my, myy) = summary[:3, response], self.moments(sums, response, columns)[3:]
        spread = max(syy - sy * (sy / n), 0.0)
        r = ratio(my - m * (sy / n), np.sqrt(np.maximum(m - m * (m / n), 0.0) * spread))
        return np.clip(r, -1.0, 1.0), myy - my * ratio(my, m) <= 1e-9 * (spread / n) * m

    def drift(self, rows: Rows, n: int) -> float:
        alone = (self.subset([k]) for k in range(self.n_responses))
        return max(mean_drift(one.scaled(slice(0, n)), rows) for one in alone)

    def row_sizes(self) -> RowSizes | None:
        """Distance of the response from its mean, times the sample weight."""
        everything = slice(0, len(self.y))
        ready = self.calibrate(everything)
        total, weight = ready.summary(everything)[1::-1, 0]
        scale, mean = float(ready.scale[0]), float(ready.centre[0] * ready.scale[0] + total / weight)
        if self.sample_weight is None:
            return RowSizes(lambda rows: self.values(rows)[:, 0], scale, mean)
        return RowSizes(lambda rows: self.weigh(self.values(rows)[:, 0] * scale - mean, rows))

    def influence(self, block: Array, rows: Rows, response: int, weights: Floats) -> Floats | None:
        x, y = np.asarray(near_zero(block), np.float64), self.scaled(rows)[:, response]
        return squared_influence(x, y, weights)
