"""Rows of all blocks as rows of each."""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Indices, Rows


def split(rows: Rows, edges: Indices) -> list[tuple[int, Rows]]:
    """Blocks that some sorted rows touch, with the rows as they count within the block.

    Examples
    --------
    >>> split(slice(2, 7), np.array([0, 4, 8]))
    [(0, slice(2, 4, None)), (1, slice(0, 3, None))]
    >>> split(np.array([1, 4, 5, 6, 7]), np.array([0, 4, 8]))
    [(0, slice(1, 2, None)), (1, slice(0, 4, None))]
    """
    if isinstance(rows, slice):
        first, last = np.searchsorted(edges, [rows.start, rows.stop - 1], side="right") - 1
        blocks = range(first, last + 1) if rows.stop > rows.start else range(0)
        return [
            (
                b,
                slice(
                    int(max(rows.start, edges[b]) - edges[b]), int(min(rows.stop, edges[b + 1]) - edges[b])
                ),
            )
            for b in blocks
            if edges[b + 1] > edges[b]
        ]
    places = np.searchsorted(rows, edges)
    return [
        (int(b), _as_run(rows[places[b] : places[b + 1]] - edges[b])) for b in np.flatnonzero(np.diff(places))
    ]


def _as_run(rows: Indices) -> Rows:
    """Neighbours as a slice, which is read faster and sent as two numbers."""
    first, stop = int(rows[0]), int(rows[-1]) + 1
    return slice(first, stop) if stop - first == len(rows) else rows
