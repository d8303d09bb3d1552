"""Probability that a feature is retained in all rounds of a plan.

The correlations of a feature over growing samples of rows are a Markov chain. Two recursions over rounds
integrate over its state by Gauss-Legendre quadrature (``nodes`` and ``weights``): :func:`null_chain`
forwards, for features without signal, which set the cutoffs; :func:`spread_losses` backwards, for a feature
with signal. See :mod:`banditsis.plans.detection_floor` for the model.
"""

from __future__ import annotations

import math

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise

ROOT_2 = math.sqrt(2.0)
ROOT_2PI = math.sqrt(2.0 * math.pi)
#: Normal variables are integrated over this many standard deviations.
REACH = 6.5
#: A variance that is a smaller share of the previous one is treated as 0.
CERTAIN = 1e-3


@elementwise
def _tails(c: float, x: Array, w: Array, size: int, rho: float, s: float) -> tuple[float, float]:
    """Probability that |ρx + sε| > c, and its density at c, where x has the quadrature weights w."""
    tail, density = 0.0, 0.0
    for j in range(size):
        for sign in (-1.0, 1.0):
            t = (c + sign * rho * x[j]) / s
            if t < 9.0:
                tail += w[j] * 0.5 * math.erfc(t / ROOT_2)
                density += w[j] * math.exp(-0.5 * t * t)
    return tail, density / (s * ROOT_2PI)


@elementwise
def _quantile(share: float, start: float, x: Array, w: Array, size: int, rho: float, s: float) -> float:
    """The c with P(|ρx + sε| > c) = ``share``, by Newton's method on the logarithm of the tail."""
    c = start
    for _ in range(50):
        tail, density = _tails(c, x, w, size, rho, s)
        if tail <= 0.0 or density <= 0.0:
            c *= 0.5
            continue
        move = (math.log(tail) - math.log(share)) * tail / density
        move = min(max(move, -1.0), 1.0)
        c = max(c + move, 0.0)
        if abs(move) < 1e-9 or (c == 0.0 and move < 0.0):
            break
    return c


@elementwise
def null_chain(
    rows: Array, shares: Array, cutoffs: Array, solve: bool, nodes: Array, weights: Array, work: Array
) -> None:
    """Fill the cutoffs of |u| in each round from the shares kept (``solve``), or the shares from the cutoffs.

    Without signal ``u_l = artanh(r_l) √rows_l`` is standard normal, and
    ``u_{l+1} = √(rows_l / rows_{l+1}) u_l + √(1 - rows_l / rows_{l+1}) ε``.
    A share is relative to the features before the round. The state between rounds is the density of |u|
    among the features that are kept, at nodes above the cutoff. ``work`` has shape (4, nodes).
    """
    x, w, new_x, new_w = work[0], work[1], work[2], work[3]
    x[0], w[0] = 0.0, 1.0  # before the first round every u is 0
    size, rho, s = 1, 0.0, 1.0
    for k in range(rows.size):
        if k > 0:
            size = nodes.size
            ratio = min(rows[k - 1] / rows[k], 1.0 - 1e-6)
            rho, s = math.sqrt(ratio), math.sqrt(1.0 - ratio)
        if solve:
            cutoffs[k] = 0.0
            if shares[k] < 1.0:
                start = cutoffs[k - 1] if k > 0 else 1.0
                cutoffs[k] = _quantile(shares[k], start, x, w, size, rho, s)
        c = cutoffs[k]
        tail, _ = _tails(c, x, w, size, rho, s)
        if not solve:
            shares[k] = min(tail, 1.0)
        half = 0.5 * (math.sqrt(c * c + 45.0) - c)
        for i in range(nodes.size):
            v = c + half * (1.0 + nodes[i])
            _, density = _tails(v, x, w, size, rho, s)
            new_x[i] = v
            new_w[i] = half * weights[i] * density / max(tail, 1e-300)
        x, w, new_x, new_w = new_x, new_w, x, w


