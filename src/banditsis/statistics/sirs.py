"""Sure independent ranking and screening."""

from __future__ import annotations

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats
from banditsis.statistics.sample import SampleStatistic


class Sirs(SampleStatistic):
    r"""Sure independent ranking and screening: the utility ω of Zhu et al. [1]_.

    .. math:: ω = \frac{1}{n} \sum_j \Big( \frac{1}{n} \sum_i z_i \, 1(y_i < y_j) \Big)^2

    z is the feature with mean 0 and mean square 1. The score depends only on the ranks of the response. It
    detects features whose mean changes with the response, but no effect that is even in the feature.

    References
    ----------
    .. [1] Zhu, L., Li, L., Li, R. and Zhu, L. (2011). Model-free feature screening for
       ultrahigh-dimensional data. J. Am. Stat. Assoc. 106, 1464-1475.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 1.0], [9.0, 2.0]])
    >>> screen(X, [1.0, 2.0, 4.0, 99.0], Plan.exact(4, 2, 2), statistic="sirs").scores.round(4)
    array([0.0893, 0.0312])
    """

    name = "sirs"
    one_sided = True
    noise = 1.0

    def prepare(self, y: Floats) -> tuple[Array, Array]:
        """Order of the response, and where a new value begins."""
        places = np.argsort(y, kind="stable")
        return places, np.append(True, np.diff(y[places]) > 0)

    def score_block(self, block: Floats, prepared: tuple[Array, Array]) -> Floats:
        scores = np.empty(block.shape[1])
        kernels.model_free.sirs(block.T, *prepared, np.empty(len(block)), scores)
        return scores
