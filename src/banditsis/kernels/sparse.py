"""Sums over the stored cells of compressed sparse matrices (``indptr``, ``indices``, ``data``).

``chosen`` are the strips (rows or columns) and the places of the others: ``place[i]`` is the position of row
i (or column i, by row) among those requested, or -1; it is empty if all are requested.
``column_*`` take matrices that are stored by column (CSC), ``row_*`` by row (CSR). The lines of the sums are
those listed in ``Weights``; ``fourth`` is the line of Σx⁴, or None, and Numba compiles the two cases
separately. With pairwise deletion, sums of presence start from all rows, and NaN cells are subtracted here:
``presence`` has shape (rows, s). Without it, it is None, or s is 0 where Numba compiles one case. ``scale``
multiplies the cells of each column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import Arrays, elementwise


@elementwise
def column_moments(
    matrix: Arrays, chosen: Arrays, y: Array, fourth: Array | None, presence: Array | None, out: Array
) -> None:
    """Add ``Σx, Σxy, Σx²`` of some columns to ``out`` (columns, lines), and Σx⁴ to ``fourth``.

    Columns are short, so the cost of starting a loop dominates. Slices, unsigned indices, whose sign need not
    be tested, and scalar code make it three times as fast.
    """
    (indptr, indices, data), (columns, place) = matrix, chosen
    for k in range(columns.size):
        start, end = np.uint64(indptr[columns[k]]), np.uint64(indptr[columns[k] + 1])
        values, rows = data[start:end], indices[start:end]
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for t in range(values.size):
            i = rows[t]
            if place.size:
                i = place[i]
                if i < 0:
                    continue
            x, at = np.float64(values[t]), np.uint64(i)
            if presence is not None and x != x:
                for r in range(presence.shape[1]):
                    out[k, 3 + r] -= presence[at, r]
                continue
            a += x
            b += x * y[at]
            u = x * x
            c += u
            if fourth is not None:
                d += u * u
        out[k, 0] += a
        out[k, 1] += b
        out[k, 2] += c
        if fourth is not None:
            fourth[k] += d


@elementwise
def row_moments(
    matrix: Arrays, chosen: Arrays, y: Array, fourth: Array | None, presence: Array | None, out: Array
) -> None:
    """Add ``Σx, Σxy, Σx²`` over some rows, to which y belongs, to ``out`` (columns, lines), and Σx⁴."""
    (indptr, indices, data), (rows, place) = matrix, chosen
    for k in range(rows.size):
        start, end = np.uint64(indptr[rows[k]]), np.uint64(indptr[rows[k] + 1])
        values, columns, w = data[start:end], indices[start:end], y[k]
        for t in range(values.size):
            j = columns[t]
            if place.size:
                j = place[j]
                if j < 0:
                    continue
            x, at = np.float64(values[t]), np.uint64(j)
            if presence is not None and x != x:
                for r in range(presence.shape[1]):
                    out[at, 3 + r] -= presence[k, r]
                continue
            out[at, 0] += x
            out[at, 1] += x * w
            u = x * x
            out[at, 2] += u
            if fourth is not None:
                fourth[at] += u * u


@elementwise
def products(matrix: Arrays, chosen: Arrays, by_row: bool, scale: Array, weights: Arrays, out: Array) -> None:
    """Add ``Σx·w, Σv·x²`` of some rows or columns to ``out`` (columns, lines), and sums of presence.

    The weights are w, v, which is empty if all are 1, and presence. One more line of ``out`` is ``Σx⁴``.
    """
    (indptr, indices, data), (strips, place), (w, v, presence) = matrix, chosen, weights
    q, s = w.shape[1], presence.shape[1]
    with_fourth = out.shape[1] > q + 1 + s
    for k in range(strips.size):
        for t in range(indptr[strips[k]], indptr[strips[k] + 1]):
            i = np.intp(indices[t])
            if place.size:
                i = place[i]
                if i < 0:
                    continue
            row, j = np.uint64(i), np.uint64(k)
            if by_row:
                row, j = j, row
            z = np.float64(data[t]) * scale[j]
            if s and z != z:
                for r in range(s):
                    out[j, q + 1 + r] -= presence[row, r]
                continue
            for r in range(q):
                out[j, r] += z * w[row, r]
            square = z * z
            out[j, q] += square * v[row] if v.size else square
            if with_fourth:
                out[j, q + 1 + s] += square * square


@elementwise
def cells(matrix: Arrays, chosen: Arrays, out: Array) -> None:
    """Copy the stored cells of some strips (rows or columns) to ``out`` (strips, places), which is 0."""
    (indptr, indices, data), (strips, place) = matrix, chosen
    for k in range(strips.size):
        for t in range(indptr[strips[k]], indptr[strips[k] + 1]):
            i = indices[t]
            if place.size:
                i = place[i]
                if i < 0:
                    continue
            out[k, i] = data[t]


@elementwise
def gather_columns(matrix: Arrays, rows: Array, first: int, place: Array, starts: Any, out: Arrays) -> None:
    """Transpose some rows × columns of a matrix by row (CSR), whose columns ascend in each row.

    ``place[j]`` is the position of column ``first + j``, or -1. With empty ``out``, the cells of position k
    are counted in ``starts[k]``. Otherwise ``starts[k]`` is where its next cell goes, at last its stop.
    """
    (indptr, indices, data), (positions, cells), share = matrix, out, 0.0
    for i in range(rows.size):
        begin, stop = indptr[rows[i]], indptr[rows[i] + 1]
        low = begin + int(share * (stop - begin))  # where it was in the row before
        while low > begin and indices[low - 1] >= first:
            low -= 1
        while low < stop and indices[low] < first:
            low += 1
        share = (low - begin) / max(stop - begin, 1)
        for t in range(low, stop):
            j = indices[t] - first
            if j >= place.size:
                break
            k = place[j]
            if k >= 0:
                if cells.size:
                    positions[starts[k]] = i
                    cells[starts[k]] = data[t]
                starts[k] += 1
