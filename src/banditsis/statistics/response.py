"""The response side of a linear statistic as data (A, B, v).

A is an intercept and the covariates, B the targets, which are what the response asks (its values, indicators
of classes, residuals of a null model), and v the weights of rows (sample weights times the variances of a
generalised linear model). A source multiplies its cells by these columns; see
:mod:`banditsis.statistics.weights`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from banditsis.core.arrays import SMALLEST, Array, Floats, Indices, Rows, chunks, count_rows, spread, take
from banditsis.core.parallel import map_in_threads
from banditsis.statistics.base import RowSizes, Statistic, describe_response
from banditsis.statistics.covariates import CovariateError
from banditsis.statistics.moments import SMALLEST_RESIDUAL, Layout
from banditsis.statistics.saddlepoint import ScoreParts
from banditsis.statistics.shape import are_like_normal, power_sums
from banditsis.statistics.weights import WeightArrays, Weights

#: Cells of targets and covariates that stay in the cache.
CELLS_AT_ONCE, MIN_ROWS_AT_ONCE, MIN_ROWS_ALONE = 1 << 16, 1 << 7, 1 << 12
ROWS_FOR_SLOPE = 4000
R = TypeVar("R")


class LinearResponse(Statistic):
    """The columns A, B and v of responses, and sums over these alone."""

    adjusts = True
    #: Whether the last line of the sums is Σz⁴, which tells how many rows are informative.
    evidence: bool = False
    #: Whether the targets of a response are indicators of its classes; otherwise each is one target.
    one_hot: bool = False
    #: Whether the variance of the response differs between rows, in a model with covariates.
    has_variances: bool = False
    #: Coefficients of the responses on A, once they are known. Targets are residuals given these.
    coefficients: Floats | None = None

    def __init__(self, y: Array, pairwise: bool) -> None:
        self.y, self.pairwise = y, pairwise
        #: targets are ``scale · values - scale · centre``
        self.centre, self.scale = np.zeros(y.shape[1]), np.ones(y.shape[1])
        #: sums of the first four powers over all rows, once they are known
        self._powers: Floats | None = None

    @classmethod
    @abstractmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        """Validate the responses and create the statistic for them."""

    @classmethod
    def of_second_class(cls, y: Array, labels: Sequence[Sequence[Any] | Array], pairwise: bool) -> Self:
        """The statistic for the indicator of the label that sorts last, given the two of each response."""
        positive = np.array([high for _, high in labels])
        return cls(y if y.dtype.kind == "b" else y == positive, pairwise).copy_with(positive=positive)

    @property
    def shares_pass(self) -> bool:
        """Whether several responses can share one pass over the data: each is one target."""
        return not (self.one_hot or self.has_variances)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return self.n_responses

    def targets_of(self, response: int) -> Sequence[int]:
        """The targets of a response."""
        return [response] if self.shares_pass else range(self.n_targets)

    @property
    def layout(self) -> Layout:
        """Where each sum is."""
        weighted = self.has_variances or self.sample_weight is not None
        return Layout(1 + self.rank, self.n_targets, weighted, self.pairwise, self.one_hot)

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
        if v is None and self.sample_weight is not None:
            v = self.sample_weight[rows]
        elif v is not None:
            v = self.weigh(v, rows)
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
        ready = super().calibrate(rows)
        ready = ready if self.one_hot else ready.rescale(rows)
        return ready.fit(rows) if self.rank else ready

    def rescale(self, rows: Rows) -> Self:
        """Centre by the median of a sample, which is robust to outliers, and scale by a power of two.

        The scale is exact in floating point, and keeps the squares of the response from overflowing.
        """

        def find_ends(part: Rows) -> tuple[Floats, Floats]:
            values = self.values(part)
            return values.min(axis=0), values.max(axis=0)

        lows, highs = zip(*self.map_rows(find_ends, rows, MIN_ROWS_ALONE), strict=True)
        sample = np.sort(self.values(spread(rows, 1001)), axis=0)
        centre = sample[len(sample) // 2]  # np.median imports masked arrays
        reach = np.maximum(np.max(highs, axis=0) / 2 - centre / 2, centre / 2 - np.min(lows, axis=0) / 2)
        exponent = np.clip(np.frexp(np.maximum(reach, SMALLEST))[1] + 1, -1000, 1000)
        return self.copy_with(centre=centre, scale=np.ldexp(1.0, -exponent), _powers=None)

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
        return self.copy_with(coefficients=coefficients, _powers=None)

    def subset(self, responses: Sequence[int]) -> Self:
        k = list(responses)
        y = self.y[:, k[0] : k[-1] + 1] if k == list(range(k[0], k[-1] + 1)) else self.y[:, k]
        return self.copy_with(
            y=y,
            centre=self.centre[k],
            scale=self.scale[k],
            _powers=None,
            positive=None if self.positive is None else self.positive[k],
            coefficients=None if self.coefficients is None else self.coefficients[:, k],
        )

    def map_rows(self, function: Callable[[Rows], R], rows: Rows, least: int = MIN_ROWS_AT_ONCE) -> list[R]:
        """Apply a function to some rows at a time, in threads."""
        width = max(1, self.n_targets)
        min_parts = 2 if self.rank else 64 if width == 1 else 4
        return map_in_threads(function, chunks(rows, max(least, CELLS_AT_ONCE // width)), min_parts)

    def summary(self, rows: Rows) -> Floats:
        """Sums of the lines of presence over all of some rows; those of disjoint sets can be added."""
        if self.rank == 0 and not self.layout.weighted and not self.one_hot:
            return np.append(count_rows(rows), self.powers(rows, 2))
        parts = self.map_rows(lambda part: self.layout.total(*self.columns(part)), rows)
        return np.asarray(np.sum(parts, axis=0)) if parts else self.layout.total(*self.columns(rows))

    def powers(self, rows: Rows, n_powers: int) -> Floats:
        """Sums of the first powers of each target, one line for each power."""
        everything = isinstance(rows, slice) and count_rows(rows) == len(self.y)
        if everything and self._powers is not None:
            return self._powers[:n_powers]
        n_added = 4 if everything else n_powers  # those that are not asked for yet will be

        parts = self.map_rows(lambda part: power_sums(self.targets(part), n_added), rows, MIN_ROWS_ALONE)
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
        return np.stack([counts, *sums], axis=1)

    def normal_responses(self, rows: Rows) -> Array:
        if self.rank or self.one_hot or self.sample_weight is not None:
            return super().normal_responses(rows)
        return are_like_normal(count_rows(rows), self.powers(rows, 4))

    def row_sizes(self) -> RowSizes | None:
        """Distance of the response from its mean, or that given the covariates, times the sample weight."""
        everything = slice(0, len(self.y))
        ready = self.calibrate(everything)
        if self.rank:
            return RowSizes(lambda rows: ready.weigh(ready.targets(rows)[:, 0], rows))
        *_, weight, total, _ = ready.summary(everything).tolist()
        scale = float(ready.scale[0])
        mean = float(ready.centre[0]) * scale + total / weight
        if self.sample_weight is None:
            return RowSizes(lambda rows: self.values(rows)[:, 0], scale, mean)
        return RowSizes(lambda rows: self.weigh(self.values(rows)[:, 0] * scale - mean, rows))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        if self.sample_weight is not None:
            return None
        return ScoreParts(self.targets(rows)[:, :1], self.design(rows) if self.rank else None)
