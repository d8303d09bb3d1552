"""Covariates: checked where they come in, and seen through a well-behaved basis."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from banditsis.arrays import Array, Floats, Rows

ROWS_AT_ONCE = 1 << 11  # so few that everything made of them stays in the cache
#: A direction whose variance is smaller than this share of the largest is no direction of its own.
SMALLEST = 1e-14
#: A feature of which no more than this share is left beside the covariates scores 0, by itemsize of X.
RESOLUTION = {4: 1e-6, 8: 1e-11}


class CovariateError(ValueError):
    """Covariates that cannot be given: they leave nothing to explain, or the statistic takes none."""


@dataclass(frozen=True)
class Covariates:
    """Columns to be given, as an orthonormal basis over all rows that is made a few rows at a time.

    Attributes
    ----------
    values : ndarray of shape (n, k)
        The user's own array.
    centre, basis, offset : ndarray
        Row i of the basis is ``(values[i] - centre) @ basis - offset``: mean 0, variance 1, uncorrelated.
        There are as many columns as the covariates have rank beside the intercept.
    resolution : float
        A feature of which no more than this share is left beside the covariates counts as one of them.
    notes : tuple of str
        What a reader of the result should know of them.
    """

    values: Array
    centre: Floats
    basis: Floats
    offset: Floats
    resolution: float
    notes: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Number of columns of the basis."""
        return int(self.basis.shape[1])

    def columns(self, rows: Rows, out: Floats | None = None) -> Floats:
        """The basis in some rows."""
        centred = np.subtract(self.values[rows], self.centre, dtype=np.float64)
        turned: Floats = np.matmul(centred, self.basis, out=out)
        turned -= self.offset
        return turned


def check_covariates(Z: Any, n: int, dtype: np.dtype) -> Covariates:
    """Check the covariates of n rows and find their basis; ``dtype`` is that of the features.

    Examples
    --------
    >>> import numpy as np
    >>> levels = np.eye(3)[np.arange(12) % 3]  # all levels: one follows from the intercept and the others
    >>> check_covariates(levels, 12, np.dtype(float)).rank
    2
    """
    values = _as_numbers(Z, n)
    low, high = _ends(values)
    centre, reach = low / 2 + high / 2, high / 2 - low / 2
    # Stored values are exact, of whatever type: what is smaller than rounding in float64 is rounding.
    coarse = 2.0**-52 * np.maximum(np.abs(low), np.abs(high))
    usable = reach > 8 * coarse
    scale = np.divide(1.0, reach, out=np.zeros_like(reach), where=usable)
    basis = np.diag(scale)[:, usable]
    offset = np.zeros(basis.shape[1])
    resolution = RESOLUTION[4 if dtype.kind == "f" and dtype.itemsize < 8 else 8]
    notes = _dropped(np.flatnonzero(~usable & (reach > 0)), low, high)
    covariates = Covariates(values, centre, basis, offset, resolution, notes)
    for _ in range(3):
        covariates, good = _whitened(covariates, coarse)
        if good:
            break
    return covariates


def _dropped(columns: Array, low: Floats, high: Floats) -> tuple[str, ...]:
    """Say so where a column that is not constant counts as if it were."""
    return tuple(
        f"column {k} of the covariates was left out: its values, from {low[k]:.17g} to {high[k]:.17g}, "
        "differ by no more than rounding; subtract their mean before they are stored."
        for k in columns.tolist()
    )


def _as_numbers(Z: Any, n: int) -> Array:
    if np.ma.isMaskedArray(Z):
        raise TypeError("masked arrays are not supported: fill the gaps of the covariates first.")
    if hasattr(Z, "toarray"):
        raise TypeError("sparse covariates are not supported: pass covariates.toarray().")
    values = np.asarray(Z.to_numpy() if hasattr(Z, "to_numpy") else Z)
    if values.dtype.kind == "O":
        with contextlib.suppress(TypeError, ValueError):
            values = values.astype(np.float64)
    if values.dtype.kind not in "fiub":
        raise TypeError(
            f"covariates must hold numbers, got dtype {values.dtype}; encode labels first, "
            "one column per level."
        )
    if values.ndim not in (1, 2) or len(values) != n:
        raise ValueError(
            f"covariates must have shape ({n:,},) or ({n:,}, k), a line for each row of X; "
            f"got {values.shape}."
        )
    return values.reshape(n, -1)


def _ends(values: Array) -> tuple[Floats, Floats]:
    """Smallest and largest value of each column, all of them finite."""
    low, high = np.full((2, values.shape[1]), [[np.inf], [-np.inf]])
    for rows in chunks(slice(0, len(values))):
        part = np.ascontiguousarray(values[rows].T)  # runs along columns are found faster
        low, high = np.minimum(low, part.min(axis=1)), np.maximum(high, part.max(axis=1))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            k, row = (int(i) for i in np.argwhere(~np.isfinite(part))[0])
            what = "NaN" if np.isnan(part[k, row]) else "infinity"
            raise ValueError(
                f"covariates contain {what} in row {rows.start + row:,}, column {k}: drop such rows of X, y "
                "and the covariates, or fill the gaps."
            )
    return low, high


def _whitened(covariates: Covariates, coarse: Floats) -> tuple[Covariates, bool]:
    """The same covariates in a better basis, and whether the old one was good enough to trust the new.

    ``coarse`` is the rounding of each column; a direction is dropped for that of its own columns alone.
    """
    n, r = len(covariates.values), covariates.rank
    total, products = np.zeros(r), np.zeros((r, r))
    for rows in chunks(slice(0, n)):
        part = covariates.columns(rows)
        total += part.sum(axis=0)
        products += part.T @ part
    mean = total / n
    variances, directions = np.linalg.eigh(products / n - np.outer(mean, mean))
    largest = variances[-1] if r else 0.0
    rounding = np.square(coarse) @ np.square(covariates.basis @ directions)
    kept = variances > np.maximum(SMALLEST * largest, rounding)
    turn = directions[:, kept] / np.sqrt(variances[kept])
    offset = (covariates.offset + mean) @ turn
    better = replace(covariates, basis=covariates.basis @ turn, offset=offset)
    good = bool(np.all(variances[kept] > 1e-4 * largest)) and bool(np.all(mean**2 <= 1e4 * largest))
    return better, good


def chunks(rows: Rows, size: int = ROWS_AT_ONCE) -> Iterator[Any]:
    """The rows, a few thousand at a time."""
    if isinstance(rows, slice):
        for start in range(rows.start, rows.stop, size):
            yield slice(start, min(start + size, rows.stop))
    else:
        for start in range(0, len(rows), size):
            yield rows[start : start + size]
