"""Covariates for ``banditsis screen``, from columns of the data or of another file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formats.opening import column_names
from banditsis.formats.registry import Opened
from banditsis.formats.target_files import TargetValues
from banditsis.formats.targets import match_rows, read_target, read_targets, split_target
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset


def id_names(data: str, covariates: str | None, na: Sequence[str] = ()) -> Sequence[str] | None:
    """Return the names of the columns with sample ids in the file of the covariates, if there are any.

    A column of the data with the same name holds sample ids too.
    """
    file, columns = (None, None) if covariates is None else split_target(covariates)
    if file is None:
        return None
    name = None if columns is None else columns.split(",")[0]
    values = read_target(file, name, column_names(data), na)
    return None if values.ids is None else values.id_names


def columns_in_data(data: str, covariates: str | None) -> list[str]:
    """Return the covariates that are columns of the data, which take precedence over a file."""
    if covariates is None:
        return []
    names = covariates.split(",")
    in_data = set(names) <= set(column_names(data)) or split_target(covariates)[0] is None
    return names if in_data else []


def read_covariates(
    path: str, source: Source, ids: Array | None, covariates: str, allow_missing: bool, na: Sequence[str] = ()
) -> dict[str, Array]:
    """Read ``FILE:columns`` for the rows with a target."""
    file, columns = split_target(covariates)
    assert file is not None
    features = source.names if ids is None else None  # one of them may hold ids
    data_columns = column_names(path) or features or ()
    names = [None] if columns is None else columns.split(",")
    read = read_targets(file, names, data_columns, na)
    return {values.column: _join_column(source, ids, file, values, allow_missing) for values in read}


def _join_column(
    source: Source, ids: Array | None, file: Path | str, read: TargetValues, allow_missing: bool
) -> Array:
    """Join a column of another file with the rows of the data that have a target; missing values are None."""
    file_source, rows = _split_rows(source)
    known_rows, values, _ = match_rows(Opened(file_source, ids), read, file)
    is_known = np.zeros(file_source.shape[0], dtype=bool)
    is_known[known_rows] = True
    if is_known[rows].all():
        return values[np.searchsorted(known_rows, rows)]
    if not allow_missing:
        n_unknown = np.count_nonzero(~is_known[rows])
        raise ValueError(
            f"{n_unknown:,} of {len(rows):,} rows have no value of {read.column} in {file}: fill the missing "
            "values, or use --missing pairwise to omit these rows."
        )
    column = np.full(file_source.shape[0], None, dtype=object)
    column[known_rows] = values
    return column[rows]


def _split_rows(source: Source) -> tuple[Source, Indices]:
    """Return the source of all rows, and which of them this source contains."""
    if isinstance(source, RowSubset):
        return source.base, source.rows
    return source, np.arange(source.shape[0])
