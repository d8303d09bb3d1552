"""Which columns of a table hold the ids of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from banditsis.arrays import Array

#: Names of columns that hold the ids of samples, in lower case.
ID_NAMES = frozenset(
    ("id", "ids", "iid", "index", "_index", "__index_level_0__", "unnamed: 0", "rownames", "obs_names")
) | frozenset(("name", "sample", "sample_id", "sampleid", "subject", "animal", "barcode", "cell", "cell_id"))


def find_id_columns(
    names: Sequence[str], *, but: int | None = None, like: Sequence[str] | None = None
) -> list[int]:
    """The columns that make up the ids of the rows: FID and IID, or the first that is named as ids are.

    Parameters
    ----------
    names : sequence of str
        All columns.
    but : int, optional
        A column that is something else: the target.
    like : sequence of str, optional
        What the ids are called on the other side: columns of the same names are taken first.

    Examples
    --------
    >>> find_id_columns(["y", "Sample", "id"]), find_id_columns(["FID", "IID", "y"])
    ([1], [0, 1])
    >>> find_id_columns(["y", "Sample", "id"], like=["id"])
    [2]
    """
    lower = [name.strip().lower().lstrip("#") for name in names]
    for wanted in ([name.lower().lstrip("#") for name in like or ()], ["fid", "iid"]):
        found = [lower.index(name) for name in wanted if name in lower]
        if wanted and len(found) == len(wanted) and but not in found:
            return found
    if len(names) > 1 and lower[0] == "" and but != 0:  # as pandas and R leave the name of row names empty
        return [0]
    return [k for k, name in enumerate(lower) if name in ID_NAMES and k != but and len(names) > 1][:1]


def is_mere_count(ids: Array, names: Sequence[str]) -> bool:
    """Whether ids have no name and count rows from 0, as pandas does where nobody named them."""
    nameless = {name.lower() for name in names} <= {"", "unnamed: 0", "index", "__index_level_0__"}
    return nameless and first_of_count(ids) == 0


def first_of_count(ids: Array) -> int | None:
    """Where ids begin that count their rows, in any order; None if they do not.

    Examples
    --------
    >>> first_of_count(np.array(["2", "1", "3"])), first_of_count(np.array(["1", "3"]))
    (1, None)
    """
    if not all(str(name).isdigit() for name in ids):
        return None
    numbers = np.sort([int(name) for name in ids])
    return int(numbers[0]) if (np.diff(numbers) == 1).all() else None


def as_ids(columns: Sequence[Sequence[Any]]) -> Array:
    """Ids as text, of one column or of several, joined by tabs; whole numbers without a point.

    Examples
    --------
    >>> as_ids([np.array([7.0, 8.0])]), as_ids([["a", "a"], [1, 2]])
    (array(['7', '8'], dtype='<U1'), array(['a\\t1', 'a\\t2'], dtype='<U3'))
    """
    return np.array(["\t".join(map(_as_id, row)) for row in zip(*columns, strict=True)])


def _as_id(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value).strip()
