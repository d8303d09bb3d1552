"""Prepared folders, written by ``banditsis shuffle``: plain ``.npy`` files with rows in random order.

``columns.npy`` has all rows, column by column. ``head.npy`` has the first rows of each stratum again, row by
row: every plan begins with about 2√n rows of all features. Numbers of rows, the target and the like are
further ``.npy`` files, text is a list in a ``.json`` file, and ``meta.json`` describes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows, count_rows, split_at, take
from banditsis.formats.opened import OpenedMatrix
from banditsis.formats.options import ReadOptions
from banditsis.index.folder import ANNOTATION, CELLS, HEAD, Folder, invalid, read_record, read_vector
from banditsis.index.remote import RemoteArray
from banditsis.sources.base import (
    Calibration,
    Source,
    SumContext,
    calibrate,
    pilot_rows,
    split_groups,
    summing_dtype,
)
from banditsis.sources.blocks import shift_rows
from banditsis.sources.memmap import PAGE, MappedSource
from banditsis.sources.views import ColumnSubset, RowSubset
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
            raise invalid(self.folder, f"arrays of shapes {shapes}")
        self.shape, self.dtype, self.chunk = record.shape, self._cells.dtype, self._cells.chunk
        self.names = self.read_vector("names").tolist() if record.find("names") else None
        self.stratum_sizes = record.stratum_sizes
        self.annotations = {
            Path(name).stem.removeprefix(ANNOTATION): self.read_vector(Path(name).stem)
            for name in record.files
            if name.startswith(ANNOTATION)
        }
        starts = np.cumsum([0, *self.stratum_sizes[:-1]])
        # The first rows of a stratum, its other rows, the first rows of the next stratum, …
        self._edges = np.append(np.stack([starts, starts + record.head_sizes], axis=1).ravel(), self.shape[0])
        #: What is subtracted from the number of a first row to find it in the head.
        self._shifts = (starts - np.cumsum([0, *record.head_sizes[:-1]])).tolist()

    @cached_property
    def original_rows(self) -> Indices:
        """Row number of each row in the original data."""
        return self.read_vector("original_rows").astype(np.intp)

    def read_vector(self, name: str) -> Array:
        """Read names, ids, target, original_rows or an annotation."""
        return read_vector(self.folder, self.record, name)

    def row_number(self, row: int) -> int:
        return int(self.original_rows[row])

    def block_edges(self) -> Indices:
        """Where blocks of rows begin that workers of a cluster may read, and where the last one ends."""
        return np.append(np.arange(0, self.shape[0], BLOCK), self.shape[0])

    def _split(self, rows: Rows, n_columns: int) -> Iterator[tuple[Source, Rows]]:
        """Runs of rows, one after the other, each with the source that has them."""
        if 2 * n_columns < self.shape[1]:  # the columns have fewer bytes than the rows
            yield self._cells, rows
            return
        for k, run in split_at(rows, self._edges):
            stratum, is_other = divmod(k, 2)
            yield (self._cells, run) if is_other else (self._head, shift_rows(run, -self._shifts[stratum]))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        columns = slice(0, self.shape[1]) if columns is None else columns
        blocks = [part.read(run, columns) for part, run in self._split(rows, count_rows(columns))]
        if len(blocks) == 1:
            return blocks[0]
        return np.concatenate(blocks) if blocks else np.empty((0, count_rows(columns)), self.dtype)

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        return self._cells.read_columns(rows, columns)

    def calibrate(self, rows: Rows) -> Calibration:
        return calibrate(self, rows, pilot_rows(self, rows), summing_dtype(self.dtype))

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        p = self.shape[1] if columns is None else len(columns)
        for g, group in split_groups(edges):
            out, start = context.out[g : g + 1], group.start
            for part, run in self._split(take(rows, start, group.stop), p):
                n = count_rows(run)
                run_weights = weights.part(slice(start, start + n))
                part.add_sums(run, np.array([0, n]), columns, run_weights, context._replace(out=out))
                start += n

    def release(self) -> None:
        self._cells.release()

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes of the ranges that are read, in whole pages."""
        p, itemsize = self.shape[1], self.dtype.itemsize
        if scattered:
            return self._cells.bytes_touched(n_rows, n_columns, scattered=True)
        if n_columns == p:
            return float(n_rows * p * itemsize)
        n_strata = max(1, len(self.stratum_sizes))  # a range of each
        pages = n_strata * math.ceil(n_rows * itemsize / (n_strata * PAGE))
        return float(min(n_columns * pages * PAGE, n_rows * p * itemsize))


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
        raise invalid(folder, error) from error
    return source


def stored_below(source: Source) -> ShuffledSource | None:
    """The prepared folder below a subset of rows or columns; None if the source is not from one."""
    while isinstance(source, (RowSubset, ColumnSubset)):
        source = source.base
    return source if isinstance(source, ShuffledSource) else None


def open_shuffled(path: Path | str, options: ReadOptions) -> OpenedMatrix:
    """Open a folder that ``banditsis shuffle`` wrote, with its target and ids."""
    source = ShuffledSource(path)
    target = source.record.target if source.record.find("target") else None
    stored = {} if target is None else {target: lambda: source.read_vector("target")}
    ids = (lambda: source.read_vector("ids")) if source.record.find("ids") else None
    return OpenedMatrix(source, path, options, ids, stored)
