r"""The detection floor: the smallest correlation that a finished or planned run is likely to keep.

Over nested uniform samples of :math:`n_1 < n_2 < …` rows, the sample correlations of a feature with
correlation τ over all n rows satisfy

.. math:: z_l = \operatorname{artanh} r_l \sim N(\operatorname{artanh} τ, V_l), \quad
    V_l = κ \left(\frac{1}{n_l - 3} - \frac{1}{n - 3}\right), \quad
    \operatorname{Cov}(z_l, z_m) = V_m \; (n_l < n_m)

(Fisher's transformation, rows drawn without replacement). Backwards from the last round this is a chain with
independent increments. κ is the variance inflation caused by heavy tails, 1 for normal data. The feature is
kept if :math:`|r_l|` reaches the cutoff :math:`q_l` in every round; the probability of a loss is a
one-dimensional recursion. Sign changes are ignored, which makes the floor conservative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.plans import retention

#: A feature with fewer informative rows in a sample is undecided: its score may say nothing.
MIN_INFORMATIVE = 3.5
#: If one in as many rows is informative, a feature is ordinary: a small sample does not make it undecided.
ORDINARY_KURTOSIS = 10.0
MAX_ITERATIONS = 30
#: Numbers of Gauss-Legendre nodes; rounds with nearly equal row counts need more.
NODES = (48, 96, 192, 384)


def fisher_rows(n_rows: float) -> float:
    """Rows less 3, as in Fisher's variance of artanh r."""
    return max(float(n_rows) - 3.0, 1.0)


def sampling_variance(n_rows: float, n: int, variance_inflation: float) -> float:
    """Variance of artanh r over ``n_rows`` of n rows, around its value over all of them."""
    return max(0.0, variance_inflation * (1.0 / fisher_rows(n_rows) - 1.0 / fisher_rows(n)))


def is_undecided(informative: Floats, n_rows: int, least: float = MIN_INFORMATIVE) -> Array:
    """Which features have fewer than ``least`` informative rows, and fewer than an ordinary one has of n.

    A very small sample cannot tell, so only features that are constant in it are undecided.
    """
    ordinary = n_rows / ORDINARY_KURTOSIS
    return np.asarray(informative < (min(least, ordinary) if ordinary >= MIN_INFORMATIVE else 0.99))


def excess_inflation(kurtosis: Any, correlation: Any) -> Any:
    r"""By how much the variance of artanh r exceeds that for normal data if the feature is heavy-tailed.

    If y is linear in x with normal errors, :math:`(K - 3) r^2 / 4`, where K is the kurtosis of x.
    """
    return np.maximum(np.asarray(kurtosis) - 3.0, 0.0) * (correlation**2 / 4.0)


def detection_floor(
    rows: Sequence[float],
    cutoffs: Sequence[float],
    n: int,
    variance_inflation: float | Sequence[float],
    error: float,
    kurtosis: Sequence[float] = (),
) -> float:
    r"""The smallest τ whose features are lost with at most a given probability.

    ``rows`` and ``cutoffs`` are the effective number of rows after each round, and the smallest absolute
    correlation that it kept (0 if it dropped nothing); ``n`` is the number of rows of the data, ``error`` the
    probability of losing a feature at the floor, and ``kurtosis`` the largest one of a feature in each round,
    by default 3; see :func:`excess_inflation`.

    >>> round(detection_floor([1000], [0.1], 10**6, 1.0, 0.05), 4)  # artanh 0.1 + 1.645 √0.001
    0.1512
    >>> detection_floor([1000], [0.1], 1000, 1.0, 0.05)  # all rows: no sampling error
    0.1
    """
    shapes = np.array(kurtosis or [3.0] * len(rows))
    floor = 0.0
    for _ in range(MAX_ITERATIONS if (shapes > 3.0).any() else 1):  # κ depends on the floor
        before = floor
        inflation = np.asarray(variance_inflation) + excess_inflation(shapes, before)
        floor = _floor(rows, cutoffs, n, inflation.tolist(), error)
        if floor - before < 1e-4 * floor:
            break
    return floor


