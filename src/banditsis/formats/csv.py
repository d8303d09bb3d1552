"""CSV and other tables of text, read by pyarrow."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from banditsis.formats import text
from banditsis.formats.arrow import in_memory, read_table, write_parquet
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import TEXT, Opened, allowed_memory, find_format
from banditsis.formats.tables import damaged, find_roles, list_some, open_table
from banditsis.formats.text import (
    DECIMAL_COMMA,
    MARKED_NUMBER,
    Dialect,
    MarkedNumbers,
    find_dialect,
    is_number,
    read_rows,
    text_size,
)
from banditsis.sources.array import ArraySource
from banditsis.sources.tables import FrameSource


class TextFile(NamedTuple):
    """A file of a table of text."""

    path: Path
    dialect: Dialect


def open_csv(path: Path, apart: Sequence[str] = (), options: ReadOptions = DEFAULTS) -> Opened:
    """Open a table of text: in memory if it fits, else as a copy in the scratch folder, if there is one.

    The files of a folder are one table.
    """
    files = _find_dialects(path, options.na)
    dialect = files[0].dialect
    index = dialect.index_columns
    size = sum(text_size(file.path) for file in files)
    # Two of these are in memory at once: the text, the Arrow columns, the array.
    needed, limit = 16 * size * dialect.cells_per_byte, allowed_memory(options.memory_limit)
    _, ids, chosen = find_roles(dialect.names, apart, index, options, path)
    marked: dict[str, MarkedNumbers] = {}
    if needed > limit:
        # Errors in the first rows are raised before anything is written.
        first = _parse_marked(files[:1], [_read_first(*files[0])], ids, marked)
        _check_text_columns(files[:1], first, chosen, options.one_hot)
        open_table(in_memory(dialect.names, first[0].columns, path), apart, options, index=index)
        if options.scratch is None:
            raise ValueError(
                f"{path} needs about {needed / 1e9:.3g} GB in memory, and {limit / 1e9:.3g} GB may be used: "
                f"convert it once with `banditsis shuffle {path} {path.name.split('.')[0]}.shuffled`, or "
                "raise the memory limit."
            )
        converted = options.scratch / "table.parquet"
        _write_parquet(files, str(converted))
        table = read_table(converted, where=path)
        opened = open_table(table, apart, options, index=index)
        source = opened.source
    else:
        tables = _parse_marked(files, [_read_all(*file, ids) for file in files], ids, marked)
        _check_text_columns(files, tables, chosen, options.one_hot)
        memory = in_memory(dialect.names, _concatenate(files, tables).columns, path)
        opened = open_table(memory, apart, options, index=index, make=FrameSource)
        source = opened.source
        n, p = source.shape
        if n * p * source.dtype.itemsize <= limit:  # many indicators of text may need more
            source = ArraySource(source.read(slice(0, n), None), source.names)
            for attribute in ("notes", "contents", "encoding"):
                setattr(source, attribute, getattr(opened.source, attribute))
    used = {*opened.labels, *(dialect.names[j] for j in chosen)}
    read = [f"{name} ({marks})" if str(marks) else name for name, marks in marked.items() if name in used]
    if read:
        source.notes = [*source.notes, f"read as numbers: {list_some(read)}."]
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


def _parse_marked(
    files: Sequence[TextFile], tables: Sequence[Any], ids: Sequence[int], marked: dict[str, MarkedNumbers]
) -> list[Any]:
    """The tables with numbers in place of text such as 1,250 or 83.7%; ``marked`` gets what was left out."""
    parsed = [_parse_table(table, *file, ids, marked) for file, table in zip(files, tables, strict=True)]
    for name, parser in marked.items():
        for file, table in zip(files, tables, strict=True):
            kind = table.schema.types[file.dialect.names.index(name)]
            if parser.unit and str(kind) not in ("string", "null"):
                raise MarkedNumbersError(file.path, name)
    return parsed


def _parse_table(
    table: Any, path: Path, dialect: Dialect, ids: Sequence[int], marked: dict[str, MarkedNumbers]
) -> Any:
    import pyarrow as pa

    columns = list(table.columns)
    for j, name in enumerate(dialect.names):
        if j in ids or not pa.types.is_string(columns[j].type):
            continue
        parser = marked.get(name) or MarkedNumbers(dialect.delimiter, _null_values(dialect))
        numbers = parser.parse(columns[j])
        if numbers is not None:
            columns[j], marked[name] = numbers, parser
    return pa.Table.from_arrays(columns, dialect.names)


class MarkedNumbersError(ValueError):
    """Numbers of a column are written in different ways."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(
            f"{path} has numbers with different units or separators in column {name!r}: write plain numbers, "
            "or drop the column."
        )


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


