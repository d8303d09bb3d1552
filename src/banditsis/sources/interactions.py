"""Columns and the products of any two of them, as features that are never stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, as_indices, chunks, count_rows, take
from banditsis.core.parallel import map_in_threads
from banditsis.core.validation import is_on_gpu, to_memory
from banditsis.sources.array import ArraySource, check_matrix
from banditsis.sources.base import Calibration, SumContext, pilot_rows, split_groups, summing_dtype
from banditsis.sources.blocks import BlockSource, cut
from banditsis.statistics.moments import Weights

#: Cells of the base columns that are held at once, also if that is less than a block of rows; and those that
#: stay in the cache while their products are formed.
MAX_BASE_CELLS, BASE_CELLS = 1 << 26, 1 << 20
MIN_ROWS = 512
#: Products that are calibrated at once, and cells of a tile of products.
PRODUCTS_AT_ONCE, TILE_CELLS = 1 << 13, 1 << 20


class Interactions(BlockSource):
    """The columns of X and the products of any two of them, as features that are never stored.

    Features are ordered as by scikit-learn's PolynomialFeatures: the columns, then (0, 1), (0, 2), … (1, 2),
    …. A tile of products at a time is formed and summed.

    Parameters
    ----------
    X : array-like of shape (n, m), frame, scipy.sparse matrix or Source
        The base columns; float32 is multiplied as float32. An array on a GPU is copied to memory.
    names : iterable of str, optional
        Names of the base columns. A product is named ``dark × comedy``.
    main_effects : bool
        Whether the columns themselves are also features.
    squares : bool
        Whether the square of each column is a feature.

    Examples
    --------
    >>> import numpy as np
    >>> from banditsis import Interactions, Plan, screen
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 60))
    >>> y = X[:, 3] * X[:, 41] + rng.standard_normal(2000)
    >>> source = Interactions(X, names=[f"gene{j}" for j in range(60)])
    >>> source.shape
    (2000, 1830)
    >>> screen(source, y, Plan.exact(*source.shape, 1)).selected_names
    ['gene3 × gene41']
    """

    bytes_per_thread = 6e9  # forming products takes longer than reading

    def __init__(
        self, X: Any, names: Iterable[str] | None = None, *, main_effects: bool = True, squares: bool = False
    ) -> None:
        from banditsis.formats.opening import is_sparse, open_source  # formats import sources

        # All columns of some rows are read, so a sparse matrix is stored by row.
        base = open_source(X.tocsr() if is_sparse(X) else to_memory(X) if is_on_gpu(X) else X)
        base_names = base.names if names is None else check_matrix(base.shape, base.dtype, list(names))
        self.base, self.notes = base, base.notes
        self.names = self.pairs = Pairs(base.shape[1], base_names, main_effects, squares)
        self.shape, self.dtype = (base.shape[0], len(self.pairs)), summing_dtype(base.dtype)
        if not self.pairs:
            raise ValueError(
                f"X has {base.shape[1]} column(s), which give no pairs: pass at least two columns."
            )
        self.chunk = base.block_rows, 1
        self.shuffled, self.stratum_sizes = base.shuffled, base.stratum_sizes
        options = {"main_effects=False": not main_effects, "squares=True": squares}
        self.recipe = f"Interactions({', '.join(['X', *(text for text, given in options.items() if given)])})"

    @property
    def original_rows(self) -> Indices | None:
        return self.base.original_rows

    def row_number(self, row: int) -> int:
        return self.base.row_number(row)

    def block_edges(self) -> Indices:
        return self.base.block_edges()

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        features = np.arange(self.shape[1])[slice(None) if columns is None else columns]
        lines, places = self._read_lines(rows, features)
        return _multiply(lines, *places[self.pairs.factors(features)]).T

    def _read_lines(self, rows: Rows, features: Rows) -> tuple[Array, Indices]:
        """The base columns of some features and ones, each contiguous in memory, and which line is which."""
        used = np.ones(self.base.shape[1] + 1, bool)
        if count_rows(features) < self.base.shape[1]:  # otherwise choosing would take longer than reading all
            used[:-1] = False
            used[self.pairs.factors(as_indices(features))] = True
        lines = np.ones((np.count_nonzero(used), count_rows(rows)), self.dtype)
        lines[:-1] = self.base.read(rows, None if used.all() else np.flatnonzero(used[:-1])).T
        return lines, np.cumsum(used) - 1

    def calibrate(self, rows: Rows) -> Calibration:
        lines, _ = self._read_lines(pilot_rows(self, rows), slice(0, self.shape[1]))

        def calibrate_some(features: slice) -> Calibration:
            block = np.ascontiguousarray(_multiply(lines, *self.pairs.factors(as_indices(features))).T)
            return ArraySource(block).calibrate(slice(0, len(block)))

        parts = map_in_threads(calibrate_some, chunks(slice(0, self.shape[1]), PRODUCTS_AT_ONCE), 8)
        shift = np.concatenate([part.shift for part in parts])
        return Calibration(shift, np.concatenate([part.scale for part in parts]))

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        """Read the base columns of a run of rows once, and then form and sum their products, tile by tile."""
        features = slice(0, self.shape[1]) if columns is None else columns
        n_base = min(self.base.shape[1], 2 * count_rows(features)) + 1
        limit = max(1, MAX_BASE_CELLS // n_base)
        height = min(limit, max(MIN_ROWS, BASE_CELLS // n_base))
        for g, group in split_groups(edges):
            out, stop = context.out[g], group.start
            for run in cut(take(rows, stop, group.stop), height, min(limit, self.chunk[0])):
                start, stop = stop, stop + count_rows(run)
                lines, part = self._read_lines(run, features), weights.part(slice(start, stop)).computed
                add = partial(self._add_products, *lines, features, part, context.calibration, out)
                width = max(1, TILE_CELLS // (stop - start))
                context.workers.run_in_order(chunks(slice(0, out.shape[1]), width), add)
                context.tick((stop - start) * out.shape[1])

    def _add_products(
        self,
        lines: Array,
        places: Indices,
        features: Rows,
        weights: Weights,
        calibration: Calibration,
        out: Floats,
        some: slice,
    ) -> None:
        """Add the sums of the features at some positions to their columns of ``out``."""
        chosen = take(features, some.start, some.stop)
        tile = ArraySource(_multiply(lines, *places[self.pairs.factors(as_indices(chosen))]).T)
        tile.add_all(weights, calibration.take(chosen), out[:, some])

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Bytes of the products, which are formed at the same speed wherever their rows are."""
        # Callers count scattered bytes twice.
        return n_rows * n_columns * self.dtype.itemsize / (2.0 if scattered else 1.0)


