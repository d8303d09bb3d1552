"""Files that the workers of a cluster open themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from banditsis.core.arrays import Indices
from banditsis.sources.base import Source, SourceView
from banditsis.sources.dask.passes import Blocks, TaskSource
from banditsis.sources.dask.tasks import Window

#: Cells of a task, which are worth the cost of scheduling it.
CELLS_PER_TASK = 1 << 24


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
        edges = _task_edges(base.block_edges(), max(1, CELLS_PER_TASK // max(1, base.shape[1])))
        # Workers remember open files by these values, which must be hashable.
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        settings = str(path), tuple(sorted(values.items()))
        windows = [Window(*settings, start, stop) for start, stop in pairwise(edges.tolist())]
        graph = {("window", b, 0): window for b, window in enumerate(windows)}
        self.blocks = Blocks(graph, "window", edges, np.array([0, base.shape[1]]))


def _task_edges(edges: Indices, height: int) -> Indices:
    """Edges of blocks about ``height`` rows apart.

    Examples
    --------
    >>> _task_edges(np.array([0, 10, 20, 30, 35]), 15)
    array([ 0, 20, 30, 35])
    """
    targets = np.arange(0, edges[-1] + height, height)
    return np.unique(edges[np.minimum(np.searchsorted(edges, targets), len(edges) - 1)])


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Use the cluster whose scheduler has this address, such as ``tcp://10.0.0.1:8786``."""
    from distributed import Client

    try:
        client = Client(address)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} ({error}): give its address, such as "
            "tcp://10.0.0.1:8786."
        ) from error
    with client:
        yield client
