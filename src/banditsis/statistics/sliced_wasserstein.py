"""Sliced-Wasserstein dependency."""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Floats
from banditsis.kernels import model_free
from banditsis.kernels.sorting import make_scratch
from banditsis.statistics.sample import SampleStatistic
from banditsis.validation import check_integer


class SlicedWasserstein(SampleStatistic):
    r"""Sliced-Wasserstein dependency of feature and response, after Li, Yu and Meng [1]_.

    The sliced Wasserstein distance between the joint distribution and the product of the marginal ones. With
    z and y of mean 0 and mean square 1, a permutation σ of the rows, and K directions
    :math:`θ_k = π (k - 1/2) / K`,

    .. math:: \mathrm{SW}^2 = \frac{1}{K} \sum_k \frac{1}{n} \sum_i (A^k_{(i)} - B^k_{(i)})^2, \quad
              A^k_i = z_i \cos θ_k + y_i \sin θ_k, \quad B^k_i = z_i \cos θ_k + y_{σ(i)} \sin θ_k

    where (i) denotes the i-th smallest value; in one dimension this is the squared 2-Wasserstein distance.
    The distance and its cost of O(n log n) per feature are those of the paper. Evenly spaced directions and
    one permutation, drawn by ``numpy.random.default_rng(n)``, are choices of this implementation; they make
    the score reproducible. The response must be numeric; two classes can be coded as 0 and 1.

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
    array([0.29, 0.04])
    """

    name = "sliced_wasserstein"

    def __init__(self, n_directions: int = 8) -> None:
        check_integer("n_directions", n_directions, 2)
        if n_directions % 2:
            raise ValueError(f"n_directions must be even, got {n_directions}.")
        self.n_directions = n_directions
        self.settings = {"n_directions": n_directions}

    def prepare(self, y: Floats) -> tuple[Floats, Floats, Floats]:
        """Standardised response, the same shuffled, and the directions."""
        angles = np.pi * (np.arange(self.n_directions) + 0.5) / self.n_directions
        standard = np.empty(len(y))
        model_free.standardise(y, standard)
        shuffled = np.random.default_rng(len(y)).permutation(standard)
        return standard, shuffled, np.column_stack([np.cos(angles), np.sin(angles)])

    def score_block(self, block: Floats, prepared: tuple[Floats, Floats, Floats]) -> Floats:
        n, scores = len(block), np.empty(block.shape[1])
        work, joint_order = np.empty((3, n)), np.empty(n, np.uint32)
        model_free.sliced_wasserstein(block.T, *prepared, work, joint_order, make_scratch(n), scores)
        return scores
