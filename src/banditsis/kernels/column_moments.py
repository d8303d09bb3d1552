"""Sums over tiles whose columns are contiguous: Σz, Σzy, Σz² and the like, with z = x - shift.

Column k of a tile is ``flat[starts[k] : starts[k] + rows]``; ``shift`` has shape (columns,), ``y`` (rows,),
and ``out`` (lines, columns). A column is reduced in vector lanes, for at most ``PANEL`` rows in the dtype of
the data, and then added to float64. Four columns are reduced together, so y is loaded once for four.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.cells import gather
from banditsis.kernels.compile import LEAST_FOURTH, Arrays, inlined_reduction, reduction

PANEL = 2048


@reduction
def moments(
    strips: Arrays, buffer: Arrays, shift: Array, rows: Arrays, fourth: Array | None, place: int, out: Array
) -> None:
    """As :func:`banditsis.kernels.row_moments.moments`; four columns at a time are packed into the buffer."""
    (flat, starts, offsets), (tile, lines), (y, edges) = strips, buffer, rows
    last = starts.size - 1
    least = LEAST_FOURTH[0] if shift.itemsize == 4 else LEAST_FOURTH[1]
    packs = offsets.size > 0
    cells = tile.reshape(-1) if packs else flat
    for k in range(0, starts.size, 4):
        # The last group repeats its last column, which avoids a separate loop.
        kb, kc, kd = min(k + 1, last), min(k + 2, last), min(k + 3, last)
        sa, sb, sc, sd = shift[k], shift[kb], shift[kc], shift[kd]
        if packs:
            gather(flat, starts, offsets, k, tile)
        columns = lines if packs else starts[k:]
        fa, fb, fc, fd = columns[0], columns[kb - k], columns[kc - k], columns[kd - k]
        h, i = 0, edges[0]
        while h + 1 < edges.size:
            m = min(PANEL, edges[h + 1] - i)
            sums = add_up(
                cells[fa + i : fa + i + m],
                cells[fb + i : fb + i + m],
                cells[fc + i : fc + i + m],
                cells[fd + i : fd + i + m],
                y[i : i + m],
                (sa, sb, sc, sd),
                fourth,
            )
            total = out[h, :, place + k : place + min(k + 4, starts.size)]
            for line in range(3):
                for j in range(total.shape[1]):
                    total[line, j] += sums[line][j]
            if fourth is not None:
                for j in range(total.shape[1]):
                    if least <= sums[3][j] < np.inf or sums[2][j] == 0:
                        fourth[h, -1, place + k + j] += sums[3][j]
                    else:
                        fourth[h, -1, place + k + j] += sum_fourth(cells, columns[j] + i, m, shift[k + j])
            i += m
            h += i == edges[h + 1]


@inlined_reduction
def add_up(a: Array, b: Array, c: Array, d: Array, y: Array, shifts: Any, fourth: Array | None) -> Any:
    """Σz, Σzy, Σz² and Σz⁴ of four columns; the last are 0 if they are not asked for."""
    sa, sb, sc, sd = shifts
    zero = sa - sa
    a0, b0, c0, d0 = zero, zero, zero, zero
    a1, b1, c1, d1 = zero, zero, zero, zero
    a2, b2, c2, d2 = zero, zero, zero, zero
    a3, b3, c3, d3 = zero, zero, zero, zero
    for t in range(y.size):
        w = y[t]
        za, zb, zc, zd = a[t] - sa, b[t] - sb, c[t] - sc, d[t] - sd
        a0 += za
        b0 += zb
        c0 += zc
        d0 += zd
        a1 += za * w
        b1 += zb * w
        c1 += zc * w
        d1 += zd * w
        ua, ub, uc, ud = za * za, zb * zb, zc * zc, zd * zd
        a2 += ua
        b2 += ub
        c2 += uc
        d2 += ud
        if fourth is not None:
            a3 += ua * ua
            b3 += ub * ub
            c3 += uc * uc
            d3 += ud * ud
    return (a0, b0, c0, d0), (a1, b1, c1, d1), (a2, b2, c2, d2), (a3, b3, c3, d3)


@reduction
def sum_fourth(flat: Array, start: int, m: int, s: float) -> float:
    """Σz⁴ of some rows of a column in float64, where a float32 square squared is in range; without NaN."""
    x, total = flat[start : start + m], 0.0
    for t in range(m):
        z = x[t] - s
        u = np.float64(z * z) if z == z else 0.0
        total += u * u
    return total


@reduction
def pairwise_moments(flat: Array, starts: Array, shift: Array, y: Array, values: Array, out: Array) -> None:
    """As :func:`banditsis.kernels.row_moments.pairwise_moments`; two columns share what is loaded of rows."""
    zero, one = shift.dtype.type(0), shift.dtype.type(1)
    for k in range(0, starts.size, 2):
        other = min(k + 1, starts.size - 1)  # a single column is taken twice
        sa, sb = shift[k], shift[other]
        for i in range(0, y.size, PANEL):
            stop = min(i + PANEL, y.size)
            w, e, f, g = y[i:stop], values[0, i:stop], values[1, i:stop], values[2, i:stop]
            a, b = flat[starts[k] + i : starts[k] + stop], flat[starts[other] + i : starts[other] + stop]
            a0, a1, a2, a3, a4, a5 = zero, zero, zero, zero, zero, zero
            b0, b1, b2, b3, b4, b5 = zero, zero, zero, zero, zero, zero
            for t in range(stop - i):
                za, zb = a[t] - sa, b[t] - sb
                ma, mb = one if za == za else zero, one if zb == zb else zero
                za, zb = za if za == za else zero, zb if zb == zb else zero
                a0 += za
                b0 += zb
                a1 += za * w[t]
                b1 += zb * w[t]
                a2 += za * za
                b2 += zb * zb
                a3 += ma * e[t]
                b3 += mb * e[t]
                a4 += ma * f[t]
                b4 += mb * f[t]
                a5 += ma * g[t]
                b5 += mb * g[t]
            for line, total in enumerate((a0, a1, a2, a3, a4, a5)):
                out[line, k] += total
            if other > k:
                for line, total in enumerate((b0, b1, b2, b3, b4, b5)):
                    out[line, other] += total
