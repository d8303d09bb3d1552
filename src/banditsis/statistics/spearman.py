"""Spearman's rank correlation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Floats, Rows, rank_values
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
        if present is None:
            return permutation_null(n_rows, rank_kurtosis(n_rows))
        n = np.maximum(present, 3.0)
        null = permutation_null(n, rank_kurtosis(n))
        return replace(null, scale=null.scale * np.sqrt(n_rows / n))

    def score_parts(self, rows: Rows) -> ScoreParts | None:
        return self.rank_parts(rows, linear=True)
