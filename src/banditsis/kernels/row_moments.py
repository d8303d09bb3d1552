"""Sums over tiles whose rows are contiguous: Σz, Σzy, Σz² and the like, with z = x - shift.

Row i of a tile is ``flat[starts[i] : starts[i] + m]``, where m is the number of columns; ``shift`` has shape
(m,), ``y`` (rows,), and ``out`` (lines, m). A vector lane is a column. Partial sums (``part``,
lines × m) are kept in the dtype of the data for at most ``PANEL`` rows and then added to float64.

:func:`moments` takes twelve rows at a time, so partial sums are loaded and stored once for twelve rows (eight
are slower, and sixteen run out of registers). Rows are sliced and indexed from 0, because loops that start at
a variable handle negative indices and are not vectorised.
"""

from __future__ import annotations

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.cells import gather
from banditsis.kernels.compile import LEAST_FOURTH, Arrays, elementwise, inlined_elementwise

PANEL = 120


@elementwise
def moments(
    strips: Arrays, buffer: Arrays, shift: Array, rows: Arrays, fourth: Array | None, place: int, out: Array
) -> None:
    """Add ``Σz, Σzy, Σz²`` with ``z = x - shift`` of groups of rows to ``out`` (groups, lines, columns).

    ``rows`` are the y of all rows and the edges between groups. The columns of ``out`` from ``place`` on are
    those of the tile. Σz⁴ is added to the last lines of ``fourth``, which is ``out``, or None; Numba compiles
    the two cases separately. Strips are ``flat``, ``starts`` and ``offsets``: with offsets, cell j of row i
    is ``flat[starts[i] + offsets[j]]``. Cells are packed into the first array of the buffer, whose rows start
    at the second, and summed while they are in the cache. The third is for partial sums.
    """
    (flat, starts, offsets), (tile, lines, part), (y, edges) = strips, buffer, rows
    m = shift.size
    sums = part[0], part[1], part[2], part[2 if fourth is None else 3]
    p0, p1, p2, p3 = sums
    packs = offsets.size > 0
    cells = tile.reshape(-1) if packs else flat
    step = tile.shape[0] if packs else PANEL
    h, first = 0, edges[0]
    while h + 1 < edges.size:
        stop = min(first + step, edges[h + 1])
        if packs:
            gather(flat, starts[:stop], offsets, first, tile)
        here = lines[: stop - first] if packs else starts[first:stop]
        values, i = y[first:stop], 0
        for j in range(m):
            p0[j] = 0
            p1[j] = 0
            p2[j] = 0
            if fourth is not None:
                p3[j] = 0
        while i + 12 <= here.size:
            add_twelve(cells, here, i, shift, values, sums, fourth)
            i += 12
        while i < here.size:
            x0, y0 = cells[here[i] : here[i] + m], values[i]
            for j in range(m):
                z0 = x0[j] - shift[j]
                p0[j] += z0
                p1[j] += z0 * y0
                u0 = z0 * z0
                p2[j] += u0
                if fourth is not None:
                    p3[j] += u0 * u0
            i += 1
        total0 = out[h, 0, place : place + m]
        total1 = out[h, 1, place : place + m]
        total2 = out[h, 2, place : place + m]
        for j in range(m):
            total0[j] += p0[j]
            total1[j] += p1[j]
            total2[j] += p2[j]
        if fourth is not None:
            add_safely(cells, here, shift, p2, p3, fourth[h, -1, place : place + m])
        first = stop
        h += first == edges[h + 1]


@inlined_elementwise
def add_twelve(
    cells: Array, rows: Array, i: int, shift: Array, values: Array, sums: Arrays, fourth: Array | None
) -> None:
    """Add the twelve rows from ``i`` on to the partial sums, the last of which are those of fourth powers."""
    (p0, p1, p2, p3), m = sums, shift.size
    x0 = cells[rows[i] : rows[i] + m]
    x1 = cells[rows[i + 1] : rows[i + 1] + m]
    x2 = cells[rows[i + 2] : rows[i + 2] + m]
    x3 = cells[rows[i + 3] : rows[i + 3] + m]
    x4 = cells[rows[i + 4] : rows[i + 4] + m]
    x5 = cells[rows[i + 5] : rows[i + 5] + m]
    x6 = cells[rows[i + 6] : rows[i + 6] + m]
    x7 = cells[rows[i + 7] : rows[i + 7] + m]
    x8 = cells[rows[i + 8] : rows[i + 8] + m]
    x9 = cells[rows[i + 9] : rows[i + 9] + m]
    x10 = cells[rows[i + 10] : rows[i + 10] + m]
    x11 = cells[rows[i + 11] : rows[i + 11] + m]
    y0, y1, y2, y3 = values[i], values[i + 1], values[i + 2], values[i + 3]
    y4, y5, y6, y7 = values[i + 4], values[i + 5], values[i + 6], values[i + 7]
    y8, y9, y10, y11 = values[i + 8], values[i + 9], values[i + 10], values[i + 11]
    for j in range(m):
        s = shift[j]
        z0, z1, z2, z3 = x0[j] - s, x1[j] - s, x2[j] - s, x3[j] - s
        z4, z5, z6, z7 = x4[j] - s, x5[j] - s, x6[j] - s, x7[j] - s
        z8, z9, z10, z11 = x8[j] - s, x9[j] - s, x10[j] - s, x11[j] - s
        p0[j] += (z0 + z1 + z2 + z3) + (z4 + z5 + z6 + z7) + (z8 + z9 + z10 + z11)
        p1[j] += (
            (z0 * y0 + z1 * y1 + z2 * y2 + z3 * y3)
            + (z4 * y4 + z5 * y5 + z6 * y6 + z7 * y7)
            + (z8 * y8 + z9 * y9 + z10 * y10 + z11 * y11)
        )
        u0, u1, u2, u3 = z0 * z0, z1 * z1, z2 * z2, z3 * z3
        u4, u5, u6, u7 = z4 * z4, z5 * z5, z6 * z6, z7 * z7
        u8, u9, u10, u11 = z8 * z8, z9 * z9, z10 * z10, z11 * z11
        p2[j] += (u0 + u1 + u2 + u3) + (u4 + u5 + u6 + u7) + (u8 + u9 + u10 + u11)
        if fourth is not None:
            p3[j] += (
                (u0 * u0 + u1 * u1 + u2 * u2 + u3 * u3)
                + (u4 * u4 + u5 * u5 + u6 * u6 + u7 * u7)
                + (u8 * u8 + u9 * u9 + u10 * u10 + u11 * u11)
            )


