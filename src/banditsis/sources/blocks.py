"""Sources that read dense blocks: files, chunked stores, frames."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from banditsis.core.arrays import Columns, Floats, Indices, Rows, count_rows, split_at, take
from banditsis.sources.array import ArraySource
from banditsis.sources.base import (
    Calibration,
    Source,
    SumContext,
    Tile,
    add_tiles,
    calibrate,
    pilot_rows,
    split_groups,
    summing_dtype,
)
from banditsis.statistics.moments import Weights

TILE_CELLS = 1 << 22  # 16 MB in float32
MIN_RUN = 128  # mean length of runs of consecutive rows that are read as slices


class BlockSource(Source):
    """A source that sums the dense blocks that it reads.

    A subclass sets ``shape``, ``dtype``, ``names`` and ``chunk``, and implements ``read``, which several
    threads may call at once.
    """

    #: Cells of a tile.
    cells_at_once: int = TILE_CELLS

    @property
    def block_rows(self) -> int:  # type: ignore[override]
        """Rows of a chunk."""
        return self.chunk[0]

    def calibrate(self, rows: Rows) -> Calibration:
        return calibrate(self, rows, pilot_rows(self, rows), summing_dtype(self.dtype))

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        tiles = self._tiles(rows, edges, columns, weights, context)
        add_tiles(tiles, context, 8 * context.workers.n_jobs)

    def _tiles(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> Iterator[Tile]:
        chosen = slice(0, self.shape[1]) if columns is None else columns
        width = self.tile_columns(count_rows(chosen))
        for g, group in split_groups(edges):
            stop = group.start
            for run in self._row_runs(take(rows, stop, group.stop), max(1, self.cells_at_once // width)):
                start, stop = stop, stop + count_rows(run)
                prepared, end = self._prepare_weights(run, weights.part(slice(start, stop))), 0
                for some in cut(chosen, width, self.chunk[1]):
                    place = slice(end, end := end + count_rows(some))
                    add = partial(self._add, run, some, prepared, context.calibration.take(some))
                    yield Tile(stop - start, context.out[g : g + 1], place, add)

    def _prepare_weights(self, rows: Rows, weights: Weights) -> Any:
        """What :meth:`_add` needs to know of the weights of some rows, which tiles side by side share."""
        return weights

    def tile_columns(self, n_columns: int) -> int:
        """Columns of a tile when that many are read: whole chunks."""
        max_columns = max(1, self.cells_at_once // max(1024, self.chunk[0]))
        return min(n_columns, max(1, max_columns // self.chunk[1]) * self.chunk[1])

    def _row_runs(self, rows: Rows, height: int) -> Iterator[Rows]:
        """Cut rows into pieces of about ``height`` that end where chunks end; long runs become slices."""
        if not isinstance(rows, slice):
            starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
            if len(rows) >= MIN_RUN * len(starts):
                for start, stop in pairwise([*starts, len(rows)]):
                    yield from cut(slice(int(rows[start]), int(rows[stop - 1]) + 1), height, self.chunk[0])
                return
        yield from cut(rows, height, self.chunk[0])

    def _add(
        self,
        rows: Rows,
        columns: Indices | slice,
        weights: Any,
        calibration: Calibration,
        out: Floats,
        start: int,
    ) -> None:
        """Read a tile and add its sums to the columns of ``out`` from ``start`` on."""
        block, dtype = self.read(rows, columns), calibration.shift.dtype
        if dtype != summing_dtype(block.dtype):
            block = block.astype(dtype)  # kernels need cells and shifts of one dtype
        ArraySource(block).add_all(weights, calibration, out[0, :, start : start + block.shape[1]])

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return chunk_bytes(self.shape, self.chunk, self.dtype, n_rows, n_columns, scattered)


def chunk_bytes(
    shape: tuple[int, int],
    chunk: tuple[int, int],
    dtype: np.dtype,
    n_rows: int,
    n_columns: int,
    scattered: bool,
) -> float:
    """Expected bytes of the chunks that are touched when some rows of random columns are read."""
    (n, p), (height, width) = shape, chunk
    down = -(-n // height) * (1 - (1 - n_rows / n) ** height) if scattered else n_rows / height
    across = -(-p // width) * (1 - (1 - n_columns / p) ** width)
    return float(min(down * height, n) * min(across * width, p) * dtype.itemsize)


def shift_rows(rows: Rows, by: int) -> Rows:
    """Add a number to all rows (or columns)."""
    return slice(rows.start + by, rows.stop + by) if isinstance(rows, slice) else rows + by


def split_rows(rows: Rows, edges: Indices) -> list[tuple[int, Rows]]:
    """Split sorted rows (or columns) into blocks: the number of a block, and row numbers within it."""
    return [(b, shift_rows(part, -int(edges[b]))) for b, part in split_at(rows, edges)]


def cut(index: Rows, size: int, chunk: int) -> Iterator[Rows]:
    """Cut rows (or columns) into pieces of about a size that end where chunks end."""
    size = max(1, size // chunk) * chunk
    n, start = count_rows(index), 0
    while start < n:
        stop = start + size
        if isinstance(index, slice):
            stop -= (index.start + start) % size
        elif stop < n:
            boundary = int(np.searchsorted(index, index[stop] // chunk * chunk))
            stop = boundary if boundary > start else stop
        yield take(index, start, stop)
        start = stop
