"""The mean-variance index between a feature and classes."""

from __future__ import annotations

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats
from banditsis.statistics.sample import SampleStatistic


class MeanVariance(SampleStatistic):
    r"""The mean-variance index of Cui, Li and Zhong [1]_, for class labels.

    .. math:: \mathrm{MV} = \frac{1}{n} \sum_j \sum_c p_c \left( F_c(x_j) - F(x_j) \right)^2

    F and :math:`F_c` are the distribution functions of the feature in all rows and in those of class c, and
    :math:`p_c` is the share of that class. It is 0 only if the feature has the same distribution in all
    classes, and depends only on the ranks of the feature. Labels may be strings.

    References
    ----------
    .. [1] Cui, H., Li, R. and Zhong, W. (2015). Model-free feature screening for ultrahigh dimensional
       discriminant analysis. J. Am. Stat. Assoc. 110, 630-641.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [5.0, 2.0], [6.0, 1.0]])
    >>> screen(X, ["a", "a", "b", "b"], Plan.exact(4, 2, 1), statistic="mv").scores.round(4)
    array([0.0938, 0.    ])
    """

    name = "mv"
    one_sided = True
    by_class = True
    noise = 1.0

    def prepare(self, y: Floats) -> tuple[Array, Floats]:
        """Class of each row, and the sizes of the classes."""
        _, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
        return codes.astype(np.uint32), sizes.astype(np.float64)

    def score_block(self, block: Floats, prepared: tuple[Array, Floats]) -> Floats:
        scores, counts = np.empty(block.shape[1]), np.empty_like(prepared[1])
        kernels.model_free.mean_variance(
            block.T, *prepared, counts, kernels.sorting.make_scratch(len(block)), scores
        )
        return scores
