"""Dask arrays and frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dask._task_spec import DataNode, GraphNode
from dask.base import get_scheduler
from dask.core import flatten, istask

from banditsis.core.arrays import Indices
from banditsis.sources.array import check_names, line_bytes
from banditsis.sources.blocks import chunk_bytes
from banditsis.sources.dask.passes import Blocks, TaskSource
from banditsis.sources.dask.running import Graph, find_client


class DaskSource(TaskSource):
    """A Dask array with dense or sparse blocks, or a Dask frame.

    Each pass is a graph with one task for each block that it touches. The task runs the kernels of this
    package in one thread where the block is, and returns its sums: lines × remaining columns. Sums are added
    in the order of the blocks by a tree of fixed shape, so the result does not depend on the number of
    workers. A distributed Client runs the tasks if there is one, otherwise a local scheduler of Dask.

    Blocks in memory (persisted) are read in random rows. Other blocks are read whole, in random order, so
    only the blocks that a plan needs are loaded.

    Parameters
    ----------
    data : dask.array.Array or dask.dataframe.DataFrame
        Rows × features. Unknown lengths of blocks are computed.
    names : sequence of str, optional
        Names of the columns; by default those of the frame.

    Examples
    --------
    >>> import dask.array as da
    >>> from banditsis import SIS
    >>> x = da.random.default_rng(0).standard_normal((1000, 50), chunks=(100, 50))
    >>> y = x[:, 3] - x[:, 8]
    >>> SIS(n_features_to_select=2).fit(x, y).get_support(indices=True)
    array([3, 8])
    """

    def __init__(self, data: Any, names: Sequence[str] | None = None) -> None:
        self.in_memory = _is_in_memory(data)
        if hasattr(data, "columns") and names is None:
            names = [str(name) for name in data.columns]
        data, self.notes = _with_known_lengths(data)
        if self.in_memory and _is_sent_to_cluster(data):
            self.notes.append(
                "the blocks of X are part of its graph and are sent in every round: call x.persist() once."
            )
        if data.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows × features, got {data.ndim}.")
        if data.dtype.kind not in "fiub":
            raise TypeError(f"X must hold numbers, got dtype {data.dtype}; encode it as numbers first.")
        edges = [np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp) for sizes in data.chunks]
        self.blocks = Blocks(_flat_graph(data), data.name, *edges)
        self.shape, self.dtype = data.shape, data.dtype
        self.names = check_names(names, self.shape[1])
        height, width = (max(1, int(np.median(sizes))) for sizes in data.chunks)
        self.chunk = (height, width)
        self.block_rows = 1 if self.in_memory else height

    def block_edges(self) -> Indices:
        return self.blocks.row_edges

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if self.in_memory:
            return n_rows * line_bytes(self.shape[1], n_columns / self.shape[1], self.dtype.itemsize)
        return chunk_bytes(self.shape, self.chunk, self.dtype, n_rows, n_columns, scattered)


def _with_known_lengths(data: Any) -> tuple[Any, list[str]]:
    """The data as an array with known lengths of blocks, and a note if lengths were computed."""
    blocks = "array's chunks"
    if hasattr(data, "columns"):  # Dask may join partitions here, so lengths are those of the array's chunks
        data, blocks = data.to_dask_array(), "frame's partitions"
    if not np.isnan(np.concatenate([np.asarray(sizes, float) for sizes in data.chunks])).any():
        return data, []
    note = f"the lengths of the {blocks} were computed once, before the first round."
    return data.compute_chunk_sizes(), [note]


def _flat_graph(data: Any) -> Graph:
    """The tasks of a collection, optimized by Dask; persisted values are kept."""
    graph = dict(data.__dask_graph__())
    values = {key: node for key, node in graph.items() if not _is_task(node)}
    if len(values) == len(graph):
        return graph
    return {**values, **dict(data.__dask_optimize__(data.__dask_graph__(), data.__dask_keys__()))}


def _is_in_memory(data: Any) -> bool:
    """Whether every block is a future or a value."""
    graph = dict(data.__dask_graph__())
    for key in flatten(data.__dask_keys__()):
        if key not in graph:  # https://github.com/dask/dask/issues/12488
            raise ValueError(
                "partitions of X are missing. Dask loses some in persist() if columns of many Parquet files "
                "were selected before: select them afterwards, as in frame.persist()[columns].persist()."
            )
        node: Any = graph[key]
        while type(node).__name__ == "Alias":
            node = graph.get(node.target)
        if _is_task(node):
            return False
    return True


def _is_task(node: Any) -> bool:
    return istask(node) or (isinstance(node, GraphNode) and not isinstance(node, DataNode))


def _is_sent_to_cluster(data: Any) -> bool:
    """Whether blocks are values in this process, and a cluster computes."""
    on_cluster = any(type(node).__name__ == "Future" for node in dict(data.__dask_graph__()).values())
    return not on_cluster and find_client(get_scheduler()) is not None
