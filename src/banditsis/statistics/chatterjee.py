"""Chatterjee's rank correlation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, rank_values
from banditsis.statistics.sample import SampleStatistic


class PreparedResponse(NamedTuple):
    """The response: its order, maximum ranks in that order, 2 Σ l (n - l), and the standard error of ξ.

    ``most_equal`` is the number of rows with the most frequent value.
    ``pairs`` and ``rows`` are sums of squares about the mean: of the distances between ranks over all ordered
    pairs, and of the sums of these distances for each row.
    """

    places: Array
    ranks: Floats
    spread: float
    error: float
    pairs: float
    rows: float
    most_equal: int


class Chatterjee(SampleStatistic):
    r"""Chatterjee's ξ: the degree to which the response is a function of the feature [1]_.

    With rows sorted by the feature, r the number of responses ≤ that of the row and l the number ≥ it,

    .. math:: ξ = 1 - \frac{n \sum_i |r_{i+1} - r_i|}{2 \sum_i l_i (n - l_i)}

    It tends to 1 if the response is a function of the feature, and to 0 if they are independent. For monotone
    association it needs more rows than monotone measures. For features without ties it equals
    ``scipy.stats.chatterjeexi(x, y)``. With ties it is the mean over all orders of the tied rows, so it does
    not depend on the order of the rows. Noise can make ξ negative; features are ranked by ξ, not by its
    absolute value.

    The p-value is one-sided and normal, and equals SciPy's for features without ties. Ties reduce the
    variance of ξ; its variance over all permutations of the response is known [2]_, and SciPy's variance is
    multiplied by the ratio of the two. ξ is skewed, and its p-value is NaN, if a feature has fewer distinct
    values than half of the rows, or if more than a third of the responses are equal; use :class:`Kendall` or
    :class:`MeanVariance` for such data. A constant feature has p-value 1.

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
    unknown_pvalues = (
        "too many values of the feature or of the response are equal for ξ to be normal; use 'spearman' or "
        "'kendall'"
    )

    def prepare(self, y: Floats) -> PreparedResponse:
        n, places = len(y), np.argsort(y, kind="stable")
        from_here_on = rank_values(-y, ties="max")
        spread = 2.0 * float((from_here_on * (n - from_here_on)).sum(dtype=np.float64))
        largest = rank_values(y, ties="max")[places].astype(np.float64)
        error = _standard_error(largest, spread)
        most_equal = int(np.unique(largest, return_counts=True)[1].max())
        return PreparedResponse(places, largest, spread, error, *_distances(largest), most_equal)

    def score_block(self, block: Floats, prepared: PreparedResponse) -> Floats:
        n, out = len(block), np.empty((4, block.shape[1]))
        kernels.ranks.chatterjee(block.T, *prepared[:3], np.empty(n), kernels.sorting.make_scratch(n), out)
        scores, values, pairs, rows = out
        variances = _variance(n, pairs, rows, prepared)
        rows_without_ties = 4.0 / n * (n - 2) / n + 2.0 * (1 - 2.0 / n) ** 2
        without_ties = float(_variance(n, np.array(2.0 * (n - 1)), np.array(rows_without_ties), prepared))
        share = variances / without_ties if without_ties > 0 else np.ones_like(variances)
        known = (values >= n / 2) & (share > 1e-10) & (prepared.most_equal <= n / 3)
        scale = np.full(len(scores), np.nan)
        scale[known] = 1.0 / (prepared.error * np.sqrt(share[known]))
        scale[values == 1] = 0.0
        return np.vstack([scores, scale])


def _distances(largest: Floats) -> tuple[float, float]:
    """Fields ``pairs`` and ``rows`` of :class:`PreparedResponse`, for sorted ranks."""
    n, i = len(largest), np.arange(len(largest))
    centred = largest - largest.mean()
    total = np.cumsum(centred)
    rows = 2.0 * ((i + 1) * centred - total) - n * centred
    mean = rows.sum() / (n * (n - 1.0))
    pairs = 2.0 * n * float(centred @ centred) - n * (n - 1.0) * mean**2
    return pairs, float(np.square(rows - rows.mean()).sum())


def _variance(n: int, pairs: Floats, rows: Floats, y: PreparedResponse) -> Floats:
    """Variance of Σ w·d over ordered pairs, where d are the distances of permuted ranks (Mantel 1967).

    ``pairs`` is Σw² over ordered pairs and ``rows`` the sum of squares of the rows' sums of w about their
    mean, as the kernel returns them; Σw is 2 (n - 1).
    """
    n_pairs = n * (n - 1.0)
    pairs = pairs - 4.0 * (n - 1.0) ** 2 / n_pairs
    # Products of two pairs of rows: the same pair, pairs that share one row, and disjoint pairs.
    shared, shared_y = rows - pairs, y.rows - y.pairs
    disjoint = (2.0 * pairs + 4.0 * shared) * (2.0 * y.pairs + 4.0 * shared_y)
    variance = 2.0 * pairs * y.pairs / n_pairs + 4.0 * shared * shared_y / (n_pairs * (n - 2.0))
    return np.asarray(variance + (disjoint / (n_pairs * (n - 2.0) * (n - 3.0)) if n > 3 else 0.0))


def _standard_error(largest: Floats, spread: float) -> float:
    """Standard error of ξ without association, corrected for ties in the response (Chatterjee 2021, 2.2)."""
    n = len(largest)
    u, d = largest / n, spread / (2.0 * n**3)
    i = np.arange(1, n + 1)
    squares = float(np.mean((2 * n - 2 * i + 1) / n * u**2))
    products = float(np.mean(((np.cumsum(u) + (n - i) * u) / n) ** 2))
    smaller = float(np.mean((2 * n - 2 * i + 1) / n * u))
    return float(np.sqrt((squares - 2 * products + smaller**2) / n) / d)
