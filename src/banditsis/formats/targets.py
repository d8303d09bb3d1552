"""The response that belongs to some features: a column beside them, or of another file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banditsis.arrays import Array, Indices
from banditsis.formats.opening import open_data
from banditsis.formats.registry import ColumnNotFoundError, Opened
from banditsis.formats.sample_ids import first_of_count, is_mere_count
from banditsis.formats.target_files import TargetValues, read_arrow, read_npy, read_text
from banditsis.sources.base import Source
from banditsis.sources.views import RowSubset
from banditsis.store.reader import ShuffledSource, stored_below
from banditsis.validation import warn_user

_ARROW = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".fam", ".pheno", ".phen", ".dat", ".tab")


class Target(NamedTuple):
    """Features with their response."""

    source: Source
    y: Array
    #: a sentence that says how rows and values were put together
    how: str
    #: ids of all rows of the data, also of those without a value, if they are known
    ids: Array | None = None


class Place(NamedTuple):
    """Where a target is: a column of the data, or of a file of its own."""

    file: Path | None
    column: str | None


class UnjoinedTarget(NamedTuple):
    """Data and target that have not been joined yet."""

    opened: Opened
    #: what the target's file holds, None if it is a column of the data
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
    """Open data together with their target.

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
        What ids of samples are called elsewhere, where the data shall be joined with more than the target.
    """
    opened, read, (file, column) = open_unjoined(
        data, target, names=names, one_hot=one_hot, memory_limit=memory_limit, ids_like=ids_like
    )
    if read is not None and file is not None:
        return join(opened, read, file)
    assert opened.y is not None
    number = f", its column {target}" if opened.label not in (None, target) else ""
    how = f"the target is the column {opened.label or column!r} of the data{number}"
    return _without_missing(opened.source, opened.y, how)._replace(ids=opened.ids)


def open_unjoined(
    data: Any, target: str | None, *, ids_like: Sequence[str] | None = None, **options: Any
) -> UnjoinedTarget:
    """Open data and target, each by itself; a column of the data goes before a file of the same name."""
    target = None if target is None else str(target)  # which may be a path
    file, column = (None, None) if target is None else split_target(target)
    if file is None:
        try:
            return _open_column(data, target, ids_like=ids_like, **options)
        except ColumnNotFoundError:
            if target is not None and Path(target).is_file():
                read_target(Path(target), None)  # which says why it will not do
            raise
    read = read_target(file, column)
    if read.ids is not None and not is_mere_count(read.ids, read.id_names):
        ids_like = read.id_names
    opened = open_data(data, None, ids_like=ids_like, **options)
    if opened.source.names is not None and target in opened.source.names:
        return _open_column(data, target, ids_like=ids_like, **options)
    return UnjoinedTarget(opened, read, Place(file, column))


def _open_column(data: Any, target: str | None, **options: Any) -> UnjoinedTarget:
    """Open data whose target is one of their columns, if there is one."""
    opened = open_data(data, target, **options)
    return UnjoinedTarget(opened, None, Place(None, target if opened.label is None else opened.label))


def split_target(target: str) -> tuple[Path | None, str | None]:
    """File and column of a target; what does not end as files do is a column of the data.

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
    if missing is not None:
        raise FileNotFoundError(f"the target's file {missing} does not exist: check the name and the folder.")
    return None, target


def read_target(path: Path, column: str | None) -> TargetValues:
    """Read values, and ids of samples if there are any, from a file."""
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    name = path.name.lower()
    if name.endswith(".npy"):
        return read_npy(path, column)
    if name.endswith(_ARROW):
        return read_arrow(path, column)
    if name.endswith(_TEXT):
        return read_text(path, column)
    raise ValueError(
        f"{path} cannot be a target: it must end in .npy, {', '.join(_ARROW)} or {', '.join(_TEXT)}."
    )


def join(opened: Opened, read: TargetValues, path: Path) -> Target:
    """Put values to rows: by the ids of the samples if both sides have them, else by row order."""
    n = opened.source.shape[0]
    said = f"; {read.note}" if read.note else ""
    if opened.ids is None or read.ids is None:
        _warn_of_one_side(opened, read, path)
        if (store := stored_below(opened.source)) is not None:
            return _before_shuffling(opened, store, read, path, said)
        if len(read.values) != n:
            raise ValueError(
                f"{path} has {len(read.values):,} values for the {n:,} rows of the data, and there are no "
                f"ids of samples {'in it' if read.ids is None else 'in the data'} to join on: give a "
                "value for each row."
            )
        how = f"{path} was taken in row order: {n:,} values{said}"
        return _without_missing(opened.source, read.values, how)._replace(ids=opened.ids)
    place = _matches(opened.ids, read.ids, path)
    known = np.flatnonzero(place >= 0)
    values = read.values[place[known]]
    spare = len(read.ids) - known.size
    how = f"{path} was joined on the ids of samples: {known.size:,} of {n:,} rows have a value" + (
        f", {spare:,} of its ids are not in the data" if spare else ""
    )
    source = opened.source if known.size == n else RowSubset(opened.source, known)
    return _without_missing(source, values, how + said)._replace(ids=opened.ids)


