"""Measures of dependence that are not correlations, and the score of a Cox model.

Blocks have shape (columns, rows), except those of :func:`risk_set_moments`.

Distance correlation takes O(n log n). Let a and b be the distances of the feature and of the response.
Besides moments, Σ a·b over pairs of rows needs D = Σ (x_j - x_i)(y_j - y_i) over the pairs that have the same
order in x and in y. Rows are sorted by x and carry their rank in y. They are partitioned by one bit of that
rank after the other, the highest first, keeping their order otherwise. Each level adds the pairs whose ranks
differ first in its bit: a gap between neighbours in x, with c lower ranks to its left whose y sum to S and r
upper ranks to its right whose y sum to U, contributes gap · (c·U - r·S).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise, range_scale, reduction
from banditsis.kernels.sorting import Scratch, argsort

#: Groups of 2 to the power of this are not partitioned further for distances.
LAST_LEVEL = 4


@reduction
def standardise(x: Array, out: Array) -> float:
    """Fill ``out`` with x, scaled to mean 0 and mean square 1, or 0 if constant; return the factor, or 0."""
    n, low, high = x.size, x[0], x[0]
    for i in range(n):
        low, high = min(low, x[i]), max(high, x[i])
    scale = range_scale(low, high)
    origin, mean, squares = x[0] * scale, 0.0, 0.0
    for i in range(n):
        out[i] = x[i] * scale - origin
        mean += out[i]
    mean /= n
    for i in range(n):
        out[i] -= mean
        squares += out[i] * out[i]
    factor = 1.0 / math.sqrt(squares / n) if low < high else 0.0
    for i in range(n):
        out[i] *= factor
    return float(scale * factor)


@elementwise
def row_sums(values: Array, sums: Array) -> float:
    """Fill ``sums`` with Σ_j |v_i - v_j| for ascending values, and return their sum."""
    n, before, total, everything = values.size, 0.0, 0.0, 0.0
    for i in range(n):
        everything += values[i]
    for i in range(n):
        sums[i] = values[i] * (2.0 * i - n) + everything - 2.0 * before
        before += values[i]
        total += sums[i]
    return total


@elementwise
def distance_variance(values: Array, sums: Array, total: float) -> float:
    """Distance variance, from the row sums of the distances and their total."""
    n, first, second, squares = values.size, 0.0, 0.0, 0.0
    for i in range(n):
        first += values[i]
        second += values[i] * values[i]
        squares += sums[i] * sums[i]
    mean = total / n / n
    return 2.0 * (second / n - (first / n) ** 2) - 2.0 * squares / n / n / n + mean * mean


@elementwise
def partition(
    level: int, x: Array, code: Array, y: Array, prefix: Array, next_x: Array, next_code: Array
) -> float:
    """Partition every group by one bit of the code; return the sum over the pairs that it separates."""
    n, total = code.size, 0.0
    for start in range(0, n, 2 << level):
        middle, stop = min(n, start + (1 << level)), min(n, start + (2 << level))
        pivot = y[min(middle, n - 1)]
        left, below = 0.0, 0.0  # number of lower ranks passed, and their Σ (pivot - y)
        right = float(stop - middle)  # number of upper ranks to come; above is their Σ (y - pivot)
        above = prefix[stop] - prefix[middle] - right * pivot
        here, last, uppers = 0.0, x[start], 0
        for i in range(start, stop):
            value, c = x[i], code[i]
            here += (value - last) * (left * above + right * below)
            last = value
            # Products with 0 or 1, because a branch would be unpredictable.
            upper = (c >> level) & 1
            weight = float(upper)
            offset = y[c] - pivot
            above -= weight * offset
            right -= weight
            below -= (1.0 - weight) * offset
            left += 1.0 - weight
            place = np.uintp(i - uppers + upper * (middle + 2 * uppers - i))
            next_x[place] = value
            next_code[place] = c
            uppers += upper
        total += here
    return total


@elementwise
def concordant_sum(
    x: Array, code: Array, y: Array, prefix: Array, spare_x: Array, spare_code: Array
) -> float:
    """D, for rows sorted by x; the arrays are overwritten."""
    level, total = 0, 0.0
    while (2 << level) < code.size:
        level += 1
    while level >= LAST_LEVEL:
        total += partition(level, x, code, y, prefix, spare_x, spare_code)
        x, spare_x = spare_x, x
        code, spare_code = spare_code, code
        level -= 1
    return float(total + sum_within_groups(x, code, y))


@elementwise
def sum_within_groups(x: Array, code: Array, y: Array) -> float:
    """The part of D from pairs within the same group."""
    total = 0.0
    for start in range(0, x.size, 1 << LAST_LEVEL):
        for i in range(start + 1, min(x.size, start + (1 << LAST_LEVEL))):
            value, here = x[i], y[code[i]]
            for j in range(start, i):
                total += (value - x[j]) * max(here - y[code[j]], 0.0)
    return total


@elementwise
def centre_and_scale(x: Array, order: Array, out: Array) -> None:
    """Fill ``out`` with the sorted values minus their median, scaled by a power of two to about 1."""
    n = x.size
    centre, scale = x[order[n // 2]], range_scale(x[order[0]], x[order[n - 1]])
    for i in range(n):
        out[i] = x[order[i]] * scale - centre * scale


@elementwise
def distance_correlation(
    block: Array, response: Any, work: Array, spare_code: Array, scratch: Scratch, out: Array
) -> None:
    """Fill ``out`` with distance correlations.

    The response is the rows that sort it, its values in that order, their cumulative sums, the sums of
    :func:`row_sums` and their total, and :func:`distance_variance`. ``work`` has shape (2, n).
    """
    (places, y, prefix, y_sums, y_total, y_spread), n, order = response, block.shape[1], scratch[0]
    x, sums = work[0], work[1]
    for k in range(out.size):
        for i in range(n):
            sums[i] = block[k, places[i]]
        argsort(sums, scratch)
        centre_and_scale(sums, order, x)
        if x[0] == x[n - 1]:
            out[k] = 0.0
            continue
        total = row_sums(x, sums)
        spread = distance_variance(x, sums, total)
        product, moment, first = 0.0, 0.0, 0.0
        for i in range(n):
            product += sums[i] * y_sums[order[i]]
            moment += x[i] * y[order[i]]
            first += x[i]
        pairs = 2.0 * concordant_sum(x, order, y, prefix, sums, spare_code) - (n * moment - first * prefix[n])
        covariance = 2.0 * pairs / n / n - 2.0 * product / n / n / n + (total / n / n) * (y_total / n / n)
        scale = math.sqrt(max(spread, 0.0)) * math.sqrt(y_spread)
        out[k] = math.sqrt(max(covariance, 0.0) / scale) if scale > 0.0 else 0.0


@reduction
def risk_set_moments(block: Array, model: tuple[Array, ...], scales: Array, out: Array) -> None:
    """Fill ``out`` with ``Σx·w`` for each line w of ``linear``, then the information of each column.

    The columns of ``block`` (rows, columns) are standardised first; ``scales`` are their factors. The model
    is ``order, risk, linear, square, ends, events, at_risk``. Rows are in ``order``, latest time first, and
    so are ``risk``, ``linear`` and ``square``. At event time t there are ``events[t]`` events; the rows
    before ``ends[t]`` are at risk, and their risks sum to ``at_risk[t]``. The information is
    ``Σ square·x² - Σ_t events·(Σ risk·x / at_risk)²``, the inner sum over the rows at risk.
    """
    order, risk, linear, square, ends, events, at_risk = model
    for j in range(block.shape[1]):
        x = block[:, j]
        scales[j] = standardise(x, x)
        at_once, squares, means, start = 0.0, 0.0, 0.0, 0
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
