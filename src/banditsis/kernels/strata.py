"""Strata of rows: a histogram of their sizes, and the rows at some positions of each stratum."""

from __future__ import annotations

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def count(sizes: Array, keys: Array, total: Array) -> None:
    """Add the number, the sum and the sum of squares of the sizes with each key to the lines of ``total``."""
    for i in range(keys.size):
        key, size = keys[i], sizes[i]
        total[0, key] += 1.0
        total[1, key] += size
        total[2, key] += size * size


@elementwise
def encode(keys: Array, strata: Array, block_rows: int, codes: Array, before: Array) -> None:
    """Fill the stratum of each row, which its key determines, and the number of rows before each block.

    ``before`` has a line for each block of ``block_rows`` rows and one for all rows, and begins with zeros.
    """
    for block in range(before.shape[0] - 1):
        for h in range(before.shape[1]):
            before[block + 1, h] = before[block, h]
        for row in range(block * block_rows, min((block + 1) * block_rows, keys.size)):
            codes[row] = strata[keys[row]]
            before[block + 1, codes[row]] += 1


@elementwise
def find(codes: Array, block_rows: int, before: Array, positions: Array, edges: Array, rows: Array) -> None:
    """Fill the rows at sorted positions of each stratum.

    Those of stratum h are ``positions[edges[h] : edges[h + 1]]``. ``before`` has the number of rows of each
    stratum before each block of ``block_rows`` rows, and in all of them; blocks without a wanted row are
    skipped.
    """
    n_blocks, n_strata = before.shape[0] - 1, before.shape[1]
    following = edges[:-1].copy()  # the next wanted position of each stratum
    seen = edges[:-1].copy()
    for block in range(n_blocks):
        wanted = False
        for h in range(n_strata):
            k = following[h]
            wanted = wanted or (k < edges[h + 1] and positions[k] < before[block + 1, h])
            seen[h] = before[block, h]
        if wanted:
            for row in range(block * block_rows, min((block + 1) * block_rows, codes.size)):
                h = codes[row]
                k = following[h]
                if k < edges[h + 1] and positions[k] == seen[h]:
                    rows[k] = row
                    following[h] = k + 1
                seen[h] += 1
