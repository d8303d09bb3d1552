"""Covariates of any kind as columns of numbers, and an orthonormal basis of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import (
    ROWS_AT_ONCE,
    Array,
    Floats,
    Indices,
    Rows,
    chunks,
    count_rows,
    is_masked,
    ratio,
)
from banditsis.core.formatting import count, were
from banditsis.core.validation import NUMBERS, MissingValueError, find_missing, is_frame

#: A covariate is dropped if a smaller share of its standard deviation is left given others.
SMALLEST_SHARE = 1e-7
#: A feature with a smaller share of residual variance given the covariates scores 0; by itemsize of X.
RESOLUTION = {4: 1e-6, 8: 1e-11}
#: Eigenvalues below this share of the largest are treated as 0.
SMALLEST_EIGENVALUE = 1e-12
#: More levels than these, or than a tenth of the rows, are taken for ids or measurements.
MAX_LEVELS, SMALLEST_LEVEL_LIMIT = 1000, 10


class CovariateError(ValueError):
    """Covariates that cannot be used: they explain the response, or the statistic does not support them."""


@dataclass(frozen=True)
class Covariates:
    """Covariates, finite numbers of shape (n, k), as an orthonormal basis over all rows.

    Row i of the basis is ``(values[i] - centre) @ basis - offset``. Its columns have mean 0 and variance 1
    and are uncorrelated; their number is the rank.
    """

    values: Array
    centre: Floats
    basis: Floats
    offset: Floats
    #: a feature with a smaller share of residual variance is treated as a linear combination of covariates
    resolution: float
    notes: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Number of columns of the basis."""
        return int(self.basis.shape[1])

    def design(self, rows: Rows) -> Floats:
        """A column of ones, then the basis in some rows."""
        design = np.ones((count_rows(rows), 1 + self.rank))
        for i, part in enumerate(chunks(rows)):  # in the cache, which is six times faster
            piece = design[i * ROWS_AT_ONCE : (i + 1) * ROWS_AT_ONCE, 1:]
            np.matmul(np.subtract(self.values[part], self.centre, dtype=np.float64), self.basis, out=piece)
            piece -= self.offset
        return design


def find_basis(values: Array, dtype: np.dtype) -> Covariates:
    """Find the basis of covariates, numbers of shape (n, k); ``dtype`` is that of the features."""
    resolution = RESOLUTION[4 if dtype.kind == "f" and dtype.itemsize < 8 else 8]
    low, high = np.full((2, values.shape[1]), [[np.inf], [-np.inf]])
    for rows in chunks(slice(0, len(values))):
        part = np.ascontiguousarray(values[rows].T)  # faster than a reduction along the first axis
        low, high = np.minimum(low, part.min(axis=1)), np.maximum(high, part.max(axis=1))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            k, row = (np.argwhere(~np.isfinite(part))[0] + (0, rows.start)).tolist()
            raise ValueError(f"covariates contain infinity in row {row:,}, column {k}: drop or replace it.")
    centre, reach = low / 2 + high / 2, high / 2 - low / 2
    # Stored values are exact whatever their dtype: only differences below float64 rounding are noise.
    rounding = 2.0**-52 * np.maximum(np.abs(low), np.abs(high))
    usable = reach > 8 * rounding
    notes = tuple(
        f"column {k} of the covariates was left out: its values, from {low[k]:.17g} to {high[k]:.17g}, "
        "differ by no more than rounding error; subtract their mean before storing them."
        for k in np.flatnonzero(~usable & (reach > 0)).tolist()
    )
    scale = np.eye(len(reach))[:, usable] / reach[usable]
    scaled = Covariates(values, centre, scale, np.zeros(scale.shape[1]), resolution, notes)
    triangle: Floats = np.zeros((0, 1 + scaled.rank))
    for rows in chunks(slice(0, len(values)), max(ROWS_AT_ONCE, 4 * scaled.rank)):
        triangle = np.linalg.qr(np.concatenate([triangle, scaled.design(rows)])).R
    triangle /= triangle[0, 0]
    columns = triangle[1:, 1:]
    size = np.linalg.norm(columns, axis=0)
    _, singular, directions = np.linalg.svd(columns / size, full_matrices=False)
    kept = singular > max(SMALLEST_SHARE, (rounding @ scale / size).max(initial=0.0))
    rotation = directions[kept].T / singular[kept] / size[:, None]
    return replace(scaled, basis=scale @ rotation, offset=triangle[0, 1:] @ rotation)


