"""Packing of cells that are not contiguous.

Cell j of strip k (a row or a column) is ``flat[starts[k] + offsets[j]]``.
"""

from __future__ import annotations

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise, prefetch

#: Cells that are packed between the request of a cell and its use.
CELLS_AHEAD = 128


@elementwise
def gather(flat: Array, starts: Array, offsets: Array, begin: int, tile: Array) -> None:
    """Fill ``tile[k, j] = flat[starts[begin + k] + offsets[j]]`` for the strips that are left.

    Cells are prefetched while others are packed, so packing is limited by bandwidth instead of latency.
    """
    last, step = starts.size - 1, 1 + CELLS_AHEAD // max(offsets.size, 1)
    for k in range(min(tile.shape[0], starts.size - begin)):
        here = starts[begin + k]
        ahead = starts[min(begin + k + step, last)]
        line = tile[k]
        for j in range(offsets.size):
            prefetch(flat, ahead + offsets[j])
            line[j] = flat[here + offsets[j]]
