"""Products of pairs of columns: their order, names, calibration and sums, together or one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices, chunks
from banditsis.core.parallel import Workers, map_in_threads
from banditsis.sources.base import Calibration
from banditsis.statistics.moments import Weights

# The smallest variance of a product, as a share of its mean square, that unshifted sums can resolve.
MIN_VARIANCE = {4: 5e-3, 8: 1e-5}
# Largest absolute binary exponent of cells at which sums of squares of products stay in the range of float32.
SAFE_EXPONENT = 28
#: Columns whose products are calibrated at once, and products.
PILOT_PANEL, PRODUCTS_AT_ONCE = 128, 1 << 13
#: Columns of a panel of Xᵀ diag(w) X. A panel is multiplied with all columns from its first on, so only the
#: pairs within a panel are computed twice.
PANEL = 96
#: Rows of one product, by bytes of a cell (float32 loses digits over more rows), and its lines of weights.
ROWS, LINES = {4: 1000, 8: 2000}, 16
#: Rows of the pairs that are summed one by one, which fit in the cache, and pairs that keep a thread busy.
PAIR_ROWS, PAIRS_PER_JOB = 512, 1 << 13
#: Rows that a thread squares at once.
SQUARED_ROWS = 256
# Measured seconds on one core: a multiplication and addition of a float32 matrix product, taking a sum from
# it; a pair that is summed by itself, and each of its cells.
MULTIPLY, TAKE, PAIR, CELL = 2.3e-11, 1.5e-9, 1e-8, 2.3e-10


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
        """The two columns of each of some sorted features; a column itself is paired with column m."""
        m = len(self.offsets) - 1
        counts = np.diff(np.searchsorted(features, self.offsets))
        main = features[: len(features) - counts.sum()]
        to_second = np.arange(m) + self.lead - self.offsets[:-1]
        first = np.concatenate([main, np.repeat(np.arange(m), counts)])
        second = np.concatenate([np.full_like(main, m), features[len(main) :] + np.repeat(to_second, counts)])
        return first, second

    def used_columns(self, features: Indices) -> tuple[Indices, Indices, Indices]:
        """The base columns of some features, and both factors as positions in them and a column of ones."""
        first, second = self.factors(features)
        mask = np.zeros(len(self.offsets), bool)
        mask[first] = mask[second] = mask[-1] = True
        position = np.cumsum(mask) - 1
        return np.flatnonzero(mask[:-1]), position[first], position[second]

    def single(self, columns: Columns, flat: Indices) -> Indices:
        """Positions of the features that no matrix product sums: columns themselves, and flat products."""
        alone = np.concatenate([np.arange(self.offsets[0]), flat])
        if columns is None:
            return alone
        positions = np.searchsorted(columns, alone)
        return np.asarray(positions[columns.take(positions, mode="clip") == alone])


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


#: Products out of range become infinite or NaN, which is reported after the sums.
_may_overflow = np.errstate(over="ignore", invalid="ignore")


@dataclass(frozen=True)
class PairCalibration(Calibration):
    """Shift and scale of the features."""

    #: the products that must be shifted because unshifted sums would lose their variance
    flat: Indices
    #: the dtype of matrix products
    dtype: np.dtype


@_may_overflow
def calibrate_pairs(block: Floats, order: PairOrder, dtype: np.dtype) -> PairCalibration:
    """Calibrate all features from pilot rows of base columns; products are shifted only if needed."""
    p = int(order.offsets[-1])
    finite = np.isfinite(block)
    if not finite.all():
        means = np.where(finite, block, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
        block = np.where(finite, block, means)
    if (np.abs(np.frexp(block)[1]) > SAFE_EXPONENT).any():
        dtype = np.dtype(np.float64)
    flat = _find_flat(block.astype(dtype), order)
    if dtype == np.float32 and len(flat) > p // 100:
        dtype = np.dtype(np.float64)
        flat = _find_flat(block, order)
    block, shift = np.column_stack([block, np.ones(len(block))]), np.zeros(p)
    shifted = np.concatenate([np.arange(order.offsets[0]), flat])
    for i in range(0, len(shifted), PRODUCTS_AT_ONCE):
        features = shifted[i : i + PRODUCTS_AT_ONCE]
        shift[features] = _means(block, *order.factors(features))
    return PairCalibration(shift, np.broadcast_to(1.0, (p,)), flat, dtype)


def _find_flat(block: Array, order: PairOrder) -> Indices:
    """The products whose variance is lost in unshifted sums in the dtype of the block."""
    variable, squares = 1 - MIN_VARIANCE[block.dtype.itemsize], np.square(block)

    @_may_overflow
    def find(top: int) -> Indices:
        mean, square = (x[:, top : top + PILOT_PANEL].T @ x[:, top:] / len(x) for x in (block, squares))
        flat = np.square(mean, out=mean) > np.multiply(square, variable, out=square)
        if not flat.any():
            return np.empty(0, np.intp)
        first, second = np.nonzero(np.triu(flat, order.lead))
        return order.offsets[top + first] + second - first - order.lead

    return np.concatenate(map_in_threads(find, range(0, block.shape[1], PILOT_PANEL), 2))


def _means(block: Floats, first: Indices, second: Indices) -> Floats:
    """Means of products; exact for constant products, which then become exactly 0."""
    products = np.empty((len(block), len(first)))
    kernels.interactions.multiply(block, first, second, products)
    constant = (products == products[0]).all(axis=0)
    return np.asarray(np.where(constant, products[0], products.mean(axis=0)))


def expected_seconds(
    n_rows: int, m: int, n_features: int, dtype: np.dtype, n_lines: int = 3
) -> tuple[float, float]:
    """Expected times to sum some features of m columns one by one, and by matrix products of all columns."""
    one_by_one = n_features * (PAIR * -(-n_rows // PAIR_ROWS) + CELL * n_lines / 3 * n_rows)
    multiplying = n_rows * m**2 / 2 * n_lines * MULTIPLY * dtype.itemsize / 4
    taking = n_lines * -(-n_rows // ROWS[dtype.itemsize]) * n_features * TAKE
    return one_by_one, multiplying + taking


class Triangle(NamedTuple):
    """The pairs of a matrix product that are summed (None: all); ``n_before`` other features precede them."""

    order: PairOrder
    n_before: int = 0
    first: Indices | None = None
    second: Indices | None = None

    @classmethod
    def make(cls, order: PairOrder, columns: Columns) -> Triangle:
        """The products among some features."""
        if columns is None:
            return cls(order)
        n_main = int(np.searchsorted(columns, order.offsets[0]))
        return cls(order, n_main, *order.factors(columns[n_main:]))

    def add(self, product: Array, top: int, line: Floats) -> None:
        """Add a panel of a product, whose first column is ``top``, to a line of the sums."""
        if self.first is None or self.second is None:
            kernels.interactions.add_triangle(product, top, *self.order, line)
            return
        low, high = np.searchsorted(self.first, (top, top + len(product)))
        picked = product[self.first[low:high] - top, self.second[low:high] - top]
        line[self.n_before + low : self.n_before + high] += picked


class Term(NamedTuple):
    """Lines of sums that one matrix product gives, from ``first_line`` on."""

    #: the cells, raised to a power
    cells: Array
    #: a column of weights for each line; None for one line of weights 1
    weights: Array | None
    first_line: int


def add_products(block: Array, weights: Weights, triangle: Triangle, out: Floats, workers: Workers) -> None:
    """Add the sums of pairs of columns to ``out`` (lines × features), without pairwise deletion."""
    n, m = block.shape
    edges = np.linspace(0, n, -(-n // ROWS[block.itemsize]) + 1).astype(int).tolist()
    parts, terms = [slice(a, b) for a, b in pairwise(edges)], _terms(block, weights, workers)
    # Panels have a fixed size and separate sums, so the result does not depend on the number of threads.
    workers.run([(_add_panel, terms, parts, top, triangle, out) for top in range(0, m, PANEL)])


def _terms(block: Array, weights: Weights, workers: Workers) -> list[Term]:
    """The products of cells, of squares, and of fourth powers, which need the range of float64."""
    squares, fourth = np.empty_like(block), np.empty(block.shape if weights.fourth else 0)

    @_may_overflow
    def fill(rows: slice) -> None:
        np.square(block[rows], out=squares[rows])
        if weights.fourth:
            np.square(squares[rows], out=fourth[rows], dtype=np.float64)

    workers.run([(fill, rows) for rows in chunks(slice(0, len(block)), SQUARED_ROWS)])
    n_linear = weights.n_linear + 1
    linear, v = weights.padded(block.dtype), weights.v
    groups = [slice(k, min(k + LINES, n_linear)) for k in range(0, n_linear, LINES)]
    terms = [Term(block, linear[:, lines], lines.start) for lines in groups]
    terms.append(Term(squares, None if v is None else v[:, None].astype(block.dtype), n_linear))
    return [*terms, Term(fourth, None, n_linear + 1)] if weights.fourth else terms


@_may_overflow
def _add_panel(terms: list[Term], parts: list[slice], top: int, triangle: Triangle, out: Floats) -> None:
    """Add the products of the columns from ``top`` on with all after them."""
    for cells, weights, first_line in terms:
        for rows in parts:
            x = cells[rows, top:]
            panel = x[:, :PANEL]
            width = panel.shape[1]
            if weights is not None:  # a weighted panel for each line, next to each other
                panel = (weights[rows, :, None] * panel[:, None, :]).reshape(len(x), -1)
            for k, product in enumerate(np.split(panel.T @ x, panel.shape[1] // width)):
                triangle.add(product, top, out[first_line + k])


def add_pairs(
    block: Array,
    first: Indices,
    second: Indices,
    shift: Floats,
    weights: Weights,
    out: Floats,
    workers: Workers,
) -> None:
    """Add the sums of shifted features to ``out`` (lines × features), one by one in float64.

    ``first`` and ``second`` are positions among the columns of the block and a column of ones after the last.
    """
    parts = [slice(i, i + PAIRS_PER_JOB) for i in range(0, len(first), PAIRS_PER_JOB)]
    for rows in chunks(slice(0, len(block)), PAIR_ROWS):
        base = np.ones((block.shape[1] + 1, rows.stop - rows.start))
        base[:-1] = block[rows].T
        part = weights.part(rows)
        jobs = [(_add_moments, base, first[k], second[k], shift[k], part, out[:, k]) for k in parts]
        workers.run(jobs)


def _add_moments(
    base: Floats, first: Indices, second: Indices, shift: Floats, weights: Weights, out: Floats
) -> None:
    """Add the sums of a few rows of some features."""
    linear, v, presence = (None if w is None else np.ascontiguousarray(w.T) for w in weights.arrays)
    work, fourth = np.empty((2, base.shape[1])), out[-1] if weights.fourth else None
    kernels.interactions.moments(base, first, second, shift, linear, v, presence, work, fourth, out)
