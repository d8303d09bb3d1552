"""Where the sums of a linear statistic are, and what is left of them given the design.

A row has the design ``A`` (an intercept, then the covariates), the targets ``B`` (what the response asks) and
weights. The Gram matrix of [A B z], where z are the cells of a feature, consists of sums over rows: those of
[A B] alone come from the response, those with z from the source. Least squares on A needs no more than this
matrix: eliminating A from it gives the products of the residuals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Floats, Indices
from banditsis.statistics.base import ratio
from banditsis.statistics.regression import eliminate

#: A direction of the design is ignored if the rows in which a feature is present have a smaller share of its
#: sum of squares: sums over these rows are differences of larger sums.
SMALLEST_SHARE = 1e-11
#: The design explains a target if a smaller share of its sum of squares is left.
SMALLEST_RESIDUAL = 1e-10
FEATURES_AT_ONCE = 1 << 11  # few enough for the cache


class Layout(NamedTuple):
    """The lines of the sums.

    They are ``Σz·a`` for each column of the design, ``Σz·b`` for each target and ``Σz²``, all weighted; with
    pairwise deletion the sums of :meth:`presence` over the rows in which a feature is present; and Σz⁴ if it
    is asked for.
    """

    #: columns of the design, and targets
    n_design: int
    n_targets: int
    #: whether rows have weights
    weighted: bool = False
    pairwise: bool = False
    #: whether targets are indicators of classes, whose squares and products need no sums
    one_hot: bool = False

    @property
    def squares(self) -> int:
        """Line of Σz²."""
        return self.n_design + self.n_targets

    @property
    def n_rows(self) -> int:
        """Line of the number of rows in which a feature is present, the first of :meth:`presence`."""
        return self.squares + 1

    @property
    def n_lines(self) -> int:
        """Number of lines without Σz⁴."""
        if not self.pairwise:
            return self.n_rows
        n_pairs = self.n_design * (self.n_design + 1) // 2
        crossed = (self.n_design + (not self.one_hot)) * self.n_targets
        return self.n_rows + self.weighted + n_pairs + crossed

    def gram(self, targets: Sequence[int]) -> Indices:
        """Lines of presence of the Gram matrix of [A B] for some targets; -1 for products that are 0."""
        return _gram_lines(self, tuple(targets))

    def presence(self, A: Floats, B: Floats, weighted: Floats, v: Floats | None) -> Floats:
        """Values whose sums over the present rows are lines: 1 if rows have weights, and products of [A B].

        ``weighted`` are the targets times the weights of rows.
        """
        i, j = np.triu_indices(self.n_design)
        pairs = A[:, i] * A[:, j]
        columns = [pairs] if v is None else [np.ones(len(A)), pairs * v[:, None]]
        columns.append((A[:, :, None] * weighted[:, None, :]).reshape(len(A), -1))
        return np.column_stack(columns if self.one_hot else [*columns, B * weighted])

    def total(self, A: Floats, B: Floats, weighted: Floats, v: Floats | None) -> Floats:
        """Sums of :meth:`presence` over all rows, in less time."""
        pairs = (A.T @ (A if v is None else A * v[:, None]))[np.triu_indices(self.n_design)]
        own = [] if self.one_hot else np.einsum("ij,ij->j", B, weighted)
        return np.concatenate([[len(A)] * self.weighted, pairs, (A.T @ weighted).ravel(), own])


@lru_cache(maxsize=1024)  # each response needs them several times
def _gram_lines(layout: Layout, targets: tuple[int, ...]) -> Indices:
    a, t = layout.n_design, layout.n_targets
    pairs, own = np.triu_indices(a), np.arange(a, a + len(targets))
    lines = np.full((a + len(targets),) * 2, -1)
    lines[pairs] = layout.weighted + np.arange(len(pairs[0]))
    crossed = layout.weighted + len(pairs[0]) + np.asarray(targets, np.intp)
    lines[:a, a:] = crossed + t * np.arange(a)[:, None]
    lines[own, own] = crossed + (0 if layout.one_hot else a * t)  # an indicator is its own square
    return lines


class Moments(NamedTuple):
    """Moments of the residuals of targets and features given the design, over the present rows.

    The last dimension are the features; it is 1 where a value is the same for all of them.
    """

    #: rows read, and the Gram matrix of [A B] over them
    n_read: float
    total: Floats
    #: rows in which a feature is present, and the rank of the design in these
    n_rows: Floats
    rank: Floats
    #: Σv, the weight of these rows
    weight: Floats
    #: Σb and Σb² of the targets themselves, weighted
    target_sums: Floats
    target_squares: Floats
    #: products of the residuals of the targets
    targets: Floats
    #: products of the residuals of each feature with those of each target
    products: Floats
    #: sum of squares of the residuals of each feature
    squares: Floats

    @property
    def reduction(self) -> Floats:
        """√(present rows / rows read), by which scores are reduced for missing values."""
        return np.sqrt(np.maximum(self.n_rows, 1) / self.n_read)

    def between(self) -> tuple[Floats, Floats]:
        """The part of the squares that the targets explain, and their number of independent directions."""
        least = SMALLEST_RESIDUAL * self.target_squares
        nothing = np.zeros((0, len(self.squares)))
        _, _, left, rank = eliminate(self.targets.copy(), self.products, nothing, self.squares, least)
        return np.maximum(self.squares - left, 0.0), rank


def common(values: Floats) -> float | Floats:
    """A number, if it is the same for all features."""
    return float(values[0]) if values.size == 1 else values


def find_moments(
    layout: Layout,
    targets: Sequence[int],
    sums: Floats,
    summary: Floats,
    columns: Indices | slice,
    resolution: float,
    *,
    missing: bool,
) -> Moments:
    """Moments of some targets and some columns of the sums, in which cells may be ``missing``."""
    lines, a = layout.gram(targets), layout.n_design
    total = gram_matrix(summary[:, None], lines, slice(None))
    present, given = np.where(lines < 0, -1, lines + layout.n_rows), a + np.asarray(targets, np.intp)
    found = []
    for piece in _pieces(columns, sums.shape[1]) if missing else [columns]:
        gram = gram_matrix(sums, present, piece) if missing else total.copy()
        n_rows = sums[layout.n_rows, piece] if missing else summary[:1]
        products = sums[:a, piece], pick(sums, given, piece), sums[layout.squares, piece]
        found.append(residual_moments(float(summary[0]), total, n_rows, gram, *products, resolution))
    joined = [np.concatenate(parts, axis=-1) for parts in list(zip(*found, strict=True))[2:]]
    return Moments(*found[0][:2], *joined) if len(found) > 1 else found[0]


def residual_moments(
    n_read: float,
    total: Floats,
    n_rows: Floats,
    gram: Floats,
    design: Floats,
    given: Floats,
    squares: Floats,
    resolution: float,
) -> Moments:
    """Eliminate the design from the Gram matrix of [A B] and the products of these with a feature.

    A feature is treated as a linear combination of the design if its residual variance is a smaller share
    than the ``resolution``.
    """
    a, own = len(design), np.arange(len(design), len(gram))
    weight, sums, target_squares = gram[0, 0].copy(), gram[0, a:].copy(), gram[own, own]
    least = SMALLEST_SHARE * total[range(a), range(a), 0]
    centred = squares - design[0] * ratio(design[0], weight)
    targets, products, left, rank = eliminate(gram, design, given, squares, least)
    left = np.where(left > resolution * np.maximum(centred, 0.0), left, 0.0)
    return Moments(n_read, total, n_rows, rank, weight, sums, target_squares, targets, products, left)


def pick(sums: Floats, lines: Indices, columns: Indices | slice) -> Floats:
    """Some lines of some columns of the sums."""
    return sums[lines, columns] if isinstance(columns, slice) else sums[lines[:, None], columns]


def gram_matrix(sums: Floats, lines: Indices, columns: Indices | slice) -> Floats:
    """The Gram matrix of some columns, given the line of each element, or -1 if it is 0."""
    known = lines >= 0
    matrix = np.zeros((*lines.shape, sums[0, columns].size))
    matrix[known] = pick(sums, lines[known], columns)
    return matrix


def _pieces(columns: Indices | slice, n_columns: int) -> Iterator[Indices | slice]:
    start, stop = columns.indices(n_columns)[:2] if isinstance(columns, slice) else (0, len(columns))
    for i in range(start, max(stop, start + 1), FEATURES_AT_ONCE):
        piece = slice(i, min(i + FEATURES_AT_ONCE, stop))
        yield piece if isinstance(columns, slice) else columns[piece]