def _warn_of_one_side(opened: Opened, read: TargetValues, path: Path) -> None:
    """Warn where ids are of no use, since the other side has none."""
    if (opened.ids is None) == (read.ids is None):
        return
    has, lacks = ("the data", path) if read.ids is None else (path, "the data")
    warn_user(
        f"{has} {'have' if read.ids is None else 'has'} ids of samples, and {lacks} "
        f"{'has' if read.ids is None else 'have'} none: rows were joined by their order alone. Make sure "
        f"that both are in the same order, or give {lacks} a column of ids."
    )


def _before_shuffling(
    opened: Opened, source: ShuffledSource, read: TargetValues, path: Path, said: str
) -> Target:
    """Values in the order that the rows had before they were shuffled."""
    n = source.record.n_original
    if len(read.values) != n:
        raise ValueError(
            f"{path} has {len(read.values):,} values, and the data had {n:,} rows before they were shuffled: "
            "give a value for each of those."
        )
    how = f"{path} was taken in the order that rows had before they were shuffled: {n:,} values{said}"
    target = _without_missing(opened.source, read.values[source.original_rows], how)
    return target._replace(ids=opened.ids)


def _matches(wanted: Array, ids: Array, path: Path) -> Indices:
    """Where each of the wanted ids is among the ids, -1 if nowhere."""
    short = [str(name).rpartition("\t")[2] for name in wanted]
    if not any("\t" in name for name in ids):  # individuals alone, without their families
        wanted = np.array(short)
    elif not any("\t" in str(name) for name in wanted):
        ids = np.array([name.rpartition("\t")[2] for name in ids])
    _refuse_repeated(wanted, "the data")
    _refuse_repeated(ids, path)
    _refuse_shifted(wanted, ids, path)
    where = {name: k for k, name in enumerate(ids.tolist())}
    place = np.array([where.get(str(name), -1) for name in wanted], dtype=np.intp)
    if (place < 0).all():
        raise ValueError(
            f"none of the ids of samples in {path} is one of the data: there they look like "
            f"{_shown(ids[0])}, here like {_shown(wanted[0])}. Use the same ids, or take the ids out of "
            f"{path} to go by row order."
        )
    return place


def _refuse_repeated(ids: Array, where: object) -> None:
    names, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        name, count = names[counts > 1][0], counts[counts > 1][0]
        raise ValueError(
            f"the id of a sample {_shown(name)} occurs {count} times in {where}: ids must be unique to be "
            "joined on."
        )


def _refuse_shifted(wanted: Array, ids: Array, path: Path) -> None:
    """Refuse counts of rows from 0 on one side and from 1 on the other: each would get its neighbour's."""
    first, other = first_of_count(wanted), first_of_count(ids)
    if len(ids) == len(wanted) and {first, other} == {0, 1}:
        raise ValueError(
            f"the ids of samples count rows from {first} in the data and from {other} in {path}: use "
            "the same ids on both sides, or take them out to go by row order."
        )


def _shown(name: object) -> str:
    return repr(str(name).replace("\t", " "))


def _without_missing(source: Source, y: Array, how: str) -> Target:
    """Leave rows without a value out."""
    if y.dtype.kind == "f":
        missing = np.isnan(y)
    elif y.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in y], dtype=bool)
    else:
        missing = np.zeros(len(y), dtype=bool)
    known = np.flatnonzero(~missing)
    if known.size == 0:
        raise ValueError("the target has no value in any row: check that it is the right column.")
    if known.size == len(y):
        return Target(source, _plain(y), how + ".")
    if isinstance(source, RowSubset):
        rest: Source = RowSubset(source.base, source.rows[known])
    else:
        rest = RowSubset(source, known)
    gone = len(y) - known.size
    left_out = f"{gone:,} row{'s' * (gone > 1)} without a value {'were' if gone > 1 else 'was'} left out"
    return Target(rest, _plain(y[known]), f"{how}; {left_out}.")


def _plain(y: Array) -> Array:
    """Objects as labels, where they are strings."""
    return y.astype(str) if y.dtype.kind == "O" and all(isinstance(value, str) for value in y) else y
