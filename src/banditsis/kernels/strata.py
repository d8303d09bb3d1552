"""Strata of rows: a histogram of their sizes, the rows of each stratum, and sums over all strata."""

from __future__ import annotations

from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def count(values: Array, scale: float, centre: float, bits: int, keys: Array, total: Array) -> Any:
    """Add the number, the sum and the sum of squares of the sizes with each key to the lines of ``total``.

    A size is ``|scale · value - centre|``. Its key is what represents it in memory, without the last
    ``bits``. Keys are filled. The last column of ``total`` is for the largest size, and the first one, whose
    key is returned, also for all smaller ones, which hardly count.
    """
    largest = 0.0
    for i in range(values.size):
        size = abs(scale * values[i] - centre)
        largest = size if size > largest else largest
    last = np.float64(largest).view(np.int64) >> bits
    first: Any = last + 1 - total.shape[1] if last >= total.shape[1] else 0
    for i in range(values.size):
        size = abs(scale * values[i] - centre)
        key = np.float64(size).view(np.int64) >> bits
        key = key if key > first else first
        keys[i] = key
        total[0, key - first] += 1.0
        total[1, key - first] += size
        total[2, key - first] += size * size
    return first


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
