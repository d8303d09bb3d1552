"""Rank correlations (Spearman's ρ, Chatterjee's ξ, Kendall's τ-b) of blocks of columns × rows; rank sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from banditsis.core.arrays import Array
from banditsis.kernels.bits import count_ones
from banditsis.kernels.compile import Arrays, elementwise, inlined_elementwise
from banditsis.kernels.sorting import Scratch, argsort, end_of_ties

#: Inversions are counted 2 to the power of this at a time, with one bit for each.
WORD = 6


@elementwise
def spearman(block: Array, ranks: Array, squares: float, scratch: Scratch, out: Array) -> None:
    """Fill ``out`` with Σ R·S / √(ΣR² ΣS²); S are the centred ``ranks`` of y, ΣS² are ``squares``."""
    n, order = ranks.size, scratch[0]
    for k in range(out.size):
        x = block[k]
        argsort(x, scratch)
        product, own, start = 0.0, 0.0, 0
        while start < n:
            stop = end_of_ties(x, order, start)
            total = 0.0
            for i in range(start, stop):
                total += ranks[order[i]]
            rank = 0.5 * (start + stop - n)
            product += rank * total
            own += (stop - start) * rank * rank
            start = stop
        out[k] = product / math.sqrt(own * squares) if own > 0.0 else 0.0


@elementwise
def between(ranks: Array, order: Array, a: int, b: int, c: int) -> float:
    """Sum of |r - s| over pairs of neighbouring runs of ties, whose ranks ascend: a to b and b to c."""
    if b - a == 1 and c - b == 1:
        return float(abs(ranks[order[a]] - ranks[order[b]]))
    below, above = 0.0, 0.0  # sums of the first run's ranks up to the current rank and above it
    for i in range(a, b):
        above += ranks[order[i]]
    i, total = a, 0.0
    for j in range(b, c):
        rank = ranks[order[j]]
        while i < b and ranks[order[i]] <= rank:
            below += ranks[order[i]]
            above -= ranks[order[i]]
            i += 1
        total += rank * (i - a) - below + above - rank * (b - i)
    return total


@elementwise
def chatterjee(
    block: Array, places: Array, ranks: Array, spread: float, sorted_x: Array, scratch: Scratch, out: Array
) -> None:
    """Chatterjee's ξ, with ties the mean over all orders of the tied rows, and the number of distinct values.

    ``places`` sort the response, ``ranks`` are its maximum ranks in that order.
    """
    n, order = ranks.size, scratch[0]
    for k in range(out.shape[1]):
        for i in range(n):
            sorted_x[i] = block[k, places[i]]
        argsort(sorted_x, scratch)
        total, before, start = 0.0, 0, 0
        out[1, k] = 0.0
        while start < n:
            stop = end_of_ties(sorted_x, order, start)
            size = stop - start
            out[1, k] += 1.0
            if size > 1:
                inside = 0.0
                for i in range(start, stop):
                    inside += ranks[order[i]] * (2.0 * (i - start) - size + 1.0)
                total += 2.0 * inside / size
            if start > 0:
                total += between(ranks, order, before, start, stop) / (float(start - before) * size)
            before, start = start, stop
        out[0, k] = 1.0 - n * total / spread if before > 0 else 0.0


@elementwise
def tied_pairs(size: int) -> float:
    """Number of pairs among ``size`` equal values."""
    return 0.5 * size * (size - 1.0)


@elementwise
def kendall(
    block: Array, response: Any, free: Array, sorted_x: Array, code: Array, scratch: Scratch, out: Array
) -> None:
    """Kendall's τ-b, and 1 / its null standard error; the response is what :meth:`Kendall.prepare` returns.

    Every pair without ties is either concordant or an inversion. Rows with equal responses are numbered in
    the order of x and are not counted as inversions, nor are rows with equal x, because sorting is stable.
    Arrays before ``scratch`` are overwritten.
    """
    (places, groups, starts, ties), n, order = response, block.shape[1], scratch[0]
    pairs, tied = tied_pairs(n), ties[0]
    for k in range(out.shape[1]):
        for i in range(n):
            sorted_x[i] = block[k, places[i]]
        argsort(sorted_x, scratch)
        free[:] = starts
        tied_x, triples, weighted, tied_both, start = 0.0, 0.0, 0.0, 0.0, 0
        while start < n:
            stop = end_of_ties(sorted_x, order, start)
            size = stop - start
            tied_x += tied_pairs(size)
            triples += 2.0 * tied_pairs(size) * (size - 2.0)
            weighted += 2.0 * tied_pairs(size) * (2.0 * size + 5.0)
            run = 0
            for i in range(start, stop):
                group = groups[order[i]]
                run = run + 1 if i > start and group == groups[order[i - 1]] else 0
                tied_both += run
                code[i] = free[group]
                free[group] += 1
            start = stop
        inverted = count_inversions(code, order)
        product = (pairs - tied_x) * (pairs - tied)
        concordant = pairs - tied_x - tied + tied_both - 2.0 * inverted
        variance = (2.0 * pairs * (2.0 * n + 5.0) - weighted - ties[2]) / 18.0 + tied_x * tied / pairs
        variance += triples * ties[1] / (18.0 * pairs * (n - 2.0))
        out[0, k] = concordant / math.sqrt(product) if product > 0.0 else 0.0
        out[1, k] = math.sqrt(product / variance) if variance > 0.0 else 0.0


@elementwise
def count_inversions(code: Array, spare: Array) -> float:
    """Number of inversions of a permutation of 0, 1, …, which is overwritten.

    Values are partitioned by one bit after the other, the highest first, keeping their order otherwise: a
    pair is an inversion if the first value has the bit and the second does not.
    """
    n, level = code.size, WORD
    while (1 << level) < n:
        level += 1
    total = 0.0
    source, target = code, spare
    while level > WORD:
        level -= 1
        for start in range(0, n, 2 << level):
            stop = min(n, start + (2 << level))
            low, high = start, min(stop, start + (1 << level))
            middle, here = high, 0
            for i in range(start, stop):
                value = source[i]
                bit = (value >> level) & 1
                target[high if bit else low] = value
                high += bit
                low += 1 - bit
                here += (1 - bit) * (high - middle)
            total += here
        source, target = target, source
    return float(total + count_within_words(source))


@elementwise
def count_within_words(code: Array) -> float:
    """Number of inversions within each run of 64 places that holds 64 consecutive values."""
    total = 0
    one = np.uint64(1)
    for start in range(0, code.size, 1 << WORD):
        seen = np.uint64(0)
        for i in range(start, min(code.size, start + (1 << WORD))):
            bit = np.uint64(code[i] & ((1 << WORD) - 1))
            total += count_ones((seen >> bit) >> one)
            seen |= one << bit
    return float(total)


@elementwise
def cube(size: float) -> float:
    """What ``size`` equal values contribute to the correction for ties."""
    return size * size * size - size


@inlined_elementwise
def collect(
    cells: Arrays, k: int, codes: Array, weights: Array | None, kept: Arrays, sums: Array, nonzero: Array
) -> int:
    """Keep the cells of column k that are not 0 with their classes and weights; add them up by class."""
    (starts, stops, rows, values), (x, group, w) = cells, kept
    n = 0
    for t in range(starts[k], stops[k]):
        value = np.float64(values[t])
        if value != 0.0:
            row = np.int64(rows[t]) if rows.size else t - starts[k]
            code, weight = codes[row], 1.0
            if weights is not None:
                weight = weights[row]
                w[n] = weight
            x[n], group[n] = value, code
            sums[code] += weight * value
            nonzero[code] += weight
            n += 1
    return n


@elementwise
def rank_sums(
    cells: Arrays,
    codes: Array,
    weights: Array | None,
    sizes: Array,
    reference: int,
    memory: Arrays,
    scratch: Scratch,
    out: Array,
) -> None:
    """Fill ``out`` (columns, 5, classes), which must be 0, for each column and class.

    Its lines are the sum over the rows of the class of their rank among the rows they are compared with (all
    rows, or those of the class ``reference``) minus half the number of these; Σ(t³ - t) over runs of t equal
    values; the longest run; the sum of the cells; and how many are not 0. With row ``weights`` all counts are
    sums of weights, and the two lines of ties are not filled. ``cells`` are where each column starts and
    stops, the row of each cell (empty if all cells are given), and the cells. ``sizes`` are those of the
    classes. The zeros of a column are one run of equal values, which is never sorted.
    """
    x, group, w, inside = memory
    order, keys, packed, spare, counts = scratch
    by_reference, compared = reference >= 0, sizes.sum() if reference < 0 else sizes[reference]
    for k in range(out.shape[0]):
        ranks, ties, longest, sums, nonzero = out[k, 0], out[k, 1], out[k, 2], out[k, 3], out[k, 4]
        n = collect(cells, k, codes, weights, (x, group, w), sums, nonzero)
        if n:
            argsort(x[:n], (order[:n], keys[:n], packed[:n], spare[:n], counts))
        below, start, zeros_left, shared_ties, shared_longest = -0.5 * compared, 0, True, 0.0, 1.0
        while start < n or zeros_left:
            is_zero = zeros_left and (start == n or x[order[start]] > 0.0)
            stop = start if is_zero else end_of_ties(x, order[:n], start)
            if stop == start + 1:
                code, weight = group[order[start]], 1.0
                if weights is not None:
                    weight = w[order[start]]
                here = weight if not by_reference or code == reference else 0.0
                ranks[code] += weight * (below + 0.5 * here)
                below, start = below + here, stop
                continue
            here, size = 0.0, stop - start
            if is_zero:
                zeros_left, size = False, sizes.size
                for code in range(sizes.size):
                    inside[code] = sizes[code] - nonzero[code]
                    here += inside[code]
            else:
                for i in range(start, stop):
                    weight = 1.0
                    if weights is not None:
                        weight = w[order[i]]
                    inside[group[order[i]]] += weight
                    here += weight
            if by_reference:
                here = inside[reference]
            shared_ties += cube(here)
            shared_longest = max(shared_longest, here)
            for i in range(size):
                code = i if is_zero else group[order[start + i]]
                if inside[code] == 0.0:
                    continue
                ranks[code] += inside[code] * (below + 0.5 * here)
                if by_reference and code != reference:
                    ties[code] += cube(inside[code] + here) - cube(here)
                    longest[code] = max(longest[code], inside[code] + here)
                inside[code] = 0.0
            below, start = below + here, stop
        for code in range(sizes.size):
            ties[code] += shared_ties
            longest[code] = max(longest[code], shared_longest)
