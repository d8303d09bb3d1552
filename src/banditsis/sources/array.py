"""Arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import (
    ROWS_AT_ONCE,
    Array,
    Columns,
    Floats,
    Indices,
    Rows,
    as_indices,
    chunks,
    count_rows,
    is_masked,
    spread,
    take,
)
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.core.validation import NUMBERS
from banditsis.sources.base import (
    COLUMNS_AT_ONCE,
    PILOT_ROWS,
    SAFE_EXPONENTS,
    Calibration,
    Source,
    SumContext,
    Tile,
    add_tiles,
    calibrate,
    summing_dtype,
)
from banditsis.sources.products import FlatArray, Strips, add_products, fits_kernels, flatten
from banditsis.statistics.moments import Weights

MAX_SPARSITY = 3  # columns for each column that is needed up to which reading all of them is faster
ROWS_OF_SUM = 7  # cells that can be added in the time in which the sum of a tile is added to the result
MAX_PARTIAL_SUMS = 1 << 22  # that are held until they are added to the result
# Cells that are worth another thread (0.2 ms to begin): read in place, or copied to a buffer first.
CELLS_IN_PLACE, CELLS_PACKED = 1 << 21, 1 << 19
MAX_TILE_CELLS = 1 << 24  # of a tile that is read in place
MIN_STRIP, MAX_STRIP = 512, 8192  # columns of a tile that is packed, and of one that is read by row
MAX_PIECES = 32  # into which a small job is cut
# Of a tile that is read in place by column: the weights of its rows stay in the cache.
ROWS_BY_COLUMN, COLUMNS_BY_COLUMN = 1 << 16, 256


class ArraySource(Source):
    """A two-dimensional NumPy array, used without a copy.

    Compiled kernels read float32 and float64 arrays in place. Other dtypes are converted tile by tile,
    float16 to float32 and the rest to float64.

    Parameters
    ----------
    array : ndarray of shape (n, p)
        Real numbers. An array of objects is converted if every value is a number.
    names : sequence of str, optional
        Names of the columns.
    """

    by_row: bool

    def __init__(self, array: Array, names: Sequence[str] | None = None) -> None:
        raise_if_masked(array)
        array = np.asarray(array)
        self.array = _from_objects(array) if array.dtype.kind == "O" else array
        self.names = check_matrix(self.array.shape, self.array.dtype, names)
        self.shape, self.dtype = self.array.shape, self.array.dtype
        self.row_bytes = self.shape[1] * self.dtype.itemsize
        self.by_row = abs(self.array.strides[0]) >= abs(self.array.strides[1])
        self._summing_dtype = summing_dtype(self.dtype)
        self._flat = flatten(self.array) if self.dtype == self._summing_dtype else None

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        if isinstance(columns if self.by_row else rows, slice):  # NumPy copies whole strips
            return self.array[rows, columns]
        rows, columns = as_indices(rows), as_indices(columns)
        if (cells := self._find_strips(rows, columns)) is None:
            return self.array[np.ix_(rows, columns)]
        block = np.empty((len(cells.starts), len(cells.offsets)), self.dtype)
        kernels.cells.gather(cells.memory, cells.starts, cells.offsets, 0, block)
        return block if self.by_row else block.T

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        """Columns in place if they are contiguous; columns of a row-major array are copied by all threads."""
        if not self.by_row:
            return [self.read(rows, slice(k, k + 1))[:, 0] for k in columns.tolist()]
        block = np.empty((len(columns), count_rows(rows)), self.dtype)
        step = max(ROWS_AT_ONCE, (1 << 16) // max(1, len(columns)))  # cells that stay in the cache

        def fill(start: int) -> None:
            block[:, start : start + step] = self.read(take(rows, start, start + step), columns).T

        map_in_threads(fill, range(0, block.shape[1], step))
        return list(block)

    def calibrate(self, rows: Rows) -> Calibration:
        pilot, p = spread(rows, PILOT_ROWS), self.shape[1]
        # For few columns the kernel would take longer to compile than it saves.
        cells = self._find_strips(pilot, slice(0, p)) if self.by_row and p >= COLUMNS_AT_ONCE else None
        if cells is None or cells.offsets.size:
            return calibrate(self, rows, pilot, self._summing_dtype)
        smallest, largest = SAFE_EXPONENTS[self.dtype.itemsize]
        shift, limits = np.empty(p, self.dtype), (2.0 ** (smallest - 1), 2.0**largest)

        def find_shifts(start: int) -> bool:
            buffer, here = np.empty((2, COLUMNS_AT_ONCE), self.dtype), shift[start : start + COLUMNS_AT_ONCE]
            given = cells.memory, start + cells.starts, *limits, buffer, here
            with np.errstate(over="ignore", invalid="ignore"):  # as plain Python
                return bool(kernels.row_moments.find_shifts(*given))

        if all(map_in_threads(find_shifts, range(0, p, COLUMNS_AT_ONCE), 8)):
            return Calibration(shift, np.ones_like(shift))
        return calibrate(self, rows, pilot, self._summing_dtype)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        """Compute the tiles of all groups together: those of one may be too few for all threads."""
        n, out, calibration = count_rows(rows), context.out, context.calibration
        whole = columns is None or self._is_faster_whole(n, out)
        p = self.shape[1] if columns is None or whole else len(columns)
        height, width = self._tile_shape(rows, p, whole, weights)
        strips = list(self._column_strips(columns, whole, width))

        def tiles() -> Iterator[Tile]:
            for i in range(0, n, height):
                part = slice(i, min(i + height, n))
                # Only the groups of which the tile has rows have sums.
                begin, end = np.searchsorted(edges, i, side="right") - 1, np.searchsorted(edges, part.stop)
                inner = np.clip(edges[begin : end + 1] - i, 0, part.stop - i)
                shared = take(rows, i, part.stop), inner, weights.part(part), calibration
                for some, place, picked in strips:
                    add = partial(self._add, some, picked, *shared)
                    yield Tile(part.stop - i, out[begin:end], place, add)

        add_tiles(
            tiles(),
            context,
            min(64, MAX_PARTIAL_SUMS // (out.shape[0] * out.shape[1] * min(p, width))),
            overlap=height < n,
            max_threads=1 + n * p // (CELLS_IN_PLACE if whole else CELLS_PACKED),
        )

    def add_all(self, weights: Weights, calibration: Calibration, out: Floats) -> None:
        """Add the sums of all cells to ``out``, lines × columns, in this thread."""
        n = self.shape[0]
        context = SumContext(calibration, out[None], Workers(1))
        self.add_sums(slice(0, n), np.array([0, n]), None, weights.computed, context)

    def _add(
        self,
        columns: Indices | slice,
        picked: Indices | None,
        rows: Rows,
        edges: Indices,
        weights: Weights,
        calibration: Calibration,
        out: Floats,
        start: int,
    ) -> None:
        """Add the sums of a tile, or of columns picked from it, to columns of ``out`` from ``start`` on."""
        here, block = calibration.take(columns), None
        unscaled = calibration.is_unscaled or here.is_unscaled
        cells = self._find_strips(rows, columns) if unscaled and fits_kernels(weights) else None
        if cells is None or (cells.offsets.size and not weights.is_plain):
            cells, block = self._copy(rows, columns, here)
        given = cells, block, here.shift, weights.computed, edges
        if weights.is_plain and picked is None and out.flags.c_contiguous:
            add_products(*given, out, start)
            return
        part = np.zeros((*out.shape[:2], len(here.shift)))  # kernels are compiled for contiguous results only
        add_products(*given, part)
        chosen = part if picked is None else part[..., picked]
        out[..., start : start + chosen.shape[-1]] += chosen

    def _find_strips(self, rows: Rows, columns: Indices | slice) -> Strips | None:
        """Where some cells are in memory; None if kernels cannot read them there."""
        if self._flat is None:
            return None
        (memory, stride), lines = self._flat, (rows, columns)
        if not self.by_row:
            stride, lines = stride[::-1], lines[::-1]
        across, along = lines
        if stride[1] == 1 and isinstance(along, slice):
            return Strips(memory, stride[0] * as_indices(across) + along.start, self.by_row)
        return Strips(memory, stride[0] * as_indices(across), self.by_row, stride[1] * as_indices(along))

    def _copy(self, rows: Rows, columns: Indices | slice, calibration: Calibration) -> tuple[Strips, Array]:
        """Cells in the dtype of partial sums, scaled, in contiguous strips; copied only if needed."""
        block = self.read(rows, columns)
        lines = block if self.by_row else block.T
        if lines.dtype == np.float16:  # NumPy takes 20 times as long
            _, halves = _make_contiguous(lines, lines.dtype)
            lines = np.empty(lines.shape, np.float32)
            starts = halves.stride[0] * np.arange(len(lines))
            kernels.cells.convert_half(halves.memory.view(np.uint16), starts, lines)
        if not calibration.is_unscaled:
            lines = lines * (calibration.scale if self.by_row else calibration.scale[:, None])
        lines, flat = _make_contiguous(lines, self._summing_dtype)
        cells = Strips(flat.memory, flat.stride[0] * np.arange(len(lines)), self.by_row)
        return cells, lines if self.by_row else lines.T

    def _is_faster_whole(self, n_rows: int, out: Floats) -> bool:
        """Whether reading whole rows is faster than packing some of their cells."""
        n_groups, n_lines, n_columns = out.shape
        cost = 1 + ROWS_OF_SUM * n_groups * n_lines / max(n_rows, 1)  # of a cell
        return n_lines <= 8 and self.by_row and n_columns * MAX_SPARSITY >= self.shape[1] * cost

    def _column_strips(
        self, columns: Columns, whole: bool, width: int
    ) -> Iterator[tuple[Indices | slice, slice, Indices | None]]:
        """The columns of tiles side by side, where they belong in the result, and which do; None for all."""
        stop = 0
        for piece in chunks(slice(0, self.shape[1]) if columns is None or whole else columns, width):
            start, picked = stop, None
            stop += count_rows(piece)
            if columns is not None and whole:
                stop = int(np.searchsorted(columns, piece.stop))
                picked = columns[start:stop] - piece.start
            if start < stop:
                yield piece, slice(start, stop), picked

    def _tile_shape(self, rows: Rows, p: int, whole: bool, weights: Weights) -> tuple[int, int]:
        """Rows and columns of a tile, whatever the number of threads: fit for the cache, worth a thread."""
        n = count_rows(rows)
        if not fits_kernels(weights):  # tall tiles, because the products of each have to be added up
            return 8192, 2048 if n > 8192 else 1024
        in_place = whole and self._flat is not None and self._flat.stride[1 if self.by_row else 0] == 1
        if not self.by_row:
            if in_place and isinstance(rows, slice):
                return ROWS_BY_COLUMN, COLUMNS_BY_COLUMN
            return n, max(4, min(CELLS_IN_PLACE // n, 128))
        n_strips = -(-p // MAX_STRIP)  # partial sums stay in the cache
        most, cells_at_once, unit = CELLS_PACKED * 2, CELLS_PACKED, 8
        if in_place:
            most, cells_at_once, unit = MAX_TILE_CELLS, CELLS_IN_PLACE, kernels.row_moments.PANEL
        # A power of two: enough pieces to keep all threads busy to the end.
        n_pieces = min(1 << (n * p // cells_at_once).bit_length(), MAX_PIECES)
        if n_strips > 8:
            n_strips = -(-n_strips // MAX_PIECES) * MAX_PIECES
        elif not in_place:  # the sums of tiles side by side need not be added up
            n_strips = max(n_strips, min(n_pieces, p // MIN_STRIP))
        width = -(-p // (16 * n_strips)) * 16
        height = max(unit, -(-n // (unit * max(1, n_pieces // n_strips))) * unit)
        return min(max(unit, most // width // unit * unit), height), width


def raise_if_masked(data: Any) -> None:
    """Raise if the data are a masked array."""
    if is_masked(data):
        raise TypeError(
            "masked arrays are not supported: fill them with NaN, as in X.filled(np.nan), and use pairwise "
            "deletion of missing values."
        )


def check_matrix(shape: Sequence[int], dtype: Any, names: Sequence[str] | None) -> Sequence[str] | None:
    """Raise unless X has two dimensions and real numbers, and a name for each column; return the names."""
    if len(shape) != 2:
        raise ValueError(
            f"X must have two dimensions, rows × features, got {len(shape)}; "
            "reshape a single feature with X.reshape(-1, 1) (Expected 2D array)."
        )
    if dtype.kind == "c":
        raise ValueError("Complex data not supported: pass the real and imaginary parts as features.")
    if dtype.kind not in "fiub":
        raise TypeError(f"X must hold numbers, got dtype {dtype}; encode it as numbers first.")
    if names is not None and len(names) != shape[1]:
        raise ValueError(f"got {len(names):,} names for {shape[1]:,} columns.")
    return names


def _from_objects(array: Array) -> Array:
    """An array of objects as float64, if all are numbers."""
    for value in array.flat:
        if not isinstance(value, NUMBERS):
            raise TypeError(
                f"X has dtype object and contains {value!r}, which is not a number; "
                "encode it first (argument must be a string or a number)."
            )
    return array.astype(np.float64)


def _make_contiguous(lines: Array, dtype: np.dtype) -> tuple[Array, FlatArray]:
    """Lines of some dtype, each contiguous in memory, copied only if they are not, and their memory."""
    flat = flatten(lines)
    if flat is None or flat.stride[1] != 1 or lines.dtype != dtype:
        lines = np.array(lines, dtype, order="C")
        flat = flatten(lines)
    assert flat is not None
    return lines, flat
