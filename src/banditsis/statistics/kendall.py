"""Kendall's rank correlation."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Rows
from banditsis.statistics.saddlepoint import ScoreParts
from banditsis.statistics.sample import SampleStatistic


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
