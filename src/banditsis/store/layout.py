"""How a shuffled store lies on disk: as plans read it, first rows wide, later rows tall and narrow.

Every plan reads the first rows of all features, about 2√n of them, so these lie by row in wide chunks. Later
rows are read for ever fewer features, by rounds that add a tenth to a fifth of the rows so far: there each
column of a chunk is one run of bytes, and chunks grow with the rows, so that a round reads one or two runs
for a feature that is left, and next to nothing of the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HEAD = 2  # the first rows, in units of √n
SMALLEST_CHUNK, LARGEST_CHUNK, WIDE_CHUNK = 1 << 12, 1 << 16, 1 << 20  # bytes
LARGEST_SHARD = 1 << 27
KEY = "banditsis_shuffled"  # of the attributes that tell of it all


class Segment(NamedTuple):
    """Some rows of a store: one Zarr array, of shards (files) that hold chunks.

    Attributes
    ----------
    start, stop : int
        The rows.
    columns : int
        Columns of the store.
    chunk, shard : tuple of int
        Rows and columns of a chunk, and of a shard, which is whole chunks.
    by_column : bool
        Whether each column of a chunk lies together, or each row.
    """

    start: int
    stop: int
    columns: int
    chunk: tuple[int, int]
    shard: tuple[int, int]
    by_column: bool

    @property
    def grid(self) -> tuple[int, int]:
        """Shards along rows and columns."""
        rows, columns = self.shard
        return -(-(self.stop - self.start) // rows), -(-self.columns // columns)

    def shard_rows(self, i: int) -> tuple[int, int]:
        """First and last row of a line of shards, in the store."""
        first = self.start + i * self.shard[0]
        return first, min(first + self.shard[0], self.stop)

    def shard_columns(self, j: int) -> tuple[int, int]:
        """First and last column of a shard."""
        return j * self.shard[1], min((j + 1) * self.shard[1], self.columns)

    def chunks_across(self, j: int) -> int:
        """Chunks that lie side by side in a shard."""
        low, high = self.shard_columns(j)
        return -(-(high - low) // self.chunk[1])

    def chunk_grid(self, i: int, j: int) -> tuple[int, int]:
        """Chunks of a shard along rows and columns; those outside the array are not stored."""
        low, high = self.shard_rows(i)
        return -(-(high - low) // self.chunk[0]), self.chunks_across(j)


def make_layout(
    n: int, p: int, itemsize: int, shard_bytes: int = LARGEST_SHARD, width: int | None = None
) -> list[Segment]:
    """The segments of a store of n × p cells.

    Parameters
    ----------
    n, p, itemsize : int
        Rows, columns, bytes of a cell.
    shard_bytes : int
        About the largest size of a shard.
    width : int, optional
        Columns of a shard; by default so that the tallest chunks side by side make a shard.

    Examples
    --------
    >>> for s in make_layout(10**6, 5000, 4):
    ...     print(s.start, s.stop, s.chunk, s.shard, s.by_column)
    0 2048 (256, 1024) (2048, 2048) False
    2048 4096 (1024, 1) (2048, 2048) True
    4096 8192 (2048, 1) (4096, 2048) True
    8192 16384 (4096, 1) (8192, 2048) True
    16384 32768 (8192, 1) (16384, 2048) True
    32768 999424 (16384, 1) (16384, 2048) True
    999424 1000000 (576, 1) (576, 2048) True
    """
    runs = list(_runs(n, itemsize))
    tallest = max(height for _, _, height in runs)
    if width is None:
        width = max(1, shard_bytes // (tallest * itemsize))
    width = min(_power_of_two(width), p)
    segments = []
    for k, (start, stop, height) in enumerate(runs):
        head = start == 0 and k == 0
        least = WIDE_CHUNK if head else SMALLEST_CHUNK
        chunk_width = min(width, max(1, _power_of_two(least // (height * itemsize))))
        across = -(-width // chunk_width) * chunk_width
        tall = max(1, shard_bytes // (height * across * itemsize)) * height
        whole = -(-(stop - start) // height) * height
        segments.append(Segment(start, stop, p, (height, chunk_width), (min(tall, whole), across), not head))
    return segments


def _runs(n: int, itemsize: int) -> Iterator[tuple[int, int, int]]:
    """First row, last row and chunk height of each segment."""
    unit = max(64, 1 << math.ceil(math.log2(n) / 2))
    most = max(64, LARGEST_CHUNK // itemsize)
    start = 0
    while start < n:
        height = min(unit // 4 if start == 0 else start // 2, most)
        stop = HEAD * unit if start == 0 else 2 * start
        if stop >= n or (start and height == most):
            stop = start + (n - start) // height * height  # whole chunks, and the rest by itself
        if stop > start:
            yield start, stop, height
        else:
            stop = n
            yield start, stop, n - start
        start = stop


def _power_of_two(value: int) -> int:
    """The largest that is no larger."""
    return 1 << max(0, value.bit_length() - 1)


def array_metadata(segment: Segment, dtype: np.dtype, compressor: dict[str, Any] | None) -> dict[str, Any]:
    """The ``zarr.json`` of a segment, as version 3 of the specification has it."""
    little: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
    inside = [little if dtype.itemsize > 1 else {"name": "bytes"}]
    if segment.by_column:
        inside.insert(0, {"name": "transpose", "configuration": {"order": [1, 0]}})
    if compressor is not None:
        inside.append(compressor)
    sharding = {
        "chunk_shape": segment.chunk,
        "codecs": inside,
        "index_codecs": [little, {"name": "crc32c"}],
        "index_location": "end",
    }
    codec = {"name": "sharding_indexed", "configuration": sharding}
    shape = (segment.stop - segment.start, segment.columns)
    return _metadata(shape, dtype.name, segment.shard, [codec], ("row", "feature"))


def vector_metadata(length: int, data_type: str, codecs: list[dict[str, Any]], axis: str) -> dict[str, Any]:
    """The ``zarr.json`` of a vector in one chunk."""
    return _metadata((length,), data_type, (max(1, length),), codecs, (axis,))


def _metadata(
    shape: tuple[int, ...],
    data_type: str,
    chunk: tuple[int, ...],
    codecs: list[dict[str, Any]],
    axes: tuple[str, ...],
) -> dict[str, Any]:
    empty: Any = "" if data_type == "string" else False if data_type == "bool" else 0
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": empty,
        "codecs": codecs,
        "attributes": {},
        "dimension_names": axes,
    }


def is_shuffled(path: Path) -> bool:
    """Whether a folder is a store that ``banditsis shuffle`` wrote."""
    try:
        return KEY in json.loads((path / "zarr.json").read_text())["attributes"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
