"""Covariates of any kind as columns of numbers; text becomes indicator columns."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Indices, is_masked
from banditsis.core.formatting import count, were
from banditsis.core.validation import NUMBERS, MissingValueError, find_missing, is_frame

#: More levels than these, or than a tenth of the rows, are taken for ids or measurements.
MAX_LEVELS, SMALLEST_LEVEL_LIMIT = 1000, 10
DATES = (datetime.date, datetime.time, datetime.timedelta)


class EncodedCovariates(NamedTuple):
    """Covariates as numbers."""

    #: of shape (n, k), NaN where a value is missing
    values: Array
    #: rows in which every covariate is known; None for all
    complete: Indices | None
    notes: tuple[str, ...]


def encode_covariates(covariates: Any, n: int, *, allow_missing: bool) -> EncodedCovariates:
    """Convert the covariates of n rows to numbers: text and categories become indicators of their levels.

    Parameters
    ----------
    covariates : array-like of shape (n,) or (n, k), frame, or mapping of names to columns
        Numbers, booleans, text or categories.
    n : int
        Number of rows.
    allow_missing : bool
        Whether values may be missing.

    Examples
    --------
    >>> encoded = encode_covariates(["a", "b", "a", "c"], 4, allow_missing=False)
    >>> encoded.values.tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    >>> encoded.notes
    ('covariate 0 was expanded into 2 indicator columns.',)
    """
    array = _as_array(covariates, n)
    if array is not None and array.dtype.kind in "fiub":
        return _with_complete(array, [*range(array.shape[1])], (), allow_missing)
    parts, labels, notes = [np.empty((n, 0))], list[object](), list[str]()
    for label, column in _columns(covariates) if array is None else enumerate(array.T):
        if column.shape != (n,):
            raise ValueError(
                f"covariates must have one value for each of the {n:,} rows of X, got {len(column):,} of "
                f"{label!r}."
            )
        numbers = _as_numbers(column, label, from_array=array is not None)
        if numbers is None:
            numbers = _indicators(column, label)
            if k := numbers.shape[1]:
                notes.append(f"covariate {label!r} was expanded into {count(k, 'indicator column')}.")
        parts.append(numbers.reshape(n, -1))
        labels += [label] * parts[-1].shape[1]
    return _with_complete(np.column_stack(parts), labels, tuple(notes), allow_missing)


def _as_array(covariates: Any, n: int) -> Array | None:
    """Covariates as an array of shape (n, k); None if columns have types of their own."""
    if is_masked(covariates):
        raise TypeError("masked arrays are not supported: fill the missing values of the covariates first.")
    if hasattr(covariates, "toarray"):
        raise TypeError("sparse covariates are not supported: pass covariates.toarray().")
    if is_frame(covariates) or isinstance(covariates, Mapping):
        return None
    is_arrow = type(covariates).__module__.startswith("pyarrow")
    values = np.asarray(covariates.to_pylist() if is_arrow else covariates)
    if values.ndim not in (1, 2) or len(values) != n:
        raise ValueError(
            f"covariates must have shape ({n:,},) or ({n:,}, k), one line per row of X; got {values.shape}."
        )
    return values.reshape(n, -1)


def _columns(covariates: Any) -> Iterator[tuple[str, Array]]:
    """Names and values of the columns of a frame or mapping; categories as text."""
    if isinstance(covariates, Mapping):
        yield from ((str(name), np.asarray(column)) for name, column in covariates.items())
        return
    names = getattr(covariates, "column_names", None) or covariates.columns  # may be repeated
    for k, name in enumerate(map(str, names)):
        if hasattr(covariates, "iloc"):
            column = covariates.iloc[:, k]
        else:
            column = covariates[:, k] if hasattr(covariates, "get_columns") else covariates.column(k)
        dtype, values = str(getattr(column, "dtype", None) or column.type), np.asarray(column)
        if dtype.lower().startswith(("categor", "enum", "dictionary")):
            missing, values = find_missing(values), values.astype(str).astype(object)
            values[missing] = None
        yield name, values


def _as_numbers(column: Array, label: object, *, from_array: bool) -> Array | None:
    """A column of numbers; None if it holds text, or categories, whose numbers are only codes."""
    if column.dtype.kind in "fiub":
        return column
    known = column[~find_missing(column)] if column.dtype.kind == "O" else column
    if column.dtype.kind in "Mm" or any(isinstance(value, DATES) for value in known):
        raise TypeError(
            f"covariate {label!r} holds dates or times: convert it to a number, such as days since the first "
            "date, or to labels such as the year."
        )
    if column.dtype.kind == "O" and all(isinstance(value, NUMBERS) for value in known):
        return np.where(find_missing(column), np.nan, column).astype(np.float64)
    if not all(isinstance(value, str | np.str_ | np.bytes_) for value in known):
        kinds = ", ".join(sorted({type(value).__name__ for value in known}))
        raise TypeError(
            f"covariates must hold numbers or text, got values of type {kinds} in {label!r}: convert them."
        )
    if not from_array:
        return None
    try:  # text of numbers, as in an array that also has text in other columns
        numbers = np.full(len(column), np.nan)
        numbers[~find_missing(column)] = known.astype(np.float64)
    except ValueError:
        return None
    return numbers


def _indicators(column: Array, label: object) -> Array:
    """Indicators of all levels but the first; NaN where the label is missing."""
    missing = find_missing(column)
    levels, codes = np.unique(column[~missing].astype(str), return_inverse=True)
    n_max = min(MAX_LEVELS, max(SMALLEST_LEVEL_LIMIT, len(column) // 10))
    if len(levels) > n_max:
        raise ValueError(
            f"covariate {label!r} is text with {len(levels):,} different values in {len(column):,} rows, "
            f"such as {str(levels[0])!r}; at most {n_max:,} become indicator columns: leave it out if it is "
            "an id, or merge rare levels."
        )
    indicators = np.full((len(column), max(len(levels) - 1, 0)), np.nan)
    indicators[~missing] = np.eye(len(levels))[codes][:, 1:]
    return indicators


def _with_complete(
    values: Array, labels: list[Any], notes: tuple[str, ...], allow_missing: bool
) -> EncodedCovariates:
    """Find the rows without missing values; raise if there are others and this is not allowed."""
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros((1, 1), bool)
    if not missing.any():
        return EncodedCovariates(values, None, notes)
    if not allow_missing:
        row, k = (int(i) for i in np.argwhere(missing)[0])
        raise MissingValueError(
            f"covariates contain NaN in row {row:,}, column {labels[k]!r}: drop these rows, fill the missing "
            "values, or set missing='pairwise' to omit them."
        )
    complete = np.flatnonzero(~missing.any(axis=1))
    if complete.size == 0:
        raise ValueError("every row has a missing covariate: omit the covariates that are mostly missing.")
    n = len(values) - complete.size
    omitted = f"{count(n, 'row')} with missing covariates {were(n)} omitted."
    return EncodedCovariates(values, complete, (*notes, omitted))
