"""Delimited text, plain or compressed: its dialect and its rows."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from banditsis.formats.checks import readable
from banditsis.formats.registry import COMPRESSIONS

BLOCK = 1 << 24  # bytes that pyarrow parses at once, and the longest line allowed
HEAD_LINES, HEAD_BYTES = 100, 1 << 20  # what the dialect is found from
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
        with open_text(path) as file:
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
def open_text(path: Path) -> Iterator[Any]:
    """Open plain or compressed text as a stream of bytes; raise if a compressed file is damaged."""
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        with open(path, "rb") as plain:
            yield plain
        return
    with readable(path, COMPRESSIONS[suffix][0], COMPRESSION_ERRORS), DECOMPRESSORS[suffix](path) as file:
        yield file


def _open_zstd(path: Path) -> Any:
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(str(path), "zstd"))


COMPRESSION_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
DECOMPRESSORS: dict[str, Callable[[Path], Any]] = {
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
