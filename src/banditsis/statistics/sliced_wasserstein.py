"""Sliced-Wasserstein dependency."""

from __future__ import annotations

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Floats, Indices
from banditsis.core.validation import check_integer
from banditsis.statistics.sample import SampleStatistic

GOLDEN_RATIO = (1 + 5**0.5) / 2


class SlicedWasserstein(SampleStatistic):
    r"""Sliced-Wasserstein dependency of feature and response, after Li, Yu and Meng [1]_.

    The sliced Wasserstein distance between the joint distribution and the product of the marginal ones. With
    z and y of mean 0 and mean square 1, a permutation σ of the ranks, and K directions
    :math:`θ_k = π (k - 1/2) / K`,

    .. math:: \mathrm{SW}^2 = \frac{1}{K} \sum_k \frac{1}{n} \sum_i (A^k_{(i)} - B^k_{(i)})^2, \quad
              A^k_i = z_i \cos θ_k + y_i \sin θ_k, \quad
              B^k_i = z_{(i)} \cos θ_k + y_{(σ(i))} \sin θ_k

    where (i) denotes the i-th smallest value; in one dimension this is the squared 2-Wasserstein distance.
    The distance and its cost of O(n log n) per feature are those of the paper. This implementation chooses
    evenly spaced directions, and instead of a random permutation of the rows the ranks σ(i) of the golden
    ratio sequence :math:`(φ (i - (n + 1) / 2) + 1/2) \bmod 1`, or σ(n + 1 - i) if :math:`\cos θ_k < 0`. The
    n pairs of ranks (i, σ(i)) fill the square evenly, so they represent the product of the marginal
    distributions with a smaller error than random pairs, and the score does not depend on the order of the
    rows or on the sign of the feature. The response must be numeric; two classes can be coded as 0 and 1.

    Parameters
    ----------
    n_directions : int
        K, an even number; an odd number would include an axis, along which the distance is 0.

    References
    ----------
    .. [1] Li, T., Yu, J. and Meng, C. (2023). Scalable model-free feature screening via
       sliced-Wasserstein dependency. J. Comput. Graph. Stat. 32, 1501-1511.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x = np.linspace(-1, 1, 1001)
    >>> X = np.column_stack([x, np.random.default_rng(0).permutation(x)])
    >>> plan = Plan.exact(1001, 2, 1)
    >>> screen(X, x**2, plan, statistic=SlicedWasserstein(n_directions=4)).scores.round(2)
    array([0.28, 0.02])
    """

    name = "sliced_wasserstein"
    one_sided = True

    def __init__(self, n_directions: int = 8) -> None:
        check_integer("n_directions", n_directions, 2)
        if n_directions % 2:
            raise ValueError(f"n_directions must be even, got {n_directions}.")
        self.n_directions = n_directions
        self.settings = {"n_directions": n_directions}

    def prepare(self, y: Floats) -> tuple[Floats, Floats, Floats]:
        """Standardised response, responses for independent pairs, and the directions."""
        angles = np.pi * (np.arange(self.n_directions) + 0.5) / self.n_directions
        standard = np.empty(len(y))
        kernels.model_free.standardise(y, standard)
        pairs = np.sort(standard)[_evenly_spread_ranks(len(y))]
        return standard, np.stack([pairs, pairs[::-1]]), np.column_stack([np.cos(angles), np.sin(angles)])

    def score_block(self, block: Floats, prepared: tuple[Floats, Floats, Floats]) -> Floats:
        n, scores = len(block), np.empty(block.shape[1])
        work, joint_order = np.empty((4, n)), np.empty(n, np.uint32)
        scratch = kernels.sorting.make_scratch(n)
        kernels.model_free.sliced_wasserstein(block.T, prepared, work, joint_order, scratch, scores)
        return scores


def _evenly_spread_ranks(n: int) -> Indices:
    """A permutation σ of n ranks such that the points (i, σ(i)) fill the square evenly.

    Examples
    --------
    >>> _evenly_spread_ranks(8)
    array([6, 3, 0, 5, 2, 7, 4, 1])
    """
    positions = GOLDEN_RATIO * (np.arange(n) - (n - 1) / 2) + 0.5
    ranks = np.empty(n, np.intp)
    ranks[np.argsort(positions % 1.0, kind="stable")] = np.arange(n)
    return ranks
