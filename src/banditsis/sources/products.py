"""Products of one dense tile with its weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from banditsis.arrays import Array, Floats
from banditsis.kernels import column_moments, row_moments
from banditsis.statistics.base import Weights

#: Columns of weights up to which one pass is faster than matrix products.
MAX_SEVERAL = 24


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
    """Add the sums of a tile that lies in strips of contiguous memory to ``out``.

    Only the first column of linear weights is used: :func:`add_matrix_products` adds the others.
    """
    if weights.codes is not None:
        kernel = row_moments.classes if along_rows else column_moments.classes
        kernel(flat, starts, shift, weights.codes, weights.n_classes, out)
        return
    y = np.ascontiguousarray(weights.linear[:, 0], dtype=shift.dtype)
    if along_rows:
        part = np.empty(out.shape, shift.dtype)
        moments = row_moments.moments_present if weights.pairwise else row_moments.moments
        moments(flat, starts, shift, y, part, out)
    else:
        moments = column_moments.moments_present if weights.pairwise else column_moments.moments
        moments(flat, starts, shift, y, out)


def add_several(flat: Array, starts: Array, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a tile that lies in rows for a few columns of linear weights to ``out``."""
    n, q = weights.linear.shape
    padded = np.zeros((n, -(-(q + 1) // 3) * 3), shift.dtype)
    padded[:, 0], padded[:, 1 : q + 1] = 1, weights.linear
    square = np.ones(n, shift.dtype) if weights.square is None else weights.square.astype(shift.dtype)
    part = np.empty((padded.shape[1] + 1, len(shift)), shift.dtype)
    row_moments.weighted_moments(flat, starts, shift, padded, square, part, out)


def fits_several(weights: Weights, along_rows: bool) -> bool:
    """Whether :func:`add_several` can add these sums, and is faster than matrix products."""
    columns = weights.linear.shape[1]
    return along_rows and not weights.pairwise and weights.codes is None and columns <= MAX_SEVERAL


def add_matrix_products(
    block: Array,
    flat: Array,
    starts: Array,
    along_rows: bool,
    shift: Array,
    weights: Weights,
    out: Floats,
) -> None:
    """Add the sums of a tile for several columns of linear weights, or with square weights, to ``out``.

    The plain sums come from the kernels, which add up in float64, the weighted ones from matrix products of
    at most 1024 rows in the dtype of the data.
    """
    q = weights.linear.shape[1]
    plain = np.zeros((6 if weights.pairwise else 3, len(shift)))
    for i in range(0, len(block), 1024):
        part, x = weights.part(slice(i, i + 1024)), block[i : i + 1024]
        add_strips(flat, starts[i : i + 1024] if along_rows else starts + i, along_rows, shift, part, plain)
        w = part.linear.T.astype(x.dtype)
        if not part.pairwise and part.square is None and _is_near_zero(shift, plain[2] / (i + len(x))):
            # Σ(x - s)w = Σxw - sΣw costs no shifted copy, and no digits where s is of the size of x - s.
            out[1 : q + 1] += w @ x
            out[1 : q + 1] -= np.outer(w.sum(axis=1, dtype=np.float64), shift)
            continue
        z = np.subtract(x, shift)
        if part.pairwise:
            here = z == z
            z[~here] = 0
            m = here.astype(z.dtype)
            out[q + 3 : 2 * q + 3] += w @ m
            out[2 * q + 3 :] += (w * w) @ m
        out[1 : q + 1] += w @ z
        if part.square is not None:
            out[q + 1] += part.square.astype(x.dtype) @ np.square(z, out=z)
    out[0] += plain[0]
    if weights.square is None:
        out[q + 1] += plain[2]
    if weights.pairwise:
        out[q + 2] += plain[3]


def _is_near_zero(shift: Array, mean_square: Floats) -> bool:
    return bool((np.square(shift, dtype=np.float64) <= 4 * mean_square).all())