def _floor(
    rows: Sequence[float], cutoffs: Sequence[float], n: int, inflation: Sequence[float], error: float
) -> float:
    """The floor for a variance inflation in each round."""
    certain = 0.0
    variances: list[float] = []
    bounds: list[float] = []
    for m, cutoff, round_inflation in zip(rows, cutoffs, inflation, strict=True):
        bound = math.atanh(min(cutoff, 1.0 - 1e-12))
        variance = sampling_variance(m, n, round_inflation)
        if variances:  # a feature that is decided only in this round cannot have been dropped before
            variance = min(variance, (1.0 - 2e-3) * variances[-1])
        if variance <= retention.CERTAIN * (variances[-1] if variances else 1.0 / n):
            certain = max(certain, cutoff)
        elif cutoff > 0:
            if variances and variances[-1] - variance < 1e-3 * variances[-1]:  # practically the same rows
                bound = max(bound, bounds.pop())
                variances.pop()
            variances.append(variance)
            bounds.append(bound)
    if not bounds:
        return certain
    chain = np.array([variances]), np.array([bounds])
    mean = retention.lowest_mean(*chain, error, _nodes_for_losses(*chain))
    return max(certain, math.tanh(mean[0]))


def null_cutoffs(rows: Sequence[float], kept: Sequence[int], p: int) -> list[float]:
    r"""Cutoffs that p independent features without signal will set, if ``kept`` of them are kept.

    Without signal :math:`u_l = z_l \sqrt{n_l - 3}` is standard normal and

    .. math:: u_{l+1} = \sqrt{m_l / m_{l+1}} \, u_l + \sqrt{1 - m_l / m_{l+1}} \, ε, \quad m_l = n_l - 3,

    truncated in every round to the share of features that is kept.

    >>> [round(q, 3) for q in null_cutoffs([103, 403], [100, 10], 1000)]
    [0.163, 0.108]
    """
    deciding = _deciding_rounds(rows, kept, p)
    counts = np.array([fisher_rows(rows[k]) for k in deciding])
    left = np.array([p, *(kept[k] for k in deciding)], dtype=np.float64)
    cutoffs = np.zeros(len(rows))
    if not deciding:
        return cutoffs.tolist()
    shares = left[1:] / left[:-1]
    bounds = retention.null_cutoffs(counts[None], shares[None], _nodes_for_rows(counts))[0]
    cutoffs[deciding] = np.tanh(bounds / np.sqrt(counts))
    return cutoffs.tolist()


def _deciding_rounds(rows: Sequence[float], kept: Sequence[int], p: int) -> list[int]:
    """The rounds that drop features; only the last of several over practically the same rows."""
    chosen: list[int] = []
    for k, (m, left) in enumerate(zip(rows, kept, strict=True)):
        if left == (kept[chosen[-1]] if chosen else p):
            continue
        if chosen and rows[chosen[-1]] > 0.998 * m:
            chosen.pop()
        chosen.append(k)
    return chosen


def null_shares(rows: Sequence[float], cutoffs: Sequence[float]) -> list[float]:
    """Shares of the features without signal that are left after each round, given the cutoffs.

    >>> [round(share, 3) for share in null_shares([103, 403], [0.163, 0.108])]
    [0.1, 0.01]
    """
    counts = np.array([fisher_rows(m) for m in rows])
    bounds = np.arctanh(np.array(cutoffs)) * np.sqrt(counts)
    shares = retention.null_shares(counts[None], bounds[None], _nodes_for_rows(counts))[0]
    return [float(share) for share in np.cumprod(shares)]


def error_level(confidence: float, simultaneous: bool, n_kept: int) -> float:
    r"""Probability of loss to allow for one feature.

    Suppose M features lie at or above the floor. Each is kept with probability at least 1 - e and at most d
    are kept, so M (1 - e) ≤ d. The probability that any of them is lost is at most M e ≤ d e / (1 - e),
    which equals 1 - c for

    .. math:: e = (1 - c) / (d + 1 - c).

    The correction is for d comparisons, however many features there are.
    """
    error = 1.0 - confidence
    return error / (n_kept + error) if simultaneous else error


def _nodes_for_rows(counts: Floats) -> int:
    """Nodes needed for the chain of features without signal."""
    if len(counts) < 2:
        return NODES[0]
    step = float(np.sqrt(np.maximum(1.0 - counts[:-1] / counts[1:], 1e-6)).min())
    return _at_least(8.0 / step)


def _nodes_for_losses(variances: Floats, bounds: Floats) -> int:
    """Nodes needed for the chain of a feature with signal."""
    if bounds.shape[1] < 2:
        return NODES[0]
    step = math.sqrt(min(float(-np.diff(variances).max()), float(variances[0, -1])))
    reach = float((bounds + retention.REACH * np.sqrt(variances)).max() - bounds.min())
    return _at_least(1.5 * reach / step)


def _at_least(wanted: float) -> int:
    return next((count for count in NODES if count >= wanted), NODES[-1])
