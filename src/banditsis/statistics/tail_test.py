"""The check of small p-values of one response: which features need another p-value, and by which method."""

from __future__ import annotations

import math

import numpy as np

from banditsis.core.arrays import SMALLEST, Array, Floats, rank_values, special
from banditsis.statistics.moments import whiten
from banditsis.statistics.saddlepoint import DEVIATION, TOLERANCE, Atoms, Sample, ScoreParts


class TailTest:
    """P-values of features for one response, over some rows, that do not rely on normal data."""

    def __init__(self, parts: ScoreParts) -> None:
        self.parts, self.n = parts, len(parts.residuals)
        A = parts.design
        #: the intercept and the covariates as orthonormal columns; None for an intercept alone
        self.design = None if A is None else A @ whiten(A.T @ A).T
        self.freedom = self.n - (1 if self.design is None else self.design.shape[1])
        #: None if the response is constant given the design, or not exchangeable
        exchangeable = parts.by_likelihood is None or parts.at_risk
        self.response = self._residuals(parts.residuals[:, 0]) if exchangeable else None

    @property
    def is_exempt(self) -> bool:
        """Whether the usual p-values are right for any feature: the response is like normal data.

        For ranks, whether they are right for a feature with any ties: its skewness is at most √n, and its
        kurtosis, which matters if the score is the sum, at least -2.
        """
        if self.parts.by_likelihood is not None:
            return False
        if self.response is None or self.parts.at_risk:
            return self.response is None
        if self.parts.ranks:
            kurtosis = -2.0 * self.parts.linear
            return self.response.kurtosis < 0 and self._correction(math.sqrt(self.n), kurtosis) <= TOLERANCE
        return self.response.is_like_normal

    @property
    def reason(self) -> str:
        """Why p-values are raised."""
        what = "have many equal values" if self.parts.ranks else "are skewed or heavy-tailed"
        return f"feature and response {what}"

    def log_pvalue(self, x: Array, log: float) -> float:
        """Logarithm of the p-value of a feature: the usual one, or a larger one that the data call for."""
        if self.parts.by_likelihood is not None:
            log = max(log, self.parts.by_likelihood(_to_unit(x)))
        feature = self._residuals(x)
        if feature is None or self.response is None:
            return log
        # Of the n! orders of the rows, at least two have a score as large.
        found = max(log, math.log(2) - math.lgamma(self.n + 1)) if self.parts.ranks else log
        if feature.is_like_normal and (self.response.is_like_normal or self.parts.at_risk):
            return found
        if self._correction(feature.skewness, feature.kurtosis) <= TOLERANCE and not self.parts.at_risk:
            return found
        deviation = float(feature.values @ self.response.values) / self.n * math.sqrt(self.freedom)
        if not self.parts.linear:
            deviation = -float(special.ndtri_exp(log - math.log(2)))
        return max(found, self._log_tail(feature, deviation))

    def _residuals(self, x: Array) -> Sample | None:
        """The residuals of a column, or of its ranks, given the design; None if it explains them."""
        x = _to_unit(rank_values(x) if self.parts.ranks else x)
        x -= x.mean()
        size = math.sqrt(x @ x)
        if self.design is not None:
            x -= self.design @ (self.design.T @ x)
        spread = math.sqrt(x @ x)
        return Sample(x * (math.sqrt(self.n) / spread)) if spread > 1e-9 * size else None

    def _correction(self, skewness: float, kurtosis: float) -> float:
        r"""About how much the saddlepoint changes the logarithm of a small p-value of such a feature.

        If the response is permuted, the skewness of T is :math:`γ_g γ_R / \sqrt n`, and its kurtosis differs
        from that of Student's t by :math:`κ_g κ_R / n` (Pitman 1937), which for ranks without ties is known.
        """
        assert self.response is not None
        third, fourth = skewness * self.response.skewness, kurtosis * self.response.kurtosis
        if self.parts.ranks:
            fourth = max(fourth - (1.2 * (self.n**2 + 1) / (self.n**2 - 1)) ** 2, 0.0)
        return abs(third) / math.sqrt(self.n) * DEVIATION**3 / 6 + abs(fourth) / self.n * DEVIATION**4 / 24

    def _log_tail(self, feature: Sample, deviation: float) -> float:
        """By the saddlepoint, with draws from the sample with lighter tails: of heavy ones they vary too
        much.
        """
        assert self.response is not None
        lighter, heavier = sorted((self.response, feature), key=lambda sample: sample.kurtosis)
        values, counts, span = heavier.atoms
        root = math.sqrt(self.n)
        return lighter.draws.log_pvalue(Atoms(values / root, counts, span / root), deviation)


def _to_unit(x: Array) -> Floats:
    """A column with a largest absolute value of 1, so squares stay in range."""
    x = x.astype(np.float64)
    return np.asarray(x / max(float(np.abs(x).max()), SMALLEST))
