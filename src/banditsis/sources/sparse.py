"""Sparse matrices of SciPy, by row or by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Floats, Indices, Rows, count_rows, spread
from banditsis.kernels import sparse as kernels
from banditsis.parallel import Workers
from banditsis.sources.array import Job
from banditsis.sources.base import Calibration, SumContext, WeightFunction
from banditsis.sources.blocks import BlockSource
from banditsis.sources.calibration import PILOT_ROWS, SAFE_EXPONENT
from banditsis.statistics.base import Weights

STORED_AT_ONCE = 1 << 18  # stored cells of a tile
SUMS_AT_ONCE = 1 << 25  # partial sums that wait to be added, 256 MB
NEARLY_FULL = 0.9  # share of stored cells above which a column is shifted by its mean
EVERYTHING = np.empty(0, np.int32)


class SparseSource(BlockSource):
    """A compressed sparse matrix, used where it lies.

    Cells that are not stored are 0 and cost nothing. Nothing is shifted, so that they stay 0, but for columns
    that are nearly full: those are made dense a tile at a time, and shifted like any other dense column. A
    matrix by column reads all its rows in any case, so that its rows make one block. Other kinds, COO and the
    like, are converted to rows once; integers to floats, and duplicates are added up.

    Parameters
    ----------
    matrix : scipy.sparse array or matrix
        Real numbers. NaN can be among the stored values.
    names : sequence of str, optional
        Names of the columns.
    """

    def __init__(self, matrix: Any, names: Sequence[str] | None = None) -> None:
        self.matrix = _compressed(matrix)
        self.by_row = self.matrix.format == "csr"
        self.shape, self.dtype = self.matrix.shape, self.matrix.dtype
        self.parts = (self.matrix.indptr, self.matrix.indices, self.matrix.data)
        self.chunk = (1, self.shape[1]) if self.by_row else (self.shape[0], 1)
        if names is not None and len(names) != self.shape[1]:
            raise ValueError(f"got {len(names):,} names for {self.shape[1]:,} columns.")
        self.names = names

    @property
    def block_rows(self) -> int:  # type: ignore[override]
        """1 by row; by column, reading some rows costs as much as reading all."""
        return 1 if self.by_row else max(1, self.shape[0])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        (n, p), listed = self.shape, _listed(rows, self.shape[0])
        chosen = _listed(slice(0, p) if columns is None else columns, p)
        strips, across, length = (listed, chosen, p) if self.by_row else (chosen, listed, n)
        block = np.zeros((len(strips), len(across)), self.dtype)
        kernels.cells(*self.parts, strips, _places(across, length), block)
        return block if self.by_row else block.T

    def calibrate(self, rows: Rows) -> Calibration:
        pilot = spread(rows, PILOT_ROWS)
        if self.by_row:  # nearly full are columns that all pilot rows have
            some = self.matrix[pilot]
            reach = np.zeros(self.shape[1])
            np.fmax.at(reach, some.indices, np.abs(some.data))
            full = np.flatnonzero(np.bincount(some.indices, minlength=len(reach)) == len(pilot))
            scale = _scale(reach)
        else:
            full, scale = self._full_and_scale
        shift = np.zeros(self.shape[1])
        if full.size:
            block = self.read(pilot, full).astype(np.float64)
            block[~np.isfinite(block)] = 0.0
            shift[full] = (
                np.where((block == block[0]).all(axis=0), block[0], block.mean(axis=0)) * scale[full]
            )
        return Calibration(shift, scale)

    @cached_property
    def _full_and_scale(self) -> tuple[Indices, Floats]:
        """By column: which are nearly full, and the scale by the first value of each; once for all rows."""
        indptr, _, data = self.parts
        counts = np.diff(indptr)
        stored = np.flatnonzero(counts)
        reach = np.zeros(len(counts))
        reach[stored] = np.abs(data[indptr[stored]])
        return np.flatnonzero(counts >= NEARLY_FULL * self.shape[0]), _scale(reach)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        calibration, out, workers, tick = context
        chosen = np.arange(self.shape[1]) if columns is None else columns
        moved = calibration.shift[chosen] != 0
        if moved.any():
            dense = np.zeros((len(out), np.count_nonzero(moved)))
            super().sums(rows, chosen[moved], weights, SumContext(calibration, dense, workers, tick))
            rest = np.zeros((len(out), len(chosen) - dense.shape[1]))
            if rest.size:
                self.sums(rows, chosen[~moved], weights, SumContext(calibration, rest, workers, tick))
            out[:, moved] += dense
            out[:, ~moved] += rest
            return
        tiles = self._by_row if self.by_row else self._by_column
        for place, part, cells in tiles(rows, columns, weights, calibration.scale[chosen], len(out), workers):
            out[:, place] += part
            tick(cells)

    def _by_column(
        self,
        rows: Rows,
        columns: Columns,
        weights: WeightFunction,
        scale: Floats,
        n_sums: int,
        workers: Workers,
    ) -> Iterator[tuple[slice, Floats, int]]:
        """Sums of runs of columns with about as many stored cells each."""
        w, indptr, n = weights(rows), self.parts[0], count_rows(rows)
        place = _places(_listed(rows, self.shape[0]), self.shape[0])
        chosen = np.arange(self.shape[1]) if columns is None else columns
        stored = np.cumsum(indptr[chosen + 1] - indptr[chosen] + 16)  # a column has a cost of its own
        cuts = np.unique(np.searchsorted(stored, np.arange(0, stored[-1], STORED_AT_ONCE)))
        edges = [0, *(int(cut) for cut in cuts if cut > 0), len(chosen)]
        baseline = _baseline(w, n_sums)
        plain = columns is None and not place.size and _is_plain(w) and bool((scale == 1).all())
        runs = (slice(a, b) for a, b in pairwise(edges) if b > a)
        while batch := list(islice(runs, 8 * workers.n_jobs)):
            jobs: list[Job] = []
            for run in batch:
                part = np.repeat(baseline[:, None], run.stop - run.start, axis=1)
                if plain:
                    y = np.ascontiguousarray(w.linear[:, 0])
                    jobs.append((kernels.column_moments, *self.parts, run.start, run.stop, y, part))
                else:
                    args = self.parts, chosen[run], scale[run], place, w, part
                    jobs.append((_add_transposed, True, *args))
            workers.run(jobs)
            for run, job in zip(batch, jobs, strict=True):
                yield run, job[-1], n * (run.stop - run.start)

    def _by_row(
        self,
        rows: Rows,
        columns: Columns,
        weights: WeightFunction,
        scale: Floats,
        n_sums: int,
        workers: Workers,
    ) -> Iterator[tuple[slice, Floats, int]]:
        """Sums of runs of rows, each over all columns."""
        listed, width = _listed(rows, self.shape[0]), len(scale)
        place = EVERYTHING if columns is None else _places(columns, self.shape[1])
        stored = int((self.parts[0][listed + 1] - self.parts[0][listed]).sum())
        # Few pieces, since each has sums of its own to be cleared and added up.
        worth = stored // (4 * n_sums * width + STORED_AT_ONCE)
        pieces = max(1, min(16, worth, SUMS_AT_ONCE // (n_sums * width)))
        edges = np.linspace(0, len(listed), pieces + 1).astype(int)
        runs = iter(pairwise(edges))
        while batch := list(islice(runs, 16)):
            jobs: list[Job] = []
            for a, b in batch:
                w = weights(rows if pieces == 1 else listed[a:b])
                part = np.repeat(_baseline(w, n_sums)[:, None], width, axis=1)
                jobs.append((_add_transposed, False, self.parts, listed[a:b], scale, place, w, part))
            workers.run(jobs)
            for (a, b), job in zip(batch, jobs, strict=True):
                yield slice(0, width), job[-1], int(b - a) * width

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Stored cells with their indices, all of a row or of a column."""
        share = n_rows / max(1, self.shape[0]) if self.by_row else n_columns / max(1, self.shape[1])
        size = self.dtype.itemsize + self.parts[1].itemsize
        return float(max(1.0, share * len(self.parts[2])) * size)


