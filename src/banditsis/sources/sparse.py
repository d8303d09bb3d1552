"""SciPy sparse matrices, by row or by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import (
    MAX_EXACT_INTEGER,
    Array,
    Columns,
    Floats,
    Indices,
    Rows,
    as_indices,
    count_rows,
    is_wide_integer,
    spread,
    take,
)
from banditsis.sources.array import check_names
from banditsis.sources.base import (
    PILOT_ROWS,
    Calibration,
    SumContext,
    calibrate,
    is_unsafe,
    split_groups,
)
from banditsis.sources.blocks import BlockSource
from banditsis.sources.products import fourth_line
from banditsis.sources.tiles import Job, TileJob, add_tiles
from banditsis.sources.views import ColumnSubset
from banditsis.statistics.weights import Weights

STORED_PER_TILE = 1 << 18  # stored cells
MAX_PARTIAL_SUMS = 1 << 25  # that are held until they are added to the result, 256 MB
NEARLY_FULL = 0.9  # share of stored cells from which a column is shifted by its mean
ALL = np.empty(0, np.int32)  # the positions of :func:`_positions` if every index is chosen


class SparseSource(BlockSource):
    """A compressed sparse matrix, used without a copy.

    Cells that are not stored are 0 and cost nothing, because columns are not shifted. Columns that are nearly
    full are an exception: they are converted to dense tiles and shifted like any other dense column. A matrix
    by column reads all its rows in any case, so its rows form one block. Other formats such as COO are
    converted to CSR once, and integers to floats; duplicates are summed. All indices are checked, because an
    index out of range would end the process; this takes about half a second for 10^9 stored cells.

    Parameters
    ----------
    matrix : scipy.sparse array or matrix
        Real numbers. Stored values may be NaN.
    names : sequence of str, optional
        Names of the columns.
    """

    bytes_per_thread = 4e9  # each cell is added to the sums of its column, which are scattered

    def __init__(self, matrix: Any, names: Sequence[str] | None = None) -> None:
        self.matrix = _compress(matrix)
        self.cells = self.matrix.indptr, self.matrix.indices, self.matrix.data
        self.by_row = self.matrix.format == "csr"
        self.shape, self.dtype = self.matrix.shape, self.matrix.dtype
        self.chunk = (1, self.shape[1]) if self.by_row else (self.shape[0], 1)
        self.names = check_names(names, self.shape[1])

    @property
    def block_rows(self) -> int:  # type: ignore[override]
        """1 by row; by column, reading some rows costs as much as reading all."""
        return 1 if self.by_row else max(1, self.shape[0])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        n, p = self.shape
        chosen = as_indices(slice(0, p) if columns is None else columns)
        strips, across, length = as_indices(rows), chosen, p
        if not self.by_row:
            strips, across, length = across, strips, n
        block = np.zeros((len(strips), len(across)), self.dtype)
        kernels.sparse.cells(*self.cells, strips, _positions(across, length), block)
        return block if self.by_row else block.T

    def calibrate(self, rows: Rows) -> Calibration:
        pilot = spread(rows, PILOT_ROWS)
        full, scale = self._pilot_scale(pilot) if self.by_row else self._column_scale
        shift, scale = np.zeros(self.shape[1]), scale.copy()
        if full.size:
            dense = calibrate(ColumnSubset(self, full), rows, pilot, np.dtype(np.float64))
            shift[full], scale[full] = dense.shift, dense.scale
        return Calibration(shift, scale)

    def _pilot_scale(self, pilot: Indices) -> tuple[Indices, Floats]:
        """By row: the columns that are stored in all pilot rows, and the scale of all columns."""
        pilot_rows = self.matrix[pilot]
        largest = np.zeros(self.shape[1])
        np.fmax.at(largest, pilot_rows.indices, np.abs(pilot_rows.data))
        counts = np.bincount(pilot_rows.indices, minlength=len(largest))
        return np.flatnonzero(counts == len(pilot)), _scale(largest)

    @cached_property
    def _column_scale(self) -> tuple[Indices, Floats]:
        """By column: the columns that are nearly full, and the scale by the first value of each."""
        indptr, _, data = self.cells
        counts = np.diff(indptr)
        stored = np.flatnonzero(counts)
        first = np.zeros(len(counts))
        first[stored] = np.abs(data[indptr[stored]])
        return np.flatnonzero(counts >= NEARLY_FULL * self.shape[0]), _scale(first)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        chosen = np.arange(self.shape[1]) if columns is None else columns
        shifted = context.calibration.shift[chosen] != 0
        if shifted.any():
            shape = context.out.shape[:2]
            dense, rest = (np.zeros((*shape, np.count_nonzero(some))) for some in (shifted, ~shifted))
            super().add_sums(rows, edges, chosen[shifted], weights, context._replace(out=dense))
            if rest.size:
                self.add_sums(rows, edges, chosen[~shifted], weights, context._replace(out=rest))
            context.out[..., shifted] += dense
            context.out[..., ~shifted] += rest
            return
        add_tiles(self._jobs(rows, edges, columns, weights, context), context, 8 * context.workers.n_jobs)

    def _jobs(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> Iterator[TileJob]:
        make_jobs = self._row_jobs if self.by_row else self._column_jobs
        for g, group in split_groups(edges):
            part, out = take(rows, group.start, group.stop), context.out[g]
            yield from make_jobs(part, columns, weights.part(group), context._replace(out=out))

    def _read_tile(
        self, rows: Rows, columns: Indices | slice, calibration: Calibration
    ) -> tuple[Array, Calibration]:
        """Cells of nearly full columns in float64, as their shifts are: kernels need both in one dtype."""
        return self.read(rows, columns).astype(np.float64), calibration

    def _column_jobs(
        self, rows: Rows, columns: Columns, w: Weights, context: SumContext
    ) -> Iterator[TileJob]:
        """Tiles of columns with about the same number of stored cells."""
        w, indptr = w.computed, self.cells[0]
        positions = _positions(as_indices(rows), self.shape[0])
        chosen = np.arange(self.shape[1]) if columns is None else columns
        scale = context.calibration.scale[chosen]
        cost = np.cumsum(indptr[chosen + 1] - indptr[chosen] + 16)  # a column has a cost of its own
        cuts = np.unique(np.searchsorted(cost, np.arange(0, cost[-1], STORED_PER_TILE)))
        edges = [0, *(int(cut) for cut in cuts if cut > 0), len(chosen)]
        baseline = _baseline(w, len(context.out))
        simple = columns is None and not positions.size and _is_simple(w, scale)
        for start, stop in pairwise(edges):
            if start == stop:
                continue
            out, tile = np.repeat(baseline[:, None], stop - start, axis=1), slice(start, stop)
            if simple:
                y = np.ascontiguousarray(w.linear[:, 0])
                lines = fourth_line(w, out), w.presence, out
                job: Job = (kernels.sparse.column_moments, *self.cells, start, stop, y, *lines)
            else:
                job = (self._add_strips, chosen[tile], scale[tile], positions, w, out)
            yield TileJob(count_rows(rows), context.out[:, tile], job)

    def _row_jobs(
        self, rows: Rows, columns: Columns, weights: Weights, context: SumContext
    ) -> Iterator[TileJob]:
        """Tiles of rows, each over all columns."""
        n_sums, width = context.out.shape
        row_indices, indptr = as_indices(rows), self.cells[0]
        positions = ALL if columns is None else _positions(columns, self.shape[1])
        scale = context.calibration.scale if columns is None else context.calibration.scale[columns]
        stored = int((indptr[row_indices + 1] - indptr[row_indices]).sum())
        # Few tiles, because each has its own sums, which have to be cleared and added up.
        worthwhile = stored // (4 * n_sums * width + STORED_PER_TILE)
        n_tiles = max(1, min(16, worthwhile, MAX_PARTIAL_SUMS // (n_sums * width)))
        edges = np.linspace(0, len(row_indices), n_tiles + 1).astype(int)
        for start, stop in pairwise(edges.tolist()):
            tile = row_indices[start:stop]
            w = weights.part(slice(start, stop)).computed
            out = np.repeat(_baseline(w, n_sums)[:, None], width, axis=1)
            job = self._add_strips, tile, scale, positions, w, out
            yield TileJob(stop - start, context.out, job)

    def _add_strips(self, strips: Indices, scale: Floats, positions: Array, w: Weights, out: Floats) -> None:
        """Add the sums of some rows, or columns if the matrix is stored by column."""
        sums = np.zeros(out.shape[::-1])  # the sums of a column are neighbours in memory
        if self.by_row and _is_simple(w, scale):
            y, fourth = np.ascontiguousarray(w.linear[:, 0]), fourth_line(w, sums.T)
            kernels.sparse.row_moments(*self.cells, strips, positions, y, fourth, w.presence, sums)
        else:
            presence = np.empty((len(w.linear), 0)) if w.presence is None else w.presence
            v = np.empty(0) if w.v is None else np.ascontiguousarray(w.v)
            columns = w.padded(np.dtype(np.float64))
            given = strips, scale, positions, columns, v, presence
            kernels.sparse.products(*self.cells, self.by_row, *given, sums)
        out += sums.T

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes of the stored cells and their indices, of whole rows or whole columns."""
        share = n_rows / max(1, self.shape[0]) if self.by_row else n_columns / max(1, self.shape[1])
        _, indices, data = self.cells
        return float(max(1.0, share * len(data)) * (data.itemsize + indices.itemsize))


