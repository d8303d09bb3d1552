"""Least squares by sums: what a few given columns leave of the rest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banditsis.arrays import Floats, Indices

#: An eigenvalue below this share of the largest is rounding.
SMALLEST = 1e-12
COLUMNS_AT_ONCE = 1 << 16


def whiten(gram: Floats) -> Floats:
    r"""A matrix T with :math:`T G T^\top = I`, of as many lines as G has rank.

    Then :math:`b^\top G^+ c = (Tb)^\top (Tc)`.

    Examples
    --------
    >>> import numpy as np
    >>> whiten(np.diag([4.0, 0.0, 1.0])).shape
    (2, 3)
    """
    size = np.sqrt(np.maximum(np.diag(gram), 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    values, vectors = np.linalg.eigh(gram * scale * scale[:, None])
    kept = values > SMALLEST * values.max(initial=0.0)
    lines: Floats = (vectors[:, kept] / np.sqrt(values[kept])).T * scale
    return lines


class ResidualMoments(NamedTuple):
    """What the given columns leave: Σ x̃y of each y, Σ x̃², and Σ x̃² if the first column alone is given."""

    products: Floats
    squares: Floats
    centred: Floats


def residual_moments(
    sums: Floats,
    given: list[int],
    others: list[int],
    square: int,
    gram: Floats,
    cross: Floats,
    columns: Indices | slice,
) -> ResidualMoments:
    r"""Moments of the features beside the given columns, by lines of the sums.

    Parameters
    ----------
    sums : ndarray of shape (lines, features)
        Products of the features with weights.
    given, others, square : lines
        Which lines are products with the given columns A (the first is the intercept), with other columns
        B, and Σ x².
    gram, cross : ndarray
        AᵀA and AᵀB.
    columns : indices or slice
        Which features.
    """
    white = whiten(gram)
    turned = white @ cross
    listed = np.arange(sums.shape[1])[columns]
    products, squares, centred = np.empty((len(others), listed.size)), *np.empty((2, listed.size))
    for start in range(0, listed.size, COLUMNS_AT_ONCE):
        place = slice(start, start + COLUMNS_AT_ONCE)
        part = sums[:, listed[place]]
        b = part[given]
        explained = white @ b
        products[:, place] = part[others] - turned.T @ explained
        squares[place] = part[square] - np.einsum("ij,ij->j", explained, explained)
        centred[place] = part[square] - (b[0] * (b[0] / gram[0, 0]))
    return ResidualMoments(products, squares, centred)


def usable(left: ResidualMoments, resolution: float) -> Floats:
    """Σ x̃², and 0 for a feature that the given columns explain."""
    return np.where(left.squares > resolution * np.maximum(left.centred, 0.0), left.squares, 0.0)
