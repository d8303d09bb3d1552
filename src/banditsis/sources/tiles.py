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

    def run(tile: Tile) -> None:
        if not overlap:
            tile.add(tile.result, tile.place.start)
            return
        tile.part = np.zeros((*tile.result.shape[:2], tile.place.stop - tile.place.start))
        tile.add(tile.part, 0)

    def finish(tile: Tile) -> None:
        if overlap:
            tile.result[..., tile.place] += tile.part
        context.tick(tile.n_rows * (tile.place.stop - tile.place.start))

    context.workers.run_in_order(tiles, run, finish, max_waiting, max_threads)
