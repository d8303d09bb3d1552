"""Tables of Arrow columns: frames in memory, and files that store groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Columns, Indices, Rows, count_rows, spread, take
from banditsis.sources.array import line_bytes
from banditsis.sources.base import Calibration
from banditsis.sources.blocks import BlockSource
from banditsis.sources.calibration import PILOT_ROWS, calibrate, summing_dtype

PILOT_SPAN = 1024  # rows at the start of a row group from which columns are calibrated
COLUMNS_AT_ONCE = 1000  # pyarrow reads wider selections of Parquet columns more slowly


class Feature(NamedTuple):
    """A numeric column, or the indicator of one level of a categorical column."""

    column: int
    #: number of the level in the sorted levels of the column
    level: int | None = None


class RowGroup(NamedTuple):
    """Rows of a table that are stored together."""

    n_rows: int
    #: ``load(columns, n_rows)`` returns columns by number, with at least their first ``n_rows`` rows
    load: Callable[[Sequence[int], int], list[Any]]


class Table(NamedTuple):
    """Arrow columns in groups of rows."""

    schema: Any
    groups: Sequence[RowGroup]
    #: name of the table in messages
    where: object

    def values(self, column: int) -> Array:
        """All values of a column: numbers with NaN, or text with None, where a value is missing."""
        parts = [group.load([column], group.n_rows)[0] for group in self.groups]
        if non_numeric_type(self.schema.field(column).type) is None:
            return np.concatenate([to_numbers(part) for part in parts])
        text = [value if value is None else str(value) for part in parts for value in part.to_pylist()]
        return np.array(text) if None not in text else np.array(text, dtype=object)

    def levels(self, column: int) -> list[Any]:
        """The sorted distinct values of a column."""
        parts = [group.load([column], group.n_rows)[0] for group in self.groups]
        return sorted({value for part in parts for value in part.unique().to_pylist()} - {None}, key=str)


class TableSource(BlockSource):
    """Features of a table that is read by row group.

    Parameters
    ----------
    table : Table
        The columns.
    features : sequence of Feature
        The features made from the columns.
    names : sequence of str
        Their names.
    levels : dict
        The levels of each one-hot encoded column.
    """

    #: Tiles are copies of columns and should stay in the cache.
    cells_at_once = 1 << 20

    def __init__(
        self, table: Table, features: Sequence[Feature], names: Sequence[str], levels: dict[int, list[Any]]
    ) -> None:
        self.table, self.features, self.names, self.levels = table, features, names, levels
        lengths = [group.n_rows for group in table.groups]
        self.edges = np.concatenate([[0], np.cumsum(lengths, dtype=np.intp)])
        self.shape = int(self.edges[-1]), len(features)
        types = [field.type for field in table.schema]
        self.dtype = _common_dtype({types[f.column] for f in features if f.level is None})
        self.chunk = int(np.median(lengths)), 1
        self.plain = [_is_plain(kind) for kind in types]

    def block_edges(self) -> Indices:
        return super().block_edges() if self.block_rows == 1 else self.edges

    def tile_columns(self, n_columns: int) -> int:
        return min(COLUMNS_AT_ONCE, super().tile_columns(n_columns))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        features = self.features
        if columns is not None:
            features = features[columns] if isinstance(columns, slice) else [features[j] for j in columns]
        stored = list(dict.fromkeys(feature.column for feature in features))
        block = np.empty((count_rows(rows), len(features)), self.dtype, order="F")
        for group, inside, place in self._split_by_group(rows):
            loaded = self._load(group, stored, inside)
            current = -1
            for k, (column, level) in enumerate(features):  # sorted by column
                if column != current:
                    current, values = column, next(loaded)
                block[place, k] = values if level is None else values == level
        return block

    def calibrate(self, rows: Rows) -> Calibration:
        # Reading the first rows of a row group is cheaper than reading the whole group.
        pilot = spread(take(rows, 0, max(PILOT_ROWS, min(PILOT_SPAN, self.chunk[0]))), PILOT_ROWS)
        return calibrate(self, rows, pilot, summing_dtype(self.dtype))

    def _split_by_group(self, rows: Rows) -> Iterator[tuple[int, Rows, slice]]:
        """Yield each row group that contains some of the rows, the rows within it, and their place."""
        first, last = (rows.start, rows.stop - 1) if isinstance(rows, slice) else (rows[0], rows[-1])
        start, stop = np.searchsorted(self.edges, [first, last], side="right")
        for group in range(int(start) - 1, int(stop)):
            low, high = int(self.edges[group]), int(self.edges[group + 1])
            if isinstance(rows, slice):
                a, b = max(low, rows.start), min(high, rows.stop)
                yield group, slice(a - low, b - low), slice(a - rows.start, b - rows.start)
                continue
            a, b = (int(k) for k in np.searchsorted(rows, [low, high]))
            if b > a:
                yield group, rows[a:b] - low, slice(a, b)

    def _load(self, group: int, columns: Sequence[int], rows: Rows) -> Iterator[Array]:
        """Yield some rows of each column of a group: its values, or the numbers of its levels."""
        n_rows = rows.stop if isinstance(rows, slice) else int(rows[-1]) + 1
        loaded = self.table.groups[group].load(columns, n_rows)
        for j, column in zip(columns, loaded, strict=True):
            yield self._convert(j, column)[rows]

    def _convert(self, j: int, column: Any) -> Array:
        if self.plain[j]:  # the common case first: a tile may have a thousand columns
            return np.asarray(column.to_numpy(zero_copy_only=False))
        return to_codes(column, self.levels[j]) if j in self.levels else to_numbers(column)


class FrameSource(TableSource):
    """Features of a frame in memory; values are converted tile by tile, and only where they must be."""

    cells_at_once = 1 << 19

    def __init__(
        self, table: Table, features: Sequence[Feature], names: Sequence[str], levels: dict[int, list[Any]]
    ) -> None:
        super().__init__(table, features, names, levels)
        self.chunk = 1, 1
        used = sorted({feature.column for feature in features})
        loaded = zip(used, table.groups[0].load(used, self.shape[0]), strict=True)
        self.columns = {
            j: to_codes(column, levels[j]) if j in levels else _view(column) for j, column in loaded
        }

    def _load(self, group: int, columns: Sequence[int], rows: Rows) -> Iterator[Array]:
        return (self._read_column(self.columns[j], rows) for j in columns)

    def _read_column(self, column: Any, rows: Rows) -> Array:
        if isinstance(column, np.ndarray):
            return column[rows]
        if isinstance(rows, slice):
            return to_numbers(column.slice(rows.start, rows.stop - rows.start))
        return to_numbers(column.take(rows))

    def tile_columns(self, n_columns: int) -> int:
        return min(n_columns, 64)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if scattered:
            return n_columns * line_bytes(self.shape[0], n_rows / self.shape[0], self.dtype.itemsize)
        return float(n_columns * n_rows * self.dtype.itemsize)


def to_numbers(column: Any) -> Array:
    """Convert a numeric Arrow column; missing values become NaN."""
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return column
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_dictionary(kind):
        return to_numbers(column.cast(kind.value_type))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def to_codes(column: Any, levels: list[Any]) -> Array:
    """Number each value by its level; a missing value is -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    codes = pc.fill_null(pc.index_in(column, value_set=pa.array(levels, column.type)), -1)
    return np.asarray(codes.to_numpy(zero_copy_only=False))


