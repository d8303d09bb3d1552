"""Tables of counts: where bins begin, and how many rows of each class are in each bin of each feature.

Edges have shape (edges, features): the bin of a value is the number of edges up to it. The first edge is
minus infinity, so bin 0 is that of missing values, which are not above any edge. Edges that a feature does
not need are NaN, and have nothing above them; the number of edges is a multiple of ``UNROLLED``.

Each cell is compared with all edges, which a processor does for many cells at once: up to about 30 bins this
is faster than a binary search. The bins of a few rows are kept while they are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise, inlined_elementwise, prefetch

UNROLLED = 8
#: Rows and columns whose bins are kept while they are counted, and rows if cells are stored by column.
ROWS_KEPT, COLUMNS_KEPT, ROWS_AT_ONCE = 16, 256, 512
#: Float32 cells of a cache line, which is requested before it is needed.
CELLS_OF_LINE = 16


@inlined_elementwise
def find_bins(x: Array, edges: Array, begin: int, bins: Array) -> Any:
    """Fill the bins of cells, whose edges begin at a column; return the number of infinite cells."""
    n_infinite: Any = 0
    end = begin + x.size
    for j in range(x.size):
        bins[j] = 0
        n_infinite += np.int32(abs(x[j]) == np.inf)
    for k in range(0, edges.shape[0], UNROLLED):
        e0, e1, e2 = edges[k, begin:end], edges[k + 1, begin:end], edges[k + 2, begin:end]
        e3, e4, e5 = edges[k + 3, begin:end], edges[k + 4, begin:end], edges[k + 5, begin:end]
        e6, e7 = edges[k + 6, begin:end], edges[k + 7, begin:end]
        for j in range(x.size):
            v = x[j]
            n0, n1, n2 = np.int32(v >= e0[j]), np.int32(v >= e1[j]), np.int32(v >= e2[j])
            n3, n4, n5 = np.int32(v >= e3[j]), np.int32(v >= e4[j]), np.int32(v >= e5[j])
            n6, n7 = np.int32(v >= e6[j]), np.int32(v >= e7[j])
            bins[j] += ((n0 + n1) + (n2 + n3)) + ((n4 + n5) + (n6 + n7))
    return n_infinite


@elementwise
def count_by_row(flat: Array, starts: Array, edges: Array, cells: Array, counts: Array) -> Any:
    """Add the rows ``flat[starts[i] : starts[i] + m]`` to ``counts`` (m, bins × classes).

    ``cells`` is the class of each row. Returns the number of infinite cells.
    """
    (n_edges, m), size, table = edges.shape, counts.shape[1], counts.reshape(-1)
    n_classes, kept = size // (n_edges + 1), np.empty((ROWS_KEPT, COLUMNS_KEPT), np.uint16)
    n_infinite: Any = 0
    for first in range(0, starts.size, ROWS_KEPT):
        rows = starts[first : min(first + ROWS_KEPT, starts.size)]
        for begin in range(0, m, COLUMNS_KEPT):  # whose edges and counts stay in the cache
            end = min(begin + COLUMNS_KEPT, m)
            for i in range(rows.size):
                x = flat[rows[i] + begin : rows[i] + end]
                n_infinite += find_bins(x, edges, begin, kept[i])
                ahead = starts[min(first + i + ROWS_KEPT, starts.size - 1)] + begin
                for j in range(0, x.size, CELLS_OF_LINE):
                    prefetch(flat, ahead + j)
            for i in range(rows.size):
                line, place = kept[i], cells[first + i]
                for j in range(end - begin):
                    table[np.uint64((begin + j) * size + line[j] * n_classes + place)] += np.uint32(1)
    return n_infinite


@elementwise
def count_by_column(flat: Array, starts: Array, edges: Array, cells: Array, counts: Array) -> Any:
    """As :func:`count_by_row`, of the columns ``flat[starts[j] : starts[j] + rows]``.

    The place of each row in a table begins with its class and moves on by a bin for each edge up to its cell.
    Successive rows are counted in four tables, because adding to the same count again has to wait.
    """
    n, size, n_edges = cells.size, counts.shape[1], edges.shape[0]
    n_classes, none = np.int32(size // (n_edges + 1)), np.int32(0)
    tables, places = np.empty((4, size), np.uint32), np.empty(ROWS_AT_ONCE, np.int32)
    n_infinite: Any = 0
    for j in range(starts.size):
        tables[:] = 0
        for first in range(0, n, ROWS_AT_ONCE):
            here = cells[first : min(first + ROWS_AT_ONCE, n)]
            x = flat[starts[j] + first : starts[j] + first + here.size]
            for i in range(x.size):
                places[i] = here[i]
                n_infinite += np.int32(abs(x[i]) == np.inf)
            for k in range(0, n_edges, 4):
                e0, e1, e2, e3 = edges[k, j], edges[k + 1, j], edges[k + 2, j], edges[k + 3, j]
                for i in range(x.size):
                    place = np.int32(places[i] + (n_classes if x[i] >= e0 else none))
                    place = np.int32(place + (n_classes if x[i] >= e1 else none))
                    place = np.int32(place + (n_classes if x[i] >= e2 else none))
                    places[i] = np.int32(place + (n_classes if x[i] >= e3 else none))
            for i in range(x.size):
                tables[i & 3, np.uint64(places[i])] += np.uint32(1)
        for b in range(size):
            counts[j, b] += tables[0, b] + tables[1, b] + tables[2, b] + tables[3, b]
    return n_infinite


@inlined_elementwise
def run_of(s: Array, i: int, n: int) -> Any:
    """Where the run of values equal to the i-th of n sorted ones begins and ends."""
    low, high = i, i + 1
    while low > 0 and s[low - 1] == s[i]:
        low -= 1
    while high < n and s[high] == s[i]:
        high += 1
    return low, high


@elementwise
def find_edges(columns: Array, n_bins: int, edges: Array) -> None:
    """Fill the edges (edges, features), which are NaN, from sorted values (features, rows), NaN last.

    A feature with at most ``n_bins`` values has a bin for each. Otherwise bins hold equal shares of the rows,
    except that a value that holds more than a share has a bin of its own, which is not next to a small one.
    """
    for j in range(columns.shape[0]):
        s, n, n_values = columns[j], 0, 0
        while n < s.size and s[n] == s[n]:
            n_values += n == 0 or s[n] != s[n - 1]
            n += 1
        edges[0, j] = -np.inf
        start, n_left = 0, min(n_bins, n_values)
        for k in range(1, n_left):
            share = (n - start) / (n_left + 1 - k)
            _, stop = run_of(s, start, n)
            if n_values > n_bins and stop - start < share:
                cut = start + max(1, int(share + 0.5))
                low, high = run_of(s, cut, n)
                ahead, end = run_of(s, min(cut + int(share / 2), n - 1), n)
                if end - ahead >= share > high - low:
                    start = ahead
                else:  # rows with the same value are in one bin
                    start = high if high - cut < cut - low and high - low < share and high < n else low
                edges[k, j] = s[start]
            elif stop < n:
                edges[k, j] = s[stop] if n_values <= n_bins else np.nextafter(s[start], s[stop])
                start = stop
            else:
                break
