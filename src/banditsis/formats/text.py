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
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from banditsis.formats.checks import readable
from banditsis.formats.opening import COMPRESSIONS

BLOCK = 1 << 24  # bytes that pyarrow parses at once, and the longest line allowed
HEAD_LINES, HEAD_BYTES = 100, 1 << 20  # what the dialect is found from
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
MISSING = frozenset(("", "NA", "N/A", "na", "NaN", "nan", "NAN", "null", "NULL", "None", "."))
#: All control characters separate entries, except the end of a line.
BLANKS_AS_TABS = bytes(9 if byte <= 32 and byte != 10 else byte for byte in range(256))


class TextFile(NamedTuple):
    """A file with a table of text, and how it is written."""

    path: Path
    #: a blank stands for any number of blanks
    delimiter: str
    names: list[str]
    has_header: bool
    #: lines above the first row of values
    n_skipped: int
    cells_per_byte: float
    #: a comma if numbers have decimal commas, and columns are separated by semicolons
    decimal: str
    #: text that stands for a missing value, besides the usual codes
    na: Sequence[str] = ()


def inspect_text(path: Path, na: Sequence[str] = (), wanted: Sequence[str | None] | None = None) -> TextFile:
    """Find the delimiter and the column names from the first lines.

    ``wanted`` are the requested columns of a target file, in which the first line may be values.
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
    has_header = _has_header(path, rows, na, wanted)
    names = rows[0] if has_header else [f"x{j}" for j in range(len(rows[0]))]
    may_have_commas = delimiter == ";" or len(names) == 1
    has_commas = may_have_commas and any(DECIMAL_COMMA.fullmatch(cell) for row in rows for cell in row)
    return TextFile(
        path,
        delimiter,
        names,
        has_header,
        n_skipped=numbers[0] if has_header else n_blank,
        cells_per_byte=len(names) * len(rows) / max(1, size),
        decimal="," if has_commas else ".",
        na=na,
    )


def _has_header(
    path: Path, rows: Sequence[list[str]], na: Sequence[str], wanted: Sequence[str | None] | None
) -> bool:
    """Whether the first row has names: data have a header unless its cells are numbers or missing.

    That of a target file contains a requested name, has text above a number, or has only text that does not
    occur again below.
    """

    def is_value(cell: str) -> bool:
        is_missing = cell in na or (cell in MISSING and (wanted is None or cell != ""))
        return is_missing or is_number(cell) or DECIMAL_COMMA.fullmatch(cell) is not None

    first, below = rows[0], rows[1:]
    if wanted is None:
        return not all(map(is_value, first))
    if path.name.lower().endswith(".fam"):
        return False
    if any(name in first and not is_number(str(name)) for name in wanted):
        return True
    if below and any(not is_value(a) and is_value(b) for a, b in zip(first, below[0], strict=False)):
        return True
    recurs = any(cell in {row[k] for row in below if k < len(row)} for k, cell in enumerate(first))
    return bool(below) and not recurs and not any(map(is_value, first))


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


def read_rows(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row of values; raise if rows differ in length."""
    lines = islice(_decoded_lines(file.path), file.n_skipped, None)
    for number, cells in _split_lines(file.path, lines, file.delimiter):
        if len(cells) != len(file.names):
            raise ValueError(
                f"{file.path} has {len(cells):,} values in line {number + file.n_skipped:,} and "
                f"{len(file.names):,} in the first: give every line the same number."
            )
        yield number + file.n_skipped, cells


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
    kind = COMPRESSIONS.get(path.suffix.lower(), "")
    explained = readable(path, kind, COMPRESSION_ERRORS) if kind else nullcontext()
    with explained, OPENERS[kind](path) as file:
        yield file


def _open_zstd(path: Path) -> Any:
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(str(path), "zstd"))


COMPRESSION_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
OPENERS: dict[str, Callable[[Path], Any]] = {
    **{"": partial(open, mode="rb"), "gzip": gzip.open, "bzip2": bz2.open},
    **{"xz": lzma.open, "zstd": _open_zstd},
}


def separate_by_tabs(content: bytes) -> bytes:
    """Replace any number of blanks by a tab, and remove those at the ends of lines."""
    content = content.translate(BLANKS_AS_TABS)
    while b"\t\t" in content:
        content = content.replace(b"\t\t", b"\t")
    return content.replace(b"\t\n", b"\n").replace(b"\n\t", b"\n").strip(b"\t")


def is_number(text: str) -> bool:
    try:
        to_number(text)
    except ValueError:
        return False
    return True


def to_number(text: str) -> float:
    """The number of a cell; raise for what is one in Python alone, such as 1_000."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number.")
    return float(text)
