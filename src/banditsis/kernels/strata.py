"""Strata of rows: a histogram of their sizes, and the rows at some positions of each stratum."""

from __future__ import annotations

from banditsis.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def count(sizes: Array, keys: Array, first: int, total: Array) -> None:
    """Add the number, the sum and the sum of squares of the sizes with each key to the lines of ``total``.

    The first column of ``total`` is for the key ``first``.
    """
    for i in range(keys.size):
        key, size = keys[i] - first, sizes[i]
        total[0, key] += 1.0
        total[1, key] += size
        total[2, key] += size * size


@elementwise
def encode(keys: Array, strata: Array, block_rows: int, codes: Array, counts: Array) -> None:
    """Fill the stratum of each row, which its key determines, and count the rows of each block and stratum.

    ``counts`` has a line of zeros for each block of ``block_rows`` rows.
    """
    for block in range(counts.shape[0]):
        for row in range(block * block_rows, min((block + 1) * block_rows, keys.size)):
            codes[row] = strata[keys[row]]
            counts[block, codes[row]] += 1


@elementwise
def find(codes: Array, block_rows: int, before: Array, positions: Array, wanted: Array, rows: Array) -> None:
    """Fill the rows at sorted positions of each stratum.

    Those of stratum h are ``positions[wanted[h, 0] : wanted[h, 1]]``. ``before`` has the number of rows of
    each stratum before each block of ``block_rows`` rows, and up to the end; blocks without a wanted row are
    skipped.
    """
    n_blocks, n_strata = before.shape[0] - 1, before.shape[1]
    following = wanted[:, 0].copy()  # the next wanted position of each stratum
    seen = following.copy()
    for block in range(n_blocks):
        found = False
        for h in range(n_strata):
            k = following[h]
            found = found or (k < wanted[h, 1] and positions[k] < before[block + 1, h])
            seen[h] = before[block, h]
        if found:
            for row in range(block * block_rows, min((block + 1) * block_rows, codes.size)):
                h = codes[row]
                k = following[h]
                if k < wanted[h, 1] and positions[k] == seen[h]:
                    rows[k] = row
                    following[h] = k + 1
                seen[h] += 1