def _baseline(w: Weights, n_sums: int) -> Floats:
    """The sums of a column without stored cells: 0, except for those of the presence mask."""
    sums = np.zeros(n_sums)
    if w.presence is not None:
        sums[w.linear.shape[1] + 2 : n_sums - w.fourth] = w.presence.sum(axis=0)
    return sums


def _scale(size: Floats) -> Floats:
    """A power of two, almost always 1, that keeps squares of values of this size in range."""
    exponent = np.frexp(np.where(np.isfinite(size), size, 1.0))[1]
    return np.where(is_unsafe(exponent, 8), np.ldexp(1.0, np.clip(-exponent, -1000, 1000)), 1.0)


def _is_simple(w: Weights, scale: Floats) -> bool:
    """Whether there is one column of linear weights, and no scales."""
    return w.linear.shape[1] == 1 and w.v is None and bool((scale == 1).all())


def _positions(chosen: Indices, length: int) -> Array:
    """The position of each of ``length`` indices among the chosen, or -1; empty if all are chosen."""
    if len(chosen) == length:
        return ALL
    positions = np.full(length, -1, np.int32)
    positions[chosen] = np.arange(len(chosen), dtype=np.int32)
    return positions


def _compress(matrix: Any) -> Any:
    """The matrix in CSR or CSC format, as floats without duplicates; copied only if needed."""
    if matrix.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows × features, got {matrix.ndim}.")
    if matrix.dtype.kind not in "fiub":
        raise TypeError(f"X must hold real numbers, got a sparse matrix of dtype {matrix.dtype}.")
    _check_structure(matrix)
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if is_wide_integer(matrix.dtype) and (np.abs(matrix.data.astype(np.float64)) > MAX_EXACT_INTEGER).any():
        raise ValueError(
            "X is sparse and has integers beyond 2⁵³, which would be rounded: pass it as a dense array, or "
            "subtract a constant from them."
        )
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float32 if matrix.dtype.itemsize <= 2 else np.float64)
    return matrix


