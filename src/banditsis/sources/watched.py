"""A source that is watched: whether its rows look alike, wherever they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from banditsis._typing import Array, Columns, Floats, Indices, Rows
from banditsis.parallel import Workers
from banditsis.sampling import count_rows, take
from banditsis.sources.base import Calibration, Source
from banditsis.statistics.base import Weights

MOST_GROUPS, LEAST_GROUPS, ROWS_A_GROUP = 16, 4, 32


class Watched(Source):
    """A source that looks at the first pass over it: the spread of its features between groups of rows.

    Parameters
    ----------
    base : Source
        Does all the work.
    """

    def __init__(self, base: Source) -> None:
        self.base = base
        self.shape, self.dtype, self.names = base.shape, base.dtype, base.names
        self.block_rows, self.shuffled, self.multiplies = base.block_rows, base.shuffled, base.multiplies
        #: groups of the first pass, and T of every feature, once it is over
        self.n_groups = 0
        self.spread: Floats | None = None
        #: which features those are, None for all
        self.columns: Columns = None

    def block_edges(self) -> Indices:
        return self.base.block_edges()

    def name(self, column: int) -> str:
        return self.base.name(column)

    def row_number(self, row: int) -> int:
        return self.base.row_number(row)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self.base.read(rows, columns)

    def calibrate(self, rows: Rows) -> Calibration:
        return self.base.calibrate(rows)

    def sums(
        self,
        rows: Rows,
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: Calibration,
        out: Floats,
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        places = cut_rows(self, rows) if self.spread is None and columns is None else []
        weight = weights(take(rows, 0, 1)) if len(places) > 2 else None
        # Weighted squares say nothing of how features vary.
        if weight is None or weight.square is not None:
            self.base.sums(rows, columns, weights, calibration, out, workers, tick)
            return
        moments = Moments(weight, out)
        groups = [take(rows, start, stop) for start, stop in pairwise(places)]
        added = self.base.sums_by_group(groups, columns, weights, calibration, out, workers, tick)
        for group, _ in zip(groups, added, strict=True):
            moments.add(out, count_rows(group))
        self.n_groups, self.spread = moments.n_groups, moments.spread()

    def watch(self, rows: Rows, columns: Indices) -> None:
        """Read a few features of the rows of the first pass again, where its sums did not show them."""
        places = cut_rows(self, rows)
        if len(places) > 2:
            parts = [self.read(take(rows, start, stop), columns) for start, stop in pairwise(places)]
            self.columns, self.n_groups = columns, len(parts)
            self.spread = group_spread([np.asarray(part, dtype=np.float64) for part in parts])

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        return self.base.bytes_touched(n_rows, n_columns, scattered=scattered)


class Moments:
    """Sums of the features group by group, taken from the sums of a pass as it goes on."""

    def __init__(self, weights: Weights, out: Floats) -> None:
        k, q = weights.n_classes, weights.linear.shape[1]
        by_class = weights.codes is not None
        self.plain = slice(0, k if by_class else 1)
        self.square = k if by_class else q + 1
        self.counts = (
            (slice(k + 1, 2 * k + 1) if by_class else slice(q + 2, q + 3)) if weights.pairwise else None
        )
        self.n_groups = 0
        self.before = self._values(out)
        self.first = self.before
        self.between = np.zeros(out.shape[1])
        self.n_rows = 0

    def _values(self, out: Floats) -> tuple[Floats, Floats, Floats | None]:
        counts = None if self.counts is None else out[self.counts].sum(axis=0)
        return out[self.plain].sum(axis=0), out[self.square].copy(), counts

    def add(self, out: Floats, n_rows: int) -> None:
        """Take note of a group of rows that has been added to the sums."""
        now = self._values(out)
        part = now[0] - self.before[0]
        count = n_rows if now[2] is None or self.before[2] is None else now[2] - self.before[2]
        self.between += part * part / np.maximum(count, 1)
        self.before, self.n_groups, self.n_rows = now, self.n_groups + 1, self.n_rows + n_rows

    def spread(self) -> Floats:
        """T of every feature, NaN for constant ones."""
        total, squares = self.before[0] - self.first[0], self.before[1] - self.first[1]
        count = (
            self.n_rows if self.before[2] is None or self.first[2] is None else self.before[2] - self.first[2]
        )
        return spread_between(self.between, total, squares, count, self.n_groups)


def spread_between(
    between: Floats, total: Floats, squares: Floats, count: int | Floats, groups: int
) -> Floats:
    """T from Σ (group sum)² / (group size), the sum and the sum of squares; NaN for constant features."""
    common = total * (total / np.maximum(count, 1))
    everything = squares - common
    # What is left of a nearly constant feature is rounding.
    varies = (everything > 1e-5 * squares) & (np.asarray(count) > groups)
    share = np.full(len(total), np.nan)
    np.divide(between - common, everything, out=share, where=varies)
    return np.asarray(share * (np.asarray(count) - 1) / (groups - 1))


def group_spread(blocks: Sequence[Floats]) -> Floats:
    """T of the columns of blocks, each a group of rows; NaN cells are left out.

    Examples
    --------
    >>> group_spread([np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]]), np.array([[9.0], [9.0]])])
    array([2.47431507])
    """
    counts = [np.count_nonzero(~np.isnan(block), axis=0) for block in blocks]
    shift = np.nan_to_num(np.nanmean(blocks[0], axis=0)) if counts[0].all() else 0.0
    moved = [np.nan_to_num(block - shift) for block in blocks]
    totals = [block.sum(axis=0) for block in moved]
    between = sum(t * t / np.maximum(c, 1) for t, c in zip(totals, counts, strict=True))
    squares = sum((block * block).sum(axis=0) for block in moved)
    return spread_between(np.asarray(between), sum(totals), np.asarray(squares), sum(counts), len(blocks))


def _cut(n_rows: int, edges: Indices | None = None) -> list[int]:
    """Where to cut rows into groups of about one size, at edges of blocks where there are any.

    Examples
    --------
    >>> _cut(1000)[:3], _cut(1000, np.array([0, 300, 600, 900, 1000]))
    ([0, 62, 125], [0, 300, 600, 1000])
    """
    groups = min(MOST_GROUPS, max(LEAST_GROUPS, n_rows // ROWS_A_GROUP))
    wanted = np.linspace(0, n_rows, groups + 1)
    if edges is None:
        return [int(place) for place in np.unique(wanted.astype(int))]
    near = np.unique(edges[np.searchsorted(edges, np.floor(wanted))])
    if len(near) > 2 and near[-1] - near[-2] < (near[1] - near[0]) / 2:  # too few to stand alone
        near = np.delete(near, -2)
    return [int(place) for place in near]


def cut_rows(source: Source, rows: Rows) -> list[int]:
    """Where to cut some rows of a source into groups: at the edges of its blocks, if it has blocks."""
    n = count_rows(rows)
    if source.block_rows == 1:
        return _cut(n)
    edges = source.block_edges()
    at = np.clip(edges - rows.start, 0, n) if isinstance(rows, slice) else np.searchsorted(rows, edges)
    return _cut(n, np.unique(at))
