"""Model-free measures of dependence: SIRS, mean-variance index, distance correlation."""

from __future__ import annotations

from typing import Any

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
        scores, scratch = np.empty(block.shape[1]), kernels.sorting.make_scratch(len(block))
        kernels.model_free.mean_variance(block.T, *prepared, np.empty_like(prepared[1]), scratch, scores)
        return scores


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
