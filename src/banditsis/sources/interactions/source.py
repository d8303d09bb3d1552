"""Columns and the products of any two of them, as features that are never stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Indices, Rows, count_rows, spread, take
from banditsis.sources.base import PILOT_ROWS, Calibration, SumContext, WeightFunction, pilot_rows
from banditsis.sources.blocks import BlockSource
from banditsis.sources.gpu.device import import_cupy
from banditsis.sources.gpu.pairs import add_pair_products, find_flat_on_gpu, read_products
from banditsis.sources.gpu.source import GpuSource
from banditsis.sources.interactions import gram
from banditsis.sources.interactions.columns import BaseColumns, find_overflow
from banditsis.sources.interactions.features import (
    PairCalibration,
    PairNames,
    PairOrder,
    calibrate_pairs,
    find_flat,
)
from banditsis.statistics.base import Statistic

BYTES_PER_SECOND = 30e9  # converts seconds of arithmetic to bytes


class Interactions(BlockSource):
    r"""The columns of X and the products of any two of them, as features that are never stored.

    The sums of all pairs are matrix products over the sampled rows,

    .. math:: \sum_k x_{ki} x_{kj} w_k = [X^\top \operatorname{diag}(w) X]_{ij}, \qquad
              \sum_k x_{ki}^2 x_{kj}^2 = [(X \circ X)^\top (X \circ X)]_{ij}

    and the sums of a few pairs are computed from their two columns; the faster way is taken. Features are
    ordered as by scikit-learn's PolynomialFeatures: the columns, then (0, 1), (0, 2), … (1, 2), ….

    Parameters
    ----------
    X : array-like of shape (n, m), frame, scipy.sparse matrix or Source
        The base columns; float32 is multiplied as float32.
    names : iterable of str, optional
        Names of the base columns. A product is named ``dark × comedy``.
    main_effects : bool
        Whether the columns themselves are also features.
    squares : bool
        Whether the square of each column is a feature.
    center : bool or array-like of shape (m,)
        Whether the mean over all rows is subtracted from each column before multiplying. Products of centred
        columns are different features with different scores: they are not correlated with y only because one
        of their columns is. An array is subtracted instead of the means; ``center=source.means`` makes the
        features of ``source`` from new rows.

    Attributes
    ----------
    means : ndarray of shape (m,) or None
        The values that are subtracted from the columns; None if the columns are not centred.

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

    uses_blas = True

    def __init__(
        self,
        X: Any,
        names: Iterable[str] | None = None,
        *,
        main_effects: bool = True,
        squares: bool = False,
        center: bool | ArrayLike = False,
    ) -> None:
        self.base = BaseColumns(X, names, center)
        source, m = self.base.source, self.base.n_columns
        self.order = PairOrder.make(m, main_effects, squares)
        self.shape = (source.shape[0], int(self.order.offsets[-1]))
        if self.shape[1] == 0:
            raise ValueError(f"X has {m} column(s), which give no pairs: pass at least two columns.")
        self.dtype, self.means = self.base.dtype, self.base.means
        self.chunk = (source.block_rows, 1)
        self.shuffled, self.stratum_sizes = source.shuffled, source.stratum_sizes
        self.names = PairNames(source.names, self.order)
        self.recipe = _recipe(main_effects, squares, center)

    def row_number(self, row: int) -> int:
        return self.base.source.row_number(row)

    def block_edges(self) -> Indices:
        return self.base.source.block_edges()

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self._products(rows, columns, self.dtype)

    def read_columns(self, rows: Rows, columns: Indices) -> Sequence[Array]:
        if isinstance(source := self.base.source, GpuSource):
            found = read_products(source, rows, *self.order.factors(columns), self.means, self.dtype)
            if found is not None:
                return found
        return super().read_columns(rows, columns)

    def _products(self, rows: Rows, columns: Columns | slice, dtype: np.dtype) -> Array:
        if columns is None or isinstance(columns, slice):
            columns = np.arange(*(columns or slice(None)).indices(self.shape[1]))
        used, first, second = self.order.used_columns(columns)
        block = np.ones((count_rows(rows), len(used) + 1), dtype)
        block[:, :-1] = self.base.read(rows, used)
        out = np.empty((len(block), len(columns)), dtype)
        self._raise_if_overflow(block[:, :-1], used)
        kernels.interactions.multiply(block, first, second, out)
        return out

    def _raise_if_overflow(self, block: Array, columns: Indices) -> None:
        factors = find_overflow(block, self.order.lead == 0, self.dtype)
        if factors is not None:
            names = " and ".join(dict.fromkeys(repr(self.base.source.name(int(columns[k]))) for k in factors))
            wider = "" if self.dtype == np.float64 else ", or pass X as float64"
            raise ValueError(f"products overflow {self.dtype}: rescale {names}{wider}.")

    def place(self, statistic: Statistic) -> Statistic:
        return self.base.source.place(statistic)

    def calibrate(self, rows: Rows) -> PairCalibration:
        """Shift columns, and the products whose variance unshifted sums would lose, by pilot means."""
        pilot = spread(rows, PILOT_ROWS) if self.block_rows == 1 else pilot_rows(self, rows)
        block = self.base.read(pilot).astype(np.float64)
        source = self.base.source
        find = partial(find_flat_on_gpu, source) if isinstance(source, GpuSource) else find_flat
        return calibrate_pairs(block, self.order, self.dtype, find)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        calibration, out, workers, tick = context
        assert isinstance(calibration, PairCalibration)
        kind = weights(take(rows, 0, 1))
        pairwise = kind.presence is not None
        simple = not pairwise and kind.v is None
        # Sums on a GPU are those of very many features.
        many = not isinstance(out, np.ndarray)
        few = pairwise or (not many and self._is_faster_by_pair(count_rows(rows), out.shape))
        if few and not simple:
            super().sums(rows, columns, weights, context)
            return
        if not few and isinstance(self.base.source, GpuSource):
            self._add_on_gpu(self.base.source, rows, columns, weights, context)
            return
        triangle = None if few else gram.Triangle.make(self.order, columns)
        single = np.arange(out.shape[1]) if few else self.order.single(columns, calibration.flat)
        single_sums = out[:, single]
        features = single if columns is None else columns[single]
        listed = gram.Pairs.make(self.order, features if simple else features[:0], calibration)
        used = listed.columns if few else np.arange(self.base.n_columns)
        for run in self.base.runs(rows):
            block, run_weights = self.base.read_parallel(run, used, workers), weights(run)
            self._raise_if_overflow(block, used)
            if triangle is not None:
                gram.add_products(_scaled(block, calibration), run_weights, triangle, out, workers)
            if len(features) and simple:
                block = block if len(listed.columns) == block.shape[1] else block[:, listed.columns]
                gram.add_pairs(block, listed, run_weights, single_sums, workers)
            tick(len(block) * out.shape[1])
        if len(features) and not simple:
            super().sums(rows, features, weights, SumContext(calibration, single_sums, workers))
        out[:, single] = single_sums

    def _add_on_gpu(
        self,
        source: GpuSource,
        rows: Rows,
        columns: Columns,
        weights: WeightFunction,
        context: SumContext,
    ) -> None:
        """Add the sums of many features where the columns are."""
        calibration, out, workers, tick = context
        assert isinstance(calibration, PairCalibration)
        all_main, scale = int(self.order.offsets[0]), calibration.base_scale[:-1]
        n_main = all_main if columns is None else int(np.searchsorted(columns, all_main))
        flat = self.order.single(columns, calibration.flat)[n_main:]
        flat_sums = np.zeros((len(out), len(flat)))
        if len(flat):
            features = flat if columns is None else columns[flat]
            super().sums(rows, features, weights, SumContext(calibration, flat_sums, workers))
        main = slice(0, n_main) if columns is None else columns[:n_main]
        pairs = self._all_factors if columns is None else self.order.factors(columns[n_main:])
        add_pair_products(
            source,
            rows,
            weights,
            means=self.means,
            scale=scale,
            main=(main, calibration.shift[main]),
            pairs=pairs,
            flat=(flat, flat_sums),
            out=out,
        )
        tick(count_rows(rows) * out.shape[1])

    @cached_property
    def _all_factors(self) -> tuple[Any, Any]:
        """First and second column of every product, in the memory of the GPU."""
        assert isinstance(self.base.source, GpuSource)
        with self.base.source.array.device:
            first, second = self.order.factors(np.arange(self.order.offsets[0], self.shape[1]))
            return import_cupy().asarray(first), import_cupy().asarray(second)

    def _is_faster_by_pair(self, n_rows: int, shape: tuple[int, int]) -> bool:
        """Whether summing so few features one by one is faster than multiplying all columns."""
        n_lines, p = shape
        all_pairs = gram.product_seconds(n_rows, self.base.n_columns, p, n_lines, self.dtype)
        return gram.pair_seconds(n_rows, p, gram.CELL * n_lines / 3) < all_pairs

    def _read_tile(
        self, rows: Rows, columns: Indices | slice, calibration: Calibration
    ) -> tuple[Array, Calibration]:
        return self._products(rows, columns, np.dtype(np.float64)), calibration  # as the shift

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """The time of the arithmetic, which costs more than reading, expressed in bytes."""
        by_pair = gram.pair_seconds(n_rows, n_columns)
        all_pairs = gram.product_seconds(n_rows, self.base.n_columns, n_columns, 3, self.dtype)
        # Callers count scattered bytes twice, but the time does not depend on the order of rows.
        return BYTES_PER_SECOND * min(by_pair, all_pairs) / (2 if scattered else 1)


def _recipe(main_effects: bool, squares: bool, center: bool | ArrayLike) -> str:
    """The call that makes these features, as code; given means are called ``means``."""
    given_means = not isinstance(center, bool | np.bool_)
    options = {
        "main_effects=False": not main_effects,
        "squares=True": squares,
        "center=True": not given_means and center,
        "center=means": given_means,
    }
    return f"Interactions({', '.join(['X', *(option for option, given in options.items() if given)])})"


def _scaled(block: Array, calibration: PairCalibration) -> Array:
    block, scale = block.astype(calibration.dtype, copy=False), calibration.base_scale
    return block if (scale == 1).all() else np.multiply(block, scale[:-1], dtype=block.dtype)
