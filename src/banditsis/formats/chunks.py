"""Read blocks of two-dimensional Zarr arrays from local files.

Plain Zarr arrays and shuffled stores share this reader. It decodes chunks in the calling thread, and it reads
only the requested byte ranges of uncompressed chunks. Libraries are as fast only for compressed chunks.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices, Rows, count_rows
from banditsis.formats.registry import import_optional
from banditsis.sources.array import ArraySource

MAX_GAP = 1 << 15  # bytes: smaller gaps between two byte ranges are read, not skipped
READAHEAD = 1 << 20  # bytes that the system prefetches in one call
ABSENT = -1  # offset of a chunk that was never written
#: What decoders raise if their input is damaged.
DECODING_ERRORS = (RuntimeError, ValueError, TypeError, OSError, EOFError, SystemError, zlib.error)

Decoder = Callable[[Any], Any]


class Layout(NamedTuple):
    """How the cells of an array are stored in files."""

    shape: tuple[int, int]
    #: rows and columns that are decoded together
    chunk: tuple[int, int]
    #: rows and columns in one file: a chunk, or a shard of several chunks
    file: tuple[int, int]
    #: as stored, with the byte order
    dtype: np.dtype
    #: whether cells are stored column by column within a chunk
    by_column: bool
    decoders: tuple[Decoder, ...]
    #: whether files are shards; a shard may hold a single chunk
    sharded: bool = False
    index_at_end: bool = True
    index_has_checksum: bool = False
    #: whether the chunks of a shard are stored in order and without gaps, so the index is not needed
    packed: bool = False
    #: value of cells whose chunk was never written; None if every chunk must exist
    fill_value: Any = None

    def stored_order(self, rows: Any, columns: Any) -> tuple[Any, Any]:
        """Order a pair by axis: the axis of the stored lines first, the axis within a line second."""
        return (columns, rows) if self.by_column else (rows, columns)


def find_decoders(codecs: list[Any]) -> tuple[Decoder, ...] | None:
    """Functions that turn stored bytes into cells, last codec first; None if a codec is unknown."""
    if not codecs:
        return ()
    numcodecs = import_optional("numcodecs", "zarr")
    known: dict[str, Decoder] = {
        "zstd": numcodecs.Zstd().decode,
        "gzip": numcodecs.GZip().decode,
        "zlib": numcodecs.Zlib().decode,
        "blosc": numcodecs.Blosc().decode,
        "crc32c": _strip_checksum,
    }
    names = [codec["name"] for codec in codecs]
    return tuple(known[name] for name in reversed(names)) if set(names) <= set(known) else None


def _strip_checksum(data: Any) -> Any:
    """Validate and remove the CRC-32C in the last four bytes."""
    data = memoryview(data)
    if import_optional("google_crc32c", "zarr").value(bytes(data[:-4])) != int.from_bytes(
        data[-4:], "little"
    ):
        raise ValueError("wrong checksum")
    return data[:-4]


class Piece(NamedTuple):
    """Requested rows (or columns) within one chunk: their indices in the chunk and in the block."""

    chunk: int
    inside: slice | Indices
    place: slice


def split_by_chunk(index: Rows, length: int) -> Iterator[Piece]:
    """Split sorted rows (or columns) at multiples of a chunk length.

    Examples
    --------
    >>> [(piece.chunk, piece.inside, piece.place) for piece in split_by_chunk(slice(2, 5), 3)]
    [(0, slice(2, 3, None), slice(0, 1, None)), (1, slice(0, 2, None), slice(1, 3, None))]
    """
    if isinstance(index, slice):
        for start in range(index.start // length * length, index.stop, length):
            a, b = max(start, index.start), min(start + length, index.stop)
            yield Piece(start // length, slice(a - start, b - start), slice(a - index.start, b - index.start))
        return
    chunks = index // length
    edges = [0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(index)]
    for a, b in pairwise(edges):
        if b > a:
            chunk = int(chunks[a])
            inside = index[a:b] - chunk * length
            first, last = int(inside[0]), int(inside[-1])
            consecutive = last - first == b - a - 1  # a slice needs no copy
            yield Piece(chunk, slice(first, last + 1) if consecutive else inside, slice(a, b))


def select(chunk: Array, rows: slice | Indices, columns: slice | Indices) -> Array:
    """Rows × columns of a chunk; a view if possible."""
    if isinstance(rows, slice) or isinstance(columns, slice):
        return chunk[rows, columns]
    return ArraySource(chunk).read(rows, columns)


class FilePart(NamedTuple):
    """The part of a request that one file holds, within one chunk along the stored lines."""

    file: tuple[int, int]  # row and column in the grid of files
    chunk: int  # position along the stored lines of the chunk in the file
    lines: slice | Indices  # in the file
    cells: slice | Indices  # in the chunk
    place: tuple[slice, slice]  # in the block


class ChunkReader:
    """Reads dense blocks of an array in local files; thread-safe.

    ``name_file`` returns the path of a file in the folder by its row and column in the grid of files.
    """

    def __init__(self, folder: Path, layout: Layout, name_file: Callable[[tuple[int, int]], str]) -> None:
        self.folder, self.layout, self.name_file = folder, layout, name_file
        self.dtype = layout.dtype.newbyteorder("=")
        self._indices: dict[tuple[int, int], Array] = {}

    def read(self, rows: Rows, columns: Rows) -> Array:
        """Read rows × columns, both sorted, in the stored memory order."""
        lines, cells = self.layout.stored_order(rows, columns)
        block = np.empty((count_rows(lines), count_rows(cells)), self.dtype)
        read_part = self._read_chunks if self.layout.decoders else self._read_ranges
        for part in self._split_by_file(lines, cells):
            file = self._open(part)
            if file is None:
                block[part.place] = self.layout.fill_value
                continue
            with file:
                chunk = read_part(file, part, block[part.place])
            if chunk is not None and chunk.shape == block.shape:
                block = chunk  # without a copy
            elif chunk is not None:
                block[part.place] = chunk
            del chunk  # before the next one is allocated
        return block.T if self.layout.by_column else block

    def prefetch(self, rows: Rows, columns: Rows) -> None:
        """Ask the system to read uncompressed cells in the background."""
        if self.layout.decoders or not hasattr(os, "posix_fadvise"):
            return
        for part in self._split_by_file(*self.layout.stored_order(rows, columns)):
            file = self._open(part)
            if file is None:
                continue
            with file:
                for start, stop, _, _ in self._find_ranges(file, part):
                    for a in range(start, stop, READAHEAD):
                        os.posix_fadvise(file.fileno(), a, min(READAHEAD, stop - a), os.POSIX_FADV_WILLNEED)

    def _split_by_file(self, lines: Rows, cells: Rows) -> Iterator[FilePart]:
        layout = self.layout
        file_lines, file_cells = layout.stored_order(*layout.file)
        width = layout.stored_order(*layout.chunk)[1]
        files = list(split_by_chunk(lines, file_lines))
        for cell in split_by_chunk(cells, width):
            across, chunk = divmod(cell.chunk, file_cells // width)
            for line in files:
                file = layout.stored_order(line.chunk, across)
                yield FilePart(file, chunk, line.inside, cell.inside, (line.place, cell.place))

    def _open(self, part: FilePart) -> FileIO | None:
        """Open the file of a part; None if it does not exist and a fill value is defined."""
        try:
            file = FileIO(self.folder / self.name_file(part.file))
        except FileNotFoundError:
            if self.layout.fill_value is None:
                raise
            return None
        except OSError as error:
            if error.errno == errno.EMFILE:
                raise OSError(
                    f"{self.folder} cannot be read because this process has too many open files: close some, "
                    "or raise the limit (ulimit -n)."
                ) from error
            raise
        if hasattr(os, "posix_fadvise"):  # the requested ranges are known: disable automatic read-ahead
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        return file

    def _read_chunks(self, file: FileIO, part: FilePart, block: Array) -> Array | None:
        """Decode the chunks of a part into a block; return the cells instead if they are from one chunk."""
        index = self._read_index(file, part)
        shape = self.layout.stored_order(*self.layout.chunk)
        for piece in split_by_chunk(part.lines, shape[0]):
            offset, length = index[piece.chunk].tolist()
            if offset == ABSENT:
                block[piece.place] = self._fill_value(file)
                continue
            data: Any = self._read_into(file, offset, np.empty(length, np.uint8))
            try:
                for decode in self.layout.decoders:
                    data = decode(data)
                chunk = np.frombuffer(data, self.layout.dtype).reshape(shape)
            except DECODING_ERRORS as error:
                raise _damaged(file, str(error)) from error
            values = select(chunk, piece.inside, part.cells)
            if values.shape == block.shape and values.dtype == block.dtype:
                return values
            block[piece.place] = values
        return None

    def _read_ranges(self, file: FileIO, part: FilePart, block: Array) -> None:
        """Read uncompressed cells: directly into the block if a byte range holds nothing else."""
        itemsize = self.layout.dtype.itemsize
        pitch = self.layout.stored_order(*self.layout.chunk)[1] * itemsize
        first, last = _bounds(part.cells)
        for start, stop, lines, place in self._find_ranges(file, part):
            target = block[place]
            if start == ABSENT:
                target[...] = self._fill_value(file)
            elif target.nbytes == stop - start and target.flags.c_contiguous and self.layout.dtype.isnative:
                self._read_into(file, start, target)
            else:
                data = self._read_into(file, start, np.empty((stop - start) // itemsize, self.layout.dtype))
                shape = int(lines[-1]) + 1, last - first
                values = np.lib.stride_tricks.as_strided(data, shape, (pitch, itemsize))
                if len(lines) < len(values):
                    values = values[lines]
                target[...] = values if isinstance(part.cells, slice) else values[:, part.cells - first]
                del data, values  # before the next ones are allocated

    def _find_ranges(self, file: FileIO, part: FilePart) -> Iterator[tuple[int, int, Indices, slice]]:
        """Byte ranges that hold the cells of a part; ranges with a small gap between them are merged.

        Each one is a start, a stop, the numbers of its lines from the first one, and their place in a block.
        """
        height, width = self.layout.stored_order(*self.layout.chunk)
        itemsize = self.layout.dtype.itemsize
        pitch = width * itemsize  # bytes of a line
        first, last = _bounds(part.cells)
        length = (last - first) * itemsize
        index = self._read_index(file, part)
        if isinstance(part.lines, slice):
            n, (chunk, line) = part.lines.stop - part.lines.start, divmod(part.lines.start, height)
            if line + n <= height and pitch - length <= MAX_GAP and index[chunk, 0] != ABSENT:
                start = int(index[chunk, 0]) + line * pitch + first * itemsize  # the common case: one range
                yield start, start + (n - 1) * pitch + length, np.arange(n), slice(0, n)
                return
        lines = np.arange(part.lines.start, part.lines.stop) if isinstance(part.lines, slice) else part.lines
        offsets = index[lines // height, 0]
        absent = offsets == ABSENT
        starts = np.where(absent, ABSENT, offsets + lines % height * pitch + first * itemsize)
        steps = np.diff(starts)
        apart = (steps < length) | (steps - length > MAX_GAP) | (steps % pitch != 0)
        edges = np.flatnonzero(apart & ~(absent[1:] & absent[:-1])) + 1
        for a, b in pairwise([0, *edges.tolist(), len(lines)]):
            start = int(starts[a])
            yield start, int(starts[b - 1]) + length, (starts[a:b] - start) // pitch, slice(a, b)

    def _read_index(self, file: FileIO, part: FilePart) -> Array:
        """Offset and length of the chunks of a file that hold the lines of a part."""
        if not self.layout.sharded:
            index = np.array([[[0, os.fstat(file.fileno()).st_size]]])
        elif self.layout.packed:
            index = self._packed_index(part.file)
        else:
            if part.file not in self._indices:
                self._indices[part.file] = self._read_shard_index(file)
            index = self._indices[part.file]
        return index[part.chunk] if self.layout.by_column else index[:, part.chunk]

    def _packed_index(self, file: tuple[int, int]) -> Array:
        """The index of a shard whose chunks are stored in order; chunks outside the array are not stored."""
        shape, chunk, shard = self.layout.shape, self.layout.chunk, self.layout.file
        size = self._chunk_bytes
        down, across = (-(-min(shard[k], shape[k] - file[k] * shard[k]) // chunk[k]) for k in (0, 1))
        offsets = np.arange(0, down * across * size, size).reshape(down, across)
        return np.stack([offsets, np.full_like(offsets, size)], axis=-1)

    def _read_shard_index(self, file: FileIO) -> Array:
        grid = self.layout.file[0] // self.layout.chunk[0], self.layout.file[1] // self.layout.chunk[1]
        length = 16 * grid[0] * grid[1] + 4 * self.layout.index_has_checksum
        start = os.fstat(file.fileno()).st_size - length if self.layout.index_at_end else 0
        if start < 0:
            raise _damaged(file, "shorter than the index of its chunks")
        data: Any = self._read_into(file, start, np.empty(length, np.uint8))
        try:
            data = _strip_checksum(data) if self.layout.index_has_checksum else data
        except ValueError as error:
            raise _damaged(file, f"index of its chunks: {error}") from error
        index = np.frombuffer(data, "<u8").reshape(*grid, 2).astype(np.int64)  # 2**64 - 1 becomes ABSENT
        offsets, lengths = index[..., 0], index[..., 1]
        size = os.fstat(file.fileno()).st_size
        valid = (offsets >= 0) & (lengths >= 0) & (lengths <= size) & (offsets <= size - lengths)
        if not self.layout.decoders:
            valid &= lengths == self._chunk_bytes
        if not (valid | (offsets == ABSENT)).all():
            raise _damaged(file, "index of its chunks: a chunk is outside the file")
        return index

    @property
    def _chunk_bytes(self) -> int:
        """Bytes of an uncompressed chunk."""
        return self.layout.chunk[0] * self.layout.chunk[1] * self.layout.dtype.itemsize

    def _fill_value(self, file: FileIO) -> Any:
        if self.layout.fill_value is None:
            raise _damaged(file, "a chunk is missing")
        return self.layout.fill_value

    def _read_into(self, file: FileIO, start: int, cells: Array) -> Array:
        """Fill a contiguous array from a file, beginning at an offset."""
        data = cells.view(np.uint8).reshape(-1).data
        file.seek(start)
        while data:
            size = file.readinto(data)
            if not size:
                raise _damaged(file, "it ends too early")
            data = data[size:]
        return cells


def _bounds(index: slice | Indices) -> tuple[int, int]:
    if isinstance(index, slice):
        return index.start, index.stop
    return int(index[0]), int(index[-1]) + 1


def _damaged(file: FileIO, reason: str) -> ValueError:
    return ValueError(f"{file.name} is damaged ({reason}): write the store again.")