def _is_numeric(cell: str) -> bool:
    return is_number(cell) or re.fullmatch(MARKED_NUMBER, cell) is not None


def _raise_mixed(path: Path, dialect: Dialect, column: int) -> NoReturn:
    """Raise an error that names the first text in a column of numbers."""
    null_values, name = _null_values(dialect), dialect.names[column]
    for number, cells in read_rows(path, dialect):
        cell = cells[column]
        if not _is_numeric(cell) and cell not in null_values:
            raise ValueError(
                f"{path} has numbers and text in column {name!r}: {cell!r} in line {number:,}; correct it, "
                "leave it empty if it is missing, or drop the column."
            )
    raise MarkedNumbersError(path, name)


def _check_text_columns(
    files: Sequence[TextFile], tables: Sequence[Any], columns: Sequence[int], max_levels: int
) -> None:
    """Raise if a column of text holds mostly numbers and has many values, or numbers with decimal commas."""
    for (path, dialect), table in zip(files, tables, strict=True):
        for j in columns:
            column = table.column(j)
            if str(column.type) != "string":
                continue
            head = [value for value in column[:1000].to_pylist() if value is not None]
            commas = [value for value in head if DECIMAL_COMMA.fullmatch(value)]
            if commas and all(is_number(value.replace(",", ".")) for value in head):
                raise ValueError(
                    f"{path} has decimal commas in column {dialect.names[j]!r}, as in {commas[0]!r}: write "
                    "decimal points."
                )
            n_numbers = sum(_is_numeric(value.strip()) for value in head)
            if 2 * n_numbers >= len(head) and len(column.unique()) > max_levels:
                _raise_mixed(path, dialect, j)


def _write_parquet(files: Sequence[TextFile], destination: str) -> None:
    import pyarrow as pa

    # Later rows may have decimals in a column of integers, or values in an empty column.
    widened = {pa.int64(): pa.float64(), pa.null(): pa.float64()}
    dialect, marked = files[0].dialect, dict[str, MarkedNumbers]()
    first = _parse_marked(files, [_read_first(*file) for file in files], dialect.index_columns, marked)
    schema = _unify(files, [table.schema for table in first])
    types = {field.name: widened.get(field.type, field.type) for field in schema}
    types |= {schema.names[j]: pa.string() for j in dialect.index_columns}
    numbers = [name for name, kind in types.items() if kind == pa.float64()]
    for as_text in (list(marked), numbers):
        parsers = {name: MarkedNumbers(dialect.delimiter, _null_values(dialect)) for name in as_text}
        batches = (batch for file in files for batch in _parse_batches(*file, types, parsers))
        try:
            write_parquet(pa.schema(list(types.items())), batches, destination)
            return
        except MarkedNumbersError:
            if as_text is numbers:
                raise  # else later rows have such numbers in a column that has plain ones in the first rows


def _parse_batches(
    path: Path, dialect: Dialect, types: dict[str, Any], parsers: dict[str, MarkedNumbers]
) -> Iterator[Any]:
    """The rows of a file in parts; ``parsers`` are for columns of numbers that pyarrow cannot parse."""
    import pyarrow as pa

    for batch in _read_batches(path, dialect, types | dict.fromkeys(parsers, pa.string())):
        columns = dict(zip(dialect.names, batch.columns, strict=True))
        for name, parser in parsers.items():
            columns[name] = parser.parse(columns[name])
            if columns[name] is None:
                _raise_mixed(path, dialect, dialect.names.index(name))
        yield pa.record_batch(list(columns.values()), list(columns))


def _read_batches(path: Path, dialect: Dialect, types: dict[str, Any]) -> Iterator[Any]:
    from pyarrow import csv as arrow_csv

    with (
        _explained(path, dialect),
        _readable(path) as file,
        arrow_csv.open_csv(file, **_parse_options(dialect, types)) as reader,
    ):
        yield from reader
