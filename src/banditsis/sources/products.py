"""Products of one dense tile with its weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats, Indices, chunks
from banditsis.sources.base import split_groups
from banditsis.statistics.moments import Weights

#: Columns of weights up to which one pass of a kernel is faster than matrix products.
MAX_KERNEL_WEIGHTS = 24
#: Rows of a matrix product, whose sums are in the dtype of the data.
ROWS_OF_PRODUCT = 1024
#: Cells of a strip are contiguous.
NO_OFFSETS: Indices = np.empty(0, np.intp)


class FlatArray(NamedTuple):
    """A 2-D array as flat memory: cell (i, j) is ``memory[i * stride[0] + j * stride[1]]``."""

    memory: Array
    stride: tuple[int, int]


def flatten(array: Array) -> FlatArray | None:
    """View an array as flat memory; None if its alignment or order does not allow that."""
    strides, size = array.strides, array.itemsize
    if array.size == 0 or not array.flags.aligned or any(s < 0 or s % size for s in strides):
        return None
    down, across = strides[0] // size, strides[1] // size
    length = 1 + down * (array.shape[0] - 1) + across * (array.shape[1] - 1)
    return FlatArray(np.asarray(_Memory(length, array)), (down, across))


class _Memory:
    """The memory of an array, marked as writable: read-only memory would need kernels of its own."""

    def __init__(self, length: int, owner: Array) -> None:
        self.owner = owner  # keeps the memory alive
        address = owner.__array_interface__["data"][0], False
        changed = {"data": address, "shape": (length,), "strides": None}
        self.__array_interface__ = owner.__array_interface__ | changed


class Strips(NamedTuple):
    """A tile as strips of memory: its rows if ``along_rows``, else its columns.

    Cell j of strip k is ``memory[starts[k] + offsets[j]]``, or ``memory[starts[k] + j]`` without offsets.
    """

    memory: Array
    starts: Indices
    along_rows: bool
    offsets: Indices = NO_OFFSETS

    def take_rows(self, rows: slice) -> Strips:
        """The strips, without offsets, of some rows of the tile."""
        return self._replace(starts=self.starts[rows] if self.along_rows else self.starts + rows.start)


def fits_kernels(weights: Weights) -> bool:
    """Whether kernels can add these sums and are faster than matrix products."""
    if weights.n_presence:  # only for one target without covariates and weights
        return not weights.weighted and weights.n_linear == 1 and weights.n_presence == 3
    return weights.n_linear <= MAX_KERNEL_WEIGHTS


def add_products(
    strips: Strips,
    block: Array | None,
    shift: Array,
    weights: Weights,
    edges: Indices,
    out: Floats,
    place: int = 0,
) -> None:
    """Add the sums of each group of rows of a tile to ``out``, groups × lines × columns.

    Kernels read the strips; matrix products need the block. For plain weights, strips may have offsets, and
    ``out`` more columns: those of the tile are the columns from ``place`` on.
    """
    if weights.is_plain:
        _add_moments(strips, shift, weights, edges, out, place)
        return
    by_product = _add_present if weights.n_presence else _add_matrix_products
    add = _add_by_kernels if fits_kernels(weights) else by_product
    for g, group in split_groups(edges):
        cells = None if block is None else block[group]
        add(strips.take_rows(group), cells, shift, weights.part(group), out[g])


def _add_moments(
    strips: Strips, shift: Array, weights: Weights, edges: Indices, out: Floats, place: int = 0
) -> None:
    """Add the sums of groups of rows for a single weight of each row, in the dtype of the data."""
    memory, starts, along_rows, offsets = strips
    fourth = out if weights.fourth else None
    y = np.ascontiguousarray(weights.linear[:, 0], dtype=shift.dtype)
    # Cells with offsets are copied to a buffer that stays in the cache, a few strips at a time.
    buffer = np.empty((24 if along_rows else 4, offsets.size), memory.dtype)
    buffer_starts = np.arange(len(buffer)) * offsets.size
    cells, sums = (memory, starts, offsets), (shift, (y, edges), fourth, place, out)
    if along_rows:
        part = np.empty((out.shape[1], len(shift)), shift.dtype)
        kernels.row_moments.moments(cells, (buffer, buffer_starts, part), *sums)
    else:
        kernels.column_moments.moments(cells, (buffer, buffer_starts), *sums)


def _add_by_kernels(strips: Strips, block: Array | None, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums for a few columns of linear weights, or by pairwise deletion for one, in one pass."""
    (memory, starts, along_rows, _), q, dtype = strips, weights.n_linear, shift.dtype
    given: tuple[Any, ...]
    if weights.presence is not None:
        y, presence = weights.linear[:, 0].astype(dtype), np.ascontiguousarray(weights.presence.T, dtype)
        given = memory, starts, shift, y, presence
        if along_rows:
            kernels.row_moments.pairwise_moments(*given, np.empty((6, len(shift)), dtype), out)
        else:
            kernels.column_moments.pairwise_moments(*given, out)
    else:
        columns = weights.padded(dtype, kernels.weighted_moments.GROUP, along_rows)
        given = memory, starts, shift, columns, None if weights.v is None else weights.v.astype(dtype)
        if along_rows:
            size = (columns.shape[1] + 1) * min(len(shift), kernels.weighted_moments.WIDTH)
            kernels.weighted_moments.by_row(*given, np.empty(size, dtype), out[: q + 2])
        else:
            kernels.weighted_moments.by_column(*given, out[: q + 2])
    if weights.fourth and along_rows:
        kernels.row_moments.add_fourth(memory, starts, 0, shift, out[-1])
    elif weights.fourth:
        for k, start in enumerate(starts):
            out[-1, k] += kernels.column_moments.sum_fourth(memory, start, len(weights.linear), shift[k])


