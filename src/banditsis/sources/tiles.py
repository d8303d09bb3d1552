"""Tiles of cells, whose sums threads compute and which are added up in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from banditsis.core.arrays import Floats, Indices
from banditsis.sources.base import SumContext

#: A function and its arguments; the last one is filled by the call.
Job: TypeAlias = "tuple[Any, ...]"


class TileJob(NamedTuple):
    """A call that computes the sums of a tile, and where they belong."""

    n_rows: int
    #: the part of the result to which the sums are added
    result: Floats
    job: Job
    #: the columns of the tile that are part of the result; None if the call adds them itself
    picked: Indices | slice | None = slice(None)

    def run(self) -> None:
        """Compute the sums."""
        function, *args = self.job
        function(*args)

    def add(self) -> None:
        """Add the sums to the result."""
        if self.picked is not None:
            result = self.result
            result += self.job[-1][..., self.picked]

    def run_and_add(self) -> None:
        """Do both."""
        self.run()
        self.add()


def add_tiles(
    jobs: Iterator[TileJob],
    context: SumContext,
    max_waiting: int,
    *,
    overlap: bool = True,
    max_threads: int = 1 << 30,
) -> None:
    """Compute the sums of tiles in parallel, and add them to the result in order.

    If no two tiles ``overlap`` in the result, they are added in parallel.
    """

    def finish(tile: TileJob) -> None:
        if overlap:
            tile.add()
        context.tick(tile.n_rows * tile.result.shape[-1])

    run = TileJob.run if overlap else TileJob.run_and_add
    context.workers.run_in_order(jobs, run, finish, max_waiting, max_threads)
