r"""P-values of score tests with covariates, from the likelihood of the model.

With covariates every row has its own null distribution: a case is more likely in some rows than in others.
Given the fitted null model, the score U of a feature has the cumulant generating function

.. math:: K(t) = ℓ(0) - ℓ(t) + t U

where :math:`ℓ(t)` is the log-likelihood (for Cox, the partial one) with coefficient t of the feature, from
which the covariates have been projected out. The tail is that of the saddlepoint [1]_ [2]_, as in
:mod:`~banditsis.statistics.saddlepoint`.

References
----------
.. [1] Barndorff-Nielsen, O. E. (1986). Inference on full or partial parameters based on the standardized
   signed log likelihood ratio. Biometrika 73, 307-322.
.. [2] Dey, R., Schmidt, E. M., Abecasis, G. R. and Lee, S. (2017). A fast and accurate algorithm to test for
   binary phenotypes and its application to PheWAS. Am. J. Hum. Genet. 101, 37-49.
.. [3] Ogundimu, E. O., Altman, D. G. and Collins, G. S. (2016). Adequate sample size for developing
   prediction models is not simply related to events per variable. J. Clin. Epidemiol. 76, 175-182.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from banditsis.core.arrays import special

#: K and its first two derivatives; K″(0) = 1.
Cumulants: TypeAlias = Callable[[float], tuple[float, float, float]]

#: The usual p-value is kept if K differs less from that of a normal variable, so far from the mean.
TOLERANCE, DEVIATION = 0.1, 5.0
MAX_ARGUMENT = 1000.0
#: Events for each covariate from which on small p-values are given [3]_.
EVENTS_PER_COVARIATE = 20


def log_pvalue(cumulants: Cumulants, score: float) -> float:
    """Logarithm of the two-sided p-value of a score; -inf if the normal distribution is close enough."""
    arguments = np.array([-DEVIATION, DEVIATION])
    if max(abs(cumulants(t)[0] - t * t / 2) for t in arguments) <= TOLERANCE:
        return -np.inf
    roots = [_signed_root(cumulants, sign * abs(score)) for sign in (1.0, -1.0)]
    return min(float(np.logaddexp(*special.log_ndtr(-np.array(roots)))), 0.0)


def _signed_root(cumulants: Cumulants, score: float) -> float:
    """The signed root r* of a score, as a positive number for a score on either side."""
    from scipy.optimize import brentq  # this import takes longer than most runs

    side, size = np.sign(score), abs(score)
    if size < 1e-3:
        return 0.0
    end = size
    while side * cumulants(side * end)[1] < size and end < MAX_ARGUMENT:
        end = min(2 * end, MAX_ARGUMENT)
    reached = min(size, 0.999 * side * cumulants(side * end)[1])  # at the edge of the support
    t = brentq(lambda t: side * cumulants(side * t)[1] - reached, 0.0, end, rtol=1e-8)
    value, _, curvature = cumulants(side * t)
    w, v = np.sqrt(2 * max(t * reached - value, 0.0)), t * np.sqrt(curvature)
    return float(w + np.log(v / w) / w) if w > 1e-3 and v > 0 else float(w)


def describe_few_events(n_events: int, rank: int) -> str | None:
    """Why there are no p-values; None if there are enough events for the covariates.

    Examples
    --------
    >>> print(describe_few_events(23, 2))
    no p-values: there are 23 events, and small p-values given 2 covariates need 40 or more.
    """
    if rank == 0 or n_events >= EVENTS_PER_COVARIATE * rank:
        return None
    covariates = "a covariate needs" if rank == 1 else f"{rank} covariates need"
    needed = EVENTS_PER_COVARIATE * rank
    return (
        f"no p-values: there are {n_events:,} events, and small p-values given {covariates} {needed} or more."
    )
