"""Probability that a feature is retained in all rounds of a plan.

Its correlations over growing samples of rows are a Markov chain, over whose state Gauss-Legendre quadrature
integrates: :func:`null_cutoffs` and :func:`null_shares` forwards, for features without signal, which set the
cutoffs; :func:`lowest_mean` backwards, for a feature with signal. Several plans with the same number of
rounds are treated at once: arrays have one line for each plan, and a column for each round or quadrature
node.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TypeAlias

import numpy as np

from banditsis.core.arrays import Array, Floats, erfc, special

#: Nodes of the state between two rounds, and their weights.
State: TypeAlias = tuple[Floats, Floats]

ROOT_2 = math.sqrt(2.0)
ROOT_PI = math.sqrt(math.pi)
ROOT_2PI = math.sqrt(2.0 * math.pi)
#: Normal variables are integrated over this many standard deviations.
REACH = 6.5
#: A variance that is a smaller share of the previous one is treated as 0.
CERTAIN = 1e-3
MAX_STEPS = 50
TINY = 1e-300


@cache
def gauss_legendre(count: int) -> State:
    """Nodes in (-1, 1) and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def null_cutoffs(rows: Floats, shares: Floats, n_nodes: int) -> Floats:
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


def null_shares(rows: Floats, cutoffs: Floats, n_nodes: int) -> Floats:
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


def _loss(mean: Floats, bound: Floats, sd: Floats, state: State) -> Floats:
    """P(z < bound) for z ~ N(mean, sd²), plus the loss in earlier rounds, given by a state."""
    total = 0.5 * erfc((mean - bound) / (sd * ROOT_2))
    return np.minimum(total + _density(mean, *state, sd), 1.0)


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
        x, w = new, half * weights * _loss(new, bounds[:, k - 1 : k], sd, (x, w))
    return x, w


def _highest(variances: Floats, bounds: Floats, k: int) -> Floats:
    """The z in round k from which earlier rounds practically never lose a feature."""
    reach = bounds[:, :k] + REACH * np.sqrt(variances[:, :k] - variances[:, k : k + 1])
    return np.asarray(np.maximum(reach.max(axis=1), bounds[:, k]))


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
        low, high = (
            np.where(wide & (loss > error), middle, low),
            np.where(wide & (loss <= error), middle, high),
        )
    return np.asarray(high[:, 0])


def predicted_floors(rows: Floats, shares: Floats, n_rows: float, error: float, n_nodes: int) -> Floats:
    """Smallest mean z that survives the cutoffs to expect; infinite if rounds are too similar for the nodes.

    ``rows`` and ``n_rows`` are row numbers minus 3.
    """
    floors = np.full(len(rows), math.inf)
    apart = np.all(n_nodes * np.sqrt(1.0 - rows[:, :-1] / rows[:, 1:]) >= 8.0, axis=1)
    rows, shares = rows[apart], shares[apart]
    if len(rows):
        bounds = null_cutoffs(rows, shares, n_nodes) / np.sqrt(rows)
        floors[apart] = _floors_of_bounds(1.0 / rows - 1.0 / n_rows, bounds, n_rows, error, n_nodes)
    return floors


def _floors_of_bounds(variances: Floats, bounds: Floats, n_rows: float, error: float, n_nodes: int) -> Floats:
    """As :func:`predicted_floors`, given the cutoffs as bounds of z."""
    certain, chance = _certain_rounds(variances, bounds, n_rows)
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


def _certain_rounds(variances: Floats, bounds: Floats, n_rows: float) -> tuple[Array, Array]:
    """Which rounds decide with certainty, and which of the others drop features."""
    certain, chance = np.empty(bounds.shape, bool), np.empty(bounds.shape, bool)
    last = np.full(len(bounds), 1.0 / n_rows)
    for k in range(bounds.shape[1]):
        certain[:, k] = variances[:, k] <= CERTAIN * last
        chance[:, k] = ~certain[:, k] & (bounds[:, k] > 0.0)
        last = np.where(chance[:, k], variances[:, k], last)
    return certain, chance


def _has_enough_nodes(variances: Floats, bounds: Floats, n_nodes: int) -> Array:
    """Whether nodes are close enough for the recursion of losses to be accurate."""
    enough, last = np.ones(len(bounds), bool), bounds.shape[1] - 1
    for k in range(1, last + 1):
        high = np.maximum(_highest(variances, bounds, k), bounds[:, k] + REACH * np.sqrt(variances[:, 0]))
        narrow = variances[:, k - 1] - variances[:, k]
        narrow = np.minimum(narrow, variances[:, k]) if k == last else narrow
        enough &= high - bounds[:, k] <= n_nodes * np.sqrt(narrow)
    return enough
