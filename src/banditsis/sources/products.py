"""Products of one dense tile with its weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from banditsis._typing import Array, Floats
from banditsis.kernels import by_column, by_row
from banditsis.statistics.base import Weights


class Strided(NamedTuple):
    """An array as kernels take it: cell (i, j) is ``flat[first + i·stride[0] + j·stride[1]]``."""

    flat: Array
    first: int
    stride: tuple[int, int]


def strided(array: Array) -> Strided | None:
    """See an array as one flat, read-only run of memory, or None if it cannot be (odd alignment)."""
    size = array.dtype.itemsize
    if not array.flags.aligned or any(s % size for s in array.strides) or array.size == 0:
        return None
    low, high = byte_bounds(array)
    first = (array.__array_interface__["data"][0] - low) // size
    # as_strided cannot start before the first cell, which negative strides put last.
    corner = array[tuple(slice(None, None, -1 if s < 0 else 1) for s in array.strides)]
    flat = as_strided(corner, ((high - low) // size,), (size,), writeable=False)
    return Strided(flat, first, (array.strides[0] // size, array.strides[1] // size))


def add_strips(
    flat: Array, starts: Array, along_rows: bool, shift: Array, weights: Weights, out: Floats
) -> None:
    """Add the sums of a tile that lies in strips of contiguous memory to ``out``."""
    if weights.codes is not None:
        kernel = by_row.classes if along_rows else by_column.classes
        kernel(flat, starts, shift, weights.codes, weights.n_classes, out)
        return
    y = np.ascontiguousarray(weights.linear[:, 0], dtype=shift.dtype)
    if along_rows:
        part = np.empty(out.shape, shift.dtype)
        moments = by_row.moments if weights.present is None else by_row.moments_present
        moments(flat, starts, shift, y, part, out)
    else:
        moments = by_column.moments if weights.present is None else by_column.moments_present
        moments(flat, starts, shift, y, out)


def add_matrix_products(z: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a shifted tile by matrix products; ``z`` is overwritten."""
    q = weights.linear.shape[1]
    ones = np.ones(len(z), z.dtype)
    if weights.present is not None:
        here = z == z
        z[~here] = 0
        m = here.astype(z.dtype)
        out[q + 2] += ones @ m
        out[q + 3 :] += weights.present.T.astype(z.dtype) @ m
    out[0] += ones @ z
    out[1 : q + 1] += weights.linear.T.astype(z.dtype) @ z
    np.multiply(z, z, out=z)
    out[q + 1] += ones @ z
