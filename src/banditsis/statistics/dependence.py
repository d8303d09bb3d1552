"""Distance correlation, a measure of any dependence."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats
from banditsis.statistics.sample import SampleStatistic


class Distance(SampleStatistic):
    r"""Distance correlation: its limit is 0 only if feature and response are independent [1]_ [2]_.

    With :math:`a_{ij} = |x_i - x_j|`, :math:`b_{ij} = |y_i - y_j|`, and a dot for the sum over an index,

    .. math:: \operatorname{dCov}^2(a, b) = \frac{1}{n^2} \sum a_{ij} b_{ij}
              - \frac{2}{n^3} \sum a_{i·} b_{i·} + \frac{a_{··} b_{··}}{n^4}, \quad
              \operatorname{dCor} = \sqrt{\frac{\operatorname{dCov}^2(a, b)}
              {\operatorname{dCov}(a, a) \operatorname{dCov}(b, b)}}

    It takes O(n log n) per feature [3]_ and equals ``dcor.distance_correlation``. Distances are not robust to
    outliers; consider ranks if the data have heavy tails.

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
