"""Statistics of tables of counts: features are cut into bins, and the response has classes.

Bins hold about equal shares of the rows that are read first. A value that holds more than a share has a bin
of its own, as missing cells have, and a feature with few values has a bin for each.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Rows, ratio
from banditsis.core.formatting import count
from banditsis.core.validation import check_integer, find_missing
from banditsis.statistics.base import Statistic, check_classes, describe_response
from banditsis.statistics.null_distributions import log10_chi2_tail

#: A numeric response with more values is cut into so many classes.
MAX_VALUES, N_CLASSES = 10, 5
MAX_BINS, MAX_PERIODS = 256, 120
#: The smallest expected count of a table with a p-value, and that with two degrees of freedom, where few
#: different tables are possible. Rejection rates at 5% are then at most 6%, by 2,190 simulated designs.
MIN_EXPECTED, MIN_EXPECTED_OF_TWO = 5, 10


class BinnedStatistic(Statistic):
    """A statistic of the table of counts of each feature, bins × classes, with at most ``n_bins`` bins.

    Missing cells, if they are allowed, have another bin instead of being left out.
    """

    one_sided = True
    #: Whether ``evaluate`` returns a second line, the decimal logarithms of p-values.
    has_pvalues = False
    #: The number of the class of each row for each response, shape (n, q).
    codes: Array
    #: Labels of the periods for which there are scores, and the number of the period of each row.
    periods: Array | None = None
    period_of_row: Array

    def __init__(self, n_bins: int = 10) -> None:
        self.n_bins = check_integer("n_bins", n_bins, 2, MAX_BINS)
        self.settings = {"n_bins": n_bins}

    def bind(self, y: Array, pairwise: bool) -> Self:
        """Copy the statistic for some responses, which are cut into classes."""
        found = [self._classify(y[:, [k]], describe_response(k, y.shape[1])) for k in range(y.shape[1])]
        labels, codes, notes = zip(*found, strict=True)
        own = {"y": y, "codes": np.column_stack(codes).astype(np.uint32), "notes": tuple(filter(None, notes))}
        return self.copy_with(pairwise=pairwise, labels=list(labels), **own)

    def _classify(self, y: Array, which: str) -> tuple[Array, Array, str]:
        """Labels of the classes of a response, the class of each row, and a note."""
        if y.dtype.kind in "OUSb":
            labels = check_classes(self.name, y)[0]
            return labels, np.searchsorted(labels, y[:, 0]), ""
        values, codes = np.unique(y, return_inverse=True)
        if len(values) < 2:
            check_classes(self.name, y)  # which raises
        if len(values) <= MAX_VALUES or self.by_class:
            return values, codes.ravel(), ""
        edges = np.full((kernels.bins.UNROLLED, 1), np.nan)
        ordered = np.sort(y.astype(np.float64), axis=0)
        kernels.bins.find_edges(np.ascontiguousarray(ordered.T), N_CLASSES, edges)
        cuts = edges[1:, 0][~np.isnan(edges[1:, 0])]
        names = [f"{cut:.6g}" for cut in cuts]
        ends = zip(["", *names], [*names, ""], strict=True)
        labels = np.array([f"from {low}" if low else f"below {high}" for low, high in ends])
        cut = f"the response{which} has {len(values):,} values, and was cut at quantiles into classes at "
        return labels, np.searchsorted(cuts, y[:, 0], "right"), f"{cut}{', '.join(names)}."

    def by_period(self, values: Any) -> Self:
        """The statistic with scores for each period, given the values of the rows."""
        if find_missing(values).any():
            raise ValueError("by has missing values: leave these rows out, or give them a period.")
        periods, codes = np.unique(values, return_inverse=True)
        if not 2 <= len(periods) <= MAX_PERIODS:
            found = count(len(periods), "different value")
            raise ValueError(f"by has {found}, but 2 to {MAX_PERIODS} periods are allowed.")
        return self.copy_with(periods=periods, period_of_row=codes.ravel().astype(np.uint32))

    @property
    def n_classes(self) -> int:
        """Number of classes of the first response, which is scored."""
        return len(self.labels[0])

    @property
    def n_periods(self) -> int:
        """Number of periods; 1 if there are none."""
        return 1 if self.periods is None else len(self.periods)

    def cells(self, rows: Rows) -> Array:
        """Which cell of the table periods × classes each row belongs to."""
        codes = self.codes[rows, 0]
        if self.periods is None:
            return codes.copy()
        return np.asarray(codes + np.uint32(self.n_classes) * self.period_of_row[rows])

    @abstractmethod
    def evaluate(self, tables: Floats) -> Floats:
        """Scores of tables (features, bins, classes) as a line, and p-values if they are known.

        A table with one occupied bin scores 0.
        """


def expected_counts(tables: Floats) -> Floats:
    """Expected counts of tables, if bins and classes are independent."""
    total = tables.sum(axis=(1, 2), keepdims=True)
    return np.asarray(tables.sum(axis=2, keepdims=True) * tables.sum(axis=1, keepdims=True) / total)


class Chi2(BinnedStatistic):
    r"""Pearson's χ² test of independence [1]_ of the bins of a feature and the classes of the response.

    With the counts :math:`O_{bk}` of n rows, those expected without association :math:`E_{bk}`, r occupied
    bins and K classes,

    .. math:: X^2 = \sum_{b,k} \frac{(O_{bk} - E_{bk})^2}{E_{bk}}, \qquad
              V^2 = \frac{1}{K - 1} \left(\frac{X^2}{n} - \frac{(r - 1)(K - 1)}{n - 1}\right)

    The score is V, Cramér's V with the correction for bias [2]_, negative if V² is. Without association the
    mean of V² is 0 for any number of bins, so features with few and with many bins are comparable.

    P-values are those of ``scipy.stats.chi2_contingency``: χ² with :math:`(r - 1)(K - 1)` degrees of freedom,
    and Yates' correction if that is 1. They are not available for features with an expected count below 5, or
    below 10 with two degrees of freedom.

    Parameters
    ----------
    n_bins : int
        Largest number of bins, without that of missing cells. Bins do not depend on the response.

    References
    ----------
    .. [1] Pearson, K. (1900). On the criterion that a given system of deviations from the probable ... can be
       reasonably supposed to have arisen from random sampling. Philos. Mag. 50, 157-175.
    .. [2] Bergsma, W. (2013). A bias-correction for Cramér's V and Tschuprow's T. J. Korean Stat. Soc. 42,
       323-328.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x = np.arange(100) % 4
    >>> result = screen(np.column_stack([x, x // 2]), x == 1, Plan.exact(100, 2, 1), statistic="chi2")
    >>> result.scores.round(3)
    array([0.985, 0.569])
    """

    name = "chi2"
    has_pvalues = True
    unknown_pvalues = (
        f"some expected counts are below {MIN_EXPECTED}, or {MIN_EXPECTED_OF_TWO} with two degrees of "
        "freedom, for which the χ² distribution is not accurate"
    )

    def evaluate(self, tables: Floats) -> Floats:
        n, expected = tables.sum(axis=(1, 2)), expected_counts(tables)
        occupied = expected > 0
        square = ratio(np.square(tables - expected), expected).sum(axis=(1, 2))
        freedom = (occupied.any(axis=2).sum(axis=1) - 1.0) * (occupied.any(axis=1).sum(axis=1) - 1.0)
        mean = freedom / np.maximum(n - 1, 1)
        v2 = (square / n - mean) / (tables.shape[2] - 1)
        smallest = np.where(occupied, expected, np.inf).min(axis=(1, 2))
        enough = smallest >= np.where(freedom == 2, MIN_EXPECTED_OF_TWO, MIN_EXPECTED)
        known = np.where(enough | (freedom == 0), freedom, np.nan)
        yates = 0.5 * np.sqrt(ratio(occupied.astype(np.float64), expected).sum(axis=(1, 2))) * (freedom == 1)
        corrected = np.square(np.maximum(np.sqrt(square) - yates, 0.0))
        return np.stack([np.sign(v2) * np.sqrt(np.abs(v2)), log10_chi2_tail(corrected, known)])


def weights_of_evidence(tables: Floats) -> tuple[Floats, Floats]:
    """Weight of evidence of each bin of tables with two classes, and the information value of the bin."""
    has_one = (tables > 0).sum(axis=2, keepdims=True) == 1
    counts = tables + 0.5 * has_one
    shares = ratio(counts, tables.sum(axis=1, keepdims=True))
    known = (shares > 0).all(axis=2, keepdims=True)
    low, high = np.moveaxis(np.where(known, shares, 1.0), 2, 0)
    evidence = np.log(low / high)
    return evidence, np.asarray((low - high) * evidence)


class InformationValue(BinnedStatistic):
    r"""Information value of the bins of a feature [1]_, for a response with two classes.

    With the shares :math:`p_b` and :math:`q_b` of the rows of the first and the second class in bin b,

    .. math:: \mathrm{IV} = \sum_b (p_b - q_b) \, \mathrm{WoE}_b, \qquad \mathrm{WoE}_b = \ln \frac{p_b}{q_b}

    The second class is the label that sorts last, such as 1 or "yes". In a bin without one of the classes,
    0.5 is added to both counts. ``result.evidence.bins`` has the weights of evidence. The population
    stability index is the same with two periods instead of classes. ``n_bins`` is as in :class:`Chi2`.

    References
    ----------
    .. [1] Siddiqi, N. (2006). Credit Risk Scorecards. Wiley.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x, y = np.repeat([0, 1], 50), np.repeat([0, 1, 0, 1], [40, 10, 20, 30])
    >>> X = np.column_stack([x, np.arange(100) % 2])
    >>> screen(X, y, Plan.exact(100, 2, 1), statistic="information_value").scores.round(3)
    array([0.747, 0.   ])
    """

    name = "information_value"
    by_class = True

    def bind(self, y: Array, pairwise: bool) -> Self:
        bound = super().bind(y, pairwise)
        for k, labels in enumerate(bound.labels):
            if len(labels) != 2:
                which = describe_response(k, len(bound.labels))
                raise ValueError(
                    f"statistic {self.name!r} needs a response with two classes, got {len(labels):,} values"
                    f"{which}; use 'chi2' or 'mutual_information', or make an indicator."
                )
        return bound

    def evaluate(self, tables: Floats) -> Floats:
        return np.stack([weights_of_evidence(tables)[1].sum(axis=1)])


class MutualInformation(BinnedStatistic):
    r"""Mutual information of the bins of a feature and the classes of the response, in nats.

    .. math:: I = \sum_{b,k} \frac{O_{bk}}{n} \ln \frac{n \, O_{bk}}{O_{b·} O_{·k}}
                  - \frac{s - r - c + 1}{2 n}

    where r bins, c classes and s cells of the table have rows. The last term is the correction for bias of
    Miller and Madow [1]_, so scores of features without association are about 0, and may be negative.
    ``n_bins`` is as in :class:`Chi2`.

    References
    ----------
    .. [1] Miller, G. A. (1955). Note on the bias of information estimates. Information Theory in Psychology,
       95-100.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Plan, screen
    >>> x = np.arange(900) % 3
    >>> X = np.column_stack([x, np.arange(900) // 300])
    >>> screen(X, x, Plan.exact(900, 2, 1), statistic="mutual_information").scores.round(3)
    array([ 1.1  , -0.002])
    """

    name = "mutual_information"

    def evaluate(self, tables: Floats) -> Floats:
        n, expected = tables.sum(axis=(1, 2)), expected_counts(tables)
        information = (tables * np.log(np.where(tables > 0, ratio(tables, expected), 1.0))).sum(axis=(1, 2))
        bins, classes = (np.count_nonzero(tables.sum(axis=axis), axis=1) for axis in (2, 1))
        excess: Any = np.count_nonzero(tables, axis=(1, 2)) - bins - classes + 1
        return np.stack([(information - excess / 2) / n])
