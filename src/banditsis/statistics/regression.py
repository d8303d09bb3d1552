"""Least squares from sums, Newton's method, and the influence of rows on a correlation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from banditsis.core.arrays import Floats

#: Eigenvalues below this share of the largest are treated as 0.
SMALLEST_EIGENVALUE = 1e-12


def whiten(gram: Floats) -> Floats:
    r"""Matrix T with :math:`T G T^\top = I`, with as many rows as G has rank; given its upper triangle.

    Then :math:`b^\top G^+ c = (Tb)^\top (Tc)`.

    Examples
    --------
    >>> import numpy as np
    >>> whiten(np.diag([4.0, 0.0, 1.0])).shape
    (2, 3)
    """
    size = np.sqrt(np.maximum(np.diag(gram), 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    values, vectors = np.linalg.eigh(gram * scale * scale[:, None], "U")
    kept = values > SMALLEST_EIGENVALUE * values.max(initial=0.0)
    transform: Floats = (vectors[:, kept] / np.sqrt(values[kept])).T * scale
    return transform


def eliminate(
    gram: Floats, design: Floats, given: Floats, squares: Floats, least: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    r"""Regress some targets and a feature x on a design, for many features at once.

    This is the Schur complement: by Gaussian elimination, one variable after the other, if each feature has
    its own Gram matrix, and by matrix products if there is one for all.

    Parameters
    ----------
    gram : ndarray of shape (a + t, a + t, p) or (a + t, a + t, 1)
        Sums of products of the a columns of the design and t targets: their own for each of p features, or
        the same for all. Only the upper triangle is used; it may be overwritten.
    design, given : ndarray of shape (a, p) and (t, p)
        Products of the design and of the targets with x.
    squares : ndarray of shape (p,)
        Σx².
    least : ndarray of shape (a,) or (a, p)
        A column of the design is ignored if its (residual) sum of squares is not larger than this.

    Returns
    -------
    gram, given, squares, rank
        The same sums of the residuals of the targets and of x, and the number of columns that were used.

    Examples
    --------
    >>> import numpy as np
    >>> gram, x = np.array([[4.0, 2.0], [np.nan, 3.0]])[:, :, None], np.array([[2.0], [1.5]])
    >>> gram, given, squares, rank = eliminate(gram, x[:1], x[1:], np.array([2.0]), np.array([1e-9]))
    >>> gram.ravel(), given.ravel(), squares, rank
    (array([2.]), array([0.5]), array([1.]), array([1.]))
    """
    a = len(least)
    if gram.shape[2] == 1:
        matrix, white = gram[:, :, 0], np.zeros((a, a))
        used = np.flatnonzero(np.diag(matrix)[:a] > least.ravel())
        found = whiten(matrix[np.ix_(used, used)])
        white[: len(found), used] = found
        others = white @ matrix[:a, a:]
        residuals = matrix[a:, a:] - others.T @ others
        features = white @ design
        squares = squares - np.einsum("ij,ij->j", features, features)
        given = given - others.T @ features
        return residuals[:, :, None], given, squares, np.array([float(len(found))])
    rows, rank = np.concatenate([design, given]), np.zeros(gram.shape[2])
    for k in range(a):
        used = gram[k, k] > least[k]
        inverse = np.divide(1.0, gram[k, k], out=np.zeros_like(rank), where=used)
        for i in range(k + 1, len(gram)):
            factor = gram[k, i] * inverse
            gram[i, i:] -= factor * gram[k, i:]
            rows[i] -= factor * rows[k]
        squares = squares - np.square(rows[k]) * inverse
        rank += used
    return gram[a:, a:], rows[a:], squares, rank


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
    beta, (value, gradient, information) = start, derivatives(start)
    for _ in range(100):
        white = whiten(information)
        step, gain = white.T @ (white @ gradient), float(np.square(white @ gradient).sum())
        if not np.isfinite(gain) or len(white) < len(beta):
            return None
        if gain < tolerance:
            return beta + step, information
        for size in 0.5 ** np.arange(30):
            found = derivatives(beta + size * step)
            if found[0] >= value:
                break
        else:  # near the maximum, rounding can hide the increase
            return (beta + step, information) if gain < 1e-6 else None
        beta, (value, gradient, information) = beta + size * step, found
    return None


def squared_influence(x: Floats, y: Floats, weights: Floats) -> Floats:
    r"""Squared influence of each row on artanh(r) of each column of x, over the rows in which x is present.

    With x and y standardised, the influence is :math:`ψ / (1 - r^2)`, where
    :math:`ψ = xy - r (x^2 + y^2) / 2`. With missing values, its square is divided by the share of rows that
    are present, and 0 in the others. Rows have sampling weights. Columns that are constant or copies of y are
    NaN.
    """
    present = ~np.isnan(x)
    share = weights[:, None] / weights.sum() * present
    known = share.sum(axis=0)
    share /= np.where(known > 0, known, 1.0)
    x, y = (_standardise(values, share) for values in (np.where(present, x, 0.0), y[:, None]))
    r = np.einsum("ij,ij->j", x, share * y)
    usable = (np.abs(r) < 1.0 - 1e-6) & x.any(axis=0) & y.any(axis=0)
    influence = x * y - 0.5 * r * (np.square(x) + np.square(y))
    return np.asarray(np.square(influence / np.where(usable, (1.0 - r * r) * np.sqrt(known), np.nan)))


def _standardise(x: Floats, share: Floats) -> Floats:
    """Columns with mean 0 and mean square 1, but 0 if they are constant or where the share is 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (x * share).sum(axis=0)  # could overflow, as a difference could
        centred = np.where(share > 0, x - mean, 0.0)
        reach = np.abs(centred).max(axis=0)
    varies = (reach > 1e-9 * np.abs(mean)) & (reach < np.inf)
    centred = np.where(varies, centred, 0.0) / np.where(varies, reach, 1.0)
    squares = (np.square(centred) * share).sum(axis=0)
    return np.asarray(centred / np.sqrt(np.where(varies, squares, 1.0)))
