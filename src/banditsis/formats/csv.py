"""CSV and other tables of text, read by pyarrow."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from banditsis.formats import text
from banditsis.formats.arrow import in_memory, read_table, write_parquet
from banditsis.formats.conversions import find_converted
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import TEXT, Opened, allowed_memory, find_format, import_optional
from banditsis.formats.tables import damaged, find_roles, open_table
from banditsis.formats.text import DECIMAL_COMMA, Dialect, find_dialect, is_number, read_rows, text_size
from banditsis.sources.array import ArraySource
from banditsis.sources.tables import FrameSource


class TextFile(NamedTuple):
    """A file of a table of text."""

    path: Path
    dialect: Dialect


def open_csv(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open a table of text: in memory if it fits, else as a Parquet file that is written once.

    The files of a folder are one table.
    """
    import_optional("pyarrow", "parquet", "CSV")
    files = _find_dialects(path, options.na)
    dialect = files[0].dialect
    index = dialect.index_columns
    size = sum(text_size(file.path) for file in files)
    # Two of these are in memory at once: the text, the Arrow columns, the array.
    needed, limit = 16 * size * dialect.cells_per_byte, allowed_memory(options.memory_limit)
    if needed > limit:
        # Errors in the first rows are raised before anything is written.
        first_rows = in_memory(dialect.names, _read_first(*files[0]).columns, path)
        open_table(first_rows, apart, options, index=index)
        reason = f"needs about {needed / 1e9:.3g} GB in memory, and {limit / 1e9:.3g} GB may be used"
        converted = find_converted(path, lambda part: _write_parquet(files, part), reason, options.na)
        table = read_table(converted, where=path)
        opened = open_table(table, apart, options, index=index)
        source = opened.source
    else:
        _, id_columns, chosen = find_roles(dialect.names, apart, index, options, path)
        tables = [_read_all(*file, id_columns) for file in files]
        for file, table in zip(files, tables, strict=True):
            columns = {j: table.columns[j] for j in chosen}
            _check_text_columns(*file, columns, options.one_hot)
        memory = in_memory(dialect.names, _concatenate(files, tables).columns, path)
        opened = open_table(memory, apart, options, index=index, make=FrameSource)
        source = ArraySource(opened.source.read(slice(0, opened.source.shape[0]), None), opened.source.names)
        source.notes, source.encoding = opened.source.notes, opened.source.encoding
    if not dialect.has_header:
        source.notes = [*source.notes, "no header: the first line of the file was taken as values."]
    return opened._replace(source=source)


def find_files(path: Path) -> list[Path]:
    """The file itself, or the files of a folder sorted by name, without hidden files."""
    if not path.is_dir():
        return [path]
    entries = sorted(entry for entry in path.iterdir() if entry.name[0] not in "._")
    inner = next((entry for entry in entries if entry.is_dir()), None)
    if inner is not None:
        raise ValueError(
            f"{path} contains CSV files and the folder {inner.name}: move all files into one folder, or "
            "write the table as Parquet."
        )
    return [entry for entry in entries if entry.name.lower().endswith(TEXT)]


def _find_dialects(path: Path, na: Sequence[str]) -> list[TextFile]:
    """The files of a table; raise if they do not have the same columns."""
    paths = find_files(path)
    for file in paths:
        find_format(file)  # raises if it is not text
    files = [TextFile(file, find_dialect(file, na=na)) for file in paths]
    first, names = files[0].path, files[0].dialect.names
    for file, dialect in files[1:]:
        if dialect.has_header != files[0].dialect.has_header:
            with_header, without = (file, first) if dialect.has_header else (first, file)
            raise ValueError(f"{with_header} has a header, and {without} has none: give all files the same.")
        if dialect.names != names:
            differ = [name for name in (*names, *dialect.names) if (name in names) != (name in dialect.names)]
            what = f"column {differ[0]!r}" if differ else "the order of its columns"
            raise ValueError(f"{file} differs from {first.name} in {what}.")
    return files


def _concatenate(files: Sequence[TextFile], tables: Sequence[Any]) -> Any:
    """The rows of all files, with integers as floats if another file has decimals in the same column."""
    import pyarrow as pa

    schema = _unify(files, [table.schema for table in tables])
    return pa.concat_tables([t if t.schema.equals(schema) else t.cast(schema) for t in tables])


def _unify(files: Sequence[TextFile], schemas: Sequence[Any]) -> Any:
    """The types of the columns of all files; raise if one has text where another has numbers."""
    import pyarrow as pa

    schema = schemas[0]
    for file, other in zip(files[1:], schemas[1:], strict=True):
        if other.equals(schema):
            continue
        fields = []
        for field, own in zip(schema, other, strict=True):
            try:
                pair = [pa.schema([field]), pa.schema([own])]
                fields.append(pa.unify_schemas(pair, promote_options="permissive").field(0))
            except pa.ArrowException:
                raise ValueError(
                    f"{file.path} has values of type {own.type} in column {own.name!r}, and the files before "
                    f"it of type {field.type}: write the same type in all files."
                ) from None
        schema = pa.schema(fields)
    return schema


