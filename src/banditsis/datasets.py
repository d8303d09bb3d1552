r"""The four simulation models of the BanditSIS paper [1]_.

In all of them features have covariance :math:`Σ_{ij} = 0.5^{|i-j|}`, and the response is
:math:`y = \sum_{j=1}^{10} β_j X_j + ε` with :math:`ε \sim N(0, 1)`. All have the parameters and return the
values of :func:`make_m1`.

References
----------
.. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature screening,
   section 5.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices
from banditsis.core.validation import check_integer

RHO = 0.5
REST = (1.0 - RHO * RHO) ** 0.5
#: Number of values drawn at a time, few enough to stay in the cache while they are correlated.
BLOCK = 1 << 17
#: Features, response and indices of the active features.
Data = tuple[Array, Floats, Indices]


def make_m1(n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: Any = np.float64) -> Data:
    r"""Model M1: normal features, :math:`X \sim N(0, Σ)`, with equal coefficients, :math:`β_j = 1`.

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
    return _simulate("m1", n, p, random_state, n_active, dtype)


def make_m2(n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: Any = np.float64) -> Data:
    r"""Model M2: features as in M1, with random coefficients of mixed signs.

    .. math:: β_j = (-1)^{U_j} (4 \log(n) / \sqrt n + |Z_j|), \quad U_j \sim B(0.95), \quad Z_j \sim N(0, 1)

    The effects of neighbouring features with opposite signs cancel, so some active features are nearly
    uncorrelated with y. No marginal screening finds all of them in every data set.

    Examples
    --------
    >>> X, y, active = make_m2(1000, 50, random_state=0)
    >>> np.linalg.lstsq(X[:, active], y)[0].round(1)
    array([-1.4, -0.9, -1.6, -2.3, -1.3, -2. , -0.9, -2.1, -1.6, -1.2])
    """
    return _simulate("m2", n, p, random_state, n_active, dtype)


def make_m3(n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: Any = np.float64) -> Data:
    r"""Model M3: heavy-tailed features, multivariate t with 5 degrees of freedom, otherwise as M1.

    .. math:: X = \sqrt{3/5} \, Z / \sqrt{W / 5}, \quad Z \sim N(0, Σ), \quad W \sim χ^2_5

    with one W for each row. The factor :math:`\sqrt{3/5}` makes Σ the covariance of X, as in the paper.

    Examples
    --------
    >>> X, y, active = make_m3(20_000, 20, random_state=0)
    >>> round(float(X.var()), 1)
    1.0
    """
    return _simulate("m3", n, p, random_state, n_active, dtype)


def make_m4(n: int, p: int, random_state: Any = None, *, n_active: int = 10, dtype: Any = np.float64) -> Data:
    r"""Model M4: a mixture, :math:`X \sim \tfrac12 N(0, Σ) + \tfrac12 N(2, Σ)`, otherwise as M1.

    Each row is shifted by 2 with probability one half, so every feature is correlated with y.

    Examples
    --------
    >>> X, y, active = make_m4(1000, 200, random_state=0)
    >>> np.bincount(X.mean(axis=1).round().astype(int))
    array([463,   0, 537])
    """
    return _simulate("m4", n, p, random_state, n_active, dtype)


def _simulate(model: str, n: int, p: int, random_state: Any, n_active: int, dtype: Any) -> Data:
    """Rows ``scale · z + shift`` with z ~ N(0, Σ), ``y = Σ β_j X_j + ε``, and the active features."""
    from scipy.signal import lfilter  # takes longer to import than a screening

    check_integer("n", n, 1)
    check_integer("n_active", n_active, 1, check_integer("p", p, 1))
    kind: Any = np.dtype(dtype)
    if kind not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {kind}.")
    rng = np.random.default_rng(random_state)
    scale = np.sqrt(3 / rng.chisquare(5, n)) if model == "m3" else np.ones(n)
    shift = 2.0 * rng.integers(0, 2, n) if model == "m4" else np.zeros(n)
    X = np.empty((n, p), dtype=kind)
    step = max(1, BLOCK // p)
    for i in range(0, n, step):
        block = X[i : i + step]
        rng.standard_normal(out=block, dtype=kind)
        # z_j = ρ z_{j-1} + √(1 - ρ²) e_j, and z_0 = e_0
        block[:, 0] /= REST
        z = lfilter([REST], [1.0, -RHO], block.astype(np.float64))
        block[:] = scale[i : i + step, None] * z + shift[i : i + step, None]
    coefficients = np.ones(n_active)
    if model == "m2":
        sign = np.where(rng.random(n_active) < 0.95, -1.0, 1.0)
        coefficients = sign * (4 * np.log(n) / np.sqrt(n) + np.abs(rng.standard_normal(n_active)))
    y = X[:, :n_active].astype(np.float64) @ coefficients
    return X, y + rng.standard_normal(n), np.arange(n_active)
