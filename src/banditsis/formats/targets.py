"""Open data with targets and covariates: columns of the data, or of other files joined to their rows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.validation import find_missing, warn_user
from banditsis.formats.opening import (
    column_names,
    copy_url,
    is_text,
    named_as,
    open_parts,
    stack_columns,
)
from banditsis.formats.options import (
    DEFAULTS,
    ColumnNotFoundError,
    Patterns,
    ReadOptions,
    as_ids,
    check_options,
)
from banditsis.formats.registry import TEXT, Opened, find_format, is_url
from banditsis.formats.tables import match_names
from banditsis.formats.target_files import (
    PLINK_TABLES,
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

_ARROW = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_TEXT = (*TEXT, ".dat", ".tab", ".fam", *PLINK_TABLES)


class Dataset(NamedTuple):
    """Features and what belongs to their rows, as :func:`open_data` finds it.

    Attributes
    ----------
    features : Source
        The features, in the rows that have a value of the target.
    target : ndarray of shape (n,) or (n, responses), or None
        The response; several have NaN or None where one of them is missing.
    covariates : dict of str to ndarray, or None
        Covariates by name, with NaN or None for missing values.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    ids : ndarray of str, or None
        Sample ids of the rows, if they are known; a family id and an individual id are separated by a tab.
    names : tuple of str
        Names of the responses.
    joined : tuple of str
        How each response, each covariate and the weights were found, in one sentence each.
    """

    features: Source
    target: Array | None
    covariates: dict[str, Array] | None
    weights: Array | None
    ids: Array | None
    names: tuple[str, ...]
    joined: tuple[str, ...]


class Target(NamedTuple):
    """Features with their responses."""

    source: Source
    #: one array for each response; only if there are several they may have missing values, NaN or None
    values: list[Array]
    #: the rows of the data that are left; None if all are
    rows: Indices | None = None


class Place(NamedTuple):
    """Where a target is: in a column of the data, or of a file of its own, which may be a URL."""

    file: Path | str | None
    column: str | None
    #: as the user wrote it
    text: str = ""


class Known(NamedTuple):
    """The rows in which a response is known."""

    rows: Indices
    values: Array
    #: a sentence about how they were joined
    how: str


def open_data(
    data: Any,
    target: str | os.PathLike[str] | Sequence[str] | None = None,
    *,
    covariates: str | os.PathLike[str] | Sequence[str] = (),
    weights: str | os.PathLike[str] | None = None,
    names: Sequence[str] | None = None,
    columns: Patterns = (),
    drop: Patterns = (),
    id: str | None = None,
    one_hot: bool | int = False,
    dates: str = "skip",
    na: Patterns = (),
    memory_limit: int | None = None,
) -> Dataset:
    """Open features together with a response, covariates, weights and sample ids.

    Columns of other files are joined on sample ids if both sides have them, else by row order. Rows without
    a response are left out.

    Parameters
    ----------
    data : path, frame, array-like or Source
        The features, as in :func:`open_source`.
    target : str or sequence of str, optional
        The response: a column of the data by name or 1-based number, which is not a feature then;
        ``file:column``; or a ``file`` with one column. Several responses become the columns of an array.
    covariates : str or sequence of str
        Columns of the data (``"age,sex"``) or of another file (``"file:age,sex"``). A ``file`` alone stands
        for all its columns except sample ids, targets and weights.
    weights : str, optional
        Weights of the rows, as for ``target``.
    names, columns, drop, id, one_hot, dates, na, memory_limit
        As in :func:`open_source`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"height": [1.7, None, 1.8], "sex": list("fmm"), "rs1": [0, 1, 2]})
    >>> data = open_data(frame, "height", covariates="sex")
    >>> data.features.names, data.target, data.covariates
    (['rs1'], array([1.7, 1.8]), {'sex': array(['f', 'm'], dtype='<U1')})
    """
    options = check_options(
        columns=columns, drop=drop, id=id, one_hot=one_hot, dates=dates, na=na, memory_limit=memory_limit
    )
    return open_dataset(data, target, options, names, covariates=covariates, weights=weights)


def open_dataset(
    data: Any,
    target: str | os.PathLike[str] | Sequence[str] | None,
    options: ReadOptions,
    names: Sequence[str] | None = None,
    *,
    covariates: str | os.PathLike[str] | Sequence[str] = (),
    weights: str | os.PathLike[str] | None = None,
) -> Dataset:
    """As :func:`open_data`, with options that were checked."""
    places = [find_place(text) for text in _as_texts(target)]
    q = len(places)
    places += [find_place(text) for text in _as_texts(weights)]
    n_before = len(places)
    places += _find_covariates(_as_texts(covariates), places, column_names(data), options.na)
    opened, places, files = open_unjoined(data, places, options, names)
    known = [*_match_all(opened, places, files)]
    joined = _combine(opened, known[:q]) if q else Target(opened.source, [])
    rows = np.arange(opened.source.shape[0]) if joined.rows is None else joined.rows
    others = [_expand(column, rows) for column in known[q:]]
    labels = [
        str(place.column) if read is None else read.column for place, read in zip(places, files, strict=True)
    ]
    keys = labels[n_before:]
    if len(set(keys)) < len(keys):  # from different files
        keys = [place.text for place in places[n_before:]]
    single = isinstance(target, (str, os.PathLike))
    return Dataset(
        joined.source,
        None if q == 0 else joined.values[0] if single else stack_columns(joined.values),
        dict(zip(keys, others[n_before - q :], strict=True)) or None,
        None if weights is None else others[0],
        None if opened.ids is None else opened.ids[rows],
        tuple(labels[:q]),
        tuple(column.how for column in known),
    )


def _as_texts(given: str | os.PathLike[str] | Sequence[str] | None) -> list[str]:
    """One text or path, several, or none."""
    if given is None or isinstance(given, (str, os.PathLike)):
        return [] if given is None else [str(given)]
    return [str(text) for text in given]


def _find_covariates(
    texts: Sequence[str], others: Sequence[Place], data_columns: Sequence[str], na: Collection[str]
) -> list[Place]:
    """Where covariates are; a file alone stands for all its columns but sample ids and those of others."""
    found = []
    for text in texts:
        parts = [text] if text in data_columns else [part.strip() for part in text.split(",")]
        place = Place(None, None) if set(parts) <= set(data_columns) else find_place(text)
        if place.file is None:
            found += [Place(None, part, part) for part in parts]
            continue
        if place.column is not None:
            columns = [column.strip() for column in place.column.split(",")]
        else:
            beside = [other.column for other in others if other.file == place.file]
            taken = (
                {read.column for read in read_targets(place.file, beside, data_columns, na)} if beside else ()
            )
            read = read_targets(place.file, (), data_columns, na)
            columns = [values.column for values in read if values.column not in taken]
            if not columns:
                raise ValueError(
                    f"{place.file} has no covariates: all its columns are sample ids or targets."
                )
        found += [Place(place.file, column, f"{place.file}:{column}") for column in columns]
    return found


class UnjoinedTargets(NamedTuple):
    """Data and targets that have not been joined yet."""

    opened: Opened
    places: list[Place]
    #: content of each target file, None if the target is a column of the data
    files: list[TargetValues | None]


def open_unjoined(
    data: Any,
    places: Sequence[Place],
    options: ReadOptions = DEFAULTS,
    names: Sequence[str] | None = None,
) -> UnjoinedTargets:
    """Open data and targets separately; columns of the data take precedence over files of the same name."""
    in_files = {place.text: place for place in places if place.file}
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
    for found in reversed(read.values()):  # the first one decides
        if found.ids is not None and not is_default_index(found.id_names, found.ids):
            options = options._replace(ids_like=found.id_names)
    apart = [place.text for place in places if place.text not in read]
    opened = _open_columns(data, apart, options, names)
    features = opened.source.names
    if features is not None and not read.keys().isdisjoint(features):
        read = {target: found for target, found in read.items() if target not in set(features)}
        apart = [place.text for place in places if place.text not in read]
        opened = _open_columns(data, apart, options, names)
    if read and not columns and opened.ids is None and features is not None:  # a matrix with names
        read = _read_places({target: in_files[target] for target in read}, set(features), na)
        key = next((found.key for found in read.values() if found.key is not None), None)
        opened = opened if key is None else _split_key(opened, key)
    labels = iter(opened.labels)
    found_at = [p if p.text in read else Place(None, next(labels), p.text) for p in places]
    return UnjoinedTargets(opened, found_at, [read.get(place.text) for place in places])


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
        return open_parts(data, columns, options, names)
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


def find_place(target: str) -> Place:
    """Where a target is, as far as its text tells."""
    return Place(*split_target(target), target)


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

    Without ``columns``, all that are not ids. Sample ids may also be a column of unique values that has the
    name of a column of the data. In files of text, ``na`` are missing values.
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
        return read_npy(path, columns)
    if name.endswith(_ARROW):
        return read_arrow(path, columns, DataColumns(data_columns))
    if name.endswith(_TEXT):
        return read_text(path, columns, DataColumns(data_columns), na)
    raise ValueError(
        f"{path} cannot be a target: it must end in .npy, {', '.join(_ARROW)} or {', '.join(_TEXT)}."
    )


def join(opened: Opened, read: TargetValues, path: Path | str) -> Target:
    """Assign the values of a file to rows; leave out rows without a value."""
    return _combine(opened, [_match_rows(opened, read, path, {})])


def _match_all(
    opened: Opened, places: Sequence[Place], files: Sequence[TargetValues | None]
) -> Iterator[Known]:
    """Assign the values of all targets and covariates to rows."""
    values, positions = iter(opened.values), dict[int, Indices]()
    for place, read in zip(places, files, strict=True):
        if read is not None and place.file is not None:
            yield _match_rows(opened, read, place.file, positions)
            continue
        number = f", its column {place.text}" if place.column != place.text else ""
        column, what = next(values), f"the column {place.column!r} of the data{number}"
        yield _leave_out_missing(np.arange(len(column)), column, len(column), what, what)


def _match_rows(opened: Opened, read: TargetValues, path: Path | str, positions: dict[int, Indices]) -> Known:
    """Assign values to rows: by sample ids if both sides have them, else by row order.

    Columns of a file share their ids, whose ``positions`` are found once.
    """
    if opened.ids is None or read.ids is None:
        return _match_by_order(opened, read, path)
    if id(read.ids) not in positions:
        positions[id(read.ids)] = _match_ids(opened.ids, read.ids, path)
    position = positions[id(read.ids)]
    rows = np.flatnonzero(position >= 0)
    unused = len(read.ids) - rows.size
    on = "sample ids" if read.key is None else f"the column {read.key!r} of both"
    how = f"{path} was joined on {on}"
    if read.key is not None:
        notes = [*opened.source.notes, f"{how}; the column is not a feature."]
        opened.source.notes = list(dict.fromkeys(notes))  # it may be said of each of several covariates
    remarks = [read.note, f"{unused:,} of its ids are not in the data" if unused else ""]
    values, what = read.values[position[rows]], f"{path}:{read.column}"
    return _leave_out_missing(rows, values, opened.source.shape[0], how, what, *remarks)


def _match_by_order(opened: Opened, read: TargetValues, path: Path | str) -> Known:
    """Assign values in row order; those of a shuffled store are in the order before shuffling."""
    if (opened.ids is None) != (read.ids is None):
        has, lacks = (
            ("the data have", f"{path} has") if read.ids is None else (f"{path} has", "the data have")
        )
        warn_user(
            f"{has} sample ids, and {lacks} none: rows were joined by their order alone. Make sure that both "
            "are in the same order, or add a column of ids."
        )
    from banditsis.index.reader import stored_below

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
    how, n = f"{path} was taken in {order}", len(values)
    return _leave_out_missing(np.arange(n), values, n, how, f"{path}:{read.column}", read.note)


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


def _leave_out_missing(rows: Indices, values: Array, n: int, how: str, what: str, *remarks: str) -> Known:
    """Leave out rows without a value, and say how many of n have one."""
    missing = find_missing(values)
    if missing.all():
        raise ValueError(f"{what} has no value in any row: check that it is the right column.")
    if missing.any():
        rows, values = rows[~missing], values[~missing]
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(str)
    how += f": {rows.size:,} of {n:,} rows have a value" if rows.size < n else ""
    return Known(rows, values, "; ".join(filter(None, [how, *remarks])) + ".")


def _combine(opened: Opened, known: Sequence[Known]) -> Target:
    """The rows in which at least one response is known."""
    source, rows = opened.source, known[0].rows
    if all(np.array_equal(rows, other.rows) for other in known[1:]):
        values = [response.values for response in known]
    else:
        rows = np.unique(np.concatenate([response.rows for response in known]))
        values = [_expand(response, rows) for response in known]
    if rows.size == source.shape[0]:
        return Target(source, values)
    return Target(RowSubset(source, rows), values, rows)


def _expand(known: Known, rows: Indices) -> Array:
    """The values in some rows, with NaN or None where they are not known."""
    place = np.minimum(np.searchsorted(known.rows, rows), len(known.rows) - 1)
    values, missing = known.values[place], known.rows[place] != rows
    if missing.any():
        is_text = values.dtype.kind not in "fiub"
        values = values.astype(object if is_text else np.float64)
        values[missing] = None if is_text else np.nan
    return values