@contextmanager
def _readable(path: Path) -> Iterator[Any]:
    """What pyarrow reads: it decompresses everything but xz."""
    if path.suffix.lower() != ".xz":
        yield path
        return
    with lzma.open(path) as file:
        yield file


def _parse_options(dialect: Dialect, types: dict[str, Any]) -> dict[str, Any]:
    from pyarrow import csv as arrow_csv

    return {
        "read_options": arrow_csv.ReadOptions(
            block_size=text.BLOCK, column_names=dialect.names, skip_rows=dialect.n_skipped
        ),
        "parse_options": arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(
            strings_can_be_null=True, column_types=types, null_values=_null_values(dialect)
        ),
    }


def _null_values(dialect: Dialect) -> list[str]:
    from pyarrow import csv as arrow_csv

    return [*arrow_csv.ConvertOptions().null_values, *dialect.na]


def _read_all(path: Path, dialect: Dialect, text_columns: Sequence[int]) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = {dialect.names[j]: pa.string() for j in text_columns}
    with _explained(path, dialect), _readable(path) as file:
        return _check_encoding(arrow_csv.read_csv(file, **_parse_options(dialect, types)))


def _read_first(path: Path, dialect: Dialect) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with (
        _explained(path, dialect),
        _readable(path) as file,
        arrow_csv.open_csv(file, **_parse_options(dialect, {})) as reader,
    ):
        batches = list(islice(reader, 1))
        return _check_encoding(pa.Table.from_batches(batches, reader.schema))


def _check_encoding(table: Any) -> Any:
    if any(str(kind) == "binary" for kind in table.schema.types):  # pyarrow's type for text that is not UTF-8
        raise ValueError("it is not UTF-8 text")
    return table


@contextmanager
def _explained(path: Path, dialect: Dialect) -> Iterator[None]:
    """Raise an error that names the line which pyarrow cannot read."""
    try:
        yield
    except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
        match = re.search(r"column #(\d+): CSV conversion error", str(error))
        if match:
            _raise_mixed(path, dialect, int(match[1]))
        for _ in read_rows(path, dialect):  # raises if a row has another length or is not UTF-8
            pass
        raise damaged(path, "CSV", error) from error


def _raise_mixed(path: Path, dialect: Dialect, column: int) -> None:
    """Raise an error that names the first text in a column of numbers."""
    null_values = _null_values(dialect)
    for number, cells in read_rows(path, dialect):
        if not is_number(cells[column]) and cells[column] not in null_values:
            raise ValueError(
                f"{path} has numbers and text in column {dialect.names[column]!r}: {cells[column]!r} in line "
                f"{number:,}; correct it, leave it empty if it is missing, or drop the column."
            )


def _check_text_columns(path: Path, dialect: Dialect, columns: Mapping[int, Any], one_hot: bool) -> None:
    """Raise if a column of text holds mostly numbers, or numbers with decimal commas."""
    for j, column in columns.items():
        if str(column.type) != "string":
            continue
        head = [value for value in column[:1000].to_pylist() if value is not None]
        commas = [value for value in head if DECIMAL_COMMA.fullmatch(value)]
        if commas and all(is_number(value.replace(",", ".")) for value in head):
            raise ValueError(
                f"{path} has decimal commas in column {dialect.names[j]!r}, as in {commas[0]!r}: write "
                "decimal points."
            )
        if not one_hot and 2 * sum(map(is_number, head)) >= len(head):
            _raise_mixed(path, dialect, j)


def _write_parquet(files: Sequence[TextFile], destination: str) -> None:
    import pyarrow as pa

    # Later rows may have decimals in a column of integers, or values in an empty column.
    widened = {pa.int64(): pa.float64(), pa.null(): pa.float64()}
    schema = _unify(files, [_read_first(*file).schema for file in files])
    types = {field.name: widened.get(field.type, field.type) for field in schema}
    types |= {schema.names[j]: pa.string() for j in files[0].dialect.index_columns}
    batches = (batch for file in files for batch in _read_batches(*file, types))
    write_parquet(pa.schema(list(types.items())), batches, destination)


def _read_batches(path: Path, dialect: Dialect, types: dict[str, Any]) -> Iterator[Any]:
    from pyarrow import csv as arrow_csv

    with (
        _explained(path, dialect),
        _readable(path) as file,
        arrow_csv.open_csv(file, **_parse_options(dialect, types)) as reader,
    ):
        yield from reader
