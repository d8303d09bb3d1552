"""Array types, and the few operations on row indices that everything shares."""

from __future__ import annotations

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
    picks = np.unique(np.linspace(0, count_rows(rows) - 1, size).astype(np.intp))
    return picks + rows.start if isinstance(rows, slice) else rows[picks]


def as_indices(index: Rows) -> Indices:
    """Rows (or columns) as an array of indices."""
    return np.arange(index.start, index.stop) if isinstance(index, slice) else index


def chunks(rows: Rows, size: int = ROWS_AT_ONCE) -> Iterator[Any]:
    """Pieces of ``size`` rows."""
    for start in range(0, count_rows(rows), size):
        yield take(rows, start, start + size)
