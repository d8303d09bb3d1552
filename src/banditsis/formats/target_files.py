"""Columns of small tables: what a target can be read from."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from banditsis.arrays import Array
from banditsis.formats.csv import DECIMAL_COMMA, check_text_width, find_delimiter
from banditsis.formats.numpy import load_npy
from banditsis.formats.registry import find_column, import_optional
from banditsis.formats.sample_ids import as_ids, find_id_columns
from banditsis.formats.tables import index_column

MISSING = frozenset(("", "NA", "N/A", "na", "NaN", "nan", "NAN", "null", "NULL", "None", "."))
PLINK = (".fam", ".pheno", ".phen")
FAM = ("FID", "IID", "father", "mother", "sex", "phenotype")


class TargetValues(NamedTuple):
    """A target as it is in its file."""

    #: numbers with NaN, or labels with None, where there is no value
    values: Array
    #: ids of the samples, as strings, if the file has them
    ids: Array | None
    column: str
    #: what the columns of the ids are called
    id_names: Sequence[str] = ()
    #: how values were read, if that needs to be said
    note: str = ""


def read_text(path: Path, wanted: str | None) -> TargetValues:
    """Read a column of a text table: commas, tabs, semicolons or blanks, with or without a header, or .gz."""
    with open(path, "rb") as raw:
        check_text_width(path, raw.read(2))
    try:
        with _open_text(path) as file:
            return _read_lines(path, file, wanted)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: convert it to UTF-8 first.") from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} cannot be unpacked, it may be truncated: {error}") from error


def _open_text(path: Path) -> TextIO:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _read_lines(path: Path, file: TextIO, wanted: str | None) -> TargetValues:
    lines = (line for line in file if line.strip())
    first = list(islice(lines, 100))
    if not first:
        raise ValueError(f"{path} is empty.")
    rows, delimiter = _split(path, chain(first, lines), first[0])
    head = list(islice(rows, min(100, len(first))))
    names, is_header = _names(path, head, wanted)
    column, id_columns = _choose(path, names, wanted)
    values: list[str] = []
    ids: list[str] = []
    for number, row in enumerate(chain(head[is_header:], rows), 1 + is_header):
        if len(row) != len(names):
            raise ValueError(
                f"{path} has {len(names):,} columns, but {len(row):,} in line {number:,}: mend that line."
            )
        values.append(row[column].strip())
        ids.append("\t".join(row[k].strip() for k in id_columns))
    id_names = [names[k] for k in id_columns]
    plink = path.name.lower().endswith(PLINK) or {name.lower().lstrip("#") for name in id_names} == {
        "fid",
        "iid",
    }
    converted, note = _converted(values, plink, decimal_commas=delimiter != ",")
    return TargetValues(converted, np.array(ids) if id_columns else None, names[column], id_names, note)


def _split(path: Path, lines: Iterator[str], first: str) -> tuple[Iterator[list[str]], str]:
    """The values of each line, and what stands between them: as in the data, but any blanks count as one."""
    delimiter = find_delimiter(path, first)
    if path.name.lower().endswith(PLINK) and delimiter not in first.strip():
        delimiter = " "
    if delimiter == "," and "," not in first:  # one column: a comma below is that of a decimal
        delimiter = " "
    if delimiter == " ":
        return (line.split() for line in lines), delimiter
    return csv.reader(lines, delimiter=delimiter), delimiter


def _names(path: Path, head: Sequence[Sequence[str]], wanted: str | None) -> tuple[list[str], bool]:
    """Names of the columns, and whether the first line has them."""
    first = [cell.strip() for cell in head[0]]
    name = path.name.lower()
    if name.endswith(".fam"):
        return [*FAM, *(f"{k}" for k in range(7, len(first) + 1))][: len(first)], False
    if wanted in first and not _is_number(str(wanted)):
        return first, True
    below = head[1] if len(head) > 1 else first
    over_numbers = any(not _is_value(a) and _is_value(b.strip()) for a, b in zip(first, below, strict=False))
    never_again = not any(map(_is_value, first)) and all(
        cell not in {row[k].strip() for row in head[1:] if k < len(row)} for k, cell in enumerate(first)
    )
    if over_numbers or (never_again and len(head) > 1):
        return first, True
    names = [f"{k}" for k in range(1, len(first) + 1)]
    if name.endswith((".pheno", ".phen")) and len(first) > 2:
        names[:2] = "FID", "IID"
    return names, False


def _choose(
    where: object, names: Sequence[str], wanted: str | None, index: int | None = None
) -> tuple[int, list[int]]:
    """The column that is wanted, and those that make up the ids."""
    if wanted is not None:
        column = find_column(names, wanted, where)
        return column, [index] if index not in (None, column) else find_id_columns(names, but=column)
    ids = [index] if index is not None else find_id_columns(names)
    others = [k for k in range(len(names)) if k not in ids]
    if len(others) != 1:
        shown = ", ".join(names[k] for k in others[:8]) + (", …" if len(others) > 8 else "")
        raise ValueError(f"{where} has several columns: say which, as {where}:column; there are {shown}.")
    return others[0], ids


def _converted(values: Sequence[str], plink: bool, decimal_commas: bool) -> tuple[Array, str]:
    """Numbers if all values are, else labels; and what is to be said of them."""
    notes = []
    if decimal_commas and any(DECIMAL_COMMA.fullmatch(value) for value in values):
        points = [value.replace(",", ".") for value in values]
        if all(value in MISSING or _is_number(value) for value in points):
            values = points
            notes.append("its decimal commas were read as points")
    unknown = [value in MISSING or (plink and _is_minus_nine(value)) for value in values]
    if plink and sum(unknown) > sum(value in MISSING for value in values):
        notes.append("-9 counts as missing in it")
    pairs = list(zip(values, unknown, strict=True))
    try:
        numbers = np.array([np.nan if gone else float(value) for value, gone in pairs])
        return numbers, "; ".join(notes)
    except ValueError:
        labels = np.array([None if gone else value for value, gone in pairs], dtype=object)
        return labels, "; ".join(notes)


def _is_minus_nine(text: str) -> bool:
    return _is_number(text) and float(text) == -9


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_value(text: str) -> bool:
    return text in MISSING - {""} or _is_number(text) or DECIMAL_COMMA.fullmatch(text) is not None


def read_npy(path: Path, wanted: str | None) -> TargetValues:
    """Read a vector from a ``.npy`` file, or a column of a matrix by its number."""
    array = load_npy(path)
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        if wanted not in (None, "1"):
            raise ValueError(
                f"{path} is a single column, and has no column {wanted!r}: leave ':{wanted}' out."
            )
        return TargetValues(np.array(array).reshape(-1), None, path.name)
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}: a target has one dimension, or two and a number.")
    column, _ = _choose(path, [f"{k + 1}" for k in range(array.shape[1])], wanted)
    return TargetValues(np.array(array[:, column]), None, f"{column + 1}")


def read_arrow(path: Path, wanted: str | None) -> TargetValues:
    """Read a column of a Parquet, Arrow or Feather file."""
    dataset = import_optional("pyarrow.dataset", "parquet")
    form = "parquet" if path.suffix.lower() in (".parquet", ".pq") or path.is_dir() else "ipc"
    try:
        table = dataset.dataset(path, format=form)
        names = table.schema.names
        column, id_columns = _choose(path, names, wanted, index_column(table.schema))
        chosen = table.to_table(columns=[names[k] for k in (column, *id_columns)])
    except (OSError, import_optional("pyarrow", "parquet").ArrowInvalid) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    values = chosen.column(0).to_numpy()
    parts = [chosen.column(k + 1).to_pylist() for k in range(len(id_columns))]
    return TargetValues(
        values, as_ids(parts) if parts else None, names[column], [names[k] for k in id_columns]
    )
