"""Array types, and the few operations on row indices that everything shares."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
#: Rows of a source: a slice with start and stop, or sorted indices.
Rows: TypeAlias = "slice | Indices"
#: Columns of a source: sorted indices, or None for all.
Columns: TypeAlias = "Indices | None"
ROWS_AT_ONCE = 1 << 11  # few enough to stay in the cache
#: The smallest positive number: half of it is 0, so the half range of a column can be 0 although it varies.
SMALLEST = 5e-324
#: float64 rounds larger integers, such as times in nanoseconds.
MAX_EXACT_INTEGER = 1 << 53


def count_rows(rows: Rows) -> int:
    """Number of rows."""
    return rows.stop - rows.start if isinstance(rows, slice) else rows.size


def take(rows: Rows, start: int, stop: int) -> Rows:
    """The rows from position ``start`` to ``stop``."""
    if isinstance(rows, slice):
        return slice(rows.start + start, min(rows.start + stop, rows.stop))
    return rows[start:stop]


def spread(rows: Rows, size: int) -> Indices:
    """About ``size`` evenly spaced rows."""
    n = count_rows(rows)
    picks = np.arange(n) if n <= size else np.linspace(0, n - 1, size).astype(np.intp)
    return picks + rows.start if isinstance(rows, slice) else rows[picks]


def as_indices(index: Rows) -> Indices:
    """Rows (or columns) as an array of indices."""
    return np.arange(index.start, index.stop) if isinstance(index, slice) else index


def as_slice(rows: Rows) -> Rows:
    """Rows as a slice if they are consecutive."""
    if not isinstance(rows, slice) and rows.size and rows[-1] - rows[0] + 1 == rows.size:
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def split_at(rows: Rows, edges: Array) -> Iterator[tuple[int, Rows]]:
    """Split rows at increasing edges: the number of each part that is not empty, and its rows.

    Consecutive rows become a slice.

    >>> list(split_at(slice(2, 9), np.array([0, 4, 8, 12])))
    [(0, slice(2, 4, None)), (1, slice(4, 8, None)), (2, slice(8, 9, None))]
    >>> list(split_at(np.array([0, 3, 9, 10]), np.array([0, 4, 8, 12])))
    [(0, array([0, 3])), (2, slice(9, 11, None))]
    """
    if isinstance(rows, slice):
        cuts = np.clip(edges, rows.start, rows.stop) - rows.start
    else:
        cuts = np.searchsorted(rows, edges)
    for k in np.flatnonzero(np.diff(cuts)).tolist():
        yield k, as_slice(take(rows, int(cuts[k]), int(cuts[k + 1])))


def chunks(rows: Rows, size: int = ROWS_AT_ONCE) -> Iterator[Any]:
    """Pieces of ``size`` rows."""
    for start in range(0, count_rows(rows), size):
        yield take(rows, start, start + size)


def is_wide_integer(dtype: np.dtype) -> bool:
    """Whether values of a dtype are integers that float64 may round."""
    return dtype.kind in "iu" and dtype.itemsize == 8


def near_zero(values: Array) -> Array:
    """Subtract the minimum of each column of integers that float64 would round; other columns are unchanged.

    >>> near_zero(np.array([[2**60 + 1, 5], [2**60, 6]]))
    array([[1, 5],
           [0, 6]])
    """
    if not is_wide_integer(values.dtype) or values.size == 0:
        return values
    low, high = values.min(axis=0), values.max(axis=0)
    bottom, top = low.astype(np.float64), high.astype(np.float64)
    rounded = np.maximum(np.abs(bottom), np.abs(top)) > MAX_EXACT_INTEGER
    shifted = rounded & (low < high) & (top - bottom < 2.0**62)  # a wider range would overflow
    return values - np.where(shifted, low, 0).astype(values.dtype) if shifted.any() else values


def subtract_integers(values: Array, origin: Floats) -> Floats:
    """``values - origin`` in float64, exact for 64-bit integers close to an integer origin."""
    difference = values - origin
    if not is_wide_integer(values.dtype):
        return np.asarray(difference, dtype=np.float64)
    limits = np.iinfo(values.dtype)
    integers = np.clip(origin, limits.min, np.nextafter(float(limits.max), 0.0)).astype(values.dtype)
    exact = (values - integers).view(np.int64)  # of unsigned integers, the difference modulo 2⁶⁴
    return np.where(np.abs(difference) < 2.0**62, exact, difference)


def are_distinct_integers(block: Array) -> Array:
    """Which columns hold integers, all of them different.

    >>> are_distinct_integers(np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 2.0]]))
    array([ True, False])
    """
    if block.dtype.kind not in "fiu":
        return np.zeros(block.shape[1], bool)
    ordered = np.sort(block, axis=0)
    distinct = (ordered[1:] != ordered[:-1]).all(axis=0)
    if block.dtype.kind == "f":
        distinct &= (np.isfinite(block) & (block == np.rint(block))).all(axis=0)
    return np.asarray(distinct)


def rank_values(values: Array, ties: str = "mean") -> Array:
    """Ranks of values, from 1; equal values share the mean ("mean") or the largest ("max") of their ranks.

    >>> rank_values(np.array([7.0, 3.0, 7.0, 1.0]))
    array([3.5, 2. , 3.5, 1. ])
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last if ties == "max" else last - 0.5 * (counts - 1))[places])


def erfc(x: Floats) -> Floats:
    """As ``scipy.special.erfc``, of which the import takes longer than 100,000 values here."""
    return np.fromiter(map(math.erfc, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


class _Special:
    """``scipy.special``, which is imported on first use: that takes longer than many runs."""

    def __getattr__(self, name: str) -> Any:
        from scipy import special

        return getattr(special, name)


special = _Special()


def is_masked(values: Any) -> bool:
    """As ``np.ma.isMaskedArray``; without masked arrays, their module is not imported."""
    module = sys.modules.get("numpy.ma")
    return module is not None and bool(module.isMaskedArray(values))
