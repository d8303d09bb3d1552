"""The four simulation models of the BanditSIS paper [1]_.

Features have covariance ``Σ_ij = 0.5^|i-j|``, and the response depends on the first few of them. All models
have the parameters and return the values of :func:`make_m1`.

References
----------
.. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature screening,
   section 5.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.core.validation import check_integer

RHO = 0.5
REST = (1.0 - RHO * RHO) ** 0.5
#: Number of values drawn at a time, few enough to stay in the cache while they are correlated.
BLOCK = 1 << 17
#: Draws a value for each row or each active feature.
Draw = Callable[[np.random.Generator], Any]


def make_m1(
    n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: DTypeLike = np.float64
) -> tuple[Array, Floats, Indices]:
    r"""Model M1: normal features with equal coefficients.

    .. math:: y = \sum_{j=1}^{10} X_j + ε, \quad X \sim N(0, Σ), \quad Σ_{ij} = 0.5^{|i-j|},
        \quad ε \sim N(0, 1)

    Parameters
    ----------
    n, p : int
        Numbers of rows and features.
    random_state : int, SeedSequence or Generator, optional
        Source of the random numbers.
    n_active : int
        Number of features that the response depends on, the first ones.
    dtype : {float64, float32}
        Type of X. The two types use different random numbers.

    Returns
    -------
    X : ndarray of shape (n, p), row-major
    y : ndarray of shape (n,), float64
    active : ndarray of int

    Examples
    --------
    >>> X, y, active = make_m1(2000, 50, random_state=0, n_active=3)
    >>> X.shape, active
    ((2000, 50), array([0, 1, 2]))
    >>> round(float(np.corrcoef(X[:, 20], X[:, 21])[0, 1]), 1)
    0.5
    """
    return _simulate(n, p, random_state, n_active, dtype)


def make_m2(
    n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: DTypeLike = np.float64
) -> tuple[Array, Floats, Indices]:
    r"""Model M2: normal features with random coefficients of mixed signs.

    .. math:: y = \sum_{j=1}^{10} β_j X_j + ε, \quad β_j = (-1)^{U_j} (a + |Z_j|), \quad
        a = 4 \log(n) / \sqrt n

    with :math:`U_j \sim B(0.95)`, :math:`Z_j \sim N(0, 1)`, and X and ε as in M1. The effects of
    neighbouring features with opposite signs cancel, so some active features are nearly uncorrelated with y.
    No marginal screening finds all of them in every data set.

    Examples
    --------
    >>> X, y, active = make_m2(1000, 50, random_state=0)
    >>> np.linalg.lstsq(X[:, active], y)[0].round(1)
    array([-1.4, -0.9, -1.6, -2.3, -1.3, -2. , -0.9, -2.1, -1.6, -1.2])
    """

    def draw_coefficients(rng: np.random.Generator) -> Floats:
        sign = np.where(rng.random(n_active) < 0.95, -1.0, 1.0)
        minimum = 4 * math.log(n) / math.sqrt(n)
        return np.asarray(sign * (minimum + np.abs(rng.standard_normal(n_active))))

    return _simulate(n, p, random_state, n_active, dtype, coefficients=draw_coefficients)


def make_m3(
    n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: DTypeLike = np.float64
) -> tuple[Array, Floats, Indices]:
    r"""Model M3: heavy-tailed features, multivariate t with 5 degrees of freedom.

    .. math:: y = \sum_{j=1}^{10} X_j + ε, \quad X = \sqrt{3/5} \, Z / \sqrt{W / 5}, \quad
        Z \sim N(0, Σ), \quad W \sim χ^2_5

    with one W for each row, and Σ and ε as in M1. The factor :math:`\sqrt{3/5}` makes Σ the
    covariance of X, as in the paper.

    Examples
    --------
    >>> X, y, active = make_m3(20_000, 20, random_state=0)
    >>> round(float(X.var()), 1)
    1.0
    """
    return _simulate(n, p, random_state, n_active, dtype, scale=lambda rng: np.sqrt(3 / rng.chisquare(5, n)))


def make_m4(
    n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: DTypeLike = np.float64
) -> tuple[Array, Floats, Indices]:
    r"""Model M4: a mixture of two normal distributions.

    .. math:: y = \sum_{j=1}^{10} X_j + ε, \quad X \sim \tfrac12 N(0, Σ) + \tfrac12 N(2, Σ)

    with Σ and ε as in M1. Each row is shifted by 2 with probability one half, so every feature
    is correlated with y.

    Examples
    --------
    >>> X, y, active = make_m4(1000, 200, random_state=0)
    >>> np.bincount(X.mean(axis=1).round().astype(int))
    array([463,   0, 537])
    """
    return _simulate(n, p, random_state, n_active, dtype, shift=lambda rng: 2.0 * rng.integers(0, 2, n))


def _simulate(
    n: int,
    p: int,
    random_state: Any,
    n_active: int,
    dtype: DTypeLike,
    *,
    scale: Draw = lambda rng: 1.0,
    shift: Draw = lambda rng: 0.0,
    coefficients: Draw = lambda rng: 1.0,
) -> tuple[Array, Floats, Indices]:
    """Rows ``scale · z + shift`` with z ~ N(0, Σ), ``y = Σ β_j X_j + ε``, and the active features."""
    from scipy.signal import lfilter  # takes longer to import than a screening

    for name, value in (("n", n), ("p", p)):
        check_integer(name, value, 1)
    check_integer("n_active", n_active, 1, p)
    kind: Any = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {kind}.")
    rng = np.random.default_rng(random_state)
    scales, shifts = (np.broadcast_to(draw(rng), n).astype(np.float64) for draw in (scale, shift))
    X = np.empty((n, p), dtype=kind)
    step = max(1, BLOCK // p)
    for i in range(0, n, step):
        block = X[i : i + step]
        rng.standard_normal(out=block, dtype=kind)
        # z_j = ρ z_{j-1} + √(1 - ρ²) e_j, and z_0 = e_0
        block[:, 0] /= REST
        z = lfilter([REST], [1.0, -RHO], block.astype(np.float64))
        block[:] = scales[i : i + step, None] * z + shifts[i : i + step, None]
    y = X[:, :n_active].astype(np.float64) @ (np.ones(n_active) * coefficients(rng))
    return X, y + rng.standard_normal(n), np.arange(n_active)
