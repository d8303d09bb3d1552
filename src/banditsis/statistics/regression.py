"""Least squares from sums, Newton's method, and the influence of rows on a correlation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from banditsis.arrays import Array, Floats

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


def residual_moments(
    given: Floats, targets: Floats, squares: Floats, gram: Floats, cross: Floats, resolution: float
) -> tuple[Floats, Floats]:
    r"""Moments of the residuals x̃ of features x after regression on the columns of A.

    Parameters
    ----------
    given, targets, squares : ndarray of shape (g, p), (t, p) and (p,)
        Aᵀx, Bᵀx and Σx² of each feature. The first column of A is the intercept.
    gram, cross : ndarray of shape (g, g) and (g, t)
        AᵀA and AᵀB.
    resolution : float
        A feature is treated as a linear combination of A if its residual variance is a smaller share.

    Returns
    -------
    products, squares : ndarray of shape (t, p) and (p,)
        Bᵀx̃ and Σx̃², where Σx̃² is 0 for linear combinations of A.
    """
    white = whiten(gram)
    explained = white @ given
    residual = squares - np.einsum("ij,ij->j", explained, explained)
    centred = squares - given[0] * (given[0] / gram[0, 0])
    residual = np.where(residual > resolution * np.maximum(centred, 0.0), residual, 0.0)
    return targets - (white @ cross).T @ explained, residual


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
    r"""Squared influence of each row on artanh(r), averaged over the columns of x.

    With x and y standardised, the influence is :math:`ψ / (1 - r^2)`, where
    :math:`ψ = xy - r (x^2 + y^2) / 2`. Rows have sampling weights with mean 1. Columns that are constant or
    copies of y are left out; the result is empty if there are no others, or if y is constant.
    """
    share = weights[:, None] / weights.sum()
    x, varies = _standardise(x, share)
    y, y_varies = _standardise(y[:, None], share)
    r = np.sum(x * y * share, axis=0)
    usable = varies & y_varies & (np.abs(r) < 1.0 - 1e-6)
    x, r = x[:, usable], r[usable]
    influence = (x * y - 0.5 * r * (x * x + y * y)) / (1.0 - r * r)
    return np.square(influence).mean(axis=1) if usable.any() else np.empty(0)


def _standardise(x: Floats, share: Floats) -> tuple[Floats, Array]:
    """Columns with mean 0 and mean square 1, and which columns are not constant."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.sum(x * share, axis=0)  # a sum of large values could overflow
        centred = x - mean
        reach = np.abs(centred).max(axis=0)
        varies = (reach > 1e-9 * np.abs(mean)) & (reach < np.inf)
        centred = np.where(varies, centred, 0.0) / np.where(varies, reach, 1.0)
    return centred / np.where(varies, np.sqrt(np.sum(np.square(centred) * share, axis=0)), 1.0), varies
