"""Delimited text: its dialect, its rows, and its size, plain or compressed."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from banditsis.formats.registry import COMPRESSIONS
from banditsis.formats.tables import damaged

BLOCK = 1 << 24  # bytes that pyarrow parses at once, and the longest line allowed
HEAD_LINES, HEAD_BYTES = 100, 1 << 20  # what the dialect is found from
MAX_GZIP_RATIO = 1032  # of the format
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
#: A number with a sign, a currency or %, and commas between groups of three digits.
MARKED_NUMBER = (
    r"(?P<sign>[-+]?)(?P<before>[$€£]?) ?"
    r"(?P<number>[-+]?(?:\d+\.?\d*|\.\d+|[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?)(?:[eE][-+]?\d+)?)"
    r" ?(?P<after>[%$€£]?)"
)
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
            for number, line in enumerate(iter(lambda: file.readline(BLOCK + 1), b""), 1):
                if number == 1 or len(line) > BLOCK:
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
    import pyarrow as pa

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


class MarkedNumbers:
    """Reads a column of text whose values are numbers with blanks, %, a currency or thousands separators.

    All values must have the same unit. Commas separate thousands if the delimiter is a comma too, or if a
    value has two of them or a decimal point after one; otherwise they may be decimal commas.

    Parameters
    ----------
    delimiter : str
        Of the file.
    missing : iterable of str
        What stands for a missing value.
    """

    def __init__(self, delimiter: str, missing: Iterable[str]) -> None:
        self.missing = sorted({"", *missing})
        self.has_groups, self.has_blanks, self.can_group = False, False, delimiter == ","
        self.unit: str | None = None

    def parse(self, column: Any) -> Any:
        """The numbers of an Arrow column or list, null where they are missing; None if it has other values.

        Further calls parse further rows of the same column.
        """
        values = column[:100] if isinstance(column, list) else column[:100].to_pylist()
        head = (value.strip() for value in values if value is not None)
        first = next((value for value in head if value not in self.missing), None)
        if first is not None and re.fullmatch(MARKED_NUMBER, first) is None:
            return None  # most columns of text
        import pyarrow as pa
        import pyarrow.compute as pc

        column = pa.array(column, pa.string()) if isinstance(column, list) else column
        text = pc.utf8_trim_whitespace(column)
        is_missing = pc.is_in(text, value_set=pa.array(self.missing))
        known = pc.if_else(is_missing, pa.scalar(None, pa.string()), text)
        parts = pc.extract_regex(known, f"^{MARKED_NUMBER}$")
        sign, before, number, after = (pc.struct_field(parts, k) for k in range(4))
        units = {*pc.binary_join_element_wise(before, after, "").unique().to_pylist(), self.unit} - {None}
        if parts.null_count > known.null_count or len(units) > 1:
            return None
        has_groups = bool(pc.any(pc.match_substring(number, ",")).as_py())
        if has_groups:
            self.can_group |= bool(pc.any(pc.match_substring_regex(number, r",\d{3}[,.]")).as_py())
            in_groups = pc.match_substring_regex(number, r"^[-+]?\d{1,3}(,\d{3})*(\.\d*)?$")
            if not (self.can_group and pc.all(in_groups).as_py()):
                return None
        digits = pc.binary_join_element_wise(sign, pc.replace_substring(number, ",", ""), "")
        try:
            numbers = digits.cast(pa.float64())
        except pa.ArrowInvalid:  # two signs
            return None
        self.unit = next(iter(units), None)
        self.has_groups |= has_groups
        self.has_blanks |= bool(pc.any(pc.equal(text, "")).as_py())
        return numbers

    def __str__(self) -> str:
        """What was left out of the values."""
        marks = [*([self.unit] if self.unit else []), *(["thousands separators"] if self.has_groups else [])]
        without = [f"without {' and '.join(marks)}"] if marks else []
        return ", ".join([*without, *(["blank cells are missing"] if self.has_blanks else [])])


def text_size(path: Path) -> int:
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
