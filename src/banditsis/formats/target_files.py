"""Read a target from a file of its own: delimited text, Parquet, Arrow or ``.npy``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.formats.arrow import read_table
from banditsis.formats.numpy import load_npy
from banditsis.formats.options import as_ids, find_column
from banditsis.formats.tables import find_id_columns, find_index, lower_names
from banditsis.formats.text import (
    DECIMAL_COMMA,
    MISSING,
    MarkedNumbers,
    find_dialect,
    is_number,
    is_value,
    read_rows,
)
from banditsis.sources.tables import to_numbers

MISSING_CODE = -9.0  # of PLINK
#: Files of PLINK and GCTA in which family and individual come first, even without a header.
PLINK_TABLES = (".pheno", ".phen", ".cov", ".covar", ".qcovar", ".eigenvec")
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
    #: name of the ids if they were chosen because the data have a column of the same name
    key: str | None = None


class DataColumns:
    """The columns of the data: a column of a target file with the same name may hold the ids of both."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = set(lower_names(names))
        self.has_ids = bool(find_id_columns(list(names)))


def read_text(
    path: Path, wanted: Sequence[str | None], data: DataColumns, na: Collection[str] = ()
) -> list[TargetValues]:
    """Read columns of delimited text, with or without a header, plain or compressed."""
    dialect = find_dialect(path, lambda rows: _find_header(path, rows, wanted, na))
    if not dialect.has_header:
        dialect, data = dialect._replace(names=_default_names(path, len(dialect.names))), DataColumns()
    names = dialect.names
    columns = list(zip(*(cells for _, cells in read_rows(path, dialect)), strict=True)) or [()] * len(names)

    @cache
    def ids_of(*numbers: int) -> Array:
        return np.array(["\t".join(cells) for cells in zip(*(columns[k] for k in numbers), strict=True)])

    read = []
    for name in wanted or _other_columns(names, _find_key(names, None, data, ids_of)):
        key = _find_key(names, name, data, ids_of)
        column, id_columns = _choose_columns(path, names, name, key)
        ids, id_names = ids_of(*id_columns) if id_columns else None, [names[k] for k in id_columns]
        is_plink = path.name.lower().endswith((".fam", ".pheno", ".phen")) or {
            name.lower().lstrip("#") for name in id_names
        } == {"fid", "iid"}
        texts = ["" if text in na else text for text in columns[column]]
        values, note = _convert(texts, is_plink, dialect.delimiter)
        read.append(TargetValues(values, ids, names[column], id_names, note, names[key[0]] if key else None))
    return read


def _find_header(
    path: Path, rows: list[list[str]], wanted: Sequence[str | None], na: Collection[str]
) -> list[str] | None:
    """The first row if it names the columns.

    It does if it contains a requested name, if it has text above a number, or if it has only text that
    does not occur again below.
    """
    first, below = rows[0], rows[1:]

    def is_known(cell: str) -> bool:
        return is_value(cell) or cell in na

    if path.name.lower().endswith(".fam"):
        return None
    if any(name in first and not is_number(str(name)) for name in wanted):
        return first
    if below and any(not is_known(a) and is_known(b) for a, b in zip(first, below[0], strict=False)):
        return first
    recurs = any(cell in {row[k] for row in below if k < len(row)} for k, cell in enumerate(first))
    return first if below and not recurs and not any(map(is_known, first)) else None


def _default_names(path: Path, width: int) -> list[str]:
    names = [f"{k}" for k in range(1, width + 1)]
    if path.name.lower().endswith(".fam"):
        return [*FAM_COLUMNS, *names[6:]][:width]
    if path.name.lower().endswith(PLINK_TABLES) and width > 2:
        names[:2] = "FID", "IID"
    return names


def _find_key(
    names: Sequence[str],
    wanted: str | None,
    data: DataColumns,
    ids_of: Callable[..., Array],
    index: Sequence[int] = (),
) -> list[int]:
    """The first column of unique values that the data have too, unless both have ids in the usual columns."""
    usual = list(index) or find_id_columns(names)
    shared = [k for k, name in enumerate(lower_names(names)) if name in data.names]
    both = usual and (set(usual) <= set(shared) or data.has_ids)
    if both and not is_default_index([names[k] for k in usual], ids_of(*usual)):
        return []
    others = [k for k in shared if k not in usual and wanted not in (names[k], str(k + 1)) and len(names) > 1]
    return next(([k] for k in others if _are_keys(ids_of(k))), [])


def _other_columns(names: Sequence[str], key: Sequence[int]) -> list[str]:
    """All columns that are not sample ids."""
    ids = key or find_id_columns(names)
    return [name for k, name in enumerate(names) if k not in ids]


def _are_keys(ids: Array) -> bool:
    """Whether values can identify rows: all different, none missing, and not measurements with decimals."""
    values = set(ids.tolist())
    if len(values) < len(ids) or values & MISSING:
        return False
    return all(float(value).is_integer() for value in values if is_number(value))


