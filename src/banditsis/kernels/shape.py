"""The shape of the distribution of one column: sums of powers, distinct values, extremes and a histogram."""

from __future__ import annotations

import numpy as np

from banditsis.core.arrays import Array, Floats
from banditsis.kernels.compile import elementwise, reduction

#: Slots of the hash table of :func:`count_values`: a power of two.
N_SLOTS = 1 << 12
#: A multiple of this (2⁶⁴ divided by the golden ratio) has well distributed upper bits.
FACTOR, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - 12)


@reduction
def power_sums(x: Array, y: Floats, scale: float, shift: float, out: Floats) -> None:
    """Fill ``out`` with Σz, Σz², Σz³, Σz⁴ and Σzy in float64, where z = scale · x - shift."""
    first, second, third, fourth, product = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(x.size):
        z = scale * np.float64(x[i]) - shift
        square = z * z
        first += z
        second += square
        third += square * z
        fourth += square * square
        product += z * y[i]
    out[0] = first
    out[1] = second
    out[2] = third
    out[3] = fourth
    out[4] = product


@elementwise
def count_values(bits: Array, limit: int, keys: Array, counts: Array) -> bool:
    """Count the distinct values of a column in a hash table; False if there are more than ``limit``.

    ``bits`` are the values, float64, as integers. Those of a slot are in ``keys``; all counts are 0 before.
    """
    n_distinct, start, stop = 0, 0, 0
    while start < bits.size:
        key = bits[start]
        while stop < bits.size and bits[stop] == key:  # a rare variable has long runs of zeros
            stop += 1
        slot = np.int64((key * FACTOR) >> SHIFT)
        while counts[slot] != 0 and keys[slot] != key:
            slot = (slot + 1) % N_SLOTS
        if counts[slot] == 0:
            if n_distinct == limit:
                return False
            n_distinct += 1
            keys[slot] = key
        counts[slot] += np.uint64(stop - start)
        start = stop
    return True


@elementwise
def find_extremes(x: Floats, lowest: Floats, highest: Floats) -> None:
    """Fill ``lowest`` with the smallest values of x, and ``highest`` with the largest times -1, unsorted.

    Both are heaps with the largest number first, and all numbers are infinite before.
    """
    for i in range(x.size):
        value = x[i]
        if value < lowest[0]:
            _replace_first(lowest, value)
        if -value < highest[0]:
            _replace_first(highest, -value)


@elementwise
def _replace_first(heap: Floats, value: float) -> None:
    place, child = 0, 1
    while child < heap.size:
        if child + 1 < heap.size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[place] = heap[child]
        place, child = child, 2 * child + 1
    heap[place] = value


@elementwise
def bin_values(x: Floats, low: float, high: float, counts: Floats, sums: Floats) -> tuple[int, int]:
    """Add the values between two limits to the counts and sums, less ``low``, of bins of equal width.

    Return the number of values at or below the first limit, and at or above the second.
    """
    n_low, n_high, scale, last = 0, 0, counts.size / (high - low), counts.size - 1
    for i in range(x.size):
        value = x[i]
        if value <= low:
            n_low += 1
        elif value < high:
            k = min(int((value - low) * scale), last)
            counts[k] += 1.0
            sums[k] += value - low
        else:
            n_high += 1
    return n_low, n_high
