"""Products that are more than their type can hold: found where values are large, and named."""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Array, Floats, Indices, Rows
from banditsis.sources.base import Source

SUSPECTS = 1000  # products, and rows, that are looked into


def column_maxima(block: Array) -> Floats:
    """The largest absolute value of each column, whatever NaN there are."""
    if len(block) == 0:
        return np.zeros(block.shape[1])
    ends = np.fmax.reduce(block, axis=0), -np.fmin.reduce(block, axis=0)
    return np.asarray(np.fmax(*ends), dtype=np.float64)


def has_large(maxima: Floats, dtype: np.dtype) -> bool:
    """Whether a product of two such values may overflow: one is above the root of the largest number."""
    return bool((maxima > np.sqrt(np.finfo(dtype).max)).any())


def find_suspects(
    features: Indices, maxima: Floats, sides: tuple[Indices, Indices], dtype: np.dtype
) -> Indices:
    """Some features that overflow if the largest values of both columns lie in the same row."""
    first, second = sides
    with np.errstate(over="ignore"):
        over = maxima[first] * maxima[second] > np.finfo(dtype).max
    return np.asarray(features[over][:SUSPECTS])


def large_rows(rows: Rows, block: Array) -> Indices:
    """Some of the rows of a block that have a large value, without which no product overflows."""
    places = np.flatnonzero((np.abs(block) > np.sqrt(np.finfo(block.dtype).max)).any(axis=1))[:SUSPECTS]
    return rows[places] if isinstance(rows, np.ndarray) else rows.start + places


def refuse_overflow(
    source: Source, rows: Rows, features: Indices, sides: tuple[Array, Indices, Indices], out: Array
) -> None:
    """Raise an error that names a product, in ``out``, of two finite values that their type cannot hold."""
    block, first, second = sides
    for row, k in np.argwhere(np.abs(out) > np.finfo(source.dtype).max):
        a, b = block[row, first[k]], block[row, second[k]]
        if not (np.isfinite(a) and np.isfinite(b)):
            continue
        number = source.row_number(int(row) + rows.start if isinstance(rows, slice) else int(rows[row]))
        wider = "" if source.dtype == np.float64 else ", or pass X as float64"
        raise ValueError(
            f"the product {source.name(int(features[k]))!r} overflows in row {number:,}: {a:.3g} × {b:.3g} "
            f"is more than {source.dtype} can hold; rescale the columns{wider}."
        )
