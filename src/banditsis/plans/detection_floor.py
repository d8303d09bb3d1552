"""The detection floor: the smallest correlation that a finished or planned run is likely to keep.

The page on guarantees has the model. Backwards from the last round, artanh r is a chain with independent
increments, so the probability that a feature is lost in some round is a one-dimensional recursion. Sign
changes are ignored, which makes the floor conservative.
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
    """Which features have fewer than ``least`` informative rows, and fewer than an ordinary one has of n."""
    ordinary = n_rows / ORDINARY_KURTOSIS  # of a very small sample, only constant features are undecided
    return np.asarray(informative < (min(least, ordinary) if ordinary >= MIN_INFORMATIVE else 0.99))


def excess_inflation(kurtosis: Any, correlation: Any) -> Any:
    """Excess variance of artanh r over that for normal data, if y is linear in x, which has this kurtosis."""
    return np.maximum(np.asarray(kurtosis) - 3.0, 0.0) * (correlation**2 / 4.0)


def detection_floor(
    rows: Sequence[float],
    cutoffs: Sequence[float],
    n: int,
    variance_inflation: float | Sequence[float],
    error: float,
    kurtosis: Sequence[float] = (),
) -> float:
    """The smallest τ whose features are lost with a probability of at most ``error``.

    ``rows``, ``cutoffs`` and ``kurtosis`` are the effective rows after each round, the smallest absolute
    correlation that it kept (0 if it dropped nothing), and the largest kurtosis of a feature in it, by
    default 3; ``n`` are the rows of the data.
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
    """Cutoffs that p independent features without signal will set, if ``kept`` of them are kept."""
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
    """Shares of the features without signal that are left after each round, given the cutoffs."""
    counts = np.array([fisher_rows(m) for m in rows])
    bounds = np.arctanh(np.array(cutoffs)) * np.sqrt(counts)
    shares = retention.null_shares(counts[None], bounds[None], _nodes_for_rows(counts))[0]
    return [float(share) for share in np.cumprod(shares)]


def error_level(confidence: float, simultaneous: bool, n_kept: int) -> float:
    """Probability of loss to allow for one feature.

    If M features at or above the floor are each lost with probability at most e, M (1 - e) ≤ d, because at
    most d are kept. Any of them is lost with probability at most M e ≤ d e / (1 - e), the ``error`` allowed.
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
