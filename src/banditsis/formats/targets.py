"""Open data with targets: columns of the data, or of other files joined on sample ids or by row order."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formats.opening import column_names, copy_url, is_text, named_as, open_data
from banditsis.formats.options import DEFAULTS, ColumnNotFoundError, ReadOptions, as_ids
from banditsis.formats.registry import TEXT, Opened, find_format, is_url
from banditsis.formats.tables import match_names
from banditsis.formats.target_files import (
    DataColumns,
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
from banditsis.validation import find_missing, warn_user

_ARROW = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_TEXT = (*TEXT, ".dat", ".tab", ".fam", ".pheno", ".phen", ".cov", ".eigenvec")  # the last ones of PLINK


class Target(NamedTuple):
    """Features with their responses."""

    source: Source
    #: one array for each response; only if there are several they may have missing values, NaN or None
    values: list[Array]
    #: a sentence about how rows and values were joined, for each response
    how: list[str]
    #: ids of all rows of the data, including rows without a value, if they are known
    ids: Array | None = None
    #: the rows of the data that are left; None if all are
    rows: Indices | None = None
    #: other columns of the data that are not features, in these rows
    others: Sequence[Array] = ()


class Place(NamedTuple):
    """Where a target is: in a column of the data, or of a file of its own, which may be a URL."""

    file: Path | str | None
    column: str | None


class Known(NamedTuple):
    """The rows in which a response is known."""

    rows: Indices
    values: Array
    #: a sentence about how they were joined
    how: str


def open_with_targets(
    data: Any,
    targets: Sequence[str],
    options: ReadOptions = DEFAULTS,
    names: Sequence[str] | None = None,
    others: Sequence[str] = (),
) -> Target:
    """Open data together with one target or several.

    Parameters
    ----------
    data : path, frame, array or sparse matrix
        The features.
    targets : sequence of str
        Each is a ``column`` of the data, ``file:column``, or a ``file`` with one column. Columns by name or
        1-based number.
    options, names
        See :func:`open_data`.
    others : sequence of str
        Further columns of the data that are not features, such as covariates.
    """
    opened, places, files = open_unjoined(data, targets, options, names, others)
    values, labels, known = iter(opened.values), iter(opened.labels), []
    for target, place, read in zip(targets, places, files, strict=True):
        if read is None or place.file is None:
            label = next(labels)
            number = f", its column {target}" if label != target else ""
            how = f"the target is the column {label!r} of the data{number}"
            column = next(values)
            known.append(_leave_out_missing(np.arange(len(column)), column, how))
        else:
            known.append(match_rows(opened, read, place.file))
    joined = _combine(opened, known)
    rows = joined.rows
    return joined._replace(others=[column if rows is None else column[rows] for column in values])


class UnjoinedTargets(NamedTuple):
    """Data and targets that have not been joined yet."""

    opened: Opened
    places: list[Place]
    #: content of each target file, None if the target is a column of the data
    files: list[TargetValues | None]


def open_unjoined(
    data: Any,
    targets: Sequence[str],
    options: ReadOptions = DEFAULTS,
    names: Sequence[str] | None = None,
    others: Sequence[str] = (),
) -> UnjoinedTargets:
    """Open data and targets separately; columns of the data take precedence over files of the same name."""
    targets = [str(target) for target in targets]  # they may be paths
    places = [Place(*split_target(target)) for target in targets]
    in_files = {target: place for target, place in zip(targets, places, strict=True) if place.file}
    columns: Sequence[str] = ()
    if in_files:
        columns = column_names(data) if options.id is None else [options.id]
    na = options.na
    read = _read_places(in_files, columns, na)
    if (
        na
        and not is_text(data)
        and any(str(place.file).lower().endswith(_TEXT) for place in in_files.values())
    ):
        options = options._replace(na=())  # which applies to the target alone
    for found in read.values():
        if found.ids is not None and not is_default_index(found.id_names, found.ids):
            options = options._replace(ids_like=found.id_names)
    apart = [target for target in targets if target not in read]
    opened = _open_columns(data, [*apart, *others], options, names)
    features = opened.source.names
    if features is not None and not read.keys().isdisjoint(features):
        read = {target: found for target, found in read.items() if target not in set(features)}
        apart = [target for target in targets if target not in read]
        opened = _open_columns(data, [*apart, *others], options, names)
    if read and not columns and opened.ids is None and features is not None:  # a matrix with names
        read = _read_places({target: in_files[target] for target in read}, set(features), na)
        key = next((found.key for found in read.values() if found.key is not None), None)
        opened = opened if key is None else _split_key(opened, key)
    labels = iter(opened.labels)
    places = [
        place if target in read else Place(None, next(labels))
        for target, place in zip(targets, places, strict=True)
    ]
    return UnjoinedTargets(opened, places, [read.get(target) for target in targets])


def _read_places(
    places: Mapping[str, Place], data_columns: Collection[str], na: Collection[str]
) -> dict[str, TargetValues]:
    """Read targets that are in files of their own, each file once."""
    found: dict[str, TargetValues] = {}
    for file in dict.fromkeys(place.file for place in places.values()):
        targets = {target: place.column for target, place in places.items() if place.file == file}
        assert file is not None
        read = read_targets(file, list(targets.values()), data_columns, na)
        found |= zip(targets, read, strict=True)
    return found


def _open_columns(
    data: Any, columns: Sequence[str], options: ReadOptions, names: Sequence[str] | None
) -> Opened:
    try:
        return open_data(data, columns, options, names)
    except ColumnNotFoundError:
        for column in columns:
            if Path(column).is_file():
                read_target(Path(column), None)  # raises the error of that file
        raise


def _split_key(opened: Opened, key: str) -> Opened:
    """Take a column of a matrix as sample ids."""
    source = opened.source
    (column,) = match_names(source.names or (), [key])
    values = source.read(slice(0, source.shape[0]), slice(column, column + 1))[:, 0]
    return opened._replace(source=ColumnSubset.without(source, column), ids=as_ids([values.tolist()]))


def split_target(target: str) -> tuple[Path | str | None, str | None]:
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
            if is_url(name):
                return name, rest
            if Path(name).is_file():
                return Path(name), rest
            missing = missing or name
    if missing is not None:
        raise FileNotFoundError(f"the file {missing} does not exist: check the name and the folder.")
    return None, target


def read_target(
    path: Path | str, column: str | None, data_columns: Collection[str] = (), na: Collection[str] = ()
) -> TargetValues:
    """Read one column; see :func:`read_targets`."""
    return read_targets(path, [column], data_columns, na)[0]


def read_targets(
    path: Path | str,
    columns: Sequence[str | None],
    data_columns: Collection[str] = (),
    na: Collection[str] = (),
) -> list[TargetValues]:
    """Read the values of columns, and the sample ids if there are any, of a target file.

    Sample ids may also be a column of unique values that has the name of a column of the data. In files of
    text, ``na`` are missing values.
    """
    if is_url(path):
        with tempfile.TemporaryDirectory(prefix="banditsis-") as folder:
            copy = copy_url(str(path), folder)
            with named_as(copy, str(path)):
                return read_targets(copy, columns, data_columns, na)
    path = Path(path)
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    name = path.name.lower()
    if name.endswith(TEXT):
        find_format(path)  # raises if the content is that of another format
    with open(path, "rb") as file:
        check_supported(path, file.read(32))
    if name.endswith(".npy"):
        return [read_npy(path, column) for column in columns]
    if name.endswith(_ARROW):
        return read_arrow(path, columns, DataColumns(data_columns))
    if name.endswith(_TEXT):
        return read_text(path, columns, DataColumns(data_columns), na)
    raise ValueError(
        f"{path} cannot be a target: it must end in .npy, {', '.join(_ARROW)} or {', '.join(_TEXT)}."
    )


def join(opened: Opened, read: TargetValues, path: Path | str) -> Target:
    """Assign the values of a file to rows; leave out rows without a value."""
    return _combine(opened, [match_rows(opened, read, path)])


def match_rows(opened: Opened, read: TargetValues, path: Path | str) -> Known:
    """Assign values to rows: by sample ids if both sides have them, else by row order."""
    note = f"; {read.note}" if read.note else ""
    if opened.ids is None or read.ids is None:
        return _match_by_order(opened, read, path, note)
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
    return _leave_out_missing(rows, read.values[position[rows]], how + note)


def _match_by_order(opened: Opened, read: TargetValues, path: Path | str, note: str) -> Known:
    """Assign values in row order; those of a shuffled store are in the order before shuffling."""
    if (opened.ids is None) != (read.ids is None):
        has, lacks = (
            ("the data have", f"{path} has") if read.ids is None else (f"{path} has", "the data have")
        )
        warn_user(
            f"{has} sample ids, and {lacks} none: rows were joined by their order alone. Make sure that both "
            "are in the same order, or add a column of ids."
        )
    from banditsis.store.reader import stored_below

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
    how = f"{path} was taken in {order}: {n:,} values{note}"
    return _leave_out_missing(np.arange(len(values)), values, how)


def _match_ids(data_ids: Array, ids: Array, path: Path | str) -> Indices:
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


def _leave_out_missing(rows: Indices, values: Array, how: str) -> Known:
    """Leave out rows without a value."""
    missing = find_missing(values)
    if missing.all():
        raise ValueError("the target has no value in any row: check that it is the right column.")
    n_missing = np.count_nonzero(missing)
    if n_missing:
        rows, values = rows[~missing], values[~missing]
        were = "rows without a value were" if n_missing > 1 else "row without a value was"
        how += f"; {n_missing:,} {were} left out"
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(str)
    return Known(rows, values, f"{how}.")


def _combine(opened: Opened, known: Sequence[Known]) -> Target:
    """The rows in which at least one response is known."""
    source, rows = opened.source, known[0].rows
    if all(np.array_equal(rows, other.rows) for other in known[1:]):
        values = [response.values for response in known]
    else:
        rows = np.unique(np.concatenate([response.rows for response in known]))
        values = [_expand(response, rows) for response in known]
    how = [response.how for response in known]
    if rows.size == source.shape[0]:
        return Target(source, values, how, opened.ids)
    return Target(RowSubset(source, rows), values, how, opened.ids, rows)


def _expand(known: Known, rows: Indices) -> Array:
    """The values of a response in some rows, with NaN or None where it is not known."""
    is_text = known.values.dtype.kind not in "fiub"
    values = np.full(len(rows), None if is_text else np.nan, dtype=object if is_text else np.float64)
    values[np.searchsorted(rows, known.rows)] = known.values
    return values
