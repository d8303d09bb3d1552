"""Features that are products of two of m columns.

Pairs are numbered row by row through the upper triangle: feature ``offsets[i]`` is the first pair of column
i, with column ``i + lead`` (``lead`` is 0 with squares, 1 without).
"""

from __future__ import annotations

from typing import Any

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise, unfused_reduction


@elementwise
def multiply(block: Array, first: Array, second: Array, out: Array) -> None:
    """Fill ``out[k, t] = block[k, first[t]] · block[k, second[t]]``."""
    for k in range(block.shape[0]):
        line, cells = block[k], out[k]
        for t in range(first.size):
            cells[t] = line[first[t]] * line[second[t]]


@unfused_reduction
def moments(
    base: Array,
    first: Array,
    second: Array,
    shift: Array,
    linear: Array,
    v: Array | None,
    presence: Array | None,
    work: Array,
    fourth: Array | None,
    out: Array,
) -> None:
    """Add the lines that :class:`Weights` promises to ``out`` (lines, pairs), with ``z = x·x' - shift``.

    ``base``, ``linear`` and ``presence`` are (columns, rows), and ``work`` is scratch (2, rows). Missing
    cells are left out if there is ``presence``. Numba compiles each combination of what is None separately.
    """
    q, weights, z, present = linear.shape[0], linear[0], work[0], work[1]
    for t in range(first.size):
        a, b, s = base[first[t]], base[second[t]], shift[t]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for k in range(weights.size):
            x = a[k] * b[k] - s
            if presence is not None:
                present[k] = 1.0 if x == x else 0.0
                x = x if x == x else 0.0
            z[k] = x
            weighted = x if v is None else v[k] * x
            s0 += weighted
            s1 += weights[k] * x
            s2 += weighted * x
            if fourth is not None:
                square = x * x
                s3 += square * square
        out[0, t] += s0
        out[1, t] += s1
        out[q + 1, t] += s2
        if fourth is not None:
            fourth[t] += s3
        for j in range(1, q):
            out[j + 1, t] += _product(linear[j], z)
        if presence is not None:
            for j in range(presence.shape[0]):
                out[q + 2 + j, t] += _product(presence[j], present)


@unfused_reduction
def _product(a: Array, b: Array) -> Any:
    """``Σab``."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@elementwise
def add_triangle(product: Array, top: int, offsets: Array, lead: int, out: Array) -> None:
    """Add the upper triangle of products of columns from ``top`` on to the sums of all features."""
    for i in range(product.shape[0]):
        line = product[i, i + lead :]
        sums = out[offsets[top + i] : offsets[top + i + 1]]
        for j in range(line.size):
            sums[j] += line[j]
