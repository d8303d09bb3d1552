"""Kendall's rank correlation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banditsis.arrays import Array, Floats
from banditsis.kernels import ranks
from banditsis.kernels.sorting import make_scratch
from banditsis.statistics.sample import SampleStatistic


class KendallSide(NamedTuple):
    """The response: places in ascending order, a number for each value there, its first place, and ties.

    With t the times that each value occurs, ties are the sums of t(t-1)/2, t(t-1)(t-2) and t(t-1)(2t+5).
    """

    places: Array
    groups: Array
    starts: Array
    ties: Floats


class Kendall(SampleStatistic):
    r"""Kendall's rank correlation τ-b [1]_, for screening [2]_.

    .. math:: τ_b = \frac{C - D}{\sqrt{(N - T_x)(N - T_y)}}

    C and D are the concordant and the discordant of the N = n(n-1)/2 pairs of rows, T the pairs with equal
    values. Discordant pairs are counted in O(n log n). The same as ``scipy.stats.kendalltau``, and its
    p-value is that of ``method="asymptotic"``: normal, with a variance that allows for ties.

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

    def prepare(self, y: Floats) -> KendallSide:
        places = np.argsort(y, kind="stable")
        _, starts, groups, sizes = np.unique(
            y[places], return_index=True, return_inverse=True, return_counts=True
        )
        t = sizes.astype(np.float64)
        ties = np.array([np.sum(t * (t - 1) * w) for w in (0.5, t - 2, 2 * t + 5)])
        return KendallSide(places, groups.astype(np.uint32), starts.astype(np.uint32), ties)

    def score_block(self, block: Floats, side: KendallSide) -> Floats:
        n, scores = len(block), np.empty((2, block.shape[1]))
        free, code = np.empty_like(side.starts), np.empty(n, np.uint32)
        ranks.kendall(
            block.T,
            side.places,
            side.groups,
            side.starts,
            free,
            side.ties,
            np.empty(n),
            code,
            *make_scratch(n),
            scores,
        )
        return scores
