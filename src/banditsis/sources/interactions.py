"""Columns and the products of any two of them, as features that are never stored."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices, Rows, as_indices, count_rows, spread
from banditsis.core.parallel import Workers, count_jobs
from banditsis.core.validation import is_on_gpu, to_memory
from banditsis.sources.array import check_names
from banditsis.sources.base import PILOT_ROWS, Calibration, SumContext, calibrate, pilot_rows, summing_dtype
from banditsis.sources.blocks import BlockSource, add_block
from banditsis.statistics.weights import Weights

BASE_CELLS = 1 << 24  # of the columns that are multiplied


class PairOrder(NamedTuple):
    """The order of the features: the m columns if they are features, then products row by row.

    ``offsets[i]`` is the first product of column i, with column ``i + lead`` as its second factor;
    ``offsets[m]`` is the number of features.
    """

    offsets: Indices
    lead: int

    @classmethod
    def make(cls, m: int, main_effects: bool, squares: bool) -> PairOrder:
        """The order of the features that m columns give."""
        lead, start = 0 if squares else 1, m if main_effects else 0
        return cls(start + np.concatenate([[0], np.cumsum(np.arange(m, 0, -1) - lead)]).astype(np.intp), lead)

    def factors(self, features: Indices) -> tuple[Indices, Indices]:
        """The two columns of each of some features; a column itself is paired with column m, which holds 1.

        Examples
        --------
        >>> PairOrder.make(3, main_effects=True, squares=False).factors(np.arange(1, 6))
        (array([1, 2, 0, 0, 1]), array([3, 3, 1, 2, 2]))
        """
        first = np.searchsorted(self.offsets, features, side="right") - 1
        second = features - self.offsets[first] + first + self.lead
        is_product = features >= self.offsets[0]
        return np.where(is_product, first, features), np.where(is_product, second, len(self.offsets) - 1)


class PairNames(Sequence[str]):
    """Names of the features, made on demand; they do not keep the data alive."""

    def __init__(self, base: Sequence[str] | None, order: PairOrder) -> None:
        self.base, self.order = base, order

    def __len__(self) -> int:
        return int(self.order.offsets[-1])

    def __getitem__(self, feature: Any) -> Any:
        if isinstance(feature, slice):
            return [self[k] for k in range(*feature.indices(len(self)))]
        k = range(len(self))[feature]
        offsets, lead = self.order
        if k < offsets[0]:
            return self._base_name(k)
        first = bisect_right(offsets, k) - 1
        second = k - int(offsets[first]) + first + lead
        name = self._base_name(first)
        return f"{name}²" if first == second else f"{name} × {self._base_name(second)}"

    def _base_name(self, column: int) -> str:
        return f"x{column}" if self.base is None else str(self.base[column])


class Interactions(BlockSource):
    r"""The columns of X and the products of any two of them, as features that are never stored.

    Products are computed a few hundred features and rows at a time, in the cache, and summed like any other
    columns. Features are ordered as by scikit-learn's PolynomialFeatures: the columns, then (0, 1), (0, 2), …
    (1, 2), ….

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

    cells_at_once = 1 << 20

    def __init__(
        self,
        X: Any,
        names: Iterable[str] | None = None,
        *,
        main_effects: bool = True,
        squares: bool = False,
        center: bool | ArrayLike = False,
    ) -> None:
        from banditsis.formats.opening import is_sparse, open_source  # formats import sources

        # All columns of some rows are read, so a sparse matrix is stored by row.
        X = X.tocsr() if is_sparse(X) else to_memory(X) if is_on_gpu(X) else X
        self.source = source = open_source(X)
        n, m = source.shape
        base_names = source.names if names is None else check_names(list(names), m)
        self.order = PairOrder.make(m, main_effects, squares)
        self.names, self.shape = PairNames(base_names, self.order), (n, int(self.order.offsets[-1]))
        if self.shape[1] == 0:
            raise ValueError(f"X has {m} column(s), which give no pairs: pass at least two columns.")
        self.dtype = summing_dtype(source.dtype)
        self.chunk = min(source.block_rows, max(1, BASE_CELLS // m)), 1
        self.shuffled, self.stratum_sizes = source.shuffled, source.stratum_sizes
        given = not isinstance(center, bool | np.bool_)
        options = {
            "main_effects=False": not main_effects,
            "squares=True": squares,
            "center=True": not given and center,
            "center=means": given,
        }
        self.recipe = f"Interactions({', '.join(['X', *filter(options.get, options)])})"
        if given:
            self.means = _check_means(center, m)
        elif center:
            self.means = self._compute_means(base_names)

    def _compute_means(self, base_names: Sequence[str] | None) -> Floats:
        n, m = self.source.shape
        if n == 0:
            raise ValueError(
                "center=True needs the mean of every column, but X has no rows: pass the means of the rows "
                "that a selector was fitted on (center=source.means), or center=False."
            )
        calibration, sums = self.source.calibrate(slice(0, n)), np.zeros((1, 3, m))
        with Workers(count_jobs(None)) as workers:
            context, weights = SumContext(calibration, sums, workers), Weights.of(np.zeros((n, 1)))
            self.source.add_sums(slice(0, n), np.array([0, n]), None, weights, context)
        # Constant columns are shifted by their value, so they become exactly 0.
        means = (calibration.shift + sums[0, 0] / n) / calibration.scale
        if not np.isfinite(means).all():
            column = int(np.argmax(~np.isfinite(means)))
            name = f"x{column}" if base_names is None else str(base_names[column])
            raise ValueError(
                f"center=True needs the mean of every column, but column {name!r} has values that are not "
                "finite: drop or replace them, or centre the columns before."
            )
        return np.asarray(means, np.float64)

    @property
    def block_rows(self) -> int:  # type: ignore[override]
        """Rows of a block of the columns."""
        return self.source.block_rows

    def row_number(self, row: int) -> int:
        return self.source.row_number(row)

    def block_edges(self) -> Indices:
        return self.source.block_edges()

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        if columns is None or isinstance(columns, slice):
            columns = np.arange(self.shape[1])[columns or slice(None)]
        return self._multiply(self._read_base(rows, columns), columns)

    def _read_base(self, rows: Rows, features: Indices | slice) -> Array:
        """The columns that some features are made of, one after the other, and a column of ones."""
        n_columns = self.source.shape[1]
        used = np.arange(n_columns)
        if not isinstance(features, slice):
            used = np.intersect1d(used, self.order.factors(features))
        base = np.empty((n_columns + 1, count_rows(rows)), self.dtype)  # others are never touched
        part = self.source.read(rows, None if len(used) == n_columns else used).T
        base[used] = part if self.means is None else part - self.means[used, None]
        base[-1] = 1
        return base

    def _multiply(self, base: Array, features: Indices) -> Array:
        """Some features, from :meth:`_read_base`; the cells of a feature are contiguous."""
        block = np.empty((len(features), base.shape[1]), self.dtype)
        kernels.interactions.multiply(base, *self.order.factors(features), block)
        return block.T

    def calibrate(self, rows: Rows) -> Calibration:
        pilot = spread(rows, PILOT_ROWS) if self.block_rows == 1 else pilot_rows(self, rows)
        base = self._read_base(pilot, slice(0, self.shape[1]))
        return calibrate(
            self, rows, pilot, self.dtype, read_pilot=lambda some: self._multiply(base, as_indices(some))
        )

    def _prepare(self, rows: Rows, columns: Indices | slice, weights: Weights) -> Any:
        return weights, self._read_base(rows, columns)

    def _add(
        self,
        rows: Rows,
        columns: Indices | slice,
        prepared: Any,
        calibration: Calibration,
        out: Floats,
        start: int,
    ) -> None:
        weights, base = prepared
        add_block(self._multiply(base, as_indices(columns)), weights, calibration, out, start)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """Those of the products, because multiplying takes longer than reading."""
        # Callers count scattered bytes twice, but the time does not depend on the order of rows.
        return n_rows * n_columns * self.dtype.itemsize / (2 if scattered else 1)


def _check_means(center: ArrayLike, m: int) -> Floats:
    means = np.array(center, dtype=np.float64)
    gaps = "" if np.isfinite(means).all() else " with NaN or infinity"
    if means.shape != (m,) or gaps:
        raise ValueError(
            f"center must be True, False or a finite mean for each of the {m:,} columns, got an array{gaps} "
            f"of shape {means.shape}."
        )
    return means
