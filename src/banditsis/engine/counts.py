"""Counts: what the rows read so far say about the features that are left, for binned statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, as_indices, count_rows, spread
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.engine.sampling import Strata
from banditsis.engine.state import Positions, Scored, State
from banditsis.results import ScreeningResult
from banditsis.sources import Source, cut, flatten
from banditsis.statistics import KnownPvalues, is_mostly_missing, weights_of_evidence

#: Rows from which bins are found, and how many of them are next to each other.
PILOT_ROWS, PILOT_RUN = 4096, 64
#: Cells of a tile, its columns if cells are stored by column or not, and features scored together.
CELLS_IN_TILE, COLUMNS_BY_COLUMN, COLUMNS_BY_ROW, FEATURES_AT_ONCE = 1 << 22, 64, 1024, 1 << 12


@dataclass(frozen=True)
class CountState(State):
    """Tables of counts of the features that one response has left."""

    edges: Array  #: where bins begin, shape (edges, features), in the dtype in which cells are compared
    counts: Array  #: features × bins × (periods × classes)
    infinite: Array  #: features that may have infinite cells
    n_read: int = 0

    @classmethod
    def start(
        cls, source: Source, statistic: Any, rows: Rows, strata: Strata, columns: Columns = None
    ) -> CountState:
        """No counts yet; bins are those of the rows of the first step."""
        chosen = np.arange(source.shape[1]) if columns is None else columns
        p, unrolled = len(chosen), kernels.bins.UNROLLED
        dtype = np.float32 if np.can_cast(source.dtype, np.float32) else np.float64
        edges = np.full((-(-statistic.n_bins // unrolled) * unrolled, p), np.nan, dtype)
        pilot = as_indices(rows)
        if (n := len(pilot)) > PILOT_ROWS:  # evenly spaced runs of rows, so few blocks are read
            starts = spread(slice(0, n - PILOT_RUN + 1), PILOT_ROWS // PILOT_RUN)
            pilot = pilot[(starts[:, None] + np.arange(PILOT_RUN)).ravel()]

        def find_edges(part: slice) -> None:
            block = source.read(pilot, part if columns is None else columns[part])
            values = np.sort(np.array(block.T, dtype, order="C"), axis=1)
            found = np.full((len(edges), len(values)), np.nan, dtype)
            kernels.bins.find_edges(values, statistic.n_bins, found)
            edges[:, part] = found

        parts: list[Any] = list(cut(slice(0, p), CELLS_IN_TILE // PILOT_ROWS // 4, source.chunk[1]))
        map_in_threads(find_edges, parts)
        counts = np.zeros((p, len(edges) + 1, statistic.n_periods * statistic.n_classes), np.uint32)
        return cls(source, statistic, strata, chosen, edges, counts, np.zeros(p, bool))

    def add(self, rows: Rows, workers: Workers, tick: Callable[[int], None]) -> CountState:
        """Count new rows, in place, in tiles of whole chunks that do not depend on the number of threads."""
        source, p, lock = self.source, len(self.columns), Lock()
        height, across = source.chunk
        widest = COLUMNS_BY_COLUMN if source.by_row is False else COLUMNS_BY_ROW
        width = min(p, max(across, min(widest, CELLS_IN_TILE // max(1024, height))))

        def count_tile(some: Rows, columns: Indices | slice, place: slice, cells: Array) -> None:
            counts, has_infinite = self._count(some, columns, place, cells)
            with lock:
                self.counts[place] += counts
                self.infinite[place] |= has_infinite
                tick(count_rows(some) * len(counts))

        def tiles() -> Iterator[tuple[Any, ...]]:
            for some in cut(rows, max(1, CELLS_IN_TILE // width), height):
                cells, end = self.statistic.cells(some), 0
                for columns in cut(slice(0, p) if self.chosen is None else self.columns, width, across):
                    yield count_tile, some, columns, slice(end, end := end + count_rows(columns)), cells

        workers.run(tiles())
        return replace(self, n_read=self.n_read + count_rows(rows))

    def _count(self, rows: Rows, columns: Indices | slice, place: slice, cells: Array) -> tuple[Array, bool]:
        """Counts of a tile, whose rows have these periods × classes, and whether a cell is infinite."""
        block, edges = self.source.read(rows, columns), np.ascontiguousarray(self.edges[:, place])
        by_row = abs(block.strides[1]) <= abs(block.strides[0])
        flat, along = flatten(block), block.strides[1 if by_row else 0]
        if flat is None or block.dtype != edges.dtype or along != block.itemsize:
            block = np.array(block, edges.dtype, order="C" if by_row else "F")
            flat = flatten(block)
        assert flat is not None
        counts = np.zeros_like(self.counts[place])
        starts = np.arange(block.shape[0 if by_row else 1]) * flat.stride[0 if by_row else 1]
        count = kernels.bins.count_by_row if by_row else kernels.bins.count_by_column
        n_infinite = count(flat.memory, starts, edges, cells, counts.reshape(len(counts), -1))
        return counts, n_infinite > 0

    def find_nonfinite(self) -> Indices:
        """Features with cells that cannot be used."""
        missing = self.counts[:, 0].any(axis=1)
        return self.columns[self.infinite if self.statistic.pairwise else self.infinite | missing]

    def tables(self, positions: Any) -> Floats:
        """Counts of some features by bin, period and class.

        All cells of a mostly missing feature count as missing.
        """
        counts = self.counts[positions].astype(np.float64)
        tables = counts.reshape(*counts.shape[:2], self.statistic.n_periods, -1)
        present = self.n_read - tables[:, 0].sum(axis=(1, 2))
        few = is_mostly_missing(present, self.n_read, self.statistic.min_present)
        tables[few, 0] = tables[few].sum(axis=1)
        tables[few, 1:] = 0.0
        return np.asarray(tables)

    def _map_features(self, function: Callable[[Floats], Floats]) -> Floats:
        """What a function computes of the tables of some features at a time; they are the last dimension."""
        parts: list[Any] = list(cut(slice(0, len(self.columns)), FEATURES_AT_ONCE, 1))
        return np.concatenate(map_in_threads(lambda part: function(self.tables(part)), parts), axis=-1)

    def score(self, response: int, left: Positions) -> Scored:
        """The scores of all features that are left."""
        lines = self._map_features(lambda tables: self.statistic.evaluate(tables.sum(axis=2)))
        missing = self.counts[:, 0].sum(axis=1, dtype=np.float64) if self.statistic.pairwise else None
        null = KnownPvalues(lines[1]) if self.statistic.has_pvalues else None
        return Scored(lines[0], null, None if missing is None else self.n_read - missing)

    def take(self, positions: Indices) -> CountState:
        """Keep the features at some positions."""
        return replace(
            self,
            columns=self.columns[positions],
            edges=self.edges[:, positions],
            counts=self.counts[positions],
            infinite=self.infinite[positions],
        )

    def describe(self, result: ScreeningResult) -> ScreeningResult:
        """Add the bins of the selected features, and scores and population stability indices by period."""
        statistic, periods = self.statistic, range(self.statistic.n_periods)
        bins = self._bins(np.searchsorted(self.columns, result.selected))
        result = replace(result, evidence=replace(result.evidence, bins=bins))
        if statistic.periods is None:
            return result

        def compute(tables: Floats) -> Floats:
            scores = [statistic.evaluate(tables[:, :, period])[0] for period in periods]
            rows = tables.sum(axis=3)
            pairs = (rows[:, :, [0, period]] for period in periods[1:])
            return np.stack([*scores, *(weights_of_evidence(pair)[1].sum(axis=1) for pair in pairs)])

        labels = list(map(str, statistic.periods))
        values = np.full((2 * len(labels) - 1, result.n_features), np.nan)
        values[:, self.columns] = self._map_features(compute)
        names = [*(f"score {label}" for label in labels), *(f"psi {label}" for label in labels[1:])]
        added = dict(zip(names, values, strict=True))
        return replace(result, annotations={**result.annotations, **added})

    def _bins(self, positions: Indices) -> dict[str, Array]:
        """One row for each bin of some features that has rows or begins at an edge."""
        tables, edges = self.tables(positions).sum(axis=2), self.edges[:, positions].T
        begins = np.pad(edges, [(0, 0), (1, 0)], constant_values=np.nan)  # bin 0 is that of missing cells
        ends = np.pad(edges[:, 1:], [(0, 0), (1, 1)], constant_values=np.nan)
        feature, k = np.nonzero(~np.isnan(begins) | tables.any(axis=2))
        low, high = begins[feature, k].astype(np.float64), ends[feature, k].astype(np.float64)
        columns: dict[str, Array] = {
            "feature": self.columns[positions][feature],
            "missing": k == 0,
            "low": np.where(np.isinf(low), np.nan, low),
            "high": high,
        }
        labels = self.statistic.labels[0]
        columns |= {f"rows {label}": tables[feature, k, c].astype(np.intp) for c, label in enumerate(labels)}
        if len(labels) == 2:
            columns["woe"] = weights_of_evidence(tables)[0][feature, k]
        return columns
