"""What every source can do: rows × columns of features, wherever they live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import (
    SMALLEST,
    Array,
    Columns,
    Floats,
    Indices,
    Rows,
    StoredCells,
    count_rows,
    split_at,
    spread,
    take,
    to_columns,
)
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.statistics.moments import Weights


@dataclass(frozen=True)
class Calibration:
    """How each column is transformed before it is summed: ``z = scale · x - shift``.

    The shift is close to the column's mean, so a mean of 1e8 does not drown a deviation of 1. The scale is a
    power of two and almost always 1; it keeps the squares of very large or small values in range. Scores do
    not depend on either.
    """

    shift: Array
    scale: Array

    @cached_property
    def is_unscaled(self) -> bool:
        """Whether all scales are 1."""
        return bool((self.scale == 1).all())

    def take(self, columns: Indices | slice) -> Calibration:
        """The calibration of some of the columns."""
        return Calibration(self.shift[columns], self.scale[columns])


class SumContext(NamedTuple):
    """What a pass over the data needs besides rows, columns and weights."""

    #: of all columns of the source
    calibration: Calibration
    #: the sums, groups × lines × columns, to which the pass adds
    out: Floats
    workers: Workers
    #: called with the number of cells that have been added
    tick: Callable[[int], None] = lambda cells: None


def split_groups(edges: Indices) -> Iterator[tuple[int, slice]]:
    """The number of each group of rows that is not empty, and its positions among the rows."""
    for g, (start, stop) in enumerate(pairwise(edges.tolist())):
        if start < stop:
            yield g, slice(start, stop)


@dataclass
class Tile:
    """Cells that one call sums, and where the sums belong."""

    n_rows: int
    #: groups × lines × columns of the result, and the columns that the tile has sums of
    result: Floats
    place: slice
    #: ``add(out, start)`` adds the sums of the tile to the columns of an array from ``start`` on
    add: Callable[[Floats, int], None]
    part: Floats = field(init=False)


def add_tiles(
    tiles: Iterator[Tile],
    context: SumContext,
    max_waiting: int,
    *,
    overlap: bool = True,
    max_threads: int = 1 << 30,
) -> None:
    """Compute the sums of tiles in parallel, and add them in order, or in parallel if no two ``overlap``."""

    def run(tile: Tile) -> None:
        if not overlap:
            tile.add(tile.result, tile.place.start)
            return
        tile.part = np.zeros((*tile.result.shape[:2], tile.place.stop - tile.place.start))
        tile.add(tile.part, 0)

    def finish(tile: Tile) -> None:
        if overlap:
            tile.result[..., tile.place] += tile.part
        context.tick(tile.n_rows * (tile.place.stop - tile.place.start))

    context.workers.run_in_order(tiles, run, finish, max_waiting, max_threads)


CACHE_LINE = 64  # bytes


class Source(ABC):
    """Rows × columns, wherever they live.

    A new kind of source sets ``shape`` and ``dtype`` and implements ``read``, ``calibrate`` and ``add_sums``.
    The other attributes and methods have defaults that suit an array in memory.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    names: Sequence[str] | None = None
    #: Rows and columns that are stored together.
    chunk: tuple[int, int] = (1, 1)
    #: Number of consecutive rows that cost about as much to read as one of them.
    block_rows: int = 1
    #: What a device other than the CPU reads; 0 if threads read.
    bytes_per_second: float = 0.0
    #: What a thread reads, of machines of 2026, as ``make bench-adaptive`` shows.
    bytes_per_thread: float = 12e9
    #: Share of the cells that are stored, as :meth:`read_stored` reads them; the others are 0.
    density: float = 1.0
    #: Whether cells are stored row by row; None if they are stored in chunks.
    by_row: bool | None = None
    #: Whether the data declare that their rows are in random order.
    shuffled: bool = False
    #: Sizes of the strata by which rows are stored, one after the other; rows are in random order in each.
    stratum_sizes: tuple[int, ...] = ()
    #: What a table contains: which columns are features, and which were skipped and why.
    contents: str = ""
    #: What the result should say about how the data were opened.
    notes: Sequence[str] = ()
    #: Name of the file, or other data, that the source was opened from.
    label: str = ""
    #: Column and level of each feature if some columns are one-hot encoded; the level of a number is None.
    encoding: Sequence[tuple[str, object]] | None = None
    #: What else is known about the features, such as the chromosome: a value for each, by name of the column.
    #: Tables of results have these columns.
    annotations: Mapping[str, Array] = {}
    #: The call that makes the features from columns X, such as ``Interactions(X)``; empty for plain columns.
    recipe: str = ""

    def name(self, column: int) -> str:
        """Name of a feature."""
        return f"x{column}" if self.names is None else self.names[column]

    def block_edges(self) -> Indices:
        """Where blocks of rows begin, and where the last one ends."""
        n = self.shape[0]
        return np.append(np.arange(0, n, self.block_rows), n)

    def row_number(self, row: int) -> int:
        """The number of a row in the user's data, for messages."""
        return row

    @property
    def original_rows(self) -> Indices | None:
        """Position of each row in the user's data, as y has them; None if rows are stored in that order."""
        return None

    def to_original(self, values: Array) -> Array:
        """Values of all rows as they are stored, such as cells that were read, in the user's order."""
        if (rows := self.original_rows) is None:
            return values
        ordered = np.empty_like(values)
        ordered[rows] = values
        return ordered

    def __getitem__(self, rows: Any) -> Source:
        """Some rows of the user's data by indices or a mask, as cross-validation takes them."""
        from banditsis.sources.views import pick_rows  # a view is a source

        return pick_rows(self, rows)

    @abstractmethod
    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        """Cells of some rows × columns as a dense block; a view if possible."""

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        """Cells of some rows × columns, one array for each column."""
        return list(self.read(rows, columns).T)

    def read_stored(self, rows: Rows, columns: Indices | slice) -> StoredCells:
        """The cells of some rows × columns, of sparse matrices without those that are not stored."""
        return StoredCells.of_block(to_columns(self.read(rows, columns)))

    @abstractmethod
    def calibrate(self, rows: Rows) -> Calibration:
        """Find the shift and scale of all columns from some of the rows."""

    @abstractmethod
    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        """Add the products of some cells with their weights to ``context.out``, group by group of rows.

        The result does not depend on the number of workers: tiles have a fixed size and are added in a fixed
        order.

        Parameters
        ----------
        rows : slice or ndarray of int
            The rows of one group after the other, sorted within each.
        edges : ndarray of int
            The sums of ``rows[edges[g]:edges[g + 1]]`` are added to ``context.out[g]``.
        columns : ndarray of int or None
            Sorted columns; None for all.
        weights : Weights
            The weights of these rows, by position in ``rows``.
        context : SumContext
            The calibration, the sums, the threads, and what is called to report progress.
        """

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes that are read from memory or disk for that many rows × columns: cache lines, of an array."""
        (n, p), itemsize = self.shape, self.dtype.itemsize
        if not self.by_row and not scattered:
            return float(n_columns * n_rows * itemsize)
        lines, cells, share = (n_rows, p, n_columns / p) if self.by_row else (n_columns, n, n_rows / n)
        return float(lines * cells * itemsize * (1 - (1 - share) ** (CACHE_LINE / itemsize)))

    def release(self) -> None:  # noqa: B027 - most sources hold no pages
        """Return cached pages of a memory map to the system, if there is one."""


PILOT_ROWS = 32
COLUMNS_AT_ONCE = 8192


def pilot_rows(source: Source, rows: Rows) -> Indices:
    """About 32 of the rows, as many of each stratum, and close together, so few chunks are read for them."""
    edges = np.cumsum([0, *(source.stratum_sizes or source.shape[:1])])
    parts = [part for _, part in split_at(rows, edges)]
    size = -(-PILOT_ROWS // len(parts))
    return np.concatenate([spread(take(part, 0, max(size, source.block_rows)), size) for part in parts])


# Rows in which a value is searched for if a column is empty in the pilot rows, and how many are read at once.
MAX_SEARCHED_ROWS, SEARCHED_AT_ONCE = 1 << 15, 4096


# Smallest and largest binary exponent, by bytes of a cell, at which sums of squares stay in range. Those of
# fourth powers, in float64, do not overflow either; they are 0 below an exponent of -268.
SAFE_EXPONENTS = {4: (-40, 40), 8: (-400, 200)}


def summing_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of partial sums of cells of a dtype."""
    return np.dtype(np.float32 if dtype in (np.float32, np.float16) else np.float64)


