"""Arrays that are mapped into memory from a file."""

from __future__ import annotations

import mmap
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows, as_indices, count_rows, spread
from banditsis.sources.array import ArraySource
from banditsis.sources.base import PILOT_ROWS, Calibration
from banditsis.sources.blocks import chunk_bytes

PAGE = 4096  # bytes that are read from a file together
UNIT = 1 << 14  # bytes of a row that take as long to read as a page: about 10^5 requests or 1.5 GB a second
RUN = 1 << 16  # bytes of a column that take as long to read as a seek
N_PROBES, MIN_DISK_SECONDS = 4, 1e-5  # pages that are read to see whether a file is cached, and their time
MAX_REQUEST = 1 << 17  # bytes that Linux reads for one request at its default settings
AS_IN_MEMORY = 1 << 26  # bytes of a file that stays in memory after the first pass


class MappedSource(ArraySource):
    """A memory map in any memory order: an array whose cells are read from a file, in pages."""

    def __init__(self, array: Array, names: Sequence[str] | None = None) -> None:
        super().__init__(array, names)
        memmap = find_memmap(array)
        assert memmap is not None
        self._map: mmap.mmap = memmap._mmap  # type: ignore[attr-defined]
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._path, self._offset = memmap.filename, int(memmap.offset)
        if self.by_row:
            self.chunk = (max(1, PAGE // max(1, self.row_bytes)), max(1, UNIT // self.dtype.itemsize))
        else:
            self.chunk = (RUN // self.dtype.itemsize, 1)
        self._in_memory = array.nbytes < AS_IN_MEMORY
        self.block_rows = 1 if self._in_memory else min(self.chunk[0], max(1, self.shape[0]))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        self._prepare(rows, slice(0, self.shape[1]) if columns is None else columns)
        return super().read(rows, columns)

    def calibrate(self, rows: Rows) -> Calibration:
        self._prepare(spread(rows, PILOT_ROWS), slice(0, self.shape[1]))
        return super().calibrate(rows)

    def _add(self, columns: Indices | slice, picked: Indices | None, rows: Rows, *given: Any) -> None:
        self._prepare(rows, columns)
        super()._add(columns, picked, rows, *given)

    def _prepare(self, rows: Rows, columns: Indices | slice) -> None:
        """Check the size of the file and request scattered cells at once: 10 times as fast as one by one."""
        expected = self._offset - self._offset % mmap.ALLOCATIONGRANULARITY + len(self._map)
        raise_if_shorter(self._path, self._map.size(), expected)
        n_cells = count_rows(rows) * count_rows(columns)
        if self._in_memory or n_cells == 0 or not hasattr(mmap, "MADV_WILLNEED"):
            return
        if isinstance(rows, slice) and isinstance(columns, slice):
            self._map.madvise(mmap.MADV_NORMAL)
            return
        # Reading ahead fetches up to megabytes around each page, which is a waste for scattered cells.
        self._map.madvise(mmap.MADV_RANDOM)
        starts, stops = self._byte_ranges(*((rows, columns) if self.by_row else (columns, rows)))
        if self._is_cached(starts[:: max(1, len(starts) // N_PROBES)]):
            return
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            for piece in range(start, stop, MAX_REQUEST):
                self._map.madvise(mmap.MADV_WILLNEED, piece, min(MAX_REQUEST, stop - piece))

    def _byte_ranges(self, strips: Rows, along: Rows) -> tuple[Indices, Indices]:
        """Starts and stops of the ranges of the map that contain some cells, in the order of the file.

        Each starts with a page. Cells of a strip, a row or a column, that are close together share a range.
        """
        step, unit = self.array.strides if self.by_row else self.array.strides[::-1]
        if isinstance(along, slice):
            firsts, lasts = np.sort(np.array([along.start, along.stop - 1]) * unit)[:, None]
        else:
            offsets = np.sort(along * unit)
            gaps = np.flatnonzero(np.diff(offsets) > UNIT)
            firsts, lasts = offsets[np.append(0, gaps + 1)], offsets[np.append(gaps, len(offsets) - 1)]
        first_cell = self.array.ctypes.data - self._bytes.ctypes.data
        bases = np.sort(as_indices(strips) * step)[:, None] + first_cell
        starts = (bases + firsts).ravel() // mmap.PAGESIZE * mmap.PAGESIZE
        stops = (bases + lasts + self.dtype.itemsize).ravel()
        new = np.flatnonzero(np.append(True, starts[1:] > stops[:-1]))
        return starts[new], np.maximum.reduceat(stops, new)

    def _is_cached(self, positions: Indices) -> bool:
        """Whether reading a few bytes is too fast for a disk; requests would then be a waste of time."""
        started = time.perf_counter()
        self._bytes[positions].max()
        return time.perf_counter() - started < len(positions) * MIN_DISK_SECONDS

    def release(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if self._in_memory:
            return super().bytes_touched(n_rows, n_columns, scattered=scattered)
        touched = chunk_bytes(self.shape, self.chunk, self.dtype, n_rows, n_columns, scattered)
        if not self.by_row:
            return touched
        # Ranges of cells seldom begin where a page begins, so each touches one more page.
        (n, p), (height, width) = self.shape, self.chunk
        blocks = n / height * (1 - (1 - n_rows / n) ** height) if scattered else n_rows / height
        share = 1 - (1 - n_columns / p) ** width  # of the chunks of a row
        ranges = blocks * share * (1 + (-(-p // width) - 1) * (1 - share))
        return min(touched + PAGE * ranges, float(self.array.nbytes))


def find_memmap(array: Any) -> np.memmap | None:
    """The memory map that an array is, or is a view of; None if its cells are in memory."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array._mmap is not None:  # type: ignore[attr-defined]
            return array
        array = array.base
    return None


def raise_if_shorter(path: object, size: int, expected: int) -> None:
    """Raise if a file is shorter than its map: the system ends a process that reads what is missing."""
    if size < expected:
        raise ValueError(
            f"{path} became shorter while it was read, from {expected:,} to {size:,} bytes: restore it, and "
            "do not write to it during a run."
        )
