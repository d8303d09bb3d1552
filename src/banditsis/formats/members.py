"""What stores of several arrays have in common: the matrix, names, ids and targets among their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from banditsis.arrays import Array
from banditsis.formats.registry import Opened, split_target_column
from banditsis.sources.base import Source

FEATURE_NAMES = ("names", "feature_names", "columns", "column_names", "var_names")
SAMPLE_NAMES = ("ids", "sample_ids", "index", "obs_names")

#: Arrays by their names: of Zarr or HDF5, which both have a shape, a dtype, and values in ``array[...]``.
Members = Mapping[str, Any]


def find_matrix(where: object, members: Members, joined_by: str) -> Any:
    """The two-dimensional array of a store: the only one, or X."""
    matrices = {name: member for name, member in members.items() if _is_matrix(member)}
    if "X" in matrices or len(matrices) == 1:
        return matrices.get("X", next(iter(matrices.values())))
    if not matrices:
        held = ", ".join(f"{name} {member.shape}" for name, member in members.items()) or "no array"
        raise ValueError(f"{where} has no two-dimensional array of numbers: it holds {held}.")
    ways = ", ".join(f"{where}{joined_by}{name}" for name in sorted(matrices)[:5])
    raise ValueError(
        f"{where} has {len(matrices):,} two-dimensional arrays, none of them called X: open one of {ways}."
    )


def _is_matrix(member: Any) -> bool:
    return len(member.shape) == 2 and member.shape[1] > 1 and np.dtype(member.dtype).kind in "fiub"


def check_matrix(where: object, array: Any) -> tuple[int, int]:
    """Refuse an array that is no rows × features of numbers."""
    if len(array.shape) != 2:
        raise ValueError(f"{where} is an array of shape {array.shape}; it must be rows × features.")
    if np.dtype(array.dtype).kind not in "fiub":
        raise ValueError(f"{where} is an array of {array.dtype}; it must hold real numbers.")
    if 0 in array.shape:
        raise ValueError(f"{where} is an empty array of shape {array.shape}.")
    return int(array.shape[0]), int(array.shape[1])


def find_names(
    where: object, attributes: Sequence[Mapping[str, Any]], members: Members, p: int
) -> list[str] | None:
    """Names of the columns, from attributes or from an array of strings."""
    for name in FEATURE_NAMES:
        found = next((some[name] for some in attributes if name in some), None)
        if found is None and name in members and len(members[name].shape) == 1:
            found = values_of(members[name])
        if found is None or isinstance(found, str):
            continue
        if len(found) != p:
            raise ValueError(f"{where} has {len(found):,} {name} for {p:,} columns.")
        return [as_text(value) for value in found]
    return None


def with_members(source: Source, target: str | None, where: object, members: Members) -> Opened:
    """Find ids and the target: a member that is a vector, or a feature."""
    n = source.shape[0]
    vectors = {name: member for name, member in members.items() if member.shape in ((n,), (n, 1))}
    ids = next((np.array(values_of(vectors[name]), str) for name in SAMPLE_NAMES if name in vectors), None)
    if target is None:
        return Opened(source, None, ids)
    if target in vectors:
        return Opened(source, values_of(vectors[target]), ids)
    try:
        return split_target_column(source, target, where, ids)
    except ValueError as error:
        hint = f" Arrays of {n:,} values: {', '.join(sorted(vectors))}." if vectors else ""
        raise ValueError(f"{error}{hint}") from None


def values_of(member: Any) -> Array:
    """A vector: numbers as they are, all else as text."""
    values = np.asarray(member[...]).reshape(-1)
    return values if values.dtype.kind in "fiub" else np.array([as_text(value) for value in values])


def as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
