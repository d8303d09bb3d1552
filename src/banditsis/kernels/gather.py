"""Pack scattered cells into strips, and sum them while they are in the cache."""

from __future__ import annotations

from banditsis.arrays import Array
from banditsis.kernels import by_column, by_row
from banditsis.kernels.compile import elementwise, prefetch


@elementwise
def gather(flat: Array, starts: Array, offsets: Array, begin: int, tile: Array) -> None:
    """Fill ``tile[k, j] = flat[starts[begin + k] + offsets[j]]``, for as many lines as there are.

    While one line is packed, the cells of the next are fetched from memory, so that packing waits for
    bandwidth and not for latency.
    """
    last = starts.size - 1
    for k in range(min(tile.shape[0], starts.size - begin)):
        here = starts[begin + k]
        ahead = starts[min(begin + k + 1, last)]
        line = tile[k]
        for j in range(offsets.size):
            prefetch(flat, ahead + offsets[j])
            line[j] = flat[here + offsets[j]]


@elementwise
def moments_by_row(
    flat: Array,
    starts: Array,
    offsets: Array,
    shift: Array,
    y: Array,
    tile: Array,
    lines: Array,
    part: Array,
    out: Array,
) -> None:
    """Add the moments of cells scattered over rows to ``out``, packing as many rows as the tile has."""
    packed = tile.reshape(-1)
    for i in range(0, starts.size, tile.shape[0]):
        stop = min(i + tile.shape[0], starts.size)
        gather(flat, starts, offsets, i, tile)
        by_row.moments(packed, lines[: stop - i], shift, y[i:stop], part, out)


@elementwise
def moments_by_column(
    flat: Array,
    starts: Array,
    offsets: Array,
    shift: Array,
    y: Array,
    tile: Array,
    lines: Array,
    out: Array,
) -> None:
    """Add the moments of cells scattered over columns to ``out``, packing columns likewise."""
    packed = tile.reshape(-1)
    for k in range(0, starts.size, tile.shape[0]):
        stop = min(k + tile.shape[0], starts.size)
        gather(flat, starts, offsets, k, tile)
        by_column.moments(packed, lines[: stop - k], shift[k:stop], y, out[:, k:stop])
