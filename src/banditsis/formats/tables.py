"""Tables of columns of any type: which are features, and how frames, Parquet and Arrow files are read."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core import arrays, formatting
from banditsis.formats.files import readable
from banditsis.formats.opened import Opened, ReadOptions, SideColumns, check_names, check_unique_names
from banditsis.formats.opening import FORMATS, find_format
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.memmap import raise_if_shorter
from banditsis.sources.tables import Feature, FrameSource, RowGroup, Table, TableSource, numeric_type

#: A column of text with more distinct values than this, and more than one in two rows, is not encoded.
SMALLEST_LEVEL_LIMIT = 20
MAX_READERS = 32  # open files of a thread
#: Cells of a row group that are decoded at once: few enough for the cache, many enough for pyarrow.
CELLS_AT_ONCE = 1 << 18
#: Columns of which the first pages are read together, which need megabytes each, and bytes of a request.
COLUMNS_OF_PAGES, PAGE_BUFFER = 4, 1 << 16
ENDINGS = (*FORMATS["parquet"].extensions, *FORMATS["arrow"].extensions)


class OpenedTable(Opened):
    """A table that is read when needed by ``load``.

    Row names are the columns in ``index``, and ``levels`` that are not columns; if there are any, they are
    the sample ids by default.
    """

    source_type: type[TableSource] = TableSource

    def __init__(
        self,
        where: object,
        columns: Sequence[str],
        options: ReadOptions,
        load: Callable[[], Table],
        index: Sequence[str] = (),
        levels: SideColumns | None = None,
    ) -> None:
        if options.names is not None:
            names = check_names(options.names, len(columns))
            index, columns = [names[list(columns).index(name)] for name in index], names
        check_unique_names(columns, where)
        self.columns, self._load = columns, load
        self._places = {name: j for j, name in enumerate(columns)}
        self.own_names = [name for name in columns if name not in index]
        side = {name: partial(self._read, name) for name in index}
        super().__init__(where, options, {**side, **(levels or {})})
        self.id_names = self.id_names or list(self.side)

    @cached_property
    def table(self) -> Table:
        with self.explained():
            table = self._load()
        if not table.groups:
            raise ValueError(f"{self.where} has no rows.")
        return table

    @cached_property
    def n_rows(self) -> int:
        return sum(group.n_rows for group in self.table.groups)

    def _read(self, name: str) -> arrays.Array:
        return self.table.values(self._places[name])

    def _make_source(self) -> Source:
        table, names = self.table, self.columns
        left = [self._places[self.names[k]] for k in self.candidates]
        levels, skipped = _sort_columns(table, left, self.options)
        if self.options.strict and skipped:
            shown = list_some([f"{names[j]!r} ({_type_name(table.schema.field(j).type)})" for j in skipped])
            raise TypeError(
                f"{self.where} has columns that are not numeric: {shown}; encode them by "
                "TableEncoder, or pass open_source(X), which skips dates and text, or encodes them with "
                "one_hot=True, dates='numeric'."
            )
        chosen = [j for j in left if j not in skipped]
        what = list_some([f"{names[j]} ({reason})" for j, (reason, _) in skipped.items()])
        remedies = ", ".join(dict.fromkeys(remedy for _, remedy in skipped.values()))
        them = "it" if len(skipped) == 1 else "them"
        notes = [f"skipped {what}; to use {them}: {remedies}."] if skipped else []
        if not chosen:
            raise ValueError(" ".join([f"{self.where} has no column that could be a feature.", *notes]))
        features = [
            Feature(j, k)
            for j in chosen
            for k in (range(len(levels[j])) if j in levels else [None])
            if k != 0 or len(levels[j]) != 2  # of two levels, the first is the complement of the second
        ]
        labels = [names[j] if k is None else f"{names[j]}={levels[j][k]}" for j, k in features]
        source = self.source_type(table, features, labels, levels)
        source.notes = [*source.notes, *notes]
        encoded = [f"{names[j]} ({formatting.count(len(some), 'level')})" for j, some in levels.items()]
        n_numeric = len(chosen) - len(levels)
        numeric = formatting.count(n_numeric, "numeric feature") if n_numeric else ""
        source.contents = " and ".join(filter(None, [numeric, list_some(encoded)]))
        source.contents += f"; skipped {what}" if skipped else ""
        return source


def _sort_columns(
    table: Table, columns: Sequence[int], options: ReadOptions
) -> tuple[dict[int, list[Any]], dict[int, tuple[str, str]]]:
    """The levels of the columns to encode; why other columns are not features, and how to use them."""
    n_half = sum(group.n_rows for group in table.groups) // 2
    limit = min(options.one_hot, max(SMALLEST_LEVEL_LIMIT, n_half))
    levels: dict[int, list[Any]] = {}
    skipped: dict[int, tuple[str, str]] = {}
    names, kinds = table.schema.names, table.schema.types  # each a new list
    for j in columns:
        kind, name = _type_name(kinds[j]), names[j]
        if kind.startswith(("date", "time", "duration")):
            if options.dates == "skip":
                skipped[j] = "dates", "dates='numeric'"
        elif numeric_type(kinds[j]) is not None:
            if options.may_hold_ids(name) and arrays.are_distinct_integers(table.values(j)):
                skipped[j] = "id", "columns=…"
        elif kind.startswith(("list", "struct", "map", "binary", "fixed_size")):
            skipped[j] = "nested values", "columns of numbers"
        elif not options.one_hot:
            skipped[j] = "text", "one_hot=True"
        elif (found := table.levels(j, limit)) is not None:
            levels[j] = found
        else:
            what = "id" if options.may_hold_ids(name) else f"over {limit:,} levels"
            skipped[j] = what, "a larger one_hot" if limit == options.one_hot else "fewer levels"
    return levels, skipped


def list_some(items: Sequence[str]) -> str:
    """The first five of some items, and how many there are more."""
    more = f" and {len(items) - 5:,} more" if len(items) > 5 else ""
    return ", ".join(items[:5]) + more


@cache
def _type_name(kind: Any) -> str:
    """An Arrow type in words, without details such as the unit of a time."""
    if str(kind).startswith("dictionary"):
        return f"categories of {_type_name(kind.value_type)}"
    return re.split(r"[\[<(]", str(kind))[0].removeprefix("large_").removesuffix("_view")


# Parquet and Arrow files


def open_arrow(path: Path, options: ReadOptions) -> OpenedTable:
    """Open a Parquet or Arrow file, or all files of a folder, sorted by name, as one table."""
    files, cache = [path], ReaderCache()
    open_one = _parquet_table if find_format(path) == "parquet" else _arrow_table
    if path.is_dir():
        below = (file for file in path.rglob("*") if file.name.lower().endswith(ENDINGS) and file.is_file())
        files = sorted(file for file in below if not file.name.startswith((".", "_")))
        if not files:
            raise ValueError(f"{path} has no file that ends in {' or '.join(ENDINGS)}.")
    tables = [open_one(file, cache) for file in files]
    schema = tables[0].schema
    for file, table in zip(files, tables, strict=True):
        if table.schema != schema:
            differ = [field.name for field in {*schema} ^ {*table.schema}]
            what = f"column {differ[0]!r}" if differ else "the order of its columns"
            raise ValueError(f"{file} differs from {files[0].name} in {what}.")
    whole = Table(schema, [group for table in tables for group in table.groups if group.n_rows > 0], path)
    with readable(path, "Parquet or Arrow"):  # pandas stores its own metadata in them, as JSON
        stored = (schema.pandas_metadata or {}).get("index_columns", [])
        index = [name for name in stored if isinstance(name, str) and name in schema.names]
    return OpenedTable(path, schema.names, options, lambda: whole, index)


class ReaderCache(threading.local):
    """The open readers of each thread: a reader must not be shared by threads."""

    def __init__(self) -> None:
        self.readers: dict[Hashable, Any] = {}

    def get(self, key: Hashable, open_reader: Callable[[], Any]) -> Any:
        """The reader of a key, opened if it is not there yet."""
        if key not in self.readers:
            if len(self.readers) >= MAX_READERS:
                self.readers.clear()
            self.readers[key] = open_reader()
        return self.readers[key]


def _check_content(table: Any, n_rows: int) -> list[Any]:
    """The columns of a table; raise if they differ in length, or offsets or codes point outside of them."""
    table.validate(full=True)  # costs nothing for numbers
    if table.num_rows != n_rows:
        raise ValueError(f"it has {table.num_rows:,} values of a column in {n_rows:,} rows")
    return list(table.columns)


def _parquet_table(path: Path, cache: ReaderCache) -> Table:
    """Read only the requested column chunks, and nothing between them."""
    import pyarrow.parquet as pq

    def open_reader(metadata: Any = None, buffer_size: int = 0) -> Any:
        # With pre_buffer, whole column chunks would be read even for their first pages.
        options = {"buffer_size": buffer_size, "pre_buffer": False, "page_checksum_verification": True}
        return pq.ParquetFile(path, metadata=metadata, **options)

    with readable(path, "Parquet"):
        file = cache.get(path, open_reader)
        schema, metadata = file.schema_arrow, file.metadata
    # Columns are read by number, because pyarrow would search each name among all columns.
    leaves = np.cumsum([0, *(_count_leaves(field.type) for field in schema)]).tolist()

    def make_group(number: int) -> RowGroup:
        length = metadata.row_group(number).num_rows

        def load(columns: Sequence[int], n_rows: int) -> Iterator[Any]:
            few = 4 * n_rows <= length  # read and decode the first pages only
            width = COLUMNS_OF_PAGES if few else max(1, CELLS_AT_ONCE // length)
            for k in range(0, len(columns), width):
                yield from read([leaves[j] for j in columns[k : k + width]], n_rows if few else None)

        def read(indices: list[int], n_rows: int | None) -> list[Any]:
            with readable(path, "Parquet"):
                if n_rows is not None:
                    file = cache.get((path, PAGE_BUFFER), lambda: open_reader(metadata, PAGE_BUFFER))
                    batch = next(file.reader.iter_batches(n_rows, [number], indices, use_threads=False))
                    if batch.num_rows >= n_rows:
                        return _check_content(batch, batch.num_rows)
                file = cache.get(path, lambda: open_reader(metadata))
                table = file.reader.read_row_group(number, column_indices=indices, use_threads=False)
                return _check_content(table, length)

        return RowGroup(length, load)

    return Table(schema, [make_group(number) for number in range(metadata.num_row_groups)], path)


def _count_leaves(kind: Any) -> int:
    """Columns that Parquet stores for a type: several for a nested type."""
    if kind.num_fields == 0:
        return 1
    return sum(_count_leaves(kind.field(k).type) for k in range(kind.num_fields))


def _arrow_table(path: Path, cache: ReaderCache) -> Table:
    """Map an Arrow file into memory; only the requested columns are decompressed."""
    import pyarrow as pa

    size = path.stat().st_size

    def open_reader(columns: Sequence[int] | None) -> Any:
        fields = None if columns is None else list(columns)
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return pa.ipc.open_file(pa.memory_map(str(path)), options=options)

    def make_group(number: int, length: int) -> RowGroup:
        def load(columns: Sequence[int], n_rows: int) -> list[Any]:
            raise_if_shorter(path, path.stat().st_size, size)
            with readable(path, "Arrow"):
                reader = cache.get((path, tuple(columns)), lambda: open_reader(columns))
                return _check_content(reader.get_batch(number), length)

        return RowGroup(length, load)

    with readable(path, "Arrow"):
        schema = open_reader(None).schema
        if not schema.names:
            raise ValueError("it has no columns")
        reader = open_reader([0])  # to find the lengths without decompressing other columns
        lengths = [reader.get_batch(number).num_rows for number in range(reader.num_record_batches)]
    return Table(schema, [make_group(*item) for item in enumerate(lengths)], path)


# Frames


class OpenedFrame(OpenedTable):
    """A frame; numeric columns without missing values are not copied."""

    source_type = FrameSource

    def __init__(self, frame: Any, options: ReadOptions) -> None:
        self.frame, columns = frame, frame_names(frame)
        load = partial(_frame_table, frame, columns)
        super().__init__("the frame", columns, options, load, levels=_index_levels(frame, columns))

    def _read(self, name: str) -> arrays.Array:
        if hasattr(self.frame, "iloc"):  # ordered categories are labels here, and numbers as features
            series = self.frame.iloc[:, self._places[name]]
            return in_memory([name], [_pandas_column(series, name)], self.where).values(0)
        return super()._read(name)

    def _make_source(self) -> Source:
        is_whole = len(self.candidates) == len(self.names)
        if is_whole and not any(self.options.may_hold_ids(name) for name in self.names):
            array = _underlying_array(self.frame)
            if array is not None:
                return ArraySource(array, self.names)
        return super()._make_source()


def _index_levels(frame: Any, columns: Sequence[str]) -> SideColumns:
    """The levels of a pandas index, unless it is one of numbers without a name."""
    index = getattr(frame, "index", None)
    if index is None or (list(index.names) == [None] and getattr(index.dtype, "kind", "O") in "iuf"):
        return {}

    def read(level: int) -> arrays.Array:
        return np.array(index.get_level_values(level).tolist())

    names = [None if str(name) in columns else name for name in index.names]
    return {f"__index_level_{k}__" if x is None else str(x): partial(read, k) for k, x in enumerate(names)}


def encode_frame(frame: Any, features: Sequence[tuple[str, object]]) -> arrays.Array:
    """Features of a frame, each given by a column and a level as in :attr:`Source.encoding`."""
    places = {name: k for k, name in enumerate(frame_names(frame))}
    used = {column: j for j, column in enumerate(dict.fromkeys(column for column, _ in features))}
    missing = [column for column in used if column not in places]
    if missing:
        raise ValueError(f"the frame has no column {missing[0]!r}, which the selector was fitted on.")
    numbers = [places[column] for column in used]
    if hasattr(frame, "iloc"):
        part = frame.iloc[:, numbers]
    else:
        part = frame[:, numbers] if hasattr(frame, "get_columns") else frame.select(numbers)
    levels: dict[int, list[Any]] = {}
    encoded = []
    for column, level in features:
        j = used[column]
        encoded.append(Feature(j) if level is None else Feature(j, len(levels.setdefault(j, []))))
        if level is not None:
            levels[j].append(level)
    source = FrameSource(_frame_table(part, list(used)), encoded, [""] * len(encoded), levels)
    return source.read(slice(0, source.shape[0]), None)


def frame_names(frame: Any) -> list[str]:
    """Names of the columns of a frame; raise if two are the same."""
    names = list(map(str, getattr(frame, "column_names", None) or frame.columns))
    check_unique_names(names, "the frame")
    return names


def in_memory(names: Sequence[str], columns: Sequence[Any], where: object) -> Table:
    """A table of Arrow columns or NumPy arrays in memory."""
    import pyarrow as pa

    types = [
        pa.from_numpy_dtype(column.dtype) if isinstance(column, np.ndarray) else column.type
        for column in columns
    ]
    schema = pa.schema(list(zip(names, types, strict=True)))
    n_rows = len(columns[0]) if columns else 0
    group = RowGroup(n_rows, lambda numbers, n_rows: [columns[j] for j in numbers])
    return Table(schema, [group] if n_rows else [], where)


def _frame_table(frame: Any, names: Sequence[str]) -> Table:
    """The columns of a frame; ordered categories are numbers."""
    import pyarrow as pa

    if hasattr(frame, "iloc"):
        numbered = frame.set_axis(range(frame.shape[1]), axis=1)  # its names take as long as its columns
        pairs = zip(names, numbered.items(), strict=True)
        columns = [_pandas_column(series, name, ordered_as_numbers=True) for name, (_, series) in pairs]
    else:
        columns = (frame if isinstance(frame, pa.Table) else frame.to_arrow()).columns
    return in_memory(names, columns, "the frame")


def _pandas_column(series: Any, name: str, *, ordered_as_numbers: bool = False) -> Any:
    """The NumPy array of a numeric column, or the Arrow column of any other."""
    import pyarrow as pa

    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub" and dtype.isnative:
        return series.to_numpy()
    if ordered_as_numbers and getattr(dtype, "ordered", False):
        codes = series.cat.codes.to_numpy()
        return pa.chunked_array([pa.array(codes, mask=codes < 0)])
    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TypeError(
            f"column {name!r} of the frame has values of mixed types ({dtype}): convert them to "
            "numbers or text, or leave the column out."
        ) from error
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _underlying_array(frame: Any) -> arrays.Array | None:
    """The array that a pandas frame wraps, if its columns share one."""
    dtypes = set(frame.dtypes) if hasattr(frame, "iloc") else set()
    if len(dtypes) != 1 or not isinstance(dtype := dtypes.pop(), np.dtype) or dtype.kind not in "fiub":
        return None
    first, second, last = (frame.iloc[:, k].to_numpy() for k in (0, min(1, frame.shape[1] - 1), -1))
    start, step, end = (part.__array_interface__["data"][0] for part in (first, second, last))
    if end - start != (frame.shape[1] - 1) * (step - start):  # several arrays
        return None
    array = frame.to_numpy()
    return array if np.shares_memory(array, first) else None
