"""Files with columns that belong to the rows of the data: delimited text, Parquet, Arrow or ``.npy``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.formats.arrow import ARROW, PARQUET, read_table
from banditsis.formats.numpy import load_npy
from banditsis.formats.opening import open_copy
from banditsis.formats.options import as_ids
from banditsis.formats.registry import TEXT, find_format, is_url
from banditsis.formats.tables import find_id_columns, find_index, lower_names, match_names
from banditsis.formats.text import (
    DECIMAL_COMMA,
    MISSING,
    MarkedNumbers,
    find_dialect,
    is_number,
    is_value,
    read_rows,
)
from banditsis.formats.unsupported import check_supported
from banditsis.sources.tables import to_numbers

MISSING_CODE = -9.0  # of PLINK
#: Files of PLINK and GCTA in which family and individual come first, even without a header.
PLINK_TABLES = (".pheno", ".phen", ".cov", ".covar", ".qcovar", ".eigenvec")
FAM_COLUMNS = ("FID", "IID", "father", "mother", "sex", "phenotype")
TABLES = PARQUET + ARROW
DELIMITED = (*TEXT, ".dat", ".tab", ".fam", *PLINK_TABLES)


@dataclass(frozen=True)
class SideFile:
    """A file of targets, covariates or weights."""

    path: Path | str
    names: Sequence[str]
    #: the values of a column, numbers with NaN or labels with None, and how they were interpreted, if that is
    #: not obvious
    read: Callable[[int], tuple[Array, str]]
    #: the cells of a column, for ids
    cells: Callable[[int], Sequence[object]]
    #: the columns of the index that pandas stored
    index: Sequence[int] = ()
    #: whether the names are from the file
    has_names: bool = True

    def ids(self, columns: Sequence[int]) -> Array:
        """Sample ids, as strings."""
        return as_ids([self.cells(k) for k in columns])

    def find_ids(self, data_columns: Collection[str], taken: Collection[int]) -> tuple[list[int], str | None]:
        """The columns of sample ids, and the name of the first one if it is a key, which the data have too.

        A key is the first column of unique values with the name of a column of the data. It precedes the
        usual ids if the data have none, or if they are a default index. ``taken`` columns are something else.
        """
        usual = [k for k in self.index if k not in taken] or find_id_columns(self.names, exclude=[*taken])
        own = set(lower_names(data_columns)) if self.has_names and len(self.names) > 1 else set()
        shared = [k for k, name in enumerate(lower_names(self.names)) if name in own]
        both_have = usual and (set(usual) <= set(shared) or find_id_columns([*data_columns]))
        if not both_have or self.is_default_index(usual):
            for k in shared:
                if k not in usual and k not in taken and _are_keys(self.ids([k])):
                    return [k], self.names[k]
        return usual, None

    def is_default_index(self, columns: Sequence[int]) -> bool:
        """Whether ids are the index that pandas writes by default: unnamed, from 0."""
        unnamed = {"", "unnamed: 0", "index", "__index_level_0__"}
        return {self.names[k].lower() for k in columns} <= unnamed and first_row_number(
            self.ids(columns)
        ) == 0


def open_side_file(path: Path | str, wanted: Sequence[str | None] = (), na: Collection[str] = ()) -> SideFile:
    """Open a file of targets, covariates or weights.

    A requested name in the first line of a text file tells that it is a header. In files of text, ``na`` are
    missing values.
    """
    if is_url(path):
        opened: SideFile = open_copy(str(path), lambda copy: open_side_file(copy, wanted, na))
        return replace(opened, path=path)
    path = Path(path)
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    name = path.name.lower()
    if name.endswith(TEXT):
        find_format(path)  # raises if the content is that of another format
    with open(path, "rb") as file:
        check_supported(path, file.read(32))
    if name.endswith(".npy"):
        return _open_npy(path)
    if name.endswith(TABLES):
        return _open_arrow(path)
    if name.endswith(DELIMITED):
        return _open_text(path, wanted, na)
    raise ValueError(
        f"{path} cannot be a target: it must end in .npy, {', '.join(TABLES)} or {', '.join(DELIMITED)}."
    )


def _open_npy(path: Path) -> SideFile:
    """A vector, or a matrix whose columns have numbers."""
    array = load_npy(path)
    if array.ndim not in (1, 2):
        raise ValueError(f"{path} has shape {array.shape}: a target has one or two dimensions.")
    matrix = array.reshape(len(array), -1)
    names = [path.name] if matrix.shape[1] == 1 else [f"{k + 1}" for k in range(matrix.shape[1])]
    return SideFile(path, names, lambda k: (np.array(matrix[:, k]), ""), lambda k: matrix[:, k].tolist())


def _open_arrow(path: Path) -> SideFile:
    table = read_table(path)
    index = find_index(table.schema)
    return SideFile(
        path, table.schema.names, lambda k: (table.values(k), ""), lambda k: table.values(k).tolist(), index
    )


def _open_text(path: Path, wanted: Sequence[str | None], na: Collection[str]) -> SideFile:
    """Delimited text, with or without a header, plain or compressed."""
    dialect = find_dialect(path, lambda rows: _find_header(path, rows, wanted, na))
    names = dialect.names if dialect.has_header else _default_names(path, len(dialect.names))
    columns = list(zip(*(cells for _, cells in read_rows(path, dialect)), strict=True)) or [()] * len(names)
    is_plink = path.name.lower().endswith((".fam", ".pheno", ".phen")) or bool(
        match_names(names, ("FID", "IID"))
    )

    def read(k: int) -> tuple[Array, str]:
        return _convert(["" if text in na else text for text in columns[k]], is_plink, dialect.delimiter)

    return SideFile(path, names, read, columns.__getitem__, has_names=dialect.has_header)


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


def _are_keys(ids: Array) -> bool:
    """Whether values can identify rows: all different, none missing, and not measurements with decimals."""
    values = set(ids.tolist())
    if len(values) < len(ids) or values & MISSING:
        return False
    return all(float(value).is_integer() for value in values if is_number(value))


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
