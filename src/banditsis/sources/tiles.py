"""Tiles of cells, whose sums threads compute and which are added up in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from banditsis.core.arrays import Floats
from banditsis.sources.base import SumContext


@dataclass
class Tile:
    """Cells that one call sums, and where the sums belong."""

    n_rows: int
    #: groups × lines × columns of the result, and the columns that the tile has sums of
    result: Floats
    place: slice
    #: ``add(out, start)`` adds the sums of the tile to the columns of an array from ``start`` on
    add: Callable[[Floats, int], None]
    part: Floats = field(init=False)

    def run(self) -> None:
        """Compute the sums."""
        self.part = np.zeros((*self.result.shape[:2], self.place.stop - self.place.start))
        self.add(self.part, 0)

    def finish(self) -> None:
        """Add the sums to the result."""
        self.result[..., self.place] += self.part

    def run_in_place(self) -> None:
        """Add the sums to the result at once, because no other tile has these columns."""
        self.add(self.result, self.place.start)


def add_tiles(
    tiles: Iterator[Tile],
    context: SumContext,
    max_waiting: int,
    *,
    overlap: bool = True,
    max_threads: int = 1 << 30,
) -> None:
    """Compute the sums of tiles in parallel, and add them to the result in order.

    If no two tiles ``overlap`` in the result, they are added in parallel.
    """

    def finish(tile: Tile) -> None:
        if overlap:
            tile.finish()
        context.tick(tile.n_rows * (tile.place.stop - tile.place.start))

    run = Tile.run if overlap else Tile.run_in_place
    context.workers.run_in_order(tiles, run, finish, max_waiting, max_threads)
