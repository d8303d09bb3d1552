"""Stores written by ``banditsis shuffle``: rows in random order, of which any prefix is a random sample."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Indices, Rows, count_rows
from banditsis.formats.registry import Opened, split_target_column
from banditsis.sources.array import Job
from banditsis.sources.base import Calibration, Source, SumContext, WeightFunction
from banditsis.sources.blocks import BlockSource
from banditsis.sources.views import ColumnSubset, RowSubset
from banditsis.store.metadata import read_record, read_vector
from banditsis.store.shard_reader import ShardReader

CELLS_AT_ONCE = 1 << 22
TALLEST = 1 << 14
MIN_CELLS = 1 << 16  # of a tile that is worth a thread
PAGE = 1 << 12  # bytes that come from a disk together


class ShuffledSource(BlockSource):
    """A store of shuffled rows.

    Rows come in the order in which they are stored; tiles end where chunks do, and the system is told of the
    next ones while some are summed.

    Parameters
    ----------
    path : path
        The folder of the store.
    """

    shuffled = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.record = read_record(self.path)
        self.segments = self.record.segments
        self.shape = self.record.shape
        self.dtype = self.record.dtype
        self.chunk = self.segments[0].chunk
        self.names = read_vector(self.path, "names").tolist() if self.record.has("names") else None
        self._reader = ShardReader(self.path, self.segments, self.dtype, self.record.compressor)

    @cached_property
    def original_rows(self) -> Indices:
        """For each row its number in the data that were shuffled."""
        return read_vector(self.path, "original_rows").astype(np.intp)

    def row_number(self, row: int) -> int:
        return int(self.original_rows[row])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        listed = _listed(columns)
        blocks = []
        for k, run in self._split(rows):
            if isinstance(run, slice):
                blocks.append(self._reader.read(k, run, listed))
            else:
                blocks += self._pick_rows(k, run, listed)
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

    def _pick_rows(self, k: int, rows: Indices, columns: Indices) -> Iterator[Array]:
        """Scattered rows, out of what lies between the first and the last of each line of chunks."""
        lines = (rows - self.segments[k].start) // self.segments[k].chunk[0]
        for part in np.split(rows, np.flatnonzero(np.diff(lines)) + 1):
            block = self._reader.read(k, slice(int(part[0]), int(part[-1]) + 1), columns)
            yield block[part - part[0]]

    def block_edges(self) -> Indices:
        """Where rows may be cut without reading any chunk twice."""
        starts = [np.arange(s.start, s.stop, s.chunk[0]) for s in self.segments]
        return np.concatenate([*starts, [self.shape[0]]]).astype(np.intp)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        calibration, out, workers, tick = context
        jobs = self._jobs(rows, columns, weights, calibration, len(out))
        waiting: deque[list[Job]] = deque()
        while True:
            batch = list(islice(jobs, 2 * workers.n_jobs))
            for _, part_rows, some, *_ in batch:
                for k, run in self._split(part_rows):
                    if isinstance(run, slice):
                        self._reader.announce(k, run, _listed(some))
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
        weights: WeightFunction,
        calibration: Calibration,
        n_sums: int,
    ) -> Iterator[Job]:
        p = self.shape[1] if columns is None else len(columns)
        for run in self._runs(rows, TALLEST):
            w, m = weights(run), count_rows(run)
            width = max(1, min(CELLS_AT_ONCE // m, max(-(-p // 8), MIN_CELLS // m)))
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

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes of the runs that are read, in whole pages."""
        p, size = self.shape[1], self.dtype.itemsize
        if scattered:
            return super().bytes_touched(n_rows, n_columns, scattered=True)
        if n_columns == p:
            return float(n_rows * p * size)
        return float(min(n_columns * -(-n_rows * size // PAGE) * PAGE, n_rows * p * size))


def _listed(columns: Indices | slice) -> Indices:
    return np.arange(columns.start, columns.stop) if isinstance(columns, slice) else columns


def stored_below(source: Source) -> ShuffledSource | None:
    """The shuffled store that these rows and columns are of, if they are of one."""
    while isinstance(source, (RowSubset, ColumnSubset)):
        source = source.base
    return source if isinstance(source, ShuffledSource) else None


def open_shuffled(path: Path, target: str | None = None, **options: Any) -> Opened:
    """Open a store that ``banditsis shuffle`` wrote, with the target and the ids that it carries."""
    source = ShuffledSource(path)
    record = source.record
    ids = read_vector(path, "ids") if record.has("ids") else None
    if target is not None and record.has("target") and target == record.target:
        return Opened(source, read_vector(path, "target"), ids, target)
    if target is not None:
        return split_target_column(source, target, path, ids)
    return Opened(source, None, ids)
