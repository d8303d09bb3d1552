"""The Gram matrix of [A B z], and what is left of it given the design A.

A row has the design ``A`` (an intercept, then the covariates), the targets ``B`` (what the responses ask) and
a weight. The Gram matrix of [A B z], where z are the cells of a feature, consists of sums over rows: those of
[A B] alone come from the response, those with z from the source. Eliminating A from it gives the products of
the residuals, and least squares needs no more.
"""

from __future__ import annotations

import math
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Floats, Indices, ratio
from banditsis.core.parallel import map_in_threads

#: A direction of the design is ignored if the rows in which a feature is present have a smaller share of its
#: sum of squares: sums over these rows are differences of larger sums.
SMALLEST_SHARE = 1e-11
#: The design explains a target if a smaller share of its sum of squares is left.
SMALLEST_RESIDUAL = 1e-10
FEATURES_AT_ONCE = 1 << 12  # few enough for the cache


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

    @property
    def squares(self) -> int:
        """Line of Σz²."""
        return self.n_design + self.n_targets

    @property
    def n_rows(self) -> int:
        """Line of the number of rows in which a feature is present, the first of :meth:`presence`."""
        return self.squares + 1

    @property
    def n_presence(self) -> int:
        """Number of lines of :meth:`presence`."""
        n_pairs = self.n_design * (self.n_design + 1) // 2
        return self.weighted + n_pairs + (self.n_design + 1) * self.n_targets

    @property
    def n_lines(self) -> int:
        """Number of lines without Σz⁴."""
        return self.n_rows + self.n_presence * self.pairwise

    def presence(self, A: Floats, B: Floats, weighted: Floats, v: Floats | None) -> Floats:
        """Values whose sums over the present rows are lines: 1 if rows have weights, and products of [A B].

        ``weighted`` are the targets times the weights of rows.
        """
        i, j = triangle(self.n_design)
        pairs = A[:, i] * A[:, j]
        columns = [pairs] if v is None else [np.ones(len(A)), pairs * v[:, None]]
        crossed = (A[:, :, None] * weighted[:, None, :]).reshape(len(A), -1)
        return np.column_stack([*columns, crossed, B * weighted])

    def total(self, A: Floats, B: Floats, weighted: Floats, v: Floats | None) -> Floats:
        """Sums of :meth:`presence` over all rows, in less time."""
        pairs = (A.T @ (A if v is None else A * v[:, None]))[triangle(self.n_design)]
        own = np.einsum("ij,ij->j", B, weighted)
        return np.concatenate([[len(A)] * self.weighted, pairs, (A.T @ weighted).ravel(), own])

    def split(self, lines: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Sums of :meth:`presence`: number of rows, pairs of A (upper triangle), A × B, and squares of B."""
        a, t = self.n_design, self.n_targets
        ends = np.cumsum([self.weighted, a * (a + 1) // 2, a * t])
        _, pairs, crossed, own = np.split(lines[: self.n_presence], ends)
        return lines[0], pairs, crossed.reshape(a, t, *lines.shape[1:]), own


class Moments(NamedTuple):
    """Moments of the residuals of targets and features given the design, over the present rows.

    The last dimension are the features; it is 1 where a value is the same for all of them.
    """

    #: rows read, and the means of the targets over them
    n_read: float
    means: Floats
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
        elimination = Elimination.start(self.targets[triangle(len(least))]).run(least)
        found = elimination.residuals(self.products)
        return np.sum(found * (found / elimination.pivots), axis=0), elimination.rank


class Elimination(NamedTuple):
    """Gaussian elimination of variables, which leaves the Schur complement; each feature has a Gram matrix.

    The last dimension are the features; it is 1 if the Gram matrix is the same for all of them.
    """

    #: Products of each variable with itself and those after it, given those before: upper triangles.
    pairs: Floats
    #: Squares of the variables given those before; infinite for variables that are ignored.
    pivots: Floats

    @classmethod
    def start(cls, pairs: Floats) -> Elimination:
        """Before the elimination, given the upper triangles of the Gram matrices."""
        n_variables = (math.isqrt(8 * len(pairs) + 1) - 1) // 2
        return cls(pairs.copy(), np.empty((n_variables, pairs.shape[1])))

    @property
    def rows(self) -> list[Floats]:
        """The rows of the triangles."""
        a = len(self.pivots)
        return [self.pairs[k * a - k * (k - 1) // 2 :][: a - k] for k in range(a)]

    @property
    def rank(self) -> Floats:
        """Number of variables that are not ignored."""
        return np.asarray(np.isfinite(self.pivots).sum(axis=0, dtype=float))

    def take(self, columns: Indices | slice) -> Elimination:
        """The elimination for some features; the arrays are views if these are a slice."""
        return Elimination(pick(self.pairs, columns), pick(self.pivots, columns))

    def run(self, least: Floats) -> Elimination:
        """Eliminate, in place; a variable is ignored if its square is not larger than ``least``."""
        rows = self.rows
        for k, row in enumerate(rows):
            self.pivots[k] = np.where(row[0] > least[k], row[0], np.inf)
            for i in range(1, len(row)):
                rows[k + i] -= row[i] / self.pivots[k] * row[i:]
        return self

    def residuals(self, products: Floats) -> Floats:
        """Products of each variable given those before, given the products of the variables themselves."""
        left = products.copy()
        for k, row in enumerate(self.rows):
            for i in range(1, len(row)):
                left[k + i] -= row[i] / self.pivots[k] * left[k]
        return left


class Gram:
    """The Gram matrix of [A B z], for all targets and features, given the sums and the summary of the rows.

    A feature depends on the design if its residual variance is a smaller share than the ``resolution``.
    """

    def __init__(self, layout: Layout, sums: Floats, summary: Floats, resolution: float) -> None:
        self.layout, self.sums, self.summary, self.resolution = layout, sums, summary, resolution
        self.n_read, self.total = float(summary[0]), layout.split(summary)[1:]
        presence = sums[layout.n_rows :]
        self.has_missing = layout.pairwise and bool((presence[0] != self.n_read).any())
        #: sums over the rows in which each feature is present
        self.present = layout.split(presence if self.has_missing else summary[:, None])

    @cached_property
    def eliminated(self) -> tuple[Elimination, Floats, Floats]:
        """The elimination of A; its products with the features, and the squares of these that are left."""
        a, sums = self.layout.n_design, self.sums
        least = SMALLEST_SHARE * self.total[0][np.cumsum([0, *range(a, 1, -1)]), None]  # of the diagonal
        elimination = Elimination.start(self.present[1])
        features, squares = np.empty((a, sums.shape[1])), np.empty(sums.shape[1])
        if not self.has_missing:
            elimination.run(least)

        def eliminate_some(start: int) -> None:
            piece = slice(start, start + FEATURES_AT_ONCE)
            own = elimination.take(piece).run(least) if self.has_missing else elimination
            found = own.residuals(sums[:a, piece])
            features[:, piece] = found
            found *= found / own.pivots
            centred = sums[self.layout.squares, piece] - found[0]  # 0 for a constant feature
            left = centred - found[1:].sum(axis=0)
            squares[piece] = np.where(left > self.resolution * np.maximum(centred, 0.0), left, 0.0)

        map_in_threads(eliminate_some, range(0, sums.shape[1], FEATURES_AT_ONCE), 16)
        return elimination, features, squares

    @cached_property
    def residual_targets(self) -> Floats:
        """Products of all targets with the design, each column of it given those before; without gaps."""
        return self.eliminated[0].residuals(self.present[2])

    def squares(self, columns: Indices | slice) -> Floats:
        """Residual sums of squares of some features."""
        return self.eliminated[2][columns]

    def moments(self, targets: slice, columns: Indices | slice) -> Moments:
        """Moments of the residuals of some targets and some features."""
        elimination, features, squares = self.eliminated
        design, n_rows = elimination.take(columns), pick(self.present[0], columns)
        _, _, crossed, own = self.present
        crossed, own = pick(crossed[:, targets], columns), pick(own[targets], columns)
        left = design.residuals(crossed) if self.has_missing else self.residual_targets[:, targets]
        shares, given = left / design.pivots[:, None], self.sums[self.layout.n_design :][targets]
        gram = -contract(shares, left)
        np.einsum("ttp->tp", gram)[:] += own
        return Moments(
            n_read=self.n_read,
            means=self.total[1][0, targets] / self.total[0][0],
            n_rows=n_rows,
            rank=design.rank,
            weight=pick(self.present[1][0], columns),
            target_sums=crossed[0],
            target_squares=own,
            targets=gram,
            products=given[:, columns] - contract(shares, features[:, None, columns])[:, 0],
            squares=squares[columns],
        )

    def inflation(self, strata: Floats, per_row: Floats, counts: Indices, columns: Indices | slice) -> Floats:
        """Variance inflation of some features whose spread depends on the response, without covariates.

        ``strata`` are the sums of each stratum, ``per_row`` the share of the variance that each of its rows
        stands for, and ``counts`` its rows.
        """
        layout, n = self.layout, float(counts.sum())

        def add_up(line: int) -> Floats:
            return np.asarray(np.einsum("h,hj->j", per_row, strata[:, line, columns]))

        mean = self.sums[0, columns] / np.maximum(pick(self.present[0], columns), 1.0)
        weight = add_up(layout.n_rows) if layout.pairwise else per_row @ counts
        squares = add_up(layout.squares) - mean * (2 * add_up(0) - mean * weight)
        return ratio(n * squares, self.squares(columns))


@cache
def triangle(size: int) -> tuple[Indices, Indices]:
    """Rows and columns of the upper triangle of a matrix."""
    return np.triu_indices(size)


def common(values: Floats) -> float | Floats:
    """A number, if it is the same for all features."""
    return float(values[0]) if values.size == 1 else values


def contract(first: Floats, second: Floats) -> Floats:
    """Sums of the products of (a, t, features) and (a, u, features) over the first dimension."""
    if first.shape[2] > 1:
        return np.asarray(np.einsum("atp,aup->tup", first, second))
    found = first[:, :, 0].T @ second.reshape(len(second), -1)  # faster than np.tensordot
    return np.asarray(found.reshape(first.shape[1], *second.shape[1:]))


def pick(values: Floats, columns: Indices | slice) -> Floats:
    """The values of some features, or those that are the same for all of them."""
    return values if values.shape[-1] == 1 else values[..., columns]
