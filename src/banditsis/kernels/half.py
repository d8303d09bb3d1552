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
from banditsis.kernels.compile import elementwise

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
