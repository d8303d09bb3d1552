"""Packing of cells that are not contiguous.

Cell j of strip k (a row or a column) is ``flat[first_cell + starts[k] + offsets[j]]``.
"""

from __future__ import annotations

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise, prefetch


@elementwise
def gather(flat: Array, first_cell: int, starts: Array, offsets: Array, begin: int, tile: Array) -> None:
    """Fill ``tile[k, j] = flat[first_cell + starts[begin + k] + offsets[j]]`` for the strips that are left.

    The cells of the next strip are prefetched while one is packed, so packing is limited by bandwidth instead
    of latency.
    """
    last = starts.size - 1
    for k in range(min(tile.shape[0], starts.size - begin)):
        here = first_cell + starts[begin + k]
        ahead = first_cell + starts[min(begin + k + 1, last)]
        line = tile[k]
        for j in range(offsets.size):
            prefetch(flat, ahead + offsets[j])
            line[j] = flat[here + offsets[j]]
