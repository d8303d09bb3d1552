"""Files with columns that belong to the rows of the data: delimited text, Parquet, Arrow or ``.npy``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.formats.arrow import ARROW, PARQUET, open_arrow
from banditsis.formats.frames import in_memory
from banditsis.formats.numpy import load_npy
from banditsis.formats.opened import Opened, OpenedMatrix
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import TEXT, find_format, is_url
from banditsis.formats.remote import open_copy
from banditsis.formats.tables import OpenedTable, match_names
from banditsis.formats.text import DECIMAL_COMMA, MISSING, find_dialect, is_number, is_value, read_rows
from banditsis.formats.unsupported import check_supported
from banditsis.sources.tables import Table

MISSING_CODE = -9.0  # of PLINK
#: Files of PLINK and GCTA in which family and individual come first, even without a header.
PLINK_TABLES = (".pheno", ".phen", ".cov", ".covar", ".qcovar", ".eigenvec")
FAM_COLUMNS = ("FID", "IID", "father", "mother", "sex", "phenotype")
TABLES = PARQUET + ARROW
DELIMITED = (*TEXT, ".dat", ".tab", ".fam", *PLINK_TABLES)


def open_side_file(path: Path | str, wanted: Sequence[str | None] = (), na: Sequence[str] = ()) -> Opened:
    """Open a file of targets, covariates or weights.

    A requested name in the first line of a text file tells that it is a header. In files of text, ``na`` are
    missing values.
    """
    if is_url(path):
        opened: Opened = open_copy(str(path), lambda copy: open_side_file(copy, wanted, na))
        opened.where = path
        return opened
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
        return open_arrow(path, DEFAULTS)
    if name.endswith(DELIMITED):
        return SideText(path, wanted, ReadOptions(na=na))
    raise ValueError(
        f"{path} cannot be a target: it must end in .npy, {', '.join(TABLES)} or {', '.join(DELIMITED)}."
    )


def _open_npy(path: Path) -> OpenedMatrix:
    """A vector, or a matrix whose columns have numbers."""
    array = load_npy(path)
    if array.ndim not in (1, 2):
        raise ValueError(f"{path} has shape {array.shape}: a target has one or two dimensions.")
    matrix = array.reshape(len(array), -1)
    names = [path.name] if matrix.shape[1] == 1 else [f"{k + 1}" for k in range(matrix.shape[1])]
    columns = {name: partial(np.array, matrix[:, k]) for k, name in enumerate(names)}
    return OpenedMatrix(None, path, DEFAULTS, columns=columns)


class SideText(OpenedTable):
    """Delimited text, with or without a header, plain or compressed; ids are compared as text."""

    uses_na = True

    def __init__(self, path: Path, wanted: Sequence[str | None], options: ReadOptions) -> None:
        self._dialect = find_dialect(path, lambda rows: _find_header(path, rows, wanted, options.na))
        self.has_names = self._dialect.has_header
        names = self._dialect.names if self.has_names else _default_names(path, len(self._dialect.names))
        super().__init__(path, names, options)
        self._is_plink = path.name.lower().endswith((".fam", ".pheno", ".phen")) or bool(
            match_names(names, ("FID", "IID"))
        )
        self._path = path

    def _load_table(self) -> Table:
        import pyarrow as pa

        columns = zip(*(cells for _, cells in read_rows(self._path, self._dialect)), strict=True)
        return in_memory(self.names, [pa.array(column, pa.string()) for column in columns], self.where)

    def texts(self, name: str) -> list[Any]:
        return list(super()._read(name).tolist())

    def _read(self, name: str) -> Array:
        """Numbers if all values are numbers or missing, else labels."""
        texts, notes = self.texts(name), list[str]()
        values = ["" if text in self.options.na else text for text in texts]
        known = _to_numbers(values)
        has_commas = self._dialect.delimiter != "," and any(map(DECIMAL_COMMA.fullmatch, values))
        if known is None and has_commas:
            known = _to_numbers([value.replace(",", ".") for value in values])
            if known is not None:
                notes.append("its decimal commas were read as points")
        found = known if known is not None else _to_labels(values)
        is_code = _are_codes(found) if self._is_plink else np.zeros(len(found), dtype=bool)
        if is_code.any():
            found[is_code] = np.nan if found.dtype.kind == "f" else None
            notes.append("-9 counts as missing in it")
        self.notes[name] = "; ".join(notes)
        return found


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


def _to_numbers(values: Sequence[str]) -> Floats | None:
    """Numbers with NaN for missing values; None if a value is neither."""
    try:
        return np.array([np.nan if value in MISSING else float(value) for value in values])
    except ValueError:
        return None


def _to_labels(values: Sequence[str]) -> Array:
    return np.array([None if value in MISSING else value for value in values], dtype=object)


def _are_codes(values: Array) -> Array:
    """Which numbers or labels are -9, PLINK's code for a missing value."""
    if values.dtype.kind == "f":
        return np.asarray(values == MISSING_CODE)
    return np.array(
        [value is not None and is_number(value) and float(value) == MISSING_CODE for value in values]
    )