def non_numeric_type(kind: Any) -> str | None:
    """Describe an Arrow type that is not numeric; None if it is."""
    import pyarrow as pa

    t = pa.types
    if _is_plain(kind) or t.is_boolean(kind) or t.is_decimal(kind) or t.is_null(kind):
        return None
    if t.is_dictionary(kind):
        inner = non_numeric_type(kind.value_type)
        return None if inner is None else f"categories of {inner}"
    return str(kind).split("[")[0].split("<")[0].removeprefix("large_").removesuffix("_view")


def _view(column: Any) -> Any:
    """A NumPy view of a column if it has one; else the column."""
    if isinstance(column, np.ndarray):
        return column
    if not _is_plain(column.type) or column.null_count or column.num_chunks != 1:
        return column
    return column.chunk(0).to_numpy()


def _is_plain(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _common_dtype(kinds: set[Any]) -> np.dtype:
    """float32 if it holds every value of the columns exactly, else float64."""
    import pyarrow as pa

    def is_narrow(kind: Any) -> bool:
        t = pa.types
        if t.is_integer(kind):
            return bool(kind.bit_width <= 16)
        return bool(t.is_float32(kind) or t.is_float16(kind) or t.is_boolean(kind) or t.is_null(kind))

    return np.dtype(np.float32 if all(is_narrow(kind) for kind in kinds) else np.float64)
