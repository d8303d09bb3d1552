"""Tables of delimited text, plain or compressed: their dialect, and their columns, read by pyarrow."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from banditsis.core import arrays, formatting
from banditsis.formats.files import DAMAGE, allowed_memory, readable
from banditsis.formats.opened import ReadOptions, match_names
from banditsis.formats.opening import COMPRESSIONS, PLINK_TABLES, TO_PARQUET
from banditsis.formats.tables import OpenedTable, in_memory
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.tables import FrameSource, Table

BLOCK = 1 << 24  # bytes that pyarrow parses at once, and the longest line allowed
HEAD_LINES, HEAD_BYTES = 100, 1 << 20  # what the dialect is found from
#: Bytes for each cell: two of the text, the Arrow columns and the array are in memory at once.
BYTES_PER_CELL = 16
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
#: A number that may have a currency, %, a decimal comma or thousands separators.
LIKE_A_NUMBER = re.compile(r"[-+]?[$€£]? ?(\d[\d,]*\.?\d*|\.\d+)([eE][-+]?\d+)? ?[%$€£]?")
MISSING = {
    *("", ".", "NA", "N/A", "#NA", "#N/A", "#N/A N/A", "na", "n/a", "NaN", "-NaN", "nan", "-nan", "NAN"),
    *("NULL", "null", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
}
MISSING_CODE = -9.0  # of PLINK
FAM_COLUMNS = ("FID", "IID", "father", "mother", "sex", "phenotype")
#: All control characters separate entries, except the end of a line.
BLANKS_AS_TABS = bytes(9 if byte <= 32 and byte != 10 else byte for byte in range(256))


class OpenedText(OpenedTable):
    """A table of text in memory, whose dialect is found from its first lines.

    All columns of a file of targets are text until they are asked for.
    """

    uses_na = True
    source_type = FrameSource

    def __init__(self, path: Path, options: ReadOptions) -> None:
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
        self.path, self.missing = path, MISSING.union(options.na)
        self.delimiter = find_delimiter(path, header)  #: a blank stands for any number of blanks
        numbers, rows = zip(*_split_lines(path, lines, self.delimiter), strict=True)
        self.has_header = _has_header(path, rows, options)
        names = rows[0] if self.has_header else _default_names(path, len(rows[0]), options)
        #: lines above the first row of values
        self.n_skipped = numbers[0] if self.has_header else n_blank
        self.cells_per_byte = len(names) * len(rows) / max(1, size)
        may_have_commas = self.delimiter == ";" or len(names) == 1
        has_commas = may_have_commas and any(DECIMAL_COMMA.fullmatch(cell) for row in rows for cell in row)
        self.decimal = "," if has_commas else "."
        # pandas and R write no name for the column of row names
        index = [""] if self.has_header and names[0] == "" and len(names) > 1 else []
        super().__init__(path, names, options, self._read_file, index)

    def _read_file(self) -> Table:
        """The columns as pyarrow reads them, some of them as text; errors name the line."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        path, has_blanks = self.path, self.delimiter == " "
        texts = self.id_names if self.options.wanted is None else self.columns
        reading = arrow_csv.ReadOptions(block_size=BLOCK, column_names=self.columns, skip_rows=self.n_skipped)
        delimiter = "\t" if has_blanks else self.delimiter
        parsing = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        converting = arrow_csv.ConvertOptions(
            strings_can_be_null=True,
            column_types=dict.fromkeys(texts, pa.string()),
            null_values=[*self.missing, " ", "\t"],
            decimal_point=self.decimal,
        )
        with readable(path, "CSV"):
            try:
                with open_text(path) as opened:
                    stream: Any = _BoundedText(self, opened)
                    if not has_blanks and path.suffix.lower() not in COMPRESSIONS:
                        stream.count(path.stat().st_size)
                        stream = str(path)  # which pyarrow reads faster
                    table = arrow_csv.read_csv(stream, reading, parsing, converting)
                if any(str(kind) == "binary" for kind in table.schema.types):  # of other encodings
                    raise ValueError("it is not UTF-8 text")
                return in_memory(self.columns, table.columns, self.where)
            except DAMAGE as damage:
                if str(path) not in str(damage):  # else it says what to do
                    if match := re.search(r"column #(\d+): CSV conversion error", str(damage)):
                        self._raise_mixed(int(match[1]))
                    for _ in self._rows():  # raises if a row has another length or is not UTF-8
                        pass
                raise

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the cells of each row of values; raise if rows differ in length."""
        lines = islice(_decoded_lines(self.path), self.n_skipped, None)
        for number, cells in _split_lines(self.path, lines, self.delimiter):
            if len(cells) != len(self.columns):
                raise ValueError(
                    f"{self.path} has {len(cells):,} values in line {number + self.n_skipped:,} and "
                    f"{len(self.columns):,} in the first: give every line the same number."
                )
            yield number + self.n_skipped, cells

    def _raise_mixed(self, column: int) -> NoReturn:
        """Raise an error that names the first text in a column of numbers."""
        name = self.columns[column]
        for number, cells in self._rows():
            cell = cells[column]
            if to_number(cell.replace(self.decimal, ".")) is None and cell not in self.missing:
                raise ValueError(
                    f"{self.path} has numbers and text in column {name!r}: {cell!r} in line {number:,}; "
                    "write plain numbers with decimal points, leave the cell empty if it is missing, or drop "
                    "the column."
                )
        raise ValueError(
            f"{self.path} has cells of blanks, or numbers of different types, in column {name!r}: leave "
            "cells empty if they are missing, or drop the column."
        )

    def _read(self, name: str) -> arrays.Array:
        """The values of a column; of targets, numbers if all values are numbers or missing, else labels."""
        values = super()._read(name)
        if self.options.wanted is None or name in self.id_names:
            return values
        texts = [value if value is None else value.strip() for value in values.tolist()]
        file = self.path.name.lower()
        is_plink = match_names(self.columns, ("FID", "IID")) or file.endswith((".fam", ".pheno", ".phen"))
        cells = filter(None, set(texts)) if is_plink else ()
        codes = {cell for cell in cells if to_number(cell) == MISSING_CODE}
        if codes:
            self.notes[name] = "-9 counts as missing in it"
        labels = [None if text in codes else text for text in texts]
        numbers = [np.nan if t is None else to_number(t.replace(self.decimal, ".")) for t in labels]
        return np.array(labels, dtype=object) if None in numbers else np.array(numbers)

    def _make_source(self) -> Source:
        for j in (self._places[self.names[k]] for k in self.candidates):
            if str(self.table.schema.field(j).type) == "string":
                self._check_text_column(j)
        source = super()._make_source()
        n, p = source.shape
        if n * p * source.dtype.itemsize <= allowed_memory(self.options.memory_limit):
            array = ArraySource(source.read(slice(0, n), None), source.names)
            array.notes, array.contents, array.encoding = source.notes, source.contents, source.encoding
            source = array
        if not self.has_header:
            source.notes = [*source.notes, "no header: the first line of the file was taken as values."]
        if self.decimal == ",":
            source.notes = [*source.notes, "decimal commas were read as points."]
        return source

    def _check_text_column(self, column: int) -> None:
        """Raise if a column of text begins with numbers, or mostly so and would not be encoded."""
        first = next(iter(self.table.groups[0].load([column], 1000)))
        head = [value for value in first[:1000].to_pylist() if value is not None]
        n_numbers = sum(LIKE_A_NUMBER.fullmatch(value) is not None for value in head)
        is_mixed = 2 * n_numbers >= len(head) and self.table.levels(column, self.options.one_hot) is None
        if head and (is_mixed or n_numbers == len(head)):
            self._raise_mixed(column)


class _BoundedText:
    """A stream of text that fits in memory, with tabs instead of blanks if they separate columns."""

    closed = False

    def __init__(self, table: OpenedText, stream: Any) -> None:
        self.path, self.stream, self.has_blanks = table.path, stream, table.delimiter == " "
        self.limit = allowed_memory(table.options.memory_limit)
        # bytes that may still be read, whatever the size of a compressed file
        self.n_left = self.limit / (BYTES_PER_CELL * table.cells_per_byte)

    def read(self, size: int) -> bytes:
        data: bytes = self.stream.read(size // 2 if self.has_blanks else size)
        data += self.stream.readline(BLOCK) if self.has_blanks else b""  # whole lines
        self.count(len(data))
        return separate_by_tabs(data) if self.has_blanks else data

    def count(self, n_bytes: int) -> None:
        """Raise if the text so far needs too much memory."""
        self.n_left -= n_bytes
        if self.n_left < 0:
            command = TO_PARQUET.format(self.path, self.path.name.split(".")[0])
            allowed = formatting.format_bytes(self.limit)
            raise ValueError(
                f"{self.path} needs more memory than the {allowed} that may be used: convert it, as in "
                f"{command}, or raise the memory limit."
            )


# Dialects, lines and cells


def _has_header(path: Path, rows: Sequence[list[str]], options: ReadOptions) -> bool:
    """Whether the first row has names: data have a header unless its cells are numbers or missing.

    That of a target file contains a requested name, has text above a number, or has only text that does not
    occur again below.
    """
    wanted = options.wanted

    def is_value(cell: str) -> bool:
        is_missing = cell in options.na or (cell in MISSING and (wanted is None or cell != ""))
        return is_missing or to_number(cell) is not None or DECIMAL_COMMA.fullmatch(cell) is not None

    first, below = rows[0], rows[1:]
    if wanted is None:
        return not all(map(is_value, first))
    if path.name.lower().endswith(".fam"):
        return False
    if any(name in first and to_number(str(name)) is None for name in wanted):
        return True
    if below and any(not is_value(a) and is_value(b) for a, b in zip(first, below[0], strict=False)):
        return True
    recurs = any(cell in {row[k] for row in below if k < len(row)} for k, cell in enumerate(first))
    return bool(below) and not recurs and not any(map(is_value, first))


def _default_names(path: Path, width: int, options: ReadOptions) -> list[str]:
    """x0, x1, … for features; for targets their numbers, after the columns that PLINK defines."""
    if options.wanted is None:
        return [f"x{j}" for j in range(width)]
    name = path.name.lower()
    n_named = len(FAM_COLUMNS) if name.endswith(".fam") else 2 * (name.endswith(PLINK_TABLES) and width > 2)
    return [*FAM_COLUMNS[:n_named], *(f"{k}" for k in range(n_named + 1, width + 1))][:width]


def find_delimiter(path: Path, line: str) -> str:
    """The delimiter of a line.

    The most frequent of comma, semicolon, tab and bar; else a blank; else a tab, for a single column. If
    there are semicolons, tabs or bars, a comma between digits is a decimal comma.
    """
    if ".tsv" in path.name.lower():
        return "\t"
    if any(mark in line for mark in ";\t|"):
        line = re.sub(r"(?<=\d),(?=\d)", "", line)
    best = max(",;\t|", key=line.count)
    return best if line.count(best) else " " if " " in line.strip() else "\t"


def _split_lines(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the last line number and the cells of each row, which may have line ends; skip blank lines."""
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