def _add_present(strips: Strips, block: Any, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a tile over its present cells.

    The tile is copied a few rows at a time, with missing cells replaced by the shift, which adds 0 to sums of
    z. The sums of presence are those of all rows less those of the missing cells, which are usually few.
    """
    along_rows, (linear, v, presence) = strips.along_rows, weights.arrays
    complete, n_lines = Weights.of(linear, v, fourth=weights.fourth), weights.n_linear + 2
    assert presence is not None
    lines = [*range(n_lines), *([len(out) - 1] if weights.fourth else [])]
    total = np.zeros((len(lines), len(shift)))
    step = kernels.row_moments.PANEL if along_rows and fits_kernels(complete) else ROWS_OF_PRODUCT
    absent = np.zeros((len(shift), weights.n_presence))  # the sums of a column are neighbours in memory
    for rows in chunks(slice(0, len(block)), step):
        part = np.array(block[rows], order="C" if along_rows else "F")
        n_strips, length = part.shape if along_rows else part.shape[::-1]
        flat = part.ravel(order="K")
        cells = np.flatnonzero(np.isnan(flat))
        kernels.cells.replace_missing(flat, length, cells, shift, presence[rows], along_rows, absent)
        here = Strips(flat, np.arange(n_strips) * length, along_rows)
        add_products(here, part, shift, complete.part(rows), np.array([0, len(part)]), total[None])
    out[lines] += total
    out[n_lines : n_lines + weights.n_presence] += presence.sum(axis=0)[:, None] - absent.T


def _add_matrix_products(strips: Strips, block: Any, shift: Array, weights: Weights, out: Floats) -> None:
    """Add the sums of a tile for many columns of linear weights to ``out``.

    The unweighted sums come from kernels, which add in float64. The others come from matrix products of at
    most 1024 rows in the dtype of the data.
    """
    (linear, v, _), q = weights.arrays, weights.n_linear
    plain = np.zeros((3 + weights.fourth, len(shift)))
    unshifted = np.zeros(q)  # the sums of the weights of rows that were not shifted
    for rows in chunks(slice(0, len(block)), ROWS_OF_PRODUCT):
        x = block[rows]
        one = Weights.of(linear[rows, :1], fourth=weights.fourth)
        _add_moments(strips.take_rows(rows), shift, one, np.array([0, len(x)]), plain[None])
        w = linear[rows].T.astype(x.dtype)
        if v is None and (np.square(shift, dtype=np.float64) <= 4 * plain[2] / rows.stop).all():
            # Σ(x - s)w = Σxw - sΣw needs no shifted copy, and loses no digits if s is not larger than x - s.
            out[1 : q + 1] += w @ x
            unshifted += w.sum(axis=1, dtype=np.float64)
            continue
        z = np.subtract(x, shift)
        out[1 : q + 1] += w @ z
        if v is not None:
            row_weights = v[rows].astype(x.dtype)
            out[0] += row_weights @ z
            out[q + 1] += row_weights @ np.square(z, out=z)
    out[1 : q + 1] -= np.outer(unshifted, shift)
    if v is None:
        out[0] += plain[0]
        out[q + 1] += plain[2]
    if weights.fourth:
        out[-1] += plain[-1]
