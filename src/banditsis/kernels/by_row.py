"""Sums over tiles whose rows are contiguous.

Columns are independent of each other here: one vector lane is one column. Partial sums are kept in the
dtype of the data for at most 128 rows and then added to float64. A sweep takes eight rows at once, so that
partial sums are loaded and stored once for eight rows; row views are indexed from 0, since a loop that
starts at a variable keeps the handling of negative indices and does not vectorise.
"""

from __future__ import annotations

from banditsis._typing import Array
from banditsis.kernels.compile import elementwise

PANEL = 128


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
        while i + 8 <= stop:
            a = flat[starts[i] : starts[i] + m]
            b = flat[starts[i + 1] : starts[i + 1] + m]
            c = flat[starts[i + 2] : starts[i + 2] + m]
            d = flat[starts[i + 3] : starts[i + 3] + m]
            e = flat[starts[i + 4] : starts[i + 4] + m]
            f = flat[starts[i + 5] : starts[i + 5] + m]
            g = flat[starts[i + 6] : starts[i + 6] + m]
            h = flat[starts[i + 7] : starts[i + 7] + m]
            ya, yb, yc, yd = y[i], y[i + 1], y[i + 2], y[i + 3]
            ye, yf, yg, yh = y[i + 4], y[i + 5], y[i + 6], y[i + 7]
            for j in range(m):
                s = shift[j]
                za, zb, zc, zd = a[j] - s, b[j] - s, c[j] - s, d[j] - s
                ze, zf, zg, zh = e[j] - s, f[j] - s, g[j] - s, h[j] - s
                p0[j] = (p0[j] + ze + zf + zg + zh) + (za + zb + zc + zd)
                p1[j] = (p1[j] + ze * ye + zf * yf + zg * yg + zh * yh) + (
                    za * ya + zb * yb + zc * yc + zd * yd
                )
                p2[j] = (p2[j] + ze * ze + zf * zf + zg * zg + zh * zh) + (
                    za * za + zb * zb + zc * zc + zd * zd
                )
            i += 8
        while i < stop:
            a = flat[starts[i] : starts[i] + m]
            ya = y[i]
            for j in range(m):
                za = a[j] - shift[j]
                p0[j] += za
                p1[j] += za * ya
                p2[j] += za * za
            i += 1
        for j in range(m):
            out[0, j] += p0[j]
            out[1, j] += p1[j]
            out[2, j] += p2[j]


@elementwise
def moments_present(
    flat: Array, starts: Array, shift: Array, y: Array, part: Array, out: Array
) -> None:
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
def classes(
    flat: Array, starts: Array, shift: Array, codes: Array, n_classes: int, out: Array
) -> None:
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
