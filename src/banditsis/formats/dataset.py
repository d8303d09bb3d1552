"""Data with a response, covariates and weights: columns of the data, or of files joined to their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices, are_distinct_integers
from banditsis.core.validation import find_missing, warn_user
from banditsis.formats.files import is_url
from banditsis.formats.opened import Opened, Patterns, ReadOptions, lower_names
from banditsis.formats.opening import FORMATS, find_format, open_any
from banditsis.sources.base import Source
from banditsis.sources.views import take_original_rows

#: Stands for all columns of a file that have no other role.
EVERY = "*"
#: Formats of files with targets, and their extensions.
SIDE_FORMATS = ("csv", "parquet", "arrow", "npy")
ENDINGS = tuple(extension for key in SIDE_FORMATS for extension in FORMATS[key].extensions)


class Dataset(NamedTuple):
    """Features and what belongs to their rows, as :func:`open_data` finds it.

    For an index, all but the features are in the order of the original data.

    Attributes
    ----------
    features : Source
        The features, in the rows that have a value of the target.
    target : ndarray of shape (n,) or (n, responses), or None
        The response; several have NaN or None where one of them is missing.
    covariates : dict of str to ndarray, or None
        Covariates by name, with NaN or None for missing values.
    sample_weight : ndarray of shape (n,) or None
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
    sample_weight: Array | None
    ids: Array | None
    names: tuple[str, ...]
    joined: tuple[str, ...]


