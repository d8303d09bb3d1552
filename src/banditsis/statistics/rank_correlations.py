"""Rank correlations: Spearman's ρ, Kendall's τ-b and Chatterjee's ξ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Rows, rank_values
from banditsis.statistics.null_distributions import NullDistribution, permutation_null, rank_kurtosis
from banditsis.statistics.saddlepoint import ScoreParts
from banditsis.statistics.sample import SampleStatistic


class Spearman(SampleStatistic):
    r"""Spearman's rank correlation ρ: Pearson's correlation of average ranks [1]_, for screening [2]_.

    .. math:: ρ = \frac{\sum (R_i - \bar R)(S_i - \bar S)}
                       {\sqrt{\sum (R_i - \bar R)^2 \sum (S_i - \bar S)^2}}

    R and S are the ranks of the feature and of the response; equal values share the mean of their ranks. It
    detects monotone association and is robust to outliers. Scores equal those of ``scipy.stats.spearmanr``.
    P-values are those of all orders of the response: a symmetric beta distribution with the variance and
    kurtosis of ρ. SciPy's are from Student's t, which is too small in the far tail of few rows.

    References
    ----------
    .. [1] Spearman, C. (1904). The proof and measurement of association between two things. Am. J.
       Psychol. 15, 72-101.
    .. [2] Li, G., Peng, H., Zhang, J. and Zhu, L. (2012). Robust rank correlation based screening.
       Ann. Stat. 40, 1846-1877.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 1.0], [9.0, 0.0]])
    >>> screen(X, [1.0, 2.0, 4.0, 99.0], Plan.exact(4, 2, 2), statistic="spearman").scores.round(4)
    array([ 1.    , -0.9487])
    """

    name = "spearman"

    def prepare(self, y: Floats) -> tuple[Floats, float]:
        """Centred ranks, and their sum of squares."""
        centred = rank_values(y) - (len(y) + 1) / 2
        return centred, float(centred @ centred)

    def score_block(self, block: Floats, prepared: tuple[Floats, float]) -> Floats:
        scores = np.empty(block.shape[1])
        kernels.ranks.spearman(block.T, *prepared, kernels.sorting.make_scratch(len(block)), scores)
        return scores

    def null_distribution(
        self, prepared: tuple[Floats, float], n_rows: int, present: Floats | None
    ) -> NullDistribution:
        n = n_rows if present is None else np.maximum(present, 3.0)
        null = permutation_null(n, rank_kurtosis(n))
        return replace(null, scale=null.scale * np.sqrt(n_rows / n))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        return self.rank_parts(rows, linear=True)


class Kendall(SampleStatistic):
    r"""Kendall's rank correlation τ-b [1]_, for screening [2]_.

    .. math:: τ_b = \frac{C - D}{\sqrt{(N - T_x)(N - T_y)}}

    C and D are the numbers of concordant and discordant pairs of rows, of N = n(n-1)/2, and T those of tied
    pairs. Discordant pairs are counted in O(n log n). The score equals ``scipy.stats.kendalltau``, and the
    p-value that with ``method="asymptotic"``: normal, with a variance that is corrected for ties.

    References
    ----------
    .. [1] Kendall, M. G. (1945). The treatment of ties in ranking problems. Biometrika 33, 239-251.
    .. [2] Li, G., Peng, H., Zhang, J. and Zhu, L. (2012). Robust rank correlation based screening.
       Ann. Stat. 40, 1846-1877.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 1.0], [9.0, 0.0]])
    >>> screen(X, [1.0, 2.0, 4.0, 99.0], Plan.exact(4, 2, 2), statistic="kendall").scores.round(4)
    array([ 1.    , -0.9129])
    """

    name = "kendall"
    returns_null_scale = True

    def prepare(self, y: Floats) -> tuple[Array, Array, Array, Floats]:
        """Order of the response, a number for each value in that order, where each value begins, and ties.

        With t the frequency of each value, the ties are Σt(t-1)/2, Σt(t-1)(t-2) and Σt(t-1)(2t+5).
        """
        places = np.argsort(y, kind="stable")
        _, starts, groups, sizes = np.unique(
            y[places], return_index=True, return_inverse=True, return_counts=True
        )
        t = sizes.astype(np.float64)
        ties = np.array([np.sum(t * (t - 1) * w) for w in (0.5, t - 2, 2 * t + 5)])
        return places, groups.astype(np.uint32), starts.astype(np.uint32), ties

    def score_block(self, block: Floats, prepared: Any) -> Floats:
        n, scores = len(block), np.empty((2, block.shape[1]))
        free, code = np.empty_like(prepared[2]), np.empty(n, np.uint32)
        scratch = kernels.sorting.make_scratch(n)
        kernels.ranks.kendall(block.T, prepared, free, np.empty(n), code, scratch, scores)
        return scores

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        """Those of Spearman's ρ, which has the same p-values if one of the variables has two values."""
        return self.rank_parts(rows, linear=False)


