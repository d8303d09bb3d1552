"""Array types, and the few operations on row indices that everything shares."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

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
ROWS_TRANSPOSED = 512  # rows that stay in the cache while they are transposed
#: The smallest positive number: half of it is 0, so the half range of a column can be 0 although it varies.
SMALLEST = 5e-324


class StoredCells(NamedTuple):
    """Cells of some rows × columns, one column after the other."""

    #: where the cells of each column start and stop
    starts: Indices
    stops: Indices
    #: position of each cell among the rows; empty if all cells are stored
    rows: Array
    values: Array

    @classmethod
    def of_block(cls, block: Floats) -> StoredCells:
        """All cells of a block with contiguous columns."""
        stops = np.arange(1, block.shape[1] + 1) * len(block)
        return cls(stops - len(block), stops, np.empty(0, np.int32), block.ravel(order="F"))


def count_rows(rows: Rows) -> int:
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


def split_at(rows: Rows, edges: Array) -> Iterator[tuple[int, Rows]]:
    """Split rows at increasing edges: the number of each part that is not empty, and its rows, as a slice if
    they are consecutive.
    """
    if isinstance(rows, slice):
        cuts = np.clip(edges, rows.start, rows.stop) - rows.start
    else:
        cuts = np.searchsorted(rows, edges)
    for k in np.flatnonzero(np.diff(cuts)).tolist():
        part = take(rows, int(cuts[k]), int(cuts[k + 1]))
        if not isinstance(part, slice) and part[-1] - part[0] + 1 == part.size:
            part = slice(int(part[0]), int(part[-1]) + 1)
        yield k, part


def chunks(rows: Rows, size: int = ROWS_AT_ONCE) -> Iterator[Any]:
    """Pieces of ``size`` rows."""
    for start in range(0, count_rows(rows), size):
        yield take(rows, start, start + size)


def are_distinct_integers(values: Array) -> bool:
    """Whether values are integers, all of them different."""
    if values.dtype.kind not in "fiu" or not (np.isfinite(values) & (values == np.rint(values))).all():
        return False
    ordered = np.sort(values)
    return bool((ordered[1:] != ordered[:-1]).all())


def to_columns(block: Array) -> Floats:
    """A float64 copy with contiguous columns."""
    out = np.empty(block.shape, order="F")
    for i in range(0, len(block), ROWS_TRANSPOSED):
        out[i : i + ROWS_TRANSPOSED] = block[i : i + ROWS_TRANSPOSED]
    return out


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """``numerator / denominator``, and 0 where the denominator is not positive."""
    out = np.zeros(np.broadcast_shapes(np.shape(numerator), np.shape(denominator)))
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


def rank_values(values: Array, ties: str = "mean") -> Array:
    """Ranks of values, from 1; equal values share the mean ("mean") or the largest ("max") of their ranks."""
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
