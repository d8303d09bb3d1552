"""Products of one dense tile with its weights."""

from __future__ import annotations

from itertools import pairwise, starmap
from typing import NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Indices
from banditsis.statistics.weights import Weights

#: Columns of weights up to which one pass of a kernel is faster than matrix products.
MAX_KERNEL_WEIGHTS = 24
#: Rows of a matrix product, whose sums are in the dtype of the data.
ROWS_OF_PRODUCT = 1024
#: Cells of a strip are contiguous.
NO_OFFSETS: Indices = np.empty(0, np.intp)


class FlatArray(NamedTuple):
    """A 2-D array as flat memory: cell (i, j) is ``memory[first + i·stride[0] + j·stride[1]]``."""

    memory: Array
    first: int
    stride: tuple[int, int]


def flatten(array: Array) -> FlatArray | None:
    """View an array as flat memory; None if its alignment does not allow that."""
    size = array.dtype.itemsize
    if not array.flags.aligned or any(s % size for s in array.strides) or array.size == 0:
        return None
    low, high = byte_bounds(array)
    first = (array.__array_interface__["data"][0] - low) // size
    # The view starts at the lowest address, which is the last cell along a negative stride.
    memory = np.asarray(_Memory(low, (high - low) // size, array))
    return FlatArray(memory, first, (array.strides[0] // size, array.strides[1] // size))


class _Memory:
    """The memory of an array, marked as writable also if the array is not: kernels never write to it.

    Numba would compile kernels separately for memory that is read-only.
    """

    def __init__(self, address: int, size: int, owner: Array) -> None:
        self.owner = owner  # keeps the memory alive
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": (size,),
            "typestr": owner.dtype.str,
        }


class Strips(NamedTuple):
    """A tile as contiguous strips of memory: its rows if ``along_rows``, else its columns."""

    memory: Array
    starts: Indices
    along_rows: bool

    def take_rows(self, rows: slice) -> Strips:
        """The strips of some rows of the tile."""
        return self._replace(starts=self.starts[rows] if self.along_rows else self.starts + rows.start)


def fits_kernels(weights: Weights) -> bool:
    """Whether kernels can add these sums and are faster than matrix products."""
    if weights.n_presence:
        return _is_plain_pairwise(weights)
    return weights.n_linear <= MAX_KERNEL_WEIGHTS


def _is_plain_pairwise(weights: Weights) -> bool:
    """Whether the sums are those of one target without covariates and weights, by pairwise deletion."""
    return not weights.weighted and weights.n_linear == 1 and weights.n_presence == 3


def add_products(block: Array | None, strips: Strips, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a tile to ``out``; kernels read its strips, and matrix products need its block."""
    if weights.is_plain:
        y = _first_weights(weights, shift)
        add_moments(strips, shift, y, np.array([0, len(y)]), weights.fourth, out[None])
    elif _is_plain_pairwise(weights):
        _add_plain_pairwise(strips, shift, weights, out)
    elif fits_kernels(weights):
        _add_several(strips, shift, weights, out)
    else:
        assert block is not None
        add = _add_present if weights.presence is not None else _add_matrix_products
        add(block, strips, shift, weights, out)


def add_by_stratum(
    block: Array | None, strips: Strips, shift: Array, weights: Weights, edges: Indices, out: Floats
) -> None:
    """Add the sums of each stratum of a tile to its part of ``out``; its rows end at the next edge."""
    if weights.is_plain:
        add_moments(strips, shift, _first_weights(weights, shift), edges, weights.fourth, out)
        return
    for part, sums in zip(starmap(slice, pairwise(edges.tolist())), out, strict=True):
        cells = None if block is None else block[part]
        add_products(cells, strips.take_rows(part), shift, weights.part(part), sums)


def fourth_line(weights: Weights, out: Floats) -> Floats | None:
    """The line of the sums for Σz⁴, the last one; None if it is not asked for."""
    return out[-1] if weights.fourth else None


def add_moments(
    strips: Strips,
    shift: Array,
    y: Array,
    edges: Indices,
    with_fourth: bool,
    out: Floats,
    place: int = 0,
    offsets: Indices = NO_OFFSETS,
) -> None:
    """Add the sums of the strata of a tile for a single weight y of each row, in the dtype of the data.

    The columns of ``out`` from ``place`` on are those of the tile. With offsets, cell j of strip k is
    ``memory[starts[k] + offsets[j]]``: cells are copied to a buffer that stays in the cache, a few strips at
    a time.
    """
    fourth = out if with_fourth else None
    buffer = np.empty((24 if strips.along_rows else 4, offsets.size), strips.memory.dtype)
    buffer_starts = np.arange(len(buffer)) * offsets.size
    arguments = strips.memory, strips.starts, offsets, shift, y, edges, buffer, buffer_starts
    if strips.along_rows:
        part = np.empty((out.shape[1], len(shift)), shift.dtype)
        kernels.row_moments.moments(*arguments, part, fourth, place, out)
    else:
        kernels.column_moments.moments(*arguments, fourth, place, out)


def _first_weights(weights: Weights, shift: Array) -> Array:
    return np.ascontiguousarray(weights.linear[:, 0], dtype=shift.dtype)


def _add_plain_pairwise(strips: Strips, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a tile over its present cells in one pass."""
    assert weights.presence is not None
    presence = np.ascontiguousarray(weights.presence.T, dtype=shift.dtype)
    (memory, starts, along_rows), fourth = strips, fourth_line(weights, out)
    arguments = memory, starts, shift, _first_weights(weights, shift), presence
    if along_rows:
        kernels.missing.moments_by_row(*arguments, np.empty((6, len(shift)), shift.dtype), out)
        if fourth is not None:
            kernels.row_moments.add_fourth(memory, starts, 0, shift, fourth)
        return
    kernels.missing.moments_by_column(*arguments, out)
    if fourth is not None:
        for k, start in enumerate(starts):
            n = len(weights.linear)
            fourth[k] += kernels.column_moments.sum_fourth(memory, start, n, shift[k])


def _add_several(strips: Strips, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a tile for a few columns of linear weights."""
    q, (memory, starts, along_rows) = weights.linear.shape[1], strips
    columns = weights.padded(shift.dtype, kernels.weighted_moments.GROUP, along_rows)
    square = None if weights.v is None else weights.v.astype(shift.dtype)
    fourth, total = fourth_line(weights, out), out[: q + 2]
    if along_rows:
        size = (columns.shape[1] + 1) * min(len(shift), kernels.weighted_moments.WIDTH)
        part = np.empty(size, shift.dtype)
        kernels.weighted_moments.by_row(memory, starts, shift, columns, square, part, fourth, total)
    else:
        kernels.weighted_moments.by_column(memory, starts, shift, columns, square, fourth, total)


def _add_present(block: Array, strips: Strips, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a tile over its present cells.

    The tile is copied a few rows at a time, with missing cells replaced by the shift, which adds 0 to sums of
    z. The sums of presence are those of all rows less those of the missing cells, which are usually few.
    """
    along_rows, presence = strips.along_rows, weights.presence
    complete, q = Weights.of(weights.linear, weights.v, fourth=weights.fourth), weights.n_linear
    assert presence is not None
    lines = [*range(q + 2), *([len(out) - 1] if weights.fourth else [])]
    total = np.zeros((len(lines), len(shift)))
    step = kernels.row_moments.PANEL if along_rows and fits_kernels(complete) else ROWS_OF_PRODUCT
    absent = np.zeros((len(shift), presence.shape[1]))  # the sums of a column are neighbours in memory
    for i in range(0, len(block), step):
        rows = slice(i, i + step)
        part = np.array(block[rows], order="C" if along_rows else "F")
        n_strips, length = part.shape if along_rows else part.shape[::-1]
        flat = part.ravel(order="K")
        cells = np.flatnonzero(np.isnan(flat))
        kernels.missing.replace(flat, length, cells, shift, presence[rows], along_rows, absent)
        here = Strips(flat, np.arange(n_strips) * length, along_rows)
        add_products(part, here, shift, complete.part(rows), total)
    out[lines] += total
    out[q + 2 : q + 2 + presence.shape[1]] += presence.sum(axis=0)[:, None] - absent.T


def _add_matrix_products(block: Array, strips: Strips, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a tile for many columns of linear weights to ``out``.

    The unweighted sums come from kernels, which add in float64. The others come from matrix products of at
    most 1024 rows in the dtype of the data.
    """
    q, weighted = weights.linear.shape[1], weights.v is not None
    plain = np.zeros((3 + weights.fourth, len(shift)))
    unshifted = np.zeros(q)  # the sums of the weights of rows that were not shifted
    for i in range(0, len(block), ROWS_OF_PRODUCT):
        rows = slice(i, i + ROWS_OF_PRODUCT)
        part, x = weights.part(rows), block[rows]
        y, edges = _first_weights(part, shift), np.array([0, len(x)])
        add_moments(strips.take_rows(rows), shift, y, edges, weights.fourth, plain[None])
        w = part.linear.T.astype(x.dtype)
        if not weighted and _is_near_zero(shift, plain[2] / (i + len(x))):
            # Σ(x - s)w = Σxw - sΣw needs no shifted copy, and loses no digits if s is not larger than x - s.
            out[1 : q + 1] += w @ x
            unshifted += w.sum(axis=1, dtype=np.float64)
            continue
        z = np.subtract(x, shift)
        out[1 : q + 1] += w @ z
        if part.v is not None:
            v = part.v.astype(x.dtype)
            out[0] += v @ z
            out[q + 1] += v @ np.square(z, out=z)
    out[1 : q + 1] -= np.outer(unshifted, shift)
    if not weighted:
        out[0] += plain[0]
        out[q + 1] += plain[2]
    if weights.fourth:
        out[-1] += plain[-1]


def _is_near_zero(shift: Array, mean_square: Floats) -> bool:
    return bool((np.square(shift, dtype=np.float64) <= 4 * mean_square).all())
