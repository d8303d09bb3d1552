"""Strata of rows: a histogram of their sizes, the rows of each stratum, and sums over all strata."""

from __future__ import annotations

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def count(sizes: Array, integers: Array, bits: int, first: int, keys: Array, total: Array) -> None:
    """Add the number, the sum and the sum of squares of the sizes with each key to the lines of ``total``.

    The key of a size is what represents it in memory, given as an integer, without the last ``bits``. Keys
    are filled, and the first column of ``total`` is for the key ``first``.
    """
    for i in range(sizes.size):
        key, size = integers[i] >> bits, sizes[i]
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
def combine(sums: Array, weights: Array, start: int, stop: int, out: Array) -> None:
    """Add the sums of strata (strata, m) times weights (k, strata) to ``out`` (k, m), from start to stop."""
    for h in range(sums.shape[0]):
        some = sums[h, start:stop]
        for k in range(weights.shape[0]):
            w, total = weights[k, h], out[k, start:stop]
            for j in range(some.size):
                total[j] += w * some[j]
