"""Tails of null distributions."""

from __future__ import annotations

from numba import njit

from banditsis.core.arrays import Floats
from banditsis.kernels import student
from banditsis.kernels.compile import elementwise

_scaled_tail = njit(inline="always")(student.scaled_tail)


@elementwise
def scaled_t_tail(a: Floats, share: Floats, tail: Floats, exponent: Floats) -> None:
    """Fill what :func:`banditsis.kernels.student.scaled_tail` returns."""
    for i in range(tail.size):
        tail[i], exponent[i] = _scaled_tail(a[i], share[i])