@inlined_elementwise
def add_safely(cells: Array, rows: Array, shift: Array, squares: Array, part: Array, fourth: Array) -> None:
    """Add the partial sums of fourth powers, or compute them again in float64 if they lost digits."""
    least = LEAST_FOURTH[0] if part.itemsize == 4 else LEAST_FOURTH[1]
    n_lost = 0
    for j in range(part.size):
        n_lost += not (least <= part[j] < np.inf or squares[j] == 0)
    if n_lost:
        add_fourth(cells, rows, 0, shift, fourth)
    else:
        for j in range(part.size):
            fourth[j] += part[j]


@elementwise
def add_fourth(flat: Array, starts: Array, first: int, shift: Array, fourth: Array) -> None:
    """Add Σz⁴ of some rows in float64, where the square of a float32 square is in range; NaN is left out."""
    m = shift.size
    for k in range(starts.size):
        x = flat[first + starts[k] : first + starts[k] + m]
        for j in range(m):
            z = x[j] - shift[j]
            u = np.float64(z * z) if z == z else 0.0
            fourth[j] += u * u


@elementwise
def pairwise_moments(
    flat: Array, starts: Array, shift: Array, y: Array, values: Array, part: Array, out: Array
) -> None:
    """Add ``Σz, Σzy, Σz²`` over the cells that are not NaN, and the sums of three values of their rows.

    ``values`` has shape (3, rows), ``part`` and ``out`` (6, m). Four rows are added together.
    """
    m, zero, one = shift.size, shift.dtype.type(0), shift.dtype.type(1)
    p0, p1, p2, p3, p4, p5 = part[0], part[1], part[2], part[3], part[4], part[5]
    e, f, g = values[0], values[1], values[2]
    for first in range(0, starts.size, PANEL):
        stop = min(first + PANEL, starts.size)
        part[:] = 0
        for i in range(first, stop, 4):
            # The last group repeats its last row, of which nothing is added.
            ib, ic, id_ = min(i + 1, stop - 1), min(i + 2, stop - 1), min(i + 3, stop - 1)
            one_b, one_c = one if i + 1 < stop else zero, one if i + 2 < stop else zero
            one_d = one if i + 3 < stop else zero
            a, b = flat[starts[i] : starts[i] + m], flat[starts[ib] : starts[ib] + m]
            c, d = flat[starts[ic] : starts[ic] + m], flat[starts[id_] : starts[id_] + m]
            ya, yb, yc, yd = y[i], y[ib], y[ic], y[id_]
            for j in range(m):
                s = shift[j]
                za, zb, zc, zd = a[j] - s, b[j] - s, c[j] - s, d[j] - s
                ma, mb = one if za == za else zero, one_b if zb == zb else zero
                mc, md = one_c if zc == zc else zero, one_d if zd == zd else zero
                za, zb = za if za == za else zero, zb * one_b if zb == zb else zero
                zc, zd = zc * one_c if zc == zc else zero, zd * one_d if zd == zd else zero
                p0[j] += (za + zb) + (zc + zd)
                p1[j] += (za * ya + zb * yb) + (zc * yc + zd * yd)
                p2[j] += (za * za + zb * zb) + (zc * zc + zd * zd)
                p3[j] += (ma * e[i] + mb * e[ib]) + (mc * e[ic] + md * e[id_])
                p4[j] += (ma * f[i] + mb * f[ib]) + (mc * f[ic] + md * f[id_])
                p5[j] += (ma * g[i] + mb * g[ib]) + (mc * g[ic] + md * g[id_])
        for line in range(6):
            for j in range(m):
                out[line, j] += part[line, j]


@elementwise
def find_shifts(flat: Array, starts: Array, least: float, limit: float, ends: Array, shift: Array) -> bool:
    """Fill the mean of each column, or its value if it is constant; return whether sums need no scale.

    They need none if all are finite and distances from the mean reach ``least`` but not the ``limit``.
    """
    m = shift.size
    low, high = ends[0, :m], ends[1, :m]
    first = flat[starts[0] : starts[0] + m]
    for j in range(m):
        low[j] = first[j]
        high[j] = first[j]
        shift[j] = first[j]
    for k in range(1, starts.size):
        x = flat[starts[k] : starts[k] + m]
        for j in range(m):
            low[j] = x[j] if x[j] < low[j] else low[j]
            high[j] = x[j] if x[j] > high[j] else high[j]
            shift[j] += x[j]
    n_unsafe = 0
    for j in range(m):
        mean = shift[j] / starts.size
        constant = low[j] == high[j]
        above, below = 0.5 * high[j] - 0.5 * mean, 0.5 * mean - 0.5 * low[j]
        reach = abs(low[j]) if constant else above if above > below else below
        n_unsafe += not (reach < limit and (constant or reach >= least) and abs(mean) < np.inf)
        shift[j] = low[j] if constant else mean
    return n_unsafe == 0
