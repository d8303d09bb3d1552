"""Tails of null distributions."""

from __future__ import annotations

import math

from banditsis.arrays import Array
from banditsis.kernels.compile import rounded


@rounded
def log_t_tail(a: Array, share: Array, root_sinh: Array, scaled_erfc: Array, out: Array) -> None:
    """Fill the logarithms of two-sided p-values of Student's t; see the module of null distributions."""
    for i in range(out.size):
        alpha, z = a[i] - 0.25, -math.log1p(-share[i])
        moment, edge, power, total, correction = 1.0, 0.0, 1.0, 1.0, 0.0
        reach = (z + 10.0 / alpha) ** 2
        size = reach
        for k in range(root_sinh.size):
            if abs(root_sinh[k]) * size < 1e-20:
                break
            for m in (4.0 * k + 1.0, 4.0 * k + 3.0):
                moment *= m / (2.0 * alpha)
                edge = (power + m * edge) / (2.0 * alpha)
                power *= z
            total += root_sinh[k] * moment
            correction += root_sinh[k] * edge
            size *= reach
        x = math.sqrt(alpha * z)
        t, last, before = (x - 3.75) / (x + 3.75), scaled_erfc[-1], 0.0
        for k in range(scaled_erfc.size - 2, 0, -1):
            last, before = scaled_erfc[k] - before + 2.0 * t * last, last
        tail = (t * last - before + scaled_erfc[0]) / (1.0 + 2.0 * x)
        out[i] = math.log(tail + math.sqrt(4.0 / math.pi) * x * correction / total) - alpha * z
