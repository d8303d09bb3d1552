"""How much more correlations vary from sample to sample than they would for normal data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from banditsis.arrays import Floats, Indices, Rows, count_rows, spread
from banditsis.sources.base import Source
from banditsis.statistics.base import Statistic

MAX_ROWS, MAX_FEATURES = 1000, 32


class VarianceInflation(NamedTuple):
    """The variance of artanh r times the number of rows; 1 for normal data."""

    mean: float
    #: about two standard errors above the mean, and at least 1
    high: float


def pilot_rows(pieces: Sequence[Rows], size: int = MAX_ROWS) -> Indices:
    """At most ``size`` of the rows read, sorted; each piece is a uniform sample of all rows."""
    chosen: list[Indices] = []
    for piece in pieces:
        n_more = size - sum(map(len, chosen))
        if n_more > 0 and count_rows(piece) > 0:
            chosen.append(spread(piece, n_more))
    return np.sort(np.concatenate(chosen))


def measure_variance_inflation(
    source: Source, statistic: Statistic, response: int, rows: Indices, strongest: Indices
) -> VarianceInflation | None:
    r"""Estimate the variance inflation κ from a sample of cells; None if the statistic has no such theory.

    With x and y standardised, :math:`ψ = xy - r (x^2 + y^2) / 2` is the influence of a row on r, and

    .. math:: κ = \overline{ψ^2} / (1 - r^2)^2

    A heavy-tailed feature inflates the variance only if it is correlated with y, and the detection floor is
    about such features. So κ is averaged once over features spread over all of them and once over the
    strongest ones, and the larger average counts.

    Parameters
    ----------
    source : Source
        The features.
    statistic : Statistic
        The statistic with its responses.
    response : int
        Which of the responses.
    rows : ndarray of int
        Sorted rows to use.
    strongest : ndarray of int
        The features with the largest scores.
    """
    anywhere = spread(slice(0, source.shape[1]), MAX_FEATURES)
    estimates = []
    for columns in (anywhere, np.sort(strongest[:MAX_FEATURES])):
        by_row = statistic.influence(source.read(rows, columns), rows, response)
        if by_row is None:
            return None
        if by_row.size:
            estimates.append(_estimate(by_row))
    return max(estimates, default=VarianceInflation(1.0, 1.0))


def _estimate(by_row: Floats) -> VarianceInflation:
    mean = float(by_row.mean())
    error = float(by_row.std()) / np.sqrt(len(by_row))
    return VarianceInflation(mean, max(1.0, mean + 2.0 * float(error)))
