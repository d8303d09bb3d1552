"""Cells that are packed, converted, multiplied or filled in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise, prefetch

#: Cells that are packed between the request of a cell and its use, so bandwidth is the limit, not latency.
CELLS_AHEAD = 128
#: Bits of a half-precision number: the exponent, whose bits are all set in infinities and NaN; the fraction.
EXPONENT, FRACTION = 0x7C00, 0x03FF
#: What a half-precision number is multiplied by because its exponent counts from elsewhere in float32.
UNIT = np.float32(2.0**112)


@elementwise
def gather(flat: Array, starts: Array, offsets: Array, begin: int, tile: Array) -> None:
    """Fill ``tile[k, j] = flat[starts[begin + k] + offsets[j]]`` for the strips (rows or columns) left."""
    last, step = starts.size - 1, 1 + CELLS_AHEAD // max(offsets.size, 1)
    for k in range(min(tile.shape[0], starts.size - begin)):
        here = starts[begin + k]
        ahead = starts[min(begin + k + step, last)]
        line = tile[k]
        for j in range(offsets.size):
            prefetch(flat, ahead + offsets[j])
            line[j] = flat[here + offsets[j]]


@elementwise
def _half_to_float(bits: int) -> Any:
    """Finite number with these bits: sign, exponent and fraction are moved, and the unit is changed."""
    sign = np.uint32(bits & 0x8000) << np.uint32(16)
    size = np.uint32(bits & 0x7FFF) << np.uint32(13)
    return np.uint32(sign | size).view(np.float32) * UNIT


@elementwise
def convert_half(flat: Array, starts: Array, tile: Array) -> None:
    """Fill ``tile`` (strips, m), float32, with half-precision cells, read as their bits (NumPy is slow)."""
    for k in range(starts.size):
        x, line = flat[starts[k] : starts[k] + tile.shape[1]], tile[k]
        largest = np.uint16(0)
        for j in range(line.size):
            line[j] = _half_to_float(x[j])
            size = np.uint16(x[j] << np.uint16(1))  # without the sign
            largest = size if size > largest else largest
        if largest >= 2 * EXPONENT:  # a cell is infinite or NaN
            for j in range(line.size):
                if x[j] & EXPONENT == EXPONENT:
                    line[j] = np.nan if x[j] & FRACTION else math.copysign(math.inf, line[j])


@elementwise
def multiply_lines(lines: Array, first: Array, second: Array, out: Array) -> None:
    """Fill ``out[k] = lines[first[k]] · lines[second[k]]``."""
    for k in range(first.size):
        a, b, line = lines[first[k]], lines[second[k]], out[k]
        for i in range(line.size):
            line[i] = a[i] * b[i]


@elementwise
def replace_missing(
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
def subtract_missing_genotypes(packed: Array, values: Array, out: Array) -> None:
    """Subtract rows of ``values`` (samples, s) from ``out[k]`` where line k has 1, a missing genotype."""
    for k in range(packed.shape[0]):
        line, total = packed[k], out[k]
        for b in range(line.size):
            byte = line[b]
            if byte & ~(byte >> 1) & 0x55:
                for t in range(4):
                    if (byte >> 2 * t) & 3 == 1:
                        row = values[4 * b + t]
                        for r in range(row.size):
                            total[r] -= row[r]
