"""Dask arrays and frames, and files that workers open themselves: blocks that tasks read and sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import dask
import numpy as np
from dask.core import flatten

from banditsis.core.arrays import Array, Columns, Indices, Rows, as_indices, count_rows
from banditsis.sources.array import check_names, line_bytes
from banditsis.sources.base import Calibration, Source, SourceView, SumContext, WeightFunction
from banditsis.sources.blocks import chunk_bytes, shift_rows, split_rows
from banditsis.sources.dask import tasks
from banditsis.sources.dask.running import Watched, find_client, run, task

#: Values of weights that are sent at once: 32 MB.
MAX_WEIGHTS = 1 << 22
#: Sums that a task adds; fixed, so results do not depend on the number of workers.
PARTS_AT_ONCE = 8
#: Cells of a task, which are worth the cost of scheduling it.
CELLS_PER_TASK = 1 << 24


class TaskSource(Source):
    """A source whose blocks are read and summed by Dask; a subclass sets the attributes."""

    #: lines of blocks, side by side; each is delayed, or a window of a file
    blocks: Sequence[Sequence[Any]]
    row_edges: Indices
    column_edges: Indices

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        chosen = np.arange(self.shape[1])[slice(None) if columns is None else columns]
        down, across = split_rows(rows, self.row_edges), split_rows(chosen, self.column_edges)
        if not down or not across:
            return np.empty((count_rows(rows), len(chosen)), self.dtype)
        cells = [
            task("cells", tasks.read_block, self.blocks[b][j], block_rows, block_columns)
            for b, block_rows in down
            for j, block_columns in across
        ]
        found = iter(run(cells))
        return np.block([[next(found) for _ in across] for _ in down])

    def calibrate(self, rows: Rows) -> Calibration:
        """Calibrate from the block that contains most of the rows."""
        b, block_rows = max(split_rows(rows, self.row_edges), key=lambda part: count_rows(part[1]))
        parts = run([task("pilot", tasks.calibrate_block, block, block_rows) for block in self.blocks[b]])
        shift = np.concatenate([part.shift for part in parts])
        return Calibration(shift, np.concatenate([part.scale for part in parts]))

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        for _ in self.sums_by_group([rows], columns, weights, context):
            pass

    def sums_by_group(
        self, groups: Iterable[Rows], columns: Columns, weights: WeightFunction, context: SumContext
    ) -> Iterator[None]:
        """Sum all groups at once, because workers would be idle between them."""
        panels, n_lines, current = self._panels(columns, context), len(context.out), 0
        pieces = [(k, *piece) for k, rows in enumerate(groups) for piece in split_rows(rows, self.row_edges)]
        height = max((count_rows(rows) for *_, rows in pieces), default=1)
        step = max(1, MAX_WEIGHTS // (height * n_lines))
        for start in range(0, len(pieces), step):
            parts = self._parts(pieces[start : start + step], panels, weights)
            totals = [_add_in_order([part.task for part in some]) for some in parts.values()]
            watched = [part for some in parts.values() for part in some]
            for (k, j), total in zip(parts, run(totals, watched, context.tick), strict=True):
                for _ in range(current, k):  # those groups are complete
                    yield
                current = k
                context.out[:, panels[j][1]] += total
        yield

    def _panels(self, columns: Columns, context: SumContext) -> dict[int, tuple[Any, slice]]:
        """What is summed of each block of columns, and its place in the sums."""
        panels, edges, start = {}, self.column_edges, 0
        for j, chosen in split_rows(slice(0, self.shape[1]) if columns is None else columns, edges):
            calibration = context.calibration.take(shift_rows(chosen, int(edges[j])))
            n, whole = count_rows(chosen), count_rows(chosen) == edges[j + 1] - edges[j]
            panel = tasks.Panel(None if whole else as_indices(chosen), calibration, len(context.out))
            panels[j] = dask.delayed(panel, traverse=False), slice(start, start + n)
            start += n
        return panels

    def _parts(
        self,
        pieces: list[tuple[int, int, Rows]],
        panels: dict[int, tuple[Any, slice]],
        weights: WeightFunction,
    ) -> dict[tuple[int, int], list[Watched]]:
        """Tasks that sum blocks, by group and panel."""
        parts: dict[tuple[int, int], list[Watched]] = {}
        for k, b, rows in pieces:
            first, last = int(self.row_edges[b]), int(self.row_edges[b + 1]) - 1
            w: Any = weights(shift_rows(rows, first))
            if len(panels) > 1:  # sent once and shared
                w = dask.delayed(w, traverse=False)
            for j, (panel, place) in panels.items():
                part = task("sums", tasks.block_sums, self.blocks[b][j], panel, rows, w)
                n_cells = count_rows(rows) * count_rows(place)
                watched = Watched(part, f"block of rows {first:,} to {last:,}", n_cells)
                parts.setdefault((k, j), []).append(watched)
        return parts


def _add_in_order(parts: list[Any]) -> Any:
    """A task that adds sums; their tree has a fixed shape."""
    while len(parts) > 1:
        parts = [
            task("added", tasks.add_up, parts[k : k + PARTS_AT_ONCE])
            for k in range(0, len(parts), PARTS_AT_ONCE)
        ]
    return parts[0]


class DaskSource(TaskSource):
    """A Dask array with dense or sparse blocks, or a Dask frame.

    Each pass has one task for each block that it touches. The task runs the kernels of this package in one
    thread where the block is, and returns its sums: lines × remaining columns. Sums are added in the order of
    the blocks, eight at a time, so the result does not depend on the number of workers. A distributed Client
    runs the tasks if there is one, otherwise a local scheduler of Dask.

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
        self.blocks = data.to_delayed(optimize_graph=not self.in_memory).tolist()
        self.row_edges, self.column_edges = (
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp) for sizes in data.chunks
        )
        self.shape, self.dtype = data.shape, data.dtype
        self.names = check_names(names, self.shape[1])
        height, width = (max(1, int(np.median(sizes))) for sizes in data.chunks)
        self.chunk = (height, width)
        self.block_rows = 1 if self.in_memory else height

    def block_edges(self) -> Indices:
        return self.row_edges

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


