"""Sums over the values of one response."""

from __future__ import annotations

from banditsis.arrays import Array
from banditsis.kernels.compile import reduction


@reduction
def add_powers(y: Array, scale: float, shift: float, total: Array) -> None:
    """Add the sums of the first four powers of ``scale · y - shift`` to ``total``."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for i in range(y.size):
        v = y[i] * scale - shift
        square = v * v
        first += v
        second += square
        third += square * v
        fourth += square * square
    total[0] += first
    total[1] += second
    total[2] += third
    total[3] += fourth
