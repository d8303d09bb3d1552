"""Sums of products of columns in the memory of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, chunks
from banditsis.sources.base import WeightFunction
from banditsis.sources.gpu.device import (
    PRODUCT_CELLS,
    add_sums,
    explain_lack_of_memory,
    import_cupy,
    to_pinned,
)
from banditsis.sources.gpu.source import GpuSource
from banditsis.sources.gpu.weights import make_matrices
from banditsis.sources.interactions.features import MIN_VARIANCE, PairOrder


def add_pair_products(
    source: GpuSource,
    rows: Rows,
    weights: WeightFunction,
    *,
    means: Floats | None,
    scale: Floats,
    main: tuple[Indices | slice, Floats],
    pairs: tuple[Any, Any],
    flat: tuple[Indices, Floats],
    out: Any,
) -> None:
    """Add the sums of columns and of products of columns to ``out``, by matrix products in float64.

    Parameters
    ----------
    source : GpuSource
        The columns.
    rows : slice or ndarray of int
        Rows to sum.
    weights : callable
        Weights of some rows, without pairwise deletion.
    means, scale : ndarray
        What is subtracted from the columns, unless None, and what they are multiplied by then.
    main : tuple
        Columns that are features themselves, and what is subtracted from them at last.
    pairs : tuple of arrays of int
        First and second column of each product, on the host or on the GPU.
    flat : tuple
        Positions of products whose variance such sums would lose, and their sums.
    out : array of shape (lines, features), on the host or on the GPU
        The lines of :class:`~banditsis.statistics.base.Weights`, first for columns and then for products.
    """
    cupy, n_columns, n_main = import_cupy(), source.shape[1], len(main[1])
    with source.array.device, explain_lack_of_memory(cupy, out.nbytes):
        first, second = (cupy.asarray(columns) for columns in pairs)
        main_columns, shift = (k if isinstance(k, slice) else cupy.asarray(k) for k in main)
        total = cupy.zeros(out.shape)
        for run in chunks(rows, max(1, PRODUCT_CELLS // n_columns)):
            x = source.read_on_device(run, None).astype(np.float64)
            x = x if means is None else x - cupy.asarray(means)
            x = x if (scale == 1).all() else x * cupy.asarray(scale)
            z, w = x[:, main_columns] - shift, weights(run)
            linear: list[Any] = [*([None] if w.v is None else []), *cupy.asarray(make_matrices(w)[0].T)]
            square = None if w.v is None else cupy.asarray(w.v)
            lines = iter(total)
            for k, columns in enumerate([linear, [square], [None][: w.fourth]]):  # None is a column of ones
                if k and columns:
                    x, z = cupy.square(x), cupy.square(z)
                for column in columns:
                    line, weighted = next(lines), x if column is None else x * column[:, None]
                    line[:n_main] += z.sum(axis=0) if column is None else column @ z
                    _picking()(weighted.T @ x, first, second, n_columns, line[n_main:])
        if len(flat[0]):
            total[:, cupy.asarray(flat[0])] = cupy.asarray(flat[1])
        add_sums(total, out)


@cache
def _picking() -> Any:
    """A kernel that adds elements of a matrix to sums."""
    given = "raw float64 product, int64 first, int64 second, int64 n_columns"
    operation = "sum += product[first * n_columns + second]"
    return import_cupy().ElementwiseKernel(given, "float64 sum", operation, "pick")


def read_products(
    source: GpuSource, rows: Rows, first: Indices, second: Indices, means: Floats | None, dtype: np.dtype
) -> Sequence[Array] | None:
    """Read products of columns, each as an array; the column after the last is all 1.

    None if a product is not finite.
    """
    cupy, single = import_cupy(), np.flatnonzero(second == source.shape[1])
    with source.array.device:
        factors = []
        for columns in (first, np.minimum(second, source.shape[1] - 1)):
            x = source.read_on_device(rows, columns)
            x = x if means is None else x.astype(np.float64) - cupy.asarray(means[columns])
            factors.append(x.astype(dtype).T)
        factors[1][cupy.asarray(single)] = 1
        lines = cupy.ascontiguousarray(factors[0] * factors[1])
        return list(to_pinned(lines)) if cupy.isfinite(lines).all() else None


def find_flat_on_gpu(source: GpuSource, block: Array, order: PairOrder) -> Indices:
    """As :func:`~banditsis.sources.interactions.features.find_flat`, where the columns are."""
    cupy, least = import_cupy(), MIN_VARIANCE[block.dtype.itemsize]
    with source.array.device:
        x = cupy.asarray(block)
        mean, square = (cells.T @ cells / len(x) for cells in (x, x * x))
        flat = cupy.triu(square - mean * mean < least * square, order.lead)
        if not flat.any():
            return np.arange(0)
        first, second = (columns.get() for columns in cupy.nonzero(flat))
    return np.asarray(order.offsets[first] + second - first - order.lead)
