"""Null distributions: p-values of scores. They are kept as logarithms, because many are below 1e-308."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, special
from banditsis.core.parallel import map_in_threads
from banditsis.core.validation import check_choice, check_real

#: Smaller p-values are computed as an upper tail, and those below the second limit by their logarithm.
SMALL, TINY = 1e-3, 1e-250
#: Nodes and weights of Gauss-Laguerre quadrature.
LAGUERRE = np.polynomial.laguerre.laggauss(4)
#: Of a continued fraction that has full precision below ``TINY``.
FRACTION_LEVELS = 60
#: P-values that a thread computes at once.
PVALUES_AT_ONCE = 1 << 14


class NullDistribution(ABC):
    """Distribution of the scores of features without association with the response."""

    @abstractmethod
    def log10_pvalues(self, scores: Floats) -> Floats:
        """Decimal logarithms of the p-values of the scores of all features."""

    def candidates(self, scores: Floats, level: float) -> Array:
        """Which features may have a p-value up to ``level``, or none; p-values of others are not needed."""
        return np.ones(len(scores), bool)

    def take(self, features: Indices) -> Self:
        """The distribution of the scores of some of the features; an array has a value for each of them."""
        other = copy(self)
        other.__dict__.update({k: v[features] for k, v in vars(self).items() if np.ndim(v) > 0})
        return other

    def standard_errors(self, scores: Floats) -> Floats:
        """Standard error of each score, so score / error is the t or z of the test; NaN if there is none."""
        return np.full(scores.shape, np.nan)


@dataclass(frozen=True, eq=False)
class BetaNull(NullDistribution):
    r"""Null distribution of a score whose square is a share of variance: Student's t and the F test.

    With normal errors, :math:`s^2 \sim \mathrm{Beta}(b / 2, a / 2)`; with b = 1 this is the two-sided t test
    of a correlation.

    Parameters
    ----------
    residual, between : float or ndarray
        Degrees of freedom a and b. A feature without residual degrees of freedom has p-value 1.
    scale : float or ndarray
        Factor by which scores are multiplied first.

    Examples
    --------
    >>> import numpy as np
    >>> BetaNull(98.0, 1.0).log10_pvalues(np.array([0.0, 0.2, -0.9999])).round(3)
    array([   0.   ,   -1.337, -182.345])
    """

    residual: float | Floats
    between: float | Floats = 1.0
    scale: float | Floats = 1.0

    def standard_errors(self, scores: Floats) -> Floats:
        unexplained = np.maximum(1 - np.square(scores * self.scale), 0.0)
        known = np.greater(self.residual, 0) & np.equal(self.between, 1)
        variance = unexplained / np.where(known, self.residual, np.nan)
        return np.asarray(np.sqrt(variance) / self.scale)

    def candidates(self, scores: Floats, level: float) -> Array:
        if np.ndim(self.residual) or np.ndim(self.between) or np.ndim(self.scale):
            return super().candidates(scores, level)
        share = special.betainccinv(np.divide(self.between, 2), np.divide(self.residual, 2), level)
        limit = (1 - 1e-9) * np.sqrt(share) / self.scale
        return np.asarray(~(np.abs(scores) < limit))

    def log10_pvalues(self, scores: Floats) -> Floats:
        share = np.minimum(np.square(scores * self.scale), 1.0)
        a, b = (np.broadcast_to(np.divide(f, 2.0), share.shape) for f in (self.residual, self.between))
        log = np.where(np.isnan(share), np.nan, 0.0)
        known = np.flatnonzero((a > 0) & (b > 0) & (share > 0))

        def fill(start: int) -> None:
            some = known[start : start + PVALUES_AT_ONCE]
            (residual, between), s = (f[some] for f in (a, b)), share[some]
            with np.errstate(divide="ignore"):
                tail = np.asarray(np.log1p(-special.betainc(between, residual, s)))
                small = tail < np.log(SMALL)  # the difference from 1 has too few digits
                tail[small] = np.log(special.betainc(residual[small], between[small], 1.0 - s[small]))
            tiny = (tail < np.log(TINY)) & (s < 1)
            tail[tiny] = _log_far_tail(residual[tiny], between[tiny], s[tiny])
            log[some] = tail

        map_in_threads(fill, range(0, known.size, PVALUES_AT_ONCE))
        return np.asarray(log / np.log(10))


def permutation_null(n: Any) -> BetaNull:
    """Null of Spearman's ρ over all orders of n rows without ties: a symmetric beta distribution.

    Its variance is 1 / (n - 1), and its kurtosis is that of ρ (Kendall and Gibbons 1990).
    """
    residual = 6 * 25 * n * (n**2 - 1) / (3 * (38 * n**2 + 10 * n - 72)) - 3
    return BetaNull(residual, scale=np.sqrt((n - 1) / (residual + 1)))


def _log_far_tail(a: Floats, b: Floats, share: Floats) -> Floats:
    r"""Logarithm of :math:`I_{1-s}(a, b)` in the far tail, with :math:`x = 1 - s`, as

    .. math:: \frac{x^a s^{b-1}}{a B(a, b)}
              \int_0^\infty e^{-τ} \Big(1 + \frac xs (1 - e^{-τ/a})\Big)^{b-1} dτ

    The last factor is close to an exponential function, which joins :math:`e^{-τ}`; for the rest
    Gauss-Laguerre quadrature with four nodes has full precision.
    """
    odds = (1.0 - share) / share
    slope = (b - 1.0) * odds / a
    rate, total = 1.0 - slope, np.zeros_like(share)
    for node, weight in zip(*LAGUERRE, strict=True):
        time = node / rate
        total += weight * np.exp((b - 1.0) * np.log1p(-odds * np.expm1(-time / a)) - slope * time)
    front = a * np.log1p(-share) + (b - 1.0) * np.log(share) - np.log(a) - special.betaln(a, b)
    return np.asarray(front + np.log(total / rate))


@dataclass(frozen=True, eq=False)
class NormalNull(NullDistribution):
    r"""Normal null distribution: :math:`p = 2 Φ(-|z|)`, the χ² test with 1 degree of freedom.

    Parameters
    ----------
    scale : float or ndarray
        Factor that makes scores standard normal: z = scale × score.

    Examples
    --------
    >>> import numpy as np
    >>> NormalNull(10.0).log10_pvalues(np.array([0.0, 0.196, 5.0])).round(1)
    array([   0. ,   -1.3, -544.7])
    """

    scale: float | Floats

    def standard_errors(self, scores: Floats) -> Floats:
        scale = np.broadcast_to(self.scale, scores.shape)
        return 1 / np.where(scale > 0, scale, np.nan)

    def log10_pvalues(self, scores: Floats) -> Floats:
        log = np.log(2) + special.log_ndtr(-np.abs(scores * self.scale))
        return np.asarray(np.minimum(log, 0.0) / np.log(10))


@dataclass(frozen=True, eq=False)
class KnownPvalues(NullDistribution):
    """A null distribution of which only the p-values of the features are known."""

    log10: Floats

    def log10_pvalues(self, scores: Floats) -> Floats:
        return self.log10.copy()


@dataclass(frozen=True, eq=False)
class CorrectedNull(NullDistribution):
    """A null distribution, ``usual``, whose p-values are too small for some features."""

    usual: NullDistribution
    #: positions of these features, and decimal logarithms of their p-values
    features: Indices
    log10: Floats
    #: p-values of other features are not known up to this one
    unknown: float = -np.inf

    def take(self, features: Indices) -> Self:
        _, places, own = np.intersect1d(features, self.features, return_indices=True)
        return replace(self, usual=self.usual.take(features), features=places, log10=self.log10[own])

    def log10_pvalues(self, scores: Floats) -> Floats:
        log10 = self.usual.log10_pvalues(scores)
        log10[log10 <= self.unknown] = np.nan
        log10[self.features] = self.log10
        return log10


def log10_chi2_tail(square: Floats, freedom: Floats) -> Floats:
    """Decimal logarithms of the probabilities that χ² is larger; 0 without degrees of freedom."""
    a, x = np.divide(freedom, 2), np.divide(square, 2)
    with np.errstate(divide="ignore"):
        log = np.where(a == 0, 0.0, np.log(special.gammaincc(a, x)))
    tiny = log < np.log(TINY)
    a, x = a[tiny], x[tiny]
    fraction = x + 2 * FRACTION_LEVELS + 1 - a
    for k in range(FRACTION_LEVELS, 0, -1):
        fraction = x + 2 * k - 1 - a - k * (k - a) / fraction
    log[tiny] = a * np.log(x) - x - special.gammaln(a) - np.log(fraction)
    return np.asarray(log / np.log(10))


def reject_nulls(log10_pvalues: Floats, fdr: float, method: str) -> Indices:
    r"""Features that are significant after multiple-testing correction, smallest p-value first.

    The number of tests p includes features without a p-value (NaN), which are never rejected. By Benjamini
    and Hochberg ("bh") the i-th smallest is significant if it or a larger one has :math:`p_{(i)} ≤ i\,α / pc`
    with c = 1; "by", with :math:`c = 1 + 1/2 + … + 1/p`, is valid for any dependence. Bonferroni requires
    :math:`p_{(i)} ≤ α / p`; Holm, for all j ≤ i, :math:`p_{(j)} ≤ α / (p + 1 - j)`.
    """
    check_real("fdr", fdr, 0, 1)
    small = np.flatnonzero(log10_pvalues <= np.log10(fdr) + 1e-9)  # no other one can be significant
    order = small[np.argsort(log10_pvalues[small], kind="stable")]
    p, rank = len(log10_pvalues), np.arange(1, len(order) + 1)
    limits: dict[str, Any] = {
        "bh": rank * (fdr / p),
        "by": rank * (fdr / (p * np.sum(1.0 / np.arange(1, p + 1)))),
        "holm": fdr / (p + 1 - rank),
        "bonferroni": fdr / p,
    }
    passed = log10_pvalues[order] <= np.log10(limits[check_choice("method", method, tuple(limits))])
    if method == "holm":
        passed = np.logical_and.accumulate(passed)
    return np.asarray(order[: np.flatnonzero(passed).max(initial=-1) + 1])


def adjust_pvalues(log10_pvalues: Floats) -> Floats:
    r"""Decimal logarithms of adjusted p-values: :math:`\min_{j ≥ i} p \, p_{(j)} / j` (Benjamini, Hochberg).

    A feature is selected at a false discovery rate if and only if its adjusted p-value is at most this rate.
    Features without a p-value (NaN) count as tests.
    """
    order = np.argsort(log10_pvalues)[: np.count_nonzero(~np.isnan(log10_pvalues))]
    scaled = log10_pvalues[order] + np.log10(len(log10_pvalues) / np.arange(1, len(order) + 1))
    adjusted = np.full(len(log10_pvalues), np.nan)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 0.0)
    return adjusted
