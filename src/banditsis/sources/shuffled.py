"""Stores written by ``banditsis shuffle``: rows in random order, of which any prefix is a random sample."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis._typing import Array, Columns, Floats, Indices, Rows
from banditsis.parallel import Workers
from banditsis.sampling import count_rows
from banditsis.sources.array import Job
from banditsis.sources.base import Calibration
from banditsis.sources.blocks import BlockSource
from banditsis.sources.files import Opened
from banditsis.sources.layout import Segment
from banditsis.sources.shards import decoder, read_index, shard_path
from banditsis.sources.store import Record, read_record, read_vector
from banditsis.statistics.base import Weights

GAP = 1 << 15  # bytes between two runs that are rather read than skipped
CELLS_AT_ONCE = 1 << 22
TALLEST = 1 << 14
LEAST_CELLS = 1 << 16  # of a tile that is worth a thread
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


class ShuffledSource(BlockSource):
    """A store of shuffled rows.

    Chunks that are stored as they are come straight from their place in the file, which follows from the
    layout; the system is told beforehand what will be read.

    Parameters
    ----------
    path : path
        The folder of the store.
    """

    shuffled = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.record: Record = read_record(self.path)
        self.segments = self.record.segments
        self.shape = self.record.shape
        self.dtype = self.record.dtype
        self.chunk = self.segments[0].chunk
        self.names = read_vector(self.path, "names").tolist() if self.record.has("names") else None
        compressor = self.record.compressor
        self._decode: Any = None if compressor is None else decoder(compressor)

    @cached_property
    def original_rows(self) -> Indices:
        """For each row its number in the data that were shuffled."""
        return read_vector(self.path, "original_rows").astype(np.intp)

    def row_number(self, row: int) -> int:
        return int(self.original_rows[row])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        listed = np.arange(columns.start, columns.stop) if isinstance(columns, slice) else columns
        blocks = [self._read_run(k, run, listed) for k, run in self._split(rows)]
        if len(blocks) == 1:
            return blocks[0]
        return np.concatenate(blocks) if blocks else np.empty((0, len(listed)), self.dtype)

    def _split(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """Cut rows where segments end."""
        for k, segment in enumerate(self.segments):
            if isinstance(rows, slice):
                run: Rows = slice(max(rows.start, segment.start), min(rows.stop, segment.stop))
            else:
                run = rows[np.searchsorted(rows, segment.start) : np.searchsorted(rows, segment.stop)]
            if count_rows(run) > 0:
                yield k, run

    def _read_run(self, k: int, rows: Rows, columns: Indices) -> Array:
        """Rows of one segment: by column where it lies by column."""
        if not isinstance(rows, slice):
            return self._pick_rows(k, rows, columns)
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

    def _pick_rows(self, k: int, rows: Indices, columns: Indices) -> Array:
        """Scattered rows, out of what lies between the first and the last of each line of chunks."""
        lines = (rows - self.segments[k].start) // self.segments[k].chunk[0]
        parts = []
        for part in np.split(rows, np.flatnonzero(np.diff(lines)) + 1):
            block = self._read_run(k, slice(int(part[0]), int(part[-1]) + 1), columns)
            parts.append(block[part - part[0]])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _lines(self, k: int, rows: slice, columns: Indices) -> Iterator[Line]:
        segment = self.segments[k]
        (height, _), (tall, wide) = segment.chunk, segment.shard
        panels = columns // wide
        edges = [0, *(np.flatnonzero(np.diff(panels)) + 1).tolist(), len(columns)]
        low, high = rows.start - segment.start, rows.stop - segment.start
        for start in range(low // height * height, high, height):
            a, b = max(low, start), min(high, start + height)
            for first, last in zip(edges[:-1], edges[1:], strict=True):
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
        for a, b in zip(edges[:-1], edges[1:], strict=True):
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

    @cached_property
    def _indices(self) -> dict[tuple[int, int, int], Array]:
        return {}

    def _fill(self, fd: int, cells: Array, start: int, line: Line) -> None:
        """Fill a contiguous array from a place in a file."""
        data = memoryview(cells).cast("B")
        while data:
            got = os.preadv(fd, [data], start)
            if got == 0:
                raise self._damaged(line, "it ends too early")
            data, start = data[got:], start + got

    def _damaged(self, line: Line, why: str) -> ValueError:
        return ValueError(
            f"{shard_path(self.path, *line.shard)} is damaged ({why}): shuffle the data again, with --force."
        )

    def sums(
        self,
        rows: Rows,
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: Calibration,
        out: Floats,
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        jobs = self._jobs(rows, columns, weights, calibration, len(out))
        waiting: deque[list[Job]] = deque()
        while True:
            batch = list(islice(jobs, 2 * workers.n_jobs))
            for _, part_rows, some, *_ in batch:
                self._announce(part_rows, some)
            waiting.append(batch)
            if batch and len(waiting) < 2:
                continue
            now = waiting.popleft()
            if not now:
                return
            workers.run(now)
            for _, part_rows, _, place, _, _, part in now:
                out[:, place] += part
                tick(part.shape[1] * count_rows(part_rows))

    def _jobs(
        self,
        rows: Rows,
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: Calibration,
        n_sums: int,
    ) -> Iterator[Job]:
        p = self.shape[1] if columns is None else len(columns)
        for run in self._runs(rows, TALLEST):
            w, m = weights(run), count_rows(run)
            width = max(1, min(CELLS_AT_ONCE // m, max(-(-p // 8), LEAST_CELLS // m)))
            for j in range(0, p, width):
                place = slice(j, min(j + width, p))
                some = place if columns is None else columns[place]
                part = np.zeros((n_sums, place.stop - place.start))
                yield self._add, run, some, place, w, calibration, part

    def _runs(self, rows: Rows, height: int) -> Iterator[Rows]:
        """Pieces of about ``height`` rows, of one segment each, that end where chunks end."""
        for k, run in self._split(rows):
            start, chunk = self.segments[k].start, self.segments[k].chunk[0]
            tall = max(1, height // chunk) * chunk
            if isinstance(run, slice):
                for a in range(start + (run.start - start) // tall * tall, run.stop, tall):
                    yield slice(max(a, run.start), min(a + tall, run.stop))
            else:
                yield from np.split(run, np.flatnonzero(np.diff((run - start) // tall)) + 1)

    def _announce(self, rows: Rows, columns: Indices | slice) -> None:
        """Tell the system what will be read, so that it comes while other tiles are summed."""
        if self._decode is not None or not isinstance(rows, slice) or not hasattr(os, "posix_fadvise"):
            return
        listed = np.arange(columns.start, columns.stop) if isinstance(columns, slice) else columns
        for k, run in self._split(rows):
            assert isinstance(run, slice)
            runs_of = self._runs_of if self.segments[k].by_column else self._wide_runs
            for line in self._lines(k, run, listed):
                fd = self._open(line)
                try:
                    for start, stop, _, _ in runs_of(line):
                        for a in range(start, stop, AHEAD):
                            os.posix_fadvise(fd, a, min(AHEAD, stop - a), os.POSIX_FADV_WILLNEED)
                finally:
                    os.close(fd)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes of the runs that are read, the first rows of all columns."""
        n, p = self.shape
        if scattered:
            return super().bytes_touched(n_rows, n_columns, scattered=True)
        touched, size = 0.0, self.dtype.itemsize
        for segment in self.segments:
            rows = min(n_rows, segment.stop) - segment.start
            if rows > 0:
                share = n_columns / p if segment.by_column else 1.0
                touched += rows * size * p * min(1.0, share)
        return touched


def _chunks_of(columns: Indices, width: int) -> Iterator[tuple[int, int, int]]:
    """Chunks across, and which of the columns each has."""
    chunks = columns // width
    edges = [0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(columns)]
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        yield int(chunks[a]), a, b


def open_shuffled(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Open a store that ``banditsis shuffle`` wrote, with the target and the ids that it carries."""
    from banditsis.sources.columns import take_out

    source = ShuffledSource(path)
    record = source.record
    ids = read_vector(path, "ids") if record.has("ids") else None
    if target is not None and record.has("target") and target == record.target:
        return Opened(source, read_vector(path, "target"), ids)
    if target is not None:
        return take_out(source, target, path, ids)
    return Opened(source, None, ids)