def calibrate(
    source: Source, rows: Rows, pilot: Indices, dtype: np.dtype, columns_at_once: int = COLUMNS_AT_ONCE
) -> Calibration:
    """Find the shift and scale of all columns in the dtype of partial sums, from the pilot rows.

    Columns without a value in the pilot rows are searched for one in ``rows``.
    """
    found = Calibration(*np.empty((2, source.shape[1]), dtype))

    def calibrate_some(start: int) -> None:
        columns = np.arange(start, min(start + columns_at_once, source.shape[1]))
        empty = _fill(found, columns, source.read(pilot, slice(start, columns[-1] + 1)))
        for i in range(0, min(count_rows(rows), MAX_SEARCHED_ROWS), SEARCHED_AT_ONCE):
            if empty.size == 0:
                break
            empty = _fill(found, empty, source.read(take(rows, i, i + SEARCHED_AT_ONCE), empty))

    map_in_threads(calibrate_some, range(0, source.shape[1], columns_at_once), 4)
    return found


def _fill(calibration: Calibration, columns: Indices, block: Array) -> Indices:
    """Set the shift and scale of some columns from a few rows of theirs; return those without a value."""
    empty = columns[:0]
    dtype = None if block.dtype.kind == "f" else np.float64  # about the mean is enough
    with np.errstate(over="ignore", invalid="ignore"):
        mean = block.mean(axis=0, dtype=dtype)
        if not np.isfinite(mean).all():
            finite = np.isfinite(block)
            known = finite.any(axis=0)
            empty = columns[~known]
            # replace missing values by the minimum, or 0
            low = np.where(finite, block, np.inf).min(axis=0)
            block = np.where(finite, block, np.where(known, low, 0))
            mean = block.mean(axis=0, dtype=dtype)
    low, high = block.min(axis=0).astype(np.float64), block.max(axis=0).astype(np.float64)
    constant = low == high
    mean = np.where(np.isfinite(mean), mean, low / 2 + high / 2)
    mean = np.where(constant, low, mean)  # exact, so a constant column becomes exactly 0
    reach = np.where(constant, np.abs(low), np.maximum(high / 2 - mean / 2, mean / 2 - low / 2))
    exponent = np.frexp(np.maximum(reach, SMALLEST))[1]
    itemsize = calibration.shift.dtype.itemsize
    (smallest, largest), limit = SAFE_EXPONENTS[itemsize], 126 if itemsize == 4 else 1000
    unsafe, scale = (exponent < smallest) | (exponent > largest), np.ones(len(columns))
    if unsafe.any():
        # Large values become about 1. Small values are only lifted into the safe range, which leaves room
        # for larger ones in other rows. A constant gives no scale, because its variation is unknown.
        lift = np.where(exponent > largest, -exponent, np.where(constant, 0, smallest - exponent))
        scale = np.where(unsafe, np.ldexp(1.0, np.clip(lift, -limit, limit)), 1.0)
    calibration.shift[columns], calibration.scale[columns] = mean * scale, scale
    return empty
