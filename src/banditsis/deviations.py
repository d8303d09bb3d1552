"""How far values lie from their middle, within bounds, so that no outlier counts for more than others do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banditsis._typing import Array, Floats
from banditsis.sampling import spread

#: In units of the median deviation: about 2.7 standard deviations of normal values.
MOST = 4.0
PILOT = 1 << 16


@dataclass(frozen=True)
class Deviation:
    r"""The bounded deviation :math:`\min(|y - c| / s, 4)` of values from their middle.

    Its mean tells of the spread of y as that of y² does, also where y has no variance at all.

    Examples
    --------
    >>> look = Deviation.of(np.array([1.0, 2.0, 3.0, 4.0, 1e9]))
    >>> look(np.array([3.0, 1.0, 1e12]))
    array([0., 2., 4.])
    """

    centre: float
    scale: float

    @classmethod
    def of(cls, y: Array) -> Deviation:
        """With the median and the median deviation of some values; of those that differ, if most do not."""
        some = np.asarray(y[spread(slice(0, len(y)), PILOT)], dtype=np.float64)
        centre = float(np.median(some))
        apart = np.abs(some - centre)
        scale = float(np.median(apart)) or float(np.median(apart[apart > 0])) if apart.any() else 1.0
        return cls(centre, scale)

    def __call__(self, values: Array) -> Floats:
        with np.errstate(over="ignore"):
            return np.minimum(np.abs(np.asarray(values, dtype=np.float64) - self.centre) / self.scale, MOST)
