"""The detection floor: the smallest correlation that a finished or planned run is likely to keep.

The page on guarantees has the model. The correlations of a feature over growing samples of rows are a Markov
chain, over whose state Gauss-Legendre quadrature integrates: :func:`chain_cutoffs` and :func:`chain_shares`
forwards, for features without signal, which set the cutoffs; :func:`lowest_mean` backwards from the last
round, for a feature with signal. Sign changes are ignored, which makes the floor conservative. Several plans
with the same number of rounds are treated at once: arrays have one line for each plan, and a column for each
round or quadrature node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from banditsis.core.arrays import Array, Floats, erfc, special

#: Nodes of the state between two rounds, and their weights.
State: TypeAlias = tuple[Floats, Floats]

#: A feature with fewer informative rows in a sample is undecided: its score may say nothing.
MIN_INFORMATIVE = 3.5
#: If one in as many rows is informative, a feature is ordinary: a small sample does not make it undecided.
ORDINARY_KURTOSIS = 10.0
MAX_ITERATIONS, MAX_STEPS = 30, 50
#: Numbers of Gauss-Legendre nodes; rounds with nearly equal row counts need more.
NODES = (48, 96, 192, 384)
#: Normal variables are integrated over this many standard deviations.
REACH = 6.5
#: A variance that is a smaller share of the previous one is treated as 0.
CERTAIN = 1e-3
TINY = 1e-300
ROOT_2, ROOT_PI, ROOT_2PI = math.sqrt(2.0), math.sqrt(math.pi), math.sqrt(2.0 * math.pi)


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


def error_level(confidence: float, simultaneous: bool, n_kept: int) -> float:
    """Probability of loss to allow for one feature.

    If M features at or above the floor are each lost with probability at most e, M (1 - e) ≤ d, because at
    most d are kept. Any of them is lost with probability at most M e ≤ d e / (1 - e), the ``error`` allowed.
    """
    error = 1.0 - confidence
    return error / (n_kept + error) if simultaneous else error


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
    certain, variances, bounds = 0.0, list[float](), list[float]()
    for m, cutoff, round_inflation in zip(rows, cutoffs, inflation, strict=True):
        bound = math.atanh(min(cutoff, 1.0 - 1e-12))
        variance = sampling_variance(m, n, round_inflation)
        if variances:  # a feature that is decided only in this round cannot have been dropped before
            variance = min(variance, (1.0 - 2e-3) * variances[-1])
        if variance <= CERTAIN * (variances[-1] if variances else 1.0 / n):
            certain = max(certain, cutoff)
        elif cutoff > 0:
            if variances and variances[-1] - variance < 1e-3 * variances[-1]:  # practically the same rows
                bound = max(bound, bounds.pop())
                variances.pop()
            variances.append(variance)
            bounds.append(bound)
    if not bounds:
        return certain
    n_nodes = NODES[0]
    if len(bounds) > 1:
        v, b = np.array(variances), np.array(bounds)
        step = math.sqrt(min(float(-np.diff(v).max()), variances[-1]))
        n_nodes = _find_nodes(1.5 * float((b + REACH * np.sqrt(v)).max() - b.min()) / step)
    mean = lowest_mean(np.array([variances]), np.array([bounds]), error, n_nodes)
    return max(certain, math.tanh(mean[0]))


def null_cutoffs(rows: Sequence[float], kept: Sequence[int], p: int) -> list[float]:
    """Cutoffs that p independent features without signal will set, if ``kept`` of them are kept."""
    deciding: list[int] = []  # only the last of several rounds over practically the same rows
    for k, (m, left) in enumerate(zip(rows, kept, strict=True)):
        if left != (kept[deciding[-1]] if deciding else p):
            if deciding and rows[deciding[-1]] > 0.998 * m:
                deciding.pop()
            deciding.append(k)
    cutoffs = np.zeros(len(rows))
    if deciding:
        counts = np.array([fisher_rows(rows[k]) for k in deciding])
        left_after = np.array([p, *(kept[k] for k in deciding)], dtype=np.float64)
        shares = left_after[1:] / left_after[:-1]
        bounds = chain_cutoffs(counts[None], shares[None], _nodes_for_rows(counts))[0]
        cutoffs[deciding] = np.tanh(bounds / np.sqrt(counts))
    return cutoffs.tolist()


def null_shares(rows: Sequence[float], cutoffs: Sequence[float]) -> list[float]:
    """Shares of the features without signal that are left after each round, given the cutoffs."""
    counts = np.array([fisher_rows(m) for m in rows])
    bounds = np.arctanh(np.array(cutoffs)) * np.sqrt(counts)
    shares = chain_shares(counts[None], bounds[None], _nodes_for_rows(counts))[0]
    return [float(share) for share in np.cumprod(shares)]


def _nodes_for_rows(counts: Floats) -> int:
    """Nodes needed for the chain of features without signal."""
    if len(counts) < 2:
        return NODES[0]
    return _find_nodes(8.0 / float(np.sqrt(np.maximum(1.0 - counts[:-1] / counts[1:], 1e-6)).min()))


def _find_nodes(wanted: float) -> int:
    return next((count for count in NODES if count >= wanted), NODES[-1])


@cache
def gauss_legendre(count: int) -> State:
    """Nodes in (-1, 1) and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def chain_cutoffs(rows: Floats, shares: Floats, n_nodes: int) -> Floats:
    r"""Cutoffs of \|u\| that keep these shares of the features without signal that are left.

    Without signal ``u_l = artanh(r_l) √rows_l`` is standard normal, and ``u_{l+1} = √(rows_l / rows_{l+1})
    u_l + √(1 - rows_l / rows_{l+1}) ε``. The state between rounds is the density of the |u| that are kept, at
    nodes above the cutoff.
    """
    cutoffs = np.empty_like(rows)
    cutoffs[:, 0] = -special.ndtri(0.5 * shares[:, 0])
    state = _first_state(cutoffs[:, :1], n_nodes)
    for k in range(1, rows.shape[1]):
        x, w, s = _predict(state, rows[:, k - 1 : k], rows[:, k : k + 1])
        cutoffs[:, k : k + 1] = _quantile(shares[:, k : k + 1], cutoffs[:, k - 1 : k], x, w, s)
        if k + 1 < rows.shape[1]:
            state = _truncate(cutoffs[:, k : k + 1], x, w, s, n_nodes)
    return cutoffs


