"""How much the rows read say: informative rows, rows that were not read, and the variance inflation.

The sum of squares of a feature, which scales its correlation, rests on few rows if the feature is rare or
heavy-tailed. In a sample with weights w, the number of informative rows is

.. math:: E = \\frac{(\\sum w z^2)^2}{\\sum w^2 z^4}

about m / 3 of m rows for normal values, and k for an indicator that is 1 in k rows. The same number for the
response counts as well. A feature with too small a number is undecided: the rows read say too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from banditsis.arrays import SMALLEST, Array, Floats, Indices, Rows, chunks, count_rows, spread
from banditsis.engine.strata import Strata
from banditsis.parallel import map_in_threads
from banditsis.plans.design import ORDINARY
from banditsis.plans.detection_floor import is_undecided
from banditsis.sources.base import Source
from banditsis.statistics.base import MomentStatistic, Statistic, ratio

#: Features with fewer informative rows are probed: are they rare, or heavy-tailed?
MAX_PROBED = 36.0
PROBED_FEATURES, PROBED_ROWS = 32, 1000
#: Informative rows are overestimated by about this factor if the largest values have not been seen.
DISCOUNT = 3.0
#: How much larger the number of informative rows is by third moments than by fourth ones: 1 for an indicator,
#: 1.2 for normal and more for heavy-tailed values.
HEAVY = 1.15
#: Share of heavy-tailed features among those probed that may be overlooked.
MAX_HEAVY = 0.25


def informative_rows(
    values: Floats, weights: Floats | None, unread: Floats | None = None
) -> tuple[Floats, Array]:
    """Number of informative rows of each column, by fourth moments, and whether it is heavy-tailed.

    ``unread`` is the share of the stratum of each row that was not read, if the sample is to represent all
    rows: those of a stratum that was read to the end are certain.
    """
    weights = np.ones(len(values)) if weights is None else weights
    uncertain = weights if unread is None else weights * np.sqrt(unread)
    size = np.maximum(np.abs(values).max(axis=0), SMALLEST)
    z = values / size
    z -= weights @ z / weights.sum()
    z /= np.maximum(np.abs(z).max(axis=0), SMALLEST)  # fourth powers stay in range
    squared = np.square(z)
    squares = weights @ squared
    third = (uncertain * np.sqrt(weights)) @ (squared * np.abs(z))
    fourth = np.square(uncertain) @ np.square(squared)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows, by_third = np.square(squares) / fourth, squares**3 / np.square(third)
    rows = np.where(fourth > 0, rows, 0.0 if unread is None else np.inf)
    return rows, is_undecided(rows, len(values), MAX_PROBED) & (by_third > HEAVY * rows)


def rows_of_response(statistic: MomentStatistic, response: int, rows: Rows, strata: Strata) -> Floats:
    """Number of informative rows of a response, about the population and about all rows of the data."""
    values, weights = statistic.deviations(rows)[:, [response]], strata.row_weights(rows)
    found = [informative_rows(values, weights, unread) for unread in (None, strata.unread_shares(rows))]
    return np.array([float(rows[0]) / (DISCOUNT if heavy[0] else 1.0) for rows, heavy in found])


def discount(informative: Floats, features: Indices, source: Source, rows: Rows, strata: Strata) -> Floats:
    """Reduce the number of informative rows of features if they are heavy-tailed.

    The sum of squares of a heavy-tailed feature rests on values that may not have been seen yet. A few of the
    features with few informative rows are read again to find out whether they are of this kind.
    """
    few = np.flatnonzero((informative > 0) & (informative < MAX_PROBED))
    if few.size == 0:
        return informative
    sample = spread(rows, PROBED_ROWS)
    block = np.asarray(source.read(sample, features[spread(few, PROBED_FEATURES)]), np.float64)
    found, heavy = informative_rows(block, strata.row_weights(sample))
    decided = ~is_undecided(found, len(sample))
    if np.count_nonzero(heavy & decided) <= MAX_HEAVY * np.count_nonzero(decided):
        return informative
    return np.where(informative < MAX_PROBED, informative / DISCOUNT, informative)


def measure_unread(statistic: MomentStatistic, read: Sequence[Rows]) -> Floats:
    r"""How much outliers that were not read can add to a correlation with each response.

    By the inequality of Cauchy and Schwarz, a feature that is 0 in all rows but some has, with y, a
    correlation of at most

    .. math:: \sqrt{\sum_{\text{some}} (y - \bar y)^2 \Big/ \sum_{\text{all}} (y - \bar y)^2}

    in absolute value. The rows that count are farther from the mean than six standard deviations, and than
    all rows that were read.
    """
    n, q = len(statistic.y), statistic.n_responses
    parts = list(chunks(slice(0, n), max(1, (1 << 16) // q)))

    def measure(part: Rows) -> tuple[Floats, Floats, Floats, Floats]:
        d = statistic.deviations(part)
        return d.sum(axis=0), np.einsum("ij,ij->j", d, d), d.min(axis=0), d.max(axis=0)

    totals, squared, lows, highs = map(np.array, zip(*map_in_threads(measure, parts, 8), strict=True))
    total, squares = totals.sum(axis=0), squared.sum(axis=0)
    mean = total / n
    deviation = np.sqrt(np.maximum(squares - total * mean, 0.0))
    ordinary = ORDINARY / np.sqrt(n) * deviation
    for rows in read:
        ordinary = np.maximum(ordinary, np.abs(statistic.deviations(rows) - mean).max(axis=0, initial=0.0))
    beyond = np.zeros(q)
    for k in np.flatnonzero((np.maximum(highs - mean, mean - lows) > ordinary).any(axis=1)):  # few
        distance = np.abs(statistic.deviations(parts[k]) - mean)
        beyond += np.square(np.where(distance > ordinary, distance, 0.0)).sum(axis=0)
    return ratio(np.sqrt(beyond), deviation)


MAX_ROWS, MAX_FEATURES = 1000, 32


class VarianceInflation(NamedTuple):
    """The variance of artanh r times the number of rows; 1 for normal data."""

    mean: float
    #: about two standard errors above the mean, and at least 1
    high: float


def pilot_rows(pieces: Sequence[Rows], strata: Strata) -> Indices:
    """About :data:`MAX_ROWS` of the rows read, sorted, as many of each stratum."""
    chosen: list[Indices] = []
    left = [MAX_ROWS // strata.n_strata] * strata.n_strata
    for piece in pieces:
        for h, part in enumerate(strata.split(piece)):
            if left[h] > 0 and count_rows(part) > 0:
                chosen.append(spread(part, left[h]))
                left[h] -= len(chosen[-1])
        if max(left) <= 0:
            break
    return np.sort(np.concatenate(chosen))


def measure_variance_inflation(
    source: Source,
    statistic: Statistic,
    response: int,
    read: Sequence[Rows],
    strata: Strata,
    strongest: Indices,
) -> VarianceInflation | None:
    r"""Estimate the variance inflation κ from a sample of cells; None if the statistic has no such theory.

    With x and y standardised, :math:`ψ = xy - r (x^2 + y^2) / 2` is the influence of a row on r. κ is the
    variance of artanh r, divided by what it is for normal data and r = 0:

    .. math:: κ = \frac{1}{(1 - r^2)^2} \;
        \frac{\sum_h g_h \overline{ψ^2}_h}{\sum_h g_h a_h^2}, \quad
        g_h = W_h^2 \left(\frac{1}{n_h} - \frac{1}{N_h}\right)

    over the strata h of :class:`~banditsis.plans.design.SamplingDesign`. A heavy-tailed feature inflates the
    variance only if it is correlated with y, and the detection floor is about such features. So κ is averaged
    once over features spread over all of them and once over the strongest ones, and the larger one counts.

    Parameters
    ----------
    source : Source
        The features.
    statistic : Statistic
        The statistic with its responses.
    response : int
        Which of the responses.
    read : sequence of rows
        The rows that were read, in the order of the steps.
    strata : Strata
        The strata of all rows.
    strongest : ndarray of int
        The features with the largest scores.
    """
    rows = pilot_rows(read, strata)
    weights = strata.row_weights(rows)
    weights = np.ones(len(rows)) if weights is None else weights
    share = strata.variance_shares(rows, sum(map(count_rows, read)))
    anywhere = spread(slice(0, source.shape[1]), MAX_FEATURES)
    estimates = []
    for columns in (anywhere, np.sort(strongest[:MAX_FEATURES])):
        by_row = statistic.influence(source.read(rows, columns), rows, response, weights)
        if by_row is None:
            return None
        if by_row.size:
            estimates.append(_estimate(by_row * share))
    return max(estimates, default=VarianceInflation(1.0, 1.0))


def _estimate(by_row: Floats) -> VarianceInflation:
    mean = float(by_row.mean())
    error = float(by_row.std()) / np.sqrt(len(by_row))
    return VarianceInflation(mean, max(1.0, mean + 2.0 * float(error)))
