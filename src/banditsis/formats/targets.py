"""Open data with a target: a column of the data, or of another file, joined on sample ids or by row order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formats.opening import column_names, open_data
from banditsis.formats.registry import ColumnNotFoundError, Opened, is_url
from banditsis.formats.tables import as_ids, match_names
from banditsis.formats.target_files import (
    TargetValues,
    first_row_number,
    is_default_index,
    read_arrow,
    read_npy,
    read_text,
)
from banditsis.formats.unsupported import check_supported
from banditsis.sources.base import Source
from banditsis.sources.views import ColumnSubset, RowSubset
from banditsis.store.reader import stored_below
from banditsis.validation import warn_user

_ARROW = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".fam", ".pheno", ".phen", ".dat", ".tab")


class Target(NamedTuple):
    """Features with their response."""

    source: Source
    y: Array
    #: a sentence about how rows and values were joined
    how: str
    #: ids of all rows of the data, including rows without a value, if they are known
    ids: Array | None = None


class Place(NamedTuple):
    """Where a target is: in a column of the data, or of a file of its own."""

    file: Path | None
    column: str | None


class UnjoinedTarget(NamedTuple):
    """Data and a target that have not been joined yet."""

    opened: Opened
    #: content of the target file, None if the target is a column of the data
    read: TargetValues | None
    place: Place


def open_with_target(
    data: Any,
    target: str,
    *,
    names: Sequence[str] | None = None,
    one_hot: bool = False,
    memory_limit: int | None = None,
    ids_like: Sequence[str] | None = None,
) -> Target:
    """Open data together with the target.

    Parameters
    ----------
    data : path, frame, array or sparse matrix
        The features.
    target : str
        ``column`` of the data, ``file:column``, or a ``file`` with one column. Columns by name or 1-based
        number.
    names, one_hot, memory_limit
        See :func:`open_source`.
    ids_like : sequence of str, optional
        Names of the sample ids in another file that the data will be joined with.
    """
    opened, read, (file, column) = open_unjoined(
        data, target, names=names, one_hot=one_hot, memory_limit=memory_limit, ids_like=ids_like
    )
    if read is not None and file is not None:
        return join(opened, read, file)
    assert opened.y is not None
    number = f", its column {target}" if opened.label not in (None, target) else ""
    how = f"the target is the column {opened.label or column!r} of the data{number}"
    return _drop_missing(opened.source, opened.y, how, opened.ids)


def open_unjoined(
    data: Any, target: str | None, *, ids_like: Sequence[str] | None = None, **options: Any
) -> UnjoinedTarget:
    """Open data and target separately; a column of the data takes precedence over a file of the same name."""
    target = None if target is None else str(target)  # it may be a path
    file, column = (None, None) if target is None else split_target(target)
    if file is None:
        try:
            return _open_column(data, target, ids_like=ids_like, **options)
        except ColumnNotFoundError:
            if target is not None and Path(target).is_file():
                read_target(Path(target), None)  # raises the error of that file
            raise
    columns = column_names(data)
    read = read_target(file, column, columns)
    if read.ids is not None and not is_default_index(read.id_names, read.ids):
        ids_like = read.id_names
    opened = open_data(data, None, ids_like=ids_like, **options)
    names = opened.source.names
    if names is not None and target in names:
        return _open_column(data, target, ids_like=ids_like, **options)
    if not columns and opened.ids is None and names is not None:  # columns of a matrix with names
        read = read_target(file, column, set(names))
        opened = opened if read.key is None else _split_key(opened.source, read.key)
    return UnjoinedTarget(opened, read, Place(file, column))


def _split_key(source: Source, key: str) -> Opened:
    """Take a column of a matrix as sample ids."""
    (column,) = match_names(source.names or (), [key])
    values = source.read(slice(0, source.shape[0]), slice(column, column + 1))[:, 0]
    return Opened(ColumnSubset.without(source, column), None, as_ids([values.tolist()]))


def _open_column(data: Any, target: str | None, **options: Any) -> UnjoinedTarget:
    opened = open_data(data, target, **options)
    return UnjoinedTarget(opened, None, Place(None, target if opened.label is None else opened.label))


def split_target(target: str) -> tuple[Path | None, str | None]:
    """File and column of a target; without a file extension it is a column of the data.

    Examples
    --------
    >>> split_target("price"), split_target("chr1:12345")
    ((None, 'price'), (None, 'chr1:12345'))
    """
    head, _, column = target.rpartition(":")
    missing = None
    for name, rest in ((target, None), (head, column or None)):
        if name.lower().endswith((*_ARROW, *_TEXT, ".npy")):
            if Path(name).is_file():
                return Path(name), rest
            missing = missing or name
    if is_url(missing):
        raise ValueError(f"the target {missing} is a URL: copy the file to this machine first.")
    if missing is not None:
        raise FileNotFoundError(f"the file {missing} does not exist: check the name and the folder.")
    return None, target


def read_target(path: Path, column: str | None, data_columns: Collection[str] = ()) -> TargetValues:
    """Read the values, and the sample ids if there are any, of a target file.

    Sample ids may also be a column of unique values that has the name of a column of the data.
    """
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    with open(path, "rb") as file:
        check_supported(path, file.read(32))
    name = path.name.lower()
    if name.endswith(".npy"):
        return read_npy(path, column)
    if name.endswith(_ARROW):
        return read_arrow(path, column, data_columns)
    if name.endswith(_TEXT):
        return read_text(path, column, data_columns)
    raise ValueError(
        f"{path} cannot be a target: it must end in .npy, {', '.join(_ARROW)} or {', '.join(_TEXT)}."
    )


def join(opened: Opened, read: TargetValues, path: Path) -> Target:
    """Assign values to rows: by sample ids if both sides have them, else by row order."""
    note = f"; {read.note}" if read.note else ""
    if opened.ids is None or read.ids is None:
        return _join_by_order(opened, read, path, note)
    n = opened.source.shape[0]
    position = _match_ids(opened.ids, read.ids, path)
    rows = np.flatnonzero(position >= 0)
    unused = len(read.ids) - rows.size
    on = "sample ids" if read.key is None else f"the column {read.key!r} of both"
    how = f"{path} was joined on {on}: {rows.size:,} of {n:,} rows have a value" + (
        f", {unused:,} of its ids are not in the data" if unused else ""
    )
    if read.key is not None:
        opened.source.notes = [*opened.source.notes, f"{how}; the column is not a feature."]
    source = opened.source if rows.size == n else RowSubset(opened.source, rows)
    return _drop_missing(source, read.values[position[rows]], how + note, opened.ids)


def _join_by_order(opened: Opened, read: TargetValues, path: Path, note: str) -> Target:
    """Assign values in row order; those of a shuffled store are in the order before shuffling."""
    if (opened.ids is None) != (read.ids is None):
        has, lacks = (
            ("the data have", f"{path} has") if read.ids is None else (f"{path} has", "the data have")
        )
        warn_user(
            f"{has} sample ids, and {lacks} none: rows were joined by their order alone. Make sure that both "
            "are in the same order, or add a column of ids."
        )
    values, store = read.values, stored_below(opened.source)
    n = opened.source.shape[0] if store is None else store.record.n_original
    order = "row order" if store is None else "the row order before shuffling"
    if len(values) != n:
        lacks = str(path) if read.ids is None else "the data"
        raise ValueError(
            f"{path} has {len(values):,} values for the {n:,} rows of the data, and {lacks} has no sample "
            f"ids to join on: give one value for each row, in {order}."
        )
    if store is not None:
        values = values[store.original_rows]
    return _drop_missing(
        opened.source, values, f"{path} was taken in {order}: {n:,} values{note}", opened.ids
    )


def _match_ids(data_ids: Array, ids: Array, path: Path) -> Indices:
    """Position of each id of the data in the ids of a file, -1 if it is not there."""
    if not any("\t" in name for name in ids):  # individuals without families
        data_ids = np.array([str(name).rpartition("\t")[2] for name in data_ids])
    elif not any("\t" in str(name) for name in data_ids):
        ids = np.array([name.rpartition("\t")[2] for name in ids])
    _check_unique_ids(data_ids, "the data")
    _check_unique_ids(ids, path)
    first, other = first_row_number(data_ids), first_row_number(ids)
    if len(ids) == len(data_ids) and {first, other} == {0, 1}:  # every row would get its neighbour's value
        raise ValueError(
            f"the sample ids count rows from {first} in the data and from {other} in {path}: use the same "
            "ids on both sides, or remove them to join by row order."
        )
    positions = {name: k for k, name in enumerate(ids.tolist())}
    matches = np.array([positions.get(str(name), -1) for name in data_ids], dtype=np.intp)
    if (matches < 0).all():
        raise ValueError(
            f"no sample id of {path} is in the data: its ids look like {_show(ids[0])}, those of the data "
            f"like {_show(data_ids[0])}. Use the same ids, or remove them to join by row order."
        )
    return matches


def _check_unique_ids(ids: Array, where: object) -> None:
    names, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        name, count = names[counts > 1][0], counts[counts > 1][0]
        raise ValueError(
            f"sample id {_show(name)} occurs {count} times in {where}: ids must be unique to join."
        )


def _show(name: object) -> str:
    return repr(str(name).replace("\t", " "))


def _drop_missing(source: Source, y: Array, how: str, ids: Array | None) -> Target:
    """Leave out rows without a value."""
    if y.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in y], dtype=bool)
    else:
        missing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), dtype=bool)
    known = np.flatnonzero(~missing)
    if known.size == 0:
        raise ValueError("the target has no value in any row: check that it is the right column.")
    n_missing = len(y) - known.size
    if n_missing:
        y = y[known]
        base, rows = (source.base, source.rows[known]) if isinstance(source, RowSubset) else (source, known)
        source = RowSubset(base, rows)
        were = "rows without a value were" if n_missing > 1 else "row without a value was"
        how += f"; {n_missing:,} {were} left out"
    if y.dtype.kind == "O" and all(isinstance(value, str) for value in y):
        y = y.astype(str)
    return Target(source, y, f"{how}.", ids)
