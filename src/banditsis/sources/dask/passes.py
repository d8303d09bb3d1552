"""Sources that are read and summed by tasks, one for each block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import (
    Array,
    Columns,
    Floats,
    Indices,
    Rows,
    as_indices,
    count_rows,
    split_at,
    take,
)
from banditsis.sources.base import Calibration, Source, SumContext, WeightFunction
from banditsis.sources.dask import tasks
from banditsis.sources.dask.running import Graph, Watched, add_tree, new_name, run

#: Values of weights in one graph: 32 MB.
MAX_WEIGHTS = 1 << 22


class Blocks(NamedTuple):
    """Blocks of rows × columns, and the tasks that make them."""

    graph: Graph
    #: the first part of the keys of the blocks
    name: str
    row_edges: Indices
    column_edges: Indices

    def key(self, b: int, j: int) -> tuple[str, int, int]:
        """Key of the b-th block of rows and the j-th block of columns."""
        return (self.name, b, j)

    def label(self, b: int, j: int) -> str:
        """The name of a block in messages."""
        rows, columns = self.row_edges[b : b + 2], self.column_edges[j : j + 2]
        across = f", columns {columns[0]:,} to {columns[1] - 1:,}" if len(self.column_edges) > 2 else ""
        return f"block of rows {rows[0]:,} to {rows[1] - 1:,}{across}"


def split(rows: Rows, edges: Indices) -> list[tuple[int, Rows]]:
    """Split sorted rows (or columns) into blocks: the number of a block, and row numbers within it."""
    return [(b, tasks.shift_rows(part, -int(edges[b]))) for b, part in split_at(rows, edges)]


class TaskSource(Source):
    """A source whose blocks are read and summed by Dask; a subclass sets ``blocks``."""

    blocks: Blocks

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        chosen = np.arange(self.shape[1])[slice(None) if columns is None else columns]
        down, across = split(rows, self.blocks.row_edges), split(chosen, self.blocks.column_edges)
        calls = [
            (tasks.read_block, self.blocks.key(b, j), block_rows, block_columns)
            for b, block_rows in down
            for j, block_columns in across
        ]
        cells = iter(self._compute("cells", calls))
        lines = [np.hstack([next(cells) for _ in across]) for _ in down]
        return np.vstack(lines) if lines else np.empty((0, len(chosen)), self.dtype)

    def calibrate(self, rows: Rows) -> Calibration:
        """Calibrate from the block that contains most of the rows."""
        b, block_rows = max(split(rows, self.blocks.row_edges), key=lambda part: count_rows(part[1]))
        blocks = [self.blocks.key(b, j) for j in range(len(self.blocks.column_edges) - 1)]
        parts = self._compute("pilot", [(tasks.calibrate_block, block, block_rows) for block in blocks])
        shift = np.concatenate([part.shift for part in parts])
        return Calibration(shift, np.concatenate([part.scale for part in parts]))

    def _compute(self, what: str, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Results of some tasks: tuples of a function, the key of a block, and other arguments."""
        name = new_name(what)
        graph = {(name, k): call for k, call in enumerate(calls)}
        return run({**self.blocks.graph, **graph}, list(graph))

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        for _ in self.sums_by_group([rows], columns, weights, context):
            pass

    def sums_by_group(
        self, groups: Iterable[Rows], columns: Columns, weights: WeightFunction, context: SumContext
    ) -> Iterator[None]:
        """Sum all groups in one graph, because workers would be idle between graphs."""
        one_pass = Pass(self.blocks, columns, weights, context)
        for batch in _batches(groups, max(1, MAX_WEIGHTS // max(1, len(context.out) - 2))):
            for parts, (_, ends_group) in zip(one_pass.run([rows for rows, _ in batch]), batch, strict=True):
                for position, part in zip(one_pass.positions, parts, strict=True):
                    context.out[:, position] += part
                if ends_group:
                    yield


class Pass:
    """Sums of some columns over pieces of rows.

    Columns are summed in panels, one for each block of columns; ``positions`` are the positions of the panels
    in the result.
    """

    def __init__(
        self, blocks: Blocks, columns: Columns, weights: WeightFunction, context: SumContext
    ) -> None:
        self.blocks, self.weights, self.tick = blocks, weights, context.tick
        self.panels: dict[int, tasks.Panel] = {}
        self.positions: list[slice] = []
        edges, start = blocks.column_edges, 0
        for j, chosen in split(slice(0, int(edges[-1])) if columns is None else columns, edges):
            width = count_rows(chosen)
            calibration = context.calibration.take(tasks.shift_rows(chosen, int(edges[j])))
            whole = width == edges[j + 1] - edges[j]
            self.panels[j] = tasks.Panel(None if whole else as_indices(chosen), calibration, len(context.out))
            self.positions.append(slice(start, start + width))
            start += width

    def run(self, pieces: list[Rows]) -> Iterator[list[Floats]]:
        """The sums of each piece, one array for each panel."""
        graph: Graph = dict(self.blocks.graph)
        watched: dict[Any, Watched] = {}
        name, roots = new_name("sums"), []
        panel_keys = {j: (f"{name}-panel", j) for j in self.panels}
        graph.update({panel_keys[j]: panel for j, panel in self.panels.items()})
        for k, rows in enumerate(pieces):
            leaves: dict[int, list[Any]] = {j: [] for j in self.panels}
            for b, block_rows in split(rows, self.blocks.row_edges):
                weights: Any = self.weights(tasks.shift_rows(block_rows, int(self.blocks.row_edges[b])))
                if len(self.panels) > 1:  # sent once and shared
                    graph[(f"{name}-weights", k, b)] = weights
                    weights = (f"{name}-weights", k, b)
                for j, panel in self.panels.items():
                    key, block = (name, k, b, j), self.blocks.key(b, j)
                    graph[key] = (tasks.block_sums, block, panel_keys[j], block_rows, weights)
                    n_cells = len(panel.calibration.shift) * count_rows(block_rows)
                    watched[key] = Watched(self.blocks.label(b, j), n_cells)
                    leaves[j].append(key)
            for j, keys in leaves.items():
                roots.append(add_tree(graph, keys, new_name(f"added_{k}_{j}"), tasks.add_up))
        sums = iter(run(graph, roots, watched, self.tick))
        for _ in pieces:
            yield [next(sums) for _ in self.panels]


def _batches(groups: Iterable[Rows], max_rows: int) -> Iterator[list[tuple[Rows, bool]]]:
    """Pieces of groups, at most ``max_rows`` rows in a batch, and whether a group ends with the piece."""
    batch: list[tuple[Rows, bool]] = []
    n_rows = 0
    for rows in groups:
        for start in range(0, count_rows(rows), max_rows):
            piece = take(rows, start, start + max_rows)
            if batch and n_rows + count_rows(piece) > max_rows:
                yield batch
                batch, n_rows = [], 0
            batch.append((piece, start + max_rows >= count_rows(rows)))
            n_rows += count_rows(piece)
    if batch:
        yield batch
