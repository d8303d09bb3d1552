"""Moments of cells that are not contiguous: they are packed into a tile and summed while in the cache.

Cell j of strip k (a row or a column) is ``flat[starts[k] + offsets[j]]``.
"""

from __future__ import annotations

from banditsis.arrays import Array
from banditsis.kernels import column_moments, row_moments
from banditsis.kernels.compile import elementwise, prefetch


@elementwise
def gather(flat: Array, starts: Array, offsets: Array, begin: int, tile: Array) -> None:
    """Fill ``tile[k, j] = flat[starts[begin + k] + offsets[j]]`` for the strips that are left.

    The cells of the next strip are prefetched while one is packed, so packing is limited by bandwidth instead
    of latency.
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
    edges: Array,
    tile: Array,
    lines: Array,
    part: Array,
    fourth: Array | None,
    out: Array,
) -> None:
    """Add the sums of :func:`row_moments.moments_by_stratum`, packing the rows of one tile at a time."""
    packed = tile.reshape(-1)
    for h in range(edges.size - 1):
        powers = None if fourth is None else fourth[h, -1]
        for i in range(edges[h], edges[h + 1], tile.shape[0]):
            stop = min(i + tile.shape[0], edges[h + 1])
            gather(flat, starts[:stop], offsets, i, tile)
            row_moments.moments(packed, lines[: stop - i], shift, y[i:stop], part, powers, out[h])


@elementwise
def moments_by_column(
    flat: Array,
    starts: Array,
    offsets: Array,
    shift: Array,
    y: Array,
    edges: Array,
    tile: Array,
    lines: Array,
    fourth: Array | None,
    out: Array,
) -> None:
    """Add the sums of :func:`column_moments.moments_by_stratum`, packing a few columns at a time."""
    packed = tile.reshape(-1)
    for k in range(0, starts.size, tile.shape[0]):
        stop = min(k + tile.shape[0], starts.size)
        gather(flat, starts, offsets, k, tile)
        powers = None if fourth is None else fourth[:, :, k:stop]
        column_moments.moments_by_stratum(
            packed, lines[: stop - k], shift[k:stop], y, edges, powers, out[:, :, k:stop]
        )
