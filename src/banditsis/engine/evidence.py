r"""How much the rows read say: informative rows, rows that were not read, and the variance inflation.

The sum of squares of a feature, which scales its correlation, rests on few rows if the feature is rare or
heavy-tailed. The number of informative rows, :math:`(\sum w z^2)^2 / \sum w^2 z^4` with weights w, is about m
/ 3 of m rows for normal values, and k for an indicator that is 1 in k rows. A feature with too few is
undecided; that of the response counts as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import SMALLEST, Floats, Indices, Rows, as_indices, count_rows, spread
from banditsis.core.parallel import map_in_threads
from banditsis.engine.sampling import Strata
from banditsis.plans import ORDINARY
from banditsis.sources.base import Source
from banditsis.statistics.linear import LinearStatistic, influence

#: Rows and features of a pilot sample, and rows among which these rows are chosen.
MAX_ROWS, MAX_FEATURES, MAX_CANDIDATES = 1000, 32, 1 << 16
#: Cells that are read again for variances: so many, or this share of those read if that is more.
PILOT_CELLS, PILOT_SHARE = 1 << 16, 1 / 100


def informative_rows(values: Floats, weights: Floats | None, unread: Floats | None = None) -> Floats:
    """Number of informative rows of each column, about the population or, given ``unread``, about all rows.

    ``unread`` is the share of the stratum of each row that was not read; it is 0 where all of it was.
    """
    weights = np.ones(len(values)) if weights is None else weights
    z = values / np.maximum(np.abs(values).max(axis=0), SMALLEST)
    z -= weights @ z / weights.sum()
    z /= np.maximum(np.abs(z).max(axis=0), SMALLEST)  # fourth powers stay in range
    squared = np.square(z)
    fourth = np.square(weights) * (1.0 if unread is None else unread) @ np.square(squared)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.square(weights @ squared) / fourth
    return np.where(fourth > 0, rows, 0.0 if unread is None else np.inf)


def rows_of_response(
    statistic: LinearStatistic, rows: Rows, strata: Strata, responses: Sequence[int] | slice = slice(None)
) -> Floats:
    """Number of informative rows of some responses, about the population and about all rows of the data."""
    values, weights, unread = statistic.targets(rows)[:, responses], strata.row_weights(rows), None
    if weights is not None:
        codes = strata.codes[rows]
        unread = (1 - np.bincount(codes, minlength=strata.n_strata) / strata.design.sizes)[codes]
    in_population = informative_rows(values, weights)
    return np.stack(
        [in_population, in_population if unread is None else informative_rows(values, weights, unread)]
    )


def measure_unread(statistic: LinearStatistic, rows: Rows) -> Floats:
    r"""How much outliers that are not among the rows read can add to a correlation with each response.

    By the inequality of Cauchy and Schwarz, a feature that is 0 elsewhere has at most the correlation
    :math:`\sqrt{\sum_{\text{some}} (y - \bar y)^2 / \sum_{\text{all}} (y - \bar y)^2}`. The rows that count
    are farther from the mean than six standard deviations, and than all rows that were read.
    """
    n = len(statistic.y)

    def measure(response: int) -> float:
        y = statistic.subset([response]).targets(slice(0, n))[:, 0]
        distance = np.abs(y - y.mean())
        deviation = np.sqrt(np.square(distance).sum())
        ordinary = max(ORDINARY / np.sqrt(n) * deviation, distance[rows].max())
        beyond = np.square(distance[distance > ordinary]).sum()
        return float(np.sqrt(beyond) / max(deviation, SMALLEST))

    return np.array(map_in_threads(measure, range(statistic.n_responses)))


class VarianceInflation(NamedTuple):
    """The variance of artanh r times the number of effective rows; 1 for normal data."""

    mean: float  #: of typical features, around r over all rows
    high: float  #: about two standard errors above the mean, and at least 1
    #: of each selected feature, around the correlation in the population, and the number of rows that are
    #: informative about it; shape (selected, 2), NaN for constant features
    own: Floats
    n_cells: int  #: number of cells that were read again


def choose_pilot(
    statistic: LinearStatistic, response: int, read: Sequence[Rows], strata: Strata, size: int
) -> tuple[Indices, Floats, Floats, Floats, Floats]:
    """About ``size`` of the rows read; those on which variances depend most are preferred.

    Returns the rows, their sampling weights with sum 1, the factors by which squared influences add up to the
    variances around r over all rows and in the population, and the squares of the standardised response.
    """
    n_read, design = sum(map(count_rows, read)), strata.design

    def weigh(rows: Indices, times: Floats) -> tuple[Indices, Floats, Floats, Floats, Floats]:
        """Rows, each of which stands for so many others of its stratum."""
        codes = strata.codes[rows]
        share = times / np.bincount(codes, times, design.n_strata)[codes]
        weights, sampled = (part[codes] * share for part in (design.shares_of_rows, design.variances(n_read)))
        weights /= weights.sum()
        y = statistic.targets(rows)[:, response]
        square = np.square(y - (weights * y).sum())  # threads of a dot product would take longer
        square /= max((weights * square).sum(), SMALLEST)
        return rows, weights, sampled, sampled + weights / design.n_rows, square

    rows = np.sort(np.concatenate([as_indices(part) for part in read]))
    if design.n_strata == 1:
        rows = rows[:: 1 + n_read // MAX_CANDIDATES]
    *_, population, squares = every = weigh(rows, np.ones(len(rows)))
    if len(rows) <= size:
        return every
    share = population * (1.0 + squares)
    upto = np.cumsum(share)
    places = np.searchsorted(upto, upto[-1] / size * (np.arange(size) + 0.5))
    chosen, times = np.unique(np.minimum(places, len(rows) - 1), return_counts=True)
    return weigh(rows[chosen], times / share[chosen])


def measure_variance_inflation(
    source: Source,
    statistic: LinearStatistic,
    response: int,
    read: Sequence[Rows],
    strata: Strata,
    selected: Indices,
    n_cells: int = 0,
) -> VarianceInflation:
    r"""Estimate the variance inflation κ of a correlation from a sample of cells.

    With x and y standardised, :math:`ψ = xy - r (x^2 + y^2) / 2` is the influence of a row on r. κ is the
    variance of artanh r, divided by what it is for normal data and r = 0:

    .. math:: κ = \frac{1}{(1 - r^2)^2} \;
        \frac{\sum_h g_h \overline{ψ^2}_h}{\sum_h g_h a_h^2}, \quad
        g_h = W_h^2 \left(\frac{1}{n_h} - \frac{1}{N_h}\right)

    over the strata h of :class:`~banditsis.plans.design.SamplingDesign`. A heavy-tailed feature inflates the
    variance only if it is correlated with y, and the detection floor is about such features. So κ is averaged
    once over features spread over all of them and once over the strongest ones, and the larger one counts.
    Each selected feature has its own κ too, around the correlation in the population; there influences are
    divided by 1 less the leverage of the row in the regression on y (MacKinnon and White 1985, HC3).

    ``read`` are the rows of each step, ``selected`` the features with the largest scores, best first, and
    ``n_cells`` the cells read so far.
    """
    design, n_read = strata.design, sum(map(count_rows, read))
    size = max(PILOT_CELLS, int(PILOT_SHARE * n_cells)) // (MAX_FEATURES + len(selected))
    pilot = choose_pilot(statistic, response, read, strata, min(MAX_ROWS, size))
    rows, weights, sampled, population, squares = pilot
    total = float(design.variances(n_read) @ design.relative_spreads**2)
    factors = sampled / total if total > 0 else weights
    leverage = np.minimum(weights * (1.0 + squares), 1.0 - 1.0 / n_read)
    population = population / np.square(1.0 - leverage)

    m = min(MAX_FEATURES, source.shape[1])
    columns = np.concatenate([spread(slice(0, source.shape[1]), m), selected])
    width, typical, own = PILOT_CELLS // len(rows), list[tuple[float, float]](), list[Floats]()
    for start in range(0, len(columns), width):
        once, places = np.unique(columns[start : start + width], return_inverse=True)
        block = source.read(rows, once)
        squares = influence(statistic, block, rows, response, weights)[:, places]
        if start == 0:
            for some in (squares[:, :m], squares[:, m : m + MAX_FEATURES]):
                known = some[:, ~np.isnan(some[0])]
                by_row = factors * (known.mean(axis=1) if known.size else 0.0)
                total, error = float(by_row.sum()), float(by_row.std()) * float(np.sqrt(len(by_row)))
                typical.append((total, max(1.0, total + 2.0 * error)))
            squares = squares[:, m:]
        squares = squares * population[:, None]
        variance, fourth = squares.sum(axis=0), np.einsum("ij,ij->j", squares, squares)
        own.append(np.stack([variance * design.effective_rows(n_read), variance**2 / fourth], axis=1))
    n_again = len(rows) * len(columns)
    mean, high = max(typical)
    return VarianceInflation(mean or 1.0, high, np.concatenate(own), n_again)
