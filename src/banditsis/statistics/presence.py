"""Sums over the rows in which a feature is present, for statistics that are adjusted for covariates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.statistics.regression import eliminate

#: A direction of the covariates is ignored if the rows in which a feature is present have a smaller share of
#: its sum of squares: sums over these rows are differences of larger sums.
SMALLEST_SHARE = 1e-11
FEATURES_AT_ONCE = 1 << 11  # few enough for the cache


class PresenceLines(NamedTuple):
    """Lines of the sums with the presence mask m of a feature, in this order.

    ``Σm``; ``Σm·v·aa'`` for each pair of columns of the design; ``Σm·b²`` for each target; ``Σm·a·b`` for
    each column of the design and each target.
    """

    first: int
    #: columns of the design
    width: int
    n_targets: int

    @property
    def n_pairs(self) -> int:
        """Number of pairs of columns of the design."""
        return self.width * (self.width + 1) // 2

    @property
    def n_lines(self) -> int:
        """Number of lines."""
        return 1 + self.n_pairs + (1 + self.width) * self.n_targets

    def columns(self, A: Floats, B: Floats, weighted: Floats, v: Floats | None) -> Floats:
        """Values whose sums over the present rows are the lines, shape (rows, lines).

        ``weighted`` are the targets times the sample weights, which ``v`` includes.
        """
        i, j = np.triu_indices(self.width)
        pairs = A[:, i] * A[:, j]
        if v is not None:
            pairs *= v[:, None]
        crossed = (A[:, :, None] * weighted[:, None, :]).reshape(len(A), -1)
        return np.column_stack([np.ones(len(A)), pairs, B * weighted, crossed])

    def of_targets(self, targets: Sequence[int]) -> Array:
        """Lines Σm·b² and Σm·a·b of some targets, shape (1 + width, targets)."""
        start = self.first + 1 + self.n_pairs
        lines: Array = start + self.n_targets * np.arange(1 + self.width)[:, None] + np.asarray(targets)
        return lines

    def lines(self, target: int) -> list[int]:
        """The lines that one target needs."""
        shared = range(self.first, self.first + 1 + self.n_pairs)
        return [*shared, *self.of_targets([target])[:, 0].tolist()]

    def fill(self, sums: Floats, targets: Sequence[int], columns: Indices | slice, out: Floats) -> None:
        """Fill the products of the design and some uncorrelated targets, an upper triangle."""
        w, t = self.width, len(targets)
        pairs = slice(self.first + 1, self.first + 1 + self.n_pairs)
        out[np.triu_indices(w)] = sums[pairs, columns]
        squares, *crossed = (sums[lines][:, columns] for lines in self.of_targets(targets))
        out[w : w + t, w : w + t] = 0.0
        out[np.arange(w, w + t), np.arange(w, w + t)] = squares
        for k, line in enumerate(crossed):
            out[k, w : w + t] = line


class PresentMoments(NamedTuple):
    """Moments of residuals given the covariates, over the rows in which each feature is present."""

    n_rows: Floats
    #: of the design in these rows
    rank: Floats
    #: Σv, or the number of rows if there are no variances
    variance: Floats
    #: Σb² of the targets themselves
    target_squares: Floats
    #: products of the residuals of the targets and then the feature, an upper triangle
    residuals: Floats

    @property
    def products(self) -> Floats:
        """Products of the residuals of the feature with those of each target."""
        return self.residuals[:-1, -1]

    @property
    def squares(self) -> Floats:
        """Sum of squares of the residuals of the feature."""
        return np.asarray(self.residuals[-1, -1])


class FeatureLines(NamedTuple):
    """Lines of the sums of a feature with the design and with some targets, and that of its squares."""

    given: Sequence[int]
    targets: Sequence[int]
    squares: int


def present_moments(
    sums: Floats,
    presence: PresenceLines,
    feature: FeatureLines,
    targets: Sequence[int],
    columns: Indices | slice,
    total: Floats,
    resolution: float,
) -> PresentMoments:
    """Moments of some columns of the sums; ``total`` are the squares of the design over all rows.

    A feature is treated as a linear combination of the design if its residual variance is a smaller share
    than the ``resolution``.
    """
    least, w, size = SMALLEST_SHARE * total, presence.width, presence.width + len(targets) + 1
    found = []
    for piece in _pieces(columns, sums.shape[1]):
        squares = sums[feature.squares, piece]
        matrix = np.empty((size, size, len(squares)))
        presence.fill(sums, targets, piece, matrix)
        for k, line in enumerate([*feature.given, *feature.targets]):
            matrix[k, -1] = sums[line, piece]
        matrix[-1, -1] = squares
        variance, given = matrix[0, 0].copy(), matrix[0, -1]
        centred = squares - given * np.divide(given, variance, out=np.zeros_like(given), where=variance > 0)
        target_squares = np.stack([matrix[k, k] for k in range(w, size - 1)])
        residuals, rank = eliminate(matrix, least)
        left = residuals[-1, -1]
        residuals[-1, -1] = np.where(left > resolution * np.maximum(centred, 0.0), left, 0.0)
        found.append(PresentMoments(sums[presence.first, piece], rank, variance, target_squares, residuals))
    return PresentMoments(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True)))


def _pieces(columns: Indices | slice, n_columns: int) -> Iterator[Indices | slice]:
    start, stop = columns.indices(n_columns)[:2] if isinstance(columns, slice) else (0, len(columns))
    for i in range(start, max(stop, start + 1), FEATURES_AT_ONCE):
        piece = slice(i, min(i + FEATURES_AT_ONCE, stop))
        yield piece if isinstance(columns, slice) else columns[piece]
