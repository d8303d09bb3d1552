"""Sums over compressed sparse matrices: stored cells alone; the others are 0, and add nothing.

The lines of the sums are those that ``Weights`` lists. Where cells are left out (pairwise), the sums of
presence start from all rows, and what is NaN is subtracted here. ``place`` says where a row (or, by row, a
column) is among those wanted, -1 if it is not; it is empty if all are wanted.
"""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def column_moments(
    indptr: Array, indices: Array, data: Array, first: int, stop: int, y: Array, out: Array
) -> None:
    """Add ``Σx, Σxy, Σx²`` over all rows to ``out`` (3 × columns), for the columns from first to stop.

    Columns are short: what counts is how a loop starts. Slices, unsigned indices, which need no test of their
    sign, and no vector lanes make it three times as fast.
    """
    end = np.uint64(indptr[first])
    for j in range(first, stop):
        start, end = end, np.uint64(indptr[j + 1])
        values, rows = data[start:end], indices[start:end]
        a, b, c = 0.0, 0.0, 0.0
        for t in range(values.size):
            x = float(values[t])
            a += x
            b += x * y[np.uint64(rows[t])]
            c += x * x
        out[0, j - first] += a
        out[1, j - first] += b
        out[2, j - first] += c


@elementwise
def row_moments(
    indptr: Array, indices: Array, data: Array, rows: Array, place: Array, y: Array, out: Array
) -> None:
    """Add ``Σx, Σxy, Σx²`` over some rows to ``out`` (columns × 3); y is that of the rows given."""
    for k in range(rows.size):
        start, end = np.uint64(indptr[rows[k]]), np.uint64(indptr[rows[k] + 1])
        values, columns, w = data[start:end], indices[start:end], y[k]
        for t in range(values.size):
            j = columns[t]
            if place.size:
                j = place[j]
                if j < 0:
                    continue
            x, at = float(values[t]), np.uint64(j)
            out[at, 0] += x
            out[at, 1] += x * w
            out[at, 2] += x * x


@elementwise
def column_products(
    indptr: Array,
    indices: Array,
    data: Array,
    columns: Array,
    scale: Array,
    place: Array,
    w: Array,
    v: Array,
    pairwise: bool,
    out: Array,
) -> None:
    """Add the sums of some columns to ``out`` (columns × lines); w is rows × weights, v empty or by row."""
    q = w.shape[1]
    for k in range(columns.size):
        total = out[k]
        for t in range(indptr[columns[k]], indptr[columns[k] + 1]):
            i = indices[t]
            if place.size:
                i = place[i]
                if i < 0:
                    continue
            _add(float(data[t]) * scale[k], w[i], v[i] if v.size else 1.0, pairwise, q, total)


@elementwise
def row_products(
    indptr: Array,
    indices: Array,
    data: Array,
    rows: Array,
    scale: Array,
    place: Array,
    w: Array,
    v: Array,
    pairwise: bool,
    out: Array,
) -> None:
    """As :func:`column_products` for a matrix that is stored by row; weights are those of the rows given."""
    q = w.shape[1]
    for k in range(rows.size):
        square = v[k] if v.size else 1.0
        for t in range(indptr[rows[k]], indptr[rows[k] + 1]):
            j = indices[t]
            if place.size:
                j = place[j]
                if j < 0:
                    continue
            _add(float(data[t]) * scale[j], w[k], square, pairwise, q, out[j])


@elementwise
def _add(z: float, w: Array, v: float, pairwise: bool, q: int, total: Array) -> None:
    if pairwise and z != z:
        total[q + 2] -= 1.0
        for r in range(q):
            total[q + 3 + r] -= w[r]
            total[2 * q + 3 + r] -= w[r] * w[r]
        return
    total[0] += z
    for r in range(q):
        total[1 + r] += z * w[r]
    total[q + 1] += z * z * v


@elementwise
def column_classes(
    indptr: Array,
    indices: Array,
    data: Array,
    columns: Array,
    scale: Array,
    place: Array,
    codes: Array,
    n_classes: int,
    pairwise: bool,
    out: Array,
) -> None:
    """Add the sums of each class, then of squares, of some columns to ``out`` (columns × lines)."""
    for k in range(columns.size):
        for t in range(indptr[columns[k]], indptr[columns[k] + 1]):
            i = indices[t]
            if place.size:
                i = place[i]
                if i < 0:
                    continue
            _add_class(float(data[t]) * scale[k], codes[i], n_classes, pairwise, out[k])


@elementwise
def row_classes(
    indptr: Array,
    indices: Array,
    data: Array,
    rows: Array,
    scale: Array,
    place: Array,
    codes: Array,
    n_classes: int,
    pairwise: bool,
    out: Array,
) -> None:
    """As :func:`column_classes` for a matrix that is stored by row."""
    for k in range(rows.size):
        for t in range(indptr[rows[k]], indptr[rows[k] + 1]):
            j = indices[t]
            if place.size:
                j = place[j]
                if j < 0:
                    continue
            _add_class(float(data[t]) * scale[j], codes[k], n_classes, pairwise, out[j])


@elementwise
def _add_class(z: float, code: int, n_classes: int, pairwise: bool, total: Array) -> None:
    if pairwise and z != z:
        total[n_classes + 1 + code] -= 1.0
        return
    total[code] += z
    total[n_classes] += z * z


@elementwise
def cells(indptr: Array, indices: Array, data: Array, strips: Array, place: Array, out: Array) -> None:
    """Put the stored cells of some strips (rows or columns) into ``out`` (strips × places), which is 0."""
    for k in range(strips.size):
        for t in range(indptr[strips[k]], indptr[strips[k] + 1]):
            i = indices[t]
            if place.size:
                i = place[i]
                if i < 0:
                    continue
            out[k, i] = data[t]
