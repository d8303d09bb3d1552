"""How much each row moves the correlations of a few columns."""

from __future__ import annotations

import math

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def standardise(block: Array, work: Array) -> None:
    """Give the columns mean 0 and mean square 1, in place; ``work[0]`` tells which had a variance (1 or 0).

    ``work`` holds 2 lines. Columns are first divided by their largest value, so that squares stay in range.
    """
    usable, value = work[0], work[1]
    for kind in range(3):  # mean, largest, mean square
        value[:] = 0.0
        for i in range(block.shape[0]):
            for j in range(block.shape[1]):
                x = block[i, j]
                if kind == 0:
                    value[j] += x / block.shape[0]
                elif kind == 1:
                    value[j] = max(value[j], abs(x))
                else:
                    value[j] += x * x / block.shape[0]
        for j in range(block.shape[1]):
            if kind == 0:
                usable[j] = 1e-9 * abs(value[j])  # what is smaller is rounding
                continue
            if kind == 1:
                usable[j] = 1.0 if usable[j] < value[j] < math.inf else 0.0
            else:
                value[j] = math.sqrt(value[j])
            value[j] = value[j] if usable[j] > 0.0 else 1.0
        for i in range(block.shape[0]):
            for j in range(block.shape[1]):
                block[i, j] = block[i, j] - value[j] if kind == 0 else block[i, j] / value[j]


@elementwise
def squared_influence(block: Array, y: Array, work: Array, out: Array) -> int:
    """Fill ``out`` with each row's mean of ψ² / (1 - r²)², ψ = xy - r (x² + y²) / 2, over usable columns.

    Everything is standardised; ``work[0]`` tells which columns are usable. Returns how many are: those that
    have a variance and are no copy of the response.
    """
    usable, r = work[0], work[1]
    r[:] = 0.0
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            r[j] += block[i, j] * y[i] / block.shape[0]
    count = 0
    for j in range(block.shape[1]):
        if abs(r[j]) >= 1.0 - 1e-6:
            usable[j] = 0.0
        count += 1 if usable[j] > 0.0 else 0
    for i in range(block.shape[0]):
        total = 0.0
        for j in range(block.shape[1]):
            if usable[j] > 0.0:
                x = block[i, j]
                psi = (x * y[i] - 0.5 * r[j] * (x * x + y[i] * y[i])) / (1.0 - r[j] * r[j])
                total += psi * psi
        out[i] = total / max(count, 1)
    return count
