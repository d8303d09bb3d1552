"""Parquet and Arrow files, and folders of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.formats.checks import readable
from banditsis.formats.options import ReadOptions
from banditsis.formats.registry import find_format
from banditsis.formats.tables import OpenedTable, find_index
from banditsis.sources.memmap import raise_if_shorter
from banditsis.sources.tables import RowGroup, Table

MAX_READERS = 32  # open files of a thread
GROUP_BYTES = 1 << 28  # of a row group that is written
#: Cells of a row group that are decoded at once: few enough for the cache, many enough for pyarrow.
CELLS_AT_ONCE = 1 << 18
#: Columns of which the first pages are read together, which need megabytes each, and bytes of a request.
COLUMNS_OF_PAGES, PAGE_BUFFER = 4, 1 << 16
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")


def open_arrow(path: Path, options: ReadOptions) -> OpenedTable:
    """Open a Parquet or Arrow file, or all files of a folder as one table."""
    table = read_table(path)
    with readable(path, "Parquet or Arrow"):  # pandas stores its own metadata in them, as JSON
        index = find_index(table.schema)
    return OpenedTable(path, table.schema.names, options, lambda: table, index)


def read_table(path: Path, where: object = None) -> Table:
    """The schema and the row groups of a file, or of all files of a folder."""
    cache = ReaderCache()
    open_one = _parquet_table if find_format(path) == "parquet" else _arrow_table
    files = _find_files(path)
    tables = [open_one(file, cache) for file in files]
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
    """The columns of a table; raise if they have another length, or if offsets of text or codes of categories
    point outside of them.
    """
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
