"""Features that are products of two of m columns: the pair of a feature, and sums over pairs.

Pairs are numbered row by row through the upper triangle: feature ``offsets[i]`` is the first pair of column
i, with column ``i + lead`` (``lead`` is 0 with squares, 1 without), and ``offsets[m]`` is the number of
features. Features before ``offsets[0]`` are the columns themselves.
"""

from __future__ import annotations

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise, reduction, unfused_reduction


@elementwise
def find_pairs(features: Array, offsets: Array, lead: int, first: Array, second: Array) -> None:
    """Fill the two columns of each of the sorted features; the partner of a column itself is m."""
    m = offsets.size - 1
    i = 0
    for t in range(features.size):
        feature = features[t]
        if feature < offsets[0]:
            first[t], second[t] = feature, m
            continue
        while feature >= offsets[i + 1]:
            i += 1
        first[t], second[t] = i, feature - offsets[i] + i + lead


@elementwise
def multiply(block: Array, first: Array, second: Array, out: Array) -> None:
    """Fill ``out[k, t] = block[k, first[t]] · block[k, second[t]]``; column m of the block is all 1."""
    for k in range(block.shape[0]):
        line, cells = block[k], out[k]
        for t in range(first.size):
            cells[t] = line[first[t]] * line[second[t]]


@unfused_reduction
def moments(
    base: Array, first: Array, second: Array, shift: Array, w: Array, fourth: Array | None, out: Array
) -> None:
    """Add ``Σz, Σzw, Σz²`` with ``z = x·x' - shift`` to ``out`` (lines, pairs); ``base`` is (columns, rows).

    ``Σz⁴`` is added to ``fourth`` (pairs,) unless it is None; Numba compiles the two cases separately.
    """
    weight = w[0]
    for t in range(first.size):
        a, b, s = base[first[t]], base[second[t]], shift[t]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for k in range(weight.size):
            z = a[k] * b[k] - s
            s0 += z
            s1 += z * weight[k]
            u = z * z
            s2 += u
            if fourth is not None:
                s3 += u * u
        out[0, t] += s0
        out[1, t] += s1
        out[2, t] += s2
        if fourth is not None:
            fourth[t] += s3


@unfused_reduction
def moments_of_many(
    base: Array,
    first: Array,
    second: Array,
    shift: Array,
    w: Array,
    z: Array,
    fourth: Array | None,
    out: Array,
) -> None:
    """The same for several weights: w is (q, rows), ``out`` (lines, pairs), and ``z`` scratch (rows,)."""
    for t in range(first.size):
        a, b, s = base[first[t]], base[second[t]], shift[t]
        s0, s2, s3 = 0.0, 0.0, 0.0
        for k in range(z.size):
            z[k] = a[k] * b[k] - s
            s0 += z[k]
            u = z[k] * z[k]
            s2 += u
            if fourth is not None:
                s3 += u * u
        out[0, t] += s0
        out[w.shape[0] + 1, t] += s2
        if fourth is not None:
            fourth[t] += s3
        for j in range(w.shape[0]):
            line = w[j]
            s1 = 0.0
            for k in range(z.size):
                s1 += z[k] * line[k]
            out[j + 1, t] += s1


@elementwise
def add_triangle(product: Array, top: int, offsets: Array, lead: int, out: Array) -> None:
    """Add the upper triangle to the sums of all features.

    ``product[i, j]`` belongs to the columns ``top + i`` and ``top + j``.
    """
    for i in range(product.shape[0]):
        line = product[i, i + lead :]
        sums = out[offsets[top + i] : offsets[top + i + 1]]
        for j in range(line.size):
            sums[j] += line[j]


@elementwise
def add_picked(product: Array, top: int, first: Array, second: Array, out: Array) -> None:
    """Add the elements of some pairs to their sums."""
    for t in range(first.size):
        out[t] += product[first[t] - top, second[t] - top]


@reduction
def find_flat(
    mean: Array, square: Array, top: int, offsets: Array, lead: int, least: float, found: Array
) -> int:
    """Find features whose variance is less than ``least`` times their mean square, too small for plain sums.

    ``mean`` and ``square`` hold means over the pilot rows, as in :func:`add_triangle`. Features are written
    to ``found`` while there is room; returns the number of features found.
    """
    n_found = 0
    for i in range(mean.shape[0]):
        mu, sq = mean[i, i + lead :], square[i, i + lead :]
        count = 0
        for j in range(mu.size):
            count += sq[j] - mu[j] * mu[j] < least * sq[j]
        if count == 0:
            continue
        for j in range(mu.size):
            if sq[j] - mu[j] * mu[j] < least * sq[j]:
                if n_found < found.size:
                    found[n_found] = offsets[top + i] + j
                n_found += 1
    return n_found
