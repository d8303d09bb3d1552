"""From sums to scores, one feature at a time.

Limits are written as conditions, because compiling ``min`` and ``max`` takes a tenth of a second.
"""

from __future__ import annotations

import math

from banditsis.core.arrays import Array
from banditsis.kernels.compile import rounded


@rounded
def correlate(
    sx: Array, sxy: Array, sxx: Array, n: float, sy: float, spread_y: float, limit: float, out: Array
) -> None:
    """Fill the correlations, from -limit to limit, given Σz, Σzy, Σz², n, Σy and √Σ(y - ȳ)².

    They are 0 if the feature or the response is constant.
    """
    mean_y = sy / n
    for j in range(out.size):
        square = sxx[j] - sx[j] * (sx[j] / n)
        spread = math.sqrt(square if square > 0.0 else 0.0) * spread_y
        r = (sxy[j] - sx[j] * mean_y) / (spread if spread > 0.0 else 1.0)
        r = limit if r > limit else -limit if r < -limit else r
        out[j] = r if spread > 0.0 else 0.0


@rounded
def count_informative(
    squares: Array,
    sx: Array,
    plain: Array,
    square: Array,
    fourth: Array,
    weight: Array,
    n_rows: Array,
    out: Array,
) -> None:
    """Fill the number of informative rows, at most n, which is Σw over the present rows.

    ``squares`` are Σwz² about the mean, ``sx`` Σwz, ``plain``, ``square`` and ``fourth`` Σw²z, Σw²z² and
    Σw²z⁴, and ``weight`` Σw², where w are the weights of strata. The sums of z³ that fourth powers about the
    mean need are not known, so features are taken to be symmetric about it; the shift of a column is close to
    its mean, so this hardly matters.
    """
    for j in range(out.size):
        n = n_rows[j]
        mean = sx[j] / n if n > 0.0 else 0.0
        mean2 = mean * mean
        centred = fourth[j] - 6.0 * mean2 * square[j] + (8.0 * mean2 * mean) * plain[j]
        centred -= 3.0 * weight[j] * (mean2 * mean2)
        if centred > 0.0:
            share = squares[j] / math.sqrt(centred)
            found = share * share
            out[j] = found if found < n else n
        else:  # fourth powers of very small values are 0, which says nothing
            out[j] = n if squares[j] > 0.0 else 0.0
