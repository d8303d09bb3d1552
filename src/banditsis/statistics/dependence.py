"""Rank correlations (Spearman's ρ, Kendall's τ-b, Chatterjee's ξ) and distance correlation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Rows, rank_values, special
from banditsis.statistics.base import SampleStatistic
from banditsis.statistics.null_distributions import (
    NormalNull,
    NullDistribution,
    permutation_null,
)
from banditsis.statistics.saddlepoint import ScoreParts


class Spearman(SampleStatistic):
    r"""Spearman's rank correlation ρ: Pearson's correlation of average ranks [1]_, for screening [2]_.

    .. math:: ρ = \frac{\sum (R_i - \bar R)(S_i - \bar S)}
                       {\sqrt{\sum (R_i - \bar R)^2 \sum (S_i - \bar S)^2}}

    R and S are the ranks of the feature and of the response; equal values share the mean of their ranks.
    Scores equal ``scipy.stats.spearmanr``. P-values are those of all orders of the response: a symmetric beta
    distribution with the variance and kurtosis of ρ. SciPy's t is too small in the far tail of few rows.

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
    has_pvalues = True

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
        null = permutation_null(n)
        return replace(null, scale=null.scale * np.sqrt(n_rows / n))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        return ScoreParts(self.response(rows)[:, None], ranks=True)


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
    has_pvalues = returns_pvalues = True

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
        n, (scores, scale) = len(block), (out := np.empty((2, block.shape[1])))
        free, code = np.empty_like(prepared[2]), np.empty(n, np.uint32)
        kernels.ranks.kendall(
            block.T, prepared, free, np.empty(n), code, kernels.sorting.make_scratch(n), out
        )
        return np.stack([scores, NormalNull(scale).log10_pvalues(scores)])

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        """Those of Spearman's ρ, which has the same p-values if one of the variables has two values."""
        return ScoreParts(self.response(rows)[:, None], ranks=True, linear=False)


class Chatterjee(SampleStatistic):
    r"""Chatterjee's ξ: the degree to which the response is a function of the feature [1]_.

    With rows sorted by the feature, r the number of responses ≤ that of the row and l the number ≥ it,

    .. math:: ξ = 1 - \frac{n \sum_i |r_{i+1} - r_i|}{2 \sum_i l_i (n - l_i)}

    It tends to 1 if the response is a function of the feature, and to 0 if they are independent; monotone
    measures need fewer rows for monotone association. Without ties it equals ``scipy.stats.chatterjeexi``;
    with ties it is the mean over all orders of the tied rows. Features are ranked by ξ, not by its absolute
    value: noise can make it negative.

    The p-value is one-sided and normal, with SciPy's variance; ties in the feature make it too large. ξ is
    skewed, and its p-value is NaN, if a feature has fewer distinct values than half of the rows, or if more
    than a third of the responses are equal: use :class:`Kendall` or :class:`Chi2` then.

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
    has_pvalues = returns_pvalues = True
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
        if np.unique(largest, return_counts=True)[1].max() > n / 3:
            return places, largest, spread, np.nan
        # The variance without association, corrected for ties in the response (Chatterjee 2021, 2.2).
        u, d, i = largest / n, spread / (2.0 * n**3), np.arange(1, n + 1)
        squares = float(np.mean((2 * n - 2 * i + 1) / n * u**2))
        products = float(np.mean(((np.cumsum(u) + (n - i) * u) / n) ** 2))
        smaller = float(np.mean((2 * n - 2 * i + 1) / n * u))
        return places, largest, spread, d / float(np.sqrt((squares - 2 * products + smaller**2) / n))

    def score_block(self, block: Floats, prepared: tuple[Array, Floats, float, float]) -> Floats:
        *response, scale = prepared
        n, (scores, values) = len(block), (out := np.empty((2, block.shape[1])))
        kernels.ranks.chatterjee(block.T, *response, np.empty(n), kernels.sorting.make_scratch(n), out)
        log10 = special.log_ndtr(-scores * np.where(values >= n / 2, scale, np.nan)) / np.log(10)
        return np.stack([scores, np.where(values == 1, 0.0, log10)])


class Distance(SampleStatistic):
    r"""Distance correlation: its limit is 0 only if feature and response are independent [1]_ [2]_.

    With :math:`a_{ij} = |x_i - x_j|`, :math:`b_{ij} = |y_i - y_j|`, and a dot for the sum over an index,

    .. math:: \operatorname{dCov}^2(a, b) = \frac{1}{n^2} \sum a_{ij} b_{ij}
              - \frac{2}{n^3} \sum a_{i·} b_{i·} + \frac{a_{··} b_{··}}{n^4}, \quad
              \operatorname{dCor} = \sqrt{\frac{\operatorname{dCov}^2(a, b)}
              {\operatorname{dCov}(a, a) \operatorname{dCov}(b, b)}}

    It takes O(n log n) per feature [3]_, equals ``dcor.distance_correlation``, and is sensitive to outliers.

    References
    ----------
    .. [1] Székely, G. J., Rizzo, M. L. and Bakirov, N. K. (2007). Measuring and testing dependence by
       correlation of distances. Ann. Stat. 35, 2769-2794.
    .. [2] Li, R., Zhong, W. and Zhu, L. (2012). Feature screening via distance correlation learning.
       J. Am. Stat. Assoc. 107, 1129-1139.
    .. [3] Huo, X. and Székely, G. J. (2016). Fast computing for distance covariance. Technometrics 58,
       435-447.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x = np.linspace(-1, 1, 201)
    >>> X = np.column_stack([x, np.random.default_rng(0).permutation(x)])
    >>> screen(X, x**2, Plan.exact(201, 2, 1), statistic="distance").scores.round(2)
    array([0.49, 0.13])
    """

    name = "distance"
    one_sided = True

    def prepare(self, y: Floats) -> tuple[Array, Floats, Floats, Floats, float, float]:
        """Order of the response, its sorted values, their cumulative sums, and sums of distances."""
        n, places = len(y), np.argsort(y, kind="stable")
        values, sums = np.empty((2, n))
        kernels.model_free.centre_and_scale(y, places, values)
        total = kernels.model_free.row_sums(values, sums)
        variance = max(0.0, kernels.model_free.distance_variance(values, sums, total))
        return places, values, np.append(0.0, np.cumsum(values)), sums, total, variance

    def score_block(self, block: Floats, prepared: Any) -> Floats:
        n, scores = len(block), np.empty(block.shape[1])
        work, spare_code = np.empty((2, n)), np.empty(n, np.uint32)
        scratch = kernels.sorting.make_scratch(n)
        kernels.model_free.distance_correlation(block.T, prepared, work, spare_code, scratch, scores)
        return scores
