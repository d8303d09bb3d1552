"""Arrays that are mapped into memory from a file."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from banditsis.arrays import Array, Columns, Rows
from banditsis.sources.array import ArraySource
from banditsis.sources.base import SumContext, WeightFunction
from banditsis.sources.blocks import chunk_bytes

PAGE = 4096  # bytes that are read from a file together
RUN = 1 << 16  # bytes of a column that take as long to read as a seek
AS_IN_MEMORY = 1 << 26  # bytes of a file that stays in memory after the first pass


class MappedSource(ArraySource):
    """A memory map: an array whose cells are read from a file, in pages.

    Parameters
    ----------
    array : numpy.memmap of shape (n, p)
        In any memory order.
    names : sequence of str, optional
        Names of the columns.
    """

    def __init__(self, array: Array, names: Sequence[str] | None = None) -> None:
        super().__init__(array, names)
        self._map = getattr(array, "_mmap", None)
        if self.by_row:
            self.chunk = (max(1, PAGE // max(1, self.row_bytes)), max(1, PAGE // self.dtype.itemsize))
        else:
            self.chunk = (RUN // self.dtype.itemsize, 1)
        self._in_memory = array.nbytes < AS_IN_MEMORY
        self.block_rows = 1 if self._in_memory else min(self.chunk[0], max(1, self.shape[0]))

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        if self._map is not None and not self._in_memory and hasattr(mmap, "MADV_RANDOM"):
            # Reading ahead fetches 128 kB around each page, which is a waste for scattered rows.
            self._map.madvise(mmap.MADV_NORMAL if isinstance(rows, slice) else mmap.MADV_RANDOM)
        super().sums(rows, columns, weights, context)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if self._in_memory:
            return super().bytes_touched(n_rows, n_columns, scattered=scattered)
        return chunk_bytes(self.shape, self.chunk, self.dtype, n_rows, n_columns, scattered)
