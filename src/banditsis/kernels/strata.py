"""Strata of rows: a histogram of their sizes, the rows of each stratum, and sums over all strata."""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def count(sizes: Array, bits: int, first: int, keys: Array, total: Array) -> None:
    """Add the number, the sum and the sum of squares of the sizes with each key to the lines of ``total``.

    The key of a size is its floating-point representation without the last ``bits``. Keys are filled, and the
    first column of ``total`` is for the key ``first``.
    """
    representation = sizes.view(np.int64)
    for i in range(sizes.size):
        key, size = representation[i] >> bits, sizes[i]
        keys[i] = key
        key -= first
        total[0, key] += 1.0
        total[1, key] += size
        total[2, key] += size * size


@elementwise
def sort(keys: Array, strata: Array, first: int, following: Array, codes: Array, rows: Array) -> None:
    """Fill the stratum of each row, which its key determines, and the rows of each stratum.

    The first key is that of row ``first``, and the next row of stratum h goes to ``rows[following[h]]``.
    """
    for i in range(keys.size):
        h = strata[keys[i]]
        codes[i] = h
        rows[following[h]] = first + i
        following[h] += 1


@elementwise
def combine(
    sums: Array, weights: Array, counts: Array, start: int, stop: int, combined: Array, fourth: Array
) -> None:
    """Add up the sums of all strata (strata, lines, features) with weights w, for some of the features.

    A single stratum is not copied: ``combined`` (lines, features) are its sums. If ``fourth`` is not empty,
    the sums have a further line Σz⁴, and it is filled with Σw²(z - z̄)⁴.
    """
    n_rows = 0.0
    for h in range(counts.size):
        n_rows += counts[h]
        for line in range(combined.shape[0] if counts.size > 1 else 0):
            w, some, total = weights[h], sums[h, line, start:stop], combined[line, start:stop]
            for j in range(some.size):
                total[j] = w * some[j] + (total[j] if h > 0 else 0.0)
    if fourth.size == 0:
        return
    means, total, share = combined[0, start:stop], fourth[start:stop], 1.0 / max(n_rows, 1.0)
    for h in range(counts.size):
        w, n = weights[h] * weights[h], float(counts[h])
        z1, z2, z4 = sums[h, 0, start:stop], sums[h, -2, start:stop], sums[h, -1, start:stop]
        for j in range(total.size):
            mean = means[j] * share
            square = mean * mean
            centred = z4[j] - 6 * square * z2[j] + 8 * square * mean * z1[j] - 3 * square * square * n
            # A NaN is kept: the fourth powers of very large values are not known.
            total[j] = (0.0 if centred < 0 else w * centred) + (total[j] if h > 0 else 0.0)
