"""Moments of the columns of a block over the risk sets of a Cox model. Blocks have shape (rows, columns)."""

from __future__ import annotations

from banditsis.core.arrays import Array
from banditsis.kernels.compile import range_scale, reduction


@reduction
def centre(block: Array, order: Array, scales: Array) -> None:
    """Scale each column to about 1 and subtract its mean, in place; a constant column becomes exactly 0.

    ``scales`` is filled with the scale of each column.
    """
    for j in range(block.shape[1]):
        x = block[:, j]
        low, high = x[0], x[0]
        for i in range(x.size):
            low, high = min(low, x[i]), max(high, x[i])
        scale = range_scale(low, high)
        scales[j] = scale
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

    Rows are in ``order``, latest time first, and so are ``risk``, ``linear`` and ``square``. At event time t
    there are ``events[t]`` events; the rows before ``ends[t]`` are at risk, and their risks sum to
    ``at_risk[t]``. The information is ``Σ square·x² - Σ_t events·(Σ risk·x / at_risk)²``, the inner sum over
    the rows at risk.
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
