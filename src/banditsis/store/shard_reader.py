"""Cells of a shuffled store, straight from their place in the files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.store.layout import Segment
from banditsis.store.shards import decoder, read_index, shard_path

GAP = 1 << 15  # bytes between two runs that are rather read than skipped
AHEAD = 1 << 20  # bytes that the system is asked to read ahead in one call


class Line(NamedTuple):
    """What a request wants of one line of chunks in one shard.

    Attributes
    ----------
    shard : tuple of int
        Segment, and place of the shard in its grid.
    down : int
        Which line of chunks in the shard.
    rows : slice
        Rows inside the chunks.
    columns : ndarray of int
        Columns inside the shard.
    place : tuple of slice
        Rows and columns in the block.
    """

    shard: tuple[int, int, int]
    down: int
    rows: slice
    columns: Indices
    place: tuple[slice, slice]


class ShardReader:
    """Reads blocks of the segments of a store; several threads may do so at once.

    Where the cells of a chunk that is not compressed lie follows from the layout.

    Parameters
    ----------
    path : Path
        The folder of the store.
    segments : sequence of Segment
        How its cells lie.
    dtype : dtype
        Of the cells.
    compressor : dict or None
        The codec of the chunks.
    """

    def __init__(
        self, path: Path, segments: Sequence[Segment], dtype: np.dtype, compressor: dict[str, Any] | None
    ) -> None:
        self.path, self.segments, self.dtype = path, segments, dtype
        self._decode: Any = None if compressor is None else decoder(compressor)
        self._indices: dict[tuple[int, int, int], Array] = {}

    def read(self, k: int, rows: slice, columns: Indices) -> Array:
        """Neighbouring rows of one segment: by column where it lies by column."""
        shape = rows.stop - rows.start, len(columns)
        by_column = self.segments[k].by_column
        block = np.empty(shape[::-1], self.dtype).T if by_column else np.empty(shape, self.dtype)
        read = self._read_packed if self._decode else self._read_runs if by_column else self._read_wide
        for line in self._lines(k, rows, columns):
            fd = self._open(line)
            try:
                read(fd, line, block)
            finally:
                os.close(fd)
        return block

    def announce(self, k: int, rows: slice, columns: Indices) -> None:
        """Tell the system what will be read, so that it comes while other tiles are summed."""
        if self._decode is not None or not hasattr(os, "posix_fadvise"):
            return
        runs_of = self._runs_of if self.segments[k].by_column else self._wide_runs
        for line in self._lines(k, rows, columns):
            fd = self._open(line)
            try:
                for start, stop, _, _ in runs_of(line):
                    for a in range(start, stop, AHEAD):
                        os.posix_fadvise(fd, a, min(AHEAD, stop - a), os.POSIX_FADV_WILLNEED)
            finally:
                os.close(fd)

    def _lines(self, k: int, rows: slice, columns: Indices) -> Iterator[Line]:
        segment = self.segments[k]
        (height, _), (tall, wide) = segment.chunk, segment.shard
        panels = columns // wide
        edges = [0, *(np.flatnonzero(np.diff(panels)) + 1).tolist(), len(columns)]
        low, high = rows.start - segment.start, rows.stop - segment.start
        for start in range(low // height * height, high, height):
            a, b = max(low, start), min(high, start + height)
            for first, last in pairwise(edges):
                if last > first:
                    j = int(panels[first])
                    place = slice(a - low, b - low), slice(first, last)
                    inside = slice(a - start, b - start)
                    local = columns[first:last] - j * wide
                    yield Line((k, start // tall, j), start % tall // height, inside, local, place)

    def _open(self, line: Line) -> int:
        path = shard_path(self.path, *line.shard)
        fd = os.open(path, os.O_RDONLY)
        if hasattr(os, "posix_fadvise"):  # what is wanted is known: let the system guess nothing
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return fd

    def _runs_of(self, line: Line) -> Iterator[tuple[int, int, int, int]]:
        """Runs of bytes, start to stop, each for some of the columns, by their place in the list."""
        segment, itemsize = self.segments[line.shard[0]], self.dtype.itemsize
        pitch = segment.chunk[0] * itemsize  # from column to column
        base = line.down * segment.chunks_across(line.shard[2]) * segment.chunk[1] * pitch
        low, high = base + line.rows.start * itemsize, base + line.rows.stop * itemsize
        skipped = np.diff(line.columns) * pitch - (high - low)
        edges = [0, *(np.flatnonzero(skipped > GAP) + 1).tolist(), len(line.columns)]
        for a, b in pairwise(edges):
            yield low + int(line.columns[a]) * pitch, high + int(line.columns[b - 1]) * pitch, a, b

    def _read_runs(self, fd: int, line: Line, block: Array) -> None:
        """Cells of columns that lie as they are."""
        height, itemsize = self.segments[line.shard[0]].chunk[0], self.dtype.itemsize
        rows, columns = line.place
        wanted = rows.stop - rows.start
        by_column = block.T
        for start, stop, a, b in self._runs_of(line):
            place = slice(columns.start + a, columns.start + b)
            if stop - start == (b - a) * wanted * itemsize and wanted == by_column.shape[1]:
                self._fill(fd, by_column[place], start, line)
                continue
            local = line.columns[a:b] - line.columns[a]
            cells = np.empty((stop - start) // itemsize, self.dtype)
            self._fill(fd, cells, start, line)
            strides = (height * itemsize, itemsize)
            shape = (int(local[-1]) + 1, wanted)
            lattice = np.lib.stride_tricks.as_strided(cells, shape, strides, writeable=False)
            by_column[place, rows] = lattice if len(local) == len(lattice) else lattice[local]

    def _read_wide(self, fd: int, line: Line, block: Array) -> None:
        """Cells of the first rows, of which whole rows of chunks are read."""
        for start, _, a, b in self._wide_runs(line):
            width = self.segments[line.shard[0]].chunk[1]
            cells = np.empty((line.rows.stop - line.rows.start, width), self.dtype)
            self._fill(fd, cells, start, line)
            place = slice(line.place[1].start + a, line.place[1].start + b)
            local = line.columns[a:b] % width
            run = local[-1] - local[0] == b - a - 1
            block[line.place[0], place] = cells[:, local[0] : local[-1] + 1] if run else cells[:, local]

    def _wide_runs(self, line: Line) -> Iterator[tuple[int, int, int, int]]:
        segment, itemsize = self.segments[line.shard[0]], self.dtype.itemsize
        height, width = segment.chunk
        for across, a, b in _chunks_of(line.columns, width):
            chunk = line.down * segment.chunks_across(line.shard[2]) + across
            start = (chunk * height + line.rows.start) * width * itemsize
            yield start, start + (line.rows.stop - line.rows.start) * width * itemsize, a, b

    def _read_packed(self, fd: int, line: Line, block: Array) -> None:
        """Cells of compressed chunks."""
        segment = self.segments[line.shard[0]]
        index = self._index(fd, line)
        for across, a, b in _chunks_of(line.columns, segment.chunk[1]):
            start, length = (int(x) for x in index[line.down, across])
            try:
                cells = np.frombuffer(self._decode(os.pread(fd, length, start)), self.dtype)
                lying = segment.chunk[::-1] if segment.by_column else segment.chunk
                chunk = cells.reshape(lying)
            except (ValueError, RuntimeError) as error:
                raise self._damaged(line, str(error)) from error
            if segment.by_column:
                chunk = chunk.T
            place = slice(line.place[1].start + a, line.place[1].start + b)
            block[line.place[0], place] = chunk[line.rows, line.columns[a:b] % segment.chunk[1]]

    def _index(self, fd: int, line: Line) -> Array:
        if line.shard not in self._indices:
            k, i, j = line.shard
            self._indices[line.shard] = read_index(fd, self.segments[k], i, j)
        return self._indices[line.shard]

    def _fill(self, fd: int, cells: Array, start: int, line: Line) -> None:
        """Fill a contiguous array from a place in a file."""
        data = cells.data.cast("B")
        while data:
            got = os.preadv(fd, [data], start)
            if got == 0:
                raise self._damaged(line, "it ends too early")
            data, start = data[got:], start + got

    def _damaged(self, line: Line, why: str) -> ValueError:
        return ValueError(
            f"{shard_path(self.path, *line.shard)} is damaged ({why}): shuffle the data again, with --force."
        )


def _chunks_of(columns: Indices, width: int) -> Iterator[tuple[int, int, int]]:
    """Chunks across, and which of the columns each has."""
    chunks = columns // width
    edges = [0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(columns)]
    for a, b in pairwise(edges):
        yield int(chunks[a]), a, b
