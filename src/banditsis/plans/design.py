"""Sampling designs: how many rows of each stratum a sample has, and how precise it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices

#: Share of the rows that is spread over strata by their size alone, so no row has a large weight.
PROPORTIONAL = 0.15
#: Largest distance from the mean, in standard deviations, that counts as ordinary for the response.
ORDINARY = 6.0


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
    sizes, spreads : sequences
        Rows in each stratum, and :math:`a_h` of each, in any unit.
    largest : sequence of float, optional
        The largest :math:`|y - \bar y|` in each stratum, in the same unit; by default the spreads.
    guaranteed : bool
        Whether more rows are allocated to strata of outliers, for a guarantee. If strata h of outliers have
        the shares :math:`e_h` of :math:`\sum (y - \bar y)^2`, they get the shares
        :math:`e_h / \sqrt{\sum e}` of the rows or more, which minimises :meth:`unread_variance` for the
        rows that it costs.

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
    largest: tuple[float, ...] = ()
    guaranteed: bool = False

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
    def _distances(self) -> tuple[Floats, Floats]:
        """The spread and the largest distance from the mean in each stratum, in standard deviations."""
        spreads, unit = np.array(self.spreads), max(self.spreads) or 1.0
        unit *= float(np.sqrt(self.shares_of_rows @ np.square(spreads / unit)) or 1.0)
        return spreads / unit, np.array(self.largest or self.spreads) / unit

    @property
    def relative_spreads(self) -> Floats:
        """Spreads in units of the root mean square over all rows."""
        return self._distances[0]

    @property
    def has_outliers(self) -> Array:
        """Which strata have rows that are not ordinary."""
        return self._distances[1] > ORDINARY

    @cached_property
    def shares_of_rows(self) -> Floats:
        """The share of all rows that each stratum has."""
        return np.asarray(self._sizes / self._sizes.sum())

    @cached_property
    def _sizes(self) -> Indices:
        return np.array(self.sizes, np.intp)

    @cached_property
    def _order(self) -> tuple[Floats, Indices, Floats, Floats]:
        """The shares in proportion to which rows of each stratum are allocated until it has no more. In the
        order in which strata are used up: rows used before, open shares, and m at which it is.
        """
        sizes, by_spread = self._sizes, self._sizes * self.relative_spreads
        by_spread = (1 - PROPORTIONAL) * by_spread / (by_spread.sum() or 1.0)
        shares = PROPORTIONAL * self.shares_of_rows + by_spread
        if self.guaranteed:
            of_squares = self.shares_of_rows * np.square(self.relative_spreads) * self.has_outliers
            shares = np.maximum(shares, of_squares / (np.sqrt(of_squares.sum()) or 1.0))
        order = np.argsort(sizes / shares)
        used = np.cumsum([0, *sizes[order[:-1]]])
        open_shares = np.cumsum(shares[order][::-1])[::-1]
        return shares, used, open_shares, used + open_shares * (sizes / shares)[order]

    def allocate(self, m: int) -> Indices:
        """Rows of each stratum in a sample of m rows; none of them decreases if m grows.

        Row j of a stratum enters the sample when j - 1/2, divided by the share of the rows that is allocated
        to the stratum, is the smallest of all that are left; but the first row of every stratum enters before
        any second one.
        """
        return _allocate(self, m)

    def effective_rows(self, m: int) -> float:
        """Rows of a uniform sample that would be as precise as m rows of this design, at most n."""
        if self.n_strata == 1:
            return float(m)
        return 1.0 / (float(self.variances(m) @ self.relative_spreads**2) + 1.0 / self.n_rows)

    def variances(self, m: int) -> Floats:
        r"""The factors :math:`W_h^2 (1 / n_h - 1 / N_h)` of m rows, at least 1/2 row of each stratum."""
        sizes, rows = self._sizes, np.maximum(self.allocate(m), 0.5)
        return np.asarray(np.square(self.shares_of_rows) * (1.0 / rows - 1.0 / sizes))

    def scale_rows(self, m: int) -> float:
        """Rows of a uniform sample that would tell the standard deviation of a feature as precisely."""
        return float(m) if self.n_strata == 1 else 1.0 / (float(self.variances(m).sum()) + 1.0 / self.n_rows)

    def unread_variance(self, m: int) -> float:
        r"""What outliers of y that are not among m rows may add to the variance of a correlation, at most.

        By the inequality of Cauchy and Schwarz, rows S can add :math:`c = \sqrt{\sum_S u^2}` to it, where
        :math:`u^2` is the share of a row in :math:`\sum (y - \bar y)^2`. A sample that has the share
        :math:`f_h` of the rows of stratum h has none of S with probability

        .. math:: \prod_S (1 - f_h) \le e^{-c^2 / 2 V}, \quad V = \max_h \frac{u_h^2}{-2 \log(1 - f_h)}

        at most, with :math:`u_h` of the largest row. So c is as unlikely as a normal error of variance V. If
        a row of S was read, few rows of the feature are informative, and it is undecided.
        """
        far = self.has_outliers
        with np.errstate(divide="ignore"):
            exponents = -2.0 * np.log1p(-(self.allocate(m) / self._sizes)[far])
            return float(np.max(np.square(self._distances[1][far]) / self.n_rows / exponents, initial=0.0))


@lru_cache(maxsize=4096)  # a plan asks for the same few numbers of rows again and again
def _allocate(design: SamplingDesign, m: int) -> Indices:
    sizes, n_strata = design._sizes, design.n_strata
    shares, used, open_shares, full = design._order
    if m <= n_strata:
        first = np.zeros(n_strata, np.intp)
        first[np.argsort(-shares, kind="stable")[:m]] = 1
        return first
    k = min(int(np.searchsorted(full, m)), n_strata - 1)  # strata that are used up
    fill = (m - used[k]) / open_shares[k]
    rows: Indices = np.minimum(np.maximum((fill * shares + 0.5).astype(np.intp), 1), sizes)
    while (missing := m - int(rows.sum())) > 0:  # at most one row for each stratum, because of rounding
        rows[np.argmin(np.where(rows < sizes, (rows + 0.5) / shares, np.inf))] += 1
    for _ in range(-missing):
        latest = np.where(rows > 1, (rows - 0.5) / shares, -np.inf)
        rows[n_strata - 1 - np.argmax(latest[::-1])] -= 1
    return rows
