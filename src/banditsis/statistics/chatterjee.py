"""Chatterjee's rank correlation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from banditsis._typing import Array, Floats
from banditsis.kernels import ranks
from banditsis.kernels.sorting import make_scratch
from banditsis.laws import Law, NormalLaw
from banditsis.statistics.sample import SampleStatistic


class ChatterjeeSide(NamedTuple):
    """The response: places in ascending order, largest ranks there, 2 Σ l (n - l), standard error of ξ."""

    places: Array
    ranks: Floats
    spread: float
    error: float


class Chatterjee(SampleStatistic):
    r"""Chatterjee's ξ: how well the response is a function of the feature [1]_.

    With the rows in the order of the feature, r the number of responses up to each response and l the number
    from it on,

    .. math:: ξ = 1 - \frac{n \sum_i |r_{i+1} - r_i|}{2 \sum_i l_i (n - l_i)}

    It tends to 1 if the response is any function of the feature, to 0 if they are independent, and asks for
    more rows than monotone measures where the association is monotone. The same as
    ``scipy.stats.chatterjeexi(x, y)`` for features without equal values. Where values of a feature are equal,
    their order is arbitrary; ξ is here its mean over all orders, so that the order of the rows does not
    matter. Noise can make ξ negative; such scores are as small as noise, and rank by their size. The p-value
    is SciPy's, normal and one-sided: large ξ speak against independence, small ones do not. It errs on the
    safe side for features with many equal values.

    References
    ----------
    .. [1] Chatterjee, S. (2021). A new coefficient of correlation. J. Am. Stat. Assoc. 116, 2009-2022.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x = np.linspace(-1, 1, 201)
    >>> X = np.column_stack([x, np.random.default_rng(0).permutation(x)])
    >>> screen(X, x**2, Plan.exact(201, 2, 1), statistic="chatterjee").scores.round(2)
    array([ 0.97, -0.02])
    """

    name = "chatterjee"

    def prepare(self, y: Floats) -> ChatterjeeSide:
        n, places = len(y), np.argsort(y, kind="stable")
        from_here_on = rankdata(-y, method="max")
        spread = 2.0 * float((from_here_on * (n - from_here_on)).sum(dtype=np.float64))
        largest = rankdata(y, method="max")[places].astype(np.float64)
        return ChatterjeeSide(places, largest, spread, _standard_error(largest, spread))

    def score_block(self, block: Floats, side: ChatterjeeSide) -> Floats:
        n, scores = len(block), np.empty(block.shape[1])
        ranks.chatterjee(block.T, *side[:3], np.empty(n), *make_scratch(n), scores)
        return scores

    def null_law(self, side: ChatterjeeSide, n_rows: int, present: Floats | None) -> Law:
        # With fewer rows present the error grows as the score was lessened.
        return NormalLaw(1.0 / side.error, two_sided=False)


def _standard_error(largest: Floats, spread: float) -> float:
    """Standard error of ξ without association, ties in the response allowed for: Chatterjee's (2.2)."""
    n = len(largest)
    u, d = largest / n, spread / (2.0 * n**3)
    i = np.arange(1, n + 1)
    squares = float(np.mean((2 * n - 2 * i + 1) / n * u**2))
    products = float(np.mean(((np.cumsum(u) + (n - i) * u) / n) ** 2))
    smaller = float(np.mean((2 * n - 2 * i + 1) / n * u))
    return float(np.sqrt((squares - 2 * products + smaller**2) / n) / d)
