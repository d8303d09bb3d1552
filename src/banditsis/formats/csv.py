"""CSV and other tables of text, read by pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from banditsis.formats import text
from banditsis.formats.arrow import read_table, write_parquet
from banditsis.formats.checks import DAMAGE, allowed_memory, damaged
from banditsis.formats.frames import in_memory
from banditsis.formats.options import ReadOptions
from banditsis.formats.registry import COMPRESSIONS, TEXT, find_format
from banditsis.formats.tables import OpenedTable
from banditsis.formats.text import Dialect, find_dialect, is_number, open_text, read_rows
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.tables import FrameSource, Table, TableSource

#: Bytes for each cell: two of the text, the Arrow columns and the array are in memory at once.
BYTES_PER_CELL = 16
#: A number that may have a currency, %, a decimal comma or thousands separators.
LIKE_A_NUMBER = re.compile(r"[-+]?[$€£]? ?(\d[\d,]*\.?\d*|\.\d+)([eE][-+]?\d+)? ?[%$€£]?")


class TextFile(NamedTuple):
    """A file of a table of text."""

    path: Path
    dialect: Dialect


class OpenedText(OpenedTable):
    """A table of text, or a folder of files: in memory, or copied to the scratch folder if too large."""

    uses_na = True
    source_type: type[TableSource] = FrameSource

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.files = _find_dialects(path, options.na)
        dialect = self.files[0].dialect
        super().__init__(path, dialect.names, options, index=dialect.index_columns)

    def _load_table(self) -> Table:
        ids = [self.names[j] for j in self.id_columns]
        try:
            columns = _read_into_memory(self.files, ids, self.options.memory_limit)
        except _TooLargeError:
            if self.options.scratch is None:
                raise
            self.source_type = TableSource
            copy = self.options.scratch / "table.parquet"
            _write_parquet(self.files, ids, str(copy))
            return read_table(copy, where=self.where)
        return in_memory(self.names, columns, self.where)

    def _make_source(self) -> Source:
        self._check_text_columns()
        opened = super()._make_source()
        source: Source = opened
        (n, p), limit = opened.shape, allowed_memory(self.options.memory_limit)
        if isinstance(opened, FrameSource) and n * p * opened.dtype.itemsize <= limit:
            source = ArraySource(opened.read(slice(0, n), None), opened.names)
            source.notes, source.contents, source.encoding = opened.notes, opened.contents, opened.encoding
        if not self.files[0].dialect.has_header:
            source.notes = [*source.notes, "no header: the first line of the file was taken as values."]
        return source

    def _check_text_columns(self) -> None:
        """Raise if a column of text begins with numbers, or mostly so and would not be encoded."""
        for j in self.candidates:
            if str(self.table.schema.field(j).type) != "string":
                continue
            first = next(iter(self.table.groups[0].load([j], 1000)))
            head = [value for value in first[:1000].to_pylist() if value is not None]
            n_numbers = sum(LIKE_A_NUMBER.fullmatch(value) is not None for value in head)
            is_mixed = 2 * n_numbers >= len(head) and self.table.levels(j, self.options.one_hot) is None
            if is_mixed or n_numbers == len(head):
                _raise_mixed(self.files, j)


def open_csv(path: Path, options: ReadOptions) -> OpenedText:
    """Open a table of text, or all files of a folder as one table."""
    return OpenedText(path, options)


def _find_files(path: Path) -> list[Path]:
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
    paths = _find_files(path)
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


def _read_into_memory(files: Sequence[TextFile], ids: Sequence[str], memory_limit: int | None) -> list[Any]:
    """The columns of all files."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = dict.fromkeys(ids, pa.string())
    # Text that is longer would need too much memory, whatever the size of a compressed file.
    allowed = allowed_memory(memory_limit)
    left = int(allowed / (BYTES_PER_CELL * files[0].dialect.cells_per_byte))
    left -= sum(file.path.stat().st_size for file in files if file.path.suffix.lower() not in COMPRESSIONS)
    if left < 0:
        raise _TooLargeError(files[0].path, allowed)
    tables = []
    for path, dialect in files:
        options = _parse_options(dialect, types)
        with _explained(path, dialect), open_text(path) as stream:
            if path.suffix.lower() not in COMPRESSIONS:
                tables.append(_check_encoding(arrow_csv.read_csv(path, **options)))
                continue
            bounded = _Bounded(stream, left, _TooLargeError(path, allowed))
            tables.append(_check_encoding(arrow_csv.read_csv(bounded, **options)))
            left = bounded.left
    schema = _unify(files, [table.schema for table in tables])
    return list(pa.concat_tables([t if t.schema.equals(schema) else t.cast(schema) for t in tables]).columns)


