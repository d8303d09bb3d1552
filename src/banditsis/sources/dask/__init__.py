"""Dask arrays and frames: one task for each block that a pass touches, which returns only its sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Indices, Rows, count_rows
from banditsis.sources.array import line_bytes
from banditsis.sources.base import Calibration, SumContext, WeightFunction
from banditsis.sources.blocks import BlockSource
from banditsis.sources.dask import tasks
from banditsis.sources.dask.collections import Blocks, open_blocks
from banditsis.sources.dask.passes import Pass
from banditsis.sources.dask.running import new_name, run
from banditsis.sources.dask.splitting import split

__all__ = ["DaskSource"]


class DaskSource(BlockSource):
    """A Dask array, its blocks dense or sparse, or a Dask frame.

    Each pass is a graph with one task for each block that it touches. The task runs the kernels of this
    package over the block, in one thread, where the block is, and returns its sums: lines × columns that are
    left. Sums are added in the order of the blocks, by a tree of fixed shape, so that the answer does not
    depend on the number of workers. With a distributed Client the cluster does the work, else Dask's local
    scheduler.

    Blocks that are in memory already (persisted) are read in random rows; others are read whole, in random
    order, so that only those are loaded that a plan needs.

    Parameters
    ----------
    data : dask.array.Array or dask.dataframe.DataFrame
        Rows × features. The lengths of blocks are computed where they are not known.
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
        self.blocks: Blocks = open_blocks(data)
        self.shape, self.dtype = self.blocks.shape, self.blocks.dtype
        self.names = self.blocks.names if names is None else names
        if self.names is not None and len(self.names) != self.shape[1]:
            raise ValueError(f"got {len(self.names):,} names for {self.shape[1]:,} columns.")
        self.notes = self.blocks.notes
        rows, columns = (np.diff(edges) for edges in self.blocks.edges)
        self.chunk = max(1, int(np.median(rows))), max(1, int(np.median(columns)))

    @property
    def block_rows(self) -> int:  # type: ignore[override]
        """Rows that come cheaply together."""
        return 1 if self.blocks.in_memory else self.chunk[0]

    def block_edges(self) -> Indices:
        """Where blocks of rows begin, and where the last one ends."""
        return self.blocks.edges[0]

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        chosen = np.arange(self.shape[1])[slice(None) if columns is None else columns]
        pieces, panels = split(rows, self.blocks.edges[0]), split(chosen, self.blocks.edges[1])
        name, graph = new_name("cells"), dict(self.blocks.graph)
        for b, some in pieces:
            for j, these in panels:
                graph[(name, b, j)] = (tasks.take_cells, self.blocks.key(b, j), some, these)
        found = iter(run(graph, [(name, b, j) for b, _ in pieces for j, _ in panels]))
        lines = [np.hstack([next(found) for _ in panels]) for _ in pieces]
        return np.vstack(lines) if lines else np.empty((0, len(chosen)), self.dtype)

    def calibrate(self, rows: Rows) -> Calibration:
        """From the block that the rows touch most, where it is."""
        b, some = max(split(rows, self.blocks.edges[0]), key=lambda piece: count_rows(piece[1]))
        name, graph = new_name("pilot"), dict(self.blocks.graph)
        keys = [(name, j) for j in range(len(self.blocks.edges[1]) - 1)]
        for j, key in enumerate(keys):
            graph[key] = (tasks.pilot, self.blocks.key(b, j), some)
        found = run(graph, keys)
        return Calibration(
            np.concatenate([part.shift for part in found]), np.concatenate([part.scale for part in found])
        )

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        for _ in self.sums_by_group([rows], columns, weights, context):
            pass

    def sums_by_group(
        self, groups: Iterable[Rows], columns: Columns, weights: WeightFunction, context: SumContext
    ) -> Iterator[None]:
        """All groups at once, since workers would stand idle between them."""
        out = context.out
        one_pass = Pass(self.blocks, columns, weights, context.calibration, len(out), context.tick)
        for parts, ends_group in one_pass.run(groups):
            for place, part in zip(one_pass.places, parts, strict=True):
                out[:, place] += part
            if ends_group:
                yield

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        if self.blocks.in_memory:
            return n_rows * line_bytes(self.shape[1], n_columns / self.shape[1], self.dtype.itemsize)
        return super().bytes_touched(n_rows, n_columns, scattered=scattered)
