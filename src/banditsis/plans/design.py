"""Sampling designs: how many rows of each stratum a sample has, and how precise it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from banditsis.arrays import Floats, Indices

#: Share of the rows that is spread over strata by their size alone, so no row has a large weight.
PROPORTIONAL = 0.15


@dataclass(frozen=True)
class SamplingDesign:
    r"""Strata of rows, and how many rows each of them contributes to a sample.

    Let :math:`N_h` be the size of stratum h, :math:`W_h = N_h / n`, and :math:`a_h` the root mean square of
    :math:`|y - \bar y| / σ_y` in it. The correlation of a feature without association with y, estimated from
    :math:`n_h` random rows of each stratum, varies around that over all rows with the variance

    .. math:: V = \sum_h W_h^2 a_h^2 \left(\frac{1}{n_h} - \frac{1}{N_h}\right)

    which is smallest if :math:`n_h ∝ N_h a_h` [1]_. 85% of the rows are allocated so, and 15% in proportion
    to :math:`N_h`, which costs little and bounds the weight of every row.

    Parameters
    ----------
    sizes : sequence of int
        Rows in each stratum.
    spreads : sequence of float
        :math:`a_h` of each stratum, in any unit.

    References
    ----------
    .. [1] Neyman, J. (1934). On the two different aspects of the representative method. J. R. Stat. Soc. 97,
       558-625.

    Examples
    --------
    A class with 2,000 of 10^6 rows; the distance of y from its mean is 0.998 in it and 0.002 outside:

    >>> design = SamplingDesign((998_000, 2000), (0.002, 0.998))
    >>> design.allocate(1000).tolist()
    [575, 425]
    >>> round(design.effective_rows(1000))
    122432
    """

    sizes: tuple[int, ...]
    spreads: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (len(self.sizes) == len(self.spreads) > 0 and min(self.sizes) > 0 and min(self.spreads) >= 0):
            raise ValueError(
                "a sampling design needs a size of at least 1 and a spread of at least 0 for each stratum, "
                f"got sizes {self.sizes} and spreads {self.spreads}."
            )

    @classmethod
    def uniform(cls, n: int) -> SamplingDesign:
        """One stratum: rows are drawn uniformly."""
        return cls((n,), (1.0,))

    @property
    def n_rows(self) -> int:
        """Rows of all strata."""
        return sum(self.sizes)

    @property
    def n_strata(self) -> int:
        """Number of strata."""
        return len(self.sizes)

    @cached_property
    def relative_spreads(self) -> Floats:
        """Spreads in units of the root mean square over all rows."""
        spreads, sizes = np.array(self.spreads) / (max(self.spreads) or 1.0), self._sizes
        mean_square = float(np.sum(sizes * np.square(spreads)) / sizes.sum())
        return np.asarray(spreads / np.sqrt(mean_square or 1.0))

    @cached_property
    def shares_of_rows(self) -> Floats:
        """The share of all rows that each stratum has."""
        return np.asarray(self._sizes / self._sizes.sum())

    @cached_property
    def _shares(self) -> Floats:
        """Rows of each stratum are allocated in proportion to these, until it has no more."""
        sizes = self._sizes
        by_spread = sizes * self.relative_spreads
        return np.asarray(
            PROPORTIONAL * self.shares_of_rows + (1 - PROPORTIONAL) * by_spread / (by_spread.sum() or 1.0)
        )

    def allocate(self, m: int) -> Indices:
        """Rows of each stratum in a sample of m rows; none of them decreases if m grows.

        Row j of a stratum enters the sample when j - 1/2, divided by the share of the rows that is allocated
        to the stratum, is the smallest of all that are left; but the first row of every stratum enters before
        any second one.
        """
        if m not in self._allocations:
            self._allocations[m] = self._allocate(m)
        return self._allocations[m]

    @cached_property
    def _allocations(self) -> dict[int, Indices]:
        return {}

    def _allocate(self, m: int) -> Indices:
        sizes, shares = self._sizes, self._shares
        if m <= self.n_strata:
            first = np.zeros(self.n_strata, np.intp)
            first[np.argsort(-shares, kind="stable")[:m]] = 1
            return first
        used, open_shares, full = self._order
        k = min(int(np.searchsorted(full, m)), self.n_strata - 1)  # strata that are used up
        fill = (m - used[k]) / open_shares[k]
        rows: Indices = np.minimum(np.maximum((fill * shares + 0.5).astype(np.intp), 1), sizes)
        while (missing := m - int(rows.sum())) > 0:  # at most one row for each stratum, because of rounding
            rows[np.argmin(np.where(rows < sizes, (rows + 0.5) / shares, np.inf))] += 1
        for _ in range(-missing):
            latest = np.where(rows > 1, (rows - 0.5) / shares, -np.inf)
            rows[self.n_strata - 1 - np.argmax(latest[::-1])] -= 1
        return rows

    @cached_property
    def _sizes(self) -> Indices:
        return np.array(self.sizes, np.intp)

    @cached_property
    def _order(self) -> tuple[Indices, Floats, Floats]:
        """In the order in which strata are used up: rows used before, open shares, and m at which it is."""
        sizes, shares = self._sizes, self._shares
        order = np.argsort(sizes / shares)
        used = np.cumsum([0, *sizes[order[:-1]]])
        open_shares = np.cumsum(shares[order][::-1])[::-1]
        return used, open_shares, used + open_shares * (sizes / shares)[order]

    def effective_rows(self, m: int) -> float:
        """Rows of a uniform sample that would be as precise as m rows of this design, at most n."""
        if self.n_strata == 1:
            return float(m)
        return 1.0 / (float(self.variances(m) @ self.relative_spreads**2) + 1.0 / self.n_rows)

    def variances(self, m: int) -> Floats:
        r"""The factors :math:`W_h^2 (1 / n_h - 1 / N_h)` of m rows, at least 1/2 row of each stratum."""
        sizes, rows = self._sizes, np.maximum(self.allocate(m), 0.5)
        return np.asarray(np.square(self.shares_of_rows) * (1.0 / rows - 1.0 / sizes))

    def rows_for(self, effective_rows: float) -> int:
        """The smallest number of rows that are as precise as this many rows of a uniform sample."""
        low, high = 1, self.n_rows
        while low < high:
            middle = (low + high) // 2
            if self.effective_rows(middle) >= effective_rows:
                high = middle
            else:
                low = middle + 1
        return low