class _TooLargeError(ValueError):
    """A table does not fit in memory."""

    def __init__(self, path: Path, allowed: int) -> None:
        super().__init__(
            f"{path} needs more memory than the {allowed / 1e9:.3g} GB that may be used: convert it once "
            f"with `banditsis shuffle {path} {path.name.split('.')[0]}.shuffled`, or raise the memory limit."
        )


class _Bounded:
    """A stream of text; raises if more bytes come out of it than fit in memory."""

    closed = False

    def __init__(self, stream: Any, left: int, error: ValueError) -> None:
        self.stream, self.left, self.error = stream, left, error

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.stream.read(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            raise self.error
        return data


def _unify(files: Sequence[TextFile], schemas: Sequence[Any]) -> Any:
    """The types of the columns of all files: floats if one has integers; raise for numbers and text."""
    import pyarrow as pa

    schema = schemas[0]
    for file, other in zip(files[1:], schemas[1:], strict=True):
        try:
            schema = pa.unify_schemas([schema, other], promote_options="permissive")
        except pa.ArrowException as error:
            raise ValueError(
                f"{file.path} has values of another type than the files before it ({error}): write the same "
                "type in all files."
            ) from None
    return schema


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

    return [*arrow_csv.ConvertOptions().null_values, " ", *dialect.na]


def _check_encoding(table: Any) -> Any:
    if any(str(kind) == "binary" for kind in table.schema.types):  # pyarrow's type for text that is not UTF-8
        raise ValueError("it is not UTF-8 text")
    return table


@contextmanager
def _explained(path: Path, dialect: Dialect) -> Iterator[None]:
    """Raise an error that names the line which pyarrow cannot read."""
    try:
        yield
    except _TooLargeError:
        raise
    except DAMAGE as error:
        match = re.search(r"column #(\d+): CSV conversion error", str(error))
        if match:
            _raise_mixed([TextFile(path, dialect)], int(match[1]))
        for _ in read_rows(path, dialect):  # raises if a row has another length or is not UTF-8
            pass
        raise damaged(path, "CSV", error) from error


def _raise_mixed(files: Sequence[TextFile], column: int) -> NoReturn:
    """Raise an error that names the first text in a column of numbers."""
    for path, dialect in files:
        name, null_values = dialect.names[column], _null_values(dialect)
        for number, cells in read_rows(path, dialect):
            cell = cells[column]
            if not is_number(cell) and cell not in null_values:
                raise ValueError(
                    f"{path} has numbers and text in column {name!r}: {cell!r} in line {number:,}; write "
                    "plain numbers with decimal points, leave the cell empty if it is missing, or drop the "
                    "column."
                )
    raise ValueError(f"{files[0].path} has numbers of different types in column {name!r}: drop the column.")


def _write_parquet(files: Sequence[TextFile], ids: Sequence[str], destination: str) -> None:
    """Copy a table to a Parquet file, in pieces; the first ones decide which columns are numbers."""
    import pyarrow as pa

    first = [next(_read_batches(file, {}), None) for file in files]
    found = [(file, batch.schema) for file, batch in zip(files, first, strict=True) if batch is not None]
    schema = _unify([file for file, _ in found], [kinds for _, kinds in found])
    # Later rows may have decimals in a column of integers, or values in an empty column.
    widened = {pa.int64(): pa.float64(), pa.null(): pa.float64()}
    types = {field.name: widened.get(field.type, field.type) for field in schema}
    types |= dict.fromkeys(ids, pa.string())
    batches = (batch for file in files for batch in _read_batches(file, types))
    write_parquet(pa.schema(list(types.items())), batches, destination)


def _read_batches(file: TextFile, types: dict[str, Any]) -> Iterator[Any]:
    from pyarrow import csv as arrow_csv

    path, dialect = file
    with (
        _explained(path, dialect),
        open_text(path) as stream,
        arrow_csv.open_csv(stream, **_parse_options(dialect, types)) as reader,
    ):
        for batch in reader:
            yield _check_encoding(batch)