class Chatterjee(SampleStatistic):
    r"""Chatterjee's ξ: the degree to which the response is a function of the feature [1]_.

    With rows sorted by the feature, r the number of responses ≤ that of the row and l the number ≥ it,

    .. math:: ξ = 1 - \frac{n \sum_i |r_{i+1} - r_i|}{2 \sum_i l_i (n - l_i)}

    It tends to 1 if the response is a function of the feature, and to 0 if they are independent. For monotone
    association it needs more rows than monotone measures. For features without ties it equals
    ``scipy.stats.chatterjeexi(x, y)``. With ties it is the mean over all orders of the tied rows. Noise can
    make ξ negative; features are ranked by ξ, not by its absolute value.

    The p-value is one-sided and normal, with SciPy's variance. Ties in the feature reduce the variance of the
    mean, so p-values are too large, never too small. ξ is skewed, and its p-value is NaN, if a feature has
    fewer distinct values than half of the rows, or if more than a third of the responses are equal; use
    :class:`Kendall` or :class:`Chi2` for such data. A constant feature has p-value 1.

    References
    ----------
    .. [1] Chatterjee, S. (2021). A new coefficient of correlation. J. Am. Stat. Assoc. 116, 2009-2022.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x = np.linspace(-1, 1, 201)
    >>> X = np.column_stack([x, np.random.default_rng(0).permutation(x)])
    >>> screen(X, x**2, Plan.exact(201, 2, 1), statistic="chatterjee").scores.round(2)
    array([ 0.97, -0.02])
    """

    name = "chatterjee"
    one_sided = True
    returns_null_scale = True
    unknown_pvalues = (
        "too many values of the feature or of the response are equal for ξ to be normal; use 'spearman' or "
        "'kendall'"
    )

    def prepare(self, y: Floats) -> tuple[Array, Floats, float, float]:
        """Order of y, maximum ranks in it, 2 Σ l (n - l), and 1 / standard error: NaN with too many ties."""
        n, places = len(y), np.argsort(y, kind="stable")
        from_here_on = rank_values(-y, ties="max")
        spread = 2.0 * float((from_here_on * (n - from_here_on)).sum(dtype=np.float64))
        largest = rank_values(y, ties="max")[places].astype(np.float64)
        is_known = np.unique(largest, return_counts=True)[1].max() <= n / 3
        return places, largest, spread, 1.0 / _standard_error(largest, spread) if is_known else np.nan

    def score_block(self, block: Floats, prepared: tuple[Array, Floats, float, float]) -> Floats:
        *response, scale = prepared
        n, out = len(block), np.empty((2, block.shape[1]))
        kernels.ranks.chatterjee(block.T, *response, np.empty(n), kernels.sorting.make_scratch(n), out)
        scores, values = out
        known = np.where(values >= n / 2, scale, np.nan)
        return np.vstack([scores, np.where(values == 1, 0.0, known)])


def _standard_error(largest: Floats, spread: float) -> float:
    """Standard error of ξ without association, corrected for ties in the response (Chatterjee 2021, 2.2)."""
    n = len(largest)
    u, d = largest / n, spread / (2.0 * n**3)
    i = np.arange(1, n + 1)
    squares = float(np.mean((2 * n - 2 * i + 1) / n * u**2))
    products = float(np.mean(((np.cumsum(u) + (n - i) * u) / n) ** 2))
    smaller = float(np.mean((2 * n - 2 * i + 1) / n * u))
    return float(np.sqrt((squares - 2 * products + smaller**2) / n) / d)
