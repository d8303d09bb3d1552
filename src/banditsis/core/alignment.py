"""Rows of pandas objects are paired by their labels, as in pandas, or else by position."""

from __future__ import annotations

import sys
from typing import Any


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
        positions = _find_positions(name, X.index, values.index)
        if positions is not None:
            aligned[name] = values.iloc[positions]
            notes.append(f"{name} {'were' if name.endswith('s') else 'was'} aligned with X by row labels.")
    return aligned, notes


def _find_positions(name: str, wanted: Any, given: Any) -> Any:
    """Positions of the wanted labels among those given; None if rows are paired by position."""
    if wanted.equals(given):
        return None
    if wanted.is_unique and given.is_unique:
        positions = given.get_indexer(wanted)
        if (positions >= 0).all():
            return positions
    if _is_default(wanted) or _is_default(given):
        return None
    remedy = (
        f"give both the same labels, as {name} = {name}.loc[X.index] does if all are there, or pass "
        f"{name}.to_numpy() to pair rows by position."
    )
    for index in (wanted, given):
        if not index.is_unique:
            repeated = index[index.duplicated()][0]
            raise ValueError(
                f"X and {name} have different row labels, and {repeated!r} occurs more than once, so they "
                f"cannot be aligned: {remedy}"
            )
    missing = wanted[int((positions < 0).argmax())]
    raise ValueError(f"the row label {missing!r} of X is not in the index of {name}: {remedy}")


def _is_default(index: Any) -> bool:
    """Whether the labels are the row numbers that pandas gives to data without labels."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