@elementwise
def _loss(mean: float, bound: float, sd: float, x: Array, w: Array, size: int) -> float:
    """P(z < bound) for z ~ N(mean, sd²), plus the loss in earlier rounds, given by weights w at nodes x."""
    total = 0.5 * math.erfc((mean - bound) / (sd * ROOT_2))
    for j in range(size):
        t = (x[j] - mean) / sd
        if abs(t) < 9.0:
            total += w[j] * math.exp(-0.5 * t * t) / (sd * ROOT_2PI)
    return min(total, 1.0)


@elementwise
def spread_losses(variances: Array, bounds: Array, nodes: Array, weights: Array, work: Array) -> int:
    """Probability of a loss before the last round, as a function of z in the last round.

    Backwards from the last round, ``z_{l-1} = z_l + N(0, V_{l-1} - V_l)`` for any correlation of the feature.
    Fills ``work[0]`` with nodes and ``work[1]`` with weights, and returns their number. Variances must
    decrease.
    """
    x, w, new_x, new_w = work[0], work[1], work[2], work[3]
    size = 0
    for k in range(1, variances.size):
        high = bounds[k]
        for m in range(k):
            high = max(high, bounds[m] + REACH * math.sqrt(variances[m] - variances[k]))
        half = 0.5 * (high - bounds[k])
        sd = math.sqrt(variances[k - 1] - variances[k])
        for i in range(nodes.size):
            new_x[i] = bounds[k] + half * (1.0 + nodes[i])
            new_w[i] = half * weights[i] * _loss(new_x[i], bounds[k - 1], sd, x, w, size)
        size = nodes.size
        x, w, new_x, new_w = new_x, new_w, x, w
    if variances.size % 2 == 0:  # the lines were swapped an odd number of times
        work[0, :] = work[2, :]
        work[1, :] = work[3, :]
    return size


@elementwise
def loss(mean: float, bound: float, variance: float, work: Array, size: int) -> float:
    """Probability that a feature with this mean z is lost in some round, after :func:`spread_losses`."""
    return float(_loss(mean, bound, math.sqrt(variance), work[0], work[1], size))


@elementwise
def lowest_mean(
    variances: Array, bounds: Array, error: float, nodes: Array, weights: Array, work: Array
) -> float:
    """Smallest mean z of a feature that is lost in some round with probability at most ``error``."""
    size = spread_losses(variances, bounds, nodes, weights, work)
    last = variances.size - 1
    low = bounds[last]
    high = low
    for m in range(variances.size):
        low = min(low, bounds[m])
        high = max(high, bounds[m] + 12.0 * math.sqrt(variances[m]))
    low = max(low, 0.0)
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        if loss(middle, bounds[last], variances[last], work, size) <= error:
            high = middle
        else:
            low = middle
    return float(high)


@elementwise
def predicted_floor(
    rows: Array,
    shares: Array,
    n_rows: float,
    variance_inflation: float,
    error: float,
    nodes: Array,
    weights: Array,
    work: Array,
    scratch: Array,
) -> float:
    """Smallest mean z that survives the expected cutoffs, which features without signal determine.

    ``rows`` and ``n_rows`` are row numbers minus 3, as in the variance of Fisher's z. Rounds that read all
    rows decide with certainty. Infinite if successive rounds are too similar for this number of nodes.
    ``scratch`` has shape (3, rounds).
    """
    cutoffs, variances, bounds = scratch[0], scratch[1], scratch[2]
    for k in range(1, rows.size):
        if nodes.size * math.sqrt(1.0 - rows[k - 1] / rows[k]) < 8.0:
            return math.inf
    null_chain(rows, shares, cutoffs, True, nodes, weights, work)
    count, certain = 0, 0.0
    for k in range(rows.size):
        bound = cutoffs[k] / math.sqrt(rows[k])
        variance = variance_inflation * (1.0 / rows[k] - 1.0 / n_rows)
        if variance <= CERTAIN * (variances[count - 1] if count > 0 else 1.0 / n_rows):
            certain = max(certain, bound)
        elif bound > 0.0:
            variances[count], bounds[count] = variance, bound
            count += 1
    if count == 0:
        return certain
    for k in range(1, count):  # not accurate if the nodes are too far apart
        high = bounds[k] + REACH * math.sqrt(variances[0])
        for m in range(k):
            high = max(high, bounds[m] + REACH * math.sqrt(variances[m] - variances[k]))
        narrow = min(variances[k - 1] - variances[k], variances[k] if k == count - 1 else math.inf)
        if high - bounds[k] > nodes.size * math.sqrt(narrow):
            return math.inf
    chance = lowest_mean(variances[:count], bounds[:count], error, nodes, weights, work)
    return float(max(certain, chance))


