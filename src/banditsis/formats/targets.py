"""Targets, covariates and weights: columns of the data, or of files that are joined to their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.validation import find_missing
from banditsis.formats.join import EVERY, Side, find_side, is_default_index, join
from banditsis.formats.opened import Opened
from banditsis.formats.opening import open_any
from banditsis.formats.options import Patterns, ReadOptions, check_options
from banditsis.formats.registry import is_url
from banditsis.formats.target_files import DELIMITED, TABLES, open_side_file
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset


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
        has_ending = name.lower().endswith((*TABLES, *DELIMITED, ".npy"))
        if has_ending and is_url(name):
            return Place(name, rest, text)
        if name and not name.isdigit() and Path(name).is_file():
            return Place(Path(name), rest, text)
        missing = name if has_ending and missing is None else missing
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
    found = {place: data.find(place.text) for place in own}
    wanted: dict[Path | str, list[str | None]] = {}
    for place in places:
        if place.file is not None:
            wanted.setdefault(place.file, []).append(place.column)
    files = {file: open_side_file(file, columns, data.options) for file, columns in wanted.items()}
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
