"""Open data with targets, covariates and weights: columns of the data, or of files joined to their rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.validation import find_missing, warn_user
from banditsis.formats.opening import column_names, is_text, open_parts, stack_columns
from banditsis.formats.options import (
    DEFAULTS,
    ColumnNotFoundError,
    Patterns,
    ReadOptions,
    check_options,
    find_column,
)
from banditsis.formats.registry import Opened, is_url
from banditsis.formats.tables import match_names
from banditsis.formats.target_files import DELIMITED, TABLES, SideFile, first_row_number, open_side_file
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset

#: Stands for all columns of a file that have no other role.
EVERY = "*"


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


class Place(NamedTuple):
    """Where a column is: in the data, or in a file of its own, which may be a URL."""

    file: Path | str | None
    #: None for the only column of a file
    column: str | None
    #: as the user wrote it
    text: str


class Side(NamedTuple):
    """A file whose rows are joined to those of the data."""

    file: SideFile
    #: the columns that are used, by what the user calls them
    columns: dict[str | None, list[int]]
    id_columns: list[int]
    #: name of the ids if they were chosen because the data have a column of the same name
    key: str | None


class Column(NamedTuple):
    """A column of the data or of another file, in the rows of the data in which it has a value."""

    name: str
    place: Place
    rows: Indices
    values: Array
    #: a sentence about how it was found
    how: str

    def expand(self, rows: Indices) -> Array:
        """The values in some rows, with NaN or None where they are not known."""
        position = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        values, missing = self.values[position], self.rows[position] != rows
        if missing.any():
            is_text = values.dtype.kind not in "fiub"
            values = values.astype(object if is_text else np.float64)
            values[missing] = None if is_text else np.nan
        return values


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
    given, own = (_as_texts(target), _as_texts(weights)), column_names(data)
    roles = [[find_place(text, own) for text in texts] for texts in given]
    roles.append([place for text in _as_texts(covariates) for place in _find_covariates(text, own)])
    opened, (responses, weighted, adjusted) = open_columns(data, roles, options, names)
    n = opened.source.shape[0]
    known = [column.rows for column in responses]
    rows = np.unique(np.concatenate(known)) if known else np.arange(n)
    values = [column.expand(rows) for column in responses]
    keys = [column.name for column in adjusted]
    if len(set(keys)) < len(keys):  # from different files
        keys = [column.place.text for column in adjusted]
    single = isinstance(target, (str, os.PathLike))
    return Dataset(
        features=opened.source if rows.size == n else RowSubset(opened.source, rows),
        target=None if not values else values[0] if single else stack_columns(values),
        covariates={key: column.expand(rows) for key, column in zip(keys, adjusted, strict=True)} or None,
        weights=weighted[0].expand(rows) if weighted else None,
        ids=None if opened.ids is None else opened.ids[rows],
        names=tuple(column.name for column in responses),
        joined=tuple(column.how for column in (*responses, *weighted, *adjusted)),
    )


def _as_texts(given: str | os.PathLike[str] | Sequence[str] | None) -> list[str]:
    """One text or path, several, or none."""
    if given is None or isinstance(given, (str, os.PathLike)):
        return [] if given is None else [str(given)]
    return [str(text) for text in given]


def find_place(text: str, data_columns: Collection[str] = ()) -> Place:
    """Where a column is: in the data unless the text names a file by its extension.

    Examples
    --------
    >>> find_place("price")[:2], find_place("chr1:12345")[:2], find_place("y.csv", ["y.csv"])[:2]
    ((None, 'price'), (None, 'chr1:12345'), (None, 'y.csv'))
    """
    head, _, column = text.rpartition(":")
    missing = None
    for name, rest in ((text, None), (head, column or None)) if text not in data_columns else ():
        if name.lower().endswith((*TABLES, *DELIMITED, ".npy")):
            if is_url(name):
                return Place(name, rest, text)
            if Path(name).is_file():
                return Place(Path(name), rest, text)
            missing = missing or name
    if missing is not None:
        raise FileNotFoundError(f"the file {missing} does not exist: check the name and the folder.")
    return Place(None, text, text)


def _find_covariates(text: str, data_columns: Collection[str]) -> Iterator[Place]:
    """Where covariates are, which are separated by commas."""
    parts = [text] if text in data_columns else [part.strip() for part in text.split(",")]
    place = Place(None, text, text) if set(parts) <= set(data_columns) else find_place(text)
    if place.file is None:
        yield from (Place(None, part, part) for part in parts)
        return
    for column in [EVERY] if place.column is None else place.column.split(","):
        yield Place(place.file, column.strip(), f"{place.file}:{column.strip()}")


def open_columns(
    data: Any,
    roles: Sequence[Sequence[Place]],
    options: ReadOptions = DEFAULTS,
    names: Sequence[str] | None = None,
) -> tuple[Opened, list[list[Column]]]:
    """Open data, and the columns of several roles, each in the rows in which it is known."""
    places = [place for role in roles for place in role]
    wanted: dict[Path | str, list[str | None]] = {}
    for place in places:
        if place.file is not None:
            wanted.setdefault(place.file, []).append(place.column)
    files = {file: open_side_file(file, columns, options.na) for file, columns in wanted.items()}
    own = [] if not files else column_names(data) if options.id is None else [options.id]
    sides = {file: find_side(files[file], columns, own) for file, columns in wanted.items()}
    if not is_text(data) and any(str(file).lower().endswith(DELIMITED) for file in files):
        options = options._replace(na=())  # which applies to these files alone
    for side in reversed(sides.values()):  # the first one decides
        if side.id_columns and not side.file.is_default_index(side.id_columns):
            options = options._replace(ids_like=[side.file.names[k] for k in side.id_columns])
    apart = [place.text for place in places if place.file is None]
    opened = _open_apart(data, apart, options, names)
    if sides and not own and opened.ids is None and (found := opened.source.names):  # a matrix with names
        sides = {file: find_side(files[file], columns, found) for file, columns in wanted.items()}
        for key in [side.key for side in sides.values() if side.key is not None][:1]:
            (column,) = match_names(found, [key])
            opened = _open_apart(data, apart, options._replace(id=found[column]), names)
    joined = {file: join(opened, side) for file, side in sides.items()}
    own_columns = iter(zip(opened.labels, opened.values, strict=True))

    def read(place: Place) -> Iterator[Column]:
        if place.file is None:
            yield _data_column(place, *next(own_columns))
        else:
            yield from _side_columns(place, sides[place.file], *joined[place.file])

    return opened, [[column for place in role for column in read(place)] for role in roles]


def _open_apart(
    data: Any, columns: Sequence[str], options: ReadOptions, names: Sequence[str] | None
) -> Opened:
    try:
        return open_parts(data, columns, options, names)
    except ColumnNotFoundError:
        for column in columns:
            if Path(column).is_file():
                open_side_file(Path(column))  # raises the error of that file
        raise


def find_side(file: SideFile, wanted: Sequence[str | None], data_columns: Collection[str]) -> Side:
    """Find the columns of a file that are used, and its sample ids."""
    columns: dict[str | None, list[int]] = {
        name: [find_column(file.names, name, file.path)] for name in wanted if name not in (None, EVERY)
    }
    id_columns, key = file.find_ids(data_columns, {k for (k,) in columns.values()})
    used = {*id_columns, *(k for (k,) in columns.values())}
    others = [k for k in range(len(file.names)) if k not in used]
    if None in wanted:
        if len(others) != 1:
            shown = ", ".join(file.names[k] for k in others[:8]) + (", …" if len(others) > 8 else "")
            raise ValueError(
                f"{file.path} has several columns: name one, as in {file.path}:column; there are {shown}."
            )
        columns[None], others = others, []
    if EVERY in wanted:
        if not others:
            raise ValueError(f"{file.path} has no covariates: all its columns are sample ids or targets.")
        columns[EVERY] = others
    return Side(file, columns, id_columns, key)


def join(opened: Opened, side: Side) -> tuple[Indices, str, str]:
    """Find the row of a file for each row of the data: by sample ids if both have them, else by row order.

    Returns
    -------
    position : ndarray of int
        A row of the file for each row of the data, -1 if there is none.
    how, remark : str
        How it was found, and how many ids of the file were not used.
    """
    path, ids = side.file.path, side.file.ids(side.id_columns) if side.id_columns else None
    if opened.ids is None or ids is None:
        return *_join_by_order(opened, side), ""
    position = _match_ids(opened.ids, ids, path)
    n_unused = len(ids) - np.count_nonzero(position >= 0)
    on = "sample ids" if side.key is None else f"the column {side.key!r} of both"
    how = f"{path} was joined on {on}"
    if side.key is not None:
        opened.source.notes = [*opened.source.notes, f"{how}; the column is not a feature."]
    return position, how, f"{n_unused:,} of its ids are not in the data" if n_unused else ""


def _join_by_order(opened: Opened, side: Side) -> tuple[Indices, str]:
    """Take rows in their order; for a shuffled store, this is the order before shuffling."""
    path = side.file.path
    if (opened.ids is None) == bool(side.id_columns):
        has, lacks = (f"{path} has", "the data have")
        has, lacks = (has, lacks) if side.id_columns else (lacks, has)
        warn_user(
            f"{has} sample ids, and {lacks} none: rows were joined by their order alone. Make sure that both "
            "are in the same order, or add a column of ids."
        )
    from banditsis.index.reader import stored_below

    store = stored_below(opened.source)
    position = np.arange(opened.source.shape[0]) if store is None else store.original_rows
    n = len(position) if store is None else store.record.n_original
    order = "row order" if store is None else "the row order before shuffling"
    n_values = len(side.file.cells(0))
    if n_values != n:
        lacks = "the data" if side.id_columns else str(path)
        raise ValueError(
            f"{path} has {n_values:,} values for the {n:,} rows of the data, and {lacks} has no sample "
            f"ids to join on: give one value for each row, in {order}."
        )
    return position, f"{path} was taken in {order}"


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


def _side_columns(place: Place, side: Side, position: Indices, how: str, remark: str) -> Iterator[Column]:
    """The columns of a file that a place stands for."""
    rows = np.flatnonzero(position >= 0)
    for k in side.columns[place.column]:
        name = side.file.names[k]
        values, note = side.file.read(k)
        at = place if place.column != EVERY else Place(place.file, name, f"{place.file}:{name}")
        what = f"{side.file.path}:{name}"
        yield _known(name, at, rows, values[position[rows]], len(position), how, what, note, remark)


def _data_column(place: Place, name: str, values: Array) -> Column:
    number = f", its column {place.text}" if name != place.text else ""
    what = f"the column {name!r} of the data{number}"
    return _known(name, place, np.arange(len(values)), values, len(values), what, what)


def _known(
    name: str, place: Place, rows: Indices, values: Array, n: int, how: str, what: str, *remarks: str
) -> Column:
    """Leave out rows without a value, and say how many of n have one."""
    missing = find_missing(values)
    if missing.all():
        raise ValueError(f"{what} has no value in any row: check that it is the right column.")
    if missing.any():
        rows, values = rows[~missing], values[~missing]
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(str)
    how += f": {rows.size:,} of {n:,} rows have a value" if rows.size < n else ""
    return Column(name, place, rows, values, "; ".join(filter(None, [how, *remarks])) + ".")
