"""Columns of the data and of files, joined on sample ids, on a column that both have, or by row order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.validation import find_missing, warn_user
from banditsis.formats.opened import Opened
from banditsis.formats.opening import FORMATS, find_format, is_url, open_any
from banditsis.formats.options import ReadOptions, as_ids
from banditsis.formats.tables import find_id_columns, lower_names
from banditsis.formats.text import MISSING, is_number

#: Stands for all columns of a file that have no other role.
EVERY = "*"
#: Formats of files with targets, and their extensions.
SIDE_FORMATS = ("csv", "parquet", "arrow", "npy")
ENDINGS = tuple(extension for name in SIDE_FORMATS for extension in FORMATS[name].extensions)


class Place(NamedTuple):
    """Where a column is: in the data, or in a file of its own, which may be a URL."""

    file: Path | str | None
    #: None for the only column of a file
    column: str | None
    #: as the user wrote it
    text: str


class Column(NamedTuple):
    """A column of the data or of another file, for the rows of the data."""

    name: str
    place: Place
    #: of all rows; those that are not known have any value
    values: Array
    known: Array
    #: a sentence about how it was found
    how: str

    def take(self, rows: Indices) -> Array:
        """The values in some rows, with NaN or None where they are not known."""
        values, known = self.values[rows], self.known[rows]
        is_text = values.dtype.kind not in "fiub"
        if not known.all():
            values = values.astype(object if is_text else np.float64)
            values[~known] = None if is_text else np.nan
        elif values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
            values = values.astype(str)
        return values


def find_place(text: str, data_columns: Sequence[str] = ()) -> Place:
    """Where a column is: in the data unless the text names a file by its extension."""
    head, _, column = text.rpartition(":")
    missing = None
    for name, rest in ((text, None), (head, column or None)) if text not in data_columns else ():
        is_named = name.lower().endswith(ENDINGS)
        if is_named and is_url(name):
            return Place(name, rest, text)
        if name and not name.isdigit() and Path(name).is_file():
            return Place(Path(name), rest, text)
        missing = name if is_named and missing is None else missing
    if missing is not None:
        raise FileNotFoundError(f"the file {missing} does not exist: check the name and the folder.")
    return Place(None, text, text)


def find_covariates(text: str, data_columns: Sequence[str]) -> list[Place]:
    """Where covariates are, which are separated by commas."""
    parts = [text] if text in data_columns else [part.strip() for part in text.split(",")]
    place = Place(None, text, text) if all(part in data_columns for part in parts) else find_place(text)
    if place.file is None:
        return [Place(None, part, part) for part in parts]
    names = [EVERY] if place.column is None else map(str.strip, place.column.split(","))
    return [Place(place.file, name, f"{place.file}:{name}") for name in names]


def read_columns(data: Opened, roles: Sequence[Sequence[Place]]) -> tuple[list[list[Column]], list[str]]:
    """The columns of several roles, which are then not features of the data; and notes on shared keys."""
    wanted: dict[Path | str, list[str | None]] = {}
    found = {}
    for place in (place for role in roles for place in role):
        if place.file is None:
            found[place.column] = data.find(place.text)
        else:
            wanted.setdefault(place.file, []).append(place.column)
    files = {file: open_side(file, columns, data.options) for file, columns in wanted.items()}
    data.uses_na |= any(opened.uses_na for opened in files.values())
    sides = {file: find_side(opened, wanted[file], data.key_names) for file, opened in files.items()}
    joining = [side for side in sides.values() if side.ids and not _is_default_index(side.file, side.ids)]
    if joining:  # the first one decides
        data.use_ids(joining[0].ids)
    joined = {file: join(data, side) for file, side in sides.items()}

    def read(place: Place) -> Iterator[Column]:
        if place.file is None:
            name = found[place.column]
            what = f"the column {name!r} of the data"
            what += f", its column {place.text}" if name != place.text else ""
            yield _make_column(name, place, data.values(name), np.arange(data.n_rows), what, what)
            return
        side, (position, how, remark) = sides[place.file], joined[place.file]
        for name in side.columns[place.column]:
            at = place if place.column != EVERY else Place(place.file, name, f"{place.file}:{name}")
            values, what = side.file.values(name), f"{side.file.where}:{name}"
            yield _make_column(name, at, values, position, what, how, side.file.notes.get(name, ""), remark)

    columns = [[column for place in role for column in read(place)] for role in roles]
    keyed = [how for file, (_, how, _) in joined.items() if sides[file].key is not None]
    return columns, [f"{how}; the column is not a feature." for how in keyed]


def _make_column(
    name: str, place: Place, values: Array, position: Indices, what: str, how: str, *remarks: str
) -> Column:
    """A column whose rows are at some positions, with -1 for none, and how many of them have a value."""
    known = (position >= 0) & ~find_missing(values)[position]
    if not known.any():
        raise ValueError(f"{what} has no value in any row: check that it is the right column.")
    if not known.all():
        how += f": {np.count_nonzero(known):,} of {len(known):,} rows have a value"
    return Column(name, place, values[position], known, "; ".join(filter(None, [how, *remarks])) + ".")


def open_side(file: Path | str, wanted: Sequence[str | None], options: ReadOptions) -> Opened:
    """Open a file of targets, covariates or weights; requested names tell that a text has a header."""
    if find_format(file) not in SIDE_FORMATS:
        raise ValueError(f"{file} cannot be a target: it must end in one of {', '.join(ENDINGS)}.")
    na, limit = options.na, options.memory_limit
    return open_any(file, ReadOptions(na=na, memory_limit=limit, wanted=tuple(wanted)))


class Side(NamedTuple):
    """A file whose rows are joined to those of the data."""

    file: Opened
    #: the columns that are used, by what the user calls them
    columns: dict[str | None, list[str]]
    #: the columns of sample ids
    ids: list[str]
    #: name of the ids if they were chosen because the data have a column of the same name
    key: str | None


def find_side(file: Opened, wanted: Sequence[str | None], data_columns: Sequence[str]) -> Side:
    """Find the columns of a file that are used, and its sample ids."""
    columns: dict[str | None, list[str]] = {
        name: [file.find(name)] for name in wanted if name is not None and name != EVERY
    }
    used = [column for (column,) in columns.values()]
    ids, key = _find_ids(file, data_columns, used)
    taken = {*ids, *used}
    others = [name for name in file.names if name not in taken]
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


def _find_ids(file: Opened, data_columns: Sequence[str], used: Sequence[str]) -> tuple[list[str], str | None]:
    """The columns of sample ids of a file, and the name of the first one if it is a key of both tables.

    A key is the first column of unique values with the name of a column of the data. It precedes the usual
    ids if the data have none, or if they are a default index. ``used`` columns are something else.
    """
    names = list(file.names)
    index = [names[k] for k in getattr(file, "index", ()) if names[k] not in used]
    excluded = [names.index(name) for name in used]
    usual = index or [names[k] for k in find_id_columns(names, exclude=excluded)]
    own = set(lower_names(data_columns)) if file.has_names and len(names) > 1 else set()
    shared = [name for name, lower in zip(names, lower_names(names), strict=True) if lower in own]
    both_have = usual and (set(usual) <= set(shared) or find_id_columns([*data_columns]))
    if not both_have or _is_default_index(file, usual):
        for name in shared:
            if name not in usual and name not in used and _are_keys(_ids_of(file, [name])):
                return [name], name
    return usual, None


def _is_default_index(file: Opened, columns: Sequence[str]) -> bool:
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

    Returns the rows (-1 if there is none), how they were found, and how many ids of the file were not used.
    """
    path, data_ids = side.file.where, data.ids
    if data_ids is None or not side.ids:
        return _join_by_order(data, side)
    ids = _ids_of(side.file, side.ids)
    position = _match_ids(data_ids, ids, path)
    n_unused = len(ids) - np.count_nonzero(position >= 0)
    on = "sample ids" if side.key is None else f"the column {side.key!r} of both"
    how = f"{path} was joined on {on}"
    return position, how, f"{n_unused:,} of its ids are not in the data" if n_unused else ""


