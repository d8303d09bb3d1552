"""Stable sorting of a column: radix passes over 32 bits of the keys, packed with the place in the other 32.

Most columns are told apart by the 32 bits from the highest one that varies. The few places that are not are
put right by insertion; where there are many of them, all 64 bits are sorted.
"""

from __future__ import annotations

import numpy as np

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise

DIGIT = 11
BUCKETS = 1 << DIGIT
#: Shape of the counts that a sort works with.
COUNTS = (3, BUCKETS)
#: Moves by insertion, for each value, that are still cheaper than more passes.
DELAY_SECONDS = 4

SIGN = np.uint64(1 << 63)
ALL = np.uint64((1 << 64) - 1)
LOW = np.uint64((1 << 32) - 1)
HALF = np.uint64(32)
ONE = np.uint64(1)
LAST = np.uint64(BUCKETS - 1)


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
    """Sort by the upper 32 bits, and keep the order of equals; the result is in ``packed``."""
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
        if count[(source[0] >> shift) & LAST] == n:  # this digit is the same everywhere
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
    """Put right what the upper bits did not tell apart; give up where that is much."""
    moves, most = 0, DELAY_SECONDS * packed.size
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
        if moves > most:
            return False
    return True


@elementwise
def argsort(x: Array, order: Array, keys: Array, packed: Array, spare: Array, counts: Array) -> None:
    """Fill ``order`` with the places of x in ascending order, equals in the order they stand in."""
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
            place = packed[i] & LOW
            packed[i] = (keys[place] >> HALF) << HALF | place
        radix_passes(packed, spare, counts)
    for i in range(n):
        order[i] = packed[i] & LOW


def make_scratch(n: int) -> tuple[Array, Array, Array, Array, Array]:
    """What :func:`argsort` fills: the order first, then what it works with."""
    keys, packed, spare = np.empty((3, n), np.uint64)
    return np.empty(n, np.uint32), keys, packed, spare, np.empty(COUNTS, np.int32)
