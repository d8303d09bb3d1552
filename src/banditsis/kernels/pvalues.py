"""Tails of null distributions."""

from __future__ import annotations

import math

from banditsis.arrays import Array
from banditsis.kernels.compile import rounded


@rounded
def log_t_tail(a: Array, share: Array, coefficients: Array, out: Array) -> None:
    r"""Fill the logarithms of the two-sided p-values of Student's t, :math:`I_{1-s}(a, 1/2)`.

    There are 2a degrees of freedom, and s is the share of variance that is explained.

    With :math:`1 - s = e^{-w^2}` and :math:`α = a - 1/4` it is proportional to

    .. math:: \int_w^\infty e^{-α v^2} \sqrt{\frac{v^2 / 2}{\sinh(v^2 / 2)}} \, dv

    The powers of v in the series of the root, whose ``coefficients`` are given, are integrated by parts. What
    remains is the normal distribution and a correction that vanishes at w = 0. The relative error is below
    1e-12, but tails below 1e-308 are 0.
    """
    for i in range(out.size):
        alpha, z = a[i] - 0.25, -math.log1p(-share[i])
        # ∫ v^m exp(-α v²) is ``moment`` × that of m = 0, plus ``edge`` × w exp(-α w²).
        moment, edge, power, total, correction = 1.0, 0.0, 1.0, 1.0, 0.0
        reach = (z + 10.0 / alpha) ** 2
        size = reach
        for k in range(coefficients.size):
            if abs(coefficients[k]) * size < 1e-20:
                break
            for m in (4.0 * k + 1.0, 4.0 * k + 3.0):
                moment *= m / (2.0 * alpha)
                edge = (power + m * edge) / (2.0 * alpha)
                power *= z
            total += coefficients[k] * moment
            correction += coefficients[k] * edge
            size *= reach
        x = alpha * z
        tail = math.erfc(math.sqrt(x)) + math.exp(-x) * math.sqrt(4.0 / math.pi * x) * correction / total
        out[i] = math.log(tail) if tail > 0.0 else -math.inf
