"""Columns and the products of any two of them, which are never built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from banditsis._typing import Array, Columns, Floats, Indices, Rows
from banditsis.kernels import pairs
from banditsis.parallel import Workers
from banditsis.sampling import count_rows, spread, take
from banditsis.sources import gram
from banditsis.sources.array import ArraySource
from banditsis.sources.base import Calibration, Source
from banditsis.sources.blocks import BlockSource, ignore
from banditsis.sources.calibration import PILOT_ROWS, summing_dtype
from banditsis.statistics.base import Weights

# Seconds, measured on one core: a multiplication and addition of a matrix product in float32, taking a sum
# out of it; a pair of columns, a cell of such a pair, and a cell of a product that is built.
MULTIPLY, TAKE, PAIR, CELL, TILE_CELL = 2.3e-11, 1.5e-9, 1e-8, 2.3e-10, 2e-9
BYTES_A_SECOND = 30e9  # by which seconds are told as bytes
CELLS_AT_ONCE = 1 << 23  # of a block of base columns
BASE_ROWS = 256  # that a thread reads at once
PAIRS_AT_ONCE = 1 << 13
PILOT_PANEL = 128
PAIR_ROWS = 512  # of columns that are gathered: so many stay in the cache
# The least share of its mean square that the variance of a product may be, for plain sums to show it.
LEAST_VARIANCE = {4: 5e-3, 8: 1e-5}
# Exponents of two between which fourth powers, and sums of them, neither overflow nor vanish.
SAFE_EXPONENT = {4: 10, 8: 100}


@dataclass(frozen=True)
class PairCalibration(Calibration):
    """Shift and scale of features, and what they come from.

    Attributes
    ----------
    base_scale : ndarray of shape (m,)
        Scale of the base columns.
    flat : ndarray of int
        The features that are shifted, since their variance is lost in plain sums.
    compute : dtype
        In which matrix products are taken.
    """

    base_scale: Floats
    flat: Indices
    compute: np.dtype


class PairNames(Sequence[str]):
    """Names of features, made when they are asked for."""

    def __init__(self, source: Interactions) -> None:
        self.source = source

    def __len__(self) -> int:
        return self.source.shape[1]

    @overload
    def __getitem__(self, feature: int) -> str: ...
    @overload
    def __getitem__(self, feature: slice) -> list[str]: ...
    def __getitem__(self, feature: int | slice) -> str | list[str]:
        if isinstance(feature, slice):
            return [self[k] for k in range(*feature.indices(len(self)))]
        k = int(feature) + (len(self) if feature < 0 else 0)
        if not 0 <= k < len(self):
            raise IndexError(f"feature {feature} of {len(self):,}.")
        first, second = (int(side[0]) for side in self.source.pairs(np.array([k])))
        base = self.source.base
        if second == base.shape[1]:
            return base.name(first)
        return f"{base.name(first)}²" if first == second else f"{base.name(first)} × {base.name(second)}"


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
    names : sequence of str, optional
        Names of the base columns. Products are called ``dark × comedy``.
    main_effects : bool
        Whether the columns themselves are features as well.
    squares : bool
        Whether the product of a column with itself is a feature.
    center : bool
        Whether the mean over all rows is taken from each column first. Products of centred columns are other
        features with other scores: their correlation with y does not come from that of a single column.

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

    multiplies = True

    def __init__(
        self,
        X: Any,
        names: Sequence[str] | None = None,
        main_effects: bool = True,
        squares: bool = False,
        center: bool = False,
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
        self.names = PairNames(self)
        self.means = self._find_means() if center else None

    def row_number(self, row: int) -> int:
        return self.base.row_number(row)

    def pairs(self, features: Indices) -> tuple[Indices, Indices]:
        """The two columns of each of some sorted features; the second of a column itself is m."""
        first, second = np.empty((2, len(features)), np.intp)
        pairs.find_pairs(features, self.offsets, self.lead, first, second)
        return first, second

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        return self._products(rows, columns, self.dtype)

    def _products(self, rows: Rows, columns: Columns | slice, dtype: np.dtype) -> Array:
        if columns is None or isinstance(columns, slice):
            columns = np.arange(*(columns or slice(None)).indices(self.shape[1]))
        used, first, second = self._used(columns)
        block = np.ones((count_rows(rows), len(used) + 1), dtype)
        block[:, :-1] = self._base_block(rows, used if len(used) < self.base.shape[1] else None)
        out = np.empty((len(block), len(columns)), dtype)
        pairs.multiply(block, first, second, out)
        return out

    def _used(self, features: Indices) -> tuple[Indices, Indices, Indices]:
        """The columns that features are made of, and the places of the two of each; that of 1 is the last."""
        first, second = self.pairs(features)
        mask = np.zeros(self.base.shape[1] + 1, bool)
        mask[first] = mask[second] = True
        mask[-1] = True
        place = np.cumsum(mask) - 1
        return np.flatnonzero(mask[:-1]), place[first], place[second]

    def _base_block(self, rows: Rows, columns: Columns) -> Array:
        """Base columns of some rows, centred if they are to be."""
        block = self.base.read(rows, columns)
        if self.means is None:
            return block
        return np.subtract(block, self.means if columns is None else self.means[columns], dtype=np.float64)

    def _find_means(self) -> Floats:
        n, m = self.base.shape
        total = np.zeros(m)
        step = max(1, CELLS_AT_ONCE // m)
        for i in range(0, n, step):
            total += self.base.read(slice(i, min(i + step, n)), None).sum(axis=0, dtype=np.float64)
        if not np.isfinite(total).all():
            name = self.base.name(int(np.argmax(~np.isfinite(total))))
            raise ValueError(
                f"center=True needs the mean of every column, and column {name!r} has values that are not "
                "finite: drop or replace them, or centre the columns before."
            )
        return total / n

    def calibrate(self, rows: Rows) -> PairCalibration:
        """Shift columns, and the products whose variance plain sums would lose, by means of pilot rows."""
        pilot = spread(rows, PILOT_ROWS)
        block = np.ones((len(pilot), self.base.shape[1] + 1))
        block[:, :-1] = self._base_block(pilot, None)
        reach = np.abs(np.where(np.isfinite(block), block, 0.0)).max(axis=0)
        exponent = np.clip(np.frexp(reach)[1], -250, 250)
        unsafe = np.abs(exponent) > SAFE_EXPONENT[self.dtype.itemsize]
        base_scale = np.where(unsafe, np.ldexp(1.0, -exponent), 1.0)
        block *= base_scale
        compute = self.dtype
        flat = self._find_flat(block[:, :-1], compute)
        if compute == np.float32 and len(flat) > self.shape[1] // 100:
            compute = np.dtype(np.float64)
            flat = self._find_flat(block[:, :-1], compute)
        scale = np.broadcast_to(1.0, self.shape[1:])
        if unsafe.any():
            first, second = self.pairs(np.arange(self.shape[1]))
            scale = base_scale[first] * base_scale[second]
        shift = np.zeros(self.shape[1])
        moved = np.concatenate([np.arange(self.offsets[0]), flat])
        for i in range(0, len(moved), PAIRS_AT_ONCE):
            some = moved[i : i + PAIRS_AT_ONCE]
            shift[some] = _means_of_products(block, *self.pairs(some))
        return PairCalibration(shift, scale, base_scale, flat, compute)

    def _find_flat(self, block: Floats, compute: np.dtype) -> Indices:
        """The products that vary so little around their mean that their variance is lost in plain sums."""
        least = LEAST_VARIANCE[compute.itemsize]
        squares = block * block
        found, n_found = np.empty(0, np.intp), 0
        for repeat in range(2):  # count, then list
            if repeat:
                if n_found == 0:
                    break
                found, n_found = np.empty(n_found, np.intp), 0
            for top in range(0, block.shape[1], PILOT_PANEL):
                panel = slice(top, top + PILOT_PANEL)
                mean, square = (x[:, panel].T @ x[:, top:] / len(x) for x in (block, squares))
                n_found = pairs.find_flat(mean, square, top, self.offsets, self.lead, least, found, n_found)
        return found

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
        assert isinstance(calibration, PairCalibration)
        kind = weights(take(rows, 0, 1))
        plain = not kind.pairwise and kind.codes is None and getattr(kind, "square", None) is None
        by_pair = self._add_pairs if plain else super().sums
        if kind.pairwise or self._is_sparse(count_rows(rows), out.shape, kind):
            by_pair(rows, columns, weights, calibration, out, workers, tick)
            return
        apart = self._apart(columns, calibration.flat)
        sums_apart = out[:, apart]
        self._add_all(rows, columns, weights, calibration, out, workers, tick)
        if len(apart):
            listed = apart if columns is None else columns[apart]
            by_pair(rows, listed, weights, calibration, sums_apart, workers, ignore)
            out[:, apart] = sums_apart

    def _is_sparse(self, n_rows: int, shape: tuple[int, int], kind: Weights) -> bool:
        """Whether so few pairs are left that their columns, one by one, take less time than all products."""
        n_lines, p = shape
        cell = CELL * n_lines / 3 if kind.codes is None else TILE_CELL
        return p * (PAIR * -(-n_rows // PAIR_ROWS) + cell * n_rows) < self._seconds(n_rows, p, n_lines, kind)

    def _seconds(self, n_rows: int, n_pairs: int, n_lines: int, kind: Weights | None = None) -> float:
        """What matrix products take on one core."""
        by_class = kind is not None and kind.codes is not None
        flops = n_rows * self.base.shape[1] ** 2 / 2 * (2 if by_class else n_lines)
        taken = n_lines if by_class else n_lines * -(-n_rows // gram.ROWS[self.dtype.itemsize])
        return flops * MULTIPLY * self.dtype.itemsize / 4 + taken * n_pairs * TAKE

    def _apart(self, columns: Columns, flat: Indices) -> Indices:
        """Places of the features that no product of matrices gives: columns themselves, and shifted ones."""
        if columns is None:
            return np.concatenate([np.arange(self.offsets[0]), flat])
        places = np.searchsorted(columns, flat)
        places = places[places < len(columns)]
        places = places[np.isin(columns[places], flat)]
        return np.concatenate([np.arange(np.searchsorted(columns, self.offsets[0])), places])

    def _add_all(
        self,
        rows: Rows,
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: PairCalibration,
        out: Floats,
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        """Add the sums of pairs by matrix products."""
        triangle = gram.Triangle(self.offsets, self.lead)
        place = slice(0, out.shape[1])
        if columns is not None:
            place = slice(int(np.searchsorted(columns, self.offsets[0])), len(columns))
            triangle = gram.Triangle(self.offsets, self.lead, *self.pairs(columns[place]))
        for run in _runs(rows, CELLS_AT_ONCE // self.base.shape[1]):
            block = self._scaled_block(run, calibration, workers)
            gram.add_products(block, weights(run), triangle, out[:, place], workers)
            tick(len(block) * out.shape[1])

    def _scaled_block(self, rows: Rows, calibration: PairCalibration, workers: Workers) -> Array:
        """All base columns of some rows, in the dtype of matrix products."""
        block = np.empty((count_rows(rows), self.base.shape[1]), calibration.compute)
        scale = None if (calibration.base_scale == 1).all() else calibration.base_scale[:-1]

        def fill(i: int) -> None:
            part = block[i : i + BASE_ROWS]
            part[...] = self._base_block(take(rows, i, i + BASE_ROWS), None)
            if scale is not None:
                part *= scale

        workers.run([(fill, i) for i in range(0, len(block), BASE_ROWS)])
        return block

    def _add_pairs(
        self,
        rows: Rows,
        columns: Columns,
        weights: Callable[[Rows], Weights],
        calibration: Calibration,
        out: Floats,
        workers: Workers,
        tick: Callable[[int], None],
    ) -> None:
        """Add the sums of pairs from their two columns, in float64."""
        assert isinstance(calibration, PairCalibration)
        features = np.arange(self.shape[1]) if columns is None else columns
        used, first, second = self._used(features)
        shift, scale = calibration.shift[features], calibration.base_scale[used, None]
        places = [slice(i, i + PAIRS_AT_ONCE) for i in range(0, len(features), PAIRS_AT_ONCE)]
        for run in _runs(rows, PAIR_ROWS):
            w = np.ascontiguousarray(weights(run).linear.T)
            base = np.ones((len(used) + 1, w.shape[1]))
            base[:-1] = self._base_block(run, used if len(used) < self.base.shape[1] else None).T
            base[:-1] *= scale
            workers.run([(_add_moments, base, first[k], second[k], shift[k], w, out[:, k]) for k in places])
            tick(w.shape[1] * len(features))

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
        block.sums(slice(0, block.shape[0]), None, weights.part, moved, part, Workers(1), ignore)

    def bytes_touched(self, n_rows: int, n_columns: int, *, scattered: bool) -> float:
        """What reading so much costs, told as bytes: products wait for arithmetic, not for memory."""
        pairwise = n_columns * (PAIR * -(-n_rows // PAIR_ROWS) + CELL * n_rows)
        seconds = min(pairwise, self._seconds(n_rows, n_columns, 3))
        # Scattered bytes count twice where they are compared, and products do not care where rows lie.
        return BYTES_A_SECOND * seconds / (2 if scattered else 1)


class SparseBase(BlockSource):
    """A scipy.sparse matrix as base columns: dense blocks of it."""

    def __init__(self, matrix: Any, names: Sequence[str] | None) -> None:
        self.matrix, self.shape, self.dtype = matrix.tocsr(), matrix.shape, matrix.dtype
        self.names = check_names(names, matrix.shape[1])

    def read(self, rows: Rows, columns: Columns | slice) -> Array:
        part = self.matrix[rows]
        block: Array = (part if columns is None else part[:, columns]).toarray()
        return block


def _open(X: Any, names: Sequence[str] | None) -> Source:
    from banditsis.sources import open_source

    if hasattr(X, "tocsr") and hasattr(X, "nnz"):
        return SparseBase(X, names)
    source = open_source(X, names)
    if names is not None and source.names is not names:  # of a source that has names, or none, of its own
        source = copy(source)
        source.names = check_names(names, source.shape[1])
    return source


def check_names(names: Sequence[str] | None, m: int) -> Sequence[str] | None:
    """Return the names if there is one for each column."""
    if names is not None and len(names) != m:
        raise ValueError(f"got {len(names):,} names for {m:,} columns.")
    return names


def _runs(rows: Rows, height: int) -> Iterator[Rows]:
    """Runs of at most so many rows, of about the same length."""
    n = count_rows(rows)
    step = -(-n // max(1, -(-n // max(1, height))))
    for i in range(0, n, step):
        yield take(rows, i, i + step)


def _means_of_products(block: Floats, first: Indices, second: Indices) -> Floats:
    """Means of the finite values; exact where they are all the same, so that these become exactly 0."""
    products = np.empty((len(block), len(first)))
    pairs.multiply(block, first, second, products)
    finite = np.isfinite(products)
    low = np.where(finite, products, np.inf).min(axis=0)
    high = np.where(finite, products, -np.inf).max(axis=0)
    mean: Floats = np.where(finite, products, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    mean[low == high] = low[low == high]
    return mean


def _add_moments(
    base: Floats, first: Indices, second: Indices, shift: Floats, w: Floats, out: Floats
) -> None:
    if len(w) == 1:
        pairs.moments(base, first, second, shift, w, out)
    else:
        pairs.moments_of_many(base, first, second, shift, w, np.empty(w.shape[1]), out)