def whiten(gram: Floats) -> Floats:
    r"""Matrix T with :math:`T G T^\top = I`, with as many rows as G has rank; given its upper triangle.

    Then :math:`b^\top G^+ c = (Tb)^\top (Tc)`.
    """
    scale = ratio(np.ones(len(gram)), np.sqrt(np.maximum(np.diag(gram), 0.0)))
    values, vectors = np.linalg.eigh(gram * scale * scale[:, None], "U")
    kept = values > SMALLEST_EIGENVALUE * values.max(initial=0.0)
    transform: Floats = (vectors[:, kept] / np.sqrt(values[kept])).T * scale
    return transform


class EncodedCovariates(NamedTuple):
    """Covariates as numbers."""

    #: of shape (n, k), NaN where a value is missing
    values: Array
    #: rows in which every covariate is known; None for all
    complete: Indices | None
    notes: tuple[str, ...]


def encode_covariates(covariates: Any, n: int, *, allow_missing: bool) -> EncodedCovariates:
    """Convert covariates of n rows to numbers: text and categories become indicators of all levels but one.

    They are an array of shape (n,) or (n, k), a frame, or a mapping of names to columns.
    """
    array, notes = _as_array(covariates, n), list[str]()
    parts, labels = [np.empty((n, 0))], list[object]()
    columns: Iterable[tuple[Any, Array]] = ()
    if array is not None and array.dtype.kind in "fiub":
        parts, labels = [array], list(range(array.shape[1]))
    else:
        columns = _columns(covariates) if array is None else enumerate(array.T)
    for label, column in columns:
        if column.shape != (n,):
            raise ValueError(f"covariates must have {n:,} values, got {len(column):,} of {label!r}.")
        numbers = _as_numbers(column, label, from_array=array is not None)
        if numbers is None:
            numbers = _indicators(column, label)
            if k := numbers.shape[1]:
                notes.append(f"covariate {label!r} was expanded into {count(k, 'indicator column')}.")
        parts.append(numbers.reshape(n, -1))
        labels += [label] * parts[-1].shape[1]
    values = parts[0] if len(parts) == 1 else np.column_stack(parts)
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros((1, 1), bool)
    if not missing.any():
        return EncodedCovariates(values, None, tuple(notes))
    if not allow_missing:
        row, k = (int(i) for i in np.argwhere(missing)[0])
        raise MissingValueError(
            f"covariates contain NaN in row {row:,}, column {labels[k]!r}: drop these rows, fill the missing "
            "values, or set missing='pairwise' to omit them."
        )
    complete = np.flatnonzero(~missing.any(axis=1))
    if complete.size == 0:
        raise ValueError("every row has a missing covariate: omit the covariates that are mostly missing.")
    omitted = f"{count(n - complete.size, 'row')} with missing covariates {were(n - complete.size)} omitted."
    return EncodedCovariates(values, complete, (*notes, omitted))


def _as_array(covariates: Any, n: int) -> Array | None:
    """Covariates as an array of shape (n, k); None if columns have types of their own."""
    if is_frame(covariates) or isinstance(covariates, Mapping):
        return None
    if is_masked(covariates) or hasattr(covariates, "toarray"):
        kind, other = ("masked", ".filled(…)") if is_masked(covariates) else ("sparse", ".toarray()")
        raise TypeError(f"{kind} covariates are not supported: pass covariates{other}.")
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
    missing = find_missing(column)
    known = column[~missing]
    are_numbers = column.dtype.kind == "O" and all(isinstance(value, NUMBERS) for value in known)
    if not are_numbers and not all(isinstance(value, str | np.str_ | np.bytes_) for value in known):
        kinds = ", ".join(sorted({type(value).__name__ for value in known}))
        raise TypeError(
            f"covariates must hold numbers or text, got values of type {kinds} in {label!r}: convert them, "
            "such as dates to days since the first one, or to the year."
        )
    if not (are_numbers or from_array):
        return None
    numbers = np.full(len(column), np.nan)
    try:  # also text of numbers, as in an array that has other text in other columns
        numbers[~missing] = known.astype(np.float64)
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
            f"covariate {label!r} is text with {len(levels):,} different values, such as {str(levels[0])!r}; "
            f"at most {n_max:,} become indicator columns: leave it out if it is an id, or merge rare levels."
        )
    indicators = np.full((len(column), max(len(levels) - 1, 0)), np.nan)
    indicators[~missing] = np.eye(len(levels))[codes][:, 1:]
    return indicators
