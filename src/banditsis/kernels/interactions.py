"""Features that are products of two columns."""

from __future__ import annotations

from banditsis.core.arrays import Array
from banditsis.kernels.compile import elementwise


@elementwise
def multiply(base: Array, first: Array, second: Array, out: Array) -> None:
    """Fill ``out[t, k] = base[first[t], k] · base[second[t], k]``."""
    for t in range(first.size):
        a, b, line = base[first[t]], base[second[t]], out[t]
        for k in range(line.size):
            line[k] = a[k] * b[k]
