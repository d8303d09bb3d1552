r"""P-values of linear score statistics whose null distribution is not close to normal.

A score statistic is :math:`T = \sum g_i R_i`: g is the feature and R the response, both as residuals given an
intercept and the covariates. Student's t and the normal distribution approximate its tail well unless both g
and R are skewed or heavy-tailed, such as rare variants and rare cases. Then the tail is computed from the
empirical cumulant generating function of the residuals [1]_ [2]_ [3]_,

.. math:: κ(s) = \log \frac 1n \sum_j e^{s R_j}, \qquad K(t) = \sum_i κ(t g_i)

by the saddlepoint approximation [4]_ in the form of Barndorff-Nielsen: with :math:`K'(t) = T`,

.. math:: P(\mathrm{sum} ≥ T) ≈ Φ(-r^*), \quad r^* = w + \frac 1w \log \frac vw, \quad
          w = \sqrt{2 (t T - K(t))}, \quad v = t \sqrt{K''(t)}

References
----------
.. [1] Kuonen, D. (1999). Saddlepoint approximations for distributions of quadratic forms in normal variables.
   Biometrika 86, 929-935.
.. [2] Dey, R., Schmidt, E. M., Abecasis, G. R. and Lee, S. (2017). A fast and accurate algorithm to test for
   binary phenotypes and its application to PheWAS. Am. J. Hum. Genet. 101, 37-49.
.. [3] Bi, W., Fritsche, L. G., Mukherjee, B., Kim, S. and Lee, S. (2020). A fast and accurate method for
   genome-wide time-to-event data analysis and its application to UK Biobank. Am. J. Hum. Genet. 107, 222-233.
.. [4] Lugannani, R. and Rice, S. (1980). Saddle point approximation for the distribution of the sum of
   independent random variables. Adv. Appl. Probab. 12, 475-490.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import SMALLEST, Array, Floats, Indices, rank_values, special
from banditsis.statistics.null_distributions import TINY, BetaNull, permutation_null, rank_kurtosis
from banditsis.statistics.regression import whiten
from banditsis.statistics.shape import (
    Atoms,
    Moments,
    find_atoms,
    find_moments,
    is_like_normal,
    skewness_and_kurtosis,
)

#: Nodes of the table of κ on each side of 0, the distance of the first from 0, and the last.
N_NODES, FIRST_NODE, LAST_NODE = 150, 0.002, 300.0
STEP = float(np.arcsinh(LAST_NODE / FIRST_NODE)) / N_NODES
#: The usual p-value is kept if the correction would be a smaller share of it, by skewness and kurtosis.
TOLERANCE = 0.1
#: The share is judged here, in standard deviations (p = 6e-7), for any score, so p-values of features with
#: the same distribution are in the order of their scores; with three or more classes no further in the tail.
DEVIATION = 5.0
RATE_TOLERANCE, MAX_ITERATIONS = 1e-9, 100
#: A class has at least this share of its mean probability, whatever the covariates.
MIN_CHANCE = 0.05


class ScoreParts(NamedTuple):
    """The response side of linear score statistics :math:`\\sum g R` over some rows."""

    #: residuals of the response; for several classes, their indicators
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


@dataclass(frozen=True, eq=False)
class ResidualDistribution:
    """Empirical distribution of residuals with mean 0 and mean square 1, and a table of κ.

    Attributes
    ----------
    atoms : Atoms
        The distribution.
    nodes, table : ndarray of shape (m,) and (3, m)
        Arguments, and κ and its first two derivatives.
    """

    atoms: Atoms
    nodes: Floats
    table: Floats

    @classmethod
    def fit(cls, atoms: Atoms) -> ResidualDistribution:
        """Distribution of standardised residuals."""
        nodes = FIRST_NODE * np.sinh(STEP * np.arange(-N_NODES, N_NODES + 1))
        return cls(atoms, nodes, _tabulate(nodes, atoms))

    def log_pvalue(self, weights: Atoms, deviation: float) -> float:
        """Logarithm of the two-sided p-value of a sum in standard deviations; the weights have Σg² = 1."""
        size = abs(deviation)
        span = weights.span * self.atoms.span
        target = max(size - span / 2, 0.0)  # the sum reaches the value observed, and not just exceeds it
        if target < 1e-3:
            return 0.0
        roots = []
        for values in (weights.values, -weights.values):
            largest = weights.counts @ np.maximum(
                values * self.atoms.values[0], values * self.atoms.values[-1]
            )
            reached = min(target, 0.999 * float(largest))
            table = (self.nodes, self.table, FIRST_NODE, STEP)
            roots.append(kernels.saddlepoint.signed_root(reached, span, values, weights.counts, *table))
        return min(float(np.logaddexp(*special.log_ndtr(-np.array(roots)))), 0.0)


def _tabulate(nodes: Floats, atoms: Atoms) -> Floats:
    """κ of a distribution and its first two derivatives in some points; the atoms are sorted."""
    table = np.empty((3, len(nodes)))
    x, share = atoms.values, atoms.counts / atoms.counts.sum()
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


def expected_correction(n: int, skewness: float, kurtosis: float, deviation: float = DEVIATION) -> float:
    r"""About how much the logarithm of a small p-value changes if it is computed by the saddlepoint.

    The arguments are the products of the skewness and of the kurtosis of feature and response. If the
    response is permuted, the skewness of T is :math:`γ_g γ_R / \sqrt n`, and its kurtosis differs from that
    of Student's t by :math:`κ_g κ_R / n` (Pitman 1937).
    """
    return abs(skewness) / math.sqrt(n) * deviation**3 / 6 + abs(kurtosis) / n * deviation**4 / 24


@dataclass(frozen=True, eq=False)
class Score:
    """A feature whose score is :math:`\\sum g R`, with :math:`g = (x - mean) / spread`.

    Attributes
    ----------
    values : ndarray
        The feature x, or g itself.
    moments : Moments
        Their moments, and their product with the first residuals; mean 0 and spread 1 for g itself.
    """

    values: Array
    moments: Moments

    @cached_property
    def weights(self) -> Floats:
        """The weights g."""
        mean, spread = self.moments[:2]
        return self.values if (mean, spread) == (0.0, 1.0) else (self.values - np.float64(mean)) / spread

    @cached_property
    def atoms(self) -> Atoms:
        """The distribution of the weights."""
        mean, spread = self.moments[:2]
        atoms = find_atoms(self.values)
        return atoms._replace(values=atoms.values - mean).times(1 / spread)


class TailTest:
    r"""P-values of features for one response, over some rows, that do not rely on normal data.

    With one column of residuals they are those of the saddlepoint. With one for each of k classes, Σg in
    class c is :math:`T_c`, row i has class c with probability :math:`π_{ic}`, and p is the tail of χ² with
    k - 1 degrees of freedom beyond twice the rate of large deviations,

    .. math:: 2 \max_t \Big( \sum_c t_c T_c - \sum_i \log \sum_c π_{ic} e^{t_c g_i} \Big)

    which is the likelihood ratio of a multinomial logistic regression whose intercepts are known [1]_. The
    probabilities come from a linear regression of the classes on the covariates. T is multiplied by
    :math:`\sqrt{f / n}`, with f degrees of freedom of the residuals, as in the F test.

    References
    ----------
    .. [1] Kolassa, J. and Robinson, J. (2011). Saddlepoint approximations for likelihood ratio like
       statistics with applications to permutation tests. Ann. Statist. 39, 3357-3368.
    """

    def __init__(self, parts: ScoreParts) -> None:
        self.parts, self.n = parts, len(parts.residuals)
        self.residuals = []
        for column in parts.residuals.T:
            column = rank_values(column) if parts.ranks else column
            column = np.ascontiguousarray(column, np.float64)  # one at a time: there may be many classes
            # with variances they are residuals of a fitted model
            values = self.project(column) if parts.variances is None else column
            if np.ptp(values) > 1e-9 * _reach(column):
                self.residuals.append(Residual(values))

    @cached_property
    def roots(self) -> Floats:
        """Standard deviations of the residuals, up to a factor."""
        roots = np.ones(self.n) if self.parts.variances is None else np.sqrt(self.parts.variances)
        return np.asarray(np.maximum(roots, 1e-8 * roots.max()))  # a fitted probability can be 0 or 1

    @cached_property
    def design(self) -> Floats:
        """The intercept and the covariates, times the standard deviations."""
        if self.parts.design is None:
            return np.full((self.n, 1), self.n**-0.5)
        return self.parts.design if self.parts.variances is None else self.parts.design * self.roots[:, None]

    @cached_property
    def whitening(self) -> Floats:
        """What makes the columns of the design orthonormal."""
        return np.eye(1) if self.parts.design is None else whiten(self.design.T @ self.design)

    @property
    def has_normal_residuals(self) -> bool:
        """Whether the response is like normal data, so scores are normal for any feature.

        For ranks, whether the usual p-values are right for any feature: its skewness is at most √n, and its
        kurtosis at least -2.
        """
        n = self.n
        if self.parts.ranks:
            most = [
                expected_correction(
                    n, math.sqrt(n) * r.skewness, self.parts.linear * self._added_kurtosis(-2 * r.kurtosis)
                )
                for r in self.residuals
                if r.kurtosis < 0
            ]
            return len(most) == 1 and most[0] < TOLERANCE
        exchangeable = self.parts.by_likelihood is None
        return exchangeable and all(is_like_normal(n, r.skewness, r.kurtosis) for r in self.residuals)

    def project(self, values: Floats) -> Floats:
        """Residuals of some values given the design, in lines if there are several columns."""
        if self.parts.design is None and self.parts.variances is None:
            return np.asarray(values - values.mean(axis=-1, keepdims=True))  # equal values stay equal
        weighted = values if self.parts.variances is None else values * self.roots
        slopes = weighted @ self.design @ self.whitening.T @ self.whitening
        explained = slopes @ self.design.T
        if self.parts.variances is not None:
            explained /= self.roots
        return np.subtract(values, explained, out=explained)

    def log_pvalues(self, columns: Sequence[Array], log_usual: Floats, robust: bool = False) -> list[float]:
        """Logarithms of p-values of some features: the usual ones, or larger ones that the data call for."""
        if (likelihood := self.parts.by_likelihood) is not None:
            columns = [x / max(float(_reach(x)), SMALLEST) for x in columns]  # squares stay in range
            return [max(log, likelihood(x)) for x, log in zip(columns, log_usual, strict=True)]
        scores = self._find_scores(columns, robust) if self.residuals else [None] * len(columns)
        return [self._log_pvalue(*given, robust) for given in zip(scores, log_usual, strict=True)]

    def _log_pvalue(self, score: Score | None, log: float, robust: bool) -> float:
        if score is None:
            return log
        if self.parts.ranks:
            return max(log, self._log_ranks(score, log))
        if self._is_far_from_normal(score, log):
            one = len(self.residuals) == 1
            tail = self._log_tail(score, self._deviation(score)) if one else self._log_class_tail(score)
            log = max(log, tail)
        return max(log, self._log_robust(score.weights)) if robust else log

    def _find_scores(self, columns: Sequence[Array], robust: bool) -> list[Score | None]:
        """The scores of some features; None for one that the design explains."""
        if self.parts.design is not None or self.parts.variances is not None or robust:
            return self._project_scores(columns)
        scores: list[Score | None] = []
        for x in columns:
            x = rank_values(x) if self.parts.ranks else x
            # Numba would compile kernels separately for arrays that are not contiguous or writable.
            dtype = np.float32 if x.dtype == np.float32 else np.float64
            x = np.require(x, dtype, ["C", "A", "W", "E"])
            moments = find_moments(x, self.residuals[0].unscaled)
            scores += self._project_scores([x]) if moments is None else [Score(x, moments)]
        return scores

    def _project_scores(self, columns: Sequence[Array]) -> list[Score | None]:
        """The scores of some features, with their weights."""
        lines = np.array(columns, np.float64)
        lines /= np.maximum(_reach(lines), SMALLEST)[:, None]  # squares stay in range
        lines -= lines.mean(axis=1, keepdims=True)
        g = self.project(lines)
        reach = _reach(g)
        g /= np.where(reach > 0, reach, 1.0)[:, None]
        g /= np.sqrt(np.maximum(np.einsum("ij,ij->i", g, g), SMALLEST))[:, None]
        products = g @ self.residuals[0].unscaled
        return [
            Score(line, Moments(0.0, 1.0, *skewness_and_kurtosis(line), float(product))) if known else None
            for line, product, known in zip(g, products, reach > 0, strict=True)
        ]

    def _is_far_from_normal(self, score: Score, log: float) -> bool:
        """Whether the p-value of a score is likely to change; for classes by p, as their tail is a bound."""
        z = DEVIATION
        if len(self.residuals) > 1:
            z = min(abs(float(special.ndtri_exp(log - math.log(2)))), z)
        n, (_, _, skewness, kurtosis, _) = self.n, score.moments
        far = not is_like_normal(n, skewness, kurtosis)
        for r in self.residuals:
            change = expected_correction(n, skewness * r.skewness, kurtosis * r.kurtosis, z)
            if change > TOLERANCE and (far or not is_like_normal(n, r.skewness, r.kurtosis)):
                return True
        return False

    @property
    def _freedom(self) -> int:
        return self.n - len(self.whitening)

    def _deviation(self, score: Score) -> float:
        """The score in standard deviations."""
        variance = self.n / self._freedom
        if (v := self.parts.variances) is not None:
            variance *= float(np.square(score.weights) @ v / v.mean())
        return score.moments.product / (score.moments.spread * self.residuals[0].scale * math.sqrt(variance))

    def _added_kurtosis(self, product: float) -> float:
        """By how much ties raise n times the kurtosis of ρ, for this product of the kurtoses of the ranks."""
        free = 1.2 * (self.n**2 + 1) / (self.n**2 - 1)
        return max(product - free**2, 0.0)

    def _log_ranks(self, score: Score, log: float) -> float:
        """By the kurtosis of ρ with these ties, or by the saddlepoint if it is skewed or heavy-tailed."""
        n, r, moments = self.n, self.residuals[0], score.moments
        kurtosis = rank_kurtosis(n) + self._added_kurtosis(moments.kurtosis * r.kurtosis) / n
        if kurtosis >= 0 or expected_correction(n, moments.skewness * r.skewness, 0.0) > TOLERANCE:
            normal = -float(special.ndtri_exp(log - math.log(2)))
            return self._log_tail(score, self._deviation(score) if self.parts.linear else normal)
        if not self.parts.linear:
            return log
        rho = self._deviation(score) / math.sqrt(n - 1)
        return float(permutation_null(n, kurtosis).log10_pvalues(np.array([rho]))[0] * np.log(10))

    def _log_tail(self, score: Score, deviation: float) -> float:
        """By the saddlepoint.

        Independent draws vary more than a permutation, most if the values drawn have heavy tails and their
        weights do not. So feature and response change places if the feature has the lighter tails.
        """
        (residual,), n = self.residuals, self.n
        lighter = residual.kurtosis - score.moments.kurtosis
        if lighter > 0 and expected_correction(n, 0.0, 3 * lighter) > TOLERANCE:
            drawn = ResidualDistribution.fit(score.atoms.centred().times(np.sqrt(n)))
            return drawn.log_pvalue(residual.atoms.times(1 / np.sqrt(n)), deviation)
        return residual.distribution.log_pvalue(score.atoms, deviation)

    def _log_class_tail(self, score: Score) -> float:
        """By the rate of large deviations of the sums of all classes."""
        g, atoms = score.weights, score.atoms
        codes, share, _ = self._classes
        sums: Floats = np.bincount(codes, g, len(share)).astype(np.float64)
        rate = _class_rate(sums * np.sqrt(self._freedom / self.n), self._class_chances(g, atoms), atoms)
        return _log_chi_squared_tail(2 * rate, len(share) - 1)

    def _class_chances(self, g: Floats, atoms: Atoms) -> Floats:
        """Probabilities of the classes, given the mean of the covariates in the rows of each atom."""
        _, share, slopes = self._classes
        if self.parts.design is None:
            return np.broadcast_to(share, (len(atoms.values), len(share)))
        starts = (np.cumsum(atoms.counts) - atoms.counts).astype(np.intp)
        means = np.add.reduceat(self.design[np.argsort(g)], starts) / atoms.counts[:, None]
        chances = np.maximum(means @ slopes, MIN_CHANCE * share)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    @cached_property
    def _classes(self) -> tuple[Indices, Floats, Floats]:
        """The class of each row, the share of each, and their slopes on the design; no empty class."""
        members = self.parts.residuals[:, self.parts.residuals.any(axis=0)]
        slopes = self.whitening.T @ (self.whitening @ (self.design.T @ members))
        return members.argmax(axis=1), members.sum(axis=0) / len(members), slopes

    @cached_property
    def _unexplained(self) -> Floats:
        """1 less the leverage of each row in the regression on the design."""
        return np.asarray(1.0 - np.square(self.design @ self.whitening.T).sum(axis=1))

    def _log_robust(self, g: Floats) -> float:
        """By the t test of the slope with the variance HC3, which allows for variances that depend on x."""
        y = self.residuals[0].values
        slope = float(g @ y)
        remaining = self._unexplained - np.square(g)
        if remaining.min() < 1e-10:  # a row that determines the slope alone has no residual
            return 0.0
        variance = float(np.square(g * (y - g * slope) / remaining).sum())
        freedom = self._freedom - 1
        share = slope**2 / (slope**2 + variance * freedom) if variance > 0 else 1.0
        return float(BetaNull(float(freedom)).log10_pvalues(np.sqrt([share]))[0] * np.log(10))


def _reach(values: Floats) -> Floats:
    """The largest absolute value of each line; a temporary array would take longer than both passes."""
    return np.asarray(np.maximum(values.max(axis=-1), -values.min(axis=-1)))


def _class_rate(sums: Floats, chances: Floats, atoms: Atoms) -> float:
    """Rate of large deviations of the sums of g over random classes.

    The classes have other probabilities in the rows of each atom. Deviations are from the mean sums. The rate
    is a maximum, so a search that ends too early makes p-values larger, never smaller.
    """
    from scipy.optimize import minimize  # this import takes longer than most runs

    sums = sums + (atoms.counts * atoms.values) @ chances
    log_chances = np.log(chances)
    unit = 1 / np.sqrt((atoms.counts * np.square(atoms.values)) @ chances)  # standard deviations of the sums

    def negative_rate(u: Floats) -> tuple[float, Floats]:
        exponent = np.multiply.outer(atoms.values, u * unit)
        exponent += log_chances
        largest = exponent.max(axis=1, keepdims=True)
        tilted = np.exp(np.subtract(exponent, largest, out=exponent), out=exponent)
        total = tilted.sum(axis=1)
        value = atoms.counts @ (np.log(total) + largest[:, 0]) - (u * unit) @ sums
        return float(value), ((atoms.counts * atoms.values / total) @ tilted - sums) * unit

    found = minimize(
        negative_rate,
        np.zeros(len(sums)),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": RATE_TOLERANCE, "gtol": 0.0, "maxiter": MAX_ITERATIONS},
    )
    return -float(found.fun)


def _log_chi_squared_tail(value: float, freedom: float) -> float:
    """Logarithm of P(χ² ≥ value)."""
    a, x = freedom / 2, value / 2
    tail = float(special.gammaincc(a, x))
    if tail > TINY:
        return float(np.log(tail))
    return float(a * np.log(x) - x - special.gammaln(a) - np.log(x + 1 - a - (1 - a) / (x + 3 - a)))


class Residual:
    """Residuals of a response.

    Attributes
    ----------
    unscaled : ndarray
        The residuals in any unit.
    scale : float
        Root of their mean square.
    skewness, kurtosis : float
        Their shape.
    """

    def __init__(self, values: Floats) -> None:
        self.unscaled, self.scale = values, float(np.sqrt(values @ values / len(values)))
        self.skewness, self.kurtosis = skewness_and_kurtosis(values)

    @cached_property
    def values(self) -> Floats:
        """Residuals with mean square 1."""
        return self.unscaled / self.scale

    @cached_property
    def atoms(self) -> Atoms:
        """Values around their mean."""
        return find_atoms(self.unscaled).centred().times(1 / self.scale)

    @cached_property
    def distribution(self) -> ResidualDistribution:
        """Their distribution."""
        return ResidualDistribution.fit(self.atoms)
