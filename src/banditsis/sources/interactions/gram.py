"""Sums of products of columns: of all pairs as matrix products, or of some pairs one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Columns, Floats, Indices
from banditsis.core.parallel import Workers
from banditsis.sources.interactions.features import PairCalibration, PairOrder
from banditsis.statistics.base import Weights

#: Columns of a panel of Xᵀ diag(w) X. A panel is multiplied with all columns from its first on, so only the
#: pairs within a panel are computed twice.
PANEL = 96
#: Rows of one product, by bytes of a cell (float32 loses digits over more rows), and its lines of weights.
ROWS, LINES = {4: 1000, 8: 2000}, 16
#: Rows of the pairs that are summed one by one, which fit in the cache, and pairs that keep a thread busy.
PAIR_ROWS, PAIRS_PER_JOB = 512, 1 << 13
#: Binary exponent of scaled squares, so sums over ``ROWS`` of products of two of their squares fit float32.
LARGEST_SQUARE = 28
# Measured seconds on one core: a multiplication and addition of a float32 matrix product, taking a sum from
# it; a pair that is summed by itself, and each of its cells.
MULTIPLY, TAKE, PAIR, CELL = 2.3e-11, 1.5e-9, 1e-8, 2.3e-10


def pair_seconds(n_rows: int, n_pairs: int, cell: float = CELL) -> float:
    """Expected time to sum pairs one by one."""
    return n_pairs * (PAIR * -(-n_rows // PAIR_ROWS) + cell * n_rows)


def product_seconds(n_rows: int, m: int, n_pairs: int, n_lines: int, dtype: np.dtype) -> float:
    """Expected time to sum some pairs of m columns by matrix products."""
    flops = n_rows * m**2 / 2 * n_lines
    taken = n_lines * -(-n_rows // ROWS[dtype.itemsize])
    return flops * MULTIPLY * dtype.itemsize / 4 + taken * n_pairs * TAKE


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

    def add(self, product: Array, top: int, width: int, line: Floats) -> None:
        """Add a panel of a product to a line of the sums."""
        if self.first is None or self.second is None:
            kernels.interactions.add_triangle(product, top, *self.order, line)
            return
        low, high = np.searchsorted(self.first, (top, top + width))
        sums = line[self.n_before + low : self.n_before + high]
        kernels.interactions.add_picked(product, top, self.first[low:high], self.second[low:high], sums)


class Term(NamedTuple):
    """A product over some rows: the lines of the sums it adds to, and a column of weights for each.

    Its factors are the columns raised to a power: 1, 2 or 4.
    """

    rows: slice
    lines: slice
    weights: Array | None
    power: int


def add_products(block: Array, weights: Weights, triangle: Triangle, out: Floats, workers: Workers) -> None:
    """Add the sums of pairs of columns to ``out`` (lines × features), without pairwise deletion.

    The result does not depend on the number of threads: panels have a fixed size and separate sums.
    """
    powers, unit = _powers(block, weights.fourth, workers)
    terms = list(_terms(weights, len(block), block.dtype))
    tops = range(0, block.shape[1], PANEL)
    workers.run([(_add_panel, powers, unit, top, terms, triangle, out) for top in tops])


def _powers(block: Array, fourth: bool, workers: Workers) -> tuple[dict[int, Array], Floats]:
    """The block, its squares and, if asked for, its fourth powers; and the unit of those in each column.

    Sums of products of two fourth powers would leave the range of float32. In units of about the largest
    fourth power of the block, cells are lost only if they are 2³⁰ times smaller than the largest.
    """
    powers = {1: block, 2: np.empty_like(block)}
    step = -(-len(block) // 16)
    parts = [slice(i, i + step) for i in range(0, len(block), step)]
    workers.run([(np.square, block[rows], powers[2][rows]) for rows in parts])
    if not fourth:
        return powers, np.ones(block.shape[1])
    largest = np.maximum(block.max(axis=0), -block.min(axis=0))
    exponent = np.clip(LARGEST_SQUARE - 2 * np.frexp(largest)[1], -126, 126)
    powers[4], scale = np.empty_like(block), np.ldexp(1.0, exponent).astype(block.dtype)

    def fill(rows: slice) -> None:
        scaled = np.multiply(powers[2][rows], scale, out=powers[4][rows])
        np.square(scaled, out=scaled)

    workers.run([(fill, rows) for rows in parts])
    return powers, np.ldexp(1.0, -2 * exponent)


def _terms(weights: Weights, n: int, dtype: np.dtype) -> Iterator[Term]:
    edges = np.linspace(0, n, -(-n // ROWS[dtype.itemsize]) + 1).astype(int).tolist()
    linear = weights.padded(dtype)
    square = None if weights.v is None else weights.v[:, None].astype(dtype)
    n_lines = linear.shape[1]
    for rows in (slice(a, b) for a, b in pairwise(edges)):
        for start in range(0, n_lines, LINES):
            lines = slice(start, min(start + LINES, n_lines))
            yield Term(rows, lines, linear[rows, lines], 1)
        yield Term(rows, slice(n_lines, n_lines + 1), None if square is None else square[rows], 2)
        if weights.fourth:
            yield Term(rows, slice(n_lines + 1, n_lines + 2), None, 4)


def _add_panel(
    powers: dict[int, Array], unit: Floats, top: int, terms: list[Term], triangle: Triangle, out: Floats
) -> None:
    width = min(PANEL, len(unit) - top)
    for term in terms:
        x = powers[term.power][term.rows, top:]
        panel = x[:, :width]
        if term.weights is not None:  # a weighted panel for each line, next to each other
            panel = (term.weights[:, :, None] * panel[:, None, :]).reshape(len(x), -1)
        product = panel.T @ x
        if term.power == 4:
            product = product * np.outer(unit[top : top + width], unit[top:])
        for k, line in enumerate(range(term.lines.start, term.lines.stop)):
            triangle.add(product[k * width : (k + 1) * width], top, width, out[line])


class Pairs(NamedTuple):
    """Features that are summed one by one.

    ``first`` and ``second`` are positions among ``columns``, the base columns in use; the position after the
    last one is a column of ones. ``scale`` belongs to the columns and ``shift`` to the features.
    """

    columns: Indices
    first: Indices
    second: Indices
    scale: Floats
    shift: Floats

    @classmethod
    def make(cls, order: PairOrder, features: Indices, calibration: PairCalibration) -> Pairs:
        """Some features with their calibration."""
        columns, first, second = order.used_columns(features)
        return cls(columns, first, second, calibration.base_scale[columns], calibration.shift[features])


def add_pairs(block: Array, features: Pairs, weights: Weights, out: Floats, workers: Workers) -> None:
    """Add the sums of shifted features to ``out`` (lines × features), in float64."""
    _, first, second, scale, shift = features
    parts = [slice(i, i + PAIRS_PER_JOB) for i in range(0, len(first), PAIRS_PER_JOB)]
    for i in range(0, len(block), PAIR_ROWS):
        rows = slice(i, i + PAIR_ROWS)
        w = np.ascontiguousarray(weights.linear[rows].T)
        base = np.ones((block.shape[1] + 1, w.shape[1]))
        np.multiply(block[rows].T, scale[:, None], out=base[:-1])
        jobs = [(base, first[k], second[k], shift[k], w, weights.fourth, out[:, k]) for k in parts]
        workers.run([(_add_moments, *job) for job in jobs])


def _add_moments(
    base: Floats, first: Indices, second: Indices, shift: Floats, w: Floats, fourth: bool, out: Floats
) -> None:
    line = out[-1] if fourth else None
    if len(w) == 1:
        kernels.interactions.moments(base, first, second, shift, w, line, out)
    else:
        kernels.interactions.moments_of_many(base, first, second, shift, w, np.empty(w.shape[1]), line, out)