def chain_shares(rows: Floats, cutoffs: Floats, n_nodes: int) -> Floats:
    """Shares of the features without signal, of those left before each round, that reach these cutoffs."""
    shares = np.empty_like(rows)
    shares[:, 0] = special.erfc(cutoffs[:, 0] / ROOT_2)
    state = _first_state(cutoffs[:, :1], n_nodes)
    for k in range(1, rows.shape[1]):
        x, w, s = _predict(state, rows[:, k - 1 : k], rows[:, k : k + 1])
        cutoff = cutoffs[:, k : k + 1]
        shares[:, k : k + 1] = _tail(cutoff, x, w, s)
        state = _truncate(cutoff, x, w, s, n_nodes)
    return np.minimum(shares, 1.0)


def _first_state(cutoff: Floats, n_nodes: int) -> State:
    """The density of a standard normal beyond the cutoff."""
    one = np.ones_like(cutoff)
    return _truncate(cutoff, np.zeros_like(cutoff), 2.0 * one, one, n_nodes)


def _predict(state: State, rows: Floats, next_rows: Floats) -> tuple[Floats, Floats, Floats]:
    """The next u is a mixture of normal variables: their means, weights and standard deviation."""
    ratio = np.minimum(rows / next_rows, 1.0 - 1e-6)
    x, w = np.sqrt(ratio) * state[0], state[1]
    return np.concatenate([x, -x], axis=1), np.concatenate([w, w], axis=1), np.sqrt(1.0 - ratio)


def _tail(c: Floats, x: Floats, w: Floats, s: Floats) -> Floats:
    """Probability that the mixture exceeds c."""
    return 0.5 * _dot(w, special.erfc((c - x) / (s * ROOT_2)))


def _density(v: Floats, x: Floats, w: Floats, s: Floats) -> Floats:
    """Density of the mixture at each v."""
    scale = 1.0 / (s * ROOT_2)
    t = (v * scale)[:, :, None] - (x * scale)[:, None, :]
    np.multiply(t, t, out=t)
    np.negative(t, out=t)
    np.exp(t, out=t)
    return np.asarray((t @ w[:, :, None])[:, :, 0] / (s * ROOT_2PI))


def _truncate(c: Floats, x: Floats, w: Floats, s: Floats, n_nodes: int) -> State:
    """Density of the mixture beyond c, relative to its tail."""
    nodes, weights = gauss_legendre(n_nodes)
    half = 0.5 * (np.sqrt(c * c + 45.0) - c)
    v = c + half * (1.0 + nodes)
    return v, half * weights * _density(v, x, w, s) / np.maximum(_tail(c, x, w, s), TINY)


def _quantile(share: Floats, start: Floats, x: Floats, w: Floats, s: Floats) -> Floats:
    """The c that the mixture exceeds with probability ``share``, by Newton's method on its logarithm."""
    c, is_open, scale = start, share < 1.0, 1.0 / (s * ROOT_2)
    for _ in range(MAX_STEPS):
        if not is_open.any():
            break
        t = (c - x) * scale
        tail = np.maximum(0.5 * _dot(w, special.erfc(t)), TINY)
        density = np.maximum(_dot(w, np.exp(-t * t)) * (scale / ROOT_PI), TINY)
        move = np.clip(np.log(tail / share) * tail / density, -1.0, 1.0)
        c = np.where(is_open, np.maximum(c + move, 0.0), c)
        is_open = is_open & (np.abs(move) >= 1e-9) & ((c > 0.0) | (move > 0.0))
    return np.where(share < 1.0, c, 0.0)


def _dot(a: Floats, b: Floats) -> Floats:
    """The sum of products along the nodes, as a column."""
    return np.asarray(np.einsum("ij,ij->i", a, b)[:, None])


