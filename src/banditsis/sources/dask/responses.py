"""Responses that stay on the cluster: a Dask array or series of y, used block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from banditsis._typing import Array, Floats, Indices, Rows
from banditsis.deviations import Deviation
from banditsis.sampling import count_rows, spread, take
from banditsis.sources.dask import tasks
from banditsis.sources.dask.running import Graph, add_tree, new_name, run
from banditsis.sources.dask.splitting import split
from banditsis.statistics.base import MomentStatistic, Weighing, ratio

#: The first look at the response reads so many blocks, and so many rows of each.
PILOT_BLOCKS, PILOT_ROWS = 8, 1 << 14
MOST_LABELS = 20


class DaskResponses:
    """Responses of n rows, seen as an array of shape (n, q) of which a few rows may be had at a time.

    Statistics are bound to it as to an array. On the workers they are bound again, to the responses of one
    block, so that nothing of length n travels. ``y[rows]`` fetches a few rows, ``y[:, k]`` is lazy, and
    ``np.unique`` runs on the workers; any other NumPy function is refused.

    Parameters
    ----------
    graph : dict
        Tasks that make the blocks.
    keys : list
        The block of each block of rows.
    edges : ndarray of int
        Where blocks of rows begin, and where the last one ends.
    dtype : dtype
        Of the responses.
    chosen : list of int
        Which columns of the blocks are meant.
    one : bool
        Whether this is a single column, of shape (n,).
    """

    def __init__(
        self,
        graph: Graph,
        keys: list[Any],
        edges: Indices,
        dtype: np.dtype,
        chosen: list[int],
        one: bool = False,
    ) -> None:
        self.graph, self.keys, self.edges = graph, keys, edges
        self.dtype, self.chosen, self.one = dtype, chosen, one
        n = int(edges[-1])
        self.shape: tuple[int, ...] = (n,) if one else (n, len(chosen))
        self.ndim = len(self.shape)
        #: rows of the first look and their responses, so that nobody has to make them twice
        self._seen: tuple[Indices, Array] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> list[DaskResponses]:  # noqa: N802
        """The responses one by one."""
        return [self[:, k] for k in range(len(self.chosen))]

    def __getitem__(self, index: Any) -> Any:
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        one = isinstance(columns, (int, np.integer))
        chosen = [self.chosen[columns]] if one else list(np.asarray(self.chosen)[columns])
        part = DaskResponses(self.graph, self.keys, self.edges, self.dtype, chosen, one or self.one)
        if isinstance(rows, slice) and rows == slice(None):
            return part
        return self.fetch(rows) if chosen == self.chosen and part.one == self.one else part.fetch(rows)

    def as_matrix(self) -> DaskResponses:
        """The same with two dimensions."""
        return DaskResponses(self.graph, self.keys, self.edges, self.dtype, self.chosen)

    def fetch(self, rows: Any) -> Array:
        """Responses of a few rows, in their order."""
        if isinstance(rows, (int, np.integer)):
            return np.asarray(self.fetch(np.array([rows]))[0])
        if isinstance(rows, slice):
            rows = slice(*rows.indices(len(self))[:2])
        if self._seen is not None and isinstance(rows, np.ndarray) and np.isin(rows, self._seen[0]).all():
            return self._seen[1][np.searchsorted(self._seen[0], rows)]
        order = None
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            order = np.searchsorted(np.unique(rows), rows)
            rows = np.unique(rows)
        parts = self._map(split(rows, self.edges), tasks.take_responses, "responses")
        values = np.concatenate(parts) if parts else np.empty((0, len(self.chosen)), self.dtype)
        values = values if order is None else values[order]
        return values[:, 0] if self.one else values

    def _map(self, pieces: Sequence[tuple[int, Rows]], function: Any, what: str) -> list[Any]:
        name, graph = new_name(what), dict(self.graph)
        for b, rows in pieces:
            graph[(name, b)] = (function, self.keys[b], rows, self.chosen)
        return run(graph, [(name, b) for b, _ in pieces])

    def pilot(self, rows: Rows) -> Indices | slice:
        """Some of the rows, in a few blocks, for a first look at the response."""
        pieces = split(rows, self.edges)
        few = [pieces[k] for k in spread(slice(0, len(pieces)), PILOT_BLOCKS)]
        chosen = [spread(take(local, 0, PILOT_ROWS), PILOT_ROWS) + self.edges[b] for b, local in few]
        found = np.concatenate(chosen)
        if self.dtype.kind != "f":
            return found
        values = self.fetch(found)
        known = ~np.isnan(values.reshape(len(found), -1)).any(axis=1)
        self._seen = (found[known], values[known]) if known.any() else None
        return found[known] if known.any() else found

    def between_blocks(self, rows: Rows) -> tuple[int, list[float]]:
        """How many blocks some rows touch, and the design effect of each response, or label, between them."""
        labels = [] if self.dtype.kind in "fiub" else list(np.unique(self))[:MOST_LABELS]
        looks = [] if labels else [Deviation.of(column) for column in self._first_look(rows).T]
        pieces = split(rows, self.edges)
        name, graph = new_name("moments"), dict(self.graph)
        for b, some in pieces:
            graph[(name, b)] = (tasks.moments, self.keys[b], some, self.chosen, labels, looks)
        counts, means, squares = np.stack(run(graph, [(name, b) for b, _ in pieces]), axis=1)
        n, centre = counts.sum(axis=0), (counts * means).sum(axis=0) / counts.sum(axis=0)
        between = (counts * (means - centre) ** 2).sum(axis=0)
        effects = ratio(between, between + squares.sum(axis=0)) * (n - 1) / max(1, len(pieces) - 1)
        return len(pieces), [float(effect) for effect in np.nan_to_num(effects)]

    def _first_look(self, rows: Rows) -> Array:
        """Responses of a few of the rows, a column each."""
        found = self.pilot(rows)
        values = np.asarray(self.fetch(found), dtype=np.float64)
        return values.reshape(len(values), -1)

    def weighing(self, statistic: MomentStatistic) -> Weighing:
        """How a pass weighs rows: on the workers."""
        return RemoteWeighing(statistic, self)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        if function is np.ndim:
            return self.ndim
        if function is np.unique and len(args) == 1 and not kwargs:
            name, graph = new_name("labels"), dict(self.graph)
            leaves = [(name, b) for b in range(len(self.keys))]
            for b, leaf in enumerate(leaves):
                graph[leaf] = (tasks.distinct, self.keys[b], self.chosen)
            return run(graph, [add_tree(graph, leaves, new_name("all_labels"), tasks.union)])[0]
        raise TypeError(in_memory(f"np.{function.__name__}"))

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(in_memory("this statistic"))

    __lt__ = __le__ = __gt__ = __ge__ = __array_ufunc__ = _refuse

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise TypeError(in_memory("this"))


def in_memory(what: str) -> str:
    """What to say where responses have to be in memory."""
    return f"y is a Dask collection, and {what} needs it in memory: pass y.compute()."


class RemoteWeighing(Weighing):
    """Weights made on the workers, where a source can; the summary of the responses comes with the sums."""

    def __init__(self, statistic: MomentStatistic, responses: DaskResponses) -> None:
        super().__init__(statistic)
        self.responses = responses
        self.total: Floats | float = 0.0

    def without_responses(self) -> MomentStatistic:
        """The statistic as it is sent to workers."""
        from copy import copy

        bare = copy(self.statistic)
        del bare.y
        return bare

    def add(self, summary: Floats) -> None:
        """Take the summary of some rows."""
        if not np.isfinite(summary).all():
            raise ValueError("y contains NaN or infinity in the rows that were read: drop or replace it.")
        self.total = self.total + summary

    def summary(self, rows: Rows) -> Floats:
        if isinstance(self.total, float):  # no pass has been made
            return self.statistic.summary(rows if count_rows(rows) else slice(0, 0))
        return self.total