@elementwise
def lay_out(growth: Array, split: Array, sizes: Array, rows: Array, left: Array) -> None:
    """Fill the rows of each round and the features left after it, for a plan that uses the whole budget.

    ``growth[l]`` is the log of the ratio of the rows of round l + 1 to those of round l; round l reduces the
    features by a share proportional to ``exp(split[l])`` of log(p / d). Rows are scaled to the budget and
    limited to n. ``sizes`` are n, p, d, the budget, and 1 if each round rereads all its rows, else 0.
    """
    n, p, d, budget, again = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] > 0.0
    total = 0.0
    for k in range(split.size):
        total += math.exp(split[k])
    done = 0.0
    for k in range(split.size):
        done += math.exp(split[k]) / total
        left[k] = p * math.exp(-done * math.log(p / d))
        rows[k] = 1.0 if k == 0 else rows[k - 1] * math.exp(growth[k - 1])
    scale = 0.0
    for _ in range(split.size + 1):  # each pass can find one more round that is limited to n
        cost, certain, before, features = 0.0, 0.0, 0.0, p
        for k in range(split.size):
            if rows[k] * scale >= n:
                certain += (n - before * scale) * features if before * scale < n else 0.0
                cost -= before * features if before * scale < n else 0.0
            else:
                cost += (rows[k] - before) * features
            before, features = 0.0 if again else rows[k], left[k]
        if cost <= 0.0:
            break
        scale = (budget - certain) / cost if scale == 0.0 else max(scale, (budget - certain) / cost)
    for k in range(split.size):
        rows[k] = max(min(rows[k] * scale, n), 1.0)


@elementwise
def _interpolate(x: float, curve: Array) -> float:
    """Value at x of the line through the points ``(curve[0], curve[1])``, which are sorted."""
    if x <= curve[0, 0]:
        return float(curve[1, 0] * x / curve[0, 0])
    low, high = 0, curve.shape[1] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if curve[0, middle] <= x:
            low = middle
        else:
            high = middle
    share = min((x - curve[0, low]) / (curve[0, high] - curve[0, low]), 1.0)
    return float(curve[1, low] + share * (curve[1, high] - curve[1, low]))


@elementwise
def trial_floor(
    growth: Array,
    split: Array,
    sizes: Array,
    curve: Array,
    error: float,
    nodes: Array,
    weights: Array,
    work: Array,
    scratch: Array,
) -> float:
    """Predicted floor, as a mean z, of the plan from :func:`lay_out`.

    ``curve`` has numbers of rows and how many rows of a uniform sample are as precise; ``scratch`` has shape
    (5, rounds).
    """
    n, p = sizes[0], sizes[1]
    rows, left = scratch[3, : split.size], scratch[4, : split.size]
    lay_out(growth, split, sizes, rows, left)
    before = p
    for k in range(split.size):
        rows[k] = max(_interpolate(rows[k], curve) - 3.0, 1.0)
        left[k], before = left[k] / before, left[k]
    return float(predicted_floor(rows, left, max(n - 3.0, 1.0), 1.0, error, nodes, weights, work, scratch))
