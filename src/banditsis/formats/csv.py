"""Tables of text: CSV, TSV, also compressed by gzip."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from banditsis.formats.memory import allowed_memory
from banditsis.formats.registry import Opened, find_column, import_optional
from banditsis.formats.sample_ids import find_id_columns
from banditsis.formats.tables import TableSource, damaged
from banditsis.sources.array import ArraySource

BLOCK = 1 << 24  # bytes that are parsed at once; no line may be longer
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
GZIP_RATIO = 4  # about how much longer a compressed table is when it is not


class Form(NamedTuple):
    """How a table of text is written."""

    delimiter: str
    names: list[str]
    has_header: bool
    #: Lines above the values.
    n_above: int
    #: Bytes of the first lines, and how many values they have: they tell how many the file has.
    sample_bytes: int
    sample_values: int

    @property
    def row_names(self) -> int | None:
        """The column of the row names: pandas and R leave its name empty."""
        return 0 if len(self.names) > 1 and self.has_header and self.names[0] == "" else None

    def id_columns(self, target: str | None, like: Sequence[str] | None) -> list[int]:
        """The columns that are ids, if any are looked for: these are text, whatever they look like."""
        if self.row_names is not None:
            return [self.row_names]
        if like is None:
            return []
        y = None if target is None else find_column(self.names, target, "the table")
        return find_id_columns(self.names, but=y, like=like)

    @property
    def notes(self) -> list[str]:
        """What a result should say."""
        return [] if self.has_header else ["no header: the first line of the file was taken as values."]


class MemoryTable(TableSource):
    """An Arrow table in memory."""

    def __init__(self, table: Any, where: object) -> None:
        self.table, self.where = table, where
        self.schema, self.lengths = table.schema, [table.num_rows]

    def load(self, group: int, columns: Sequence[int], n_rows: int) -> list[Any]:
        return [self.table.column(j) for j in columns]


def open_csv(
    path: Path,
    target: str | None = None,
    *,
    one_hot: bool = False,
    memory_limit: int | None = None,
    ids_like: Sequence[str] | None = None,
    **options: Any,
) -> Opened:
    """Open a table of text: in memory if it fits there, else converted to Parquet once."""
    import_optional("pyarrow", "parquet", "CSV")
    form = find_form(path)
    limit = allowed_memory(memory_limit)
    size = path.stat().st_size * (GZIP_RATIO if path.suffix.lower() == ".gz" else 1)
    # As text, as Arrow's columns, and as an array, of which two are there at a time.
    wanted = 16 * size * form.sample_values // form.sample_bytes
    if wanted > limit:
        from banditsis.formats.conversion import open_converted

        need_in_words = f"needs about {wanted / 1e9:.3g} GB in memory, and {limit / 1e9:.3g} GB may be used"
        return open_converted(path, form, need_in_words, target, one_hot, ids_like)
    apart = form.id_columns(target, ids_like)
    table = _read_table(path, form, apart)
    _refuse_mixed(path, form, table, target, one_hot, apart)
    opened = MemoryTable(table, path).choose(target, one_hot, form.row_names, ids_like)
    assert isinstance(opened.source, TableSource)
    array = opened.source.read(slice(0, opened.source.shape[0]), None)
    source = ArraySource(array, opened.source.names)
    source.notes = form.notes
    return opened._replace(source=source)


def find_form(path: Path) -> Form:
    """Find delimiter and names from the first lines."""
    lines = []
    size = 0
    for line in _lines(path):
        lines.append(line)
        size += len(line)
        if size > 1 << 20 or len(lines) > 100:
            break
    if not any(line.strip() for line in lines):
        raise ValueError(f"{path} has no values: it is empty.")
    check_text_width(path, lines[0])
    text = [_decode(path, k + 1, line) for k, line in enumerate(lines)]
    if "\0" in text[0]:
        raise ValueError(f"{path} is no text: its first line holds zero bytes.")
    blank = next(k for k, line in enumerate(text) if line.strip())
    delimiter = find_delimiter(path, text[blank])
    first = next(csv.reader(text[blank:], delimiter=delimiter))
    has_header = not all(_is_number(value) for value in first)
    names = [name.strip() for name in first] if has_header else [f"x{j}" for j in range(len(first))]
    values = len(first) * len([line for line in text if line.strip()])
    return Form(delimiter, names, has_header, blank + has_header, max(1, size), values)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, "gzip", error) from error


def check_text_width(path: Path, head: bytes) -> None:
    """Say so where text is UTF-16, as spreadsheets save it."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path} is UTF-16 text: convert it to UTF-8, as in iconv -f utf-16 -t utf-8.")


