"""Features that are products of two of m columns.

Pairs are numbered row by row through the upper triangle: feature ``offsets[i]`` is the first pair of column
i, with column ``i + lead`` (``lead`` is 0 with squares, 1 without).
"""

from __future__ import annotations

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
    base: Array, first: Array, second: Array, shift: Array, w: Array, fourth: Array | None, out: Array
) -> None:
    """Add ``Σz, Σzw, Σz²`` with ``z = x·x' - shift`` to ``out`` (lines, pairs); ``base`` is (columns, rows).

    ``Σz⁴`` is added to ``fourth`` (pairs,) unless it is None; Numba compiles the two cases separately.
    """
    for t in range(first.size):
        a, b, s = base[first[t]], base[second[t]], shift[t]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for k in range(w.size):
            z = a[k] * b[k] - s
            s0 += z
            s1 += z * w[k]
            u = z * z
            s2 += u
            if fourth is not None:
                s3 += u * u
        out[0, t] += s0
        out[1, t] += s1
        out[2, t] += s2
        if fourth is not None:
            fourth[t] += s3


@unfused_reduction
def weighted_moments(
    base: Array,
    first: Array,
    second: Array,
    shift: Array,
    linear: Array,
    v: Array,
    presence: Array,
    work: Array,
    fourth: Array | None,
    out: Array,
) -> None:
    """Add the lines that :class:`Weights` promises; ``linear`` and ``presence`` are (columns, rows).

    If ``presence`` has columns, missing cells are left out of all sums. ``work`` is scratch (2, rows).
    """
    q, z, present = linear.shape[0], work[0], work[1]
    for t in range(first.size):
        a, b, s = base[first[t]], base[second[t]], shift[t]
        for k in range(v.size):
            z[k] = a[k] * b[k] - s
        if presence.shape[0] > 0:
            for k in range(v.size):
                present[k] = 1.0 if z[k] == z[k] else 0.0
                z[k] = z[k] if z[k] == z[k] else 0.0
        s0, s2, s3 = 0.0, 0.0, 0.0
        for k in range(v.size):
            u = z[k] * z[k]
            s0 += v[k] * z[k]
            s2 += v[k] * u
            if fourth is not None:
                s3 += u * u
        out[0, t] += s0
        out[q + 1, t] += s2
        if fourth is not None:
            fourth[t] += s3
        for j in range(q):
            w, total = linear[j], 0.0
            for k in range(v.size):
                total += w[k] * z[k]
            out[j + 1, t] += total
        for j in range(presence.shape[0]):
            w, total = presence[j], 0.0
            for k in range(v.size):
                total += w[k] * present[k]
            out[q + 2 + j, t] += total


@elementwise
def add_triangle(product: Array, top: int, offsets: Array, lead: int, out: Array) -> None:
    """Add the upper triangle to the sums of all features.

    ``product[i, j]`` belongs to the columns ``top + i`` and ``top + j``.
    """
    for i in range(product.shape[0]):
        line = product[i, i + lead :]
        sums = out[offsets[top + i] : offsets[top + i + 1]]
        for j in range(line.size):
            sums[j] += line[j]


@elementwise
def add_picked(product: Array, top: int, first: Array, second: Array, out: Array) -> None:
    """Add the elements of some pairs to their sums."""
    for t in range(first.size):
        out[t] += product[first[t] - top, second[t] - top]
