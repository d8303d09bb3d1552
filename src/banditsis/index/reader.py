"""Indexes: folders of plain ``.npy`` files with rows in random order; see :doc:`/indexes`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows
from banditsis.formats.opened import OpenedMatrix, ReadOptions
from banditsis.index.folder import ANNOTATION, BITS, CELLS, MOMENTS, Folder
from banditsis.index.sketch import Part, Sketch, make_blocks
from banditsis.sources.base import Source, SumContext
from banditsis.sources.blocks import BlockSource, split_rows
from banditsis.statistics.moments import Weights

BLOCK = 1 << 13  # rows that a worker of a cluster reads at least


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
        self.parts = [part for where in folders for part in Folder(where).parts()]
        self.cells = [part.open_array(CELLS, part.record.shape) for part in self.parts]
        first, sizes = self.parts[0], [cells.shape[0] for cells in self.cells]
        self._edges = np.cumsum([0, *sizes])
        self.shape = sum(sizes), first.record.shape[1]
        self.stratum_sizes = tuple(sizes) if len(sizes) > 1 else ()
        self.dtype, self.chunk = self.cells[0].dtype, self.cells[0].chunk
        names = [
            part.read_vector("names").tolist() if part.record.find("names") else None for part in self.parts
        ]
        self.names = names[0]
        for part, cells, found in zip(self.parts, self.cells, names, strict=True):
            if (found, cells.shape[1], cells.dtype) != (self.names, self.shape[1], self.dtype):
                raise ValueError(
                    f"{part.where} and {first.where} have different features: their names, number and type "
                    "must be the same, in the same order."
                )
        annotations = [Path(name).stem for name in first.record.files if name.startswith(ANNOTATION)]
        self.annotations = {name.removeprefix(ANNOTATION): first.read_vector(name) for name in annotations}

    @cached_property
    def original_rows(self) -> Indices:
        """Row number of each row in the original data, and in those that were appended to them."""
        starts = np.repeat(self._edges[:-1], np.diff(self._edges))
        found = np.concatenate([part.read_vector("original_rows") for part in self.parts])
        rows = np.asarray(found + starts, np.intp)
        if not np.array_equal(np.sort(rows), np.arange(len(rows))):
            raise self.parts[0].error("original_rows does not have every row once")
        return rows

    @cached_property
    def sketch(self) -> Sketch:
        """The bits of all features."""
        parts = []
        for part in self.parts:
            (n, p), blocks = part.record.shape, make_blocks(part.record.shape[0])
            bits = part.open_array(BITS, (blocks[-1].words.stop, p), "<u8")
            moments = part.open_array(MOMENTS, (blocks[-1].moments.stop, p), "<f8")
            parts.append(Part(bits, moments, part.record.seed, n))
        return Sketch(parts)

    @property
    def target(self) -> str | None:
        """Name of the target; None if some rows have none, or another one."""
        targets = {part.record.target for part in self.parts}
        return targets.pop() if len(targets) == 1 else None

    @property
    def has_ids(self) -> bool:
        """Whether all rows have ids."""
        return all(part.record.find("ids") for part in self.parts)

    @cached_property
    def row_ids(self) -> Array | None:
        """The ids of the rows in the order of the original data; None if some rows have none."""
        return self.read_vector("ids") if self.has_ids else None

    def read_vector(self, name: str) -> Array:
        """Read ids or the target in the order of the original data."""
        return self.to_original(np.concatenate([part.read_vector(name) for part in self.parts]))

    def row_number(self, row: int) -> int:
        return int(self.original_rows[row])

    def block_edges(self) -> Indices:
        """Where blocks of rows begin that workers of a cluster may read, and where the last one ends."""
        return np.append(np.arange(0, self.shape[0], BLOCK), self.shape[0])

    def _split(self, rows: Rows) -> list[tuple[Source, Rows]]:
        """The cells of the folders that have some rows, and the numbers of the rows in each."""
        found = split_rows(rows, self._edges) or [(0, rows)]
        return [(self.cells[k], some) for k, some in found]

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        blocks = [cells.read(some, columns) for cells, some in self._split(rows)]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        parts = [cells.read_columns(some, columns) for cells, some in self._split(rows)]
        return parts[0] if len(parts) == 1 else list(map(np.concatenate, zip(*parts, strict=True)))

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        of_parts = self.cells[0].add_sums if len(self.cells) == 1 else super().add_sums
        of_parts(rows, edges, columns, weights, context)

    def release(self) -> None:
        for cells in self.cells:
            cells.release()

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        shares = [cells.shape[0] / self.shape[0] for cells in self.cells]
        return sum(
            cells.bytes_touched(round(n_rows * share), n_columns, scattered=scattered)
            for cells, share in zip(self.cells, shares, strict=True)
        )


def open_index(path: Path | str | Sequence[Path | str], options: ReadOptions) -> OpenedMatrix:
    """Open an index, or several of the same features as one, with target and ids."""
    paths = [path] if isinstance(path, (str, Path)) else path
    source = IndexSource(*paths)
    stored = {} if source.target is None else {source.target: partial(source.read_vector, "target")}
    ids = partial(source.read_vector, "ids") if source.has_ids else None
    return OpenedMatrix(source, " and ".join(map(str, paths)), options, ids, stored)
