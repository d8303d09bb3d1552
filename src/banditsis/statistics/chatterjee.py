"""Chatterjee's rank correlation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from banditsis.arrays import Array, Floats
from banditsis.kernels import ranks
from banditsis.kernels.sorting import make_scratch
from banditsis.statistics.sample import SampleStatistic

#: A feature with equal values has a p-value if it has so many different ones, or as many as half the rows.
FEWEST_VALUES = 100


class ChatterjeeSide(NamedTuple):
    """The response: places in ascending order, largest ranks there, 2 Σ l (n - l), standard error of ξ.

    ``pairs`` and ``rows`` are sums of squares of the distances of ranks, all pairs and the sums of each row,
    about their means.
    """

    places: Array
    ranks: Floats
    spread: float
    error: float
    pairs: float
    rows: float


class Chatterjee(SampleStatistic):
    r"""Chatterjee's ξ: how well the response is a function of the feature [1]_.

    With the rows in the order of the feature, r the number of responses up to each response and l the number
    from it on,

    .. math:: ξ = 1 - \frac{n \sum_i |r_{i+1} - r_i|}{2 \sum_i l_i (n - l_i)}

    It tends to 1 if the response is any function of the feature, to 0 if they are independent, and asks for
    more rows than monotone measures where the association is monotone. The same as
    ``scipy.stats.chatterjeexi(x, y)`` for features without equal values. Where values of a feature are equal,
    their order is arbitrary; ξ is here its mean over all orders, so that the order of the rows does not
    matter. Noise can make ξ negative: large ξ speak of association and small ones do not, so that features
    rank by ξ itself, not by its size.

    The p-value is one-sided and normal, and SciPy's for a feature without equal values. With equal values ξ
    varies less: over all permutations of the response its variance is known exactly [2]_, and SciPy's is
    multiplied with what equal values make of that. A feature of few values has a ξ that is not normal, and
    its p-value is withheld (NaN) where there are fewer than 100 values and fewer than half as many as rows;
    :class:`Kendall` and :class:`MeanVariance` are made for those. A constant feature has p-value 1.

    References
    ----------
    .. [1] Chatterjee, S. (2021). A new coefficient of correlation. J. Am. Stat. Assoc. 116, 2009-2022.
    .. [2] Mantel, N. (1967). The detection of disease clustering and a generalized regression approach.
       Cancer Res. 27, 209-220.

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
    one_sided = True
    returns_null_scale = True

    def prepare(self, y: Floats) -> ChatterjeeSide:
        n, places = len(y), np.argsort(y, kind="stable")
        from_here_on = rankdata(-y, method="max")
        spread = 2.0 * float((from_here_on * (n - from_here_on)).sum(dtype=np.float64))
        largest = rankdata(y, method="max")[places].astype(np.float64)
        error = _standard_error(largest, spread)
        return ChatterjeeSide(places, largest, spread, error, *_distances(largest))

    def score_block(self, block: Floats, side: ChatterjeeSide) -> Floats:
        n, out = len(block), np.empty((4, block.shape[1]))
        ranks.chatterjee(block.T, *side[:3], np.empty(n), *make_scratch(n), out)
        scores, values, pairs, rows = out
        variances = _variance(n, pairs, rows, side)
        without_ties = 4.0 / n * (n - 2) / n + 2.0 * (1 - 2.0 / n) ** 2
        free = float(_variance(n, np.array(2.0 * (n - 1)), np.array(without_ties), side))
        share = variances / free if free > 0 else np.ones_like(variances)
        known = (values == n) | ((values >= min(FEWEST_VALUES, n / 2)) & (share > 1e-10))
        stretch = np.full(len(scores), np.nan)
        stretch[known] = 1.0 / (side.error * np.sqrt(share[known]))
        stretch[values == 1] = 0.0
        return np.vstack([scores, stretch])


def _distances(largest: Floats) -> tuple[float, float]:
    """Squares of the distances of sorted ranks, ordered pairs and sums of rows, about their means."""
    n, i = len(largest), np.arange(len(largest))
    centred = largest - largest.mean()
    total = np.cumsum(centred)
    rows = 2.0 * ((i + 1) * centred - total) - n * centred
    mean = rows.sum() / (n * (n - 1.0))
    pairs = 2.0 * n * float(centred @ centred) - n * (n - 1.0) * mean**2
    return pairs, float(np.square(rows - rows.mean()).sum())


def _variance(n: int, pairs: Floats, rows: Floats, side: ChatterjeeSide) -> Floats:
    """Variance of Σ w·d over ordered pairs, d the distances of permuted ranks: Mantel's (1967).

    ``pairs`` is Σ w² over ordered pairs, which add up to 2 (n - 1); ``rows`` as the kernel gives it.
    """
    two = n * (n - 1.0)
    pairs = pairs - 4.0 * (n - 1.0) ** 2 / two
    both, theirs = rows - pairs, side.rows - side.pairs  # pairs of pairs that share a row
    apart = (2.0 * pairs + 4.0 * both) * (2.0 * side.pairs + 4.0 * theirs)
    variance = 2.0 * pairs * side.pairs / two + 4.0 * both * theirs / (two * (n - 2.0))
    return np.asarray(variance + (apart / (two * (n - 2.0) * (n - 3.0)) if n > 3 else 0.0))


def _standard_error(largest: Floats, spread: float) -> float:
    """Standard error of ξ without association, ties in the response allowed for: Chatterjee's (2.2)."""
    n = len(largest)
    u, d = largest / n, spread / (2.0 * n**3)
    i = np.arange(1, n + 1)
    squares = float(np.mean((2 * n - 2 * i + 1) / n * u**2))
    products = float(np.mean(((np.cumsum(u) + (n - i) * u) / n) ** 2))
    smaller = float(np.mean((2 * n - 2 * i + 1) / n * u))
    return float(np.sqrt((squares - 2 * products + smaller**2) / n) / d)
