"""Files with columns that belong to the rows of the data: delimited text, Parquet, Arrow or ``.npy``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.formats.arrow import ARROW, PARQUET, open_arrow
from banditsis.formats.csv import OpenedText
from banditsis.formats.numpy import load_npy
from banditsis.formats.opened import Opened, OpenedMatrix
from banditsis.formats.options import DEFAULTS, ReadOptions
from banditsis.formats.registry import TEXT, find_format, is_url
from banditsis.formats.remote import open_copy
from banditsis.formats.tables import match_names
from banditsis.formats.text import inspect_text, is_number, to_number
from banditsis.formats.unsupported import check_supported

MISSING_CODE = -9.0  # of PLINK
#: Files of PLINK and GCTA in which family and individual come first, even without a header.
PLINK_TABLES = (".pheno", ".phen", ".cov", ".covar", ".qcovar", ".eigenvec")
FAM_COLUMNS = ("FID", "IID", "father", "mother", "sex", "phenotype")
TABLES = PARQUET + ARROW
DELIMITED = (*TEXT, ".dat", ".tab", ".fam", *PLINK_TABLES)


def open_side_file(
    path: Path | str, wanted: Sequence[str | None] = (), options: ReadOptions = DEFAULTS
) -> Opened:
    """Open a file of targets, covariates or weights.

    A requested name in the first line of a text file tells that it is a header. Of the options, ``na`` and
    ``memory_limit`` apply to it.
    """
    if is_url(path):
        opened: Opened = open_copy(str(path), lambda copy: open_side_file(copy, wanted, options))
        opened.where = path
        return opened
    path = Path(path)
    name = path.name.lower()
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    if name.endswith(TEXT):
        find_format(path)  # raises if the content is that of another format
    with open(path, "rb") as file:
        check_supported(path, file.read(32))
    if name.endswith(".npy"):
        return _open_npy(path)
    if name.endswith(TABLES):
        return open_arrow(path, DEFAULTS)
    if name.endswith(DELIMITED):
        return SideText(path, wanted, ReadOptions(na=options.na, memory_limit=options.memory_limit))
    raise ValueError(
        f"{path} cannot be a target: it must end in .npy, {', '.join(TABLES)} or {', '.join(DELIMITED)}."
    )


def _open_npy(path: Path) -> OpenedMatrix:
    """A vector, or a matrix whose columns have numbers."""
    array = load_npy(path)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{path} has shape {array.shape}: a target is a vector or a matrix of values.")
    matrix = array.reshape(len(array), -1)
    names = [path.name] if matrix.shape[1] == 1 else [f"{k + 1}" for k in range(matrix.shape[1])]
    columns = {name: partial(np.array, matrix[:, k]) for k, name in enumerate(names)}
    return OpenedMatrix(None, path, DEFAULTS, columns=columns)


class SideText(OpenedText):
    """Delimited text, with or without a header; all columns are text until they are asked for."""

    def __init__(self, path: Path, wanted: Sequence[str | None], options: ReadOptions) -> None:
        file = inspect_text(path, options.na, wanted)
        self.has_names, name = file.has_header, path.name.lower()
        names = file.names if self.has_names else _default_names(name, len(file.names))
        super().__init__(path, [file._replace(names=names)], options)
        self.index = []  # ids are found by their names
        self._is_plink = name.endswith((".fam", ".pheno", ".phen")) or bool(
            match_names(names, ("FID", "IID"))
        )

    def _text_columns(self) -> Sequence[str]:
        return self.names

    def texts(self, name: str) -> list[Any]:
        values = super()._read(name).tolist()
        return [value if value is None else value.strip() for value in values]

    def _read(self, name: str) -> Array:
        """Numbers if all values are numbers or missing, else labels."""
        texts, decimal = self.texts(name), self.files[0].decimal
        known = [None if self._is_plink and is_missing_code(text) else text for text in texts]
        if known != texts:
            self.notes[name] = "-9 counts as missing in it"
        try:
            return np.array(
                [np.nan if text is None else to_number(text.replace(decimal, ".")) for text in known]
            )
        except ValueError:
            return np.array(known, dtype=object)


def is_missing_code(text: str | None) -> bool:
    """Whether a value is PLINK's code for a missing one.

    Examples
    --------
    >>> is_missing_code("-9.0"), is_missing_code("-9.5"), is_missing_code(None)
    (True, False, False)
    """
    return text is not None and is_number(text) and float(text) == MISSING_CODE


def _default_names(file: str, width: int) -> list[str]:
    names = [f"{k}" for k in range(1, width + 1)]
    if file.endswith(".fam"):
        return [*FAM_COLUMNS, *names[6:]][:width]
    if file.endswith(PLINK_TABLES) and width > 2:
        names[:2] = "FID", "IID"
    return names
