"""CSV and other delimited text: its dialect, its rows, and tables read by pyarrow."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

from banditsis.formats.arrow import in_memory, read_table, write_parquet
from banditsis.formats.conversions import find_converted
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import (
    COMPRESSIONS,
    TEXT,
    Opened,
    allowed_memory,
    find_format,
    import_optional,
)
from banditsis.formats.tables import damaged, find_roles, open_table
from banditsis.sources.array import ArraySource
from banditsis.sources.tables import FrameSource

BLOCK = 1 << 24  # bytes that pyarrow parses at once, and the longest line allowed
HEAD_LINES, HEAD_BYTES = 100, 1 << 20  # what the dialect is found from
MAX_GZIP_RATIO = 1032  # of the format
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
MISSING = frozenset(("", "NA", "N/A", "na", "NaN", "nan", "NAN", "null", "NULL", "None", "."))


class Dialect(NamedTuple):
    """How a table is written as text."""

    delimiter: str
    names: list[str]
    has_header: bool
    #: lines above the first row of values
    n_skipped: int
    cells_per_byte: float
    #: text that stands for a missing value, besides the usual codes
    na: Sequence[str] = ()

    @property
    def index_columns(self) -> list[int]:
        """The column of row names: pandas and R write no name for it."""
        return [0] if len(self.names) > 1 and self.has_header and self.names[0] == "" else []


def find_dialect(
    path: Path,
    find_names: Callable[[list[list[str]]], list[str] | None] | None = None,
    na: Sequence[str] = (),
) -> Dialect:
    """Find the delimiter and the column names from the first lines.

    ``find_names`` returns the names that the first rows declare, or None if there is no header. By default
    the first line is a header unless all its cells are numbers or missing.
    """
    lines, size = [], 0
    for line in islice(_decoded_lines(path), HEAD_LINES):
        lines.append(line)
        size += len(line.encode())
        if size > HEAD_BYTES:
            break
    n_blank = next((k for k, line in enumerate(lines) if line.strip()), None)
    if n_blank is None:
        raise ValueError(f"{path} has no values: it is empty.")
    if "\0" in lines[0]:
        raise ValueError(f"{path} is not text: its first line contains zero bytes.")
    header = lines[n_blank]
    for line in lines[n_blank + 1 :]:
        if header.count('"') % 2 == 0:
            break
        header += line  # a quoted name contains a line end
    delimiter = find_delimiter(path, header)
    numbers, rows = zip(*_split_lines(path, lines, delimiter), strict=True)
    names = find_names(list(rows)) if find_names else _names_of_data(rows[0], na)
    width = len(rows[0])
    density = width * len(rows) / max(1, size)
    if names is None:
        return Dialect(delimiter, [f"x{j}" for j in range(width)], False, n_blank, density, na)
    return Dialect(delimiter, names, True, numbers[0], density, na)


def _names_of_data(first: list[str], na: Sequence[str]) -> list[str] | None:
    return None if all(not cell or is_value(cell) or cell in na for cell in first) else first


def find_delimiter(path: Path, line: str) -> str:
    r"""The delimiter of a line.

    The most frequent of comma, semicolon, tab and bar; else a blank; else a tab, for a single column.
    If there are semicolons, tabs or bars, a comma between digits is a decimal comma.

    Examples
    --------
    >>> [find_delimiter(Path("x.csv"), line) for line in ("a,b;c", "1,5;2", "7 8", "y")]
    [',', ';', ' ', '\t']
    """
    if ".tsv" in path.name.lower():
        return "\t"
    if any(mark in line for mark in ";\t|"):
        line = re.sub(r"(?<=\d),(?=\d)", "", line)
    best = max(",;\t|", key=line.count)
    return best if line.count(best) else " " if " " in line.strip() else "\t"


def _split_lines(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row and the number of its last line; a quoted cell may contain line ends.

    Blank lines are left out. Any number of blanks is one delimiter.
    """
    lines = (line.strip() if delimiter == " " or line.isspace() else line for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter == " ")
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise ValueError(
            f"{path} has a cell of more than {csv.field_size_limit():,} characters that ends in line "
            f"{reader.line_num:,}, or a quote that is not closed: check quotes and the delimiter "
            f"{delimiter!r}."
        ) from error


def read_rows(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row of values; raise if rows differ in length."""
    lines = islice(_decoded_lines(path), dialect.n_skipped, None)
    for number, cells in _split_lines(path, lines, dialect.delimiter):
        if len(cells) != len(dialect.names):
            raise ValueError(
                f"{path} has {len(cells):,} values in line {number + dialect.n_skipped:,} and "
                f"{len(dialect.names):,} in the first: give every line the same number."
            )
        yield number + dialect.n_skipped, cells


def _decoded_lines(path: Path) -> Iterator[str]:
    """Yield lines; raise if they are not UTF-8, or too long."""
    try:
        with _open_text(path) as file:
            for number in count(1):
                line = file.readline(BLOCK + 1)
                if not line:
                    return
                _check_line(path, line, number)
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text: line {number:,} has byte 0x{line[error.start]:02x} at position "
            f"{error.start + 1:,}; convert it, as in iconv -f latin1 -t utf-8."
        ) from error


@contextmanager
def _open_text(path: Path) -> Iterator[Any]:
    """Open plain or compressed text; raise if the compressed file is damaged."""
    with open(path, "rb") as stored, _decompressed(path, stored) as file:
        yield file


@contextmanager
def _decompressed(path: Path, stored: Any) -> Iterator[Any]:
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        yield stored
        return
    try:
        with DECOMPRESSORS[suffix](stored) as file:
            yield file
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise damaged(path, COMPRESSIONS[suffix].label, error) from error


def _open_zstd(stored: Any) -> Any:
    pa = import_optional("pyarrow", "parquet", "zstd")
    return io.BufferedReader(pa.CompressedInputStream(stored, "zstd"))


DECOMPRESSORS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}


def _check_line(path: Path, line: bytes, number: int) -> None:
    if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path} is UTF-16 text: convert it to UTF-8, as in iconv -f utf-16 -t utf-8.")
    if number == 1 and b"\r" in line.rstrip(b"\r") and not line.endswith(b"\n"):
        raise ValueError(
            f"{path} ends its lines with carriage returns alone: convert them, as in tr '\\r' '\\n'."
        )
    if len(line) > BLOCK:
        raise ValueError(
            f"{path} has more than {BLOCK:,} bytes in line {number:,}: write fewer columns or digits, or "
            "convert it to Parquet."
        )


def is_number(text: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_value(text: str) -> bool:
    """Whether a cell is a number or a code for a missing value, but not empty."""
    return text in MISSING - {""} or is_number(text) or DECIMAL_COMMA.fullmatch(text) is not None


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
    size = sum(_text_size(file.path) for file in files)
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
    return pa.concat_tables([table.cast(schema) for table in tables])


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


def _text_size(path: Path) -> int:
    """The size of the text in bytes; that of compressed text is estimated from its first blocks."""
    size, suffix = path.stat().st_size, path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return size
    with open(path, "rb") as packed, _decompressed(path, packed) as file:
        n_read = sum(len(file.read(BLOCK)) for _ in range(4))
        estimate = n_read * size // max(1, packed.tell())
    if suffix != ".gz":
        return estimate
    with open(path, "rb") as packed:
        packed.seek(-4, os.SEEK_END)
        last_size = int.from_bytes(packed.read(), "little")  # of the last part of the file, modulo 4 GiB
    return max(estimate, last_size if last_size < MAX_GZIP_RATIO * size else 0)


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
            block_size=BLOCK, column_names=dialect.names, skip_rows=dialect.n_skipped
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