def is_default_index(id_names: Sequence[str], ids: Array) -> bool:
    """Whether ids are the index that pandas writes by default: unnamed, from 0."""
    unnamed = {name.lower() for name in id_names} <= {"", "unnamed: 0", "index", "__index_level_0__"}
    return unnamed and first_row_number(ids) == 0


def first_row_number(ids: Array) -> int | None:
    """The smallest id if ids are consecutive integers in any order.

    Examples
    --------
    >>> first_row_number(np.array(["2", "1", "3"])), first_row_number(np.array(["1", "3"]))
    (1, None)
    """
    if not all(str(name).isdigit() for name in ids):
        return None
    numbers = np.sort([int(name) for name in ids])
    return int(numbers[0]) if (np.diff(numbers) == 1).all() else None


def _choose_columns(
    path: Path, names: Sequence[str], wanted: str | None, index: Sequence[int] = ()
) -> tuple[int, list[int]]:
    """The target column, and the columns of the ids."""
    if wanted is not None:
        column = find_column(names, wanted, path)
        use_index = index and column not in index
        return column, list(index) if use_index else find_id_columns(names, exclude=[column])
    ids = list(index) or find_id_columns(names)
    others = [k for k in range(len(names)) if k not in ids]
    if len(others) != 1:
        shown = ", ".join(names[k] for k in others[:8]) + (", …" if len(others) > 8 else "")
        raise ValueError(f"{path} has several columns: name one, as in {path}:column; there are {shown}.")
    return others[0], ids


def _convert(values: list[str], is_plink: bool, delimiter: str) -> tuple[Array, str]:
    """Numbers if all values are numbers or missing, else labels; and a note on the interpretation."""
    notes, numbers = [], _to_numbers(values)
    if numbers is None and delimiter != "," and any(DECIMAL_COMMA.fullmatch(value) for value in values):
        numbers = _to_numbers([value.replace(",", ".") for value in values])
        if numbers is not None:
            notes.append("its decimal commas were read as points")
    if numbers is None:
        marks = MarkedNumbers(delimiter, MISSING)
        parsed = marks.parse(values)
        if parsed is not None:
            numbers = to_numbers(parsed, parsed.type)
            notes.append(f"it was read as numbers {marks}")
    labels = [None if value in MISSING else value for value in values] if numbers is None else []
    known = np.array(labels, dtype=object) if numbers is None else numbers
    is_code = _are_codes(known) if is_plink else np.zeros(len(known), dtype=bool)
    if is_code.any():
        known[is_code] = None
        notes.append("-9 counts as missing in it")
    return known, "; ".join(notes)


def _to_numbers(values: Sequence[str]) -> Floats | None:
    """Numbers with NaN for missing values; None if a value is neither."""
    try:
        return np.array([np.nan if value in MISSING else float(value) for value in values])
    except ValueError:
        return None


def _are_codes(values: Array) -> Array:
    """Which numbers or labels are -9, PLINK's code for a missing value."""
    if values.dtype.kind == "f":
        return np.asarray(values == MISSING_CODE)
    return np.array(
        [value is not None and is_number(value) and float(value) == MISSING_CODE for value in values]
    )


def read_npy(path: Path, wanted: Sequence[str | None]) -> list[TargetValues]:
    """Read a vector from a ``.npy`` file, or columns of a matrix by their numbers."""
    array = load_npy(path)
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        for name in wanted:
            if name not in (None, "1", path.name):
                raise ValueError(
                    f"{path} is a single column and has no column {name!r}: leave ':{name}' out."
                )
        return [TargetValues(np.array(array).reshape(-1), None, path.name)] * max(1, len(wanted))
    if array.ndim != 2:
        raise ValueError(f"{path} has shape {array.shape}: a target has one or two dimensions.")
    names = [f"{k + 1}" for k in range(array.shape[1])]
    chosen = [_choose_columns(path, names, name)[0] for name in wanted or names]
    return [TargetValues(np.array(array[:, k]), None, names[k]) for k in chosen]


def read_arrow(path: Path, wanted: Sequence[str | None], data: DataColumns) -> list[TargetValues]:
    """Read columns of a Parquet, Arrow or Feather file."""
    table = read_table(path)
    names, index = table.schema.names, find_index(table.schema)

    @cache
    def ids_of(*columns: int) -> Array:
        return as_ids([table.values(k).tolist() for k in columns])

    read = []
    for name in wanted or _other_columns(names, _find_key(names, None, data, ids_of, index) or index):
        key = _find_key(names, name, data, ids_of, index)
        column, id_columns = _choose_columns(path, names, name, key or index)
        ids, id_names = ids_of(*id_columns) if id_columns else None, [names[k] for k in id_columns]
        key_name = names[key[0]] if key else None
        read.append(TargetValues(table.values(column), ids, names[column], id_names, key=key_name))
    return read
