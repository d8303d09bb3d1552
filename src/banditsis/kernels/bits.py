"""One bit for each cell: random rotations of blocks of rows, their signs, and products with these."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from banditsis.core.arrays import SMALLEST, Array, Floats
from banditsis.kernels.compile import elementwise, range_scale, reduction

#: Columns that are rotated together, which fill a cache line.
WIDTH = 16
#: Bits to which rotated queries are rounded, and lines of the moments of a block.
QUERY_BITS, N_MOMENTS = 6, 5
MEAN, SQUARES, ABSOLUTE, ONES, MISSING = range(N_MOMENTS)


@intrinsic
def _count_ones(typing_context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)]), args)

    return types.int64(types.uint64), generate


#: Number of bits of a word that are 1.
count_ones = (lambda word: int(word).bit_count()) if config.DISABLE_JIT else _count_ones


@elementwise
def transform(tile: Array) -> None:
    """Replace each column of a tile (size, WIDTH) by its Walsh-Hadamard transform, times √size."""
    size, h = tile.shape[0], 1
    while 4 * h <= size:  # two steps at once, which halves the traffic
        for i in range(0, size, 4 * h):
            for j in range(i, i + h):
                for c in range(WIDTH):
                    s, d = tile[j, c] + tile[j + h, c], tile[j, c] - tile[j + h, c]
                    t, e = tile[j + 2 * h, c] + tile[j + 3 * h, c], tile[j + 2 * h, c] - tile[j + 3 * h, c]
                    tile[j, c], tile[j + h, c] = s + t, d + e
                    tile[j + 2 * h, c], tile[j + 3 * h, c] = s - t, d - e
        h *= 4
    while 2 * h <= size:
        for i in range(0, size, 2 * h):
            for j in range(i, i + h):
                for c in range(WIDTH):
                    u, v = tile[j, c], tile[j + h, c]
                    tile[j, c], tile[j + h, c] = u + v, u - v
        h *= 2


@elementwise
def rotate(tile: Array, signs: Array) -> None:
    """Transform columns twice, with signs in between, which multiplies their length by that of the tile."""
    transform(tile)
    for i in range(tile.shape[0]):
        for c in range(WIDTH):
            tile[i, c] *= signs[i]
    transform(tile)


@reduction
def centre(column: Array, moments: Floats) -> float:
    """Set mean, sum of squares about it and number of missing cells of a column; return a scale to about 1.

    The scale is a power of two, and 0 for a constant column. A sum that is out of range is infinite.
    """
    missing, mean, low, high, squares = 0, 0.0, np.inf, -np.inf, 0.0
    for i in range(column.size):
        missing += column[i] != column[i]
    share = 1.0 / max(column.size - missing, 1)
    for i in range(column.size):
        x = np.float64(column[i])
        mean += share * x if x == x else 0.0
        low, high = x if x < low else low, x if x > high else high
    moments[MISSING], moments[MEAN], moments[SQUARES] = missing, mean if low < high else low, 0.0
    if not low < high:
        return 0.0
    scale = range_scale(low, high)
    for i in range(column.size):
        z = scale * (np.float64(column[i]) - mean)
        squares += z * z if z == z else 0.0
    squares = squares / scale / scale
    moments[SQUARES] = squares if squares > 1e-290 else np.inf
    return float(scale)


@elementwise
def fill(columns: Array, signs: Array, means: Floats, scales: Floats, tile: Array) -> None:
    """Fill the columns of a tile with features (features, rows) that are centred, scaled and times signs."""
    for start in range(0, columns.shape[1], WIDTH):  # squares, so both sides stay in the cache
        for c in range(columns.shape[0]):
            column, mean, scale = columns[c], means[c], scales[c]
            for i in range(start, min(start + WIDTH, column.size)):
                z = scale * (np.float64(column[i]) - mean) if scale > 0.0 else 0.0
                tile[i, c] = np.float32(z) * signs[i] if z == z else np.float32(0.0)


@reduction
def pack(tile: Array, code: Array, absolute: Floats, ones: Floats) -> None:
    """Pack the signs of the columns of a tile into ``code`` (size / 64, columns); add up |z| and signs."""
    words, sizes = np.zeros(WIDTH, np.uint64), np.zeros(WIDTH, np.float32)
    for k in range(code.shape[0]):
        words[:], sizes[:] = 0, 0
        for r in range(64):
            bit = np.uint64(1) << np.uint64(r)
            for c in range(WIDTH):
                z = tile[64 * k + r, c]
                sizes[c] += abs(z)
                words[c] |= bit if z > 0 else np.uint64(0)
        for c in range(code.shape[1]):
            code[k, c] = words[c]
            absolute[c] += sizes[c]
            ones[c] += count_ones(words[c])


@elementwise
def encode(columns: Array, signs: Array, code: Array, moments: Floats) -> None:
    """Fill the bits (size / 64, features) and moments (5, features) of a block of up to WIDTH features.

    ``columns`` has a line for each feature, and ``signs`` are those before the first and the second rotation.
    """
    tile = np.zeros((signs.shape[1], WIDTH), np.float32)
    scales, totals = np.zeros(columns.shape[0]), np.zeros((2, WIDTH))
    for c in range(columns.shape[0]):
        scales[c] = centre(columns[c], moments[:, c])
    fill(columns, signs[0], moments[MEAN], scales, tile)
    rotate(tile, signs[1])
    pack(tile, code, totals[0], totals[1])
    for c in range(columns.shape[0]):
        scale = tile.shape[0] * scales[c]
        moments[ABSOLUTE, c], moments[ONES, c] = totals[0, c] / scale if scale > 0.0 else 0.0, totals[1, c]


@elementwise
def round_queries(values: Floats, signs: Array, planes: Array, queries: Floats) -> None:
    """Rotate queries (rows, queries) as the features of a block, and round them.

    ``planes`` and ``queries`` are filled with what :func:`add_block` needs of them.
    """
    n, tile = values.shape[0], np.zeros((signs.shape[1], WIDTH), np.float32)
    scales = np.zeros(WIDTH)
    for first in range(0, values.shape[1], WIDTH):
        count = min(WIDTH, values.shape[1] - first)
        tile[:] = np.float32(0.0)
        for c in range(count):
            mean, energy, largest = 0.0, 0.0, SMALLEST
            for i in range(n):
                mean += values[i, first + c] / n
            for i in range(n):
                distance = values[i, first + c] - mean
                energy += distance * distance
                largest = max(largest, abs(distance))
            for i in range(n):
                tile[i, c] = np.float32((values[i, first + c] - mean) / largest) * signs[0, i]
            queries[first + c, 3], queries[first + c, 5] = energy, mean
            scales[c] = largest / tile.shape[0]
        rotate(tile, signs[1])
        for c in range(count):
            round_query(tile[:, c], scales[c], planes[first + c], queries[first + c])


@elementwise
def round_query(rotated: Array, scale: float, planes: Array, query: Floats) -> None:
    """Round a rotated query to equal steps between its ends."""
    low, high, total, error = np.inf, -np.inf, 0.0, 0.0
    for i in range(rotated.size):
        z = np.float64(rotated[i])
        low, high = min(low, z), max(high, z)
    step = max((high - low) / (2**QUERY_BITS - 1), SMALLEST)
    for i in range(rotated.size):
        z = np.float64(rotated[i])
        level = min(max(np.int64((z - low) / step + 0.5), 0), 2**QUERY_BITS - 1)
        rounded = low + step * level
        total += rounded
        error += (rounded - z) * (rounded - z)
        for k in range(QUERY_BITS):
            planes[k, i >> 6] |= np.uint64((level >> k) & 1) << np.uint64(i & 63)
    query[0], query[1], query[2], query[4] = low * scale, step * scale, total * scale, error * scale * scale


@elementwise
def add_counts(code: Array, start: int, planes: Array, counts: Array) -> None:
    """Add Σ 2ᵏ · (bits that are 1 both in a feature and in plane k) to counts, for features from start."""
    for i in range(code.shape[0]):
        row = code[i][start : start + counts.size]  # contiguous, or the loop stays scalar
        a, b, c = planes[0, i], planes[1, i], planes[2, i]
        d, e, f = planes[3, i], planes[4, i], planes[5, i]
        for j in range(row.size):
            word = row[j]
            low = count_ones(word & a) + 2 * count_ones(word & b) + 4 * count_ones(word & c)
            high = count_ones(word & d) + 2 * count_ones(word & e) + 4 * count_ones(word & f)
            counts[j] += low + 8 * high


@elementwise
def add_block(
    code: Array,
    moments: Floats,
    shift: Floats,
    columns: tuple[int, int],
    n: int,
    planes: Array,
    queries: Floats,
    width: int,
    out: Floats,
) -> None:
    """Add the estimates of Σ x·q of a block of n rows, and their variances, for a range of features.

    The bits of ``width`` features are used for all queries before those of others.

    ``planes`` (queries, 6, words) are the bits of the rotated queries. For each query, ``queries`` has the
    value of level 0, the step of a level, the sum of rounded values, Σq², the sum of squared rounding errors
    and the mean. The lines of ``out`` are the estimates and the variances for each query, then
    Σ(mean - shift), Σ(mean - shift)², Σz² and missing cells, where blocks count by their present cells.
    """
    m, size = planes.shape[0], 64 * code.shape[0]
    weights, ratios = np.zeros(width), np.zeros(width)
    spreads, scratch = np.zeros(width), np.zeros(width, np.int64)
    for start in range(columns[0], columns[1], width):
        stop = min(start + width, columns[1])
        counts = scratch[: stop - start]
        # Views of lines are contiguous, or the loops stay scalar.
        means, squares = moments[MEAN][start:stop], moments[SQUARES][start:stop]
        absolute, ones = moments[ABSOLUTE][start:stop], moments[ONES][start:stop]
        missing, shifts = moments[MISSING][start:stop], shift[start:stop]
        first, second = out[2 * m][start:stop], out[2 * m + 1][start:stop]
        within, absent = out[2 * m + 2][start:stop], out[2 * m + 3][start:stop]
        for j in range(counts.size):
            present = n - missing[j]
            weights[j] = present * (means[j] - shifts[j]) if present > 0.0 else 0.0
            ratio = squares[j] / absolute[j] if absolute[j] > 0.0 else 0.0
            share = absolute[j] / squares[j] if squares[j] > 0.0 else 0.0
            ratios[j], spreads[j] = ratio, (size - absolute[j] * share) / (size - 1)
            first[j] += weights[j]
            second[j] += weights[j] * (means[j] - shifts[j]) if present > 0.0 else 0.0
            within[j] += squares[j]
            absent[j] += missing[j]
        for q in range(m):
            low, step, total, energy, rounding, mean = queries[q]
            counts[:] = 0
            add_counts(code, start, planes[q], counts)
            products, variances = out[q][start:stop], out[m + q][start:stop]
            for j in range(counts.size):
                product = 2.0 * (step * counts[j] + low * ones[j]) - total
                products[j] += ratios[j] * product + weights[j] * mean
                variances[j] += ratios[j] * ratios[j] * (spreads[j] * energy + rounding)
