"""Read a target from a file of its own: delimited text, Parquet, Arrow or ``.npy``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from banditsis.arrays import Array
from banditsis.formats.arrow import read_table
from banditsis.formats.csv import DECIMAL_COMMA, MISSING, find_dialect, is_number, is_value, read_rows
from banditsis.formats.numpy import load_npy
from banditsis.formats.registry import find_column
from banditsis.formats.tables import as_ids, find_id_columns, find_index

FAM_COLUMNS = ("FID", "IID", "father", "mother", "sex", "phenotype")


class TargetValues(NamedTuple):
    """The values of a target file."""

    #: numbers with NaN, or labels with None, for missing values
    values: Array
    #: sample ids, as strings, if the file has them
    ids: Array | None
    column: str
    #: names of the id columns
    id_names: Sequence[str] = ()
    #: how values were interpreted, if that is not obvious
    note: str = ""


def read_text(path: Path, wanted: str | None) -> TargetValues:
    """Read a column of delimited text, with or without a header, plain or gzipped."""
    dialect = find_dialect(path, lambda rows: _find_header(path, rows, wanted))
    if not dialect.has_header:
        dialect = dialect._replace(names=_default_names(path, len(dialect.names)))
    names = dialect.names
    column, id_columns = _choose_columns(path, names, wanted)
    rows = [cells for _, cells in read_rows(path, dialect)]
    ids = np.array(["\t".join(cells[k] for k in id_columns) for cells in rows]) if id_columns else None
    id_names = [names[k] for k in id_columns]
    is_plink = path.name.lower().endswith((".fam", ".pheno", ".phen")) or {
        name.lower().lstrip("#") for name in id_names
    } == {"fid", "iid"}
    values, note = _convert(
        [cells[column] for cells in rows], is_plink, decimal_commas=dialect.delimiter != ","
    )
    return TargetValues(values, ids, names[column], id_names, note)


def _find_header(path: Path, rows: list[list[str]], wanted: str | None) -> list[str] | None:
    """The first row if it names the columns.

    It does if it contains the requested name, if it has text above a number, or if it has only text that
    does not occur again below.
    """
    first, below = rows[0], rows[1:]
    if path.name.lower().endswith(".fam"):
        return None
    if wanted in first and not is_number(str(wanted)):
        return first
    if below and any(not is_value(a) and is_value(b) for a, b in zip(first, below[0], strict=False)):
        return first
    recurs = any(cell in {row[k] for row in below if k < len(row)} for k, cell in enumerate(first))
    return first if below and not recurs and not any(map(is_value, first)) else None


def _default_names(path: Path, width: int) -> list[str]:
    names = [f"{k}" for k in range(1, width + 1)]
    if path.name.lower().endswith(".fam"):
        return [*FAM_COLUMNS, *names[6:]][:width]
    if path.name.lower().endswith((".pheno", ".phen")) and width > 2:
        names[:2] = "FID", "IID"
    return names


def _choose_columns(
    path: Path, names: Sequence[str], wanted: str | None, index: int | None = None
) -> tuple[int, list[int]]:
    """The target column, and the columns of the ids."""
    if wanted is not None:
        column = find_column(names, wanted, path)
        return column, [index] if index not in (None, column) else find_id_columns(names, exclude=column)
    ids = [index] if index is not None else find_id_columns(names)
    others = [k for k in range(len(names)) if k not in ids]
    if len(others) != 1:
        shown = ", ".join(names[k] for k in others[:8]) + (", …" if len(others) > 8 else "")
        raise ValueError(f"{path} has several columns: name one, as in {path}:column; there are {shown}.")
    return others[0], ids


def _convert(values: Sequence[str], is_plink: bool, decimal_commas: bool) -> tuple[Array, str]:
    """Numbers if all values are numbers or missing, else labels; and a note on the interpretation."""
    notes = []
    if decimal_commas and any(DECIMAL_COMMA.fullmatch(value) for value in values):
        points = [value.replace(",", ".") for value in values]
        if all(value in MISSING or is_number(value) for value in points):
            values = points
            notes.append("its decimal commas were read as points")
    if is_plink and any(is_number(value) and float(value) == -9 for value in values):
        values = ["" if is_number(value) and float(value) == -9 else value for value in values]
        notes.append("-9 counts as missing in it")
    known = [None if value in MISSING else value for value in values]
    if all(value is None or is_number(value) for value in known):
        return np.array([np.nan if value is None else float(value) for value in known]), "; ".join(notes)
    return np.array(known, dtype=object), "; ".join(notes)


def read_npy(path: Path, wanted: str | None) -> TargetValues:
    """Read a vector from a ``.npy`` file, or a column of a matrix by its number."""
    array = load_npy(path)
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        if wanted not in (None, "1"):
            raise ValueError(
                f"{path} is a single column and has no column {wanted!r}: leave ':{wanted}' out."
            )
        return TargetValues(np.array(array).reshape(-1), None, path.name)
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}: a target has one or two dimensions.")
    column, _ = _choose_columns(path, [f"{k + 1}" for k in range(array.shape[1])], wanted)
    return TargetValues(np.array(array[:, column]), None, f"{column + 1}")


def read_arrow(path: Path, wanted: str | None) -> TargetValues:
    """Read a column of a Parquet, Arrow or Feather file."""
    table = read_table(path)
    names = table.schema.names
    column, id_columns = _choose_columns(path, names, wanted, find_index(table.schema))
    ids = as_ids([table.values(k).tolist() for k in id_columns]) if id_columns else None
    return TargetValues(table.values(column), ids, names[column], [names[k] for k in id_columns])
