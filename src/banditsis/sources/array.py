"""Arrays in memory, memory-mapped ones included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from numbers import Real
from typing import NamedTuple

import numpy as np

from banditsis._typing import Array, Columns, Floats, Indices, Rows
from banditsis.kernels.gather import gather
from banditsis.parallel import Workers
from banditsis.sampling import count_rows, spread, take
from banditsis.sources.base import Calibration, Source
from banditsis.sources.products import add_matrix_products, add_strips, strided
from banditsis.statistics.base import Weights

LINE = 64  # bytes that come from memory together
PILOT_ROWS = 32
TILES_AT_ONCE = 64  # partial sums that wait to be added
CELLS_WORTH_A_THREAD = 1 << 16
# Exponents of two between which squares, and sums of them, neither overflow nor vanish.
SAFE_EXPONENT = {4: 40, 8: 400}


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
        self.compute = np.dtype(np.float32 if self.dtype in (np.float32, np.float16) else np.float64)
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
        gather(flat, first + long, short, tile)
        return tile if self.by_row else tile.T

    def calibrate(self, rows: Rows) -> Calibration:
        pilot = spread(rows, PILOT_ROWS)
        shift, scale = np.empty((2, self.shape[1]), self.compute)
        for a in range(0, self.shape[1], 8192):
            part = slice(a, min(a + 8192, self.shape[1]))
            shift[part], scale[part] = _calibrate(self.read(pilot, part), self.compute)
        return Calibration(shift, scale)

    def sums(
        self,
        rows: Rows,
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: Calibration,
        out: Floats,
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        if columns is not None and self._sweeps(len(columns), len(out)):
            everything = np.zeros((len(out), self.shape[1]))
            share = len(columns) / self.shape[1]
            tick_share: Callable[[int], None] = lambda cells: tick(round(cells * share))  # noqa: E731
            self.sums(rows, None, weights, calibration, everything, workers, tick_share)
            out += everything[:, columns]
            return
        tiles = self._tiles(rows, columns, weights)
        run = workers.map if count_rows(rows) * out.shape[1] > CELLS_WORTH_A_THREAD else _run_here
        while batch := list(islice(tiles, TILES_AT_ONCE)):
            parts = run(lambda tile: self._tile_sums(tile, calibration, len(out)), batch)
            for tile, part in zip(batch, parts, strict=True):
                out[:, tile.place] += part
                tick(part.shape[1] * count_rows(tile.rows))

    def _sweeps(self, n_columns: int, n_sums: int) -> bool:
        """Whether so many columns touch nearly every line of a row.

        Then reading all columns and forgetting some is faster than picking some out.
        """
        few_products = n_sums <= 8
        return few_products and self.by_row and n_columns * LINE >= 2 * self.row_bytes

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

    def _tiles(
        self, rows: Rows, columns: Columns, weights: Callable[[Rows], Weights]
    ) -> Iterator[Tile]:
        """Cut rows × columns into tiles: a function of the sizes alone, never of the threads."""
        n, p = count_rows(rows), self.shape[1] if columns is None else len(columns)
        products = weights(take(rows, 0, 1)).linear.shape[1] > 1
        height, width = self._tile_size(n, p, products, self._lies_in_strips(rows, columns))
        for i in range(0, n, height):
            part = take(rows, i, i + height)
            w = weights(part)
            for j in range(0, p, width):
                place = slice(j, min(j + width, p))
                yield Tile(part, place if columns is None else columns[place], place, w)

    def _tile_size(self, n: int, p: int, products: bool, in_place: bool) -> tuple[int, int]:
        if products:  # operands of a matrix product
            return 512, 1024
        if in_place and self.by_row:  # partial sums of 8192 columns stay in the second-level cache
            return min(2048, _round_up(n / 8, 128)), _round_up(p / -(-p // 8192), 16)
        if in_place:
            return 1 << 16, 64
        # The packed tile itself stays in the second-level cache.
        cells = 1 << 17
        if self.by_row:
            width = _round_up(p / -(-p // 8192), 16)
            return max(8, cells // width // 8 * 8), width
        height = min(n, 1 << 16)
        return height, max(4, cells // height // 4 * 4)

    def _tile_sums(self, tile: Tile, calibration: Calibration, n_sums: int) -> Floats:
        shift, scale = calibration.shift[tile.columns], calibration.scale[tile.columns]
        out = np.zeros((n_sums, len(shift)))
        plain = bool((scale == 1).all())
        if tile.weights.linear.shape[1] > 1:
            z = self._converted(tile, None if plain else scale)
            add_matrix_products(np.subtract(z, shift), tile.weights, out)
            return out
        if plain and self._lies_in_strips(tile.rows, tile.columns):
            assert self._strided is not None
            flat, first, stride = self._strided
            rows, columns = tile.rows, tile.columns
        else:
            block = self._converted(tile, None if plain else scale)
            view = strided(block)
            assert view is not None
            flat, first, stride = view
            rows, columns = slice(0, block.shape[0]), slice(0, block.shape[1])
        if self.by_row:
            starts = first + stride[0] * _listed(rows) + stride[1] * _start(columns)
        else:
            starts = first + stride[1] * _listed(columns) + stride[0] * _start(rows)
        add_strips(flat, starts, self.by_row, shift, tile.weights, out)
        return out

    def _converted(self, tile: Tile, scale: Array | None) -> Array:
        """The tile as contiguous strips in the dtype of the partial sums."""
        block = self.read(tile.rows, tile.columns)
        block = np.asarray(block, dtype=self.compute, order="C" if self.by_row else "F")
        return block if scale is None else block * scale

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        n, p = self.shape
        if self.by_row:
            return n_rows * _line_bytes(p, n_columns / p, self.dtype.itemsize)
        if scattered:
            return n_columns * _line_bytes(n, n_rows / n, self.dtype.itemsize)
        return float(n_columns * n_rows * self.dtype.itemsize)


def _line_bytes(cells: int, density: float, itemsize: int) -> float:
    """Bytes of the lines touched when a random share of a run of cells is read."""
    return cells * itemsize * (1 - (1 - density) ** (LINE / itemsize))


def _calibrate(block: Array, compute: np.dtype) -> tuple[Floats, Floats]:
    """Shift and scale from a few rows; see :class:`Calibration`."""
    block = block.astype(np.float64)
    low, high = block.min(axis=0), block.max(axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        finite = np.isfinite(block)
        low = np.where(finite, block, np.inf).min(axis=0)
        high = np.where(finite, block, -np.inf).max(axis=0)
        low, high = np.where(finite.any(axis=0), (low, high), 0.0)
        block = np.where(finite, block, low / 2 + high / 2)
    mean = low + ((block - low) / len(block)).sum(axis=0)
    # The exact value for a constant column, so that it becomes exactly 0.
    mean = np.where(low == high, low, mean)
    reach = np.where(low == high, np.abs(low), np.maximum(high / 2 - mean / 2, mean / 2 - low / 2))
    exponent = np.frexp(reach)[1]
    safe = SAFE_EXPONENT[compute.itemsize]
    scale = np.where(np.abs(exponent) > safe, np.ldexp(1.0, np.clip(-exponent, -1000, 1000)), 1.0)
    return mean * scale, scale


def _check_array(array: Array) -> Array:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported: use X.filled(np.nan) and missing='pairwise'.")
    array = np.asarray(array)
    if array.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows × features, got {array.ndim}; "
            "reshape a single feature with X.reshape(-1, 1) (Expected 2D array)."
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: pass the real and imaginary parts as features.")
    if array.dtype.kind == "O":
        if not all(isinstance(value, Real) for value in array.flat):
            odd = next(value for value in array.flat if not isinstance(value, Real))
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


def _run_here(function: Callable[[Tile], Floats], tiles: Sequence[Tile]) -> list[Floats]:
    return [function(tile) for tile in tiles]
