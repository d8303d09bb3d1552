"""Blocks of a Zarr array, chunk by chunk.

The library hands every chunk through one event loop and copies it twice. Chunks in local files with the usual
codecs are read and decoded here instead, in the thread that asks; all other arrays go through the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Columns, Indices, Rows, count_rows
from banditsis.formats.codecs import Layout, find_layout, without_checksum
from banditsis.sources.array import ArraySource

WORTH_A_READ = 1 << 14  # bytes between two lines that are rather skipped than read
ABSENT = np.uint64(2**64 - 1)  # in the index of a shard


class Piece(NamedTuple):
    """Some rows (or columns) within one row (or column) of chunks, and their place in the block."""

    chunk: int
    inside: slice | Indices
    place: slice


class ChunkReader:
    """Reads dense blocks of a two-dimensional Zarr array; several threads may do so at once.

    Parameters
    ----------
    array : zarr.Array
        Two-dimensional, of numbers.

    Attributes
    ----------
    chunk : tuple of int
        Rows and columns that are decoded together: in a sharded array those of the inner chunks.

    Examples
    --------
    >>> import zarr
    >>> array = zarr.create_array({}, shape=(6, 4), chunks=(3, 2), dtype="f4")
    >>> array[:] = np.arange(24.0).reshape(6, 4)
    >>> ChunkReader(array).read(np.array([1, 5]), slice(1, 4))
    array([[ 5.,  6.,  7.],
           [21., 22., 23.]], dtype=float32)
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape: tuple[int, int] = tuple(array.shape)
        self.dtype = np.dtype(array.dtype).newbyteorder("=")
        self.chunk: tuple[int, int] = tuple(array.chunks)
        self.folder = _local_folder(array)
        self.layout = None if self.folder is None else find_layout(array)
        self._indices: dict[tuple[int, int], Array | None] = {}

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        """Some rows × columns; both sorted."""
        if columns is None:
            columns = slice(0, self.shape[1])
        if self.layout is None:
            return self._read_by_library(rows, columns)
        layout = self.layout
        return assemble(rows, columns, self.chunk, self.dtype, lambda i, j: self._part(layout, i, j))

    def _read_by_library(self, rows: Rows, columns: Rows) -> Array:
        try:
            block = self.array.oindex[rows, columns]
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(f"a chunk of {self.array.store_path} cannot be read: {error}") from error
        return np.asarray(block, self.dtype)

    def _part(self, layout: Layout, row: Piece, column: Piece) -> Array:
        """The cells of one chunk that are asked for."""
        found = self._find(layout, row.chunk, column.chunk)
        part = None
        if found is not None and layout.decoders:
            chunk = self._decode(layout, *found)
            part = None if chunk is None else pick(chunk, row.inside, column.inside)
        elif found is not None:
            part = self._read_lines(layout, found[0], found[1], row.inside, column.inside)
        if part is None:
            shape = row.place.stop - row.place.start, column.place.stop - column.place.start
            return np.full(shape, self.array.fill_value or 0, self.dtype)
        return part if part.dtype == self.dtype else part.astype(self.dtype)

    def _find(self, layout: Layout, i: int, j: int) -> tuple[Path, int, int | None] | None:
        """File, offset and length (None: to the end) of a chunk; None if it was never written."""
        assert self.folder is not None
        down, across = layout.per_file
        file = i // down, j // across
        path = self.folder / self.array.metadata.encode_chunk_key(file)
        if not layout.sharded:
            return path, 0, None
        index = self._index(layout, path, file)
        if index is None or index[i % down, j % across, 0] == ABSENT:
            return None
        start, length = index[i % down, j % across].tolist()
        return path, start, length

    def _decode(self, layout: Layout, path: Path, start: int, length: int | None) -> Array | None:
        """A whole chunk, or None if there is no such file."""
        data: Any = _read_bytes(path, start, length)
        if data is None:
            return None
        height, width = layout.chunk
        try:
            for decode in layout.decoders:
                data = decode(data)
            cells = np.frombuffer(data, layout.dtype, count=height * width)
        except (RuntimeError, ValueError, OSError) as error:
            raise _damaged(path, str(error)) from error
        return cells.reshape(width, height).T if layout.by_column else cells.reshape(height, width)

    def _read_lines(
        self, layout: Layout, path: Path, start: int, rows: slice | Indices, columns: slice | Indices
    ) -> Array | None:
        """Cells of a chunk that is stored as it is: only the lines that are asked for are read."""
        lines, length = (columns, layout.chunk[0]) if layout.by_column else (rows, layout.chunk[1])
        size = length * layout.dtype.itemsize
        parts = []
        for span in _spans(lines, max(1, WORTH_A_READ // size)):
            first, last = _ends(span)
            data = _read_bytes(path, start + first * size, (last - first) * size)
            if data is None:
                return None
            part = data.view(layout.dtype).reshape(last - first, length)
            parts.append(part if isinstance(span, slice) else part[span - first])
        block = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return block.T[rows] if layout.by_column else block[:, columns]

    def _index(self, layout: Layout, path: Path, shard: tuple[int, int]) -> Array | None:
        """Offset and length of every chunk in a shard, read once."""
        if shard in self._indices:
            return self._indices[shard]
        length = 16 * layout.per_file[0] * layout.per_file[1] + 4 * layout.index_checked
        data = _read_bytes(path, -length if layout.index_at_end else 0, length)
        index = None
        if data is not None:
            try:
                table = without_checksum(data) if layout.index_checked else data
            except ValueError as error:
                raise _damaged(path, f"the index of the shard: {error}") from error
            index = np.frombuffer(table, "<u8").reshape(*layout.per_file, 2)
        self._indices[shard] = index
        return index


def assemble(
    rows: Rows, columns: Rows, chunk: tuple[int, int], dtype: np.dtype, part: Callable[[Piece, Piece], Array]
) -> Array:
    """Put a block together from parts of chunks; a part that is all of it is not copied."""
    down, across = list(pieces(rows, chunk[0])), list(pieces(columns, chunk[1]))
    if len(down) == len(across) == 1:
        return part(down[0], across[0])
    block = np.empty((count_rows(rows), count_rows(columns)), dtype)
    for row in down:
        for column in across:
            block[row.place, column.place] = part(row, column)
    return block


def pieces(index: Rows, length: int) -> Iterator[Piece]:
    """Cut sorted rows (or columns) where chunks of a length end.

    Examples
    --------
    >>> [(piece.chunk, piece.inside, piece.place) for piece in pieces(slice(2, 5), 3)]
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
            run = int(inside[-1] - inside[0]) == b - a - 1  # neighbours: a slice costs no copy
            first = int(inside[0])
            yield Piece(chunk, slice(first, first + b - a) if run else inside, slice(a, b))


def _ends(inside: slice | Indices) -> tuple[int, int]:
    if isinstance(inside, slice):
        return inside.start, inside.stop
    return int(inside[0]), int(inside[-1]) + 1


def _spans(inside: slice | Indices, gap: int) -> list[Any]:
    """Cut a list where more than ``gap`` indices are left out."""
    if isinstance(inside, slice):
        return [inside]
    return np.split(inside, np.flatnonzero(np.diff(inside) > gap) + 1)


def pick(chunk: Array, rows: slice | Indices, columns: slice | Indices) -> Array:
    if isinstance(rows, slice) or isinstance(columns, slice):
        return chunk[rows, columns]
    return ArraySource(chunk).read(rows, columns)


def _read_bytes(path: Path, start: int, length: int | None) -> Array | None:
    """Some bytes of a file, from its end where ``start`` is negative; None if there is no such file."""
    if not path.exists():
        return None
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, 2)
        begin = start if start >= 0 else size + start
        wanted = size - begin if length is None else length
        if begin < 0 or begin + wanted > size:
            raise _damaged(path, f"it has {size:,} bytes and should have at least {abs(start) + wanted:,}")
        data = np.empty(wanted, np.uint8)
        file.seek(begin)
        got = file.readinto(data.data)
        if got != wanted:
            raise _damaged(path, f"{got:,} bytes could be read of {wanted:,}")
    return data


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(f"{path} is damaged ({why}): write the store again.")


def _local_folder(array: Any) -> Path | None:
    """The folder of an array that lies in local files."""
    from zarr.storage import LocalStore

    return Path(array.store.root) / array.path if isinstance(array.store, LocalStore) else None
