"""The four simulated models of the BanditSIS paper [1]_, of any size.

All have features with covariance ``Σ_ij = 0.5^|i-j|`` and a response that depends on the first few of them.
Features are made row by row in place: no p × p matrix, and no second copy of X.

References
----------
.. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature screening,
   section 5.1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from banditsis.arrays import Array, Floats, Indices
from banditsis.validation import check_integer

RHO = 0.5
DEGREES_OF_FREEDOM = 5
#: Values that are drawn and then correlated while they are still in the cache.
BLOCK = 1 << 17


def make_m1(
    n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: DTypeLike = np.float64
) -> tuple[Array, Floats, Indices]:
    r"""Model M1: normal features, equal coefficients [1]_.

    .. math:: y = \sum_{j=1}^{10} X_j + ε, \quad X \sim N(0, Σ), \quad Σ_{ij} = 0.5^{|i-j|},
        \quad ε \sim N(0, 1)

    Parameters
    ----------
    n, p : int
        Rows and features.
    random_state : int, SeedSequence or Generator, optional
        Where the numbers come from.
    n_active : int
        How many of the features, the first ones, the response depends on.
    dtype : {float64, float32}
        Type of X. Numbers of both types come from different draws.

    Returns
    -------
    X : ndarray of shape (n, p), row-major
    y : ndarray of shape (n,), float64
    active : ndarray of int
        The features that y depends on.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, section 5.1.

    Examples
    --------
    >>> X, y, active = make_m1(2000, 50, random_state=0, n_active=3)
    >>> X.shape, active
    ((2000, 50), array([0, 1, 2]))
    >>> round(float(np.corrcoef(X[:, 20], X[:, 21])[0, 1]), 1)
    0.5
    """
    rng = np.random.default_rng(random_state)
    _check_sizes(n, p, n_active)
    X = _features(n, p, rng, dtype, np.ones(n), np.zeros(n))
    return _respond(X, np.ones(n_active), rng)


def make_m2(
    n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: DTypeLike = np.float64
) -> tuple[Array, Floats, Indices]:
    r"""Model M2: normal features, random coefficients of mixed signs [1]_.

    .. math:: y = \sum_{j=1}^{10} β_j X_j + ε, \quad β_j = (-1)^{U_j} (a + |Z_j|), \quad
        a = 4 \log(n) / \sqrt n

    with :math:`U_j \sim B(0.95)`, :math:`Z_j \sim N(0, 1)`, and X and ε as in :func:`make_m1`. Neighbouring
    features of opposite sign cancel, so that some active features hardly correlate with y: no marginal
    screening finds them all in every data set.

    Parameters
    ----------
    n, p, random_state, n_active, dtype
        As in :func:`make_m1`.

    Returns
    -------
    X, y, active
        As in :func:`make_m1`.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, section 5.1.

    Examples
    --------
    >>> X, y, active = make_m2(1000, 50, random_state=0)
    >>> np.linalg.lstsq(X[:, active], y)[0].round(1)
    array([-1.4, -0.9, -1.6, -2.3, -1.3, -2. , -0.9, -2.1, -1.6, -1.2])
    """
    rng = np.random.default_rng(random_state)
    _check_sizes(n, p, n_active)
    X = _features(n, p, rng, dtype, np.ones(n), np.zeros(n))
    sign = np.where(rng.random(n_active) < 0.95, -1.0, 1.0)
    least = 4 * math.log(n) / math.sqrt(n)
    return _respond(X, sign * (least + np.abs(rng.standard_normal(n_active))), rng)


def make_m3(
    n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: DTypeLike = np.float64
) -> tuple[Array, Floats, Indices]:
    r"""Model M3: features with heavy tails, multivariate t with 5 degrees of freedom [1]_.

    .. math:: y = \sum_{j=1}^{10} X_j + ε, \quad X = \sqrt{3/5} \, Z / \sqrt{W / 5}, \quad
        Z \sim N(0, Σ), \quad W \sim χ^2_5

    with one W for each row, and Σ and ε as in :func:`make_m1`. The factor :math:`\sqrt{3/5}` makes Σ the
    covariance of X, as the paper says.

    Parameters
    ----------
    n, p, random_state, n_active, dtype
        As in :func:`make_m1`.

    Returns
    -------
    X, y, active
        As in :func:`make_m1`.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, section 5.1.

    Examples
    --------
    >>> X, y, active = make_m3(20_000, 20, random_state=0)
    >>> round(float(X.var()), 1)
    1.0
    """
    rng = np.random.default_rng(random_state)
    _check_sizes(n, p, n_active)
    nu = DEGREES_OF_FREEDOM
    scale = np.sqrt((nu - 2) / rng.chisquare(nu, n))
    X = _features(n, p, rng, dtype, scale, np.zeros(n))
    return _respond(X, np.ones(n_active), rng)


def make_m4(
    n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: DTypeLike = np.float64
) -> tuple[Array, Floats, Indices]:
    r"""Model M4: a mixture of two normal populations [1]_.

    .. math:: y = \sum_{j=1}^{10} X_j + ε, \quad X \sim \tfrac12 N(0, Σ) + \tfrac12 N(2, Σ)

    with Σ and ε as in :func:`make_m1`: a whole row is shifted by 2 with probability one half. The shift makes
    every feature correlate with y.

    Parameters
    ----------
    n, p, random_state, n_active, dtype
        As in :func:`make_m1`.

    Returns
    -------
    X, y, active
        As in :func:`make_m1`.

    References
    ----------
    .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
       screening, section 5.1.

    Examples
    --------
    >>> X, y, active = make_m4(1000, 200, random_state=0)
    >>> np.bincount(X.mean(axis=1).round().astype(int))
    array([463,   0, 537])
    """
    rng = np.random.default_rng(random_state)
    _check_sizes(n, p, n_active)
    shift = 2.0 * rng.integers(0, 2, n).astype(np.float64)
    X = _features(n, p, rng, dtype, np.ones(n), shift)
    return _respond(X, np.ones(n_active), rng)


def _check_sizes(n: int, p: int, n_active: int) -> None:
    """Refuse sizes that no data set can have."""
    check_integer("n", n, 1)
    check_integer("p", p, 1)
    check_integer("n_active", n_active, 1, p)


def _features(
    n: int, p: int, rng: np.random.Generator, dtype: DTypeLike, scale: Floats, shift: Floats
) -> Array:
    """Rows ``scale · z + shift`` with z ~ N(0, Σ)."""
    from banditsis.kernels.autoregressive import autoregress

    if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64 or float32, got {np.dtype(dtype)}.")
    kind: Any = np.float64 if np.dtype(dtype) == np.float64 else np.float32
    X = np.empty((n, p), dtype=kind)
    step = max(1, BLOCK // p)
    for i in range(0, n, step):
        block = X[i : i + step]
        rng.standard_normal(out=block, dtype=kind)
        autoregress(block, RHO, scale[i : i + step], shift[i : i + step])
    return X


def _respond(X: Array, coefficients: Floats, rng: np.random.Generator) -> tuple[Array, Floats, Indices]:
    """The response ``y = Σ β_j X_j + ε`` of the first features, and which they are."""
    y = X[:, : coefficients.size].astype(np.float64) @ coefficients
    y += rng.standard_normal(len(X))
    return X, y, np.arange(coefficients.size)
