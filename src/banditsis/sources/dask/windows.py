"""Files that workers open for themselves: every format as it is, read where the work is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from banditsis.arrays import Array, Columns, Indices, Rows
from banditsis.sources.base import Calibration, Source, SourceView, SumContext, WeightFunction
from banditsis.sources.dask import DaskSource
from banditsis.sources.dask.collections import Blocks
from banditsis.statistics.base import Weights

#: Cells of a task: enough to be worth sending.
CELLS_AT_ONCE = 1 << 24

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Window:
    """Some neighbouring rows of a file, which whoever needs them opens."""

    path: str
    options: Options
    start: int
    stop: int

    def open(self) -> Source:
        """The rows as a source of their own."""
        return RowRange(_opened(self.path, self.options), self.start, self.stop)


@lru_cache(maxsize=8)
def _opened(path: str, options: Options) -> Source:
    """The file, opened once by each worker."""
    from banditsis.formats.opening import open_source

    found: Any = open_source(path, **dict(options))
    source: Source = found[0] if isinstance(found, tuple) else found
    return source


class RowRange(SourceView):
    """Neighbouring rows of another source."""

    def __init__(self, base: Source, start: int, stop: int) -> None:
        super().__init__(base)
        self.start, self.shape = start, (stop - start, base.shape[1])
        self.block_rows = 1

    def block_edges(self) -> Indices:
        return Source.block_edges(self)

    def row_number(self, row: int) -> int:
        return self.base.row_number(row + self.start)

    def _moved(self, rows: Rows, by: int) -> Rows:
        return slice(rows.start + by, rows.stop + by) if isinstance(rows, slice) else rows + by

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.base.read(self._moved(rows, self.start), columns)

    def calibrate(self, rows: Rows) -> Calibration:
        return self.base.calibrate(self._moved(rows, self.start))

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        def weights_here(base_rows: Rows) -> Weights:
            return weights(self._moved(base_rows, -self.start))

        self.base.sums(self._moved(rows, self.start), columns, weights_here, context)


class FileOnWorkers(DaskSource):
    """A file, or a folder, that every worker can reach under the same path.

    Workers open it themselves, and read only the rows and columns that a round needs: what a format can
    leave out on one machine is left out on a cluster too.

    Parameters
    ----------
    path : str or path
        As for :func:`open_source`.
    opened : Source, optional
        What :func:`open_source` has made of the path and the options, if that was done already.
    **options
        As for :func:`open_source`; a ``target`` is taken out of the features, and is then ``y``.
    """

    def __init__(self, path: Any, opened: Source | None = None, **options: Any) -> None:
        from banditsis.formats.opening import open_source

        found: Any = open_source(path, **options) if opened is None else opened
        self.base: Source = found[0] if isinstance(found, tuple) else found
        self.y = found[1] if isinstance(found, tuple) else None
        self.shape = self.base.shape
        self.dtype, self.names, self.shuffled = self.base.dtype, self.base.names, self.base.shuffled
        self.notes = self.base.notes
        edges = _task_edges(self.base.block_edges(), max(1, CELLS_AT_ONCE // max(1, self.shape[1])))
        given = tuple(sorted(options.items()))
        graph = {
            ("window", b, 0): Window(str(path), given, int(edges[b]), int(edges[b + 1]))
            for b in range(len(edges) - 1)
        }
        across = np.array([0, self.shape[1]])
        self.blocks = Blocks(graph, "window", (edges, across), self.dtype, False, self.names)

    @property
    def block_rows(self) -> int:  # type: ignore[override]
        """Rows that come cheaply together."""
        return self.base.block_rows

    def block_edges(self) -> Indices:
        return self.base.block_edges()

    def row_number(self, row: int) -> int:
        return self.base.row_number(row)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return self.base.bytes_touched(n_rows, n_columns, scattered=scattered)


def _task_edges(edges: Indices, height: int) -> Indices:
    """Edges of blocks about that many rows apart.

    Examples
    --------
    >>> _task_edges(np.array([0, 10, 20, 30, 35]), 15)
    array([ 0, 20, 30, 35])
    """
    wanted = np.arange(0, edges[-1] + height, height)
    return np.unique(edges[np.minimum(np.searchsorted(edges, wanted), len(edges) - 1)])


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Use the cluster whose scheduler has this address, such as ``tcp://10.0.0.1:8786``."""
    from distributed import Client

    try:
        client = Client(address)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} ({error}): give its address, as in tcp://10.0.0.1:8786."
        ) from error
    with client:
        yield client
