"""Strata of rows: a histogram of their sizes, and the rows of each stratum."""

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
