"""Shift and scale of the columns, from a few pilot rows."""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Array, Indices, Rows, count_rows, take
from banditsis.sources.base import Calibration, Source

PILOT_ROWS = 32
COLUMNS_AT_ONCE = 8192
# Rows in which a value is searched for if a column is empty in the pilot rows, and how many are read at once.
MAX_SEARCHED_ROWS, SEARCHED_AT_ONCE = 1 << 15, 4096
# Largest absolute binary exponent, by bytes of a cell, at which sums of squares stay in range.
SAFE_EXPONENT = {4: 40, 8: 400}


def summing_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of partial sums of cells of a dtype."""
    return np.dtype(np.float32 if dtype in (np.float32, np.float16) else np.float64)


def calibrate(source: Source, rows: Rows, pilot: Indices, dtype: np.dtype) -> Calibration:
    """Find the shift and scale of all columns, in the dtype of partial sums.

    Both come from the pilot rows, or from the first of ``rows`` with a value if the pilot rows have none.
    """
    found = Calibration(*np.empty((2, source.shape[1]), dtype))
    for start in range(0, source.shape[1], COLUMNS_AT_ONCE):
        columns = np.arange(start, min(start + COLUMNS_AT_ONCE, source.shape[1]))
        block = source.read(pilot, slice(start, columns[-1] + 1))
        _fill(found, columns, block)
        empty = _empty_columns(block, columns)
        for i in range(0, min(count_rows(rows), MAX_SEARCHED_ROWS), SEARCHED_AT_ONCE):
            if empty.size == 0:
                break
            block = source.read(take(rows, i, i + SEARCHED_AT_ONCE), empty)
            _fill(found, empty, block)
            empty = _empty_columns(block, empty)
    return found


def _empty_columns(block: Array, columns: Indices) -> Indices:
    if block.dtype.kind != "f":
        return columns[:0]
    return columns[~np.isfinite(block).any(axis=0)]


def _fill(calibration: Calibration, columns: Indices, block: Array) -> None:
    """Set the shift and scale of some columns from a few rows of theirs."""
    finite = np.isfinite(block)
    if not finite.all():  # replace missing values by the minimum, or 0
        low = np.where(finite, block, np.inf).min(axis=0)
        block = np.where(finite, block, np.where(finite.any(axis=0), low, 0))
    low, high = block.min(axis=0).astype(np.float64), block.max(axis=0).astype(np.float64)
    constant = low == high
    with np.errstate(over="ignore"):
        mean = block.mean(axis=0, dtype=np.float64)
    mean = np.where(np.isfinite(mean), mean, low / 2 + high / 2)
    mean = np.where(constant, low, mean)  # exact, so a constant column becomes exactly 0
    reach = np.where(constant, np.abs(low), np.maximum(high / 2 - mean / 2, mean / 2 - low / 2))
    exponent = np.frexp(reach)[1]
    itemsize = calibration.shift.dtype.itemsize
    safe, limit = SAFE_EXPONENT[itemsize], 126 if itemsize == 4 else 1000
    # Large values become about 1. Small values are only lifted into the safe range, which leaves room for
    # larger ones in other rows. A constant gives no scale, because its variation is unknown.
    lift = np.where(exponent > safe, -exponent, np.where(constant, 0, -safe - exponent))
    scale = np.where(np.abs(exponent) > safe, np.ldexp(1.0, np.clip(lift, -limit, limit)), 1.0)
    calibration.shift[columns], calibration.scale[columns] = mean * scale, scale
