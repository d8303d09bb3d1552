"""The tail of Student's t, a formula for NumPy arrays and for kernels alike; Numba is not imported here."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Student's t with at least this many degrees of freedom has this formula, up to this share of variance.
MIN_RESIDUAL, MAX_SHARE = 20, 0.4
# Loops over arrays that are constant and not long are unrolled by the compiler, so cells become vectors.
#: Coefficients of artanh(u) / u in powers of u², the highest first.
ARTANH = 1 / np.arange(27.0, 0.0, -2.0)
#: Coefficients of √(u / sinh u) in powers of (2u)², after the first, which is 1.
ROOT_SINH = np.array(
    [-1 / 48, 1 / 2560, -61 / 7741440, 1261 / 7431782400, -79 / 20761804800, 66643 / 761775532277760]
)
#: Chebyshev coefficients of (1 + 2x) exp(x²) erfc(x) in (x - 3.75) / (x + 3.75), accurate to 4e-15, the last
#: first.
SCALED_ERFC = np.array(
    [
        3.302041832565104e-14,
        3.24728372641042e-14,
        -9.662823385852902e-13,
        1.945342032801114e-13,
        2.8687948982109012e-11,
        -6.318099760590532e-11,
        -7.754400465712195e-10,
        4.521959824322274e-09,
        1.0764999018658571e-08,
        -2.1886401048096403e-07,
        7.740383063824306e-07,
        4.139027985862757e-06,
        -6.916973302525133e-05,
        0.0004907758365257332,
        -0.002413163540417904,
        0.009074997670705172,
        -0.026658668435305854,
        0.059209939998191935,
        -0.08424913336651788,
        -0.004590054580646492,
        1.1775789345674017,
    ]
)


def scaled_tail(a: Any, share: Any) -> tuple[Any, Any]:
    r"""Factors of :math:`I_{1-s}(a, 1/2) = q e^{-x}`, the two-sided p-value of Student's t: q and x.

    It has 2a degrees of freedom, and s is the share of variance. With :math:`1 - s = e^{-w^2}` and
    :math:`α = a - 1/4` the p-value is proportional to

    .. math:: \int_w^\infty e^{-α v^2} \sqrt{\frac{v^2 / 2}{\sinh(v^2 / 2)}} \, dv

    The powers of v in the series of the root are integrated by parts. What remains is the normal
    distribution and a correction that vanishes at w = 0. The relative error is below 1e-12.

    Examples
    --------
    >>> q, x = scaled_tail(np.array([49.0]), np.array([0.04]))
    >>> q * np.exp(-x)  # 2 * scipy.stats.t.sf(np.sqrt(98 * 0.04 / 0.96), 98)
    array([0.0460...])
    """
    u = share / (2.0 - share)
    square, z = u * u, ARTANH[0]
    for k in range(1, 14):
        z = z * square + ARTANH[k]
    z = 2.0 * u * z  # -log(1 - s)
    alpha = a - 0.25
    half = 0.5 / alpha
    # ∫ v^m exp(-α v²) is ``moment`` × that of m = 0, plus ``edge`` × w exp(-α w²).
    moment, edge, power, total, correction = 1.0, 0.0, 1.0, 1.0, 0.0
    for k in range(6):
        low, high = 4.0 * k + 1.0, 4.0 * k + 3.0
        moment = moment * (low * half) * (high * half)
        middle = (power + low * edge) * half
        power = power * z
        edge = (power + high * middle) * half
        power = power * z
        total = total + ROOT_SINH[k] * moment
        correction = correction + ROOT_SINH[k] * edge
    root = np.sqrt(alpha * z)
    t = (root - 3.75) / (root + 3.75)
    twice, last, before = 2.0 * t, SCALED_ERFC[0], 0.0
    for k in range(1, 20):  # Clenshaw's recurrence
        last, before = SCALED_ERFC[k] - before + twice * last, last
    normal = (t * last - before + SCALED_ERFC[20]) / (1.0 + 2.0 * root)
    return normal + (2.0 / np.sqrt(np.pi)) * root * correction / total, alpha * z
