"""SciPy sparse matrices, by row or by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise, starmap
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, StoredCells, as_indices, spread, take
from banditsis.sources.array import check_matrix
from banditsis.sources.base import (
    PILOT_ROWS,
    SAFE_EXPONENTS,
    Calibration,
    SumContext,
    Tile,
    add_tiles,
    calibrate,
    split_groups,
)
from banditsis.sources.blocks import BlockSource
from banditsis.sources.views import Subset
from banditsis.statistics.moments import Weights

STORED_PER_TILE = 1 << 18  # stored cells
MAX_PARTIAL_SUMS = 1 << 25  # that are held until they are added to the result, 256 MB
NEARLY_FULL = 0.9  # share of stored cells from which a column is shifted by its mean
ALL = np.empty(0, np.int32)  # the positions of :func:`_positions` if every index is chosen


class SparseSource(BlockSource):
    """A compressed sparse matrix, used without a copy; stored values may be NaN.

    Cells that are not stored are 0 and cost nothing, because columns are not shifted, except nearly full
    ones, which are converted to dense tiles. A matrix by column reads all its rows in any case, so its rows
    form one block. Other formats such as COO are converted to CSR once, and integers to floats; duplicates
    are summed. All indices are checked, because an index out of range would end the process.
    """

    bytes_per_thread = 4e9  # each cell is added to the sums of its column, which are scattered

    def __init__(self, matrix: Any, names: Sequence[str] | None = None) -> None:
        self.names = check_matrix(matrix.shape, matrix.dtype, names)
        self.matrix = _compress(matrix)
        self.cells = self.matrix.indptr, self.matrix.indices, self.matrix.data
        self.by_row = self.matrix.format == "csr"
        self.shape, self.dtype = self.matrix.shape, self.matrix.dtype
        # By column, reading some rows costs as much as reading all.
        self.chunk = (1, self.shape[1]) if self.by_row else (max(1, self.shape[0]), 1)
        self.density = self.matrix.nnz / max(1, self.shape[0] * self.shape[1])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        n, p = self.shape
        chosen = as_indices(slice(0, p) if columns is None else columns)
        strips, across, length = as_indices(rows), chosen, p
        if not self.by_row:
            strips, across, length = across, strips, n
        block = np.zeros((len(strips), len(across)), self.dtype)
        kernels.sparse.cells(self.cells, (strips, _positions(across, length)), block)
        return block if self.by_row else block.T

    def read_stored(self, rows: Rows, columns: Indices | slice) -> StoredCells:
        strips, chosen = as_indices(rows), as_indices(columns)
        indptr, indices, data = self.cells
        if self.by_row:
            place = np.full(chosen[-1] + 1 - chosen[0], -1, np.int32)
            place[chosen - chosen[0]] = np.arange(len(chosen), dtype=np.int32)
            given, counts = (self.cells, strips, chosen[0], place), np.zeros(len(chosen), np.intp)
            kernels.sparse.gather_columns(*given, counts, (np.empty(0, np.int32), np.empty(0, data.dtype)))
            stops = np.cumsum(counts) - counts
            out = np.empty(counts.sum(), np.int32), np.empty(counts.sum(), data.dtype)
            kernels.sparse.gather_columns(*given, stops, out)
            return StoredCells(stops - counts, stops, *out)
        if len(strips) < self.shape[0]:
            some = self.matrix[:, chosen][strips]
            return StoredCells(some.indptr[:-1], some.indptr[1:], some.indices, some.data)
        return StoredCells(indptr[chosen], indptr[chosen + 1], indices, data)

    def calibrate(self, rows: Rows) -> Calibration:
        """Shift nearly full columns, and scale columns by some of their cells."""
        pilot, (n, p), (indptr, _, data) = spread(rows, PILOT_ROWS), self.shape, self.cells
        size = np.zeros(p)
        if self.by_row:
            some = self.matrix[pilot]
            np.fmax.at(size, some.indices, np.abs(some.data))
            full = np.flatnonzero(np.bincount(some.indices, minlength=p) == len(pilot))
        else:
            counts = np.diff(indptr)
            stored = np.flatnonzero(counts)
            size[stored] = np.abs(data[indptr[stored]])  # the first of each column
            full = np.flatnonzero(counts >= NEARLY_FULL * n)
        exponent = np.frexp(np.where(np.isfinite(size), size, 1.0))[1]
        unsafe = (exponent < SAFE_EXPONENTS[8][0]) | (exponent > SAFE_EXPONENTS[8][1])
        shift = np.zeros(p)
        scale = np.where(unsafe, np.ldexp(1.0, np.clip(-exponent, -1000, 1000)), 1.0)
        if full.size:
            dense = calibrate(Subset(self, columns=full), rows, pilot, np.dtype(np.float64))
            shift[full], scale[full] = dense.shift, dense.scale
        return Calibration(shift, scale)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        chosen = as_indices(slice(0, self.shape[1]) if columns is None else columns)
        shifted = context.calibration.shift[chosen] != 0
        if not shifted.any():
            tiles = self._stored_tiles(rows, edges, chosen, weights, context)
            add_tiles(tiles, context, 8 * context.workers.n_jobs)
            return
        for some, add_sums in ((shifted, super().add_sums), (~shifted, self.add_sums)):
            if some.any():
                out = np.zeros((*context.out.shape[:2], np.count_nonzero(some)))
                add_sums(rows, edges, chosen[some], weights, context._replace(out=out))
                context.out[..., some] += out

    def _stored_tiles(
        self, rows: Rows, edges: Indices, columns: Indices, weights: Weights, context: SumContext
    ) -> Iterator[Tile]:
        """Tiles of the stored cells of columns that are not shifted: of rows, or of columns."""
        scale = context.calibration.scale[columns]
        positions = _positions(columns, self.shape[1]) if self.by_row else ALL
        for g, group in split_groups(edges):
            some, w = as_indices(take(rows, group.start, group.stop)), weights.part(group)
            out = context.out[g : g + 1]
            if self.by_row:
                for tile in self._cut_rows(some, out.size):
                    add = partial(self._add_stored, some[tile], scale, positions, w.part(tile))
                    yield Tile(tile.stop - tile.start, out, slice(0, len(scale)), add)
                continue
            positions = _positions(some, self.shape[0])
            for tile in self._cut_columns(columns):
                add = partial(self._add_stored, columns[tile], scale[tile], positions, w)
                yield Tile(len(some), out, tile, add)

    def _cut_columns(self, columns: Indices) -> Iterator[slice]:
        """Cut columns into tiles with about the same number of stored cells."""
        indptr = self.cells[0]
        cost = np.cumsum(indptr[columns + 1] - indptr[columns] + 16)  # a column has a cost of its own
        cuts = np.searchsorted(cost, np.arange(STORED_PER_TILE, cost[-1], STORED_PER_TILE))
        return starmap(slice, pairwise(np.unique([0, *cuts, len(columns)]).tolist()))

    def _cut_rows(self, rows: Indices, n_sums: int) -> Iterator[slice]:
        """Cut rows into few tiles: each has its own sums, which have to be cleared and added up."""
        indptr = self.cells[0]
        worthwhile = int((indptr[rows + 1] - indptr[rows]).sum()) // (4 * n_sums + STORED_PER_TILE)
        n_tiles = max(1, min(16, worthwhile, MAX_PARTIAL_SUMS // n_sums))
        return starmap(slice, pairwise(np.linspace(0, len(rows), n_tiles + 1).astype(int).tolist()))

    def _add_stored(
        self, strips: Indices, scale: Floats, positions: Array, w: Weights, out: Floats, start: int
    ) -> None:
        """Add the sums of the stored cells of some rows, or columns if the matrix is stored by column."""
        sums = np.zeros((len(scale), w.n_lines))  # the sums of a column are neighbours in memory
        linear, v, presence = w.arrays
        given: tuple[Any, ...]
        if w.n_linear == 1 and v is None and (scale == 1).all():
            kernel = kernels.sparse.row_moments if self.by_row else kernels.sparse.column_moments
            fourth = sums.T[-1] if w.fourth else None
            given = np.ascontiguousarray(linear[:, 0]), fourth, presence
        else:
            kernel = kernels.sparse.products
            row_weights = np.empty(0) if v is None else np.ascontiguousarray(v)
            values = np.empty((len(linear), 0)) if presence is None else presence
            weights = w.padded(np.dtype(np.float64)), row_weights, values
            given = self.by_row, scale, weights
        kernel(self.cells, (strips, positions), *given, sums)
        if presence is not None:  # of all rows; kernels subtract those of missing cells
            sums[:, w.n_linear + 2 :][:, : w.n_presence] += presence.sum(axis=0)
        out[0, :, start : start + len(scale)] += sums.T

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes of the stored cells and their indices, of whole rows or whole columns."""
        share = n_rows / max(1, self.shape[0]) if self.by_row else n_columns / max(1, self.shape[1])
        _, indices, data = self.cells
        return float(max(1.0, share * len(data)) * (data.itemsize + indices.itemsize))


def _positions(chosen: Indices, length: int) -> Array:
    """The position of each of ``length`` indices among the chosen, or -1; empty if all are chosen."""
    if len(chosen) == length:
        return ALL
    positions = np.full(length, -1, np.int32)
    positions[chosen] = np.arange(len(chosen), dtype=np.int32)
    return positions


def _compress(matrix: Any) -> Any:
    """The matrix in CSR or CSC format, as floats without duplicates; copied only if needed."""
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        elif matrix.format == "coo":
            type(matrix)((matrix.data, matrix.coords), shape=matrix.shape)
    except ValueError as error:
        raise ValueError(f"the sparse matrix is damaged ({error}): build it again.") from error
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float32 if matrix.dtype.itemsize <= 2 else np.float64)
    return matrix
