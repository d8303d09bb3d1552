"""Tails of null distributions."""

from __future__ import annotations

import math

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def scaled_t_tail(alpha: Array, z: Array, root_sinh: Array, scaled_erfc: Array, out: Array) -> None:
    """Fill two-sided p-values of Student's t times exp(α z); see the module of null distributions."""
    for i in range(out.size):
        half, zi = 0.5 / alpha[i], z[i]
        moment, edge, power, total, correction = 1.0, 0.0, 1.0, 1.0, 0.0
        reach = (zi + 20.0 * half) ** 2
        size = reach
        for k in range(root_sinh.size):
            if abs(root_sinh[k]) * size < 1e-20:
                break
            for m in (4.0 * k + 1.0, 4.0 * k + 3.0):
                moment *= m * half
                edge = (power + m * edge) * half
                power *= zi
            total += root_sinh[k] * moment
            correction += root_sinh[k] * edge
            size *= reach
        x = math.sqrt(alpha[i] * zi)
        t, last, before = (x - 3.75) / (x + 3.75), scaled_erfc[-1], 0.0
        for k in range(scaled_erfc.size - 2, 0, -1):
            last, before = scaled_erfc[k] - before + 2.0 * t * last, last
        tail = (t * last - before + scaled_erfc[0]) / (1.0 + 2.0 * x)
        out[i] = tail + math.sqrt(4.0 / math.pi) * x * correction / total
