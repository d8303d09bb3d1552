"""The published Tables 1 and 2 [1]_, and tests of agreement with Table 1.

.. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature screening.
   Table 1: n = 1000, p = 2000, 10 active features, 500 replications. Table 2: 100 users, 13,815 movies,
   636,756 features, d = 100.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

REPLICATIONS = 500
N_ROWS = 1000
N_FEATURES = 2000
N_ACTIVE = 10
MODELS = ("M1", "M2", "M3", "M4")
ALPHAS = (1.5, 1.1, 0.8, 0.5)
#: Model sizes d for P: 1, 2 and 3 times floor(n / log n).
SIZES = (144, 288, 432)
#: Probabilities of the quantiles of S.
QUANTILES = (0.05, 0.25, 0.50, 0.75, 0.95)
#: Standard normal quantile of a two-sided 99% interval.
Z99 = 2.5758293035489004
#: Tolerance for a proportion of 500 runs compared with the median of 500 other runs.
MEDIAN_TOLERANCE = 0.11


def method_name(alpha: float | None) -> str:
    """Name of a method in the paper; ``alpha`` is None for SIS."""
    return "SIS" if alpha is None else f"BanditSIS (α={alpha})"


class Table1Line(NamedTuple):
    """A line of Table 1."""

    model: str
    alpha: float | None
    #: Quantiles of S, the smallest model size that contains all active features, at ``QUANTILES``.
    quantiles: tuple[float, ...]
    #: P, the percentage of data sets in which all active features are selected, at ``SIZES``.
    percentages: tuple[float, ...]


TABLE1 = (
    Table1Line("M1", None, (10, 10, 10, 10, 10), (100, 100, 100)),
    Table1Line("M1", 1.5, (10, 10, 10, 10, 894), (89.8, 94, 95.2)),
    Table1Line("M1", 1.1, (10, 10, 10, 10, 188.3), (97.2, 97.8, 98.6)),
    Table1Line("M1", 0.8, (10, 10, 10, 10, 10), (99.8, 99.8, 99.8)),
    Table1Line("M1", 0.5, (10, 10, 10, 10, 10), (100, 100, 100)),
    Table1Line("M2", None, (10, 10, 10, 11, 471.3), (92.2, 93.4, 94.6)),
    Table1Line("M2", 1.5, (10, 10, 61, 1336, 2000), (60, 65.6, 69.6)),
    Table1Line("M2", 1.1, (10, 10, 10, 599, 2000), (71.4, 75, 76.8)),
    Table1Line("M2", 0.8, (10, 10, 10, 87, 2000), (78.2, 80, 82.8)),
    Table1Line("M2", 0.5, (10, 10, 10, 11, 2000), (85, 86.8, 87.8)),
    Table1Line("M3", None, (10, 10, 10, 10, 10), (99.8, 100, 100)),
    Table1Line("M3", 1.5, (10, 10, 271, 894, 2000), (57.6, 68.2, 74.4)),
    Table1Line("M3", 1.1, (10, 10, 10, 402, 2000), (77, 82.8, 85.4)),
    Table1Line("M3", 0.8, (10, 10, 10, 10, 1336), (90.6, 92.4, 93.4)),
    Table1Line("M3", 0.5, (10, 10, 10, 10, 10), (98.4, 98.4, 98.8)),
    Table1Line("M4", None, (10, 10, 10, 10, 10), (100, 100, 100)),
    Table1Line("M4", 1.5, (10, 10, 184, 451.3, 1336), (66.6, 80.4, 86.2)),
    Table1Line("M4", 1.1, (10, 10, 10, 126, 916.1), (84.6, 90.8, 93.6)),
    Table1Line("M4", 0.8, (10, 10, 10, 10, 402), (96.8, 97.8, 98.8)),
    Table1Line("M4", 0.5, (10, 10, 10, 10, 10), (99.6, 100, 100)),
)


class Table2Line(NamedTuple):
    """A line of Table 2. Pairs are means and standard deviations over users, on the test set."""

    alpha: float | None
    r2: tuple[float, float]
    mae: tuple[float, float]
    #: Screening time for all users.
    seconds: float

    @property
    def key(self) -> str:
        """Name of the method in files."""
        return "SIS" if self.alpha is None else f"BanditSIS_{self.alpha}"


N_USERS = 100
TABLE2 = (
    Table2Line(None, (0.5727, 0.1782), (0.3400, 0.1330), 11718.9),
    Table2Line(1.5, (0.5706, 0.1806), (0.3407, 0.1335), 227.2),
    Table2Line(1.1, (0.5702, 0.1813), (0.3406, 0.1338), 272.9),
    Table2Line(0.5, (0.5717, 0.1807), (0.3402, 0.1337), 637.2),
)


def difference_interval(x1: float, n1: int, x2: float, n2: int, z: float = Z99) -> tuple[float, float]:
    """Agresti and Caffo's confidence interval for a difference of two proportions [1]_.

    .. [1] Am. Stat. 54 (2000) 280-288.

    Unlike the Wald interval, it has positive width if a proportion is 0 or 1.

    >>> low, high = difference_interval(500, 500, 496, 500)
    >>> round(low, 3), round(high, 3)
    (-0.005, 0.02)
    """
    p1, p2 = (x1 + 1) / (n1 + 2), (x2 + 1) / (n2 + 2)
    half = z * math.sqrt(p1 * (1 - p1) / (n1 + 2) + p2 * (1 - p2) / (n2 + 2))
    return p1 - p2 - half, p1 - p2 + half


def percentage_agrees(ours: float, n: int, published: float) -> bool:
    """Whether a percentage of n runs differs from the published one by no more than chance explains (99%)."""
    successes = round(published / 100 * REPLICATIONS)
    low, high = difference_interval(round(ours / 100 * n), n, successes, REPLICATIONS)
    return low <= 0 <= high


def median_agrees(sizes: Sequence[int], published: float) -> bool:
    """Whether our proportions of S < and S ≤ the published median bracket one half, within the tolerance.

    S takes few values, so its sample median jumps between them. Proportions are stable.

    >>> median_agrees([10, 10, 61, 87], 61), median_agrees([10, 10, 10, 61], 87)
    (True, False)
    """
    below = sum(size < published for size in sizes) / len(sizes)
    up_to = sum(size <= published for size in sizes) / len(sizes)
    return below <= 0.5 + MEDIAN_TOLERANCE and up_to >= 0.5 - MEDIAN_TOLERANCE
