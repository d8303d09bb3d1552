"""Sums of half-precision cells, which Numba does not know and NumPy converts slowly.

Cells are read as their bits, uint16, and converted to float32 in registers. The other arguments are those of
:mod:`row_moments` and :mod:`column_moments`. Fourth powers of halves are in the range of float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from banditsis.core.arrays import Array
from banditsis.kernels import column_moments
from banditsis.kernels.compile import elementwise, reduction
from banditsis.kernels.row_moments import PANEL

INFINITY = 0x7C00  # bits of +inf; those of NaN are larger


@intrinsic
def _to_float(typing_context: Any, bits: Any) -> Any:
    """Finite number with these bits: sign, exponent and fraction are moved, and the unit is changed."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        int32, single = ir.IntType(32), ir.FloatType()
        moved = builder.shl(builder.sext(args[0], int32), int32(13))
        number = builder.bitcast(builder.and_(moved, int32(0x8FFFE000)), single)
        return builder.fmul(number, ir.Constant(single, 2.0**112), flags=("contract",))

    return types.float32(types.uint16), generate


def _to_float_in_python(bits: Any) -> Any:
    """Replacement of :func:`_to_float` when kernels run as plain Python."""
    return np.float32(np.uint16(bits).view(np.float16))


to_float = _to_float_in_python if config.DISABLE_JIT else _to_float


@elementwise
def is_finite(x: Array) -> bool:
    """Whether no cell of a strip is infinite or NaN."""
    largest = np.uint16(0)
    for j in range(x.size):
        size = np.uint16(x[j] << np.uint16(1))  # without the sign
        largest = size if size > largest else largest
    return bool(largest < 2 * INFINITY)


@elementwise
def spoil(x: Array, line: Array) -> None:
    """Set the values of a line where cells are infinite or NaN."""
    for j in range(x.size):
        if x[j] & 0x7FFF > INFINITY:
            line[j] = np.nan
        elif x[j] & 0x7FFF == INFINITY:
            line[j] = -np.inf if x[j] & 0x8000 else np.inf


@elementwise
def convert(flat: Array, starts: Array, tile: Array) -> None:
    """Fill ``tile`` (strips, m), float32, with the strips that begin at ``starts``."""
    for k in range(starts.size):
        x, line = flat[starts[k] : starts[k] + tile.shape[1]], tile[k]
        for j in range(line.size):
            line[j] = to_float(x[j])
        if not is_finite(x):
            spoil(x, line)


@elementwise
def moments_by_row(
    flat: Array, starts: Array, shift: Array, y: Array, part: Array, fourth: Array | None, out: Array
) -> None:
    """Add the sums of :func:`row_moments.moments`."""
    m = shift.size
    p0, p1, p2 = part[0], part[1], part[2]
    if fourth is not None:
        p3 = part[3]
    for first in range(0, starts.size, PANEL):
        part[:] = 0
        stop = min(first + PANEL, starts.size)
        for i in range(first, stop, 4):
            # The last group repeats its last row, with weight 0.
            ib, ic, id_ = min(i + 1, stop - 1), min(i + 2, stop - 1), min(i + 3, stop - 1)
            wb, wc, wd = np.float32(i + 1 < stop), np.float32(i + 2 < stop), np.float32(i + 3 < stop)
            a, b = flat[starts[i] : starts[i] + m], flat[starts[ib] : starts[ib] + m]
            c, d = flat[starts[ic] : starts[ic] + m], flat[starts[id_] : starts[id_] + m]
            ya, yb, yc, yd = y[i], y[ib], y[ic], y[id_]
            for j in range(m):
                s = shift[j]
                za, zb = to_float(a[j]) - s, (to_float(b[j]) - s) * wb
                zc, zd = (to_float(c[j]) - s) * wc, (to_float(d[j]) - s) * wd
                p0[j] += (za + zb) + (zc + zd)
                p1[j] += (za * ya + zb * yb) + (zc * yc + zd * yd)
                ua, ub, uc, ud = za * za, zb * zb, zc * zc, zd * zd
                p2[j] += (ua + ub) + (uc + ud)
                if fourth is not None:
                    p3[j] += (ua * ua + ub * ub) + (uc * uc + ud * ud)
        for i in range(first, stop):
            if not is_finite(flat[starts[i] : starts[i] + m]):
                spoil(flat[starts[i] : starts[i] + m], p0)
        for j in range(m):
            out[0, j] += p0[j]
            out[1, j] += p1[j]
            out[2, j] += p2[j]
            if fourth is not None:
                fourth[j] += p3[j]


@reduction
def moments_by_column(
    flat: Array, starts: Array, shift: Array, y: Array, fourth: Array | None, out: Array
) -> None:
    """Add the sums of :func:`column_moments.moments`."""
    for k in range(starts.size):
        s = shift[k]
        for i in range(0, y.size, column_moments.PANEL):
            m = min(column_moments.PANEL, y.size - i)
            x, w = flat[starts[k] + i : starts[k] + i + m], y[i : i + m]
            p0, p1, p2, p3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for t in range(m):
                z = to_float(x[t]) - s
                u = z * z
                p0 += z
                p1 += z * w[t]
                p2 += u
                if fourth is not None:
                    p3 += u * u
            out[0, k] += p0 if is_finite(x) else np.nan
            out[1, k] += p1
            out[2, k] += p2
            if fourth is not None:
                fourth[k] += p3
