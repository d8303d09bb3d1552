"""Model-free measures of columns. Blocks are columns × rows here."""

from __future__ import annotations

import math

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise
from banditsis.kernels.ranks import end_of_ties
from banditsis.kernels.sorting import argsort


@elementwise
def standardise(x: Array, out: Array) -> bool:
    """Fill x with mean 0 and mean square 1; False if it is constant.

    A power of two brings values to about 1 first, so that squares neither overflow nor vanish.
    """
    n, low, high = x.size, x[0], x[0]
    for i in range(n):
        low, high = min(low, x[i]), max(high, x[i])
    if low == high:
        return False
    scale = math.ldexp(1.0, -min(max(math.frexp(0.5 * high - 0.5 * low)[1] + 1, -1000), 1000))
    origin, mean, squares = x[0] * scale, 0.0, 0.0
    for i in range(n):
        out[i] = x[i] * scale - origin
        mean += out[i]
    mean /= n
    for i in range(n):
        out[i] -= mean
        squares += out[i] * out[i]
    factor = 1.0 / math.sqrt(squares / n)
    for i in range(n):
        out[i] *= factor
    return True


@elementwise
def sirs(block: Array, places: Array, begins: Array, z: Array, out: Array) -> None:
    """Mean square of the partial means of x over lower responses.

    ``places`` sort the response, ``begins`` says where a value of it stands for the first time.
    """
    n = places.size
    for k in range(out.size):
        if not standardise(block[k], z):
            out[k] = 0.0
            continue
        total, below, passed = 0.0, 0.0, 0.0
        for i in range(n):
            if begins[i]:
                below = passed
            total += below * below
            passed += z[places[i]]
        out[k] = total / n / n / n


@elementwise
def mean_variance(
    block: Array,
    codes: Array,
    sizes: Array,
    passed: Array,
    order: Array,
    keys: Array,
    packed: Array,
    spare: Array,
    counts: Array,
    out: Array,
) -> None:
    """Mean over x of the variance between classes of their distribution functions at x."""
    n = codes.size
    for k in range(out.size):
        x = block[k]
        argsort(x, order, keys, packed, spare, counts)
        passed[:] = 0.0
        total, squares, start = 0.0, 0.0, 0  # squares is n Σ_r p_r F_r²
        while start < n:
            stop = end_of_ties(x, order, start)
            for i in range(start, stop):
                code = codes[order[i]]
                squares += (2.0 * passed[code] + 1.0) / sizes[code]
                passed[code] += 1.0
            total += (stop - start) * (squares - float(stop) * stop / n) if stop < n else 0.0
            start = stop
        out[k] = max(total, 0.0) / n / n


@elementwise
def project(x: Array, y: Array, along: float, across: float, out: Array) -> None:
    """Fill a combination of x and y."""
    for i in range(x.size):
        out[i] = along * x[i] + across * y[i]


@elementwise
def sliced_wasserstein(
    block: Array,
    y: Array,
    shuffled: Array,
    directions: Array,
    work: Array,
    other: Array,
    order: Array,
    keys: Array,
    packed: Array,
    spare: Array,
    counts: Array,
    out: Array,
) -> None:
    """Root of the mean squared distance, over directions, of sorted pairs (x, y) from (x, shuffled y)."""
    n = y.size
    z, joint, product = work[0], work[1], work[2]
    for k in range(out.size):
        if not standardise(block[k], z):
            out[k] = 0.0
            continue
        total = 0.0
        for d in range(directions.shape[0]):
            along, across = directions[d, 0], directions[d, 1]
            project(z, y, along, across, joint)
            project(z, shuffled, along, across, product)
            argsort(joint, order, keys, packed, spare, counts)
            argsort(product, other, keys, packed, spare, counts)
            for i in range(n):
                total += (joint[order[i]] - product[other[i]]) ** 2
        out[k] = math.sqrt(total / n / directions.shape[0])
