"""Saddlepoint approximation of the tail of a weighted sum of independent, identically distributed values."""

from __future__ import annotations

import math

from banditsis.core.arrays import Floats
from banditsis.kernels.compile import elementwise

MAX_ITERATIONS = 100
#: The saddlepoint is found if the mean is as close to the target, relative to it.
TOLERANCE = 1e-9


@elementwise
def cumulants(
    t: float, atoms: Floats, counts: Floats, nodes: Floats, table: Floats, unit: float, step: float
) -> tuple[float, float, float]:
    """Cumulant generating function of the sum at t, and its first two derivatives.

    ``table`` has the function of one value and its two derivatives in the ``nodes`` ``unit · sinh(step · k)``
    for k = -m, …, m. They are interpolated by cubics, and continued in straight lines.
    """
    last = len(nodes) - 1
    value, first, second = 0.0, 0.0, 0.0
    for j in range(len(atoms)):
        a, count = atoms[j], counts[j]
        s = t * a
        if s <= nodes[0] or s >= nodes[last]:
            k = 0 if s <= nodes[0] else last
            value += count * (table[0, k] + table[1, k] * (s - nodes[k]))
            first += count * a * table[1, k]
            continue
        k = min(max(math.floor(math.asinh(s / unit) / step) + last // 2, 0), last - 1)
        h = nodes[k + 1] - nodes[k]
        x = (s - nodes[k]) / h
        left, right = (1.0 + 2.0 * x) * (1.0 - x) * (1.0 - x), x * x * (3.0 - 2.0 * x)
        slope_left, slope_right = h * x * (1.0 - x) * (1.0 - x), h * x * x * (x - 1.0)
        value += count * (
            left * table[0, k]
            + right * table[0, k + 1]
            + slope_left * table[1, k]
            + slope_right * table[1, k + 1]
        )
        first += (
            count
            * a
            * (
                left * table[1, k]
                + right * table[1, k + 1]
                + slope_left * table[2, k]
                + slope_right * table[2, k + 1]
            )
        )
        second += count * a * a * ((1.0 - x) * table[2, k] + x * table[2, k + 1])
    return value, first, second


@elementwise
def signed_root(
    target: float,
    span: float,
    atoms: Floats,
    counts: Floats,
    nodes: Floats,
    table: Floats,
    unit: float,
    step: float,
) -> float:
    r"""The r* of Barndorff-Nielsen for ``target`` > 0: the sum reaches the target with probability Φ(-r*).

    A sum on a lattice of this span (0 for none) needs a target half a span lower than the value observed.
    """
    t, low, high = target, 0.0, math.inf
    value, first, second = cumulants(t, atoms, counts, nodes, table, unit, step)
    for _ in range(MAX_ITERATIONS):
        if abs(first - target) <= TOLERANCE * target:
            break
        if first < target:
            low = t
        else:
            high = t
        new = t + (target - first) / second if second > 0 else high
        if not low < new < high:
            new = 0.5 * (low + high) if high < math.inf else 2.0 * t
        if new > 1e12:
            break
        t = min(new, 4.0 * t)
        value, first, second = cumulants(t, atoms, counts, nodes, table, unit, step)
    w = math.sqrt(max(2.0 * (t * target - value), 0.0))
    v = t * math.sqrt(max(second, 0.0))
    half = 0.5 * span * t
    if half > 0:
        v *= math.sinh(min(half, 500.0)) / half
    # Without a saddlepoint (the target is the largest value of the sum) w alone is the exponential rate.
    return w + math.log(v / w) / w if v > 0 and w > 0 else w
