r"""P-values of linear score statistics whose null distribution is not close to normal.

A score statistic is :math:`T = \sum g_i R_i`: g is the feature and R the response, both as residuals given an
intercept and the covariates. Student's t and the normal distribution approximate its tail well unless both g
and R are skewed or heavy-tailed, such as rare variants and rare cases. Then the tail is computed from the
cumulant generating function K of T by the saddlepoint approximation [1]_ in the form of Barndorff-Nielsen
[2]_: with :math:`K'(t) = T`,

.. math:: P(\mathrm{sum} ≥ T) ≈ Φ(-r^*), \quad r^* = w + \frac 1w \log \frac vw, \quad
          w = \sqrt{2 (t T - K(t))}, \quad v = t \sqrt{K''(t)}

If the residuals are exchangeable, K is that of independent draws from them [3]_ [4]_,

.. math:: κ(s) = \log \frac 1n \sum_j e^{s R_j}, \qquad K(t) = \sum_i κ(t g_i)

In a generalised linear or Cox model with covariates every row has its own null distribution: a case is more
likely in some rows than in others. Then :math:`K(t) = ℓ(0) - ℓ(t) + t T`, where :math:`ℓ(t)` is the (partial)
log-likelihood with coefficient t of the feature, from which the covariates have been projected out [5]_.

References
----------
.. [1] Lugannani, R. and Rice, S. (1980). Saddle point approximation for the distribution of the sum of
   independent random variables. Adv. Appl. Probab. 12, 475-490.
.. [2] Barndorff-Nielsen, O. E. (1986). Inference on full or partial parameters based on the standardized
   signed log likelihood ratio. Biometrika 73, 307-322.
.. [3] Kuonen, D. (1999). Saddlepoint approximations for distributions of quadratic forms in normal variables.
   Biometrika 86, 929-935.
.. [4] Bi, W., Fritsche, L. G., Mukherjee, B., Kim, S. and Lee, S. (2020). A fast and accurate method for
   genome-wide time-to-event data analysis and its application to UK Biobank. Am. J. Hum. Genet. 107, 222-233.
.. [5] Dey, R., Schmidt, E. M., Abecasis, G. R. and Lee, S. (2017). A fast and accurate algorithm to test for
   binary phenotypes and its application to PheWAS. Am. J. Hum. Genet. 101, 37-49.
.. [6] Ogundimu, E. O., Altman, D. G. and Collins, G. S. (2016). Adequate sample size for developing
   prediction models is not simply related to events per variable. J. Clin. Epidemiol. 76, 175-182.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from banditsis.core.arrays import SMALLEST, Array, Floats, rank_values, special
from banditsis.statistics.null_distributions import BetaNull, permutation_null, rank_kurtosis
from banditsis.statistics.regression import whiten
from banditsis.statistics.shape import Atoms, Sample

#: K and its first two derivatives; K″(0) = 1.
Cumulants: TypeAlias = Callable[[float], tuple[float, float, float]]

#: Nodes of the table of κ on each side of 0, the distance of the first from 0, and the last.
N_NODES, FIRST_NODE, LAST_NODE = 150, 0.002, 300.0
STEP = float(np.arcsinh(LAST_NODE / FIRST_NODE)) / N_NODES
#: The saddlepoint is found if K′ is as close to the score, relative to it.
ROOT_TOLERANCE, MAX_ITERATIONS, MAX_ARGUMENT = 1e-9, 100, 1e4
#: The usual p-value is kept if the correction would be a smaller share of it, by skewness and kurtosis.
TOLERANCE = 0.1
#: The share is judged here, in standard deviations (p = 6e-7), for any score, so p-values of features with
#: the same distribution are in the order of their scores.
DEVIATION = 5.0
#: Events for each covariate from which on small p-values are given [6]_.
EVENTS_PER_COVARIATE = 20


def log_pvalue(cumulants: Cumulants, score: float) -> float:
    """Logarithm of the two-sided p-value of a score; -inf if the normal distribution is close enough."""
    if max(abs(cumulants(t)[0] - t * t / 2) for t in (-DEVIATION, DEVIATION)) <= TOLERANCE:
        return -np.inf
    return saddlepoint_tail(cumulants, score)


def saddlepoint_tail(cumulants: Cumulants, score: float, span: float = 0.0) -> float:
    """Logarithm of the two-sided tail of a score, which has values on a lattice of this span, or any value.

    On a lattice the sum reaches the score, and not just exceeds it, so the tail begins half a span lower.
    """
    target = abs(score) - span / 2
    if target < 1e-3:
        return 0.0

    def mirrored(t: float) -> tuple[float, float, float]:
        value, first, second = cumulants(-t)
        return value, -first, second

    roots = [_signed_root(side, target, span) for side in (cumulants, mirrored)]
    return min(float(np.logaddexp(*special.log_ndtr(-np.array(roots)))), 0.0)


def _signed_root(cumulants: Cumulants, target: float, span: float) -> float:
    """The r* of a target above 0, as a positive number."""
    end = target
    while (reached := cumulants(end)[1]) < target and end < MAX_ARGUMENT:
        end = min(2 * end, MAX_ARGUMENT)
    target = min(target, 0.999 * reached)  # at the edge of the support
    t, value, second = _find_saddlepoint(cumulants, target, end)
    w, v = math.sqrt(max(2 * (t * target - value), 0.0)), t * math.sqrt(max(second, 0.0))
    if (half := 0.5 * span * t) > 0:
        v *= math.sinh(min(half, 500.0)) / half
    return w + math.log(v / w) / w if w > 1e-3 and v > 0 else w


def _find_saddlepoint(cumulants: Cumulants, target: float, high: float) -> tuple[float, float, float]:
    """The t up to ``high`` with K′(t) = target, by Newton's method or halving; with K(t) and K″(t)."""
    low, t, last = 0.0, min(target, high), math.inf
    for _ in range(MAX_ITERATIONS):
        value, first, second = cumulants(t)
        error = first - target
        if abs(error) <= ROOT_TOLERANCE * target:
            break
        low, high = (low, t) if error > 0 else (t, high)
        new = t - error / second if second > 0 else low
        is_good = low < new < high and abs(error) < 0.5 * last
        t, last = new if is_good else 0.5 * (low + high), abs(error)
    return t, value, second


