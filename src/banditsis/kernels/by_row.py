"""Sums over tiles whose rows are contiguous.

Columns are independent of each other here: one vector lane is one column. Partial sums are kept in the
dtype of the data for at most 120 rows and then added to float64. A sweep takes twelve rows at once, so that
partial sums are loaded and stored once for twelve rows (eight are slower, and sixteen run out of registers);
row views are indexed from 0, since a loop that starts at a variable keeps the handling of negative indices
and does not vectorise.
"""

from __future__ import annotations

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise

PANEL = 120


@elementwise
def moments(flat: Array, starts: Array, shift: Array, y: Array, part: Array, out: Array) -> None:
    """Add ``Σz, Σzy, Σz²`` with ``z = x - shift`` to ``out`` (3 × columns)."""
    m = shift.size
    p0, p1, p2 = part[0], part[1], part[2]
    i = 0
    while i < starts.size:
        stop = min(i + PANEL, starts.size)
        for j in range(m):
            p0[j] = 0
            p1[j] = 0
            p2[j] = 0
        while i + 12 <= stop:
            x0 = flat[starts[i] : starts[i] + m]
            x1 = flat[starts[i + 1] : starts[i + 1] + m]
            x2 = flat[starts[i + 2] : starts[i + 2] + m]
            x3 = flat[starts[i + 3] : starts[i + 3] + m]
            x4 = flat[starts[i + 4] : starts[i + 4] + m]
            x5 = flat[starts[i + 5] : starts[i + 5] + m]
            x6 = flat[starts[i + 6] : starts[i + 6] + m]
            x7 = flat[starts[i + 7] : starts[i + 7] + m]
            x8 = flat[starts[i + 8] : starts[i + 8] + m]
            x9 = flat[starts[i + 9] : starts[i + 9] + m]
            x10 = flat[starts[i + 10] : starts[i + 10] + m]
            x11 = flat[starts[i + 11] : starts[i + 11] + m]
            y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
            y4, y5, y6, y7 = y[i + 4], y[i + 5], y[i + 6], y[i + 7]
            y8, y9, y10, y11 = y[i + 8], y[i + 9], y[i + 10], y[i + 11]
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
                p2[j] += (
                    (z0 * z0 + z1 * z1 + z2 * z2 + z3 * z3)
                    + (z4 * z4 + z5 * z5 + z6 * z6 + z7 * z7)
                    + (z8 * z8 + z9 * z9 + z10 * z10 + z11 * z11)
                )
            i += 12
        while i < stop:
            x0, y0 = flat[starts[i] : starts[i] + m], y[i]
            for j in range(m):
                z0 = x0[j] - shift[j]
                p0[j] += z0
                p1[j] += z0 * y0
                p2[j] += z0 * z0
            i += 1
        for j in range(m):
            out[0, j] += p0[j]
            out[1, j] += p1[j]
            out[2, j] += p2[j]


@elementwise
def moments_present(flat: Array, starts: Array, shift: Array, y: Array, part: Array, out: Array) -> None:
    """Add ``Σz, Σzy, Σz², Σ1, Σy, Σy²`` over the cells that are not NaN to ``out`` (6 × columns)."""
    m = shift.size
    p0, p1, p2, p3, p4, p5 = part[0], part[1], part[2], part[3], part[4], part[5]
    one = shift.dtype.type(1)
    zero = shift.dtype.type(0)
    i = 0
    while i < starts.size:
        stop = min(i + PANEL, starts.size)
        for j in range(m):
            p0[j] = 0
            p1[j] = 0
            p2[j] = 0
            p3[j] = 0
            p4[j] = 0
            p5[j] = 0
        while i + 4 <= stop:
            a = flat[starts[i] : starts[i] + m]
            b = flat[starts[i + 1] : starts[i + 1] + m]
            c = flat[starts[i + 2] : starts[i + 2] + m]
            d = flat[starts[i + 3] : starts[i + 3] + m]
            ya, yb, yc, yd = y[i], y[i + 1], y[i + 2], y[i + 3]
            for j in range(m):
                s = shift[j]
                za, zb, zc, zd = a[j] - s, b[j] - s, c[j] - s, d[j] - s
                ma = one if za == za else zero
                mb = one if zb == zb else zero
                mc = one if zc == zc else zero
                md = one if zd == zd else zero
                za = za if za == za else zero
                zb = zb if zb == zb else zero
                zc = zc if zc == zc else zero
                zd = zd if zd == zd else zero
                va, vb, vc, vd = ma * ya, mb * yb, mc * yc, md * yd
                p0[j] += (za + zb) + (zc + zd)
                p1[j] += (za * ya + zb * yb) + (zc * yc + zd * yd)
                p2[j] += (za * za + zb * zb) + (zc * zc + zd * zd)
                p3[j] += (ma + mb) + (mc + md)
                p4[j] += (va + vb) + (vc + vd)
                p5[j] += (va * ya + vb * yb) + (vc * yc + vd * yd)
            i += 4
        while i < stop:
            a = flat[starts[i] : starts[i] + m]
            ya = y[i]
            for j in range(m):
                za = a[j] - shift[j]
                ma = one if za == za else zero
                za = za if za == za else zero
                p0[j] += za
                p1[j] += za * ya
                p2[j] += za * za
                p3[j] += ma
                p4[j] += ma * ya
                p5[j] += ma * ya * ya
            i += 1
        for j in range(m):
            out[0, j] += p0[j]
            out[1, j] += p1[j]
            out[2, j] += p2[j]
            out[3, j] += p3[j]
            out[4, j] += p4[j]
            out[5, j] += p5[j]


@elementwise
def classes(flat: Array, starts: Array, shift: Array, codes: Array, n_classes: int, out: Array) -> None:
    """Add the sums of ``z`` class by class, then ``Σz²``, to ``out`` (1 + classes × columns).

    If ``out`` has 1 + 2 · classes lines, NaN is left out and the last lines count what is present.
    """
    m = shift.size
    squares = out[n_classes]
    count_present = out.shape[0] > n_classes + 1
    for i in range(starts.size):
        x = flat[starts[i] : starts[i] + m]
        total = out[codes[i]]
        if count_present:
            present = out[n_classes + 1 + codes[i]]
            for j in range(m):
                z = x[j] - shift[j]
                here = z == z
                z = z if here else shift.dtype.type(0)
                total[j] += z
                squares[j] += z * z
                present[j] += 1.0 if here else 0.0
        else:
            for j in range(m):
                z = x[j] - shift[j]
                total[j] += z
                squares[j] += z * z
