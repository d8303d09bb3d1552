"""Tables of Arrow columns: frames in memory, and files that store groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Columns, Indices, Rows, as_indices, count_rows, spread, take
from banditsis.sources.base import PILOT_ROWS, Calibration, Source, calibrate, summing_dtype
from banditsis.sources.blocks import BlockSource, split_rows

PILOT_SPAN = 1024  # rows at the start of a row group from which columns are calibrated
MIN_COLUMNS = 4  # of a tile, because kernels take four columns at a time


class Feature(NamedTuple):
    """A numeric column, or the indicator of one level of a categorical column."""

    column: int
    #: number of the level in the sorted levels of the column
    level: int | None = None


class RowGroup(NamedTuple):
    """Rows of a table that are stored together."""

    n_rows: int
    #: ``load(columns, n_rows)`` yields columns by number, with at least their first ``n_rows`` rows
    load: Callable[[Sequence[int], int], Iterable[Any]]

    def column(self, number: int) -> Any:
        (column,) = self.load([number], self.n_rows)
        return column


class Table(NamedTuple):
    """Arrow columns in groups of rows."""

    schema: Any
    groups: Sequence[RowGroup]
    #: name of the table in messages
    where: object

    def values(self, column: int) -> Array:
        """All values of a column: numbers with NaN, or text with None, where a value is missing."""
        parts = [group.column(column) for group in self.groups]
        kind = numeric_type(self.schema.field(column).type)
        if kind is not None:
            return np.concatenate([to_numbers(part, kind) for part in parts])
        text = [value if value is None else str(value) for part in parts for value in part.to_pylist()]
        return np.array(text) if None not in text else np.array(text, dtype=object)

    def levels(self, column: int, limit: int) -> list[Any] | None:
        """The sorted distinct values of a column; None if there are more than a limit."""
        found = set[Any]()
        for group in self.groups:
            found.update(_without_views(group.column(column)).unique().to_pylist())
            if len(found - {None}) > limit:
                return None
        return sorted(found - {None}, key=str)


class TableSource(BlockSource):
    """Features of a table that is read by row group; ``levels`` are those of one-hot encoded columns."""

    #: Tiles are copies of columns: small enough for the cache, large enough for a call.
    cells_at_once = 1 << 21

    def __init__(
        self, table: Table, features: Sequence[Feature], names: Sequence[str], levels: dict[int, list[Any]]
    ) -> None:
        self.table, self.features, self.names, self.levels = table, features, names, levels
        if levels:
            stored = table.schema.names
            self.encoding = [
                (stored[column], None if level is None else levels[column][level])
                for column, level in features
            ]
        lengths = [group.n_rows for group in table.groups]
        self.edges = np.concatenate([[0], np.cumsum(lengths, dtype=np.intp)])
        self.shape = int(self.edges[-1]), len(features)
        self.kinds = [numeric_type(field.type) for field in table.schema]
        dtypes = [None if kind is None else np.dtype(kind.to_pandas_dtype()) for kind in self.kinds]
        #: of each feature as it is stored; an indicator is stored as text
        self.stored = [None if level is not None else dtypes[column] for column, level in features]
        self.dtype = np.result_type(np.float32, *(set(self.stored) - {None}))
        sizes = [(dtype or self.dtype).itemsize for dtype in self.stored]
        self._stored_share = sum(sizes) / max(1, len(sizes) * self.dtype.itemsize)
        self.chunk = int(np.median(lengths)), 1

    def block_edges(self) -> Indices:
        return super().block_edges() if self.block_rows == 1 else self.edges

    def tile_columns(self, n_columns: int) -> int:
        return min(n_columns, max(MIN_COLUMNS, super().tile_columns(n_columns)))

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        chosen = as_indices(slice(0, self.shape[1]) if columns is None else columns)
        block = np.empty((count_rows(rows), len(chosen)), self.dtype, order="F")
        places: dict[int, list[int]] = {}  # of the features made of each column
        for k, j in enumerate(chosen.tolist()):
            places.setdefault(self.features[j].column, []).append(k)
        stored, stop = sorted(places), 0
        for group, inside in split_rows(rows, self.edges):
            part = block[stop : (stop := stop + count_rows(inside))]
            for column, values in zip(stored, self._load(group, stored, inside), strict=True):
                for k in places[column]:
                    level = self.features[chosen[k]].level
                    part[:, k] = values if level is None else values == level
        return block

    def calibrate(self, rows: Rows) -> Calibration:
        # Reading the first rows of a row group is cheaper than reading the whole group.
        pilot = spread(take(rows, 0, max(PILOT_ROWS, min(PILOT_SPAN, self.chunk[0]))), PILOT_ROWS)
        width = self.tile_columns(self.shape[1])  # readers of Arrow files are kept by the columns they read
        return calibrate(self, rows, pilot, summing_dtype(self.dtype), width)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return super().bytes_touched(n_rows, n_columns, scattered=scattered) * self._stored_share

    def _load(self, group: int, columns: Sequence[int], rows: Rows) -> Iterator[Array]:
        """Yield some rows of each column of a group: its values, or the numbers of its levels."""
        n_rows = rows.stop if isinstance(rows, slice) else int(rows[-1]) + 1
        loaded = self.table.groups[group].load(columns, n_rows)
        for j, column in zip(columns, loaded, strict=True):
            yield self._convert(j, column)[rows]

    def _convert(self, j: int, column: Any) -> Array:
        return to_codes(column, self.levels[j]) if j in self.levels else to_numbers(column, self.kinds[j])


class FrameSource(TableSource):
    """Features of a frame in memory; values are converted tile by tile, and only where they must be."""

    cells_at_once = 1 << 20

    def __init__(self, table: Table, *given: Any) -> None:
        super().__init__(table, *given)
        self.chunk = 1, 1
        used = sorted({feature.column for feature in self.features})
        self.columns = [
            {
                j: self._convert(j, column) if j in self.levels or _has_view(column) else column
                for j, column in zip(used, group.load(used, group.n_rows), strict=True)
            }
            for group in table.groups
        ]

    def _load(self, group: int, columns: Sequence[int], rows: Rows) -> Iterator[Array]:
        for j in columns:
            column = self.columns[group][j]
            if isinstance(column, np.ndarray):
                yield column[rows]
            elif isinstance(rows, slice):
                yield to_numbers(column.slice(rows.start, rows.stop - rows.start), self.kinds[j])
            else:
                yield to_numbers(column.take(rows), self.kinds[j])

    def tile_columns(self, n_columns: int) -> int:
        return min(n_columns, 16)  # copying a short piece of a column takes longer to call than to run

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return Source.bytes_touched(self, n_rows, n_columns, scattered=scattered)


@cache
def numeric_type(kind: Any) -> Any:
    """The Arrow type to which a column is cast to get numbers; None if it holds text or nested values.

    Dates count days or milliseconds, and times the units in which they are stored.
    """
    import pyarrow as pa

    t = pa.types
    if t.is_dictionary(kind):
        return numeric_type(kind.value_type)
    if t.is_boolean(kind):
        return pa.uint8()
    if t.is_null(kind):
        return pa.float32()
    if t.is_decimal(kind):
        return pa.float64()
    if t.is_temporal(kind) and not t.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind if t.is_integer(kind) or t.is_floating(kind) else None


def to_numbers(column: Any, kind: Any) -> Array:
    """Convert a column to the numbers of an Arrow type, with NaN for missing values.

    ``column.to_numpy()`` would import pandas, and so would converting NaN to a scalar of Arrow.
    """
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return column
    if column.type != kind:
        stored = getattr(column.type, "value_type", None)  # of a dictionary
        column = (column if stored is None else column.cast(stored)).cast(kind)
    if column.null_count:
        kind = kind if pa.types.is_floating(kind) else pa.float64()
        nan = pa.py_buffer(np.array([np.nan], kind.to_pandas_dtype()))
        column = column.cast(kind, safe=False).fill_null(pa.Array.from_buffers(kind, 1, [None, nan])[0])
    arrays = [np.from_dlpack(chunk) for chunk in _chunks(column) if len(chunk)]
    if not arrays:
        return np.empty(0, kind.to_pandas_dtype())
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _chunks(column: Any) -> Sequence[Any]:
    return column.chunks if hasattr(column, "chunks") else [column]


def to_codes(column: Any, levels: list[Any]) -> Array:
    """Number each value by its level; a missing value is -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = []
    for chunk in _chunks(column):
        if pa.types.is_dictionary(chunk.type):  # not decoded: pyarrow cannot decode views of text
            numbers = {level: k for k, level in enumerate(levels)}
            values = chunk.dictionary.to_pylist()
            codes = np.array([*(numbers.get(value, -1) for value in values), -1], dtype=np.int32)
            parts.append(codes[np.from_dlpack(pc.fill_null(chunk.indices.cast(pa.int64()), len(values)))])
        elif pa.types.is_null(chunk.type):  # every value is missing, so the type of the others is not known
            parts.append(np.full(len(chunk), -1, dtype=np.int32))
        else:
            chunk = _without_views(chunk)
            codes = pc.index_in(chunk, value_set=pa.array(levels, chunk.type))
            parts.append(np.from_dlpack(pc.fill_null(codes, -1)))
    return np.concatenate(parts)


def _without_views(column: Any) -> Any:
    """Text in one buffer: pyarrow 26 cannot search in views of text, and finds '' for missing values."""
    import pyarrow as pa

    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _has_view(column: Any) -> bool:
    """Whether a NumPy array can share the memory of a column."""
    return isinstance(column, np.ndarray) or (
        column.null_count == 0 and len(_chunks(column)) == 1 and numeric_type(column.type) == column.type
    )
