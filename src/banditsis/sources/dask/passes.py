"""One pass over some rows: the graph that adds them up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from banditsis.arrays import Columns, Floats, Indices, Rows, count_rows, take
from banditsis.progress import status
from banditsis.sources.base import Calibration, WeightFunction
from banditsis.sources.dask import tasks
from banditsis.sources.dask.collections import Blocks
from banditsis.sources.dask.running import Graph, add_tree, new_name, run
from banditsis.sources.dask.splitting import split

#: Values of weights that wait in a graph to be sent: 32 MB.
WEIGHTS_AT_ONCE = 1 << 22


class Pass:
    """Sums of some rows × columns, in groups of rows.

    Parameters
    ----------
    blocks : Blocks
        Where the cells are.
    columns : ndarray of int or None
        Sorted columns, None for all.
    weights : callable
        Weights of some rows.
    calibration : Calibration
        Of all columns.
    n_sums : int
        Lines of the sums.
    tick : callable
        Is told how many cells have been added.
    """

    def __init__(
        self,
        blocks: Blocks,
        columns: Columns,
        weights: WeightFunction,
        calibration: Calibration,
        n_sums: int,
        tick: Callable[[int], None],
    ) -> None:
        self.blocks, self.weights, self.n_sums, self.tick = blocks, weights, n_sums, tick
        self.panels: dict[int, tasks.Panel] = {}
        #: where the sums of each panel belong
        self.places: list[slice] = []
        edges = blocks.edges[1]
        everything = slice(0, blocks.shape[1])
        for j, some in split(everything if columns is None else columns, edges):
            whole = count_rows(some) == edges[j + 1] - edges[j]
            local = None if whole else _listed(some)
            moved = _part(calibration, slice(edges[j], edges[j + 1]) if local is None else local + edges[j])
            self.panels[j] = tasks.Panel(local, moved, n_sums)
            start = self.places[-1].stop if self.places else 0
            self.places.append(slice(start, start + count_rows(some)))

    def run(self, groups: Iterable[Rows]) -> Iterator[tuple[list[Floats], bool]]:
        """Sums of one group after the other, a part for each panel, and whether the group ends with it.

        Weights of very many rows are sent in several graphs, cut by the number of rows alone.
        """
        waiting: list[tuple[Rows, bool]] = []
        n_rows = 0
        most = max(1, WEIGHTS_AT_ONCE // max(1, self.n_sums - 2))
        for piece, ends_group in _pieces(groups, most):
            if n_rows + count_rows(piece) > most and waiting:
                yield from self._run(waiting)
                waiting, n_rows = [], 0
            waiting.append((piece, ends_group))
            n_rows += count_rows(piece)
        yield from self._run(waiting)

    def _run(self, pieces: list[tuple[Rows, bool]]) -> Iterator[tuple[list[Floats], bool]]:
        graph: Graph = dict(self.blocks.graph)
        watched: dict[Any, tuple[str, Callable[[], None]]] = {}
        name = new_name("sums")
        shared = {j: (f"{name}-panel", j) for j in self.panels}
        graph.update({shared[j]: panel for j, panel in self.panels.items()})
        roots = []
        for k, (rows, _) in enumerate(pieces):
            found = split(rows, self.blocks.edges[0])
            leaves: dict[int, list[Any]] = {j: [] for j in self.panels}
            for b, some in found:
                last = self._weigh(graph, name, b, some)
                for j in self.panels:
                    key = (name, k, b, j)
                    graph[key] = (tasks.block_sums, self.blocks.key(b, j), shared[j], some, last)
                    watched[key] = self.blocks.label(b, j), partial(self._tell, b, j, some)
                    leaves[j].append(key)
            for j, keys in leaves.items():
                roots.append(add_tree(graph, keys, new_name(f"added_{k}_{j}"), tasks.add_up))
        self.n_blocks, self.n_done = len(watched), 0
        parts = iter(run(graph, roots, watched))
        for _, ends_group in pieces:
            yield [next(parts) for _ in self.panels], ends_group

    def _weigh(self, graph: Graph, name: str, b: int, some: Rows) -> Any:
        """What tasks of a block of rows take as their weights: a value, or a key where several share it."""
        first = int(self.blocks.edges[0][b])
        rows = slice(some.start + first, some.stop + first) if isinstance(some, slice) else some + first
        weights = self.weights(rows)
        if len(self.panels) == 1:
            return weights
        key = (f"{name}-weights", b, int(some.start if isinstance(some, slice) else some[0]))
        graph[key] = weights
        return key

    def _tell(self, b: int, j: int, some: Rows) -> None:
        self.n_done += 1
        status().detail = f"block {self.n_done:,} of {self.n_blocks:,}"
        panel = self.panels[j]
        edges = self.blocks.edges[1]
        width = edges[j + 1] - edges[j] if panel.columns is None else len(panel.columns)
        self.tick(int(width) * count_rows(some))


def _pieces(groups: Iterable[Rows], most: int) -> Iterator[tuple[Rows, bool]]:
    """The groups, cut where they have more rows than that; and whether a group ends here."""
    for rows in groups:
        n = count_rows(rows)
        for start in range(0, n, most):
            yield take(rows, start, start + most), start + most >= n
        if n == 0:
            yield rows, True


def _part(calibration: Calibration, columns: Indices | slice) -> Calibration:
    return Calibration(calibration.shift[columns], calibration.scale[columns])


def _listed(some: Rows) -> Indices:
    return np.arange(some.start, some.stop) if isinstance(some, slice) else some
