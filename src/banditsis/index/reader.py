"""Indexes: folders of plain ``.npy`` files with rows in random order; see :doc:`/indexes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import (
    Array,
    Columns,
    Indices,
    Rows,
    as_indices,
    count_rows,
    split_at,
)
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions
from banditsis.index.folder import ANNOTATION, BITS, CELLS, MOMENTS, Folder, read_record, read_vector
from banditsis.index.sketch import N_MOMENTS, WORD, Part, Sketch, make_blocks
from banditsis.sources.base import Source, SumContext
from banditsis.sources.blocks import BlockSource, shift_rows
from banditsis.sources.memmap import MappedSource
from banditsis.statistics.moments import Weights

BLOCK = 1 << 13  # rows that a worker of a cluster reads at least
MAX_GAP = 1 << 16  # bytes between two ranges that are read, because another request would take longer


class StoredRows:
    """The cells of one folder, by column."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self.record = folder, read_record(folder)
        self.cells = _open_array(folder, CELLS)
        if self.cells.shape != self.record.shape:
            raise folder.error(f"{CELLS} has the shape {self.cells.shape}")

    def read_vector(self, name: str) -> Array:
        """Read names, ids, target, original_rows or an annotation."""
        return read_vector(self.folder, self.record, name)

    def bits(self) -> Part:
        """The bits of the cells."""
        (n, p), blocks = self.record.shape, make_blocks(self.record.shape[0])
        bits, moments = (_open_array(self.folder, name) for name in (BITS, MOMENTS))
        n_words = blocks[-1].word + blocks[-1].size // WORD
        shapes, kinds = (bits.shape, moments.shape), (bits.dtype.str, moments.dtype.str)
        if shapes != ((n_words, p), (N_MOMENTS * len(blocks), p)) or kinds != ("<u8", "<f8"):
            raise self.folder.error(f"bits and moments of shapes {shapes} and kinds {kinds}")
        return Part(bits, moments, self.record.seed, n)


