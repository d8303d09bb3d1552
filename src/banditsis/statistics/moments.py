"""What sources add up, and the moments of residuals that follow from these sums.

A row has the design ``A`` (an intercept, then the covariates), the targets ``B`` (what the responses ask) and
a weight. The Gram matrix of [A B z], where z are the cells of a feature, consists of sums over rows: those of
[A B] alone come from the response, those with z from a source, which multiplies its cells by :class:`Weights`
and does not know what is scored. Eliminating A gives the products of the residuals, and least squares needs
no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, as_indices, ratio, take
from banditsis.core.parallel import map_in_threads

#: A direction of the design is ignored if the rows in which a feature is present have a smaller share of its
#: sum of squares: sums over these rows are differences of larger sums.
SMALLEST_SHARE = 1e-11
#: The design explains a target if a smaller share of its sum of squares is left.
SMALLEST_RESIDUAL = 1e-10
FEATURES_AT_ONCE = 1 << 12  # few enough for the cache
#: ``linear`` of shape (rows, q), ``v`` of shape (rows,) or None, and ``presence`` of shape (rows, s) or None.
WeightArrays: TypeAlias = "tuple[Floats, Floats | None, Floats | None]"


@dataclass(frozen=True)
class Weights:
    """The weights by which a source multiplies the cells of some rows.

    Let ``z`` be the cells of a feature, shifted by a constant (scores do not depend on the shift), and ``v``
    the weights of the rows, 1 if none are given. The source computes these lines of sums over the rows, each
    with one value per feature: ``Σ v·z``; ``Σ z·w`` for each column w of ``linear``; ``Σ v·z²``. With
    ``presence``, missing values (NaN) are deleted pairwise, that is left out of all sums, and ``Σ u`` over
    the rows in which the cell is present follows for each of its columns u. With ``fourth``, the last line is
    ``Σ z⁴``, which is infinite or 0 if cells are beyond about 1e76 or 1e-76.

    ``compute`` returns the arrays when they are first used, in the thread that sums a tile.

    Examples
    --------
    >>> weights = Weights.of(np.array([[1.0], [2.0], [3.0]]))
    >>> weights.part(slice(1, 3)).linear.tolist()
    [[2.0], [3.0]]
    """

    #: the rows that the weights belong to, by position
    rows: Rows
    compute: Callable[[Rows], WeightArrays] | None
    #: number of columns of ``linear``
    n_linear: int
    #: whether rows have weights ``v``
    weighted: bool = False
    #: number of columns of ``presence``; 0 for complete data
    n_presence: int = 0
    fourth: bool = False
    _padded: dict[tuple[np.dtype, int, bool], Array] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls, linear: Floats, v: Floats | None = None, presence: Floats | None = None, fourth: bool = False
    ) -> Weights:
        """Weights with these arrays."""
        n_presence = 0 if presence is None else presence.shape[1]
        weights = cls(slice(0, len(linear)), None, linear.shape[1], v is not None, n_presence, fourth)
        vars(weights)["arrays"] = linear, v, presence
        return weights

    def part(self, positions: slice | Indices) -> Weights:
        """Weights of the rows at some positions, which share the arrays if these are known."""
        if "arrays" in vars(self):
            linear, v, presence = (None if part is None else part[positions] for part in self.arrays)
            assert linear is not None
            return Weights.of(linear, v, presence, self.fourth)
        if isinstance(positions, slice):
            rows = take(self.rows, positions.start, positions.stop)
        else:
            rows = as_indices(self.rows)[positions]
        return Weights(rows, self.compute, self.n_linear, self.weighted, self.n_presence, self.fourth)

    @property
    def computed(self) -> Weights:
        """The same weights, computed now: parts of them share the arrays."""
        _ = self.arrays
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrays are sent to other processes, and not what computes them."""
        return Weights.of, (*self.arrays, self.fourth)

    @cached_property
    def arrays(self) -> WeightArrays:
        """``linear``, ``v`` and ``presence``."""
        assert self.compute is not None  # or the arrays were given
        return self.compute(self.rows)

    linear = property(lambda self: self.arrays[0])
    v = property(lambda self: self.arrays[1])
    presence = property(lambda self: self.arrays[2])

    @property
    def is_plain(self) -> bool:
        """Whether there is one linear weight, for complete data, and nothing else."""
        return self.n_linear == 1 and not self.weighted and not self.n_presence

    @property
    def n_lines(self) -> int:
        """Number of lines of the sums."""
        return 2 + self.n_linear + self.n_presence + self.fourth

    def padded(self, dtype: np.dtype, multiple: int = 1, along_rows: bool = True) -> Array:
        """The row weights, the linear weights, and zeros up to a multiple of columns; transposed unless
        ``along_rows``. Tiles with the same rows share the array.
        """
        key = dtype, multiple, along_rows
        if key not in self._padded:
            (linear, v, _), q = self.arrays, self.n_linear
            n_columns = -(-(q + 1) // multiple) * multiple
            columns = np.zeros((len(linear), n_columns), dtype, order="C" if along_rows else "F")
            columns[:, 0], columns[:, 1 : q + 1] = 1 if v is None else v, linear
            self._padded[key] = columns if along_rows else columns.T
        return self._padded[key]


class Layout:
    """The lines of the sums.

    They are ``Σz·a`` for each column of the design, ``Σz·b`` for each target and ``Σz²``, all weighted; with
    pairwise deletion the sums of :meth:`presence` over the rows in which a feature is present; and Σz⁴ if it
    is asked for (``fourth``). A feature whose residual variance given the design is a smaller share than the
    ``resolution`` depends on the design alone.
    """

    def __init__(
        self,
        n_design: int,
        n_targets: int,
        weighted: bool = False,
        pairwise: bool = False,
        fourth: bool = False,
        resolution: float = 0.0,
    ) -> None:
        self.n_design, self.n_targets, self.weighted = n_design, n_targets, weighted
        self.pairwise, self.fourth, self.resolution = pairwise, fourth, resolution
        #: line of Σz², and of the number of rows in which a feature is present, the first of presence
        self.squares = n_design + n_targets
        self.n_rows = self.squares + 1
        #: number of lines of presence, and of all lines
        self.n_presence = weighted + n_design * (n_design + 1) // 2 + (n_design + 1) * n_targets
        self.n_lines = self.n_rows + self.n_presence * pairwise + fourth

    def present(self, sums: Floats, columns: Indices | slice) -> Floats | None:
        """Number of rows in which some features are present, or None if no cell can be missing."""
        return sums[self.n_rows, columns] if self.pairwise else None

    def find_nonfinite(self, sums: Floats) -> Indices:
        """Positions of the features whose sums are not finite, except those of fourth powers."""
        with np.errstate(over="ignore", invalid="ignore"):
            checked = sums[: self.n_lines - self.fourth]
            if np.isfinite(checked.sum()):  # as nearly always
                return np.empty(0, np.intp)
            return np.flatnonzero(~np.isfinite(checked.sum(axis=0)))

    def presence(self, A: Floats, B: Floats, weighted: Floats, v: Floats | None) -> Floats:
        """What is summed over the present rows: 1 if rows have weights v, and products of [A B]."""
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
        pairs = self.targets[triangle(len(self.targets))]
        pivots = eliminate(pairs, SMALLEST_RESIDUAL * self.target_squares)
        found = residuals(pairs, pivots, self.products)
        return np.sum(found * (found / pivots), axis=0), np.isfinite(pivots).sum(axis=0, dtype=float)


class Gram:
    """The Gram matrix of [A B z] without A, for all targets and features, from sums over the same rows."""

    def __init__(self, layout: Layout, sums: Floats, summary: Floats) -> None:
        self.layout, self.sums = layout, sums
        self.n_read, self.total = float(summary[0]), layout.split(summary)[1:]
        presence = sums[layout.n_rows :]
        self.has_missing = layout.pairwise and bool((presence[0] != self.n_read).any())
        #: sums over the rows in which each feature is present
        self.present = layout.split(presence if self.has_missing else summary[:, None])
        a, self.pairs = layout.n_design, self.present[1].copy()
        least = SMALLEST_SHARE * self.total[0][np.cumsum([0, *range(a, 1, -1)]), None]  # of the diagonal
        if self.has_missing:
            self.pivots = np.empty((a, sums.shape[1]))
        else:
            self.pivots = eliminate(self.pairs, least)
            #: products of the targets with the design, each column of it given those before
            self.crossed = residuals(self.pairs, self.pivots, self.present[2])
        #: those of the features, and the residual sums of squares of these
        self.features, self.squares = np.empty((a, sums.shape[1])), np.empty(sums.shape[1])

        def eliminate_some(start: int) -> None:
            piece = slice(start, start + FEATURES_AT_ONCE)
            pairs = pick(self.pairs, piece)
            if self.has_missing:
                self.pivots[:, piece] = eliminate(pairs, least)
            pivots = pick(self.pivots, piece)
            found = residuals(pairs, pivots, sums[:a, piece])
            self.features[:, piece] = found
            found *= found / pivots
            centred = sums[layout.squares, piece] - found[0]  # 0 for a constant feature
            left = centred - found[1:].sum(axis=0)
            self.squares[piece] = np.where(left > layout.resolution * np.maximum(centred, 0.0), left, 0.0)

        map_in_threads(eliminate_some, range(0, sums.shape[1], FEATURES_AT_ONCE), 16)

    def moments(self, targets: slice, columns: Indices | slice) -> Moments:
        """Moments of the residuals of some targets and some features."""
        n_rows, pairs, crossed, own = self.present
        crossed, own = pick(crossed[:, targets], columns), pick(own[targets], columns)
        pivots = pick(self.pivots, columns)
        if self.has_missing:
            left = residuals(pick(self.pairs, columns), pivots, crossed)
        else:
            left = self.crossed[:, targets]
        shares, given = left / pivots[:, None], self.sums[self.layout.n_design :][targets]
        gram = -contract(shares, left)
        np.einsum("ttp->tp", gram)[:] += own
        return Moments(
            n_read=self.n_read,
            means=self.total[1][0, targets] / self.total[0][0],
            n_rows=pick(n_rows, columns),
            rank=np.isfinite(pivots).sum(axis=0, dtype=float),
            weight=pick(pairs[0], columns),
            target_sums=crossed[0],
            target_squares=own,
            targets=gram,
            products=given[:, columns] - contract(shares, self.features[:, None, columns])[:, 0],
            squares=self.squares[columns],
        )

    def inflation(self, strata: Floats, per_row: Floats, counts: Indices, columns: Indices | slice) -> Floats:
        """Variance inflation of some features by their spread in the strata, without covariates.

        Each stratum has sums, rows, and the share of the variance that each of these stands for.
        """
        layout = self.layout

        def add_up(line: int) -> Floats:
            return np.asarray(np.einsum("h,hj->j", per_row, strata[:, line, columns]))

        mean = self.sums[0, columns] / np.maximum(pick(self.present[0], columns), 1.0)
        weight = add_up(layout.n_rows) if layout.pairwise else per_row @ counts
        squares = add_up(layout.squares) - mean * (2 * add_up(0) - mean * weight)
        return ratio(float(counts.sum()) * squares, self.squares[columns])


def eliminate(pairs: Floats, least: Floats) -> Floats:
    """Eliminate variables from Gram matrices, in place, and return their pivots, variables × features.

    ``pairs`` are the upper triangles. Afterwards they hold the products of each variable with those after it,
    given those before. A variable is ignored, with an infinite pivot, if its square is at most ``least``.
    """
    rows = triangle_rows(pairs)
    pivots = np.empty((len(rows), pairs.shape[1]))
    for k, row in enumerate(rows):
        pivots[k] = np.where(row[0] > least[k], row[0], np.inf)
        for i in range(1, len(row)):
            rows[k + i] -= row[i] / pivots[k] * row[i:]
    return pivots


def residuals(pairs: Floats, pivots: Floats, products: Floats) -> Floats:
    """Products of each variable given those before, given the products of the variables themselves."""
    left = products.copy()
    for k, row in enumerate(triangle_rows(pairs)):
        for i in range(1, len(row)):
            left[k + i] -= row[i] / pivots[k] * left[k]
    return left


def triangle_rows(pairs: Floats) -> list[Floats]:
    """The rows of upper triangles."""
    a = (math.isqrt(8 * len(pairs) + 1) - 1) // 2
    return [pairs[k * a - k * (k - 1) // 2 :][: a - k] for k in range(a)]


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
