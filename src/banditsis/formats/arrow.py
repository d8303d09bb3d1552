"""Parquet and Arrow files, folders of them, and frames: everything that pyarrow reads as a table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.options import DEFAULTS, ReadOptions, as_ids
from banditsis.formats.registry import Opened, find_format
from banditsis.formats.tables import (
    check_unique_names,
    damaged,
    find_roles,
    match_names,
    may_hold_ids,
    open_table,
)
from banditsis.sources.array import ArraySource
from banditsis.sources.memmap import raise_if_shorter
from banditsis.sources.tables import Feature, FrameSource, RowGroup, Table

MAX_READERS = 32  # open files of a thread
GROUP_BYTES = 1 << 28  # of a row group that is written
#: Cells of a row group that are decoded at once: few enough for the cache, many enough for pyarrow.
CELLS_AT_ONCE = 1 << 18
#: Columns of which the first pages are read together, which need megabytes each, and bytes of a request.
COLUMNS_OF_PAGES, PAGE_BUFFER = 4, 1 << 16
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")


def open_arrow(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open a Parquet or Arrow file, or all files of a folder as one table."""
    return open_table(read_table(path), apart, options)


def read_table(path: Path, where: object = None) -> Table:
    """The schema and the row groups of a file, or of all files of a folder."""
    cache = ReaderCache()
    open_one = _parquet_table if find_format(path) == "parquet" else _arrow_table
    files = _find_files(path)
    tables = _add_partitions([open_one(file, cache) for file in files], path, files)
    first = tables[0]
    for table in tables[1:]:
        if not table.schema.equals(first.schema):
            fields = set(first.schema) ^ set(table.schema)
            differ = [f.name for f in (*first.schema, *table.schema) if f in fields]
            what = f"column {differ[0]!r}" if differ else "the order of its columns"
            raise ValueError(f"{table.where} differs from {Path(str(first.where)).name} in {what}.")
    groups = [group for table in tables for group in table.groups if group.n_rows > 0]
    return Table(first.schema, groups, path if where is None else where)


def _find_files(path: Path) -> list[Path]:
    """The file itself, or the files of a folder sorted by name, without hidden files."""
    if not path.is_dir():
        return [path]
    below = (file for file in path.rglob("*") if file.name.lower().endswith(PARQUET + ARROW))
    files = sorted(file for file in below if file.is_file() and not file.name.startswith((".", "_")))
    if not files:
        raise ValueError(f"{path} has no file that ends in {' or '.join(PARQUET + ARROW)}.")
    return files


def _add_partitions(tables: list[Table], path: Path, files: list[Path]) -> list[Table]:
    """Add the columns that the folders name=value between a folder and its files declare."""
    if path not in files[0].parents:
        return tables
    folders = [file.relative_to(path).parts[:-1] for file in files]
    values = [dict(part.split("=", 1) for part in parts if "=" in part) for parts in folders]
    for file, own in zip(files, values, strict=True):
        if own.keys() != values[0].keys():
            names = ", ".join(sorted(own.keys() ^ values[0].keys()))
            raise ValueError(f"{file} and {files[0]} differ in their partitions: {names}.")
    for name in values[0]:
        if name not in tables[0].schema.names:  # some programs write the column into the files too
            column = _partition_values([own[name] for own in values])
            tables = [_add_constant(*item, name) for item in zip(tables, column, strict=True)]
    return tables


