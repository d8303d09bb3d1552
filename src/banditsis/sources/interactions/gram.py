"""Sums of pairs of columns: of all at once as matrix products, or of some from their two columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from banditsis.arrays import Array, Floats, Indices
from banditsis.kernels import interactions as pairs
from banditsis.parallel import Workers
from banditsis.statistics.base import Weights

#: Columns of a panel of the product Xᵀ diag(w) X. A panel is multiplied with all columns from its first on,
#: so that each pair but those within it is computed once.
PANEL = 96
#: Rows and lines of one product, by bytes of a cell: float32 loses digits over more rows.
ROWS, LINES = {4: 1000, 8: 2000}, 16
#: Rows of the columns of pairs, so that they stay in the cache, and pairs that are worth a thread.
PAIR_ROWS, PAIRS_AT_ONCE = 512, 1 << 13


class Triangle(NamedTuple):
    """Where sums of pairs belong: all features, or the sorted pairs ``first × second`` behind some others."""

    offsets: Indices
    lead: int
    n_before: int = 0
    first: Indices | None = None
    second: Indices | None = None

    def add(self, product: Array, top: int, width: int, line: Floats) -> None:
        """Add a panel of a product to a line of the sums."""
        if self.first is None or self.second is None:
            pairs.add_triangle(product, top, self.offsets, self.lead, line)
            return
        low, high = np.searchsorted(self.first, (top, top + width))
        sums = line[self.n_before + low : self.n_before + high]
        pairs.add_picked(product, top, self.first[low:high], self.second[low:high], sums)


class Term(NamedTuple):
    """A product over some rows: the lines it adds to, and the weights of the rows, a column for each line."""

    rows: slice
    lines: slice
    weights: Array | None
    squared: bool


def add_products(block: Array, weights: Weights, triangle: Triangle, out: Floats, workers: Workers) -> None:
    """Add the sums of the pairs of the columns of a block to ``out`` (lines × features).

    Panels are cut by size alone, and each has sums of its own, so that threads change nothing. Weights must
    not be pairwise.
    """
    if weights.codes is not None:
        order = np.argsort(weights.codes, kind="stable")
        block, weights = block[order], weights.part(order)
    squares = np.empty_like(block)
    step = -(-len(block) // 16)
    workers.run([(_square, block[i : i + step], squares[i : i + step]) for i in range(0, len(block), step)])
    terms = list(_terms(weights, len(block), block.dtype))
    tops = range(0, block.shape[1], PANEL)
    workers.run([(_add_panel, block, squares, top, terms, triangle, out) for top in tops])


def _square(block: Array, out: Array) -> None:
    np.multiply(block, block, out=out)


def _terms(weights: Weights, n: int, dtype: np.dtype) -> Iterator[Term]:
    square = weights.square
    edges = np.linspace(0, n, -(-n // ROWS[dtype.itemsize]) + 1).astype(int)
    if weights.codes is None:
        q = weights.linear.shape[1]
        plain = np.column_stack([np.ones(n), weights.linear]).astype(dtype)
        last = slice(q + 1, q + 2)
    else:
        last = slice(weights.n_classes, weights.n_classes + 1)
    for a, b in pairwise(edges):
        rows = slice(int(a), int(b))
        if weights.codes is None:
            for line in range(0, q + 1, LINES):
                lines = slice(line, min(line + LINES, q + 1))
                yield Term(rows, lines, plain[rows, lines], False)
        else:
            yield from _class_terms(weights.codes, rows)
        yield Term(rows, last, None if square is None else square[rows, None].astype(dtype), True)


def _class_terms(codes: Array, rows: slice) -> Iterator[Term]:
    """The rows of each class, which are neighbours."""
    present, starts = np.unique(codes[rows], return_index=True)
    stops = [*starts[1:], rows.stop - rows.start]
    for code, a, b in zip(present.tolist(), starts.tolist(), stops, strict=True):
        yield Term(slice(rows.start + a, rows.start + int(b)), slice(code, code + 1), None, False)


def _add_panel(
    block: Array, squares: Array, top: int, terms: list[Term], triangle: Triangle, out: Floats
) -> None:
    width = min(PANEL, block.shape[1] - top)
    for term in terms:
        x = (squares if term.squared else block)[term.rows, top:]
        panel = x[:, :width]
        if term.weights is not None:  # a panel for each line, side by side
            panel = (term.weights[:, :, None] * panel[:, None, :]).reshape(len(x), -1)
        product = panel.T @ x
        for k, line in enumerate(range(term.lines.start, term.lines.stop)):
            triangle.add(product[k * width : (k + 1) * width], top, width, out[line])


def add_pairs(
    block: Array,
    scale: Floats,
    weights: Weights,
    first: Indices,
    second: Indices,
    shift: Floats,
    out: Floats,
    workers: Workers,
) -> None:
    """Add the sums of some products, shifted, to ``out`` (lines × pairs), in float64.

    The columns of the block are multiplied by ``scale``, and one column of 1 is put behind them.
    """
    places = [slice(i, i + PAIRS_AT_ONCE) for i in range(0, len(first), PAIRS_AT_ONCE)]
    for i in range(0, len(block), PAIR_ROWS):
        rows = slice(i, i + PAIR_ROWS)
        w = np.ascontiguousarray(weights.linear[rows].T)
        base = np.ones((block.shape[1] + 1, w.shape[1]))
        np.multiply(block[rows].T, scale[:, None], out=base[:-1])
        workers.run([(_add_moments, base, first[k], second[k], shift[k], w, out[:, k]) for k in places])


def _add_moments(
    base: Floats, first: Indices, second: Indices, shift: Floats, w: Floats, out: Floats
) -> None:
    if len(w) == 1:
        pairs.moments(base, first, second, shift, w, out)
    else:
        pairs.moments_of_many(base, first, second, shift, w, np.empty(w.shape[1]), out)
