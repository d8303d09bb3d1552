"""How a shuffle is cut into pieces, and where the cells of a piece come from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Indices
from banditsis.sources.base import Source
from banditsis.store.journal import Journal
from banditsis.store.layout import LARGEST_SHARD, Segment, make_layout
from banditsis.store.metadata import read_vector
from banditsis.store.shards import SAMPLED_COLUMNS, SAMPLED_ROWS, find_compressor

NARROWEST = 16  # columns of a panel


class Piece(NamedTuple):
    """Lines of shards that follow one another (segment, line), and which panel of columns."""

    lines: tuple[tuple[int, int], ...]
    panel: int


@dataclass(frozen=True)
class Work:
    """All that has been decided before the first cell is written."""

    source: Source
    segments: list[Segment]
    pieces: list[Piece]
    #: for each row of the store, where it is in the source
    order: Indices
    compressor: dict[str, Any] | None
    through_buckets: bool
    memory: int
    folder: Path

    @property
    def store(self) -> Path:
        """The store while it is not whole."""
        return self.folder / "store"

    def rows(self, piece: Piece) -> tuple[int, int]:
        """First and last row of a piece."""
        (first, i), (last, j) = piece.lines[0], piece.lines[-1]
        return self.segments[first].shard_rows(i)[0], self.segments[last].shard_rows(j)[1]

    def columns(self, piece: Piece) -> tuple[int, int]:
        """First and last column of a piece."""
        return self.segments[0].shard_columns(piece.panel)

    def bucket(self, k: int) -> Path:
        """The file that gathers the rows of a piece."""
        return self.folder / "buckets" / str(k)

    @property
    def size(self) -> int:
        """Bytes to move."""
        n, p = self.source.shape
        return n * p * self.source.dtype.itemsize * (2 if self.through_buckets else 1)


def stored_dtype(source: Source) -> np.dtype:
    """The dtype of a source, in the byte order of the machine."""
    return np.dtype(source.dtype).newbyteorder("=")


def plan_work(source: Source, rows: Indices | None, memory: int, folder: Path, journal: Journal) -> Work:
    """Decide on layout, pieces and ways, or take what was decided when the run began.

    ``rows`` tells which rows of the original data the source has, if not all.
    """
    n, p = source.shape
    itemsize = source.dtype.itemsize
    if journal.decided is None:
        columns = np.unique(np.linspace(0, p - 1, SAMPLED_COLUMNS).astype(np.intp))
        # From the middle of the data: the first rows of a file may be unlike others.
        middle = max(0, n // 2 - SAMPLED_ROWS // 2)
        sample = source.read(slice(middle, min(n, middle + SAMPLED_ROWS)), columns)
        compressor = find_compressor(np.asarray(sample, stored_dtype(source)))
        width = _panel_width(source, memory)
        journal.decide({"memory": memory, "width": width, "compressor": compressor})
    decided = journal.decided
    assert decided is not None
    memory, width = decided["memory"], decided["width"]
    shard = min(LARGEST_SHARD, memory // 8)
    segments = make_layout(n, p, itemsize, shard, width)
    if width is None:
        pieces = list(_pieces(segments, itemsize, memory // 4))
    else:
        everything = tuple((k, i) for k, s in enumerate(segments) for i in range(s.grid[0]))
        pieces = [Piece(everything, j) for j in range(segments[0].grid[1])]
    order = read_vector(folder / "store", "original_rows").astype(np.intp)
    if rows is not None:
        sorter = np.argsort(rows)
        order = sorter[np.searchsorted(rows, order, sorter=sorter)]
    return Work(source, segments, pieces, order, decided["compressor"], width is None, memory, folder)


def _panel_width(source: Source, memory: int) -> int | None:
    """Columns of panels that are read one by one, or None if rows should be dealt out to buckets."""
    n, p = source.shape
    width = min(p, memory // 4 // (n * source.dtype.itemsize))
    if width == p:
        return p
    if width < NARROWEST:
        return None
    width = 1 << (width.bit_length() - 1)
    panels = -(-p // width)
    # Through buckets every byte is read, written and read again.
    return width if panels * _share_touched(source, width) <= 3 else None


def _share_touched(source: Source, width: int) -> float:
    """The share of the bytes that come along when neighbouring columns are read over all rows."""
    n, p = source.shape
    if source.chunk != (1, 1):
        return float(min(1.0, (-(-width // source.chunk[1]) * source.chunk[1]) / p))
    everything = source.bytes_touched(n, p, scattered=False)
    if source.by_row:
        return 1.0
    return float(source.bytes_touched(n, width, scattered=False) / everything)


def _pieces(segments: Sequence[Segment], itemsize: int, most: int) -> Iterator[Piece]:
    """Lines of shards that together fit in memory."""
    bands: list[list[tuple[int, int]]] = []
    size = 0
    for k, segment in enumerate(segments):
        for i in range(segment.grid[0]):
            a, b = segment.shard_rows(i)
            more = (b - a) * min(segment.shard[1], segment.columns) * itemsize
            if not bands or size + more > most:
                bands.append([])
                size = 0
            bands[-1].append((k, i))
            size += more
    for band in bands:
        for j in range(segments[0].grid[1]):
            yield Piece(tuple(band), j)


def check_space(work: Work) -> None:
    n, p = work.source.shape
    wanted = n * p * work.source.dtype.itemsize
    held = sum(file.stat().st_size for file in work.folder.rglob("*") if file.is_file())
    free = shutil.disk_usage(work.folder).free
    # Buckets shrink as the store grows.
    if work.compressor is None and wanted * 1.02 + work.memory // 4 > free + held:
        raise OSError(
            f"shuffling needs about {wanted / 1e9:.1f} GB of disk, and {(free + held) / 1e9:.1f} GB are free "
            f"where {work.folder} lies: choose another disk."
        )