def _partition_values(texts: Sequence[str]) -> Any:
    """The values that the names of folders declare: integers, other numbers, or text."""
    import pyarrow as pa

    decoded = [None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text) for text in texts]
    column = pa.array(decoded, pa.string())
    for kind in (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            return column.cast(kind)
    return column


def _add_constant(table: Table, value: Any, name: str) -> Table:
    """Append a column that has the same value in every row."""
    import pyarrow as pa

    number = len(table.schema.names)

    def make_group(group: RowGroup) -> RowGroup:
        def load(columns: Sequence[int], n_rows: int) -> Iterator[Any]:
            others = [j for j in columns if j != number]
            stored = iter(group.load(others, n_rows) if others else ())
            for j in columns:
                yield pa.repeat(value, group.n_rows) if j == number else next(stored)

        return group._replace(load=load)

    schema = table.schema.append(pa.field(name, value.type))
    return table._replace(schema=schema, groups=[make_group(group) for group in table.groups])


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


@contextmanager
def _valid(path: Path, format_name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise damaged(path, format_name, error) from error
    except MemoryError as error:  # a wrong length asks for too much, too
        raise ValueError(
            f"{path} cannot be read: {error}; it is damaged, or a group of rows does not fit in memory: "
            "write it again, with smaller groups."
        ) from error


def _check_content(table: Any) -> list[Any]:
    """The columns of a table; raise if offsets of text or codes of categories point outside of them."""
    table.validate(full=True)  # costs nothing for numbers
    return list(table.columns)


def _parquet_table(path: Path, cache: ReaderCache) -> Table:
    """Read only the requested column chunks, and nothing between them."""
    import pyarrow.parquet as pq

    def open_reader(metadata: Any = None, buffer_size: int = 0) -> Any:
        # With pre_buffer, whole column chunks would be read even for their first pages.
        options = {"buffer_size": buffer_size, "pre_buffer": False, "page_checksum_verification": True}
        return pq.ParquetFile(path, metadata=metadata, **options)

    with _valid(path, "Parquet"):
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
            with _valid(path, "Parquet"):
                if n_rows is not None:
                    file = cache.get((path, PAGE_BUFFER), lambda: open_reader(metadata, PAGE_BUFFER))
                    batch = next(file.reader.iter_batches(n_rows, [number], indices, use_threads=False))
                    if batch.num_rows >= n_rows:
                        return _check_content(batch)
                file = cache.get(path, lambda: open_reader(metadata))
                return _check_content(
                    file.reader.read_row_group(number, column_indices=indices, use_threads=False)
                )

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
            with _valid(path, "Arrow"):
                reader = cache.get((path, tuple(columns)), lambda: open_reader(columns))
                return _check_content(reader.get_batch(number))

        return RowGroup(length, load)

    with _valid(path, "Arrow"):
        schema = open_reader(None).schema
        if not schema.names:
            raise ValueError("it has no columns")
        reader = open_reader([0])  # to find the lengths without decompressing other columns
        lengths = [reader.get_batch(number).num_rows for number in range(reader.num_record_batches)]
    return Table(schema, [make_group(*item) for item in enumerate(lengths)], path)


def write_parquet(schema: Any, batches: Iterable[Any], destination: str) -> None:
    """Write record batches to a Parquet file, in row groups of a similar size."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    height = int(np.clip(GROUP_BYTES // (8 * len(schema.names)), 1024, 1 << 17))
    held: list[Any] = []
    with pq.ParquetWriter(destination, schema, use_dictionary=False) as writer:
        for batch in batches:
            held.append(batch)
            if sum(batch.num_rows for batch in held) >= height:
                writer.write_table(pa.Table.from_batches(held), row_group_size=height)
                held = []
        writer.write_table(pa.Table.from_batches(held, schema), row_group_size=height)


def open_frame(
    frame: Any,
    apart: Sequence[str] = (),
    options: ReadOptions = DEFAULTS,
    names: Sequence[str] | None = None,
) -> Opened:
    """Open a frame of pandas, polars or pyarrow; numeric columns without missing values are not copied.

    ``names`` replace those of the frame. The other parameters are those of :func:`open_file`.
    """
    if names is not None and len(names) != frame.shape[1]:
        raise ValueError(f"got {len(names):,} names for {frame.shape[1]:,} columns.")
    names = frame_names(frame, names)
    ids = None if match_names(names, options.ids_like or ()) else _index_ids(frame, options.ids_like)
    if ids is not None:
        options = options._replace(ids_like=None)
    taken, id_columns, chosen = find_roles(names, apart, (), options, "the frame")
    has_ids = id_columns or any(may_hold_ids(name, options) for name in names)
    if len(chosen) == len(names) and not has_ids:
        array = _underlying_array(frame)
        if array is not None:
            return Opened(ArraySource(array, names), ids)
    opened = open_table(_frame_table(frame, names, taken), apart, options, make=FrameSource)
    return opened if ids is None else opened._replace(ids=ids)


def encode_frame(frame: Any, features: Sequence[tuple[str, object]]) -> Array:
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


def _frame_table(frame: Any, names: Sequence[str], taken: Sequence[int] = ()) -> Table:
    """The columns of a frame; those that are not taken apart are numbers if their categories are ordered."""
    import pyarrow as pa

    if hasattr(frame, "iloc"):
        numbered = frame.set_axis(range(frame.shape[1]), axis=1)  # its names take as long as its columns
        columns = [
            _pandas_column(series, name, ordered_as_numbers=k not in taken)
            for k, (name, (_, series)) in enumerate(zip(names, numbered.items(), strict=True))
        ]
    else:
        columns = (frame if isinstance(frame, pa.Table) else frame.to_arrow()).columns
    return in_memory(names, columns, "the frame")


def frame_names(frame: Any, names: Sequence[str] | None = None) -> list[str]:
    """Names of the columns of a frame, its own by default; raise if two are the same."""
    own = getattr(frame, "column_names", None) or frame.columns
    texts = [str(name) for name in (own if names is None else names)]
    check_unique_names(texts, "the frame")
    return texts


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


def _pandas_column(series: Any, name: str, *, ordered_as_numbers: bool) -> Any:
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


def _index_ids(frame: Any, like: Sequence[str] | None) -> Array | None:
    """The index of a pandas frame if it names the rows: it is text, has levels, or has the wanted name."""
    index = getattr(frame, "index", None)
    if index is None:
        return None
    levels = [index.get_level_values(k) for k in range(index.nlevels)]
    wanted = like and match_names([str(name) for name in index.names], like)
    if len(levels) == 1 and getattr(index.dtype, "kind", "O") in "iuf" and not wanted:
        return None
    return as_ids([level.tolist() for level in levels])


def _underlying_array(frame: Any) -> Array | None:
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
