"""Sums of products of columns in the memory of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.arrays import Floats, Rows, chunks
from banditsis.sources.base import WeightFunction
from banditsis.sources.gpu.device import PRODUCT_CELLS, add_to_host, explain_lack_of_memory, import_cupy
from banditsis.sources.gpu.source import GpuSource
from banditsis.sources.gpu.weights import make_matrices


def add_pair_products(
    source: GpuSource,
    rows: Rows,
    weights: WeightFunction,
    means: Floats | None,
    scale: Floats,
    pairs: tuple[Any, Any],
    out: Floats,
) -> None:
    """Add the sums of products of columns to ``out`` (lines × pairs), by matrix products in float64.

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
    pairs : tuple of arrays of int
        First and second column of each product, on the host or on the GPU.
    out : ndarray of shape (lines, pairs)
        The lines of :class:`~banditsis.statistics.base.Weights`.
    """
    cupy, n_columns = import_cupy(), source.shape[1]
    with source.array.device, explain_lack_of_memory(cupy, out.nbytes):
        first, second = (cupy.asarray(columns) for columns in pairs)
        total = cupy.zeros(out.shape)
        for run in chunks(rows, max(1, PRODUCT_CELLS // n_columns)):
            x = source.read_on_device(run, None).astype(np.float64)
            x = (x if means is None else x - cupy.asarray(means)) * cupy.asarray(scale)
            w = weights(run)
            linear, *_ = make_matrices(w)
            columns = linear if w.codes is not None else np.column_stack([np.ones(len(linear)), linear])
            terms = [(x, column) for column in cupy.asarray(columns.T)]
            squares = cupy.square(x)
            terms.append((squares, None if w.square is None else cupy.asarray(w.square)))
            terms += [(cupy.square(squares), None)] if w.fourth else []
            for line, (factor, column) in zip(total, terms, strict=True):
                weighted = factor if column is None else factor * column[:, None]
                line += (weighted.T @ factor)[first, second]
        add_to_host(total, out)
