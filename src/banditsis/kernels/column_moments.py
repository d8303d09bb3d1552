"""Sums over tiles whose columns are contiguous: Σz, Σzy, Σz² and the like, with z = x - shift.

Column k of a tile is ``flat[starts[k] : starts[k] + rows]``; ``shift`` has shape (columns,), ``y`` and
``codes`` (rows,), and ``out`` (lines, columns). A column is reduced in vector lanes, in the dtype of the data
for at most ``PANEL`` rows, and then added to float64. Four columns are reduced together, so y is loaded once
for four.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import LEAST_FOURTH, reduction
from banditsis.kernels.gather import gather

PANEL = 2048


@reduction
def moments(
    flat: Array,
    starts: Array,
    offsets: Array,
    shift: Array,
    y: Array,
    edges: Array,
    tile: Array,
    lines: Array,
    fourth: Array | None,
    place: int,
    out: Array,
) -> None:
    """As :func:`banditsis.kernels.row_moments.moments`; four columns at a time are packed into ``tile``."""
    zero = shift.dtype.type(0)
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
            v = y[i : i + m]
            a = cells[fa + i : fa + i + m]
            b = cells[fb + i : fb + i + m]
            c = cells[fc + i : fc + i + m]
            d = cells[fd + i : fd + i + m]
            total = out[h, :, place + k : place + min(k + 4, starts.size)]
            a0, b0, c0, d0 = zero, zero, zero, zero
            a1, b1, c1, d1 = zero, zero, zero, zero
            a2, b2, c2, d2 = zero, zero, zero, zero
            if fourth is not None:
                a3, b3, c3, d3 = zero, zero, zero, zero
            for t in range(m):
                w = v[t]
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
            for line, values in enumerate(((a0, b0, c0, d0), (a1, b1, c1, d1), (a2, b2, c2, d2))):
                for j in range(total.shape[1]):
                    total[line, j] += values[j]
            if fourth is not None:
                squares, values = (a2, b2, c2, d2), (a3, b3, c3, d3)
                for j in range(total.shape[1]):
                    if least <= values[j] < np.inf or squares[j] == 0:
                        fourth[h, -1, place + k + j] += values[j]
                    else:
                        fourth[h, -1, place + k + j] += sum_fourth(cells, columns[j] + i, m, shift[k + j])
            i += m
            h += i == edges[h + 1]


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
def moments_present(flat: Array, starts: Array, shift: Array, y: Array, out: Array) -> None:
    """Add ``Σz, Σzy, Σz², Σ1, Σy, Σy²`` over the cells that are not NaN to ``out``; a 7th line is Σz⁴."""
    zero = shift.dtype.type(0)
    one = shift.dtype.type(1)
    for k in range(starts.size):
        s = shift[k]
        for i in range(0, y.size, PANEL):
            m = min(PANEL, y.size - i)
            v = y[i : i + m]
            x = flat[starts[k] + i : starts[k] + i + m]
            p0, p1, p2, p3, p4, p5 = zero, zero, zero, zero, zero, zero
            for t in range(m):
                z = x[t] - s
                here = one if z == z else zero
                z = z if z == z else zero
                w = here * v[t]
                p0 += z
                p1 += z * w
                p2 += z * z
                p3 += here
                p4 += w
                p5 += w * w
            out[0, k] += p0
            out[1, k] += p1
            out[2, k] += p2
            out[3, k] += p3
            out[4, k] += p4
            out[5, k] += p5
            if out.shape[0] > 6:
                out[6, k] += sum_fourth(flat, starts[k] + i, m, s)


@reduction
def classes(
    flat: Array, starts: Array, shift: Array, codes: Array, n_classes: int, part: Array, out: Array
) -> None:
    """Add ``Σz`` over the rows of each class, then ``Σz²``, to ``out``; see :func:`row_moments.classes`.

    Eight columns are summed together, so the sums of a class (a line of ``part``, float64) are neighbours in
    memory. ``part`` has as many lines as ``out``.
    """
    last, lines = starts.size - 1, out.shape[0]
    for k in range(0, starts.size, 8):
        part[:] = 0
        for i in range(0, codes.size, PANEL):
            m = min(PANEL, codes.size - i)
            here = codes[i : i + m]
            x0, s0 = flat[starts[k] + i : starts[k] + i + m], shift[k]
            # The last group repeats its last column, which avoids a separate loop.
            k1, k2, k3, k4 = min(k + 1, last), min(k + 2, last), min(k + 3, last), min(k + 4, last)
            k5, k6, k7 = min(k + 5, last), min(k + 6, last), min(k + 7, last)
            x1, s1 = flat[starts[k1] + i : starts[k1] + i + m], shift[k1]
            x2, s2 = flat[starts[k2] + i : starts[k2] + i + m], shift[k2]
            x3, s3 = flat[starts[k3] + i : starts[k3] + i + m], shift[k3]
            x4, s4 = flat[starts[k4] + i : starts[k4] + i + m], shift[k4]
            x5, s5 = flat[starts[k5] + i : starts[k5] + i + m], shift[k5]
            x6, s6 = flat[starts[k6] + i : starts[k6] + i + m], shift[k6]
            x7, s7 = flat[starts[k7] + i : starts[k7] + i + m], shift[k7]
            if lines == n_classes + 1:
                for t in range(m):
                    line = part[here[t]]
                    line[0] += x0[t] - s0
                    line[1] += x1[t] - s1
                    line[2] += x2[t] - s2
                    line[3] += x3[t] - s3
                    line[4] += x4[t] - s4
                    line[5] += x5[t] - s5
                    line[6] += x6[t] - s6
                    line[7] += x7[t] - s7
            else:
                for t in range(m):
                    line, present = part[here[t]], part[n_classes + 1 + here[t]]
                    _add_present(x0[t] - s0, 0, line, present)
                    _add_present(x1[t] - s1, 1, line, present)
                    _add_present(x2[t] - s2, 2, line, present)
                    _add_present(x3[t] - s3, 3, line, present)
                    _add_present(x4[t] - s4, 4, line, present)
                    _add_present(x5[t] - s5, 5, line, present)
                    _add_present(x6[t] - s6, 6, line, present)
                    _add_present(x7[t] - s7, 7, line, present)
            for j in range(8):
                column = min(k + j, last)
                x = flat[starts[column] + i : starts[column] + i + m]
                part[n_classes, j] += _sum_squares(x, shift[column], lines > n_classes + 1)
        for j in range(min(8, starts.size - k)):
            for line in range(lines):
                out[line, k + j] += part[line, j]


@reduction
def _add_present(z: float, j: int, line: Array, present: Array) -> None:
    """Add and count a cell unless it is NaN."""
    here = z == z
    line[j] += z if here else 0.0
    present[j] += 1.0 if here else 0.0


@reduction
def _sum_squares(x: Array, s: float, skip_missing: bool) -> Any:
    """Σz² of some rows of a column."""
    total = x.dtype.type(0)
    if skip_missing:
        for t in range(x.size):
            z = x[t] - s
            total += z * z if z == z else x.dtype.type(0)
    else:
        for t in range(x.size):
            z = x[t] - s
            total += z * z
    return total
