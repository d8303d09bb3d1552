"""The Gram matrix of [A B z], and what is left of it given the design A.

A row has the design ``A`` (an intercept, then the covariates), the targets ``B`` (what the responses ask) and
a weight. The Gram matrix of [A B z], where z are the cells of a feature, consists of sums over rows: those of
[A B] alone come from the response, those with z from the source. Eliminating A from it gives the products of
the residuals, and least squares needs no more.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, chunks
from banditsis.core.parallel import map_in_threads
from banditsis.statistics.base import ratio

#: Eigenvalues below this share of the largest are treated as 0, and variances below this share of a square.
SMALLEST_EIGENVALUE = 1e-12
#: A direction of the design is ignored if the rows in which a feature is present have a smaller share of its
#: sum of squares: sums over these rows are differences of larger sums.
SMALLEST_SHARE = 1e-11
#: The design explains a target if a smaller share of its sum of squares is left.
SMALLEST_RESIDUAL = 1e-10
#: Few enough for the cache, with and without a matrix for each.
FEATURES_AT_ONCE, COMPLETE_AT_ONCE = 1 << 11, 1 << 13


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
    #: whether targets are indicators of classes, whose squares need no sums of their own
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
    def n_presence(self) -> int:
        """Number of lines of :meth:`presence`."""
        n_pairs = self.n_design * (self.n_design + 1) // 2
        return self.weighted + n_pairs + (self.n_design + (not self.one_hot)) * self.n_targets

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
        columns.append((A[:, :, None] * weighted[:, None, :]).reshape(len(A), -1))
        return np.column_stack(columns if self.one_hot else [*columns, B * weighted])

    def total(self, A: Floats, B: Floats, weighted: Floats, v: Floats | None) -> Floats:
        """Sums of :meth:`presence` over all rows, in less time."""
        pairs = (A.T @ (A if v is None else A * v[:, None]))[triangle(self.n_design)]
        own = [] if self.one_hot else np.einsum("ij,ij->j", B, weighted)
        return np.concatenate([[len(A)] * self.weighted, pairs, (A.T @ weighted).ravel(), own])

    def split(self, lines: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Sums of :meth:`presence`: number of rows, pairs of A (upper triangle), A × B, and squares of B."""
        a, t = self.n_design, self.n_targets
        ends = np.cumsum([self.weighted, a * (a + 1) // 2, a * t])
        _, pairs, crossed, own = np.split(lines[: self.n_presence], ends)
        crossed = crossed.reshape(a, t, *lines.shape[1:])
        return lines[0], pairs, crossed, crossed[0] if self.one_hot else own


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
        return explain(self.targets, self.products, SMALLEST_RESIDUAL * self.target_squares)


class Complete(NamedTuple):
    """What is the same for all targets if no cell is missing."""

    #: orthonormal covariates, as combinations of the columns of the design
    basis: Floats
    #: their products with the targets and the features
    targets: Floats
    features: Floats
    #: residual sums of squares of the features
    squares: Floats


class Gram:
    """The Gram matrix of [A B z], for all targets and features.

    Parameters
    ----------
    layout : Layout
        What the lines of the sums are.
    sums : ndarray of shape (lines, features)
        The sums.
    summary : ndarray
        Sums of the lines of presence over all rows.
    resolution : float
        A feature is a linear combination of the design if its residual variance is a smaller share.
    """

    def __init__(self, layout: Layout, sums: Floats, summary: Floats, resolution: float) -> None:
        self.layout, self.sums, self.resolution = layout, sums, resolution
        self.n_read, self.total = float(summary[0]), layout.split(summary)[1:]
        presence = sums[layout.n_rows :]
        self.has_missing = layout.pairwise and bool((presence[0] != self.n_read).any())

    @cached_property
    def complete(self) -> Complete:
        """The elimination of A from sums over all rows."""
        (pairs, crossed, _), a, sums = self.total, self.layout.n_design, self.sums
        gram = np.zeros((a, a))
        gram[triangle(a)] = pairs
        mean = gram[0, 1:] / gram[0, 0]
        white = whiten(gram[1:, 1:] - np.outer(mean, gram[0, 1:]), SMALLEST_EIGENVALUE * np.diag(gram)[1:])
        basis = np.column_stack([-white @ mean, white])
        features, squares = np.empty((len(basis), sums.shape[1])), np.empty(sums.shape[1])

        def eliminate_some(start: int) -> None:
            piece = slice(start, start + COMPLETE_AT_ONCE)
            sx, found = sums[0, piece], np.matmul(basis, sums[:a, piece], out=features[:, piece])
            centred = sums[self.layout.squares, piece] - sx * (sx / gram[0, 0])  # 0 for a constant feature
            left = centred - np.einsum("ij,ij->j", found, found)
            squares[piece] = np.where(left > self.resolution * np.maximum(centred, 0.0), left, 0.0)

        map_in_threads(eliminate_some, range(0, sums.shape[1], COMPLETE_AT_ONCE), 8)
        return Complete(basis, basis @ crossed, features, squares)

    @property
    def slopes(self) -> Floats:
        """Coefficients of the targets on A, over all rows."""
        (pairs, crossed, _), (basis, others, *_) = self.total, self.complete
        slopes = basis.T @ others
        slopes[0] += crossed[0] / pairs[0]
        return slopes

    def squares(self, columns: Indices | slice) -> Floats:
        """Residual sums of squares of some features; with missing values, about the mean."""
        if not self.has_missing:
            return self.complete.squares[columns]
        sx, n = self.sums[0, columns], np.maximum(self.sums[self.layout.n_rows, columns], 1.0)
        return np.maximum(self.sums[self.layout.squares, columns] - sx * (sx / n), 0.0)

    def moments(self, targets: slice, columns: Indices | slice) -> Moments:
        """Moments of the residuals of some targets and some features."""
        if not self.has_missing:
            return self._complete_moments(targets, columns)
        places = np.arange(self.sums.shape[1])[columns]
        parts = chunks(places, FEATURES_AT_ONCE) if places.size else [places]
        found = [self._present_moments(targets, part) for part in parts]
        joined = [np.concatenate(some, axis=-1) for some in list(zip(*found, strict=True))[2:]]
        return Moments(*found[0][:2], *joined)

    def _complete_moments(self, targets: slice, columns: Indices | slice) -> Moments:
        (pairs, crossed, own), a, sums = self.total, self.layout.n_design, self.sums
        _, others, features, squares = self.complete
        others, total, own = others[:, targets], crossed[0, targets], own[targets]
        means = total / pairs[0]
        products = sums[a:][targets][:, columns] - means[:, None] * sums[0, columns]
        if len(others):
            products -= others.T @ features[:, columns]
        gram = np.diag(own) - np.outer(total, means) - others.T @ others
        n_rows, rank, weight = np.array([[self.n_read], [1.0 + len(others)], [pairs[0]]])
        given = total[:, None], own[:, None], gram[:, :, None]
        return Moments(self.n_read, means, n_rows, rank, weight, *given, products, squares[columns])

    def _present_moments(self, targets: slice, columns: Indices) -> Moments:
        layout, a, sums = self.layout, self.layout.n_design, self.sums
        n_rows, pairs, crossed, own = layout.split(sums[layout.n_rows :])
        own, given = own[targets][:, columns], sums[a:][targets][:, columns]
        places = np.arange(a, a + len(own))
        gram = np.zeros((a + len(own), a + len(own), len(columns)))
        gram[triangle(a)] = pairs[:, columns]
        gram[:a, a:] = crossed[:, targets][..., columns]
        gram[places, places] = own
        weight, total = gram[0, 0].copy(), gram[0, a:].copy()
        rows, squares = np.concatenate([sums[:a, columns], given]), sums[layout.squares, columns]
        centred = squares - rows[0] * ratio(rows[0], weight)
        all_pairs = self.total[0][np.cumsum([0, *range(a, 1, -1)])]  # the diagonal
        explained, rank = eliminate(gram, rows, SMALLEST_SHARE * all_pairs)
        left = squares - explained
        left = np.where(left > self.resolution * np.maximum(centred, 0.0), left, 0.0)
        means = self.total[1][0, targets] / self.total[0][0]
        known = n_rows[columns], rank, weight, total, own
        return Moments(self.n_read, means, *known, gram[a:, a:], rows[a:], left)

    def inflation(self, strata: Floats, per_row: Floats, counts: Indices, columns: Indices | slice) -> Floats:
        """Variance inflation of some features whose spread depends on the response, without covariates.

        ``strata`` are the sums of each stratum, ``per_row`` the share of the variance that each of its rows
        stands for, and ``counts`` its rows.
        """
        layout, n = self.layout, float(counts.sum())

        def add_up(line: int) -> Floats:
            return np.asarray(np.einsum("h,hj->j", per_row, strata[:, line, columns]))

        present = np.maximum(self.sums[layout.n_rows, columns], 1.0) if layout.pairwise else n
        weight = add_up(layout.n_rows) if layout.pairwise else per_row @ counts
        mean = self.sums[0, columns] / present
        squares = add_up(layout.squares) - mean * (2 * add_up(0) - mean * weight)
        return ratio(n * squares, self.squares(columns))

    def missingness(self, targets: slice) -> tuple[Floats, Array]:
        """Correlation of the targets with the presence of each feature, and where present rows are alike.

        The presence of a feature is a feature, whose sums are those of presence. Without covariates.
        """
        (weight, *_), crossed, own = self.total
        _, pairs, given, _ = self.layout.split(self.sums[self.layout.n_rows :])
        total, present = crossed[0, targets], pairs[0]
        gram = np.diag(own[targets]) - np.outer(total, total / weight)
        products = given[0, targets] - np.outer(total / weight, present)
        explained, _ = explain(gram[:, :, None], products, SMALLEST_RESIDUAL * own[targets, None])
        r = np.sqrt(np.clip(ratio(explained, present - present * (present / weight)), 0.0, 1.0))
        found = self.moments(targets, slice(None))
        limits = 1e-9 * np.diag(gram)[:, None] / weight * found.weight
        alike = (np.einsum("iij->ij", found.targets) <= limits).all(axis=0)
        return np.where(products[0] < 0, -r, r) if len(products) == 1 else r, np.broadcast_to(alike, r.shape)


@cache
def triangle(size: int) -> tuple[Indices, Indices]:
    """Rows and columns of the upper triangle of a matrix."""
    return np.triu_indices(size)


def common(values: Floats) -> float | Floats:
    """A number, if it is the same for all features."""
    return float(values[0]) if values.size == 1 else values


def whiten(gram: Floats, least: float | Floats = 0.0) -> Floats:
    r"""Matrix T with :math:`T G T^\top = I`, with as many rows as G has rank; given its upper triangle.

    Then :math:`b^\top G^+ c = (Tb)^\top (Tc)`. Variables whose square is at most ``least`` count as 0.

    Examples
    --------
    >>> import numpy as np
    >>> whiten(np.diag([4.0, 0.0, 1.0])).shape
    (2, 3)
    """
    square = np.diag(gram)
    scale = np.divide(1.0, np.sqrt(np.maximum(square, 0.0)), out=np.zeros(len(gram)), where=square > least)
    values, vectors = np.linalg.eigh(gram * scale * scale[:, None], "U")
    kept = values > SMALLEST_EIGENVALUE * values.max(initial=0.0)
    transform: Floats = (vectors[:, kept] / np.sqrt(values[kept])).T * scale
    return transform


def explain(gram: Floats, products: Floats, least: Floats) -> tuple[Floats, Floats]:
    """The squares of features that variables explain, and the number of independent ones.

    ``gram`` has the products of the variables, for each feature or the same for all; a variable is ignored if
    its square is at most ``least``.
    """
    if gram.shape[2] > 1:
        return eliminate(gram.copy(), products.copy(), least)
    white = whiten(gram[:, :, 0], least[:, 0])
    found = white @ products
    return np.einsum("ij,ij->j", found, found), np.array([float(len(white))])


def eliminate(gram: Floats, rows: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Eliminate the first variables from the Gram matrices of many features at once, in place.

    This is Gaussian elimination, one variable after the other, which leaves the Schur complement.

    Parameters
    ----------
    gram : ndarray of shape (q, q, p)
        Sums of products of q variables for each of p features; only the upper triangle is used.
    rows : ndarray of shape (q, p)
        Their products with the feature.
    least : ndarray of shape (a,) or (a, p)
        The first a variables are eliminated; one is ignored if its residual square is not larger than this.

    Returns
    -------
    explained, rank
        The square of each feature that they explain, and the number of variables that were used.

    Examples
    --------
    >>> import numpy as np
    >>> gram, rows = np.array([[4.0, 2.0], [np.nan, 3.0]])[:, :, None], np.array([[2.0], [1.5]])
    >>> eliminate(gram, rows, np.array([1e-9])), gram[1, 1], rows[1]
    ((array([1.]), array([1.])), array([2.]), array([0.5]))
    """
    explained, rank = np.zeros(gram.shape[2]), np.zeros(gram.shape[2])
    for k in range(len(least)):
        used = gram[k, k] > least[k]
        inverse = np.divide(1.0, gram[k, k], out=np.zeros_like(rank), where=used)
        for i in range(k + 1, len(gram)):
            factor = gram[k, i] * inverse
            gram[i, i:] -= factor * gram[k, i:]
            rows[i] -= factor * rows[k]
        explained += np.square(rows[k]) * inverse
        rank += used
    return explained, rank