def open_data(
    data: Any,
    target: str | os.PathLike[str] | Sequence[str] | None = None,
    *,
    covariates: str | os.PathLike[str] | Sequence[str] = (),
    sample_weight: str | os.PathLike[str] | None = None,
    names: Sequence[str] | None = None,
    columns: Patterns = (),
    drop: Patterns = (),
    id_column: str | None = None,
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
    sample_weight : str, optional
        Weights of the rows, as for ``target``.
    names, columns, drop, id_column, one_hot, dates, na, memory_limit
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
    options = ReadOptions(names, columns, drop, id_column, one_hot, dates, na, memory_limit).checked()
    opened = open_any(data, options)
    roles = [[find_place(text, opened) for text in _as_texts(given)] for given in (target, sample_weight)]
    roles.append([place for text in _as_texts(covariates) for place in _find_covariates(text, opened)])
    responses, weighted, adjusted = read_columns(opened, roles)
    source = opened.source()
    n = source.shape[0]
    known = [~find_missing(column.values) for column in responses] or [np.ones(n, bool)]
    rows = np.flatnonzero(np.any(known, axis=0))
    values = [column.take(rows) for column in responses]
    if len(values) > 1 and any(column.dtype.kind not in "fiub" for column in values):
        values = [column.astype(object) for column in values]
    is_single, keys = isinstance(target, (str, os.PathLike)), [column.name for column in adjusted]
    if len(set(keys)) < len(keys):  # from different files
        keys = [":".join(map(str, filter(None, column.place))) for column in adjusted]
    return Dataset(
        features=source if rows.size == n else take_original_rows(source, rows),
        target=None if not values else values[0] if is_single else np.column_stack(values),
        covariates={key: column.take(rows) for key, column in zip(keys, adjusted, strict=True)} or None,
        sample_weight=weighted[0].take(rows) if weighted else None,
        ids=None if opened.ids is None else opened.ids[rows],
        names=tuple(column.name for column in responses),
        joined=tuple(column.how for column in (*responses, *weighted, *adjusted)),
    )


def _as_texts(given: str | os.PathLike[str] | Sequence[str] | None) -> list[str]:
    """One text or path, several, or none."""
    return [str(text) for text in ([given] if isinstance(given, (str, os.PathLike)) else given or ())]


class Place(NamedTuple):
    """Where a column is: in the data, or in a file of its own, which may be a URL."""

    file: Path | str | None
    column: str | None  #: None for the only column of a file


class Column(NamedTuple):
    """A column of the data or of another file, for the rows of the data."""

    name: str
    place: Place
    values: Array  #: of all rows, with NaN or None where they are not known
    how: str  #: a sentence about how it was found

    def take(self, rows: Indices) -> Array:
        """The values in some rows."""
        values = self.values[rows]
        is_text = values.dtype.kind == "O" and all(isinstance(value, str) for value in values)
        return values.astype(str) if is_text else values


def find_place(text: str, data: Opened | None = None) -> Place:
    """Where a column is: in the data unless the text names a file by its extension."""
    if data is not None and data.has(text):
        return Place(None, text)
    head, _, column = text.rpartition(":")
    missing = None
    for name, rest in ((text, None), (head, column or None)):
        is_named = name.lower().endswith(ENDINGS)
        if is_named and is_url(name):
            return Place(name, rest)
        if name and not name.isdigit() and Path(name).is_file():
            return Place(Path(name), rest)
        missing = name if is_named and missing is None else missing
    if missing is not None:
        raise FileNotFoundError(f"the file {missing} does not exist: check the name and the folder.")
    return Place(None, text)


def _find_covariates(text: str, data: Opened) -> list[Place]:
    """Where covariates are, which are separated by commas."""
    parts = [text] if data.has(text) else [part.strip() for part in text.split(",")]
    file = None if all(map(data.has, parts)) else (place := find_place(text)).file
    if file is None:
        return [Place(None, part) for part in parts]
    names = [EVERY] if place.column is None else map(str.strip, place.column.split(","))
    return [Place(file, name) for name in names]


def read_columns(data: Opened, roles: Sequence[Sequence[Place]]) -> list[list[Column]]:
    """The columns of several roles, which are then not features of the data."""
    wanted: dict[Path | str, list[str | None]] = {}
    in_data: dict[str | None, list[str]] = {}
    for file, column in (place for role in roles for place in role):
        if file is None:
            in_data[column] = [data.find(str(column))]
        else:
            wanted.setdefault(file, []).append(column)
    files = {file: open_side(file, some, data.options, data.id_names) for file, some in wanted.items()}
    data.uses_na |= any(side.uses_na for side, _ in files.values())
    if like := next((side.id_names for side, _ in files.values() if side.id_names), []):
        data.use_ids(like)
    joined = {file: _join(data, side) for file, (side, _) in files.items()}

    def read(given: Place) -> Iterator[Column]:
        side, columns = (data, in_data) if given.file is None else files[given.file]
        for name in columns[given.column]:
            values, note, place = side.values(name), side.notes.get(name, ""), given
            if given.file is None:
                number = f", its column {given.column}" if name != given.column else ""
                what = how = f"the column {name!r} of the data{number}"
                position, remark = np.arange(data.n_rows), ""
            else:
                what, (position, how, remark) = f"{side.where}:{name}", joined[given.file]
                place = Place(given.file, name if given.column == EVERY else given.column)
            known = (position >= 0) & ~find_missing(values)[position]
            if not known.any():
                raise ValueError(f"{what} has no value in any row: check that it is the right column.")
            values = values[position]
            if not known.all():
                how += f": {np.count_nonzero(known):,} of {len(known):,} rows have a value"
                is_text = values.dtype.kind not in "fiub"
                values = values.astype(object if is_text else np.float64)
                values[~known] = None if is_text else np.nan
            how = "; ".join(filter(None, [how, note, remark])) + "."
            yield Column(name, place, values, how)

    return [[column for place in role for column in read(place)] for role in roles]


def open_side(
    file: Path | str, wanted: Sequence[str | None], options: ReadOptions, ids: Sequence[str] = ()
) -> tuple[Opened, dict[str | None, list[str]]]:
    """Open a file of targets, covariates or weights; find the columns that are used, by what they are called.

    Requested names tell that a text has a header. ``ids`` are ids if the file has columns of these names.
    """
    if find_format(file) not in SIDE_FORMATS:
        raise ValueError(f"{file} cannot be a target: it must end in one of {', '.join(ENDINGS)}.")
    limit = options.memory_limit
    side = open_any(file, ReadOptions(na=options.na, memory_limit=limit, wanted=tuple(wanted)))
    columns: dict[str | None, list[str]] = {}
    columns |= {name: [side.find(name)] for name in wanted if name is not None and name != EVERY}
    side.use_ids(ids)
    left = [name for name in (*side.side, *side.names) if name not in {*side.taken, *side.id_names}]
    if None in wanted:
        if len(left) != 1:
            shown = ", ".join(left[:8]) + (", …" if len(left) > 8 else "")
            raise ValueError(
                f"{side.where} has several columns: name one, as in {side.where}:column; there are {shown}."
            )
        columns[None], left = left, []
    if EVERY in wanted:
        if not left:
            raise ValueError(f"{side.where} has no covariates: all its columns are sample ids or targets.")
        columns[EVERY] = left
    return side, columns


def _join(data: Opened, side: Opened) -> tuple[Indices, str, str]:
    """Find the row of a file for each row of the data: by sample ids if both have them, else by row order.

    Returns the rows (-1 if there is none), how they were found, and how many ids of the file were not used.
    """
    path, n = side.where, data.n_rows
    counts = np.arange(n).astype(str)  # pandas writes them by default: they are not ids
    are_counts = np.array_equal(counts, data.ids) and np.array_equal(counts, side.ids)  # type: ignore[arg-type]
    if data.ids is not None and side.ids is not None and not are_counts:
        position = _match_ids(data.ids, side.ids, path)
        n_unused = len(side.ids) - np.count_nonzero(position >= 0)
        remark = f"{n_unused:,} of its ids are not in the data" if n_unused else ""
        return position, f"{path} was joined on sample ids", remark
    what, hint = "", "Make sure that both are in the same order, or add a column of ids."
    if side.ids is None and data.ids is not None:
        what = f"the data have sample ids, and {path} has none"
    elif data.ids is None and side.ids is not None:
        what = f"{path} has sample ids, and the data have none"
    elif (key := _find_key(data, side)) is not None:
        what = f"{path} and the data have a column {key!r}"
        hint = f"To join them on this column, set id_column={key!r}."
    if what:
        warn_user(f"{what}: rows were joined by their order alone. {hint}")
    if side.n_rows != n:
        lacks = "the data have" if side.ids is not None else f"{path} has"
        raise ValueError(
            f"{path} has {side.n_rows:,} values for the {n:,} rows of the data, and {lacks} no sample "
            "ids to join on: give one value for each row, in row order."
        )
    return np.arange(n), f"{path} was taken in row order", ""


def _find_key(data: Opened, side: Opened) -> str | None:
    """The first column of the data and of a file that may identify rows: its values are all different."""
    in_file = dict(zip(lower_names(side.own_names), side.own_names, strict=True))
    for name, lower in zip(data.own_names, lower_names(data.own_names), strict=True):
        if lower in in_file:
            values = side.values(in_file[lower])
            may_be_key = values.dtype.kind not in "fiub" or are_distinct_integers(values)
            if may_be_key and len(set(values.tolist())) == len(values):
                return name
    return None


def _match_ids(data_ids: Array, ids: Array, path: object) -> Indices:
    """Position of each id of the data in the ids of a file, -1 if it is not there."""
    if not any("\t" in name for name in ids):  # individuals without families
        data_ids = np.array([name.rpartition("\t")[2] for name in data_ids.tolist()])
    elif not any("\t" in name for name in data_ids):
        ids = np.array([name.rpartition("\t")[2] for name in ids.tolist()])
    firsts, examples = [], []
    for given, where in ((data_ids, "the data"), (ids, path)):
        names, counts = np.unique(given, return_counts=True)
        if (counts > 1).any():
            repeated = names[counts > 1][0].replace("\t", " ")
            raise ValueError(
                f"sample id {repeated!r} occurs {counts[counts > 1][0]} times in {where}: ids must be unique "
                "to join."
            )
        numbers = sorted(map(int, names)) if all(map(str.isdigit, names)) else [0, 0]
        firsts.append(numbers[0] if numbers[-1] - numbers[0] == len(numbers) - 1 else None)
        examples.append(repr(str(given[0]).replace("\t", " ")))
    if len(ids) == len(data_ids) and set(firsts) == {0, 1}:  # every row would get its neighbour's value
        raise ValueError(
            f"the sample ids count rows from {firsts[0]} in the data and from {firsts[1]} in {path}: use the "
            "same ids on both sides, or remove them to join by row order."
        )
    positions = {name: k for k, name in enumerate(ids.tolist())}
    matches = np.array([positions.get(name, -1) for name in data_ids.tolist()], dtype=np.intp)
    if (matches < 0).all():
        raise ValueError(
            f"no sample id of {path} is in the data: its ids look like {examples[1]}, those of the data "
            f"like {examples[0]}. Use the same ids, or remove them to join by row order."
        )
    return matches
