"""Pearson correlation."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows, spread
from banditsis.kernels import influence
from banditsis.statistics.base import MIN_PRESENT, MomentStatistic, Weights, describe_rows_read, ratio
from banditsis.statistics.covariates import Covariates, chunks
from banditsis.statistics.null_distributions import BetaNull, NullDistribution

CELLS_AT_ONCE = 1 << 17


class Pearson(MomentStatistic):
    r"""Pearson correlation, the utility of sure independence screening [1]_.

    .. math:: r = \frac{\sum (x - \bar x)(y - \bar y)}
                       {\sqrt{\sum (x - \bar x)^2 \sum (y - \bar y)^2}}

    It comes from the sums of ``z``, ``zy`` and ``z²``. Where values are missing it is taken over the
    rows that are present and multiplied by √(present rows / rows read), since otherwise columns that are
    almost empty win by noise.

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

    def __init__(self, y: Array, pairwise: bool, centre: Floats, scale: Floats) -> None:
        self.y, self.pairwise, self.centre, self.scale = y, pairwise, centre, scale

    @classmethod
    def bind(cls, y: Array, pairwise: bool) -> Self:
        if y.dtype.kind in "OUS":
            raise ValueError(
                "statistic='pearson' needs a numeric response, got labels; use statistic='anova' for classes."
            )
        return cls(y, pairwise, np.zeros(y.shape[1]), np.ones(y.shape[1]))

    @classmethod
    def bind_partial(cls, y: Array, covariates: Covariates) -> MomentStatistic:
        from banditsis.statistics.partial import PartialPearson

        if cls is not Pearson:  # its scores are its own
            return super().bind_partial(y, covariates)
        return PartialPearson.of(cls.bind(y, False), covariates)

    def changed(self, **attributes: Any) -> Self:
        """The same statistic, but for some attributes."""
        other = copy(self)
        other.__dict__.update(attributes)
        return other

    def values(self, rows: Rows) -> Floats:
        """The responses of some rows as numbers."""
        return np.asarray(self.y[rows], dtype=np.float64)

    def calibrate(self, rows: Rows) -> Self:
        """Centre on a median of these rows, which no outlier moves, and scale by a power of two.

        The scale keeps every digit, and squares of the response away from overflow.
        """
        parts = (self.values(part) for part in chunks(rows, self._rows_at_once))
        ends = [(part.min(axis=0), part.max(axis=0)) for part in parts]
        low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)
        if (low == high).any():
            k = int(np.argmax(low == high))
            where = "" if self.n_responses == 1 else f" (response {k})"
            first, more = describe_rows_read(rows, self.y.shape[0])
            raise ValueError(
                f"y{where} is constant, {low[k]:g}, in {first}, so that no feature can be ranked by it: "
                f"check that the right column was taken as the response{more}."
            )
        centre = np.median(self.values(spread(rows, 1001)), axis=0)
        reach = np.maximum(high / 2 - centre / 2, centre / 2 - low / 2)
        exponent = np.clip(np.frexp(reach)[1] + 1, -1000, 1000)
        return self.changed(centre=centre, scale=np.ldexp(1.0, -exponent))

    @property
    def _rows_at_once(self) -> int:
        return max(1, CELLS_AT_ONCE // self.n_responses)

    def subset(self, responses: Sequence[int]) -> Self:
        k = list(responses)
        y = self.y[:, k[0] : k[-1] + 1] if k == list(range(k[0], k[-1] + 1)) else self.y[:, k]
        return self.changed(y=y, centre=self.centre[k], scale=self.scale[k])

    def lines(self, response: int) -> list[int]:
        q = self.n_responses
        lines = [0, 1 + response, 1 + q]
        return [*lines, q + 2, q + 3 + response, 2 * q + 3 + response] if self.pairwise else lines

    @property
    def n_sums(self) -> int:
        q = self.n_responses
        return 2 + q + (1 + 2 * q if self.pairwise else 0)

    def scaled(self, rows: Rows) -> Floats:
        """The responses of some rows, centred and scaled."""
        y = self.values(rows)
        return y * self.scale - self.centre * self.scale  # a difference of large values could overflow

    def weights(self, rows: Rows) -> Weights:
        return Weights(self.scaled(rows), self.pairwise)

    def summary(self, rows: Rows) -> Floats:
        total = np.zeros((3, self.n_responses))
        for part in chunks(rows, self._rows_at_once):
            y = self.scaled(part)
            total[0] += len(y)
            total[1] += y.sum(axis=0)
            total[2] += np.square(y, out=y).sum(axis=0)
        return total

    def scores(self, sums: Floats, summary: Floats, response: int, columns: Indices | slice) -> Floats:
        n_read, sy, syy = summary[:, response]
        sx, sxy, sxx, *rest = (sums[line, columns] for line in self.lines(response))
        if not self.pairwise:
            return self.standardised(n_read, sx, sxy, sxx, sy, syy, response)
        n, sy, syy = rest
        r = self.standardised(np.maximum(n, 1), sx, sxy, sxx, sy, syy, response) * np.sqrt(n / n_read)
        return np.where(n < MIN_PRESENT, 0.0, r)

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
        """Scores from the moments of n rows."""
        # Two roots, not the root of a product, which could overflow.
        spread_x = np.sqrt(np.maximum(sxx - sx * (sx / n), 0.0))
        spread_y = np.sqrt(np.maximum(syy - sy * (sy / n), 0.0))
        return np.clip(ratio(sxy - sx * (sy / n), spread_x * spread_y), -1.0, 1.0)

    def null_distribution(
        self, sums: Floats, summary: Floats, response: int, columns: Indices | slice
    ) -> NullDistribution | None:
        if type(self).scores is not Pearson.scores:  # a statistic of its own
            return None
        n, present = float(summary[0, response]), self.present(sums, columns)
        if present is None:
            return BetaNull(n - 2, 1.0)
        return BetaNull(present - 2, 1.0, np.sqrt(n / np.maximum(present, 1)))

    def drift(self, rows: Rows, n: int) -> float:
        m, sy = self.summary(rows)[:2]
        total, squares = self.summary(slice(0, n))[1:3]
        variance = squares / n - (total / n) ** 2
        error = np.sqrt(variance * (1 / m - 1 / n)) if m[0] < n else np.inf
        return float(np.max(np.abs(sy / m - total / n) / error))

    def influence(self, block: Array, rows: Rows, response: int) -> Floats | None:
        if self.pairwise:
            return None
        y = self.scaled(rows)[:, [response]]
        return self._influence(np.array(block, dtype=np.float64, order="C"), y)

    def _influence(self, x: Floats, y: Floats) -> Floats:
        """From what may be overwritten."""
        influence.standardise(y, np.empty((2, 1)))
        work, by_row = np.empty((2, x.shape[1])), np.empty(len(x))
        influence.standardise(x, work)
        count = influence.squared_influence(x, y[:, 0], work, by_row)
        return by_row if count else by_row[:0]

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        return sums[self.n_responses + 2, columns] if self.pairwise else None
