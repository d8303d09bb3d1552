"""Columns and the products of any two of them, as features that are never stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Indices, Rows, count_rows, spread, take
from banditsis.core.parallel import map_in_threads
from banditsis.core.validation import is_on_gpu, to_memory
from banditsis.sources import pair_sums
from banditsis.sources.array import check_matrix
from banditsis.sources.base import PILOT_ROWS, Source, SumContext, pilot_rows, split_groups, summing_dtype
from banditsis.statistics.moments import Weights

BYTES_PER_SECOND = 30e9  # converts seconds of arithmetic to bytes
#: Cells of the columns that are held at once, and rows that a thread reads at once.
BLOCK_CELLS, THREAD_ROWS = 1 << 23, 256


class Interactions(Source):
    r"""The columns of X and the products of any two of them, as features that are never stored.

    The sums of all pairs are matrix products over the sampled rows,

    .. math:: \sum_k x_{ki} x_{kj} w_k = [X^\top \operatorname{diag}(w) X]_{ij}, \qquad
              \sum_k x_{ki}^2 x_{kj}^2 = [(X \circ X)^\top (X \circ X)]_{ij}

    and the sums of a few pairs are computed from their two columns; the faster way is taken. Features are
    ordered as by scikit-learn's PolynomialFeatures: the columns, then (0, 1), (0, 2), … (1, 2), ….

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

    def __init__(
        self, X: Any, names: Iterable[str] | None = None, *, main_effects: bool = True, squares: bool = False
    ) -> None:
        from banditsis.formats.opening import is_sparse, open_source  # formats import sources

        # All columns of some rows are read, so a sparse matrix is stored by row.
        source = open_source(X.tocsr() if is_sparse(X) else to_memory(X) if is_on_gpu(X) else X)
        self.base, (n, m) = source, source.shape
        self.order = pair_sums.PairOrder.make(m, main_effects, squares)
        self.shape = (n, int(self.order.offsets[-1]))
        if self.shape[1] == 0:
            raise ValueError(f"X has {m} column(s), which give no pairs: pass at least two columns.")
        self.dtype = summing_dtype(source.dtype)
        self.block_rows, self.chunk = source.block_rows, (source.block_rows, 1)
        self.shuffled, self.stratum_sizes = source.shuffled, source.stratum_sizes
        base_names = source.names if names is None else check_matrix((n, m), source.dtype, list(names))
        self.names = pair_sums.PairNames(base_names, self.order)
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
        if columns is None or isinstance(columns, slice):
            columns = np.arange(self.shape[1])[columns or slice(None)]
        used, first, second = self.order.used_columns(columns)
        block = np.ones((count_rows(rows), len(used) + 1), self.dtype)
        block[:, :-1] = self._read_base(rows, used)
        out = np.empty((len(block), len(columns)), self.dtype)
        kernels.interactions.multiply(block, first, second, out)
        return out

    def _read_base(self, rows: Rows, columns: Columns = None) -> Array:
        """Some rows of some base columns, read by all threads."""
        if columns is not None and len(columns) == self.base.shape[1]:
            columns = None
        n_columns = self.base.shape[1] if columns is None else len(columns)
        block = np.empty((count_rows(rows), n_columns), self.dtype)
        step = max(THREAD_ROWS, min(self.base.block_rows, len(block)))

        def fill(i: int) -> None:
            block[i : i + step] = self.base.read(take(rows, i, i + step), columns)

        map_in_threads(fill, range(0, len(block), step))
        return block

    def calibrate(self, rows: Rows) -> pair_sums.PairCalibration:
        """Shift columns, and the products whose variance unshifted sums would lose, by pilot means."""
        pilot = spread(rows, PILOT_ROWS) if self.block_rows == 1 else pilot_rows(self, rows)
        return pair_sums.calibrate_pairs(self._read_base(pilot).astype(np.float64), self.order, self.dtype)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        for g, group in split_groups(edges):
            some, part = take(rows, group.start, group.stop), weights.part(group)
            self._add_group(some, columns, part, context._replace(out=context.out[g]))

    def _add_group(self, rows: Rows, columns: Columns, weights: Weights, context: SumContext) -> None:
        """Add the sums of some rows, each feature in the way that is faster."""
        calibration, out, workers, tick = context
        assert isinstance(calibration, pair_sums.PairCalibration)
        by_pair = weights.n_presence > 0 or self._is_faster_by_pair(count_rows(rows), out.shape)
        chosen = np.arange(self.shape[1]) if columns is None else columns
        single = slice(None) if by_pair else self.order.single(columns, calibration.flat)
        used, first, second = self.order.used_columns(chosen[single])
        shift = calibration.shift[chosen[single]]
        triangle = None if by_pair else pair_sums.Triangle.make(self.order, columns)
        single_sums = out[:, single]
        for run in self._runs(rows):
            part = weights.part(run)
            block = self._read_base(take(rows, run.start, run.stop), used if by_pair else None)
            if triangle is not None:
                products = block.astype(calibration.dtype, copy=False)
                pair_sums.add_products(products, part, triangle, out, workers)
                block = block[:, used]
            if len(shift):
                pair_sums.add_pairs(block, first, second, shift, part, single_sums, workers)
            tick(len(block) * out.shape[1])
        out[:, single] = single_sums

    def _runs(self, rows: Rows) -> Iterator[slice]:
        """Positions of runs of rows that fit in memory, of equal length and, if possible, of whole blocks."""
        n, fitting = count_rows(rows), max(1, BLOCK_CELLS // self.base.shape[1])
        height = max(fitting, min(self.base.block_rows, 8 * fitting))
        step = max(1, -(-n // max(1, -(-n // height))))
        for i in range(0, n, step):
            yield slice(i, min(i + step, n))

    def _is_faster_by_pair(self, n_rows: int, shape: tuple[int, ...]) -> bool:
        """Whether summing so few features one by one is faster than multiplying all columns."""
        n_lines, p = shape
        by_pair, by_product = pair_sums.expected_seconds(n_rows, self.base.shape[1], p, self.dtype, n_lines)
        return by_pair < by_product

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """The time of the arithmetic, which costs more than reading, expressed in bytes."""
        seconds = min(pair_sums.expected_seconds(n_rows, self.base.shape[1], n_columns, self.dtype))
        # Callers count scattered bytes twice, but the time does not depend on the order of rows.
        return BYTES_PER_SECOND * seconds / (2 if scattered else 1)
