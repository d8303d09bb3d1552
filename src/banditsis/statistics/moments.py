"""Where the sums of a linear statistic are, and what is left of them given the design.

A row has the design ``A`` (an intercept, then the covariates), the targets ``B`` (what the response asks) and
weights. The Gram matrix of [A B z], where z are the cells of a feature, consists of sums over rows: those of
[A B] alone come from the response, those with z from the source. Least squares on A needs no more than this
matrix: eliminating A from it gives the products of the residuals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.statistics.base import ratio
from banditsis.statistics.regression import Explained, eliminate, whiten

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
        """Line of the number of rows in which a feature is present."""
        return self.squares + 1

    @property
    def n_pairs(self) -> int:
        """Pairs of columns of the design."""
        return self.n_design * (self.n_design + 1) // 2

    @property
    def _pairs(self) -> int:
        """Line of the first pair of columns of the design: that of rows unless these have weights."""
        return self.n_rows + self.weighted

    @property
    def n_lines(self) -> int:
        """Number of lines without Σz⁴."""
        if not self.pairwise:
            return self.n_rows
        return self._pairs + self.n_pairs + (self.n_design + (not self.one_hot)) * self.n_targets

    def crossed(self, targets: Sequence[int]) -> Array:
        """Lines of the products of each column of the design with some targets."""
        start = self._pairs + self.n_pairs
        lines: Array = start + self.n_targets * np.arange(self.n_design)[:, None] + np.asarray(targets)
        return lines

    def target_squares(self, targets: Sequence[int]) -> Array:
        """Lines of the squares of some targets; an indicator is its own square."""
        below = 0 if self.one_hot else self.n_design * self.n_targets
        return np.asarray(self.crossed(targets)[0] + below)

    def of_target(self, target: int) -> list[int]:
        """The lines that one target needs."""
        lines = [*range(self.n_design), self.n_design + target, self.squares]
        if self.pairwise:
            lines += range(self.n_rows, self._pairs + self.n_pairs)
            lines += [*self.crossed([target])[:, 0].tolist(), *self.target_squares([target]).tolist()]
        return lines

    def presence(self, A: Floats, B: Floats, weighted: Floats, v: Floats | None) -> Floats:
        """Values whose sums over the present rows are lines: 1 if rows have weights, and products of [A B].

        ``weighted`` are the targets times the weights of rows.
        """
        i, j = np.triu_indices(self.n_design)
        pairs = A[:, i] * A[:, j]
        columns = [pairs] if v is None else [np.ones(len(A)), pairs * v[:, None]]
        columns.append((A[:, :, None] * weighted[:, None, :]).reshape(len(A), -1))
        return np.column_stack(columns if self.one_hot else [*columns, B * weighted])


class Moments(NamedTuple):
    """Moments of the residuals of targets and features given the design, over the present rows.

    Where a value is the same for all features, it has no dimension for these.
    """

    n_rows: float | Floats
    #: of the design in these rows
    rank: float | Floats
    #: Σv, the weight of these rows
    weight: float | Floats
    #: Σb and Σb² of the targets themselves, weighted
    target_sums: Floats
    target_squares: Floats
    #: products of the residuals of the targets
    targets: Floats
    #: products of the residuals of each feature with those of each target
    products: Floats
    #: sum of squares of the residuals of each feature
    squares: Floats

    def between(self) -> tuple[Floats, float | Floats]:
        """The part of the squares that the targets explain, and their number of independent directions."""
        if self.targets.ndim == 2:
            contrasts = find_contrasts(self.targets, self.target_squares)
            return np.square(contrasts @ self.products).sum(axis=0), float(len(contrasts))
        t = len(self.targets)
        matrix = np.empty((t + 1, t + 1, len(self.squares)))
        matrix[:t, :t], matrix[:t, t], matrix[t, t] = self.targets, self.products, self.squares
        residuals, rank = eliminate(matrix, SMALLEST_RESIDUAL * self.target_squares.max(axis=-1))
        return np.maximum(self.squares - residuals[0, 0], 0.0), rank


def find_contrasts(targets: Floats, totals: Floats) -> Floats:
    """Matrix that turns products with the targets into independent components.

    Targets of which the design leaves nothing are left out: a small share of their ``totals``.
    """
    free = np.flatnonzero(np.diag(targets) > SMALLEST_RESIDUAL * totals)
    white = whiten(targets[np.ix_(free, free)])
    contrasts = np.zeros((len(white), len(targets)))
    contrasts[:, free] = white
    return contrasts


def response_moments(n: float, gram: Floats, n_design: int) -> Moments:
    """Moments of the targets alone; the Gram matrix is that of [A B]."""
    a, nothing = n_design, np.zeros(0)
    white = whiten(gram[:a, :a]) @ gram[:a, a:]
    return Moments(
        n_rows=n,
        rank=float(a),
        weight=float(gram[0, 0]),
        target_sums=gram[0, a:],
        target_squares=np.diag(gram)[a:],
        targets=gram[a:, a:] - white.T @ white,
        products=np.zeros((len(gram) - a, 0)),
        squares=nothing,
    )


def complete_moments(found: Explained, given: Floats, n: float, gram: Floats) -> Moments:
    """Moments of features without missing values, given their products with the targets."""
    a = len(gram) - len(given)
    products = given - (found.white @ gram[:a, a:]).T @ found.features
    return response_moments(n, gram, a)._replace(products=products, squares=found.squares)


def present_moments(
    sums: Floats,
    layout: Layout,
    targets: Sequence[int],
    columns: Indices | slice,
    total: Floats,
    resolution: float,
) -> Moments:
    """Moments over the present rows; ``total`` are the squares of the design over all rows.

    A feature is treated as a linear combination of the design if its residual variance is a smaller share
    than the ``resolution``.
    """
    least, a, t = SMALLEST_SHARE * total, layout.n_design, len(targets)
    found = []
    for piece in _pieces(columns, sums.shape[1]):
        matrix = _fill(sums, layout, targets, piece)
        weight, given, squares = matrix[0, 0].copy(), matrix[0, -1], matrix[-1, -1]
        centred = squares - given * ratio(given, weight)
        own = matrix[0, a : a + t].copy(), np.stack([matrix[k, k] for k in range(a, a + t)])
        residuals, rank = eliminate(matrix, least)
        left = residuals[-1, -1]
        left = np.where(left > resolution * np.maximum(centred, 0.0), left, 0.0)
        n_rows = sums[layout.n_rows, piece]
        found.append(
            Moments(n_rows, rank, weight, *own, residuals[:-1, :-1], residuals[:-1, -1], np.asarray(left))
        )
    return Moments(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True)))


def _fill(sums: Floats, layout: Layout, targets: Sequence[int], columns: Indices | slice) -> Floats:
    """The upper triangle of the Gram matrix of [A B z] of some columns, over their present rows."""
    a, t = layout.n_design, len(targets)
    squares = sums[layout.squares, columns]
    matrix = np.zeros((a + t + 1, a + t + 1, len(squares)))
    start = layout.n_rows + layout.weighted
    matrix[np.triu_indices(a)] = sums[start : start + layout.n_pairs, columns]
    for k, lines in enumerate(layout.crossed(targets)):
        matrix[k, a : a + t] = sums[lines][:, columns]
    own = np.arange(a, a + t)
    matrix[own, own] = sums[layout.target_squares(targets)][:, columns]
    for k, line in enumerate([*range(a), *(a + target for target in targets)]):
        matrix[k, -1] = sums[line, columns]
    matrix[-1, -1] = squares
    return matrix


def _pieces(columns: Indices | slice, n_columns: int) -> Iterator[Indices | slice]:
    start, stop = columns.indices(n_columns)[:2] if isinstance(columns, slice) else (0, len(columns))
    for i in range(start, max(stop, start + 1), FEATURES_AT_ONCE):
        piece = slice(i, min(i + FEATURES_AT_ONCE, stop))
        yield piece if isinstance(columns, slice) else columns[piece]
