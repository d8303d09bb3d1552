r"""The check of small p-values: those of linear score statistics that are not close to normal.

A score statistic is :math:`T = \sum g_i R_i`: g is the feature and R the response, both as residuals given an
intercept and the covariates. Student's t and the normal distribution approximate its tail well unless both g
and R are skewed or heavy-tailed, such as rare variants and rare cases. Then the tail is computed from the
cumulant generating function K of T by the saddlepoint approximation of Lugannani and Rice (1980) in the form
of Barndorff-Nielsen (1986): with :math:`K'(t) = T`,

.. math:: P(\mathrm{sum} ≥ T) ≈ Φ(-r^*), \quad r^* = w + \frac 1w \log \frac vw, \quad
          w = \sqrt{2 (t T - K(t))}, \quad v = t \sqrt{K''(t)}

If the residuals are exchangeable, :math:`K(t) = \sum_i κ(t g_i)` is that of independent draws from them, with
:math:`κ(s) = \log \frac 1n \sum_j e^{s R_j}`. In a generalised linear or Cox model with covariates, where a
case is more likely in some rows than in others, :math:`K(t) = ℓ(0) - ℓ(t) + t T`, where :math:`ℓ(t)` is the
(partial) log-likelihood with coefficient t of the feature, from which the covariates have been projected out.
In a Cox model few rows may be at risk, so the larger of both p-values counts. The page on p-values has more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis.core.arrays import SMALLEST, Array, Floats, rank_values, special
from banditsis.statistics.covariates import whiten

#: K and its first two derivatives; K″(0) = 1.
Cumulants: TypeAlias = Callable[[float], tuple[float, float, float]]

#: Nodes of the table of κ on each side of 0, the distance of the first from 0, and the last.
N_NODES, FIRST_NODE, LAST_NODE = 150, 0.002, 300.0
STEP = float(np.arcsinh(LAST_NODE / FIRST_NODE)) / N_NODES
NODES = FIRST_NODE * np.sinh(STEP * np.arange(-N_NODES, N_NODES + 1))
#: The saddlepoint is found if K′ is as close to the score, relative to it.
ROOT_TOLERANCE, MAX_ITERATIONS, MAX_ARGUMENT = 1e-9, 100, 1e4
#: The usual p-value is kept if the correction would be a smaller share of it, by skewness and kurtosis.
TOLERANCE = 0.1
#: The share is judged here, in standard deviations (p = 6e-7), for any score, so p-values of features with
#: the same distribution are in the order of their scores.
DEVIATION = 5.0
#: Events for each covariate from which on small p-values are given (Ogundimu et al. 2016).
EVENTS_PER_COVARIATE = 20
#: More distinct values of a sample are grouped in bins of equal width, except the smallest and the largest,
MAX_ATOMS, EXTREME_ATOMS = 1024, 128
#: and bins are halved until they lose a smaller share of the variance.
MAX_LOST = 1e-4
#: Skewness and kurtosis are those of a normal sample if they are within as many standard errors of 0.
MAX_ERRORS = 2.5


class ScoreParts(NamedTuple):
    """The response side of a linear score statistic :math:`\\sum g R` over some rows."""

    #: residuals of the response, as one column
    residuals: Array
    #: an intercept and the covariates; None for an intercept alone
    design: Floats | None = None
    #: logarithm of the p-value of a feature by the likelihood of the model; None if rows are exchangeable
    by_likelihood: Callable[[Floats], float] | None = None
    #: whether residuals and features are replaced by their ranks
    ranks: bool = False
    #: whether the score is the sum; otherwise it is close to it, and a normal p-value is right without ties
    linear: bool = True
    #: whether the usual p-value divides the score by another variance, that in the sets of rows at risk
    at_risk: bool = False


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
    high = target
    while (reached := cumulants(high)[1]) < target and high < MAX_ARGUMENT:
        high = min(2 * high, MAX_ARGUMENT)
    target = min(target, 0.999 * reached)  # at the edge of the support
    low, t, last = 0.0, min(target, high), math.inf
    for _ in range(MAX_ITERATIONS):  # Newton's method for K′(t) = target, or halving
        value, first, second = cumulants(t)
        error = first - target
        if abs(error) <= ROOT_TOLERANCE * target:
            break
        low, high = (low, t) if error > 0 else (t, high)
        new = t - error / second if second > 0 else low
        is_good = low < new < high and abs(error) < 0.5 * last
        t, last = new if is_good else 0.5 * (low + high), abs(error)
    w, v = math.sqrt(max(2 * (t * target - value), 0.0)), t * math.sqrt(max(second, 0.0))
    if (half := 0.5 * span * t) > 0:
        v *= math.sinh(min(half, 500.0)) / half
    return w + math.log(v / w) / w if w > 1e-3 and v > 0 else w


def describe_few_events(n_events: int, rank: int) -> str | None:
    """Why there are no p-values; None if there are enough events for the covariates."""
    if rank == 0 or n_events >= EVENTS_PER_COVARIATE * rank:
        return None
    given = f"{'a covariate needs' if rank == 1 else f'{rank} covariates need'} {EVENTS_PER_COVARIATE * rank}"
    return f"no p-values: there are {n_events:,} events, and small p-values given {given} or more."


def is_like_normal(n: int, skewness: Any, kurtosis: Any) -> Any:
    """Whether a normal sample could have this skewness and kurtosis: numbers or arrays."""
    return (abs(skewness) < MAX_ERRORS * math.sqrt(6 / n)) & (abs(kurtosis) < MAX_ERRORS * math.sqrt(24 / n))


def are_like_normal(n: int, sums: Floats) -> Array:
    """Which columns of n values could be normal, given the sums of their first to fourth powers."""
    mean, second, third, fourth = sums / n
    fourth = fourth - mean * (4 * third - mean * (6 * second - 3 * mean * mean))
    third = third - mean * (3 * second - 2 * mean * mean)
    second = second - mean * mean
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(is_like_normal(n, third / second**1.5, fourth / second**2 - 3.0))


class Atoms(NamedTuple):
    """A sample as sorted values and how often each occurs."""

    values: Floats
    counts: Floats
    #: the distance of which all differences of values are multiples; 0 if there is none
    span: float


def find_atoms(sample: Floats) -> Atoms:
    """Distinct values of a sample; of more than 1,024, neighbours are replaced by their mean."""
    ordered = np.sort(sample)
    starts = np.flatnonzero(np.diff(ordered, prepend=np.nan) != 0)
    if len(starts) <= MAX_ATOMS:
        values, span = ordered[starts], 0.0
        if len(values) > 1:  # the smallest difference, if all are multiples of it
            smallest = float(np.diff(values).min())
            steps = (values - values[0]) / smallest
            is_lattice = steps[-1] < 1e6 and np.abs(steps - np.round(steps)).max() < 1e-6
            span = smallest if is_lattice else 0.0
        return Atoms(values, np.diff(starts, append=len(ordered)) * 1.0, span)
    inner = ordered[EXTREME_ATOMS:-EXTREME_ATOMS]
    reach, n_bins = inner[-1] - inner[0], MAX_ATOMS - 2 * EXTREME_ATOMS
    while (reach / n_bins) ** 2 / 12 > MAX_LOST * np.var(ordered):
        n_bins *= 2
    starts = np.flatnonzero(np.diff(np.floor((inner - inner[0]) / reach * n_bins), prepend=-1.0))
    counts, ones = np.diff(starts, append=len(inner)) * 1.0, np.ones(EXTREME_ATOMS)
    means = np.add.reduceat(inner, starts) / counts
    values = np.concatenate([ordered[:EXTREME_ATOMS], means, ordered[-EXTREME_ATOMS:]])
    return Atoms(values, np.concatenate([ones, counts, ones]), 0.0)


class Sample:
    """A sample with mean 0 and mean square 1, and its third and fourth cumulant: 0 for normal data."""

    def __init__(self, values: Floats) -> None:
        square, n = np.square(values), len(values)
        self.values = values
        self.skewness, self.kurtosis = float(values @ square) / n, float(square @ square) / n - 3.0
        self.is_like_normal = bool(is_like_normal(n, self.skewness, self.kurtosis))

    @cached_property
    def atoms(self) -> Atoms:
        return find_atoms(self.values)

    @cached_property
    def table(self) -> Floats:
        """κ of draws from the sample, and its first two derivatives, at the nodes."""
        table = np.empty((3, len(NODES)))
        x, share = self.atoms.values, self.atoms.counts / self.atoms.counts.sum()
        x = x - share @ x
        powers = np.column_stack([share, share * x, share * np.square(x)])
        largest = np.maximum(NODES * x[0], NODES * x[-1])
        for i in range(0, len(NODES), 32):
            tilted = np.multiply.outer(NODES[i : i + 32], x)
            tilted -= largest[i : i + 32, None]
            total, first, second = (np.exp(tilted, out=tilted) @ powers).T
            mean = first / total
            table[:, i : i + 32] = np.log(total), mean, np.maximum(second / total - mean**2, 0.0)
        table[0] += largest
        return table

    def log_pvalue_of_sum(self, weights: Atoms, deviation: float) -> float:
        """Logarithm of the two-sided p-value of a sum of draws with weights Σg² = 1, in deviations."""
        g, gg = weights.counts * weights.values, weights.counts * np.square(weights.values)

        def cumulants(t: float) -> tuple[float, float, float]:
            value, first, second = self._interpolate(t * weights.values)
            return float(weights.counts @ value), float(g @ first), float(gg @ second)

        return saddlepoint_tail(cumulants, deviation, weights.span * self.atoms.span)

    def _interpolate(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """κ and its first two derivatives by cubics between the nodes, and by straight lines beyond them."""
        inside = np.clip(s, NODES[0], NODES[-1])
        k = np.clip((np.arcsinh(inside / FIRST_NODE) / STEP + N_NODES).astype(np.intp), 0, 2 * N_NODES - 1)
        h = NODES[k + 1] - NODES[k]
        x = (inside - NODES[k]) / h
        (value, first, second), (value1, first1, second1) = self.table[:, k], self.table[:, k + 1]
        up, left, right = x * x * (3.0 - 2.0 * x), h * x * (1.0 - x) ** 2, h * x * x * (x - 1.0)
        slope = first + up * (first1 - first) + left * second + right * second1
        value = value + up * (value1 - value) + left * first + right * first1 + (s - inside) * slope
        return value, slope, np.where(s == inside, second + x * (second1 - second), 0.0)


class TailTest:
    """P-values of features for one response, over some rows, that do not rely on normal data."""

    def __init__(self, parts: ScoreParts) -> None:
        self.parts, self.n = parts, len(parts.residuals)
        #: why p-values are raised
        what = "have many equal values" if parts.ranks else "are skewed or heavy-tailed"
        self.reason = f"feature and response {what}"
        A = parts.design
        #: the intercept and the covariates as orthonormal columns; None for an intercept alone
        self.design = None if A is None else A @ whiten(A.T @ A).T
        self.freedom = self.n - (1 if self.design is None else self.design.shape[1])
        #: None if the response is constant given the design, or not exchangeable
        exchangeable = parts.by_likelihood is None or parts.at_risk
        self.response = self._residuals(parts.residuals[:, 0]) if exchangeable else None

    @property
    def is_exempt(self) -> bool:
        """Whether the usual p-values are right for any feature: the response is like normal data."""
        if self.parts.by_likelihood is not None:
            return False
        if self.response is None or self.parts.at_risk:
            return self.response is None
        if self.parts.ranks:  # of a feature with any ties, skewness is at most √n, and kurtosis at least -2
            kurtosis = -2.0 * self.parts.linear
            return self.response.kurtosis < 0 and self._correction(math.sqrt(self.n), kurtosis) <= TOLERANCE
        return self.response.is_like_normal

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
        # Draws are from the sample with lighter tails: of heavy ones they vary too much.
        lighter, heavier = sorted((self.response, feature), key=lambda sample: sample.kurtosis)
        (values, counts, span), root = heavier.atoms, math.sqrt(self.n)
        return max(found, lighter.log_pvalue_of_sum(Atoms(values / root, counts, span / root), deviation))

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


def _to_unit(x: Array) -> Floats:
    """A column with a largest absolute value of 1, so squares stay in range."""
    x = x.astype(np.float64)
    return np.asarray(x / max(float(np.abs(x).max()), SMALLEST))
