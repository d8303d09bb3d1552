"""Autoregressive columns, made from independent ones in place."""

from __future__ import annotations

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def autoregress(block: Array, rho: float, scale: Array, shift: Array) -> None:
    """Turn rows of independent values into ``scale · z + shift`` with ``z_j = ρ z_{j-1} + √(1-ρ²) e_j``."""
    rest = (1.0 - rho * rho) ** 0.5
    for i in range(block.shape[0]):
        row, factor, offset = block[i], scale[i], shift[i]
        z = float(row[0])
        row[0] = factor * z + offset
        for j in range(1, row.size):
            z = rho * z + rest * row[j]
            row[j] = factor * z + offset