def describe_few_events(n_events: int, rank: int) -> str | None:
    """Why there are no p-values; None if there are enough events for the covariates.

    Examples
    --------
    >>> print(describe_few_events(23, 2))
    no p-values: there are 23 events, and small p-values given 2 covariates need 40 or more.
    """
    if rank == 0 or n_events >= EVENTS_PER_COVARIATE * rank:
        return None
    covariates = "a covariate needs" if rank == 1 else f"{rank} covariates need"
    needed = EVENTS_PER_COVARIATE * rank
    return (
        f"no p-values: there are {n_events:,} events, and small p-values given {covariates} {needed} or more."
    )


class DrawnSum:
    """Weighted sums of independent draws from a sample, with a table of its κ."""

    def __init__(self, sample: Atoms) -> None:
        self.sample = sample
        self.nodes = FIRST_NODE * np.sinh(STEP * np.arange(-N_NODES, N_NODES + 1))
        self.table = _tabulate(self.nodes, sample)

    def log_pvalue(self, weights: Atoms, deviation: float) -> float:
        """Logarithm of the two-sided p-value of a sum in standard deviations; the weights have Σg² = 1."""
        g, gg = weights.counts * weights.values, weights.counts * np.square(weights.values)

        def cumulants(t: float) -> tuple[float, float, float]:
            value, first, second = self._interpolate(t * weights.values)
            return float(weights.counts @ value), float(g @ first), float(gg @ second)

        return saddlepoint_tail(cumulants, deviation, weights.span * self.sample.span)

    def _interpolate(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """κ and its first two derivatives by cubics between the nodes, and by straight lines beyond them."""
        inside = np.clip(s, self.nodes[0], self.nodes[-1])
        k = np.clip((np.arcsinh(inside / FIRST_NODE) / STEP + N_NODES).astype(np.intp), 0, 2 * N_NODES - 1)
        h = self.nodes[k + 1] - self.nodes[k]
        x = (inside - self.nodes[k]) / h
        (value, first, second), (value1, first1, second1) = self.table[:, k], self.table[:, k + 1]
        up, left, right = x * x * (3.0 - 2.0 * x), h * x * (1.0 - x) ** 2, h * x * x * (x - 1.0)
        slope = first + up * (first1 - first) + left * second + right * second1
        value = value + up * (value1 - value) + left * first + right * first1 + (s - inside) * slope
        return value, slope, np.where(s == inside, second + x * (second1 - second), 0.0)


def _tabulate(nodes: Floats, atoms: Atoms) -> Floats:
    """κ of a distribution and its first two derivatives in some points; the atoms are sorted."""
    table = np.empty((3, len(nodes)))
    x, share = atoms.values, atoms.counts / atoms.counts.sum()
    x = x - share @ x
    powers = np.column_stack([share, share * x, share * np.square(x)])
    largest = np.maximum(nodes * x[0], nodes * x[-1])
    for i in range(0, len(nodes), 32):
        tilted = np.multiply.outer(nodes[i : i + 32], x)
        tilted -= largest[i : i + 32, None]
        total, first, second = (np.exp(tilted, out=tilted) @ powers).T
        mean = first / total
        table[:, i : i + 32] = np.log(total), mean, np.maximum(second / total - mean**2, 0.0)
    table[0] += largest
    return table


def expected_correction(n: int, skewness: float, kurtosis: float) -> float:
    r"""About how much the logarithm of a small p-value changes if it is computed by the saddlepoint.

    The arguments are the products of the skewness and of the kurtosis of feature and response. If the
    response is permuted, the skewness of T is :math:`γ_g γ_R / \sqrt n`, and its kurtosis differs from that
    of Student's t by :math:`κ_g κ_R / n` (Pitman 1937).
    """
    return abs(skewness) / math.sqrt(n) * DEVIATION**3 / 6 + abs(kurtosis) / n * DEVIATION**4 / 24


class ScoreParts(NamedTuple):
    """The response side of a linear score statistic :math:`\\sum g R` over some rows."""

    #: residuals of the response, as one column
    residuals: Array
    #: an intercept and the covariates; None for an intercept alone
    design: Floats | None = None
    #: variances of the residuals, up to a factor; None if they are equal
    variances: Floats | None = None
    #: logarithm of the p-value of a feature by the likelihood of the model; None if rows are exchangeable
    by_likelihood: Callable[[Floats], float] | None = None
    #: whether residuals and features are replaced by their ranks
    ranks: bool = False
    #: whether the score is the sum; otherwise it is close to it, and a normal p-value is right without ties
    linear: bool = True
    #: logarithm of the p-value of a feature from all orders of the rows; None if they are too many
    exact: Callable[[Array], float] | None = None


class TailTest:
    """P-values of features for one response, over some rows, that do not rely on normal data."""

    def __init__(self, parts: ScoreParts) -> None:
        self.parts, self.n = parts, len(parts.residuals)
        #: None if the response is constant given the design, or the check does not need it
        self.response: Sample | None = None
        if parts.by_likelihood is None:
            (self.response,) = self._samples([parts.residuals[:, 0]])

    @property
    def is_exempt(self) -> bool:
        """Whether the usual p-values are right for any feature: the response is like normal data.

        For ranks, whether they are right for a feature with any ties: its skewness is at most √n, and its
        kurtosis at least -2.
        """
        if self.response is None or self.parts.exact is not None:
            return self.parts.by_likelihood is None and self.parts.exact is None
        if not self.parts.ranks:
            return self.response.is_like_normal
        skewness, kurtosis = math.sqrt(self.n) * self.response.skewness, -2 * self.response.kurtosis
        correction = expected_correction(self.n, skewness, self.parts.linear * self._added_kurtosis(kurtosis))
        return self.response.kurtosis < 0 and correction < TOLERANCE

    @property
    def reason(self) -> str:
        """Why p-values are raised."""
        if self.parts.exact is not None:
            return "there are few rows"
        equal, skewed = "have many equal values", "are skewed or heavy-tailed"
        return f"feature and response {equal if self.parts.ranks else skewed}"

    def log_pvalues(self, columns: Sequence[Array], log_usual: Floats, robust: bool = False) -> list[float]:
        """Logarithms of p-values of some features: the usual ones, or larger ones that the data call for."""
        if self.parts.exact is not None:
            return [self.parts.exact(x) for x in columns]
        if (likelihood := self.parts.by_likelihood) is not None:
            columns = [x / max(float(_reach(x)), SMALLEST) for x in columns]  # squares stay in range
            return [max(log, likelihood(x)) for x, log in zip(columns, log_usual, strict=True)]
        if self.response is None:
            return list(log_usual)
        features = self._samples(columns)
        return [
            log if feature is None else max(log, self._log_pvalue(feature, self.response, log, robust))
            for feature, log in zip(features, log_usual, strict=True)
        ]

    def _samples(self, columns: Sequence[Array]) -> list[Sample | None]:
        """The residuals of some columns, or of their ranks, given the design; None if it explains them."""
        lines = np.array([rank_values(x) if self.parts.ranks else x for x in columns], np.float64)
        lines /= np.maximum(_reach(lines), SMALLEST)[:, None]  # squares stay in range
        lines -= lines.mean(axis=1, keepdims=True)
        size = np.sqrt(np.einsum("ij,ij->i", lines, lines) / self.n)
        if self.parts.design is not None:
            lines -= lines @ self._design @ self._design.T
        spread = np.sqrt(np.einsum("ij,ij->i", lines, lines) / self.n)
        known = spread > 1e-9 * size
        lines /= np.where(known, spread, 1.0)[:, None]
        return [Sample(line) if ok else None for line, ok in zip(lines, known, strict=True)]

    @cached_property
    def _design(self) -> Floats:
        """The intercept and the covariates as orthonormal columns."""
        A = self.parts.design
        return np.full((self.n, 1), self.n**-0.5) if A is None else A @ whiten(A.T @ A).T

    def _log_pvalue(self, feature: Sample, response: Sample, log: float, robust: bool) -> float:
        skewness, kurtosis = feature.skewness * response.skewness, feature.kurtosis * response.kurtosis
        if self.parts.ranks:
            return self._log_ranks(feature, response, skewness, kurtosis, log)
        is_normal = feature.is_like_normal and response.is_like_normal
        if not is_normal and expected_correction(self.n, skewness, kurtosis) > TOLERANCE:
            log = max(log, self._log_tail(feature, response, self._deviation(feature, response)))
        return max(log, self._log_robust(feature, response)) if robust else log

    def _deviation(self, feature: Sample, response: Sample) -> float:
        """The score in standard deviations."""
        freedom = self.n - self._design.shape[1]
        return float(feature.values @ response.values) / self.n * math.sqrt(freedom)

    def _log_tail(self, feature: Sample, response: Sample, deviation: float) -> float:
        """By the saddlepoint.

        Independent draws vary more than a permutation, most if the values drawn have heavy tails and their
        weights do not. So the feature is drawn instead of the response if it has much lighter tails.
        """
        lighter, root = response.kurtosis - feature.kurtosis, math.sqrt(self.n)
        drawn, weights = self._drawn_response, feature
        if lighter > 0 and expected_correction(self.n, 0.0, 3 * lighter) > TOLERANCE:
            drawn, weights = DrawnSum(feature.atoms), response
        values, counts, span = weights.atoms
        return drawn.log_pvalue(Atoms(values / root, counts, span / root), deviation)

    @cached_property
    def _drawn_response(self) -> DrawnSum:
        assert self.response is not None
        return DrawnSum(self.response.atoms)

    def _added_kurtosis(self, product: float) -> float:
        """By how much ties raise n times the kurtosis of ρ, for this product of the kurtoses of the ranks."""
        free = 1.2 * (self.n**2 + 1) / (self.n**2 - 1)
        return max(product - free**2, 0.0)

    def _log_ranks(
        self, feature: Sample, response: Sample, skewness: float, product: float, log: float
    ) -> float:
        """By the kurtosis of ρ with these ties, or by the saddlepoint if it is skewed or heavy-tailed."""
        n, linear, deviation = self.n, self.parts.linear, self._deviation(feature, response)
        kurtosis = rank_kurtosis(n) + self._added_kurtosis(product) / n
        if kurtosis >= 0 or expected_correction(n, skewness, 0.0) > TOLERANCE:
            normal = -float(special.ndtri_exp(log - math.log(2)))
            return self._log_tail(feature, response, deviation if linear else normal)
        if not linear:
            return log
        rho = np.array([deviation / math.sqrt(n - 1)])
        return float(permutation_null(n, kurtosis).log10_pvalues(rho)[0] * np.log(10))

    def _log_robust(self, feature: Sample, response: Sample) -> float:
        """By the t test of the slope with the variance HC3, which allows for variances that depend on x."""
        g, y = feature.values / math.sqrt(self.n), response.values
        slope = float(g @ y)
        remaining = 1.0 - self._leverage - np.square(g)
        if remaining.min() < 1e-10:  # a row that determines the slope alone has no residual
            return 0.0
        variance = float(np.square(g * (y - g * slope) / remaining).sum())
        freedom = self.n - self._design.shape[1] - 1
        share = slope**2 / (slope**2 + variance * freedom) if variance > 0 else 1.0
        return float(BetaNull(float(freedom)).log10_pvalues(np.sqrt([share]))[0] * np.log(10))

    @cached_property
    def _leverage(self) -> Floats:
        """The leverage of each row in the regression on the design."""
        return np.asarray(np.square(self._design).sum(axis=1))


def _reach(values: Floats) -> Floats:
    """The largest absolute value of each line; a temporary array would take longer than both passes."""
    return np.asarray(np.maximum(values.max(axis=-1), -values.min(axis=-1)))