def _join_by_order(data: Opened, side: Side) -> tuple[Indices, str, str]:
    """Take rows in their order."""
    path = side.file.where
    if (data.ids is not None) != bool(side.ids):
        have = f"{path} has sample ids, and the data have none"
        have = have if side.ids else f"the data have sample ids, and {path} has none"
        warn_user(
            f"{have}: rows were joined by their order alone. Make sure that both are in the same order, or "
            "add a column of ids."
        )
    n = data.n_rows
    if side.file.n_rows != n:
        lacks = "the data have" if side.ids else f"{path} has"
        raise ValueError(
            f"{path} has {side.file.n_rows:,} values for the {n:,} rows of the data, and {lacks} no sample "
            "ids to join on: give one value for each row, in row order."
        )
    return np.arange(n), f"{path} was taken in row order", ""


def _match_ids(data_ids: Array, ids: Array, path: object) -> Indices:
    """Position of each id of the data in the ids of a file, -1 if it is not there."""
    if not any("\t" in name for name in ids):  # individuals without families
        data_ids = np.array([str(name).rpartition("\t")[2] for name in data_ids])
    elif not any("\t" in str(name) for name in data_ids):
        ids = np.array([name.rpartition("\t")[2] for name in ids])
    for given, where in ((data_ids, "the data"), (ids, path)):
        names, counts = np.unique(given, return_counts=True)
        if (counts > 1).any():
            raise ValueError(
                f"sample id {_show(names[counts > 1][0])} occurs {counts[counts > 1][0]} times in {where}: "
                "ids must be unique to join."
            )
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


def _show(name: object) -> str:
    return repr(str(name).replace("\t", " "))
