"""The shape of a sample: its moments, whether it is like normal data, and its distribution as atoms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from banditsis.core.arrays import Array, Floats

#: More distinct values are grouped into bins of equal width, except the smallest and the largest,
MAX_ATOMS, EXTREME_ATOMS = 1024, 128
#: and bins are halved until they lose a smaller share of the variance.
MAX_LOST = 1e-4
#: Skewness and kurtosis are those of a normal sample if they are within as many standard errors of 0.
MAX_ERRORS = 2.5


def is_like_normal(n: int, skewness: Any, kurtosis: Any) -> Any:
    """Whether a normal sample could have this skewness and kurtosis: numbers or arrays."""
    return (abs(skewness) < MAX_ERRORS * math.sqrt(6 / n)) & (abs(kurtosis) < MAX_ERRORS * math.sqrt(24 / n))


def are_like_normal(n: int, sums: Floats) -> Array:
    """Which columns of n values could be normal, given the sums of their first to fourth powers."""
    mean, second, third, fourth = sums / n
    fourth = fourth - mean * (4 * third - mean * (6 * second - 3 * mean * mean))
    third = third - mean * (3 * second - 2 * mean * mean)
    second = second - mean * mean
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(is_like_normal(n, third / second**1.5, fourth / second**2 - 3.0))


class Atoms(NamedTuple):
    """A sample as sorted values and how often each occurs."""

    values: Floats
    counts: Floats
    #: the distance of which all differences of values are multiples; 0 if there is none
    span: float


def find_atoms(sample: Floats) -> Atoms:
    """Distinct values of a sample; of more than 1,024, neighbours are replaced by their mean.

    Examples
    --------
    >>> import numpy as np
    >>> find_atoms(np.array([3.0, 1.0, 1.5, 1.0]))
    Atoms(values=array([1. , 1.5, 3. ]), counts=array([2., 1., 1.]), span=0.5)
    """
    ordered = np.sort(sample)
    starts = np.flatnonzero(np.diff(ordered, prepend=np.nan) != 0)
    if len(starts) > MAX_ATOMS:
        return _group(ordered)
    values = ordered[starts]
    return Atoms(values, np.diff(starts, append=len(ordered)) * 1.0, _lattice_span(values))


def _group(ordered: Floats) -> Atoms:
    """The smallest and largest values of a sorted sample, and means of the others in bins of equal width."""
    inner = ordered[EXTREME_ATOMS:-EXTREME_ATOMS]
    position = (inner - inner[0]) / (inner[-1] - inner[0])
    variance, n_bins = np.var(ordered), MAX_ATOMS - 2 * EXTREME_ATOMS
    while ((inner[-1] - inner[0]) / n_bins) ** 2 / 12 > MAX_LOST * variance:
        n_bins *= 2
    starts = np.flatnonzero(np.diff(np.floor(position * n_bins), prepend=-1.0))
    counts = np.diff(starts, append=len(inner)) * 1.0
    means = np.add.reduceat(inner, starts) / counts
    values = np.concatenate([ordered[:EXTREME_ATOMS], means, ordered[-EXTREME_ATOMS:]])
    ones = np.ones(EXTREME_ATOMS)
    return Atoms(values, np.concatenate([ones, counts, ones]), 0.0)


def _lattice_span(values: Floats) -> float:
    """The smallest difference of sorted values if all are multiples of it, else 0."""
    if len(values) < 2:
        return 0.0
    span = float(np.diff(values).min())
    steps = (values - values[0]) / span
    return span if steps[-1] < 1e6 and np.abs(steps - np.round(steps)).max() < 1e-6 else 0.0
