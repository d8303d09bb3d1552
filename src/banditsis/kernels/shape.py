"""Sums of powers of one column."""

from __future__ import annotations

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.kernels.compile import reduction


@reduction
def power_sums(x: Array, y: Floats, scale: float, shift: float, out: Floats) -> None:
    """Fill ``out`` with Σz, Σz², Σz³, Σz⁴ and Σzy in float64, where z = scale · x - shift."""
    first, second, third, fourth, product = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(x.size):
        z = scale * np.float64(x[i]) - shift
        square = z * z
        first += z
        second += square
        third += square * z
        fourth += square * square
        product += z * y[i]
    out[0] = first
    out[1] = second
    out[2] = third
    out[3] = fourth
    out[4] = product
