"""Join the rows of two tables: on sample ids, on a column that both have, or by row order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices
from banditsis.core.validation import warn_user
from banditsis.formats.opened import Opened
from banditsis.formats.options import as_ids
from banditsis.formats.tables import find_id_columns, lower_names
from banditsis.formats.text import MISSING, is_number

#: Stands for all columns of a file that have no other role.
EVERY = "*"


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
    """Take rows in their order; for an index, this is the order before it was built."""
    path = side.file.where
    if data_have_ids != bool(side.ids):
        has, lacks = (f"{path} has", "the data have")
        has, lacks = (has, lacks) if side.ids else (lacks, has)
        warn_user(
            f"{has} sample ids, and {lacks} none: rows were joined by their order alone. Make sure that both "
            "are in the same order, or add a column of ids."
        )
    position, n = data.original_rows, data.n_rows
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