def _is_in_memory(data: Any) -> bool:
    """Whether every block is a future or a value, and not a task (which can be called)."""
    graph = dict(data.__dask_graph__())
    for key in flatten(data.__dask_keys__()):
        if key not in graph:  # https://github.com/dask/dask/issues/12488
            raise ValueError(
                "partitions of X are missing. Dask loses some in persist() if columns of many Parquet files "
                "were selected before: select them afterwards, as in frame.persist()[columns].persist()."
            )
        node: Any = graph[key]
        while hasattr(node, "target"):  # another name of a block
            node = graph.get(node.target)
        if callable(node) or isinstance(node, tuple):
            return False
    return True


def _is_sent_to_cluster(data: Any) -> bool:
    """Whether blocks are values in this process, and a cluster computes."""
    if find_client() is None:
        return False
    from distributed import futures_of

    return not futures_of(data)


class FileOnWorkers(TaskSource, SourceView):
    """A file or folder that every worker can read under the same path.

    Workers open it themselves and read only the rows and columns that a round needs.

    Parameters
    ----------
    path : str or path
        As for :func:`open_data`.
    opened : Source, optional
        The features that :func:`open_data` found with these options, if they are open already.
    **options
        As for :func:`open_data`. A ``target`` is not a feature; it becomes the attribute ``y``. Workers
        must be able to read the files of targets and covariates too.
    """

    def __init__(self, path: Any, opened: Source | None = None, **options: Any) -> None:
        from banditsis.formats.targets import open_data  # formats import sources

        base, self.y = open_data(path, **options)[:2] if opened is None else (opened, None)
        super().__init__(base)
        self.row_edges = _task_edges(base.block_edges(), max(1, CELLS_PER_TASK // max(1, base.shape[1])))
        self.column_edges = np.array([0, base.shape[1]])
        # Workers remember open files by these values, which must be hashable.
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        settings = str(path), tuple(sorted(values.items()))
        self.blocks = [[tasks.Window(*settings, *ends)] for ends in pairwise(self.row_edges.tolist())]


def _task_edges(edges: Indices, height: int) -> Indices:
    """Edges of blocks about ``height`` rows apart.

    Examples
    --------
    >>> _task_edges(np.array([0, 10, 20, 30, 35]), 15)
    array([ 0, 20, 30, 35])
    """
    targets = np.arange(0, edges[-1] + height, height)
    return np.unique(edges[np.minimum(np.searchsorted(edges, targets), len(edges) - 1)])
