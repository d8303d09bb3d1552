"""Pack scattered cells into a tile."""

from __future__ import annotations

from banditsis._typing import Array
from banditsis.kernels.compile import elementwise, prefetch


@elementwise
def gather(flat: Array, starts: Array, offsets: Array, tile: Array) -> None:
    """Fill ``tile[i, j] = flat[starts[i] + offsets[j]]``.

    While line ``i`` is packed, the cells of line ``i + 1`` are fetched from memory, so that packing
    waits for bandwidth and not for latency.
    """
    last = starts.size - 1
    for i in range(starts.size):
        here = starts[i]
        ahead = starts[min(i + 1, last)]
        line = tile[i]
        for j in range(offsets.size):
            prefetch(flat, ahead + offsets[j])
            line[j] = flat[here + offsets[j]]
