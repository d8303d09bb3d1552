"""Half-precision cells, which Numba does not know and NumPy converts slowly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise

#: Exponent bits, all of which are set in infinities and NaN, and the remaining bits of a number's size.
EXPONENT, FRACTION = 0x7C00, 0x03FF
#: What a number is multiplied by because its exponent counts from elsewhere in float32.
UNIT = np.float32(2.0**112)


@elementwise
def to_float(bits: int) -> Any:
    """Finite number with these bits: sign, exponent and fraction are moved, and the unit is changed."""
    sign = np.uint32(bits & 0x8000) << np.uint32(16)
    size = np.uint32(bits & 0x7FFF) << np.uint32(13)
    return np.uint32(sign | size).view(np.float32) * UNIT


@elementwise
def convert(flat: Array, starts: Array, tile: Array) -> None:
    """Fill ``tile`` (strips, m), float32, with the strips that begin at ``starts``.

    Cells are read as their bits, uint16, and converted in registers.
    """
    for k in range(starts.size):
        x, line = flat[starts[k] : starts[k] + tile.shape[1]], tile[k]
        largest = np.uint16(0)
        for j in range(line.size):
            line[j] = to_float(x[j])
            size = np.uint16(x[j] << np.uint16(1))  # without the sign
            largest = size if size > largest else largest
        if largest >= 2 * EXPONENT:  # a cell is infinite or NaN
            for j in range(line.size):
                if x[j] & EXPONENT == EXPONENT:
                    line[j] = np.nan if x[j] & FRACTION else math.copysign(math.inf, line[j])
