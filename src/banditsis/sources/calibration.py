"""Shift and scale of the columns, from a few rows."""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows, count_rows, take
from banditsis.sources.base import Calibration, Source

PILOT_ROWS = 32
COLUMNS_AT_ONCE = 8192
# Exponents of two between which squares, and sums of them, neither overflow nor vanish.
SAFE_EXPONENT = {4: 40, 8: 400}


def summing_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of partial sums of cells of a dtype."""
    return np.dtype(np.float32 if dtype in (np.float32, np.float16) else np.float64)


def calibrate(source: Source, rows: Rows, pilot: Indices, compute: np.dtype) -> Calibration:
    """Find shift and scale of all columns from the pilot rows, or from the first rows with a value."""
    shift, scale = np.empty((2, source.shape[1]), compute)
    for a in range(0, source.shape[1], COLUMNS_AT_ONCE):
        columns = np.arange(a, min(a + COLUMNS_AT_ONCE, source.shape[1]))
        block = source.read(pilot, slice(a, columns[-1] + 1))
        shift[columns], scale[columns] = _from_block(block, compute)
        if block.dtype.kind == "f":  # a column that the pilot rows do not show takes its first values
            unseen = columns[~np.isfinite(block).any(axis=0)]
            shift[unseen], scale[unseen] = _from_first_values(source, rows, unseen, compute)
    return Calibration(shift, scale)


def _from_first_values(
    source: Source, rows: Rows, columns: Indices, compute: np.dtype
) -> tuple[Floats, Floats]:
    """Look for a value in up to 32,768 rows; what is emptier than that has few digits to lose."""
    shift, scale = np.zeros(len(columns)), np.ones(len(columns))
    left = np.arange(len(columns))
    for i in range(0, min(count_rows(rows), 1 << 15), 4096):
        if left.size == 0:
            break
        block = source.read(take(rows, i, i + 4096), columns[left])
        shift[left], scale[left] = _from_block(block, compute)
        left = left[~np.isfinite(block).any(axis=0)]
    return shift, scale


def _from_block(block: Array, compute: np.dtype) -> tuple[Floats, Floats]:
    """Shift and scale from a few rows; see :class:`Calibration`."""
    finite = np.isfinite(block)
    if not finite.all():  # leave out what cannot be averaged
        low = np.where(finite, block, np.inf).min(axis=0)
        block = np.where(finite, block, np.where(finite.any(axis=0), low, 0))
    low, high = block.min(axis=0).astype(np.float64), block.max(axis=0).astype(np.float64)
    with np.errstate(over="ignore"):
        mean = block.mean(axis=0, dtype=np.float64)
    mean = np.where(np.isfinite(mean), mean, low / 2 + high / 2)
    # The exact value for a constant column, so that it becomes exactly 0.
    mean = np.where(low == high, low, mean)
    reach = np.where(low == high, np.abs(low), np.maximum(high / 2 - mean / 2, mean / 2 - low / 2))
    exponent = np.frexp(reach)[1]
    safe, most = SAFE_EXPONENT[compute.itemsize], 126 if compute.itemsize == 4 else 1000
    # Large values become about 1. Small ones are only lifted into the safe range, which leaves room for
    # larger ones in other rows; a constant says nothing of how far other rows are from it.
    lift = np.where(exponent > safe, -exponent, np.where(low == high, 0, -safe - exponent))
    scale = np.where(np.abs(exponent) > safe, np.ldexp(1.0, np.clip(lift, -most, most)), 1.0)
    return mean * scale, scale