def lowest_mean(variances: Floats, bounds: Floats, error: float, n_nodes: int) -> Floats:
    """Smallest mean z of a feature that is lost in some round with probability at most ``error``."""
    x, w = _spread_losses(variances, bounds, n_nodes)
    scale = 1.0 / (np.sqrt(variances[:, -1:]) * ROOT_2)
    bound, x, w = bounds[:, -1:] * scale, x * scale, w * (scale / ROOT_PI)
    low = np.maximum(bounds.min(axis=1, keepdims=True), 0.0)
    high = (bounds + 12.0 * np.sqrt(variances)).max(axis=1, keepdims=True)
    while np.any(wide := high - low > 1e-6 * high):
        middle = 0.5 * (low + high)
        t = x - middle * scale
        loss = 0.5 * erfc(middle * scale - bound) + _dot(w, np.exp(-t * t))
        low = np.where(wide & (loss > error), middle, low)
        high = np.where(wide & (loss <= error), middle, high)
    return np.asarray(high[:, 0])


def _spread_losses(variances: Floats, bounds: Floats, n_nodes: int) -> State:
    """Probability of a loss before the last round, as a function of z in the last round; variances decrease.
    Backwards, ``z_{l-1} = z_l + N(0, V_{l-1} - V_l)`` for any correlation of the feature.
    """
    nodes, weights = gauss_legendre(n_nodes)
    x = w = np.empty((len(bounds), 0))
    for k in range(1, bounds.shape[1]):
        bound = bounds[:, k : k + 1]
        half = 0.5 * (_highest(variances, bounds, k)[:, None] - bound)
        sd = np.sqrt(variances[:, k - 1 : k] - variances[:, k : k + 1])
        new = bound + half * (1.0 + nodes)
        loss = 0.5 * erfc((new - bounds[:, k - 1 : k]) / (sd * ROOT_2))  # in the round before
        x, w = new, half * weights * np.minimum(loss + _density(new, x, w, sd), 1.0)
    return x, w


def _highest(variances: Floats, bounds: Floats, k: int) -> Floats:
    """The z in round k from which earlier rounds practically never lose a feature."""
    reach = bounds[:, :k] + REACH * np.sqrt(variances[:, :k] - variances[:, k : k + 1])
    return np.asarray(np.maximum(reach.max(axis=1), bounds[:, k]))


def predicted_floors(rows: Floats, shares: Floats, n_rows: float, error: float, n_nodes: int) -> Floats:
    """Smallest mean z that survives the cutoffs to expect; infinite if rounds are too similar for the nodes.

    ``rows`` and ``n_rows`` are row numbers minus 3.
    """
    floors = np.full(len(rows), math.inf)
    apart = np.all(n_nodes * np.sqrt(1.0 - rows[:, :-1] / rows[:, 1:]) >= 8.0, axis=1)
    rows, shares = rows[apart], shares[apart]
    if len(rows):
        bounds = chain_cutoffs(rows, shares, n_nodes) / np.sqrt(rows)
        floors[apart] = _floors_of_bounds(1.0 / rows - 1.0 / n_rows, bounds, n_rows, error, n_nodes)
    return floors


def _floors_of_bounds(variances: Floats, bounds: Floats, n_rows: float, error: float, n_nodes: int) -> Floats:
    """As :func:`predicted_floors`, given the cutoffs as bounds of z."""
    # Which rounds decide with certainty, and which of the others drop features.
    certain: Array = np.empty(bounds.shape, bool)
    chance: Array = np.empty(bounds.shape, bool)
    last = np.full(len(bounds), 1.0 / n_rows)
    for k in range(bounds.shape[1]):
        certain[:, k] = variances[:, k] <= CERTAIN * last
        chance[:, k] = ~certain[:, k] & (bounds[:, k] > 0.0)
        last = np.where(chance[:, k], variances[:, k], last)
    floors = np.asarray(np.where(certain, bounds, 0.0).max(axis=1))
    codes = chance @ (1 << np.arange(chance.shape[1]))
    for code in set(codes.tolist()) - {0}:  # plans whose rounds are uncertain alike
        plans = np.flatnonzero(codes == code)
        columns = np.flatnonzero(chance[plans[0]])
        v, b = variances[np.ix_(plans, columns)], bounds[np.ix_(plans, columns)]
        exact = _has_enough_nodes(v, b, n_nodes)
        floors[plans[~exact]] = math.inf
        lowest = lowest_mean(v[exact], b[exact], error, n_nodes)
        floors[plans[exact]] = np.maximum(floors[plans[exact]], lowest)
    return floors


def _has_enough_nodes(variances: Floats, bounds: Floats, n_nodes: int) -> Array:
    """Whether nodes are close enough for the recursion of losses to be accurate."""
    enough, last = np.ones(len(bounds), bool), bounds.shape[1] - 1
    for k in range(1, last + 1):
        high = np.maximum(_highest(variances, bounds, k), bounds[:, k] + REACH * np.sqrt(variances[:, 0]))
        narrow = variances[:, k - 1] - variances[:, k]
        narrow = np.minimum(narrow, variances[:, k]) if k == last else narrow
        enough &= high - bounds[:, k] <= n_nodes * np.sqrt(narrow)
    return enough
