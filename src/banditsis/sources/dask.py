"""Dask arrays and frames: tasks read and sum blocks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask
import numpy as np
from dask.base import get_scheduler
from dask.core import flatten

from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, as_indices, count_rows, spread, take
from banditsis.core.parallel import RoundError, Workers, one_blas_thread
from banditsis.core.progress import status
from banditsis.sources.array import check_matrix
from banditsis.sources.base import PILOT_ROWS, Calibration, Source, SumContext, split_groups
from banditsis.sources.blocks import chunk_bytes, shift_rows, split_rows
from banditsis.sources.views import Subset
from banditsis.statistics.moments import Weights

#: Number of times that Dask runs a failed task again.
RETRIES = 3
#: Values of weights that are sent at once: 32 MB.
MAX_WEIGHTS = 1 << 22
#: Sums that a task adds; fixed, so results do not depend on the number of workers.
PARTS_AT_ONCE = 8


def _open_block(block: Any, shape: tuple[int, int]) -> Source:
    """A block as a source; its shape must be that of the chunks."""
    from banditsis.formats.opening import open_source  # which imports this module

    source = open_source(block.to_numpy() if hasattr(block, "to_numpy") else block)
    if source.shape != shape:
        raise ValueError(
            f"a block of X has shape {source.shape}, but its chunks say {shape}: correct the chunks, or call "
            "X.compute_chunk_sizes()."
        )
    return source


def block_sums(
    block: Any, shape: tuple[int, int], panel: tuple[Rows, Calibration], rows: Rows, weights: Weights
) -> Floats:
    """Sums of some rows of a panel of columns of a block, by the same kernels as in memory, in one thread."""
    source, (columns, calibration) = _open_block(block, shape), panel
    n, p = count_rows(rows), count_rows(columns)
    out = np.zeros((1, weights.n_lines, p))
    chosen = source if p == source.shape[1] else Subset(source, columns=as_indices(columns))
    with one_blas_thread(), Workers(1) as workers:
        context = SumContext(calibration, out, workers)
        chosen.add_sums(rows, np.array([0, n]), None, weights, context)
    return np.asarray(out[0])


def calibrate_block(block: Any, shape: tuple[int, int], rows: Rows) -> Calibration:
    """Calibrate the columns of a block from some of its rows, or from all if these are too few."""
    source = _open_block(block, shape)
    few = count_rows(rows) < PILOT_ROWS
    return source.calibrate(spread(slice(0, shape[0]), PILOT_ROWS) if few else rows)


def read_block(block: Any, shape: tuple[int, int], rows: Rows, columns: Indices | slice) -> Array:
    """Some cells of a block as a dense array."""
    return np.ascontiguousarray(_open_block(block, shape).read(rows, columns))


def _task(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """A call that Dask will make; the dashboard shows it by its round and what it computes."""
    step = status().round
    name = f"banditsis_{f'round{step}_' if step else ''}{what}-{uuid.uuid4().hex}"
    return dask.delayed(function, pure=False)(*given, dask_key_name=name)


def _run(tasks: Sequence[Any]) -> list[Any]:
    """Compute some tasks on the cluster of the client, if there is one, or else on this machine."""
    client = _find_client()
    try:
        # Weights and shifts have to be sent. If blocks are part of the graph, a note of the source says so.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return list(dask.compute(*tasks, retries=RETRIES))
    except Exception as error:
        step = status().round
        what = f"round {step}" if step else "a step before the first round"
        why = f"{type(error).__name__}: {error}"
        if client is not None and client.status != "running":
            why = "the Dask scheduler no longer answers: restart the cluster"
        raise RoundError(f"{what} could not be finished: {why}") from error


def _find_client() -> Any:
    """The client of the cluster that computes; None if a local scheduler does."""
    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


class DaskSource(Source):
    """A Dask array with dense or sparse blocks, or a Dask frame.

    Blocks in memory (persisted) are read in random rows; others are read whole, in random order, so only
    those that a plan needs are loaded.
    """

    def __init__(self, data: Any, names: Sequence[str] | None = None) -> None:
        self.in_memory, self.notes = _is_in_memory(data), []
        data = data.to_dask_array() if hasattr(data, "columns") else data  # which may join partitions
        if np.isnan(sum(sum(sizes) for sizes in data.chunks)):
            data = data.compute_chunk_sizes()
            self.notes.append("the lengths of the blocks of X were computed once, before the first round.")
        if self.in_memory and (client := _find_client()) is not None and not client.futures_of(data):
            self.notes.append(
                "the blocks of X are part of its graph and are sent in every round: call x.persist() once."
            )
        self.names = check_matrix(data.shape, data.dtype, names)
        self.blocks = data.to_delayed(optimize_graph=not self.in_memory).tolist()
        self.row_edges, self.column_edges = (np.cumsum([0, *sizes], dtype=np.intp) for sizes in data.chunks)
        self.shape, self.dtype = data.shape, data.dtype
        height, width = (max(1, int(np.median(sizes))) for sizes in data.chunks)
        self.chunk, self.block_rows = (height, width), 1 if self.in_memory else height
        self.by_row = True if self.in_memory else None

    def _task(self, what: str, function: Callable[..., Any], b: int, j: int, *given: Any) -> Any:
        """A call with a block."""
        ends = self.row_edges[b : b + 2], self.column_edges[j : j + 2]
        shape = tuple(int(stop - start) for start, stop in ends)
        return _task(what, function, self.blocks[b][j], shape, *given)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        chosen = np.arange(self.shape[1])[slice(None) if columns is None else columns]
        down, across = split_rows(rows, self.row_edges), split_rows(chosen, self.column_edges)
        if not down or not across:
            return np.empty((count_rows(rows), len(chosen)), self.dtype)
        cells = [
            self._task("cells", read_block, b, j, block_rows, block_columns)
            for b, block_rows in down
            for j, block_columns in across
        ]
        found = iter(_run(cells))
        return np.block([[next(found) for _ in across] for _ in down])

    def calibrate(self, rows: Rows) -> Calibration:
        """Calibrate from the block that contains most of the rows."""
        b, block_rows = max(split_rows(rows, self.row_edges), key=lambda part: count_rows(part[1]))
        n_across = len(self.column_edges) - 1
        parts = _run([self._task("pilot", calibrate_block, b, j, block_rows) for j in range(n_across)])
        shift = np.concatenate([part.shift for part in parts])
        return Calibration(shift, np.concatenate([part.scale for part in parts]))

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        """Sum the blocks of all groups at once, because workers would be idle between them."""
        panels, everything = {}, slice(0, context.out.shape[-1])
        listed = everything if columns is None else columns
        for j, place, chosen in _split(listed, self.column_edges, everything):
            calibration = context.calibration.take(shift_rows(chosen, int(self.column_edges[j])))
            panels[j] = place, dask.delayed((chosen, calibration), traverse=False)
        pieces = [
            (b, g, positions, block_rows)
            for g, group in split_groups(edges)
            for b, positions, block_rows in _split(rows, self.row_edges, group)
        ]
        pieces.sort(key=lambda piece: piece[0])  # a block is loaded once, whatever its groups
        height = max((count_rows(block_rows) for *_, block_rows in pieces), default=1)
        step = max(1, MAX_WEIGHTS // (height * weights.n_lines))
        for start in range(0, len(pieces), step):
            some = pieces[start : start + step]
            parts: dict[tuple[int, int], list[Any]] = {}
            for b, g, positions, block_rows in some:
                w = dask.delayed(weights.part(positions), traverse=False)  # sent once and shared
                for j, (_, panel) in panels.items():
                    part = self._task("sums", block_sums, b, j, panel, block_rows, w)
                    parts.setdefault((g, j), []).append(part)
            for (g, j), total in zip(parts, _run(list(map(_add_in_order, parts.values()))), strict=True):
                context.out[g, :, panels[j][0]] += total
            context.tick(sum(count_rows(block_rows) for *_, block_rows in some) * context.out.shape[-1])

    def block_edges(self) -> Indices:
        return self.row_edges

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if self.in_memory:
            return super().bytes_touched(n_rows, n_columns, scattered=scattered)
        return chunk_bytes(self.shape, self.chunk, self.dtype, n_rows, n_columns, scattered)


def _split(index: Rows, edges: Indices, within: slice) -> Iterator[tuple[int, slice, Rows]]:
    """The rows (or columns) at some positions, by block: its number, their positions and numbers in it."""
    start = within.start
    for b, part in split_rows(take(index, start, within.stop), edges):
        stop = start + count_rows(part)
        yield b, slice(start, stop), part
        start = stop


def _add_in_order(parts: list[Any]) -> Any:
    """A task that adds sums; their tree has a fixed shape."""
    while len(parts) > 1:
        parts = [
            _task("added", np.sum, parts[k : k + PARTS_AT_ONCE], 0)
            for k in range(0, len(parts), PARTS_AT_ONCE)
        ]
    return parts[0]


def _is_in_memory(data: Any) -> bool:
    """Whether every block is a future or a value, and not a task (which can be called)."""
    graph = dict(data.__dask_graph__())
    for key in flatten(data.__dask_keys__()):
        node: Any = graph.get(key)
        while hasattr(node, "target"):  # another name of a block
            node = graph.get(node.target)
        if node is None or callable(node) or isinstance(node, tuple):
            return False
    return True
