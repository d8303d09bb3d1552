"""Prepared folders, written by ``banditsis shuffle``: plain ``.npy`` files with rows in random order.

``columns.npy`` has all rows, column by column. ``head.npy`` has the first rows of each stratum again, row by
row: every plan begins with a few times √n rows of all features. Numbers of rows, the target and the like are
further ``.npy`` files, text is a list in a ``.json`` file, and ``meta.json`` describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows, as_indices, as_slice, count_rows
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions
from banditsis.index.folder import ANNOTATION, CELLS, HEAD, Folder, read_record, read_vector
from banditsis.index.remote import RemoteArray
from banditsis.sources.base import Calibration, Source, SumContext, calibrate, pilot_rows, summing_dtype
from banditsis.sources.memmap import MappedSource
from banditsis.statistics.weights import Weights

BLOCK = 1 << 13  # rows that a worker of a cluster reads at least


class ShuffledSource(Source):
    """A prepared folder: a source of all rows, by column, and one of the first rows of each stratum, by row.

    Parameters
    ----------
    where : path or URL
        The folder.
    """

    shuffled = True
    by_row = False

    def __init__(self, where: object) -> None:
        self.folder, self.record = Folder.at(where), read_record(where)
        record = self.record
        self._cells, self._head = (_open_array(self.folder, name) for name in (CELLS, HEAD))
        shapes = self._cells.shape, self._head.shape
        if shapes != (record.shape, (sum(record.head_sizes), record.shape[1])):
            raise self.folder.error(f"arrays of shapes {shapes}")
        self.shape, self.dtype, self.chunk = record.shape, self._cells.dtype, self._cells.chunk
        self.names = self.read_vector("names").tolist() if record.find("names") else None
        self.stratum_sizes = record.stratum_sizes
        self.annotations = {
            Path(name).stem.removeprefix(ANNOTATION): self.read_vector(Path(name).stem)
            for name in record.files
            if name.startswith(ANNOTATION)
        }

    @cached_property
    def original_rows(self) -> Indices:
        """Row number of each row in the original data."""
        return self.read_vector("original_rows").astype(np.intp)

    @cached_property
    def _head_rows(self) -> Indices:
        """The rows that the head has, in order."""
        starts = np.cumsum([0, *self.stratum_sizes[:-1]])
        heads = zip(starts, self.record.head_sizes, strict=True)
        return np.concatenate([np.arange(start, start + size) for start, size in heads])

    def read_vector(self, name: str) -> Array:
        """Read names, ids, target, original_rows or an annotation."""
        return read_vector(self.folder, self.record, name)

    def row_number(self, row: int) -> int:
        return int(self.original_rows[row])

    def block_edges(self) -> Indices:
        """Where blocks of rows begin that workers of a cluster may read, and where the last one ends."""
        return np.append(np.arange(0, self.shape[0], BLOCK), self.shape[0])

    def _place(self, rows: Rows, columns: Columns | slice) -> tuple[Source, Rows]:
        """The source that has some cells, and the numbers of the rows in it."""
        n_columns = self.shape[1] if columns is None else count_rows(columns)
        if 2 * n_columns >= self.shape[1] and count_rows(rows) <= len(self._head_rows):
            wanted = as_indices(rows)
            found = np.minimum(np.searchsorted(self._head_rows, wanted), len(self._head_rows) - 1)
            if np.array_equal(self._head_rows[found], wanted):
                return self._head, as_slice(found)
        return self._cells, rows  # the columns have fewer bytes than the rows, or the head lacks some

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        part, rows = self._place(rows, columns)
        return part.read(rows, columns)

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        return self._cells.read_columns(rows, columns)

    def calibrate(self, rows: Rows) -> Calibration:
        return calibrate(self, rows, pilot_rows(self, rows), summing_dtype(self.dtype))

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        part, rows = self._place(rows, columns)
        part.add_sums(rows, edges, columns, weights, context)

    def release(self) -> None:
        self._cells.release()

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return self._cells.bytes_touched(n_rows, n_columns, scattered=scattered)


def _open_array(folder: Folder, name: str) -> Source:
    source: Source
    try:
        if folder.remote is not None:
            source = RemoteArray(folder.remote, folder.path(name))
        else:
            source = MappedSource(np.load(folder.path(name), mmap_mode="r", allow_pickle=False))
        if len(source.shape) != 2 or source.dtype.kind not in "fiub":
            raise ValueError(f"{name} has {len(source.shape)} dimensions of {source.dtype}")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise folder.error(error) from error
    return source


def open_shuffled(path: Path | str, options: ReadOptions) -> OpenedMatrix:
    """Open a folder that ``banditsis shuffle`` wrote, with its target and ids."""
    source = ShuffledSource(path)
    target = source.record.target
    stored = {} if target is None else {target: lambda: source.read_vector("target")}
    ids = (lambda: source.read_vector("ids")) if source.record.find("ids") else None
    return OpenedMatrix(source, path, options, ids, stored)
