"""The Wilcoxon rank-sum test of each class of rows, which is the area under the ROC curve (AUC)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb
from typing import Any, NamedTuple, Self

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Rows, StoredCells, ratio, special
from banditsis.statistics.base import RowSizes, SampleStatistic, show

#: Without ties, p-values are exact if a class or what it is compared with has at most so many rows.
MAX_EXACT = 8
#: With a larger share of ties, the sum is normal if so many rows with other values are expected in a class.
MAX_TIED, MIN_OTHERS = 0.25, 5
#: A normal variable is larger than minus this with probability 95%.
QUANTILE = 1.645


class Comparison(NamedTuple):
    """Classes of some rows, each of which is compared with the rest or with a reference class."""

    #: class of each row
    codes: Array
    #: sampling weights of the rows; None if all are equal
    weights: Floats | None
    #: number of rows of each class, or the sum of their weights
    sizes: Floats
    #: the reference class, or -1
    reference: int

    @classmethod
    def of(cls, codes: Array, weights: Floats | None, n_classes: int, reference: int = -1) -> Comparison:
        sizes = np.bincount(codes, weights, n_classes).astype(np.float64)
        return cls(codes, weights, sizes, reference)

    @property
    def others(self) -> Floats:
        """Size of what each class is compared with."""
        rest = self.sizes.sum() - self.sizes
        return rest if self.reference < 0 else np.full_like(rest, self.sizes[self.reference])

    def sum_ranks(self, cells: StoredCells) -> Floats:
        """Lines × classes × columns of :func:`banditsis.kernels.ranks.rank_sums`."""
        longest = int((cells.stops - cells.starts).max(initial=0))
        weights = np.empty(0 if self.weights is None else longest)
        memory = np.empty(longest), np.empty(longest, np.int32), weights, np.zeros(len(self.sizes))
        out = np.zeros((len(cells.starts), 5, len(self.sizes)))
        scratch = kernels.sorting.make_scratch(longest)
        kernels.ranks.rank_sums(tuple(cells), *self, memory, scratch, out)
        return out.transpose(1, 2, 0)


class Wilcoxon(SampleStatistic):
    r"""Wilcoxon's rank-sum statistic of each class against the rest [1]_ [2]_, to find markers of classes.

    .. math:: s = \mathrm{AUC} - \frac{1}{2}, \qquad
              \mathrm{AUC} = \frac{U}{n_1 n_2}, \qquad U = R_1 - \frac{n_1 (n_1 + 1)}{2}

    :math:`R_1` is the sum of the ranks of the feature over the :math:`n_1` rows of the class, among these and
    the :math:`n_2` others; equal values share the mean of their ranks. The AUC is the probability that the
    feature is larger in a row of the class than in another. Each class is a response of its own, so there are
    as many results; of two classes there is one, for the one that sorts last. Each feature is ranked once for
    all classes, and of sparse matrices only the cells that are not 0 are sorted.

    P-values are those of ``scipy.stats.mannwhitneyu``: exact if no values are equal and :math:`n_1` or
    :math:`n_2` is at most 8, otherwise normal, corrected for ties and continuity. They are NaN where that may
    reject too often: if more than a quarter of the values are equal, and fewer than 5 of the others are
    expected among the :math:`n_1` or :math:`n_2` rows. Far in the tail they are too small for rare classes.

    Parameters
    ----------
    reference : label, optional
        The class that the others are compared with; by default each is compared with all others.

    References
    ----------
    .. [1] Wilcoxon, F. (1945). Individual comparisons by ranking methods. Biometrics Bulletin 1, 80-83.
    .. [2] Mann, H. B. and Whitney, D. R. (1947). On a test of whether one of two random variables is
       stochastically larger than the other. Ann. Math. Statist. 18, 50-60.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> X = np.array([[0.0, 3.0], [1.0, 0.0], [0.0, 2.0], [5.0, 0.0], [0.0, 1.0], [7.0, 0.0]])
    >>> results = screen(X, [0, 1, 0, 2, 0, 2], Plan.exact(6, 2, 2), statistic="wilcoxon")
    >>> results.names, results["2"].scores.round(3)
    (['0', '1', '2'], array([ 0.5  , -0.375]))
    >>> screen(X, [0, 1, 0, 1, 0, 1], Plan.exact(6, 2, 2), statistic=Wilcoxon(reference=1)).scores
    array([-0.5,  0.5])
    """

    name = "wilcoxon"
    by_class = True
    has_pvalues = returns_pvalues = True
    reads_stored = True
    shares_pass = True
    unknown_pvalues = (
        "too many values are equal for the rank sum of a small class to be normal; combine small classes, or "
        "read more rows"
    )
    #: Classes that are compared with the reference or the rest: the responses.
    compared: Array

    def __init__(self, reference: Any = None) -> None:
        self.reference = reference
        self.settings = {} if reference is None else {"reference": reference}

    def bind(self, y: Array, pairwise: bool) -> Self:
        if (q := y.shape[1]) > 1:
            raise ValueError(f"statistic 'wilcoxon' needs one column of class labels, got {q}.")
        bound = super().bind(y, pairwise)
        (labels,) = bound.labels
        found = np.flatnonzero(labels == self.reference)
        if self.reference is not None and not found.size:
            listed = ", ".join(map(show, labels[:10]))
            raise ValueError(f"reference must be a class, got {show(self.reference)}; classes are {listed}.")
        compared = np.delete(np.arange(len(labels)), found)
        compared = compared[-1:] if len(labels) == 2 else compared
        codes = np.searchsorted(labels, y).astype(np.int32)
        return bound.copy_with(y=codes, compared=compared, positive=labels[compared])

    @property
    def n_responses(self) -> int:
        return len(self.compared)

    def subset(self, responses: Sequence[int]) -> Self:
        compared = self.compared[list(responses)]
        return self.copy_with(compared=compared, positive=self.labels[0][compared])

    def response(self, rows: Rows, response: int = 0) -> Floats:
        """The class of each row as a number, for all responses."""
        return np.asarray(self.y[rows, 0], np.float64)

    def constant_responses(self, rows: Rows) -> list[int]:
        """Responses whose class, or what it is compared with, is not in these rows."""
        found = self.prepare(self.response(rows))
        both = np.minimum(found.sizes, found.others)[self.compared]
        return np.flatnonzero(both == 0).tolist()

    def row_sizes(self) -> RowSizes:
        """Large in rare classes, so each has as many rows in a sample."""
        share = self.prepare(self.response(slice(0, len(self.y)))).sizes / len(self.y)
        return lambda rows: np.asarray(1.0 / share[self.y[rows, 0]])

    def describe_missed(self, response: int, read: Sequence[Rows], rounds: Sequence[Any]) -> str:
        """The AUC from which on a feature was kept with probability 95%, by its standard error."""
        k = self.compared[response]
        n_class = self.prepare(self.response(slice(0, len(self.y)))).sizes[k]
        parts, reach = list[Floats](), 0.0
        for rows, done in zip(read, rounds, strict=False):
            parts.append(self.response(rows))
            found = self.prepare(np.concatenate(parts))
            size, others = float(found.sizes[k]), float(found.others[k])
            if done.n_kept < done.n_features:
                error = auc_error(0.5 + done.cutoff, size, others) * np.sqrt(1 - size / n_class)
                reach = max(reach, done.cutoff + QUANTILE * error)
        low, high = max(0.0, 0.5 - reach), min(1.0, 0.5 + reach)
        return (
            f"{size:,.0f} of {n_class:,.0f} rows of this class were read: features with an AUC of {high:.3f} "
            f"or more, or {low:.3f} or less, were kept with a probability of at least about 95%; weaker ones "
            "may be missing."
        )

    def prepare(self, y: Floats) -> Comparison:
        return self.prepare_weighted(y, None)

    def prepare_weighted(self, y: Floats, weights: Floats | None) -> Comparison:
        (labels,) = self.labels
        reference = -1 if self.reference is None else int(np.searchsorted(labels, self.reference))
        return Comparison.of(y.astype(np.int32), weights, len(labels), reference)

    def score_block(self, block: Floats, prepared: Comparison) -> Floats:
        return self.score_stored(StoredCells.of_block(block), prepared)

    def score_stored(self, cells: StoredCells, prepared: Comparison) -> Floats:
        sums, ties, longest, *_ = prepared.sum_ranks(cells)[:, self.compared]
        size, others = prepared.sizes[self.compared, None], prepared.others[self.compared, None]
        deviation = ratio(sums, size * others)
        if prepared.weights is not None:
            return np.stack([deviation, np.full_like(deviation, np.nan)])
        n, distance, fewest = size + others, np.abs(sums), np.minimum(size, others)
        variance = size * others / 12 * (n + 1 - ties / (n * (n - 1)))
        z = ratio(distance - 0.5, np.sqrt(np.maximum(variance, 0.0)))
        log10 = np.minimum((special.log_ndtr(-z) + np.log(2)) / np.log(10), 0.0)
        few = (longest > MAX_TIED * n) & (longest < n) & (fewest * (1 - longest / n) < MIN_OTHERS)
        log10[few] = np.nan
        log10[np.broadcast_to(fewest == 0, log10.shape) | (longest == n)] = 0.0
        for k in np.flatnonzero((fewest > 0) & (fewest <= MAX_EXACT)):
            n1, n2 = int(size[k, 0]), int(others[k, 0])
            untied = ties[k] == 0
            tail = _exact_log10(min(n1, n2), max(n1, n2))
            log10[k, untied] = tail[np.floor(n1 * n2 / 2 - distance[k, untied]).astype(int)]
        return np.stack([deviation, log10])


def auc_error(auc: float, size: float, others: float) -> float:
    """Standard error of an AUC above 1/2 (Hanley and McNeil 1982), of the larger or of the smaller values."""
    above, below = auc / (2 - auc) - auc**2, 2 * auc**2 / (1 + auc) - auc**2
    pairs = ((n - 1) * above + (m - 1) * below for n, m in ((size, others), (others, size)))
    return float(np.sqrt((auc * (1 - auc) + max(pairs)) / (size * others)))


@cache
def _exact_log10(few: int, many: int) -> Floats:
    r"""Decimal logarithms of the two-sided p-values of U = 0, 1, … up to its mean, without ties.

    The numbers of orders are the coefficients of the Gaussian binomial
    :math:`\prod_{i ≤ n_1} (1 - q^{n_2 + i}) / (1 - q^i)`.
    """
    counts = np.zeros(few * many // 2 + 1)
    counts[0] = 1.0
    for i in range(1, few + 1):
        padded = np.append(counts, np.zeros(-len(counts) % i)).reshape(-1, i)
        counts = padded.cumsum(axis=0).ravel()[: len(counts)]
        counts[many + i :] -= counts[: max(0, len(counts) - many - i)].copy()
    return np.asarray(
        np.minimum(np.log10(2 * np.cumsum(counts)) - np.log10(float(comb(few + many, few))), 0.0)
    )
