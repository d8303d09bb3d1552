"""Arrays in memory, memory-mapped ones included."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis.arrays import Array, Columns, Floats, Indices, Rows, count_rows, spread, take
from banditsis.kernels import gather
from banditsis.kernels.row_moments import PANEL
from banditsis.sources.base import Calibration, Source, SumContext, WeightFunction
from banditsis.sources.calibration import PILOT_ROWS, calibrate, summing_dtype
from banditsis.sources.products import (
    Strided,
    add_matrix_products,
    add_several,
    add_strips,
    fits_several,
    strided,
)
from banditsis.statistics.base import Weights
from banditsis.validation import NUMBERS

LINE = 64  # bytes that come from memory together
SUMS_AT_ONCE = 1 << 22  # partial sums that wait to be added
WEIGHTS_AT_ONCE = 1 << 22
TALLEST = 17 * PANEL  # rows of a tile that is read by row
# Cells of a tile that are worth a thread: where they lie in strips, and where they must be packed.
CELLS_IN_PLACE, CELLS_PACKED = 1 << 18, 1 << 16

Job: TypeAlias = "tuple[Any, ...]"


class Tile(NamedTuple):
    """Some rows × some columns, where their sums belong, and the weights of the rows."""

    rows: Rows
    columns: Indices | slice
    place: slice
    weights: Weights


class ArraySource(Source):
    """A two-dimensional NumPy array, used where it lies.

    float32 and float64 arrays of any strides are read by compiled kernels; other dtypes are converted tile
    by tile, float16 to float32 and the rest to float64.

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
        if names is not None and len(names) != self.shape[1]:
            raise ValueError(f"got {len(names):,} names for {self.shape[1]:,} columns.")
        self.names = names
        #: dtype of the partial sums
        self.compute = summing_dtype(self.dtype)
        self.by_row = abs(self.array.strides[0]) >= abs(self.array.strides[1])
        self._strided = strided(self.array) if self.dtype == self.compute else None

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None:
            columns = slice(0, self.shape[1])
        if isinstance(columns if self.by_row else rows, slice):  # NumPy copies whole strips
            return self.array[rows, columns]
        rows, columns = _listed(rows), _listed(columns)
        if self._strided is None:
            return self.array[np.ix_(rows, columns)]
        flat, first, stride = self._strided
        long, short = (rows * stride[0], columns * stride[1])
        if not self.by_row:
            long, short = short, long
        tile = np.empty((len(long), len(short)), self.dtype)
        gather.gather(flat, first + long, short, 0, tile)
        return tile if self.by_row else tile.T

    def calibrate(self, rows: Rows) -> Calibration:
        return calibrate(self, rows, spread(rows, PILOT_ROWS), self.compute)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        calibration, out, workers, tick = context
        if columns is not None and self._sweeps(len(columns), len(out)):
            everything = np.zeros((len(out), self.shape[1]))
            used = len(columns) / self.shape[1]

            def tick_used(cells: int) -> None:
                tick(round(cells * used))

            self.sums(rows, None, weights, SumContext(calibration, everything, workers, tick_used))
            out += everything[:, columns]
            return
        tiles = self._tiles(rows, columns, weights, len(out))
        at_once = _between(4, SUMS_AT_ONCE // (len(out) * min(out.shape[1], 8192)), 64)
        while batch := list(islice(tiles, at_once)):
            jobs = [self._job(tile, calibration, len(out)) for tile in batch]
            workers.run(jobs)
            for tile, job in zip(batch, jobs, strict=True):
                part = job[-1]
                out[:, tile.place] += part
                tick(part.shape[1] * count_rows(tile.rows))

    def _sweeps(self, n_columns: int, n_sums: int) -> bool:
        """Whether there is about one of so many columns in every line of a row, or more.

        Then reading all columns and forgetting some is faster than picking some out.
        """
        few_products = n_sums <= 8
        return few_products and self.by_row and n_columns * LINE >= self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.shape[1] * self.dtype.itemsize

    def _lies_in_strips(self, rows: Rows, columns: Columns | slice) -> bool:
        """Whether kernels can read these cells where they are."""
        if self._strided is None:
            return False
        if self.by_row:
            return self._strided.stride[1] == 1 and not isinstance(columns, np.ndarray)
        return self._strided.stride[0] == 1 and isinstance(rows, slice)

    def _tiles(self, rows: Rows, columns: Columns, weights: WeightFunction, n_sums: int) -> Iterator[Tile]:
        """Cut rows × columns into tiles: a function of the sizes alone, never of the threads."""
        n, p = count_rows(rows), self.shape[1] if columns is None else len(columns)
        step = TALLEST * _between(1, WEIGHTS_AT_ONCE // (TALLEST * n_sums), 32)
        for a in range(0, n, step):
            run = take(rows, a, a + step)
            w, m = weights(run), count_rows(run)
            products = w.needs_products and not fits_several(w, self.by_row)
            height, width = self._tile_size(m, p, products, self._lies_in_strips(rows, columns))
            for i in range(0, m, height):
                part = take(run, i, i + height), w.part(slice(i, i + height))
                for j in range(0, p, width):
                    place = slice(j, min(j + width, p))
                    yield Tile(part[0], place if columns is None else columns[place], place, part[1])

    def _tile_size(self, n: int, p: int, products: bool, in_place: bool) -> tuple[int, int]:
        """Rows and columns of a tile: small enough for the cache, large enough to be worth a thread."""
        if products:  # tall, so that few partial products have to be added up
            return 8192, 2048 if n > 8192 else 1024
        if not self.by_row:
            return n, 64 if in_place else _between(4, CELLS_IN_PLACE // n, 128)
        width = _round_up(p / -(-p // 8192), 16)  # so that partial sums stay in the cache
        if in_place:
            return min(TALLEST, _round_up(n / _pieces(n * p, CELLS_IN_PLACE), PANEL)), width
        most = max(8, 4 * CELLS_PACKED // width)
        return min(most, _round_up(n / _pieces(n * p, CELLS_PACKED), 8)), width

    def _job(self, tile: Tile, calibration: Calibration, n_sums: int) -> Job:
        """A function and its arguments, the last of which are the sums of the tile."""
        shift, scale = calibration.shift[tile.columns], calibration.scale[tile.columns]
        out = np.zeros((n_sums, len(shift)))
        weights = tile.weights
        plain = self._strided is not None and bool((scale == 1).all())
        if plain and self._lies_in_strips(tile.rows, tile.columns):
            assert self._strided is not None
            strips = self._strips(self._strided, tile.rows, tile.columns)
            if not weights.needs_products:
                return add_strips, *strips, shift, weights, out
            if fits_several(weights, self.by_row):
                return add_several, strips[0], strips[1], shift, weights, out
        if plain and not weights.needs_products and weights.codes is None and not weights.pairwise:
            return self._packed_job(tile, shift, out)
        return self._add_converted, tile, shift, scale, out

    def _packed_job(self, tile: Tile, shift: Array, out: Floats) -> Job:
        """Pack and sum in one call of a kernel."""
        assert self._strided is not None
        flat, first, stride = self._strided
        rows, columns = stride[0] * _listed(tile.rows), stride[1] * _listed(tile.columns)
        starts, offsets = (rows, columns) if self.by_row else (columns, rows)
        y = tile.weights.linear[:, 0].astype(self.compute)
        # A few strips at a time, in a buffer that stays in the cache.
        packed = np.empty((24 if self.by_row else 4, offsets.size), self.compute)
        lines = np.arange(len(packed)) * offsets.size
        args = flat, first + starts, offsets, shift, y, packed, lines
        if self.by_row:
            return gather.moments_by_row, *args, np.empty(out.shape, self.compute), out
        return gather.moments_by_column, *args, out

    def _add_converted(self, tile: Tile, shift: Array, scale: Array, out: Floats) -> None:
        """Sum a tile that has to be copied or multiplied as a matrix."""
        block = self._converted(tile)
        if not (scale == 1).all():
            block = block * scale
        view = strided(block)
        assert view is not None
        strips = self._strips(view, slice(0, block.shape[0]), slice(0, block.shape[1]))
        if tile.weights.needs_products and fits_several(tile.weights, self.by_row):
            add_several(strips[0], strips[1], shift, tile.weights, out)
        elif tile.weights.needs_products:
            add_matrix_products(block, *strips, shift, tile.weights, out)
        else:
            add_strips(*strips, shift, tile.weights, out)

    def _strips(self, view: Strided, rows: Rows, columns: Indices | slice) -> tuple[Array, Indices, bool]:
        """Where the strips of some cells start in memory, and whether they run along rows."""
        flat, first, stride = view
        if self.by_row:
            return flat, first + stride[0] * _listed(rows) + stride[1] * _start(columns), True
        return flat, first + stride[1] * _listed(columns) + stride[0] * _start(rows), False

    def _converted(self, tile: Tile) -> Array:
        """The tile in the dtype of the partial sums, its strips contiguous; a view if it can be."""
        block = self.read(tile.rows, tile.columns)
        contiguous = block.strides[1 if self.by_row else 0] == block.itemsize
        if block.dtype == self.compute and contiguous and strided(block) is not None:
            return block
        return np.array(block, dtype=self.compute, order="C" if self.by_row else "F")

    def release(self) -> None:
        held: Any = self.array
        while isinstance(held, np.ndarray):
            held = held.base
        if isinstance(held, mmap.mmap) and hasattr(held, "madvise"):
            held.madvise(mmap.MADV_DONTNEED)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        n, p = self.shape
        if self.by_row:
            return n_rows * line_bytes(p, n_columns / p, self.dtype.itemsize)
        if scattered:
            return n_columns * line_bytes(n, n_rows / n, self.dtype.itemsize)
        return float(n_columns * n_rows * self.dtype.itemsize)


def line_bytes(cells: int, density: float, itemsize: int) -> float:
    """Bytes of the lines touched when a random share of a run of cells is read."""
    touched: float = 1 - (1 - density) ** (LINE / itemsize)
    return cells * itemsize * touched


def raise_if_masked(data: Any) -> None:
    """Refuse a masked array, whose mask would be lost."""
    if np.ma.isMaskedArray(data):
        raise TypeError("masked arrays are not supported: use X.filled(np.nan) and missing='pairwise'.")


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
        if not all(isinstance(value, NUMBERS) for value in array.flat):
            odd = next(value for value in array.flat if not isinstance(value, NUMBERS))
            raise TypeError(
                f"X has dtype object and a value that is no number: {odd!r}; "
                "encode it first (argument must be a string or a number)."
            )
        return array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"X must hold numbers, got dtype {array.dtype}; encode it as numbers first.")
    return array


def _listed(index: Rows) -> Indices:
    return np.arange(index.start, index.stop) if isinstance(index, slice) else index


def _start(index: Rows) -> int:
    assert isinstance(index, slice)
    return int(index.start)


def _round_up(value: float, multiple: int) -> int:
    return max(multiple, -(-int(np.ceil(value)) // multiple) * multiple)


def _pieces(cells: int, worth_a_thread: int) -> int:
    """A power of two, at most 16: so many pieces keep threads busy to the end."""
    return 1 << _between(0, int(cells // worth_a_thread).bit_length(), 4)


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))
