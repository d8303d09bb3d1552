"""Rank sums of all classes of rows, from the cells of each column that are not 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import Arrays, elementwise
from banditsis.kernels.sorting import Scratch, argsort, end_of_ties


@elementwise
def cube(size: float) -> float:
    """What ``size`` equal values contribute to the correction for ties."""
    return size * size * size - size


@elementwise
def rank_sums(
    cells: Arrays,
    codes: Array,
    weights: Array | None,
    sizes: Array,
    reference: int,
    memory: Arrays,
    scratch: Scratch,
    out: Array,
) -> None:
    """Fill ``out`` (columns, 5, classes), which must be 0, for each column and class.

    Its lines are the sum over the rows of the class of their rank among the rows they are compared with (all
    rows, or those of the class ``reference``) minus half the number of these; Σ(t³ - t) over runs of t equal
    values; the longest run; the sum of the cells; and how many are not 0. With row ``weights`` all counts are
    sums of weights, and the two lines of ties are not filled. ``cells`` are where each column starts and
    stops, the row of each cell (empty if all cells are given), and the cells. ``sizes`` are those of the
    classes. The zeros of a column are one run of equal values, which is never sorted.
    """
    (starts, stops, rows, values), (x, group, w, inside) = cells, memory
    order, keys, packed, spare, counts = scratch
    by_reference, compared = reference >= 0, sizes.sum() if reference < 0 else sizes[reference]
    for k in range(out.shape[0]):
        ranks, ties, longest, sums, nonzero = out[k, 0], out[k, 1], out[k, 2], out[k, 3], out[k, 4]
        n = 0
        for t in range(starts[k], stops[k]):
            value = np.float64(values[t])
            if value != 0.0:
                row = np.int64(rows[t]) if rows.size else t - starts[k]
                code, weight = codes[row], 1.0
                if weights is not None:
                    weight = weights[row]
                    w[n] = weight
                x[n], group[n] = value, code
                sums[code] += weight * value
                nonzero[code] += weight
                n += 1
        if n:
            argsort(x[:n], (order[:n], keys[:n], packed[:n], spare[:n], counts))
        below, start, zeros_left = -0.5 * compared, 0, True
        shared_ties, shared_longest = 0.0, 1.0  # of all classes
        while start < n or zeros_left:
            is_zero = zeros_left and (start == n or x[order[start]] > 0.0)
            stop = start if is_zero else end_of_ties(x, order[:n], start)
            if stop == start + 1:
                code, weight = group[order[start]], 1.0
                if weights is not None:
                    weight = w[order[start]]
                here = weight if not by_reference or code == reference else 0.0
                ranks[code] += weight * (below + 0.5 * here)
                below, start = below + here, stop
                continue
            here, size = 0.0, stop - start
            if is_zero:
                zeros_left, size = False, sizes.size
                for code in range(sizes.size):
                    inside[code] = sizes[code] - nonzero[code]
                    here += inside[code]
            else:
                for i in range(start, stop):
                    weight = 1.0
                    if weights is not None:
                        weight = w[order[i]]
                    inside[group[order[i]]] += weight
                    here += weight
            if by_reference:
                here = inside[reference]
            shared_ties += cube(here)
            shared_longest = max(shared_longest, here)
            for i in range(size):
                code = i if is_zero else group[order[start + i]]
                if inside[code] == 0.0:
                    continue
                ranks[code] += inside[code] * (below + 0.5 * here)
                if by_reference and code != reference:
                    ties[code] += cube(inside[code] + here) - cube(here)
                    longest[code] = max(longest[code], inside[code] + here)
                inside[code] = 0.0
            below, start = below + here, stop
        for code in range(sizes.size):
            ties[code] += shared_ties
            longest[code] = max(longest[code], shared_longest)


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
