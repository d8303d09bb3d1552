"""Sorting of a column, and of rows into strata by their size.

Sorting of a column is stable: radix passes over 32 bits of the keys, packed with the index in the other 32.
The 32 bits that start at the highest varying bit distinguish most values of most columns. The others are
sorted by insertion; if there are many of them, all 64 bits are sorted.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise

DIGIT = 11
BUCKETS = 1 << DIGIT
#: Moves by insertion, per value, that cost less than more radix passes.
MAX_MOVES = 4

SIGN = np.uint64(1 << 63)
ALL = np.uint64((1 << 64) - 1)
LOW = np.uint64((1 << 32) - 1)
HALF = np.uint64(32)
ONE = np.uint64(1)
LAST = np.uint64(BUCKETS - 1)

#: Memory of :func:`argsort`: the order (result), keys, packed keys, spare packed keys, and counts.
Scratch: TypeAlias = tuple[Array, Array, Array, Array, Array]


def make_scratch(n: int) -> Scratch:
    """Allocate the memory to sort n values."""
    keys, packed, spare = np.empty((3, n), np.uint64)
    return np.empty(n, np.uint32), keys, packed, spare, np.empty((3, BUCKETS), np.int32)


@elementwise
def argsort(x: Array, scratch: Scratch) -> None:
    """Fill ``scratch[0]`` with the indices that sort x; equal values keep their order."""
    order, keys, packed, spare, counts = scratch
    n = x.size
    shift = np.uint64(make_keys(x, keys))
    for i in range(n):
        packed[i] = ((keys[i] >> shift) & LOW) << HALF | np.uint64(i)
    radix_passes(packed, spare, counts)
    if shift > np.uint64(0) and not finish_by_insertion(packed, keys):
        for i in range(n):
            packed[i] = (keys[i] & LOW) << HALF | np.uint64(i)
        radix_passes(packed, spare, counts)
        for i in range(n):
            index = packed[i] & LOW
            packed[i] = (keys[index] >> HALF) << HALF | index
        radix_passes(packed, spare, counts)
    for i in range(n):
        order[i] = packed[i] & LOW


@elementwise
def make_keys(x: Array, keys: Array) -> int:
    """Fill unsigned keys in the order of x; return the lowest of the 32 bits from the highest that varies."""
    bits = x.view(np.uint64)
    varying = np.uint64(0)
    for i in range(x.size):
        x[i] += 0.0  # -0 becomes 0
        key = bits[i]
        key = key ^ (ALL if key >= SIGN else SIGN)
        keys[i] = key
        varying |= key ^ keys[0]
    width = 0
    while varying > np.uint64(0):
        varying = varying >> ONE
        width += 1
    return max(0, width - 32)


@elementwise
def radix_passes(packed: Array, spare: Array, counts: Array) -> None:
    """Sort ``packed`` by the upper 32 bits; equal values keep their order."""
    n = packed.size
    counts[:] = 0
    first, second, third = np.uint64(32), np.uint64(32 + DIGIT), np.uint64(32 + 2 * DIGIT)
    for i in range(n):
        value = packed[i]
        counts[0, (value >> first) & LAST] += 1
        counts[1, (value >> second) & LAST] += 1
        counts[2, value >> third] += 1
    source, target = packed, spare
    for k in range(3):
        shift = np.uint64(32 + k * DIGIT)
        count = counts[k]
        if count[(source[0] >> shift) & LAST] == n:  # all values have the same digit
            continue
        start = 0
        for j in range(BUCKETS):
            here = count[j]
            count[j] = start
            start += here
        for i in range(n):
            value = source[i]
            digit = (value >> shift) & LAST
            target[count[digit]] = value
            count[digit] += 1
        source, target = target, source
    if source is not packed:
        packed[:] = source


@elementwise
def finish_by_insertion(packed: Array, keys: Array) -> bool:
    """Sort values with equal upper bits by their keys; False if that takes too many moves."""
    moves, max_moves = 0, MAX_MOVES * packed.size
    for i in range(1, packed.size):
        value = packed[i]
        if value >> HALF != packed[i - 1] >> HALF:
            continue
        key, j = keys[value & LOW], i
        while j > 0 and value >> HALF == packed[j - 1] >> HALF and keys[packed[j - 1] & LOW] > key:
            packed[j] = packed[j - 1]
            j -= 1
        packed[j] = value
        moves += i - j
        if moves > max_moves:
            return False
    return True


@elementwise
def end_of_ties(x: Array, order: Array, start: int) -> int:
    """End of the run of equal values that begins at ``start``."""
    value, stop = x[order[start]], start + 1
    while stop < order.size and x[order[stop]] == value:
        stop += 1
    return stop


@elementwise
def count_sizes(sizes: Array, bits: int, keys: Array, total: Array) -> Any:
    """Add the number, the sum and the sum of squares of the sizes with each key to the lines of ``total``.

    The key of a size is what represents it in memory, without the last ``bits``. Keys are filled. The last
    column of ``total`` is for the largest size, and the first one, whose key is returned, also for all
    smaller ones, which hardly count.
    """
    memory, largest = sizes.view(np.int64), np.int64(0)
    for i in range(sizes.size):  # integers are compared several at a time
        largest = max(largest, memory[i])
    last = largest >> bits
    first: Any = last + 1 - total.shape[1] if last >= total.shape[1] else 0
    for i in range(sizes.size):
        size = sizes[i]
        key = max(memory[i] >> bits, first)
        keys[i] = key
        total[0, key - first] += 1.0
        total[1, key - first] += size
        total[2, key - first] += size * size
    return first


@elementwise
def sort_by_stratum(
    keys: Array, strata: Array, first: int, following: Array, codes: Array, rows: Array
) -> None:
    """Fill the stratum of each row, which its key determines, and the rows of each stratum.

    The first key is that of row ``first``, and the next row of stratum h goes to ``rows[following[h]]``.
    """
    for i in range(keys.size):
        h = strata[keys[i]]
        codes[i] = h
        rows[following[h]] = first + i
        following[h] += 1
