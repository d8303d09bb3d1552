"""How a shuffled store is laid out: the first rows in wide chunks, later rows in tall, narrow ones.

Every plan reads the first rows of all features, about 2√n of them, so these are stored row by row in wide
chunks. Later rows are read for fewer and fewer features, and each round adds a tenth to a fifth of the rows
so far. These rows are stored column by column in chunks that grow with the row number. A round then reads one
or two byte ranges for each surviving feature and almost nothing of the others.

If rows are stored in strata, every stratum is laid out so. Uniform samples have rows of a stratum in
proportion to its size, and those for the target of the strata about as many of each, so a stratum has the
larger of these shares of the 2√n rows in wide chunks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

HEAD = 2  # height of the first segment in units of √n
MIN_UNIT = 64  # rows
MIN_CHUNK, MAX_CHUNK, WIDE_CHUNK = 1 << 12, 1 << 16, 1 << 20  # bytes
MAX_SHARD = 1 << 27  # bytes
KEY = "banditsis_shuffled"  # attribute of the Zarr group that describes the store


class Segment(NamedTuple):
    """Consecutive rows of a store, in one Zarr array."""

    start: int
    stop: int
    columns: int
    chunk: tuple[int, int]
    #: rows and columns of a file, which holds whole chunks
    shard: tuple[int, int]
    #: whether a chunk is stored column by column
    by_column: bool

    @property
    def grid(self) -> tuple[int, int]:
        """Number of shards along rows and columns."""
        rows, columns = self.shard
        return -(-(self.stop - self.start) // rows), -(-self.columns // columns)

    def shard_rows(self, i: int) -> tuple[int, int]:
        """First and end row, in the store, of the shards in grid row i."""
        first = self.start + i * self.shard[0]
        return first, min(first + self.shard[0], self.stop)

    def shard_columns(self, j: int) -> tuple[int, int]:
        """First and end column of the shards in grid column j."""
        return j * self.shard[1], min((j + 1) * self.shard[1], self.columns)


def shard_name(position: tuple[int, int]) -> str:
    """Path of a shard, relative to its segment, by its row and column in the grid."""
    return f"c/{position[0]}/{position[1]}"


def make_layout(
    sizes: Sequence[int], p: int, itemsize: int, shard_bytes: int = MAX_SHARD, width: int | None = None
) -> list[Segment]:
    """Divide a store into segments.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each stratum, or of the whole store.
    p, itemsize : int
        Columns, bytes per cell.
    shard_bytes : int
        Approximate maximum size of a shard.
    width : int, optional
        Columns of a shard; by default, one row of the tallest chunks fills a shard.

    Examples
    --------
    >>> for s in make_layout([10**6], 5000, 4):
    ...     print(s.start, s.stop, s.chunk, s.shard, s.by_column)
    0 2048 (256, 1024) (2048, 2048) False
    2048 4096 (1024, 1) (2048, 2048) True
    4096 8192 (2048, 1) (4096, 2048) True
    8192 16384 (4096, 1) (8192, 2048) True
    16384 32768 (8192, 1) (16384, 2048) True
    32768 999424 (16384, 1) (16384, 2048) True
    999424 1000000 (576, 1) (576, 2048) True
    """
    heights = [
        (first, *rows)
        for first, size in zip(accumulate(sizes, initial=0), sizes, strict=False)
        for rows in _divide_rows(size, _unit(size, sizes), itemsize)
    ]
    if width is None:
        tallest = max(height for *_, height in heights)
        width = max(1, shard_bytes // (tallest * itemsize))
    width = min(_floor_power_of_two(width), p)
    segments = []
    for first, start, stop, height in heights:
        is_head = start == 0
        min_bytes = WIDE_CHUNK if is_head else MIN_CHUNK
        chunk_width = min(width, max(1, _floor_power_of_two(min_bytes // (height * itemsize))))
        shard_width = -(-width // chunk_width) * chunk_width
        shard_height = max(1, shard_bytes // (height * shard_width * itemsize)) * height
        shard_height = min(shard_height, -(-(stop - start) // height) * height)
        chunk, shard = (height, chunk_width), (shard_height, shard_width)
        segments.append(Segment(first + start, first + stop, p, chunk, shard, not is_head))
    return segments


def _unit(size: int, sizes: Sequence[int]) -> int:
    """√n, or the share of a stratum in it: by its size, or an equal one if that is more; a power of two."""
    n = sum(sizes)
    share = max(size / n, 1 / len(sizes))
    return max(MIN_UNIT, 1 << math.ceil(math.log2(n * share**2) / 2))


def _divide_rows(n: int, unit: int, itemsize: int) -> Iterator[tuple[int, int, int]]:
    """First row, end row and chunk height of each segment of a stratum, counted from its first row."""
    max_height = max(64, MAX_CHUNK // itemsize)
    start = 0
    while start < n:
        height = min(unit // 4 if start == 0 else start // 2, max_height)
        stop = HEAD * unit if start == 0 else 2 * start
        if stop >= n or (start and height == max_height):
            stop = start + (n - start) // height * height  # whole chunks; the remaining rows are a segment
        if stop == start:
            stop, height = n, n - start
        yield start, stop, height
        start = stop


def check_segments(segments: list[Segment], shape: tuple[int, int]) -> None:
    """Raise unless segments hold every row of a store once, in whole chunks."""
    n, p = shape
    numbers = [n, p, *(value for s in segments for value in (s.start, s.stop, s.columns, *s.chunk, *s.shard))]
    if not all(type(value) is int and value >= 0 for value in numbers):
        raise ValueError("a size is not a whole number")
    edges = [0, *(s.stop for s in segments)]
    if (
        not n
        or not p
        or edges[-1] != n
        or any(s.start != edge for s, edge in zip(segments, edges, strict=False))
    ):
        raise ValueError(f"its segments do not hold {n:,} rows")
    for s in segments:
        chunks = zip(s.shard, s.chunk, strict=True)
        whole = all(chunk > 0 and shard > 0 and shard % chunk == 0 for shard, chunk in chunks)
        if s.start >= s.stop or s.columns != p or not whole or type(s.by_column) is not bool:
            raise ValueError(f"its segment from row {s.start:,} has an impossible layout")


def _floor_power_of_two(value: int) -> int:
    return 1 << max(0, value.bit_length() - 1)


def is_shuffled(path: Path) -> bool:
    """Whether a folder is a store that ``banditsis shuffle`` wrote."""
    try:
        return KEY in json.loads((path / "zarr.json").read_text())["attributes"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
