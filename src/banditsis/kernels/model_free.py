"""Measures of dependence that are not correlations, and the score of a Cox model.

Blocks have shape (columns, rows), except those of :func:`risk_set_moments`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise, range_scale, reduction
from banditsis.kernels.sorting import Scratch, argsort, end_of_ties


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
def sirs(block: Array, places: Array, begins: Array, z: Array, out: Array) -> None:
    """Fill ``out`` with the mean over j of (Σ z_i 1(y_i < y_j) / n)².

    ``places`` sort the response; ``begins`` is True where a new value of it begins. ``z`` has n values.
    """
    n = places.size
    for k in range(out.size):
        standardise(block[k], z)
        total, below, passed = 0.0, 0.0, 0.0
        for i in range(n):
            if begins[i]:
                below = passed
            total += below * below
            passed += z[places[i]]
        out[k] = total / n / n / n


@elementwise
def mean_variance(
    block: Array, codes: Array, sizes: Array, passed: Array, scratch: Scratch, out: Array
) -> None:
    """Fill ``out`` with the mean over j of Σ_c p_c (F_c(x_j) - F(x_j))²; ``sizes`` are the class sizes."""
    n, order = codes.size, scratch[0]
    for k in range(out.size):
        x = block[k]
        argsort(x, scratch)
        passed[:] = 0.0
        total, squares, start = 0.0, 0.0, 0  # squares is n Σ_c p_c F_c²
        while start < n:
            stop = end_of_ties(x, order, start)
            for i in range(start, stop):
                code = codes[order[i]]
                squares += (2.0 * passed[code] + 1.0) / sizes[code]
                passed[code] += 1.0
            total += (stop - start) * (squares - float(stop) * stop / n) if stop < n else 0.0
            start = stop
        out[k] = max(total, 0.0) / n / n


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
def concordant_sum(x: Array, code: Array, y: Array, tree: Array) -> float:
    """Σ (x_i - x_j)(y_i - y_j) over the pairs of rows in the same order in x and in y.

    Rows are sorted by x, and ``y[code]`` are their responses. The Fenwick tree, of shape (n, 4), has the
    numbers of the rows so far up to each rank of the response, and their Σx, Σy and Σxy.
    """
    tree[:] = 0.0
    total = 0.0
    for i in range(x.size):
        rank = np.intp(code[i])
        u, v, count, first, second, product = x[i], y[rank], 0.0, 0.0, 0.0, 0.0
        j = rank
        while j > 0:
            node = tree[j - 1]
            count += node[0]
            first += node[1]
            second += node[2]
            product += node[3]
            j &= j - 1
        total += u * v * count - u * second - v * first + product
        j = rank + 1
        while j <= x.size:
            node = tree[j - 1]
            node[0] += 1.0
            node[1] += u
            node[2] += v
            node[3] += u * v
            j += j & -j
    return float(total)


@elementwise
def centre_and_scale(x: Array, order: Array, out: Array) -> None:
    """Fill ``out`` with the sorted values minus their median, scaled by a power of two to about 1."""
    n = x.size
    centre, scale = x[order[n // 2]], range_scale(x[order[0]], x[order[n - 1]])
    for i in range(n):
        out[i] = x[order[i]] * scale - centre * scale


@elementwise
def distance_correlation(
    block: Array, response: Any, work: Array, tree: Array, scratch: Scratch, out: Array
) -> None:
    """Fill ``out`` with distance correlations.

    The response is the rows that sort it, its values in that order, the sums of :func:`row_sums` and their
    total, and :func:`distance_variance`. ``work`` has shape (2, n), and ``tree`` (n, 4).
    """
    (places, y, y_sums, y_total, y_spread), n, order = response, block.shape[1], scratch[0]
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
        product, moment, x_sum, y_sum = 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            product += sums[i] * y_sums[order[i]]
            moment += x[i] * y[order[i]]
            x_sum += x[i]
            y_sum += y[i]
        pairs = 2.0 * concordant_sum(x, order, y, tree) - (n * moment - x_sum * y_sum)
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