class IndexSource(BlockSource):
    """The rows of an index and of those appended to it, or of several indexes, one after the other.

    Parameters
    ----------
    folders : sequence of path or URL
        Indexes of the same features.
    """

    shuffled = True
    by_row = False
    block_rows = 1

    def __init__(self, *folders: object) -> None:
        self.parts = [StoredRows(part) for where in folders for part in Folder.at(where).parts()]
        first = self.parts[0]
        self._edges = np.cumsum([0, *(part.record.shape[0] for part in self.parts)])
        self.shape = int(self._edges[-1]), first.record.shape[1]
        self.dtype, self.chunk = first.cells.dtype, first.cells.chunk
        names = [
            part.read_vector("names").tolist() if part.record.find("names") else None for part in self.parts
        ]
        for part, found in zip(self.parts, names, strict=True):
            if (found, part.record.shape[1], part.cells.dtype) != (names[0], self.shape[1], self.dtype):
                raise ValueError(
                    f"{part.folder.where} and {first.folder.where} have different features: their names, "
                    "number and type must be the same, in the same order."
                )
        self.names = names[0]
        sizes = [part.record.shape[0] for part in self.parts]
        self.stratum_sizes = tuple(sizes) if len(sizes) > 1 else ()
        self.annotations = {
            Path(name).stem.removeprefix(ANNOTATION): first.read_vector(Path(name).stem)
            for name in first.record.files
            if name.startswith(ANNOTATION)
        }

    @cached_property
    def original_rows(self) -> Indices:
        """Row number of each row in the original data, and in those that were appended to them."""
        starts = np.repeat(self._edges[:-1], np.diff(self._edges))
        rows = np.asarray(self.read_vector("original_rows") + starts, np.intp)
        if not np.array_equal(np.sort(rows), np.arange(len(rows))):
            raise self.parts[0].folder.error("original_rows does not have every row once")
        return rows

    @cached_property
    def sketch(self) -> Sketch:
        """The bits of all features."""
        return Sketch([part.bits() for part in self.parts])

    @property
    def target(self) -> str | None:
        """Name of the target; None if some rows have none, or another one."""
        targets = {part.record.target for part in self.parts}
        return targets.pop() if len(targets) == 1 else None

    def has(self, name: str) -> bool:
        """Whether all rows have ids."""
        return all(part.record.find(name) for part in self.parts)

    @cached_property
    def row_ids(self) -> Array | None:
        """The ids of the rows in the order of the original data; None if some rows have none."""
        return self.to_original(self.read_vector("ids")) if self.has("ids") else None

    def read_vector(self, name: str) -> Array:
        """Read ids, target or original_rows, as rows are stored."""
        return np.concatenate([part.read_vector(name) for part in self.parts])

    def row_number(self, row: int) -> int:
        return int(self.original_rows[row])

    def block_edges(self) -> Indices:
        """Where blocks of rows begin that workers of a cluster may read, and where the last one ends."""
        return np.append(np.arange(0, self.shape[0], BLOCK), self.shape[0])

    def _split(self, rows: Rows) -> Iterator[tuple[StoredRows, Rows]]:
        """The folders that have some rows, and the numbers of the rows in each."""
        if len(self.parts) == 1 or not count_rows(rows):
            yield self.parts[0], rows
            return
        for k, some in split_at(rows, self._edges):
            yield self.parts[k], shift_rows(some, -int(self._edges[k]))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        blocks = [part.cells.read(some, columns) for part, some in self._split(rows)]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        parts = [part.cells.read_columns(some, columns) for part, some in self._split(rows)]
        return (
            parts[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
        )

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        of_parts = self.parts[0].cells.add_sums if len(self.parts) == 1 else super().add_sums
        of_parts(rows, edges, columns, weights, context)

    def release(self) -> None:
        for part in self.parts:
            part.cells.release()

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        shares = np.diff(self._edges) / self.shape[0]
        return sum(
            part.cells.bytes_touched(round(n_rows * share), n_columns, scattered=scattered)
            for part, share in zip(self.parts, shares.tolist(), strict=True)
        )


class RemoteArray(BlockSource):
    """A two-dimensional ``.npy`` file in a file system of fsspec, of which byte ranges are read."""

    def __init__(self, files: Any, url: str) -> None:
        self.files, self.url = files, url
        with files.open(url, "rb", block_size=1 << 12) as file:
            np.lib.format.read_magic(file)
            (n, p), by_column, self.dtype = np.lib.format.read_array_header_1_0(file)
            self._offset = file.tell()
        self.shape, self.by_row = (n, p), not by_column
        self.chunk = (n, 1) if by_column else (1, p)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        columns = slice(0, self.shape[1]) if columns is None else columns
        lines, cells = map(as_indices, (rows, columns) if self.by_row else (columns, rows))
        block = np.empty((len(lines), len(cells)), self.dtype)
        if block.size:
            pitch, first, last = self.shape[int(bool(self.by_row))] * self.dtype.itemsize, cells[0], cells[-1]
            starts = self._offset + lines * pitch + first * self.dtype.itemsize
            stops = starts + (last + 1 - first) * self.dtype.itemsize
            # Lines that are close together are one request.
            edges = np.flatnonzero(starts[1:] - stops[:-1] > MAX_GAP) + 1
            begin, end = starts[np.append(0, edges)], stops[np.append(edges - 1, len(lines) - 1)]
            urls = [self.url] * len(begin)
            parts = self.files.cat_ranges(urls, begin.tolist(), end.tolist(), on_error="raise")
            for data, group in zip(parts, np.split(np.arange(len(lines)), edges), strict=True):
                for line in group:
                    at = int(starts[line] - starts[group[0]])
                    block[line] = np.frombuffer(data, self.dtype, last + 1 - first, at)[cells - first]
        return block if self.by_row else block.T


def _open_array(folder: Folder, name: str) -> Source:
    source: Source
    try:
        if folder.remote is not None:
            source = RemoteArray(folder.remote, folder.path(name))
        else:
            source = MappedSource(np.load(folder.path(name), mmap_mode="r", allow_pickle=False))
        if len(source.shape) != 2 or source.dtype.kind not in "fiub":
            raise ValueError(f"{name} has {len(source.shape)} dimensions of {source.dtype}")
    except Exception as error:  # NumPy reads the header as Python
        raise folder.error(error) from error
    return source


def open_index(path: Path | str | Sequence[Path | str], options: ReadOptions) -> OpenedMatrix:
    """Open an index, or several of the same features as one, with target and ids."""
    paths = [path] if isinstance(path, (str, Path)) else path
    source = IndexSource(*paths)

    def read(name: str) -> Array:
        return source.to_original(source.read_vector(name))

    stored = {} if source.target is None else {source.target: lambda: read("target")}
    ids = (lambda: read("ids")) if source.has("ids") else None
    return OpenedMatrix(source, " and ".join(map(str, paths)), options, ids, stored)
