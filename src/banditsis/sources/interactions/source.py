"""Columns and the products of any two of them, which are never built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from banditsis.arrays import Array, Columns, Floats, Indices, Rows, count_rows, spread, take
from banditsis.kernels import interactions as pairs
from banditsis.parallel import Workers
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Calibration, Source, SumContext, WeightFunction
from banditsis.sources.blocks import BlockSource
from banditsis.sources.calibration import PILOT_ROWS, summing_dtype
from banditsis.sources.interactions import gram
from banditsis.sources.interactions.calibration import PairCalibration, calibrate_pairs, list_pairs
from banditsis.sources.interactions.names import PairNames
from banditsis.sources.interactions.overflow import (
    column_maxima,
    find_suspects,
    has_large,
    large_rows,
    refuse_overflow,
)
from banditsis.statistics.base import Weights

# Seconds, measured on one core: a multiplication and addition of a matrix product in float32, taking a sum
# out of it; a pair of columns, a cell of such a pair, and a cell of a product that is built.
MULTIPLY, TAKE, PAIR, CELL, TILE_CELL = 2.3e-11, 1.5e-9, 1e-8, 2.3e-10, 2e-9
BYTES_A_SECOND = 30e9  # by which seconds are told as bytes
CELLS_AT_ONCE = 1 << 23  # of a block of base columns
BASE_ROWS = 256  # that a thread reads at once


class Interactions(BlockSource):
    r"""The columns of X and the products of any two of them, as features that are never built.

    The sums that a statistic needs of all pairs at once are matrix products over the sampled rows,

    .. math:: \sum_k x_{ki} x_{kj} w_k = [X^\top \operatorname{diag}(w) X]_{ij}, \qquad
              \sum_k x_{ki}^2 x_{kj}^2 = [(X \circ X)^\top (X \circ X)]_{ij}

    and those of a few pairs come from their two columns; the cheaper is taken. Features are ordered as by
    scikit-learn's PolynomialFeatures: the columns, then (0, 1), (0, 2), … (1, 2), ….

    Parameters
    ----------
    X : array-like of shape (n, m), frame, scipy.sparse matrix or Source
        The base columns; float32 is multiplied as float32.
    names : iterable of str, optional
        Names of the base columns. Products are called ``dark × comedy``.
    main_effects : bool
        Whether the columns themselves are features as well.
    squares : bool
        Whether the product of a column with itself is a feature.
    center : bool or array-like of shape (m,)
        Whether the mean over all rows is taken from each column first. Products of centred columns are other
        features with other scores: their correlation with y does not come from that of a single column.
        An array is what to take instead of the means: ``center=source.means`` makes the features of
        ``source`` of new rows.

    Attributes
    ----------
    means : ndarray of shape (m,) or None
        What is taken from each column; None if nothing is.

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
        main_effects: bool = True,
        squares: bool = False,
        center: bool | ArrayLike = False,
    ) -> None:
        self.base = _open(X, names)
        n, m = self.base.shape
        self.lead = 0 if squares else 1
        counts = np.arange(m, 0, -1) - self.lead
        start = m if main_effects else 0
        self.offsets = np.concatenate([[start], start + np.cumsum(counts)]).astype(np.intp)
        self.shape = (n, int(self.offsets[-1]))
        if self.shape[1] == 0:
            raise ValueError(f"X has {m} column(s), and there are no pairs of them: pass at least two.")
        self.dtype = summing_dtype(self.base.dtype)
        self.chunk, self.shuffled = (self.base.block_rows, 1), self.base.shuffled
        self.names = PairNames(self.base.names, self.offsets, self.lead)
        self.recipe = _recipe(main_effects, squares, center)
        if isinstance(center, bool | np.bool_):
            self.means = self._find_means() if center else None
        else:
            self.means = _check_means(center, m)

    def row_number(self, row: int) -> int:
        return self.base.row_number(row)

    def block_edges(self) -> Indices:
        return self.base.block_edges()

    def pairs(self, features: Indices) -> tuple[Indices, Indices]:
        """The two columns of each of some sorted features; the second of a column itself is m."""
        return list_pairs(features, self.offsets, self.lead)

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self._products(rows, columns, self.dtype)

    def _products(self, rows: Rows, columns: Columns | slice, dtype: np.dtype) -> Array:
        if columns is None or isinstance(columns, slice):
            columns = np.arange(*(columns or slice(None)).indices(self.shape[1]))
        used, first, second = self._used(columns)
        block = np.ones((count_rows(rows), len(used) + 1), dtype)
        block[:, :-1] = self._base_block(rows, used)
        out = np.empty((len(block), len(columns)), dtype)
        with np.errstate(over="ignore"):
            pairs.multiply(block, first, second, out)
        if has_large(column_maxima(block), self.dtype):
            refuse_overflow(self, rows, columns, (block, first, second), out)
        return out

    def _check_products(self, rows: Rows, used: Indices, block: Array, features: Indices | None) -> None:
        """Look at products of a block that is summed without building them, where its values are so large."""
        largest = np.ones(self.base.shape[1] + 1)
        largest[used] = column_maxima(block)
        if has_large(largest, self.dtype):
            features = np.arange(self.shape[1]) if features is None else features
            suspect = find_suspects(features, largest, self.pairs(features), self.dtype)
            self.read(large_rows(rows, block), suspect)

    def _used(self, features: Indices) -> tuple[Indices, Indices, Indices]:
        """The columns that features are made of, and the places of the two of each; that of 1 is the last."""
        first, second = self.pairs(features)
        mask = np.zeros(self.base.shape[1] + 1, bool)
        mask[first] = mask[second] = mask[-1] = True
        place = np.cumsum(mask) - 1
        return np.flatnonzero(mask[:-1]), place[first], place[second]

    def _base_block(self, rows: Rows, columns: Columns = None) -> Array:
        """Base columns of some rows, centred if they are to be."""
        if columns is not None and len(columns) == self.base.shape[1]:
            columns = None
        block = self.base.read(rows, columns)
        if self.means is not None:
            means = self.means if columns is None else self.means[columns]
            block = np.subtract(block, means, dtype=np.float64)
        return np.asarray(block, dtype=self.dtype)

    def _find_means(self) -> Floats:
        if self.shape[0] == 0:
            raise ValueError(
                "center=True needs the mean of every column, and X has no rows: pass the means of the rows "
                "that a selector was fitted on (center=source.means), or center=False."
            )
        total = np.zeros(self.base.shape[1])
        low, high = np.full((2, len(total)), np.inf) * [[1], [-1]]
        for run in self._runs_of_base(slice(0, self.shape[0])):
            block = self.base.read(run, None)
            total += block.sum(axis=0, dtype=np.float64)
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        if not np.isfinite(total).all():
            name = self.base.name(int(np.argmax(~np.isfinite(total))))
            raise ValueError(
                f"center=True needs the mean of every column, and column {name!r} has values that are not "
                "finite: drop or replace them, or centre the columns before."
            )
        # The exact value of a constant, so that it becomes exactly 0.
        return np.where(low == high, low, total / self.shape[0]).astype(np.float64)

    def calibrate(self, rows: Rows) -> PairCalibration:
        """Shift columns, and the products whose variance plain sums would lose, by means of pilot rows."""
        near = rows if self.block_rows == 1 else take(rows, 0, max(PILOT_ROWS, self.block_rows))
        block = self._base_block(spread(near, PILOT_ROWS)).astype(np.float64)
        return calibrate_pairs(block, self.offsets, self.lead, self.dtype)

    def sums(self, rows: Rows, columns: Columns, weights: WeightFunction, context: SumContext) -> None:
        calibration, out, workers, tick = context
        assert isinstance(calibration, PairCalibration)
        kind = weights(take(rows, 0, 1))
        plain = not kind.pairwise and kind.codes is None and kind.square is None
        few = kind.pairwise or self._few(count_rows(rows), out.shape, kind)
        if few and not plain:
            super().sums(rows, columns, weights, context)
            return
        apart = np.arange(out.shape[1]) if few else self._apart(columns, calibration.flat)
        listed = apart if columns is None else columns[apart]
        sums_apart = out[:, apart]
        self._add_blocks(
            rows,
            None if few else self._triangle(columns),
            listed if plain else listed[:0],
            weights,
            calibration,
            (out, sums_apart),
            workers,
            tick,
        )
        if len(apart) and not plain:
            super().sums(rows, listed, weights, SumContext(calibration, sums_apart, workers))
        out[:, apart] = sums_apart

    def _few(self, n_rows: int, shape: tuple[int, int], kind: Weights) -> bool:
        """Whether so few pairs are left that their columns, one by one, take less time than all products."""
        n_lines, p = shape
        by_class = kind.codes is not None
        cell = TILE_CELL if by_class else CELL * n_lines / 3
        return self._pair_seconds(n_rows, p, cell) < self._product_seconds(n_rows, p, n_lines, by_class)

    def _pair_seconds(self, n_rows: int, n_pairs: int, cell: float = CELL) -> float:
        return n_pairs * (PAIR * -(-n_rows // gram.PAIR_ROWS) + cell * n_rows)

    def _product_seconds(self, n_rows: int, n_pairs: int, n_lines: int, by_class: bool = False) -> float:
        flops = n_rows * self.base.shape[1] ** 2 / 2 * (2 if by_class else n_lines)
        taken = n_lines if by_class else n_lines * -(-n_rows // gram.ROWS[self.dtype.itemsize])
        return flops * MULTIPLY * self.dtype.itemsize / 4 + taken * n_pairs * TAKE

    def _apart(self, columns: Columns, flat: Indices) -> Indices:
        """Places of the features that no product of matrices gives: columns themselves, and shifted ones."""
        if columns is None:
            return np.concatenate([np.arange(self.offsets[0]), flat])
        n_main = int(np.searchsorted(columns, self.offsets[0]))
        places = np.flatnonzero(np.isin(columns[n_main:], flat, assume_unique=True)) if len(flat) else flat
        return np.concatenate([np.arange(n_main), n_main + places])

    def _triangle(self, columns: Columns) -> gram.Triangle:
        if columns is None:
            return gram.Triangle(self.offsets, self.lead)
        n_main = int(np.searchsorted(columns, self.offsets[0]))
        return gram.Triangle(self.offsets, self.lead, n_main, *self.pairs(columns[n_main:]))

    def _add_blocks(
        self,
        rows: Rows,
        triangle: gram.Triangle | None,
        features: Indices,
        weights: WeightFunction,
        calibration: PairCalibration,
        out: tuple[Floats, Floats],
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        """Read base columns once; add products of matrices to one, and those of some features to another."""
        used, first, second = self._used(features)
        scale, shift = calibration.base_scale, calibration.shift[features]
        needed = used if triangle is None else np.arange(self.base.shape[1])
        for run in self._runs_of_base(rows):
            block, w = self._read_block(run, needed, workers), weights(run)
            self._check_products(run, needed, block, features if triangle is None else None)
            if triangle is not None:
                x = block.astype(calibration.compute, copy=False)
                x = x if (scale == 1).all() else np.multiply(x, scale[:-1], dtype=x.dtype)
                gram.add_products(x, w, triangle, out[0], workers)
            if len(features):
                some = block if len(used) == block.shape[1] else block[:, used]
                gram.add_pairs(some, scale[used], w, first, second, shift, out[1], workers)
            tick(len(block) * out[0].shape[1])

    def _runs_of_base(self, rows: Rows) -> Iterator[Rows]:
        """Runs of about the same length, in blocks that fit in memory, and hold what is stored together."""
        n, least = count_rows(rows), max(1, CELLS_AT_ONCE // self.base.shape[1])
        height = max(least, min(self.block_rows, 8 * least))
        step = -(-n // max(1, -(-n // height)))
        for i in range(0, n, step):
            yield take(rows, i, i + step)

    def _read_block(self, rows: Rows, columns: Indices, workers: Workers) -> Array:
        """Base columns of some rows, read by all threads."""
        block = np.empty((count_rows(rows), len(columns)), self.dtype)
        step = max(BASE_ROWS, min(self.block_rows, len(block)))

        def fill(i: int) -> None:
            block[i : i + step] = self._base_block(take(rows, i, i + step), columns)

        workers.run([(fill, i) for i in range(0, len(block), step)])
        return block

    def _add(
        self,
        rows: Rows,
        columns: Indices | slice,
        place: slice,
        weights: Weights,
        calibration: Calibration,
        part: Floats,
    ) -> None:
        """Sum a tile of products that are built, in float64 so that they are what their shift is made of."""
        block = ArraySource(self._products(rows, columns, np.dtype(np.float64)))
        moved = Calibration(calibration.shift[columns], np.array(calibration.scale[columns]))
        block.sums(slice(0, block.shape[0]), None, weights.part, SumContext(moved, part, Workers(1)))

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """What reading so much costs, told as bytes: products wait for arithmetic, not for memory."""
        seconds = min(self._pair_seconds(n_rows, n_columns), self._product_seconds(n_rows, n_columns, 3))
        # Scattered bytes count twice where they are compared, and products do not care where rows lie.
        return BYTES_A_SECOND * seconds / (2 if scattered else 1)


def _recipe(main_effects: bool, squares: bool, center: bool | ArrayLike) -> str:
    """The call that makes these features, as code; means that were given are called ``means``."""
    centred = isinstance(center, bool | np.bool_)
    options = {
        "main_effects=False": not main_effects,
        "squares=True": squares,
        "center=True": centred and center,
        "center=means": not centred,
    }
    return f"Interactions({', '.join(['X', *(option for option, given in options.items() if given)])})"


def _check_means(center: ArrayLike, m: int) -> Floats:
    means = np.array(center, dtype=np.float64)
    if means.shape != (m,):
        raise ValueError(
            f"center must be True, False or a mean for each of the {m:,} columns, got an array of shape "
            f"{means.shape}."
        )
    if not np.isfinite(means).all():
        raise ValueError(f"center must have finite means, got {means[~np.isfinite(means)][0]}.")
    return means


def _open(X: Any, names: Iterable[str] | None) -> Source:
    from banditsis.formats.opening import is_sparse, open_source

    names = None if names is None else list(names)
    source = open_source(
        X.tocsr() if is_sparse(X) else X, names
    )  # by row, since all columns of rows are read
    if names is not None and source.names is not names:  # of a source that has names, or none, of its own
        if len(names) != source.shape[1]:
            raise ValueError(f"got {len(names):,} names for {source.shape[1]:,} columns.")
        source = copy(source)
        source.names = names
    return source
