"""Model-free measures of dependence. Blocks have shape (columns, rows)."""

from __future__ import annotations

import math

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise, range_scale
from banditsis.kernels.ranks import end_of_ties
from banditsis.kernels.sorting import Scratch, argsort


@elementwise
def standardise(x: Array, out: Array) -> bool:
    """Fill ``out`` with x, scaled to mean 0 and mean square 1; False if x is constant."""
    n, low, high = x.size, x[0], x[0]
    for i in range(n):
        low, high = min(low, x[i]), max(high, x[i])
    if low == high:
        return False
    scale = range_scale(low, high)
    origin, mean, squares = x[0] * scale, 0.0, 0.0
    for i in range(n):
        out[i] = x[i] * scale - origin
        mean += out[i]
    mean /= n
    for i in range(n):
        out[i] -= mean
        squares += out[i] * out[i]
    factor = 1.0 / math.sqrt(squares / n)
    for i in range(n):
        out[i] *= factor
    return True


@elementwise
def sirs(block: Array, places: Array, begins: Array, z: Array, out: Array) -> None:
    """Fill ``out`` with the mean over j of (Σ z_i 1(y_i < y_j) / n)².

    ``places`` sort the response; ``begins`` is True where a new value of it begins. ``z`` has n values.
    """
    n = places.size
    for k in range(out.size):
        if not standardise(block[k], z):
            out[k] = 0.0
            continue
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
def project(x: Array, y: Array, along: float, across: float, out: Array) -> None:
    """Fill ``out`` with ``along · x + across · y``."""
    for i in range(x.size):
        out[i] = along * x[i] + across * y[i]


@elementwise
def sliced_wasserstein(
    block: Array,
    y: Array,
    independent: Array,
    directions: Array,
    work: Array,
    joint_order: Array,
    scratch: Scratch,
    out: Array,
) -> None:
    """Fill ``out`` with the sliced Wasserstein distance of (x, y) from pairs that represent independence.

    Its square is the mean over directions of the mean of (A_(i) - B_(i))², where A and B are projections.
    ``independent`` has a response for each value of the sorted feature: first for directions with a positive
    cosine, then for the others. ``work`` has shape (4, n), ``joint_order`` n values.
    """
    n, order = y.size, scratch[0]
    z, ascending, joint, product = work[0], work[1], work[2], work[3]
    for k in range(out.size):
        if not standardise(block[k], z):
            out[k] = 0.0
            continue
        argsort(z, scratch)
        for i in range(n):
            ascending[i] = z[order[i]]
        total = 0.0
        for d in range(directions.shape[0]):
            along, across = directions[d, 0], directions[d, 1]
            project(z, y, along, across, joint)
            project(ascending, independent[0 if along > 0.0 else 1], along, across, product)
            argsort(joint, scratch)
            joint_order[:] = order
            argsort(product, scratch)
            for i in range(n):
                total += (joint[joint_order[i]] - product[order[i]]) ** 2
        out[k] = math.sqrt(total / n / directions.shape[0])
