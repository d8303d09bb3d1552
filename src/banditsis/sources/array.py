"""Arrays in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis.arrays import (
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
    subtract_integers,
    take,
)
from banditsis.kernels import gather
from banditsis.kernels.row_moments import PANEL
from banditsis.sources.base import (
    PILOT_ROWS,
    Calibration,
    Source,
    SumContext,
    WeightFunction,
    calibrate,
    summing_dtype,
)
from banditsis.sources.products import FlatArray, Strips, add_products, fits_kernels, flatten, fourth_line
from banditsis.statistics.base import Weights
from banditsis.validation import NUMBERS, from_numbers

CACHE_LINE = 64  # bytes
MAX_PARTIAL_SUMS = 1 << 22  # that are held until they are added to the result
MAX_WEIGHTS = 1 << 22  # that are computed at once
MAX_TILE_ROWS = 17 * PANEL  # of a tile that is read by row
# Cells of a tile that keep a thread busy: read in place, or copied to a buffer first.
CELLS_IN_PLACE, CELLS_PACKED = 1 << 18, 1 << 16

#: A function and its arguments; the last one is filled by the call.
Job: TypeAlias = "tuple[Any, ...]"
#: The number of rows of a tile, the part of the result to which its sums belong, and the call that
#: computes them.
TileJob: TypeAlias = "tuple[int, Floats, Job]"


def add_tiles(jobs: Iterator[TileJob], context: SumContext, batch_size: int) -> None:
    """Compute the sums of tiles in parallel, some at a time, and add them to the result in order."""
    while batch := list(islice(jobs, batch_size)):
        context.workers.run([job for _, _, job in batch])
        for n_rows, result, job in batch:
            result += job[-1]
            context.tick(n_rows * result.shape[1])


class Tile(NamedTuple):
    """Some rows × columns, the position of their sums in the result, and the weights of the rows."""

    rows: Rows
    columns: Indices | slice
    position: slice
    weights: Weights


class ArraySource(Source):
    """A two-dimensional NumPy array, used without a copy.

    Compiled kernels read float32 and float64 arrays of any strides. Other dtypes are converted tile by tile,
    float16 to float32 and the rest to float64; integers that float64 would round are shifted before.

    Parameters
    ----------
    array : ndarray of shape (n, p)
        Real numbers. An array of objects is converted if every value is a number.
    names : sequence of str, optional
        Names of the columns.
    """

    def __init__(self, array: Array, names: Sequence[str] | None = None) -> None:
        self.array = _check_array(array)
        self.shape = self.array.shape
        self.dtype = self.array.dtype
        self.row_bytes = self.shape[1] * self.dtype.itemsize
        self.names = check_names(names, self.shape[1])
        self.by_row = abs(self.array.strides[0]) >= abs(self.array.strides[1])
        self._summing_dtype = summing_dtype(self.dtype)
        self._flat = flatten(self.array) if self.dtype == self._summing_dtype else None

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        if isinstance(columns if self.by_row else rows, slice):  # NumPy copies whole strips
            return self.array[rows, columns]
        rows, columns = as_indices(rows), as_indices(columns)
        if self._flat is None:
            return self.array[np.ix_(rows, columns)]
        memory, first, stride = self._flat
        starts, offsets = (rows * stride[0], columns * stride[1])
        if not self.by_row:
            starts, offsets = offsets, starts
        block = np.empty((len(starts), len(offsets)), self.dtype)
        gather.gather(memory, first + starts, offsets, 0, block)
        return block if self.by_row else block.T

    def calibrate(self, rows: Rows) -> Calibration:
        return calibrate(self, rows, spread(rows, PILOT_ROWS), self._summing_dtype)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        self.sums_by_stratum([rows], columns, weights, context._replace(out=context.out[None]))

    def sums_by_stratum(
        self, strata: Sequence[Rows], columns: Columns, weights: WeightFunction, context: SumContext
    ) -> None:
        """Compute the tiles of all strata together, because those of one may be too few for all threads."""
        out, n_sums = context.out, context.out.shape[1]
        if columns is not None and self._is_faster_whole(len(columns), n_sums):
            share = len(columns) / self.shape[1]
            everything = np.zeros((*out.shape[:2], self.shape[1]))
            whole = context._replace(out=everything, tick=lambda cells: context.tick(round(cells * share)))
            self.sums_by_stratum(strata, None, weights, whole)
            out += everything[..., columns]
            return
        jobs = (
            self._job(tile, context.calibration, sums)
            for rows, sums in zip(strata, out, strict=True)
            for tile in self._tiles(rows, columns, weights, n_sums, len(strata))
        )
        batch_size = MAX_PARTIAL_SUMS // (n_sums * min(out.shape[2], 8192))
        add_tiles(jobs, context, max(4, min(batch_size, 64)))

    def _is_faster_whole(self, n_columns: int, n_sums: int) -> bool:
        """Whether reading whole rows is faster: if the columns touch nearly every cache line of a row."""
        return n_sums <= 8 and self.by_row and n_columns * CACHE_LINE >= self.row_bytes

    def _is_in_strips(self, rows: Rows, columns: Columns | slice) -> bool:
        """Whether kernels can read these cells in place."""
        if self._flat is None:
            return False
        if self.by_row:
            return self._flat.stride[1] == 1 and not isinstance(columns, np.ndarray)
        return self._flat.stride[0] == 1 and isinstance(rows, slice)

    def _tiles(
        self, rows: Rows, columns: Columns, weights: WeightFunction, n_sums: int, n_strata: int
    ) -> Iterator[Tile]:
        """Cut the rows of one stratum × columns into tiles; the cuts do not depend on the threads."""
        n, p = count_rows(rows), self.shape[1] if columns is None else len(columns)
        step = MAX_TILE_ROWS * max(1, min(MAX_WEIGHTS // (MAX_TILE_ROWS * n_sums), 32))
        in_place = self._is_in_strips(rows, columns)
        for start in range(0, n, step):
            run = take(rows, start, start + step)
            run_weights, m = weights(run), count_rows(run)
            if fits_kernels(run_weights, self.by_row):
                height, width = self._tile_shape(m, p, in_place, n_strata)
            else:  # tall tiles, because the products of each tile have to be added up
                height, width = 8192, 2048 if m > 8192 else 1024
            for i in range(0, m, height):
                tile_rows, tile_weights = take(run, i, i + height), run_weights.part(slice(i, i + height))
                for j in range(0, p, width):
                    position = slice(j, min(j + width, p))
                    tile_columns = position if columns is None else columns[position]
                    yield Tile(tile_rows, tile_columns, position, tile_weights)

    def _tile_shape(self, n: int, p: int, in_place: bool, n_strata: int) -> tuple[int, int]:
        """Rows and columns of a tile: small enough for the cache, large enough for a thread."""
        if not self.by_row:
            return n, 64 if in_place else max(4, min(CELLS_IN_PLACE // n, 128))
        width = _round_up(p / -(-p // 8192), 16)  # partial sums stay in the cache
        if in_place:
            pieces = _count_pieces(n * p, CELLS_IN_PLACE, n_strata)
            return min(MAX_TILE_ROWS, _round_up(n / pieces, PANEL)), width
        max_rows = max(8, 4 * CELLS_PACKED // width)
        return min(max_rows, _round_up(n / _count_pieces(n * p, CELLS_PACKED, n_strata), 8)), width

    def _job(self, tile: Tile, calibration: Calibration, sums: Floats) -> TileJob:
        calibration, w = calibration.take(tile.columns), tile.weights
        out = np.zeros((len(sums), len(calibration.shift)))
        job: Job = (self._add_copied, tile, calibration, out)
        if self._flat is not None and (calibration.scale == 1).all():
            if fits_kernels(w, self.by_row) and self._is_in_strips(tile.rows, tile.columns):
                strips = self._strips(self._flat, tile.rows, tile.columns)
                job = (add_products, None, strips, calibration.shift, w, out)
            elif not w.needs_products and w.codes is None and not w.pairwise:
                job = self._packed_job(self._flat, tile, calibration.shift, out)
        return count_rows(tile.rows), sums[:, tile.position], job

    def _packed_job(self, flat: FlatArray, tile: Tile, shift: Array, out: Floats) -> Job:
        """Copy cells to a buffer that stays in the cache, a few strips at a time, and sum them."""
        rows, columns = flat.stride[0] * as_indices(tile.rows), flat.stride[1] * as_indices(tile.columns)
        starts, offsets = (rows, columns) if self.by_row else (columns, rows)
        y = tile.weights.linear[:, 0].astype(self.dtype)
        buffer = np.empty((24 if self.by_row else 4, offsets.size), self.dtype)
        buffer_starts = np.arange(len(buffer)) * offsets.size
        arguments = flat.memory, flat.first + starts, offsets, shift, y, buffer, buffer_starts
        fourth = fourth_line(tile.weights, out)
        if self.by_row:
            return gather.moments_by_row, *arguments, np.empty(out.shape, self.dtype), fourth, out
        return gather.moments_by_column, *arguments, fourth, out

    def _add_copied(self, tile: Tile, calibration: Calibration, out: Floats) -> None:
        """Sum a tile that is converted, scaled, copied or multiplied as a matrix."""
        block = self.read(tile.rows, tile.columns)
        shift = calibration.shift
        if is_wide_integer(block.dtype) and (wide := np.abs(shift) > MAX_EXACT_INTEGER).any():
            block, shift = subtract_integers(block, np.where(wide, shift, 0.0)), np.where(wide, 0.0, shift)
        contiguous = block.strides[1 if self.by_row else 0] == block.itemsize
        if block.dtype != self._summing_dtype or not contiguous or flatten(block) is None:
            block = np.array(block, dtype=self._summing_dtype, order="C" if self.by_row else "F")
        if not (calibration.scale == 1).all():
            block = block * calibration.scale
        flat = flatten(block)
        assert flat is not None
        strips = self._strips(flat, slice(0, block.shape[0]), slice(0, block.shape[1]))
        add_products(block, strips, shift, tile.weights, out)

    def _strips(self, flat: FlatArray, rows: Rows, columns: Indices | slice) -> Strips:
        """The strips of some cells; the index along a strip must be a slice."""
        across, along = (rows, columns) if self.by_row else (columns, rows)
        step, unit = flat.stride if self.by_row else flat.stride[::-1]
        assert isinstance(along, slice)
        return Strips(flat.memory, flat.first + step * as_indices(across) + unit * along.start, self.by_row)

    def release(self) -> None:
        owner: Any = self.array
        while isinstance(owner, np.ndarray):
            owner = owner.base
        if isinstance(owner, mmap.mmap) and hasattr(owner, "madvise"):
            owner.madvise(mmap.MADV_DONTNEED)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        n, p = self.shape
        if self.by_row:
            return n_rows * line_bytes(p, n_columns / p, self.dtype.itemsize)
        if scattered:
            return n_columns * line_bytes(n, n_rows / n, self.dtype.itemsize)
        return float(n_columns * n_rows * self.dtype.itemsize)


def line_bytes(cells: int, density: float, itemsize: int) -> float:
    """Bytes of the cache lines touched when a random share of a run of cells is read."""
    touched: float = 1 - (1 - density) ** (CACHE_LINE / itemsize)
    return cells * itemsize * touched


def raise_if_masked(data: Any) -> None:
    """Raise if the data are a masked array, because its mask would be lost."""
    if np.ma.isMaskedArray(data):
        raise TypeError(
            "masked arrays are not supported: fill them with NaN, as in X.filled(np.nan), and use pairwise "
            "deletion of missing values."
        )


def check_names(names: Sequence[str] | None, n_columns: int) -> Sequence[str] | None:
    """Raise if the number of names is not the number of columns."""
    if names is not None and len(names) != n_columns:
        raise ValueError(f"got {len(names):,} names for {n_columns:,} columns.")
    return names


def _check_array(array: Array) -> Array:
    raise_if_masked(array)
    array = np.asarray(array)
    if array.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows × features, got {array.ndim}; "
            "reshape a single feature with X.reshape(-1, 1) (Expected 2D array)."
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: pass the real and imaginary parts as features.")
    if array.dtype.kind == "O":
        for value in array.flat:
            if not isinstance(value, NUMBERS):
                raise TypeError(
                    f"X has dtype object and contains {value!r}, which is not a number; "
                    "encode it first (argument must be a string or a number)."
                )
        return from_numbers(array)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"X must hold numbers, got dtype {array.dtype}; encode it as numbers first.")
    return array


def _round_up(value: float, multiple: int) -> int:
    return max(multiple, -(-int(np.ceil(value)) // multiple) * multiple)


def _count_pieces(cells: int, cells_per_piece: int, n_strata: int) -> int:
    """A power of two, at most 16 over all strata: enough pieces to keep all threads busy to the end."""
    return max(1, (1 << min(int(n_strata * cells // cells_per_piece).bit_length(), 4)) // n_strata)
