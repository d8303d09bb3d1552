"""Columns and the products of any two of them, as features that are never stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Indices, Rows, count_rows, spread, take
from banditsis.sources.base import PILOT_ROWS, Source, SumContext, pilot_rows, split_groups
from banditsis.sources.interactions import gram
from banditsis.sources.interactions.columns import BaseColumns, find_overflow
from banditsis.sources.interactions.features import PairCalibration, PairNames, PairOrder, calibrate_pairs
from banditsis.statistics.weights import Weights

BYTES_PER_SECOND = 30e9  # converts seconds of arithmetic to bytes


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
        self.block_rows, self.chunk = source.block_rows, (source.block_rows, 1)
        self.shuffled, self.stratum_sizes = source.shuffled, source.stratum_sizes
        self.names = PairNames(self.base.names, self.order)
        self.recipe = _recipe(main_effects, squares, center)

    def row_number(self, row: int) -> int:
        return self.base.source.row_number(row)

    def block_edges(self) -> Indices:
        return self.base.source.block_edges()

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None or isinstance(columns, slice):
            columns = np.arange(self.shape[1])[columns or slice(None)]
        used, first, second = self.order.used_columns(columns)
        block = np.ones((count_rows(rows), len(used) + 1), self.dtype)
        block[:, :-1] = self._read_base(rows, used)
        out = np.empty((len(block), len(columns)), self.dtype)
        kernels.interactions.multiply(block, first, second, out)
        return out

    def _read_base(self, rows: Rows, columns: Columns) -> Array:
        """Base columns, none of whose products overflows."""
        block = self.base.read(rows, columns)
        found = find_overflow(block, squares=self.order.lead == 0)
        if len(found):
            numbers = found if columns is None else columns[found]
            names = " and ".join(dict.fromkeys(repr(self.base.name(int(k))) for k in numbers))
            wider = "" if self.dtype == np.float64 else ", or pass X as float64"
            raise ValueError(f"products overflow {self.dtype}: rescale {names}{wider}.")
        return block

    def calibrate(self, rows: Rows) -> PairCalibration:
        """Shift columns, and the products whose variance unshifted sums would lose, by pilot means."""
        pilot = spread(rows, PILOT_ROWS) if self.block_rows == 1 else pilot_rows(self, rows)
        return calibrate_pairs(self.base.read(pilot).astype(np.float64), self.order, self.dtype)

    def add_sums(
        self, rows: Rows, edges: Indices, columns: Columns, weights: Weights, context: SumContext
    ) -> None:
        for g, group in split_groups(edges):
            some, part = take(rows, group.start, group.stop), weights.part(group)
            self._add_group(some, columns, part, context._replace(out=context.out[g]))

    def _add_group(self, rows: Rows, columns: Columns, weights: Weights, context: SumContext) -> None:
        """Add the sums of some rows, each feature in the way that is faster."""
        calibration, out, workers, tick = context
        assert isinstance(calibration, PairCalibration)
        by_pair = weights.n_presence > 0 or self._is_faster_by_pair(count_rows(rows), out.shape)
        chosen = np.arange(self.shape[1]) if columns is None else columns
        single = slice(None) if by_pair else self.order.single(columns, calibration.flat)
        used, first, second = self.order.used_columns(chosen[single])
        shift = calibration.shift[chosen[single]]
        triangle = None if by_pair else gram.Triangle.make(self.order, columns)
        single_sums = out[:, single]
        for run in self.base.runs(rows):
            part = weights.part(run)
            block = self._read_base(take(rows, run.start, run.stop), used if by_pair else None)
            if triangle is not None:
                gram.add_products(block.astype(calibration.dtype, copy=False), part, triangle, out, workers)
                block = block[:, used]
            if len(shift):
                gram.add_pairs(block, first, second, shift, part, single_sums, workers)
            tick(len(block) * out.shape[1])
        out[:, single] = single_sums

    def _is_faster_by_pair(self, n_rows: int, shape: tuple[int, ...]) -> bool:
        """Whether summing so few features one by one is faster than multiplying all columns."""
        n_lines, p = shape
        by_pair, by_product = gram.expected_seconds(n_rows, self.base.n_columns, p, self.dtype, n_lines)
        return by_pair < by_product

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """The time of the arithmetic, which costs more than reading, expressed in bytes."""
        seconds = min(gram.expected_seconds(n_rows, self.base.n_columns, n_columns, self.dtype))
        # Callers count scattered bytes twice, but the time does not depend on the order of rows.
        return BYTES_PER_SECOND * seconds / (2 if scattered else 1)


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
