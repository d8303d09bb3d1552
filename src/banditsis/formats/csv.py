"""CSV and other tables of text, read by pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from banditsis.core.arrays import Array
from banditsis.core.formatting import format_bytes
from banditsis.formats import text
from banditsis.formats.arrow import in_memory
from banditsis.formats.checks import DAMAGE, allowed_memory, damaged
from banditsis.formats.columns import match_names
from banditsis.formats.opening import COMPRESSIONS, PLINK_TABLES, TO_PARQUET
from banditsis.formats.options import ReadOptions
from banditsis.formats.tables import OpenedTable
from banditsis.formats.text import TextFile, inspect_text, is_number, read_rows
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Source
from banditsis.sources.tables import FrameSource, Table

#: Bytes for each cell: two of the text, the Arrow columns and the array are in memory at once.
BYTES_PER_CELL = 16
#: A number that may have a currency, %, a decimal comma or thousands separators.
LIKE_A_NUMBER = re.compile(r"[-+]?[$€£]? ?(\d[\d,]*\.?\d*|\.\d+)([eE][-+]?\d+)? ?[%$€£]?")
MISSING_CODE = -9.0  # of PLINK
FAM_COLUMNS = ("FID", "IID", "father", "mother", "sex", "phenotype")


class OpenedText(OpenedTable):
    """A table of text in memory."""

    uses_na = True
    source_type = FrameSource

    def __init__(self, file: TextFile, options: ReadOptions) -> None:
        self.file = file
        # pandas and R write no name for the column of row names
        has_row_names = len(file.names) > 1 and file.has_header and file.names[0] == ""
        super().__init__(file.path, file.names, options, self._read_table, [""] if has_row_names else [])

    def _text_columns(self) -> Sequence[str]:
        """Columns that are text, even if they look like numbers."""
        return self.id_names

    def _read_table(self) -> Table:
        texts, limit = self._text_columns(), allowed_memory(self.options.memory_limit)
        # More text would need too much memory, whatever the size of a compressed file.
        budget = _Budget(limit, limit / (BYTES_PER_CELL * self.file.cells_per_byte))
        return in_memory(self.columns, _read_into_memory(self.file, texts, budget), self.where)

    def _make_source(self) -> Source:
        self._check_text_columns()
        opened = super()._make_source()
        source: Source = opened
        (n, p), limit = opened.shape, allowed_memory(self.options.memory_limit)
        if n * p * opened.dtype.itemsize <= limit:
            source = ArraySource(opened.read(slice(0, n), None), opened.names)
            source.notes, source.contents, source.encoding = opened.notes, opened.contents, opened.encoding
        if not self.file.has_header:
            source.notes = [*source.notes, "no header: the first line of the file was taken as values."]
        if self.file.decimal == ",":
            source.notes = [*source.notes, "decimal commas were read as points."]
        return source

    def _check_text_columns(self) -> None:
        """Raise if a column of text begins with numbers, or mostly so and would not be encoded."""
        for j in (self._places[self.names[k]] for k in self.candidates):
            if str(self.table.schema.field(j).type) != "string":
                continue
            first = next(iter(self.table.groups[0].load([j], 1000)))
            head = [value for value in first[:1000].to_pylist() if value is not None]
            n_numbers = sum(LIKE_A_NUMBER.fullmatch(value) is not None for value in head)
            is_mixed = 2 * n_numbers >= len(head) and self.table.levels(j, self.options.one_hot) is None
            if head and (is_mixed or n_numbers == len(head)):
                _raise_mixed(self.file, j)


class SideText(OpenedText):
    """A table of targets, with or without a header; all columns are text until they are asked for."""

    def __init__(self, file: TextFile, options: ReadOptions) -> None:
        name = file.path.name.lower()
        names = file.names if file.has_header else _default_names(name, len(file.names))
        super().__init__(file._replace(names=names), options)
        self._is_plink = bool(match_names(names, ("FID", "IID"))) or name.endswith(
            (".fam", ".pheno", ".phen")
        )

    def _text_columns(self) -> Sequence[str]:
        return self.columns

    def texts(self, name: str) -> list[Any]:
        values = super()._read(name).tolist()
        return [value if value is None else value.strip() for value in values]

    def _read(self, name: str) -> Array:
        """Numbers if all values are numbers or missing, else labels."""
        texts, decimal = self.texts(name), self.file.decimal
        cells = set(texts) - {None} if self._is_plink else ()
        codes = {cell for cell in cells if is_number(cell) and float(cell) == MISSING_CODE}
        if codes:
            self.notes[name] = "-9 counts as missing in it"
        known = [None if text in codes else text for text in texts]
        try:
            return np.array([np.nan if t is None else text.to_number(t.replace(decimal, ".")) for t in known])
        except ValueError:
            return np.array(known, dtype=object)


def _default_names(file: str, width: int) -> list[str]:
    """Names of the columns of a file without a header: what they are in files of PLINK, or their numbers."""
    n_named = len(FAM_COLUMNS) if file.endswith(".fam") else 2 * (file.endswith(PLINK_TABLES) and width > 2)
    return [*FAM_COLUMNS[:n_named], *(f"{k}" for k in range(n_named + 1, width + 1))][:width]


def open_csv(path: Path, options: ReadOptions) -> OpenedText:
    """Open a table of text: features, or targets."""
    file = inspect_text(path, options.na, options.wanted)
    return OpenedText(file, options) if options.wanted is None else SideText(file, options)


def _read_into_memory(file: TextFile, texts: Sequence[str], budget: _Budget) -> list[Any]:
    from pyarrow import csv as arrow_csv

    with _open_stream(file, budget) as stream:
        return list(_check_encoding(arrow_csv.read_csv(stream, **_parse_options(file, texts))).columns)


class _Budget:
    """The bytes of text that may still be read."""

    def __init__(self, allowed: int, left: float) -> None:
        self.allowed, self.left = allowed, left

    def spend(self, path: Path, n_bytes: int) -> None:
        self.left -= n_bytes
        if self.left < 0:
            raise ValueError(
                f"{path} needs more memory than the {format_bytes(self.allowed)} that may be used: convert "
                f"it, as in {TO_PARQUET.format(path, path.name.split('.')[0])}, or raise the memory limit."
            )


class _Counted:
    """A stream of text that spends a budget, and has tabs instead of blanks if they separate columns."""

    closed = False

    def __init__(self, file: TextFile, stream: Any, budget: _Budget) -> None:
        self.file, self.stream, self.budget = file, stream, budget

    def read(self, size: int) -> bytes:
        has_blanks = self.file.delimiter == " "
        data: bytes = self.stream.read(size // 2 if has_blanks else size)
        data += self.stream.readline(text.BLOCK) if has_blanks else b""  # whole lines
        self.budget.spend(self.file.path, len(data))
        return text.separate_by_tabs(data) if has_blanks else data


@contextmanager
def _open_stream(file: TextFile, budget: _Budget) -> Iterator[Any]:
    """What pyarrow reads: the path of a plain file, or a stream; its errors then name the line."""
    path = file.path
    try:
        with text.open_text(path) as stream:
            if file.delimiter == " " or path.suffix.lower() in COMPRESSIONS:
                yield _Counted(file, stream, budget)
            else:
                budget.spend(path, path.stat().st_size)
                yield str(path)
    except DAMAGE as damage:
        if budget.left < 0:
            raise
        match = re.search(r"column #(\d+): CSV conversion error", str(damage))
        if match:
            _raise_mixed(file, int(match[1]))
        for _ in read_rows(file):  # raises if a row has another length or is not UTF-8
            pass
        raise damaged(path, "CSV", damage) from damage


def _parse_options(file: TextFile, texts: Sequence[str]) -> Any:
    """Options of pyarrow, with the columns of text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    delimiter = "\t" if file.delimiter == " " else file.delimiter
    return {
        "read_options": arrow_csv.ReadOptions(
            block_size=text.BLOCK, column_names=file.names, skip_rows=file.n_skipped
        ),
        "parse_options": arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(
            strings_can_be_null=True,
            column_types=dict.fromkeys(texts, pa.string()),
            null_values=_null_values(file),
            decimal_point=file.decimal,
        ),
    }


def _null_values(file: TextFile) -> list[str]:
    from pyarrow import csv as arrow_csv

    return sorted({*arrow_csv.ConvertOptions().null_values, *text.MISSING, " ", "\t", *file.na})


def _check_encoding(table: Any) -> Any:
    if any(str(kind) == "binary" for kind in table.schema.types):  # pyarrow's type for text that is not UTF-8
        raise ValueError("it is not UTF-8 text")
    return table


def _raise_mixed(file: TextFile, column: int) -> NoReturn:
    """Raise an error that names the first text in a column of numbers."""
    name, null_values = file.names[column], _null_values(file)
    for number, cells in read_rows(file):
        cell = cells[column]
        if not is_number(cell.replace(file.decimal, ".")) and cell not in null_values:
            raise ValueError(
                f"{file.path} has numbers and text in column {name!r}: {cell!r} in line {number:,}; "
                "write plain numbers with decimal points, leave the cell empty if it is missing, or drop the "
                "column."
            )
    raise ValueError(
        f"{file.path} has cells of blanks, or numbers of different types, in column {name!r}: leave cells "
        "empty if they are missing, or drop the column."
    )
