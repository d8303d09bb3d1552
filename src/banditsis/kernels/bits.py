"""One bit for each cell: random rotations of blocks of rows, their signs, and products with these."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from banditsis.core.arrays import SMALLEST, Array, Floats
from banditsis.kernels.compile import elementwise, range_scale, reduction

WIDTH = 16  # columns that are rotated together, which fill a cache line
PIECE = 256  # rows of a tile that stay in the fastest cache
QUERY_BITS, N_MOMENTS = 4, 5  # to which rotated queries are rounded, and lines of the moments of a block
BEST_STEP = 0.3352  # of levels, in standard deviations: with the least mean squared error for normal values
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
    piece = min(tile.shape[0], PIECE)
    for start in range(0, tile.shape[0], piece):
        add_pairs(tile[start : start + piece], 1)
    add_pairs(tile, piece)


@elementwise
def add_pairs(tile: Array, h: int) -> None:
    """Replace rows that are h, 2h, 4h, … apart by their sums and differences."""
    size = tile.shape[0]
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


@reduction
def centre(column: Array, moments: Floats) -> float:
    """Set mean, sum of squares about it and number of missing cells of a column; return a scale to about 1.

    The scale is a power of two, and 0 for a constant column. A sum that is out of range is infinite.
    """
    missing, mean, low, high, squares, share = 0, 0.0, np.inf, -np.inf, 0.0, 1.0 / column.size
    for i in range(column.size):
        x = np.float64(column[i])
        missing += x != x
        mean += share * x if x == x else 0.0
        low, high = x if x < low else low, x if x > high else high
    mean *= column.size / max(column.size - missing, 1)
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

    Features are transformed twice, with signs before, which multiplies their length by that of the tile.
    ``columns`` has a line for each feature, and ``signs`` one for each rotation.
    """
    tile = np.zeros((signs.shape[1], WIDTH), np.float32)
    scales, totals = np.zeros(columns.shape[0]), np.zeros((2, WIDTH))
    for c in range(columns.shape[0]):
        scales[c] = centre(columns[c], moments[:, c])
    fill(columns, signs[0], moments[MEAN], scales, tile)
    transform(tile)
    for i in range(tile.shape[0]):
        for c in range(WIDTH):
            tile[i, c] *= signs[1, i]
    transform(tile)
    pack(tile, code, totals[0], totals[1])
    for c in range(columns.shape[0]):
        scale = tile.shape[0] * scales[c]
        moments[ABSOLUTE, c], moments[ONES, c] = totals[0, c] / scale if scale > 0.0 else 0.0, totals[1, c]


@elementwise
def round_queries(values: Floats, signs: Array, planes: Array, queries: Floats) -> None:
    """Rotate and round queries (blocks, rows, queries) of blocks of one size for :func:`add_block`.

    Queries of several blocks share tiles, whose columns take as long for one query as for many.
    """
    n_blocks, n, m = values.shape
    tile, sources = np.zeros((signs.shape[2], WIDTH), np.float32), np.zeros(WIDTH, np.intp)
    for first in range(0, n_blocks * m, WIDTH):
        count = min(WIDTH, n_blocks * m - first)
        tile[:] = np.float32(0.0)
        for c in range(count):
            b, q = divmod(first + c, m)
            sources[c], mean, energy, largest = b, 0.0, 0.0, SMALLEST
            for i in range(n):
                mean += values[b, i, q] / n
            for i in range(n):
                distance = values[b, i, q] - mean
                energy += distance * distance
                largest = max(largest, abs(distance))
            for i in range(n):
                tile[i, c] = np.float32((values[b, i, q] - mean) / largest) * signs[b, 0, i]
            queries[b, q, 3], queries[b, q, 5] = energy, mean
            queries[b, q, 1] = largest / tile.shape[0]
        transform(tile)
        for i in range(tile.shape[0]):
            for c in range(count):
                tile[i, c] *= signs[sources[c], 1, i]
        transform(tile)
        for c in range(count):
            b, q = divmod(first + c, m)
            round_query(tile[:, c], queries[b, q, 1], planes[b, q], queries[b, q])


@elementwise
def round_query(rotated: Array, scale: float, planes: Array, query: Floats) -> None:
    """Round a rotated query to equal steps, and scale it so that its product with the query is its square.

    The error of an estimate then has no part that is proportional to what is estimated.
    """
    n_levels, size, energy = 2**QUERY_BITS, rotated.size, SMALLEST
    for i in range(size):
        z = np.float64(rotated[i])
        energy += z * z
    step = BEST_STEP * np.sqrt(energy / size)
    low, total, product, square = -0.5 * (n_levels - 1) * step, 0.0, 0.0, 0.0
    for i in range(size):
        z = np.float64(rotated[i])
        level = min(max(np.int64((z - low) / step + 0.5), 0), n_levels - 1)
        rounded = low + step * level
        total += rounded
        product += rounded * z
        square += rounded * rounded
        for k in range(QUERY_BITS):
            planes[k, i >> 6] |= np.uint64((level >> k) & 1) << np.uint64(i & 63)
    factor = scale * (energy / product)
    query[0], query[1], query[2] = low * factor, step * factor, total * factor
    query[4] = max(square * factor * factor - energy * scale * scale, 0.0)


@elementwise
def add_counts(code: Array, start: int, planes: Array, counts: Array) -> None:
    """Add Σ 2ᵏ · (bits that are 1 both in a feature and in plane k) to counts, for features from start."""
    for i in range(0, code.shape[0] - 1, 2):
        first, second = code[i][start : start + counts.size], code[i + 1][start : start + counts.size]
        a, b, c, d = planes[0, i], planes[1, i], planes[2, i], planes[3, i]
        e, f, g, h = planes[0, i + 1], planes[1, i + 1], planes[2, i + 1], planes[3, i + 1]
        for j in range(counts.size):  # views of lines are contiguous, or the loop stays scalar
            u, v = first[j], second[j]
            low = count_ones(u & a) + count_ones(v & e) + 2 * (count_ones(u & b) + count_ones(v & f))
            high = count_ones(u & c) + count_ones(v & g) + 2 * (count_ones(u & d) + count_ones(v & h))
            counts[j] += low + 4 * high
    if code.shape[0] == 1:
        for j in range(counts.size):
            for k in range(QUERY_BITS):
                counts[j] += count_ones(code[0, start + j] & planes[k, 0]) << k


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

    The bits of ``width`` features are used for all queries before those of others. ``planes`` (queries, bits,
    words) are the bits of the rotated queries. For each query, ``queries`` has the value of level 0, the step
    of a level, the sum of rounded values, Σq², the sum of squared rounding errors and the mean. The lines of
    ``out`` are the estimates and the variances for each query, then Σ(mean - shift), Σ(mean - shift)², Σz²
    and missing cells, where blocks count by their present cells.
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