def _check_structure(matrix: Any) -> None:
    """Raise if the arrays of a matrix do not describe one."""
    if matrix.format == "bsr":
        matrix.check_format(full_check=True)
    elif matrix.format == "coo":
        for indices, length in zip(matrix.coords, matrix.shape, strict=True):
            _check_indices(indices, length)
    elif matrix.format in ("csr", "csc"):
        n_lines, length = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        starts, n_stored = matrix.indptr, min(len(matrix.indices), len(matrix.data))
        if (
            len(starts) != n_lines + 1
            or starts[0] != 0
            or starts[-1] > n_stored
            or (np.diff(starts) < 0).any()
        ):
            raise ValueError(
                f"the sparse matrix is damaged: its index pointer must rise from 0 to at most {n_stored:,}, "
                f"the number of stored cells, and have {n_lines + 1:,} entries; build the matrix again."
            )
        _check_indices(matrix.indices, length)


def _check_indices(indices: Array, length: int) -> None:
    unsigned = indices.view(f"u{indices.itemsize}")  # a negative index is a large one
    if indices.size and unsigned.max() >= length:
        bad = indices[unsigned.argmax()]
        raise ValueError(
            f"the sparse matrix is damaged: it has index {bad:,}, and indices must be from 0 to "
            f"{length - 1:,}; build the matrix again."
        )
