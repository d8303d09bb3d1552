"""Missing cells of tiles whose rows or columns are contiguous strips."""

from __future__ import annotations

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def replace(
    flat: Array, m: int, cells: Array, shift: Array, values: Array, along_rows: bool, absent: Array
) -> None:
    """Replace the sorted ``cells`` of a tile by the shift of their columns, and sum the values of their rows.

    Strip k of the tile is ``flat[k * m : (k + 1) * m]``, row k if ``along_rows``, else column k. ``values``
    has shape (rows, s), and ``absent``, to which the sums are added, (columns, s).
    """
    k, first = 0, 0
    for t in range(cells.size):
        while cells[t] >= first + m:
            k, first = k + 1, first + m
        j = cells[t] - first
        row, column = (k, j) if along_rows else (j, k)
        flat[cells[t]] = shift[column]
        for r in range(values.shape[1]):
            absent[column, r] += values[row, r]