def _decode(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text: line {number:,} has byte 0x{line[error.start]:02x} at position "
            f"{error.start + 1:,}; convert it, as in iconv -f latin1 -t utf-8."
        ) from error


def find_delimiter(path: Path, line: str) -> str:
    """What stands between the values of a line.

    A comma, unless something else is more frequent; blanks only where there is nothing else. Beside
    semicolons, tabs and bars, commas between digits are those of decimals.

    Examples
    --------
    >>> [find_delimiter(Path("x.csv"), line) for line in ("a,b;c", "1,5;2", "7 8", "y")]
    [',', ';', ' ', ',']
    """
    if ".tsv" in path.name.lower():
        return "\t"
    if any(mark in line for mark in ";\t|"):
        line = re.sub(r"(?<=\d),(?=\d)", "", line)
    best = max(",;\t|", key=line.count)
    return best if line.count(best) else " " if " " in line.strip() else ","


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return value.strip() in ("", "NA", "NULL", "null")
    return True


def csv_options(form: Form) -> dict[str, Any]:
    from pyarrow import csv as arrow_csv

    return {
        "read_options": arrow_csv.ReadOptions(
            block_size=BLOCK, column_names=form.names, skip_rows=form.n_above
        ),
        "parse_options": arrow_csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=False),
    }


def _read_table(path: Path, form: Form, as_text: Sequence[int]) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    kinds = {form.names[j]: pa.string() for j in as_text}
    convert = arrow_csv.ConvertOptions(strings_can_be_null=True, column_types=kinds)
    try:
        table = arrow_csv.read_csv(path, convert_options=convert, **csv_options(form))
    except (OSError, ValueError) as error:
        raise explained(path, form, error) from error
    if any(str(kind) == "binary" for kind in table.schema.types):  # what is not UTF-8
        raise explained(path, form, ValueError("it is not UTF-8 text"))
    return table


def explained(path: Path, form: Form, error: Exception) -> Exception:
    """Find the line that a table cannot be read for: the library does not tell."""
    odd = re.search(r"column #(\d+): CSV conversion error", str(error))
    column = None if odd is None else int(odd[1])
    for k, line in enumerate(_lines(path)):
        values = next(csv.reader([_decode(path, k + 1, line)], delimiter=form.delimiter), None)
        if values and len(values) != len(form.names):
            return ValueError(
                f"{path} has {len(values):,} values in line {k + 1:,} and {len(form.names):,} in the first: "
                "give every line the same number."
            )
        if values and column is not None and k >= form.n_above and not _is_number(values[column]):
            return _mixed(path, form.names[column], values[column], k + 1)
    return damaged(path, "CSV", error)


def _mixed(path: Path, name: str, value: str, line: int) -> ValueError:
    return ValueError(
        f"{path} has numbers and text in column {name!r}: {value!r} in line {line:,}; "
        "correct it, or leave it empty if it is missing."
    )


def _refuse_mixed(
    path: Path, form: Form, table: Any, target: str | None, one_hot: bool, apart: Sequence[int]
) -> None:
    """Name the first value that makes text of a column that begins with numbers."""
    for j, (name, column) in enumerate(zip(form.names, table.columns, strict=True)):
        if str(column.type) != "string" or target in (name, str(j + 1)) or j in apart:
            continue
        head = [value for value in column[:1000].to_pylist() if value is not None]
        commas = [value for value in head if DECIMAL_COMMA.fullmatch(value)]
        if commas and all(_is_number(value.replace(",", ".")) for value in head):
            raise ValueError(
                f"{path} has decimal commas in column {name!r}, as in {commas[0]!r}: write decimal points."
            )
        if one_hot or 2 * sum(map(_is_number, head)) < len(head):
            continue
        row, value = next((i, v) for i, v in enumerate(column.to_pylist()) if v and not _is_number(v))
        raise _mixed(path, name, value, row + 1 + form.n_above)
