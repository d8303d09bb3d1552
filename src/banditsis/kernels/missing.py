"""Missing cells of tiles whose rows or columns are contiguous strips."""

from __future__ import annotations

from banditsis.core.arrays import Array
from banditsis.kernels import column_moments
from banditsis.kernels.compile import elementwise, reduction
from banditsis.kernels.row_moments import PANEL


@elementwise
def replace(
    flat: Array, m: int, cells: Array, shift: Array, values: Array, along_rows: bool, absent: Array
) -> None:
    """Replace the sorted ``cells`` of a tile by the shift of their columns, and sum the values of their rows.

    Strip k of the tile is ``flat[k * m : (k + 1) * m]``, row k if ``along_rows``, else column k. ``values``
    has shape (rows, s), and ``absent``, to which the sums are added, (columns, s).
    """
    k, first = 0, 0
    for t in range(cells.size):
        while cells[t] >= first + m:
            k, first = k + 1, first + m
        j = cells[t] - first
        row, column = (k, j) if along_rows else (j, k)
        flat[cells[t]] = shift[column]
        for r in range(values.shape[1]):
            absent[column, r] += values[row, r]


@elementwise
def moments_by_row(
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


@reduction
def moments_by_column(flat: Array, starts: Array, shift: Array, y: Array, values: Array, out: Array) -> None:
    """As :func:`moments_by_row` for contiguous columns, two of which share what is loaded of their rows."""
    zero, one = shift.dtype.type(0), shift.dtype.type(1)
    for k in range(0, starts.size, 2):
        other = min(k + 1, starts.size - 1)  # a single column is taken twice
        sa, sb = shift[k], shift[other]
        for i in range(0, y.size, column_moments.PANEL):
            stop = min(i + column_moments.PANEL, y.size)
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
