"""Least squares from sums, Newton's method, and the influence of rows on a correlation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices

#: Eigenvalues below this share of the largest are treated as 0.
SMALLEST_EIGENVALUE = 1e-12


def whiten(gram: Floats) -> Floats:
    r"""Matrix T with :math:`T G T^\top = I`, with as many rows as G has rank.

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
    kept = values > SMALLEST_EIGENVALUE * values.max(initial=0.0)
    transform: Floats = (vectors[:, kept] / np.sqrt(values[kept])).T * scale
    return transform


class Explained(NamedTuple):
    """What the columns of A explain of some features x; residuals are marked with a tilde."""

    #: Aᵀx of each feature, whitened
    features: Floats
    #: Σx̃² of each feature; 0 for linear combinations of A
    squares: Floats
    #: whitening matrix of AᵀA
    white: Floats

    def take(self, columns: Indices | slice) -> Explained:
        """The same for some of the features."""
        return self._replace(features=self.features[:, columns], squares=self.squares[columns])


def explain(given: Floats, squares: Floats, gram: Floats, resolution: float) -> Explained:
    """Least squares of features x on the columns of A.

    Parameters
    ----------
    given, squares : ndarray of shape (g, p) and (p,)
        Aᵀx and Σx² of each feature. The first column of A is the intercept.
    gram : ndarray of shape (g, g)
        AᵀA.
    resolution : float
        A feature is treated as a linear combination of A if its residual variance is a smaller share.
    """
    white = whiten(gram)
    explained = white @ given
    residual = squares - np.einsum("ij,ij->j", explained, explained)
    centred = squares - given[0] * (given[0] / gram[0, 0])
    residual = np.where(residual > resolution * np.maximum(centred, 0.0), residual, 0.0)
    return Explained(explained, residual, white)


def eliminate(products: Floats, least: Floats) -> tuple[Floats, Floats]:
    r"""Products of the residuals of some variables after regression on the others, for many features at once.

    This is the Schur complement by Gaussian elimination, one variable after the other.

    Parameters
    ----------
    products : ndarray of shape (g + t, g + t, p)
        Sums of products of g variables to regress on, then t others, for each of p features. Only the upper
        triangle is used; it is overwritten.
    least : ndarray of shape (g,)
        A variable is ignored if its residual sum of squares given those before it is not larger than this.

    Returns
    -------
    residuals, rank : ndarray of shape (t, t, p) and (p,)
        An upper triangle, and the number of variables that were used.

    Examples
    --------
    >>> import numpy as np
    >>> residuals, rank = eliminate(np.array([[4.0, 2.0], [np.nan, 3.0]])[:, :, None], np.array([1e-9]))
    >>> residuals[:, :, 0], rank
    (array([[2.]]), array([1.]))
    """
    rank = np.zeros(products.shape[2])
    for k, smallest in enumerate(least):
        pivot = products[k, k]
        used = pivot > smallest
        rank += used
        scaled = products[k, k + 1 :] * np.divide(1.0, pivot, out=np.zeros_like(pivot), where=used)
        for i in range(k + 1, len(products)):
            products[i, i:] -= scaled[i - k - 1] * products[k, i:]
    return products[len(least) :, len(least) :], rank


def maximise(
    derivatives: Callable[[Floats], tuple[float, Floats, Floats]], start: Floats, tolerance: float
) -> tuple[Floats, Floats] | None:
    """Maximise a log-likelihood by Newton's method with step halving.

    Parameters
    ----------
    derivatives : callable
        Log-likelihood, gradient and information matrix at some coefficients.
    start : ndarray
        Initial coefficients.
    tolerance : float
        Stop if a step increases the log-likelihood by about half of this.

    Returns
    -------
    (coefficients, information), or None if there is no convergence
        The information is that before the last step.
    """
    beta = start
    value, gradient, information = derivatives(beta)
    for _ in range(100):
        white = whiten(information)
        whitened = white @ gradient
        step, gain = white.T @ whitened, float(whitened @ whitened)
        if not np.isfinite(gain) or len(white) < len(beta):
            return None
        if gain < tolerance:
            return beta + step, information
        for halving in range(30):
            candidate = beta + step / 2**halving
            new = derivatives(candidate)
            if new[0] >= value:
                break
        else:  # near the maximum, rounding can hide the increase
            return (beta + step, information) if gain < 1e-6 else None
        beta, (value, gradient, information) = candidate, new
    return None


def squared_influence(x: Floats, y: Floats, weights: Floats) -> Floats:
    r"""Squared influence of each row on artanh(r) of each column of x, over the rows in which x is present.

    With x and y standardised, the influence is :math:`ψ / (1 - r^2)`, where
    :math:`ψ = xy - r (x^2 + y^2) / 2`. With missing values, its square is divided by the share of rows that
    are present, and 0 in the others. Rows have sampling weights. Columns that are constant or copies of y are
    NaN.
    """
    share = (weights / weights.sum())[:, None]
    some: float | Floats = 1.0
    if x.size and np.isnan(x.min()):
        present = ~np.isnan(x)
        x, share = np.where(present, x, 0.0), share * present
        some = share.sum(axis=0)
        share = share / np.where(some > 0, some, 1.0)
    x, varies = _standardise(x, share)
    y, y_varies = _standardise(np.broadcast_to(y[:, None], share.shape), share)
    r = np.einsum("ij,ij->j", x, share * y)
    usable = varies & y_varies & (np.abs(r) < 1.0 - 1e-6)
    both = np.square(x)
    both += np.square(y)
    both *= 0.5 * r
    x *= y
    x -= both
    x /= np.where(usable, (1.0 - r * r) * np.sqrt(some), np.nan)
    return np.square(x, out=x)


def _standardise(x: Floats, share: Floats) -> tuple[Floats, Array]:
    """Columns with mean 0 and mean square 1, and which columns are not constant; 0 where the share is 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.einsum("ij,ij->j", x, share)  # a sum of large values could overflow
        centred = x - mean
        if share.shape[1] > 1:
            centred[share == 0] = 0.0
        reach = np.maximum(centred.max(axis=0), -centred.min(axis=0))
        varies = (reach > 1e-9 * np.abs(mean)) & (reach < np.inf)
        if not varies.all():
            centred, reach = np.where(varies, centred, 0.0), np.where(varies, reach, 1.0)
        centred /= reach
    squares = np.einsum("ij,ij->j", np.square(centred), share)
    centred /= np.sqrt(np.where(varies, squares, 1.0))
    return centred, varies
