"""Open data with targets, covariates and weights: columns of the data, or of files joined to their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.validation import find_missing, warn_user
from banditsis.formats.opened import Opened
from banditsis.formats.opening import open_any
from banditsis.formats.options import (
    ColumnNotFoundError,
    Patterns,
    ReadOptions,
    as_ids,
    check_options,
)
from banditsis.formats.registry import is_url
from banditsis.formats.tables import find_id_columns, lower_names
from banditsis.formats.target_files import DELIMITED, TABLES, open_side_file
from banditsis.formats.text import MISSING, is_number
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

    file: Opened
    #: the columns that are used, by what the user calls them
    columns: dict[str | None, list[str]]
    #: the columns of sample ids
    ids: list[str]
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
    opened = open_any(data, options, names)
    roles = [[find_place(text, opened.names) for text in _as_texts(given)] for given in (target, weights)]
    roles.append([place for text in _as_texts(covariates) for place in _find_covariates(text, opened.names)])
    (responses, weighted, adjusted), notes = read_columns(opened, roles)
    source = opened.source()
    source.notes = [*notes, *source.notes]
    n = source.shape[0]
    known = [column.rows for column in responses]
    rows = np.unique(np.concatenate(known)) if known else np.arange(n)
    values = [column.expand(rows) for column in responses]
    keys = [column.name for column in adjusted]
    if len(set(keys)) < len(keys):  # from different files
        keys = [column.place.text for column in adjusted]
    single, ids = isinstance(target, (str, os.PathLike)), opened.ids
    return Dataset(
        features=source if rows.size == n else RowSubset(source, rows),
        target=None if not values else values[0] if single else _stack(values),
        covariates={key: column.expand(rows) for key, column in zip(keys, adjusted, strict=True)} or None,
        weights=weighted[0].expand(rows) if weighted else None,
        ids=None if ids is None else ids[rows],
        names=tuple(column.name for column in responses),
        joined=tuple(column.how for column in (*responses, *weighted, *adjusted)),
    )


def _stack(columns: Sequence[Array]) -> Array:
    """Several columns as one array, of objects if some hold text."""
    is_text = len(columns) > 1 and any(column.dtype.kind not in "fiub" for column in columns)
    return np.column_stack([column.astype(object) if is_text else column for column in columns])


def _as_texts(given: str | os.PathLike[str] | Sequence[str] | None) -> list[str]:
    """One text or path, several, or none."""
    if given is None or isinstance(given, (str, os.PathLike)):
        return [] if given is None else [str(given)]
    return [str(text) for text in given]


def find_place(text: str, data_columns: Sequence[str] = ()) -> Place:
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


def _find_covariates(text: str, data_columns: Sequence[str]) -> Iterator[Place]:
    """Where covariates are, which are separated by commas."""
    parts = [text] if text in data_columns else [part.strip() for part in text.split(",")]
    place = Place(None, text, text) if all(part in data_columns for part in parts) else find_place(text)
    if place.file is None:
        yield from (Place(None, part, part) for part in parts)
        return
    for column in [EVERY] if place.column is None else place.column.split(","):
        yield Place(place.file, column.strip(), f"{place.file}:{column.strip()}")


def read_columns(data: Opened, roles: Sequence[Sequence[Place]]) -> tuple[list[list[Column]], list[str]]:
    """The columns of several roles, each in the rows in which it is known; and notes on shared keys.

    They are then not features of the data.
    """
    places = [place for role in roles for place in role]
    own = [place for place in places if place.file is None]
    found = dict(zip(own, _find_own(data, [place.text for place in own]), strict=True))
    wanted: dict[Path | str, list[str | None]] = {}
    for place in places:
        if place.file is not None:
            wanted.setdefault(place.file, []).append(place.column)
    na = data.options.na
    files = {file: open_side_file(file, columns, na) for file, columns in wanted.items()}
    data.uses_na |= any(opened.uses_na for opened in files.values())
    sides = {file: find_side(opened, wanted[file], data.key_names) for file, opened in files.items()}
    joining = [side for side in sides.values() if side.ids and not is_default_index(side.file, side.ids)]
    if joining:  # the first one decides
        data.use_ids(joining[0].ids)
    joined = {file: join(data, side) for file, side in sides.items()}

    def read(place: Place) -> Iterator[Column]:
        if place.file is None:
            yield _data_column(place, found[place], data.values(found[place]))
        else:
            yield from _side_columns(place, sides[place.file], *joined[place.file])

    columns = [[column for place in role for column in read(place)] for role in roles]
    keyed = [how for file, (_, how, _) in joined.items() if sides[file].key is not None]
    return columns, [f"{how}; the column is not a feature." for how in keyed]


def _find_own(data: Opened, columns: Sequence[str]) -> list[str]:
    try:
        return [data.find(column) for column in columns]
    except ColumnNotFoundError:
        for column in columns:
            if Path(column).is_file():
                open_side_file(Path(column))  # raises the error of that file
        raise


def find_side(file: Opened, wanted: Sequence[str | None], data_columns: Sequence[str]) -> Side:
    """Find the columns of a file that are used, and its sample ids."""
    columns: dict[str | None, list[str]] = {
        name: [file.find(name)] for name in wanted if name is not None and name != EVERY
    }
    used = [column for (column,) in columns.values()]
    ids, key = find_ids(file, data_columns, used)
    others = [name for name in file.names if name not in {*ids, *used}]
    if None in wanted:
        if len(others) != 1:
            shown = ", ".join(others[:8]) + (", …" if len(others) > 8 else "")
            raise ValueError(
                f"{file.where} has several columns: name one, as in {file.where}:column; there are {shown}."
            )
        columns[None], others = others, []
    if EVERY in wanted:
        if not others:
            raise ValueError(f"{file.where} has no covariates: all its columns are sample ids or targets.")
        columns[EVERY] = others
    return Side(file, columns, ids, key)


def find_ids(file: Opened, data_columns: Sequence[str], taken: Sequence[str]) -> tuple[list[str], str | None]:
    """The columns of sample ids of a file, and the name of the first one if it is a key of both tables.

    A key is the first column of unique values with the name of a column of the data. It precedes the usual
    ids if the data have none, or if they are a default index. ``taken`` columns are something else.
    """
    names = list(file.names)
    index = [names[k] for k in getattr(file, "index", ()) if names[k] not in taken]
    excluded = [names.index(name) for name in taken]
    usual = index or [names[k] for k in find_id_columns(names, exclude=excluded)]
    own = set(lower_names(data_columns)) if file.has_names and len(names) > 1 else set()
    shared = [name for name, lower in zip(names, lower_names(names), strict=True) if lower in own]
    both_have = usual and (set(usual) <= set(shared) or find_id_columns([*data_columns]))
    if not both_have or is_default_index(file, usual):
        for name in shared:
            if name not in usual and name not in taken and _are_keys(_ids_of(file, [name])):
                return [name], name
    return usual, None


def is_default_index(file: Opened, columns: Sequence[str]) -> bool:
    """Whether ids are the index that pandas writes by default: unnamed, from 0."""
    unnamed = {"", "unnamed: 0", "index", "__index_level_0__"}
    return {name.lower() for name in columns} <= unnamed and _first_row_number(_ids_of(file, columns)) == 0


def _ids_of(file: Opened, columns: Sequence[str]) -> Array:
    return as_ids([file.texts(name) for name in columns])


def _are_keys(ids: Array) -> bool:
    """Whether values can identify rows: all different, none missing, and not measurements with decimals."""
    values = set(ids.tolist())
    if len(values) < len(ids) or values & MISSING:
        return False
    return all(float(value).is_integer() for value in values if is_number(value))


def _first_row_number(ids: Array) -> int | None:
    """The smallest id if ids are consecutive integers in any order."""
    if not len(ids) or not all(str(name).isdigit() for name in ids):
        return None
    numbers = np.sort([int(name) for name in ids])
    return int(numbers[0]) if (np.diff(numbers) == 1).all() else None


def join(data: Opened, side: Side) -> tuple[Indices, str, str]:
    """Find the row of a file for each row of the data: by sample ids if both have them, else by row order.

    Returns
    -------
    position : ndarray of int
        A row of the file for each row of the data, -1 if there is none.
    how, remark : str
        How it was found, and how many ids of the file were not used.
    """
    path, data_ids = side.file.where, data.ids
    if data_ids is None or not side.ids:
        return *_join_by_order(data, side, data_ids is not None), ""
    ids = _ids_of(side.file, side.ids)
    position = _match_ids(data_ids, ids, path)
    n_unused = len(ids) - np.count_nonzero(position >= 0)
    on = "sample ids" if side.key is None else f"the column {side.key!r} of both"
    how = f"{path} was joined on {on}"
    return position, how, f"{n_unused:,} of its ids are not in the data" if n_unused else ""


def _join_by_order(data: Opened, side: Side, data_have_ids: bool) -> tuple[Indices, str]:
    """Take rows in their order; for a shuffled store, this is the order before shuffling."""
    path = side.file.where
    if data_have_ids != bool(side.ids):
        has, lacks = (f"{path} has", "the data have")
        has, lacks = (has, lacks) if side.ids else (lacks, has)
        warn_user(
            f"{has} sample ids, and {lacks} none: rows were joined by their order alone. Make sure that both "
            "are in the same order, or add a column of ids."
        )
    position, n = data.original_rows, data.n_original
    order = "row order" if position is None else "the row order before shuffling"
    if side.file.n_rows != n:
        lacks = "the data" if side.ids else str(path)
        raise ValueError(
            f"{path} has {side.file.n_rows:,} values for the {n:,} rows of the data, and {lacks} has no "
            f"sample ids to join on: give one value for each row, in {order}."
        )
    return np.arange(n) if position is None else position, f"{path} was taken in {order}"


def _match_ids(data_ids: Array, ids: Array, path: object) -> Indices:
    """Position of each id of the data in the ids of a file, -1 if it is not there."""
    if not any("\t" in name for name in ids):  # individuals without families
        data_ids = np.array([str(name).rpartition("\t")[2] for name in data_ids])
    elif not any("\t" in str(name) for name in data_ids):
        ids = np.array([name.rpartition("\t")[2] for name in ids])
    _check_unique_ids(data_ids, "the data")
    _check_unique_ids(ids, path)
    first, other = _first_row_number(data_ids), _first_row_number(ids)
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
    for name in side.columns[place.column]:
        values = side.file.values(name)
        at = place if place.column != EVERY else Place(place.file, name, f"{place.file}:{name}")
        what, note = f"{side.file.where}:{name}", side.file.notes.get(name, "")
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