def _add_transposed(
    by_column: bool,
    parts: tuple[Array, Array, Array],
    strips: Indices,
    scale: Floats,
    place: Array,
    w: Weights,
    out: Floats,
) -> None:
    """Fill sums that lie together for each column, as stored cells come one by one."""
    sums = np.zeros(out.shape[::-1])
    if not by_column and _is_plain(w) and (scale == 1).all():
        kernels.row_moments(*parts, strips, place, np.ascontiguousarray(w.linear[:, 0]), sums)
    elif w.codes is not None:
        kernel = kernels.column_classes if by_column else kernels.row_classes
        kernel(*parts, strips, scale, place, w.codes, w.n_classes, w.pairwise, sums)
    else:
        kernel = kernels.column_products if by_column else kernels.row_products
        square = w.square
        v = np.empty(0) if square is None else np.ascontiguousarray(square, dtype=np.float64)
        kernel(*parts, strips, scale, place, np.ascontiguousarray(w.linear), v, w.pairwise, sums)
    out += sums.T


def _baseline(w: Weights, n_sums: int) -> Floats:
    """The sums of a column without stored cells: those of presence, if they are asked for."""
    sums = np.zeros(n_sums)
    if w.pairwise and w.codes is not None:
        sums[w.n_classes + 1 :] = np.bincount(w.codes, minlength=w.n_classes)
    elif w.pairwise:
        q = w.linear.shape[1]
        sums[q + 2 :] = [len(w.linear), *w.linear.sum(axis=0), *np.square(w.linear).sum(axis=0)]
    return sums


def _scale(reach: Floats) -> Floats:
    """A power of two that keeps squares of values of this size in range, almost always 1."""
    exponent = np.frexp(np.where(np.isfinite(reach), reach, 1.0))[1]
    odd = np.abs(exponent) > SAFE_EXPONENT[8]
    return np.where(odd, np.ldexp(1.0, np.clip(-exponent, -1000, 1000)), 1.0)


def _is_plain(w: Weights) -> bool:
    few = w.codes is None and w.linear.shape[1] == 1
    return few and not w.pairwise and w.square is None


def _places(wanted: Indices, length: int) -> Array:
    """Where each of ``length`` is among those wanted, -1 if it is not; empty if all are wanted."""
    if len(wanted) == length:
        return EVERYTHING
    place = np.full(length, -1, np.int32)
    place[wanted] = np.arange(len(wanted), dtype=np.int32)
    return place


def _listed(index: Rows, length: int) -> Indices:
    return np.arange(*index.indices(length)) if isinstance(index, slice) else index


def _compressed(matrix: Any) -> Any:
    """By row or by column, of floats, without duplicates; copied only if it was none of that."""
    if matrix.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows × features, got {matrix.ndim}.")
    if matrix.dtype.kind not in "fiub":
        raise TypeError(f"X must hold real numbers, got a sparse matrix of dtype {matrix.dtype}.")
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float32 if matrix.dtype.itemsize <= 2 else np.float64)
    return matrix
