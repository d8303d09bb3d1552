"""The shape of a sample: its moments, whether it is like normal data, and its distribution as atoms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from banditsis import kernels
from banditsis.core.arrays import Array, Floats

#: More distinct values are grouped into bins of equal width, except the smallest and the largest,
MAX_ATOMS, EXTREME_ATOMS = 1024, 128
#: and bins are halved until they lose a smaller share of the variance.
MAX_LOST = 1e-4
#: Sums of powers keep their digits if the square of the mean is not more variances than this,
MAX_OFFSET = 3.0
#: and if that of the fourth powers is not smaller than this.
MIN_FOURTH = 1e-260
#: Skewness and kurtosis are those of a normal sample if they are within as many standard errors of 0.
MAX_ERRORS = 2.5


class Moments(NamedTuple):
    """Moments of a column x, and its product with another column whose mean is 0."""

    mean: float
    #: √Σ(x - mean)²
    spread: float
    skewness: float
    kurtosis: float
    product: float


def find_moments(x: Array, y: Floats) -> Moments | None:
    """Moments of a column, float32 or float64, without a copy of it.

    None if x is constant, or has values that are missing, or too large or small for fourth powers.
    """
    n, sums, shift = len(x), np.empty(5), float(x[0])
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(2):
            kernels.shape.power_sums(x, y, 1.0, shift, sums)
            if not MIN_FOURTH <= sums[3] < math.inf:
                return None
            mean, second, third, fourth, _ = (sums / n).tolist()
            variance = second - mean**2
            if mean**2 <= MAX_OFFSET * variance:
                break
            shift += mean
        else:
            return None
    skewness = (third - mean * (3 * second - 2 * mean**2)) / variance**1.5
    kurtosis = (fourth - mean * (4 * third - mean * (6 * second - 3 * mean**2))) / variance**2 - 3.0
    return Moments(shift + mean, math.sqrt(n * variance), skewness, kurtosis, float(sums[4]))


def skewness_and_kurtosis(sample: Floats) -> tuple[float, float]:
    """Standardised third and fourth cumulant of a sample; 0 for normal data."""
    moments = find_moments(sample, sample)
    return (0.0, 0.0) if moments is None else (moments.skewness, moments.kurtosis)


def is_like_normal(n: int, skewness: Any, kurtosis: Any) -> Any:
    """Whether a normal sample could have this skewness and kurtosis: numbers or arrays."""
    return (abs(skewness) < MAX_ERRORS * math.sqrt(6 / n)) & (abs(kurtosis) < MAX_ERRORS * math.sqrt(24 / n))


def power_sums(values: Floats, n_powers: int) -> Floats:
    """Sums of the first powers of each column, at most four, one line for each power."""
    square = np.square(values) if n_powers > 2 else values
    pairs = [(values, values), (values, square), (square, square)][: n_powers - 1]
    return np.array([values.sum(axis=0), *(np.einsum("ij,ij->j", *pair) for pair in pairs)])


def are_like_normal(n: int, sums: Floats) -> Array:
    """Which columns of n rows could be normal, by the sums of their first four powers."""
    mean, second, third, fourth = sums / n
    variance = second - mean**2
    skewness = third - 3 * mean * second + 2 * mean**3
    kurtosis = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(is_like_normal(n, skewness / variance**1.5, kurtosis / variance**2 - 3.0))


class Atoms(NamedTuple):
    """A sample as distinct values and how often each occurs."""

    values: Floats
    counts: Floats
    #: the distance of which all differences of values are multiples; 0 if there is none
    span: float

    def times(self, factor: float) -> Atoms:
        """All values multiplied by a positive factor."""
        return Atoms(self.values * factor, self.counts, self.span * factor)

    def centred(self) -> Atoms:
        """All values less their mean."""
        mean = self.counts @ self.values / self.counts.sum()
        return Atoms(self.values - mean, self.counts, self.span)


def find_atoms(sample: Array) -> Atoms:
    """Distinct values of a sample; of more than 1,024, neighbours are replaced by their mean.

    Examples
    --------
    >>> import numpy as np
    >>> find_atoms(np.array([3.0, 1.0, 1.5, 1.0]))
    Atoms(values=array([1. , 1.5, 3. ]), counts=array([2., 1., 1.]), span=0.5)
    """
    sample = np.asarray(sample, np.float64)
    counts, keys = np.zeros((2, kernels.shape.N_SLOTS), np.uint64)
    with np.errstate(over="ignore"):
        is_discrete = kernels.shape.count_values(sample.view(np.uint64), MAX_ATOMS, keys, counts)
    if not is_discrete:
        return _group(sample)
    found = np.flatnonzero(counts)
    values, places = np.unique(keys[found].view(np.float64), return_inverse=True)  # 0 and -0 are equal
    sizes = np.bincount(places, counts[found]).astype(np.float64)
    return Atoms(values, sizes, _lattice_span(values))


def _group(sample: Floats) -> Atoms:
    """The smallest and largest values of a sample, and the means of the others in bins of equal width."""
    extremes = np.full((2, EXTREME_ATOMS), np.inf)
    kernels.shape.find_extremes(sample, *extremes)
    lowest, highest = np.sort(extremes[0]), np.sort(-extremes[1])
    low, high, ones = lowest[-1], highest[0], np.ones(EXTREME_ATOMS)
    n_bins = MAX_ATOMS - 2 * EXTREME_ATOMS
    while True:
        counts, sums = np.zeros((2, n_bins))
        n_low, n_high = kernels.shape.bin_values(sample, low, high, counts, sums)
        used = np.flatnonzero(counts)
        values = np.concatenate([lowest, low + sums[used] / counts[used], highest])
        counts = np.concatenate([ones, counts[used], ones])
        counts[EXTREME_ATOMS - 1] += n_low - EXTREME_ATOMS  # others that are equal
        counts[-EXTREME_ATOMS] += n_high - EXTREME_ATOMS
        deviation = values - counts @ values / len(sample)
        lost = np.square((high - low) / n_bins) / 12 * len(sample)
        if lost <= MAX_LOST * (counts @ np.square(deviation)):
            return Atoms(values, counts, 0.0)
        n_bins *= 2


def _lattice_span(values: Floats) -> float:
    """The smallest difference of sorted values if all are multiples of it, else 0."""
    if len(values) < 2:
        return 0.0
    span = float(np.diff(values).min())
    steps = (values - values[0]) / span
    return span if steps[-1] < 1e6 and np.abs(steps - np.round(steps)).max() < 1e-6 else 0.0
