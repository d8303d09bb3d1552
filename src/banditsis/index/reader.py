"""Stores written by ``banditsis shuffle``: rows in random order, so their first rows are a random sample."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows, count_rows, split_at
from banditsis.formats.chunks import ChunkReader, Layout, find_decoders
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import Opened, take_apart
from banditsis.index.layout import Segment, shard_name
from banditsis.index.metadata import ANNOTATION, Record, read_record, read_vector
from banditsis.sources.base import Calibration, Source, SumContext, WeightFunction
from banditsis.sources.blocks import BlockSource, cut
from banditsis.sources.tiles import Job
from banditsis.sources.views import ColumnSubset, RowSubset

CELLS_AT_ONCE = 1 << 22
MAX_TILE_ROWS = 1 << 14
MIN_TILE = 1 << 16  # cells: a smaller tile is not worth a thread
PAGE = 1 << 12  # bytes


class ShuffledSource(BlockSource):
    """A shuffled store.

    Tiles end at chunk borders, and the system prefetches the next tiles while the current ones are summed.

    Parameters
    ----------
    path : path
        Folder of the store.
    """

    shuffled = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.record = read_record(self.path)
        self.segments = self.record.segments
        self.shape = self.record.shape
        self.dtype = self.record.dtype
        self.stratum_sizes = self.record.stratum_sizes
        self.chunk = self.segments[0].chunk
        self.names = self.read_vector("names").tolist() if "names" in self.record.vectors else None
        self.annotations = {
            name.removeprefix(ANNOTATION): self.read_vector(name)
            for name in self.record.vectors
            if name.startswith(ANNOTATION)
        }
        self._readers = [_make_reader(self.path, self.record, k) for k in range(len(self.segments))]

    @cached_property
    def original_rows(self) -> Indices:
        """Row number of each row in the original data."""
        return self.read_vector("original_rows").astype(np.intp)

    @cached_property
    def _edges(self) -> Indices:
        """First row of each segment, and the number of rows."""
        return np.array([*(segment.start for segment in self.segments), self.shape[0]])

    def read_vector(self, name: str) -> Array:
        """Read names, ids, target, original_rows or an annotation."""
        length = self.shape[1] if name == "names" or name.startswith(ANNOTATION) else self.shape[0]
        return read_vector(self.path, name, self.record.files, length)

    def row_number(self, row: int) -> int:
        return int(self.original_rows[row])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        blocks = [self._readers[k].read(run, columns) for k, run in self._split_by_segment(rows)]
        if len(blocks) == 1:
            return blocks[0]
        return np.concatenate(blocks) if blocks else np.empty((0, count_rows(columns)), self.dtype)

    def _split_by_segment(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """Number of a segment, and the rows in it, counted from its first row."""
        for k, run in split_at(rows, self._edges):
            start = self.segments[k].start
            yield k, slice(run.start - start, run.stop - start) if isinstance(run, slice) else run - start

    def block_edges(self) -> Indices:
        """Rows at which chunks begin, and the number of rows."""
        starts = [np.arange(s.start, s.stop, s.chunk[0]) for s in self.segments]
        return np.concatenate([*starts, [self.shape[0]]]).astype(np.intp)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        calibration, out, workers, tick = context
        jobs = self._jobs(rows, columns, weights, calibration, len(out))
        prefetched: deque[list[Job]] = deque()
        while True:
            batch = list(islice(jobs, 2 * workers.n_jobs))
            for _, tile_rows, tile_columns, *_ in batch:
                for k, run in self._split_by_segment(tile_rows):
                    self._readers[k].prefetch(run, tile_columns)
            prefetched.append(batch)
            if batch and len(prefetched) < 2:
                continue
            current = prefetched.popleft()
            if not current:
                return
            workers.run(current)
            for _, tile_rows, _, place, _, _, part in current:
                out[:, place] += part
                tick(part.shape[1] * count_rows(tile_rows))

    def _jobs(
        self,
        rows: Rows,
        columns: Columns,
        weights: WeightFunction,
        calibration: Calibration,
        n_sums: int,
    ) -> Iterator[Job]:
        chosen = slice(0, self.shape[1]) if columns is None else columns
        p = count_rows(chosen)
        for segment, run in self._runs(rows):
            w, m, place = weights(run), count_rows(run), slice(0, 0)
            width = max(1, min(CELLS_AT_ONCE // m, max(-(-p // 8), MIN_TILE // m)))
            for tile_columns in cut(chosen, width, segment.chunk[1]):
                place = slice(place.stop, place.stop + count_rows(tile_columns))
                part = np.zeros((n_sums, place.stop - place.start))
                yield self._add, run, tile_columns, place, w, calibration, part

    def _runs(self, rows: Rows) -> Iterator[tuple[Segment, Rows]]:
        """Runs of rows that end at chunk borders, each with its segment."""
        for k, run in self._split_by_segment(rows):
            segment = self.segments[k]
            start, chunk = segment.start, segment.chunk[0]
            # A wide chunk is a tile by itself.
            step = max(1, MAX_TILE_ROWS // chunk) * chunk if segment.by_column else chunk
            if isinstance(run, slice):
                for a in range(run.start // step * step, run.stop, step):
                    yield segment, slice(start + max(a, run.start), start + min(a + step, run.stop))
            else:
                for part in np.split(start + run, np.flatnonzero(np.diff(run // step)) + 1):
                    yield segment, part

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes of the ranges that are read, in whole pages."""
        p, itemsize = self.shape[1], self.dtype.itemsize
        if scattered:
            return super().bytes_touched(n_rows, n_columns, scattered=True)
        if n_columns == p:
            return float(n_rows * p * itemsize)
        n_strata = max(1, len(self.stratum_sizes))  # a range of each
        pages = n_strata * -(-n_rows * itemsize // (n_strata * PAGE))
        return float(min(n_columns * pages * PAGE, n_rows * p * itemsize))


def _make_reader(path: Path, record: Record, k: int) -> ChunkReader:
    """The reader of segment k."""
    segment = record.segments[k]
    layout = Layout(
        shape=(segment.stop - segment.start, segment.columns),
        chunk=segment.chunk,
        file=segment.shard,
        dtype=record.dtype.newbyteorder("<"),
        by_column=segment.by_column,
        decoders=find_decoders([] if record.compressor is None else [record.compressor]) or (),
        sharded=True,
        index_has_checksum=True,
        packed=record.compressor is None,
    )
    return ChunkReader(path / f"rows_{k}", layout, shard_name)


def stored_below(source: Source) -> ShuffledSource | None:
    """The shuffled store below a subset of rows or columns; None if the source is not from a store."""
    while isinstance(source, (RowSubset, ColumnSubset)):
        source = source.base
    return source if isinstance(source, ShuffledSource) else None


def open_shuffled(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open a store that ``banditsis shuffle`` wrote, with its target and ids."""
    source = ShuffledSource(path)
    record = source.record
    ids = source.read_vector("ids") if "ids" in record.vectors else None
    stored = {str(record.target): lambda: source.read_vector("target")} if "target" in record.vectors else {}
    return take_apart(source, apart, path, options, ids, stored)