@np.errstate(over="ignore", invalid="ignore")  # what overflows is reported after the sums
def _multiply(lines: Array, first: Indices, second: Indices) -> Array:
    """Products of lines, features × rows."""
    out = np.empty((len(first), lines.shape[1]), lines.dtype)
    kernels.cells.multiply_lines(lines, first, second, out)
    return out


class Pairs(Sequence[str]):
    """The order of the features, and their names, which are made on demand.

    ``offsets[i]`` is the first product of column i, with column ``i + lead`` as its second factor;
    ``offsets[m]`` is the number of features.
    """

    def __init__(self, m: int, names: Sequence[str] | None, main_effects: bool, squares: bool) -> None:
        self.base_names, self.lead = names, 0 if squares else 1
        counts = np.arange(m, 0, -1) - self.lead
        self.offsets = np.cumsum(np.concatenate([[m if main_effects else 0], counts]))

    def factors(self, features: Indices) -> Indices:
        """The two columns of each feature; a column itself is paired with column m, of ones."""
        first = np.searchsorted(self.offsets, features, side="right") - 1
        second = features - self.offsets[first] + first + self.lead
        is_column = features < self.offsets[0]
        return np.where(is_column, [features, np.full_like(features, len(self.offsets) - 1)], [first, second])

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def __getitem__(self, feature: Any) -> Any:
        if isinstance(feature, slice):
            return [self[k] for k in range(*feature.indices(len(self)))]
        k = range(len(self))[feature]
        first, second = self.factors(np.array([k]))[:, 0].tolist()
        if k < self.offsets[0]:
            return self._base_name(first)
        name = self._base_name(first)
        return f"{name}²" if first == second else f"{name} × {self._base_name(second)}"

    def _base_name(self, column: int) -> str:
        return f"x{column}" if self.base_names is None else str(self.base_names[column])
