"""What is known of a Dask collection before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from banditsis.arrays import Indices
from banditsis.sources.dask.running import Graph, cluster_of


@dataclass(frozen=True)
class Blocks:
    """Blocks of rows × columns, and the tasks that make them."""

    graph: Graph
    #: first part of the keys of the blocks
    name: str
    #: where blocks of rows, and of columns, begin, and where the last ones end
    edges: tuple[Indices, Indices]
    dtype: np.dtype
    #: whether the blocks are there already
    in_memory: bool
    names: Sequence[str] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.edges[0][-1]), int(self.edges[1][-1])

    def key(self, b: int, j: int) -> tuple[str, int, int]:
        """Key of the b-th block of rows, j-th of columns."""
        return (self.name, b, j)

    def label(self, b: int, j: int) -> str:
        """What to call a block in a message."""
        rows, columns = self.edges
        across = f", columns {columns[j]:,} to {columns[j + 1] - 1:,}" if len(columns) > 2 else ""
        return f"block of rows {rows[b]:,} to {rows[b + 1] - 1:,}{across}"


def open_blocks(data: Any) -> Blocks:
    """Look at a Dask array or frame; only lengths that are not known are computed."""
    in_memory = is_in_memory(data)
    names, notes = None, []
    if hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
        data = data.to_dask_array(lengths=True)
        notes.append("the lengths of the frame's partitions were computed once, before the first round.")
    elif np.isnan(np.concatenate([np.asarray(sizes, float) for sizes in data.chunks])).any():
        data = data.compute_chunk_sizes()
        notes.append("the lengths of the array's chunks were computed once, before the first round.")
    if in_memory and _is_sent(data):
        notes.append("the blocks of X are part of its graph and are sent in every round: x.persist() once.")
    if data.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows × features, got {data.ndim}.")
    if data.dtype.kind not in "fiub":
        raise TypeError(f"X must hold numbers, got dtype {data.dtype}; encode it as numbers first.")
    rows, columns = (np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp) for sizes in data.chunks)
    return Blocks(flat_graph(data), data.name, (rows, columns), data.dtype, in_memory, names, notes)


def flat_graph(data: Any) -> Graph:
    """Tasks of a collection, optimised as Dask would do it; what is persisted stays as it is."""
    graph = dict(data.__dask_graph__())
    values = {key: value for key, value in graph.items() if not _is_task(value)}
    if len(values) == len(graph):
        return graph
    return {**values, **dict(data.__dask_optimize__(data.__dask_graph__(), data.__dask_keys__()))}


def is_in_memory(data: Any) -> bool:
    """Whether every block is there: a future, or a value."""
    from dask.core import flatten

    graph = data.__dask_graph__()
    graph = graph if isinstance(graph, dict) else dict(graph)
    for key in flatten(data.__dask_keys__()):
        node: Any = graph.get(key)
        while type(node).__name__ == "Alias":
            node = graph.get(node.target)
        if _is_task(node):
            return False
    return True


def _is_task(node: Any) -> bool:
    from dask.core import istask

    return istask(node) or type(node).__name__ in (
        "Task",
        "Alias",
        "NestedContainer",
        "List",
        "Dict",
        "Tuple",
    )


def _is_sent(data: Any) -> bool:
    """Whether blocks are values here, and a cluster is to work on them."""
    from dask.base import get_scheduler

    there = any(type(node).__name__ == "Future" for node in dict(data.__dask_graph__()).values())
    return not there and cluster_of(get_scheduler()) is not None
