"""Sums over risk sets, column by column."""

from __future__ import annotations

import math

from banditsis.arrays import Array
from banditsis.kernels.compile import reduction


@reduction
def centre(block: Array, order: Array) -> None:
    """Take the mean off each column, in place; a constant column becomes exactly 0.

    A power of two brings values to about 1 first, so that squares neither overflow nor vanish.
    """
    for j in range(block.shape[1]):
        x = block[:, j]
        low, high = x[0], x[0]
        for i in range(x.size):
            low, high = min(low, x[i]), max(high, x[i])
        scale = math.ldexp(1.0, -min(max(math.frexp(0.5 * high - 0.5 * low)[1] + 1, -1000), 1000))
        first, total = x[order[0]] * scale, 0.0
        for i in range(x.size):
            x[i] = x[i] * scale - first
            total += x[i]
        total /= x.size
        for i in range(x.size):
            x[i] -= total


@reduction
def moments(
    block: Array,
    order: Array,
    risk: Array,
    linear: Array,
    square: Array,
    ends: Array,
    events: Array,
    at_risk: Array,
    out: Array,
) -> None:
    """Fill ``out`` with ``Σx·w`` for each line w of ``linear``, then the information of each column.

    Rows are taken in ``order``, latest first, as are ``risk``, ``linear`` and ``square``. Event time t, of
    ``events[t]`` events, has the rows before ``ends[t]`` at risk, of ``at_risk[t]`` in all. The information
    is ``Σ square·x² - Σ events·(Σ risk·x / at_risk)²``, the inner sum over the rows at risk.
    """
    for j in range(block.shape[1]):
        x = block[:, j]
        at_once, squares, start = 0.0, 0.0, 0
        means = 0.0
        for t in range(ends.size):
            for i in range(start, ends[t]):
                at_once += risk[i] * x[order[i]]
            start = ends[t]
            mean = at_once / at_risk[t]
            means += events[t] * mean * mean
        for i in range(order.size):
            value = x[order[i]]
            squares += square[i] * value * value
        for k in range(linear.shape[0]):
            weights, total = linear[k], 0.0
            for i in range(order.size):
                total += weights[i] * x[order[i]]
            out[k, j] = total
        out[linear.shape[0], j] = squares - means
