"""Sums of products of columns: of all pairs as matrix products, or of some pairs one by one."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices, chunks
from banditsis.core.parallel import Workers
from banditsis.sources.interactions.features import PairOrder
from banditsis.statistics.weights import Weights

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


def expected_seconds(
    n_rows: int, m: int, n_features: int, dtype: np.dtype, n_lines: int = 3
) -> tuple[float, float]:
    """Expected times to sum some features of m columns one by one, and by matrix products of all columns."""
    one_by_one = n_features * (PAIR * -(-n_rows // PAIR_ROWS) + CELL * n_lines / 3 * n_rows)
    multiplying = n_rows * m**2 / 2 * n_lines * MULTIPLY * dtype.itemsize / 4
    taking = n_lines * -(-n_rows // ROWS[dtype.itemsize]) * n_features * TAKE
    return one_by_one, multiplying + taking


class Triangle(NamedTuple):
    """Which pairs of a matrix product are summed: all, or the sorted pairs ``first × second``.

    The sums of those pairs follow the sums of ``n_before`` other features.
    """

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
        sums = line[self.n_before + low : self.n_before + high]
        kernels.interactions.add_picked(product, top, self.first[low:high], self.second[low:high], sums)


class Term(NamedTuple):
    """Lines of sums that one matrix product gives, from ``first_line`` on."""

    #: the cells, raised to a power
    cells: Array
    #: a column of weights for each line; None for one line of weights 1
    weights: Array | None
    first_line: int


def add_products(block: Array, weights: Weights, triangle: Triangle, out: Floats, workers: Workers) -> None:
    """Add the sums of pairs of columns to ``out`` (lines × features), without pairwise deletion.

    The result does not depend on the number of threads: panels have a fixed size and separate sums.
    """
    n, m = block.shape
    edges = np.linspace(0, n, -(-n // ROWS[block.itemsize]) + 1).astype(int).tolist()
    parts, terms = [slice(a, b) for a, b in pairwise(edges)], _terms(block, weights, workers)
    workers.run([(_add_panel, terms, parts, top, triangle, out) for top in range(0, m, PANEL)])


def _terms(block: Array, weights: Weights, workers: Workers) -> list[Term]:
    """The products of cells, of squares, and of fourth powers, which need the range of float64."""
    squares, fourth = np.empty_like(block), np.empty(block.shape if weights.fourth else 0)

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

    ``first`` and ``second`` are positions among the columns of the block; the position after the last one
    is a column of ones.
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
    linear, fourth = np.ascontiguousarray(weights.linear.T), out[-1] if weights.fourth else None
    if weights.is_plain:
        kernels.interactions.moments(base, first, second, shift, linear[0], fourth, out)
        return
    n = base.shape[1]
    v = np.ones(n) if weights.v is None else np.ascontiguousarray(weights.v)
    presence = np.empty((0, n)) if weights.presence is None else np.ascontiguousarray(weights.presence.T)
    arguments = linear, v, presence, np.empty((2, n))
    kernels.interactions.weighted_moments(base, first, second, shift, *arguments, fourth, out)