def _decoded_lines(path: Path) -> Iterator[str]:
    """Yield lines; raise if they are not UTF-8, or too long."""
    with open_text(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(BLOCK + 1), b""), 1):
            fault = ""
            if len(line) > BLOCK:
                fault = f"has more than {BLOCK:,} bytes in line {number:,}: write fewer columns, or Parquet"
            elif number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
                fault = "is UTF-16 text: convert it to UTF-8, as in iconv -f utf-16 -t utf-8"
            elif number == 1 and b"\r" in line.rstrip(b"\r") and not line.endswith(b"\n"):
                fault = "ends its lines with carriage returns alone: convert them, as in tr '\\r' '\\n'"
            if fault:
                raise ValueError(f"{path} {fault}.")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path} is not UTF-8 text: line {number:,} has byte 0x{line[error.start]:02x} at "
                    f"position {error.start + 1:,}; convert it, as in iconv -f latin1 -t utf-8."
                ) from error


@contextmanager
def open_text(path: Path) -> Iterator[Any]:
    """Open plain or compressed text as a stream of bytes; raise if a compressed file is damaged."""
    kind = COMPRESSIONS.get(path.suffix.lower())
    if kind is None:
        with open(path, "rb") as file:
            yield file
        return
    with readable(path, kind, (OSError, EOFError, zlib.error, lzma.LZMAError)):
        if kind == "zstd":
            import pyarrow as pa

            stream: Any = io.BufferedReader(pa.CompressedInputStream(str(path), kind))
        else:
            stream = {"gzip": gzip, "bzip2": bz2, "xz": lzma}[kind].open(path)
        with stream:
            yield stream


def separate_by_tabs(content: bytes) -> bytes:
    """Replace any number of blanks by a tab, and remove those at the ends of lines."""
    content = content.translate(BLANKS_AS_TABS)
    while b"\t\t" in content:
        content = content.replace(b"\t\t", b"\t")
    return content.replace(b"\t\n", b"\n").replace(b"\n\t", b"\n").strip(b"\t")


def to_number(text: str) -> float | None:
    """The number of a cell; None for other text, and for what is a number in Python alone, such as 1_000."""
    try:
        return float(text) if "_" not in text and text.isascii() else None
    except ValueError:
        return None
