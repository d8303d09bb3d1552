"""Effect sizes: scores in the units of the response and the feature, with standard errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Floats, Indices
from banditsis.statistics.null_distributions import NullDistribution


class Effects(NamedTuple):
    r"""Effect size of each selected feature and its standard error; NaN if it is not known.

    ============== ================================================================================
    ``"pearson"``  slope of the response on the feature and the covariates, by least squares
    ``"logistic"`` log odds ratio of the label that sorts last, per unit of the feature
    ``"poisson"``  log rate ratio per unit of the feature
    ``"cox"``      log hazard ratio per unit of the feature
    ``"anova"``    with two classes: mean of the feature in the class that sorts last, minus that in the
                   other
    ============== ================================================================================

    The log ratios are one Newton step from the model without the feature [1]_, with the score U and its
    variance V given the covariates: :math:`β = U / V` and :math:`se = 1 / \sqrt{V}` (for ``"poisson"`` times
    the root of the dispersion). They are accurate for small effects; refit a model for large ones. The ratio
    β / se is the t or z of the p-value, before that is corrected for skewed data.

    References
    ----------
    .. [1] Le Cam, L. (1956). On the asymptotic theory of estimation and testing hypotheses. Proc. Third
       Berkeley Symp. Math. Statist. Probab. 1, 129-156.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> beta, se = screen(x, [1.0, 3.0, 5.0, 8.0], Plan.exact(4, 1, 1)).effects
    >>> beta.round(3), se.round(3)
    (array([2.3]), array([0.173]))
    """

    beta: Floats
    se: Floats

    def take(self, positions: Indices) -> Effects:
        """The effects of some of the features."""
        return Effects(self.beta[positions], self.se[positions])


def find_effects(scores: Floats, factors: Floats, null: NullDistribution | None) -> Effects:
    """Effects from scores and the factors that turn them into effect sizes.

    NaN where a factor is 0 or the effect size is beyond the range of float64.
    """
    known = np.isfinite(factors) & (factors != 0)
    factors = np.where(known, factors, np.nan)
    errors = np.full(scores.shape, np.nan) if null is None else null.standard_errors(scores)
    return Effects(scores * factors, errors * np.abs(factors))
