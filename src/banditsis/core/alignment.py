"""Rows of pandas objects are paired by their labels, as in pandas, or else by position."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def align_rows(X: Any, **others: Any) -> tuple[dict[str, Any], list[str]]:
    """Bring pandas objects into the row order of the pandas frame X, if they have its labels.

    The same unique labels in another order are aligned with X. Equal indexes, NumPy arrays, and otherwise a
    default index 0, 1, … on either side are paired by position. Everything else raises an error, because
    pairing by position would be a guess.

    Parameters
    ----------
    X : frame, array or Source
        The features; only the labels of a pandas frame matter.
    **others : array-like, frame or None
        Values for each row of X, by the name to use in messages.

    Returns
    -------
    others, notes : dict and list of str
        The values in the order of X, and a note for each that was brought into it.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"a": [1.0, 2.0]}, index=["ann", "bob"])
    >>> given, notes = align_rows(X, y=pd.Series([20, 10], index=["bob", "ann"]))
    >>> given["y"].tolist(), notes
    ([10, 20], ['y was aligned with X by row labels.'])
    """
    aligned, notes = dict(others), list[str]()
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return aligned, notes
    for name, values in others.items():
        if not isinstance(values, (pandas.Series, pandas.DataFrame)) or len(values) != len(X):
            continue  # no labels, or an error that is raised elsewhere
        if X.index.equals(values.index):
            continue
        are_unique = X.index.is_unique and values.index.is_unique
        positions = values.index.get_indexer(X.index) if are_unique else np.array([-1])
        if (positions >= 0).all():
            aligned[name] = values.iloc[positions]
            notes.append(f"{name} {'were' if name.endswith('s') else 'was'} aligned with X by row labels.")
        elif not (_is_default(X.index) or _is_default(values.index)):
            raise ValueError(
                f"the row labels of X and {name} cannot be matched one to one, such as "
                f"{X.index[positions.argmin()]!r} of X: give both the same unique labels, as "
                f"{name} = {name}.loc[X.index] does if all are there, or pass {name}.to_numpy() to pair rows "
                "by position."
            )
    return aligned, notes


def _is_default(index: Any) -> bool:
    """Whether the labels are the row numbers that pandas gives to data without labels."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
