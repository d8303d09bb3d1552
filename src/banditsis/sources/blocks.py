"""What sources have in common that read dense blocks: files, chunked stores, frames."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np

from banditsis.arrays import Columns, Floats, Indices, Rows, count_rows, spread, take
from banditsis.parallel import Workers
from banditsis.sources.array import ArraySource, Job
from banditsis.sources.base import Calibration, Source, SumContext, WeightFunction
from banditsis.sources.calibration import PILOT_ROWS, calibrate, summing_dtype
from banditsis.statistics.base import Weights

CELLS_AT_ONCE = 1 << 22  # of a tile: 16 MB in float32
LONG_RUN = 128  # neighbouring rows that are worth a tile of their own


class BlockSource(Source):
    """A source whose sums are those of the dense blocks that it reads.

    A subclass sets ``shape``, ``dtype``, ``names`` and ``chunk``, and implements ``read``, which several
    threads may call at once.
    """

    #: Cells of a tile.
    cells_at_once: int = CELLS_AT_ONCE

    @property
    def block_rows(self) -> int:  # type: ignore[override]
        """Rows that come cheaply together."""
        return self.chunk[0]

    def calibrate(self, rows: Rows) -> Calibration:
        # The pilot rows lie close together, so that few chunks are read for them.
        near = take(rows, 0, max(PILOT_ROWS, self.chunk[0]))
        return calibrate(self, rows, spread(near, PILOT_ROWS), summing_dtype(self.dtype))

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        calibration, out, workers, tick = context
        jobs = self._jobs(rows, columns, weights, calibration, len(out))
        while batch := list(islice(jobs, 8 * workers.n_jobs)):
            workers.run(batch)
            for _, part_rows, _, place, _, _, part in batch:
                out[:, place] += part
                tick(part.shape[1] * count_rows(part_rows))

    def _jobs(
        self,
        rows: Rows,
        columns: Columns,
        weights: WeightFunction,
        calibration: Calibration,
        n_sums: int,
    ) -> Iterator[Job]:
        p = self.shape[1] if columns is None else len(columns)
        width = self.tile_columns(p)
        everything = slice(0, p) if columns is None else columns
        for run in self._runs(rows, max(1, self.cells_at_once // width)):
            w, place = weights(run), slice(0, 0)
            for some in _cut(everything, width, self.chunk[1]):
                place = slice(place.stop, place.stop + count_rows(some))
                part = np.zeros((n_sums, place.stop - place.start))
                yield self._add, run, some, place, w, calibration, part

    def tile_columns(self, n_columns: int) -> int:
        """Columns of a tile when that many are read: whole chunks."""
        most = max(1, self.cells_at_once // max(1024, self.chunk[0]))
        return min(n_columns, max(1, most // self.chunk[1]) * self.chunk[1])

    def _runs(self, rows: Rows, height: int) -> Iterator[Rows]:
        """Pieces of about ``height`` rows that end where chunks end; runs of neighbours come as slices."""
        if not isinstance(rows, slice):
            starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
            if len(rows) >= LONG_RUN * len(starts):  # whole blocks
                for start, stop in pairwise([*starts, len(rows)]):
                    yield from self._runs(slice(int(rows[start]), int(rows[stop - 1]) + 1), height)
                return
        yield from _cut(rows, height, self.chunk[0])

    def _add(
        self,
        rows: Rows,
        columns: Indices | slice,
        place: slice,
        weights: Weights,
        calibration: Calibration,
        part: Floats,
    ) -> None:
        block = ArraySource(self.read(rows, columns))
        everything = slice(0, block.shape[0])
        block.sums(everything, None, weights.part, SumContext(calibration.take(columns), part, Workers(1)))

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
    """Bytes of the chunks that are touched when some rows of some columns, anywhere, are read."""
    (n, p), (height, width) = shape, chunk
    chunks = -(-n // height)
    touched = chunks * (1 - (1 - n_rows / n) ** height) if scattered else n_rows / height
    wide = -(-p // width) * (1 - (1 - n_columns / p) ** width)
    return float(min(touched * height, n) * min(wide * width, p) * dtype.itemsize)


def _cut(index: Rows, size: int, chunk: int) -> Iterator[Rows]:
    """Cut rows (or columns) into pieces of about a size that end where chunks end.

    Examples
    --------
    >>> list(_cut(slice(3, 21), 8, 4))
    [slice(3, 8, None), slice(8, 16, None), slice(16, 21, None)]
    >>> [piece.tolist() for piece in _cut(np.array([0, 1, 2, 5, 6, 7, 8, 9]), 4, 4)]
    [[0, 1, 2], [5, 6, 7], [8, 9]]
    """
    size = max(1, size // chunk) * chunk
    n, start = count_rows(index), 0
    while start < n:
        stop = min(n, _end_of_piece(index, start, size, chunk))
        yield take(index, start, stop)
        start = stop


def _end_of_piece(index: Rows, start: int, size: int, chunk: int) -> int:
    if isinstance(index, slice):
        return int(((index.start + start) // size + 1) * size - index.start)
    if start + size >= len(index):
        return len(index)
    boundary = index[start + size] // chunk * chunk
    stop = int(np.searchsorted(index, boundary))
    return stop if stop > start else start + size
