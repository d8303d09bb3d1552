"""Divide a shuffle into pieces that fit in memory, and write one piece after the other.

If a panel of columns fits in memory over all rows, and the source reads columns cheaply, a piece is a panel.
Otherwise a piece is some rows of a panel, and rows are first distributed to temporary files (buckets), one
for each piece.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.index.layout import MAX_SHARD, Segment, make_layout, shard_name
from banditsis.index.metadata import Written, find_compressor, read_vector, write_shard
from banditsis.sources.base import Source

MIN_PANEL = 16  # columns
SAMPLED_ROWS, SAMPLED_COLUMNS = 4096, 64  # to find out whether cells compress


class Piece(NamedTuple):
    """Consecutive grid rows of shards, as (segment, grid row), in one panel: one grid column."""

    shards: tuple[tuple[int, int], ...]
    panel: int


class Journal:
    """A file of JSON lines, one for each finished step of a shuffle; an incomplete last line is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: the last entry of each kind: begun, vectors, decided, scattered, piece, whole
        self.entries: dict[str, Any] = {}
        #: files of each finished piece
        self.pieces: dict[int, dict[str, Any]] = {}
        length = 0
        data = path.read_bytes() if path.exists() else b""
        for line in data.splitlines(keepends=True):
            try:
                self._apply(json.loads(line))
            except (ValueError, KeyError):
                break
            if not line.endswith(b"\n"):
                break
            length += len(line)
        if length < len(data):
            os.truncate(path, length)

    def _apply(self, entry: dict[str, Any]) -> None:
        if entry["what"] == "piece":
            self.pieces[entry["piece"]] = entry["files"]
        self.entries[entry["what"]] = entry

    def add(self, what: str, **entry: Any) -> None:
        """Append an entry, and wait until it is on disk."""
        with open(self.path, "a") as file:
            file.write(json.dumps({"what": what, **entry}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._apply({"what": what, **entry})

    def begin(self, about: dict[str, Any]) -> None:
        """Start a new journal."""
        self.path.unlink(missing_ok=True)
        self.entries, self.pieces = {}, {}
        self.add("begun", about=about)


@dataclass(frozen=True)
class Work:
    """Everything that is decided before the first cell is written."""

    source: Source
    segments: list[Segment]
    pieces: list[Piece]
    #: row of the source for each row of the store
    order: Indices
    compressor: dict[str, Any] | None
    uses_buckets: bool
    memory: int
    folder: Path
    journal: Journal

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the source in native byte order."""
        return np.dtype(self.source.dtype).newbyteorder("=")

    @property
    def store(self) -> Path:
        """The store until it is complete."""
        return self.folder / "store"

    @property
    def bytes_to_move(self) -> int:
        """Bytes of all cells, counted twice if they pass through buckets."""
        n, p = self.source.shape
        return n * p * self.dtype.itemsize * (2 if self.uses_buckets else 1)

    @property
    def n_panels(self) -> int:
        return self.segments[0].grid[1]

    def rows(self, piece: Piece) -> tuple[int, int]:
        """First and end row of a piece."""
        (first, i), (last, j) = piece.shards[0], piece.shards[-1]
        return self.segments[first].shard_rows(i)[0], self.segments[last].shard_rows(j)[1]

    def columns(self, panel: int) -> tuple[int, int]:
        """First and end column of a panel."""
        return self.segments[0].shard_columns(panel)

    def bucket(self, k: int) -> Path:
        """The temporary file with the rows of piece k."""
        return self.folder / "buckets" / str(k)


def plan_work(source: Source, rows: Indices | None, memory: int, folder: Path, journal: Journal) -> Work:
    """Choose layout and pieces, or repeat the choice of an interrupted run.

    ``rows`` are the row numbers of the source in the original data; None for all in order.
    """
    n, p = source.shape
    itemsize = source.dtype.itemsize
    if "decided" not in journal.entries:
        width, compressor = _choose_panel_width(source, memory), _try_compression(source)
        journal.add("decided", about={"memory": memory, "width": width, "compressor": compressor})
    decided = journal.entries["decided"]["about"]
    memory, width, compressor = decided["memory"], decided["width"], decided["compressor"]
    vectors = journal.entries["vectors"]
    segments = make_layout(vectors["stratum_sizes"] or [n], p, itemsize, min(MAX_SHARD, memory // 8), width)
    if width is None:
        pieces = list(_divide_into_pieces(segments, itemsize, memory // 4))
    else:
        shards = tuple((k, i) for k, s in enumerate(segments) for i in range(s.grid[0]))
        pieces = [Piece(shards, j) for j in range(segments[0].grid[1])]
    files = {name: Written(*written) for name, written in vectors["files"].items()}
    order = read_vector(folder / "store", "original_rows", files, n).astype(np.intp)
    if rows is not None:
        sorter = np.argsort(rows)
        order = sorter[np.searchsorted(rows, order, sorter=sorter)]
    return Work(source, segments, pieces, order, compressor, width is None, memory, folder, journal)


def _try_compression(source: Source) -> dict[str, Any] | None:
    n, p = source.shape
    columns = np.unique(np.linspace(0, p - 1, SAMPLED_COLUMNS).astype(np.intp))
    # From the middle: the first rows of a file may be unusual.
    middle = max(0, n // 2 - SAMPLED_ROWS // 2)
    sample = source.read(slice(middle, min(n, middle + SAMPLED_ROWS)), columns)
    return find_compressor(np.asarray(sample, np.dtype(source.dtype).newbyteorder("=")))


def _choose_panel_width(source: Source, memory: int) -> int | None:
    """Columns of a panel that is read over all rows; None if buckets are cheaper."""
    n, p = source.shape
    width = min(p, memory // 4 // (n * source.dtype.itemsize))
    if width == p:
        return p
    if width < MIN_PANEL:
        return None
    width = 1 << (width.bit_length() - 1)
    n_panels = -(-p // width)
    # With buckets, every byte is read, written and read again.
    return width if n_panels * _share_touched(source, width) <= 3 else None


def _share_touched(source: Source, width: int) -> float:
    """The share of all bytes that is read for ``width`` adjacent columns over all rows."""
    n, p = source.shape
    if source.chunk != (1, 1):
        return float(min(1.0, (-(-width // source.chunk[1]) * source.chunk[1]) / p))
    if source.by_row:
        return 1.0
    all_bytes = source.bytes_touched(n, p, scattered=False)
    return float(source.bytes_touched(n, width, scattered=False) / all_bytes)


def _divide_into_pieces(segments: Sequence[Segment], itemsize: int, max_bytes: int) -> Iterator[Piece]:
    """Group grid rows of shards that fit in memory together."""
    bands: list[list[tuple[int, int]]] = []
    size = 0
    for k, segment in enumerate(segments):
        for i in range(segment.grid[0]):
            first, end = segment.shard_rows(i)
            shard_bytes = (end - first) * min(segment.shard[1], segment.columns) * itemsize
            if not bands or size + shard_bytes > max_bytes:
                bands.append([])
                size = 0
            bands[-1].append((k, i))
            size += shard_bytes
    for band in bands:
        for j in range(segments[0].grid[1]):
            yield Piece(tuple(band), j)


def fill_buckets(work: Work, tick: Callable[[int], None]) -> None:
    """Distribute the rows to buckets, in the order of the source."""
    n, p = work.source.shape
    edges = np.array([work.rows(piece)[0] for piece in work.pieces if piece.panel == 0])
    position = np.empty(n, np.intp)
    position[work.order] = np.arange(n)
    bands = (np.searchsorted(edges, position, side="right") - 1).astype(np.int32)
    del position
    start = _restore_buckets(work, bands)
    tick(start * p)
    step = max(1, work.memory // 4 // (p * work.dtype.itemsize))
    if step > work.source.block_rows:
        step -= step % work.source.block_rows
    while start < n:
        stop = min(n, start + step)
        block = np.asarray(work.source.read(slice(start, stop), None), work.dtype)
        _append_to_buckets(work, block, bands[start:stop])
        work.source.release()
        work.journal.add("scattered", rows=stop)
        tick((stop - start) * p)
        start = stop


def _restore_buckets(work: Work, bands: Array) -> int:
    """Truncate buckets to the rows in the journal; return the number of these rows."""
    n_rows: int = work.journal.entries.get("scattered", {"rows": 0})["rows"]
    work.bucket(0).parent.mkdir(exist_ok=True)
    if n_rows == len(bands):
        return n_rows
    counts = np.bincount(bands[:n_rows], minlength=len(work.pieces) // work.n_panels)
    for k, piece in enumerate(work.pieces):
        low, high = work.columns(piece.panel)
        size = int(counts[k // work.n_panels]) * (high - low) * work.dtype.itemsize
        bucket = work.bucket(k)
        if size and (not bucket.exists() or bucket.stat().st_size < size):
            shutil.rmtree(bucket.parent)  # a power failure lost rows that are in the journal
            work.journal.add("scattered", rows=0)
            return _restore_buckets(work, bands)
        if bucket.exists():
            os.truncate(bucket, size)
    return n_rows


def _append_to_buckets(work: Work, block: Array, bands: Array) -> None:
    order = np.argsort(bands, kind="stable")
    n_bands = len(work.pieces) // work.n_panels
    ends = np.searchsorted(bands[order], np.arange(n_bands + 1))
    for band in range(n_bands):
        rows = order[ends[band] : ends[band + 1]]
        if rows.size == 0:
            continue
        part = block[rows]
        for j in range(work.n_panels):
            low, high = work.columns(j)
            with open(work.bucket(band * work.n_panels + j), "ab", buffering=0) as file:
                file.write(np.ascontiguousarray(part[:, low:high]).data.cast("B"))


def write_piece(work: Work, k: int) -> dict[str, Written]:
    """Write the shards of a piece, unless an interrupted run did; return its files."""
    piece = work.pieces[k]
    if k not in work.journal.pieces:
        (a, b), (low, high) = work.rows(piece), work.columns(piece.panel)
        order = work.order[a:b]
        if work.uses_buckets:
            cells = np.fromfile(work.bucket(k), work.dtype).reshape(b - a, high - low)
            rank = np.empty(b - a, np.intp)
            rank[np.argsort(order)] = np.arange(b - a)  # a bucket is in the order of the source
            order = rank
        else:
            cells = _read_panel(work, low, high)
        files = {}
        for s, i in piece.shards:
            name = f"rows_{s}/{shard_name((i, piece.panel))}"
            first, end = work.segments[s].shard_rows(i)
            rows = order[first - a : end - a]
            files[name] = write_shard(work.store / name, work.segments[s], cells, rows, work.compressor)
        work.journal.add("piece", piece=k, files=files)
    work.bucket(k).unlink(missing_ok=True)
    return {name: Written(*written) for name, written in work.journal.pieces[k].items()}


def _read_panel(work: Work, low: int, high: int) -> Array:
    """Read some columns over all rows."""
    n = work.source.shape[0]
    cells = np.empty((n, high - low), work.dtype)
    step = max(1024, work.memory // 8 // ((high - low) * cells.itemsize))
    for start in range(0, n, step):
        stop = min(n, start + step)
        cells[start:stop] = work.source.read(slice(start, stop), slice(low, high))
        work.source.release()
    return cells
