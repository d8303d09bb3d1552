"""Arrays in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap
from typing import Any, TypeAlias

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import (
    MAX_EXACT_INTEGER,
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
    is_wide_integer,
    spread,
    subtract_integers,
    take,
)
from banditsis.core.parallel import map_in_threads
from banditsis.core.validation import NUMBERS, from_numbers
from banditsis.sources.base import (
    COLUMNS_AT_ONCE,
    PILOT_ROWS,
    Calibration,
    Source,
    SumContext,
    calibrate,
    safe_reach,
    summing_dtype,
)
from banditsis.sources.products import (
    NO_OFFSETS,
    FlatArray,
    Strips,
    add_by_stratum,
    add_moments,
    fits_kernels,
    flatten,
)
from banditsis.sources.tiles import Job, TileJob, add_tiles
from banditsis.statistics.weights import Weights

CACHE_LINE = 64  # bytes
MAX_SPARSITY = 3  # columns for each column that is needed up to which reading all of them is faster
ROWS_OF_SUM = 7  # cells that can be added in the time in which the sum of a tile is added to the result
MAX_PARTIAL_SUMS = 1 << 22  # that are held until they are added to the result
MAX_WEIGHTS = 1 << 22  # that are computed at once
# Cells that are worth another thread, which takes about 0.2 ms to begin: read in place, or copied to a buffer
# first.
CELLS_IN_PLACE, CELLS_PACKED = 1 << 21, 1 << 19
MAX_TILE_CELLS = 1 << 24  # of a tile that is read in place
MIN_STRIP, MAX_STRIP = 512, 8192  # columns of a tile that is packed, and of one that is read by row
MAX_PIECES = 32  # into which a small job is cut
# Rows and columns of a tile that is read in place by column: the weights of the rows stay in the cache, and
# computing them takes little time compared to reading that many columns.
ROWS_BY_COLUMN, COLUMNS_BY_COLUMN = 1 << 16, 256

#: The columns of a tile, where they belong in the result, and which of them do.
ColumnStrip: TypeAlias = "tuple[Indices | slice, slice, Indices | slice]"


class ArraySource(Source):
    """A two-dimensional NumPy array, used without a copy.

    Compiled kernels read float32 and float64 arrays in place. Other dtypes are
    converted tile by tile, float16 to float32 and the rest to float64; integers that float64 would round are
    shifted before.

    Parameters
    ----------
    array : ndarray of shape (n, p)
        Real numbers. An array of objects is converted if every value is a number.
    names : sequence of str, optional
        Names of the columns.
    """

    by_row: bool

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
        kernels.gather.gather(memory, first + starts, offsets, 0, block)
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
        if p < COLUMNS_AT_ONCE or not (self.by_row and self._is_in_strips(self._flat, pilot, slice(0, p))):
            return calibrate(self, rows, pilot, self._summing_dtype)
        assert self._flat is not None
        memory, starts, _ = self._strips(self._flat, pilot, slice(0, p))
        found = Calibration(np.empty(p, self.dtype), np.ones(p, self.dtype))
        limits = safe_reach(self.dtype.itemsize)

        def calibrate_some(start: int) -> bool:
            some = slice(start, start + COLUMNS_AT_ONCE)
            buffer = np.empty((2, COLUMNS_AT_ONCE), self.dtype)
            arguments = memory, start + starts, *limits, buffer, found.shift[some]
            with np.errstate(over="ignore", invalid="ignore"):  # as plain Python
                return bool(kernels.row_moments.find_shifts(*arguments))

        safe = map_in_threads(calibrate_some, range(0, p, COLUMNS_AT_ONCE), 8)
        return found if all(safe) else calibrate(self, rows, pilot, self._summing_dtype)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        """Compute the tiles of all groups together, because those of one may be too few for all threads."""
        whole = columns is None or self._is_faster_whole(edges[-1], context.out)
        p = self.shape[1] if columns is None or whole else len(columns)
        cells = CELLS_IN_PLACE if whole else CELLS_PACKED
        for start in range(0, edges[-1], MAX_WEIGHTS):
            run = take(rows, start, start + MAX_WEIGHTS)
            shape = self._tile_shape(run, p, whole, weights)
            strips = self._column_strips(columns, whole, shape[1])
            run_weights = weights.part(slice(start, start + count_rows(run)))
            jobs = self._jobs(run, edges - start, strips, shape[0], run_weights, context)
            waiting = MAX_PARTIAL_SUMS // (context.out.shape[0] * context.out.shape[1] * min(p, shape[1]))
            add_tiles(
                jobs,
                context,
                min(waiting, 64),
                overlap=shape[0] < count_rows(run),
                max_threads=1 + count_rows(run) * p // cells,
            )

    def _jobs(
        self,
        rows: Rows,
        edges: Indices,
        strips: Sequence[ColumnStrip],
        height: int,
        weights: Weights,
        context: SumContext,
    ) -> Iterator[TileJob]:
        """The jobs of all tiles; the rows of each group end at the next edge."""
        calibration, n_sums, y = context.calibration, context.out.shape[1], None
        if weights.is_plain and self._flat is not None and calibration.is_unscaled:
            y = self._plain_weights(count_rows(rows), weights)
            starts, offsets = self._addresses(self._flat, rows, strips, height)
            # Whether no other tile has the same columns; kernels are compiled for contiguous results only.
            alone = height >= count_rows(rows) and context.out.flags.c_contiguous
        for i in range(0, count_rows(rows), height):
            part = take(rows, i, i + height)
            n = count_rows(part)
            # Only the groups of which the tile has rows have sums.
            begin, end = np.searchsorted(edges, i, side="right") - 1, np.searchsorted(edges, i + n)
            inner = np.minimum(np.maximum(edges[begin : end + 1] - i, 0), n)
            part_weights, shape = weights.part(slice(i, i + n)), (end - begin, n_sums)
            for number, (strip, place, picked) in enumerate(strips):
                in_place = y is not None and alone and isinstance(picked, slice)
                out = context.out[begin:end] if in_place else np.zeros((*shape, count_rows(strip)))
                job: Job = (self._add_tile, part, strip, inner, part_weights, calibration, out)
                if y is not None:
                    here = starts[:n] if isinstance(part, slice) else starts[i : i + n]
                    where = here, offsets[number], place.start if in_place else 0
                    sums = calibration.shift[strip], y[i : i + n], inner, weights.fourth, out
                    job = self._add_plain, part, strip, *where, *sums
                yield TileJob(n, context.out[begin:end, :, place], job, None if in_place else picked)

    def _addresses(
        self, flat: FlatArray, rows: Rows, strips: Sequence[ColumnStrip], height: int
    ) -> tuple[Indices, list[Indices]]:
        """Where rows begin in memory, and where the columns of each strip are relative to that.

        Consecutive rows are relative to the first of a tile. Tiles share the addresses, because threads that
        compute with short arrays wait for each other.
        """
        starts = flat.stride[0] * as_indices(slice(0, height) if isinstance(rows, slice) else rows)
        unit = flat.stride[1]
        return starts, [
            NO_OFFSETS if self._is_in_strips(flat, rows, strip) and self.by_row else unit * as_indices(strip)
            for strip, _, _ in strips
        ]

    def _plain_weights(self, n_rows: int, weights: Weights) -> Array:
        """The only weights of some rows, in the dtype of the data."""
        parts = map_in_threads(
            lambda part: weights.part(part).linear[:, 0].astype(self.dtype),
            chunks(slice(0, n_rows), ROWS_BY_COLUMN),
            4,
        )
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _is_faster_whole(self, n_rows: int, out: Floats) -> bool:
        """Whether reading whole rows is faster than packing some of their cells."""
        n_strata, n_lines, n_columns = out.shape
        cost = 1 + ROWS_OF_SUM * n_strata * n_lines / max(n_rows, 1)  # of a cell
        return n_lines <= 8 and self.by_row and n_columns * MAX_SPARSITY >= self.shape[1] * cost

    def _column_strips(self, columns: Columns, whole: bool, width: int) -> list[ColumnStrip]:
        """The columns of each tile, where they belong in the result, and which of them do."""
        p = self.shape[1] if columns is None or whole else len(columns)
        ranges = [slice(j, min(j + width, p)) for j in range(0, p, width)]
        if columns is None:
            return [(strip, strip, slice(None)) for strip in ranges]
        if not whole:
            return [(columns[strip], strip, slice(None)) for strip in ranges]
        ends = np.searchsorted(columns, [0, *(strip.stop for strip in ranges)]).tolist()
        places = starmap(slice, pairwise(ends))
        strips = zip(ranges, places, strict=True)
        return [
            (strip, place, columns[place] - strip.start)
            for strip, place in strips
            if place.start < place.stop
        ]

    def _is_in_strips(self, flat: FlatArray | None, rows: Rows, columns: Columns | slice) -> bool:
        """Whether kernels can read these cells in place."""
        if flat is None:
            return False
        if self.by_row:
            return flat.stride[1] == 1 and not isinstance(columns, np.ndarray)
        return flat.stride[0] == 1 and isinstance(rows, slice)

    def _tile_shape(self, rows: Rows, p: int, whole: bool, weights: Weights) -> tuple[int, int]:
        """Rows and columns of a tile: small enough for the cache, large enough for a thread.

        They do not depend on the number of threads.
        """
        n = count_rows(rows)
        if not fits_kernels(weights):
            # Tall tiles, because the products of each tile have to be added up.
            return 8192, 2048 if n > 8192 else 1024
        in_place = whole and self._is_in_strips(self._flat, rows, slice(0, 1))
        if not self.by_row:
            return (
                (ROWS_BY_COLUMN, COLUMNS_BY_COLUMN)
                if in_place
                else (n, max(4, min(CELLS_IN_PLACE // n, 128)))
            )
        n_strips = -(-p // MAX_STRIP)  # partial sums stay in the cache
        most, cells, unit = CELLS_PACKED * 2, CELLS_PACKED, 8
        if in_place:
            most, cells, unit = MAX_TILE_CELLS, CELLS_IN_PLACE, kernels.row_moments.PANEL
        n_pieces = _count_pieces(n * p, cells)
        if n_strips > 8:
            n_strips = _round_up(n_strips, MAX_PIECES)
        elif not in_place:  # the sums of tiles side by side need not be added up
            n_strips = max(n_strips, min(n_pieces, p // MIN_STRIP))
        width = _round_up(p / n_strips, 16)
        height = _round_up(n / max(1, n_pieces // n_strips), unit)
        return min(max(unit, most // width // unit * unit), height), width

    def _add_tile(
        self,
        rows: Rows,
        columns: Indices | slice,
        edges: Indices,
        w: Weights,
        calibration: Calibration,
        out: Floats,
    ) -> None:
        """Sum a tile, whose groups are the first dimension of ``out``."""
        calibration, w = calibration.take(columns), w.computed
        unscaled = self._flat is not None and calibration.is_unscaled
        if unscaled and fits_kernels(w) and self._is_in_strips(self._flat, rows, columns):
            assert self._flat is not None
            strips = self._strips(self._flat, rows, columns)
            add_by_stratum(None, strips, calibration.shift, w, edges, out)
        else:
            self._add_copied(rows, columns, edges, calibration, w, out)

    def _add_plain(
        self,
        rows: Rows,
        columns: Indices | slice,
        starts: Indices,
        offsets: Indices,
        place: int,
        shift: Array,
        y: Array,
        edges: Indices,
        fourth: bool,
        out: Floats,
    ) -> None:
        """Sum a tile with a single weight for each row; cells that are not contiguous are packed first.

        See :meth:`_addresses` for those of its rows and columns, and :func:`add_moments` for the rest.
        """
        flat = self._flat
        assert flat is not None
        first = flat.first + (flat.stride[0] * rows.start if isinstance(rows, slice) else 0)
        across, along = (starts, offsets) if self.by_row else (offsets, starts)
        if self._is_in_strips(flat, rows, columns):
            first += columns.start if self.by_row and isinstance(columns, slice) else 0
            along = NO_OFFSETS
        memory = flat.memory
        if min(flat.stride) > 0:
            memory = memory[first:]
        else:  # cells before the first
            across = across + first
        add_moments(Strips(memory, across, self.by_row), shift, y, edges, fourth, out, place, along)

    def _add_copied(
        self,
        rows: Rows,
        columns: Indices | slice,
        edges: Indices,
        calibration: Calibration,
        w: Weights,
        out: Floats,
    ) -> None:
        """Sum a tile that is converted, scaled, copied or multiplied as a matrix."""
        block = self.read(rows, columns)
        shift = calibration.shift
        if is_wide_integer(block.dtype) and (wide := np.abs(shift) > MAX_EXACT_INTEGER).any():
            block, shift = subtract_integers(block, np.where(wide, shift, 0.0)), np.where(wide, 0.0, shift)
        contiguous = block.strides[1 if self.by_row else 0] == block.itemsize
        if block.dtype != self._summing_dtype or not contiguous or flatten(block) is None:
            block = self._convert(block)
        if not calibration.is_unscaled:
            block = block * calibration.scale
        flat = flatten(block)
        assert flat is not None
        strips = self._strips(flat, slice(0, block.shape[0]), slice(0, block.shape[1]))
        add_by_stratum(block, strips, shift, w, edges, out)

    def _convert(self, block: Array) -> Array:
        """A contiguous copy of a block in the dtype of partial sums."""
        if block.dtype == np.float16:
            halves = block.view(np.uint16) if self.by_row else block.view(np.uint16).T
            flat = flatten(halves if halves.strides[1] == 2 else np.ascontiguousarray(halves))
            if flat is not None:
                tile = np.empty(halves.shape, np.float32)
                starts = flat.first + flat.stride[0] * np.arange(len(tile))
                kernels.half.convert(flat.memory, starts, tile)
                return tile if self.by_row else tile.T
        return np.array(block, dtype=self._summing_dtype, order="C" if self.by_row else "F")

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
        if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            owner.madvise(mmap.MADV_DONTNEED)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return array_bytes(self, n_rows, n_columns, scattered)


def array_bytes(source: Source, n_rows: int, n_columns: int, scattered: bool) -> float:
    """Bytes of the cache lines of an array that are touched when some rows × columns are read."""
    (n, p), itemsize = source.shape, source.dtype.itemsize
    if source.by_row:
        return n_rows * line_bytes(p, n_columns / p, itemsize)
    if scattered:
        return n_columns * line_bytes(n, n_rows / n, itemsize)
    return float(n_columns * n_rows * itemsize)


def line_bytes(cells: int, density: float, itemsize: int) -> float:
    """Bytes of the cache lines touched when a random share of a run of cells is read."""
    touched: float = 1 - (1 - density) ** (CACHE_LINE / itemsize)
    return cells * itemsize * touched


def raise_if_masked(data: Any) -> None:
    """Raise if the data are a masked array, because its mask would be lost."""
    if is_masked(data):
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


def _count_pieces(cells: int, cells_per_piece: int) -> int:
    """A power of two: enough pieces to keep all threads busy to the end."""
    return min(1 << int(cells // cells_per_piece).bit_length(), MAX_PIECES)
