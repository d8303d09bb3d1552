"""Columns of small tables: what a target can be read from."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from banditsis._typing import Array
from banditsis.sources.files import find_column, need

MISSING = frozenset(("", "NA", "N/A", "na", "NaN", "nan", "NAN", "null", "NULL", "None", "."))
#: Names of columns that hold the ids of samples, in lower case.
ID_NAMES = frozenset(
    ("", "id", "ids", "iid", "index", "_index", "__index_level_0__", "unnamed: 0", "rownames", "obs_names")
) | frozenset(("name", "sample", "sample_id", "sampleid", "subject", "animal", "barcode", "cell", "cell_id"))
FAM = ("FID", "IID", "father", "mother", "sex", "phenotype")


class Read(NamedTuple):
    """A target as it is in its file."""

    #: numbers with NaN, or labels with None, where there is no value
    values: Array
    #: ids of the samples, as strings, if the file has them
    ids: Array | None
    column: str


def read_text(path: Path, wanted: str | None) -> Read:
    """Read a column of a text table: commas, tabs, semicolons or blanks, with or without a header, or .gz."""
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


def _read_lines(path: Path, file: TextIO, wanted: str | None) -> Read:
    lines = (line for line in file if line.strip())
    first = list(islice(lines, 100))
    if not first:
        raise ValueError(f"{path} is empty.")
    rows = _split(chain(first, lines), first[0])
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
    plink = path.name.lower().endswith((".fam", ".pheno", ".phen"))
    return Read(_converted(values, plink), np.array(ids) if id_columns else None, names[column])


def _split(lines: Iterator[str], first: str) -> Iterator[list[str]]:
    delimiter = next((mark for mark in "\t,;" if mark in first), None)
    return csv.reader(lines, delimiter=delimiter) if delimiter else (line.split() for line in lines)


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


def _choose(where: object, names: Sequence[str], wanted: str | None) -> tuple[int, list[int]]:
    """The column that is wanted, and those that make up the ids."""
    lower = [name.lower().lstrip("#") for name in names]
    if "fid" in lower and "iid" in lower:
        ids = [lower.index("fid"), lower.index("iid")]
    else:
        ids = [k for k, name in enumerate(lower) if name in ID_NAMES and k == 0 and len(names) > 1]
    if wanted is not None:
        column = find_column(names, wanted, where)
        return column, [] if column in ids else ids
    others = [k for k in range(len(names)) if k not in ids]
    if len(others) != 1:
        shown = ", ".join(names[k] for k in others[:8]) + (", …" if len(others) > 8 else "")
        raise ValueError(f"{where} has several columns: say which, as {where}:column; there are {shown}.")
    return others[0], ids


def _converted(values: Sequence[str], plink: bool = False) -> Array:
    """Numbers if all values are, else labels."""
    missing = MISSING | {"-9"} if plink else MISSING
    try:
        return np.array([np.nan if value in missing else float(value) for value in values])
    except ValueError:
        return np.array([None if value in missing else value for value in values], dtype=object)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_value(text: str) -> bool:
    return text in MISSING - {""} or _is_number(text)


def read_npy(path: Path, wanted: str | None) -> Read:
    """Read a vector from a ``.npy`` file, or a column of a matrix by its number."""
    try:
        array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read as a NumPy array, it may be truncated: {error}") from error
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        if wanted not in (None, "1"):
            raise ValueError(
                f"{path} is a single column, and has no column {wanted!r}: leave ':{wanted}' out."
            )
        return Read(np.array(array).reshape(-1), None, path.name)
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}: a target has one dimension, or two and a number.")
    column, _ = _choose(path, [f"{k + 1}" for k in range(array.shape[1])], wanted)
    return Read(np.array(array[:, column]), None, f"{column + 1}")


def read_arrow(path: Path, wanted: str | None) -> Read:
    """Read a column of a Parquet, Arrow or Feather file."""
    dataset = need("pyarrow.dataset", "parquet")
    form = "parquet" if path.suffix.lower() in (".parquet", ".pq") or path.is_dir() else "ipc"
    try:
        table = dataset.dataset(path, format=form)
        names = table.schema.names
        column, id_columns = _choose(path, names, wanted)
        chosen = table.to_table(columns=[names[k] for k in (column, *id_columns)])
    except (OSError, need("pyarrow", "parquet").ArrowInvalid) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    values = chosen.column(0).to_numpy()
    parts = [[str(value) for value in chosen.column(k + 1).to_pylist()] for k in range(len(id_columns))]
    ids = np.array(["\t".join(pair) for pair in zip(*parts, strict=True)]) if parts else None
    return Read(values, ids, names[column])
